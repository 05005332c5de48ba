//! What a model has read once stays as it was, to the last byte: prompt caches hit, and a long run costs no more.

use dalsegno_core::*;
use proptest::prelude::*;
use serde_json::json;

use crate::strategies::{cases, model_world};
use crate::world::{drive, drive_from, packed, parsed, printed, unpacked};

/// The completion that a state waits for, if it waits for one.
pub(crate) fn completion(state: &AgentState) -> Option<&ModelCompletion> {
    match state.pending().first().map(|pending| &pending.operation.request) {
        Some(Request::ModelCompletion(completion)) => Some(completion),
        _ => None,
    }
}

/// What the model is sent, entry by entry, as bytes.
pub(crate) fn sent(world: &AgentConfig, state: &AgentState, completion: &ModelCompletion) -> Vec<Vec<u8>> {
    let reading = state.reading(world, completion).expect("a completion of this configuration");
    reading.transcript.iter().map(printed).collect()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_transcript_that_keeps_all_only_grows(world in model_world(), order: u64) {
        let trace = drive_from(&world, world.start().keeping_all(), order, |state| state);
        let mut read: Vec<Vec<u8>> = Vec::new();
        let mut asked = Vec::new();
        for state in &trace.states {
            let Some(completion) = completion(state) else { continue };
            let entries: Vec<Vec<u8>> = state.transcript().iter().map(packed).collect();
            prop_assert_eq!(completion.entries, entries.len() as u64);
            prop_assert!(entries.starts_with(&read));
            if completion.purpose == Purpose::Reply {
                prop_assert_eq!(completion.new_from, read.len() as u64);
                prop_assert_eq!(completion.fallback == 0, completion.chain == state.transcript().chain());
                // Only another model, or the same without tools, is ever asked the same thing.
                let question = (completion.chain, completion.fallback, completion.tool_choice.clone());
                prop_assert!(!asked.contains(&question), "a longer transcript has another digest");
                asked.push(question);
                read = entries;
            }
        }
    }

    #[test]
    fn the_prefix_of_a_model_request_never_changes_but_for_a_compaction(world in model_world(), order: u64) {
        let trace = drive_from(&world, world.start().keeping_all(), order, |state| state);
        let mut before: Option<(Vec<Vec<u8>>, u64)> = None;
        for state in &trace.states {
            let Some(completion) = completion(state).filter(|completion| completion.purpose == Purpose::Reply)
            else { continue };
            let sent = sent(&world.config, state, completion);
            let cuts = state.transcript().iter().filter(|entry| matches!(entry, Entry::Compaction(_))).count() as u64;
            if let Some((earlier, earlier_cuts)) = before
                && earlier_cuts == cuts
            {
                prop_assert!(sent.starts_with(&earlier));
            }
            before = Some((sent, cuts));
        }
    }

    #[test]
    fn a_run_and_the_next_of_its_session_do_the_same_without_what_no_model_can_be_sent(
        world in model_world(), next in model_world(), order: u64
    ) {
        let (mut less, mut whole) = (world.start(), world.start().keeping_all());
        for world in [world, next] {
            let (short, long) = (drive_from(&world, less, order, |state| state), drive_from(&world, whole, order, |state| state));
            prop_assert_eq!(&short.joins, &long.joins);
            prop_assert_eq!(&short.end, &long.end);
            for (one, other) in short.states.iter().zip(&long.states) {
                prop_assert_eq!(one.decisions(), other.decisions());
                let of = |state: &AgentState| {
                    let transcript = state.transcript();
                    (transcript.chain(), transcript.len(), transcript.tokens(), transcript.view(), transcript.last_text())
                };
                prop_assert_eq!(of(one), of(other));
                prop_assert!(packed(one.transcript()).len() <= packed(other.transcript()).len());
                // A state that is stored and loaded is the same.
                prop_assert_eq!(&unpacked::<AgentState>(&packed(one)), one);
                if let (Some(one_asks), Some(other_asks)) = (completion(one), completion(other)) {
                    prop_assert_eq!(sent(&world.config, one, one_asks), sent(&world.config, other, other_asks));
                }
            }
            let follow = |states: &[AgentState]| {
                let last = states.last().expect("a run has states");
                AgentState::start(RunId::from_bytes([9; 16]), world.request.clone(), last.now()).inheriting(last.inheritance(false))
            };
            (less, whole) = (follow(&short.states), follow(&long.states).keeping_all());
        }
    }

    #[test]
    fn a_model_is_sent_no_more_than_its_context_and_what_was_set_aside(world in model_world(), order: u64) {
        let Mind::Model(mind) = &world.config.mind else { unreachable!("a model's world") };
        let own = world.config.limits.budget();
        let most = world.budget.map_or(own, |budget| own.min(budget));
        let limited = most.max_tokens.is_some() || most.max_cost_nano_usd.is_some();
        let trace = drive(&world, order, |state| state);
        for state in &trace.states {
            let Some(completion) = completion(state) else { continue };
            let reading = state.reading(&world.config, completion).unwrap();
            let tokens = reading.transcript.tokens();
            if let Some(context) = mind.context {
                prop_assert!(tokens <= context.max_tokens);
            }
            let reserved = completion.reserved;
            if limited {
                let most = reading.settings.max_output_tokens.map(u64::from);
                prop_assert_eq!((tokens, most), (reserved.input_tokens, Some(reserved.output_tokens)));
            } else {
                prop_assert_eq!(reserved, Reserved::default());
            }
        }
    }

    #[test]
    fn every_call_that_is_sent_has_its_result_before_the_next_message(world in model_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        for state in &trace.states {
            let Some(completion) = completion(state) else { continue };
            let reading = state.reading(&world.config, completion).unwrap();
            let mut open: Vec<&str> = Vec::new();
            for entry in reading.transcript.iter() {
                match entry {
                    Entry::Instructions(_) | Entry::User(_) | Entry::Attachment(_) => {
                        prop_assert!(open.is_empty(), "{open:?}");
                    }
                    Entry::Compaction(_) => prop_assert!(false, "a compaction is not sent"),
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
                Request::ModelCompletion(_) => Outcome::ModelReplied(ModelReply::new(
                    vec![ReplyPart::Call(CallRequest {
                        call_id: format!("call_{done}"),
                        name: "log_read".into(),
                        arguments: "{}".into(),
                        validation: Some(Validation::Valid { arguments: json!({}) }),
                    })],
                    StopReason::ToolCalls,
                )),
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
