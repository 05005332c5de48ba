//! What callers hold of a run: its events, its end, its questions.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use dalsegno_core::{AgentName, AgentResponse, Gate, OperationId, RunId, Timestamp};
use dalsegno_history::{Latest, Pause, WaitingOperation};
use dalsegno_store::{NewRecord, StorageKind};

use crate::error::RunFailure;

/// Whether a run is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It goes on.
    Go,
    /// It is to be left as it is.
    Interrupt,
    /// It is to end.
    Cancel,
}

/// A run that this process performs.
#[derive(Debug)]
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) is_new: bool,
    pub(crate) begun: Option<Box<Latest>>,
    pub(crate) events: broadcast::Receiver<RunEvent>,
    pub(crate) stop: watch::Sender<Stop>,
    pub(crate) task: JoinHandle<Result<RunReport, RunFailure>>,
}

impl RunHandle {
    /// The run's id.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Says whether the run began with this handle. It did not when it was resumed, or the key of a start named a run that
    /// exists.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Where the run stood when it began, to be taken once. There is none for a fork, and for a run that did not begin with this handle.
    pub fn take_begun(&mut self) -> Option<Latest> {
        self.begun.take().map(|latest| *latest)
    }

    /// The next event, or `None` after the last one. A reader that falls far behind misses events; a gap in the sequence
    /// numbers shows it, and journal events can be read again by them.
    pub async fn next_event(&mut self) -> Option<RunEvent> {
        loop {
            match self.events.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// Stops the run without ending it: nothing new starts, an attempt that may not be repeated finishes and is recorded,
    /// the rest is given up and repeated when the run is resumed.
    pub fn interrupt(&self) {
        self.stop.send_if_modified(|stop| {
            let goes = *stop == Stop::Go;
            if goes {
                *stop = Stop::Interrupt;
            }
            goes
        });
    }

    /// Ends the run and its child runs: nothing new starts, and what may not be repeated and is under way finishes and
    /// is recorded.
    pub fn cancel(&self) {
        self.stop.send_replace(Stop::Cancel);
    }

    /// Waits until the run has ended, is suspended or was interrupted.
    ///
    /// # Errors
    /// When the journal could not be written or read, or another process took the run over.
    pub async fn finish(self) -> Result<RunReport, RunFailure> {
        drop(self.events);
        match self.task.await {
            Ok(report) => report,
            Err(error) => Err(RunFailure::Panicked { run: self.run, message: error.to_string() }),
        }
    }
}

/// One event of a run.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// A record is in the journal. Durable: it can be read again by its sequence number.
    Recorded {
        /// Its place in the journal.
        seq: u64,
        /// The record.
        record: Arc<NewRecord>,
    },
    /// The run handed over, and another one goes on; its events follow.
    HandedOff {
        /// The agent that goes on.
        target: AgentName,
        /// Its run.
        run: RunId,
    },
    /// The journal could not be written now. The run waits and writes the same records again. Ephemeral.
    Unwritable {
        /// Why.
        kind: StorageKind,
        /// The time since the first attempt to write them.
        waited: Duration,
    },
    /// The agent says something to the user besides its model's text: a `respond` or `handoff` of a declarative tool, or a
    /// plan's `respond`. It comes as soon as the commit is written that follows it, while the tool may still be at work.
    ///
    /// Ephemeral: it comes once, from the process that performed the action. The answer of the run holds all that was said,
    /// in the order of the calls and before the text of the model, with an empty line between two pieces; so does the answer
    /// of the run that goes on after a handoff.
    Said {
        /// The text.
        text: String,
    },
    /// A part of a model's reply, as it streams. Ephemeral: the record of the reply stands on its own.
    Delta {
        /// The model call.
        operation: OperationId,
        /// The attempt, from 1; a later attempt of the same operation voids the deltas of earlier ones.
        attempt: u32,
        /// The text.
        text: String,
    },
}

/// How a run stands when its process lets go of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: AgentName,
    /// How it stands.
    pub end: RunEnd,
    /// Steps so far.
    pub steps: u64,
    /// What it used so far; with the runs that handed over to it.
    pub usage: dalsegno_core::Usage,
    /// The runs that handed over to it while this process performed them, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<RunId>,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It is over, whatever the end.
    Ended(AgentResponse),
    /// It waits for answers or for a time.
    Suspended {
        /// What it waits for, its child runs included; nothing when it only waits for a time, or for a child run that
        /// another process performs.
        waiting: Vec<WaitingOperation>,
        /// When it can go on by itself.
        wake_at: Option<Timestamp>,
        /// When a question that nobody has answered is answered with a no, by `limits.answer_timeout` of its agent; of several
        /// questions the first one.
        answer_by: Option<Timestamp>,
    },
    /// A person paused it: it stands still until a person [continues](crate::Engine::unpause) it.
    Paused {
        /// Who paused it.
        pause: Pause,
        /// What it waits for besides, its child runs included.
        waiting: Vec<WaitingOperation>,
    },
    /// It was interrupted and can be resumed.
    Interrupted,
}

