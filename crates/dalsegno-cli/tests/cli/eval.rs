//! `dalsegno eval`: a data set through an agent.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::double::{Double, Received, words};
use crate::support::{Workspace, guest};

const EVAL: &str = r#"agent = "sorter"
data = "tests/evals/letters.jsonl"

[checks]
output = { kind = "{{item.kind}}" }
"#;

fn agent(name: &str, instructions: &str) -> String {
    format!(
        "name = \"{name}\"\nversion = \"1.0.0\"\ninstructions = \"{instructions}\"\nprompt = \"{{{{request.text}}}}\"\n\n\
         [model]\nuse = \"default\"\n\n[output]\nschema = \"kind.json\"\n"
    )
}

/// A workspace with an agent that sorts letters, whose model is this endpoint, and so many letters.
fn letters(double: &Double, count: usize) -> Workspace {
    let workspace = Workspace::empty();
    workspace
        .write("dalsegno.toml", &format!("{}price = {{ input = 1000, output = 1000 }}\n", double.settings()));
    workspace.write("agents/sorter.toml", &agent("sorter", "Sort letters."));
    let schema =
        json!({ "type": "object", "properties": { "kind": { "type": "string" } }, "required": ["kind"] });
    workspace.write("kind.json", &schema.to_string());
    let mut data = String::new();
    for number in 0..count {
        let _ = writeln!(
            data,
            "{}",
            json!({ "id": format!("L{number}"), "text": format!("letter {number}."), "kind": "urgent" })
        );
    }
    workspace.write("tests/evals/letters.jsonl", &data);
    workspace.write("tests/evals/letters.toml", EVAL);
    workspace
}

/// The exit code, what was written, and the document.
fn eval(workspace: &Workspace, args: &[&str]) -> (Option<i32>, String, Value) {
    let command = [&["eval", "tests/evals/letters.toml", "--json"], args].concat();
    let output = workspace.command(&command).output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), workspace.shown(&output), document)
}

fn sorted(kind: &str) -> Vec<crate::double::Piece> {
    words(&json!({ "kind": kind }).to_string())
}

fn read_by(received: &Received) -> String {
    received.body["messages"].to_string()
}

