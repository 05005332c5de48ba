//! `dalsegno init`: each template is a workspace that runs at once.

use std::fs;

use crate::support::{Workspace, photograph};

#[test]
fn a_folder_that_is_a_workspace_is_refused() {
    let workspace = Workspace::plain();
    let before = fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    photograph!(workspace.dalsegno(&["init", "."]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: `.` is already a workspace: it has a `dalsegno.toml`
          help: name a new folder, `dalsegno init DIR`, or check this one, `dalsegno check`
        ");
    assert_eq!(fs::read_to_string(workspace.path("dalsegno.toml")).unwrap(), before);
    assert!(!workspace.path(".gitignore").exists());
}

#[test]
fn nothing_is_written_when_a_file_is_in_the_way() {
    let workspace = Workspace::empty();
    workspace.write("agents/chat.toml", "mine");
    photograph!(workspace.dalsegno(&["init", "--template", "chat"]), @r"
        exit code: 2
        --- stdout
        --- stderr
        error: a file exists already: `agents/chat.toml`
          help: nothing was written: name a new folder, or move these files away
        ");
    assert_eq!(fs::read_to_string(workspace.path("agents/chat.toml")).unwrap(), "mine");
    assert!(!workspace.path("dalsegno.toml").exists());
}

#[test]
fn nothing_is_left_of_a_workspace_that_cannot_be_written_whole() {
    let workspace = Workspace::empty();
    // What is to become a folder is a file.
    workspace.write("agents", "mine");
    let output = workspace.command(&["init", "--template", "chat"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", workspace.shown(&output));
    let left: Vec<_> =
        fs::read_dir(workspace.path("")).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["agents"]);
    fs::remove_file(workspace.path("agents")).unwrap();
    workspace.succeed(&["init", "--template", "chat"]);
}

#[test]
fn a_gitignore_stays_as_it_is() {
    let workspace = Workspace::empty();
    workspace.write(".gitignore", "target/\n");
    photograph!(workspace.dalsegno(&["init"]), @r#"
        exit code: 0
        --- stdout
        --- stderr
        made dalsegno.toml
        made agents/notes.toml
        made tests/notes.toml
        kept .gitignore as it is: let it name `.dalsegno/`

        next:
          dalsegno check
          dalsegno test
          dalsegno run notes "the disk of db-1 is full again"
          dalsegno run notes "what about the disk?"
          dalsegno show last
        "#);
    assert_eq!(fs::read_to_string(workspace.path(".gitignore")).unwrap(), "target/\n");
}

#[test]
fn what_was_made_is_told_to_programs() {
    let workspace = Workspace::empty();
    photograph!(workspace.dalsegno(&["init", "desk", "--json"]), @r#"
        exit code: 0
        --- stdout
        {
          "workspace": "desk",
          "template": "plan",
          "files": [
            "dalsegno.toml",
            "agents/notes.toml",
            "tests/notes.toml",
            ".gitignore"
          ],
          "next": [
            "cd desk",
            "dalsegno check",
            "dalsegno test",
            "dalsegno run notes \"the disk of db-1 is full again\"",
            "dalsegno run notes \"what about the disk?\"",
            "dalsegno show last"
          ]
        }
        --- stderr
        "#);
    assert_eq!(
        fs::read_to_string(workspace.path("desk/.gitignore")).unwrap().lines().last(),
        Some(".dalsegno/")
    );
}

#[test]
fn the_plan_template_runs_at_once() {
    let workspace = Workspace::empty();
    photograph!(workspace.dalsegno(&["init"]), @r#"
        exit code: 0
        --- stdout
        --- stderr
        made dalsegno.toml
        made agents/notes.toml
        made tests/notes.toml
        made .gitignore

        next:
          dalsegno check
          dalsegno test
          dalsegno run notes "the disk of db-1 is full again"
          dalsegno run notes "what about the disk?"
          dalsegno show last
        "#);
    photograph!(workspace.dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        1 agent: no problems
        ");
    photograph!(workspace.dalsegno(&["run", "notes", "the disk of db-1 is full again"]), @r"
        exit code: 0
        --- stdout
        Noted: the disk of db-1 is full again

        Nothing about this was known before.
        --- stderr
        completed · 2 steps · [TOOK] · run [SHORT]
        ");
    photograph!(workspace.dalsegno(&["run", "notes", "what about the disk?"]), @r"
        exit code: 0
        --- stdout
        Known before: the disk of db-1 is full again
        --- stderr
        completed · 1 step · [TOOK] · run [SHORT]
        ");
}

#[test]
fn the_chat_template_runs_at_once() {
    let workspace = Workspace::empty();
    workspace.dalsegno(&["init", "--template", "chat"]);
    photograph!(workspace.dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        1 agent: no problems
        ");
    photograph!(workspace.dalsegno(&["run", "chat", "hello"]), @r"
        exit code: 0
        --- stdout
        You said: hello
        I had not heard of this before.
        These words are written in scripts/chat.toml. For a real model, see dalsegno.toml.
        --- stderr
        completed · 5 steps · 3 model calls · 2 tool calls · 280 tokens · [TOOK] · run [SHORT]
        ");
}

#[test]
fn the_support_template_runs_at_once() {
    let workspace = Workspace::empty();
    workspace.dalsegno(&["init", "--template", "support"]);
    photograph!(workspace.dalsegno(&["check"]), @r"
        exit code: 0
        --- stdout
        --- stderr
        2 agents: no problems
        ");
    photograph!(workspace.dalsegno(&["run", "desk", "I was charged twice for order 1042"]), @r#"
    exit code: 4
    --- stdout
    --- stderr
    suspended · 5 steps · 2 model calls · 3 tool calls · 214 tokens · [TOOK] · run [SHORT]

    `memory create` waits for approval:
      entity: CASE-1042 (case)
      content: I was charged twice for order 1042 Second charge refunded.
    resume with one of
      dalsegno resume [SHORT] --approve --shown [SHOWN]
      dalsegno resume [SHORT] --deny --reason "…"
    "#);
    let seen = workspace.seen();
    photograph!(workspace.dalsegno(&["resume", "last", "--approve", "--shown", &seen]), @r#"
        exit code: 0
        --- stdout
        {"decision": "refund", "message": "We are sorry. The second charge is on its way back to you."}
        --- stderr
        completed · 6 steps · 3 model calls · 3 tool calls · 512 tokens · [TOOK] · run [SHORT]
        "#);
}

/// What a workspace begins with is tested, and a change that matters is noticed.
#[test]
fn the_cases_of_every_template_hold_and_can_fail() {
    for (template, cases, agent, from, to) in [
        ("plan", 3, "agents/notes.toml", "'Known before: '", "'Once: '"),
        ("chat", 2, "agents/chat.toml", "allow = [\"memory.search\", ", "allow = ["),
        ("support", 2, "agents/desk.toml", "approve = [\"memory.create\"]", ""),
    ] {
        let workspace = Workspace::empty();
        workspace.succeed(&["init", "--template", template]);
        let told = workspace.json(&["test"]);
        assert_eq!((&told["passed"], &told["failed"]), (&cases.into(), &0.into()), "{template}: {told}");
        let text = fs::read_to_string(workspace.path(agent)).unwrap();
        assert!(text.contains(from), "{template}");
        workspace.write(agent, &text.replace(from, to));
        let output = workspace.command(&["test"]).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{template}: {}", workspace.shown(&output));
    }
}
