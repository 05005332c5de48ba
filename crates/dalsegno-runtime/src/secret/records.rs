//! The walk over what is recorded: every string of it, and every key.
//!
//! The matches name every field, so that a new one is a decision here.

use dalsegno_core::{
    AgentRequest, AgentReturn, Answer, Attachment, CallRequest, EmailReceipt, Failure, Gate, LiveNews,
    MemoryCreated, MemoryHit, MemoryTraversal, ModelReply, Outcome, ReplyPart, RunError, ToolReturn,
    TraversedEntity, TraversedRelation, Validation, Violation, Write,
};
use dalsegno_store::{Body, Denial};
use dalsegno_tools::{ActionPlace, ActionTrace, ApiResponse, ToolError};
use serde_json::{Map, Value};
use tokio::runtime::{Handle, RuntimeFlavor};

use dalsegno_secrets::SCRUBBED;

use super::Secrets;

/// The text in bytes from which on scrubbing is kept off the threads on which everything else waits: about a millisecond.
const LONG: usize = 64 * 1024;

impl Secrets {
    /// Takes every known secret out of what is recorded and no fold takes: the rest goes through the functions below
    /// before the core folds it, and would differ from its record otherwise.
    pub(crate) fn record(&self, body: &mut Body) {
        match body {
            Body::Requested { step: _, ordinal: _, label, digest: _, class: _, start: _ } => self.text(label),
            Body::Attempted { attempt: _, cause: _, start: _, reason } => {
                reason.iter_mut().for_each(|text| self.text(text));
            }
            Body::Denied { server: _, denials } => {
                for Denial { kind: _, subject, reason, count: _ } in denials {
                    self.text(subject);
                    self.text(reason);
                }
            }
            Body::Tasked { attempt: _, server: _, task, expires_at: _ } => self.text(task),
            Body::Verified { tool: _, tries: _, evidence: _, result, error } => {
                result.iter_mut().for_each(|value| self.value(value));
                error.iter_mut().for_each(|text| self.text(text));
            }
            Body::Late { outcome, open: _, by } => {
                self.scrub(outcome);
                by.iter_mut().for_each(|text| self.text(text));
            }
            Body::Signalled { signal: _, by, reason } => {
                by.iter_mut().chain(reason).for_each(|text| self.text(text));
            }
            Body::Paused { by, reason, waiting_for: _ } => {
                by.iter_mut().chain(reason).for_each(|text| self.text(text));
            }
            Body::Continued { by } => by.iter_mut().for_each(|text| self.text(text)),
            Body::Adopted { run: _, seq: _, step: _, signer: _, by } => {
                by.iter_mut().for_each(|text| self.text(text));
            }
            Body::Abandoned { reason, by } => {
                self.text(reason);
                by.iter_mut().for_each(|text| self.text(text));
            }
            // What the core folds was scrubbed before it was folded, and what a run says itself follows from that.
            Body::Started(_)
            | Body::Inherited(_)
            | Body::Waiting { .. }
            | Body::Answered { .. }
            | Body::Resolved { .. }
            | Body::Forked { .. }
            | Body::Conversed { .. }
            | Body::Narrowed { .. }
            | Body::Rebound { .. }
            | Body::Suspended { .. }
            | Body::Completed { .. }
            | Body::Failed { .. }
            | Body::Cancelled { .. }
            | Body::HandedOff { .. } => {}
        }
    }

    /// Takes every known secret out of an outcome, raw and in its usual encodings.
    pub(crate) fn scrub(&self, outcome: &mut Outcome) {
        if self.spelled.is_empty() {
            return;
        }
        if weight(outcome) > LONG && is_shared() {
            tokio::task::block_in_place(|| self.scrub_outcome(outcome));
        } else {
            self.scrub_outcome(outcome);
        }
    }

