//! Whose workspace it is, and whether it may start programs.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Output};

use crate::support::{Workspace, photograph};

/// A tool server that notes each start.
const SERVER: &str = r#"#!/bin/sh
echo started >> started
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"%s",%s}}\n' "$id" "$1" "$2"; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"method":"server/discover"'*) reply complete '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/list"'*) reply complete '"tools":[{"name":"ring","description":"Rings.","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/call"'*) reply complete '"content":[{"type":"text","text":"rang"}]' ;;
  esac
done
"#;

const RINGER: &str = r#"name = "ringer"
version = "1.0.0"
description = "Rings."

[tools]
allow = ["bell.ring"]
approve = ["bell.ring"]

[[steps]]
id = "rang"
tool = "bell.ring"
with = {}

[[steps]]
respond = "{{steps.rang}}"
"#;

/// A workspace that starts a program, and a state folder of its own.
fn bell() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write(
        "dalsegno.toml",
        "[servers.bell]\ncommand = [\"/bin/sh\", \"bell.sh\"]\nenv = { PATH = \"/usr/bin:/bin\" }\n",
    );
    workspace.write("bell.sh", SERVER);
    workspace.write("agents/ringer.toml", RINGER);
    workspace.write("agents/quiet.toml", "name = \"quiet\"\nversion = \"1.0.0\"\ndescription = \"Answers.\"\n\n[[steps]]\nrespond = \"hello\"\n");
    workspace
}

fn command(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = workspace.command(args);
    // Its key is in the state, so that what others have compiled would be no modules of ours, nor ours of theirs.
    command.env("DALSEGNO_STATE", workspace.path("state")).env("DALSEGNO_CACHE", workspace.path("cache"));
    command
}

fn run(workspace: &Workspace, args: &[&str]) -> Output {
    command(workspace, args).output().unwrap()
}

fn shown(workspace: &Workspace, args: &[&str]) -> String {
    workspace.shown(&run(workspace, args))
}

fn is_started(workspace: &Workspace) -> bool {
    workspace.path("started").exists()
}

