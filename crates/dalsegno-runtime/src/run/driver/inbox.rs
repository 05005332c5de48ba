//! Messages of other processes: each stays in the inbox until a commit takes it out together with records.
//!
//! A commit without records would take a message out of a suspended run and leave the run suspended, with nothing that
//! wakes it, should its process die before it writes down what the message stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dalsegno_core::{FailureCode, LiveNews, OperationId, Outcome};
use dalsegno_store::Message;
use tokio::time::Instant;

use super::Driver;
use super::end::Why;
use crate::error::RunFailure;
use crate::run::context::GivenUp;

/// Who gave a child run up, and why.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
    /// What the outcome of its operation says.
    pub(crate) words: String,
}

/// How often a run looks for messages of other processes.
const INBOX_EVERY: Duration = Duration::from_millis(200);

/// The messages of other processes, as far as they were read.
pub(super) struct Mailbox {
    /// Messages that the next commit of records takes out of the inbox.
    pub(super) consumed: Vec<u64>,
    /// Messages that stay in the inbox until these operations have their outcomes.
    held: BTreeMap<u64, BTreeSet<OperationId>>,
    /// There may be something new that no message describes, such as a secret that was missing.
    pub(super) told: bool,
    /// When to look for messages again.
    pub(super) next_look: Instant,
}

impl Mailbox {
    /// The mailbox of a run that this process has just begun to execute.
    pub(super) fn new() -> Self {
        Self {
            consumed: Vec::new(),
            held: BTreeMap::new(),
            told: true,
            next_look: Instant::now() + INBOX_EVERY,
        }
    }

    /// The messages were read just now.
    pub(super) fn looked(&mut self) {
        self.next_look = Instant::now() + INBOX_EVERY;
    }
}

/// The pause before a child run is looked for again that this process is about to create.
const CREATING: Duration = Duration::from_millis(50);

impl Driver {
    /// Messages of other processes; trouble with them is no trouble of the run.
    pub(super) async fn look(&self) -> Vec<(u64, Message)> {
        self.store.inbox(self.context.run).await.unwrap_or_else(|error| {
            tracing::warn!(run = %self.context.run, %error, "the messages for the run cannot be read");
            Vec::new()
        })
    }

    /// Does what messages ask for that were not read before.
    pub(super) fn take_messages(&mut self, messages: Vec<(u64, Message)>) -> Result<(), RunFailure> {
        let mut fresh = messages;
        fresh.retain(|(number, _)| {
            !self.mailbox.consumed.contains(number) && !self.mailbox.held.contains_key(number)
        });
        self.take_words(&mut fresh)?;
        for (number, message) in fresh {
            let mut waits = BTreeSet::new();
            match message {
                // It means the run that continues, and moves on to that one.
                Message::Cancel { .. } if self.handover.is_wanted() => continue,
                Message::Cancel { by, reason } => {
                    self.closing.why = Why { by, reason };
                    self.cancel()?;
                }
                Message::Look => {
                    self.mailbox.told = true;
                    self.look_at_children();
                }
                Message::Answer { operation, attempts, answer } => {
                    self.take_answer(operation, attempts, answer)?;
                }
                // A call that is over has no live model that could hear it. Of one that this process lets go of, it stays for the
                // process that takes the call over.
                Message::Say { text, by } => {
                    if self.is_conversing() {
                        self.take_news(vec![LiveNews::Told { text, by }])?;
                    } else if self.stopping && self.has_open_call() {
                        continue;
                    }
                }
                Message::GiveUp { operations, by, reason } => {
                    waits = self.give_up_operations(&operations, by.as_ref(), reason.as_ref())?;
                }
                // A newer release wrote it: it stays for one.
                _ => continue,
            }
            if waits.is_empty() {
                self.mailbox.consumed.push(number);
            } else {
                self.mailbox.held.insert(number, waits);
            }
        }
        if self.ended.is_some() {
            return Ok(());
        }
        self.expire()?;
        self.go_on()
    }

    /// Lets the next commit take out those messages whose operations have their outcomes.
    pub(super) fn settle_held(&mut self) {
        let missing: BTreeSet<OperationId> = self.missing().map(|operation| operation.id).collect();
        let settled = self.mailbox.held.extract_if(.., |_, waits| waits.is_disjoint(&missing));
        self.mailbox.consumed.extend(settled.map(|(number, _)| number));
    }

    /// Takes note of what became of a child run that is given up.
    pub(super) fn child_given_up(
        &mut self,
        operation: OperationId,
        attempt: u32,
        given_up: GivenUp,
        ending: Ending,
    ) -> Result<(), RunFailure> {
        let is_created = self.running.of(operation).any(|running| !running.idle);
        if matches!(given_up, GivenUp::Unbegun) && self.ended.is_none() && is_created {
            // An attempt under way here may be creating it: it can be told to end once it is there.
            self.end_child(operation, attempt, ending, CREATING);
            return Ok(());
        }
        for waits in self.mailbox.held.values_mut() {
            waits.remove(&operation);
        }
        if self.ended.is_some() || !self.is_missing(operation) {
            return Ok(());
        }
        match given_up {
            GivenUp::Told => {
                self.look_at_child(operation, attempt);
                Ok(())
            }
            GivenUp::Unbegun => {
                let failure = dalsegno_core::Failure::new(FailureCode::Cancelled, ending.words);
                self.resolve(operation, Outcome::Failed(failure))
            }
        }
    }
}
