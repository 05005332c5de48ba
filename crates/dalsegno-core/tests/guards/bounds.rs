//! What a run may use and hold: shares of retries and child runs, sizes, prices; and what must not get lost.

use dalsegno_core::*;
use serde_json::{Value, json};

use super::*;

/// A plan whose one step does all of this at the same time.
fn at_once(calls: &[Value]) -> AgentConfig {
    let branches = calls.iter().map(|call| json!({"operation": {"call": call}}));
    let mut config = plan(json!([{"action": {"parallel": branches.collect::<Vec<_>>()}}]));
    let budget = Budget { max_tool_calls: 64, max_tokens: None, max_cost_nano_usd: None };
    config.agents.insert("scout".parse().expect("a name"), Callee { budget });
    let budget = Budget { max_tokens: Some(1_000), ..budget };
    config.agents.insert("clerk".parse().expect("a name"), Callee { budget });
    config
}

fn asks_model() -> Value {
    let model = json!({"name": "local", "temperature": null, "max_output_tokens": 100});
    json!({"model": {"model": model, "instructions": null, "prompt": "hello", "schema": null}})
}

fn asks_agent(name: &str) -> Value {
    json!({"agent": {"agent": name}})
}

fn operations(state: &AgentState) -> Vec<&Operation> {
    state.pending().iter().map(|pending| &pending.operation).collect()
}

/// The attempts that each completion may have, with what one takes.
fn attempts(state: &AgentState) -> Vec<(u64, u64)> {
    let completions = operations(state).into_iter().filter_map(|operation| match &operation.request {
        Request::ModelCompletion(completion) => {
            let Reserved { input_tokens, output_tokens } = completion.reserved;
            Some((u64::from(operation.terms.retries) + 1, input_tokens + output_tokens))
        }
        _ => None,
    });
    completions.collect()
}

fn budgets(state: &AgentState) -> Vec<Budget> {
    let calls = operations(state).into_iter().filter_map(|operation| match &operation.request {
        Request::AgentCall(call) => Some(call.budget),
        _ => None,
    });
    calls.collect()
}

fn error(state: &AgentState) -> &RunError {
    end(state).error.as_ref().expect("the run did not complete")
}

#[test]
fn attempts_of_a_completion_never_exceed_the_tokens() {
    for (max_tokens, expected) in [(None, 3), (Some(10_000), 3), (Some(2_500), 2), (Some(1_500), 1)] {
        let mut config = model();
        config.limits.max_tokens = max_tokens;
        let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
        mind.model.max_output_tokens = Some(1_000);
        let state = step(&config, start());
        let [(attempts, tokens)] = attempts(&state)[..] else { panic!("a completion") };
        assert_eq!(attempts, expected, "{max_tokens:?}");
        assert!(max_tokens.is_none_or(|most| attempts * tokens <= most));
    }
}

#[test]
fn attempts_of_a_completion_never_exceed_the_cost() {
    let mut config = model();
    config.limits.max_cost_nano_usd = Some(2_500_000);
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(1_000);
    mind.model.price = Some(Price::new(0, 1_000_000));
    assert_eq!(attempts(&step(&config, start()))[0].0, 2);
}

#[test]
fn siblings_have_their_first_attempts_before_any_has_a_second() {
    let mut config = at_once(&[asks_model(), asks_model(), asks_model()]);
    let unit = {
        config.limits.max_tokens = Some(1_000_000);
        attempts(&step(&config, start()))[0].1
    };
    config.limits.max_tokens = Some(unit * 6);
    let counts = |config| attempts(&step(config, start())).into_iter().map(|(count, _)| count).collect();
    let counts: Vec<u64> = counts(&config);
    assert_eq!(counts, [3, 2, 1]);
}

#[test]
fn children_of_one_step_have_a_fair_share() {
    let mut config = at_once(&[asks_agent("scout"), asks_agent("clerk"), asks_agent("scout")]);
    config.limits.max_tokens = Some(9_000);
    let tokens: Vec<_> = budgets(&step(&config, start())).iter().map(|budget| budget.max_tokens).collect();
    assert_eq!(tokens, [Some(4_000), Some(1_000), Some(4_000)]);
}

