//! Approval and denial by the arguments of a call, wherever the call comes from.

use super::*;

/// An agent whose `mail.send` must be approved above 100 and is denied above 1,000, and never otherwise.
fn ruled(mut config: AgentConfig) -> AgentConfig {
    let tool = config.tools.tools.get_mut(&"mail.send".parse().expect("a tool name")).expect("the tool");
    tool.approve = false;
    tool.approve_when = serde_json::from_value(json!(["args.amount > 100"])).expect("rules");
    tool.deny_when =
        serde_json::from_value(json!(["args.amount > 1000", "args.to.startsWith('boss')"])).expect("rules");
    config
}

fn send(arguments: Value) -> ReplyPart {
    ReplyPart::Call(CallRequest {
        call_id: String::new(),
        name: "mail__send".into(),
        arguments: arguments.to_string(),
        validation: Some(Validation::Valid { arguments }),
    })
}

/// What the calls of one reply come to: the gates of those that are asked for, and the decisions.
fn calls(arguments: &[Value]) -> (Vec<GateState>, Vec<String>) {
    let config = ruled(model());
    let parts = arguments.iter().cloned().map(send).collect();
    let state = through(&config, reply(parts, StopReason::ToolCalls));
    let gates = state.pending().iter().map(|pending| pending.operation.gate.clone());
    (gates.collect(), state.decisions().iter().map(ToString::to_string).collect())
}

#[test]
fn each_call_of_a_reply_is_ruled_by_its_own_arguments() {
    let asked = GateState::Waiting(Gate::Approval);
    let (gates, decisions) = calls(&[
        json!({"amount": 100, "to": "a"}),
        json!({"amount": 101, "to": "a"}),
        json!({"amount": 1001, "to": "a"}),
    ]);
    assert_eq!(gates, [GateState::Open, asked]);
    assert!(decisions.iter().any(|one| one.contains("waits for a person by the rule `args.amount > 100`")));
    let denied = "refuse `mail__send`: the agent's rules deny this call of `mail.send`: `args.amount > 1000`";
    assert!(decisions.iter().any(|one| one == denied), "{decisions:?}");
}

#[test]
fn a_rule_that_cannot_be_evaluated_asks_and_denies() {
    let config = ruled(model());
    let tool = &config.tools.tools[&"mail.send".parse().unwrap()];
    let rule = tool.denies(&json!({"amount": 1, "to": null})).unwrap();
    assert!(rule.starts_with("`args.to.startsWith('boss')`, which cannot be evaluated"), "{rule}");
    let ReplyPart::Call(call) = send(json!({"amount": 1, "to": null})) else { panic!("a call") };
    assert_eq!(config.refuses(&call), Some("not_permitted"));
    let (gates, _) = calls(&[json!({"amount": 1, "to": 7})]);
    assert!(gates.iter().all(|gate| *gate == GateState::Open), "only the model is asked again: {gates:?}");
}

#[test]
fn the_model_reads_why_its_call_was_denied() {
    let config = ruled(model());
    let state =
        through(&config, reply(vec![send(json!({"amount": 2000, "to": "a"}))], StopReason::ToolCalls));
    let sent = sent(&config, &state).join("\n");
    assert!(sent.contains("not_permitted") && sent.contains("args.amount > 1000"), "{sent}");
}

#[test]
fn a_tool_that_stands_in_has_its_own_rules() {
    let mut config = ruled(model());
    let other = config.tools.tools.get_mut(&"risk.score".parse().unwrap()).unwrap();
    other.on_failure = Some(OnFailure::Fallback("mail.send".parse().unwrap()));
    let failed = |amount: u64| {
        let arguments = json!({"amount": amount, "to": "a"});
        let ReplyPart::Call(call) = send(arguments) else { panic!("a call") };
        let call = ReplyPart::Call(CallRequest { name: "risk__score".into(), ..call });
        let state = through(&config, reply(vec![call], StopReason::ToolCalls));
        let failure = Failure::new(FailureCode::Unavailable, "gone");
        answered(&config, state, Outcome::Failed(failure))
    };
    let gate = |state: &AgentState| state.pending()[0].operation.gate.clone();
    assert_eq!(gate(&failed(1)), GateState::Open);
    assert_eq!(gate(&failed(101)), GateState::Waiting(Gate::Approval));
    // The model reads the first failure, and is asked again.
    let denied = failed(1001);
    assert!(matches!(denied.pending()[0].operation.request, Request::ModelCompletion(_)), "{denied:?}");
}

#[test]
fn a_plan_is_ruled_as_well() {
    let step_with = |amount: u64| {
        let with = json!({"amount": amount, "to": "a"});
        let tool = json!({"tool": "mail.send", "with": with});
        let config = ruled(plan(json!([{"action": {"operation": {"id": "a", "call": {"tool": tool}}}}])));
        step(&config, start())
    };
    assert_eq!(step_with(1).pending()[0].operation.gate, GateState::Open);
    assert_eq!(step_with(101).pending()[0].operation.gate, GateState::Waiting(Gate::Approval));
    let error = end(&step_with(1001)).error.clone().unwrap();
    assert_eq!(error.code, RunErrorCode::ToolFailed);
    assert!(error.message.contains("deny this call of `mail.send`: `args.amount > 1000`"), "{error:?}");
}
