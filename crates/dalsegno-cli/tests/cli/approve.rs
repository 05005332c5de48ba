//! What a person agrees to is what is sent.

use serde_json::{Value, json};

use crate::support::{Workspace, photograph};

/// Turns text around, and hides a word.
const HOSTILE: &str = "alice\u{202e}MOC\u{9b}.EVIL\u{200b}\u{e0068}\u{e0069}👩\u{200d}👧";

/// An agent that records two incidents, once a person agrees; both wait at the same time.
const TWICE: &str = r#"
name = "twice"
version = "1.0.0"
description = "Records two incidents."
[tools]
allow = ["risk.record"]
approve = ["risk.record"]
[[steps]]
parallel = [
  { id = "a", tool = "risk.record", with = { incident = "one", risk = 0.5, decision = "watch" } },
  { id = "b", tool = "risk.record", with = { incident = "two", risk = 0.5, decision = "watch" } },
]
[[steps]]
respond = "done"
"#;

fn suspended(text: &str) -> Workspace {
    let workspace = Workspace::guarded();
    let output = workspace.command(&["run", "escalate", text]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", workspace.shown(&output));
    workspace
}

fn recorded(workspace: &Workspace) -> usize {
    std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl"))
        .map_or(0, |text| text.lines().count())
}

#[test]
fn nothing_is_approved_that_was_not_shown() {
    let workspace = suspended("data loss in production");
    let before = workspace.json(&["show", "last"])["events"].clone();
    let refused = workspace.dalsegno(&["resume", "last", "--approve"]);
    photograph!(refused, @r#"
    exit code: 2
    --- stdout
    --- stderr
    `risk.record` waits for approval; its arguments:
      {
        "decision": "escalate",
        "incident": "data loss in production",
        "risk": 0.7
      }
    error: operation [SHORT] was not approved: missing `--shown`
      help: read the arguments, then pass `--shown [SHOWN]`; on a terminal, the command asks
    "#);
    // What is named in the refusal approves.
    let shown = workspace.seen();
    assert!(refused.contains(&format!("--shown {shown}")), "{refused}");
    for arguments in [&["--edit", "-"][..], &["--json"], &["--by", "ada"], &["--reason", "why not"]] {
        let output = workspace.dalsegno(&[&["resume", "last", "--approve"], arguments].concat());
        assert!(output.starts_with("exit code: 2\n"), "{output}");
    }
    assert_eq!(workspace.json(&["show", "last"])["events"], before);
    assert_eq!(recorded(&workspace), 0);
    workspace.succeed(&["resume", "last", "--approve", "--shown", &shown.to_uppercase()]);
    assert_eq!(recorded(&workspace), 1);
}

#[test]
fn what_is_not_what_was_shown_is_refused_and_shown() {
    let first = suspended("data loss in production").seen();
    let workspace = suspended("data loss in production");
    // The same words of another run are another operation.
    let output = workspace.dalsegno(&["resume", "last", "--approve", "--shown", &first]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
    assert!(output.contains("\"incident\": \"data loss in production\""), "{output}");
    assert!(output.contains(&format!("--approve --shown {}", workspace.seen())), "{output}");
    assert!(output.contains("error: what waits does not match `--shown`: nothing was answered"), "{output}");
    assert_eq!(recorded(&workspace), 0);
}

#[test]
fn hidden_characters_are_shown_to_who_approves() {
    let workspace = suspended(HOSTILE);
    for verb in [
        &["show", "last"][..],
        &["resume", "last"],
        &["resume", "last", "--approve"],
        &["answer", "--waiting", "approval", "--approve"],
    ] {
        let output = workspace.dalsegno(verb);
        let shown = r#""incident": "alice\u202eMOC\u009b.EVIL\u200b\udb40\udc68\udb40\udc69👩\u200d👧""#;
        assert!(output.contains(shown), "{verb:?}: {output}");
    }
    let document = workspace.json(&["show", "last"]);
    assert_eq!(document["waiting_for"][0]["arguments"]["incident"], HOSTILE);
}

#[test]
fn nothing_is_cut_of_what_is_approved() {
    let long = format!("{} END", "x".repeat(5_000));
    let workspace = suspended(&long);
    for verb in [&["show", "last"][..], &["answer", "--waiting", "approval", "--approve"]] {
        assert!(workspace.dalsegno(verb).contains(&long), "{verb:?}");
    }
}

#[test]
fn what_was_approved_with_other_arguments_is_told() {
    let workspace = suspended("data loss in production");
    workspace.write("other.json", r#"{"incident": "edited", "risk": 0.5, "decision": "watch"}"#);
    let seen = workspace.seen();
    workspace.succeed(&[
        "resume",
        "last",
        "--approve",
        "--shown",
        &seen,
        "--edit",
        "other.json",
        "--by",
        "ada",
    ]);
    let shown = workspace.succeed(&["show", "last"]);
    assert!(
        shown.contains("then approved by ada with other arguments: ") && shown.contains("\"edited\""),
        "{shown}"
    );
}

#[test]
fn a_question_says_how_it_is_answered() {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/asks.toml",
        "name = \"asks\"\n[[steps]]\nask = \"now?\"\n[[steps]]\nrespond = \"done\"\n",
    );
    assert_eq!(workspace.command(&["run", "asks"]).output().unwrap().status.code(), Some(4));
    for wrong in [&["--approve"][..], &["--outcome", "happened"]] {
        let output = workspace.dalsegno(&[&["resume", "last"], wrong].concat());
        assert!(
            output.starts_with("exit code: 2\n") && output.contains("answer with `--answer TEXT`"),
            "{output}"
        );
    }
    workspace.succeed(&["resume", "last", "--answer", "yes"]);
}

#[test]
fn a_child_run_that_ended_says_that_its_parent_waits() {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/asks.toml",
        "name = \"asks\"\n[[steps]]\nask = \"now?\"\n[[steps]]\nrespond = \"done\"\n",
    );
    workspace.write(
        "agents/above.toml",
        "name = \"above\"\n[[steps]]\nid = \"it\"\nagent = \"asks\"\ninput = \"x\"\n[[steps]]\nrespond = \"{{steps.it}}\"\n",
    );
    let above = workspace.json(&["run", "above"]);
    let child = above["waiting_for"][0]["run_id"].as_str().unwrap().to_owned();
    let output = workspace.dalsegno(&["resume", &child, "--answer", "yes"]);
    let parent = &above["run_id"].as_str().unwrap()[..12];
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    assert!(output.contains(&format!("run {parent} waits for it: a worker resumes that one")), "{output}");
    assert_eq!(workspace.json(&["resume", parent])["answer"], "done");
}

#[test]
fn of_several_operations_the_one_that_was_shown_is_approved() {
    let workspace = Workspace::guarded();
    workspace.write("agents/twice.toml", TWICE);
    let run = workspace.json(&["run", "twice"]);
    let waiting = run["waiting_for"].as_array().unwrap();
    assert_eq!(waiting.len(), 2, "{run}");
    let second = waiting[1]["shown"].as_str().unwrap();
    let after = workspace.json(&["resume", "last", "--approve", "--shown", second]);
    assert_eq!(after["waiting_for"].as_array().unwrap().len(), 1, "{after}");
    assert_eq!(after["waiting_for"][0]["operation"], waiting[0]["operation"]);
    // It was answered: what was shown does not wait any more.
    let output = workspace.dalsegno(&["resume", "last", "--approve", "--shown", second]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
}

#[test]
fn a_list_that_changed_is_not_answered() {
    let workspace = suspended("data loss in production");
    let list = ["answer", "--waiting", "approval", "--approve"];
    let shown = workspace.json(&list)["shown"].as_str().unwrap().to_owned();
    assert_eq!(
        workspace.command(&["run", "escalate", "breach in production"]).output().unwrap().status.code(),
        Some(4)
    );
    let refused = workspace.dalsegno(&[&list[..], &["--yes", &shown]].concat());
    assert!(refused.starts_with("exit code: 2\n"), "{refused}");
    assert!(refused.contains("the list does not match `--yes`: nothing was answered"), "{refused}");
    let now = workspace.json(&list);
    let now = now["shown"].as_str().unwrap();
    assert!(refused.contains("breach in production") && refused.contains(now), "{refused}");
    assert_eq!(workspace.json(&["worker", "--until-idle"])["taken"], 0);
    assert_eq!(workspace.json(&[&list[..], &["--yes", now]].concat())["answered"], 2);
    // Nobody is asked twice.
    assert!(workspace.dalsegno(&[&list[..], &["--yes", now]].concat()).starts_with("exit code: "));
    workspace.json(&["worker", "--until-idle"]);
    assert_eq!(recorded(&workspace), 2);
}

#[test]
fn an_answer_of_another_kind_is_refused_for_all() {
    let workspace = suspended("data loss in production");
    photograph!(workspace.dalsegno(&["answer", "--waiting", "in-doubt", "--approve"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: an operation in doubt does not take this kind of answer
      help: answer it with `--outcome happened`, `--outcome not-happened`, `--outcome refused:WHY` or `--outcome @FILE`
    ");
    for wrong in [
        &["--waiting", "approval", "--outcome", "happened"][..],
        &["--waiting", "approval", "--answer", "yes"],
        &["--waiting", "input", "--approve"],
        &["--waiting", "in-doubt", "--deny"],
    ] {
        let output = workspace.dalsegno(&[&["answer"], wrong].concat());
        assert!(output.starts_with("exit code: 2\n"), "{wrong:?}: {output}");
    }
}

#[test]
fn an_answer_that_does_not_fit_is_counted() {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/asks.toml",
        "name = \"asks\"\n[[steps]]\nask = \"how many?\"\nschema = { type = \"integer\" }\n[[steps]]\nrespond = \"done\"\n",
    );
    assert_eq!(workspace.command(&["run", "asks"]).output().unwrap().status.code(), Some(4));
    let list = ["answer", "--waiting", "input", "--answer", "many"];
    let shown = workspace.json(&list)["shown"].as_str().unwrap().to_owned();
    let done = workspace.json(&[&list[..], &["--yes", &shown]].concat());
    assert_eq!((&done["answered"], done["refused"].as_array().map(Vec::len)), (&json!(0), Some(1)), "{done}");
    photograph!(workspace.dalsegno(&[&list[..], &["--yes", &shown]].concat()), @"
    exit code: 1
    --- stdout
    --- stderr
    run [SHORT]: the answer to operation [SHORT] does not fit: expected integer, found string; nothing was recorded
    0 operations answered, 1 refused
    ");
    let asked: Value = workspace.json(&["show", "last"]);
    assert_eq!(asked["status"], "suspended");
}

#[test]
fn a_part_of_a_declarative_tool_is_answered_by_the_name_of_its_tool() {
    let workspace = Workspace::guarded();
    let document = json!({
        "name": "relay",
        "description": "Has an incident recorded.",
        "actions": [{ "type": "tool", "name": "risk.record",
                      "arguments": { "incident": "one", "risk": 0.5, "decision": "watch" } }],
    });
    workspace.write("tools/relay.json", &document.to_string());
    workspace.write(
        "agents/relays.toml",
        "name = \"relays\"\ndescription = \"Relays.\"\n[tools]\nallow = [\"relay\", \"risk.record\"]\n\
         approve = [\"risk.record\"]\n[[steps]]\ntool = \"relay\"\n[[steps]]\nrespond = \"done\"\n",
    );
    let output = workspace.command(&["run", "relays"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", workspace.shown(&output));
    let list = |tool| ["answer", "--waiting", "approval", "--tool", tool, "--approve"];
    let none = workspace.json(&list("risk.score"));
    assert_eq!(none["operations"].as_array().map(Vec::len), Some(0), "{none}");
    let found = workspace.json(&list("risk.record"));
    assert_eq!(found["operations"].as_array().map(Vec::len), Some(1), "{found}");
    let shown = found["shown"].as_str().unwrap();
    let answered = workspace.json(&[&list("risk.record")[..], &["--yes", shown]].concat());
    assert_eq!(answered["answered"], 1, "{answered}");
    assert_eq!(recorded(&workspace), 0);
    assert_eq!(workspace.json(&["worker", "--until-idle"])["ended"], 1);
    assert_eq!(recorded(&workspace), 1);
}
