//! Runs that wait for a person, and what the person says.

use serde_json::json;

use crate::support::{Workspace, photograph};

const INCIDENT: &str = "data loss in production";

fn suspended() -> Workspace {
    let workspace = Workspace::guarded();
    let output = workspace.command(&["run", "escalate", INCIDENT]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", workspace.shown(&output));
    workspace
}

/// The lines that the guest really wrote.
fn recorded(workspace: &Workspace) -> usize {
    std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl"))
        .map_or(0, |text| text.lines().count())
}

#[test]
fn a_suspended_run_tells_how_to_go_on() {
    photograph!(Workspace::guarded().dalsegno(&["run", "escalate", INCIDENT]), @r#"
        exit code: 4
        --- stdout
        --- stderr
        suspended · 2 steps · 2 tool calls · [TOOK] · run [SHORT]

        `risk.record` waits for approval; its arguments:
          {
            "decision": "escalate",
            "incident": "data loss in production",
            "risk": 0.7
          }
        resume with one of
          dalsegno resume [SHORT] --approve --shown [SHOWN]
          dalsegno resume [SHORT] --approve --shown [SHOWN] --edit FILE     with other arguments, as JSON
          dalsegno resume [SHORT] --deny --reason "…"
        "#);
}

#[test]
fn a_suspended_run_is_a_document_for_programs() {
    let document = Workspace::guarded().json(&["run", "escalate", INCIDENT]);
    assert_eq!(document["status"], "suspended");
    assert_eq!(document["waiting_for"].as_array().unwrap().len(), 1);
    assert_eq!(document["waiting_for"][0]["kind"], "approval");
    assert_eq!(document["waiting_for"][0]["arguments"]["incident"], INCIDENT);
    assert!(document["waiting_for"][0]["operation"].is_string());
    assert!(document["waiting_for"][0]["question"].is_string());
    assert_eq!(document["answer"], json!(null));
}

#[test]
fn a_paused_run_stands_still_until_it_is_resumed() {
    let workspace = suspended();
    photograph!(workspace.dalsegno(&["pause", "last", "--reason", "closed", "--by", "eve"]), @r#"
        exit code: 0
        --- stdout
        --- stderr
        run [SHORT] is paused: continue it with `dalsegno resume [SHORT]`
        "#);
    // An answer is taken, and nothing is done with it.
    let shown = workspace.json(&["show", "last"])["waiting_for"][0]["shown"].clone();
    let listed = workspace.succeed(&["runs", "--waiting", "paused"]);
    assert!(listed.contains("  suspended: approval, paused  "), "{listed}");
    let told = workspace.succeed(&["show", "last"]);
    assert!(told.contains("it was paused by eve: closed"), "{told}");
    assert_eq!(workspace.json(&["show", "last"])["paused"], json!({ "by": "eve", "reason": "closed" }));
    workspace.succeed(&["worker", "--until-idle"]);
    assert_eq!(recorded(&workspace), 0);
    // What does not fit continues nothing.
    let output = workspace.command(&["resume", "last", "--answer", "yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", workspace.shown(&output));
    assert_eq!(workspace.json(&["show", "last"])["paused"]["by"], "eve");
    photograph!(workspace.dalsegno(&["resume", "last", "--approve", "--shown", shown.as_str().unwrap()]), @r#"
        exit code: 0
        --- stdout
        Recorded.
        --- stderr
        completed · 2 steps · 2 tool calls · [TOOK] · run [SHORT]
        "#);
    assert_eq!(recorded(&workspace), 1);
    photograph!(workspace.dalsegno(&["pause", "last"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error: run [SHORT] has already ended (completed): see `dalsegno show [SHORT]`
        "#);
}

#[test]
fn the_listing_says_what_a_run_waits_for() {
    let workspace = suspended();
    let listed = workspace.succeed(&["runs"]);
    assert!(listed.contains("  suspended: approval  "), "{listed}");
    assert_eq!(workspace.json(&["runs"])[0]["waiting"], json!(["approval"]));
}

#[test]
fn another_process_approves() {
    let workspace = suspended();
    assert_eq!(recorded(&workspace), 0);
    let seen = workspace.seen();
    photograph!(workspace.dalsegno(&["resume", "last", "--approve", "--shown", &seen, "--by", "ada"]), @r"
        exit code: 0
        --- stdout
        Recorded.
        --- stderr
        completed · 2 steps · 2 tool calls · [TOOK] · run [SHORT]
        ");
    assert_eq!(recorded(&workspace), 1);
    photograph!(workspace.dalsegno(&["resume", "last", "--approve"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: run [SHORT] has ended and waits for no answer: look at it with `dalsegno show [SHORT]`
        ");
    assert_eq!(recorded(&workspace), 1);
}

#[test]
fn a_denied_operation_does_not_take_place() {
    let workspace = suspended();
    photograph!(workspace.dalsegno(&["resume", "last", "--deny", "--reason", "not on a Friday"]), @r"
        exit code: 0
        --- stdout
        Not recorded: not on a Friday
        --- stderr
        completed · 2 steps · 2 tool calls · [TOOK] · run [SHORT]
        ");
    assert_eq!(recorded(&workspace), 0);
}

#[test]
fn edited_arguments_are_checked_before_anything_is_recorded() {
    let workspace = suspended();
    let events = workspace.json(&["show", "last"])["events"].clone();
    workspace.write("bad.json", "{\"incident\": \"x\", \"risk\": \"high\", \"decision\": \"watch\"}");
    let seen = workspace.seen();
    let edit = ["resume", "last", "--approve", "--shown", &seen, "--edit"];
    photograph!(workspace.dalsegno(&[&edit[..], &["bad.json"]].concat()), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the edited arguments of operation [SHORT] do not fit the schema of `risk.record`: `/risk` expected number, found string
          help: correct the file and approve again; nothing was recorded
        ");
    assert_eq!(workspace.json(&["show", "last"])["events"], events);

    let good = "{\"incident\": \"edited\", \"risk\": 0.5, \"decision\": \"watch\"}";
    let output = workspace.dalsegno_with_input(&[&edit[..], &["-"]].concat(), good);
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    let line = std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl")).unwrap();
    assert!(line.contains("\"edited\""), "{line}");
}

#[test]
fn an_answer_that_does_not_fit_is_refused() {
    let workspace = suspended();
    photograph!(workspace.dalsegno(&["resume", "last", "--outcome", "happened"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: operation [SHORT] waits for an approval: answer with `--approve` or `--deny`
        ");
    photograph!(workspace.dalsegno(&["resume", "last", "--op", "0000", "--approve"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: run [SHORT] does not wait for an operation 0000: it waits for [SHORT]
          help: look for it with `dalsegno show [SHORT]`
        ");
    photograph!(workspace.dalsegno(&["resume", "last", "--by", "ada"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `--by` needs an answer
          help: add `--approve`, `--deny`, `--answer ANSWER` or `--outcome happened|not-happened|@FILE`
        ");
    let output = workspace.dalsegno(&["resume", "last", "--shown", "81c2d3a54b95f7c2"]);
    assert!(output.contains("error: `--shown` needs an answer"), "{output}");
    assert_eq!(recorded(&workspace), 0);
}

#[test]
fn an_operation_is_named_by_the_beginning_of_its_id() {
    let workspace = suspended();
    let waiting = workspace.json(&["show", "last"])["waiting_for"][0]["operation"].clone();
    let op = &waiting.as_str().unwrap()[..6];
    workspace.succeed(&["resume", "last", "--op", op, "--approve", "--shown", &workspace.seen()]);
    assert_eq!(recorded(&workspace), 1);
}

#[test]
fn a_resumed_run_streams_only_what_is_new() {
    let workspace = suspended();
    let before = workspace.json(&["show", "last"])["events"].as_array().unwrap().len() as u64;
    let lines = workspace.succeed(&[
        "resume",
        "last",
        "--approve",
        "--shown",
        &workspace.seen(),
        "--format",
        "jsonl",
    ]);
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["seq"], before);
    let all = workspace.json(&["show", "last"])["events"].clone();
    assert_eq!(all.as_array().unwrap()[before as usize..], events[..]);
}
