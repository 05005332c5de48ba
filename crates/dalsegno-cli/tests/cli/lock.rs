//! `dalsegno check --connect`, `dalsegno.lock`, and `dalsegno schema`.

use std::fs;

use crate::support::{Workspace, photograph};

#[test]
fn what_is_not_pinned_is_told_and_then_pinned() {
    let workspace = Workspace::guarded();
    let _ = fs::remove_file(workspace.path("dalsegno.lock"));
    photograph!(workspace.dalsegno(&["check"]), @r"
    exit code: 0
    --- stdout
    --- stderr
    note[not-pinned]

      ☞ dalsegno.toml: the tools of `risk` are not pinned, so they were not
      │ checked
      help: run `dalsegno check --connect`, which asks the server and writes
            `dalsegno.lock`

    1 agent: 1 note
    ");
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: server `risk`: is new
        dalsegno.lock: 1 change, written; look at it before you commit it
        1 agent: no problems
        ");
    photograph!(workspace.dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        1 agent: no problems
        ");
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        1 agent: no problems
        ");
}

#[test]
fn a_misspelt_tool_is_found_by_what_is_pinned() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    // The server is gone, and not missed.
    fs::remove_file(workspace.path("risk.wasm")).unwrap();
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    let agent = fs::read_to_string(workspace.path("agents/escalate.toml")).unwrap();
    workspace.write("agents/escalate.toml", &agent.replace("risk.score\"", "risk.scroe\""));
    let output = workspace.dalsegno(&["check"]);
    assert!(
        output.starts_with("exit code: 2\n") && output.contains("did you mean `risk.score`?"),
        "{output}"
    );
}

#[test]
fn what_changed_at_a_server_is_told_in_words() {
    let workspace = Workspace::guarded();
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let fewer = settings.replace("wasm = ", "tools = [\"score\", \"record\"]\nwasm = ");
    workspace.write("dalsegno.toml", &fewer);
    workspace.succeed(&["check", "--connect"]);
    workspace.write("dalsegno.toml", &settings);
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: tool `risk.explain`: is new
        dalsegno.lock: 1 change, written; look at it before you commit it
        1 agent: no problems
        ");
}

#[test]
fn a_changed_lock_is_damaged_until_it_is_written_anew() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    let pinned = fs::read_to_string(workspace.path("dalsegno.lock")).unwrap();
    let changed = pinned.replacen("read_only = true", "read_only = false", 1);
    assert_ne!(changed, pinned);
    workspace.write("dalsegno.lock", &changed);
    let output = workspace.dalsegno(&["check"]);
    assert!(output.starts_with("exit code: 2\n") && output.contains("dalsegno.lock:"), "{output}");
    workspace.succeed(&["check", "--connect"]);
    assert_eq!(fs::read_to_string(workspace.path("dalsegno.lock")).unwrap(), pinned);
}

#[test]
fn a_server_that_is_not_there_keeps_what_was_pinned() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    let pinned = fs::read_to_string(workspace.path("dalsegno.lock")).unwrap();
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        1 agent: no problems
        error: tool server `risk`: `[WORKSPACE]/risk.wasm` is not a WebAssembly module: it begins with the text `no modul`, expected the bytes 00 61 73 6d
        ");
    assert_eq!(fs::read_to_string(workspace.path("dalsegno.lock")).unwrap(), pinned);
}

#[test]
fn changes_are_data_for_programs() {
    let workspace = Workspace::guarded();
    let _ = fs::remove_file(workspace.path("dalsegno.lock"));
    let document = workspace.json(&["check", "--connect"]);
    assert_eq!(document["written"], true, "{document}");
    assert_eq!(document["changes"][0], "server `risk`: is new", "{document}");
    assert_eq!(document["diagnostics"].as_array().unwrap().len(), 0, "{document}");
}

#[test]
fn a_workspace_without_servers_needs_no_lock() {
    let workspace = Workspace::plain();
    workspace.succeed(&["check", "--connect"]);
    assert!(!workspace.path("dalsegno.lock").exists());
}

/// A workspace without servers whose model calls an action of a toolkit by the short name.
fn toolkit() -> Workspace {
    let workspace = Workspace::plain();
    workspace.write("agents/keeper.toml", KEEPER);
    workspace.write("tools/notes.json", NOTES);
    workspace.write("replies.toml", "[[replies]]\ncalls = [{ name = \"keep\", arguments = { text = \"milk\" } }]\n[[replies]]\ntext = \"{{last.error.code ?? 'It is kept.'}}\"\n");
    workspace
}

