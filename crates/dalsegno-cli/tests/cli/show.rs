//! `dalsegno runs`, `dalsegno show` and `dalsegno replay`.

use dalsegno_store::Body;
use serde_json::Value;

use crate::support::{Workspace, photograph};

fn with_a_run() -> Workspace {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1", "--data", "{\"severity\": 2}"]);
    workspace
}

#[test]
fn runs_are_listed_the_newest_first() {
    let workspace = with_a_run();
    workspace.dalsegno(&["run", "broken"]);
    photograph!(workspace.dalsegno(&["runs"]), @r"
    exit code: 0
    --- stdout
    RUN           AGENT   STATUS     STARTED               REQUEST
    [SHORT]  broken  failed     [TIME]
    [SHORT]  note    completed  [TIME]  disk full on db-1
    --- stderr
    ");
    let agents = |args: &[&str]| -> Vec<Value> {
        workspace.json(args).as_array().unwrap().iter().map(|run| run["agent"].clone()).collect()
    };
    assert_eq!(agents(&["runs"]), ["broken", "note"]);
    assert_eq!(agents(&["runs", "--status", "completed"]), ["note"]);
    assert_eq!(agents(&["runs", "--agent", "broken"]), ["broken"]);
    assert_eq!(agents(&["runs", "--limit", "1"]), ["broken"]);
}

#[test]
fn a_workspace_without_runs_says_so() {
    photograph!(Workspace::plain().dalsegno(&["runs"]), @r"
    exit code: 0
    --- stdout
    --- stderr
    no runs yet: start one with `dalsegno run AGENT`
    ");
    photograph!(Workspace::plain().dalsegno(&["show", "last"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: this workspace has no runs yet
          help: start one with `dalsegno run AGENT`
        ");
}

#[test]
fn a_run_is_shown_step_by_step() {
    photograph!(with_a_run().dalsegno(&["show", "last"]), @r"
    exit code: 0
    --- stdout
    run [ID]
    note · completed · [TIME] · 6 records
    asked: disk full on db-1
    data: severity=2

    step 1 · +[TOOK]
      why  run plan step 1 `past`
      ask  memory search for disk full on db-1  [SHORT]
      got  nothing found · [TOOK]

    step 2 · +[TOOK]
      why  run plan step 2
      ask  memory create notes: disk full on db-1  [SHORT]
      got  remembered: notes · [TOOK]

      why  run plan step 3
      why  run plan step 4
      why  end: the plan is through

    completed
      Severity 2.

      0 known. Noted: disk full on db-1
    --- stderr
    ");
}

#[test]
fn one_step_is_shown_with_what_the_agent_knew() {
    let workspace = with_a_run();
    photograph!(workspace.dalsegno(&["show", "last", "--step", "1"]), @r"
    exit code: 0
    --- stdout
    run [ID]
    note · completed · [TIME] · 6 records
    asked: disk full on db-1
    data: severity=2

    step 1 · +[TOOK]
      why  run plan step 1 `past`
      ask  memory search for disk full on db-1  [SHORT]
      got  nothing found · [TOOK]
    --- stderr
    ");
    let state = workspace.json(&["show", "last", "--step", "1", "--state"])["state"].clone();
    assert_eq!(state["step"], 1);
    photograph!(workspace.dalsegno(&["show", "last", "--step", "9"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: run [SHORT] has no step 9: it has 2 steps
          help: leave `--step` out to see all steps
        ");
}

#[test]
fn a_shown_run_has_the_promised_keys() {
    let document = with_a_run().json(&["show", "last"]);
    let keys: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
    let promised =
        ["run_id", "agent", "status", "answer", "output", "waiting_for", "steps", "usage", "error", "events"];
    assert!(promised.iter().all(|key| keys.contains(key)), "{keys:?}");
    let event =
        document["events"].as_array().unwrap().iter().find(|event| event["kind"] == "resolved").unwrap();
    for key in ["seq", "step", "operation", "time", "data"] {
        assert!(!event[key].is_null(), "{key} in {event}");
    }
    assert_eq!(event["step"], 1);
}

#[test]
fn a_run_is_found_by_the_beginning_of_its_id() {
    let workspace = with_a_run();
    let run = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    for given in [&run[..4], &run[..12].to_uppercase(), &run] {
        assert_eq!(workspace.json(&["show", given])["run_id"], *run);
    }
}

#[test]
fn an_unknown_run_is_bad_input() {
    let workspace = with_a_run();
    let run = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    let unknown = if run.starts_with("0000") { "ffff" } else { "0000" };
    let shown = workspace.dalsegno(&["show", unknown]).replace(unknown, "[UNKNOWN]");
    photograph!(shown, @r"
        exit code: 2
        --- stdout
        --- stderr
        error: no run of this workspace begins with `[UNKNOWN]`
          help: list the runs with `dalsegno runs`
        ");
    photograph!(workspace.dalsegno(&["replay", "12"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `12` is not a run id: expected 4 to 32 hexadecimal digits, or `last`
          help: list the runs with `dalsegno runs`
        ");
    photograph!(workspace.dalsegno(&["resume", "my-run"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `my-run` is not a run id: expected 4 to 32 hexadecimal digits, or `last`
          help: list the runs with `dalsegno runs`
        ");
}

#[test]
fn a_replay_is_identical_and_performs_nothing() {
    let workspace = with_a_run();
    let before = workspace.json(&["show", "last"]);
    photograph!(workspace.dalsegno(&["replay", "last"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        identical: 2 steps, 6 records, nothing performed
        ");
    photograph!(workspace.dalsegno(&["replay", "last", "--json"]), @r#"
        exit code: 0
        --- stdout
        {
          "run_id": "[ID]",
          "identical": true,
          "steps": 2,
          "records": 6,
          "divergence": null
        }
        --- stderr
        identical: 2 steps, 6 records, nothing performed
        "#);
    assert_eq!(workspace.json(&["show", "last"]), before);
}

#[test]
fn a_forged_journal_diverges_at_the_first_difference() {
    let workspace = with_a_run();
    let run = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().parse().unwrap();
    dalsegno_store::tamper::tamper(&workspace.path(".dalsegno/dalsegno.db"), run, 0, |body| match body {
        Body::Started(started) => started.request.text = "disk empty on db-1".into(),
        other => panic!("the first record is {other:?}"),
    })
    .unwrap();
    photograph!(workspace.dalsegno(&["replay", "last"]), @r"
        exit code: 3
        --- stdout
        --- stderr
        diverged at step 1
          expected: a request, memory search (4ceba1d3)
          got:      asks for memory search (b4168417)
          help: another release recorded it, or the journal was changed: use that release, or restore a backup
        ");
    let document = workspace.json(&["replay", "last"]);
    assert_eq!(document["identical"], false);
    assert_eq!(document["divergence"]["step"], 1);
    assert!(document["divergence"]["expected"].is_string() && document["divergence"]["got"].is_string());
}

#[test]
fn what_was_recorded_can_be_read_whatever_became_of_the_agents() {
    let workspace = with_a_run();
    let verbs: [&[&str]; 3] = [&["runs"], &["show", "last"], &["replay", "last"]];
    let before = verbs.map(|verb| workspace.dalsegno(verb));
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write(
        "dalsegno.toml",
        &format!(
            "{settings}\n[servers.gone]\nwasm = \"gone.wasm\"\n\n[secrets]\ntoken = {{ env = \"NOT_SET\" }}\n"
        ),
    );
    workspace.write("agents/note.toml", "name = \"note");
    std::fs::remove_file(workspace.path("replies.toml")).unwrap();
    assert!(workspace.dalsegno(&["check"]).starts_with("exit code: 2\n"));
    assert_eq!(verbs.map(|verb| workspace.dalsegno(verb)), before);
    // To perform something takes a workspace without errors.
    for verb in [&["resume", "last"][..], &["run", "chat", "hello"]] {
        let output = workspace.dalsegno(verb);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
    }
}

#[test]
fn a_journal_whose_place_is_unknown_is_not_looked_for_elsewhere() {
    let workspace = with_a_run();
    workspace.write("dalsegno.toml", "[store]\npth = \"state/dalsegno.db\"\n");
    photograph!(workspace.dalsegno(&["runs"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error[unknown-key]

          × unknown key `pth` in `[store]`
           ╭─[dalsegno.toml:2:1]
         1 │ [store]
         2 │ pth = "state/dalsegno.db"
           · ───
           ╰────
          help: did you mean `path`? available: `path`

        error: the workspace `[WORKSPACE]` has errors: 1 error
        "#);
}

#[test]
fn runs_that_were_handed_over_are_listed_by_their_status() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write(
        "agents/front.toml",
        "name = \"front\"\ndescription = \"Hands over.\"\n[[steps]]\nhandoff = \"back\"\nmessage = \"over\"\n",
    );
    workspace.write(
        "agents/back.toml",
        "name = \"back\"\ndescription = \"Answers.\"\n[[steps]]\nrespond = \"done\"\n",
    );
    workspace.succeed(&["run", "front", "go"]);
    for (status, agent) in [("handed_off", "front"), ("completed", "back")] {
        let runs = workspace.json(&["runs", "--status", status]);
        let agents: Vec<_> = runs.as_array().unwrap().iter().map(|run| &run["agent"]).collect();
        assert_eq!(agents, [agent], "{status}");
    }
    let none = workspace.json(&["runs", "--status", "suspended"]);
    assert_eq!(none.as_array().map(Vec::len), Some(0));
}
