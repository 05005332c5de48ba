//! `dalsegno gate --live`: how runs end that are forked at their first difference.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::double::{Door, Double, Piece, Received, words};
use crate::support::{Workspace, guest};

/// An agent that scores an incident, and records it where it is grave.
const DESK: &str = r#"name = "desk"
version = "1.0.0"
instructions = "Score incidents. Record the grave ones."
prompt = "{{request.text}}"

[model]
use = "default"

[tools]
allow = ["risk.*"]
"#;

/// All that is asked reads this.
fn reads(received: &Received, words: &str) -> bool {
    received.body["messages"].to_string().contains(words)
}

/// How many results of tools the model has read.
fn results(received: &Received) -> usize {
    let messages = received.body["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] == "tool").count()
}

fn score(text: &str) -> Vec<Piece> {
    vec![Piece::Call("risk__score", json!({ "text": text }))]
}

fn record(risk: f64) -> Vec<Piece> {
    let arguments = json!({ "incident": "Checkout is down", "risk": risk, "decision": "escalate" });
    vec![Piece::Call("risk__record", arguments)]
}

/// A workspace with this many runs, whose model is this endpoint, and then other instructions.
fn changed(double: &Double, runs: usize) -> Workspace {
    let workspace = Workspace::empty();
    let settings =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dalsegno.toml"));
    let (_, servers) = settings.as_deref().unwrap().split_once("[servers.risk]").unwrap();
    let servers = servers.split("[memory]").next().unwrap();
    let servers = servers.replace("tool-servers/target/wasm32-wasip2/release/risk.wasm", "risk.wasm");
    let price = "price = { input = 1000, output = 1000 }\n";
    workspace.write("dalsegno.toml", &format!("{}{price}[servers.risk]{servers}", double.settings()));
    std::fs::copy(guest("risk"), workspace.path("risk.wasm")).unwrap();
    workspace.write("agents/desk.toml", DESK);
    workspace.succeed(&["check", "--connect"]);
    for number in 0..runs {
        workspace.succeed(&["run", "desk", &format!("Checkout is down, report {number}")]);
    }
    workspace.write("agents/desk.toml", &DESK.replace("Record the grave ones.", "Record all of them."));
    workspace
}

/// The exit code, what was written, and the part of the document that is about forks.
fn live(workspace: &Workspace, pairs: &str, args: &[&str]) -> (Option<i32>, String, Value) {
    let output = workspace.command(&[&["gate", "--json", "--live", pairs], args].concat()).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), workspace.shown(&output), document["live"].clone())
}

/// The lines in the file that the tool writes.
fn recorded(workspace: &Workspace) -> usize {
    let file = workspace.path(".dalsegno/incidents/escalations.jsonl");
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn runs_that_end_as_before_pass_though_they_read_other_words() {
    let double = Double::deciding(|_, received| match results(received) {
        0 => score("Checkout is down"),
        1 => record(0.9),
        _ => words("It is recorded."),
    });
    let workspace = changed(&double, 2);
    assert_eq!(recorded(&workspace), 2);
    let asked = double.received().len();
    let (code, shown, found) = live(&workspace, "200", &[]);
    assert_eq!((code, &found["conclusion"]), (Some(0), &json!("same")), "{shown}");
    assert!(shown.contains("runs end as before · 2 runs, forked "), "{shown}");
    let pairs = found["pairs"].as_u64().unwrap();
    assert!((20..200).contains(&pairs), "{pairs}");
    // Three replies for each fork; what the tools said is what was recorded, and nothing was performed.
    assert!(double.received().len() as u64 - asked as u64 >= 6 * pairs);
    assert_eq!((&found["reads"], recorded(&workspace)), (&json!(0), 2), "{shown}");
    assert_eq!(found["stopped"], json!({}));
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 2);
}

#[test]
fn runs_that_end_otherwise_are_found_and_nothing_is_changed_in_the_world() {
    // Since the change the model records another risk: no such call was recorded.
    let double = Double::deciding(|_, received| match results(received) {
        0 => score("Checkout is down"),
        1 if reads(received, "Record all of them.") => record(0.1),
        1 => record(0.9),
        _ => words("It is recorded."),
    });
    let workspace = changed(&double, 2);
    let (code, shown, found) = live(&workspace, "200", &[]);
    assert_eq!((code, &found["conclusion"]), (Some(3), &json!("differs")), "{shown}");
    assert_eq!(recorded(&workspace), 2, "{shown}");
    let stopped = found["stopped"].as_object().unwrap();
    assert_eq!(stopped.len(), 1, "{shown}");
    assert!(stopped.keys().all(|why| why.contains("risk.record") && why.contains("may change something")));
    let example = &found["examples"][0];
    assert!(example["recorded"].as_str().unwrap().contains("\"risk\":0.9"), "{example}");
    assert!(example["now"].as_str().unwrap().contains("\"risk\":0.1"), "{example}");
    assert!(example["now"].as_str().unwrap().contains("then stops: "), "{example}");
    assert_eq!(found["arguments"]["before"]["share"], json!(0.0));
    assert!(shown.contains("runs end otherwise · "), "{shown}");
}

