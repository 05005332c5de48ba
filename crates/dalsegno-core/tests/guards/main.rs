//! Single cases that once went wrong, or would hurt most: gates, hostile values, limits at their ends.

mod bounds;
mod files;
mod gates;
mod origins;
mod rules;

use dalsegno_core::*;
use serde_json::{Value, json};

const AT: Timestamp = Timestamp::from_millis(5);

/// An agent with the tools `risk.score` and `mail.send`; the second one needs approval.
fn agent(mind: Mind) -> AgentConfig {
    let mut config = AgentConfig::new("agent".parse().expect("a name"), mind);
    let tool = Tool::new("does something".into(), json!({"type": "object"}));
    config.tools.tools.insert("risk.score".parse().expect("a tool name"), tool.clone());
    config.tools.tools.insert("mail.send".parse().expect("a tool name"), Tool { approve: true, ..tool });
    config
}

fn plan(steps: Value) -> AgentConfig {
    agent(Mind::Plan(serde_json::from_value(Value::from_iter([("steps", steps)])).expect("a plan")))
}

fn model() -> AgentConfig {
    let mind = json!({"model": {"name": "local"}, "prompt": "{{request.text}}"});
    agent(Mind::Model(serde_json::from_value(mind).expect("a mind")))
}

fn tool_step(tool: &str) -> Value {
    json!({"action": {"operation": {"id": "a", "call": {"tool": {"tool": tool, "with": {}}}}}})
}

/// Two tools at the same time, the second one at its gate.
fn gated_pair() -> (AgentConfig, AgentState) {
    let branch =
        |id: &str, tool: &str| json!({"operation": {"id": id, "call": {"tool": {"tool": tool, "with": {}}}}});
    let config = plan(json!([
        {"action": {"parallel": [branch("a", "risk.score"), branch("b", "mail.send")]}},
        {"action": {"respond": "{{steps.a}} {{steps.b}}"}},
    ]));
    let state = step(&config, start());
    (config, state)
}

fn start() -> AgentState {
    AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("go"), Timestamp::from_millis(0))
}

fn step(config: &AgentConfig, state: AgentState) -> AgentState {
    execute_agent_step(config, state).expect("a state of this configuration").into_state()
}

/// Steps, resolves the first operation that is pending, and steps again.
fn through(config: &AgentConfig, outcome: Outcome) -> AgentState {
    let mut state = step(config, start());
    let id = state.pending()[0].operation.id;
    state.resume(Event::outcome(AT, id, outcome)).expect("an outcome of this state");
    step(config, state)
}

fn end(state: &AgentState) -> &AgentResponse {
    match state.phase() {
        Phase::Ended(response) => response,
        phase => panic!("the run goes on: {phase:?}"),
    }
}

/// A reply whose calls have ids of their own.
fn reply(mut parts: Vec<ReplyPart>, stop: StopReason) -> Outcome {
    for (index, part) in parts.iter_mut().enumerate() {
        if let ReplyPart::Call(call) = part {
            call.call_id = format!("call_{}", index + 1);
        }
    }
    Outcome::ModelReplied(ModelReply { input_tokens: 1, output_tokens: 1, ..ModelReply::new(parts, stop) })
}

fn call(name: &str) -> ReplyPart {
    ReplyPart::Call(CallRequest {
        call_id: "call_1".into(),
        name: name.into(),
        arguments: "{}".into(),
        validation: Some(Validation::Valid { arguments: json!({}) }),
    })
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| json!([inner]))
}

fn invalid() -> Outcome {
    Outcome::Failed(Failure::new(FailureCode::InvalidArguments, "`to` is missing"))
}

#[test]
fn a_result_nested_too_deeply_is_a_failure_that_reads_back() {
    let config = plan(json!([tool_step("risk.score"), {"action": {"respond": "done"}}]));
    let state = through(&config, Outcome::ToolReturned(ToolReturn::structured(nested(500))));
    let error = end(&state).error.clone().unwrap();
    assert_eq!(error.code, RunErrorCode::ToolFailed);
    assert!(error.message.contains("nested more than 96 deep"), "{}", error.message);

    let mut waiting = step(&config, start());
    let id = waiting.pending()[0].operation.id;
    let outcome = Outcome::ToolReturned(ToolReturn::structured(nested(500)));
    waiting.resume(Event::outcome(AT, id, outcome.clone())).unwrap();
    let json = serde_json::to_string(&waiting).unwrap();
    assert_eq!(serde_json::from_str::<AgentState>(&json).unwrap(), waiting);
    assert_eq!(waiting.resume(Event::outcome(AT, id, outcome)), Ok(()), "the same again is ignored");
}

