//! One trial of a task: a workspace, processes that are killed, and the judgement.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use dalsegno_core::OperationId;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::host::{ORDERS, Orders, Said, Word};
use crate::server::Server;
use crate::store::Boundary;

/// The last commit of a process before which or after which it may be killed.
const LAST_COMMIT: u32 = 14;

/// The latest random instant at which a process is killed, in milliseconds after its start.
const LATEST_MS: u64 = 400;

/// A trial that needs more processes makes no progress.
const PROCESSES_MAX: u32 = 5_000;

/// A task of the benchmark.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Task {
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<String>,
}

/// What the user says, and the calls that the benchmark expects.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Turn {
    text: String,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Deserialize)]
struct Call {
    name: String,
    arguments: Value,
}

/// How a trial is made hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Processes are killed.
    pub(crate) kills: bool,
    /// The tools know a call by its operation, and perform it once; else they are `unsafe`.
    pub(crate) keyed: bool,
    /// The server misbehaves.
    pub(crate) faults: bool,
}

/// What came of trials.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) trials: u64,
    /// Trials whose end state was the benchmark's own.
    pub(crate) equal: u64,
    /// Kills before a commit, after a commit, at a random instant.
    pub(crate) killed: [u64; 3],
    pub(crate) processes: u64,
    pub(crate) calls: u64,
    /// Operations that took place more than once.
    pub(crate) repeated: u64,
    /// Calls that the receiver knew already by their key.
    pub(crate) deduplicated: u64,
    /// Doubts a person was asked about that had taken place, and that had not.
    pub(crate) doubts: [u64; 2],
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.trials += other.trials;
        self.equal += other.equal;
        self.processes += other.processes;
        self.calls += other.calls;
        self.repeated += other.repeated;
        self.deduplicated += other.deduplicated;
        for (sum, more) in self.killed.iter_mut().zip(other.killed) {
            *sum += more;
        }
        for (sum, more) in self.doubts.iter_mut().zip(other.doubts) {
            *sum += more;
        }
        self.wrong.extend(other.wrong);
    }

    pub(crate) fn kills(&self) -> u64 {
        self.killed.iter().sum()
    }
}

/// How the server judges a trial.
#[derive(Debug, Deserialize)]
struct Judgement {
    equal: bool,
    difference: String,
    performed: u64,
    repeated: Vec<String>,
    deduplicated: u64,
}

/// Where a process is to be killed.
enum Death {
    Never,
    At(Boundary),
    After(Duration),
}

/// Runs one trial to its end.
///
/// # Errors
/// The server or a process could not do its work. What the engine did wrong is in the tally.
pub(crate) fn run(
    server: &Server,
    id: &str,
    task: &Task,
    setting: Setting,
    seed: u64,
) -> anyhow::Result<Tally> {
    let mut rng = Rng::with_seed(seed);
    let trial = format!("{seed:016x}");
    let Setting { keyed, faults, .. } = setting;
    let begin =
        json!({ "do": "begin", "trial": trial, "task": id, "keyed": keyed, "faults": faults, "seed": seed });
    server.ask(&begin)?;
    let folder = tempfile::tempdir()?;
    write(folder.path(), server.port, &trial, task, setting)?;

    let mut tally = Tally { trials: 1, ..Tally::default() };
    let mut answers = Vec::new();
    let failed = loop {
        if tally.processes >= u64::from(PROCESSES_MAX) {
            break vec![format!("no end after {PROCESSES_MAX} processes")];
        }
        tally.processes += 1;
        let death = draw(&mut rng, setting);
        let orders = Orders {
            workspace: folder.path().to_owned(),
            turns: task.turns.iter().map(|turn| turn.text.clone()).collect(),
            answers: std::mem::take(&mut answers),
            death: match death {
                Death::At(boundary) => Some(boundary),
                Death::Never | Death::After(_) => None,
            },
        };
        match perform(&orders, &death)? {
            None => {
                let place = match death {
                    Death::At(boundary) => usize::from(boundary.is_after),
                    Death::Never | Death::After(_) => 2,
                };
                tally.killed[place] += 1;
            }
            Some(Said::Ended { failed }) => break failed,
            Some(Said::InDoubt(operations)) => {
                answers = truth(server, &trial, &operations)?;
                for word in &answers {
                    tally.doubts[usize::from(word.result.is_none())] += 1;
                }
            }
        }
    };
    let judged: Judgement = serde_json::from_value(server.ask(&json!({ "do": "end", "trial": trial }))?)?;
    tally.calls = judged.performed;
    tally.repeated = judged.repeated.len() as u64;
    tally.deduplicated = judged.deduplicated;
    tally.equal = u64::from(judged.equal);
    let name = format!("{id}, seed {seed}, {setting:?}");
    if !judged.equal {
        tally.wrong.push(format!("{name}: {}", judged.difference));
    }
    tally
        .wrong
        .extend(judged.repeated.iter().map(|operation| format!("{name}: {operation} took place twice")));
    tally.wrong.extend(failed.iter().map(|failure| format!("{name}: {failure}")));
    Ok(tally)
}

