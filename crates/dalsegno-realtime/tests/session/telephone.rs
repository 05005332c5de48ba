//! Sessions that outlive their sockets: those of calls of telephones.

use dalsegno_core::{AudioTokens, CommandKind, LiveCommand, LiveNews, LivePrice, OperationId};
use dalsegno_realtime::{ModelSession as _, Settings};
use serde_json::{Value, json};

use crate::{Line, output, respond, settings};

fn telephone() -> Settings {
    Settings { outlives: true, ..settings() }
}

/// A call that was answered and whose session is open.
fn open() -> Line {
    let mut line = Line::new(telephone());
    let kind = CommandKind::Answer { instructions: "You are the desk.".into() };
    let command = LiveCommand { id: OperationId::from_bytes([1; 16]), kind };
    let output = line.session.answered(&command);
    line.put(output);
    attach(&mut line);
    assert_eq!(line.take_kinds(), ["taken", "connected"]);
    line
}

/// There is a socket, and the session answers.
fn attach(line: &mut Line) {
    let output = line.session.attached(line.now);
    line.put(output);
    assert!(!line.session.is_open(), "whether it is there shows when it answers");
    line.frame(json!({ "type": "session.updated", "session": {} }));
    assert!(line.session.is_open());
}

#[test]
fn a_call_is_answered_with_all_that_its_session_needs() {
    let line = Line::new(telephone());
    let accepted: Value =
        serde_json::from_str(&line.session.acceptance("gpt-realtime-2.1", "You are the desk.")).unwrap();
    assert_eq!(accepted["type"], "realtime");
    assert_eq!(accepted["model"], "gpt-realtime-2.1");
    assert_eq!(accepted["instructions"], "You are the desk.");
    assert_eq!(accepted["output_modalities"], json!(["audio"]), "a caller hears no text");
    assert_eq!(accepted["tools"][0]["name"], "book__find");
    assert_eq!(accepted["audio"]["input"]["turn_detection"]["create_response"], true);
    assert!(accepted["audio"]["input"]["transcription"]["model"].is_string());
}

#[test]
fn a_session_that_is_there_is_told_what_it_is_and_nothing_of_what_was_said() {
    let mut line = open();
    assert_eq!(line.sent.len(), 1);
    let session = &line.sent[0]["session"];
    assert_eq!(session["instructions"], "You are the desk.");
    assert!(session.get("output_modalities").is_none(), "it speaks as it was accepted");
    line.frame(
        json!({ "type": "conversation.item.input_audio_transcription.completed", "transcript": "Hello?" }),
    );
    line.sent.clear();
    line.lose();
    attach(&mut line);
    assert_eq!(line.take_kinds(), ["heard", "lost", "attached"]);
    assert_eq!(line.take_sent(), ["session.update"], "no dialogue is sent anew");
}

#[test]
fn a_session_may_say_that_it_was_created_or_not() {
    let mut line = Line::new(telephone());
    let output = line.session.attached(0);
    line.put(output);
    line.frame(json!({ "type": "session.created", "session": {} }));
    assert_eq!(line.take_kinds(), [""; 0]);
    line.frame(json!({ "type": "session.updated", "session": {} }));
    assert_eq!(line.take_kinds(), ["connected"]);
}

#[test]
fn what_comes_before_the_session_has_answered_is_not_lost() {
    let mut line = open();
    line.lose();
    line.take_kinds();
    let output = line.session.attached(line.now);
    line.put(output);
    line.begins("r7", Value::Null);
    line.asks("r7", "c7", "completed");
    line.ends("r7", "completed");
    assert_eq!(line.take_kinds(), [""; 0]);
    line.frame(json!({ "type": "session.updated", "session": {} }));
    assert_eq!(line.take_kinds(), ["attached", "response_began", "asked", "response_ended", "played"]);
}

#[test]
fn words_that_were_told_as_said_and_are_cut_by_the_provider_are_told_so() {
    let mut line = open();
    line.frame(json!({ "type": "response.created", "response": { "id": "r1", "status": "in_progress" } }));
    line.frame(json!({ "type": "response.output_audio_transcript.done", "response_id": "r1", "transcript": "At eight." }));
    line.ends("r1", "completed");
    let cut = json!({ "type": "conversation.item.truncated", "item_id": "i1", "content_index": 0, "audio_end_ms": 700 });
    line.frame(cut.clone());
    assert_eq!(line.news.last(), Some(&LiveNews::Cut { response: "r1".into(), heard_ms: 700 }));
    // Once they are cut, or played to their end, there is nothing left to cut.
    let told = line.news.len();
    line.frame(cut.clone());
    assert_eq!(line.news.len(), told);
    line.frame(json!({ "type": "response.created", "response": { "id": "r2", "status": "in_progress" } }));
    line.frame(json!({ "type": "response.output_audio_transcript.done", "response_id": "r2", "transcript": "At nine." }));
    line.ends("r2", "completed");
    line.frame(json!({ "type": "output_audio_buffer.stopped", "response_id": "r2" }));
    line.frame(cut);
    assert_eq!(line.news.last(), Some(&LiveNews::Played { response: "r2".into() }));
}

