//! Approval and denial by the arguments of a call, as a person sees them.

use crate::support::{Workspace, photograph};

/// An agent on a script that pays these sums back, one reply each, with a tool that is a document.
fn desk(amounts: &[&str]) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    let calls = amounts.iter().map(|amount| {
        format!(
            "[[replies]]\ncalls = [{{ name = \"refunds.create\", arguments = {{ amount = {amount} }} }}]\n"
        )
    });
    let replies = calls.collect::<String>() + "[[replies]]\ntext = \"{{last}}\"\n";
    workspace.write("replies.toml", &replies);
    workspace.write(
        "tools/refunds.json",
        r#"{ "name": "refunds", "actions": [{
            "name": "create", "description": "Pays a sum back.",
            "parameters": [{ "name": "amount", "type": "number", "required": true }],
            "actions": [{ "type": "respond", "message": "Paid {{params.amount}}." }] }] }"#,
    );
    workspace.write(
        "agents/desk.toml",
        "name = \"desk\"\ndescription = \"Pays back.\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"refunds.*\"]\n\
         approve = [{ tool = \"refunds.create\", when = \"args.amount > 100\" }]\n\
         deny = [{ tool = \"refunds.*\", when = \"args.amount > 1000\" }]\n",
    );
    workspace
}

#[test]
fn a_call_below_the_rules_runs_at_once() {
    let workspace = desk(&["100"]);
    assert!(workspace.succeed(&["run", "desk", "Please."]).contains("Paid 100."));
}

#[test]
fn a_person_sees_the_rule_with_the_arguments() {
    let workspace = desk(&["101"]);
    photograph!(workspace.dalsegno(&["run", "desk", "Please."]), @r#"
    exit code: 4
    --- stdout
    --- stderr
    suspended · 2 steps · 1 model call · 1 tool call · [TOOK] · run [SHORT]

    `refunds.create` waits for approval by the rule `args.amount > 100`; its arguments:
      {
        "amount": 101
      }
    resume with one of
      dalsegno resume [SHORT] --approve --shown [SHOWN]
      dalsegno resume [SHORT] --approve --shown [SHOWN] --edit FILE     with other arguments, as JSON
      dalsegno resume [SHORT] --deny --reason "…"
    "#);
    let waiting = workspace.json(&["show", "last"])["waiting_for"][0].clone();
    assert_eq!(waiting["rule"], "`args.amount > 100`");
    let shown = workspace.succeed(&["show", "last"]);
    assert!(
        shown.contains("why  `refunds.create` waits for a person by the rule `args.amount > 100`"),
        "{shown}"
    );
    // What a person edits obeys the rules as well.
    workspace.write("edited.json", "{\"amount\": 2000}");
    let args = ["resume", "last", "--approve", "--shown", &workspace.seen(), "--edit", "edited.json"];
    let refused = workspace.dalsegno(&args);
    assert!(refused.contains("is denied by the agent's rules: `args.amount > 1000`"), "{refused}");
    workspace.write("edited.json", "{\"amount\": 90}");
    let args = ["resume", "last", "--approve", "--shown", &workspace.seen(), "--edit", "edited.json"];
    assert!(workspace.succeed(&args).contains("Paid 90."));
    assert!(workspace.dalsegno(&["replay", "last"]).starts_with("exit code: 0\n"));
}

#[test]
fn a_denied_call_never_leaves_and_the_model_reads_why() {
    let workspace = desk(&["2000"]);
    let told = workspace.succeed(&["run", "desk", "Please."]);
    assert!(told.contains("not_permitted") && told.contains("args.amount > 1000"), "{told}");
    let shown = workspace.succeed(&["show", "last"]);
    let why = "why  refuse `refunds.create`: the agent's rules deny this call of `refunds.create`: `args.amount > 1000`";
    assert!(shown.contains(why), "{shown}");
    assert!(!shown.contains("ask  tool"), "{shown}");
}

/// The desk, which pays back only what the user wrote without asking.
fn tracing(amounts: &[&str]) -> Workspace {
    let workspace = desk(amounts);
    let agent = std::fs::read_to_string(workspace.path("agents/desk.toml")).unwrap();
    let (when, traced) = ("when = \"args.amount > 100\"", "unless_from = { args.amount = [\"user\"] }");
    assert!(agent.contains(when), "{agent}");
    workspace.write("agents/desk.toml", &agent.replace(when, traced));
    workspace
}

#[test]
fn a_value_that_the_user_wrote_needs_no_person_and_another_one_is_shown() {
    let workspace = tracing(&["101"]);
    assert!(workspace.succeed(&["run", "desk", "Please pay 101 back."]).contains("Paid 101."));
    let waiting = workspace.dalsegno(&["run", "desk", "Please pay 10 back."]);
    let rule = "waits for approval by the rule `args.amount` is not from `user`: 101; its arguments:";
    assert!(waiting.starts_with("exit code: 4\n") && waiting.contains(rule), "{waiting}");
    assert!(
        workspace
            .succeed(&["resume", "last", "--approve", "--shown", &workspace.seen()])
            .contains("Paid 101.")
    );
    assert!(workspace.dalsegno(&["replay", "last"]).starts_with("exit code: 0\n"));
}

#[test]
fn what_the_user_wrote_before_in_the_session_counts() {
    let workspace = tracing(&["101"]);
    let script = std::fs::read_to_string(workspace.path("replies.toml")).unwrap();
    workspace.write("replies.toml", &format!("[[replies]]\ntext = \"How much?\"\n{script}"));
    workspace.succeed(&["run", "desk", "I paid 101 too much.", "--session", "s"]);
    let told = workspace.succeed(&["run", "desk", "Give it back.", "--session", "s"]);
    assert!(told.contains("Paid 101."), "{told}");
    assert!(workspace.dalsegno(&["replay", "last"]).starts_with("exit code: 0\n"));
}

#[test]
fn a_run_that_began_before_the_rule_asks_each_time() {
    let workspace = desk(&["101", "50"]);
    let first = workspace.dalsegno(&["run", "desk", "Pay 101 and 50 back."]);
    assert!(first.starts_with("exit code: 4\n"), "{first}");
    let later = tracing(&["101", "50"]);
    let agent = std::fs::read_to_string(later.path("agents/desk.toml")).unwrap();
    workspace.write("agents/desk.toml", &agent);
    // The run does not know where its arguments come from, so a person has to look.
    let second = workspace.dalsegno(&["resume", "last", "--approve", "--shown", &workspace.seen()]);
    assert!(second.starts_with("exit code: 4\n") && second.contains("50"), "{second}");
    assert!(
        workspace
            .succeed(&["resume", "last", "--approve", "--shown", &workspace.seen()])
            .contains("Paid 50.")
    );
}

#[test]
fn what_another_agent_writes_is_not_from_the_user() {
    let workspace = tracing(&["101"]);
    workspace.write(
        "agents/front.toml",
        "name = \"front\"\ndescription = \"Takes calls.\"\n[tools]\nallow = [\"agents.desk\"]\n\
         [[steps]]\nid = \"desk\"\nagent = \"desk\"\n[[steps]]\nrespond = \"{{steps.desk}}\"\n",
    );
    let waiting = workspace.dalsegno(&["run", "front", "Please pay 101 back."]);
    let shown = format!("{waiting}{}", workspace.succeed(&["runs"]));
    assert!(waiting.starts_with("exit code: 4\n") && shown.contains("desk"), "{shown}");
}
