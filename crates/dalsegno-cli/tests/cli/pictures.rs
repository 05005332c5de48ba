//! A run whose model saw a picture of a tool: what the command shows of it, and what it keeps.
#![cfg(unix)]

use crate::support::Workspace;

/// A server of the old era with one tool, which returns a picture of one pixel.
const CAMERA: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":{%s}}\n' "$id" "$1"; }
PIXEL=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*)
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  *'"method":"initialize"'*)
    say '"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"camera","version":"1"}' ;;
  *'"method":"tools/list"'*) say '"tools":[{"name":"shot","inputSchema":{"type":"object"}}]' ;;
  *'"name":"shot"'*)
    say "\"content\":[{\"type\":\"text\",\"text\":\"click\"},{\"type\":\"image\",\"data\":\"$PIXEL\",\"mimeType\":\"image/png\"}]" ;;
  esac
done
"#;

/// A workspace in which an agent has looked.
fn looked() -> Workspace {
    let workspace = Workspace::empty().trusted();
    workspace.write("camera.sh", CAMERA);
    workspace.write(
        "dalsegno.toml",
        "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n\
         [servers.camera]\ncommand = [\"/bin/sh\", \"camera.sh\"]\n",
    );
    workspace.write(
        "replies.toml",
        "[[replies]]\ncalls = [{ name = \"camera.shot\", arguments = {} }]\n\n[[replies]]\ntext = \"A pixel.\"\n",
    );
    workspace.write(
        "agents/eye.toml",
        "name = \"eye\"\n\n[model]\nuse = \"default\"\n\n[tools]\nallow = [\"camera.shot\"]\n",
    );
    assert_eq!(workspace.succeed(&["run", "eye", "what is there?"]), "A pixel.\n");
    workspace
}

#[test]
fn what_a_model_saw_is_shown() {
    let workspace = looked();
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains("click [image content, image/png, 70 bytes] · 1 file"), "{shown}");
    let shown = workspace.succeed(&["show", "last", "--prompt"]);
    assert!(shown.contains("with image.png (image/png, 70 bytes)"), "{shown}");
    let prompt = workspace.json(&["show", "last", "--prompt"]);
    let result = prompt["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        result["files"],
        serde_json::json!([{ "name": "image.png", "media_type": "image/png", "bytes": 70, "sent": true }])
    );
    assert!(workspace.dalsegno(&["replay", "last"]).contains("identical"));
}

#[test]
fn a_case_of_such_a_run_plays_again() {
    let workspace = looked();
    // No case starts a server: what it offers is in the lock file.
    workspace.succeed(&["check", "--connect"]);
    workspace.succeed(&["test", "--from-run", "last"]);
    let tested = workspace.dalsegno(&["test"]);
    assert!(tested.starts_with("exit code: 0") && tested.contains("1 case passed"), "{tested}");
}

#[test]
fn an_archive_of_such_a_run_is_shown_elsewhere() {
    let workspace = looked();
    let file = workspace.path("run.dalsegno");
    let file = file.to_str().unwrap();
    workspace.succeed(&["export", "last", file]);
    let other = Workspace::plain();
    other.succeed(&["import", file]);
    assert!(other.dalsegno(&["replay", "last"]).contains("identical"));
    let shown = other.succeed(&["show", "last", "--prompt"]);
    assert!(shown.contains("with image.png (image/png, 70 bytes)"), "{shown}");
    let checked = other.json(&["doctor"]);
    assert_eq!((&checked["sound"], &checked["files"]), (&true.into(), &1.into()), "{checked}");
}
