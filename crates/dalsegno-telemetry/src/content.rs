//! What people and models said: left out, or bounded.

use dalsegno_core::{MemoryHit, ModelReply, ReplyPart, StopReason};
use serde_json::{Value as Json, json};

/// Whether spans carry what people and models said, and what tools were called with and returned.
///
/// Names, counts, codes and ids are always there. With [`Off`](Self::Off), messages of failures, questions, reasons and
/// the names of those who answered are left out too, since all of them may repeat what somebody said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// They do not. The default: traces are read by more people than journals are.
    #[default]
    Off,
    /// They do.
    On {
        /// Most bytes of one attribute, before it is written as JSON. What is longer is cut and ends in `…`.
        max_bytes: usize,
    },
}

impl Content {
    /// All content, at most 4 KiB an attribute: enough to recognise a message, small beside a collector's limits.
    pub const DEFAULT_ON: Self = Self::On { max_bytes: 4096 };

    /// A text as it may be exported.
    pub(crate) fn text(self, text: impl FnOnce() -> String) -> Option<String> {
        match self {
            Self::Off => None,
            Self::On { max_bytes } => Some(clip(text(), max_bytes)),
        }
    }

    /// A JSON value as it may be exported: as JSON while it is short enough, else the beginning of its text.
    pub(crate) fn json(self, value: &Json) -> Option<String> {
        self.text(|| value.to_string())
    }

    /// One message of plain text, in the form of the conventions.
    pub(crate) fn message(self, role: &str, text: &str, finish: Option<&str>) -> Option<String> {
        let Self::On { max_bytes } = self else { return None };
        let part = json!({ "type": "text", "content": clip(text.to_owned(), max_bytes) });
        Some(message(role, vec![part], finish))
    }

    /// A system prompt, in the form of the conventions.
    pub(crate) fn instructions(self, text: &str) -> Option<String> {
        let Self::On { max_bytes } = self else { return None };
        Some(json!([{ "type": "text", "content": clip(text.to_owned(), max_bytes) }]).to_string())
    }

    /// A model's reply, in the form of the conventions. What only the provider understands is never exported.
    pub(crate) fn reply(self, reply: &ModelReply) -> Option<String> {
        let Self::On { max_bytes } = self else { return None };
        let mut left = max_bytes;
        let mut take = |text: &str| {
            let text = clip(text.to_owned(), left);
            left = left.saturating_sub(text.len());
            text
        };
        let parts = reply.parts.iter().filter_map(|part| match part {
            ReplyPart::Text(text) => Some(json!({ "type": "text", "content": take(text) })),
            ReplyPart::Call(call) => {
                // They are text from the model, which may be no JSON at all.
                let (name, arguments) = (take(&call.name), take(&call.arguments));
                Some(
                    json!({ "type": "tool_call", "id": take(&call.call_id), "name": name, "arguments": arguments }),
                )
            }
            ReplyPart::Opaque { .. } => None,
        });
        // A reply of ten thousand empty parts would be large however short its texts are.
        let parts = parts.take(MAX_PARTS).collect();
        Some(message("assistant", parts, Some(finish_reason(reply.stop))))
    }

    /// What a memory is to keep, in the form of the conventions.
    pub(crate) fn kept(self, text: &str) -> Option<String> {
        let Self::On { max_bytes } = self else { return None };
        Some(json!([{ "content": clip(text.to_owned(), max_bytes) }]).to_string())
    }

    /// The hits of a search, in the form of the conventions.
    pub(crate) fn hits(self, hits: &[MemoryHit]) -> Option<String> {
        let Self::On { max_bytes } = self else { return None };
        let mut left = max_bytes;
        let hits = hits.iter().take(MAX_PARTS).map(|hit| {
            let text = clip(hit.text.clone(), left);
            left = left.saturating_sub(text.len());
            json!({ "content": text, "score": hit.score })
        });
        Some(Json::Array(hits.collect()).to_string())
    }
}

/// Most parts of a message, and most hits.
const MAX_PARTS: usize = 64;

fn message(role: &str, parts: Vec<Json>, finish: Option<&str>) -> String {
    let mut message = json!({ "role": role, "parts": Json::Array(parts) });
    if let Some(finish) = finish {
        message["finish_reason"] = finish.into();
    }
    Json::Array(vec![message]).to_string()
}

/// Why a reply ended, in the words of the conventions.
pub(crate) const fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
    }
}

/// The beginning of a text.
fn clip(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(ELLIPSIS);
    text
}

const ELLIPSIS: &str = "…";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_never_longer_than_its_bound() {
        for max in 3..12 {
            let cut = clip("aé€😀bcdef".to_owned(), max);
            assert!(cut.len() <= max, "{max}: {cut}");
            assert!(cut.ends_with(ELLIPSIS), "{max}: {cut}");
        }
        assert_eq!(clip("short".to_owned(), 5), "short");
        assert_eq!(clip("longer".to_owned(), 5), "lo…");
    }

    #[test]
    fn a_long_reply_shares_its_bound_among_its_parts() {
        let parts = (0..1000).map(|_| ReplyPart::Text("x".repeat(100))).collect();
        let reply = ModelReply::new(parts, StopReason::End);
        let text = Content::On { max_bytes: 256 }.reply(&reply).unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        let parts = json[0]["parts"].as_array().unwrap();
        assert_eq!(parts.len(), MAX_PARTS);
        let bytes: usize = parts.iter().map(|part| part["content"].as_str().unwrap().len()).sum();
        // Each part that no longer fits is `…`.
        assert!(bytes <= 256 + MAX_PARTS * ELLIPSIS.len(), "{bytes}");
        assert_eq!(Content::Off.reply(&reply), None);
    }

    #[test]
    fn what_only_a_provider_understands_is_not_exported() {
        let opaque = ReplyPart::Opaque { provider: "p".into(), data: json!({ "thinking": "SECRET" }) };
        let reply = ModelReply::new(vec![opaque, ReplyPart::Text("hi".into())], StopReason::End);
        let text = Content::DEFAULT_ON.reply(&reply).unwrap();
        assert_eq!(
            serde_json::from_str::<Json>(&text).unwrap(),
            json!([{
                "role": "assistant",
                "parts": [{ "type": "text", "content": "hi" }],
                "finish_reason": "stop",
            }])
        );
    }
}