const KEEPER: &str = r#"name = "keeper"
prompt = "{{request.text}}"

[model]
use = "default"

[tools]
allow = ["notes.keep"]
"#;

const NOTES: &str = r#"{
  "name": "notes",
  "description": "Keeps notes.",
  "actions": [
    {
      "name": "keep",
      "description": "Keeps a note.",
      "parameters": [{ "name": "text", "type": "string", "required": true }],
      "actions": [{ "type": "context.set", "path": "notes[+]", "value": "params.text" }]
    },
    {
      "name": "burn",
      "description": "Burns all notes.",
      "actions": [{ "type": "context.delete", "path": "notes" }]
    }
  ]
}
"#;

#[test]
fn short_names_of_actions_are_pinned_told_and_used() {
    let workspace = toolkit();
    assert_eq!(workspace.succeed(&["run", "keeper", "milk"]), "tool_not_found\n");
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: tool `notes.burn`: models now see it as `burn`
        changed: tool `notes.keep`: models now see it as `keep`
        dalsegno.lock: 2 changes, written; look at it before you commit it
        4 agents, 1 tool file, 2 pinned names: no problems
        ");
    photograph!(fs::read_to_string(workspace.path("dalsegno.lock")).unwrap(), @r#"
        # What the tool servers offer. Written by `dalsegno check --connect`: commit it, do not edit it.
        version = 1

        # By these names models see the actions of toolkits; other names may be written here. A name stays while its tool is there.
        [names]
        "notes.burn" = "burn"
        "notes.keep" = "keep"
        "#);
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        4 agents, 1 tool file, 2 pinned names: no problems
        ");
    photograph!(workspace.dalsegno(&["tools", "list"]), @r"
    exit code: 0
    --- stdout
    NAME             MODELS SEE        CLASS      OFFERED BY      DESCRIPTION
    memory.create    memory__create    keyed      dalsegno        Adds one observation about an entity to the memory.
    memory.search    memory__search    read       dalsegno        Searches the memory for what was observed before. Returns the best hits first, each with its entity, text, score and metadata.
    memory.traverse  memory__traverse  read       dalsegno        Follows relations in the memory from one entity. Returns the entities that were reached, nearest first, and the relations between them.
    notes.burn       burn              composite  document notes  Burns all notes.
    notes.keep       keep              composite  document notes  Keeps a note.
    --- stderr
    ");
    let inspected = workspace.json(&["tools", "inspect", "notes.keep"]);
    assert_eq!((&inspected["name"], &inspected["model_name"]), (&"notes.keep".into(), &"keep".into()));
    assert_eq!(workspace.succeed(&["run", "keeper", "milk"]), "It is kept.\n");
    workspace.succeed(&["replay", "--all"]);
    // What comes later with the same name gets the long one.
    workspace.write("tools/diary.json", &NOTES.replace("\"notes\",", "\"diary\","));
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        4 agents, 2 tool files, 2 pinned names: no problems
        ");
    fs::remove_file(workspace.path("tools/diary.json")).unwrap();
    workspace.write("tools/notes.json", &NOTES.replace("\"burn\"", "\"shred\""));
    photograph!(workspace.dalsegno(&["check"]), @r#"
        exit code: 0
        --- stdout
        --- stderr
        warning[no-effect]

          ⚠ no toolkit has an action `notes.burn`, so its name has no effect
           ╭─[dalsegno.lock:6:1]
         5 │ [names]
         6 │ "notes.burn" = "burn"
           · ────────────
         7 │ "notes.keep" = "keep"
           ╰────
          help: run `dalsegno check --connect`, which removes it

        4 agents, 1 tool file, 1 pinned name: 1 warning
        "#);
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: tool `notes.burn`: models no longer see it as `burn`
        changed: tool `notes.shred`: models now see it as `shred`
        dalsegno.lock: 2 changes, written; look at it before you commit it
        4 agents, 1 tool file, 2 pinned names: no problems
        ");
}

#[test]
fn a_name_that_cannot_be_is_refused_until_the_lock_is_written_anew() {
    let workspace = toolkit();
    workspace.write(
        "dalsegno.lock",
        "version = 1\n\n[names]\n\"notes.burn\" = \"burn it\"\n\"notes.keep\" = \"note\"\n",
    );
    photograph!(workspace.dalsegno(&["check"]), @r#"
    exit code: 2
    --- stdout
    --- stderr
    error[invalid-value]

      × `burn it` is not a name for models: expected 1 to 64 letters, digits, `_`
      │ and `-`
       ╭─[dalsegno.lock:4:16]
     3 │ [names]
     4 │ "notes.burn" = "burn it"
       ·                ─────────
     5 │ "notes.keep" = "note"
       ╰────
      help: write another name, or run `dalsegno check --connect`, which removes
            this one

    1 error
    "#);
    photograph!(workspace.dalsegno(&["run", "keeper", "milk"]), @r#"
    exit code: 2
    --- stdout
    --- stderr
    error[invalid-value]

      × `burn it` is not a name for models: expected 1 to 64 letters, digits, `_`
      │ and `-`
       ╭─[dalsegno.lock:4:16]
     3 │ [names]
     4 │ "notes.burn" = "burn it"
       ·                ─────────
     5 │ "notes.keep" = "note"
       ╰────
      help: write another name, or run `dalsegno check --connect`, which removes
            this one

    error: the workspace `[WORKSPACE]` has errors: 1 error
    "#);
    photograph!(workspace.dalsegno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: tool `notes.burn`: models now see it as `burn`
        dalsegno.lock: 1 change, written; look at it before you commit it
        4 agents, 1 tool file, 2 pinned names: no problems
        ");
    // The name that was right has stayed.
    let document = workspace.json(&["tools", "list"]);
    let seen: Vec<_> =
        document.as_array().unwrap().iter().map(|tool| tool["model_name"].as_str().unwrap()).collect();
    assert_eq!(seen, ["memory__create", "memory__search", "memory__traverse", "burn", "note"]);
}

#[test]
fn there_is_a_schema_for_every_file_kind() {
    let workspace = Workspace::empty();
    for kind in ["agent", "case", "dalsegno", "lock", "script"] {
        let schema: serde_json::Value = serde_json::from_str(&workspace.succeed(&["schema", kind])).unwrap();
        assert!(schema["$schema"].is_string() && schema["properties"].is_object(), "{kind}: {schema}");
    }
    photograph!(workspace.dalsegno(&["schema", "agnet"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'agnet' for '<KIND>'
          [possible values: agent, case, dalsegno, eval, lock, script, tenant, tool]

          tip: a similar value exists: 'agent'

        For more information, try '--help'.
        ");
}

#[test]
fn tools_that_a_section_names_and_the_server_does_not_have_are_told() {
    let workspace = Workspace::guarded();
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let narrowed = settings.replace("[servers.risk]\n", "[servers.risk]\ntools = [\"score\", \"lookup\"]\n");
    workspace.write("dalsegno.toml", &narrowed);
    let output = workspace.dalsegno(&["check", "--connect"]);
    let words = output.replace("\n  │", "");
    let warning = "`tools` of `[servers.risk]` names `lookup`, which the server does not offer";
    assert!(output.contains("warning[unknown-tool]") && words.contains(warning), "{output}");
    let listed = workspace.json(&["servers"]).to_string();
    assert!(listed.contains("the server does not offer it"), "{listed}");
}

#[test]
fn a_pinned_server_that_is_gone_is_missed_by_the_run_that_needs_it() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    let output = workspace.dalsegno(&["run", "escalate", "the pump leaks"]);
    assert!(output.contains("is not a WebAssembly module"), "{output}");
    // The run was made, and says what came of the operation.
    assert_eq!(workspace.json(&["runs"]).as_array().map(Vec::len), Some(1), "{output}");
}

#[cfg(unix)]
#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let workspace = Workspace::guarded();
    workspace.write("precious", "precious\n");
    std::os::unix::fs::symlink(workspace.path("precious"), workspace.path("dalsegno.lock.new")).unwrap();
    workspace.succeed(&["check", "--connect"]);
    assert_eq!(fs::read_to_string(workspace.path("precious")).unwrap(), "precious\n");
    fs::remove_file(workspace.path("dalsegno.lock")).unwrap();
    std::os::unix::fs::symlink(workspace.path("precious"), workspace.path("dalsegno.lock")).unwrap();
    let refused = workspace.dalsegno(&["check", "--connect"]);
    assert!(refused.starts_with("exit code: 1") && refused.contains("it is a symbolic link"), "{refused}");
    assert_eq!(fs::read_to_string(workspace.path("precious")).unwrap(), "precious\n");
}
