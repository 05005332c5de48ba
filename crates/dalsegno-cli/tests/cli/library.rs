//! Servers with resources and prompts, which agents read by tools.

use serde_json::json;

use crate::support::Workspace;

/// A server of the old era that uses nothing but what the shell has built in.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    say '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"docs","version":"1"}}' ;;
  *'"method":"tools/list"'*)
    say '"result":{"tools":[{"name":"count","description":"Counts.","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"resources/list"'*)
    say '"result":{"resources":[{"uri":"docs://policy","name":"policy"},{"uri":"docs://logo","name":"logo"}]}' ;;
  *'docs://policy'*)
    say '"result":{"contents":[{"uri":"docs://policy","text":"Refunds within 30 days."}]}' ;;
  *'docs://logo'*)
    say '"result":{"contents":[{"uri":"docs://logo","mimeType":"image/png","blob":"QUJDRA=="}]}' ;;
  *'"method":"prompts/list"'*)
    say '"result":{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]}' ;;
  *'"method":"prompts/get"'*)
    say '"result":{"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}]}' ;;
  *'"method":"notifications/'*) ;;
  *) say '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

const AGENT: &str = r#"name = "reader"
version = "1.0.0"
description = "Reads what it is asked for."

[tools]
allow = ["docs.*"]

[[steps]]
id = "list"
tool = "docs.resources.list"

[[steps]]
id = "page"
tool = "docs.resources.read"
with = { uri = "{{request.text}}" }

[[steps]]
id = "prompt"
tool = "docs.prompts.get"
with = { name = "greet", arguments = { who = "Ada" } }

[[steps]]
respond = "{{steps.list.resources[0].name}}: {{steps.page}} {{steps.prompt.messages[0].text}}"
"#;

fn library(further: &str) -> Workspace {
    let workspace = Workspace::empty().trusted();
    workspace
        .write("dalsegno.toml", &format!("[servers.docs]\ncommand = [\"/bin/sh\", \"docs.sh\"]\n{further}"));
    workspace.write("docs.sh", SERVER);
    workspace.write("agents/reader.toml", AGENT);
    workspace
}

#[test]
fn an_agent_reads_a_resource_and_a_prompt_and_its_run_replays_without_the_server() {
    let workspace = library("");
    let said = workspace.succeed(&["run", "reader", "docs://policy"]);
    assert_eq!(said.trim(), "policy: Refunds within 30 days. Hello");
    let said = workspace.succeed(&["run", "reader", "docs://logo"]);
    assert_eq!(said.trim(), "policy: [binary content, image/png, 4 bytes] Hello");
    let runs = workspace.json(&["runs"]);
    std::fs::remove_file(workspace.path("docs.sh")).unwrap();
    workspace.succeed(&["replay", runs[0]["run_id"].as_str().unwrap()]);
}

#[test]
fn built_in_tools_are_listed_checked_and_pinned_as_reading() {
    let workspace = library("");
    let listed = workspace.json(&["tools", "list"]);
    let tools: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| (&tool["name"], &tool["class"])).collect();
    for (name, class) in [
        ("docs.count", "unsafe"),
        ("docs.prompts.get", "read"),
        ("docs.prompts.list", "read"),
        ("docs.resources.list", "read"),
        ("docs.resources.read", "read"),
    ] {
        assert!(tools.contains(&(&json!(name), &json!(class))), "{name}: {tools:?}");
    }
    let checked = workspace.succeed(&["servers", "check", "docs"]);
    assert!(checked.contains("ready, 5 tools") && checked.contains("resources.read"), "{checked}");

    workspace.succeed(&["check", "--connect"]);
    let lock = std::fs::read_to_string(workspace.path("dalsegno.lock")).unwrap();
    assert_eq!(lock.matches("builtin = true").count(), 4, "{lock}");
    // Without the server, the lock says what there is.
    std::fs::remove_file(workspace.path("docs.sh")).unwrap();
    workspace.succeed(&["check"]);
}

#[test]
fn built_in_tools_that_are_not_named_are_not_offered() {
    let workspace = library("tools = [\"count\", \"resources.read\"]\n");
    let checked = workspace.succeed(&["servers", "check", "docs"]);
    assert!(checked.contains("ready, 2 tools"), "{checked}");
    let told = workspace.dalsegno(&["run", "reader", "docs://policy"]);
    assert!(told.starts_with("exit code: 2") && told.contains("docs.resources.list"), "{told}");
}

#[test]
fn a_resource_is_read_without_an_agent() {
    let workspace = library("");
    let args = r#"{"uri":"docs://policy"}"#;
    let called = workspace.json(&["tools", "call", "docs.resources.read", "--args", args]);
    assert_eq!(called["text"], "Refunds within 30 days.", "{called}");
    let refused = workspace.dalsegno(&["tools", "call", "docs.resources.read", "--args", "{}"]);
    assert!(refused.contains("uri") && !refused.starts_with("exit code: 0"), "{refused}");
}
