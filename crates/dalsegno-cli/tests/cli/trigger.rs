//! `dalsegno trigger test`: what a delivery would start, and that nothing starts.

use serde_json::json;

use crate::support::Workspace;

const SETTINGS: &str = r#"
[triggers.issues]
agent = "triage"
tenant = "acme"
signature = "github"
secret = { env = "NOT_SET_HERE" }
headers = ["x-github-event"]
when = "headers['x-github-event'] == 'issues' && body.action == 'opened'"
text = "{{body.issue.title}}"
data = { number = "{{body.issue.number}}", from = "{{query.from}}" }
session = "issue-{{body.issue.number}}"
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", SETTINGS);
    workspace.write("tenants/acme.toml", "name = \"acme\"\n");
    workspace.write("agents/triage.toml", "name = \"triage\"\n[[steps]]\nrespond = \"{{request.text}}\"\n");
    workspace
}

const OPENED: &str = r#"{"action": "opened", "issue": {"number": 7, "title": "It \u001b[31mleaks"}}"#;

#[test]
fn what_a_delivery_would_start_is_shown_and_nothing_is_started() {
    let workspace = workspace();
    workspace.write("delivery.json", OPENED);
    let event = ["--header", "X-GitHub-Event: issues", "--query", "from=desk"];
    let shown = workspace.json(&[&["trigger", "test", "issues", "@delivery.json"], &event[..]].concat());
    assert_eq!(
        shown,
        json!({
            "trigger": "issues", "starts": true, "agent": "triage", "tenant": "acme", "session": "issue-7",
            "text": "It \u{1b}[31mleaks", "data": { "number": 7, "from": "desk" },
        })
    );
    // A person sees the same, and no character of it steers the terminal.
    let text = workspace.dalsegno(&[&["trigger", "test", "issues", OPENED], &event[..]].concat());
    assert!(
        text.contains("triage") && text.contains("issue-7") && text.contains("nothing was started"),
        "{text}"
    );
    assert!(text.contains("\\u{1b}[31mleaks") && !text.contains('\u{1b}'), "{text}");
    let closed = OPENED.replace("opened", "closed");
    let shown = workspace.json(&[&["trigger", "test", "issues", &closed], &event[..]].concat());
    assert_eq!(
        (&shown["starts"], &shown["text"], &shown["data"]),
        (&false.into(), &json!(null), &json!(null))
    );
    assert!(!workspace.path(".dalsegno").exists(), "no journal was made");
}

#[test]
fn a_header_that_a_trigger_does_not_list_is_not_read() {
    let workspace = workspace();
    let shown = workspace.json(&[
        "trigger",
        "test",
        "issues",
        OPENED,
        "--header",
        "x-other: issues",
        "--header",
        "X-GitHub-Event:push",
    ]);
    assert_eq!(shown["starts"], false, "{shown}");
}

#[test]
fn what_is_wrong_with_a_delivery_is_said() {
    let workspace = workspace();
    let event = ["--header", "x-github-event: issues"];
    for (args, code, words) in [
        (&["other", "{}"][..], "unknown_trigger", "dalsegno.toml has `issues`"),
        (
            &["issues", "{\"action\": \"opened\", \"issue\": {\"title\": \"x\", \"number\": \"a\\nb\"}}"],
            "bad_delivery",
            "the session of this delivery is no name",
        ),
        (&["issues", "{"], "bad_json", ""),
        (&["issues", "{}", "--header", "X-GitHub-Event: push"], "bad_argument", "more than once"),
        (&["issues", "{}", "--header", "nothing"], "bad_argument", ""),
    ] {
        let all = [&["trigger", "test"], args, &event[..], &["--json"]].concat();
        let output = workspace.command(&all).output().unwrap();
        let shown = workspace.shown(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {shown}");
        assert!(shown.contains(words), "{args:?}: {shown}");
        assert!(
            code == "bad_json" || shown.contains(code) || shown.contains("expected a name"),
            "{args:?}: {shown}"
        );
    }
}
