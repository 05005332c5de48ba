//! `dalsegno gate`: what recorded runs would do under the files as they are now.

use std::process::Command;

use serde_json::Value;

use crate::support::Workspace;

/// An agent that says how large a number is.
const SIZER: &str = r#"name = "sizer"
version = "1.0.0"

[[steps]]
id = "past"
memory_search = { query = "{{request.text}}", limit = 3 }

[[steps]]
when = "Number(request.text) > 10"
respond = "large"

[[steps]]
respond = "done"
"#;

/// A workspace with two runs: one of a small number, one of a large one.
fn recorded() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write(".gitignore", ".dalsegno\n");
    workspace.write("agents/sizer.toml", SIZER);
    for number in ["5", "15"] {
        workspace.succeed(&["run", "sizer", number]);
    }
    workspace
}

/// The same, with its files committed.
fn committed() -> Workspace {
    let workspace = recorded();
    git(&workspace, &["init", "--quiet"]);
    commit(&workspace);
    workspace
}

#[track_caller]
fn git(workspace: &Workspace, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"])
        .args(args);
    let output = git.current_dir(workspace.path("")).output().expect("these tests need Git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn commit(workspace: &Workspace) {
    git(workspace, &["add", "--all"]);
    git(workspace, &["commit", "--quiet", "--message", "changed"]);
}

fn change(workspace: &Workspace, from: &str, to: &str) {
    let text = std::fs::read_to_string(workspace.path("agents/sizer.toml")).unwrap();
    assert!(text.contains(from), "{text}");
    workspace.write("agents/sizer.toml", &text.replace(from, to));
}

#[track_caller]
fn expect(workspace: &Workspace, args: &[&str], code: i32, words: &[&str]) -> String {
    let output = workspace.command(&[&["gate"], args].concat()).output().unwrap();
    let shown = workspace.shown(&output);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for word in words {
        assert!(shown.contains(word), "`{word}` is missing: {shown}");
    }
    shown
}

#[test]
fn a_change_that_alters_nothing_is_none() {
    let workspace = committed();
    expect(&workspace, &[], 0, &["no difference: 2 runs, nothing performed"]);
    change(&workspace, "version = \"1.0.0\"", "# A note.\nversion = \"2.0.0\"");
    let shown = expect(&workspace, &[], 0, &["no difference: 2 runs"]);
    assert!(!shown.contains("alter"), "{shown}");
    expect(
        &workspace,
        &["--base", "HEAD"],
        0,
        &["2 changed lines alter no recorded run: agents/sizer.toml:2"],
    );
}

#[test]
fn the_line_that_alters_runs_is_named_with_its_cause() {
    let workspace = committed();
    change(&workspace, "version = \"1.0.0\"", "# A note.\nversion = \"2.0.0\"");
    change(&workspace, "> 10", "> 20");
    let shown = expect(
        &workspace,
        &[],
        3,
        &[
            "sizer · plan · 1 run, first at step 1",
            "  agents/sizer.toml:10\n    - when = \"Number(request.text) > 10\"\n    + when = \"Number(request.text) > 20\"\n",
            "changed since commit ",
            "2 changed lines alter no recorded run: agents/sizer.toml:2, agents/sizer.toml:3",
            "1 of 2 runs would differ, nothing performed",
            "see how with `dalsegno replay ",
        ],
    );
    assert!(!shown.contains("limit"), "{shown}");
    let document = workspace.json(&["gate"]);
    let group = &document["groups"][0];
    assert_eq!((&document["changed"], &document["compared"]), (&Value::from(1), &Value::from(2)));
    assert_eq!(group["causes"], serde_json::json!(["plan"]));
    assert_eq!(group["lines"][0]["line"], 10);
    assert_eq!(group["runs"][0]["course"], "other_course");
    assert_eq!(document["silent"].as_array().unwrap().len(), 2);
    // The run is the one with the large number, and it was not touched.
    let run = group["runs"][0]["run_id"].as_str().unwrap();
    assert_eq!(workspace.json(&["show", run])["status"], "completed");
    workspace.succeed(&["replay", run]);
}

#[test]
fn runs_are_compared_with_the_version_that_they_began_with() {
    let workspace = committed();
    change(&workspace, "\"large\"", "\"big\"");
    commit(&workspace);
    workspace.succeed(&["run", "sizer", "25"]);
    change(&workspace, "> 10", "> 20");
    commit(&workspace);
    // Two commits later: the first runs differ for both reasons, the last one for none.
    let shown = expect(&workspace, &[], 3, &["1 of 3 runs would differ", "agents/sizer.toml:9"]);
    assert!(!shown.contains("+ respond"), "a line that is not reached alters nothing: {shown}");
    change(&workspace, "> 20", "> 12");
    let shown = expect(&workspace, &[], 3, &["agents/sizer.toml:10", "- respond = \"large\"", "1 of 3 runs"]);
    assert!(!shown.contains("- when"), "{shown}");
}

#[test]
fn with_a_base_only_what_has_changed_since_counts() {
    let workspace = committed();
    change(&workspace, "\"large\"", "\"big\"");
    commit(&workspace);
    expect(&workspace, &["--base", "HEAD"], 0, &["no difference: 2 runs"]);
    change(&workspace, "1.0.0", "2.0.0");
    let words = ["no difference: 2 runs", "1 run would differ in `HEAD`, too"];
    expect(&workspace, &["--base", "HEAD"], 0, &words);
    change(&workspace, "limit = 3", "limit = 4");
    let words = ["sizer · plan · 2 runs, first at step 1", "agents/sizer.toml:6", "changed since `HEAD`"];
    let shown = expect(&workspace, &["--base", "HEAD"], 3, &words);
    assert!(!shown.contains("big"), "{shown}");
    // Other words of the first, and of the other also another course.
    let words = ["(step 1, other words)", "(step 1, another course)", "agents/sizer.toml:10"];
    expect(&workspace, &["--base", "HEAD~1"], 3, &words);
}

#[test]
fn the_base_may_be_a_folder() {
    let (workspace, before) = (recorded(), Workspace::empty());
    before.write("dalsegno.toml", "");
    before.write("agents/sizer.toml", SIZER);
    change(&workspace, "> 10", "> 20");
    let folder = before.path("").display().to_string();
    expect(&workspace, &["--base", &folder], 3, &["agents/sizer.toml:9", "1 of 2 runs would differ"]);
    std::fs::remove_file(before.path("dalsegno.toml")).unwrap();
    expect(&workspace, &["--base", &folder], 2, &["it is a folder without a `dalsegno.toml`"]);
}

#[test]
fn without_git_the_parts_of_the_configuration_are_named() {
    let workspace = recorded();
    change(&workspace, "> 10", "> 20");
    let shown = expect(&workspace, &[], 3, &["sizer · plan · 1 run", "  /mind/plan\n", "1 of 2 runs"]);
    assert!(!shown.contains("changed since"), "{shown}");
    expect(
        &workspace,
        &["--base", "HEAD"],
        2,
        &["the workspace is in no Git repository", "help: name a revision"],
    );
}

#[test]
fn nothing_that_was_compared_is_no_pass() {
    let workspace = recorded();
    expect(&workspace, &["--since", "2035-01-01"], 5, &["inconclusive: there are no recorded runs"]);
    workspace.write("agents/other.toml", &SIZER.replace("sizer", "other"));
    std::fs::remove_file(workspace.path("agents/sizer.toml")).unwrap();
    let words =
        ["warning: 2 runs not compared, such as", "the workspace has no agent `sizer`", "inconclusive"];
    expect(&workspace, &[], 5, &words);
    assert_eq!(workspace.json(&["gate"])["not_compared"][0]["reason"], "no_agent");
}

#[test]
fn a_run_that_cannot_be_read_is_told_and_the_others_are_compared() {
    let workspace = recorded();
    change(&workspace, "> 10", "> 20");
    let runs = workspace.json(&["runs"]);
    let small = runs[1]["run_id"].as_str().unwrap();
    workspace.succeed(&["erase", small, "--yes"]);
    expect(&workspace, &[], 3, &["1 run not compared, such as", "erased", "1 of 1 runs would differ"]);
}

/// Of a journal that is damaged in the middle the other runs are compared, and the damaged one is never counted as the same.
#[test]
fn a_damaged_run_is_told_and_the_others_are_compared() {
    let workspace = recorded();
    change(&workspace, "> 10", "> 20");
    let journal = rusqlite::Connection::open(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    // The records of the first run, that of the small number, come first.
    let damage = "UPDATE record SET body = zeroblob(length(body)) WHERE key = (SELECT key FROM record ORDER BY key LIMIT 1 OFFSET 2)";
    assert_eq!(journal.execute(damage, []).unwrap(), 1);
    drop(journal);
    expect(&workspace, &[], 3, &["1 run not compared, such as", "1 of 1 runs would differ"]);
    assert_eq!(workspace.json(&["gate"])["not_compared"][0]["reason"], "unreadable");
}

#[test]
fn a_workspace_with_errors_is_refused() {
    let workspace = recorded();
    change(&workspace, "> 10", "> ");
    let shown = expect(&workspace, &[], 2, &["agents/sizer.toml"]);
    assert!(!shown.contains("would differ") && !shown.contains("no difference"), "{shown}");
}

#[test]
fn an_agent_that_cannot_be_used_any_more_is_no_pass() {
    let workspace = recorded();
    workspace.write("agents/other.toml", &SIZER.replace("sizer", "other"));
    workspace.succeed(&["run", "other", "1"]);
    change(&workspace, "memory_search = { query = \"{{request.text}}\", limit = 3 }", "tool = \"gone.look\"");
    change(&workspace, "[[steps]]\nid", "[tools]\nallow = [\"gone.look\"]\n\n[[steps]]\nid");
    workspace.write("dalsegno.toml", "[servers.gone]\ncommand = [\"gone\"]\n");
    let words =
        ["warning: 2 runs not compared", "the tools of `gone` are not pinned", "no difference: 1 run"];
    expect(&workspace, &[], 2, &words);
    assert_eq!(workspace.json(&["gate"])["not_compared"][0]["reason"], "unusable");
}

/// Git keeps where a link leads, and not what is there: such a file counts as it is.
#[cfg(unix)]
#[test]
fn a_file_behind_a_link_is_no_change() {
    let workspace = recorded();
    std::fs::rename(workspace.path("agents/sizer.toml"), workspace.path("sizer.toml")).unwrap();
    std::os::unix::fs::symlink("../sizer.toml", workspace.path("agents/sizer.toml")).unwrap();
    git(&workspace, &["init", "--quiet"]);
    commit(&workspace);
    expect(&workspace, &["--base", "HEAD"], 0, &["no difference: 2 runs"]);
    workspace.write("sizer.toml", &SIZER.replace("> 10", "> 20"));
    // The line is not known, and the difference is told all the same.
    expect(&workspace, &[], 3, &["/mind/plan", "1 of 2 runs would differ"]);
}

/// In a partial clone the files of earlier versions may be missing. They are not fetched, and they are not taken to be as they are now.
#[test]
fn files_that_a_clone_lacks_are_not_compared() {
    let origin = committed();
    change(&origin, "> 10", "> 20");
    commit(&origin);
    git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    let workspace = Workspace::empty();
    let url = format!("file://{}", origin.path("").display());
    git(&workspace, &["clone", "--quiet", "--filter=blob:none", &url, "."]);
    workspace.succeed(&["run", "sizer", "15"]);
    change(&workspace, "> 20", "> 10");
    // The system's Git and the one that people call may be two: an older one ends with an error at the first such file, a newer one
    // lists it without a size.
    let mut called = workspace.command(&["gate", "--base", "HEAD~1"]);
    called.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for mut gate in [called, workspace.command(&["gate", "--base", "HEAD~1"])] {
        let output = gate.output().unwrap();
        let shown = workspace.shown(&output);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains("Git cannot show its files"), "{shown}");
    }
    // Without a base the difference is told, with or without its line.
    expect(&workspace, &[], 3, &["1 of 1 runs would differ"]);
    // Nothing was fetched by either.
    let missing = ["rev-list", "--objects", "--all", "--missing=print"];
    let output = Command::new("git").args(missing).current_dir(workspace.path("")).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().lines().any(|line| line.starts_with('?')));
}

