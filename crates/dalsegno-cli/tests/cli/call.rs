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
    assert!(shown.contains("\ncall\n      told: Greet the caller.\n  1 agent: Good evening.\n"), "{shown}");
    assert!(shown.contains("ask  memory create table: at the window"), "{shown}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    let run = workspace.json(&["show", "last"]);
    assert_eq!(run["status"], "completed");
    let keyed = ["call", "text", "desk", "--script", "calls/table.toml", "--idempotency-key", "call-7"];
    workspace.succeed(&keyed);
    let first = workspace.json(&["show", "last"])["run_id"].clone();
    workspace.succeed(&keyed);
    assert_eq!(workspace.json(&["show", "last"])["run_id"], first, "the same key is the same call");
    assert_eq!(workspace.json(&["runs"]).as_array().map(Vec::len), Some(2));
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

/// What `dalsegno test` says, and its exit code.
fn tested(workspace: &Workspace, arguments: &[&str], code: i32) -> String {
    let output = workspace.command(&[&["test"], arguments].concat()).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

const CASE: &str = r#"agent = "desk"

[[cases]]
name = "a table is noted once"
calls = ["memory.create", "memory.search"]
effects = [{ tool = "memory.create", with = { content = "at the window" } }]
outputs = [
  { tool = "memory.create" },
  { tool = "memory.search", says = "cancelled" },
  { tool = "memory.create" },
]
said_matches = ["^Good evening", "noted"]
told_matches = "Greet the caller"
max_silence = "3s"
ended_by = "caller"
results = [{ memory = "create", takes = "2s" }, { memory = "search", takes = "3s", returns = [] }]

[[cases.turns]]
model = "Good evening."

[[cases.turns]]
caller = "Note my usual table, please."

[[cases.turns]]
model = "I note it."
calls = [{ tool = "memory.create", arguments = { entity = "table", content = "at the window" } }]

[[cases.turns]]
model = "It is noted. And"
calls = [{ tool = "memory.search", arguments = { query = "window" } }]
interrupt = "50ms"

[[cases.turns]]
caller = "Note it again."

[[cases.turns]]
model = "Yes."
calls = [{ tool = "memory.create", arguments = { entity = "table", content = "at the window" } }]

[[cases.turns]]
kill = "5s"
after = "100ms"

[[cases.turns]]
model = "It is noted, as I said."
"#;

#[test]
fn a_call_is_a_case_on_virtual_time() {
    let workspace = restaurant(DESK);
    workspace.write("tests/desk.toml", CASE);
    assert!(tested(&workspace, &[], 0).contains("1 case passed"));
    let seen = tested(&workspace, &["--verbose"], 0);
    for line in [
        "  told   Greet the caller.",
        "  asks   memory.create {\"content\":\"at the window\",\"entity\":\"table\"} (call-1)",
        "  agent  It is noted. And (cut off)",
        "  dies   the process; another one resumes the run",
        "  line   there again",
        "  ends   caller: hung up",
    ] {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    for (from, to, expected) in [
        ("effects = [{", "effects = [\"memory.create\", {", "expected `memory.create`, `memory.create`"),
        ("says = \"cancelled\"", "says = \"found\"", "found `memory.create`: {\"created\""),
        ("\"noted\"]", "\"no table\"]", "expected /no table/"),
        ("max_silence = \"3s\"", "max_silence = \"2s\"", "expected at most 2000 ms\n       found 3000 ms"),
        ("ended_by = \"caller\"", "ended_by = \"agent\"", "found caller"),
        ("told_matches = \"Greet", "told_matches = \"Insult", "is what the live model is told"),
        (
            "\n[[cases.turns]]\nkill",
            "\n[[cases.turns]]\nhang_up = \"1ms\"\n[[cases.turns]]\nkill",
            "never got to turn 8",
        ),
        ("{ memory = \"create\", takes = \"2s\" }, ", "", "asks the memory: create"),
    ] {
        assert!(CASE.contains(from), "{from}");
        workspace.write("tests/desk.toml", &CASE.replacen(from, to, 1));
        let told = tested(&workspace, &[], 3);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn what_was_sent_when_the_process_died_is_in_doubt_and_people_settle_it_later() {
    let workspace = restaurant(&DESK.replace("memory.*", "shop.*"));
    workspace.write(
        "tools/shop.json",
        r#"{ "name": "shop", "description": "Sells.", "actions": [{ "name": "buy", "description": "Buys.",
            "parameters": [{ "name": "n", "type": "integer", "required": true }],
            "actions": [{ "type": "api_call", "method": "POST", "url": "https://shop.example/buy", "effect": "unsafe",
                          "body": { "n": "{{params.n}}" } }], "output": "result.last" }] }"#,
    );
    workspace.write(
        "tests/desk.toml",
        r#"agent = "desk"

[[cases]]
name = "a purchase is not repeated"
effects = ["shop.buy"]
outputs = [{ tool = "shop.buy", says = "in_doubt" }, { tool = "shop.buy", says = "in_doubt" }]
told_matches = "The result of `shop.buy` is there: .*7"
results = [{ http = "POST https://shop.example/buy", takes = "3s", returns = { receipt = 7 } }]
answers = [{ done = { receipt = 7 }, after = "20s" }]

[[cases.turns]]
model = "Good evening."
[[cases.turns]]
caller = "Buy one."
[[cases.turns]]
model = "I buy it."
calls = [{ tool = "shop.buy", arguments = { n = 1 } }]
[[cases.turns]]
kill = "2s"
after = "1s"
[[cases.turns]]
caller = "Did you?"
after = "1s"
[[cases.turns]]
model = "Once more."
calls = [{ tool = "shop.buy", arguments = { n = 1 } }]
[[cases.turns]]
hang_up = "1m"
"#,
    );
    let told = tested(&workspace, &["--verbose"], 0);
    assert!(told.contains("1 case passed"), "{told}");
}

#[test]
fn each_wrong_key_of_a_call_in_a_case_is_reported_where_it_stands() {
    let workspace = restaurant(DESK);
    for (turns, expected) in [
        ("{ shout = \"a\" }", "unknown key `shout`"),
        ("{ caller = \"a\", model = \"b\" }", "a turn has several of `caller`"),
        ("{ after = \"1s\" }", "a turn lacks one of `caller`"),
        ("{ caller = \"a\", interrupt = \"1s\" }", "`interrupt` has no meaning for a turn with `caller`"),
        ("{ model = \"a\", after = \"1s\" }", "`after` has no meaning for a turn with `model`"),
        ("{ drop = \"soon\" }", "`drop` cannot be `soon`"),
        ("{ digits = \"12x\" }", "`digits` cannot be `12x`"),
        (
            "{ model = \"a\", interrupt = \"1s\" }, { model = \"b\" }",
            "nothing that cuts it off comes after it",
        ),
        ("{ model = \"a\", calls = [{ arguments = {} }] }", "has no `tool`"),
    ] {
        let case = format!("[[cases]]\nname = \"a\"\nagent = \"desk\"\nturns = [{turns}]\n");
        workspace.write("tests/desk.toml", &case);
        let told = tested(&workspace, &[], 2);
        assert!(told.contains(expected) && told.contains("tests/desk.toml:4:"), "{expected}: {told}");
    }
    for (case, expected) in [
        ("turns = [{ caller = \"a\" }]\nreplies = []\n", "`replies` has no meaning for a call"),
        ("input = \"a\"\nended_by = \"agent\"\n", "`ended_by` has a meaning only for a call"),
        (
            "input = \"a\"\nresults = [{ memory = \"search\", takes = \"1s\" }]\n",
            "`takes` has a meaning only for a call",
        ),
        ("turns = []\n", "a call has no turn"),
    ] {
        let case = format!("[[cases]]\nname = \"a\"\nagent = \"desk\"\n{case}");
        workspace.write("tests/desk.toml", &case);
        let told = tested(&workspace, &[], 2);
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let workspace = restaurant(DESK.split("[voice]").next().unwrap());
    workspace.write("tests/desk.toml", CASE);
    assert!(tested(&workspace, &[], 2).contains("the agent `desk` takes no calls"));
}

#[test]
fn a_recorded_call_becomes_a_case() {
    let workspace = restaurant(DESK);
    workspace.succeed(&["call", "text", "desk", "--script", "calls/table.toml"]);
    tested(&workspace, &["--from-run", "last"], 0);
    let mut files = workspace.path("tests").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let case = files.find(|file| file.extension().is_some_and(|end| end == "toml")).unwrap();
    let text = std::fs::read_to_string(&case).unwrap();
    for line in [
        "calls = [\"memory.create\", \"memory.search\"]",
        "ended_by = \"caller\"",
        "caller = \"Note my usual table, please.\"",
        "model = \"It is noted.\"",
        "interrupt = ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(tested(&workspace, &[], 0).contains("1 case passed"));
    // What the agent may use decides what is performed, in the recorded call, too.
    workspace.write("agents/desk.toml", &DESK.replace("memory.*", "memory.search"));
    assert!(tested(&workspace, &[], 2).contains("the agent `desk` may not use `memory.create`"));
}

#[test]
fn the_live_model_ends_the_call() {
    let workspace = restaurant(&DESK.replace("[\"memory.*\"]", "[\"call.hang_up\"]"));
    assert_eq!(workspace.succeed(&["check"]), "");
    workspace.write(
        "calls/bye.toml",
        "[[turns]]\nmodel = \"Good evening.\"\n[[turns]]\ncaller = \"Wrong number.\"\n[[turns]]\nmodel = \"No harm done. Goodbye.\"\n\
         calls = [{ tool = \"call.hang_up\" }]\n[[turns]]\ncaller = \"Are you still there?\"\nafter = \"5s\"\n",
    );
    let told = workspace.succeed(&["call", "text", "desk", "--script", "calls/bye.toml"]);
    assert!(
        told.ends_with("agent: No harm done. Goodbye.\n  the agent ends the call: the agent hung up\n"),
        "{told}"
    );
    assert_eq!(workspace.json(&["show", "last"])["status"], "completed");
    assert!(workspace.dalsegno(&["replay", "last"]).contains("identical"));
    // Nobody calls an agent without `[voice]`.
    let text = "name = \"desk\"\ninstructions = \"Help.\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"call.hang_up\"]\n";
    workspace.write("agents/desk.toml", text);
    let checked = workspace.dalsegno(&["check"]);
    assert!(checked.contains("is for calls, and the agent takes none: it has no `[voice]`"), "{checked}");
}