#[test]
fn children_that_a_model_starts_have_a_fair_share() {
    let mut config = model();
    let agent: AgentName = "scout".parse().unwrap();
    let budget = Budget { max_tool_calls: 64, max_tokens: None, max_cost_nano_usd: None };
    config.agents.insert(agent.clone(), Callee { budget });
    let tool = Tool { kind: ToolKind::Agent { agent }, ..Tool::new("looks".into(), json!({})) };
    config.tools.tools.insert("agents.scout".parse().unwrap(), tool);
    config.limits.max_tool_calls = 11;
    let arguments = json!({"text": "look"});
    let call = |call_id: &str| {
        let validation = Validation::Valid { arguments: arguments.clone() };
        let (call_id, name, arguments) = (call_id.into(), "agents.scout".into(), arguments.to_string());
        ReplyPart::Call(CallRequest { call_id, name, arguments, validation: Some(validation) })
    };
    let state = through(&config, reply(vec![call("a"), call("b")], StopReason::ToolCalls));
    let calls: Vec<u64> = budgets(&state).iter().map(|budget| budget.max_tool_calls).collect();
    assert_eq!(calls, [4, 5], "nine are left besides the two child runs");
}

#[test]
fn a_child_that_a_document_starts_may_use_what_its_own_call_leaves() {
    let mut config = at_once(&[json!({"tool": {"tool": "asks", "with": {}}})]);
    let document = json!({"name": "asks", "description": "Asks an agent.", "actions": [
        {"type": "tool", "name": "agents.scout", "arguments": {"text": "look"}}
    ]});
    let toolkit = dalsegno_tools::compile(&document).toolkit.expect("a sound document");
    let kind = ToolKind::Declarative { toolkit: "asks".into(), tool: "asks".into() };
    let tool = Tool { kind, class: EffectClass::Composite, ..Tool::new("asks".into(), json!({})) };
    config.tools.tools.insert("asks".parse().unwrap(), tool);
    config.toolkits.insert("asks".into(), ToolDocument::new(toolkit, serde_json::Map::new()));
    let kind = ToolKind::Agent { agent: "scout".parse().unwrap() };
    config
        .tools
        .tools
        .insert("agents.scout".parse().unwrap(), Tool { kind, ..Tool::new("looks".into(), json!({})) });
    config.limits.max_tool_calls = 5;
    let state = step(&config, step(&config, start()));
    let calls: Vec<u64> = budgets(&state).iter().map(|budget| budget.max_tool_calls).collect();
    assert_eq!(calls, [3], "three are left besides the document and the child run");
}

#[test]
fn child_runs_of_a_plan_are_tool_calls() {
    let config = at_once(&[asks_agent("scout"), asks_agent("scout")]);
    let state = step(&config, start());
    assert_eq!(state.usage().tool_calls, 2);
    assert_eq!(budgets(&state).iter().map(|budget| budget.max_tool_calls).sum::<u64>(), 62);
    let limits = Limits { max_tool_calls: 1, ..Limits::default() };
    let state = step(&AgentConfig { limits, ..config }, start());
    assert_eq!(error(&state).code, RunErrorCode::LimitExceeded);
    let list = json!([{"action": {"for_each": {"list": "[1, 2]", "concurrency": 1,
        "operation": {"call": asks_agent("scout")}}}}]);
    let config = AgentConfig { limits, agents: at_once(&[]).agents, ..plan(list) };
    assert_eq!(error(&step(&config, start())).code, RunErrorCode::LimitExceeded);
}

