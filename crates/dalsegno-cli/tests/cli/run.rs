//! `dalsegno run`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Workspace, photograph};

#[test]
fn a_run_prints_its_answer_and_one_line() {
    photograph!(Workspace::plain().dalsegno(&["run", "note", "disk full on db-1"]), @r"
        exit code: 0
        --- stdout
        0 known. Noted: disk full on db-1
        --- stderr
        completed · 2 steps · [TOOK] · run [SHORT]
        ");
}

#[test]
fn a_model_answers() {
    photograph!(Workspace::plain().dalsegno(&["run", "chat", "hello", "--verbose"]), @r"
        exit code: 0
        --- stdout
        You said: hello
        --- stderr
        step 1 · model completion → You said: hello · [MS]
        completed · 1 step · 1 model call · 17 tokens · [TOOK] · run [SHORT]
        ");
}

#[test]
fn a_run_is_a_document_for_programs() {
    photograph!(Workspace::plain().dalsegno(&["run", "chat", "hello", "--json"]), @r#"
        exit code: 0
        --- stdout
        {
          "run_id": "[ID]",
          "agent": "chat",
          "status": "completed",
          "answer": "You said: hello",
          "output": null,
          "waiting_for": [],
          "steps": 1,
          "usage": {
            "model_calls": 1,
            "tool_calls": 0,
            "input_tokens": 12,
            "output_tokens": 5
          },
          "error": null
        }
        --- stderr
        completed · 1 step · 1 model call · 17 tokens · [TOOK] · run [SHORT]
        "#);
}

#[test]
fn the_journal_streams_without_a_gap() {
    let workspace = Workspace::plain();
    let lines = workspace.succeed(&["run", "note", "hello", "--format", "jsonl"]);
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["kind"], "started");
    assert_eq!(events.last().unwrap()["kind"], "completed");
    assert_eq!(workspace.json(&["show", "last"])["events"].as_array().unwrap(), &events);
}

#[test]
fn the_input_comes_from_an_argument_a_file_or_a_pipe() {
    let workspace = Workspace::plain();
    workspace.write("report.txt", "from a file");
    workspace.write("data.json", "{\"severity\": 2}");
    let file = workspace.succeed(&["run", "note", "@report.txt", "--data", "@data.json"]);
    assert_eq!(file, "Severity 2.\n\n0 known. Noted: from a file\n");
    let piped = workspace.dalsegno_with_input(&["run", "chat", "-"], "from a pipe");
    assert!(piped.contains("You said: from a pipe\n"), "{piped}");
    assert_eq!(workspace.succeed(&["run", "chat", "@@home"]), "You said: @home\n");
}

#[test]
fn input_that_cannot_be_used_starts_nothing() {
    let workspace = Workspace::plain();
    photograph!(workspace.dalsegno(&["run", "note", "@nothing.txt"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: cannot read `nothing.txt`: No such file or directory (os error 2)
          help: name a readable file of UTF-8 text, or `-`
        ");
    photograph!(workspace.dalsegno(&["run", "note", "hello", "--data", "{severity: 2}"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error: the argument is not JSON: key must be a string at line 1 column 2
          help: write JSON, such as '{"severity": 2}', or `@FILE`
        "#);
    photograph!(workspace.dalsegno(&["run", "Note"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'Note' for '<AGENT>': `Note` is not an agent name: expected 1 to 64 lower-case letters, digits and single hyphens, beginning with a letter

        For more information, try '--help'.
        ");
    assert_eq!(workspace.json(&["runs"]), serde_json::json!([]));
}

#[test]
fn an_unknown_agent_is_told_with_the_nearest_name() {
    photograph!(Workspace::plain().dalsegno(&["run", "chta", "hello"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no agent `chta`: the agents are broken, chat, note
          help: did you mean `chat`?
        ");
}

#[test]
fn a_failed_run_says_why_and_what_to_do() {
    photograph!(Workspace::plain().dalsegno(&["run", "broken", "hello"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error[limit_exceeded]: plan step 2: `limits.max_steps` (1) is reached
          help: raise the limit in the agent file, or give the agent less to do
        failed · 1 step · [TOOK] · run [SHORT]
        ");
}

#[test]
fn the_same_key_gives_the_same_run() {
    let workspace = Workspace::plain();
    let run = || workspace.json(&["run", "chat", "hello", "--idempotency-key", "ticket-1"])["run_id"].clone();
    assert_eq!(run(), run());
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    photograph!(workspace.dalsegno(&["run", "chat", "other words", "--idempotency-key", "ticket-1"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the idempotency key `ticket-1` belongs to run [SHORT], which has another agent or input: use a new key
        ");
}

/// Sends a signal while the model is asked; returns what a person would see then.
#[cfg(unix)]
fn interrupted(workspace: &Workspace, signal: &str) -> String {
    let mut command = workspace.command(&["run", "chat", "hello", "--format", "jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The model is asked once its request is in the journal.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"kind\":\"requested\"")));
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<_> = lines.collect();
    assert!(rest.iter().all(|line| !line.as_ref().unwrap().contains("completed")), "{rest:?}");
    workspace.shown(&child.wait_with_output().unwrap())
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_is_resumed() {
    let workspace = Workspace::plain();
    let replies = std::fs::read_to_string(workspace.path("replies.toml")).unwrap();
    workspace.write("replies.toml", &format!("{replies}delay = \"60s\"\n"));
    let output = interrupted(&workspace, "-INT");
    photograph!(output, @r"
        exit code: 130
        --- stdout
        --- stderr
        stopping: what may not be repeated finishes first; once more stops at once
        interrupted · 1 step · [TOOK] · run [SHORT]
        resume it with `dalsegno resume [SHORT]`
        ");

    workspace.write("replies.toml", &replies);
    photograph!(workspace.dalsegno(&["resume", "last"]), @r"
        exit code: 0
        --- stdout
        You said: hello
        --- stderr
        completed · 1 step · 1 model call · 17 tokens · [TOOK] · run [SHORT]
        ");
}

#[test]
#[cfg(unix)]
fn a_wish_to_end_the_process_interrupts_the_run_too() {
    let workspace = Workspace::plain();
    let replies = std::fs::read_to_string(workspace.path("replies.toml")).unwrap();
    workspace.write("replies.toml", &format!("{replies}delay = \"60s\"\n"));
    let output = interrupted(&workspace, "-TERM");
    assert!(output.starts_with("exit code: 130\n") && output.contains("dalsegno resume"), "{output}");
    assert_eq!(workspace.json(&["runs"])[0]["status"], "running");
}

#[test]
fn a_failed_run_tells_programs_why() {
    let document = Workspace::plain().json(&["run", "broken", "hello"]);
    assert_eq!(
        (&document["status"], &document["error"]["code"]),
        (&"failed".into(), &"limit_exceeded".into())
    );
    assert!(document["error"]["message"].is_string() && document["error"]["help"].is_string(), "{document}");
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_run() {
    let workspace = Workspace::plain();
    for _ in 0..30 {
        workspace.succeed(&["run", "chat", "hello"]);
    }
    for args in [&["run", "note", "hello"][..], &["runs"], &["show", "last", "--json"]] {
        let mut command = workspace.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", workspace.shown(&output));
        assert!(!workspace.shown(&output).contains("panicked"));
    }
    assert_eq!(workspace.json(&["runs"])[0]["status"], "completed");
}

#[test]
fn a_run_belongs_to_the_session_that_is_named() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "hello", "--session", "ticket-4711"]);
    assert_eq!(workspace.json(&["runs"])[0]["session"], "ticket-4711");
    let output = workspace.dalsegno(&["run", "note", "hello", "--session", ""]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1, "a run was started");
}

#[test]
fn an_argument_that_says_nothing_of_use_is_refused() {
    let workspace = Workspace::plain();
    let refused = |args: &[&str], words: &str| {
        let output = workspace.dalsegno(args);
        assert!(output.starts_with("exit code: 2\n") && output.contains(words), "{args:?}: {output}");
    };
    refused(&["run", "chat", "hello", "--idempotency-key", ""], "--idempotency-key");
    refused(&["run", "chat", "hello", "--user", "[1]"], "`--user` is a list: expected an object");
    let long = workspace.path("long.txt");
    std::fs::write(&long, vec![b'a'; 17 << 20]).unwrap();
    refused(&["run", "chat", &format!("@{}", long.display())], "name a smaller file");
    assert!(!workspace.path(".dalsegno/dalsegno.db").exists() || workspace.succeed(&["runs"]).is_empty());
}