/// Answers that differ far behind their beginning are different ends, also for runs that differ in the base already.
#[test]
fn long_answers_are_compared_to_their_end() {
    let workspace = committed();
    let long = "x".repeat(500);
    change(&workspace, "\"done\"", &format!("\"{long} done\""));
    commit(&workspace);
    workspace.succeed(&["run", "sizer", "7"]);
    change(&workspace, &format!("{long} done"), &format!("{long} over"));
    let shown =
        expect(&workspace, &["--since", "1h", "--base", "HEAD"], 3, &["3 of 3 runs", "agents/sizer.toml:13"]);
    assert!(shown.contains("over"), "{shown}");
}

#[test]
fn a_sample_is_enough_for_a_look() {
    let workspace = recorded();
    change(&workspace, "limit = 3", "limit = 4");
    expect(&workspace, &["--sample", "1"], 3, &["1 of 1 runs would differ"]);
    expect(&workspace, &["--agent", "sizer", "--since", "1h"], 3, &["2 of 2 runs would differ"]);
}

/// Git is asked for objects alone: what a repository has set up is not started, and a revision is never an option.
#[test]
fn a_hostile_repository_starts_nothing() {
    let workspace = committed();
    let marker = workspace.path("started");
    workspace.write("trap.sh", &format!("#!/bin/sh\ntouch {}\n", marker.display()));
    if cfg!(unix) {
        let status = Command::new("chmod").arg("+x").arg(workspace.path("trap.sh")).status().unwrap();
        assert!(status.success());
    }
    let trap = workspace.path("trap.sh").display().to_string();
    for key in
        ["core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "diff.external", "alias.cat-file"]
    {
        git(&workspace, &["config", key, &trap]);
    }
    git(&workspace, &["config", "filter.trap.smudge", &trap]);
    git(&workspace, &["config", "filter.trap.clean", &trap]);
    git(&workspace, &["config", "log.showSignature", "true"]);
    workspace.write(".gitattributes", "*.toml filter=trap diff=trap\n");
    change(&workspace, "> 10", "> 20");
    expect(&workspace, &[], 3, &["agents/sizer.toml:9"]);
    expect(&workspace, &["--base", "HEAD"], 3, &["agents/sizer.toml:9"]);
    for revision in ["--output=started", "-n1", "HEAD:agents", "HEAD..HEAD", "", "\u{1b}[31m"] {
        expect(&workspace, &[&format!("--base={revision}")], 2, &["cannot compare with"]);
    }
    assert!(!marker.exists(), "a program of the repository was started");
}