#[test]
fn outcomes_that_wait_for_their_siblings_are_bounded() {
    let mut config = plan(json!([{"action": {"for_each": {"list": "request.data", "concurrency": 1,
        "operation": {"call": {"tool": {"tool": "risk.score", "with": {}}}}}}}]));
    config.limits.max_tool_calls = 100;
    config.limits.max_state_bytes = 20_000;
    let request = AgentRequest { data: json!(vec![0; 100]), ..AgentRequest::text("go") };
    let mut state = step(&config, AgentState::start(RunId::from_bytes([7; 16]), request, AT));
    let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
    let bytes = |state: &AgentState| serde_json::to_string(state).unwrap().len();
    let before = bytes(&state);
    for id in &ids {
        let outcome = Outcome::ToolReturned(ToolReturn::structured(json!("x".repeat(1_000))));
        state.resume(Event::outcome(AT, *id, outcome.clone())).unwrap();
        state.resume(Event::outcome(AT, *id, outcome)).expect("the same again is ignored");
        assert!(bytes(&state) < before + 25_000, "{} bytes more", bytes(&state) - before);
        let read: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        assert_eq!(read, state);
    }
    let state = step(&config, state);
    assert_eq!(error(&state).code, RunErrorCode::LimitExceeded);
    assert!(error(&state).message.contains("limits.max_state"), "{}", error(&state).message);
}

#[test]
fn what_is_dropped_for_its_size_is_counted_all_the_same() {
    let mut config = at_once(&[asks_agent("scout"), asks_model()]);
    config.limits.max_state_bytes = 1_000;
    let mut state = step(&config, start());
    let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
    let returned = AgentReturn {
        run: RunId::from_bytes([9; 16]),
        status: Status::Completed,
        answer: Some("x".repeat(2_000)),
        output: None,
        error: None,
        usage: Usage { model_calls: 1, input_tokens: 40, ..Usage::default() },
        writes: Vec::new(),
    };
    state.resume(Event::outcome(AT, ids[0], Outcome::AgentReturned(returned))).unwrap();
    state.resume(Event::outcome(AT, ids[1], says("hello"))).unwrap();
    let state = step(&config, state);
    assert_eq!(error(&state).code, RunErrorCode::LimitExceeded);
    assert_eq!((end(&state).usage.model_calls, end(&state).usage.tokens()), (2, 42));
}

#[test]
fn a_schema_counts_towards_the_size_of_a_step() {
    let schema = json!({"description": "x".repeat(2_000)});
    let mut asks = asks_model();
    asks["model"]["schema"] = schema.clone();
    for call in [asks, json!({"ask": {"question": "which?", "schema": schema}})] {
        let mut config = at_once(&[call]);
        assert!(!step(&config, start()).is_over());
        config.limits.max_state_bytes = 1_000;
        assert_eq!(error(&step(&config, start())).code, RunErrorCode::LimitExceeded);
    }
}

#[test]
fn a_question_of_a_session_is_not_forgotten_by_a_compaction() {
    let mut config = instructed("be brief");
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.context = Some(ContextSettings { max_tokens: 600, compact: Compact::Drop });
    let first = through(&config, says("done"));
    let mut state = step(&config, next(&first, "which disk is it?"));
    let mut cuts = 0;
    for turn in 0..12 {
        let arguments = json!({ "turn": turn });
        let asks = CallRequest {
            call_id: format!("call_{turn}"),
            name: "risk__score".into(),
            arguments: arguments.to_string(),
            validation: Some(Validation::Valid { arguments }),
        };
        state = answered(&config, state, reply(vec![ReplyPart::Call(asks)], StopReason::ToolCalls));
        let text = format!("{turn} {}", "x".repeat(300));
        state = answered(&config, state, Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() }));
        cuts += usize::from(is_cut(&state));
        let sent = sent(&config, &state);
        assert_eq!(sent.iter().filter(|entry| entry.contains("which disk is it?")).count(), 1, "{sent:?}");
    }
    assert!(cuts > 1);
}

