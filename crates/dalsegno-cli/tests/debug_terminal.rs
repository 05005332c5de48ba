//! The debugger in a real terminal: what a person sees, and what their keys do.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::tmux::{Terminal, has_terminal};

#[path = "cli/tmux.rs"]
mod tmux;

const DALSEGNO: &str = env!("CARGO_BIN_EXE_dalsegno");

/// What a terminal would obey, and what a person would not see or read otherwise than it is.
const HOSTILE: &str =
    "the disk\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{1b}[31m \u{202e}llufesu\u{200b} 日本語のディスク";

fn dalsegno(folder: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(DALSEGNO);
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    command.output().unwrap()
}

fn done(folder: &TempDir, args: &[&str]) -> String {
    let output = dalsegno(folder, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A workspace with two runs: the first keeps a hostile text in its memory, and the last one finds it.
fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    done(&folder, &["init", "."]);
    done(&folder, &["run", "notes", HOSTILE]);
    done(&folder, &["run", "notes", "the disk is full again"]);
    folder
}

/// The id of the newest run.
fn last(folder: &TempDir) -> String {
    let runs: Value = serde_json::from_str(&done(folder, &["runs", "--json"])).unwrap();
    let runs = runs.as_array().or_else(|| runs["runs"].as_array()).unwrap();
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

/// An editor that changes the outcome.
fn editor(folder: &TempDir, script: &str) -> String {
    let path = folder.path().join("editor.sh");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    format!("PATH=/usr/bin:/bin VISUAL='{}'", path.display())
}

#[test]
fn a_run_is_opened_stepped_searched_forked_and_compared() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let run = last(&folder);
    let change = r#"printf '{"outcome": {"memory_found": []}}' > "$1""#;
    let terminal = Terminal::open_with(&folder, "debug last", &editor(&folder, change));
    terminal.now("asked");
    terminal.now("the disk is full again");
    // The first step, its search, and what was found: with its score, and with nothing that steers.
    terminal.presses(&["j", "j", "6"]);
    terminal.now("memory search");
    terminal.now("\\u{1b}]0;OWNED\\u{7}");
    terminal.now("\\u{202e}");
    terminal.now("日本語");
    assert_ne!(terminal.tmux(&["display-message", "-p", "#{pane_title}"]).trim(), "OWNED");
    // Both ways.
    terminal.presses(&["]", "1"]);
    terminal.now("run plan step 2");
    terminal.presses(&["["]);
    terminal.now("run plan step 1");
    terminal.presses(&["2"]);
    terminal.now("state when this step was asked for");
    terminal.presses(&["/"]);
    terminal.types("MEMORY CREATE");
    terminal.now("1 match");
    terminal.presses(&["5"]);
    terminal.now("remembered");
    // A fork with another outcome of the search.
    terminal.presses(&["g", "j", "j", "f"]);
    terminal.now("nothing of it was performed");
    terminal.now("0 steps");
    let fork = last(&folder);
    assert_ne!(fork, run);
    let shown: Value = serde_json::from_str(&done(&folder, &["show", &fork, "--json"])).unwrap();
    assert_eq!(shown["forked_from"], run);
    terminal.presses(&["c"]);
    terminal.types(&run[..8]);
    terminal.now("first difference: step 1, outcome");
    terminal.now("/memory_found/0");
    // Another process performs the fork until it asks before an effect, and the debugger reads it.
    assert_eq!(dalsegno(&folder, &["resume", &fork]).status.code(), Some(4));
    terminal.presses(&["r"]);
    terminal.now("suspended");
    terminal.now("? memory create");
    terminal.now("1 step");
    terminal.presses(&["b", "1"]);
    terminal.now("2 steps");
    terminal.presses(&["?"]);
    terminal.now("fork from here with an edited outcome");
    terminal.presses(&["x", "q"]);
    terminal.now("ended with 0");
    terminal.now(&format!("dalsegno resume {}", &fork[..12]));
    terminal.says("#{alternate_on}", "0");
}

#[test]
fn an_outcome_that_is_left_as_it_was_or_is_no_json_forks_nothing() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let run = last(&folder);
    let terminal = Terminal::open_with(&folder, "debug last --step 1", &editor(&folder, "true"));
    terminal.now("run plan step 1");
    terminal.presses(&["f"]);
    terminal.now("select an operation first");
    terminal.presses(&["j", "f"]);
    terminal.now("nothing was changed");
    for (script, message) in [
        ("echo '{' > \"$1\"", "is not JSON"),
        ("echo '{\"outcome\": {\"email_sent\": 7}}' > \"$1\"", "EmailReceipt"),
        ("exit 3", "ended with exit status"),
    ] {
        editor(&folder, script);
        terminal.presses(&["f"]);
        terminal.now(message);
    }
    // What was refused is there to be edited further.
    editor(&folder, "grep -q email_sent \"$1\" && printf '{\"outcome\": {\"memory_found\": []}}' > \"$1\"");
    terminal.presses(&["f"]);
    terminal.now("nothing of it was performed");
    assert_ne!(last(&folder), run);
    let kept: Vec<_> = fs::read_dir(folder.path().join(".dalsegno")).unwrap().flatten().collect();
    assert!(kept.iter().all(|file| !file.file_name().to_string_lossy().starts_with("outcome-")), "{kept:?}");
}

