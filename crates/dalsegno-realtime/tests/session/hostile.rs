//! Frames that no provider should send: no panic, nothing that grows, and no news that a state cannot hold.

use dalsegno_core::{CommandKind, LiveCommand, LiveNews, OperationId};
use dalsegno_realtime::{FRAME_BYTES_MAX, LiveSession, ModelSession as _, Output};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Line, settings};

/// Each kind of frame that is taken, and some that are not.
fn frames() -> Vec<Value> {
    let text = include_str!("../frames/taken.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_no_frame_is_counted_and_nothing_else() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let big =
        format!("{{\"type\":\"error\",\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(2 * FRAME_BYTES_MAX));
    for frame in [
        String::new(),
        "nonsense".to_owned(),
        "\0\0".to_owned(),
        "{\"type\":\"response.done\"}".to_owned(),
        "{\"type\":7}".to_owned(),
        "[]".to_owned(),
        "{\"type\":\"response.created\",\"response\":{\"id\":5}}".to_owned(),
        format!("{{\"type\":\"error\",\"x\":{}}}", deep(200)),
        deep(100_000),
        big,
    ] {
        let mut line = Line::open();
        let output = line.session.frame(1, &frame);
        assert_eq!(output, Output::default());
        assert_eq!(line.session.counts().garbage, 1, "{}", frame.chars().take(80).collect::<String>());
    }
}

#[test]
fn unknown_kinds_are_counted_and_ignored() {
    let mut line = Line::open();
    line.frame(json!({ "type": "response.mind_read", "response": { "id": "r" } }));
    line.frame(json!({ "type": "session.exploded" }));
    assert_eq!(line.session.counts().unknown, 2);
    assert!(line.news.is_empty() && line.sent.is_empty() && !line.closed);
}

#[test]
fn audio_is_recognised_before_it_is_read() {
    let mut line = Line::open();
    // What follows the kind is no JSON: it was not looked at.
    for frame in [
        "{\"type\":\"response.output_audio.delta\",\"delta\":\"AAAA",
        "{ \"event_id\" : \"e\", \"type\" : \"response.output_text.delta\", \"delta\": \"",
    ] {
        assert_eq!(line.session.frame(1, frame), Output::default());
    }
    assert_eq!((line.session.counts().parts, line.session.counts().garbage), (2, 0));
    // The words of the caller are no kind of frame.
    let words = json!({ "type": "conversation.item.input_audio_transcription.completed", "item_id": "i",
        "transcript": "\"type\":\"response.output_audio.delta\"" });
    line.frame(words);
    assert_eq!(line.take_kinds(), ["heard"]);
}

#[test]
fn texts_of_every_kind_pass_as_they_are() {
    for text in ["\0", "\u{202e}abc", "👩‍👩‍👧", "\u{7}\u{1b}[2J", "{{request.text}}", &"ä".repeat(40_000)]
    {
        let mut line = Line::open();
        line.begins("r1", json!(null));
        line.frame(json!({ "type": "response.output_text.done", "response_id": "r1", "text": text }));
        let arguments = format!("not json {text}");
        line.frame(json!({ "type": "response.output_item.done", "response_id": "r1", "item": {
            "id": "i", "type": "function_call", "status": "completed", "call_id": text, "name": text, "arguments": arguments } }));
        line.ends("r1", "completed");
        line.say(text);
        for news in &line.news {
            if let LiveNews::Said { text: said, .. } = news {
                assert!(said.len() <= dalsegno_core::TEXT_BYTES_MAX + 1 && text.starts_with(said.as_str()));
            }
        }
    }
}

/// One thing that happens to a session.
#[derive(Debug, Clone)]
enum Happens {
    Frame(String),
    Command(u8, u8),
    Say(String),
    Lost,
    Connected,
    Time(u64),
}

/// A frame, changed at some places: other values, other kinds, pieces left out or cut.
fn frame() -> impl Strategy<Value = String> {
    let frames = frames();
    let odd = prop_oneof![
        Just(json!(null)),
        Just(json!(-1)),
        Just(json!("r1")),
        Just(json!("r2")),
        Just(json!("completed")),
        Just(json!([{}])),
        Just(json!({ "id": "r1", "status": "completed", "metadata": { "command": 5, "turn": [] } })),
        (0_u8..12).prop_map(|number| json!(OperationId::from_bytes([number; 16]).to_string())),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let change = (any::<prop::sample::Index>(), odd);
    let changes = prop::collection::vec(change, 0..3);
    (prop::sample::select(frames), changes, any::<prop::sample::Index>(), 0_u8..20).prop_map(
        |(mut frame, changes, cut, cuts)| {
            for (place, odd) in changes {
                let mut pointers = Vec::new();
                walk(&frame, String::new(), &mut pointers);
                if let Some(value) = frame.pointer_mut(place.get::<String>(&pointers).as_str()) {
                    *value = odd;
                }
            }
            let mut text = frame.to_string();
            if cuts == 0 {
                let at = cut.index(text.len() + 1);
                text.truncate(text.floor_char_boundary(at));
            }
            text
        },
    )
}

fn walk(value: &Value, path: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                walk(member, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{path}/{index}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(path);
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        12 => frame().prop_map(Happens::Frame),
        4 => (0_u8..12, 0_u8..5).prop_map(|(number, kind)| Happens::Command(number, kind)),
        2 => "\\PC{0,20}".prop_map(Happens::Say),
        1 => Just(Happens::Lost),
        2 => Just(Happens::Connected),
        2 => (0_u64..30_000).prop_map(Happens::Time),
    ]
}

fn kind(kind: u8) -> CommandKind {
    match kind {
        0 => CommandKind::Session { instructions: "x".into() },
        1 => CommandKind::Output { call_id: "c1".into(), content: "y".into() },
        2 => CommandKind::Note { text: "z".into() },
        3 => CommandKind::Respond { instructions: Some("w".into()), tools: false },
        _ => CommandKind::Respond { instructions: None, tools: true },
    }
}

/// How many responses the provider has that it was asked for and that have not ended, by what it has said.
#[derive(Default)]
struct Provider {
    asked: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn nothing_panics_grows_or_says_what_no_state_can_hold(steps in prop::collection::vec(happens(), 0..120)) {
        let mut session = LiveSession::new(settings());
        let mut now = 0;
        let mut provider = Provider::default();
        let mut over = false;
        for step in steps {
            now += 1;
            let output = match &step {
                Happens::Frame(frame) => session.frame(now, frame),
                Happens::Command(number, which) => {
                    let id = OperationId::from_bytes([*number; 16]);
                    session.command(now, &LiveCommand { id, kind: kind(*which) })
                }
                Happens::Say(line) => session.say(now, line),
                Happens::Lost => { provider.asked = false; session.lost(now, "cut") }
                Happens::Connected => { session.connected(now); Output::default() }
                Happens::Time(millis) => { now += millis; session.tick(now) }
            };
            prop_assert!(!over || output == Output::default(), "something comes out of a call that is over");
            over |= session.is_over();
            prop_assert!(output.frames.len() <= 600 && output.news.len() <= 200);
            // An error may be the answer to what was asked for: the next thing follows from it at once.
            provider.asked &= !matches!(&step, Happens::Frame(frame) if frame.contains("error"));
            for frame in &output.frames {
                let frame: Value = serde_json::from_str(frame).unwrap();
                if frame["type"] == "response.create" {
                    prop_assert!(!provider.asked, "two responses are asked for");
                    provider.asked = true;
                }
            }
            if let Happens::Frame(frame) = &step
                && (frame.contains("response.created") || frame.contains("output_item"))
            {
                provider.asked = false;
            }
            if output.close {
                provider.asked = false;
            }
            if let Some(at) = session.wakes_at() {
                prop_assert!(at >= now || session.tick(now) != Output::default() || session.wakes_at() >= Some(now));
            }
        }
        // What it keeps is bounded.
        let kept = format!("{session:?}").len();
        prop_assert!(kept < 4 * FRAME_BYTES_MAX, "it keeps {} bytes", kept);
    }

    #[test]
    fn bytes_of_every_kind_are_read_or_refused(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut line = Line::open();
        let _ = line.session.frame(1, &text);
        let _ = line.session.frame(1, &String::from_utf8_lossy(&bytes));
        prop_assert_eq!(line.session.counts().frames, 4);
    }
}
