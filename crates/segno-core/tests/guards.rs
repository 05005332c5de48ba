//! Single cases that once went wrong, or would hurt most: gates, hostile values, limits at their ends.

use segno_core::*;
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

fn reply(parts: Vec<ReplyPart>, stop: StopReason) -> Outcome {
    Outcome::ModelReplied(ModelReply { parts, stop, input_tokens: 1, output_tokens: 1 })
}

fn call(name: &str) -> ReplyPart {
    ReplyPart::Call(CallRequest {
        call_id: "call_1".into(),
        name: name.into(),
        arguments: "{}".into(),
        verdict: Verdict::Valid { arguments: json!({}) },
    })
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| json!([inner]))
}

fn invalid() -> Outcome {
    Outcome::Failed(Failure::new(FailureCode::InvalidArguments, "`to` is missing"))
}

#[test]
fn an_in_doubt_gate_does_not_replace_an_approval() {
    let (_, mut state) = gated_pair();
    let before = state.clone();
    let id = state.pending()[1].operation.id;
    let gate = Gate::InDoubt { reason: "connection lost".into() };
    assert_eq!(state.resume(Event::gated(AT, id, gate)), Err(ResumeError::Gated { operation: id }));
    assert_eq!(state, before);
}

#[test]
fn the_same_gate_again_is_ignored() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[0].operation.id;
    let gate = Gate::InDoubt { reason: "connection lost".into() };
    state.resume(Event::gated(AT, id, gate.clone())).unwrap();
    let before = state.clone();
    state.resume(Event::gated(AT, id, gate)).unwrap();
    assert_eq!(state, before);
}

#[test]
fn an_answer_does_not_undo_an_outcome() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[1].operation.id;
    state.resume(Event::outcome(AT, id, invalid())).unwrap();
    let before = state.clone();
    for answer in
        [Answer::Approved { edited: None, reason: None, by: None }, Answer::Denied { reason: None, by: None }]
    {
        let taken = state.resume(Event::answer(AT, id, answer));
        assert_eq!(taken, Err(ResumeError::Conflict { operation: id }));
        assert_eq!(state, before);
    }
}

#[test]
fn an_operation_in_doubt_has_no_invalid_arguments() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[0].operation.id;
    state.resume(Event::gated(AT, id, Gate::InDoubt { reason: "connection lost".into() })).unwrap();
    assert_eq!(state.resume(Event::outcome(AT, id, invalid())), Err(ResumeError::Gated { operation: id }));
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
    state.resume(Event::answer(AT, id, Answer::Done { result: Some(nested(500)), by: None })).unwrap();
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
    *with = segno_expr::ValueTemplate::parse(&wrapped).unwrap();
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
        let answer = Answer::Done { result, by: None };
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
fn an_approved_call_that_is_then_in_doubt_starts_again_without_a_second_approval() {
    let (config, mut state) = gated_pair();
    let [first, second] = [0, 1].map(|index| state.pending()[index].operation.id);
    let returned = Outcome::ToolReturned(ToolReturn::structured(json!("sent")));
    state.resume(Event::outcome(AT, first, returned.clone())).unwrap();
    state
        .resume(Event::answer(AT, second, Answer::Approved { edited: None, reason: None, by: None }))
        .unwrap();
    state.resume(Event::gated(AT, second, Gate::InDoubt { reason: "connection lost".into() })).unwrap();
    assert!(matches!(execute_agent_step(&config, state.clone()), Ok(AgentAction::RequestApproval { .. })));
    state.resume(Event::answer(AT, second, Answer::NotDone { by: None })).unwrap();
    assert!(matches!(execute_agent_step(&config, state.clone()), Ok(AgentAction::RequestToolCall { .. })));
    state.resume(Event::outcome(AT, second, returned)).unwrap();
    assert_eq!(end(&step(&config, state)).answer.as_deref(), Some("sent sent"));
}

#[test]
fn a_state_of_a_later_release_is_refused_clearly() {
    let mut document = serde_json::to_value(Envelope::new(start())).unwrap();
    document["version"] = json!(2);
    let error = serde_json::from_value::<Envelope>(document).unwrap().open().unwrap_err();
    assert!(
        error.to_string().starts_with("the stored state has version 2, and this release reads 1"),
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
