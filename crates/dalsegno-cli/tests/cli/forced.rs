//! `dalsegno gate --teacher-forced`: what models decide when they read the changed requests.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::double::{Double, Piece, Received, words};
use crate::support::Workspace;

/// An agent that sorts letters.
const SORTER: &str = r#"name = "sorter"
version = "1.0.0"
instructions = "Sort letters. Refunds are urgent."
prompt = "{{request.text}}"

[model]
use = "default"

[output]
schema = "kind.json"
"#;

/// What all that is asked reads.
fn read_by(received: &Received) -> String {
    received.body["messages"].to_string()
}

fn sorted(kind: &str) -> Vec<Piece> {
    words(&json!({ "kind": kind }).to_string())
}

/// A workspace with three runs whose model is this endpoint, and then other instructions.
fn changed(double: &Double) -> Workspace {
    let workspace = Workspace::empty();
    let price = "price = { input = 1000, output = 1000 }\n";
    workspace.write("dalsegno.toml", &format!("{}{price}", double.settings()));
    workspace.write("agents/sorter.toml", SORTER);
    let schema =
        json!({ "type": "object", "properties": { "kind": { "type": "string" } }, "required": ["kind"] });
    workspace.write("kind.json", &schema.to_string());
    for letter in ["one", "two", "three"] {
        workspace.succeed(&["run", "sorter", letter]);
    }
    workspace.write("agents/sorter.toml", &SORTER.replace("are urgent", "can wait"));
    workspace
}

/// The exit code, what was written, and the part of the document that is about models.
fn gate(workspace: &Workspace, args: &[&str]) -> (Option<i32>, String, Value) {
    let output =
        workspace.command(&[&["gate", "--teacher-forced", "--json"], args].concat()).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), workspace.shown(&output), document["models"].clone())
}

/// A document that is written by API is what runs use, and no file of the repository: it neither hides a change of a file nor is
/// it what models are asked about.
#[test]
fn what_is_asked_about_is_the_file_though_a_document_stands_in_for_it() {
    let double = Double::deciding(|_, received| match read_by(received).contains("can wait") {
        true => sorted("later"),
        false => sorted("urgent"),
    });
    let workspace = changed(&double);
    // A document names no file, so that it has no schema.
    let (document, _) = SORTER.split_once("\n[output]").unwrap();
    crate::catalogue::cover(&workspace, "sorter", document);
    let (code, shown, found) = gate(&workspace, &["--asks", "50"]);
    assert_eq!((code, &found["conclusion"]), (Some(3), &json!("differs")), "{shown}");
}

#[test]
fn a_changed_prompt_that_changes_no_decision_passes() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = changed(&double);
    // Without the flag no model is asked, and another prompt is a difference.
    let output = workspace.command(&["gate"]).output().unwrap();
    assert_eq!((output.status.code(), double.received().len()), (Some(3), 3));
    let (code, shown, models) = gate(&workspace, &[]);
    assert_eq!((code, &models["conclusion"]), (Some(0), &json!("same")), "{shown}");
    assert!(shown.contains("models decide as before · "), "{shown}");
    assert_eq!(models["requests"], 3);
    // It stops as soon as it is known, which takes more than three pairs and fewer than it may ask.
    let pairs = models["pairs"].as_u64().unwrap();
    assert!((20..200).contains(&pairs), "{pairs}");
    assert_eq!(models["input_tokens"], 24 * pairs);
    assert_eq!(models["cost_nano_usd"], 2 * 17 * 1_000_000 * pairs);
    let received = double.received();
    let reads = |text: &str| received[3..].iter().filter(|one| read_by(one).contains(text)).count() as u64;
    // Each pair has one of both; some were under way when it was known.
    assert!(reads("are urgent") >= pairs && reads("can wait") >= pairs);
    // Nothing was recorded.
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 3);
}