/// What the server's book says of operations in doubt: a person looks there.
fn truth(server: &Server, trial: &str, operations: &[OperationId]) -> anyhow::Result<Vec<Word>> {
    let words = operations.iter().map(|operation| {
        let asked = json!({ "do": "performed", "trial": trial, "operation": operation.to_string() });
        let result = server.ask(&asked)?;
        Ok(Word { operation: *operation, result: (!result.is_null()).then_some(result) })
    });
    words.collect()
}

fn draw(rng: &mut Rng, setting: Setting) -> Death {
    if !setting.kills {
        return Death::Never;
    }
    match rng.u32(0..4) {
        0 => Death::After(Duration::from_millis(rng.u64(0..LATEST_MS))),
        _ => Death::At(Boundary { commit: rng.u32(0..=LAST_COMMIT), is_after: rng.bool() }),
    }
}

/// Starts a host, and returns what it said; nothing if it was killed.
fn perform(orders: &Orders, death: &Death) -> anyhow::Result<Option<Said>> {
    let mut host = Command::new(std::env::current_exe()?)
        .env(ORDERS, serde_json::to_string(orders)?)
        .env("DALSEGNO_LOG", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("a host cannot be started")?;
    if let Death::After(instant) = death {
        std::thread::sleep(*instant);
        // It has ended by itself where this fails.
        let _ = host.kill();
    }
    let (mut said, mut trouble) = (String::new(), String::new());
    host.stdout.take().context("a host has no output")?.read_to_string(&mut said)?;
    host.stderr.take().context("a host has no errors")?.read_to_string(&mut trouble)?;
    let status = host.wait()?;
    if status.success() {
        return Ok(Some(serde_json::from_str(&said).with_context(|| format!("a host said `{said}`"))?));
    }
    if status.code().is_none() {
        return Ok(None);
    }
    bail!("a host ended with {status}: {trouble}")
}

/// Writes the workspace of a trial.
fn write(folder: &Path, port: u16, trial: &str, task: &Task, setting: Setting) -> anyhow::Result<()> {
    let settings = format!(
        "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n\n\
         [servers.bfcl]\nurl = \"http://127.0.0.1:{port}/mcp/{trial}\"\n"
    );
    let mut agent = String::from(
        "name = \"task\"\nversion = \"1.0.0\"\ndescription = \"A task of BFCL.\"\ntools.allow = [\"bfcl.*\"]\n\
         model.use = \"default\"\nlimits.max_steps = 1000\nlimits.max_tool_calls = 1000\n",
    );
    let class = if setting.keyed { "keyed" } else { "unsafe" };
    for tool in &task.tools {
        // The guard against a model that repeats itself has nothing to guard here: some answers do repeat a call.
        write!(agent, "\n[tools.settings.\"bfcl.{tool}\"]\neffect = \"{class}\"\n")?;
    }
    std::fs::create_dir_all(folder.join("agents"))?;
    std::fs::write(folder.join("dalsegno.toml"), settings)?;
    std::fs::write(folder.join("agents/task.toml"), agent)?;
    std::fs::write(folder.join("script.toml"), toml::to_string(&script(task))?)?;
    Ok(())
}

/// The replies of the model: one call each, and a text at the end of each turn.
fn script(task: &Task) -> Script {
    let mut replies = Vec::new();
    for turn in &task.turns {
        for call in &turn.calls {
            let call = ScriptCall {
                name: format!("bfcl.{}", call.name),
                arguments_text: call.arguments.to_string(),
            };
            replies.push(Reply { text: String::new(), calls: vec![call] });
        }
        replies.push(Reply { text: "Done.".to_owned(), calls: Vec::new() });
    }
    Script { replies }
}

#[derive(Serialize)]
struct Script {
    replies: Vec<Reply>,
}

#[derive(Serialize)]
struct Reply {
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ScriptCall>,
}

#[derive(Serialize)]
struct ScriptCall {
    name: String,
    arguments_text: String,
}