    fn scrub_outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::ModelReplied(reply) => self.scrub_reply(reply),
            Outcome::MemoryFound(hits) => {
                for MemoryHit { entity, entity_type, text, score: _, metadata } in hits {
                    [entity, entity_type, text].into_iter().for_each(|text| self.text(text));
                    self.value(metadata);
                }
            }
            Outcome::MemoryCreated(MemoryCreated { entity, observation, duplicate: _ }) => {
                self.text(entity);
                self.text(observation);
            }
            Outcome::MemoryTraversed(MemoryTraversal { entities, relations, truncated: _ }) => {
                for TraversedEntity { entity, entity_type, depth: _, observations } in entities {
                    self.text(entity);
                    self.text(entity_type);
                    observations.iter_mut().for_each(|text| self.text(text));
                }
                for TraversedRelation { from, relation, to, strength: _ } in relations {
                    [from, relation, to].into_iter().for_each(|text| self.text(text));
                }
            }
            Outcome::AgentReturned(AgentReturn {
                run: _,
                status: _,
                answer,
                output,
                error,
                usage: _,
                writes,
            }) => {
                for write in writes {
                    self.write(write);
                }
                answer.iter_mut().for_each(|text| self.text(text));
                output.iter_mut().for_each(|value| self.value(value));
                if let Some(RunError { code: _, message, help }) = error {
                    self.text(message);
                    self.text(help);
                }
            }
            Outcome::InputGiven(value) => self.value(value),
            Outcome::TransferRequested | Outcome::TimerFired => {}
            Outcome::ApiAnswered(ApiResponse { status: _, headers, body, attempts: _, violations }) => {
                headers.values_mut().for_each(|text| self.text(text));
                if headers.keys().any(|name| self.is_in(name)) {
                    self.keys(headers, |headers, name| headers.contains_key(name));
                }
                self.value(body);
                for dalsegno_tools::Violation { pointer, message } in violations {
                    self.text(pointer);
                    self.text(message);
                }
            }
            Outcome::EmailSent(EmailReceipt { message_id }) => {
                message_id.iter_mut().for_each(|text| self.text(text));
            }
            Outcome::ToolReturned(ToolReturn {
                structured,
                text,
                is_error: _,
                code: _,
                error,
                actions,
                violations,
                files,
            }) => {
                files.iter_mut().for_each(|file| self.text(&mut file.name));
                error.iter_mut().for_each(|error| self.tool_error(error));
                self.scrub_violations(violations);
                actions.iter_mut().for_each(|trace| self.trace(trace));
                self.text(text);
                structured.iter_mut().for_each(|value| self.value(value));
            }
            Outcome::Failed(Failure {
                code: _,
                message,
                violations,
                lost_attempts: _,
                unsent: _,
                withdrawn: _,
                detail,
            }) => {
                self.text(message);
                detail.iter_mut().for_each(|text| self.text(text));
                self.scrub_violations(violations);
            }
        }
    }

    /// Takes every known secret out of what an action of a declarative tool did.
    fn trace(&self, trace: &mut ActionTrace) {
        let ActionTrace { place, status: _, error, warnings, details } = trace;
        self.place(place);
        error.iter_mut().for_each(|error| self.tool_error(error));
        warnings.iter_mut().for_each(|text| self.text(text));
        self.map(details);
    }

    fn tool_error(&self, ToolError { code: _, message, details, action }: &mut ToolError) {
        self.text(message);
        self.map(details);
        action.iter_mut().for_each(|place| self.place(place));
    }

    fn place(&self, ActionPlace { action, id, kind }: &mut ActionPlace) {
        [action, kind].into_iter().chain(id).for_each(|text| self.text(text));
    }

    fn write(&self, write: &mut Write) {
        write.value_mut().into_iter().for_each(|value| self.value(value));
        write.rename(|name| self.text(name));
    }

    /// Takes every known secret out of a model's reply.
    pub(crate) fn reply(&self, reply: &mut ModelReply) {
        if !self.spelled.is_empty() {
            self.scrub_reply(reply);
        }
    }

    /// Takes every known secret out of what a run is asked. Whose the run is stays as it is.
    pub(crate) fn request(&self, request: &mut AgentRequest) {
        let AgentRequest {
            text,
            data,
            tenant: _,
            attachments,
            user,
            tenant_settings,
            handoff,
            called_by: _,
            surface: _,
        } = request;
        self.text(text);
        handoff.iter_mut().filter_map(|handoff| handoff.message.as_mut()).for_each(|text| self.text(text));
        [data, user, tenant_settings].into_iter().for_each(|value| self.value(value));
        for Attachment { name, media_type, digest: _, bytes: _ } in attachments {
            self.text(name);
            self.text(media_type);
        }
    }

    /// Takes every known secret out of what happened in a call. The ids that a provider gives stay: they are its own.
    pub(crate) fn live_news(&self, news: &mut LiveNews) {
        match news {
            LiveNews::Connected
            | LiveNews::Attached
            | LiveNews::SpeechStarted
            | LiveNews::SpeechStopped
            | LiveNews::ResponseBegan { response: _, command: _ }
            | LiveNews::ResponseEnded { response: _, end: _ }
            | LiveNews::Counted { response: _, tokens: _ }
            | LiveNews::Lasted { millis: _, cost_nano_usd: _ }
            | LiveNews::Withdrawn { call_id: _ }
            | LiveNews::Digit { digit: _ }
            | LiveNews::Taken { command: _ }
            | LiveNews::Played { response: _ }
            | LiveNews::Cut { response: _, heard_ms: _ }
            | LiveNews::Woke => {}
            LiveNews::Lost { reason } | LiveNews::Ended { by: _, reason } => self.text(reason),
            LiveNews::Heard { text } | LiveNews::Said { text, heard_ms: _ } => self.text(text),
            LiveNews::Told { text, by } => {
                self.text(text);
                by.iter_mut().for_each(|by| self.text(by));
            }
            LiveNews::Refused { command: _, code, message } => {
                self.text(code);
                self.text(message);
            }
            LiveNews::Asked { response: _, call } => {
                let CallRequest { call_id: _, name, arguments, validation } = call;
                self.text(name);
                self.text(arguments);
                validation.iter_mut().for_each(|validation| self.scrub_validation(validation));
            }
        }
    }

    /// Takes every known secret out of an answer at a gate.
    pub(crate) fn scrub_answer(&self, answer: &mut Answer) {
        let (reason, by) = match answer {
            Answer::Approved { edited, reason, by } => {
                edited.iter_mut().for_each(|validation| self.scrub_validation(validation));
                (reason.as_mut(), by)
            }
            Answer::Denied { reason, by } => (reason.as_mut(), by),
            Answer::Given { value, by } | Answer::Supplied { value, by } => {
                self.value(value);
                (None, by)
            }
            Answer::Done { result, error, by } => {
                result.iter_mut().for_each(|value| self.value(value));
                (error.as_mut(), by)
            }
            Answer::NotDone { by } => (None, by),
        };
        reason.into_iter().chain(by).for_each(|text| self.text(text));
    }

    /// Takes every known secret out of a question: a server may repeat what it was sent.
    pub(crate) fn scrub_gate(&self, gate: &mut Gate) {
        match gate {
            Gate::Approval | Gate::Input | Gate::Secret { name: _ } => {}
            Gate::InDoubt { reason } => self.text(reason),
            Gate::Elicitation { requests, request_state } => {
                requests.values_mut().for_each(|request| self.value(request));
                if requests.keys().any(|name| self.is_in(name)) {
                    self.keys(requests, |requests, name| requests.contains_key(name));
                }
                request_state.iter_mut().for_each(|state| self.text(state));
            }
        }
    }

    fn scrub_reply(&self, reply: &mut ModelReply) {
        let ModelReply {
            parts,
            stop: _,
            input_tokens: _,
            output_tokens: _,
            details: _,
            estimated: _,
            output,
            lost_attempts: _,
            without_files: _,
        } = reply;
        for part in parts {
            match part {
                ReplyPart::Text(text) => self.text(text),
                ReplyPart::Call(call) => {
                    [&mut call.call_id, &mut call.name, &mut call.arguments]
                        .into_iter()
                        .for_each(|text| self.text(text));
                    call.validation.iter_mut().for_each(|validation| self.scrub_validation(validation));
                }
                // It goes back to its provider, who may refuse what was changed: that a secret is recorded is worse.
                ReplyPart::Opaque { provider: _, data } => self.value(data),
            }
        }
        output.iter_mut().for_each(|validation| self.scrub_validation(validation));
    }

    fn scrub_validation(&self, validation: &mut Validation) {
        match validation {
            Validation::Valid { arguments } => self.value(arguments),
            Validation::Invalid { violations } => self.scrub_violations(violations),
            Validation::Malformed { message } => self.text(message),
            Validation::Truncated => {}
        }
    }

    fn scrub_violations(&self, violations: &mut [Violation]) {
        for Violation { path, message } in violations {
            self.text(path);
            self.text(message);
        }
    }

    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.map(map),
            Value::Number(number) if self.is_number(number) => *value = Value::from(SCRUBBED),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn map(&self, map: &mut Map<String, Value>) {
        if map.keys().any(|key| self.is_in(key)) {
            self.keys(map, |map, key| map.contains_key(key));
        }
        map.values_mut().for_each(|value| self.value(value));
    }

    /// Takes every known secret out of keys. Two may become the same one; neither value is lost.
    fn keys<M, V>(&self, map: &mut M, has: impl Fn(&M, &str) -> bool)
    where
        M: Default + IntoIterator<Item = (String, V)> + Extend<(String, V)>,
    {
        for (mut key, value) in std::mem::take(map) {
            self.text(&mut key);
            while has(map, &key) {
                key.push('_');
            }
            map.extend([(key, value)]);
        }
    }
}