#[test]
fn a_changed_prompt_that_changes_decisions_is_found_with_examples() {
    let double = Double::deciding(|_, received| {
        sorted(if read_by(received).contains("can wait") { "later" } else { "urgent" })
    });
    let workspace = changed(&double);
    let (code, shown, models) = gate(&workspace, &[]);
    assert_eq!((code, &models["conclusion"]), (Some(3), &json!("differs")), "{shown}");
    let (tools, arguments) = (&models["tools"], &models["arguments"]);
    assert_eq!((&tools["conclusion"], &arguments["conclusion"]), (&json!("inconclusive"), &json!("differs")));
    assert_eq!((&arguments["before"]["share"], &arguments["now"]["share"]), (&json!(0.0), &json!(1.0)));
    assert!(arguments["difference"]["low"].as_f64().unwrap() > 0.0, "{shown}");
    let examples = models["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 3, "each request once: {examples:?}");
    assert_eq!(examples[0]["recorded"], "answers {\"kind\":\"urgent\"}");
    assert_eq!(examples[0]["now"], "answers {\"kind\":\"later\"}");
    for words in [
        "- answers {\"kind\":\"urgent\"}",
        "+ answers {\"kind\":\"later\"}",
        "0 % before, 100 % now",
        "models decide otherwise",
    ] {
        assert!(shown.contains(words), "`{words}` is missing: {shown}");
    }
}

#[test]
fn a_model_that_is_noisy_as_before_is_not_called_changed() {
    // Every third answer to each of both is another one: far from the recorded ones, and no farther than before.
    let asked = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let double = Double::deciding(move |number, received| {
        let way = usize::from(read_by(received).contains("can wait"));
        let is_other = number > 2 && asked[way].fetch_add(1, Ordering::Relaxed) % 3 == 2;
        sorted(if is_other { "later" } else { "urgent" })
    });
    let workspace = changed(&double);
    let (code, shown, models) = gate(&workspace, &["--asks", "30"]);
    assert_eq!((code, &models["conclusion"]), (Some(5), &json!("inconclusive")), "{shown}");
    assert_eq!(models["pairs"], 30);
    assert!(
        shown.contains("inconclusive: it may be noise") && shown.contains("so many asks show"),
        "{shown}"
    );
}

#[test]
fn a_budget_ends_the_asking() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = changed(&double);
    // A pair costs 0.034 US dollars; eight are under way at once.
    let (code, shown, models) = gate(&workspace, &["--max-cost-usd", "0.1"]);
    assert_eq!((code, &models["pairs"]), (Some(5), &json!(3)), "{shown}");
    assert!(double.received().len() <= 3 + 2 * 11, "{}", double.received().len());
    // A limit holds only where the cost is known.
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let free = settings.lines().filter(|line| !line.starts_with("price")).collect::<Vec<_>>().join("\n");
    let unpriced = Workspace::empty();
    unpriced.write("dalsegno.toml", &free);
    unpriced.write("agents/sorter.toml", SORTER);
    std::fs::copy(workspace.path("kind.json"), unpriced.path("kind.json")).unwrap();
    unpriced.succeed(&["run", "sorter", "one"]);
    unpriced.write("agents/sorter.toml", &SORTER.replace("are urgent", "can wait"));
    let asked = double.received().len();
    let (code, shown, _) = gate(&unpriced, &["--max-cost-usd", "0.1"]);
    assert_eq!((code, double.received().len()), (Some(5), asked), "{shown}");
    assert!(shown.contains("add `price` to `[models.default]`"), "{shown}");
    for amount in ["-1", "much", "nan"] {
        let arguments = ["gate", "--teacher-forced", "--max-cost-usd", amount];
        let output = workspace.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", workspace.shown(&output));
    }
}