#[test]
fn the_word_that_it_was_done_brings_no_deeper_result_than_a_tool() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[0].operation.id;
    state.resume(Event::gated(AT, id, Gate::InDoubt { reason: "connection lost".into() })).unwrap();
    state
        .resume(Event::answer(AT, id, Answer::Done { result: Some(nested(500)), error: None, by: None }))
        .unwrap();
    let outcome = state.pending()[0].outcome.as_ref();
    assert!(matches!(outcome, Some(Outcome::Failed(failure)) if failure.code == FailureCode::LimitExceeded));
}

#[test]
fn text_that_is_deeply_nested_json_stays_text() {
    let config = plan(json!([tool_step("risk.score"), {"action": {"respond": "done"}}]));
    let text = "[".repeat(120) + &"]".repeat(120);
    let state =
        through(&config, Outcome::ToolReturned(ToolReturn { text: text.clone(), ..ToolReturn::default() }));
    assert_eq!(state.results()["a"], json!(text));
    let text = "[".repeat(90) + &"]".repeat(90);
    let state = through(&config, Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() }));
    assert!(state.results()["a"].is_array());
}

#[test]
fn arguments_nested_too_deeply_end_the_run() {
    let deep = nested(90);
    let mut config = plan(json!([tool_step("risk.score"), tool_step("risk.score")]));
    let Mind::Plan(plan) = &mut config.mind else { panic!("a plan") };
    let StepAction::Operation(PlanOperation { call: PlanCall::Tool { with, .. }, .. }) =
        &mut plan.steps[1].action
    else {
        panic!("a tool")
    };
    let wrapped = (0..10).fold(json!("{{steps.a}}"), |inner, _| json!([inner]));
    *with = dalsegno_expr::ValueTemplate::parse(&wrapped).unwrap();
    let state = through(&config, Outcome::ToolReturned(ToolReturn::structured(deep)));
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::EvaluationFailed));
}

#[test]
fn a_score_that_is_no_number_is_a_failure() {
    let search = json!({"memory_search": {"query": "disk", "limit": 3, "min_score": 0.0}});
    let config = plan(json!([{"action": {"operation": {"id": "a", "call": search}}}]));
    for score in [f64::NAN, f64::INFINITY] {
        let hit = MemoryHit {
            entity: "disk".into(),
            entity_type: "incident".into(),
            text: "full".into(),
            score,
            metadata: Value::Null,
        };
        let state = through(&config, Outcome::MemoryFound(vec![hit]));
        assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::MemoryFailed));
    }
}

#[test]
fn a_structured_null_is_not_the_same_as_no_structure() {
    let nothing = ToolReturn::default();
    let null = ToolReturn::structured(Value::Null);
    for returned in [nothing, null.clone()] {
        let bytes = rmp_serde::to_vec_named(&returned).unwrap();
        assert_eq!(rmp_serde::from_slice::<ToolReturn>(&bytes).unwrap(), returned);
        let text = serde_json::to_string(&returned).unwrap();
        assert_eq!(serde_json::from_str::<ToolReturn>(&text).unwrap(), returned);
    }
    for result in [None, Some(Value::Null)] {
        let answer = Answer::Done { result, error: None, by: None };
        let bytes = rmp_serde::to_vec_named(&answer).unwrap();
        assert_eq!(rmp_serde::from_slice::<Answer>(&bytes).unwrap(), answer);
    }
    let config = plan(json!([tool_step("risk.score")]));
    assert_eq!(through(&config, Outcome::ToolReturned(null)).results(), &json!({"a": null}));
}