#[test]
fn trials_are_performed_once_and_judged_again_and_disturb_nothing() {
    let double = Double::deciding(|_, received| {
        sorted(if read_by(received).contains("letter 3.") { "later" } else { "urgent" })
    });
    let workspace = letters(&double, 6);
    let (code, shown, report) = eval(&workspace, &["--trials", "2"]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(
        (&report["items"], &report["performed"], &report["known"]),
        (&json!(6), &json!(12), &json!(0)),
        "{shown}"
    );
    let way = &report["ways"][0];
    assert_eq!(
        (&way["trials"], &way["passed"], &way["flip_rate"]),
        (&json!(12), &json!(10), &json!(0.0)),
        "{way}"
    );
    assert_eq!(report["failures"].as_array().unwrap().len(), 2);
    let failure = &report["failures"][0];
    assert_eq!(
        (&failure["item"], &failure["line"], &failure["failures"][0][0]),
        (&json!("L3"), &json!(4), &json!("output"))
    );
    // A run costs 0.017 US dollars.
    assert_eq!(report["cost_nano_usd"], 12 * 17_000_000, "{shown}");
    assert_eq!(double.received().len(), 12);
    // The same again performs nothing.
    let (code, shown, report) = eval(&workspace, &["--trials", "2"]);
    assert_eq!((code, &report["performed"], &report["known"]), (Some(0), &json!(0), &json!(12)), "{shown}");
    assert_eq!((&report["cost_now_nano_usd"], double.received().len()), (&json!(0), 12));
    // More trials perform only what is missing; other checks judge the same runs.
    workspace.write("tests/evals/letters.toml", &EVAL.replace("{{item.kind}}", "later"));
    let (_, shown, report) = eval(&workspace, &["--trials", "3"]);
    assert_eq!((&report["performed"], &report["ways"][0]["passed"]), (&json!(6), &json!(3)), "{shown}");
    // Another agent is another run.
    workspace.write("agents/sorter.toml", &agent("sorter", "Sort letters well."));
    let (_, shown, report) = eval(&workspace, &["--max-items", "2"]);
    assert_eq!((&report["performed"], double.received().len()), (&json!(2), 20), "{shown}");
    // The runs of the workspace are not those of evals, which `show` opens all the same.
    assert_eq!(workspace.json(&["runs"]), json!([]));
    let run = failure["run_id"].as_str().unwrap();
    assert!(workspace.succeed(&["show", &run[..12]]).contains("sorter"), "{run}");
    assert!(workspace.dalsegno(&["show", "ffffffffffff"]).contains("no run of this workspace begins with"));
    let said = workspace.dalsegno(&["eval", "tests/evals/letters.toml"]);
    assert!(
        said.contains("see a trial with `dalsegno show ") && said.contains("expected \"later\""),
        "{said}"
    );
}

#[test]
fn an_eval_that_is_killed_performs_only_what_is_missing() {
    // From the twentieth request on, nothing is answered until the process is dead.
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (at, dead) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, is_dead, opened) = (Arc::clone(&at), Arc::clone(&dead), Arc::clone(&gate));
    let double = Double::deciding(move |number, _| {
        if number == 19 && !is_dead.load(Ordering::SeqCst) {
            let open = opened.0.lock().unwrap();
            counted.store(20, Ordering::SeqCst);
            opened.1.notify_all();
            drop(opened.1.wait_while(open, |open| !*open).unwrap());
        }
        sorted("urgent")
    });
    let workspace = letters(&double, 40);
    let arguments = ["eval", "tests/evals/letters.toml", "--jobs", "1", "--json"];
    let mut child =
        workspace.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    {
        let mut open = gate.0.lock().unwrap();
        while at.load(Ordering::SeqCst) < 20 {
            open = gate.1.wait(open).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        dead.store(true, Ordering::SeqCst);
        *open = true;
        gate.1.notify_all();
    }
    let (code, shown, report) = eval(&workspace, &["--jobs", "1"]);
    assert_eq!(
        (code, &report["items"], &report["ways"][0]["passed"]),
        (Some(0), &json!(40), &json!(40)),
        "{shown}"
    );
    // The one request that was under way is asked again; no other is.
    assert_eq!(double.received().len(), 41, "{shown}");
    let mut asked: Vec<String> = double.received().iter().map(read_by).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 40);
}

#[test]
fn two_ways_with_as_many_failures_are_equal_or_inconclusive() {
    // Each is wrong about every eighth letter. What is wrong is told by the letter and the way, and not by the
    // number of the request: trials may take place in any order.
    let wrong = |received: &Received, remainder: u64| {
        let read = read_by(received);
        let letter = read.split("letter ").nth(1).and_then(|rest| rest.split('.').next()).unwrap().to_owned();
        letter.parse::<u64>().unwrap() % 8 == remainder
    };
    let decide = move |received: &Received, other: u64| {
        let remainder = if read_by(received).contains("as a twin") { other } else { 1 };
        sorted(if wrong(received, remainder) { "later" } else { "urgent" })
    };
    for (count, other, verdict, code) in [(160, 1, "equal", 0), (40, 5, "inconclusive", 5)] {
        let double = Double::deciding(move |_, received| decide(received, other));
        let workspace = letters(&double, count);
        workspace.write("agents/twin.toml", &agent("twin", "Sort letters as a twin."));
        workspace.write("tests/evals/letters.toml", &format!("{EVAL}\n[against]\nagent = \"twin\"\n"));
        let (found, shown, report) = eval(&workspace, &[]);
        assert_eq!((found, &report["comparison"]["verdict"]), (Some(code), &json!(verdict)), "{shown}");
        assert!(verdict == "equal" || shown.contains("so many items show +"), "{shown}");
    }
}

