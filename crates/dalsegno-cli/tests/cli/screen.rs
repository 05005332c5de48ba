//! What other parties write never steers a terminal, never hides, and never stops the command.

use std::ffi::OsStr;

use crate::support::Workspace;

/// Sets the title of a window, clears the screen, turns text around and hides a word, without one raw byte of it in TOML.
const HOSTILE_KEY: &str = r#""\u001b]0;OWNED\u0007\u001b[2J\u202e\U000E0068\u009b" = 1"#;

/// The same as an argument.
const HOSTILE: &str = "a\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{202e}b\u{200b}\u{e0068}\u{9b}2Jc\u{2028}d";

const SPEAKS: &str = r#"
name = "speaks"
version = "1.0.0"
description = "Repeats what it is told."
[[steps]]
memory_create = { entity = "{{request.text}}", type = "log", content = "{{request.text}}" }
[[steps]]
id = "asked"
ask = "really {{request.text}}?"
[[steps]]
respond = "{{request.text}}{{steps.asked}}"
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[memory]\npath = \".dalsegno/memory.db\"\n");
    workspace.write("agents/speaks.toml", SPEAKS);
    workspace
}

/// Says whether a text has something that a person cannot see or a terminal obeys.
fn hides(text: &str) -> bool {
    text.chars().any(|one| {
        one.is_control() && !matches!(one, '\n' | '\t')
            || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
    })
}

#[track_caller]
fn inert(workspace: &Workspace, args: &[&str]) -> String {
    let output = workspace.dalsegno(args);
    assert!(!hides(&output), "{args:?}: {output:?}");
    output
}

#[test]
fn no_file_of_a_workspace_steers_a_terminal() {
    let files: [(&str, String); 6] = [
        ("agents/keys.toml", format!("name = \"keys\"\n{HOSTILE_KEY}\n")),
        ("agents/syntax.toml", format!("name = \"syntax\"\n# {HOSTILE}\nwrong {HOSTILE}\n")),
        ("tools/keys.json", "{\"name\": \"keys\", \"\\u001b[2J\\u202e\": 1}".to_owned()),
        ("tools/syntax.json", format!("{{\"name\": {HOSTILE}")),
        ("tenants/keys.toml", format!("{HOSTILE_KEY}\n")),
        ("dalsegno.toml", format!("{HOSTILE_KEY}\n[servers.\"\\u001b[2J\"]\ncommand = [\"\\u001b[2J\"]\n")),
    ];
    let verbs: [&[&str]; 6] = [
        &["check"],
        &["run", "speaks", "hi"],
        &["tools", "list"],
        &["servers"],
        &["worker", "--until-idle"],
        &["check", "--color", "always"],
    ];
    for (file, text) in files {
        let workspace = workspace();
        workspace.write(file, &text);
        for verb in &verbs[..5] {
            inert(&workspace, verb);
        }
        let checked = inert(&workspace, &["check"]);
        assert!(checked.starts_with("exit code: 2\n") && checked.contains(file), "{checked}");
        assert!(checked.contains("\\u{1b}"), "what is hostile is shown, not left out: {checked}");
        // The command's own colours are the only sequences.
        let coloured = workspace.dalsegno(verbs[5]);
        assert!(coloured.contains("\u{1b}["), "{coloured:?}");
        assert!(
            !coloured.contains("\u{1b}[2J")
                && !coloured.contains("\u{1b}]")
                && !coloured.contains('\u{202e}')
        );
        let document = workspace.json(&["check"]).to_string();
        assert!(document.contains(file), "{document}");
        inert(&workspace, &["check", "--json"]);
    }
}