/// Whether other tasks go on while this thread is busy.
pub(crate) fn is_shared() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// About how many bytes of text an outcome has, where it may have many.
fn weight(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::ModelReplied(reply) => {
            let parts = reply.parts.iter().map(|part| match part {
                ReplyPart::Text(text) => text.len(),
                ReplyPart::Call(call) => call.arguments.len(),
                ReplyPart::Opaque { provider: _, data } => size(data),
            });
            parts.sum()
        }
        Outcome::ToolReturned(returned) => returned.text.len() + returned.structured.as_ref().map_or(0, size),
        Outcome::ApiAnswered(response) => size(&response.body),
        Outcome::AgentReturned(returned) => {
            let writes: usize = returned.writes.iter().map(Write::bytes).sum();
            writes
                + returned.output.as_ref().map_or(0, size)
                + returned.answer.as_ref().map_or(0, String::len)
        }
        Outcome::InputGiven(value) => size(value),
        Outcome::Failed(failure) => failure.message.len(),
        Outcome::MemoryFound(hits) => hits.iter().map(|hit| hit.text.len() + size(&hit.metadata)).sum(),
        Outcome::MemoryTraversed(found) => {
            found.entities.iter().flat_map(|entity| &entity.observations).map(String::len).sum()
        }
        Outcome::MemoryCreated(_)
        | Outcome::EmailSent(_)
        | Outcome::TransferRequested
        | Outcome::TimerFired => 0,
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + size(field)).sum(),
    }
}
