//! `segno check --connect`, `segno.lock`, and `segno schema`.

use std::fs;

use crate::support::{Workspace, photograph};

#[test]
fn what_is_not_pinned_is_told_and_then_pinned() {
    let workspace = Workspace::guarded();
    let _ = fs::remove_file(workspace.path("segno.lock"));
    photograph!(workspace.segno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        note[not-pinned]

          ☞ segno.toml: the tools of `risk` are not pinned, so nothing was checked
          │ about them
          help: run `segno check --connect`, which asks the server and writes
                `segno.lock`

        1 agent: 1 note
        ");
    photograph!(workspace.segno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: server `risk`: is new
        segno.lock: 1 change, written; look at it before you commit it
        1 agent: no problems
        ");
    photograph!(workspace.segno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        1 agent: no problems
        ");
    photograph!(workspace.segno(&["check", "--connect"]), @r"
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
    let output = workspace.segno(&["check"]);
    assert!(
        output.starts_with("exit code: 2\n") && output.contains("did you mean `risk.score`?"),
        "{output}"
    );
}

#[test]
fn what_changed_at_a_server_is_told_in_words() {
    let workspace = Workspace::guarded();
    let settings = fs::read_to_string(workspace.path("segno.toml")).unwrap();
    let fewer = settings.replace("wasm = ", "tools = [\"score\", \"record\"]\nwasm = ");
    workspace.write("segno.toml", &fewer);
    workspace.succeed(&["check", "--connect"]);
    workspace.write("segno.toml", &settings);
    photograph!(workspace.segno(&["check", "--connect"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        changed: tool `risk.explain`: is new
        segno.lock: 1 change, written; look at it before you commit it
        1 agent: no problems
        ");
}

#[test]
fn a_changed_lock_is_damaged_until_it_is_written_anew() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    let pinned = fs::read_to_string(workspace.path("segno.lock")).unwrap();
    let changed = pinned.replacen("read_only = true", "read_only = false", 1);
    assert_ne!(changed, pinned);
    workspace.write("segno.lock", &changed);
    let output = workspace.segno(&["check"]);
    assert!(output.starts_with("exit code: 2\n") && output.contains("segno.lock:"), "{output}");
    workspace.succeed(&["check", "--connect"]);
    assert_eq!(fs::read_to_string(workspace.path("segno.lock")).unwrap(), pinned);
}

#[test]
fn a_server_that_is_not_there_keeps_what_was_pinned() {
    let workspace = Workspace::guarded();
    workspace.succeed(&["check", "--connect"]);
    let pinned = fs::read_to_string(workspace.path("segno.lock")).unwrap();
    fs::write(workspace.path("risk.wasm"), "no module").unwrap();
    photograph!(workspace.segno(&["check", "--connect"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        1 agent: no problems
        error: tool server `risk`: `[WORKSPACE]/risk.wasm` is not a WebAssembly module: it begins with the text `no modul`, expected the bytes 00 61 73 6d
        ");
    assert_eq!(fs::read_to_string(workspace.path("segno.lock")).unwrap(), pinned);
}

#[test]
fn changes_are_data_for_programs() {
    let workspace = Workspace::guarded();
    let _ = fs::remove_file(workspace.path("segno.lock"));
    let document = workspace.json(&["check", "--connect"]);
    assert_eq!(document["written"], true, "{document}");
    assert_eq!(document["changes"][0], "server `risk`: is new", "{document}");
    assert_eq!(document["diagnostics"].as_array().unwrap().len(), 0, "{document}");
}

#[test]
fn a_workspace_without_servers_needs_no_lock() {
    let workspace = Workspace::plain();
    workspace.succeed(&["check", "--connect"]);
    assert!(!workspace.path("segno.lock").exists());
}

#[test]
fn there_is_a_schema_for_every_file_kind() {
    let workspace = Workspace::empty();
    for kind in ["agent", "segno", "lock", "script"] {
        let schema: serde_json::Value = serde_json::from_str(&workspace.succeed(&["schema", kind])).unwrap();
        assert!(schema["$schema"].is_string() && schema["properties"].is_object(), "{kind}: {schema}");
    }
    photograph!(workspace.segno(&["schema", "agnet"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: invalid value 'agnet' for '<KIND>'
          [possible values: agent, segno, lock, script, tenant, tool]

          tip: a similar value exists: 'agent'

        For more information, try '--help'.
        ");
}
