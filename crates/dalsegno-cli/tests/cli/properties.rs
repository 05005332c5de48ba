//! `[[properties]]` of `dalsegno test`: what must hold of every run.

use serde_json::Value;

use crate::support::Workspace;

/// A declarative tool that pays money back.
const REFUNDS: &str = r#"{
  "name": "refunds",
  "description": "Pays money back.",
  "actions": [
    {
      "name": "create",
      "description": "Pays a part of an order back.",
      "parameters": [
        { "name": "order", "type": "string", "required": true },
        { "name": "amount", "type": "integer", "required": true }
      ],
      "actions": [
        { "type": "api_call", "method": "POST", "url": "https://api.shop.example/refunds",
          "body": { "order": "{{params.order}}", "amount": "{{params.amount}}" } }
      ]
    }
  ]
}
"#;

const PROPERTY: &str = r#"agent = "desk"

[[properties]]
name = "no refund above 100 without a yes"
input = "Please pay money back for order 7"
never = [{ tool = "refunds.create", when = "args.amount > 100 && !approved" }]
"#;

/// An agent that pays money back, with this list of calls to approve, and a file of properties.
fn desk(approve: &str, properties: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    workspace.write("replies.toml", "[[replies]]\ntext = \"Hello.\"\n");
    workspace.write("tools/refunds.json", REFUNDS);
    workspace.write(
        "agents/desk.toml",
        &format!(
            "name = \"desk\"\nprompt = \"{{{{request.text}}}}\"\n\n[model]\nuse = \"default\"\n\n\
             [tools]\nallow = [\"refunds.create\"]\napprove = [{approve}]\n"
        ),
    );
    workspace.write("tests/desk.toml", properties);
    workspace
}

