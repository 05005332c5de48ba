//! Child runs: an operation that is a run of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use dalsegno_core::{AgentCall, AgentReturn, FailureCode, OperationId, Outcome, RunId, Timestamp, Usage};

use dalsegno_history::{HistoryError, Journal, WaitingOperation, child_run, successor_run};
use dalsegno_store::AcquireError;

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::effects::failure::describe;
use crate::error::EngineError;
use crate::run::context::{RunContext, Within};
use crate::run::handle::{RunEnd, RunReport, Stop};

/// What came of performing a child run.
pub(crate) enum Below {
    /// It is over, or it could not be performed.
    Done(Result<Outcome, AttemptError>),
    /// It waits for somebody or for a time, and holds no process.
    Suspended { waiting: Vec<WaitingOperation>, wake_at: Option<Timestamp>, answer_by: Option<Timestamp> },
    /// Another process performs it, and tells its parent when it ends or is suspended.
    Elsewhere,
    /// It was left as it is.
    Interrupted,
    /// It has begun, and cannot be performed here now, since something that it needs is not as it was. It may still act,
    /// so that nothing can be said of its end.
    Trouble(EngineError),
}

/// The pause before a child run is started again because the store could not be read or written.
const PAUSE: Duration = Duration::from_millis(500);

/// Tells a child run to let go when nobody waits for it any more.
struct Leash(watch::Sender<Stop>);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.send_if_modified(|stop| {
            let goes = *stop == Stop::Go;
            if goes {
                *stop = Stop::Interrupt;
            }
            goes
        });
    }
}

/// Performs a child run until it is over, suspended or interrupted, and passes on what its parent is told.
pub(crate) async fn perform(
    context: Arc<RunContext>,
    operation: OperationId,
    call: Arc<AgentCall>,
    within: Within,
    mut stop: watch::Receiver<Stop>,
) -> Below {
    let start = || context.runs.start_child(&context, operation, &call, &within);
    let mut child = start().await;
    while child.as_ref().is_err_and(EngineError::is_passing) && *stop.borrow() == Stop::Go {
        // Of a store that cannot be read or written now, the child run knows nothing.
        tokio::time::sleep(PAUSE).await;
        child = start().await;
    }
    let child = match child {
        Ok(child) => child,
        Err(EngineError::Acquire(AcquireError::Owned { .. })) => return Below::Elsewhere,
        // One that has not begun has done nothing, and never will under this operation's name.
        Err(error) => {
            return match context.ports.journal.known(child_run(operation)).await {
                Ok(None) => Below::Done(Err(unavailable(&error))),
                Ok(Some(_)) | Err(_) => Below::Trouble(error),
            };
        }
    };
    let leash = Leash(child.stop.clone());
    let stopping = &leash.0;
    let mut finished = Box::pin(child.finish());
    let report = loop {
        tokio::select! {
            biased;
            report = &mut finished => break report,
            Ok(stop) = stop.wait_for(|stop| *stop != *stopping.borrow()) => {
                stopping.send_replace(*stop);
            }
        }
    };
    match report {
        Ok(report) => match used_before(&context.ports.journal, child_run(operation), &report).await {
            Ok(before) => over(report, before),
            Err(error) => Below::Trouble(error.into()),
        },
        Err(error) => Below::Trouble(error.into()),
    }
}

/// What the runs of a line used that a report of its last one does not count: those that handed over in earlier
/// processes. Of one that cannot be read any more, nothing is counted.
async fn used_before(journal: &Journal, first: RunId, report: &RunReport) -> Result<Usage, HistoryError> {
    let counted = report.before.first().copied().unwrap_or(report.run);
    let mut usage = Usage::default();
    let mut run = first;
    while run != counted {
        let used = async {
            let (config, records) = journal.journal_of(run).await?;
            Ok::<_, HistoryError>(journal.fold_all(run, config, &records).await?.state().usage())
        };
        match used.await {
            Ok(used) => usage.add(&used),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => tracing::warn!(%run, %error, "what the run used is not counted"),
        }
        run = successor_run(run);
    }
    Ok(usage)
}

fn over(report: RunReport, before: Usage) -> Below {
    let mut usage = before;
    usage.add(&report.usage);
    match report.end {
        RunEnd::Ended(response) => Below::Done(Ok(Outcome::AgentReturned(AgentReturn {
            run: report.run,
            status: response.status,
            answer: response.answer,
            output: response.output,
            error: response.error,
            usage,
            writes: response.writes,
        }))),
        RunEnd::Suspended { waiting, wake_at, answer_by } => Below::Suspended { waiting, wake_at, answer_by },
        // Whoever continues it has it taken up again.
        RunEnd::Paused { waiting, .. } => Below::Suspended { waiting, wake_at: None, answer_by: None },
        RunEnd::Interrupted => Below::Interrupted,
    }
}

fn unavailable(error: &EngineError) -> AttemptError {
    let code = match error {
        EngineError::TooDeep { .. } => FailureCode::LimitExceeded,
        _ => FailureCode::Unavailable,
    };
    certain(code, describe(error))
}
