//! `dalsegno tools`.

use std::fs;

use crate::support::{Workspace, photograph};

#[test]
fn every_tool_is_listed_with_who_offers_it() {
    photograph!(Workspace::guarded().dalsegno(&["tools", "list"]), @r"
    exit code: 0
    --- stdout
    NAME             MODELS SEE        CLASS   OFFERED BY   DESCRIPTION
    memory.create    memory__create    keyed   dalsegno     Adds one observation about an entity to the memory.
    memory.search    memory__search    read    dalsegno     Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.
    memory.traverse  memory__traverse  read    dalsegno     Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.
    risk.explain     risk__explain     read    server risk  Explains in plain sentences what makes an incident report risky or harmless.
    risk.record      risk__record      unsafe  server risk  Appends a decision about an incident to the list of escalations and tells which line it became.
    risk.score       risk__score       read    server risk  Scores the risk of an incident report between 0 and 1 and names the factors that led there.
    --- stderr
    ");
}

#[test]
fn a_server_that_fails_hides_no_other_tool() {
    let workspace = Workspace::guarded();
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    photograph!(workspace.dalsegno(&["tools", "list"]), @r"
    exit code: 2
    --- stdout
    NAME             MODELS SEE        CLASS  OFFERED BY  DESCRIPTION
    memory.create    memory__create    keyed  dalsegno    Adds one observation about an entity to the memory.
    memory.search    memory__search    read   dalsegno    Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.
    memory.traverse  memory__traverse  read   dalsegno    Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.
    --- stderr
    error: tool server `risk`: `[WORKSPACE]/risk.wasm` is not a WebAssembly module: it begins with the text `no modul`, expected the bytes 00 61 73 6d
    ");
}

#[test]
fn a_tool_is_listed_for_programs() {
    let listed = Workspace::plain().json(&["tools", "list"]);
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"memory.search") && names.contains(&"memory.create"), "{names:?}");
    for tool in listed.as_array().unwrap() {
        for key in [
            "model_name",
            "description",
            "offered_by",
            "class",
            "class_from",
            "grants",
            "agents",
            "input_schema",
            "output_schema",
        ] {
            assert!(tool.get(key).is_some(), "{key} in {tool}");
        }
    }
}

#[test]
fn a_tool_says_what_it_may_touch_and_who_may_use_it() {
    photograph!(Workspace::guarded().dalsegno(&["tools", "inspect", "risk.record"]), @r#"
        exit code: 0
        --- stdout
        risk.record
          Appends a decision about an incident to the list of escalations and tells which line it became.

        models see  risk__record
        offered by  server risk
        class       unsafe: its server says so, and dalsegno.toml trusts it
        may         read and write [WORKSPACE]/.dalsegno/incidents as /incidents
        used by     escalate, once a person agrees

        takes
          {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
              "by": {
                "default": null,
                "description": "Who decided.",
                "type": [
                  "string",
                  "null"
                ]
              },
              "decision": {
                "description": "What was decided.",
                "type": "string"
              },
              "incident": {
                "description": "The incident: its id or its text.",
                "type": "string"
              },
              "risk": {
                "description": "The risk that was decided upon, between 0 and 1.",
                "format": "double",
                "maximum": 1.0,
                "minimum": 0.0,
                "type": "number"
              }
            },
            "required": [
              "incident",
              "risk",
              "decision"
            ],
            "type": "object"
          }

        returns
          {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
              "line_number": {
                "description": "The line, counted from 1.",
                "format": "uint64",
                "minimum": 0,
                "type": "integer"
              },
              "path": {
                "description": "The file, as this server sees it.",
                "type": "string"
              }
            },
            "required": [
              "path",
              "line_number"
            ],
            "type": "object"
          }
        --- stderr
        "#);
}