#[test]
fn a_way_that_is_worse_is_found_and_costs_no_more_than_it_must() {
    let double = Double::deciding(|_, received| {
        sorted(if read_by(received).contains("can wait") { "later" } else { "urgent" })
    });
    let workspace = letters(&double, 60);
    let before = Workspace::empty();
    for file in ["dalsegno.toml", "kind.json", "agents/sorter.toml"] {
        before.write(file, &std::fs::read_to_string(workspace.path(file)).unwrap());
    }
    workspace.write("agents/sorter.toml", &agent("sorter", "All letters can wait."));
    let base = before.path("").to_string_lossy().into_owned();
    let (code, shown, report) = eval(&workspace, &["--base", &base, "--jobs", "2"]);
    assert_eq!((code, &report["comparison"]["verdict"]), (Some(3), &json!("worse")), "{shown}");
    assert_eq!(report["stopped"], "decided");
    let items = report["items"].as_u64().unwrap();
    assert!((3..30).contains(&items), "{items}");
    assert_eq!(double.received().len() as u64, 2 * items);
    assert!(report["comparison"]["interval"]["high"].as_f64().unwrap() < 0.0);
    assert!(shown.contains("worse: sorter now passes less often than sorter in"), "{shown}");
    // The other way round it is better, and `--all` tries all of them.
    let back = workspace.path("").to_string_lossy().into_owned();
    before.write("tests/evals/letters.toml", EVAL);
    let data = std::fs::read_to_string(workspace.path("tests/evals/letters.jsonl")).unwrap();
    before.write("tests/evals/letters.jsonl", &data);
    let (code, shown, report) = eval(&before, &["--base", &back, "--all"]);
    assert_eq!((code, &report["comparison"]["verdict"]), (Some(0), &json!("better")), "{shown}");
    assert_eq!(report["items"], 60);
    let (code, shown, _) = eval(&workspace, &["--base", "no-such-revision"]);
    assert!(code == Some(2) && shown.contains("cannot compare with `no-such-revision`"), "{shown}");
}

#[test]
fn a_pass_rate_is_reached_or_not_or_not_known() {
    let double = Double::deciding(|_, received| {
        sorted(if read_by(received).contains("7.") { "later" } else { "urgent" })
    });
    let workspace = letters(&double, 40);
    for (at_least, code, conclusion) in
        [("0.6", 0, "reached"), ("0.99", 3, "not_reached"), ("0.9", 5, "inconclusive")]
    {
        let (found, shown, report) = eval(&workspace, &["--at-least", at_least]);
        assert_eq!(
            (found, &report["goal"]["conclusion"]),
            (Some(code), &json!(conclusion)),
            "{at_least}: {shown}"
        );
    }
}

#[test]
fn a_broken_data_set_is_refused_before_anything_starts() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = letters(&double, 6_000);
    let right = std::fs::read_to_string(workspace.path("tests/evals/letters.jsonl")).unwrap();
    let change = |line: usize, text: &str| -> String {
        right
            .lines()
            .enumerate()
            .map(|(number, old)| format!("{}\n", if number + 1 == line { text } else { old }))
            .collect()
    };
    let refused = |data: &str, message: &str| {
        workspace.write("tests/evals/letters.jsonl", data);
        let said = workspace.dalsegno(&["eval", "tests/evals/letters.toml"]);
        assert!(said.starts_with("exit code: 2\n"), "{said}");
        assert!(said.contains("nothing was started") && said.contains(message), "`{message}`: {said}");
    };
    refused(&change(5_000, "{\"text\": \"a\","), "tests/evals/letters.jsonl:5000: this is not JSON");
    refused(&change(5_000, "{\"text\": \"a\","), "(column 13)");
    refused(&change(5_000, "[1]"), "letters.jsonl:5000: an item is an object");
    refused(
        &change(17, "{\"id\": \"L4\", \"text\": \"again\"}"),
        "letters.jsonl:17: the id `L4` is that of line 5, too",
    );
    refused(&change(3, "{\"id\": \"x\"}"), "letters.jsonl:3: the item has neither `text` nor `data`");
    refused(
        &change(3, &format!("{{\"text\": \"{}\"}}", "x".repeat(1 << 20))),
        "letters.jsonl:3: it is longer than 1 MiB",
    );
    refused("\n\n", "`tests/evals/letters.jsonl`: it has no items");
    refused(
        "{\"text\": \"a\"}\n",
        "no item of `tests/evals/letters.jsonl` has the field `kind`, which `[checks]` reads",
    );
    let nested = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    refused(
        &format!("{{\"text\": \"a\", \"deep\": {nested}}}"),
        "letters.jsonl:1: this is not JSON: recursion limit exceeded",
    );
    workspace.write(
        "tests/evals/letters.toml",
        &EVAL.replace("output = { kind = \"{{item.kind}}\" }", "max_steps = \"{{item.kind}}\""),
    );
    refused(&right, "letters.jsonl:1: `max_steps` is a string");
    workspace.write("tests/evals/letters.toml", &EVAL.replace("sorter", "sortr").replace("{{item", "{{itm"));
    let said = workspace.dalsegno(&["eval", "tests/evals/letters.toml"]);
    for words in
        ["exit code: 2", "the workspace has no agent `sortr`", "did you mean `sorter`?", "unknown name `itm`"]
    {
        assert!(said.contains(words), "`{words}`: {said}");
    }
    let said = workspace.dalsegno(&["check"]);
    assert!(said.starts_with("exit code: 2\n") && said.contains("did you mean `sorter`?"), "{said}");
    assert_eq!(double.received().len(), 0);
    assert!(!workspace.path(".dalsegno/evals").exists());
}

