//! Which records a journal has only after a step of the core.

use dalsegno_core::AgentState;
use dalsegno_store::{Body, Record};

/// Says whether a journal has a record only after a step of the core.
pub(crate) fn needs_step(record: &Record, state: &AgentState) -> bool {
    match &record.body {
        Body::Requested { .. }
        | Body::Completed { .. }
        | Body::Failed { .. }
        | Body::Cancelled { .. }
        | Body::HandedOff { .. }
        | Body::Started(_) => true,
        // The core of a call came to it by itself.
        Body::Resolved { outcome, .. } if state.live().is_some() && outcome.is_withdrawal() => true,
        // Of a declarative tool that has begun it says what the core came to.
        Body::Resolved { attempts, .. } if *attempts > 0 => {
            let mut pending = state.pending().iter();
            pending.any(|pending| {
                Some(pending.operation.id) == record.operation && pending.operation.is_declarative()
            })
        }
        // A call looks at everything that has come before it hears of more, and before it is ended from outside.
        Body::Conversed { .. } => true,
        Body::Signalled { .. } => state.live().is_some(),
        Body::Resolved { .. }
        | Body::Attempted { .. }
        | Body::Waiting { .. }
        | Body::Answered { .. }
        | Body::Late { .. }
        | Body::Denied { .. }
        | Body::Tasked { .. }
        | Body::Verified { .. }
        | Body::Forked { .. }
        | Body::Adopted { .. }
        | Body::Inherited(_)
        | Body::Abandoned { .. }
        | Body::Narrowed { .. }
        | Body::Rebound { .. }
        | Body::Suspended { .. }
        | Body::Paused { .. }
        | Body::Continued { .. } => false,
    }
}
