//! `dalsegno show` in full: whole texts, one operation, the prompt, a run that another process performs, and where a run
//! came from.

use std::process::Stdio;

use serde_json::Value;

use crate::support::{Workspace, photograph};

/// Agents that call each other, and one that waits.
fn family() -> Workspace {
    let workspace = Workspace::plain();
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let other = "\n[models.other]\nprovider = \"script\"\nfile = \"replies.toml\"\n";
    workspace.write("dalsegno.toml", &format!("{settings}{other}"));
    workspace.write(
        "agents/parent.toml",
        "name = \"parent\"\ndescription = \"Calls another agent.\"\n\n[[steps]]\nid = \"said\"\nagent = \"chat\"\n\
         input = \"{{request.text}}\"\n\n[[steps]]\nrespond = \"It said: {{steps.said}}\"\n",
    );
    workspace.write(
        "agents/slow.toml",
        "name = \"slow\"\ndescription = \"Waits.\"\n\n[[steps]]\nmemory_search = { query = \"{{request.text}}\" }\n\n\
         [[steps]]\nwait = \"2s\"\n\n[[steps]]\nrespond = \"Waited.\"\n",
    );
    workspace
}

fn operations(document: &Value) -> &Vec<Value> {
    document["operations"].as_array().unwrap()
}

#[test]
fn what_another_program_reads_is_whole() {
    let workspace = Workspace::plain();
    let long = format!("the disk of {} is full", "db-1,".repeat(60));
    workspace.succeed(&["run", "chat", &long]);
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains(&format!("asked: {long}\n")), "{shown}");
    assert!(shown.contains(&format!("got  You said: {long} · ")), "{shown}");
}

#[test]
fn requests_and_results_are_shown_in_full() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1", "--data", "{\"severity\": 2}"]);
    photograph!(workspace.dalsegno(&["show", "last", "--full", "--step", "2"]), @r"
    exit code: 0
    --- stdout
    run [ID]
    note · completed · [TIME] · 6 records
    asked: disk full on db-1
    data: severity=2

    step 2 · +[TOOK]
      why  run plan step 2
      ask  memory create  [SHORT]
           class keyed · [TIME]
             entity: notes (log)
             content: disk full on db-1
      got  remembered: notes · [TOOK]

      why  run plan step 3
      why  run plan step 4
      why  end: the plan is through
    --- stderr
    ");
    let document = workspace.json(&["show", "last", "--full"]);
    let [search, create] = &operations(&document)[..] else { panic!("{document}") };
    assert_eq!(search["request"]["memory_search"]["query"], "disk full on db-1");
    assert_eq!((&create["step"], &create["attempts"]), (&Value::from(2), &Value::from(1)));
    let id = create["operation"].as_str().unwrap();
    let one = workspace.succeed(&["show", "last", "--op", &id[..8]]);
    assert!(one.contains("content: disk full on db-1") && !one.contains("memory search"), "{one}");
    let one = workspace.json(&["show", "last", "--op", &id[..8]]);
    assert_eq!(operations(&one), &vec![create.clone()]);
    let unknown = workspace.dalsegno(&["show", "last", "--op", "00000000"]);
    assert!(unknown.starts_with("exit code: 2\n"), "{unknown}");
}

