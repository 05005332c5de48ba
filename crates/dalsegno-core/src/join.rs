//! The group of operations that a step waits for.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_tools::{Call, Finished};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Outcome;
use crate::id::{OperationId, Timestamp, ToolName};
use crate::live::Live;
use crate::operation::{GateState, Operation, Request};
use crate::transcript::Attachment;

/// A group of operations that a step waits for, folded in this order when all have an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// What the outcomes are for.
    pub then: Then,
    /// The operations in request order, then those below them.
    pub operations: Vec<Pending>,
    /// The declarative tools among them that have begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Begun>,
    /// Most bytes that their outcomes may have together: what the state has room for.
    #[serde(default = "unbounded")]
    pub most_bytes: u64,
    /// About how many bytes the outcomes have that have come. Once there are too many, nothing is kept of any but what
    /// it used, and the run ends when all have come; so its end does not depend on their order.
    #[serde(default)]
    pub bytes: u64,
}

/// A state that was stored without a bound has none.
fn unbounded() -> u64 {
    u64::MAX
}

impl Join {
    /// Says whether a declarative tool can go on: one of its parts has come, or it can begin.
    pub(crate) fn stirs(&self) -> bool {
        self.part_that_came().is_some() || self.beginning().is_some()
    }

    /// The place of the first part of a declarative tool that has come. In a call it has when what came before it was looked at.
    pub(crate) fn part_that_came(&self) -> Option<usize> {
        self.operations.iter().position(|pending| {
            pending.parent.is_some()
                && pending.outcome.is_some()
                && !self.has_not_looked_at(pending.operation.id)
        })
    }

    /// Says whether a transfer is under way.
    pub(crate) fn transfers(&self) -> bool {
        self.operations.iter().any(|pending| matches!(pending.operation.request, Request::Transfer(_)))
    }

    /// Says whether something has come of an operation of a call that no step has looked at.
    fn has_not_looked_at(&self, id: OperationId) -> bool {
        matches!(&self.then, Then::Live(live) if live.has_not_looked_at(id))
    }

    /// The time at which a declarative tool continues: in a call, that of what was looked at last.
    pub(crate) fn time(&self, now: Timestamp) -> Timestamp {
        match &self.then {
            Then::Live(live) => live.looked_at,
            _ => now,
        }
    }

    /// What its declarative tools have said so far, those included that they called.
    pub(crate) fn saying(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().flat_map(Begun::saying)
    }

    /// The model's own id of the call that an operation performs, or is a part of.
    pub(crate) fn call_id(&self, mut id: OperationId) -> Option<&str> {
        let place = loop {
            let place = self.operations.iter().position(|pending| pending.operation.id == id)?;
            match self.operations[place].parent {
                Some(above) => id = above,
                None => break place,
            }
        };
        match &self.then {
            Then::Calls { calls } => {
                let mut open = calls.iter().filter(|slot| slot.settled.is_none());
                open.nth(place).map(|slot| slot.call_id.as_str())
            }
            Then::Live(live) => live.call_of(id).map(|call| call.call_id.as_str()),
            Then::Recall
            | Then::Reply { .. }
            | Then::Summary { .. }
            | Then::PlanStep { .. }
            | Then::ForEach { .. } => None,
        }
    }

    /// The place of the first declarative tool that has not begun and may.
    pub(crate) fn beginning(&self) -> Option<usize> {
        let most = match &self.then {
            Then::ForEach { concurrency, .. } => (*concurrency).max(1) as usize,
            Then::Recall
            | Then::Reply { .. }
            | Then::Summary { .. }
            | Then::Calls { .. }
            | Then::PlanStep { .. }
            | Then::Live(_) => usize::MAX,
        };
        let has_begun = |id: OperationId| self.tools.iter().any(|tool| tool.of == id);
        let busy = |pending: &&Pending| {
            pending.parent.is_none() && pending.outcome.is_none() && has_begun(pending.operation.id)
        };
        let is_full = !self.tools.is_empty() && self.operations.iter().filter(busy).count() >= most;
        self.operations.iter().position(|pending| {
            let operation = &pending.operation;
            let waits =
                matches!(operation.gate, GateState::Waiting(_)) || self.has_not_looked_at(operation.id);
            operation.is_declarative()
                && pending.outcome.is_none()
                && !waits
                && !(is_full && pending.parent.is_none())
                && !has_begun(operation.id)
        })
    }

