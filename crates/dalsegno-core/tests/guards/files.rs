//! Files that tools return: what of them reaches a model, and what a result must not hold.

use dalsegno_core::*;
use serde_json::json;

use super::*;

fn file(name: &str) -> Attachment {
    Attachment {
        name: name.into(),
        media_type: "image/png".into(),
        digest: digest_json(&json!(name)),
        bytes: 70,
    }
}

fn returned(text: &str, files: &[&str]) -> ToolReturn {
    ToolReturn {
        text: text.into(),
        files: files.iter().map(|name| file(name)).collect(),
        ..ToolReturn::default()
    }
}

/// A state whose model has called a tool that returned this.
fn after(config: &AgentConfig, returned: ToolReturn) -> AgentState {
    let state = through(config, reply(vec![call("risk__score")], StopReason::ToolCalls));
    answered(config, state, Outcome::ToolReturned(returned))
}

fn read(config: &AgentConfig, state: &AgentState) -> Transcript {
    state.reading(config, completion(state)).expect("a completion of this configuration").transcript
}

#[test]
fn a_model_reads_the_files_of_a_result() {
    let config = model();
    let state = after(&config, returned("a plot", &["a.png", "b.png"]));
    let reading = read(&config, &state);
    assert!(reading.has_attachments());
    let Some(Entry::ToolResult { content, files, .. }) = reading.iter().last() else { panic!("a result") };
    assert_eq!((content.as_str(), files), ("a plot", &vec![file("a.png"), file("b.png")]));
    let read: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(read, state);
    assert!(read.transcript().has_attachments());
}

#[test]
fn another_file_makes_another_request_and_no_file_the_same_as_ever() {
    let config = model();
    let chain = |returned| after(&config, returned).transcript().chain();
    let (one, other) = (chain(returned("a plot", &["a.png"])), chain(returned("a plot", &["b.png"])));
    let none = chain(returned("a plot", &[]));
    assert!(one != other && one != none && other != none);
    let entry = |returned: ToolReturn| {
        serde_json::to_value(after(&config, returned).transcript().iter().last()).unwrap()
    };
    assert_eq!(
        entry(returned("a plot", &[])),
        json!({"tool_result": {"call_id": "call_1", "name": "risk__score", "content": "a plot", "is_error": false}})
    );
    assert_eq!(serde_json::to_value(returned("a plot", &[])).unwrap(), json!({"text": "a plot"}));
}

#[test]
fn a_failure_has_no_files() {
    let config = model();
    let state = after(&config, ToolReturn { is_error: true, ..returned("no", &["a.png"]) });
    let Some(Entry::ToolResult { files, is_error: true, .. }) = state.transcript().iter().last() else {
        panic!("an error")
    };
    assert!(files.is_empty());
}

#[test]
fn files_take_tokens() {
    let config = model();
    let tokens = |files: &[&str]| after(&config, returned("a plot", files)).transcript().tokens();
    assert_eq!(tokens(&["a.png", "b.png"]) - tokens(&[]), 4_000);
}

#[test]
fn another_picture_of_the_same_size_is_no_repetition() {
    let config = model();
    let shots = |name: &dyn Fn(usize) -> String| {
        let mut state = step(&config, start());
        for turn in 0..20 {
            if state.is_over() {
                break;
            }
            state = answered(&config, state, reply(vec![call("risk__score")], StopReason::ToolCalls));
            let files = vec![file(&name(turn))];
            let returned = ToolReturn { files, ..returned("[image content, image/png, 70 bytes]", &[]) };
            state = answered(&config, state, Outcome::ToolReturned(returned));
        }
        state
    };
    assert!(!shots(&|turn| format!("{turn}.png")).is_over());
    let state = shots(&|_| "same.png".to_owned());
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::CycleDetected));
}

