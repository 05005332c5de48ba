//! What came of the live model's calls, and how it is told.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::json;

use super::{Room, cut_to, fitting};
use crate::canonical::print_json;
use crate::config::{OnFailure, Tool};
use crate::event::{Failure, FailureCode, Outcome};
use crate::id::OperationId;
use crate::join::{Pending, Settled};
use crate::live::{Answered, CommandKind, Stage, TEXT_BYTES_MAX, Waits, Work};
use crate::operation::{GateState, Operation, Request};
use crate::phase::admit::Refusal;
use crate::phase::declarative;
use crate::phase::result::{result, told};
use crate::reply::{CallRequest, ModelReply, ReplyPart, StopReason};
use crate::transcript::Entry;

/// What the model is told of a call whose result takes long.
pub(super) const RUNS: &str = "It still works. The result follows by itself: do not call it again.";

/// Most bytes of an output for the model that works with the tools of a live model that hears while it speaks: its provider keeps 32 KiB
/// of all that it has not read.
const DUPLEX_BYTES: usize = 6 * 1_024;

/// What it is told of one that waits for a person.
const ASKS: &str = "A person has to agree first. The result follows by itself: do not call it again.";

/// What it is told of one that may have taken place or not.
const IN_DOUBT: &str =
    "It is not known whether this took place. Do not call it again and promise nothing: people look into it.";

/// The output of a call in doubt.
pub(super) fn doubt() -> Settled {
    Refusal::new("in_doubt", IN_DOUBT).into_settled()
}

