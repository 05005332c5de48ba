//! `dalsegno check`, the arguments, and where a workspace is looked for.

use crate::support::{Workspace, photograph};

#[test]
fn help_names_every_verb() {
    photograph!(Workspace::empty().dalsegno(&["--help"]), @r#"
    exit code: 0
    --- stdout
    Run agents durably: every step is recorded, and a run can be stopped, resumed, replayed and
    explained

    Usage: dalsegno [OPTIONS] <COMMAND>

    Commands:
      init         Create a workspace that runs immediately, offline and without an API key
      check        Check every file of the workspace, and every agent against the tools of its servers
      test         Test the agents: run the cases of `tests/*.toml`, offline and without a key
      gate         Fold recorded runs through the workspace as it is now: which would differ, and
                   because of which lines
      eval         Evaluate an agent with a data set: pass rates with intervals, judges, and whether it
                   is better than another
      run          Start a run of an agent and follow it until it finishes
      chat         Chat with an agent: each message is a run, and the session keeps the conversation
      call         Call an agent with a live model that listens and speaks
      resume       Answer a suspended run, or resume an interrupted or paused one
      answer       Answer pending questions across runs (dry run unless `--yes`)
      runs         List runs, newest first
      cost         Sum up tokens and cost by run, session, agent, tenant, model or day
      show         Show the steps of a run, with the reason, the requests and the outcomes of each
      why          Trace the values of a request: what the user wrote, a tool's result, a template, or
                   the model
      debug        Debug a run on a full screen: step both ways, search, compare, fork from any step
      replay       Recompute a recorded run from its journal and compare every request, without side
                   effects
      fork         Start a new run from any step of another, with a changed outcome, agent or model
      diff         Compare two runs: where they diverge, and what differs from there on
      pause        Pause a run and its child runs until they are resumed
      cancel       Cancel a run and its child runs
      abandon      End a run that cannot be cancelled because its records are damaged or depend on
                   erased content
      export       Write a run to one file, with everything that its replay reads
      import       Import runs from a file into this workspace
      adopt        Adopt an imported run into this workspace
      worker       Resume runs whose process died or whose timer is due
      serve        Serve the agents over HTTP, and perform runs as a worker does
      key          Make, list and revoke the access keys of the server
      webhook      Add, list, test and remove webhooks: who receives how runs stand
      trigger      Show what a delivery to a trigger would start
      gc           Delete runs that ended long ago (dry run unless `--yes`)
      doctor       Examine the whole journal: every record, chain, file and index
      backup       Copy the journal to a new file while others write to it, and examine the copy
      erase        Erase a run's requests and results; the proof that it ran stays
      tools        List, inspect and call the tools of the workspace
      servers      List the tool servers with their health and permissions
      memory       Search, extend, export and import the memory of agents
      secret       Keep secrets in an encrypted file, outside of journals and exports
      auth         Grant access to a toolkit or a tool server: you consent in a browser, once
      bench        Measure this disk: a durable turn compared with a bare commit
      trust        Trust a workspace that belongs to another user or starts programs
      schema       Write the JSON Schema of a kind of file, for editors
      completions  Write a completion script for a shell; it also completes agents and runs
      man          Write the manual pages of all commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Global options:
          --workspace <DIR>            Workspace folder [default: this folder or the nearest parent that
                                       has a `dalsegno.toml`]
      -v, --verbose                    Print each step as it happens
          --trust                      Start the programs of `dalsegno.toml` without asking
          --color <auto|always|never>  When to use colour [default: auto]

    Examples:
      dalsegno init my-agents                 create a workspace
      dalsegno check                          check its files
      dalsegno run triage "disk full on db-1"
      dalsegno show last                      what happened, and why

    Exit codes:
      0 done   1 failed   2 bad input   3 diverged   4 suspended: waits for a person   5 inconclusive
      130 interrupted
    --- stderr
    "#);
}

#[test]
fn a_sound_workspace_passes() {
    photograph!(Workspace::plain().dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        3 agents: no problems
        ");
}

#[test]
fn an_agent_is_held_against_what_its_server_offers() {
    let workspace = Workspace::guarded();
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: server `risk`: is new
        dalsegno.lock: 1 change, written; look at it before you commit it
        1 agent: no problems
        ");
    let agent = std::fs::read_to_string(workspace.path("agents/escalate.toml")).unwrap();
    workspace.write("agents/escalate.toml", &agent.replace("risk.score\"", "risk.scroe\""));
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error[unknown-tool]

          × the tool `risk.scroe` does not exist
            ╭─[agents/escalate.toml:11:8]
         10 │ id = "score"
         11 │ tool = "risk.scroe"
            ·        ────────────
         12 │ with = { text = "{{request.text}}" }
            ╰────
          help: did you mean `risk.score`?

        1 error
        "#);
}

fn with_two_faults() -> Workspace {
    let workspace = Workspace::plain();
    workspace.write(
        "agents/chat.toml",
        "name = \"chat\"\nversion = \"1.0.0\"\ndescription = \"\"\nprmpt = \"{{request.text}}\"\n\n[model]\nuse = \"defualt\"\n",
    );
    workspace
}

#[test]
fn every_fault_is_shown_at_once() {
    photograph!(with_two_faults().dalsegno(&["check"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error[unknown-key]

          × unknown key `prmpt` in an agent file
           ╭─[agents/chat.toml:4:1]
         3 │ description = ""
         4 │ prmpt = "{{request.text}}"
           · ─────
         5 │ 
           ╰────
          help: did you mean `prompt`? available: `name`, `version`, `description`,
                `capabilities`, `instructions`, `prompt`, `model`, `tools`, `memory`,
                `limits`, `output`, `context`, `voice`, `steps`

        error[unknown-model]

          × `dalsegno.toml` has no model `defualt`
           ╭─[agents/chat.toml:7:7]
         6 │ [model]
         7 │ use = "defualt"
           ·       ─────────
           ╰────
          help: did you mean `default`?

        2 errors
        "#);
}

#[test]
fn faults_are_data_for_editors() {
    let found = with_two_faults().json(&["check"]);
    let codes: Vec<_> = found.as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"unknown-key") && codes.contains(&"unknown-model"), "{codes:?}");
    for one in found.as_array().unwrap() {
        for key in ["file", "code", "severity", "message", "help"] {
            assert!(one.get(key).is_some(), "{key} in {one}");
        }
    }
    assert_eq!((&found[0]["file"], &found[0]["line"]), (&"agents/chat.toml".into(), &4.into()), "{found}");
}

#[test]
fn a_run_of_a_faulty_agent_shows_the_faults() {
    let workspace = with_two_faults();
    let output = workspace.command(&["run", "chat", "hello", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["code"], "agent");
    assert!(document["error"]["diagnostics"].as_array().unwrap().len() >= 2, "{document}");
}

#[test]
fn a_folder_outside_of_any_workspace_is_told_apart() {
    photograph!(Workspace::empty().dalsegno(&["runs"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: there is no `dalsegno.toml` in `[WORKSPACE]` or in any folder above it
          help: make one with `dalsegno init`, or name one with `--workspace DIR`
        ");
    photograph!(Workspace::empty().dalsegno(&["runs", "--workspace", "nowhere"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error[not-a-workspace]

          × dalsegno.toml: this folder has no `dalsegno.toml`
          help: pass the workspace's folder, or create a `dalsegno.toml` here

        error: the workspace `nowhere` has errors: 1 error
        ");
}

#[test]
fn a_workspace_without_agents_is_a_warning() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    photograph!(workspace.dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        warning[no-agents]

          ⚠ agents: the workspace has no agents
          help: create one, such as `agents/hello.toml`

        0 agents: 1 warning
        ");
}

#[test]
fn the_nearest_folder_upwards_is_the_workspace() {
    let workspace = Workspace::plain();
    let output = workspace.command(&["check"]).current_dir(workspace.path("agents")).output().unwrap();
    assert!(output.status.success(), "{}", workspace.shown(&output));
}

#[test]
fn colour_is_for_terminals_only() {
    let output = with_two_faults().command(&["check"]).env("CLICOLOR_FORCE", "0").output().unwrap();
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn colour_can_be_asked_for() {
    let output = with_two_faults().command(&["check", "--color", "always"]).output().unwrap();
    assert!(output.stderr.contains(&0x1b));
    let output = with_two_faults().command(&["check", "--color", "never"]).output().unwrap();
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn to_check_the_files_starts_nothing() {
    let workspace = Workspace::plain();
    workspace.succeed(&["check"]);
    assert!(!workspace.path(".dalsegno").exists());
}

/// A workspace with declarative tools and tenants.
fn declarative() -> Workspace {
    let workspace = Workspace::plain();
    workspace.succeed(&["tools", "add", "save_meal"]);
    workspace.write("agents/cook.toml", COOK);
    workspace.write("tenants/acme.toml", ACME);
    workspace
}

const COOK: &str = r#"name = "cook"

[tools]
allow = ["save_meal", "transfer.*"]
approve = ["transfer.request_transfer"]

[[steps]]
tool = "save_meal"
with = { dishes = ["soup"] }
"#;

const ACME: &str = r#"name = "acme"
egress = ["https://api.acme.example"]

[settings.endpoints]
meal_log = "https://api.acme.example/meals"

[[features.refer.destinations]]
destination_id = "sales"
target_uri = "sip:sales@acme.example"
"#;

#[test]
fn declarative_tools_and_tenants_are_checked_like_everything_else() {
    let told = declarative().dalsegno(&["check"]);
    assert!(told.starts_with("exit code: 0\n"), "{told}");
    assert!(told.contains("4 agents, 1 tool file, 1 tenant: no problems"), "{told}");
}

#[test]
fn what_is_wrong_with_tools_and_tenants_is_told_at_once() {
    let workspace = declarative();
    let tool = std::fs::read_to_string(workspace.path("tools/save_meal.json")).unwrap();
    workspace.write("tools/save_meal.json", &tool.replace("api_call", "api_cal"));
    workspace.write("tenants/acme.toml", &ACME.replace("egress", "egres"));
    let told = workspace.dalsegno(&["check"]);
    assert!(told.starts_with("exit code: 2\n"), "{told}");
    for words in [
        "there is no action `api_cal`",
        "did you mean `api_call`?",
        "unknown key `egres`",
        "error[unknown-key]",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_slip_in_what_an_agent_allows_is_found_among_declarative_tools() {
    let workspace = declarative();
    workspace.write("agents/cook.toml", &COOK.replace("\"save_meal\", ", "\"save_meal\", \"save_meals\", "));
    let told = workspace.dalsegno(&["check"]);
    assert!(told.starts_with("exit code: 2\n"), "{told}");
    assert!(told.contains("the tool `save_meals` does not exist"), "{told}");
    assert!(told.contains("did you mean `save_meal`?"), "{told}");
}

#[test]
fn a_parameter_of_a_provider_is_told_where_it_belongs() {
    let workspace = Workspace::plain();
    workspace.write("agents/warm.toml", "name = \"warm\"\n\n[model]\nuse = \"default\"\ntop_k = 40\n");
    let told = workspace.json(&["check"]);
    let problem = told.as_array().unwrap().iter().find(|one| one["code"] == "unknown-key").unwrap();
    assert_eq!(
        problem["help"], "write it in dalsegno.toml, in `[models.NAME]`: `extra = { top_k = … }`",
        "{told}"
    );
}