#[test]
fn a_judge_is_measured_and_its_nonsense_is_no_verdict() {
    let double = Double::deciding(|_, received| {
        let read = read_by(received);
        if !read.contains("You judge") {
            return sorted("urgent");
        }
        let number = (0..30).find(|number| read.contains(&format!("about {number}."))).unwrap_or_default();
        words(&match number {
            // No verdict, though the form fits; and no form at all.
            4 => json!({ "pass": "perhaps" }).to_string(),
            5 => "I would rather not say.".to_owned(),
            number => json!({ "pass": number % 3 != 0 }).to_string(),
        })
    });
    let workspace = letters(&double, 12);
    workspace.write("pass.json", &json!({ "type": "object", "required": ["pass"] }).to_string());
    let judge = agent("referee", "You judge.")
        .replace("kind.json", "pass.json")
        .replace("{{request.text}}", "{{request.text}} {{request.data}}");
    workspace.write("agents/referee.toml", &judge);
    workspace.write(
        "tests/evals/letters.toml",
        &format!(
            "{EVAL}\n[[judges]]\nname = \"tone\"\nagent = \"referee\"\ntext = \"about {{{{item.number}}}}. {{{{answer}}}}\"\nlabel = \"tone\"\n"
        ),
    );
    let mut data = String::new();
    for number in 0..12 {
        let mut item = json!({ "text": format!("letter {number}."), "kind": "urgent", "number": number });
        if number >= 6 {
            item["answer"] = "an answer of before".into();
            // The person and the judge differ on the last one.
            item["labels"] = json!({ "tone": number % 3 != 0 && number != 11 });
        }
        let _ = writeln!(data, "{item}");
    }
    workspace.write("tests/evals/letters.jsonl", &data);
    let (code, shown, report) = eval(&workspace, &[]);
    assert_eq!(code, Some(0), "{shown}");
    let judge = &report["judges"][0];
    assert_eq!((&judge["passed"], &judge["failed"]), (&json!(6), &json!(4)), "{judge}");
    let nonsense: u64 =
        judge["no_verdict"].as_object().unwrap().values().map(|times| times.as_u64().unwrap()).sum();
    assert_eq!(nonsense, 2, "{judge}");
    let way = &report["ways"][0];
    assert_eq!(
        (&way["passed"], &way["trials"], &way["no_verdict"]),
        (&json!(6), &json!(10), &json!(2)),
        "{way}"
    );
    assert_eq!(
        judge["labelled"],
        json!({ "both_pass": 3, "both_fail": 2, "only_judge": 1, "only_person": 0 }),
        "{judge}"
    );
    let kappa = judge["kappa"]["value"].as_f64().unwrap();
    assert!((kappa - 2.0 / 3.0).abs() < 1e-9, "{judge}");
    assert!(judge["kappa"]["interval"]["low"].as_f64().unwrap() < 0.3);
    let read: Vec<String> = double.received().iter().map(read_by).collect();
    let judged = || read.iter().filter(|read| read.contains("You judge"));
    assert!(judged().any(|read| read.contains("an answer of before")));
    assert!(
        judged().all(|read| read.contains("number") && !read.contains("labels")),
        "the judge reads a verdict"
    );
    let asked = double.received().len();
    let said = workspace.dalsegno(&["eval", "tests/evals/letters.toml"]);
    assert!(
        said.contains("judge tone: 6 pass, 4 fail, 2 no verdict; of 6 answers with labels: agreement 83.3 %"),
        "{said}"
    );
    assert!(said.contains("`output.pass` is \"perhaps\", and not true or false"), "{said}");
    assert_eq!(double.received().len(), asked, "verdicts are runs, too");
    // A label without the answer that it is about means nothing.
    workspace.write(
        "tests/evals/letters.jsonl",
        "{\"text\": \"a\", \"kind\": \"b\", \"labels\": {\"tone\": true}}\n",
    );
    let said = workspace.dalsegno(&["eval", "tests/evals/letters.toml"]);
    assert!(said.contains("letters.jsonl:1: it has the label `tone`, and no `answer`"), "{said}");
}