#[track_caller]
fn test(workspace: &Workspace, args: &[&str], code: i32) -> Value {
    let output = workspace.command(&[&["test", "--json"], args].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", workspace.shown(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const RULE: &str = r#"{ tool = "refunds.create", when = "args.amount > 100" }"#;

#[test]
fn a_property_that_holds_passes_with_every_seed() {
    let workspace = desk(RULE, PROPERTY);
    workspace.succeed(&["check"]);
    for seed in ["0", "1", "random"] {
        let told = test(&workspace, &["--seed", seed, "--runs", "300"], 0);
        assert_eq!(told["passed"], 1, "{told}");
    }
}

/// The counterexample is as small as it can be, the same each time, and as a case it fails in the same way.
#[test]
fn a_property_that_is_false_is_found_made_simple_and_kept_as_a_case() {
    // A person is asked, but only above 500.
    let workspace = desk(&RULE.replace("100", "500"), PROPERTY);
    let told = test(&workspace, &[], 3);
    assert_eq!(told["cases"][0]["failures"], test(&workspace, &[], 3)["cases"][0]["failures"]);
    let failure = &told["cases"][0]["failures"][0];
    assert_eq!((&failure["what"], &failure["line"]), (&"never".into(), &6.into()), "{told}");
    let message = failure["message"].as_str().unwrap();
    assert!(message.starts_with(r#"`refunds.create` was called with {"amount":101,"order":""#), "{message}");
    assert!(message.contains("no person had agreed") && message.contains("with the seed 0"), "{message}");
    assert_eq!(message.matches("got  calls refunds.create").count(), 1, "one call is enough: {message}");

    let help = failure["help"].as_str().unwrap();
    let (_, case) = help.split_once("write\n").unwrap();
    workspace.write("tests/kept.toml", case);
    let told = test(&workspace, &["a run that broke it"], 3);
    let kept = &told["cases"][0];
    assert_eq!(kept["failures"].as_array().map(Vec::len), Some(1), "{told}\n{case}");
    assert_eq!(kept["failures"][0]["what"], "never", "{told}\n{case}");
    // The agent is corrected: the case and the property hold.
    let corrected = desk(RULE, PROPERTY);
    corrected.write("tests/kept.toml", &case.replace("ends = \"completed\"", "ends = \"suspended\""));
    let told = test(&corrected, &["no refund"], 3);
    assert_eq!((&told["passed"], &told["failed"]), (&1.into(), &1.into()), "{told}");
    let what: Vec<&Value> = told["cases"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|case| case["failures"].as_array().unwrap())
        .collect();
    assert!(what.iter().all(|failure| failure["what"] == "unused"), "it stops at the question: {told}");
}

/// Each kind of bound, in an agent that breaks it and in runs that a seed makes the same.
#[test]
fn each_part_of_a_property_can_be_broken() {
    let holds = |line: &str| PROPERTY.replace(PROPERTY.lines().last().unwrap(), line);
    for (line, what, words) in [
        ("never_calls = [\"refunds.*\"]", "never_calls", "`refunds.create` was asked for"),
        ("always = [\"calls.length < 3\"]", "always", "`calls.length < 3` does not hold"),
        ("always = [\"!calls.length || calls[0].args.amount < 7000\"]", "always", "\"amount\":7000"),
        ("always = [\"counts['refunds.create'] <= 1\"]", "always", "does not hold"),
        ("always = [\"calls == asks\"]", "always", "cannot be evaluated: two arrays cannot be compared"),
        ("ends = [\"completed\"]", "ends", "expected completed\n   found failed"),
        ("max_steps = 3", "max_steps", "expected at most 3\n   found 5"),
    ] {
        let workspace = desk("", &holds(line));
        let told = test(&workspace, &["--runs", "500"], 3);
        let failure = &told["cases"][0]["failures"][0];
        assert_eq!(failure["what"], what, "{told}");
        assert!(failure["message"].as_str().unwrap().contains(words), "{words}: {told}");
    }
}

#[test]
fn another_seed_makes_up_other_runs() {
    let asked = r#"never = [{ tool = "refunds.create", when = "!approved" }]"#;
    let workspace = desk(RULE, &PROPERTY.replace(PROPERTY.lines().last().unwrap(), asked));
    let run = |seed: &str| {
        let told = test(&workspace, &["--seed", seed, "--runs", "1000"], 3);
        let message = told["cases"][0]["failures"][0]["message"].as_str().unwrap().to_owned();
        message
            .lines()
            .find(|line| line.starts_with("in run "))
            .unwrap()
            .split(" with")
            .next()
            .unwrap()
            .to_owned()
    };
    let runs: std::collections::BTreeSet<String> = ["1", "2", "3", "4", "5"].map(run).into();
    assert!(runs.len() > 1, "{runs:?}");
}

#[test]
fn what_a_property_gives_is_not_made_up() {
    let line = PROPERTY.lines().last().unwrap();
    // The service answers with another status in other runs, and the agent is told.
    let given = "results = [{ http = \"POST https://api.shop.example/refunds\", status = 500, text = \"no\" }]\nalways = [\"ends != 'completed' || counts['refunds.create'] == 0\"]";
    let workspace = desk("", &PROPERTY.replace(line, given));
    let told = test(&workspace, &["--runs", "300"], 3);
    let message = told["cases"][0]["failures"][0]["message"].as_str().unwrap();
    assert!(message.contains("got  status 500 \"no\"") && !message.contains("status 200"), "{message}");
}

#[test]
fn a_property_that_says_nothing_or_asks_for_what_there_is_not_is_refused() {
    for (from, to, words) in [
        ("never = ", "# never = ", "a property does not say what must hold"),
        ("args.amount", "args.amuont", "`refunds.create` has no argument `amuont`"),
        ("!approved", "!agreed", "unknown name `agreed`"),
        ("\"refunds.create\"", "\"refunds.delete\"", "the tool `refunds.delete` does not exist"),
        ("input", "ends = [\"finished\"]\ninput", "a run cannot end as `finished`"),
        ("input", "always = [\"call.length == 1\"]\ninput", "unknown name `call`"),
        ("input", "always = [\"calls.length ==\"]\ninput", "the expression of `always`"),
        ("input", "runs = 0\ninput", "`runs`"),
        ("input", "snapshot = true\ninput", "unknown key `snapshot`"),
        ("[[properties]]", "[[property]]", "unknown key `property`"),
        (
            "[[properties]]",
            "[[cases]]\nname = \"No refund above 100, without a yes!\"\ninput = \"x\"\n\n[[properties]]",
            "two cases are called",
        ),
    ] {
        assert!(PROPERTY.contains(from), "{from}");
        let workspace = desk("", &PROPERTY.replacen(from, to, 1));
        let output = workspace.command(&["test"]).output().unwrap();
        let shown = workspace.shown(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {shown}");
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let output = desk("", PROPERTY).command(&["test", "--seed", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
