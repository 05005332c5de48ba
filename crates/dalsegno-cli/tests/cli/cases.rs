//! `dalsegno test`: agents tested like functions.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use serde_json::Value;

use crate::support::Workspace;

/// An agent that adds what it is asked to the memory, and says so.
const NOTER: &str = r#"
name = "noter"

[[steps]]
id = "found"
memory_search = { query = "{{request.text}}", limit = 2 }

[[steps]]
when = "steps.found.length == 0"
memory_create = { entity = "notes", type = "log", content = "{{request.text}}" }

[[steps]]
respond = "{{steps.found.length}} known of {{request.text}}"
"#;

fn noter(cases: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "");
    workspace.write("agents/noter.toml", NOTER);
    workspace.write("tests/noter.toml", cases);
    workspace
}

fn run(workspace: &Workspace, args: &[&str]) -> Output {
    workspace.command(&[&["test"], args].concat()).output().unwrap()
}

#[track_caller]
fn expect(workspace: &Workspace, args: &[&str], code: i32, words: &[&str]) -> String {
    let output = run(workspace, args);
    let shown = workspace.shown(&output);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for word in words {
        assert!(shown.contains(word), "`{word}` is missing: {shown}");
    }
    shown
}

/// The workspace of the repository, with files in the place of what is compiled: nothing of a case starts it.
fn demo() -> Workspace {
    let workspace = Workspace::empty();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["agents", "tests", "tests/scripts", "tests/snapshots"] {
        for entry in repository.join(folder).read_dir().unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_file() {
                let text = fs::read_to_string(entry.path()).unwrap();
                workspace.write(&format!("{folder}/{}", entry.file_name().to_string_lossy()), &text);
            }
        }
    }
    for file in ["dalsegno.toml", "dalsegno.lock"] {
        workspace.write(file, &fs::read_to_string(repository.join(file)).unwrap());
    }
    workspace.write("tool-servers/target/wasm32-wasip2/release/risk.wasm", "none");
    workspace
}

#[test]
fn the_cases_of_the_demo_hold_and_start_nothing() {
    let workspace = demo();
    let began = Instant::now();
    let told = workspace.json(&["test"]);
    let took = began.elapsed();
    assert_eq!(told["failed"], 0, "{told:#}");
    assert!(told["passed"].as_u64().unwrap() >= 30, "{told:#}");
    assert_eq!(told["unreferenced"], serde_json::json!([]));
    let agents: Vec<&str> =
        told["cases"].as_array().unwrap().iter().map(|case| case["agent"].as_str().unwrap()).collect();
    for agent in ["triage", "report", "responder"] {
        assert!(agents.contains(&agent), "{agents:?}");
    }
    println!("{took:?}, of which {} ms in the cases", told["took_ms"]);
    // No journal, no memory, no lock of a process.
    assert!(!workspace.path(".dalsegno").exists());
}

#[test]
fn a_case_says_what_does_not_hold_and_where() {
    let workspace = noter(
        r#"
agent = "noter"

[[results]]
memory = "create"

[[cases]]
name = "it is new"
input = "a"
results = [{ memory = "search" }]
answer = "1 known of a"
max_steps = 1

[[cases]]
name = "it is known"
input = "b"
results = [{ memory = "search", returns = [{ entity = "x", text = "b" }] }]
answer_matches = "^1 known"
"#,
    );
    let shown = expect(
        &workspace,
        &[],
        3,
        &[
            "FAILED  it is new  tests/noter.toml:8",
            "answer (line 11):",
            "expected \"1 known of a\"",
            "   found \"0 known of a\"",
            "max_steps (line 12):",
            "expected at most 1",
            "2 cases: 1 passed, 1 failed",
        ],
    );
    assert!(!shown.contains("it is known"), "{shown}");
    expect(&workspace, &["known"], 0, &["1 case passed"]);
    expect(
        &workspace,
        &["known", "--verbose"],
        0,
        &["passed  it is known", "memory.search", "says 1 known of b"],
    );
    expect(&workspace, &["nothing of the kind"], 2, &["no case has such a name"]);
    assert!(!workspace.path(".dalsegno").exists());
}

