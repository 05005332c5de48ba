//! Models that come to an answer.

use dalsegno_core::{
    AgentConfig, FailureCode, Mind, OnFailure, ReplyPart, StopReason, Validation, Violation,
};
use serde_json::json;

use crate::door::*;

/// A model-driven agent that looks into its memory first.
fn recalling() -> AgentConfig {
    let mut config = model();
    let Mind::Model(mind) = &mut config.mind else { panic!("a model") };
    let recall = json!({"query": "{{request.text}} {{request.data.host}}", "limit": 4, "min_score": 0.25});
    mind.recall = Some(serde_json::from_value(recall).expect("a recall"));
    let prompt =
        "{{request.text}}. Known: {{memory.hits.length}}, first: {{memory.hits[0].text}}; {{memory.hits}}";
    mind.prompt = prompt.parse().expect("a template");
    config
}

#[test]
fn a_plain_answer() {
    check("model_plain", &model(), "disk full", &[says("Delete /tmp.")]);
}

#[test]
fn two_calls_of_one_reply_run_at_the_same_time() {
    check(
        "model_two_calls",
        &model(),
        "disk full",
        &[
            replies(
                vec![
                    ReplyPart::Opaque {
                        provider: "anthropic".into(),
                        data: json!({"thinking": "…", "signature": "c2ln"}),
                    },
                    ReplyPart::Text("Let me look. ".into()),
                    call("c1", "log__read", json!({"host": "db-1"})),
                    call("c2", "risk.score", json!({"text": "disk full"})),
                ],
                StopReason::ToolCalls,
            ),
            vec![returns(1, json!({"value": 0.9, "level": "high", "because": {"z": 1, "a": 2}}))],
            vec![prints(0, "3 errors", false)],
            says("It is serious."),
        ],
    );
}

#[test]
fn calls_that_must_not_leave_the_core_are_answered_by_it() {
    let violation = Violation { path: "/host".into(), message: "expected a string, found 3".into() };
    check(
        "model_refused_calls",
        &model(),
        "disk full",
        &[
            calls(vec![
                call("c1", "host__kill", json!({})),
                call("c2", "never_heard", json!({})),
                judged(
                    "c3",
                    "log__read",
                    "{\"host\": ",
                    Validation::Malformed { message: "unexpected end".into() },
                ),
                judged(
                    "c4",
                    "log__read",
                    "{\"host\": 3}",
                    Validation::Invalid { violations: vec![violation] },
                ),
                judged("c5", "log__read", "{}", Validation::Truncated),
            ]),
            says("I cannot look."),
        ],
    );
}

/// The agent of the other trajectories, whose model sees three of the tools under pinned names, one of them forbidden.
fn pinned() -> AgentConfig {
    let mut config = model();
    for (tool, name) in [("log.read", "read"), ("mail.send", "send"), ("host.kill", "kill")] {
        config.tools.names.insert(tool.parse().expect("a tool"), name.parse().expect("a name for models"));
    }
    config
}

#[test]
fn pinned_names_mean_their_tools_and_the_long_ones_still_do() {
    check(
        "model_pinned_names",
        &pinned(),
        "disk full",
        &[
            calls(vec![
                call("c1", "read", json!({"host": "db-1"})),
                call("c2", "log__read", json!({"host": "db-1"})),
                call("c3", "log.read", json!({"host": "db-1"})),
                call("c4", "kill", json!({})),
                call("c5", "host__kill", json!({})),
                call("c6", "never_heard", json!({})),
            ]),
            vec![prints(0, "3 errors", false)],
            vec![prints(1, "3 errors", false)],
            vec![prints(2, "3 errors", false)],
            says("It is serious."),
        ],
    );
}

#[test]
fn a_refused_call_and_a_sound_one_are_answered_in_the_order_of_the_reply() {
    check(
        "model_refused_and_sound",
        &model(),
        "disk full",
        &[
            calls(vec![
                call("c1", "never_heard", json!({})),
                call("c2", "log__read", json!({})),
                call("c3", "host.kill", json!({})),
            ]),
            vec![prints(0, "3 errors", false)],
            says("There are errors."),
        ],
    );
}

#[test]
fn a_sibling_runs_while_a_call_waits_for_approval() {
    check(
        "model_approval",
        &model(),
        "disk full",
        &[
            calls(vec![call("c1", "mail__send", json!({"to": "ops"})), call("c2", "log__read", json!({}))]),
            vec![prints(1, "3 errors", false)],
            vec![approves(0)],
            vec![returns(0, json!({"state": "sent"}))],
            says("I told them."),
        ],
    );
}

#[test]
fn a_denied_call_is_told_to_the_model() {
    check(
        "model_denied",
        &model(),
        "disk full",
        &[
            calls(vec![call("c1", "mail__send", json!({"to": "everyone"}))]),
            vec![denies(0, Some("only to ops"))],
            says("I did not send it."),
        ],
    );
}

#[test]
fn an_edited_call_is_performed_as_edited() {
    check(
        "model_edited",
        &model(),
        "disk full",
        &[
            calls(vec![call("c1", "mail__send", json!({"to": "everyone"}))]),
            vec![edits(0, Validation::Valid { arguments: json!({"to": "ops"}) })],
            vec![prints(0, "sent to ops", false)],
            says("I told them."),
        ],
    );
}

#[test]
fn memory_tools_become_memory_actions() {
    check(
        "model_memory_tools",
        &model(),
        "disk full",
        &[
            calls(vec![
                call("c1", "memory__search", json!({"query": "db-1", "limit": 2})),
                call("c2", "memory__create", json!({"entity": "db-1", "content": "is full"})),
                call("c3", "memory__create", json!({"entity": "db-1", "type": "host"})),
            ]),
            vec![finds(0, &["was full in May"]), creates(1)],
            says("It was full in May, too."),
        ],
    );
}

#[test]
fn recall_puts_hits_into_the_prompt() {
    check(
        "model_recall",
        &recalling(),
        "disk full",
        &[vec![finds(0, &["was full in May", "has 2 TB"])], says("As in May.")],
    );
}

#[test]
fn a_recall_that_fails_ends_the_run() {
    check(
        "model_recall_failed",
        &recalling(),
        "disk full",
        &[vec![fails(0, FailureCode::Internal, "disk I/O error")]],
    );
}

#[test]
fn a_failed_tool_is_told_to_the_model() {
    check(
        "model_tool_failed",
        &model(),
        "disk full",
        &[
            calls(vec![call("c1", "log__read", json!({})), call("c2", "risk__score", json!({}))]),
            vec![
                fails(0, FailureCode::Timeout, "no answer within 30 s"),
                prints(1, "the feed is empty", true),
            ],
            says("Nothing works today."),
        ],
    );
}

#[test]
fn the_settings_of_a_tool_say_what_its_failure_does() {
    let mut config = model();
    let settings =
        [("log.read", OnFailure::Default(json!({"lines": [], "at": null}))), ("risk.score", OnFailure::Fail)];
    for (name, on_failure) in settings {
        let tool = config.tools.tools.get_mut(&name.parse().expect("a name")).expect("a tool");
        tool.on_failure = Some(on_failure);
    }
    check(
        "model_on_failure",
        &config,
        "disk full",
        &[
            calls(vec![call("c1", "log__read", json!({}))]),
            vec![fails(0, FailureCode::Unavailable, "`log` does not start")],
            calls(vec![call("c2", "risk__score", json!({})), call("c3", "log__read", json!({}))]),
            vec![fails(0, FailureCode::Unavailable, "`risk` does not start"), prints(1, "3 errors", false)],
        ],
    );
}
