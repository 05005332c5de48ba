//! Reads the pieces of a reply.
//!
//! Each piece is a response of its own, whose parts continue those before it, and has the tokens so far. Texts are joined but
//! where one of them is signed.

use dalsegno_core::{StopReason, TokenDetails};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{MARKER, MODEL, PART, PROVIDER, SIGNATURE};
use crate::http::failure::{self, protocol};
use crate::http::key::Hidden;
use crate::http::reply::{self, Draft, Output, RawPart, Reader, Tokens, count};
use crate::model::ModelError;

/// Most parts of one reply.
const MAX_PARTS: usize = 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    grounding_metadata: Option<Value>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "reply::arguments")]
    args: String,
}

/// A part so far, with its signature.
struct Piece {
    kind: Kind,
    signature: Option<Value>,
}

enum Kind {
    Text(String),
    Thought(String),
    Call(Call),
    Other(Map<String, Value>),
}

/// Reads the events of a stream.
pub(in crate::http) struct GeminiReader {
    /// Who signs.
    model: String,
    pieces: Vec<Piece>,
    usage: Map<String, Value>,
    /// How often the provider has searched the web.
    searches: u64,
    stop: Option<String>,
    /// What the provider says about the end.
    words: String,
    /// Whether it refused the request for what it says.
    blocked: bool,
}

impl GeminiReader {
    pub(in crate::http) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            pieces: Vec::new(),
            usage: Map::new(),
            searches: 0,
            stop: None,
            words: String::new(),
            blocked: false,
        }
    }

    fn part(&mut self, mut part: Map<String, Value>, output: &mut Output<'_>) -> Result<(), ModelError> {
        let signature = part.remove(SIGNATURE).filter(|signature| *signature != "" && !signature.is_null());
        if let Some(signature) = &signature {
            output.opaque(signature)?;
        }
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        let kind = if let Some(call) = part.remove("functionCall") {
            let call: Call = Call::deserialize(&call)
                .map_err(|error| failure::garbage(PROVIDER, &call.to_string(), &error, output.hidden))?;
            [&call.id, &call.name, &call.args].into_iter().try_for_each(|text| output.count(text))?;
            Kind::Call(call)
        } else if let Some(Value::String(text)) = part.get_mut("text") {
            let text = std::mem::take(text);
            if is_thought {
                output.count(&text)?;
                Kind::Thought(text)
            } else {
                output.text(&text)?;
                Kind::Text(text)
            }
        } else if part.is_empty() {
            Kind::Text(String::new())
        } else {
            part.values().try_for_each(|value| output.opaque(value))?;
            Kind::Other(part)
        };
        self.add(Piece { kind, signature })
    }

    /// Adds a part: more of the last one, where neither is signed, or another one.
    fn add(&mut self, piece: Piece) -> Result<(), ModelError> {
        let open =
            self.pieces.last_mut().filter(|last| last.signature.is_none() && piece.signature.is_none());
        if let (Some(Kind::Text(text)), Kind::Text(more)) | (Some(Kind::Thought(text)), Kind::Thought(more)) =
            (open.map(|last| &mut last.kind), &piece.kind)
        {
            text.push_str(more);
            return Ok(());
        }
        if self.pieces.len() >= MAX_PARTS {
            return Err(protocol(format!("the reply has more than {MAX_PARTS} parts")));
        }
        self.pieces.push(piece);
        Ok(())
    }

    fn tokens(&self) -> Tokens {
        let usage = Value::Object(self.usage.clone());
        let details = TokenDetails {
            cached_input_tokens: count(&usage, "/cachedContentTokenCount"),
            reasoning_tokens: count(&usage, "/thoughtsTokenCount"),
            web_searches: self.searches,
            ..TokenDetails::default()
        };
        // What tools of the provider's own found was sent as well.
        let input =
            count(&usage, "/promptTokenCount").saturating_add(count(&usage, "/toolUsePromptTokenCount"));
        let output = count(&usage, "/candidatesTokenCount").saturating_add(details.reasoning_tokens);
        let output = output.max(count(&usage, "/totalTokenCount").saturating_sub(input));
        Tokens { input, output, details }
    }

    /// Why the reply ended.
    fn stop(&self, hidden: Hidden<'_>) -> Result<StopReason, ModelError> {
        let calls = self.pieces.iter().any(|piece| matches!(piece.kind, Kind::Call(_)));
        let Some(stop) = &self.stop else {
            return match self.blocked {
                true => Ok(StopReason::Refusal),
                false => Err(protocol(format!("the stream ended before `{MARKER}`"))),
            };
        };
        Ok(match stop.as_str() {
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => StopReason::Refusal,
            // A call that could be read is judged like any other, so that the model learns what was wrong.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" if calls => {
                StopReason::ToolCalls
            }
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE"
            | "MISSING_THOUGHT_SIGNATURE"
            | "NO_IMAGE"
            | "IMAGE_OTHER"
            | "OTHER" => {
                let (stop, words) = (failure::quote(stop, hidden), failure::quote(&self.words, hidden));
                let words = if words.is_empty() { words } else { format!(": {words}") };
                return Err(protocol(format!("the endpoint ended the reply with `{stop}`{words}")));
            }
            _ => StopReason::End,
        })
    }
}