#[test]
fn what_a_model_reads_does_not_depend_on_the_order_of_keys() {
    let config = model();
    let read = |text: &str| {
        let mut state = through(&config, reply(vec![call("risk__score")], StopReason::ToolCalls));
        let id = state.pending()[0].operation.id;
        let value: Value = serde_json::from_str(text).unwrap();
        state.resume(Event::outcome(AT, id, Outcome::ToolReturned(ToolReturn::structured(value)))).unwrap();
        step(&config, state).transcript().chain()
    };
    assert_eq!(read(r#"{"b": 1, "a": {"d": 2, "c": 3}}"#), read(r#"{"a": {"c": 3, "d": 2}, "b": 1}"#));
}

#[test]
fn counters_at_their_end_stay_there() {
    let config = AgentConfig {
        limits: Limits { on_exceeded: OnExceeded::Answer, max_tool_calls: u64::MAX, ..Limits::default() },
        ..model()
    };
    let mut document = serde_json::to_value(start()).unwrap();
    document["phase"] = json!("think");
    document["step"] = json!(u64::MAX);
    document["usage"] = json!({"model_calls": u64::MAX, "tool_calls": u64::MAX});
    let mut state = step(&config, serde_json::from_value(document).unwrap());
    assert_eq!(state.step(), u64::MAX);
    let id = state.pending()[0].operation.id;
    state
        .resume(Event::outcome(AT, id, reply(vec![ReplyPart::Text("enough".into())], StopReason::End)))
        .unwrap();
    assert_eq!(end(&step(&config, state)).usage.model_calls, u64::MAX);
}

#[test]
fn recall_is_a_step_like_any_other() {
    let mut config = AgentConfig {
        limits: Limits { max_steps: 0, on_exceeded: OnExceeded::Answer, ..Limits::default() },
        ..model()
    };
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.recall = Some(serde_json::from_value(json!({"query": "x", "limit": 1, "min_score": 0.0})).unwrap());
    let state = step(&config, start());
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::LimitExceeded));
}

#[test]
fn what_is_both_allowed_and_forbidden_is_forbidden() {
    let mut config = model();
    config.tools.forbidden.insert("risk.score".parse().unwrap());
    for name in ["risk.score", "risk__score"] {
        let state = through(&config, reply(vec![call(name)], StopReason::ToolCalls));
        assert!(matches!(state.pending()[0].operation.request, Request::ModelCompletion(_)));
        let Some(Entry::ToolResult { content, .. }) = state.transcript().iter().last() else {
            panic!("a result")
        };
        assert!(content.contains("not_permitted"), "{content}");
    }
    let mut config = plan(json!([tool_step("risk.score")]));
    config.tools.forbidden.insert("risk.score".parse().unwrap());
    assert_eq!(end(&step(&config, start())).status, Status::Failed);
}

#[test]
fn a_tool_is_found_by_its_own_name_first() {
    let mut config = model();
    let tool = config.tools.tools.values().next().unwrap().clone();
    for name in ["a.b", "a__b"] {
        config.tools.tools.insert(name.parse().unwrap(), tool.clone());
    }
    assert_eq!(config.tools.find("a__b").map(|(name, _)| name.as_str()), Some("a__b"));
    assert_eq!(config.tools.find("a.b").map(|(name, _)| name.as_str()), Some("a.b"));
}

#[test]
fn the_calls_of_a_withheld_reply_are_not_performed() {
    let state = through(&model(), reply(vec![call("risk__score")], StopReason::Refusal));
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::ModelFailed));
}

#[test]
fn a_state_of_a_later_release_is_refused_clearly() {
    let mut document = serde_json::to_value(Envelope::new(start())).unwrap();
    document["version"] = json!(3);
    let error = serde_json::from_value::<Envelope>(document).unwrap().open().unwrap_err();
    assert!(
        error.to_string().starts_with("the stored state has version 3, and this release reads 2"),
        "{error}"
    );
}

#[test]
fn a_state_is_stepped_by_its_own_kind_of_configuration() {
    let planned = step(&plan(json!([tool_step("risk.score")])), start());
    let mut ready = planned.clone();
    let id = planned.pending()[0].operation.id;
    ready.resume(Event::outcome(AT, id, invalid())).unwrap();
    assert_eq!(
        execute_agent_step(&model(), ready.clone()),
        Err(ExecutionError::WrongConfig { expected: "a plan" })
    );
    assert!(matches!(execute_agent_step(&plan(json!([])), ready), Err(ExecutionError::WrongConfig { .. })));
    let later = AgentConfig { semantics: SEMANTICS + 1, ..model() };
    assert_eq!(
        execute_agent_step(&later, start()),
        Err(ExecutionError::UnknownSemantics { found: SEMANTICS + 1 })
    );
}

/// A model-driven agent with instructions.
fn instructed(instructions: &str) -> AgentConfig {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.instructions = Some(instructions.parse().expect("a template"));
    config
}