#[test]
fn a_limit_on_the_cost_holds_and_needs_a_price() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = letters(&double, 40);
    // An item costs 0.017 US dollars: five fit.
    let (code, shown, report) = eval(&workspace, &["--max-cost-usd", "0.1"]);
    assert_eq!(
        (code, &report["stopped"], &report["items"]),
        (Some(0), &json!("money"), &json!(5)),
        "{shown}"
    );
    assert!(report["cost_nano_usd"].as_u64().unwrap() <= 100_000_000);
    assert_eq!(double.received().len(), 5);
    // What was paid before counts: the same command pays nothing more.
    let (_, shown, report) = eval(&workspace, &["--max-cost-usd", "0.1"]);
    assert_eq!((&report["performed"], double.received().len()), (&json!(0), 5), "{shown}");
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let free = settings.lines().filter(|line| !line.starts_with("price")).collect::<Vec<_>>().join("\n");
    workspace.write("dalsegno.toml", &free);
    let (code, shown, _) = eval(&workspace, &["--max-cost-usd", "0.1"]);
    assert!(code == Some(2) && shown.contains("the model `default` no price"), "{shown}");
    assert_eq!(double.received().len(), 5);
}

#[test]
fn a_model_that_is_gone_says_nothing_about_the_agent_and_is_asked_again_later() {
    let double = Double::start(vec![sorted("urgent")]);
    let workspace = letters(&double, 12);
    let settings = std::fs::read_to_string(workspace.path("dalsegno.toml")).unwrap();
    let agent = std::fs::read_to_string(workspace.path("agents/sorter.toml")).unwrap();
    workspace
        .write("agents/sorter.toml", &agent.replace("use = \"default\"", "use = \"default\"\nretries = 0"));
    workspace.write("dalsegno.toml", &settings.replace(&double.url(), "http://127.0.0.1:1/v1"));
    let (code, shown, report) = eval(&workspace, &["--jobs", "1"]);
    assert_eq!(
        (code, &report["stopped"], &report["items"]),
        (Some(5), &json!("no_reply"), &json!(8)),
        "{shown}"
    );
    assert_eq!(report["ways"][0]["trials"], 0);
    assert!(shown.contains("trials without a reply"), "{shown}");
    // As soon as it is there, the same trials are performed.
    let (code, shown, report) = eval(&workspace, &["--jobs", "1"]);
    assert_eq!((code, &report["ways"][0]["trials"]), (Some(5), &json!(0)), "{shown}");
    workspace.write("dalsegno.toml", &settings);
    let (code, shown, report) = eval(&workspace, &[]);
    assert_eq!((code, &report["ways"][0]["passed"]), (Some(0), &json!(12)), "{shown}");
}

