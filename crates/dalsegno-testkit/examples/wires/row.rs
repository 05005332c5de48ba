//! The rows: what the endpoint answers, and what must come of it.

use crate::server::Answer;
use crate::wire::{Reply, SERVED, Stop, Usage, Wire};

/// One thing that a provider does.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The file that the user attaches.
    pub(crate) attachment: Option<&'static str>,
    /// What the tool returns besides its words; then it is one of an MCP server.
    pub(crate) returned: Option<Returned>,
    /// What the model says, one turn each.
    pub(crate) turns: fn() -> Vec<Turn>,
    /// What must come of it over a wire.
    pub(crate) expected: fn(Wire) -> Expected,
    /// Over which wires aimock can say the same.
    pub(crate) aimock: &'static [Wire],
}

/// A file that the tool returns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returned {
    pub(crate) file: &'static str,
    /// Whether the models are those whose results hold files, over Gemini and Bedrock.
    pub(crate) inside: bool,
}

/// One answer of the model, and how it comes.
pub(crate) struct Turn {
    pub(crate) reply: Reply,
    pub(crate) manner: Manner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Whole.
    Plain,
    /// In pieces of so many bytes.
    Pieces(usize),
    /// The connection is closed in the middle.
    Cut,
    /// Refused as too often, for a second.
    TooOften,
    /// Refused, as the provider has too much to do.
    Overloaded,
}

/// What must come of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) status: &'static str,
    /// The answer of the run.
    pub(crate) answer: Option<&'static str>,
    /// The code of its error, and words of its message.
    pub(crate) error: Option<(&'static str, &'static str)>,
    /// The texts with which the tool takes effect, sorted.
    pub(crate) effects: &'static [&'static str],
    /// Whether it fails before anything is sent.
    pub(crate) is_refused: bool,
}

impl Expected {
    const fn answer(answer: &'static str, effects: &'static [&'static str]) -> Self {
        Self { status: "completed", answer: Some(answer), error: None, effects, is_refused: false }
    }
}

impl Turn {
    fn plain(reply: Reply) -> Self {
        Self { reply, manner: Manner::Plain }
    }

