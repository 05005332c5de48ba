//! What was said and done in a call, as a model reads it.

use std::collections::{BTreeMap, VecDeque};

use dalsegno_core::{CallRequest, Entry, ModelReply, ReplyPart, StopReason};

/// Most pieces that are kept.
const PIECES_MAX: usize = 512;

/// Most bytes of them.
const BYTES_MAX: usize = 256 * 1_024;

/// What stands for the output of a call that has none yet.
const RUNS: &str =
    r#"{"message":"It still works. The result follows by itself: do not call it again.","status":"running"}"#;

/// What the model is told where nothing came after its own words.
const YOUR_TURN: &str = "[It is your turn.]";

/// What was said and done, within bounds.
#[derive(Debug, Default)]
pub(super) struct Past {
    pieces: VecDeque<Piece>,
    /// The outputs of calls, by the ids that these have in the call.
    outputs: BTreeMap<String, String>,
    bytes: usize,
}

#[derive(Debug)]
enum Piece {
    /// The caller's words, or a note.
    Told(String),
    /// A reply of the model, and the ids that its calls have in the call, in their order. The model knows them by its own.
    Reply(ModelReply, Vec<String>),
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Self::Told(text) => text.len(),
            Self::Reply(reply, _) => {
                let parts = reply.parts.iter().map(|part| match part {
                    ReplyPart::Text(text) => text.len(),
                    ReplyPart::Call(call) => call.call_id.len() + call.name.len() + call.arguments.len(),
                    ReplyPart::Opaque { data, .. } => data.to_string().len(),
                });
                parts.sum()
            }
        }
    }
}

impl Past {
    /// The caller's words.
    pub(super) fn heard(&mut self, text: String) {
        self.push(Piece::Told(text));
    }

    /// Something that the model must know.
    pub(super) fn note(&mut self, text: &str) {
        self.push(Piece::Told(format!("[{text}]")));
    }

    /// What the model replied, as far as it was said; its calls have these ids in the call.
    pub(super) fn replied(&mut self, reply: ModelReply, ids: Vec<String>) {
        if !reply.parts.is_empty() {
            self.push(Piece::Reply(reply, ids));
        }
    }

    /// What the model said in a session before this one.
    pub(super) fn said(&mut self, text: String) {
        self.replied(ModelReply::new(vec![ReplyPart::Text(text)], StopReason::End), Vec::new());
    }

    /// What the model asked for in a session before this one.
    pub(super) fn asked(&mut self, call_id: String, name: String, arguments: String) {
        let call = CallRequest { call_id: call_id.clone(), name, arguments, validation: None };
        let reply = ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls);
        self.replied(reply, vec![call_id]);
    }

    /// The output of a call.
    pub(super) fn output(&mut self, call_id: String, content: String) {
        let is_known =
            self.pieces.iter().any(|piece| matches!(piece, Piece::Reply(_, ids) if ids.contains(&call_id)));
        if is_known && !self.outputs.contains_key(&call_id) {
            self.bytes += content.len();
            self.outputs.insert(call_id, content);
            self.forget();
        }
    }

    fn push(&mut self, piece: Piece) {
        self.bytes += piece.bytes();
        self.pieces.push_back(piece);
        self.forget();
    }

    /// Forgets the oldest where there is no room, outputs with their calls.
    fn forget(&mut self) {
        while self.pieces.len() > 1 && (self.pieces.len() > PIECES_MAX || self.bytes > BYTES_MAX) {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.bytes();
            if let Piece::Reply(_, ids) = &oldest {
                for id in ids {
                    self.bytes -= self.outputs.remove(id).map_or(0, |content| content.len());
                }
            }
        }
    }

    /// What the model reads: its instructions, what was said and done, and what it is told for this reply alone. A call is always
    /// followed by an output, since providers refuse one without.
    pub(super) fn read(&self, instructions: &str, told: Option<&str>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.pieces.len() + 2);
        if !instructions.is_empty() {
            entries.push(Entry::Instructions(instructions.to_owned()));
        }
        for piece in &self.pieces {
            match piece {
                Piece::Told(text) => entries.push(Entry::User(text.clone())),
                Piece::Reply(reply, ids) => {
                    entries.push(Entry::Assistant(reply.clone()));
                    entries.extend(reply.calls().zip(ids).map(|(call, id)| Entry::ToolResult {
                        call_id: call.call_id.clone(),
                        name: call.name.clone(),
                        content: self.outputs.get(id).map_or(RUNS, String::as_str).to_owned(),
                        is_error: false,
                        files: Vec::new(),
                    }));
                }
            }
        }
        match told {
            Some(told) => entries.push(Entry::User(format!("[{told}]"))),
            // No provider takes up its own words.
            None if !matches!(entries.last(), Some(Entry::User(_) | Entry::ToolResult { .. })) => {
                entries.push(Entry::User(YOUR_TURN.to_owned()));
            }
            None => {}
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(entries: &[Entry]) -> Vec<(String, String)> {
        let results = entries.iter().filter_map(|entry| match entry {
            Entry::ToolResult { call_id, content, .. } => Some((call_id.clone(), content.clone())),
            _ => None,
        });
        results.collect()
    }

    #[test]
    fn a_call_is_followed_by_its_output_or_by_word_that_it_runs() {
        let mut past = Past::default();
        past.asked("c1".into(), "find".into(), "{}".into());
        past.heard("And?".into());
        assert_eq!(results(&past.read("", None)), [("c1".to_owned(), RUNS.to_owned())]);
        past.output("c1".into(), "yes".into());
        past.output("c1".into(), "no".into());
        past.output("c9".into(), "of no call".into());
        let entries = past.read("Be kind.", None);
        assert_eq!(results(&entries), [("c1".to_owned(), "yes".to_owned())]);
        assert!(matches!(&entries[0], Entry::Instructions(text) if text == "Be kind."));
        assert!(matches!(&entries[3], Entry::User(text) if text == "And?"));
    }

    #[test]
    fn what_is_read_never_ends_with_the_models_own_words() {
        let mut past = Past::default();
        past.said("Good evening.".into());
        assert!(matches!(past.read("", None).last(), Some(Entry::User(text)) if text == YOUR_TURN));
        assert!(
            matches!(past.read("", Some("Greet.")).last(), Some(Entry::User(text)) if text == "[Greet.]")
        );
    }

    #[test]
    fn the_oldest_is_forgotten_with_its_outputs() {
        let mut past = Past::default();
        past.asked("c1".into(), "find".into(), "{}".into());
        past.output("c1".into(), "x".repeat(BYTES_MAX / 2));
        past.heard("y".repeat(BYTES_MAX / 2 + 1));
        assert!(past.outputs.is_empty());
        assert_eq!(past.pieces.len(), 1);
        assert_eq!(past.bytes, BYTES_MAX / 2 + 1);
        for _ in 0..PIECES_MAX {
            past.heard("z".into());
        }
        assert_eq!((past.pieces.len(), past.bytes), (PIECES_MAX, PIECES_MAX));
    }
}
