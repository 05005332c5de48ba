//! The frames that are sent, written down for the check against the types of the official SDK (`cargo xtask realtime`).

use dalsegno_core::{CommandKind, TEXT_BYTES_MAX};
use dalsegno_realtime::Backend;
use serde_json::{Value, json};

use crate::{Line, duplex, output, respond, settings};

/// Every kind of frame that a session of the Realtime API sends, as a call sends it.
fn every_frame() -> Vec<Value> {
    let mut line = Line::new(settings());
    line.command(0, CommandKind::Session { instructions: "You are the desk.".into() });
    line.connect();
    line.command(1, CommandKind::Respond { instructions: Some("Greet.".into()), tools: false });
    line.begins("r0", json!({}));
    line.say("A table?");
    line.ends("r0", "cancelled");
    line.begins("r1", json!({ "turn": "t" }));
    line.asks("r1", "c1", "completed");
    line.frame(json!({ "type": "response.output_text.done", "response_id": "r1", "text": "I look." }));
    line.ends("r1", "completed");
    let id = line.command(2, output("c1"));
    line.frame(json!({ "type": "conversation.item.added", "item": { "id": id.to_string() , "type": "function_call_output", "call_id": "c1" } }));
    let note = line.command(3, CommandKind::Note { text: "x".repeat(TEXT_BYTES_MAX) });
    line.frame(json!({ "type": "conversation.item.added", "item": { "id": note.to_string(), "type": "message", "role": "system" } }));
    line.command(4, respond());
    line.lose();
    line.connect();
    line.frame(json!({ "type": "session.updated", "session": {} }));
    line.wait(60_000);
    line.sent
}

/// Every kind of frame that a session of the Live API sends: to another model of the provider, and where an agent does its work.
fn every_live_frame() -> Vec<Value> {
    let told = || CommandKind::Respond { instructions: Some("Say that you are at it.".into()), tools: false };
    let mut sent = Vec::new();
    for backend in
        [Backend::Hosted { model: "gpt-5.2".into() }, Backend::Agent { tool: "agents__kitchen".into() }]
    {
        let mut line = duplex::Line::of(settings(), backend);
        line.attach();
        line.frame(json!({ "type": "session.delegation.created", "offset_ms": 1,
            "delegation": { "type": "delegation", "id": "c1", "target": "client" } }));
        line.command(1, told());
        line.command(2, output("c1"));
        line.command(3, CommandKind::Note { text: "x".repeat(TEXT_BYTES_MAX) });
        line.command(4, respond());
        assert_eq!(line.send_keys(5, "#"), Ok(()));
        line.wait(60_000);
        sent.append(&mut line.sent);
    }
    sent
}

#[test]
fn the_frames_that_are_checked_are_those_that_are_sent() {
    let frames = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frames");
    for (name, sent) in [("sent", every_frame()), ("live-sent", every_live_frame())] {
        let path = format!("{frames}/{name}.jsonl");
        if std::env::var_os("UPDATE").is_some() {
            let lines: String = sent.iter().map(|frame| format!("{frame}\n")).collect();
            std::fs::write(&path, lines).unwrap();
        }
        // The order of members says nothing.
        let written: Vec<Value> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(written, sent, "run the test with UPDATE=1, and look at the change");
    }
}