#[test]
fn a_trial_that_waits_for_a_time_says_so() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    let steps = "steps = [{ id = \"pause\", wait = \"1h\" }, { respond = \"Done.\" }]\n";
    workspace.write("agents/slow.toml", &format!("name = \"slow\"\n{steps}"));
    workspace.write("tests/evals/slow.jsonl", "{\"text\": \"a\"}\n");
    workspace.write("tests/evals/slow.toml", "agent = \"slow\"\ndata = \"tests/evals/slow.jsonl\"\n");
    let said = workspace.dalsegno(&["eval", "tests/evals/slow.toml"]);
    assert!(said.contains("ends: expected completed\n     found suspended until a time\n"), "{said}");
}

#[test]
fn effects_are_held_back_unless_the_file_allows_them() {
    let workspace = Workspace::guarded();
    // Without the agent's own rule, the call would be performed in a run.
    let agent = std::fs::read_to_string(workspace.path("agents/escalate.toml")).unwrap();
    workspace.write("agents/escalate.toml", &agent.replace("approve = [\"risk.record\"]\n", ""));
    workspace.succeed(&["check", "--connect"]);
    workspace.write(
        "tests/evals/one.jsonl",
        "{\"id\": \"a\", \"text\": \"Checkout is down\"}\n{\"id\": \"b\", \"text\": \"a typo\"}\n",
    );
    let file = "agent = \"escalate\"\ndata = \"tests/evals/one.jsonl\"\n";
    let checks = "\n[checks]\nends = \"suspended\"\nasks = [\"risk.record\"]\ncalls = [\"risk.score\"]\n";
    workspace.write("tests/evals/one.toml", &format!("{file}{checks}"));
    let said = workspace.dalsegno(&["eval", "tests/evals/one.toml"]);
    assert!(said.starts_with("exit code: 0\n") && said.contains("2 of 2 "), "{said}");
    assert!(said.contains("a trial stops where it would change something: `risk.record`"), "{said}");
    assert!(!workspace.path(".dalsegno/incidents/escalations.jsonl").exists());
    let checks = "\n[checks]\ncalls = [\"risk.score\", \"risk.record\"]\nanswer = \"Recorded.\"\n";
    workspace.write("tests/evals/one.toml", &format!("{file}allow_effects = [\"risk.record\"]\n{checks}"));
    // The eval agrees where the agent's own rule asks a person.
    workspace.write("agents/escalate.toml", &agent);
    let said = workspace.dalsegno(&["eval", "tests/evals/one.toml"]);
    assert!(said.starts_with("exit code: 0\n") && said.contains("2 of 2 "), "{said}");
    assert!(said.contains("warning: trials call `risk.record` for real"), "{said}");
    let written = std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 2);
    workspace.succeed(&["eval", "tests/evals/one.toml"]);
    let written = std::fs::read_to_string(workspace.path(".dalsegno/incidents/escalations.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 2, "no trial is performed twice");
}

#[test]
fn what_one_trial_remembers_no_other_one_reads() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write(
        "agents/diary.toml",
        "name = \"diary\"\nversion = \"1.0.0\"\n\n[memory]\nscope = \"workspace\"\n\n[[steps]]\nid = \"past\"\nmemory_search = { query = \"apples\", limit = 9 }\n\n\
         [[steps]]\nmemory_create = { entity = \"{{request.text}}\", type = \"note\", content = \"apples {{request.text}}\" }\n\n\
         [[steps]]\nid = \"own\"\nmemory_search = { query = \"apples\", limit = 9 }\n\n[[steps]]\nrespond = \"{{steps.past.length}} {{steps.own.length}}\"\n",
    );
    workspace.write(
        "tests/evals/diary.toml",
        "agent = \"diary\"\ndata = \"tests/evals/diary.jsonl\"\n\n[checks]\nanswer = \"0 1\"\n",
    );
    workspace.write(
        "tests/evals/diary.jsonl",
        "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n",
    );
    let said = workspace.dalsegno(&["eval", "tests/evals/diary.toml", "--trials", "3"]);
    assert!(said.contains("9 of 9"), "{said}");
    // The workspace's own memory has nothing of it.
    assert!(workspace.succeed(&["run", "diary", "four"]).contains("0 1"));
    assert!(
        workspace
            .dalsegno(&["eval", "tests/evals/diary.toml", "--trials", "3"])
            .contains("9 known from before")
    );
}