#[test]
fn files_of_a_session_are_not_forgotten_by_a_compaction() {
    let mut config = instructed("be brief");
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.context = Some(ContextSettings { max_tokens: 900, compact: Compact::Drop });
    let file = |name: &str| Attachment {
        name: name.into(),
        media_type: "text/plain".into(),
        digest: digest_json(&json!(name)),
        bytes: 300,
    };
    let asks = |before: &AgentState, name: &str| {
        let request = AgentRequest { attachments: vec![file(name)], ..AgentRequest::text("look at this") };
        step(&config, AgentState::start(RunId::from_bytes([8; 16]), request, AT).following(before, false))
    };
    let mut state = through(&config, says("done"));
    let mut cuts = 0;
    for name in ["first.log", "second.log"] {
        state = asks(&state, name);
        for turn in 0..8 {
            let arguments = json!({ "turn": turn });
            let call = CallRequest {
                call_id: format!("call_{turn}"),
                name: "risk__score".into(),
                arguments: arguments.to_string(),
                validation: Some(Validation::Valid { arguments }),
            };
            state = answered(&config, state, reply(vec![ReplyPart::Call(call)], StopReason::ToolCalls));
            let text = format!("{name} {turn} {}", "x".repeat(400));
            let returned = ToolReturn { text: text.replace(name, ""), ..ToolReturn::default() };
            state = answered(&config, state, Outcome::ToolReturned(returned));
            cuts += usize::from(is_cut(&state));
            let files = sent(&config, &state).iter().filter(|entry| entry.contains(name)).count();
            assert_eq!(files, 1, "{:?}", sent(&config, &state));
            let reading = state.reading(&config, completion(&state)).unwrap().transcript;
            assert!(reading.tokens() <= 900);
            assert_eq!(reading.tokens(), state.transcript().tokens());
            let read: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
            assert_eq!(read, state);
        }
        state = answered(&config, state, says("done"));
    }
    assert!(cuts > 2);
}

