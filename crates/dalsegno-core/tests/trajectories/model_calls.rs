//! Models that call agents, hand over, walk the memory, or go round in circles.

use dalsegno_core::{
    AgentConfig, FailureCode, Limits, OnExceeded, OnFailure, ReplyPart, RunErrorCode, Status, StopReason,
    Tool, ToolKind, Validation,
};
use serde_json::{Value, json};

use crate::door::*;

/// An agent that may also call the agents `scout` and `clerk`, hand over to `clerk`, and walk its memory.
fn with_agents() -> AgentConfig {
    let mut config = model();
    let agent = |name: &str| name.parse().expect("an agent name");
    let kinds = [
        ("agents.scout", ToolKind::Agent { agent: agent("scout") }),
        ("agents.clerk", ToolKind::Agent { agent: agent("clerk") }),
        ("agents.ghost", ToolKind::Agent { agent: agent("ghost") }),
        ("handoff.clerk", ToolKind::Handoff { agent: agent("clerk") }),
        ("memory.traverse", ToolKind::MemoryTraverse),
    ];
    for (name, kind) in kinds {
        let tool = Tool { kind, ..Tool::new("does something".into(), json!({"type": "object"})) };
        config.tools.tools.insert(name.parse().expect("a tool name"), tool);
    }
    config
}

fn with_failure(mut config: AgentConfig, name: &str, on_failure: OnFailure) -> AgentConfig {
    let tool = config.tools.tools.get_mut(&name.parse().expect("a name")).expect("a tool");
    tool.on_failure = Some(on_failure);
    config
}

fn fallback(to: &str) -> OnFailure {
    OnFailure::Fallback(to.parse().expect("a tool name"))
}

fn reads(call_id: &str, arguments: Value) -> Vec<Give> {
    calls(vec![call(call_id, "log__read", arguments)])
}

#[test]
fn child_runs_share_what_is_left_fairly() {
    let limits = Limits { max_tool_calls: 12, max_tokens: Some(30_000), ..Limits::default() };
    check(
        "model_agents",
        &AgentConfig { limits, ..with_agents() },
        "disk full",
        &[
            calls(vec![
                call("c1", "agents__scout", json!({"text": "look around", "data": {"host": "db-1"}})),
                call("c2", "log__read", json!({})),
                call("c3", "agents.clerk", json!({"text": "note it"})),
                call("c4", "agents__ghost", json!({"text": "boo"})),
                call("c5", "agents__scout", json!({"data": 1})),
            ]),
            vec![
                agent_answers(2, "noted", None),
                agent_answers(0, "2 TB", Some(json!({"size": 2}))),
                prints(1, "3 errors", false),
            ],
            says("All is noted."),
        ],
    );
}

#[test]
fn a_child_run_that_fails_is_told_to_the_model() {
    check(
        "model_agent_failed",
        &with_agents(),
        "disk full",
        &[
            calls(vec![
                call("c1", "agents__scout", json!({"text": "look"})),
                call("c2", "agents__clerk", json!({"text": "note"})),
            ]),
            vec![
                agent_fails(
                    0,
                    Status::Failed,
                    RunErrorCode::LimitExceeded,
                    "`limits.max_steps` (8) is reached",
                ),
                agent_fails(1, Status::Cancelled, RunErrorCode::Cancelled, "the run was cancelled"),
            ],
            says("Nobody could help."),
        ],
    );
}

#[test]
fn a_child_run_may_end_the_run_or_be_replaced() {
    let config = with_failure(with_agents(), "agents.clerk", OnFailure::Fail);
    let config = with_failure(config, "agents.scout", fallback("agents.clerk"));
    check(
        "model_agent_fallback",
        &config,
        "disk full",
        &[
            calls(vec![call("c1", "agents__scout", json!({"text": "look", "data": [1]}))]),
            vec![agent_fails(0, Status::Failed, RunErrorCode::ModelFailed, "timeout: no reply")],
            vec![agent_fails(0, Status::Failed, RunErrorCode::ModelFailed, "timeout: no reply")],
        ],
    );
}

#[test]
fn a_handoff_ends_the_run() {
    check(
        "model_handoff",
        &with_agents(),
        "disk full",
        &[replies(
            vec![
                ReplyPart::Text("The clerk knows more.".into()),
                call("c1", "handoff__clerk", json!({"message": "please file this"})),
            ],
            StopReason::ToolCalls,
        )],
    );
}

#[test]
fn a_handoff_beside_other_calls_is_refused() {
    check(
        "model_handoff_not_alone",
        &with_agents(),
        "disk full",
        &[
            calls(vec![call("c1", "handoff__clerk", json!({})), call("c2", "log__read", json!({}))]),
            vec![prints(0, "3 errors", false)],
            calls(vec![call("c3", "handoff__clerk", json!({}))]),
        ],
    );
}

