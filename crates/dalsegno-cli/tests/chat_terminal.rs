//! A conversation in a real terminal: what a person sees, and what Ctrl-C does.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::double::{Door, Double, Piece, words};
use crate::tmux::{Terminal, has_terminal};

#[path = "cli/double.rs"]
mod double;
#[path = "cli/tmux.rs"]
mod tmux;

const DALSEGNO: &str = env!("CARGO_BIN_EXE_dalsegno");

const AGENT: &str = r#"name = "talks"
version = "1.0.0"
description = "Talks."
prompt = "{{request.text}}"

[model]
use = "default"
retries = 0
"#;

/// A workspace whose agent talks with this model.
fn workspace(double: &Double) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dalsegno.toml"), double.settings()).unwrap();
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("agents/talks.toml"), AGENT).unwrap();
    folder
}

fn dalsegno(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(DALSEGNO);
    command.args(args).current_dir(folder).env_clear();
    command
}

fn replayed(folder: &TempDir) -> String {
    let output = dalsegno(folder, &["replay", "last"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// An answer that stops behind a door.
fn halting(first: &str, door: &Door, rest: &str) -> Vec<Piece> {
    [words(first), vec![Piece::Door(door.clone())], words(rest)].concat()
}

#[test]
fn a_reply_appears_as_it_is_written() {
    if !has_terminal() {
        return;
    }
    let door = Door::default();
    let double = Double::start(vec![halting("It began at noon ", &door, "and ended at one.")]);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks");
    terminal.shows(">");
    terminal.types("when was it?");
    // The rest was not even sent.
    terminal.shows("It began at noon");
    door.open();
    terminal.shows("and ended at one.");
    terminal.shows(">");
    terminal.types("/quit");
    terminal.shows("ended with 0");
    // What was streamed is not written again.
    assert_eq!(terminal.screen().matches("It began").count(), 1, "{}", terminal.screen());
    assert!(replayed(&folder).starts_with("identical"));
}

#[test]
fn an_interrupted_reply_is_resumed_and_nothing_is_lost() {
    if !has_terminal() {
        return;
    }
    let door = Door::default();
    let answers = vec![
        words("Hello, Ada."),
        halting("It began at noon ", &door, "and was never sent."),
        words("It began at noon and ended at one."),
    ];
    let double = Double::start(answers);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks --session ada");
    terminal.shows(">");
    terminal.types("I am Ada.");
    terminal.shows("Hello, Ada.");
    terminal.shows(">");
    terminal.types("when was it?");
    terminal.shows("It began at noon");
    terminal.types_ctrl_c();
    terminal.shows("nothing is lost");
    terminal.shows(">");
    terminal.types("/resume");
    terminal.shows("and ended at one.");
    terminal.shows(">");
    terminal.types("/quit");
    terminal.shows("ended with 0");
    // The same request was sent again, with all that was said before.
    let received = double.received();
    assert_eq!(received.len(), 3);
    assert_eq!(received[1].text, received[2].text);
    assert_eq!(received[2].path, "/v1/chat/completions");
    assert_eq!(received[2].authorization, None);
    assert!(received[2].body["messages"].to_string().contains("Hello, Ada."), "{}", received[2].body);
    assert!(replayed(&folder).starts_with("identical"));
}

#[test]
fn ctrl_c_at_the_prompt_leaves_and_tells_how_to_come_back() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(vec![words("Hello, Ada.")]);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks --session ada");
    terminal.shows(">");
    terminal.types("I am Ada.");
    terminal.shows("Hello, Ada.");
    terminal.shows(">");
    terminal.types_ctrl_c();
    terminal.shows("dalsegno chat talks --session ada");
    terminal.shows("ended with 130");
    assert!(replayed(&folder).starts_with("identical"));
}

#[test]
fn prompts_are_seen_even_if_the_answers_go_to_a_file() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(vec![words("Hello, Ada.")]);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks > answers");
    terminal.shows(">");
    terminal.types("I am Ada.");
    terminal.shows(">");
    terminal.types("/quit");
    terminal.shows("ended with 0");
    assert_eq!(fs::read_to_string(folder.path().join("answers")).unwrap(), "Hello, Ada.\n");
}

#[test]
fn a_conversation_that_is_not_typed_shows_no_prompts_and_loses_no_answer() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(vec![words("Hello, Ada.")]);
    let folder = workspace(&double);
    fs::write(folder.path().join("agents/asks.toml"), ASKS).unwrap();
    fs::write(folder.path().join("said"), "help me\nwith the disk\n").unwrap();
    let mut terminal = Terminal::open(&folder, "chat asks < said");
    terminal.shows("ended with 0");
    let screen = terminal.screen();
    assert!(screen.contains("with what?") && screen.contains("So it is with the disk."), "{screen}");
    assert!(!screen.contains('>') && !screen.contains("answer:"), "{screen}");
}

const ASKS: &str = r#"name = "asks"
version = "1.0.0"
description = "Asks."

[[steps]]
id = "what"
ask = "with what?"

[[steps]]
respond = "So it is {{steps.what}}."
"#;

#[test]
fn a_person_agrees_to_the_programs_of_a_workspace_once() {
    if !has_terminal() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("dalsegno.toml"),
        "[servers.bell]\ncommand = [\"/bin/false\", \"--ring\"]\n",
    )
    .unwrap();
    let state = format!("DALSEGNO_STATE='{}'", folder.path().join("state").display());
    let question = "start them, now and later, [y]es or [n]o:";
    {
        let mut terminal = Terminal::open_with(&folder, "worker --until-idle", &state);
        terminal.shows("`/bin/false --ring` of `[servers.bell]`");
        terminal.shows(question);
        terminal.types("n");
        terminal.shows("you have not agreed to them");
        terminal.shows("ended with 2");
    }
    {
        let mut terminal = Terminal::open_with(&folder, "worker --until-idle", &state);
        terminal.shows(question);
        terminal.types("yes");
        terminal.shows("ended with 0");
    }
    let mut terminal = Terminal::open_with(&folder, "worker --until-idle", &state);
    terminal.shows("ended with 0");
    assert!(!terminal.screen().contains(question));
}