#[test]
fn a_model_that_is_gone_is_asked_no_further() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = changed(&double);
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write("dalsegno.toml", &settings.replace(&double.url(), "http://127.0.0.1:1/v1"));
    let output = workspace.command(&["gate", "--teacher-forced", "--asks", "100000"]).output().unwrap();
    let shown = workspace.shown(&output);
    assert_eq!(output.status.code(), Some(5), "{shown}");
    // Some find that the model is gone; those that come later may find that it is not asked for a while.
    let numbers = shown.lines().filter_map(|line| line.strip_prefix("warning: "));
    let unanswered = numbers.filter(|line| line.contains(" got no reply: "));
    let unanswered = unanswered.map(|line| line.split(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(unanswered.sum::<u32>(), 16, "{shown}");
    assert!(shown.contains("inconclusive: no model replied"), "{shown}");
    assert_eq!(double.received().len(), 3);
}

#[test]
fn a_run_that_takes_another_course_fails_though_its_model_decides_as_before() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = changed(&double);
    let changed = SORTER.replace("are urgent", "can wait");
    workspace
        .write("agents/sorter.toml", &format!("{changed}\n[memory]\nrecall = {{ query = \"letters\" }}\n"));
    let (code, shown, _) = gate(&workspace, &["--asks", "1"]);
    assert_eq!(code, Some(3), "{shown}");
    assert!(shown.contains("inconclusive: no request to a model has changed"), "{shown}");
}

#[test]
#[cfg(unix)]
fn a_key_that_a_program_prints_is_sent_once_the_program_is_trusted() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = changed(&double);
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace
        .write("dalsegno.toml", &format!("{settings}api_key = {{ command = [\"echo\", \"a-key-4711\"] }}\n"));
    let refused = workspace.dalsegno(&["gate", "--teacher-forced", "--asks", "1"]);
    assert!(refused.starts_with("exit code: 2\n") && refused.contains("echo"), "{refused}");
    assert_eq!(double.received().len(), 3);
    let (code, shown, models) = gate(&workspace, &["--asks", "1", "--trust"]);
    assert_eq!((code, &models["pairs"]), (Some(5), &json!(1)), "{shown}");
    let keys: Vec<Option<String>> =
        double.received()[3..].iter().map(|one| one.authorization.clone()).collect();
    assert_eq!(keys, [Some("Bearer a-key-4711".to_owned()), Some("Bearer a-key-4711".to_owned())]);
    assert!(!shown.contains("a-key-4711"), "{shown}");
}

#[test]
fn a_run_that_also_asks_a_tool_for_something_else_differs_all_the_same() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", &double.settings());
    let plan = "name = \"plan\"\nversion = \"1.0.0\"\n\
                [[steps]]\nid = \"kind\"\nmodel = { use = \"default\", prompt = \"Sort {{request.text}}.\" }\n\
                [[steps]]\nmemory_search = { query = \"letters like {{request.text}}\" }\n";
    workspace.write("agents/plan.toml", plan);
    workspace.succeed(&["run", "plan", "one"]);
    // The prompt alone: models can say whether it matters.
    workspace.write("agents/plan.toml", &plan.replace("Sort {{", "Please sort {{"));
    let (code, shown, models) = gate(&workspace, &[]);
    assert_eq!(
        (code, &models["conclusion"], &models["unsettled"]),
        (Some(0), &json!("same"), &json!(0)),
        "{shown}"
    );
    // The search as well: no model can say whether that matters.
    workspace.write(
        "agents/plan.toml",
        &plan.replace("Sort {{", "Please sort {{").replace("letters like", "mails like"),
    );
    let (code, shown, models) = gate(&workspace, &[]);
    assert_eq!(
        (code, &models["conclusion"], &models["unsettled"]),
        (Some(3), &json!("same"), &json!(1)),
        "{shown}"
    );
    // A search alone asks no model.
    let before = double.received().len();
    workspace.write("agents/plan.toml", &plan.replace("letters like", "mails like"));
    let (code, shown, _) = gate(&workspace, &[]);
    assert_eq!((code, double.received().len()), (Some(3), before), "{shown}");
}