#[test]
fn a_misspelt_tool_is_told_with_the_nearest() {
    photograph!(Workspace::plain().dalsegno(&["tools", "inspect", "memory.serach"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: the tool `memory.serach` does not exist
      help: did you mean `memory.search`?
    ");
    let output = Workspace::plain().dalsegno(&["tools", "inspect", "no such"]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
}

#[test]
fn arguments_that_do_not_fit_are_not_sent() {
    let workspace = Workspace::plain();
    let args = r#"{"limit": 1000, "querry": "disk"}"#;
    photograph!(workspace.dalsegno(&["tools", "call", "memory.search", "--args", args]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: the arguments do not fit the schema of `memory.search`
          `/limit` expected at most 100, found 1000
          `/querry` no such property: expected only `limit`, `query`
          `/query` required, but missing: expected string
          help: nothing was called: see what it takes with `dalsegno tools inspect memory.search`
        ");
    let document = workspace.json(&["tools", "call", "memory.search", "--args", args]);
    assert_eq!(document["error"]["code"], "bad_arguments");
    assert_eq!(document["error"]["violations"].as_array().unwrap().len(), 3, "{document}");
    photograph!(workspace.dalsegno(&["tools", "call", "memory.search", "--args", "{"]), @r#"
        exit code: 2
        --- stdout
        --- stderr
        error: the argument is not JSON: EOF while parsing an object at line 1 column 1
          help: write JSON, such as '{"severity": 2}', or `@FILE`
        "#);
}

#[test]
fn a_tool_whose_repetition_may_be_wrong_needs_a_word() {
    let workspace = Workspace::plain();
    let args = r#"{"entity": "INC-7", "content": "disk full on db-1"}"#;
    photograph!(workspace.dalsegno(&["tools", "call", "memory.create", "--args", args]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `memory.create` is keyed: to call it twice may be wrong, and you have not agreed to it
          help: agree with `--yes`
        ");
    let output = workspace.dalsegno(&["tools", "call", "memory.create", "--args", args, "--yes"]);
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    let found = workspace.json(&["tools", "call", "memory.search", "--args", r#"{"query": "disk"}"#]);
    assert_eq!(found["structured"]["hits"][0]["entity"], "INC-7", "{found}");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 0, "a run was recorded");
}

#[test]
fn arguments_come_from_standard_input_too() {
    let call = ["tools", "call", "memory.search", "--args", "-"];
    photograph!(Workspace::plain().dalsegno_with_input(&call, r#"{"query": "disk"}"#), @r#"
        exit code: 0
        --- stdout
        {
          "hits": []
        }
        --- stderr
        calling `memory.search` outside of any run: nothing is journaled
        "#);
}

#[test]
fn a_tool_of_a_server_is_called() {
    let args = r#"{"text": "payment service down, customers charged twice"}"#;
    photograph!(Workspace::guarded().dalsegno(&["tools", "call", "risk.score", "--args", args]), @r#"
        exit code: 0
        --- stdout
        {
          "factors": [
            {
              "evidence": "down",
              "name": "outage",
              "weight": 0.5
            },
            {
              "evidence": "payment",
              "name": "payments",
              "weight": 0.5
            },
            {
              "evidence": "customers",
              "name": "customer_facing",
              "weight": 0.3
            }
          ],
          "level": "high",
          "value": 0.83
        }
        --- stderr
        calling `risk.score` outside of any run: nothing is journaled
        "#);
}

#[test]
fn a_tool_that_reports_an_error_ends_with_one() {
    let workspace = Workspace::guarded();
    // A folder stands where the server keeps its file.
    fs::create_dir_all(workspace.path(".dalsegno/incidents/escalations.jsonl")).unwrap();
    let args = r#"{"incident": "disk full", "risk": 0.9, "decision": "escalate"}"#;
    let output = workspace.dalsegno(&["tools", "call", "risk.record", "--args", args, "--yes"]);
    assert!(output.starts_with("exit code: 1\n"), "{output}");
    assert!(output.contains("failed: `risk.record` reports an error"), "{output}");
}

/// An agent that may use the tool, with this line about it.
fn careful(line: &str) -> Workspace {
    let workspace = Workspace::guarded();
    let agent = format!(
        "name = \"careful\"\nversion = \"1.0.0\"\ndescription = \"Scores.\"\n[tools]\nallow = [\"risk.score\"]\n{line}\n\
         [[steps]]\ntool = \"risk.score\"\nwith = {{ text = \"x\" }}\n"
    );
    workspace.write("agents/careful.toml", &agent);
    workspace
}

#[test]
fn a_tool_for_which_an_agent_needs_a_word_needs_one_from_a_person_too() {
    let call = ["tools", "call", "risk.score", "--args", r#"{"text": "disk full"}"#];
    let workspace = careful("approve = [\"risk.score\"]");
    photograph!(workspace.dalsegno(&call), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `risk.score` is not called by the agent `careful` unless a person agrees, and you have not agreed to it
          help: agree with `--yes`
        ");
    let output = workspace.dalsegno(&[&call[..], &["--yes"]].concat());
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    let workspace = careful("[tools.settings.\"risk.score\"]\neffect = \"unsafe\"");
    photograph!(workspace.dalsegno(&call), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `risk.score` is unsafe for the agent `careful`: to call it twice may be wrong, and you have not agreed to it
          help: agree with `--yes`
        ");
}

#[test]
fn what_a_tool_returned_cannot_steer_a_terminal() {
    let workspace = Workspace::plain();
    // The one-byte form of the sequence that clears a screen, a delete, and a mark that turns the direction of text.
    let content = "disk \u{9b}2J\u{7f}\u{202e}full";
    let args = serde_json::json!({ "entity": "INC-7", "content": content }).to_string();
    workspace.succeed(&["tools", "call", "memory.create", "--args", &args, "--yes"]);
    for more in [&[][..], &["--json"]] {
        let call = [&["tools", "call", "memory.search", "--args", r#"{"query": "disk"}"#], more].concat();
        let found = workspace.succeed(&call);
        assert!(!found.chars().any(|one| one.is_control() && one != '\n' || one == '\u{202e}'), "{found:?}");
        let value: serde_json::Value = serde_json::from_str(&found).unwrap();
        let hits = if more.is_empty() { &value["hits"] } else { &value["structured"]["hits"] };
        assert!(hits.to_string().contains(content), "{found}");
    }
}

#[test]
fn a_tool_that_comes_with_dalsegno_is_written_once() {
    let workspace = Workspace::plain();
    let told = workspace.dalsegno(&["tools", "add", "email"]);
    assert!(told.starts_with("exit code: 0\n") && told.contains("made tools/email.json"), "{told}");
    let text = fs::read_to_string(workspace.path("tools/email.json")).unwrap();
    workspace.write("tools/email.json", &text.replace("Sends mail.", "Mine."));
    let told = workspace.dalsegno(&["tools", "add", "email"]);
    assert!(told.starts_with("exit code: 2\n") && told.contains("a file exists already"), "{told}");
    assert!(fs::read_to_string(workspace.path("tools/email.json")).unwrap().contains("Mine."));
    assert!(workspace.dalsegno(&["tools", "add", "mail"]).starts_with("exit code: 2\n"));
}

#[test]
fn every_tool_that_comes_with_dalsegno_passes_the_check() {
    let workspace = Workspace::plain();
    for name in ["email", "email_api", "google_calendar", "save_meal"] {
        let added = workspace.json(&["tools", "add", name]);
        assert_eq!(added["file"], format!("tools/{name}.json"));
    }
    assert_eq!(workspace.json(&["check"]), serde_json::json!([]));
}

#[test]
fn a_configuration_that_a_document_requires_is_shown_and_a_run_without_it_does_not_start() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.succeed(&["tools", "add", "email_api"]);
    let shown = workspace.succeed(&["tools", "inspect", "email_api.send_email"]);
    let config: Vec<&str> = shown
        .lines()
        .skip_while(|line| !line.starts_with("config "))
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(
        config[0],
        "config      `from_email`, which must be set: The sender's address, which the service must know."
    );
    assert!(config.contains(&"            `service`, \"resend\" by default: Whose API it is."), "{shown}");
    let listed = workspace.json(&["tools", "inspect", "email_api.send_email"]);
    assert_eq!(listed["config_schema"]["required"][0], "from_email", "{listed}");

    let agent = "name = \"a\"\n[tools]\nallow = [\"email_api.*\"]\n[[steps]]\ntool = \"email_api.send_email\"\n\
                 with = { to = \"a@b.co\", subject = \"Hi\", body = \"Hello\" }\n";
    workspace.write("agents/a.toml", agent);
    let checked = workspace.dalsegno(&["check"]);
    assert!(checked.contains("`from_email` is missing from the configuration of `email_api`"), "{checked}");
    let refused = workspace.dalsegno(&["run", "a"]);
    assert!(refused.starts_with("exit code: 2\n"), "{refused}");
    assert!(
        refused.contains("`from_email` of the configuration of `email_api` is set neither by the agent `a` nor by the tenant"),
        "{refused}"
    );
    let runs = workspace.dalsegno(&["runs"]);
    assert!(!runs.contains("failed") && !runs.contains("running"), "{runs}");
    // With it the run starts, and waits for what it lacks besides.
    let tenant = "name = \"default\"\n[tools.email_api.config]\nfrom_email = \"bot@b.co\"\n\
                  [tools.email_api.secrets]\napi_key = { store = \"key\" }\n";
    workspace.write("tenants/default.toml", tenant);
    let started = workspace.dalsegno(&["run", "a"]);
    assert!(!started.starts_with("exit code: 2\n") && !started.contains("is set neither"), "{started}");
    assert_eq!(workspace.json(&["runs"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_tenants_own_tools_are_listed_inspected_and_called() {
    let workspace = Workspace::plain();
    workspace.write("tenants/acme.toml", "name = \"acme\"\n[settings]\ngreeting = \"Good day\"\n");
    let document = r#"{
      "name": "greet",
      "description": "Greets.",
      "parameters": [{ "name": "who", "type": "string", "required": true }],
      "actions": [],
      "output": { "said": "{{tenant.settings.greeting}}, {{params.who}}" }
    }"#;
    workspace.write("tenants/acme/tools/greet.json", document);
    let listed = |more: &[&str]| {
        let tools = workspace.json(&[&["tools", "list"], more].concat());
        tools.as_array().unwrap().iter().any(|tool| tool["name"] == "greet")
    };
    assert!(listed(&["--tenant", "acme"]) && !listed(&[]));
    let shown = workspace.succeed(&["tools", "inspect", "greet", "--tenant", "acme"]);
    assert!(shown.starts_with("greet\n  Greets.\n"), "{shown}");
    photograph!(workspace.dalsegno(&["tools", "inspect", "greet"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: the tool `greet` does not exist
      help: a tenant has it: add `--tenant acme`
    ");
    let call = ["tools", "call", "greet", "--args", r#"{"who": "Ada"}"#, "--yes"];
    photograph!(workspace.dalsegno(&[&call[..], &["--tenant", "acme"]].concat()), @r#"
    exit code: 0
    --- stdout
    {
      "said": "Good day, Ada"
    }
    --- stderr
    calling `greet` outside of any run: nothing is journaled
    "#);
    for command in [&call[..], &["tools", "list"], &["tools", "inspect", "greet"]] {
        let told = workspace.dalsegno(&[command, &["--tenant", "acm"]].concat());
        assert!(told.starts_with("exit code: 2\n"), "{told}");
        assert!(told.ends_with("error: there is no tenant `acm`: did you mean `acme`?\n"), "{told}");
    }
    // The memory tools use the memory of the tenant.
    let args = r#"{"entity": "INC-7", "content": "disk full on db-1"}"#;
    workspace.succeed(&["tools", "call", "memory.create", "--args", args, "--yes", "--tenant", "acme"]);
    let hits = |more: &[&str]| {
        let found = workspace.json(&[&["memory", "search", "disk"], more].concat());
        found.as_array().unwrap().len()
    };
    assert_eq!((hits(&["--tenant", "acme"]), hits(&[])), (1, 0));
}