#[test]
fn a_missing_outcome_is_told_with_what_comes_nearest_and_what_to_write() {
    let workspace = noter(
        r#"
agent = "noter"

[[cases]]
name = "nothing is given"
input = "a"

[[cases]]
name = "another query"
input = "a"
results = [{ memory = "search", with = { query = "b" } }]
"#,
    );
    expect(
        &workspace,
        &[],
        3,
        &[
            "step 1 asks the memory: search with {\"limit\":2,\"min_score\":0.0,\"query\":\"a\"}",
            "there is one for other arguments: `query` is \"a\", expected \"b\" by its `with`",
            "[[cases.results]]",
            "memory = \"search\"",
        ],
    );
}

#[test]
fn what_is_given_and_never_asked_for_fails_the_case() {
    let workspace = noter(
        r#"
agent = "noter"

[[cases]]
name = "known"
input = "a"
results = [
  { memory = "search", returns = [{ entity = "x", text = "a" }] },
  { memory = "create" },
]
answers = [{ approve = true }]
"#,
    );
    expect(
        &workspace,
        &[],
        3,
        &[
            "unused (line 9): the run never asked for a result of the memory (create)",
            "unused (line 11): the run never asked for an answer of a person",
        ],
    );
}

const WITH_SNAPSHOT: &str = r#"
agent = "noter"

[[results]]
memory = "search"

[[results]]
memory = "create"

[[cases]]
name = "It is: new!"
input = "a"
snapshot = true
"#;

#[test]
fn a_snapshot_is_pending_until_it_is_accepted_and_shows_what_changed() {
    let workspace = noter(WITH_SNAPSHOT);
    let (accepted, pending) =
        ("tests/snapshots/noter__it_is_new.snap", "tests/snapshots/noter__it_is_new.snap.new");
    expect(
        &workspace,
        &[],
        3,
        &["there is no snapshot yet", "accept the runs as they are with `dalsegno test --accept`"],
    );
    assert!(workspace.path(pending).is_file() && !workspace.path(accepted).exists());
    expect(&workspace, &["--accept"], 0, &["1 case passed"]);
    assert!(workspace.path(accepted).is_file() && !workspace.path(pending).exists());
    let text = fs::read_to_string(workspace.path(accepted)).unwrap();
    assert!(text.starts_with("version 1\ncase It is: new!\n---\nstep 1\n"), "{text}");
    expect(&workspace, &[], 0, &[]);

    workspace.write("agents/noter.toml", &NOTER.replace("known of", "known about"));
    expect(&workspace, &[], 3, &["-   says 0 known of a", "+   says 0 known about a"]);
    assert!(workspace.path(pending).is_file());
    workspace.write("agents/noter.toml", NOTER);
    expect(&workspace, &[], 0, &[]);
    assert!(!workspace.path(pending).exists());

    workspace.write("tests/noter.toml", &WITH_SNAPSHOT.replace("It is: new!", "renamed"));
    expect(
        &workspace,
        &["--accept"],
        0,
        &["`tests/snapshots/noter__it_is_new.snap` is the snapshot of no case"],
    );
}

#[test]
fn a_snapshot_of_another_version_is_told_and_written_anew() {
    let workspace = noter(WITH_SNAPSHOT);
    let file = "tests/snapshots/noter__it_is_new.snap";
    workspace.write(file, "version 7\ncase x\n---\nsomething\n");
    expect(&workspace, &[], 3, &["is no snapshot: it has version 7, and this release reads version 1"]);
    workspace.write(file, "not one at all");
    expect(&workspace, &[], 3, &["its first line does not say its version"]);
    expect(&workspace, &["--accept"], 0, &[]);
    expect(&workspace, &[], 0, &[]);
}

#[test]
fn a_broken_file_of_cases_is_told_by_check_and_stops_the_test() {
    let workspace = noter("agent = \"notr\"\n\n[[cases]]\nname = \"a\"\ninput = \"x\"\nmax_step = 3\n");
    let words = [
        "unknown key `max_step` in a case",
        "the workspace has no agent `notr`",
        "did you mean `noter`?",
        "tests/noter.toml:6:1",
    ];
    expect(&workspace, &[], 2, &words);
    let checked = workspace.dalsegno(&["check"]);
    assert!(
        checked.starts_with("exit code: 2") && words.iter().all(|word| checked.contains(word)),
        "{checked}"
    );
    // An agent runs all the same.
    workspace.succeed(&["run", "noter", "hello"]);
}