#[test]
fn the_terminal_is_as_before_after_a_signal_and_after_ctrl_c() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let terminal = Terminal::open(&folder, "debug last");
    terminal.now("asked");
    terminal.says("#{alternate_on}", "1");
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let shell = shell.trim();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let ended = Command::new("kill").arg(children.split_whitespace().next().unwrap()).status().unwrap();
    assert!(ended.success());
    terminal.now("ended with 130");
    terminal.says("#{alternate_on}", "0");
    terminal.says("#{cursor_flag}", "1");
    // A terminal that was left raw would not end the line.
    terminal.types("typed");
    terminal.now("typed\ntyped");
    let other = Terminal::open(&folder, "debug last");
    other.now("asked");
    other.types_ctrl_c();
    other.now("ended with 0");
    other.says("#{alternate_on}", "0");
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_the_debugger_is_continued() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let terminal = Terminal::open(&folder, "runs");
    let shell = "env -i TERM=xterm PATH=/usr/bin:/bin PS1='ready> ' bash --norc --noprofile -i";
    terminal.tmux(&["new-window", "-c", folder.path().to_str().unwrap(), shell]);
    terminal.now("ready>");
    terminal.types(&format!("'{DALSEGNO}' debug last"));
    terminal.now("the disk is full again");
    terminal.presses(&["C-z"]);
    terminal.now("Stopped");
    terminal.says("#{alternate_on}", "0");
    terminal.types("fg");
    terminal.now("the disk is full again");
    terminal.says("#{alternate_on}", "1");
    terminal.presses(&["q"]);
    terminal.says("#{alternate_on}", "0");
    terminal.types("echo \"left with $?\"");
    terminal.now("left with 0");
}

#[test]
fn a_terminal_of_20_columns_is_told_so_and_can_be_left() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let terminal = Terminal::open_sized(&folder, "debug last", "", 20, 6);
    terminal.now("This terminal has 20");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.now("the disk is full again");
    terminal.tmux(&["resize-window", "-x", "20", "-y", "6"]);
    terminal.now("This terminal has 20");
    terminal.presses(&["q"]);
    terminal.now("ended with 0");
}

#[test]
fn a_damaged_journal_is_shown_up_to_the_damage() {
    if !has_terminal() {
        return;
    }
    let folder = workspace();
    let file = rusqlite::Connection::open(folder.path().join(".dalsegno/dalsegno.db")).unwrap();
    let sql = "UPDATE record SET at = at + 1 WHERE key = (SELECT max(key) - 1 FROM record)";
    assert_eq!(file.execute(sql, []).unwrap(), 1);
    drop(file);
    let refused = dalsegno(&folder, &["show", "last"]);
    assert!(!refused.status.success());
    let terminal = Terminal::open(&folder, "debug last");
    terminal.now("cannot be read from record 4 on");
    terminal.now("damaged");
    terminal.presses(&["j", "j", "5"]);
    terminal.now("OWNED");
    terminal.presses(&["q"]);
    terminal.now("ended with 0");
}

#[test]
fn what_cannot_be_debugged_is_an_error_with_one_thing_to_do() {
    let folder = workspace();
    let error = |args: &[&str]| {
        let output = dalsegno(&folder, args);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = error(&["debug", "last"]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("needs a terminal") && told.contains("`dalsegno show`"), "{told}");
    if !has_terminal() {
        return;
    }
    for (args, code, words) in
        [("debug eeeeeeee", 2, "no run of this workspace begins with"), ("debug last --step 9", 2, "step 9")]
    {
        let terminal = Terminal::open(&folder, args);
        terminal.now(words);
        terminal.now(&format!("ended with {code}"));
    }
    let run = last(&folder);
    done(&folder, &["erase", &run, "--yes"]);
    let terminal = Terminal::open(&folder, &format!("debug {run}"));
    terminal.now("erased");
    terminal.now("ended with 1");
}