#[test]
fn of_two_calls_with_one_id_the_first_is_performed_and_each_has_a_result() {
    let twice = || {
        let reply = ModelReply::new(vec![call("risk__score"); 2], StopReason::ToolCalls);
        Outcome::ModelReplied(ModelReply { input_tokens: 1, output_tokens: 1, ..reply })
    };
    let config = model();
    let mut state = through(&config, twice());
    assert_eq!(operations(&state).len(), 1);
    let first = operations(&state)[0].id;
    let sent = Outcome::ToolReturned(ToolReturn::structured(json!("sent")));
    state.resume(Event::outcome(AT, first, sent)).unwrap();
    let state = step(&config, state);
    let [performed, refused] = results(&state)[..] else { panic!("{:?}", results(&state)) };
    assert!(performed == r#""sent""# && refused.contains("duplicate_call"), "{performed} {refused}");
    // Under the first rules both are performed, and each has a result in the next run.
    let config = AgentConfig { semantics: 1, ..model() };
    let mut state = through(&config, twice());
    assert_eq!(operations(&state).len(), 2);
    state.resume(Event::signal(AT, Signal::Cancel)).unwrap();
    let next = step(&config, next(&step(&config, state), "and now?"));
    assert_eq!(results(&next), ["the run ended before this call had a result"; 2]);
}

/// The request for a summary of more text than there is room for.
fn summary(max_tokens: u64) -> Operation {
    let mut config = instructed("be brief");
    config.limits = Limits { repeat_limit: 0, ..Limits::default() };
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(20);
    mind.context = Some(ContextSettings { max_tokens, compact: Compact::Summarise });
    let mut state = step(&config, start());
    for calls in [30, 1] {
        state = answered(&config, state, reply(vec![call("risk__score"); calls], StopReason::ToolCalls));
        let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
        for id in ids {
            let text = "x".repeat(if calls == 1 { 1_500 } else { 300 });
            let returned = Outcome::ToolReturned(ToolReturn { text, ..ToolReturn::default() });
            state.resume(Event::outcome(AT, id, returned)).expect("an outcome of this state");
        }
        state = step(&config, state);
    }
    assert!(matches!(completion(&state).purpose, Purpose::Summary { .. }), "{:?}", state.decisions());
    let completion = ModelCompletion { chain: Digest::default(), ..completion(&state).clone() };
    assert_eq!((completion.entries, completion.max_output_tokens), (36, Some(20)));
    state.pending()[0].operation.clone()
}

#[test]
fn a_summary_of_another_part_of_the_text_is_another_request() {
    // Settings, entries and the bound on the reply are the same; the budget decides how much of the text is read.
    assert_ne!(summary(1_500).digest, summary(1_650).digest);
    assert_eq!(summary(1_500).digest, summary(1_500).digest);
}

#[test]
fn only_a_question_waits_for_an_answer_to_one() {
    let (_, mut state) = gated_pair();
    let before = state.clone();
    let id = state.pending()[0].operation.id;
    let error = state.resume(Event::gated(AT, id, Gate::Input)).unwrap_err();
    assert_eq!(error, ResumeError::WrongGate { operation: id, expected: "tool `risk.score`".into() });
    assert_eq!(state, before);
}

#[test]
fn an_attempt_that_never_began_does_not_time_out() {
    let (_, mut state) = gated_pair();
    let id = state.pending()[1].operation.id;
    let failure = Outcome::Failed(Failure::new(FailureCode::Timeout, "expired"));
    assert_eq!(state.resume(Event::outcome(AT, id, failure)), Err(ResumeError::Gated { operation: id }));
    let answer = Answer::Denied { reason: Some("expired".into()), by: None };
    assert_eq!(state.resume(Event::answer(AT, id, answer)), Ok(()));
}

#[test]
fn a_schema_of_null_is_no_schema() {
    let mut config = at_once(&[asks_model(), json!({"ask": {"question": "which?", "schema": null}})]);
    let Mind::Plan(plan) = &mut config.mind else { panic!("a plan") };
    let StepAction::Parallel(branches) = &mut plan.steps[0].action else { panic!("branches") };
    for branch in branches {
        match &mut branch.operation.call {
            PlanCall::Model { schema, .. } => *schema = Some(Value::Null.into()),
            PlanCall::Ask { schema, .. } => *schema = Some(Value::Null),
            call => panic!("{call:?}"),
        }
    }
    let state = step(&config, start());
    let read: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(read, state);
}

#[test]
fn a_state_of_another_plan_loses_no_outcome_in_silence() {
    let branch = json!({"operation": {"call": {"tool": {"tool": "risk.score", "with": {}}}}});
    let two = plan(json!([{"action": {"parallel": [branch, branch]}}]));
    let each = plan(json!([{"action": {"for_each": {"list": "[1, 2]", "concurrency": 1,
        "operation": branch["operation"]}}}]));
    let one = plan(json!([{"action": {"operation": branch["operation"]}}]));
    for (begun, other) in [(&two, &each), (&each, &two), (&two, &one), (&each, &one)] {
        let mut state = step(begun, start());
        let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
        for id in ids {
            state.resume(Event::outcome(AT, id, invalid())).unwrap();
        }
        let stepped = execute_agent_step(other, state);
        assert!(matches!(stepped, Err(ExecutionError::WrongConfig { .. })), "{stepped:?}");
    }
}

#[test]
fn a_model_without_a_price_is_not_asked_where_the_cost_is_limited() {
    let mut unpriced = model();
    let mut step_of_plan = at_once(&[asks_model()]);
    for config in [&mut unpriced, &mut step_of_plan] {
        config.limits.max_cost_nano_usd = Some(1_000_000_000);
        let state = step(config, start());
        assert_eq!(error(&state).code, RunErrorCode::LimitExceeded);
        assert!(error(&state).message.contains("`local` has no price"), "{}", error(&state).message);
    }
    unpriced.limits.max_cost_nano_usd = None;
    let parent = Budget { max_tool_calls: 9, max_tokens: None, max_cost_nano_usd: Some(1_000_000_000) };
    assert_eq!(error(&step(&unpriced, start().within(parent))).code, RunErrorCode::LimitExceeded);
}

/// The tokens and the cost that a run has used.
fn used(state: &AgentState) -> (u64, u64, u64) {
    let Usage { input_tokens, output_tokens, cost_nano_usd, .. } = state.usage();
    (input_tokens, output_tokens, cost_nano_usd)
}

#[test]
fn a_reply_that_nobody_counted_takes_what_was_set_aside_for_it() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(100);
    mind.model.price = Some(Price::new(1_000_000, 2_000_000));
    let uncounted = |lost_attempts| {
        let reply = ModelReply::new(vec![ReplyPart::Text("hello".into())], StopReason::End);
        Outcome::ModelReplied(ModelReply { lost_attempts, ..reply })
    };
    assert_eq!(used(&through(&config, uncounted(0))), (0, 0, 0), "nothing has to hold");
    config.limits.max_tokens = Some(10_000);
    let Reserved { input_tokens, output_tokens } = completion(&step(&config, start())).reserved;
    assert!(input_tokens > 0 && output_tokens == 100);
    for attempts in [1, 2] {
        let state = through(&config, uncounted(attempts - 1));
        let attempts = u64::from(attempts);
        let cost = (input_tokens + 200) * 1_000 * attempts;
        assert_eq!(used(&state), (input_tokens * attempts, 100 * attempts, cost));
    }
    let counted = ModelReply { input_tokens: 7, ..ModelReply::new(Vec::new(), StopReason::Refusal) };
    assert_eq!(used(&through(&config, Outcome::ModelReplied(counted))).0, 7, "an empty reply is counted");
    assert_eq!(used(&through(&config, says("hello"))), (1, 1, 3_000));
}