#[test]
fn a_response_whose_beginning_was_missed_is_told_from_its_words_on() {
    let mut line = open();
    line.frame(json!({ "type": "response.output_audio_transcript.done", "response_id": "r1", "transcript": "At eight." }));
    line.ends("r1", "completed");
    line.frame(json!({ "type": "output_audio_buffer.stopped", "response_id": "r1" }));
    assert!(line.news.contains(&LiveNews::Said { text: "At eight.".into(), heard_ms: None }));
    assert_eq!(line.take_kinds(), ["response_began", "said", "response_ended", "played"]);
}

#[test]
fn what_was_not_taken_is_sent_again_and_taken_where_it_is_there_already() {
    let mut line = open();
    line.begins("r1", Value::Null);
    line.asks("r1", "c1", "completed");
    line.ends("r1", "completed");
    let id = line.command(3, output("c1"));
    // The session has it; word of that is lost.
    line.lose();
    attach(&mut line);
    line.take_kinds();
    line.sent.clear();
    line.command(3, output("c1"));
    assert_eq!(line.sent[0]["item"]["id"], id.to_string(), "under the same id");
    line.refuses(&id.to_string(), "item_already_exists");
    assert_eq!(line.news, [LiveNews::Taken { command: id }]);
}

#[test]
fn a_moment_between_responses_is_one_at_which_nobody_is_about_to_speak() {
    let mut line = open();
    assert!(line.session.is_between());
    line.command(3, respond());
    assert!(!line.session.is_between(), "one was asked for");
    line.begins("r1", json!({ "command": OperationId::from_bytes([3; 16]).to_string() }));
    assert!(!line.session.is_between());
    line.ends("r1", "completed");
    assert!(line.session.is_between());
    line.begins("r2", Value::Null);
    line.lose();
    assert!(line.session.is_between(), "nothing of it is heard here");
}

#[test]
fn a_session_that_does_not_answer_is_lost() {
    let mut line = Line::new(telephone());
    let output = line.session.attached(0);
    line.put(output);
    line.wait(10_000);
    assert!(line.closed);
    assert_eq!(line.take_kinds(), [""; 0]);
}

#[test]
fn what_a_response_took_is_counted_once_also_where_its_end_comes_to_another_socket() {
    let usage = json!({ "input_tokens": 900, "output_tokens": 100 });
    let done =
        json!({ "type": "response.done", "response": { "id": "r1", "status": "completed", "usage": usage } });
    let counted =
        |line: &Line| line.news.iter().filter(|one| matches!(one, LiveNews::Counted { .. })).count();
    let mut line = open();
    line.begins("r1", Value::Null);
    line.lose();
    attach(&mut line);
    line.frame(done.clone());
    line.frame(done.clone());
    assert_eq!(counted(&line), 1);
    // One that ended here is counted here.
    let mut line = open();
    line.begins("r1", Value::Null);
    line.frame(done.clone());
    line.frame(done);
    assert_eq!(counted(&line), 1);
}

#[test]
fn what_a_response_took_has_the_price_of_the_line_sound_and_text_each() {
    let usage = json!({
        "total_tokens": 1_550, "input_tokens": 1_400, "output_tokens": 150,
        "input_token_details": {
            "text_tokens": 400, "audio_tokens": 1_000, "cached_tokens": 600,
            "cached_tokens_details": { "text_tokens": 100, "audio_tokens": 500 }
        },
        "output_token_details": { "text_tokens": 50, "audio_tokens": 100 }
    });
    let price = LivePrice {
        input: 4_000_000,
        output: 16_000_000,
        cached_input: Some(400_000),
        audio_input: Some(32_000_000),
        audio_output: Some(64_000_000),
        cached_audio_input: None,
        minute: None,
    };
    let counted = |price: Option<LivePrice>, usage: &Value| {
        let mut line = Line::new(Settings { price, ..telephone() });
        attach(&mut line);
        line.begins("r1", Value::Null);
        line.frame(json!({ "type": "response.done", "response": { "id": "r1", "status": "completed", "usage": usage } }));
        line.news.iter().find_map(|one| match one {
            LiveNews::Counted { tokens, .. } => Some(*tokens),
            _ => None,
        })
    };
    let tokens = counted(Some(price), &usage).unwrap();
    let audio = AudioTokens { input: 1_000, cached_input: 500, output: 100 };
    assert_eq!((tokens.input, tokens.output, tokens.audio), (1_400, 150, audio));
    // 300 of text, 100 cached, 1,000 of sound, cached at the same price; 50 of text and 100 of sound back.
    let nano_usd = 300 * 4_000 + 100 * 400 + 1_000 * 32_000 + 50 * 16_000 + 100 * 64_000;
    assert_eq!(tokens.cost_nano_usd, Some(nano_usd));
    assert_eq!(counted(None, &usage).unwrap().cost_nano_usd, None);
    // Counts that do not fit together cost no more than what there was.
    let odd = json!({ "input_tokens": 10, "output_tokens": 1, "input_token_details": {
        "audio_tokens": 500, "cached_tokens": 900, "cached_tokens_details": { "audio_tokens": 700 } },
        "output_token_details": { "audio_tokens": 9 } });
    assert_eq!(counted(Some(price), &odd).unwrap().cost_nano_usd, Some(10 * 32_000 + 64_000));
}