    /// Takes out everything that is below an operation.
    pub(crate) fn drop_parts(&mut self, id: OperationId) {
        let mut above = Vec::from([id]);
        while let Some(id) = above.pop() {
            self.tools.retain(|tool| tool.of != id);
            let parts = self.operations.iter().filter(|pending| pending.parent == Some(id));
            above.extend(parts.map(|pending| pending.operation.id));
            self.operations.retain(|pending| pending.parent != Some(id));
        }
    }

    /// Says whether the outcomes have more bytes than they may.
    pub(crate) fn is_overfull(&self) -> bool {
        self.bytes > self.most_bytes
    }

    /// Gives an operation its outcome.
    pub(crate) fn settle(&mut self, id: OperationId, outcome: Outcome) {
        let was_overfull = self.is_overfull();
        self.bytes = self.bytes.saturating_add(outcome.size() as u64);
        let is_overfull = self.is_overfull();
        let mut outcome = Some(outcome);
        for pending in &mut self.operations {
            let is_it = pending.operation.id == id;
            if is_it {
                pending.outcome = outcome.take();
            }
            if is_overfull && (is_it || !was_overfull) {
                pending.outcome = pending.outcome.take().map(Outcome::hollow);
            }
        }
    }
}

/// What a group's outcomes are for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The search before the first model call.
    Recall,
    /// A reply of the model.
    Reply {
        /// Tools were off: what the model says ends the run, unless it cannot be used and another reply can be asked for.
        last: bool,
    },
    /// A summary of the oldest entries, which stands for them from then on.
    Summary {
        /// The number of entries that it covers.
        until: u64,
    },
    /// The calls of a reply, in its order; those refused at once carry their result.
    Calls {
        /// One for each call.
        calls: Vec<CallSlot>,
    },
    /// A step of a plan.
    PlanStep {
        /// Index of the step.
        index: usize,
        /// One for each operation: which branch of a parallel step it is; 0 for a single operation.
        branches: Vec<usize>,
        /// The operations stand in for those that failed, and fall back no further.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        fallback: bool,
    },
    /// The items of a `for_each`.
    ForEach {
        /// Index of the step.
        index: usize,
        /// How many run at the same time.
        concurrency: u32,
        /// One for each operation: which item it is for.
        items: Vec<usize>,
        /// One for each item: its result, or null while that is missing.
        results: Vec<Value>,
        /// The operations stand in for those that failed, and fall back no further.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        fallback: bool,
    },
    /// A call. Nothing is joined: each outcome is folded when it arrives.
    Live(Box<Live>),
}

/// One call of a model's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSlot {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// What the model reads, where that is known: the call never left the core, or its siblings still run. Else an
    /// operation of the group answers it.
    pub settled: Option<Settled>,
    /// The tool that is called in the place of one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ToolName>,
}

/// What a model reads of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The text.
    pub content: String,
    /// The call failed or was refused.
    pub is_error: bool,
    /// The files that the model reads with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
}

impl Settled {
    /// A result of text alone.
    pub(crate) fn text(content: String) -> Self {
        Self { content, is_error: false, files: Vec::new() }
    }
}

/// One operation on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The operation.
    pub operation: Operation,
    /// What came of it, once that is known.
    pub outcome: Option<Outcome>,
    /// The call of a declarative tool that asks for it; none for an operation of the step itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<OperationId>,
}

/// A declarative tool that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The operation that its call is.
    pub of: OperationId,
    /// When it began: the one time that it reads.
    pub at: Timestamp,
    /// Where it stands.
    pub call: Call,
    /// What tools that it called wrote, said and whom they hand over to: a part of its own end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Finished>,
    /// What it writes, says and whom it hands over to, once it has ended; counted when the whole group is folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Finished>,
}

impl Begun {
    /// What it has said so far, after what the tools said that it called and that have ended.
    pub(crate) fn saying(&self) -> impl Iterator<Item = &str> {
        let (ended, open) = match &self.finished {
            Some(finished) => (finished.outcome.said.as_slice(), [].as_slice()),
            None => ([].as_slice(), self.call.said()),
        };
        let inner = self.inner.iter().flat_map(|inner| &inner.outcome.said);
        inner.chain(ended).chain(open).map(String::as_str)
    }
}

/// Finds the pending operation with this id.
pub(crate) fn find(operations: &mut [Pending], id: OperationId) -> Option<&mut Pending> {
    operations.iter_mut().find(|pending| pending.operation.id == id)
}