#[test]
fn what_is_estimated_is_counted_and_marked() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(100);
    mind.model.price = Some(Price::new(1_000_000, 2_000_000));
    let estimated = |lost_attempts| {
        let reply = ModelReply::new(vec![ReplyPart::Text("hello".into())], StopReason::End);
        let reply = ModelReply { input_tokens: 7, output_tokens: 2, estimated: true, ..reply };
        Outcome::ModelReplied(ModelReply { lost_attempts, ..reply })
    };
    let marked = |state: &AgentState| {
        let usage = state.usage();
        (usage.estimated_tokens, usage.estimated_cost_nano_usd)
    };
    let state = through(&config, estimated(0));
    assert_eq!((used(&state), marked(&state)), ((7, 2, 11_000), (9, 11_000)));
    // Where a limit must hold, the estimate of one reply is not trusted: it takes what was set aside for it.
    config.limits.max_tokens = Some(10_000);
    let Reserved { input_tokens, .. } = completion(&step(&config, start())).reserved;
    let state = through(&config, estimated(1));
    let each = (input_tokens + 200) * 1_000;
    assert_eq!(used(&state), (input_tokens * 2, 200, each * 2));
    assert_eq!(marked(&state), (input_tokens + 100, each), "the lost attempt was never a reply");
}

#[test]
fn a_limit_of_the_cost_leaves_room_for_a_write_of_the_cache() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(10);
    let rates = Rates { cache_write_1h: Some(2_000_000), ..Price::new(1_000_000, 0).rates };
    mind.model.price = Some(Price { rates, ..Price::default() });
    mind.model.retries = 0;
    config.limits.max_cost_nano_usd = Some(u64::MAX);
    let Reserved { input_tokens, .. } = completion(&step(&config, start())).reserved;
    let asks = |most| {
        let mut config = config.clone();
        config.limits.max_cost_nano_usd = Some(most);
        matches!(step(&config, start()).pending(), [_])
    };
    assert!(asks(input_tokens * 2_000) && !asks(input_tokens * 2_000 - 1));
}

#[test]
fn cached_and_written_tokens_are_counted_at_their_rates() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    let rates = Rates {
        cached_input: Some(100_000),
        cache_write: Some(1_250_000),
        ..Price::new(1_000_000, 5_000_000).rates
    };
    mind.model.price = Some(Price { rates, ..Price::default() });
    let details = TokenDetails {
        cached_input_tokens: 900,
        cache_write_tokens: 50,
        cache_write_1h_tokens: 0,
        reasoning_tokens: 4,
        web_searches: 0,
    };
    let reply = ModelReply::new(vec![ReplyPart::Text("hello".into())], StopReason::End);
    let reply = ModelReply { input_tokens: 1_000, output_tokens: 10, details, ..reply };
    let state = through(&config, Outcome::ModelReplied(reply));
    assert_eq!(used(&state), (1_000, 10, 50_000 + 90_000 + 62_500 + 50_000));
    assert_eq!(state.usage().details, details);
}