fn says(text: &str) -> Outcome {
    reply(vec![ReplyPart::Text(text.into())], StopReason::End)
}

/// Resolves the operation that a state waits for, and steps.
fn answered(config: &AgentConfig, mut state: AgentState, outcome: Outcome) -> AgentState {
    let id = state.pending()[0].operation.id;
    state.resume(Event::outcome(AT, id, outcome)).expect("an outcome of this state");
    step(config, state)
}

/// What the model of a state that waits for it is sent, entry by entry.
fn sent(config: &AgentConfig, state: &AgentState) -> Vec<String> {
    let reading = state.reading(config, completion(state)).expect("a completion of this configuration");
    reading.transcript.iter().map(|entry| serde_json::to_string(entry).expect("JSON")).collect()
}

fn completion(state: &AgentState) -> &ModelCompletion {
    let Request::ModelCompletion(completion) = &state.pending()[0].operation.request else {
        panic!("a completion")
    };
    completion
}

/// The next run of a session.
fn next(predecessor: &AgentState, text: &str) -> AgentState {
    let run = RunId::from_bytes([8; 16]);
    AgentState::start(run, AgentRequest::text(text), AT).following(predecessor, false)
}

#[test]
fn the_next_run_of_a_session_reads_on_where_the_last_one_stopped() {
    let config = instructed("be brief");
    let first = step(&config, start());
    let before = sent(&config, &first);
    let first = answered(&config, first, says("done"));
    let second = step(&config, next(&first, "and now?"));
    let after = sent(&config, &second);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()..].len(), 2, "the answer and the next question: {after:?}");
    assert_eq!(completion(&second).new_from, before.len() as u64);
    assert!(after[3].contains("and now?"));
}

#[test]
fn with_other_instructions_or_tools_the_transcript_of_a_session_begins_anew() {
    let config = instructed("be brief");
    let first = through(&config, says("done"));
    let mut fewer_tools = config.clone();
    fewer_tools.tools.tools.pop_first();
    for (other, instructions) in [(instructed("be polite"), "be polite"), (fewer_tools, "be brief")] {
        let second = step(&other, next(&first, "and now?"));
        let entries: Vec<&Entry> = second.transcript().iter().collect();
        assert_eq!(entries.len(), 4, "{entries:?}");
        assert_eq!(entries[0], &Entry::Instructions(instructions.into()));
        assert_eq!(entries[1], &Entry::User("go".into()));
        assert!(matches!(entries[2], Entry::Assistant(_)));
        assert_eq!(entries[3], &Entry::User("and now?".into()));
        assert_eq!(completion(&second).new_from, 0);
        assert_ne!(completion(&second).chain, completion(&step(&config, next(&first, "and now?"))).chain);
    }
}