/// What came of asking for a run to be paused.
#[derive(Debug, Clone, PartialEq)]
pub enum Pausing {
    /// The run stands still.
    Paused {
        /// The run.
        run: RunId,
    },
    /// Another task or process performs the run, and pauses it when what is under way has finished; or it was told to continue right
    /// after it stood still, and is to be resumed.
    Requested {
        /// The run.
        run: RunId,
    },
    /// The run ended meanwhile.
    Ended(Box<RunReport>),
}

/// What came of asking for a run's end.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The run has ended.
    Ended(Box<RunReport>),
    /// Another process performs the run; it was told.
    Requested {
        /// The run.
        run: RunId,
    },
}

/// What somebody answers to a run's questions.
#[derive(Debug, Clone, PartialEq)]
pub struct GateInput {
    /// Which operation; `None` when the run waits for one only.
    pub operation: Option<OperationId>,
    /// What it waited for when whoever answers looked; an answer to anything else is refused. Meanwhile somebody else may
    /// have answered, and the same operation be in doubt anew: what was true of one attempt says nothing of the next.
    pub seen: Option<Gate>,
    /// The answer.
    pub settlement: Settlement,
    /// Who answers; recorded.
    pub by: Option<String>,
}

impl GateInput {
    /// An answer to an operation as it was shown: it is refused if the operation waits for something else by now.
    pub fn to(waiting: &WaitingOperation, settlement: Settlement) -> Self {
        Self { operation: Some(waiting.operation), seen: Some(waiting.gate.clone()), settlement, by: None }
    }

    /// The same with the name of the person who answers, which is recorded.
    #[must_use]
    pub fn by(self, person: impl Into<String>) -> Self {
        Self { by: Some(person.into()), ..self }
    }
}

/// An answer to a waiting operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// Go on, with edited arguments if there are any; they are checked before anything is recorded.
    Approve {
        /// The arguments that replace the tool's own.
        edited: Option<Value>,
        /// Why.
        reason: Option<String>,
    },
    /// Do not.
    Deny {
        /// Why.
        reason: Option<String>,
    },
    /// The answer to a question; checked against its schema before anything is recorded.
    Give {
        /// The answer. Text is read as JSON where the schema does not ask for text.
        value: Value,
    },
    /// In doubt: it took place, with this result if that is known.
    Done {
        /// What it returned.
        result: Option<Value>,
    },
    /// In doubt: it arrived, and the receiver refused it with this error. The operation fails with it, and does not start
    /// again.
    Refused {
        /// What the receiver said.
        error: String,
    },
    /// In doubt: it did not take place; it starts again.
    NotDone,
}

impl Settlement {
    /// Agrees to the call as it was shown.
    pub const fn approve() -> Self {
        Self::Approve { edited: None, reason: None }
    }

    /// Refuses the call for this reason, which the agent is told.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: Some(reason.into()) }
    }
}