impl Room<'_> {
    /// Gives a call its one output.
    pub(super) fn output(&mut self, call_id: &str, name: &str, arguments: &str, said: Settled) {
        let most = if self.live.duplex { DUPLEX_BYTES } else { TEXT_BYTES_MAX };
        let content = cut_to(said.content, most);
        self.count(arguments);
        self.count(&content);
        self.keep(call_id, name, arguments, content.clone(), said.is_error);
        // What it asks of the caller was not said yet.
        self.live.talk.replied = false;
        self.live.talk.untold = false;
        self.emit(CommandKind::Output { call_id: call_id.into(), content });
    }

    /// Puts a call and its output into the transcript, one after the other, since providers refuse a transcript in which a call has
    /// none.
    fn keep(&mut self, call_id: &str, name: &str, arguments: &str, content: String, is_error: bool) {
        let call = CallRequest {
            call_id: call_id.into(),
            name: name.into(),
            arguments: arguments.into(),
            validation: None,
        };
        let reply = ModelReply::new(Vec::from([ReplyPart::Call(call)]), StopReason::ToolCalls);
        self.state.transcript.push(Entry::Assistant(reply));
        self.state.transcript.push(Entry::ToolResult {
            call_id: call_id.into(),
            name: name.into(),
            content,
            is_error,
            files: Vec::new(),
        });
    }

    /// Tells the model that the result of a call follows.
    pub(super) fn answer_later(&mut self, place: usize, message: &str) {
        let Some(call) = self.live.calls.get_mut(place) else { return };
        call.answered = Answered::Later;
        let (call_id, name, arguments) = (call.call_id.clone(), call.name.clone(), call.arguments.clone());
        // Neither is a result of the tool.
        let said = match message {
            IN_DOUBT => doubt(),
            message => Settled {
                is_error: true,
                ..Settled::text(print_json(&json!({ "status": "running", "message": message })))
            },
        };
        self.output(&call_id, &name, &arguments, said);
    }

    /// An operation, or a part of it, waits at a gate: the model does not wait with it.
    pub(super) fn gated(&mut self, id: OperationId) {
        let mut root = id;
        let above = |id| {
            let mut pending = self.join.operations.iter();
            pending.find(|pending| pending.operation.id == id).and_then(|pending| pending.parent)
        };
        while let Some(above) = above(root) {
            root = above;
        }
        self.look_at_gate(root);
    }

    /// Tells the calls of an operation that waits at a gate that their result follows.
    pub(super) fn look_at_gate(&mut self, id: OperationId) {
        let Some(gate) = self.gate_below(id) else { return };
        let message = if gate.in_doubt { IN_DOUBT } else { ASKS };
        let Some(number) = self.live.work_of(id).map(|work| work.number) else { return };
        while let Some(place) =
            self.live.calls.iter().position(|call| call.work == number && call.answered == Answered::No)
        {
            self.answer_later(place, message);
        }
    }

    /// The gate at which an operation waits, or one that it asked for.
    fn gate_below(&self, id: OperationId) -> Option<Waits> {
        let mut left = Vec::from([id]);
        while let Some(id) = left.pop() {
            for pending in &self.join.operations {
                if pending.operation.id == id
                    && let Some(gate) = self.live.gate_of(pending)
                {
                    return Some(gate);
                }
                if pending.parent == Some(id) {
                    left.push(pending.operation.id);
                }
            }
        }
        None
    }

    /// An operation has its outcome: its calls are answered.
    pub(super) fn settled(&mut self, id: OperationId) {
        let is_it = |pending: &Pending| pending.operation.id == id && pending.outcome.is_some();
        let Some(place) = self.join.operations.iter().position(is_it) else { return };
        let mut pending = self.join.operations.remove(place);
        let (tools, state) = (&mut self.join.tools, &mut self.state);
        let beside = declarative::count(&mut pending, tools, &mut state.session, &state.request.user);
        self.join.drop_parts(id);
        let left = self.join.operations.iter().filter_map(|pending| pending.outcome.as_ref());
        self.join.bytes = left.map(|outcome| outcome.size() as u64).fold(0, u64::saturating_add);
        if let Some(Outcome::AgentReturned(returned)) = &pending.outcome {
            self.state.usage.add(&returned.usage);
        }
        let Some(work) = self.live.work_of(id).cloned() else { return };
        let Pending { operation, outcome, .. } = pending;
        let edited = edited(&operation);
        let (said, code) = self.said(&operation, outcome);
        let mut content = told(edited, said.content);
        if beside.is_some_and(|beside| beside.handoff.is_some()) {
            content.push_str("\n[A call cannot be handed over to another agent: it goes on with you.]");
        }
        let said = Settled { content: fitting(content), ..said };
        let is_told = self.tell(&work, &said);
        if code == Some(FailureCode::Indeterminate) {
            self.note_doubt(work.digest);
        }
        self.done(&work, said, code, is_told);
    }

    /// Tells all calls of a work what came of it; whether there was any.
    fn tell(&mut self, work: &Work, said: &Settled) -> bool {
        let mut is_told = false;
        while let Some(place) = self.live.calls.iter().position(|call| call.work == work.number) {
            let call = self.live.calls.remove(place);
            is_told = true;
            match call.answered {
                Answered::No => self.output(&call.call_id, &call.name, &call.arguments, said.clone()),
                Answered::Later => {
                    let text = alloc::format!("The result of `{}` is there: {}", call.name, said.content);
                    self.note(fitting(text));
                }
            }
        }
        is_told
    }

    /// Keeps a result that the model has not heard: a repeated call is answered by it. What certainly did nothing may be tried
    /// again.
    fn done(&mut self, work: &Work, said: Settled, code: Option<FailureCode>, is_told: bool) {
        let did_nothing = code.is_some_and(|code| {
            work.reads
                || matches!(
                    code,
                    FailureCode::Denied
                        | FailureCode::NotPermitted
                        | FailureCode::InvalidArguments
                        | FailureCode::Overloaded
                        | FailureCode::Unavailable
                        | FailureCode::Cancelled
                )
        });
        // What no call was told is heard by no response.
        let after = if is_told { self.live.talk.responses } else { u64::MAX };
        if did_nothing || !work.join {
            self.live.works.retain(|one| one.number != work.number);
        } else if let Some(one) = self.live.works.iter_mut().find(|one| one.number == work.number) {
            one.stage = Stage::Done { content: said.content, is_error: said.is_error, after };
        }
    }

    /// What the model reads of an outcome, and why it failed if it did.
    fn said(&self, operation: &Operation, outcome: Option<Outcome>) -> (Settled, Option<FailureCode>) {
        // A declarative tool says itself what the model reads of its failure.
        let words = match &outcome {
            Some(Outcome::ToolReturned(returned)) if returned.is_error && operation.is_declarative() => {
                Some(returned.text.clone())
            }
            Some(_) | None => None,
        };
        match result(outcome) {
            Ok(settled) => (settled, None),
            Err(failure) => {
                let code = failure.code;
                let said = self.of_failure(operation, failure);
                let words = words.filter(|_| code != FailureCode::Indeterminate);
                (
                    words.map_or(said, |content| Settled { is_error: true, ..Settled::text(content) }),
                    Some(code),
                )
            }
        }
    }

    /// A failure is told: the call continues.
    fn of_failure(&self, operation: &Operation, failure: Failure) -> Settled {
        let tool =
            operation.request.as_tool_call().and_then(|call| self.config.tools.tools.get(&call.tool_name));
        match tool.and_then(|tool: &Tool| tool.on_failure.as_ref()) {
            Some(OnFailure::Default(value)) if failure.code.allows_a_default(self.config.semantics) => {
                Settled::text(print_json(value))
            }
            _ if failure.code == FailureCode::Indeterminate => doubt(),
            _ => Refusal::from(failure).into_settled(),
        }
    }
}

/// The arguments that a person put in the place of the model's: the request is another one than it was minted with.
fn edited(operation: &Operation) -> Option<String> {
    let Request::ToolCall(call) = &operation.request else { return None };
    let is_edited = operation.gate == GateState::Answered
        && call.input.is_none()
        && operation.request.digest() != operation.digest;
    is_edited.then(|| print_json(&call.parameters))
}