impl Reader for GeminiReader {
    fn read(&mut self, data: &str, output: &mut Output<'_>) -> Result<bool, ModelError> {
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| failure::garbage(PROVIDER, data, &error, output.hidden))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure::from_event(&error, output.hidden));
        }
        if let Some(Value::Object(usage)) = chunk.usage_metadata {
            // The counts so far: a later one replaces an earlier one.
            self.usage.extend(usage.into_iter().filter(|(_, count)| count.is_number()));
        }
        self.blocked |= chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some());
        for candidate in chunk.candidates.into_iter().flatten().filter(|candidate| candidate.index == 0) {
            let parts = candidate.content.and_then(|content| content.parts);
            parts.into_iter().flatten().try_for_each(|part| self.part(part, output))?;
            if let Some(stop) = candidate.finish_reason.filter(|stop| !stop.is_empty()) {
                self.stop = Some(stop);
            }
            if let Some(words) = candidate.finish_message {
                self.words = words;
            }
            // Each piece that says it has all queries so far.
            let queries = candidate.grounding_metadata.as_ref();
            let queries = queries.and_then(|found| found["webSearchQueries"].as_array()).map_or(0, Vec::len);
            self.searches = self.searches.max(queries as u64);
        }
        // No piece says that it is the last: a signature may come after the end.
        Ok(false)
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some() || self.blocked
    }

    fn finish(self: Box<Self>, hidden: Hidden<'_>) -> Result<Draft, ModelError> {
        let (stop, tokens) = (self.stop(hidden)?, self.tokens());
        let Self { model, pieces, .. } = *self;
        let mut parts = Vec::with_capacity(pieces.len());
        let whole = |mut part: Map<String, Value>, signature: Option<Value>| {
            if let Some(signature) = signature {
                part.insert(SIGNATURE.to_owned(), signature);
            }
            RawPart::Opaque(json!({ MODEL: model, PART: part }))
        };
        for Piece { kind, signature } in pieces {
            let part = match kind {
                // It has nothing but its signature, so it goes back as it came.
                Kind::Text(text) if text.is_empty() && signature.is_some() => {
                    let part = Map::from_iter([("text".to_owned(), text.into())]);
                    parts.push(whole(part, signature));
                    continue;
                }
                Kind::Thought(text) => {
                    let part = [("text".to_owned(), text.into()), ("thought".to_owned(), true.into())];
                    parts.push(whole(part.into_iter().collect(), signature));
                    continue;
                }
                Kind::Other(part) => {
                    parts.push(whole(part, signature));
                    continue;
                }
                Kind::Text(text) => RawPart::Text(text),
                Kind::Call(call) if call.name.is_empty() => {
                    return Err(protocol("the reply has a call without a name"));
                }
                Kind::Call(Call { id, name, args }) => {
                    let arguments = if args.is_empty() { "{}".to_owned() } else { args };
                    RawPart::Call { id, name, arguments }
                }
            };
            if let Some(signature) = signature {
                parts.push(RawPart::Opaque(json!({ MODEL: model, SIGNATURE: signature })));
            }
            parts.push(part);
        }
        Ok(Draft { parts, stop, tokens, paused: false })
    }
}