#[test]
fn no_command_starts_a_program_that_nobody_agreed_to() {
    let workspace = bell();
    photograph!(shown(&workspace, &["tools", "list"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: this workspace starts programs, and you have not agreed to them: `/bin/sh bell.sh` of `[servers.bell]`
      help: look at them; then run `dalsegno trust [WORKSPACE]`, or give `--trust` to agree for this command
    ");
    for args in [
        &["tools", "list"][..],
        &["tools", "inspect", "bell.ring"],
        &["tools", "call", "bell.ring", "--args", "{}", "--yes"],
        &["servers"],
        &["servers", "check", "bell"],
        &["check", "--connect"],
        &["run", "ringer"],
        &["chat", "ringer"],
        &["worker", "--until-idle"],
        &["resume", "last"],
        &["answer", "--waiting", "approval", "--approve", "--yes", "0"],
    ] {
        let output = run(&workspace, args);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {words}");
        assert!(words.contains("you have not agreed to them"), "{args:?}: {words}");
    }
    // What starts nothing needs no trust.
    for args in [&["check"][..], &["runs"], &["memory", "search", "x"], &["secret", "list"]] {
        let output = run(&workspace, args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", workspace.shown(&output));
    }
    assert!(!is_started(&workspace));
}

#[test]
fn a_program_that_prints_a_key_needs_the_same_agreement() {
    let workspace = Workspace::empty();
    // No endpoint listens there; the program is started before anything is sent.
    workspace.write(
        "dalsegno.toml",
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         api_key = { command = [\"/bin/sh\", \"key.sh\"], ttl = \"50m\" }\n",
    );
    workspace.write("key.sh", "echo started >> started\necho the-t0ken-of-the-day\n");
    workspace.write(
        "agents/clerk.toml",
        "name = \"clerk\"\nprompt = \"{{request.text}}\"\n\n[model]\nuse = \"default\"\nretries = 0\n",
    );
    photograph!(shown(&workspace, &["run", "clerk", "hi"]), @r"
    exit code: 2
    --- stdout
    --- stderr
    error: this workspace starts programs, and you have not agreed to them: `/bin/sh key.sh` of `[models.default]`
      help: look at them; then run `dalsegno trust [WORKSPACE]`, or give `--trust` to agree for this command
    ");
    assert!(!is_started(&workspace));
    let output = run(&workspace, &["run", "clerk", "hi", "--trust"]);
    assert_eq!(output.status.code(), Some(1), "{}", workspace.shown(&output));
    assert!(is_started(&workspace));
    assert!(!workspace.shown(&output).contains("t0ken"), "{}", workspace.shown(&output));

    // The agreement is to this command.
    assert_eq!(run(&workspace, &["trust", "."]).status.code(), Some(0));
    assert_eq!(run(&workspace, &["run", "clerk", "hi"]).status.code(), Some(1));
    let changed = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap().replace("key.sh", "other.sh");
    workspace.write("dalsegno.toml", &changed);
    assert_eq!(run(&workspace, &["run", "clerk", "hi"]).status.code(), Some(2));
}

#[test]
fn an_agreement_counts_for_these_programs_in_this_folder() {
    let workspace = bell();
    assert_eq!(run(&workspace, &["tools", "list", "--trust"]).status.code(), Some(0));
    assert!(is_started(&workspace));
    // For that one command only.
    assert_eq!(run(&workspace, &["tools", "list"]).status.code(), Some(2));
    photograph!(shown(&workspace, &["trust", "."]), @r"
    exit code: 0
    --- stdout
    --- stderr
    `[WORKSPACE]` is trusted as it is now
      it may start `/bin/sh bell.sh` of `[servers.bell]`
    ");
    assert_eq!(run(&workspace, &["tools", "list"]).status.code(), Some(0));
    let listed = shown(&workspace, &["trust"]);
    assert!(listed.contains("[WORKSPACE]: programs "), "{listed}");
    // Another argument is another program.
    let settings = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write("dalsegno.toml", &settings.replace("\"bell.sh\"", "\"bell.sh\", \"-x\""));
    assert_eq!(run(&workspace, &["tools", "list"]).status.code(), Some(2));
    workspace.write("dalsegno.toml", &settings);
    assert_eq!(run(&workspace, &["tools", "list"]).status.code(), Some(0));
    assert_eq!(run(&workspace, &["trust", ".", "--revoke"]).status.code(), Some(0));
    assert_eq!(run(&workspace, &["tools", "list"]).status.code(), Some(2));
    photograph!(shown(&workspace, &["trust"]), @r"
    exit code: 0
    --- stdout
    --- stderr
    you trust no workspace yet: `dalsegno trust DIR` trusts one
    ");
}

#[test]
fn a_run_is_cancelled_without_any_trust() {
    let workspace = bell();
    assert_eq!(run(&workspace, &["run", "ringer", "--trust"]).status.code(), Some(4));
    fs::remove_file(workspace.path("started")).unwrap();
    let output = run(&workspace, &["cancel", "last"]);
    assert_eq!(output.status.code(), Some(0), "{}", workspace.shown(&output));
    assert!(!is_started(&workspace));
}

#[test]
fn a_workspace_of_another_user_is_refused_until_it_is_trusted() {
    const OTHER: u32 = 65_534;
    for part in ["dalsegno.toml", "", ".dalsegno"] {
        let workspace = bell();
        assert_eq!(run(&workspace, &["run", "quiet", "--trust"]).status.code(), Some(0));
        if chown(workspace.path(part), Some(OTHER), None).is_err() {
            // Only root may give a file away.
            return;
        }
        for args in [&["check"][..], &["runs"], &["run", "quiet", "--trust"], &["cancel", "last"]] {
            let output = run(&workspace, args);
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{part}: {args:?}: {words}");
            assert!(words.contains("belongs to another user (uid 65534)"), "{part}: {args:?}: {words}");
        }
        // A key that is pressed to complete a line opens nothing of it.
        let mut completes = command(&workspace, &["--", "dalsegno", "show", "la"]);
        completes.env("DALSEGNO_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
        completes.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "false");
        let completed = completes.output().unwrap();
        assert!(
            !String::from_utf8_lossy(&completed.stdout).contains("last"),
            "{}",
            workspace.shown(&completed)
        );

        let trusted = shown(&workspace, &["trust", "."]);
        assert!(trusted.contains("its files may belong to the user 65534"), "{trusted}");
        assert_eq!(run(&workspace, &["run", "quiet"]).status.code(), Some(0), "{part}");
        // A third user is another matter.
        chown(workspace.path(part), Some(OTHER - 1), None).unwrap();
        assert_eq!(run(&workspace, &["runs"]).status.code(), Some(2), "{part}");
    }
}

#[test]
fn nothing_above_the_home_folder_is_a_workspace() {
    let workspace = bell();
    fs::create_dir_all(workspace.path("home/project")).unwrap();
    let inside = |home: &str| {
        let mut command = command(&workspace, &["check"]);
        command.current_dir(workspace.path("home/project")).env("HOME", workspace.path(home));
        command.output().unwrap().status.code()
    };
    assert_eq!(inside("elsewhere"), Some(0));
    assert_eq!(inside("home"), Some(2));
    workspace.write("home/dalsegno.toml", "");
    workspace
        .write("home/agents/quiet.toml", &fs::read_to_string(workspace.path("agents/quiet.toml")).unwrap());
    assert_eq!(inside("home"), Some(0), "the home folder itself may be one");
}

#[test]
fn the_search_for_a_workspace_ends_where_another_file_system_begins() {
    let workspace = bell();
    fs::create_dir_all(workspace.path("project/deep")).unwrap();
    let here = command(&workspace, &["check"]).current_dir(workspace.path("project/deep")).output().unwrap();
    assert_eq!(here.status.code(), Some(0), "{}", workspace.shown(&here));
    // In a name space of its own, where whoever runs the tests may mount something.
    let mounted = |script: &str| {
        let mut command = Command::new("unshare");
        let script =
            format!("mount -t tmpfs none project && mkdir -p project/deep && cd project/deep && {script}");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            &script,
            env!("CARGO_BIN_EXE_dalsegno"),
        ]);
        command.current_dir(workspace.path("")).env("DALSEGNO_STATE", workspace.path("state")).output()
    };
    if !mounted("true").is_ok_and(|output| output.status.success()) {
        eprintln!(
            "skipped: this user may not mount a file system (`unshare --user --map-root-user --mount`)"
        );
        return;
    }
    let words = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let beyond = mounted("exec \"$0\" check").unwrap();
    assert_eq!(beyond.status.code(), Some(2), "{}", words(&beyond));
    assert!(words(&beyond).contains("there is no `dalsegno.toml`"), "{}", words(&beyond));
    // A folder on the other file system may be a workspace itself.
    let own = mounted("touch ../dalsegno.toml && exec \"$0\" check").unwrap();
    assert!(!words(&own).contains("there is no `dalsegno.toml`"), "{}", words(&own));
}