#[test]
fn calls_that_never_had_a_result_have_one_in_the_next_run() {
    let config = model();
    // Cancelled while a call is on its way.
    let mut cancelled = through(&config, reply(vec![call("risk__score")], StopReason::ToolCalls));
    cancelled.resume(Event::signal(AT, Signal::Cancel)).unwrap();
    let cancelled = step(&config, cancelled);
    // Calls in a last answer, where tools are off.
    let limits = Limits { max_steps: 0, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    let last = AgentConfig { limits, ..model() };
    let last = through(&last, reply(vec![call("risk__score")], StopReason::ToolCalls));
    // Calls of a reply that went beyond the tokens.
    let limits = Limits { max_tokens: Some(10_000), ..Limits::default() };
    let overrun = AgentConfig { limits, ..model() };
    let expensive = ModelReply::new(vec![call("risk__score")], StopReason::ToolCalls);
    let expensive = ModelReply { input_tokens: 20_000, ..expensive };
    let overrun = through(&overrun, Outcome::ModelReplied(expensive));
    for before in [cancelled, last, overrun] {
        assert_eq!(end(&before).answer, None);
        let second = step(&config, next(&before, "and now?"));
        let entries: Vec<&Entry> = second.transcript().iter().collect();
        let [
            Entry::User(_),
            Entry::Assistant(_),
            Entry::ToolResult { call_id, content, is_error, .. },
            Entry::User(_),
        ] = entries.as_slice()
        else {
            panic!("{entries:?}")
        };
        assert_eq!((call_id.as_str(), *is_error), ("call_1", true));
        assert_eq!(content, "the run ended before this call had a result");
    }
}

#[test]
fn what_an_earlier_run_said_is_no_answer_of_this_one() {
    let config = model();
    let first = through(&config, says("the old answer"));
    let second = step(&config, next(&first, "and now?"));
    let failed = Outcome::Failed(Failure::new(FailureCode::Unavailable, "connection refused"));
    assert_eq!(end(&answered(&config, second, failed)).answer, None);
    let stopped = AgentConfig { limits: Limits { max_steps: 0, ..Limits::default() }, ..model() };
    assert_eq!(end(&step(&stopped, next(&first, "and now?"))).answer, None);
}

/// Says whether the last step has cut what the model is sent.
fn is_cut(state: &AgentState) -> bool {
    state.decisions().iter().any(|decision| matches!(decision, Decision::Compact { .. }))
}

#[test]
fn a_call_that_no_shell_checked_is_refused() {
    let config = instructed("be brief");
    let ReplyPart::Call(checked) = call("risk__score") else { panic!("a call") };
    let unchecked = ReplyPart::Call(CallRequest { validation: None, ..checked });
    let state = through(&config, reply(vec![unchecked], StopReason::ToolCalls));
    assert!(sent(&config, &state).iter().any(|entry| entry.contains("the arguments were not checked")));
    assert!(
        state
            .pending()
            .iter()
            .all(|pending| matches!(pending.operation.request, Request::ModelCompletion(_)))
    );
}

#[test]
fn a_transcript_keeps_no_checked_arguments_of_calls_that_have_their_results() {
    let mut config = instructed("be brief");
    config.limits = Limits { max_steps: 1_000, max_tool_calls: 1_000, repeat_limit: 0, ..Limits::default() };
    let mut state = step(&config, start());
    // The entries are kept in chunks: replies stand at the end of one as well.
    for turn in 0..99 {
        let calls = if turn % 7 == 0 { vec![call("risk__score"); 2] } else { vec![call("risk__score")] };
        state = answered(&config, state, reply(calls, StopReason::ToolCalls));
        let checked = |state: &AgentState| {
            let replies = state.transcript().iter().filter_map(|entry| match entry {
                Entry::Assistant(reply) => Some(&reply.parts),
                _ => None,
            });
            let calls = replies
                .flatten()
                .filter(|part| matches!(part, ReplyPart::Call(call) if call.validation.is_some()));
            calls.count()
        };
        assert_eq!(checked(&state), state.pending().len(), "while they are performed, and no others");
        let ids: Vec<OperationId> = state.pending().iter().map(|pending| pending.operation.id).collect();
        for id in ids {
            let text = turn.to_string();
            let returned = Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() });
            state.resume(Event::outcome(AT, id, returned)).unwrap();
        }
        state = step(&config, state);
        assert_eq!(checked(&state), 0);
    }
}

#[test]
fn a_reading_has_the_settings_of_the_model_that_replies() {
    let mut config = model();
    config.limits.max_tokens = Some(3_000);
    config.limits.on_exceeded = OnExceeded::Answer;
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.fallback = vec![ModelSettings { max_output_tokens: Some(500), ..ModelSettings::named("second") }];
    let state = step(&config, start());
    let reading = state.reading(&config, completion(&state)).unwrap();
    // Without a bound of its own a reply may take 4,096 tokens, more than there are.
    assert_eq!(reading.settings.name, "local");
    assert!(reading.settings.max_output_tokens.is_some_and(|most| most < 3_000), "{:?}", reading.settings);
    let failed = Outcome::Failed(Failure::new(FailureCode::Unavailable, "connection refused"));
    let state = answered(&config, state, failed);
    let reading = state.reading(&config, completion(&state)).unwrap();
    assert_eq!((reading.settings.name.as_str(), reading.settings.max_output_tokens), ("second", Some(500)));
    assert!(matches!(
        state.reading(&plan(json!([])), completion(&state)),
        Err(ExecutionError::WrongConfig { .. })
    ));
}

#[test]
fn a_change_to_a_model_that_is_not_asked_changes_no_request() {
    let digest = |fallback: &str, fails: bool| {
        let mut config = model();
        let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
        mind.fallback = vec![ModelSettings::named(fallback)];
        let failed = Outcome::Failed(Failure::new(FailureCode::Unavailable, "connection refused"));
        let state = step(&config, start());
        let state = if fails { answered(&config, state, failed) } else { state };
        state.pending()[0].operation.digest
    };
    assert_eq!(digest("second", false), digest("third", false));
    assert_ne!(digest("second", true), digest("third", true));
}

