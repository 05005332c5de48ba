//! Eval files: what is read of them, and what is wrong with them.

use std::path::Path;

use dalsegno_workspace::{Against, EvalRead, Workspace};
use serde_json::json;

const RIGHT: &str = "agent = \"helper\"\ndata = \"recorded.jsonl\"\n";

/// Reads an eval file in a workspace of the samples.
fn read(text: &str) -> EvalRead {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/agents");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("eval.toml");
    std::fs::write(&file, text).unwrap();
    Workspace::load(&sample).workspace.unwrap().eval(&file)
}

fn problems(text: &str) -> String {
    let read = read(text);
    assert!(read.eval.is_none(), "{text}");
    let told = read.diagnostics.iter().map(|one| {
        let at = one.start.map_or_else(String::new, |start| format!("{}:{}", start.line, start.column));
        format!(
            "{at} {} {} {}\n",
            one.message,
            one.label.as_deref().unwrap_or(""),
            one.help.as_deref().unwrap_or("")
        )
    });
    told.collect()
}

#[test]
fn every_key_is_read() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/valid/agents");
    let read = Workspace::load(&sample).workspace.unwrap().eval(&sample.join("tests/evals/every-key.toml"));
    let eval = read.eval.unwrap_or_else(|| panic!("{:?}", read.diagnostics));
    assert_eq!(
        (eval.name.as_str(), eval.agent.name.as_str(), eval.trials),
        ("tests_evals_every_key", "lead", 3)
    );
    assert_eq!((eval.at_least, eval.allow_effects.len(), eval.judges.len()), (Some(0.9), 2, 1));
    assert!(matches!(&eval.against, Some(Against::Agent(agent)) if agent.name.as_str() == "helper"));
    let item = json!({
        "ends": "failed", "calls": ["agents.lead", { "tool": "memory.search", "with": { "query": null } }], "answer": "Hi", "name": "Ada",
        "level": null, "steps": 4,
    });
    let expect = eval.checks.of(&item).unwrap();
    assert_eq!(expect.ends.unwrap().value.as_str(), "failed");
    assert_eq!(expect.calls.unwrap().value[1].tool, "memory.search");
    assert_eq!(expect.output.unwrap().value, json!({ "level": null, "list": [1, true] }));
    assert_eq!((expect.max_steps.unwrap().value, expect.max_tokens.unwrap().value), (4, 1_000));
    assert_eq!((expect.answer.unwrap().value.as_str(), expect.answer_contains.len()), ("Hi", 1));
    assert_eq!(expect.always.len(), 1);
    let fields: Vec<&str> = eval.checks.fields().collect();
    assert_eq!(fields, ["answer", "calls", "ends", "level", "name", "steps", "urgent"]);
    // A value that is missing is no check for this item; one that does not fit says so.
    let expect = eval.checks.of(&json!({ "name": "x", "level": 1 })).unwrap();
    assert!(expect.ends.is_none() && expect.max_steps.is_none());
    let wrong = eval.checks.of(&json!({ "name": "x", "level": 1, "steps": -4 })).unwrap_err();
    assert!(wrong.contains("`max_steps` is out of range"), "{wrong}");
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_to_do() {
    for (text, words) in [
        ("", "an eval file has no `agent`"),
        ("agent = \"helper\"\n", "an eval file has no `data`"),
        (
            "agent = \"helpr\"\ndata = \"recorded.jsonl\"\n",
            "1:9 the workspace has no agent `helpr`  did you mean `helper`?",
        ),
        ("agent = \"helper\"\ndata = \"no.jsonl\"\n", "2:8 the file `no.jsonl` does not exist"),
        ("trails = 3\n", "1:1 unknown key `trails` in an eval file"),
        ("trials = 0\n", "`trials` is out of range expected 1 to 1000"),
        ("at_least = 1.5\n", "`at_least` is out of range expected 0 to 1"),
        ("tenant = \"nosuch\"\n", "nosuch"),
        ("[checks]\nanswr = \"{{item.a}}\"\n", "unknown key `answr`"),
        ("[checks]\nanswer = \"{{itm.a}}\"\n", "unknown name `itm`"),
        ("[checks]\nanswer = \"{{item.}}\"\n", "the template of `answer` cannot be parsed"),
        ("[checks]\nanswer_matches = \"(\"\n", "`answer_matches` is not a regular expression"),
        ("[checks]\nalways = [\"answr == 1\"]\n", "unknown name `answr`"),
        ("[checks]\ncalls = [\"no.tool\"]\n", "the tool `no.tool` does not exist"),
        ("checks = 3\n", "`checks` is a whole number expected a table"),
        ("[against]\n", "lacks one of `agent`, `model`"),
        ("[against]\nmodel = \"local\"\nbase = \"HEAD\"\n", "has several of"),
        ("[against]\nmodel = \"locl\"\n", "`dalsegno.toml` has no model `locl`  did you mean `local`?"),
        ("[against]\nmodel = \"local\"\n", "the agent has no model that could change"),
        ("[against]\nagent = \"helper\"\n", "the agent would be compared with itself"),
        ("[[judges]]\nname = \"a\"\n", "a judge has no `agent`"),
        ("[[judges]]\nname = \"a\"\nagent = \"lead\"\npass = \"verdict\"\n", "unknown name `verdict`"),
        (
            "[[judges]]\nname = \"a\"\nagent = \"lead\"\ntext = \"{{request.text}}\"\n",
            "unknown name `request`",
        ),
        (
            "[[judges]]\nname = \"a\"\nagent = \"lead\"\n[[judges]]\nname = \"a\"\nagent = \"lead\"\n",
            "two judges are called `a`",
        ),
        ("this is not TOML\n", "TOML"),
    ] {
        let whole = if text.starts_with("agent") || text.is_empty() {
            text.to_owned()
        } else {
            format!("{RIGHT}{text}")
        };
        let told = problems(&whole);
        let words = match text.starts_with("trails") {
            true => words.replace("1:1", "3:1"),
            false => words.to_owned(),
        };
        assert!(told.contains(&words), "`{words}` for {text:?}: {told}");
        // What is wrong is said once.
        let mut lines: Vec<&str> = told.lines().collect();
        let all = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), all, "{told}");
    }
}
