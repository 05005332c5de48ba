//! What people are told: what tools say, of tenants that are none, and of files with errors.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Workspace;

const GREETS: &str = r#"
name = "greets"
version = "1.0.0"
description = "Speaks by a tool."
[tools]
allow = ["greet"]
[[steps]]
id = "it"
tool = "greet"
[[steps]]
respond = "Hello {{user.name ?? 'stranger'}}, {{request.data.topic ?? 'nothing'}}."
"#;

const GREET: &str = r#"{
  "name": "greet", "description": "Speaks.",
  "actions": [
    {"type": "log", "level": "warn", "log_message": "greeting"},
    {"type": "respond", "message": "One moment."}
  ]
}"#;

fn workspace() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write("agents/greets.toml", GREETS);
    workspace.write("tools/greet.json", GREET);
    workspace.write("tenants/acme.toml", "name = \"acme\"\n");
    workspace
}

#[test]
fn what_tools_say_is_the_beginning_of_the_answer_and_is_written_once() {
    let workspace = workspace();
    assert_eq!(workspace.succeed(&["run", "greets", "hi"]), "One moment.\n\nHello stranger, nothing.\n");
    let document = workspace.json(&["run", "greets", "hi"]);
    assert_eq!(document["answer"], "One moment.\n\nHello stranger, nothing.");
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains("log  warn actions[0]: greeting"), "{shown}");
}

#[test]
fn a_chat_knows_its_user_and_what_goes_with_every_message() {
    let workspace = workspace();
    let args = ["chat", "greets", "--user", r#"{"id": 7, "name": "Ada"}"#, "--data", r#"{"topic": "tea"}"#];
    let output = workspace.dalsegno_with_input(&args, "hi\nhi again\n");
    assert_eq!(output.matches("One moment.\n\nHello Ada, tea.\n").count(), 2, "{output}");
    let refused = workspace.dalsegno_with_input(&["chat", "greets", "--user", "{"], "hi\n");
    assert!(refused.starts_with("exit code: 2\n"), "{refused}");
}

#[test]
fn a_tenant_that_does_not_exist_is_refused_by_every_verb() {
    let workspace = workspace();
    workspace.succeed(&["run", "greets", "hi", "--tenant", "acme", "--session", "desk"]);
    let verbs: [&[&str]; 8] = [
        &["run", "greets", "hi"],
        &["chat", "greets"],
        &["memory", "add", "X", "secret", "--scope", "tenant"],
        &["memory", "search", "secret", "--scope", "tenant"],
        &["runs"],
        &["answer", "--waiting", "approval", "--approve"],
        &["cancel", "--session", "desk"],
        &["tools", "test", "tools/greet.json", "--live"],
    ];
    for verb in verbs {
        for (tenant, expected) in [
            ("acm", "there is no tenant `acm`: did you mean `acme`?"),
            ("Acme Corp/..", "`Acme Corp/..` is not the name of a tenant"),
        ] {
            let output = workspace.dalsegno(&[verb, &["--tenant", tenant]].concat());
            assert!(output.starts_with("exit code: 2\n") && output.contains(expected), "{verb:?}: {output}");
        }
    }
    assert_eq!(workspace.json(&["runs", "--tenant", "acme"]).as_array().unwrap().len(), 1);
    assert_eq!(workspace.json(&["runs", "--tenant", "default"]).as_array().unwrap().len(), 0);
    // What it did is there when its file is not any more.
    std::fs::remove_file(workspace.path("tenants/acme.toml")).unwrap();
    assert_eq!(workspace.json(&["runs", "--tenant", "acme"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_file_with_an_error_is_named_and_the_rest_runs() {
    let workspace = workspace();
    workspace.write(
        "agents/plain.toml",
        "name = \"plain\"\nversion = \"1.0.0\"\ndescription = \"Answers.\"\n[[steps]]\nrespond = \"fine\"\n",
    );
    workspace.write("tools/greet.json", "{ \"name\": \"greet\" ");
    let output = workspace.dalsegno(&["run", "plain", "hi"]);
    assert!(output.starts_with("exit code: 0\n--- stdout\nfine\n"), "{output}");
    assert!(output.contains("warning: `tools/greet.json` has errors"), "{output}");
    let output = workspace.dalsegno(&["run", "greets", "hi"]);
    assert!(output.starts_with("exit code: 2\n") && output.contains("tools/greet.json"), "{output}");
    assert!(workspace.dalsegno(&["check"]).starts_with("exit code: 2\n"));
}

#[test]
fn a_diff_of_a_run_that_waits_names_no_end_and_no_outcome() {
    let workspace = Workspace::plain();
    let ask =
        "name = \"waits\"\nversion = \"1.0.0\"\ndescription = \"Waits.\"\n\n[[steps]]\nask = \"Go on?\"\n";
    workspace.write("agents/waits.toml", ask);
    for _ in 0..2 {
        assert!(workspace.dalsegno(&["run", "waits"]).starts_with("exit code: 4"));
    }
    let run = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    workspace.succeed(&["resume", &run, "--answer", "yes"]);
    let runs = workspace.json(&["runs"]);
    let waiting = runs.as_array().unwrap().iter().find(|run| run["status"] == "suspended").unwrap();
    let output = workspace.dalsegno(&["diff", &run, waiting["run_id"].as_str().unwrap()]);
    assert!(output.contains("waits suspended · 1 step\n"), "{output}");
    assert!(output.contains("+ none yet") && !output.contains("null"), "{output}");
    assert!(!output.contains("goes on"), "{output}");
}

#[test]
fn a_start_whose_run_is_under_way_has_a_code_and_names_the_run() {
    let workspace = Workspace::plain();
    let replies = std::fs::read_to_string(workspace.path("replies.toml")).unwrap();
    // Far more time than the test takes, so that only the wish ends the run.
    workspace.write("replies.toml", &format!("{replies}delay = \"120s\"\n"));
    let start = ["run", "chat", "hello", "--idempotency-key", "k"];
    let mut child = workspace
        .command(&[&start[..], &["--format", "jsonl"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"kind\":\"requested\"")));
    let run = workspace.json(&["runs"])[0]["run_id"].clone();
    let output = workspace.command(&[&start[..], &["--json"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["error"]["code"], &document["error"]["run_id"]), (&"under_way".into(), &run));
    let shown = workspace.dalsegno(&start);
    assert!(shown.contains("which another process executes: nothing new was started"), "{shown}");
    assert!(shown.contains("help: wait until it ends or suspends"), "{shown}");
    workspace.succeed(&["cancel", "last"]);
    drop(lines);
    child.wait().unwrap();
}
