//! What is made from the arguments: help, completions, manual pages, the book's page of commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{DALSEGNO, Workspace, photograph};

/// Every verb, with the verbs below it: `["tools", "list"]`.
fn verbs() -> Vec<Vec<String>> {
    let mut verbs = Vec::new();
    for verb in below(&[]) {
        let path = vec![verb];
        let inner = below(&path);
        verbs.push(path.clone());
        verbs.extend(inner.into_iter().map(|name| [path.clone(), vec![name]].concat()));
    }
    verbs
}

/// The verbs that the help of a verb lists.
fn below(path: &[String]) -> Vec<String> {
    let help = help(path);
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// What `dalsegno VERB --help` prints.
fn help(path: &[String]) -> String {
    let mut command = Command::new(DALSEGNO);
    let output = command.args(path).arg("--help").env_clear().output().unwrap();
    assert!(output.status.success(), "{path:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_verb_has_examples() {
    let verbs = verbs();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs {
        let help = help(&verb);
        let examples = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{verb:?}: {help}")).1;
        assert!(examples.contains(&format!("dalsegno {}", verb.join(" "))), "{verb:?}: {examples}");
    }
}

#[test]
fn help_is_a_verb_too() {
    let workspace = Workspace::empty();
    assert_eq!(workspace.succeed(&["help", "run"]), workspace.succeed(&["run", "--help"]));
    assert_eq!(
        workspace.succeed(&["help", "tools", "call"]),
        workspace.succeed(&["tools", "call", "--help"])
    );
}

#[test]
fn every_verb_that_tells_something_offers_json() {
    for verb in verbs() {
        let is_document = ["schema", "completions", "man", "chat", "debug"].contains(&verb[0].as_str());
        let is_group = ["call", "tools", "memory", "secret", "key", "webhook", "trigger"]
            .contains(&verb[0].as_str())
            && verb.len() == 1;
        let is_data = verb == ["memory", "export"] || verb == ["secret", "new-key"];
        if !(is_document || is_group || is_data) {
            assert!(help(&verb).contains("--json"), "{verb:?}");
        }
    }
}

#[test]
fn every_shell_gets_a_script_that_asks_the_command() {
    let workspace = Workspace::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = workspace.succeed(&["completions", shell]);
        assert!(script.contains("DALSEGNO_COMPLETE") && script.contains("dalsegno"), "{shell}: {script}");
    }
    let output = workspace.dalsegno(&["completions", "tcsh"]);
    assert!(output.starts_with("exit code: 2\n"), "{output}");
}

/// What the command offers a shell in the place of the last word.
fn completed(workspace: &Workspace, words: &[&str]) -> Vec<String> {
    let mut command = workspace.command(&[]);
    command.env("DALSEGNO_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "false").env("_CLAP_IFS", "\n");
    let output = command.arg("--").arg("dalsegno").args(words).output().unwrap();
    assert!(output.status.success(), "{}", workspace.shown(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_verbs_agents_and_runs() {
    let workspace = Workspace::plain();
    assert!(completed(&workspace, &["me"]).contains(&"memory".to_owned()));
    assert_eq!(completed(&workspace, &["run", ""])[..3], ["broken", "chat", "note"]);
    assert!(completed(&workspace, &["show", "la"]).is_empty());
    assert!(!workspace.path(".dalsegno").exists(), "to look makes no journal");
    workspace.succeed(&["run", "note", "hello"]);
    assert_eq!(completed(&workspace, &["show", "la"]), ["last"]);
    let run = workspace.json(&["runs"])[0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(completed(&workspace, &["show", &run[..3]]), [&run[..12]]);
}

#[test]
fn a_broken_workspace_completes_nothing_and_says_nothing() {
    let workspace = Workspace::plain();
    workspace.write("dalsegno.toml", "[[[");
    assert_eq!(completed(&workspace, &["show", "la"]), [] as [&str; 0]);
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let workspace = Workspace::empty();
    let output = workspace.dalsegno(&["man", "pages"]);
    let verbs = verbs();
    assert!(output.contains(&format!("{} manual pages in `pages`", verbs.len() + 1)), "{output}");
    for verb in verbs {
        let page =
            fs::read_to_string(workspace.path(&format!("pages/dalsegno-{}.1", verb.join("-")))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{verb:?}: {page}");
    }
    assert!(workspace.succeed(&["man"]).contains(".TH dalsegno 1"));
}

#[test]
fn a_place_that_cannot_be_written_is_told() {
    let workspace = Workspace::empty();
    workspace.write("pages", "");
    photograph!(workspace.dalsegno(&["man", "pages"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: cannot write `pages`: File exists (os error 17)
          help: name a new path that this user may write
        ");
}

#[test]
fn the_version_is_told() {
    let version = format!("dalsegno {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Workspace::empty().succeed(&["--version"]), version);
}

/// The book's page of commands. `UPDATE=1 cargo test -p dalsegno-cli the_book` writes it anew.
#[test]
fn the_book_lists_the_commands_as_they_are() {
    let mut page = String::from(
        "# Commands\n\nThis page is made from the command itself: it is what `dalsegno help` prints, verb by verb.\n",
    );
    let top = [vec![]].into_iter().chain(verbs());
    for verb in top {
        let title =
            if verb.is_empty() { "dalsegno".to_owned() } else { format!("dalsegno {}", verb.join(" ")) };
        let level = "#".repeat(2 + verb.len().saturating_sub(1));
        page.push_str(&format!("\n{level} `{title}`\n\n```text\n{}\n```\n", help(&verb).trim_end()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/commands.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, page, "docs/src/commands.md is old: UPDATE=1 cargo test -p dalsegno-cli the_book");
}
