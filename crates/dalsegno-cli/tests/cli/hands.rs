//! `dalsegno call text` without a line: the agent's own model plays the live model.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::double::{Door, Double, Piece, Received, words};
use crate::support::Workspace;

const DESK: &str = r#"name = "desk"
version = "1.0.0"
description = "Takes calls."
instructions = "You take the calls of a restaurant."

[model]
use = "default"
retries = 0

[tools]
allow = ["memory.*"]

[voice]
greeting = "Greet the caller."
"#;

fn restaurant(double: &Double) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", &double.settings());
    workspace.write("agents/desk.toml", DESK);
    workspace
}

fn notes() -> Vec<Piece> {
    let call = Piece::Call("memory__create", json!({ "entity": "table", "content": "at the window" }));
    [words("I note it."), vec![call]].concat()
}

/// What the model read last: the role and the words.
fn last(received: &Received) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = received.body["messages"].as_array().unwrap().last().unwrap();
    (text(&message["role"]), text(&message["content"]))
}

#[test]
fn the_agents_own_model_takes_a_call_and_what_it_takes_is_counted() {
    let double = Double::start(vec![
        words("Good evening."),
        notes(),
        words("Noted: the table at the window."),
        words("The one \u{1b}[31mat the window."),
    ]);
    let workspace = restaurant(&double);
    assert_eq!(workspace.succeed(&["check"]), "");
    let said = "Note my usual table, please.\n\nWhich one was it?\n";
    let told = workspace.dalsegno_with_input(&["call", "text", "desk"], said);
    let expected = "\
agent: Good evening.
caller: Note my usual table, please.
  asks for memory__create {\"content\":\"at the window\",\"entity\":\"table\"}
agent: I note it.
agent: Noted: the table at the window.
caller: Which one was it?
";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("the caller ends the call: hung up\n"), "{told}");
    assert!(!told.contains('\u{1b}'), "what a model says is screened: {told:?}");
    assert!(told.contains("4 model calls · 1 tool call"), "{told}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    // What the model was asked: its instructions, what it is told for one reply alone, and each result after its call.
    let received = double.received();
    let first = &received[0].body["messages"];
    assert_eq!(first[0], json!({ "role": "system", "content": "You take the calls of a restaurant." }));
    assert_eq!(last(&received[0]), ("user".to_owned(), "[Greet the caller.]".to_owned()));
    assert_eq!(last(&received[1]), ("user".to_owned(), "Note my usual table, please.".to_owned()));
    assert!(!received[1].text.contains("[Greet the caller.]"), "{}", received[1].body);
    let (role, result) = last(&received[2]);
    assert!(role == "tool" && result.contains("created"), "{role}: {result}");
    assert!(received[3].text.contains("I note it."), "{}", received[3].body);
}

#[test]
fn after_a_kill_another_process_attaches_and_the_model_reads_what_was_said() {
    let door = Door::default();
    let held = door.clone();
    let double = Double::deciding(move |number, _| match number {
        0 => words("Good evening."),
        1 => notes(),
        2 => words("Noted."),
        3 => [words("Once upon a "), vec![Piece::Door(held.clone())]].concat(),
        _ => words("You are back."),
    });
    let workspace = restaurant(&double);
    let call = ["call", "text", "desk", "--idempotency-key", "evening"];
    let mut command = workspace.command(&call);
    let mut killed =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut caller = killed.stdin.take().unwrap();
    caller.write_all(b"Note my usual table, please.\nAnd a story.\n").unwrap();
    double.until(4);
    killed.kill().unwrap();
    killed.wait().unwrap();
    door.open();
    drop(caller);
    let told = workspace.dalsegno_with_input(&call, "Hello?\n");
    assert!(told.contains("the connection is there again"), "{told}");
    assert!(told.contains("caller: Hello?\nagent: You are back.\n"), "{told}");
    let received = double.received();
    let text = &received.last().unwrap().text;
    for known in ["Good evening.", "Note my usual table", "I note it.", "at the window", "Noted."] {
        assert!(text.contains(known), "{known}: {text}");
    }
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    let found = workspace.succeed(&["tools", "call", "memory.search", "--args", "{\"query\": \"window\"}"]);
    assert_eq!(found.matches("at the window").count(), 1, "{found}");
}

#[test]
fn a_limit_of_tokens_ends_a_call_before_a_reply_that_has_no_room() {
    let double =
        Double::start(vec![words("Good evening."), [words("Yes."), vec![Piece::Tokens(4_000)]].concat()]);
    let workspace = restaurant(&double);
    workspace.write("agents/desk.toml", &format!("{DESK}\n[limits]\nmax_tokens = 6000\n"));
    let told = workspace.dalsegno_with_input(&["call", "text", "desk"], "Are you there?\nAnd now?\n");
    assert!(told.starts_with("exit code: 1\n"), "{told}");
    assert!(told.contains("agent: Yes.\n") && told.contains("the agent ends the call"), "{told}");
    assert!(told.contains("error[limit_exceeded]: `limits.max_tokens` (6000 tokens)"), "{told}");
    assert_eq!(double.received().len(), 2, "nothing more was asked");
    workspace.write("agents/desk.toml", &format!("{DESK}\n[limits]\nmax_tokens = 100\n"));
    let told = workspace.dalsegno_with_input(&["call", "text", "desk"], "Are you there?\n");
    assert!(told.contains("leaves too little for a request"), "{told}");
    assert_eq!(double.received().len(), 2, "the call did not begin");
}

#[test]
fn a_model_that_fails_ends_the_call_with_its_reason() {
    let workspace = Workspace::empty();
    workspace.write(
        "dalsegno.toml",
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = { env = \"NO_SUCH_KEY\" }\n",
    );
    workspace.write("agents/desk.toml", DESK);
    let told = workspace.dalsegno_with_input(&["call", "text", "desk"], "Hello?\n");
    assert!(told.starts_with("exit code: 1\n"), "{told}");
    assert!(told.contains("the call was broken off: the model `default`: cannot read the key"), "{told}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
}

const TABLE: &str = r#"[[turns]]
model = "Good evening."

[[turns]]
caller = "Note my table at the window."

[[turns]]
model = "I note it."
calls = [{ tool = "memory.create", arguments = { entity = "table", content = "at the window" } }]

[[turns]]
model = "Noted."

[[turns]]
caller = "Which one was it?"

[[turns]]
model = "Let me look."
calls = [{ tool = "memory.search", arguments = { query = "table" } }]

[[turns]]
model = "The one at the window."
"#;

const OTHER: &str = r#"[[turns]]
model = "Something else."

[[turns]]
caller = "Good bye."
"#;

/// A workspace in which two calls went as they are written down.
fn called() -> (Workspace, Double, Vec<String>) {
    let double = Double::start(vec![words("I am back.")]);
    let workspace = restaurant(&double);
    workspace.write("table.toml", TABLE);
    workspace.write("other.toml", OTHER);
    for _ in 0..2 {
        workspace.succeed(&["call", "text", "desk", "--script", "table.toml", "--tenant", "default"]);
    }
    let runs = runs(&workspace);
    (workspace, double, runs)
}

/// The calls, the latest first.
fn runs(workspace: &Workspace) -> Vec<String> {
    let runs = workspace.json(&["runs"]);
    runs.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_call_is_shown_as_it_went() {
    let (workspace, ..) = called();
    let shown = workspace.succeed(&["show", "last"]);
    let expected = "
call
      told: Greet the caller.
  1 agent: Good evening.
  2 caller: Note my table at the window.
  3   asks for memory.create {\"content\":\"at the window\",\"entity\":\"table\"}
    agent: I note it.
      output of memory.create: {\"created\":";
    assert!(shown.contains(expected), "{shown}");
    assert!(
        shown.contains("  7 agent: The one at the window.\n      the caller ends the call: hung up\n"),
        "{shown}"
    );
}

#[test]
fn calls_that_went_alike_are_the_same() {
    let (workspace, _double, runs) = called();
    // What was noted in the first is known in the second.
    let told = workspace.dalsegno(&["diff", &runs[1], &runs[0]]);
    assert!(told.contains("first difference: turn 3, effect of memory create"), "{told}");
    workspace.succeed(&["call", "text", "desk", "--script", "table.toml"]);
    let told = workspace.dalsegno(&["diff", &runs[0], "last"]);
    assert!(told.contains("the same requests, outcomes and end"), "{told}");
}

#[test]
fn a_call_is_forked_at_each_of_its_turns() {
    let (workspace, _double, runs) = called();
    let call = &runs[0];
    for turn in 1..=7 {
        let at = turn.to_string();
        // At a turn of the caller it is the caller who speaks first.
        let say: &[&str] = if [2, 5].contains(&turn) { &["--say", "Something else?"] } else { &[] };
        let fork = ["fork", call, "--at", &at, "--script", "other.toml"];
        let told = workspace.dalsegno(&[&fork[..], say].concat());
        assert!(told.starts_with("exit code: 0\n"), "turn {turn}: {told}");
        assert!(told.contains("agent: Something else.\n"), "turn {turn}: {told}");
        let replayed = workspace.dalsegno(&["replay", "last"]);
        assert!(replayed.contains("identical"), "turn {turn}: {replayed}");
        let shown = workspace.succeed(&["show", "last"]);
        assert!(shown.contains(&format!("from turn {turn}\n")), "turn {turn}: {shown}");
        let told = workspace.dalsegno(&["diff", call, "last"]);
        assert!(told.contains(&format!("first difference: turn {turn}, ")), "turn {turn}: {told}");
    }
    let told = workspace.dalsegno(&["fork", call, "--at", "8"]);
    assert!(told.contains("it has 7 turns, so it cannot be forked at turn 8"), "{told}");
}

#[test]
fn the_model_reads_what_a_fork_shares_and_the_caller_says_something_else() {
    let (workspace, double, runs) = called();
    let told =
        workspace.dalsegno_with_input(&["fork", &runs[0], "--at", "5", "--say", "Is it free?"], "Thanks.\n");
    assert!(
        told.contains("caller: Is it free?\nagent: I am back.\ncaller: Thanks.\nagent: I am back.\n"),
        "{told}"
    );
    assert!(told.contains("forked call"), "{told}");
    let first = &double.received()[0];
    for known in ["Good evening.", "Note my table", "I note it.", "at the window", "Noted."] {
        assert!(first.text.contains(known), "{known}: {}", first.text);
    }
    assert!(!first.text.contains("Which one was it?") && !first.text.contains("Greet"), "{}", first.text);
    assert_eq!(last(first), ("user".to_owned(), "Is it free?".to_owned()));
    // A fork of the fork shares turns of both.
    let told = workspace.dalsegno_with_input(&["fork", "last", "--at", "7", "--say", "And tomorrow?"], "");
    assert!(told.contains("caller: And tomorrow?\n"), "{told}");
    let text = double.received().last().unwrap().text.clone();
    assert!(
        text.contains("Is it free?") && text.contains("I am back.") && !text.contains("Thanks."),
        "{text}"
    );
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
}

#[test]
fn another_outcome_of_an_operation_is_what_the_live_model_of_a_fork_reads() {
    let (workspace, double, runs) = called();
    workspace.write("none.json", "[]");
    let shown = workspace.json(&["show", &runs[0], "--full"]);
    let id = |value: &Value| value["operation"].as_str().unwrap().to_owned();
    let all = shown["operations"].as_array().unwrap();
    let search = all.iter().find(|one| one["label"] == "memory search").map(id).unwrap();
    let told =
        workspace.dalsegno_with_input(&["fork", &runs[0], "--set", &format!("{search}=none.json")], "");
    assert!(told.contains("agent: I am back.\n"), "{told}");
    let (role, result) = last(&double.received()[0]);
    assert!(role == "tool" && result.contains("\"hits\":[]"), "{role}: {result}");
    let told = workspace.dalsegno(&["diff", &runs[0], "last"]);
    assert!(told.contains("first difference: turn 6, effect of memory search"), "{told}");
    let told = workspace.dalsegno(&["fork", &runs[0], "--at", "2", "--set", &format!("{search}=none.json")]);
    assert!(told.contains("name one operation, and no turn"), "{told}");
}

#[test]
fn what_is_for_calls_is_refused_for_other_runs() {
    let (workspace, ..) = called();
    workspace.write("agents/says.toml", "name = \"says\"\n[[steps]]\nrespond = \"Hello.\"\n");
    workspace.succeed(&["run", "says", "x"]);
    let told = workspace.dalsegno(&["fork", "last", "--at", "1", "--say", "x"]);
    assert!(told.contains("is no call: `--say`, `--line` and `--script` are for forks of calls"), "{told}");
}

#[test]
fn a_person_gives_the_live_model_of_another_process_a_note() {
    let double = Double::start(vec![words("Good evening."), words("We close soon.")]);
    let workspace = restaurant(&double);
    let mut command = workspace.command(&["call", "text", "desk"]);
    let mut calling =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let caller = calling.stdin.take().unwrap();
    double.until(1);
    let told = workspace.dalsegno(&["call", "say", "last", "The kitchen closes.", "--by", "ada"]);
    assert!(told.contains("gets the note, and speaks of it at the next pause"), "{told}");
    double.until(2);
    assert_eq!(last(&double.received()[1]), ("user".to_owned(), "[The kitchen closes.]".to_owned()));
    drop(caller);
    let output = calling.wait_with_output().unwrap();
    let heard = String::from_utf8(output.stdout).unwrap();
    assert!(heard.contains("  ada gives a note: The kitchen closes.\n"), "{heard}");
    assert!(heard.contains("agent: We close soon.\n"), "{heard}");
    let replayed = workspace.dalsegno(&["replay", "last"]);
    assert!(replayed.contains("identical"), "{replayed}");
    let told = workspace.dalsegno(&["call", "say", "last", "Too late."]);
    assert!(told.contains("has already ended"), "{told}");
}
