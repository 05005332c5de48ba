//! `dalsegno call text`: a call from a script, with the tools of the workspace.

use crate::support::Workspace;

const DESK: &str = r#"name = "desk"
version = "1.0.0"
description = "Takes calls."
instructions = "You take the calls of a restaurant."

[model]
use = "default"

[tools]
allow = ["memory.*"]

[voice]
greeting = "Greet the caller."
"#;

const TABLE: &str = r#"
[[turns]]
model = "Good evening."

[[turns]]
caller = "Note my usual table, please."

[[turns]]
model = "I note it."
calls = [{ tool = "memory.create", arguments = { entity = "table", content = "at the window" } }]

[[turns]]
model = "And which one was it? I look it up in"
calls = [{ tool = "memory.search", arguments = { query = "window" } }]
interrupt = "50ms"

[[turns]]
caller = "The one \u001b[31mat the window."

[[turns]]
model = "It is noted."
"#;

fn restaurant(agent: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"model.toml\"\n");
    workspace.write("model.toml", "[[replies]]\ntext = \"Hello.\"\n");
    workspace.write("agents/desk.toml", agent);
    workspace.write("calls/table.toml", TABLE);
    workspace
}

#[test]
fn a_call_is_told_shown_and_replayed() {
    let workspace = restaurant(DESK);
    assert_eq!(workspace.succeed(&["check"]), "");
    let told = workspace.succeed(&["call", "text", "desk", "--script", "calls/table.toml"]);
    let expected = "\
agent: Good evening.
caller: Note my usual table, please.
  asks for memory.create {\"content\":\"at the window\",\"entity\":\"table\"}
agent: I note it.
  asks for memory.search {\"query\":\"window\"}
agent: And which one was it? I look it up in (cut off after 50 ms)
";
    assert!(told.starts_with(expected), "{told}");
    assert!(told.ends_with("agent: It is noted.\n  the caller ends the call: hung up\n"), "{told}");
    assert!(!told.contains('\u{1b}'), "what others say is screened: {told:?}");
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains("\ncall\n  agent: Good evening.\n"), "{shown}");
    assert!(shown.contains("ask  memory create table: at the window"), "{shown}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    let run = workspace.json(&["show", "last"]);
    assert_eq!(run["status"], "completed");
    // The same agent answers in text, too.
    assert_eq!(workspace.succeed(&["run", "desk", "hello"]), "Hello.\n");
}

#[test]
fn a_call_that_cannot_be_is_refused_with_what_to_do() {
    let workspace = restaurant(DESK.split("[voice]").next().unwrap());
    let told = workspace.dalsegno(&["call", "text", "desk", "--script", "calls/table.toml"]);
    assert!(told.contains("agent `desk` takes no calls") && told.contains("add `[voice]`"), "{told}");
    let workspace = restaurant(DESK);
    workspace.write("calls/wrong.toml", "[[turns]]\ncaller = \"a\"\nmodel = \"b\"\n");
    let told = workspace.dalsegno(&["call", "text", "desk", "--script", "calls/wrong.toml"]);
    assert!(told.contains("turn 1 of the script is several turns"), "{told}");
    let told = workspace.dalsegno(&["call", "text", "desk", "--script", "calls/none.toml"]);
    assert!(told.contains("unreadable_input") || told.contains("cannot read the script"), "{told}");
    let told = workspace.dalsegno(&["runs"]);
    assert!(told.contains("no runs yet"), "nothing was written down: {told}");
}