#[test]
fn a_cut_leaves_out_old_files_with_their_results() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.context = Some(ContextSettings { max_tokens: 9_000, compact: Compact::Drop });
    let mut state = step(&config, start());
    for turn in 0..12 {
        let arguments = json!({ "turn": turn });
        let call = CallRequest {
            call_id: format!("call_{turn}"),
            name: "risk__score".into(),
            arguments: arguments.to_string(),
            validation: Some(Validation::Valid { arguments }),
        };
        state = answered(&config, state, reply(vec![ReplyPart::Call(call)], StopReason::ToolCalls));
        let name = format!("{turn}.png");
        state = answered(&config, state, Outcome::ToolReturned(returned("", &[&name])));
        let reading = read(&config, &state);
        assert!(reading.tokens() <= 9_000 && reading.tokens() == state.transcript().tokens());
        let last = reading.iter().last().map(|entry| entry.files().to_vec());
        assert_eq!(last, Some(vec![file(&name)]), "the newest one is sent");
    }
    let reading = read(&config, &state);
    let notes = reading.iter().filter(|entry| {
        matches!(entry, Entry::ToolResult { content, files, .. }
            if content == "[0 bytes and 1 file of this result are left out]" && files.is_empty())
    });
    assert!(notes.count() >= 1, "{reading:?}");
}

#[test]
fn what_a_run_has_looked_at_stays_in_its_transcript_when_it_ends() {
    let config = model();
    let calls = vec![call("risk.score"), call("risk.score")];
    let mut state = through(&config, reply(calls, StopReason::ToolCalls));
    let first = state.pending()[0].operation.id;
    let seen = Outcome::ToolReturned(returned("a plot", &["a.png"]));
    state.resume(Event::outcome(AT, first, seen)).expect("the first outcome");
    state.resume(Event::signal(AT, Signal::Cancel)).expect("a signal");
    let state = step(&config, state);
    assert_eq!(state.transcript().iter().flat_map(Entry::files).count(), 1);
}

#[test]
fn a_plan_reads_no_files() {
    let config = plan(json!([tool_step("risk.score"), tool_step("mail.send")]));
    for files in [&["a.png"][..], &[]] {
        let state = through(&config, Outcome::ToolReturned(returned("a plot", files)));
        assert_eq!(state.results(), &json!({"a": "a plot"}));
    }
}

#[test]
fn results_that_no_shell_records_are_failures() {
    let config = model();
    let many: Vec<String> = (0..=RESULT_FILES_MAX).map(|number| format!("{number}.png")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let of = |media_type: &str, bytes| {
        let file = Attachment { media_type: media_type.into(), bytes, ..file("a") };
        ToolReturn { files: vec![file.clone(), file], ..ToolReturn::default() }
    };
    for (returned, words) in [
        (returned("", &many), "the result has 17 files"),
        (of("image/png", RESULT_FILES_BYTES_MAX / 2 + 1), "bytes, which is more than"),
        (of("image/png", u64::MAX), "bytes, which is more than"),
        (of("text/plain", 5), "a file of the type `text/plain`"),
    ] {
        let state = after(&config, returned);
        let Some(Entry::ToolResult { content, files, is_error: true, .. }) = state.transcript().iter().last()
        else {
            panic!("an error")
        };
        assert!(content.contains(words) && files.is_empty(), "{content}");
    }
    let state = after(&config, returned("", &many[1..]));
    assert_eq!(state.transcript().iter().flat_map(Entry::files).count(), RESULT_FILES_MAX);
}

#[test]
fn a_result_that_waits_for_its_sibling_keeps_its_files() {
    let mut config = model();
    let (fails, instead): (ToolName, ToolName) =
        ("risk.score".parse().expect("a name"), "mail.send".parse().expect("a name"));
    config.tools.tools.get_mut(&fails).expect("the tool").on_failure =
        Some(OnFailure::Fallback(instead.clone()));
    config.tools.tools.get_mut(&instead).expect("the tool").approve = false;
    let calls = vec![call("risk.score"), call("risk.score")];
    let mut state = through(&config, reply(calls, StopReason::ToolCalls));
    let ids: Vec<OperationId> = state.pending().iter().map(|pending| pending.operation.id).collect();
    let seen = Outcome::ToolReturned(returned("a plot", &["a.png"]));
    state.resume(Event::outcome(AT, ids[0], seen)).expect("the first outcome");
    let failure = Failure::new(FailureCode::Unavailable, "no");
    state.resume(Event::outcome(AT, ids[1], Outcome::Failed(failure))).expect("the second outcome");
    let state = step(&config, state);
    assert_eq!(state.pending().len(), 1, "another tool stands in");
    let state: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    let state = answered(&config, state, Outcome::ToolReturned(returned("instead", &["b.png"])));
    let files: Vec<&Attachment> = state.transcript().iter().flat_map(Entry::files).collect();
    assert_eq!(files, [&file("a.png"), &file("b.png")]);
}