#[test]
fn agents_cannot_hand_over_to_each_other_for_ever() {
    let mut config = model();
    let agent: AgentName = "clerk".parse().unwrap();
    let budget = Budget { max_tool_calls: 9, max_tokens: None, max_cost_nano_usd: None };
    config.agents.insert(agent.clone(), Callee { budget });
    let tool = Tool { kind: ToolKind::Handoff { agent }, ..Tool::new("hands over".into(), json!({})) };
    config.tools.tools.insert("handoff.clerk".parse().unwrap(), tool);
    let mut state = start();
    for hop in 0..=Handoff::MAX_HOPS {
        assert_eq!(state.hops(), hop);
        state = answered(
            &config,
            step(&config, state),
            reply(vec![call("handoff__clerk")], StopReason::ToolCalls),
        );
        if let Phase::HandedOff(handoff) = state.phase() {
            let request = handoff.request.clone();
            state = AgentState::start(RunId::from_bytes([9; 16]), request, AT).following(&state, true);
        }
    }
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::LimitExceeded));
    assert_eq!(next(&state, "again").hops(), 0, "a person's next message begins anew");
}

#[test]
fn the_next_agent_reads_the_users_own_request_and_the_message_beside_it() {
    let mut config = model();
    let agent: AgentName = "clerk".parse().unwrap();
    let budget = Budget { max_tool_calls: 9, max_tokens: None, max_cost_nano_usd: None };
    config.agents.insert(agent.clone(), Callee { budget });
    let tool = Tool { kind: ToolKind::Handoff { agent }, ..Tool::new("hands over".into(), json!({})) };
    config.tools.tools.insert("handoff.clerk".parse().unwrap(), tool);
    let arguments = json!({"message": "please file this"});
    let (call_id, name, written) = ("c".into(), "handoff__clerk".into(), arguments.to_string());
    let validation = Some(Validation::Valid { arguments });
    let call = ReplyPart::Call(CallRequest { call_id, name, arguments: written, validation });
    let state = answered(&config, step(&config, start()), reply(vec![call], StopReason::ToolCalls));
    let Phase::HandedOff(handoff) = state.phase() else { panic!("{:?}", state.phase()) };
    assert_eq!(handoff.request.text, start().request().text);
    let request = handoff.request.clone();
    let next = AgentState::start(RunId::from_bytes([9; 16]), request, AT).following(&state, true);
    let next = step(&config, next);
    let entries: Vec<_> = next.transcript().iter().collect();
    let [.., Entry::User(own), Entry::User(told)] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(own, &start().request().text);
    assert!(told.contains("please file this") && told.contains(config.name.as_str()), "{told}");
}

#[test]
fn sizes_and_prices_at_their_end_do_no_harm() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.price = Some(Price::new(u64::MAX, u64::MAX));
    mind.context = Some(ContextSettings { max_tokens: u64::MAX, compact: Compact::Summarise });
    config.limits = Limits { max_cost_nano_usd: Some(u64::MAX), repeat_limit: u32::MAX, ..Limits::default() };
    let file = Attachment {
        name: "huge".into(),
        media_type: "text/plain".into(),
        digest: digest_json(&json!(null)),
        bytes: u64::MAX,
    };
    let request = AgentRequest { attachments: vec![file; 4], ..AgentRequest::text("go") };
    let state = step(&config, AgentState::start(RunId::from_bytes([7; 16]), request, AT));
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::LimitExceeded));
    config.limits.max_cost_nano_usd = None;
    let huge = ModelReply::new(vec![call("risk__score")], StopReason::ToolCalls);
    let huge =
        ModelReply { input_tokens: u64::MAX, output_tokens: u64::MAX, lost_attempts: u32::MAX, ..huge };
    let state = through(&config, Outcome::ModelReplied(huge));
    assert_eq!(state.usage().cost_nano_usd, u64::MAX);
}

