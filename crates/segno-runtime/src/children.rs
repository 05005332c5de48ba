//! Child runs: an operation that is a run of its own.

use std::sync::Arc;

use tokio::sync::watch;

use segno_core::{AgentCall, AgentReturn, FailureCode, OperationId, Outcome, Timestamp};

use crate::attempt::{RunContext, certain};
use crate::bindings::describe;
use crate::error::EngineError;
use crate::handle::{RunEnd, RunReport, Stop, WaitingOperation};
use crate::policy::AttemptError;

/// What came of performing a child run.
pub(crate) enum Below {
    /// It is over, or it could not be performed.
    Done(Result<Outcome, AttemptError>),
    /// It waits for somebody or for a time, and holds no process.
    Suspended { waiting: Vec<WaitingOperation>, wake_at: Option<Timestamp> },
    /// It was left as it is.
    Interrupted,
}

/// Performs a child run until it is over, suspended or interrupted, and passes on what its parent is told.
pub(crate) async fn perform(
    context: Arc<RunContext>,
    operation: OperationId,
    call: Arc<AgentCall>,
    ask_effects: bool,
    mut stop: watch::Receiver<Stop>,
) -> Below {
    let answers = context.take_answers(operation);
    let child = context.engine.start_child(&context, operation, &call, ask_effects, answers).await;
    let child = match child {
        Ok(child) => child,
        Err(error) => return Below::Done(Err(unavailable(&error))),
    };
    let stopping = child.stop.clone();
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
        Ok(report) => over(report),
        // Its journal is intact: the parent, which writes to the same store, meets the same trouble or goes on later.
        Err(error) => Below::Done(Err(unavailable(&EngineError::from(error)))),
    }
}

fn over(report: RunReport) -> Below {
    match report.end {
        RunEnd::Ended(response) => Below::Done(Ok(Outcome::AgentReturned(AgentReturn {
            run: report.run,
            status: response.status,
            answer: response.answer,
            output: response.output,
            error: response.error,
            usage: report.usage,
        }))),
        RunEnd::Suspended { waiting, wake_at } => Below::Suspended { waiting, wake_at },
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
