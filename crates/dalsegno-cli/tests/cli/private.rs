//! Whatever the umask says, what the command leaves behind is its user's alone.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{DALSEGNO, Workspace, kept};

/// The command under a umask that takes nothing away.
fn wide(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\"", DALSEGNO]).args(args);
    command.current_dir(workspace.path("")).env_clear().envs(kept()).stdin(Stdio::null());
    // Its key is in the state, so that what others have compiled would be no modules of ours, nor ours of theirs.
    command.env("DALSEGNO_STATE", workspace.path("state")).env("DALSEGNO_CACHE", workspace.path("cache"));
    command
}

/// Runs the command, which must end with this code.
fn ends(workspace: &Workspace, args: &[&str], code: i32) {
    let output = wide(workspace, args).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", workspace.shown(&output));
}

/// Everything below a folder.
fn walk(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        }
        found.insert(path);
    }
}

/// Its process stays for as long as it waits: for longer than 30 s it would not.
const WAITER: &str = r#"name = "waiter"
version = "1.0.0"
description = "Waits."

[[steps]]
wait = "28s"
"#;

const TOOL: &str = r#"{
  "name": "echo",
  "description": "Keeps what it is told.",
  "parameters": [{ "name": "text", "type": "string", "required": true }],
  "actions": [{ "type": "context.set", "path": "notes[+]", "value": "params.text" }]
}"#;

#[test]
fn what_every_command_leaves_behind_is_closed_to_other_users() {
    let workspace = Workspace::guarded();
    workspace.write("agents/waiter.toml", WAITER);
    workspace.write(
        "agents/talks.toml",
        "name = \"talks\"\nversion = \"1.0.0\"\ndescription = \"Talks.\"\nprompt = \"{{request.text}}\"\n\n[model]\nuse = \"default\"\n",
    );
    workspace.write("replies.toml", "[[replies]]\ntext = \"Hello.\"\n");
    workspace.write("tools/echo.json", TOOL);
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write(
        "dalsegno.toml",
        &format!("[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n\n{settings}"),
    );
    let mut before = BTreeSet::new();
    walk(&workspace.path(""), &mut before);

    ends(&workspace, &["run", "escalate", "fire"], 4);
    ends(&workspace, &["resume", "last", "--approve", "--shown", &workspace.seen()], 0);
    ends(&workspace, &["run", "talks", "hello", "--record", "made/cassette.jsonl"], 0);
    ends(&workspace, &["export", "last", "made/run.dalsegno"], 0);
    ends(&workspace, &["import", "made/run.dalsegno"], 0);
    ends(&workspace, &["backup", "made/backup.db"], 0);
    ends(&workspace, &["memory", "add", "db-1", "It is full."], 0);
    ends(&workspace, &["memory", "export", "made/memory.jsonl"], 0);
    let params = r#"{"text": "one"}"#;
    ends(
        &workspace,
        &["tools", "test", "tools/echo.json", "--params", params, "--record", "made/trial.json"],
        0,
    );
    ends(&workspace, &["worker", "--until-idle"], 0);
    let mut secret = wide(&workspace, &["secret", "put", "token"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut secret.stdin.take().unwrap(), b"abcdefgh\n").unwrap();
    assert!(secret.wait().unwrap().success());
    // What is there while a process lives, or when it was killed: the log, the shared memory, the lock of its owner.
    let mut waits = wide(&workspace, &["run", "waiter"]).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_waiting = || {
        let owners = workspace.path(".dalsegno/owners");
        owners.read_dir().is_ok_and(|mut owners| owners.next().is_some())
    };
    while !is_waiting() {
        assert!(Instant::now() < deadline, "the run did not begin");
        thread::sleep(Duration::from_millis(20));
    }
    waits.kill().unwrap();
    waits.wait().unwrap();

    let mut after = BTreeSet::new();
    walk(&workspace.path(""), &mut after);
    let made: Vec<_> = after.difference(&before).collect();
    let is_made = |name: &str| made.iter().any(|path| path.ends_with(name));
    for name in [
        ".dalsegno",
        ".dalsegno/dalsegno.db",
        ".dalsegno/dalsegno.db-wal",
        ".dalsegno/dalsegno.db-shm",
        ".dalsegno/memory.db",
        ".dalsegno/secrets.db",
        ".dalsegno/owners",
        "made/cassette.jsonl",
        "made/run.dalsegno",
        "made/backup.db",
        "made/memory.jsonl",
        "made/trial.json",
        "state",
    ] {
        assert!(is_made(name), "`{name}` is missing: {made:?}");
    }
    // What a sandboxed server wrote has the mode that it chose, in a folder that is closed.
    let by_guest = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("incidents"));
    let open: Vec<_> = made
        .iter()
        .filter(|path| !by_guest(path))
        .map(|path| (path, fs::symlink_metadata(path).unwrap().permissions().mode()))
        .filter(|(_, mode)| mode & 0o077 != 0)
        .map(|(path, mode)| format!("{} {:04o}", path.display(), mode & 0o7777))
        .collect();
    assert!(open.is_empty(), "open to other users: {open:#?}");
}

#[test]
fn a_folder_that_is_open_to_others_is_closed_with_a_warning() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "one"]);
    let at = |name: &str| workspace.path(".dalsegno").join(name);
    fs::set_permissions(at(""), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(at("dalsegno.db"), Permissions::from_mode(0o644)).unwrap();
    let shown = workspace.dalsegno(&["runs"]);
    assert!(shown.contains("warning: other users could use `.dalsegno` (mode 0755)"), "{shown}");
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("dalsegno.db")), (0o700, 0o600));
    assert!(!workspace.dalsegno(&["runs"]).contains("warning"), "it is told once");
}
