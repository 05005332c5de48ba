//! Calls of which nobody knows whether they took place, and what a person says about them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::guest::{GONE, SILENT, install, paging};
use crate::support::{Workspace, photograph};

/// A run whose call was received and not answered in time.
fn in_doubt() -> Workspace {
    let workspace = paging(SILENT, IMPATIENT);
    let output = workspace.command(&["run", "page", "ada"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", workspace.shown(&output));
    workspace
}

/// The time that the servers of these tests, which never answer, are given.
const IMPATIENT: &str = "300ms";

fn events(workspace: &Workspace) -> Vec<Value> {
    workspace.json(&["show", "last"])["events"].as_array().unwrap().clone()
}

fn operation(workspace: &Workspace) -> String {
    let waiting = &workspace.json(&["show", "last"])["waiting_for"][0];
    assert_eq!(waiting["kind"], "in_doubt", "{waiting}");
    waiting["operation"].as_str().unwrap()[..8].to_owned()
}

/// Answers the only question of the run; returns what a person would see.
fn answer(workspace: &Workspace, answer: &str) -> String {
    workspace.dalsegno(&["resume", "last", "--op", &operation(workspace), "--outcome", answer])
}

#[test]
fn a_call_without_an_answer_is_asked_about() {
    photograph!(paging(SILENT, IMPATIENT).dalsegno(&["run", "page", "ada"]), @r#"
    exit code: 4
    --- stdout
    --- stderr
    suspended · 1 step · 1 tool call · [TOOK] · run [SHORT]

    did `pager.page` take place?
      attempt 1 had no answer (tool server `pager`: the guest did not answer within 300ms)
    its arguments:
      {
        "who": "ada"
      }
    resume with one of
      dalsegno resume [SHORT] --shown [SHOWN] --outcome happened         it took place
      dalsegno resume [SHORT] --shown [SHOWN] --outcome not-happened     it did not: it starts again
      dalsegno resume [SHORT] --shown [SHOWN] --outcome refused:WHY      it arrived and was refused with this error
      dalsegno resume [SHORT] --shown [SHOWN] --outcome @FILE            it took place and returned this
    "#);
}

#[test]
fn a_call_in_doubt_is_a_document_for_programs() {
    let document = paging(SILENT, IMPATIENT).json(&["run", "page", "ada"]);
    assert_eq!(document["status"], "suspended");
    let waiting = &document["waiting_for"][0];
    assert_eq!((&waiting["kind"], &waiting["arguments"]), (&json!("in_doubt"), &json!({"who": "ada"})));
    assert!(waiting["reason"].as_str().unwrap().contains("did not answer within 300ms"), "{waiting}");
}

#[test]
fn an_answer_about_one_attempt_is_none_about_the_next() {
    let workspace = in_doubt();
    let shown = workspace.seen();
    let answer = |word: &str| workspace.dalsegno(&["resume", "last", "--shown", &shown, "--outcome", word]);
    let again = answer("not-happened");
    assert!(again.starts_with("exit code: 4\n") && again.contains("attempt 2 had no answer"), "{again}");
    // A colleague looked when the first attempt was in doubt.
    let late = answer("not-happened");
    assert!(late.starts_with("exit code: 2\n"), "{late}");
    assert!(late.contains("what waits does not match `--shown`: nothing was answered"), "{late}");
    assert_eq!(attempts(&workspace), 2);
    let now = workspace.seen();
    assert_ne!(now, shown);
    workspace.succeed(&["resume", "last", "--shown", &now, "--outcome", "happened"]);
    assert_eq!(attempts(&workspace), 2);
}

#[test]
fn without_an_answer_the_question_stays_and_nothing_is_recorded() {
    let workspace = in_doubt();
    let before = events(&workspace);
    let output = workspace.dalsegno(&["resume", "last"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("did `pager.page` take place?"), "{output}");
    assert!(output.contains("--outcome happened"), "{output}");
    assert_eq!(events(&workspace), before);
}

#[test]
fn a_call_that_took_place_is_not_repeated() {
    let workspace = in_doubt();
    photograph!(answer(&workspace, "happened"), @r#"
        exit code: 0
        --- stdout
        Paged: {"settled":"done"}
        --- stderr
        completed · 1 step · 1 tool call · [TOOK] · run [SHORT]
        "#);
    assert_eq!(attempts(&workspace), 1);
    photograph!(workspace.dalsegno(&["replay", "last"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        identical: 1 step, 6 records, nothing performed
        ");
}

#[test]
fn what_a_person_says_that_it_returned_is_its_result() {
    let workspace = in_doubt();
    workspace.write("result.json", "{\"line\": 3}");
    photograph!(answer(&workspace, "@result.json"), @r#"
        exit code: 0
        --- stdout
        Paged: {"line":3}
        --- stderr
        completed · 1 step · 1 tool call · [TOOK] · run [SHORT]
        "#);
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn who_settled_a_doubt_and_how_is_shown() {
    for (answer, words) in [("happened", "took place"), ("refused:the line is closed", "refused")] {
        let workspace = in_doubt();
        let operation = operation(&workspace);
        workspace.dalsegno(&["resume", "last", "--op", &operation, "--outcome", answer, "--by", "ada"]);
        let shown = workspace.succeed(&["show", "last"]);
        assert!(shown.contains("  then in doubt: "), "{shown}");
        let line = shown.lines().find(|line| line.contains("settled")).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains("by ada") && line.contains(words), "{shown}");
    }
}

#[test]
fn a_call_that_did_not_take_place_starts_again() {
    let workspace = in_doubt();
    let operation = operation(&workspace);
    let output = answer(&workspace, "not-happened");
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("attempt 2 had no answer"), "{output}");
    assert_eq!(attempts(&workspace), 2);
    // The same operation is asked about once more, and can be settled like the first time.
    assert_eq!(self::operation(&workspace), operation);
    assert!(answer(&workspace, "happened").starts_with("exit code: 0\n"));
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn an_answer_of_the_wrong_kind_is_refused_and_not_recorded() {
    let workspace = in_doubt();
    let before = events(&workspace);
    photograph!(workspace.dalsegno(&["resume", "last", "--approve"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: operation [SHORT] is in doubt: answer with `--outcome happened`, `--outcome not-happened`, `--outcome refused:WHY` or `--outcome @FILE`
    ");
    photograph!(workspace.dalsegno(&["resume", "last", "--deny"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: operation [SHORT] is in doubt: answer with `--outcome happened`, `--outcome not-happened`, `--outcome refused:WHY` or `--outcome @FILE`
        ");
    photograph!(workspace.dalsegno(&["resume", "last", "--outcome", "maybe"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `maybe` is not an answer: expected `happened`, `not-happened`, `refused:WHY`, or `@FILE` with its result
        ");
    let output = workspace.dalsegno(&["resume", "last", "--outcome", "@nothing.json"]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
    assert_eq!(events(&workspace), before);
}

#[test]
fn a_server_that_ends_in_the_middle_of_a_call_leaves_it_in_doubt() {
    let workspace = paging("(call $proc_exit (i32.const 7))", "30s");
    let output = workspace.dalsegno(&["run", "page", "ada"]);
    assert!(output.starts_with("exit code: 4\n"), "{output}");
    assert!(output.contains("code 7"), "{output}");
    assert!(answer(&workspace, "happened").starts_with("exit code: 0\n"));
}

#[test]
fn a_server_that_ends_at_once_starts_no_run() {
    let workspace = paging(SILENT, IMPATIENT);
    install(&workspace, GONE);
    photograph!(workspace.dalsegno(&["run", "page", "ada"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: tool server `pager`: the guest exited before the host was done with it (at its start)
          help: start the server or correct its section in dalsegno.toml; `dalsegno servers` tries each server alone
        ");
    assert_eq!(workspace.json(&["runs"]), json!([]));
}

#[test]
fn an_answer_is_recorded_though_the_server_ends_at_once() {
    let workspace = in_doubt();
    install(&workspace, GONE);
    assert!(answer(&workspace, "happened").starts_with("exit code: 0\n"));
    workspace.succeed(&["replay", "last"]);
}

#[test]
fn a_run_whose_agent_and_server_are_gone_can_still_be_read() {
    let workspace = in_doubt();
    let before = events(&workspace);
    workspace.write("agents/page.toml", "name = \"page");
    std::fs::remove_file(workspace.path("pager.wasm")).unwrap();
    workspace.succeed(&["runs"]);
    workspace.succeed(&["show", "last"]);
    workspace.succeed(&["replay", "last"]);
    // Only to go on takes them.
    let output = answer(&workspace, "happened");
    assert!(output.starts_with("exit code: 2\n"), "{output}");
    assert_eq!(events(&workspace), before);
}

fn attempts(workspace: &Workspace) -> usize {
    let started = |event: &&Value| match event["kind"].as_str().unwrap() {
        "requested" => event["data"]["start"] == "now",
        kind => kind == "attempted",
    };
    events(workspace).iter().filter(started).count()
}

#[cfg(unix)]
mod killed {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_call_during_which_the_process_was_killed_is_in_doubt() {
        // Far more time than the test takes, so that only the kill ends the call.
        let workspace = paging(SILENT, "30s");
        let mut child = workspace
            .command(&["run", "page", "ada", "--format", "jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // An event is written when its record is on the disk; the call starts right after its request is.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let requested =
            lines.any(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["kind"] == "requested");
        assert!(requested, "the run ended before it asked for the call");
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));

        assert_eq!(workspace.json(&["runs"])[0]["status"], "running");
        let before = events(&workspace).len();
        photograph!(workspace.dalsegno(&["resume", "last"]), @r#"
        exit code: 4
        --- stdout
        --- stderr
        suspended · 1 step · 1 tool call · [TOOK] · run [SHORT]

        did `pager.page` take place?
          the process ended before an outcome was recorded
        its arguments:
          {
            "who": "ada"
          }
        resume with one of
          dalsegno resume [SHORT] --shown [SHOWN] --outcome happened         it took place
          dalsegno resume [SHORT] --shown [SHOWN] --outcome not-happened     it did not: it starts again
          dalsegno resume [SHORT] --shown [SHOWN] --outcome refused:WHY      it arrived and was refused with this error
          dalsegno resume [SHORT] --shown [SHOWN] --outcome @FILE            it took place and returned this
        "#);
        assert_eq!(attempts(&workspace), 1);
        assert!(events(&workspace).len() > before);
        assert!(answer(&workspace, "happened").starts_with("exit code: 0\n"));
        workspace.succeed(&["replay", "last"]);
    }
}

#[test]
fn what_came_of_an_effect_after_the_end_of_its_run_is_shown() {
    let workspace = Workspace::plain();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    workspace.write("tenants/default.toml", &format!("name = \"default\"\negress = [\"{origin}\"]\n"));
    workspace.write(
        "tools/post.json",
        &format!(
            r#"{{"name": "post", "description": "Posts.", "actions": [{{"type": "api_call", "url": "{origin}/slow"}}]}}"#
        ),
    );
    workspace.write(
        "agents/p.toml",
        "name = \"p\"\nversion = \"1.0.0\"\ndescription = \"Posts.\"\n[tools]\nallow = [\"post\"]\n[[steps]]\n\
         id = \"x\"\ntool = \"post\"\n[[steps]]\nrespond = \"{{steps.x}}\"\n",
    );
    for answers in [true, false] {
        let mut child = workspace
            .command(&["run", "p", "go"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        workspace.succeed(&["cancel", "last"]);
        let waits = || workspace.json(&["show", "last"])["status"] != "cancelled";
        while waits() {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(
            workspace
                .succeed(&["show", "last"])
                .contains("  late in doubt: it was under way when the run ended")
        );
        if answers {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
                .unwrap();
        }
        drop(stream);
        child.wait().unwrap();
        let shown = workspace.succeed(&["show", "last"]);
        let late = if answers { "  late 200" } else { "  late in doubt: " };
        assert!(shown.contains(late) && !shown.contains("nothing yet"), "{shown}");
    }
}