#[test]
fn a_call_that_was_certainly_never_worked_on_costs_nothing() {
    let mut config = model();
    config.limits.max_tokens = Some(10_000);
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    mind.model.max_output_tokens = Some(100);
    let Reserved { input_tokens, .. } = completion(&step(&config, start())).reserved;
    let refused = |lost_attempts, unsent| {
        let failure = Failure::new(FailureCode::Protocol, "401");
        used(&through(&config, Outcome::Failed(Failure { lost_attempts, unsent, ..failure })))
    };
    assert_eq!(refused(0, true), (0, 0, 0));
    assert_eq!(refused(0, false), (input_tokens, 100, 0));
    assert_eq!(refused(1, true), (input_tokens, 100, 0), "the attempt before it may have been worked on");
}

#[test]
fn an_attempt_after_a_crash_needs_room_of_its_own() {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    (mind.model.max_output_tokens, mind.model.retries) = (Some(100), 1);
    let tokens = |config: &AgentConfig| {
        let Reserved { input_tokens, output_tokens } = completion(&step(config, start())).reserved;
        input_tokens + output_tokens
    };
    let room = |config: &AgentConfig, lost| {
        let state = step(config, start());
        let operation = state.pending()[0].operation.clone();
        state.has_room(config, &operation, lost)
    };
    assert!(room(&config, 1_000), "nothing has to hold");
    config.limits.max_tokens = Some(10_000);
    let each = tokens(&config);
    config.limits.max_tokens = Some(3 * each);
    assert_eq!([1, 2, 3].map(|lost| room(&config, lost)), [true, true, false]);
}

#[test]
fn what_is_under_way_when_the_run_ends_is_charged_with_all_that_was_set_aside() {
    let mut config = at_once(&[asks_model(), asks_agent("clerk"), asks_agent("scout")]);
    config.limits.max_tokens = Some(20_000);
    config.limits.max_cost_nano_usd = Some(900);
    let Mind::Plan(plan) = &mut config.mind else { panic!("a plan") };
    let StepAction::Parallel(branches) = &mut plan.steps[0].action else { panic!("branches") };
    let PlanCall::Model { model, .. } = &mut branches[0].operation.call else { panic!("a completion") };
    model.price = Some(Price::new(0, 0));
    let mut state = step(&config, start());
    let [(attempts, tokens)] = attempts(&state)[..] else { panic!("a completion") };
    assert_eq!(attempts, 3);
    let [clerk, scout] = budgets(&state)[..] else { panic!("two child runs") };
    assert_eq!((clerk.max_cost_nano_usd, scout.max_cost_nano_usd), (Some(450), Some(450)));
    let calls = clerk.max_tool_calls + scout.max_tool_calls;
    assert_eq!((state.usage().tool_calls, calls), (2, 62));
    let stopped = |state: &AgentState| {
        let mut state = state.clone();
        state.resume(Event::signal(AT, Signal::Cancel)).expect("a signal");
        end(&step(&config, state)).usage
    };
    let usage = stopped(&state);
    let children = clerk.max_tokens.unwrap() + scout.max_tokens.unwrap();
    assert_eq!((usage.tokens(), usage.cost_nano_usd), (attempts * tokens + children, 900));
    assert_eq!(usage.tool_calls, 64, "no more than the limit");
    assert!(usage.tokens() <= 20_000);
    // What has come by then is counted as it was reported.
    let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
    let failed = Failure::new(FailureCode::Unavailable, "there is no room for another run");
    state.resume(Event::outcome(AT, ids[0], says("hello"))).unwrap();
    state.resume(Event::outcome(AT, ids[1], Outcome::Failed(failed))).unwrap();
    let usage = stopped(&state);
    assert_eq!((usage.tokens(), usage.cost_nano_usd), (2 + scout.max_tokens.unwrap(), 450));
    assert_eq!(usage.tool_calls, 2 + scout.max_tool_calls);
}

