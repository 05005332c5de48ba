//! What a model has read once stays as it was, to the last byte: prompt caches hit, and a long run costs no more.

use proptest::prelude::*;
use segno_core::*;
use serde_json::json;

use crate::strategies::{cases, model_world};
use crate::world::{drive, packed, parsed, printed, unpacked};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_prefix_of_a_model_request_never_changes(world in model_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        let mut read: Vec<Vec<u8>> = Vec::new();
        let mut chains = Vec::new();
        for state in &trace.states {
            let Some(Pending { operation: Operation { request: Request::ModelCompletion(completion), .. }, .. }) =
                state.pending().first()
            else { continue };
            let entries: Vec<Vec<u8>> = state.transcript().iter().map(packed).collect();
            prop_assert_eq!(completion.new_from, read.len() as u64);
            prop_assert_eq!(completion.entries, entries.len() as u64);
            prop_assert_eq!(completion.chain, state.transcript().chain());
            prop_assert!(entries.len() > read.len() && entries.starts_with(&read));
            prop_assert!(!chains.contains(&completion.chain), "a longer transcript has another digest");
            chains.push(completion.chain);
            read = entries;
        }
    }

    #[test]
    fn every_call_that_was_read_has_its_result_before_the_next_reply(world in model_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        for state in &trace.states {
            let Some(Pending { operation: Operation { request: Request::ModelCompletion(_), .. }, .. }) =
                state.pending().first()
            else { continue };
            let mut open: Vec<&str> = Vec::new();
            for entry in state.transcript().iter() {
                match entry {
                    Entry::Instructions(_) | Entry::User(_) => {}
                    Entry::Assistant(reply) => {
                        prop_assert!(open.is_empty(), "{open:?}");
                        open.extend(reply.parts.iter().filter_map(|part| match part {
                            ReplyPart::Call(call) => Some(call.call_id.as_str()),
                            ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
                        }));
                    }
                    Entry::ToolResult { call_id, .. } => prop_assert_eq!(open.remove(0), call_id),
                }
            }
            prop_assert!(open.is_empty(), "{open:?}");
        }
    }
}

/// A run whose model calls one tool in each of `replies` replies, up to where it waits for the next.
fn long_run(replies: u64) -> AgentState {
    let mind: ModelMind = serde_json::from_value(json!({
        "model": {"name": "local"}, "prompt": "{{request.text}}", "instructions": "be brief",
    }))
    .expect("a mind");
    let mut config = AgentConfig::new("agent".parse().expect("a name"), Mind::Model(mind));
    let tool = Tool::new("reads".into(), json!({"type": "object"}));
    config.tools.tools.insert("log_read".parse().expect("a tool name"), tool);
    config.limits = Limits { max_steps: u64::MAX, max_tool_calls: u64::MAX, ..Limits::default() };
    let at = Timestamp::from_millis(0);
    let mut state = AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("go"), at);
    loop {
        let (operations, next) = execute_agent_step(&config, state).expect("a sound state").into_operations();
        state = next;
        let done = state.transcript().replies();
        for operation in operations {
            let outcome = match operation.request {
                Request::ModelCompletion(_) if done == replies => return state,
                Request::ModelCompletion(_) => Outcome::ModelReplied(ModelReply {
                    parts: vec![ReplyPart::Call(CallRequest {
                        call_id: format!("call_{done}"),
                        name: "log_read".into(),
                        arguments: "{}".into(),
                        verdict: Verdict::Valid { arguments: json!({}) },
                    })],
                    stop: StopReason::ToolCalls,
                    input_tokens: 0,
                    output_tokens: 0,
                }),
                _ => Outcome::ToolReturned(ToolReturn {
                    text: format!("line {done}"),
                    ..ToolReturn::default()
                }),
            };
            state.resume(Event::outcome(at, operation.id, outcome)).expect("an outcome of this state");
        }
    }
}

#[test]
fn a_transcript_of_many_chunks_reads_back_at_every_length() {
    for replies in [0, 30, 31, 32, 63, 64, 100, 150] {
        let state = long_run(replies);
        assert_eq!(state.transcript().len(), 2 + 2 * replies);
        let envelope = Envelope::new(state);
        assert_eq!(unpacked::<Envelope>(&packed(&envelope)), envelope);
        assert_eq!(parsed::<Envelope>(&printed(&envelope)), envelope);
    }
}

#[test]
fn a_copy_of_a_long_transcript_shares_its_entries() {
    let state = long_run(150);
    let copy = state.transcript().clone();
    assert_eq!(copy.len(), 302);
    assert!(copy.iter().zip(state.transcript().iter()).all(|(one, other)| std::ptr::eq(one, other)));
    assert!(
        copy.iter().rev().zip(state.transcript().iter().rev()).all(|(one, other)| std::ptr::eq(one, other))
    );
    assert_eq!(copy.last_text(), None);
}
