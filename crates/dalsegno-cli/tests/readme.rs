//! What README.md shows is what the command prints.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A copy of the repository's own workspace, so that a test leaves no runs behind.
fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        "dalsegno.toml",
        "agents/triage.toml",
        "agents/responder.toml",
        "agents/report.toml",
        "agents/incidents.jsonl",
        "tests/scripts/responder.toml",
        "tool-servers/target/wasm32-wasip2/release/risk.wasm",
    ];
    for file in files {
        let from = repository().join(file);
        assert!(
            from.is_file(),
            "{} is not there: build the guests first: cargo xtask guests",
            from.display()
        );
        let to = dir.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
    dir
}

/// What `dalsegno` prints: standard output, then standard error.
fn dalsegno(workspace: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dalsegno"));
    let output = command.args(arguments).current_dir(workspace).env("NO_COLOR", "1").output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// The text block of the README that begins with this line, without it when it is a prompt.
fn block(first: &str) -> String {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let begin =
        readme.find(&format!("```text\n{first}")).unwrap_or_else(|| panic!("no block begins with `{first}`"));
    let body = &readme[begin + "```text\n".len()..];
    let body = &body[..body.find("```").unwrap()];
    body.lines().filter(|line| !line.starts_with("$ ")).map(|line| format!("{line}\n")).collect()
}

/// The input in the README's command that begins like this.
fn input(command: &str) -> String {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let begin = readme.find(command).unwrap_or_else(|| panic!("the README has no `{command}`"));
    readme[begin + command.len()..].split('"').next().unwrap().to_owned()
}

/// Takes out what differs from run to run: times and ids.
fn settled(text: &str) -> String {
    let words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
    let settle = |(index, word): (usize, &&str)| {
        let bare = word.trim_end();
        let end = &word[bare.len()..];
        let is_id = matches!(bare.len(), 12 | 16) && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_seconds =
            bare.parse::<f64>().is_ok() && words.get(index + 1).is_some_and(|next| *next == "s ");
        if is_id {
            format!("ID{end}")
        } else if is_seconds {
            format!("TIME{end}")
        } else {
            (*word).to_owned()
        }
    };
    words.iter().enumerate().map(settle).collect()
}

#[test]
fn the_first_command_prints_what_the_readme_shows() {
    let workspace = workspace();
    let text = input("```sh\ncargo xtask run triage \"");
    assert_eq!(settled(&dalsegno(workspace.path(), &["run", "triage", &text])), settled(&block("Risk ")));
}

#[test]
fn the_question_is_what_the_readme_shows() {
    let workspace = workspace();
    let text = input("$ cargo xtask run triage \"");
    assert_eq!(
        settled(&dalsegno(workspace.path(), &["run", "triage", &text])),
        settled(&block("$ cargo xtask run"))
    );
}

#[test]
fn a_run_that_was_killed_resumes_as_the_readme_shows() {
    let workspace = workspace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dalsegno"));
    let command = command.args(["run", "report", "checkout is down"]).current_dir(workspace.path());
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It waits once the tool has returned, and its timer has begun.
    while !dalsegno(workspace.path(), &["show", "last"]).contains("timer") {
        assert_eq!(run.try_wait().unwrap(), None, "it waits for seconds");
        thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let shown = block("$ timeout").replace("Killed\n", "");
    let resumed = dalsegno(workspace.path(), &["resume", "last"]);
    let replayed = dalsegno(workspace.path(), &["replay", "last"]);
    assert_eq!(settled(&(resumed + &replayed)), settled(&shown));
    let file = fs::read_to_string(workspace.path().join(".dalsegno/incidents/escalations.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 1, "the tool is called once");
}

#[test]
fn the_agent_in_the_readme_runs() {
    let workspace = workspace();
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let agent = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(workspace.path().join("agents/triage.toml"), agent).unwrap();
    let printed = dalsegno(workspace.path(), &["run", "triage", "one typo on the staging page"]);
    assert!(printed.starts_with("Risk 0."), "{printed}");
    assert!(printed.contains("completed"), "{printed}");
}