#[test]
fn a_child_run_that_waits_for_a_person_has_used_nothing() {
    let mut config = model();
    let agent: AgentName = "scout".parse().unwrap();
    let budget = Budget { max_tool_calls: 9, max_tokens: Some(1_000), max_cost_nano_usd: None };
    config.agents.insert(agent.clone(), Callee { budget });
    let tool =
        Tool { kind: ToolKind::Agent { agent }, approve: true, ..Tool::new("looks".into(), json!({})) };
    config.tools.tools.insert("agents.scout".parse().unwrap(), tool);
    let arguments = json!({"text": "look"});
    let call = CallRequest {
        call_id: "a".into(),
        name: "agents.scout".into(),
        arguments: arguments.to_string(),
        validation: Some(Validation::Valid { arguments }),
    };
    let state = through(&config, reply(vec![ReplyPart::Call(call)], StopReason::ToolCalls));
    let id = state.pending()[0].operation.id;
    let usage = |approved: bool| {
        let mut state = state.clone();
        if approved {
            let answer = Answer::Approved { edited: None, reason: None, by: None };
            state.resume(Event::answer(AT, id, answer)).expect("an approval");
        }
        state.resume(Event::signal(AT, Signal::Deadline)).expect("a signal");
        let usage = end(&step(&config, state)).usage;
        (usage.tokens(), usage.tool_calls)
    };
    assert_eq!(usage(false), (2, 1));
    assert_eq!(usage(true), (1_002, 10));
}

#[test]
fn results_that_wait_for_a_tool_that_stands_in_count_towards_the_state() {
    let mut config = model();
    config.limits.max_state_bytes = 20_000;
    let score: ToolName = "risk.score".parse().unwrap();
    let guess: ToolName = "risk.guess".parse().unwrap();
    let plain = config.tools.tools[&score].clone();
    config.tools.tools.insert(guess.clone(), plain.clone());
    let unsteady = Tool { on_failure: Some(OnFailure::Fallback(guess)), ..plain };
    config.tools.tools.insert("risk.unsteady".parse().unwrap(), unsteady);
    let calls = vec![call("risk.score"), call("risk.unsteady")];
    let text = |bytes: usize| ToolReturn { text: "x".repeat(bytes), ..ToolReturn::default() };
    for (bytes, fits) in [(9_000, true), (11_000, false)] {
        let mut state = through(&config, reply(calls.clone(), StopReason::ToolCalls));
        let ids: Vec<OperationId> = operations(&state).iter().map(|operation| operation.id).collect();
        state.resume(Event::outcome(AT, ids[0], Outcome::ToolReturned(text(10_000)))).unwrap();
        let failed = Failure::new(FailureCode::Unavailable, "it is away");
        state.resume(Event::outcome(AT, ids[1], Outcome::Failed(failed))).unwrap();
        let state = answered(&config, step(&config, state), Outcome::ToolReturned(text(bytes)));
        assert_eq!(!state.is_over(), fits, "{:?}", state.decisions());
        if !fits {
            assert!(error(&state).message.contains("limits.max_state"), "{}", error(&state).message);
        }
    }
}

#[test]
fn a_session_that_is_longer_than_any_may_be_ends_with_the_remedy() {
    let long = model();
    let mut state = through(&long, says("done"));
    for _ in 0..9_999 {
        state = answered(&long, step(&long, next(&state, "and now?")), says("done"));
    }
    let next = |before: &AgentState| {
        let new = AgentState::start(RunId::from_bytes([8; 16]), AgentRequest::text("and now?"), AT);
        new.inheriting(before.inheritance(false))
    };
    assert_eq!(state.transcript().len(), 20_000);
    state = answered(&long, step(&long, next(&state)), says("done"));
    // It is over the bound by now, and no message makes it any longer.
    for _ in 0..2 {
        state = step(&long, next(&state));
        let error = end(&state).error.clone().unwrap();
        assert_eq!(error.code, RunErrorCode::LimitExceeded);
        assert!(error.help.contains("`[context]`"), "{error:?}");
        assert_eq!(state.transcript().len(), 20_002);
    }
    // The remedy helps: the agent is compacted, and what is left out does not come back.
    let mut short = model();
    let Mind::Model(mind) = &mut short.mind else { panic!() };
    mind.context = Some(ContextSettings { max_tokens: 900, compact: Compact::Drop });
    let state = answered(&short, step(&short, next(&state)), says("done"));
    assert!(end(&state).error.is_none());
    let after = next(&state);
    assert!(after.transcript().iter().count() < 200);
    assert!(after.transcript().len() > 20_000);
    assert!(end(&answered(&short, step(&short, after), says("done"))).error.is_none());
}