#[test]
fn identical_calls_of_one_reply_are_warned_about_before_they_end_the_run() {
    let config = model();
    let state = through(&config, reply(vec![call("never_heard"); 9], StopReason::ToolCalls));
    let warned = state
        .transcript()
        .iter()
        .filter(|entry| matches!(entry, Entry::ToolResult { content, .. } if content.contains("[Warning:")));
    assert!(warned.count() >= 1);
    let state = answered(&config, state, reply(vec![call("never_heard")], StopReason::ToolCalls));
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::CycleDetected));
}

#[test]
fn a_call_whose_result_changes_is_no_repetition() {
    let config = model();
    let mut state = step(&config, start());
    for turn in 0..20 {
        state = answered(&config, state, reply(vec![call("risk__score")], StopReason::ToolCalls));
        let text = format!("{turn} of 20 are done");
        state = answered(&config, state, Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() }));
    }
    assert!(!state.is_over());
    let off = AgentConfig { limits: Limits { repeat_limit: 0, ..Limits::default() }, ..model() };
    let mut state = step(&off, start());
    for _ in 0..20 {
        state = answered(&off, state, reply(vec![call("never_heard")], StopReason::ToolCalls));
    }
    assert!(!state.is_over());
}

fn results(state: &AgentState) -> Vec<&str> {
    let results = state.transcript().iter().filter_map(|entry| match entry {
        Entry::ToolResult { content, .. } => Some(content.as_str()),
        _ => None,
    });
    results.collect()
}

/// A model that called `risk.score` twice, with the first result there.
fn half_done(config: &AgentConfig) -> AgentState {
    let calls = vec![call("risk.score"), call("risk.score")];
    let mut state = through(config, reply(calls, StopReason::ToolCalls));
    let first = state.pending()[0].operation.id;
    let outcome = Outcome::ToolReturned(ToolReturn::structured(json!("sent")));
    state.resume(Event::outcome(AT, first, outcome)).expect("the first outcome");
    state
}

#[test]
fn what_has_come_when_a_run_is_cancelled_stays_in_its_transcript() {
    let config = model();
    let mut state = half_done(&config);
    state.resume(Event::signal(AT, Signal::Cancel)).expect("a signal");
    let state = step(&config, state);
    assert_eq!(end(&state).status, Status::Cancelled);
    assert_eq!(results(&state), [r#""sent""#]);
}

#[test]
fn a_result_stays_in_the_transcript_when_its_sibling_ends_the_run() {
    let mut config = model();
    let name: ToolName = "risk.score".parse().expect("a tool name");
    config.tools.tools.get_mut(&name).expect("the tool").on_failure = Some(OnFailure::Fail);
    let mut state = half_done(&config);
    let second = state.pending()[1].operation.id;
    let failure = Failure::new(FailureCode::ToolFailed, "no");
    state.resume(Event::outcome(AT, second, Outcome::Failed(failure))).expect("the second outcome");
    let state = step(&config, state);
    assert_eq!(end(&state).error.as_ref().map(|error| error.code), Some(RunErrorCode::ToolFailed));
    assert_eq!(results(&state).len(), 2);
    assert_eq!(results(&state)[0], r#""sent""#);
}

#[test]
fn a_reply_that_has_arrived_is_counted_when_the_run_is_cancelled() {
    let config = model();
    let mut state = step(&config, start());
    let asked = state.pending()[0].operation.id;
    let said = reply(vec![ReplyPart::Text("almost".into())], StopReason::End);
    state.resume(Event::outcome(AT, asked, said)).expect("the reply");
    state.resume(Event::signal(AT, Signal::Cancel)).expect("a signal");
    let state = step(&config, state);
    assert_eq!(end(&state).usage.tokens(), 2);
    assert_eq!(end(&state).answer.as_deref(), Some("almost"));
}

#[test]
fn a_reply_with_too_many_calls_is_cut() {
    let config = model();
    let state = through(&config, reply(vec![call("nobody.knows"); 5_000], StopReason::ToolCalls));
    let told = results(&state);
    assert_eq!(told.len(), 5_000, "every call has its result");
    assert!(told[127].contains("tool_not_found") && told[128].contains("limit_exceeded"));
    assert!(state.decisions().len() < 200);
}

#[test]
fn names_count_towards_the_size_of_an_outcome() {
    let config = model();
    let state = through(&config, reply(vec![call(&"x".repeat(9 << 20))], StopReason::ToolCalls));
    let error = end(&state).error.as_ref().expect("the reply is too large");
    assert!(error.message.contains("limit_exceeded"), "{error:?}");
}
