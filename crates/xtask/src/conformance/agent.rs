//! An agent that uses real tool servers of others: it calls each of them in one run, as a model would.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::packages::Node;
use crate::build;
use crate::process::{command, read};

/// The agent: its steps call the servers one after the other, and its answer shows what each of them said.
const AGENT: &str = r#"name = "visitor"
version = "1.0.0"
description = "Visits tool servers of others."
instructions = "You visit every tool server."
prompt = "{{request.text}}"

[model]
use = "default"

[tools]
allow = [
  "everything.echo", "filesystem.write_file", "filesystem.read_text_file", "graph.create_entities",
  "graph.read_graph", "python.add", "web.add",
]
"#;

/// What the model of the agent says: it calls everything, then repeats what it heard.
const SCRIPT: &str = r#"[[replies]]
text = "Let me visit them."
calls = [
  { name = "everything.echo", arguments = { message = "hello" } },
  { name = "filesystem.write_file", arguments = { path = "note.txt", content = "written by an agent" } },
  { name = "graph.create_entities", arguments = { entities = [{ name = "Ada", entityType = "person", observations = ["counts"] }] } },
  { name = "python.add", arguments = { a = 2, b = 3 } },
  { name = "web.add", arguments = { a = 20, b = 30 } },
]

[[replies]]
text = "Let me look at what became of it."
calls = [
  { name = "filesystem.read_text_file", arguments = { path = "note.txt" } },
  { name = "graph.read_graph", arguments = {} },
]

[[replies]]
text = """
everything: {{results['everything.echo']}}
filesystem: {{results['filesystem.read_text_file']}}
graph: {{results['graph.read_graph']}}
python: {{results['python.add']}}
web: {{results['web.add']}}"""
"#;

/// What the answer must hold, each from another server.
const EXPECTED: [&str; 5] = ["Echo: hello", "written by an agent", "Ada", "5", "50"];

/// Lets the agent visit the reference servers of `modules`, and the Python server over both ways.
pub(super) fn run(folder: &Path, node: &Node, python: &Path, address: &str) -> anyhow::Result<()> {
    let dalsegno = build::dalsegno()?;
    let home = folder.join("agent");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot clear `{}`", home.display()))?;
    }
    let write = |name: &str, text: &str| {
        let path = home.join(name);
        let parent = path.parent().unwrap_or(&home);
        fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    };
    write("agents/visitor.toml", AGENT)?;
    write("script.toml", SCRIPT)?;
    write("data/empty.txt", "")?;
    write("dalsegno.toml", &settings(folder, &home, node, python, address))?;
    let answer =
        read(command(dalsegno).args(["run", "visitor", "Visit them all.", "--trust"]).current_dir(&home))?;
    for expected in EXPECTED {
        ensure!(answer.contains(expected), "the agent's answer does not hold `{expected}`: {answer}");
    }
    println!("{answer}");
    Ok(())
}

fn settings(folder: &Path, home: &Path, node: &Node, python: &Path, address: &str) -> String {
    let script = |server: &str| folder.join("node_modules/.bin").join(server).display().to_string();
    let (node_program, path) = (node.program.display(), node.path());
    let path = path.to_string_lossy();
    let server_py = crate::process::root().join("crates/dalsegno-mcp/tests/conformance/server.py");
    format!(
        r#"[models.default]
provider = "script"
file = "script.toml"

[servers.everything]
command = ['{node_program}', '{}']
env = {{ PATH = '{path}' }}

[servers.filesystem]
command = ['{node_program}', '{}', '.']
cwd = "data"
env = {{ PATH = '{path}' }}

[servers.graph]
command = ['{node_program}', '{}']
env = {{ PATH = '{path}', MEMORY_FILE_PATH = '{}' }}

[servers.python]
command = ["python3", '{}']
env = {{ PYTHONPATH = '{}' }}

[servers.web]
url = "{address}"
"#,
        script("mcp-server-everything"),
        script("mcp-server-filesystem"),
        script("mcp-server-memory"),
        home.join("graph.jsonl").display(),
        server_py.display(),
        python.display(),
    )
}