#[test]
fn what_only_reads_is_called_where_it_was_not_recorded() {
    let double = Double::deciding(|_, received| match results(received) {
        0 if reads(received, "Record all of them.") => score("Checkout is down for all customers"),
        0 => score("Checkout is down"),
        _ => words("It is scored."),
    });
    let workspace = changed(&double, 1);
    let (code, shown, found) = live(&workspace, "40", &[]);
    // The arguments are others, each time: that is a difference.
    assert_eq!((code, &found["conclusion"]), (Some(3), &json!("differs")), "{shown}");
    assert!(found["reads"].as_u64().unwrap() >= found["pairs"].as_u64().unwrap(), "{shown}");
    assert_eq!((&found["stopped"], &found["failed"]), (&json!({}), &json!({})), "{shown}");
    assert!(shown.contains("reads performed"), "{shown}");
}

#[test]
fn noise_that_is_the_same_before_and_now_does_not_decide() {
    let asked = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let double = Double::deciding(move |number, received| {
        let way = usize::from(reads(received, "Record all of them."));
        match results(received) {
            0 if number > 2 && asked[way].fetch_add(1, Ordering::Relaxed) % 3 == 2 => words("It is nothing."),
            0 => score("Checkout is down"),
            _ => words("It is scored."),
        }
    });
    let workspace = changed(&double, 1);
    let (code, shown, found) = live(&workspace, "30", &[]);
    assert_eq!((code, &found["conclusion"]), (Some(5), &json!("inconclusive")), "{shown}");
    assert_eq!(found["pairs"], 30, "{shown}");
    assert!(shown.contains("`--live` has to be more"), "{shown}");
}

#[test]
fn a_budget_ends_the_forks() {
    let double = Double::deciding(|_, received| match results(received) {
        0 => score("Checkout is down"),
        _ => words("It is scored."),
    });
    let workspace = changed(&double, 1);
    let asked = double.received().len();
    // A reply costs 0.017 US dollars; eight pairs are under way at once, of two forks with two replies each.
    let (code, shown, found) = live(&workspace, "1000", &["--max-cost-usd", "0.1"]);
    assert_eq!(code, Some(5), "{shown}");
    let replies = double.received().len() - asked;
    assert!((6..=6 + 16).contains(&replies), "{replies}: {shown}");
    assert_eq!(found["cost_nano_usd"].as_u64().unwrap() % 17_000_000, 0);
    for arguments in [
        ["gate", "--live", "0"].as_slice(),
        &["gate", "--live", "5", "--teacher-forced"],
        &["gate", "--smallest", "5"],
    ] {
        let output = workspace.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", workspace.shown(&output));
    }
}

#[test]
fn a_run_that_waits_for_a_person_is_forked_up_to_there() {
    let double = Double::deciding(|_, received| match results(received) {
        0 if reads(received, "Record all of them.") => words("There is nothing to record."),
        0 => record(0.9),
        _ => words("It is recorded."),
    });
    let workspace = changed(&double, 0);
    let guarded = DESK.replace("allow =", "approve = [\"risk.record\"]\nallow =");
    workspace.write("agents/desk.toml", &guarded);
    assert!(workspace.dalsegno(&["run", "desk", "Checkout is down"]).starts_with("exit code: 4\n"));
    workspace.write("agents/desk.toml", &guarded.replace("Record the grave ones.", "Record all of them."));
    let (code, shown, found) = live(&workspace, "50", &[]);
    assert_eq!((code, &found["runs"], &found["unfollowed"]), (Some(3), &json!(1), &json!(0)), "{shown}");
    let example = &found["examples"][0];
    assert_eq!(example["recorded"], "waits for a person", "{shown}");
    assert_eq!(example["now"], "completes", "{shown}");
    assert_eq!(recorded(&workspace), 0);
}

/// Each fork asks for a call that was not recorded, with the change and without it. Nothing is compared then, so nothing passes.
#[test]
fn forks_that_stop_on_both_sides_say_nothing() {
    let double = Double::deciding(|number, received| match results(received) {
        0 => score("Checkout is down"),
        1 => record(0.9 + number as f64 / 1e6),
        _ => words("It is recorded."),
    });
    let workspace = changed(&double, 1);
    let (code, shown, found) = live(&workspace, "200", &[]);
    assert_eq!((code, &found["conclusion"]), (Some(5), &json!("inconclusive")), "{shown}");
    assert_eq!((&found["pairs"], &found["untold"]), (&json!(0), &json!(20)), "{shown}");
    assert!(shown.contains("20 pairs not compared"), "{shown}");
    assert_eq!(recorded(&workspace), 1);
}

