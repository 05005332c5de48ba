//! `segno chat` on a pipe: what programs and scripts see of it.

use serde_json::Value;

use crate::double::{Double, Piece, words};
use crate::support::{Workspace, photograph};

const TALKS: &str = r#"name = "talks"
version = "1.0.0"
description = "Talks."
instructions = "Be brief."
prompt = "{{request.text}}"

[model]
use = "default"
"#;

/// A workspace whose agent talks with a model of these answers.
fn talking(answers: &[&str]) -> (Workspace, Double) {
    let answers: Vec<Vec<Piece>> = answers.iter().map(|answer| words(answer)).collect();
    let (workspace, double) = (Workspace::empty(), Double::start(answers));
    workspace.write("segno.toml", &double.settings());
    workspace.write("agents/talks.toml", TALKS);
    (workspace, double)
}

/// The messages of a request: who said what.
fn messages(body: &Value) -> Vec<(String, String)> {
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let messages = body["messages"].as_array().unwrap().iter();
    messages.map(|one| (one["role"].as_str().unwrap().to_owned(), text(&one["content"]))).collect()
}

fn said(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(who, what)| ((*who).to_owned(), (*what).to_owned())).collect()
}

#[test]
fn a_conversation_goes_on_from_what_was_said() {
    let (workspace, double) = talking(&["Hello, Ada.", "You are Ada."]);
    photograph!(workspace.segno_with_input(
        &["chat", "talks", "--session", "ada"],
        "I am Ada.\nWho am I?\n/history\n/session\n/what\n",
    ), @r"
        exit code: 0
        --- stdout
        Hello, Ada.
        You are Ada.
        you: I am Ada.
        agent: Hello, Ada.
        you: Who am I?
        agent: You are Ada.
        --- stderr
        session ada · /help lists what else can be said
        ada
        `/what` is not known here:
          /show        what happened in the last run, and why
          /history     the conversation so far
          /undo        as if the last message had not been said
          /fork N      from step N of the last run on, once more
          /resume      go on with a reply that was interrupted
          /session     the session's name, to come back with `--session`
          /quit        leave; the session stays
        ");
    let bodies: Vec<_> = double.received().into_iter().map(|received| received.body).collect();
    assert_eq!(messages(&bodies[0]), said(&[("system", "Be brief."), ("user", "I am Ada.")]));
    assert_eq!(
        messages(&bodies[1]),
        said(&[
            ("system", "Be brief."),
            ("user", "I am Ada."),
            ("assistant", "Hello, Ada."),
            ("user", "Who am I?")
        ])
    );
    let runs = workspace.json(&["runs"]);
    assert_eq!(runs.as_array().unwrap().len(), 2);
    for run in runs.as_array().unwrap() {
        assert_eq!(run["session"], "ada");
        workspace.succeed(&["replay", run["run_id"].as_str().unwrap()]);
    }
    // Another process goes on where this one was left.
    workspace.segno_with_input(&["chat", "talks", "--session", "ada"], "And now?\n");
    assert_eq!(messages(&double.received()[2].body).len(), 6);
}

#[test]
fn a_message_can_be_undone() {
    let (workspace, double) = talking(&["One.", "Two.", "Three."]);
    photograph!(workspace.segno_with_input(&["chat", "talks"], "first\nsecond\n/undo\nthird\n/history\n"), @r"
        exit code: 0
        --- stdout
        One.
        Two.
        Three.
        you: first
        agent: One.
        you: third
        agent: Three.
        --- stderr
        session chat-[SHORT] · /help lists what else can be said
        undone: the next message goes on from before
        ");
    assert_eq!(
        messages(&double.received()[2].body)[1..],
        said(&[("user", "first"), ("assistant", "One."), ("user", "third")])
    );
}

#[test]
fn the_last_reply_can_be_asked_for_anew() {
    let (workspace, double) = talking(&["One.", "Another one.", "Two."]);
    let output = workspace.segno_with_input(&["chat", "talks"], "first\n/fork 1\nsecond\n/fork 9\n/fork\n");
    photograph!(output, @r"
        exit code: 2
        --- stdout
        One.
        Another one.
        Two.
        --- stderr
        session chat-[SHORT] · /help lists what else can be said
        error: run [ID] cannot be forked: its last step is 1, so it cannot be forked at step 9
        say at which step of the last run, such as `/fork 1`; /show lists them
        ");
    assert_eq!(
        messages(&double.received()[2].body)[1..],
        said(&[("user", "first"), ("assistant", "Another one."), ("user", "second")])
    );
}

#[test]
fn what_happened_in_the_last_run_is_shown() {
    let (workspace, _double) = talking(&["Hello, Ada."]);
    photograph!(workspace.segno_with_input(&["chat", "talks", "--session", "ada"], "/show\n/undo\nI am Ada.\n/show\n"), @r"
        exit code: 0
        --- stdout
        Hello, Ada.
        run [ID]
        talks · completed · [TIME] · 4 records · 1 model call · 17 tokens
        asked: I am Ada.

        step 1
          why  ask the model
          ask  model completion with 2 messages  [SHORT]
          got  Hello, Ada.

          why  end: the model answered

        completed
          Hello, Ada.
        --- stderr
        session ada · /help lists what else can be said
        nothing has been said yet
        nothing has been said yet
        ");
}

#[test]
fn a_run_that_needs_a_person_asks_in_the_conversation() {
    let workspace = Workspace::guarded();
    let lines = || {
        std::fs::read_to_string(workspace.path(".segno/incidents/escalations.jsonl"))
            .map_or(0, |text| text.lines().count())
    };
    photograph!(workspace.segno_with_input(&["chat", "escalate", "--session", "night"], "data loss in production\nnot on a Friday\n"), @r#"
        exit code: 0
        --- stdout
        Not recorded: not on a Friday
        --- stderr
        session night · /help lists what else can be said
        may `risk.record` be called with {"decision":"escalate","incident":"data loss in production","risk":0.7}?
          {
            "decision": "escalate",
            "incident": "data loss in production",
            "risk": 0.7
          }
        "#);
    assert_eq!(lines(), 0);
    photograph!(workspace.segno_with_input(&["chat", "escalate", "--session", "day"], "data loss in production\ny\n"), @r#"
        exit code: 0
        --- stdout
        Recorded.
        --- stderr
        session day · /help lists what else can be said
        may `risk.record` be called with {"decision":"escalate","incident":"data loss in production","risk":0.7}?
          {
            "decision": "escalate",
            "incident": "data loss in production",
            "risk": 0.7
          }
        "#);
    assert_eq!(lines(), 1);
    // The input ends before an answer: the run stays, and the next conversation can go on with it.
    let left =
        workspace.segno_with_input(&["chat", "escalate", "--session", "week"], "data loss in production\n");
    assert!(left.starts_with("exit code: 4\n") && left.contains("left waiting"), "{left}");
    let gone_on = workspace.segno_with_input(&["chat", "escalate", "--session", "week"], "/resume\nyes\n");
    assert!(gone_on.starts_with("exit code: 0\n") && gone_on.contains("Recorded."), "{gone_on}");
    assert_eq!(lines(), 2);
}

#[test]
fn an_agent_that_is_not_there_is_told_before_anything_is_said() {
    let (workspace, _double) = talking(&["Hello."]);
    photograph!(workspace.segno_with_input(&["chat", "walks"], "hello\n/quit\n"), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no agent `walks`: the agents are talks
          help: did you mean `talks`?
        ");
}
