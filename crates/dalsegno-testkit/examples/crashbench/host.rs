//! The process that is killed: it resumes the task's session where the process before it was killed.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use anyhow::Context as _;
use dalsegno_core::{AgentRequest, Gate, OperationId};
use dalsegno_runtime::{Engine, GateInput, RunEnd, Settlement, StartOptions};
use dalsegno_store::{Owner, RunFilter, SqliteStore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::{Boundary, DyingStore};

/// The environment variable that holds the orders of a host.
pub(crate) const ORDERS: &str = "DALSEGNO_CRASHBENCH_ORDERS";

/// What a host has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) workspace: PathBuf,
    /// What the user says in each turn.
    pub(crate) turns: Vec<String>,
    /// What a person says about the operations in doubt.
    pub(crate) answers: Vec<Word>,
    /// Where it kills itself.
    pub(crate) death: Option<Boundary>,
}

/// The truth about an operation: what it returned, or that it did not take place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Word {
    pub(crate) operation: OperationId,
    pub(crate) result: Option<Value>,
}

/// What a host that was not killed says as it ends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// All turns are over. With what each run that did not complete ended.
    Ended { failed: Vec<String> },
    /// These operations are in doubt.
    InDoubt(Vec<OperationId>),
}

/// Lives until all turns are over, a person is asked, or the process is killed.
///
/// # Errors
/// The engine could not do its work, or asked something else.
pub(crate) fn live(orders: &Orders) -> anyhow::Result<Said> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let folder = orders.workspace.join(".dalsegno");
        std::fs::create_dir_all(&folder)?;
        let owner = Owner::claim(&folder.join("owners"))?;
        let inner = SqliteStore::open(folder.join("dalsegno.db"))?;
        let store = DyingStore { inner, death: orders.death, commits: AtomicU32::new(0) };
        let engine = Engine::builder().store(store, owner).open(&orders.workspace).await?;
        perform(&engine, orders).await
    })
}

async fn perform(engine: &Engine, orders: &Orders) -> anyhow::Result<Said> {
    let mut words = orders.answers.clone();
    let mut failed = Vec::new();
    for (number, text) in orders.turns.iter().enumerate() {
        let key = format!("turn {number}");
        let options =
            StartOptions { session: Some("bfcl".to_owned()), key: Some(key), ..StartOptions::default() };
        let filter = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let mut runs = engine.journal().runs(&filter).await?;
        runs.reverse();
        let handle = match runs.get(number) {
            None => engine.start(&"task".parse()?, AgentRequest::text(text), options).await?,
            Some(run) if run.status.is_end() => {
                if run.status.as_str() != "completed" {
                    failed.push(format!("turn {number} is {}", run.status.as_str()));
                }
                continue;
            }
            Some(run) => {
                let answers = std::mem::take(&mut words).into_iter().map(|word| GateInput {
                    operation: Some(word.operation),
                    seen: None,
                    settlement: match word.result {
                        Some(result) => Settlement::Done { result: Some(result) },
                        None => Settlement::NotDone,
                    },
                    by: Some("the server's book".to_owned()),
                });
                let answers: Vec<GateInput> = answers.collect();
                // Without a word of the harness the run is looked at first: its answer may be in the journal already.
                engine.resume(run.run, answers).await?
            }
        };
        let report = handle.finish().await?;
        match report.end {
            RunEnd::Ended(response) => {
                if let Some(error) = response.error {
                    failed.push(format!("turn {number}: {}: {}", error.code.as_str(), error.message));
                }
            }
            RunEnd::Suspended { waiting, .. } => {
                let doubts = waiting.iter().map(|one| match one.gate {
                    Gate::InDoubt { .. } => Ok(one.operation),
                    _ => Err(anyhow::anyhow!("the engine asks: {}", one.question)),
                });
                let doubts = doubts.collect::<Result<Vec<_>, _>>()?;
                anyhow::ensure!(!doubts.is_empty(), "the run waits for nothing");
                return Ok(Said::InDoubt(doubts));
            }
            RunEnd::Paused { .. } => anyhow::bail!("nobody paused the run"),
            RunEnd::Interrupted => anyhow::bail!("nobody interrupted the run"),
        }
    }
    Ok(Said::Ended { failed })
}

/// What a host prints.
pub(crate) fn print(said: &Said) -> anyhow::Result<()> {
    use std::io::Write as _;
    let line = serde_json::to_string(said).context("the report could not be written")?;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