#[test]
#[cfg(unix)]
fn no_name_of_a_file_steers_a_terminal() {
    use std::os::unix::ffi::OsStrExt;

    let workspace = workspace();
    let name = OsStr::from_bytes(b"agents/a\x1b]0;OWNED\x07\xe2\x80\xae.toml");
    std::fs::write(workspace.path("").join(name), "name = \"a").unwrap();
    for verb in [&["check"][..], &["run", "speaks", "hi"], &["tools", "list"], &["check", "--json"]] {
        inert(&workspace, verb);
    }
}

#[test]
fn nothing_that_was_said_steers_a_terminal() {
    let workspace = workspace();
    for verb in [
        &["run", "speaks", HOSTILE][..],
        &["run", "speaks", HOSTILE, "--json"],
        &["run", "speaks", HOSTILE, "--format", "jsonl", "--session", HOSTILE],
        &["run", "speaks", HOSTILE, "-v"],
        &["show", "last"],
        &["show", "last", "--state"],
        &["show", "last", "--json"],
        &["runs"],
        &["runs", "--json"],
        &["resume", "last", "--answer", HOSTILE, "--by", HOSTILE],
        &["show", "last"],
        &["memory", "search", "OWNED"],
        &["memory", "export"],
        &["memory", "show", HOSTILE],
        &["memory", "show", "nothing\u{1b}[2J"],
        &["replay", "last"],
        &["runs", "--tenant", HOSTILE],
        &["show", HOSTILE],
        &["run", HOSTILE],
        &["show", "last", HOSTILE],
        &["run", "speaks", "hi", "--data", HOSTILE],
        &["cancel", "last", "--reason", HOSTILE],
        &["--workspace", HOSTILE, "check"],
    ] {
        inert(&workspace, verb);
    }
    // The answer has all of it, where a person sees it.
    let shown = workspace.succeed(&["show", "last"]);
    assert!(shown.contains("a\\u{1b}]0;OWNED\\u{7}\\u{1b}[2J\\u{202e}b\\u{200b}\\u{e0068}"), "{shown}");
    let log = workspace.command(&["run", "speaks", HOSTILE]).env("DALSEGNO_LOG", "trace").output().unwrap();
    assert!(!hides(&workspace.shown(&log)), "{}", workspace.shown(&log));
}

#[test]
fn running_text_keeps_what_writing_needs() {
    let workspace = workspace();
    workspace.write(
        "agents/speaks.toml",
        "name = \"speaks\"\nversion = \"1.0.0\"\ndescription = \"x\"\n[[steps]]\nrespond = \"{{request.text}}\"\n",
    );
    let text = "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} می\u{200c}خواهم „Größe“: 5\u{a0}€ 日本\u{3000}語";
    assert_eq!(workspace.succeed(&["run", "speaks", text]), format!("{text}\n"));
}

#[test]
fn a_line_of_any_length_is_shown_around_the_place() {
    let workspace = workspace();
    let long = "y".repeat(70_000);
    workspace.write(
        "agents/long.toml",
        &format!("name = \"long\"\n[[steps]]\nrespond = \"{long}{{{{ }}}}{long}\"\n"),
    );
    let spaces = " ".repeat(70_000);
    let tool =
        format!("{{{spaces}\"name\":\"t\",\"description\":\"d\",\"actions\":[{{\"type\":\"nope\"}}]}}");
    workspace.write("tools/t.json", &tool);
    workspace.write("agents/key.toml", &format!("name = \"key\"\n{long} = 1\n"));
    for verb in [&["check"][..], &["run", "long", "hi"]] {
        let output = workspace.dalsegno(verb);
        assert!(output.starts_with("exit code: 2\n"), "{verb:?}: {}", &output[..200]);
        let longest = output.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < 400, "{verb:?}: a line has {longest} characters");
        assert!(output.len() < 20_000, "{verb:?}: {} bytes", output.len());
    }
    let output = workspace.dalsegno(&["check"]);
    assert!(output.contains("[agents/long.toml:3:70015]") && output.contains("yyy{{ }}yyy"), "{output}");
    assert!(output.contains("[tools/t.json:1:70"), "{output}");
}