#[test]
fn junit_has_a_suite_for_each_file_and_a_test_for_each_case() {
    let workspace = noter(
        "agent = \"noter\"\n\n[[cases]]\nname = \"<&\"\ninput = \"x\"\nresults = [{ memory = \"search\" }, { memory = \"create\" }]\n\n[[cases]]\nname = \"b\"\ninput = \"x\"\n",
    );
    expect(&workspace, &["--junit", "out/report.xml"], 3, &[]);
    let xml = fs::read_to_string(workspace.path("out/report.xml")).unwrap();
    for part in [
        "<testsuite name=\"tests/noter.toml\" tests=\"2\"",
        "name=\"&lt;&amp;\" classname=\"noter\"",
        "line=\"4\"",
        "<failure message=\"step 1 asks the memory: search",
        "type=\"missing outcome\"",
    ] {
        assert!(xml.contains(part), "`{part}` is missing: {xml}");
    }
}

#[test]
fn a_recorded_run_becomes_a_case_that_notices_changes() {
    let workspace = noter(
        "agent = \"noter\"\n\n[[cases]]\nname = \"a\"\ninput = \"x\"\nresults = [{ memory = \"search\" }, { memory = \"create\" }]\n",
    );
    workspace.succeed(&["run", "noter", "disk full"]);
    expect(&workspace, &["--from-run", "last"], 0, &["written; look at them before you commit them"]);
    expect(&workspace, &[], 0, &["2 cases passed"]);
    let cassette = workspace.path("tests/cassettes").read_dir().unwrap().next().unwrap().unwrap().path();

    workspace.write("agents/noter.toml", &NOTER.replace("limit = 2", "limit = 3"));
    expect(&workspace, &["run "], 3, &["differs: `limit` is 3, expected 2"]);
    workspace.write("agents/noter.toml", NOTER);

    let text = fs::read_to_string(&cassette).unwrap();
    fs::write(&cassette, text.replacen("disk full", "disk fool", 2)).unwrap();
    expect(&workspace, &[], 2, &["the cassette cannot be used", "--from-run", "no case was run"]);
    fs::write(&cassette, text.replacen("\"version\":1", "\"version\":9", 1)).unwrap();
    expect(&workspace, &[], 2, &["version 9"]);
    fs::write(&cassette, text).unwrap();
    expect(&workspace, &["--from-run", "last"], 2, &["is there already: remove it first"]);
}

/// A run of a model, with an approval, from the same files that a real run reads.
#[test]
fn a_run_with_a_model_and_a_person_plays_again() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    workspace.write(
        "replies.toml",
        "[[replies]]\ncalls = [{ name = \"memory.create\", arguments = { entity = \"e\", content = \"{{request.text}}\" } }]\n\n\
         [[replies]]\ntext = \"Kept.\"\nusage = { input = 5, output = 2 }\n",
    );
    workspace.write(
        "agents/keeper.toml",
        "name = \"keeper\"\ninstructions = \"Keep it.\"\n\n[model]\nuse = \"default\"\n\n[tools]\nallow = [\"memory.create\"]\napprove = [\"memory.create\"]\n",
    );
    let suspended = workspace.command(&["run", "keeper", "a thing"]).output().unwrap();
    assert_eq!(suspended.status.code(), Some(4));
    let seen = workspace.seen();
    workspace.succeed(&["resume", "last", "--approve", "--shown", &seen]);
    expect(&workspace, &["--from-run", "last"], 0, &[]);
    let mut file = workspace.path("tests").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let case = file.find(|file| file.extension().is_some_and(|end| end == "toml")).unwrap();
    let text = fs::read_to_string(case).unwrap();
    for line in [
        "ends = \"completed\"",
        "calls = [\"memory.create\"]",
        "asks = [\"memory.create\"]",
        "answer = \"Kept.\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    expect(&workspace, &[], 0, &["1 case passed"]);
    let agent = fs::read_to_string(workspace.path("agents/keeper.toml")).unwrap();
    workspace.write("agents/keeper.toml", &agent.replace("Keep it.", "Keep it well."));
    expect(
        &workspace,
        &[],
        3,
        &["asks the model", "`reads[0]` is \"system: Keep it well.\", expected \"system: Keep it.\""],
    );
}