#[test]
fn relations_are_made_and_followed() {
    let relation = json!({"relation": "part_of", "to": "rack"});
    check(
        "model_relations",
        &with_agents(),
        "disk full",
        &[
            calls(vec![
                call("c1", "memory__traverse", json!({"from": "db-1"})),
                call(
                    "c2",
                    "memory__traverse",
                    json!({"from": "db-1", "relation": "part_of", "depth": 99, "limit": 0}),
                ),
                call(
                    "c3",
                    "memory__create",
                    json!({"entity": "db-1", "content": "is full", "relations": [relation]}),
                ),
                call(
                    "c4",
                    "memory__create",
                    json!({"entity": "db-1", "content": "is full", "relations": ["rack"]}),
                ),
                call("c5", "memory__traverse", json!({"from": "db-1", "relation": 3})),
            ]),
            vec![traverses(0), traverses(1), creates(2)],
            says("It is in a rack."),
        ],
    );
}

#[test]
fn a_tool_stands_in_for_one_that_failed_while_the_other_results_wait() {
    check(
        "model_tool_fallback",
        &with_failure(model(), "log.read", fallback("risk.score")),
        "disk full",
        &[
            calls(vec![
                call("c1", "log__read", json!({"host": "db-1"})),
                call("c2", "never_heard", json!({})),
                call("c3", "ticket__open", json!({})),
            ]),
            vec![fails(0, FailureCode::Unavailable, "`log` does not start"), prints(1, "opened", false)],
            vec![prints(0, "0.5", false)],
            says("It is half as bad."),
        ],
    );
}

#[test]
fn a_tool_that_stands_in_has_its_own_gate_and_falls_back_no_further() {
    let config = with_failure(model(), "log.read", fallback("mail.send"));
    check(
        "model_tool_fallback_gate",
        &with_failure(config, "mail.send", fallback("log.read")),
        "disk full",
        &[
            reads("c1", json!({"to": "all"})),
            vec![prints(0, "the log is locked", true)],
            vec![edits(0, Validation::Valid { arguments: json!({"to": "ops"}) })],
            vec![fails(0, FailureCode::Timeout, "no answer within 30 s")],
            says("I cannot."),
        ],
    );
}

#[test]
fn no_tool_stands_in_for_what_a_person_refused() {
    let config = with_failure(model(), "mail.send", fallback("log.read"));
    check(
        "model_tool_fallback_denied",
        &config,
        "disk full",
        &[
            calls(vec![call("c1", "mail__send", json!({}))]),
            vec![denies(0, Some("not now"))],
            says("I did not."),
        ],
    );
}

#[test]
fn a_tool_that_stands_in_counts_as_a_call() {
    let limits = Limits { max_tool_calls: 1, on_exceeded: OnExceeded::Answer, ..Limits::default() };
    let config = with_failure(model(), "log.read", fallback("risk.score"));
    check(
        "model_tool_fallback_limit",
        &AgentConfig { limits, ..config },
        "disk full",
        &[
            reads("c1", json!({})),
            vec![fails(0, FailureCode::Unavailable, "`log` does not start")],
            says("The log is not there."),
        ],
    );
}

#[test]
fn a_default_does_not_stand_in_for_a_no() {
    check(
        "model_default_denied",
        &with_failure(model(), "mail.send", OnFailure::Default(json!("sent"))),
        "disk full",
        &[
            calls(vec![call("c1", "mail__send", json!({}))]),
            vec![denies(0, None)],
            calls(vec![call("c2", "mail__send", json!({}))]),
            vec![approves(0)],
            vec![fails(0, FailureCode::Unavailable, "no route to host")],
            says("It is said to be sent."),
        ],
    );
}

#[test]
fn a_model_that_repeats_a_call_is_warned_then_stopped() {
    check(
        "model_cycle",
        &model(),
        "disk full",
        &[
            reads("c1", json!({"host": "db-1", "last": 9})),
            vec![prints(0, "nothing", false)],
            reads("c2", json!({"last": 9, "host": "db-1"})),
            vec![prints(0, "nothing", false)],
            reads("c3", json!({"host": "db-1", "last": 9})),
            vec![prints(0, "nothing", false)],
            reads("c4", json!({"host": "db-1", "last": 9})),
            vec![prints(0, "nothing", false)],
        ],
    );
}

#[test]
fn a_model_that_goes_through_the_same_calls_is_warned_and_may_find_its_way() {
    let round = |number: u32| {
        vec![
            calls(vec![
                call(&format!("a{number}"), "log__read", json!({})),
                call(&format!("b{number}"), "never_heard", json!({})),
            ]),
            vec![prints(0, "nothing", false)],
        ]
    };
    let mut joins: Vec<_> = (1..=3).flat_map(round).collect();
    joins.extend([
        reads("c", json!({"other": true})),
        vec![prints(0, "3 errors", false)],
        says("There are."),
    ]);
    check("model_cycle_of_two", &model(), "disk full", &joins);
}
