//! `dalsegno chat` on a pipe: what programs and scripts see of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::double::{Door, Double, Piece, words};
use crate::support::{Workspace, photograph};

/// The longest that something may take to come: far more than it takes, and an end for a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until something has come.
fn until(what: &str, mut has_come: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !has_come() {
        assert!(Instant::now() < deadline, "{what} did not come");
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The command, started, with all three streams in our hands.
fn spawned(workspace: &Workspace, args: &[&str]) -> Child {
    let mut command = workspace.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

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
    workspace.write("dalsegno.toml", &double.settings());
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
    photograph!(workspace.dalsegno_with_input(
        &["chat", "talks", "--session", "ada", "--script"],
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
    workspace.dalsegno_with_input(&["chat", "talks", "--session", "ada"], "And now?\n");
    assert_eq!(messages(&double.received()[2].body).len(), 6);
}

#[test]
fn a_message_can_be_undone() {
    let (workspace, double) = talking(&["One.", "Two.", "Three."]);
    photograph!(workspace.dalsegno_with_input(&["chat", "talks", "--script"], "first\nsecond\n/undo\nthird\n/history\n"), @r"
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
    let output = workspace
        .dalsegno_with_input(&["chat", "talks", "--script"], "first\n/fork 1\nsecond\n/fork 9\n/fork\n");
    photograph!(output, @r"
        exit code: 2
        --- stdout
        One.
        Another one.
        Two.
        --- stderr
        session chat-[SHORT] · /help lists what else can be said
        error: run [SHORT] cannot be forked: its last step is 1, so it cannot be forked at step 9
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
    photograph!(workspace.dalsegno_with_input(&["chat", "talks", "--session", "ada", "--script"], "/show\n/undo\nI am Ada.\n/show\n"), @r"
    exit code: 0
    --- stdout
    Hello, Ada.
    run [ID]
    talks · completed · [TIME] · 4 records · 1 model call · 17 tokens
    session: ada
    asked: I am Ada.

    step 1 · +[TOOK]
      why  ask the model
      ask  model completion with 2 messages  [SHORT]
      got  Hello, Ada. · [TOOK] · 17 tokens

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
        std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl"))
            .map_or(0, |text| text.lines().count())
    };
    photograph!(workspace.dalsegno_with_input(&["chat", "escalate", "--session", "night", "--script"], "data loss in production\nnot on a Friday\n"), @r#"
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
    photograph!(workspace.dalsegno_with_input(&["chat", "escalate", "--session", "day", "--script"], "data loss in production\ny\n"), @r#"
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
    let left = workspace.dalsegno_with_input(
        &["chat", "escalate", "--session", "week", "--script"],
        "data loss in production\n",
    );
    assert!(left.starts_with("exit code: 4\n") && left.contains("left waiting"), "{left}");
    let gone_on = workspace
        .dalsegno_with_input(&["chat", "escalate", "--session", "week", "--script"], "/resume\nyes\n");
    assert!(gone_on.starts_with("exit code: 0\n") && gone_on.contains("Recorded."), "{gone_on}");
    assert_eq!(lines(), 2);
}

#[test]
fn an_agent_that_is_not_there_is_told_before_anything_is_said() {
    let (workspace, _double) = talking(&["Hello."]);
    photograph!(workspace.dalsegno_with_input(&["chat", "walks"], "hello\n/quit\n"), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no agent `walks`: the agents are talks
          help: did you mean `talks`?
        ");
}

#[test]
fn a_message_that_was_handed_over_is_undone_as_a_whole() {
    let (workspace, double) = talking(&["One.", "Two.", "Three."]);
    workspace.write(
        "agents/front.toml",
        "name = \"front\"\nversion = \"1.0.0\"\ndescription = \"Hands over.\"\n[[steps]]\nhandoff = \"talks\"\nmessage = \"{{request.text}}\"\n",
    );
    let output =
        workspace.dalsegno_with_input(&["chat", "front", "--script"], "first\nsecond\n/undo\nthird\n");
    assert!(output.starts_with("exit code: 0\n") && output.contains("Three."), "{output}");
    assert!(messages(&double.received()[2].body).contains(&("user".to_owned(), "third".to_owned())));
    // Each message is two runs; the third goes on where the second of the first one ended.
    let run = |agent: &str, text: &str| {
        let runs = workspace.json(&["runs", "--agent", agent]);
        let runs = runs
            .as_array()
            .unwrap()
            .iter()
            .map(|run| workspace.json(&["show", run["run_id"].as_str().unwrap()]));
        runs.into_iter().find(|run| run["events"][0]["data"]["request"]["text"] == text).unwrap()
    };
    assert_eq!(run("front", "third")["events"][0]["data"]["predecessor"], run("talks", "first")["run_id"]);
}

#[test]
fn a_reply_that_another_process_writes_is_ended_before_the_next_message_is_said() {
    let door = Door::default();
    let halting = [words("It began "), vec![Piece::Door(door)], words("and never ended.")].concat();
    let (workspace, double) = (Workspace::empty(), Double::start(vec![halting, words("Two.")]));
    workspace.write("dalsegno.toml", &double.settings());
    workspace.write("agents/talks.toml", TALKS);
    let other = spawned(&workspace, &["run", "talks", "first", "--session", "ada"]);
    until("the first message", || double.received().len() == 1);
    photograph!(workspace.dalsegno_with_input(&["chat", "talks", "--session", "ada"], "second\n"), @r"
        exit code: 0
        --- stdout
        Two.
        --- stderr
        session ada
        the last reply was left unfinished: `dalsegno resume [SHORT]` goes on with it, another message gives it up
        another process writes the last reply: it was told to stop
        ");
    let other = workspace.shown(&other.wait_with_output().unwrap());
    assert!(other.starts_with("exit code: 1\n") && other.contains("cancelled"), "{other}");
}

#[test]
#[cfg(unix)]
fn a_message_that_is_interrupted_while_it_is_written_down_is_not_lost() {
    let (workspace, _double) = talking(&["Hello."]);
    workspace.succeed(&["runs"]);
    // The journal takes nothing as long as this transaction is open.
    let journal = rusqlite::Connection::open(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    journal.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut chat = spawned(&workspace, &["chat", "talks", "--session", "ada"]);
    let mut input = chat.stdin.take().unwrap();
    writeln!(input, "hello").unwrap();
    // A process shows that it lives right before it writes its first run down.
    let owners = workspace.path(".dalsegno/owners");
    until("the run", || owners.read_dir().is_ok_and(|mut entries| entries.next().is_some()));
    assert!(Command::new("kill").args(["-INT", &chat.id().to_string()]).status().unwrap().success());
    let mut words = BufReader::new(chat.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("stop") {
        line.clear();
        assert!(words.read_line(&mut line).unwrap() > 0, "nothing was said about the wish");
    }
    journal.execute_batch("ROLLBACK").unwrap();
    // What is said behind the wish is not said any more; nor does the command wait for the end of its input.
    writeln!(input, "another message").unwrap();
    let mut rest = String::new();
    words.read_to_string(&mut rest).unwrap();
    let output = workspace.shown(&chat.wait_with_output().unwrap());
    assert!(rest.contains("interrupted; nothing is lost"), "{line}{rest}{output}");
    assert!(output.starts_with("exit code: 130\n"), "{line}{rest}{output}");
    let resumed =
        workspace.dalsegno_with_input(&["chat", "talks", "--session", "ada", "--script"], "/resume\n");
    assert!(resumed.starts_with("exit code: 0\n") && resumed.contains("Hello."), "{resumed}");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_reply_that_was_asked_for_anew_is_undone_with_its_message() {
    let (workspace, double) = talking(&["One.", "Two.", "Another two.", "Three."]);
    let output = workspace
        .dalsegno_with_input(&["chat", "talks", "--script"], "first\nsecond\n/fork 1\n/undo\nthird\n");
    assert!(output.starts_with("exit code: 0\n") && output.contains("Three."), "{output}");
    assert_eq!(
        messages(&double.received()[3].body)[1..],
        said(&[("user", "first"), ("assistant", "One."), ("user", "third")])
    );
}

#[test]
fn a_line_of_another_party_approves_nothing_and_commands_nothing() {
    let workspace = Workspace::guarded();
    let output = workspace
        .dalsegno_with_input(&["chat", "escalate", "--session", "bot"], "data loss in production\ny\n");
    assert!(!workspace.path(".dalsegno/incidents/escalations.jsonl").exists(), "{output}");
    assert!(output.contains("--approve --shown "), "{output}");
    // The second line was a message of its own.
    let runs = workspace.json(&["runs"]);
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    assert_eq!(runs[1]["status"], "cancelled");

    let (workspace, double) = talking(&["One.", "Two.", "Three.", "Four."]);
    let lines = "first\n/undo\n/fork 1\n/quit\n";
    let output = workspace.dalsegno_with_input(&["chat", "talks", "--session", "bot"], lines);
    photograph!(output, @r"
        exit code: 0
        --- stdout
        One.
        Two.
        Three.
        Four.
        --- stderr
        session bot
        ");
    let last = messages(&double.received()[3].body);
    assert!(last.contains(&("user".to_owned(), "/undo".to_owned())), "{last:?}");
}

#[test]
fn a_line_that_is_not_text_is_named() {
    let (workspace, double) = talking(&["One.", "Two."]);
    let mut chat = spawned(&workspace, &["chat", "talks", "--session", "ada"]);
    chat.stdin.take().unwrap().write_all(b"first\nbad\xff line\nthird\n").unwrap();
    photograph!(workspace.shown(&chat.wait_with_output().unwrap()), @r"
        exit code: 2
        --- stdout
        One.
        --- stderr
        session ada
        error: line 2 of standard input is not UTF-8 text
          help: write one message on each line, in UTF-8; earlier lines were sent
        ");
    assert_eq!(double.received().len(), 1);
}

#[test]
fn a_conversation_that_nobody_reads_any_more_ends() {
    let workspace = Workspace::plain();
    let mut chat = spawned(&workspace, &["chat", "note"]);
    let mut input = chat.stdin.take().unwrap();
    let mut answers = BufReader::new(chat.stdout.take().unwrap());
    writeln!(input, "hello").unwrap();
    assert!(answers.read_line(&mut String::new()).unwrap() > 0);
    drop(answers);
    // The pipe is never full, so that only the command ends this.
    let mut said = 0;
    while chat.try_wait().unwrap().is_none() {
        let _ = writeln!(input, "hello");
        said += 1;
        assert!(said < 3_000, "it still talks after {said} lines");
        thread::sleep(BETWEEN_LOOKS);
    }
    assert!(workspace.json(&["runs"]).as_array().unwrap().len() < 5);
}

#[test]
#[cfg(unix)]
fn a_conversation_that_nobody_reads_ends_although_nothing_is_ever_written() {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/fails.toml",
        "name = \"fails\"\nversion = \"1.0.0\"\ndescription = \"Fails.\"\nprompt = \"{{request.text}}\"\n\n\
         [model]\nuse = \"default\"\n",
    );
    // The script has no reply, so that each message fails and standard output stays empty.
    workspace.write("replies.toml", "replies = []\n");
    let mut chat = spawned(&workspace, &["chat", "fails"]);
    let mut input = chat.stdin.take().unwrap();
    drop(chat.stdout.take());
    let mut said = 0;
    while chat.try_wait().unwrap().is_none() {
        let _ = writeln!(input, "hello");
        said += 1;
        assert!(said < 3_000, "it still talks after {said} lines");
        thread::sleep(BETWEEN_LOOKS);
    }
    assert!(workspace.json(&["runs"]).as_array().unwrap().len() < 5);
}

#[test]
#[cfg(unix)]
fn a_wish_to_stop_ends_a_conversation_that_no_person_types() {
    for signal in ["-TERM", "-INT"] {
        let workspace = Workspace::plain();
        let replies = std::fs::read_to_string(workspace.path("replies.toml")).unwrap();
        // Far more time than the test takes, so that only the wish ends the reply.
        workspace.write("replies.toml", &format!("{replies}delay = \"120s\"\n"));
        let mut chat = spawned(&workspace, &["chat", "chat", "--session", "ada"]);
        let mut input = chat.stdin.take().unwrap();
        input.write_all(b"one\ntwo\nthree\n").unwrap();
        until("the run", || {
            let runs = workspace.json(&["runs"]);
            runs.as_array().is_some_and(|runs| !runs.is_empty())
        });
        assert!(Command::new("kill").args([signal, &chat.id().to_string()]).status().unwrap().success());
        let output = workspace.shown(&chat.wait_with_output().unwrap());
        assert!(output.starts_with("exit code: 130\n"), "{output}");
        assert!(output.contains("interrupted; nothing is lost"), "{output}");
        let runs = workspace.json(&["runs"]);
        assert_eq!(
            (runs.as_array().unwrap().len(), &runs[0]["status"]),
            (1, &Value::from("running")),
            "{runs}"
        );
    }
}
