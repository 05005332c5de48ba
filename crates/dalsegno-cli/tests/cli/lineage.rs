//! Runs from runs: forks, comparisons, replays under another configuration, ends from outside, journeys.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Workspace, photograph};

const INCIDENT: &str = "data loss in production";

const JUDGE: &str = r#"name = "judge"
version = "1.0.0"
description = "Scores an incident and records a serious one."

[tools]
allow = ["risk.*"]

[[steps]]
id = "score"
tool = "risk.score"
with = { text = "{{request.text}}" }

[[steps]]
id = "record"
when = "steps.score.value > 0.5"
tool = "risk.record"
with = { incident = "{{request.text}}", risk = "{{steps.score.value}}", decision = "escalate" }

[[steps]]
respond = "{{steps.record ? 'Recorded' : 'Not recorded'}} at {{steps.score.value}}."
"#;

/// A run that scored an incident and recorded it, and the ids of the run and of the score.
fn judged() -> (Workspace, String, String) {
    let workspace = Workspace::guarded();
    workspace.write("agents/judge.toml", JUDGE);
    assert_eq!(workspace.succeed(&["run", "judge", INCIDENT]), "Recorded at 0.7.\n");
    workspace.write("low.json", r#"{"value": 0.1, "level": "low", "factors": []}"#);
    workspace.write("high.json", r#"{"value": 0.9, "level": "high", "factors": []}"#);
    let run = last(&workspace);
    let score = operations(&workspace, &run)[0].clone();
    (workspace, run, score)
}

fn last(workspace: &Workspace) -> String {
    workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned()
}

/// The operations that a run's own journal asks for, in their order.
fn operations(workspace: &Workspace, run: &str) -> Vec<String> {
    let show = workspace.json(&["show", run]);
    let requested = show["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "requested");
    requested.map(|event| event["operation"].as_str().unwrap().to_owned()).collect()
}

/// The lines that the guest really wrote.
fn recorded(workspace: &Workspace) -> usize {
    let file = workspace.path(".dalsegno/incidents/escalations.jsonl");
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

mod forks {
    use super::*;

    #[test]
    fn another_outcome_leads_to_another_end() {
        let (workspace, run, score) = judged();
        let low = format!("{}=low.json", &score[..8]);
        photograph!(workspace.dalsegno(&["fork", &run, "--set", &low]), @r"
            exit code: 0
            --- stdout
            Not recorded at 0.1.
            --- stderr
            forked run [SHORT] as run [SHORT]
            completed · 1 step · 1 tool call · [TOOK] · run [SHORT]
            ");
        assert_eq!(recorded(&workspace), 1);
        workspace.succeed(&["replay", "last"]);
        // The run that was forked is as it was.
        assert_eq!(workspace.json(&["show", &run])["answer"], "Recorded at 0.7.");
    }

    #[test]
    fn an_effect_of_a_fork_waits_for_a_person_and_has_an_id_of_its_own() {
        let (workspace, run, score) = judged();
        let high = format!("{}=high.json", &score[..8]);
        photograph!(workspace.dalsegno(&["fork", &run, "--set", &high]), @r#"
            exit code: 4
            --- stdout
            --- stderr
            forked run [SHORT] as run [SHORT]
            suspended · 2 steps · 2 tool calls · [TOOK] · run [SHORT]

            `risk.record` waits for approval; its arguments:
              {
                "decision": "escalate",
                "incident": "data loss in production",
                "risk": 0.9
              }
            resume with one of
              dalsegno resume [SHORT] --approve --shown [SHOWN]
              dalsegno resume [SHORT] --approve --shown [SHOWN] --edit FILE     with other arguments, as JSON
              dalsegno resume [SHORT] --deny --reason "…"
            "#);
        assert_eq!(recorded(&workspace), 1);
        let seen = workspace.seen();
        photograph!(workspace.dalsegno(&["resume", "last", "--approve", "--shown", &seen]), @r"
            exit code: 0
            --- stdout
            Recorded at 0.9.
            --- stderr
            completed · 2 steps · 2 tool calls · [TOOK] · run [SHORT]
            ");
        assert_eq!(recorded(&workspace), 2);

        let fork = last(&workspace);
        let (original, forked) = (operations(&workspace, &run), operations(&workspace, &fork));
        assert_eq!((original.len(), forked.len()), (2, 1));
        let original: BTreeSet<_> = original.into_iter().collect();
        assert!(forked.iter().all(|operation| !original.contains(operation)), "{original:?} {forked:?}");
        // The tool was given another key too, so that it does not take the call for the one it knows.
        let lines = fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl")).unwrap();
        let keys: BTreeSet<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["operation"].to_string())
            .collect();
        assert_eq!(keys.len(), 2, "{lines}");
        workspace.succeed(&["replay", "last"]);
    }

    #[test]
    fn effects_take_place_at_once_where_somebody_says_so() {
        let (workspace, run, score) = judged();
        let high = format!("{score}=high.json");
        let answer = workspace.succeed(&["fork", &run, "--set", &high, "--effects", "live"]);
        assert_eq!((answer.as_str(), recorded(&workspace)), ("Recorded at 0.9.\n", 2));
    }

    #[test]
    fn a_step_is_asked_for_anew() {
        let (workspace, run, _) = judged();
        let document = workspace.json(&["fork", &run, "--at", "1", "--effects", "live"]);
        assert_eq!(
            (&document["status"], &document["answer"]),
            (&json!("completed"), &json!("Recorded at 0.7."))
        );
        let fork = document["run_id"].as_str().unwrap();
        assert_eq!(operations(&workspace, fork).len(), 2);
        assert_ne!(operations(&workspace, fork), operations(&workspace, &run));
    }

    #[test]
    fn a_place_that_does_not_exist_is_told() {
        let (workspace, run, score) = judged();
        photograph!(workspace.dalsegno(&["fork", &run, "--set", "0000=low.json"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: run [SHORT] has no operation that begins with `0000`
              help: `dalsegno show [SHORT]` lists its operations
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--set", "wxyz=low.json"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: `wxyz` is not an operation id: expected 4 to 32 hexadecimal digits
              help: list a run's operations with `dalsegno show RUN`
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--set", "low.json"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: invalid value 'low.json' for '--set <OP=FILE>': expected OP=FILE, such as 81c2=outcome.json

            For more information, try '--help'.
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--at", "9"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: run [SHORT] cannot be forked: its last step is 2, so it cannot be forked at step 9
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--at", "0"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: run [SHORT] cannot be forked: say at which step, from 1, or which outcome to replace
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--at", "1", "--set", &format!("{score}=low.json")]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: run [SHORT] cannot be forked: operation [SHORT] belongs to step 1, so the fork would be at step 2, not 1
            ");
        photograph!(workspace.dalsegno(&["fork", &run, "--at", "1", "--model", "other"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: `dalsegno.toml` has no model `other`: it has nothing
              help: write it as `[models.*]` in `dalsegno.toml`, or give an `--endpoint`
            ");
        photograph!(workspace.dalsegno(&["fork", &run]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: missing fork point for run [SHORT]: pass `--at STEP` (for a call, `--at TURN`) or `--set OP=FILE`
              help: `dalsegno show [SHORT]` lists its steps and operations
            ");
        assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    }
}

mod comparisons {
    use super::*;

    #[test]
    fn two_runs_are_told_apart_in_eighty_columns() {
        let (workspace, run, score) = judged();
        workspace.succeed(&["fork", &run, "--set", &format!("{score}=high.json"), "--effects", "live"]);
        let output = workspace.dalsegno(&["diff", &run, "last"]);
        // What another program reads is whole.
        assert!(!output.contains('…'), "{output}");
        photograph!(output, @r#"
            exit code: 3
            --- stdout
            - [SHORT] judge completed · 2 steps · Recorded at 0.7.
            + [SHORT] judge completed · 2 steps · Recorded at 0.9.

            first difference: step 1, outcome of tool `risk.score`
              /tool_returned/structured/factors/0
                - {"evidence":"data loss","name":"data_loss","weight":0.55}
              /tool_returned/structured/factors/1
                - {"evidence":"production","name":"scope","weight":0.3}
              /tool_returned/structured/value
                - 0.7
                + 0.9

            state
              /steps/score/factors/0
                - {"evidence":"data loss","name":"data_loss","weight":0.55}
              /steps/score/factors/1
                - {"evidence":"production","name":"scope","weight":0.3}
              /steps/score/value
                - 0.7
                + 0.9

            arguments: step 2, tool `risk.record`
              /risk
                - 0.7
                + 0.9

            cost
                the same: 2 tool calls
            --- stderr
            "#);
        let document = workspace.json(&["diff", &run, "last"]);
        assert_eq!((&document["identical"], &document["first"]["step"]), (&json!(false), &json!(1)));
        assert_eq!(
            document["arguments"]["changes"],
            json!([{ "path": "/risk", "left": "0.7", "right": "0.9" }])
        );
    }

    #[test]
    fn a_reworded_request_is_told_with_its_prompt_and_its_cost() {
        let workspace = Workspace::plain();
        workspace.succeed(&[
            "run",
            "chat",
            "the disk of db-1 is full and nobody knows for how long it has been",
        ]);
        let run = last(&workspace);
        workspace.succeed(&["run", "chat", "the disk of db-2 is full"]);
        let output = workspace.dalsegno(&["diff", &run, "last"]);
        // What another program reads is whole.
        assert!(!output.contains('…'), "{output}");
        photograph!(output, @r"
        exit code: 3
        --- stdout
        - [SHORT] chat completed · 1 step · You said: the disk of db-1 is full and nobody knows for how long it has been
        + [SHORT] chat completed · 1 step · You said: the disk of db-2 is full

        first difference: step 1, request of model completion
          message 1, user
            - the disk of db-1 is full and nobody knows for how long it has been
            + the disk of db-2 is full

        state
          /request/text
            - the disk of db-1 is full and nobody knows for how long it has been
            + the disk of db-2 is full

        prompt: step 1, model completion
          message 1, user
            - the disk of db-1 is full and nobody knows for how long it has been
            + the disk of db-2 is full

        cost
            the same: 1 model call · 17 tokens
        --- stderr
        ");
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        let (workspace, run, _) = judged();
        photograph!(workspace.dalsegno(&["diff", &run, "last"]), @r"
            exit code: 0
            --- stdout
            - [SHORT] judge completed · 2 steps · Recorded at 0.7.
            + [SHORT] judge completed · 2 steps · Recorded at 0.7.

            the same requests, outcomes and end
            --- stderr
            ");
        assert_eq!(workspace.json(&["diff", &run, &run])["identical"], true);
        let output = workspace.dalsegno(&["diff", &run, "ffff0000"]);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
    }
}

mod configurations {
    use super::*;

    fn agent(workspace: &Workspace, name: &str) -> String {
        fs::read_to_string(workspace.path(&format!("agents/{name}.toml"))).unwrap()
    }

    #[test]
    fn a_reworded_prompt_is_a_changed_request() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "chat", "hello"]);
        let reworded =
            agent(&workspace, "chat").replace("\"{{request.text}}\"", "\"Answer this: {{request.text}}\"");
        workspace.write("other.toml", &reworded);
        photograph!(workspace.dalsegno(&["replay", "last", "--with-config", "other.toml"]), @r"
            exit code: 3
            --- stdout
            1 changed request
            step 1, model completion
              message 1, user
                - hello
                + Answer this: hello
            --- stderr
            the same course with 1 changed request
            ");
        let document = workspace.json(&["replay", "last", "--with-config", "other.toml"]);
        assert_eq!(document["identical"], false);
        assert_eq!(document["changed_requests"].as_array().unwrap().len(), 1, "{document}");
        // Nothing was written: the workspace's own agent still is the run's.
        photograph!(workspace.dalsegno(&["replay", "last", "--with-config"]), @r"
            exit code: 0
            --- stdout
            --- stderr
            identical: 1 step, nothing performed
            ");
        workspace.write("agents/chat.toml", &reworded);
        let output = workspace.dalsegno(&["replay", "last", "--with-config"]);
        assert!(output.starts_with("exit code: 3\n") && output.contains("Answer this:"), "{output}");
        // The run itself was not touched.
        workspace.succeed(&["replay", "last"]);
        assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_changed_condition_is_another_course() {
        let (workspace, run, _) = judged();
        workspace.write("other.toml", &agent(&workspace, "judge").replace("> 0.5", "> 0.8"));
        photograph!(workspace.dalsegno(&["replay", &run, "--with-config", "other.toml"]), @r"
            exit code: 3
            --- stdout
            another course from step 2 on
                - a request, tool `risk.record`
                + ends with an answer
            --- stderr
            another course from step 2 on
            ");
        let document = workspace.json(&["replay", &run, "--with-config", "other.toml"]);
        assert_eq!(document["divergence"]["step"], 2, "{document}");
        assert_eq!(recorded(&workspace), 1);
    }

    #[test]
    fn a_change_that_touches_neither_is_none() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "chat", "hello"]);
        workspace
            .write("agents/chat.toml", &format!("{}\n[limits]\nmax_steps = 7\n", agent(&workspace, "chat")));
        photograph!(workspace.dalsegno(&["replay", "last", "--with-config"]), @r"
            exit code: 0
            --- stdout
            --- stderr
            identical: 1 step, nothing performed
            ");
        workspace.write("other.toml", &agent(&workspace, "chat").replace("Repeats what", "Says again what"));
        workspace.succeed(&["replay", "last", "--with-config", "other.toml"]);
    }

    #[test]
    fn a_file_that_is_no_agent_is_told() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "chat", "hello"]);
        workspace.write("other.toml", &agent(&workspace, "chat").replace("\"{{request.text}}\"", "4"));
        let output = workspace.dalsegno(&["replay", "last", "--with-config", "other.toml"]);
        assert!(output.contains("[other.toml:4:10]") && output.contains("prompt = 4"), "{output}");
        assert!(output.ends_with("error: `other.toml` has errors: 1 error\n"), "{output}");
        let document = workspace.json(&["replay", "last", "--with-config", "other.toml"]);
        assert_eq!(document["error"]["diagnostics"][0]["file"], "other.toml", "{document}");
        // One that is sound by itself, and does not fit the workspace.
        workspace.write(
            "other.toml",
            &agent(&workspace, "chat").replace("[model]", "[tools]\nallow = [\"risk.score\"]\n[model]"),
        );
        let output = workspace.dalsegno(&["replay", "last", "--with-config", "other.toml"]);
        assert!(output.starts_with("exit code: 2\n") && output.contains("[other.toml:"), "{output}");
        assert!(!output.contains("agents/chat.toml"), "{output}");
        let output = workspace.dalsegno(&["replay", "last", "--with-config", "nothing.toml"]);
        assert!(output.starts_with("exit code: 2\n") && output.contains("nothing.toml"), "{output}");
    }
}

mod journeys {
    use super::*;

    /// Another machine: a workspace without agents, servers and models.
    fn elsewhere(from: &Workspace, file: &str) -> Workspace {
        let other = Workspace::empty();
        other.write("dalsegno.toml", "");
        fs::copy(from.path(file), other.path("run.dalsegno")).unwrap();
        other
    }

    #[test]
    fn a_run_travels_to_an_empty_workspace_and_is_replayed_there() {
        let (workspace, run, score) = judged();
        workspace.succeed(&["fork", &run, "--set", &format!("{score}=low.json")]);
        photograph!(workspace.dalsegno(&["export", "last", "run.dalsegno"]), @r"
            exit code: 0
            --- stdout
            --- stderr
            exported 2 runs to `run.dalsegno`
            ");
        let other = elsewhere(&workspace, "run.dalsegno");
        let output = other.dalsegno(&["import", "run.dalsegno"]);
        for words in
            ["exit code: 0", "imported 2 runs", "agents: ", "tools: ", "tenants: default", "they are foreign"]
        {
            assert!(output.contains(words), "{words}: {output}");
        }
        assert!(output.contains("whom dalsegno.toml does not name in `[signers]`"), "{output}");
        let runs = other.json(&["runs"]);
        assert_eq!(runs.as_array().unwrap().len(), 2);
        for run in runs.as_array().unwrap() {
            let run = run["run_id"].as_str().unwrap();
            workspace.succeed(&["replay", run]);
            other.succeed(&["replay", run]);
            assert_eq!(other.json(&["show", run])["events"], workspace.json(&["show", run])["events"]);
        }
        let again = other.json(&["import", "run.dalsegno"]);
        assert_eq!(
            (again["added"].as_array().unwrap().len(), again["known"].as_array().unwrap().len()),
            (0, 2)
        );
        assert_eq!(again["signed_by"], "stranger");
        let signer = again["signer"].as_str().unwrap().to_owned();
        other.write("dalsegno.toml", &format!("[signers]\nhome = \"{signer}\"\n"));
        let output = other.dalsegno(&["import", "run.dalsegno"]);
        assert!(output.contains("imported 0 runs; 2 runs known already"), "{output}");
        assert!(
            output.contains(&format!("signed by `home` ({signer})")) || output.contains("signed by `home`"),
            "{output}"
        );
        // Nothing of them is performed, and `show` says where they came from.
        let output = other.dalsegno(&["resume", "last"]);
        assert!(output.starts_with("exit code: 2") && output.contains("is foreign"), "{output}");
        assert!(other.succeed(&["show", "last"]).contains("foreign: from an archive that"));
        assert_eq!(other.json(&["runs"]), runs);
        assert!(runs.as_array().unwrap().iter().all(|run| run["foreign"].is_object()), "{runs}");
        let listed = other.succeed(&["runs"]);
        assert!(listed.contains("completed, foreign"), "{listed}");
    }

    #[test]
    fn an_export_is_told_to_programs() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "note", "hello"]);
        let document = workspace.json(&["export", "last", "run.dalsegno"]);
        assert_eq!(document["file"], "run.dalsegno");
        assert_eq!(document["runs"], json!([last(&workspace)]));
        assert_eq!(document["bytes"], fs::read(workspace.path("run.dalsegno")).unwrap().len());
        photograph!(workspace.dalsegno(&["export", "last", "-", "--json"]), @r#"
            exit code: 2
            --- stdout
            {
              "error": {
                "code": "two_documents",
                "message": "the file and the document would both go to standard output",
                "help": "name a file, or leave `--json` out"
              }
            }
            --- stderr
            error: the file and the document would both go to standard output
              help: name a file, or leave `--json` out
            "#);
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "note", "hello"]);
        workspace.write("run.dalsegno", "mine");
        photograph!(workspace.dalsegno(&["export", "last", "run.dalsegno"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: `run.dalsegno` already exists
              help: name another file, or overwrite this one with `--force`
            ");
        assert_eq!(fs::read_to_string(workspace.path("run.dalsegno")).unwrap(), "mine");
        workspace.succeed(&["export", "last", "run.dalsegno", "--force"]);
        elsewhere(&workspace, "run.dalsegno").succeed(&["import", "run.dalsegno"]);
        // Without a name it is the run's.
        workspace.succeed(&["export", "last"]);
        let name = format!("{}.dalsegno", &last(&workspace)[..12]);
        assert_eq!(
            fs::read(workspace.path(&name)).unwrap(),
            fs::read(workspace.path("run.dalsegno")).unwrap()
        );
    }

    #[test]
    fn a_file_that_holds_no_runs_imports_nothing() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "note", "hello"]);
        workspace.succeed(&["export", "last", "run.dalsegno"]);
        let whole = fs::read(workspace.path("run.dalsegno")).unwrap();
        let other = elsewhere(&workspace, "run.dalsegno");
        other.write("garbage.dalsegno", "these are my notes");
        photograph!(other.dalsegno(&["import", "garbage.dalsegno"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: `garbage.dalsegno` holds no runs: not an archive: byte 0 differs from an archive's first line; name a file that `dalsegno export` wrote
              help: give a file that `dalsegno export` has written
            ");
        photograph!(other.dalsegno(&["import", "nothing.dalsegno"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: cannot read `nothing.dalsegno`: No such file or directory (os error 2)
              help: name a readable file of UTF-8 text, or `-`
            ");
        for length in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
            fs::write(other.path("cut.dalsegno"), &whole[..length]).unwrap();
            let output = other.dalsegno(&["import", "cut.dalsegno"]);
            assert!(output.starts_with("exit code: 2\n"), "{length}: {output}");
            let said = format!("`cut.dalsegno` is incomplete: its end is missing after {length} byte");
            assert!(output.contains(&said) && output.contains("copy it again"), "{length}: {output}");
        }
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        fs::write(other.path("flipped.dalsegno"), flipped).unwrap();
        let output = other.dalsegno(&["import", "flipped.dalsegno"]);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
        assert_eq!(other.json(&["runs"]), json!([]));
    }

    #[test]
    fn no_secret_travels() {
        let (workspace, double) = (
            Workspace::plain(),
            crate::double::Double::start(vec![crate::double::words("You sent sk-canary-4711-secret to me.")]),
        );
        let model = format!("{}api_key = {{ env = \"MODEL_KEY\" }}\n", double.settings());
        workspace.write("dalsegno.toml", &model);
        let mut command = workspace.command(&["run", "chat", "what did I send?"]);
        let output = command.env("MODEL_KEY", "sk-canary-4711-secret").output().unwrap();
        assert!(output.status.success(), "{}", workspace.shown(&output));
        assert_eq!(double.received()[0].authorization.as_deref(), Some("Bearer sk-canary-4711-secret"));
        // To read, export and replay a run takes no key.
        workspace.succeed(&["export", "last", "run.dalsegno"]);
        let bytes = fs::read(workspace.path("run.dalsegno")).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"canary-4711"));
        let other = elsewhere(&workspace, "run.dalsegno");
        other.succeed(&["import", "run.dalsegno"]);
        other.succeed(&["replay", "last"]);
        let show = other.succeed(&["show", "last", "--json"]);
        assert!(show.contains("You sent") && !show.contains("canary-4711"), "{show}");
    }
}

mod ends {
    use super::*;

    #[test]
    fn a_run_that_waits_is_cancelled() {
        let workspace = Workspace::guarded();
        workspace.dalsegno(&["run", "escalate", INCIDENT]);
        photograph!(workspace.dalsegno(&["cancel", "last", "--reason", "wrong customer", "--by", "eve"]), @r"
            exit code: 0
            --- stdout
            --- stderr
            run [SHORT] is cancelled
            ");
        let shown = workspace.succeed(&["show", "last"]);
        assert!(shown.ends_with("\n\ncancelled by eve: wrong customer\n  error[cancelled]: the run was cancelled\n  help: start a new run to try again\n"), "{shown}");
        photograph!(workspace.dalsegno(&["runs", "--status", "cancelled"]), @r"
        exit code: 0
        --- stdout
        RUN           AGENT     STATUS     STARTED               REQUEST
        [SHORT]  escalate  cancelled  [TIME]  data loss in production
        --- stderr
        ");
        photograph!(workspace.dalsegno(&["cancel", "last"]), @r"
            exit code: 2
            --- stdout
            --- stderr
            error: run [SHORT] has already ended (cancelled): see `dalsegno show [SHORT]`
            ");
        let output = workspace.dalsegno(&["resume", "last", "--approve"]);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
        assert_eq!(recorded(&workspace), 0);
        workspace.succeed(&["replay", "last"]);
    }

    #[test]
    fn a_run_that_another_process_performs_is_cancelled_through_it() {
        let workspace = Workspace::plain();
        let replies = fs::read_to_string(workspace.path("replies.toml")).unwrap();
        // Far more time than the test takes, so that only the wish ends the run.
        workspace.write("replies.toml", &format!("{replies}delay = \"120s\"\n"));
        let mut child = workspace
            .command(&["run", "chat", "hello", "--format", "jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("\"kind\":\"requested\"")));
        photograph!(workspace.dalsegno(&["cancel", "last"]), @r"
            exit code: 0
            --- stdout
            --- stderr
            run [SHORT] belongs to another process, which was told: see `dalsegno show [SHORT]`
            ");
        let rest: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert_eq!(rest.last().unwrap()["kind"], "cancelled", "{rest:?}");
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{words}");
        photograph!(words, @r"
            error[cancelled]: the run was cancelled
              help: start a new run to try again
            cancelled · 1 step · [TOOK] · run [SHORT]
            ");
        assert_eq!(workspace.json(&["runs"])[0]["status"], "cancelled");
        workspace.succeed(&["replay", "last"]);
    }
}