    /// The answer of the server itself.
    pub(crate) fn answer(&self, wire: Wire) -> Answer {
        let stream = |piece, is_cut| Answer::Stream {
            media_type: wire.media_type(),
            bytes: wire.stream(&self.reply),
            piece,
            is_cut,
        };
        match self.manner {
            Manner::Plain => stream(usize::MAX, false),
            Manner::Pieces(piece) => stream(piece, false),
            Manner::Cut => stream(usize::MAX, true),
            Manner::TooOften => {
                let (head, body) = wire.too_often();
                Answer::Failure { status: "429 Too Many Requests", head, body }
            }
            Manner::Overloaded => {
                let (status, body) = wire.overloaded();
                Answer::Failure { status, head: "", body }
            }
        }
    }
}

/// What the tool is called with before the row begins, in the column in which an approval comes between.
pub(crate) fn lead() -> Turn {
    Turn::plain(calls(&[("call_lead", "lead")]))
}

fn says(text: &'static str) -> Reply {
    Reply { text, ..Reply::default() }
}

fn calls(calls: &[(&'static str, &str)]) -> Reply {
    let calls = calls.iter().map(|(id, text)| (*id, format!(r#"{{"text":"{text}"}}"#))).collect();
    Reply { calls, ..Reply::default() }
}

/// Calls of the tool of a server.
fn looks(calls: &[(&'static str, &str)]) -> Reply {
    Reply { tool: SERVED, ..self::calls(calls) }
}

const ANSWER: &str = "All of it is written.";

const UNICODE: &str = "Grüße 🦀, 你好, e\u{301}, 👩\u{200d}👩\u{200d}👧, and the end.";

const LONG: &str = "A long reply that does not come to its end, since the connection is lost on the way.";

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "plain",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "stream",
        attachment: None,
        returned: None,
        turns: || vec![Turn { reply: says(ANSWER), manner: Manner::Pieces(7) }],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "one call",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(calls(&[("call_1", "first")])), Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &["first"]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "four parallel calls",
        attachment: None,
        returned: None,
        turns: || {
            let four = [("call_1", "first"), ("call_2", "second"), ("call_3", "third"), ("call_4", "fourth")];
            vec![Turn::plain(calls(&four)), Turn::plain(says(ANSWER))]
        },
        expected: |_| Expected::answer(ANSWER, &["first", "fourth", "second", "third"]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "broken arguments",
        attachment: None,
        returned: None,
        turns: || {
            let broken =
                Reply { calls: vec![("call_1", r#"{"text":"unfin"#.to_owned())], ..Reply::default() };
            vec![Turn::plain(broken), Turn::plain(calls(&[("call_2", "first")])), Turn::plain(says(ANSWER))]
        },
        expected: |_| Expected::answer(ANSWER, &["first"]),
        aimock: &[],
    },
    Row {
        name: "refusal",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(Reply { stop: Stop::Refusal, ..says("I cannot help with that.") })],
        expected: |_| Expected {
            status: "failed",
            answer: None,
            error: Some(("model_failed", "the provider withheld the reply")),
            effects: &[],
            is_refused: false,
        },
        aimock: &[],
    },
    Row {
        name: "cut-off at the limit",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(Reply { stop: Stop::Length, ..says("This sentence has no") })],
        expected: |_| Expected {
            status: "failed",
            answer: None,
            error: Some(("limit_exceeded", "")),
            effects: &[],
            is_refused: false,
        },
        aimock: &Wire::ALL,
    },
    Row {
        name: "429, Retry-After",
        attachment: None,
        returned: None,
        turns: || vec![Turn { reply: says(ANSWER), manner: Manner::TooOften }, Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "529, 503",
        attachment: None,
        returned: None,
        turns: || vec![Turn { reply: says(ANSWER), manner: Manner::Overloaded }, Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "stream cut",
        attachment: None,
        returned: None,
        turns: || vec![Turn { reply: says(LONG), manner: Manner::Cut }, Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "unicode, byte by byte",
        attachment: None,
        returned: None,
        turns: || vec![Turn { reply: says(UNICODE), manner: Manner::Pieces(1) }],
        expected: |_| Expected::answer(UNICODE, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "unicode, escaped",
        attachment: None,
        returned: None,
        turns: || {
            let reply = Reply { escaped: true, ..says(UNICODE) };
            vec![Turn { reply, manner: Manner::Pieces(5) }]
        },
        expected: |_| Expected::answer(UNICODE, &[]),
        aimock: &[],
    },
    Row {
        name: "usage missing",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(Reply { usage: Usage::Missing, ..says(ANSWER) })],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &[],
    },
    Row {
        name: "thinking with signature",
        attachment: None,
        returned: None,
        turns: || {
            vec![
                Turn::plain(Reply { thinks: true, ..calls(&[("call_1", "first"), ("call_2", "second")]) }),
                Turn::plain(says(ANSWER)),
            ]
        },
        expected: |_| Expected::answer(ANSWER, &["first", "second"]),
        aimock: &[Wire::Anthropic],
    },
    Row {
        name: "cached usage",
        attachment: None,
        returned: None,
        turns: || vec![Turn::plain(Reply { usage: Usage::Cached, ..says(ANSWER) })],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &[],
    },
    Row {
        name: "image",
        attachment: Some("picture.png"),
        returned: None,
        turns: || vec![Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "image, then two calls",
        attachment: Some("picture.png"),
        returned: None,
        turns: || {
            vec![Turn::plain(calls(&[("call_1", "first"), ("call_2", "second")])), Turn::plain(says(ANSWER))]
        },
        expected: |_| Expected::answer(ANSWER, &["first", "second"]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "image from a tool",
        attachment: None,
        returned: Some(Returned { file: "picture.png", inside: false }),
        turns: || {
            vec![Turn::plain(looks(&[("call_1", "first"), ("call_2", "second")])), Turn::plain(says(ANSWER))]
        },
        expected: |_| Expected::answer(ANSWER, &["first", "second"]),
        // It looks for a fixture by the last message of the user, which over other wires is the image.
        aimock: &[Wire::Responses, Wire::Anthropic],
    },
    Row {
        name: "image from a tool, newer models",
        attachment: None,
        returned: Some(Returned { file: "picture.png", inside: true }),
        turns: || {
            let looks = looks(&[("call_1", "first"), ("call_2", "second")]);
            vec![Turn::plain(Reply { thinks: true, ..looks }), Turn::plain(says(ANSWER))]
        },
        expected: |_| Expected::answer(ANSWER, &["first", "second"]),
        aimock: &[],
    },
    Row {
        name: "PDF from a tool",
        attachment: None,
        returned: Some(Returned { file: "paper.pdf", inside: false }),
        turns: || vec![Turn::plain(looks(&[("call_1", "first")])), Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &["first"]),
        aimock: &[],
    },
    Row {
        name: "audio from a tool",
        attachment: None,
        returned: Some(Returned { file: "voice.wav", inside: false }),
        turns: || vec![Turn::plain(looks(&[("call_1", "first")])), Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &["first"]),
        aimock: &[],
    },
    Row {
        name: "PDF",
        attachment: Some("paper.pdf"),
        returned: None,
        turns: || vec![Turn::plain(says(ANSWER))],
        expected: |_| Expected::answer(ANSWER, &[]),
        aimock: &Wire::ALL,
    },
    Row {
        name: "audio",
        attachment: Some("voice.wav"),
        returned: None,
        turns: || vec![Turn::plain(says(ANSWER))],
        expected: |wire| match wire {
            Wire::Chat | Wire::Gemini | Wire::Bedrock => Expected::answer(ANSWER, &[]),
            Wire::Responses | Wire::Anthropic => Expected {
                status: "failed",
                answer: None,
                error: Some(("model_failed", "the attachment `voice.wav` is `audio/wav`")),
                effects: &[],
                is_refused: true,
            },
        },
        aimock: &[Wire::Chat, Wire::Gemini, Wire::Bedrock],
    },
];