#[test]
fn a_report_is_one_file_in_which_data_is_text() {
    let double = Double::start(vec![sorted("<img src=x onerror=alert(1)>")]);
    let workspace = letters(&double, 3);
    workspace.write(
        "tests/evals/letters.jsonl",
        &format!(
            "{}\n",
            json!({ "id": "</script><script>alert(2)</script>", "text": "a", "kind": "\u{202e}\"&'" })
        ),
    );
    let (code, shown, _) = eval(&workspace, &["--report", "report.html"]);
    assert_eq!(code, Some(0), "{shown}");
    let page = std::fs::read_to_string(workspace.path("report.html")).unwrap();
    for wrong in ["<img", "<script", "onerror=alert(1)>", "http://", "https://", "\u{202e}"] {
        assert!(!page.contains(wrong), "`{wrong}`");
    }
    for right in [
        "&lt;img src=x onerror=alert(1)&gt;",
        "&lt;/script&gt;",
        "<svg",
        "prefers-color-scheme:dark",
        "default-src 'none'",
    ] {
        assert!(page.contains(right), "`{right}`: {page}");
    }
}

#[test]
fn the_eval_of_the_demo_runs_offline() {
    let workspace = Workspace::empty();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "dalsegno.toml",
        "dalsegno.lock",
        "agents/triage.toml",
        "agents/responder.toml",
        "agents/incidents.jsonl",
    ]
    .into_iter()
    .chain(["tests/scripts/responder.toml", "tests/evals/triage.toml", "tests/evals/triage.jsonl"])
    {
        workspace.write(file, &std::fs::read_to_string(repository.join(file)).unwrap());
    }
    workspace.write("tool-servers/target/wasm32-wasip2/release/risk.wasm", "");
    std::fs::copy(guest("risk"), workspace.path("tool-servers/target/wasm32-wasip2/release/risk.wasm"))
        .unwrap();
    let said = workspace.dalsegno(&["eval", "tests/evals/triage.toml"]);
    assert!(said.starts_with("exit code: 0\n"), "{said}");
    // What the book shows.
    let book = std::fs::read_to_string(repository.join("docs/src/eval.md")).unwrap();
    let shown = said.split("--- stdout\n").nth(1).unwrap().replace("--- stderr\n", "");
    let is_id = |word: &&str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let same = |line: &str| line.split([' ', '`']).filter(|word| !is_id(word)).collect::<Vec<_>>().join(" ");
    let book: Vec<String> = book.lines().map(same).collect();
    for line in shown.lines() {
        assert!(book.contains(&same(line)), "the book does not show `{line}`");
    }
    // The folder of evals is not one of cases.
    assert!(workspace.dalsegno(&["test"]).starts_with("exit code: 0\n"));
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_what_is_under_way_to_the_next_command() {
    let asked = Arc::new((Mutex::new(0), Condvar::new()));
    let told = Arc::clone(&asked);
    let double = Double::deciding(move |number, _| {
        *told.0.lock().unwrap() = number + 1;
        told.1.notify_all();
        sorted("urgent")
    });
    let workspace = letters(&double, 400);
    let arguments = ["eval", "tests/evals/letters.toml", "--jobs", "1", "--json"];
    let child = workspace.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(asked.1.wait_while(asked.0.lock().unwrap(), |asked| *asked < 5).unwrap());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let shown = workspace.shown(&output);
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(shown.contains("interrupted: the same command performs what is missing"), "{shown}");
    let (_, shown, report) = eval(&workspace, &[]);
    assert_eq!(report["ways"][0]["passed"], 400, "{shown}");
    let asked = double.received().len();
    assert!((400..=402).contains(&asked), "{asked}");
}
