//! The turns of a call: what the caller says, and the responses of the live model.

use dalsegno_core::{EndedBy, LiveNews, LiveTokens, ResponseEnd, Timestamp};

use super::Shared;
use crate::ids::SpanId;
use crate::semconv as name;
use crate::span::{Kind, Span, SpanEvent, Status, Subject, Value};

/// Most responses that are followed at a time.
const MAX_RESPONSES: usize = 16;

/// Most bytes of what is said in a turn that are kept until it ends.
const MAX_SAID: usize = 64 * 1024;

/// Where and when something began: a record, and which of its news.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) seq: u64,
    pub(super) place: u32,
    pub(super) at: Timestamp,
}

/// The turns that are under way.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Since when the caller speaks.
    caller: Option<Moment>,
    /// What the caller said that no response has followed yet.
    heard: String,
    /// In the order in which they began.
    responses: Vec<Response>,
}

/// A response of the live model.
#[derive(Debug)]
struct Response {
    /// The provider's id of it.
    id: String,
    since: Moment,
    heard: String,
    said: String,
    calls: u64,
    tokens: Option<LiveTokens>,
}

impl Talk {
    /// Takes news of the call. Gives the spans that end with it, and an event of the run's span.
    pub(super) fn observe(
        &mut self,
        shared: &Shared,
        now: Moment,
        news: &LiveNews,
        spans: &mut Vec<Span>,
    ) -> Option<SpanEvent> {
        let at = now.at;
        let event = |name, attributes| Some(SpanEvent { at, name, attributes });
        match news {
            LiveNews::SpeechStarted => self.caller = Some(now),
            LiveNews::SpeechStopped => spans.extend(self.caller_stops(shared, at)),
            LiveNews::Heard { text } => keep(shared, &mut self.heard, text),
            LiveNews::ResponseBegan { response, .. }
                if self.response(response).is_none() && self.responses.len() < MAX_RESPONSES =>
            {
                self.responses.push(Response {
                    id: response.clone(),
                    since: now,
                    heard: std::mem::take(&mut self.heard),
                    said: String::new(),
                    calls: 0,
                    tokens: None,
                });
            }
            LiveNews::Said { text, .. } => {
                if let Some(response) = self.responses.last_mut() {
                    keep(shared, &mut response.said, text);
                }
            }
            LiveNews::Counted { response, tokens } => {
                if let Some(response) = self.response(response) {
                    response.tokens = Some(*tokens);
                }
            }
            LiveNews::Asked { response, .. } => {
                if let Some(response) = self.response(response) {
                    response.calls += 1;
                }
            }
            LiveNews::ResponseEnded { response, end } => {
                let place = self.responses.iter().position(|known| known.id == *response);
                let end = match end {
                    ResponseEnd::Completed => "completed",
                    ResponseEnd::Interrupted => "interrupted",
                    ResponseEnd::Failed => "failed",
                };
                spans.extend(place.map(|place| self.responses.remove(place).ended(shared, at, end)));
            }
            LiveNews::Lost { reason } => {
                self.close(shared, at, spans);
                let reason = shared.said(name::DALSEGNO_REASON, Some(reason));
                return event(name::EVENT_LINE_LOST, reason.into_iter().collect());
            }
            LiveNews::Attached => return event(name::EVENT_LINE_ATTACHED, Vec::new()),
            LiveNews::Ended { by, reason } => {
                self.close(shared, at, spans);
                let by = match by {
                    EndedBy::Caller => "caller",
                    EndedBy::Agent => "agent",
                    EndedBy::Provider => "provider",
                };
                let mut attributes = vec![(name::DALSEGNO_ENDED_BY, by.into())];
                attributes.extend(shared.said(name::DALSEGNO_REASON, Some(reason)));
                return event(name::EVENT_CALL_ENDED, attributes);
            }
            _ => {}
        }
        None
    }

    /// Ends all turns: nothing more is known of them.
    pub(super) fn close(&mut self, shared: &Shared, at: Timestamp, spans: &mut Vec<Span>) {
        spans.extend(self.caller_stops(shared, at));
        spans.extend(self.responses.drain(..).map(|response| response.ended(shared, at, "lost")));
    }

    fn response(&mut self, id: &str) -> Option<&mut Response> {
        self.responses.iter_mut().find(|known| known.id == id)
    }

    fn caller_stops(&mut self, shared: &Shared, at: Timestamp) -> Option<Span> {
        let since = self.caller.take()?;
        Some(turn(shared, since, at, "caller", Kind::Internal, Vec::new(), Status::Unset))
    }
}

impl Response {
    fn ended(self, shared: &Shared, at: Timestamp, end: &'static str) -> Span {
        let content = shared.options.content;
        let reason = if end == "completed" && self.calls > 0 { "tool_call" } else { finish(end) };
        let mut attributes = vec![
            (name::GEN_AI_OPERATION_NAME, name::CHAT.into()),
            (name::GEN_AI_RESPONSE_ID, self.id.into()),
            (name::GEN_AI_RESPONSE_FINISH_REASONS, Value::Texts(vec![reason.to_owned()])),
            (name::DALSEGNO_STATUS, end.into()),
            (name::DALSEGNO_TOOL_CALLS, self.calls.into()),
        ];
        if let Some(tokens) = self.tokens {
            attributes.push((name::GEN_AI_USAGE_INPUT_TOKENS, tokens.input.into()));
            attributes.push((name::GEN_AI_USAGE_OUTPUT_TOKENS, tokens.output.into()));
            attributes.extend(tokens.cost_nano_usd.map(|cost| (name::DALSEGNO_COST_NANO_USD, cost.into())));
        }
        let words = [
            (name::GEN_AI_INPUT_MESSAGES, "user", self.heard, None),
            (name::GEN_AI_OUTPUT_MESSAGES, "assistant", self.said, Some(reason)),
        ];
        for (name, role, text, finish) in words {
            let message = content.message(role, &text, finish).filter(|_| !text.is_empty());
            attributes.extend(message.map(|message| (name, message.into())));
        }
        let status = match end {
            "failed" | "lost" => {
                attributes.push((name::ERROR_TYPE, end.into()));
                Status::Error(end.to_owned())
            }
            _ => Status::Unset,
        };
        turn(shared, self.since, at, name::CHAT, Kind::Client, attributes, status)
    }
}

/// Why a response ended that asked for no tool, in the words of the conventions where they have one.
fn finish(end: &'static str) -> &'static str {
    if end == "completed" { "stop" } else { end }
}

/// Adds what was said, where it may be exported.
fn keep(shared: &Shared, said: &mut String, text: &str) {
    if said.len() < MAX_SAID
        && let Some(text) = shared.options.content.text(|| text.to_owned())
    {
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&text);
    }
}

fn turn(
    shared: &Shared,
    since: Moment,
    at: Timestamp,
    name: &str,
    kind: Kind,
    mut attributes: Vec<(&'static str, Value)>,
    status: Status,
) -> Span {
    attributes.push((name::DALSEGNO_RUN, shared.run.to_string().into()));
    Span {
        trace: shared.trace,
        id: SpanId::of_turn(shared.run, since.seq, since.place),
        // No step asks for a turn: it may begin in one and end in the next.
        parent: Some(SpanId::of_run(shared.run)),
        name: name.to_owned(),
        kind,
        start: since.at,
        end: at.max(since.at),
        attributes,
        events: Vec::new(),
        dropped_events: 0,
        links: Vec::new(),
        status,
        subject: Subject::Turn { run: shared.run },
    }
}
