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
    for known in ["Good evening.", "Note my usual table", "at the window", "Noted.", "And a story."] {
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