/// As many cases as a workspace may have: each is judged. How long they took is printed, and judged by people.
#[test]
fn a_thousand_cases_are_judged_by_one_command() {
    let workspace = noter("");
    let mut cases = "agent = \"noter\"\n\n[[results]]\nmemory = \"create\"\n".to_owned();
    for number in 0..1_000_u32 {
        let hits =
            if number.is_multiple_of(2) { "" } else { ", returns = [{ entity = \"x\", text = \"y\" }]" };
        let known = number % 2;
        cases += &format!(
            "\n[[cases]]\nname = \"case {number}\"\ninput = \"text {number}\"\nresults = [{{ memory = \"search\"{hits} }}]\nanswer = \"{known} known of text {number}\"\n"
        );
    }
    workspace.write("tests/noter.toml", &cases);
    let told: Value = workspace.json(&["test"]);
    assert_eq!((&told["passed"], &told["failed"]), (&Value::from(1_000), &Value::from(0)));
    println!("1,000 cases: {} ms", told["took_ms"]);
}

#[test]
fn a_run_that_is_kept_whole_plays_in_a_case_and_a_miss_is_loud() {
    let workspace = noter("agent = \"noter\"\n");
    workspace.write("tests/noter.toml", "");
    let tape = workspace.path("noter.jsonl");
    let kept = tape.to_str().unwrap();
    let said = workspace.dalsegno(&["run", "noter", "disk full", "--record-run", kept]);
    assert!(said.starts_with("exit code: 0\n") && said.contains("noter.jsonl: 2 outcomes written"), "{said}");
    let case = "[[cases]]\nname = \"as it was\"\nagent = \"noter\"\ninput = \"disk full\"\ncassette = \"noter.jsonl\"\n";
    workspace.write("tests/noter.toml", case);
    expect(&workspace, &[], 0, &["1 case passed"]);
    // It asks for something else: the nearest recording and the first difference.
    workspace.write("agents/noter.toml", &NOTER.replace("limit = 2", "limit = 3"));
    expect(
        &workspace,
        &[],
        3,
        &["the recorded request to the memory: search differs: `limit` is 3, expected 2"],
    );
    // The same again takes the place of a cassette, and of nothing else.
    workspace.succeed(&["run", "noter", "disk full", "--record-run", kept]);
    expect(&workspace, &[], 0, &["1 case passed"]);
    fs::write(&tape, "a diary").unwrap();
    let runs = || workspace.json(&["runs"]).as_array().unwrap().len();
    let before = runs();
    let refused = workspace.dalsegno(&["run", "noter", "disk full", "--record-run", kept]);
    assert!(refused.starts_with("exit code: 2\n") && refused.contains("no cassette of a run"), "{refused}");
    assert_eq!((fs::read_to_string(&tape).unwrap().as_str(), runs()), ("a diary", before));
    // What continues a session has outcomes elsewhere.
    let refused = workspace.dalsegno(&["run", "noter", "x", "--record-run", "other.jsonl", "--session", "s"]);
    assert!(refused.starts_with("exit code: 2\n"), "{refused}");
}

#[test]
fn a_secret_is_in_no_cassette() {
    let workspace = Workspace::empty();
    workspace.write("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n");
    workspace.write("replies.toml", "[[replies]]\ntext = \"I keep token-4711 for you.\"\n");
    workspace.write(
        "agents/keeper.toml",
        "name = \"keeper\"\ninstructions = \"Keep it.\"\n\n[model]\nuse = \"default\"\n",
    );
    let user = r#"{"name": "ada", "auth_token": "token-4711"}"#;
    let tape = workspace.path("tape.jsonl");
    let command = ["run", "keeper", "Keep mine", "--user", user, "--record-run", tape.to_str().unwrap()];
    workspace.succeed(&command);
    let text = fs::read_to_string(&tape).unwrap();
    assert!(text.contains("I keep [secret] for you") && !text.contains("token-4711"), "{text}");
}
