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