/// What a run waits for is a time, which passes in a fork as it did.
#[test]
fn a_run_that_waited_is_forked_to_its_end() {
    let double = Double::deciding(|_, _| words("It is down."));
    let workspace = changed(&double, 0);
    let agent = |words: &str| {
        format!(
            "name = \"slow\"\nversion = \"1.0.0\"\n[[steps]]\nid = \"said\"\n\
             model = {{ use = \"default\", prompt = \"{words} {{{{request.text}}}}\" }}\n[[steps]]\nwait = \"20ms\"\n\
             [[steps]]\nrespond = \"{{{{steps.said}}}}\"\n"
        )
    };
    workspace.write("agents/slow.toml", &agent("Say it."));
    workspace.succeed(&["run", "slow", "checkout"]);
    workspace.write("agents/slow.toml", &agent("Say it briefly."));
    let (code, shown, found) = live(&workspace, "200", &[]);
    assert_eq!((code, &found["conclusion"]), (Some(0), &json!("same")), "{shown}");
    assert_eq!((&found["runs"], &found["unfollowed"]), (&json!(1), &json!(0)), "{shown}");
}

/// What a child run may use is what its parent has left. Models do not use the same number of tokens twice, and the answer of the other
/// agent is that to the same question.
#[test]
fn what_another_agent_said_is_known_again_though_other_tokens_were_used() {
    let double = Double::deciding(|number, received| match results(received) {
        _ if reads(received, "You look things up.") => words("It is down since noon."),
        0 => vec![
            Piece::Tokens(20 + number as u64),
            Piece::Call("agents__helper", json!({ "text": "what is down?" })),
        ],
        _ => words("It is told."),
    });
    let workspace = changed(&double, 0);
    let helper = "name = \"helper\"\nversion = \"1.0.0\"\ndescription = \"Looks things up.\"\n\
                  instructions = \"You look things up.\"\n[model]\nuse = \"default\"\n";
    workspace.write("agents/helper.toml", helper);
    let asker = "name = \"asker\"\nversion = \"1.0.0\"\ninstructions = \"Ask the helper.\"\n[model]\nuse = \"default\"\n\
                 [tools]\nallow = [\"agents.helper\"]\n[limits]\nmax_tokens = 50000\n";
    workspace.write("agents/asker.toml", asker);
    workspace.succeed(&["run", "asker", "Is anything down?"]);
    workspace.write("agents/asker.toml", &asker.replace("Ask the helper.", "Ask the helper first."));
    let (code, shown, found) = live(&workspace, "200", &["--agent", "asker"]);
    assert_eq!(found["stopped"], json!({}), "{shown}");
    assert_eq!((code, &found["conclusion"]), (Some(0), &json!("same")), "{shown}");
    assert_eq!((&found["runs"], &found["untold"]), (&json!(1), &json!(0)), "{shown}");
}

/// Where a run cannot be forked, the reason is told.
#[test]
fn a_run_that_cannot_be_forked_has_its_reason() {
    let double = Double::deciding(|_, received| match results(received) {
        0 => score("Checkout is down"),
        _ => words("It is scored."),
    });
    let workspace = changed(&double, 1);
    let other = DESK.replace("name = \"desk\"", "name = \"other\"");
    workspace.write("agents/other.toml", &other);
    // It is over before the model has said all: the door stays closed.
    let (asks, asked) = mpsc::channel();
    let closed = Double::deciding(move |_, _| {
        let _ = asks.send(());
        vec![Piece::Door(Door::default())]
    });
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    workspace.write("dalsegno.toml", &settings.replace(&double.url(), &closed.url()));
    let mut command = workspace.command(&["run", "other", "Checkout is down"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    asked.recv().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let runs = workspace.json(&["runs", "--agent", "other"]);
    let run = runs[0]["run_id"].as_str().unwrap().to_owned();
    workspace.write("dalsegno.toml", &settings);
    workspace.write("agents/other.toml", &other.replace("Record the grave ones.", "Record all of them."));
    let (code, shown, found) = live(&workspace, "20", &[]);
    assert_eq!((code, &found["unfollowed"]), (Some(3), &json!(1)), "{shown}");
    assert_eq!(found["not_forked"], json!({ "it has not come to an end": 1 }), "{shown}");
    assert!(shown.contains("1 run would differ and cannot be forked: it has not come to an end"), "{shown}");
    workspace.succeed(&["cancel", &run]);
    let (code, shown, found) = live(&workspace, "20", &[]);
    assert_eq!((code, &found["runs"], &found["unfollowed"]), (Some(3), &json!(1), &json!(1)), "{shown}");
    assert_eq!(found["not_forked"], json!({ "it was cancelled before it came to an end": 1 }), "{shown}");
}