/// What a person said in each request, the last one of it.
fn said(double: &Double) -> Vec<String> {
    let last = |body: &serde_json::Value| {
        let messages = body["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].as_str().unwrap().to_owned()
    };
    double.received().iter().map(|received| last(&received.body)).collect()
}

#[test]
fn a_message_is_edited_and_written_over_several_lines() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(vec![words("First."), words("Second."), words("Third.")]);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks");
    terminal.shows(">");
    // The cursor moves back, and what was forgotten is put in.
    terminal.tmux(&["send-keys", "-l", "Good mrning"]);
    terminal.presses(&["Left"; 5]);
    terminal.types("o");
    terminal.shows("First.");
    terminal.shows(">");
    terminal.types("one\\");
    terminal.types("two");
    terminal.shows("Second.");
    terminal.shows(">");
    terminal.pastes("cp a \\\n  b");
    terminal.presses(&["Enter"]);
    terminal.shows("Third.");
    assert_eq!(said(&double), ["Good morning", "one\ntwo", "cp a \\\n  b"]);
}

#[test]
fn messages_of_earlier_conversations_are_recalled_and_no_secret_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    if !has_terminal() {
        return;
    }
    let answers = ["First.", "Second.", "Third.", "Fourth."].map(words);
    let double = Double::start(answers.into());
    let folder = workspace(&double);
    let history = folder.path().join(".dalsegno/chat_history");
    fs::write(
        folder.path().join("dalsegno.toml"),
        format!("{}api_key = {{ env = \"MODEL_KEY\" }}\n", double.settings()),
    )
    .unwrap();
    let key = "MODEL_KEY=canary-4711-token";
    {
        let mut terminal = Terminal::open_with(&folder, "chat talks", key);
        terminal.shows(">");
        terminal.types("my token is canary-4711-token");
        terminal.shows("First.");
        terminal.shows(">");
        terminal.types(" not for later");
        terminal.shows("Second.");
        terminal.shows(">");
        terminal.types("when was it?");
        terminal.shows("Third.");
        terminal.shows(">");
        terminal.types("/session");
        terminal.shows(">");
        terminal.presses(&["C-d"]);
        terminal.shows("ended with 0");
    }
    assert_eq!(fs::read_to_string(&history).unwrap(), "\"when was it?\"\n");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    let mut terminal = Terminal::open_with(&folder, "chat talks", key);
    terminal.shows(">");
    terminal.presses(&["Up"]);
    terminal.shows("when was it?");
    terminal.presses(&["Enter"]);
    terminal.shows("Fourth.");
    assert_eq!(said(&double)[3], "when was it?");
}

#[test]
fn a_conversation_without_a_history_recalls_and_keeps_nothing() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(vec![words("First.")]);
    let folder = workspace(&double);
    let mut terminal = Terminal::open(&folder, "chat talks --no-history");
    terminal.shows(">");
    terminal.types("when was it?");
    terminal.shows("First.");
    terminal.shows(">");
    terminal.types("/quit");
    terminal.shows("ended with 0");
    assert!(!folder.path().join(".dalsegno/chat_history").exists());
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_as_it_was() {
    if !has_terminal() {
        return;
    }
    let double = Double::start(Vec::new());
    let folder = workspace(&double);
    let mut terminal = Terminal::open_with(&folder, "chat talks", "");
    terminal.shows(">");
    let found = terminal.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let shell = found.trim();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let killed = Command::new("kill").args(["-TERM", children.trim()]).status().unwrap();
    assert!(killed.success());
    terminal.shows("ended with 130");
    // The shell goes on with `cat`: a terminal that is left raw would not echo, and would not end the line.
    terminal.types("seen");
    terminal.shows("seen");
    terminal.shows("seen");
}

const DESK: &str = r#"name = "desk"
version = "1.0.0"
description = "Takes calls."

[model]
use = "default"
retries = 0

[voice]
"#;

#[test]
fn typing_interrupts_the_model_that_plays_the_live_model() {
    if !has_terminal() {
        return;
    }
    let story = "Once upon a time there was a table at a window, and whoever sat there saw the sea, the boats, \
                 the gulls and the lighthouse, and in the evening the lights of the other shore, one by one.";
    let double = Double::start(vec![words(story), words("At eight.")]);
    let folder = workspace(&double);
    fs::write(folder.path().join("agents/desk.toml"), DESK).unwrap();
    let mut terminal = Terminal::open(&folder, "call text desk");
    terminal.shows("Ctrl-D hangs up");
    terminal.types("Tell me a story.");
    // The reply is there as a whole, and is spoken word by word.
    terminal.shows("agent: Once upon");
    terminal.types("Stop. When do you open?");
    terminal.shows("(cut off after");
    terminal.shows("agent: At eight.");
    terminal.presses(&["C-d"]);
    terminal.shows("the caller ends the call: hung up");
    terminal.shows("ended with 0");
    assert!(!terminal.screen().contains("one by one"), "{}", terminal.screen());
    let received = double.received();
    assert_eq!(received.len(), 2);
    // The model knows how far it came.
    assert!(
        received[1].text.contains("Once upon") && !received[1].text.contains("one by one"),
        "{}",
        received[1].text
    );
    assert!(received[1].text.contains("[…]"), "{}", received[1].text);
    assert!(replayed(&folder).starts_with("identical"));
}