#[test]
fn the_prompt_is_shown_as_it_was_sent() {
    let workspace = family();
    workspace.succeed(&["run", "chat", "disk full\non db-1"]);
    photograph!(workspace.dalsegno(&["show", "last", "--prompt"]), @r"
    exit code: 0
    --- stdout
    step 1 · model `default` · [SHORT]

    user
      disk full
      on db-1
    --- stderr
    ");
    let document = workspace.json(&["show", "last", "--prompt"]);
    assert_eq!(document["messages"], serde_json::json!([{ "role": "user", "text": "disk full\non db-1" }]));
    assert_eq!(document["model"], "default");
    workspace.succeed(&["run", "note", "hello"]);
    photograph!(workspace.dalsegno(&["show", "last", "--prompt"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: run [SHORT] has no model call
      help: `dalsegno show RUN` lists the operations: name a `model completion` with `--op`
    ");
    let none = workspace.dalsegno(&["show", "last", "--prompt", "--step", "1"]);
    assert!(none.contains("has no model call in step 1"), "{none}");
}

#[test]
fn a_child_run_and_its_parent_name_each_other() {
    let workspace = family();
    workspace.succeed(&["run", "parent", "hello"]);
    photograph!(workspace.dalsegno(&["show", "last"]), @r"
    exit code: 0
    --- stdout
    run [ID]
    parent · completed · [TIME] · 4 records · 1 model call · 1 tool call · 17 tokens
    asked: hello

    step 1 · +[TOOK]
      why  run plan step 1 `said`
      ask  agent `chat` hello  [SHORT]
      run  [SHORT] (child run)
      got  You said: hello · [TOOK]

      why  run plan step 2
      why  end: the plan is through

    completed
      It said: You said: hello
    --- stderr
    ");
    let child = workspace.json(&["show", "last", "--full"])["operations"][0]["child_run"].clone();
    let parent = workspace.json(&["runs", "--agent", "parent"])[0]["run_id"].clone();
    assert_eq!(workspace.json(&["show", child.as_str().unwrap()])["parent"], parent);
}

#[test]
fn a_fork_says_what_it_is_a_fork_of() {
    let workspace = family();
    workspace.succeed(&["run", "chat", "hello"]);
    let origin = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    workspace.succeed(&["fork", &origin, "--at", "1", "--model", "other"]);
    let shown = workspace.succeed(&["show", "last"]);
    let line = format!("fork of run {} from step 1, with model `other`\n", &origin[..12]);
    assert!(shown.contains(&line), "{shown}");
    let document = workspace.json(&["show", "last"]);
    assert_eq!((&document["forked_from"], &document["model"]), (&origin.into(), &"other".into()));
}

#[test]
fn a_run_of_another_process_is_followed_to_its_end() {
    let workspace = family();
    let mut command = workspace.command(&["run", "slow", "hello"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while workspace.json(&["runs"]).as_array().is_none_or(Vec::is_empty) {}
    let followed = workspace.dalsegno(&["show", "last", "--follow"]);
    // How far the run was when the command looked first is in its second line.
    let (_, rest) = followed.split_once("asked: ").unwrap();
    photograph!(rest, @r"
    hello

    step 1 · +[TOOK]
      why  run plan step 1
      ask  memory search for hello  [SHORT]
      got  nothing found · [TOOK]

    step 2 · +[TOOK]
      why  run plan step 2
      ask  timer until [TIME]  [SHORT]
      got  the time has come · [TOOK]

      why  run plan step 3
      why  end: the plan is through

    completed
      Waited.
    --- stderr
    ");
    assert!(child.wait().unwrap().success());
    let again = workspace.dalsegno(&["show", "last", "--follow"]);
    assert!(again.starts_with("exit code: 0\n") && again.contains("Waited."), "{again}");
}

#[test]
fn runs_are_found_by_time_text_session_and_lineage() {
    let workspace = family();
    workspace.succeed(&["run", "chat", "Disk full", "--session", "ada"]);
    workspace.succeed(&["run", "parent", "hello"]);
    let parent = workspace.json(&["runs", "--agent", "parent"])[0]["run_id"].as_str().unwrap().to_owned();
    let first = workspace.json(&["runs", "--session", "ada"])[0]["run_id"].as_str().unwrap().to_owned();
    workspace.succeed(&["fork", &first, "--at", "1"]);
    let fork = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    let found = |args: &[&str]| -> Vec<(String, String)> {
        let args: Vec<&str> = [&["runs"][..], args].concat();
        let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_owned();
        let runs = workspace.json(&args).as_array().unwrap().clone();
        runs.iter().map(|run| (text(run, "run_id"), text(run, "text"))).collect()
    };
    let ids = |args: &[&str]| -> Vec<String> { found(args).into_iter().map(|(id, _)| id).collect() };
    assert_eq!(ids(&["--text", "DISK"]), [fork.clone(), first.clone()]);
    assert_eq!(ids(&["--fork-of", &first]), std::slice::from_ref(&fork));
    assert_eq!(found(&["--parent", &parent])[0].1, "hello");
    assert_eq!(ids(&["--since", "1h"]).len(), 4);
    assert_eq!(ids(&["--until", "2020-01-01"]).len() + ids(&["--since", "2999-01-01T00:00:00Z"]).len(), 0);
    let page = ids(&["--limit", "2"]);
    assert_eq!([page.clone(), ids(&["--after", &page[1]])].concat(), ids(&[]));
    photograph!(workspace.dalsegno(&["runs", "--limit", "2", "--cost"]), @r"
    exit code: 0
    --- stdout
    RUN           AGENT  STATUS     STARTED               COST  REQUEST
    [SHORT]  chat   completed  [TIME]  $0    Disk full
    [SHORT]  chat   completed  [TIME]  $0    hello
    --- stderr
    there may be more: add `--after [SHORT]` for the next page
    ");
    photograph!(workspace.dalsegno(&["runs", "--text", "no such words"]), @r"
    exit code: 0
    --- stdout
    --- stderr
    no run matches these filters: `dalsegno runs` lists all runs
    ");
    photograph!(workspace.dalsegno(&["runs", "--since", "yesterday"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: invalid value 'yesterday' for '--since <TIME>': expected a time such as `[TIME]`, a date such as `2026-11-24`, or how long ago, such as `2h`

    For more information, try '--help'.
    ");
}

#[test]
fn a_run_whose_process_died_is_interrupted() {
    let workspace = family();
    let mut command = workspace.command(&["run", "slow", "hello"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while workspace.json(&["runs"]).as_array().is_none_or(Vec::is_empty) {}
    let count = |status: &str| workspace.json(&["runs", "--status", status]).as_array().unwrap().len();
    assert_eq!((count("running"), count("interrupted")), (1, 0));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((count("running"), count("interrupted")), (0, 1));
    let listed = workspace.succeed(&["runs"]);
    assert!(listed.contains("  interrupted  "), "{listed}");
    let followed = workspace.dalsegno(&["show", "last", "--follow"]);
    assert!(followed.starts_with("exit code: 130\n"), "{followed}");
    assert!(
        followed.contains("no process performs it: a worker resumes it, or `dalsegno resume "),
        "{followed}"
    );
}

#[test]
fn the_reason_of_every_model_and_of_every_attempt_is_shown() {
    let workspace = Workspace::empty();
    // No process listens on the port of `discard`.
    let settings = "[models.first]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                    api_key = { env = \"NO_SUCH_KEY\" }\n\n\
                    [models.second]\nprovider = \"openai\"\nmodel = \"y\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    workspace.write("dalsegno.toml", settings);
    workspace.write(
        "agents/talks.toml",
        "name = \"talks\"\n\n[model]\nuse = \"first\"\nfallback = [\"second\"]\nretries = 1\n",
    );
    let told = workspace.dalsegno(&["run", "talks", "hello"]);
    let reasons = [
        "none of the models gave a usable reply: `first`: protocol: ",
        "`NO_SUCH_KEY` is not set",
        "; `second`: unavailable: ",
        "Connection refused",
    ];
    let mut rest = told.as_str();
    for reason in reasons {
        let place = rest.find(reason).unwrap_or_else(|| panic!("{reason}: {told}"));
        rest = &rest[place + reason.len()..];
    }
    let shown = workspace.succeed(&["show", "last"]);
    let attempt = shown.lines().find(|line| line.contains("attempt 2")).unwrap_or_else(|| panic!("{shown}"));
    assert!(attempt.contains("failed with unavailable") && attempt.contains("Connection refused"), "{shown}");
    let verbose = workspace.dalsegno(&["run", "talks", "hello", "--verbose"]);
    let attempt = verbose.lines().find(|line| line.contains("attempt 2, since the last one failed: "));
    assert!(attempt.is_some_and(|line| line.contains("cannot reach")), "{verbose}");
}

#[test]
fn a_declarative_tool_that_fails_tells_a_person_why_and_a_plan_its_code() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write("tenants/default.toml", "name = \"default\"\negress = [\"http://127.0.0.1:9\"]\n");
    workspace.write(
        "tools/fetch.json",
        r#"{
          "name": "fetch", "description": "Fetches.", "parameters": [{ "name": "when", "type": "string" }],
          "actions": [{ "type": "api_call", "method": "GET", "url": "http://127.0.0.1:9/x", "retry_count": 0 }]
        }"#,
    );
    workspace.write(
        "agents/fetches.toml",
        "name = \"fetches\"\n[tools]\nallow = [\"fetch\"]\n\n[[steps]]\nid = \"x\"\ntool = \"fetch\"\n\
         with = { when = \"{{request.data.when}}\" }\n",
    );
    let told = workspace.dalsegno(&["run", "fetches"]);
    let end = "error[tool_failed]: plan step 1 `x`: `fetch` failed with http_error: the service behind the tool answered";
    assert!(told.contains(end), "{told}");
    assert!(
        told.contains("cause: tool `fetch`, `actions[0]`: cannot reach `http://127.0.0.1:9/x`"),
        "{told}"
    );
    // The argument that came to nothing was not sent.
    let call = &workspace.json(&["show", "last", "--full"])["operations"][0];
    assert_eq!(call["request"]["tool_call"]["parameters"], serde_json::json!({}), "{call}");
    let called = workspace.dalsegno(&["tools", "call", "fetch", "--yes"]);
    assert!(called.starts_with("exit code: 1\n"), "{called}");
    assert!(
        called.contains("failed: `fetch` reports an error, http_error: cannot reach `http://127.0.0.1:9/x`"),
        "{called}"
    );
}
