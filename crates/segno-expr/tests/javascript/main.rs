//! A second opinion: the same expressions, evaluated by a real JavaScript engine.
//!
//! With `node` on the path, a batch of written and generated expressions goes through both engines. The answers that
//! node gave are recorded in `tests/vectors/javascript.json` and hold on machines without it too. To record them anew:
//! `SEGNO_UPDATE_VECTORS=1 cargo test -p segno-expr --test javascript`.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod generate;
mod written;

use generate::Generator;
use segno_expr::{EvalError, Expression, Template};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const RECORDED_SEED: u64 = 1;
const RECORDED_COUNT: usize = 400;
const LIVE_SEED: u64 = 2;
const LIVE_COUNT: usize = 4_000;

/// What node said about one expression: its value as JSON with sorted keys, or `None` where it threw.
type Answer = Option<String>;

#[derive(Serialize, Deserialize)]
struct Vector {
    expression: String,
    answer: Answer,
}

#[test]
fn the_recorded_answers_of_javascript_hold() {
    let expressions = recorded_expressions();
    if std::env::var_os("SEGNO_UPDATE_VECTORS").is_some() {
        let answers = ask_node(&expressions).expect("node is needed to record its answers");
        let vectors: Vec<_> = expressions
            .iter()
            .zip(answers)
            .map(|(expression, answer)| Vector { expression: expression.clone(), answer })
            .collect();
        let lines: Vec<_> = vectors.iter().map(|vector| serde_json::to_string(vector).unwrap()).collect();
        std::fs::write(vectors_path(), format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let text = std::fs::read_to_string(vectors_path()).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap();
    let recorded: Vec<_> = vectors.iter().map(|vector| vector.expression.clone()).collect();
    assert_eq!(recorded, expressions, "the vectors are stale: record them anew with SEGNO_UPDATE_VECTORS=1");
    check_all(vectors.iter().map(|vector| (vector.expression.as_str(), &vector.answer)));
}

#[test]
fn a_live_engine_agrees_on_generated_expressions() {
    let expressions = Generator::new(LIVE_SEED).expressions(LIVE_COUNT);
    if let Some(answers) = ask_node(&expressions) {
        check_all(expressions.iter().map(String::as_str).zip(&answers));
    } else {
        // Without an engine the generator is still held to its word: what it writes is in the language.
        for expression in &expressions {
            Expression::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        }
    }
}

/// Compares every answer; a few expressions are not comparable, for reasons that [`is_deliberate`] names.
fn check_all<'a>(vectors: impl Iterator<Item = (&'a str, &'a Answer)>) {
    let scope = scope();
    let (mut compared, mut skipped, mut wrong) = (0, 0, Vec::new());
    for (source, expected) in vectors {
        let found = match evaluate(source, &scope) {
            Ok(text) => Some(text),
            Err(error) if is_deliberate(&error) => {
                skipped += 1;
                continue;
            }
            Err(_) => None,
        };
        compared += 1;
        if found != *expected {
            wrong.push(format!("{source}\n  JavaScript: {expected:?}\n  here:       {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 9 * skipped, "only {compared} expressions were compared, {skipped} were not");
}

/// The errors with which the language departs from JavaScript.
fn is_deliberate(error: &EvalError) -> bool {
    matches!(error, EvalError::Identity { .. } | EvalError::InexactInteger { .. })
}

/// Evaluates to JSON text, which unlike a parsed number is exact to the last digit. Only arrays and objects are printed
/// as JSON, hence the brackets.
fn evaluate(source: &str, scope: &Map<String, Value>) -> Result<String, EvalError> {
    let template =
        Template::parse(&format!("{{{{[{source}]}}}}")).unwrap_or_else(|error| panic!("{source}: {error}"));
    template.render_text(scope)
}

/// Evaluates all expressions in one run of node; `None` where there is no node.
fn ask_node(expressions: &[String]) -> Option<Vec<Answer>> {
    let mut node = Command::new("node")
        .args(["-e", NODE_PROGRAM])
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let batch = json!({"scope": scope(), "expressions": expressions}).to_string();
    node.stdin.take().unwrap().write_all(batch.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "node failed");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// `toWellFormed` turns halves of surrogate pairs into U+FFFD, as every encoder of UTF-8 must.
const NODE_PROGRAM: &str = r"
const {scope, expressions} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
Date.toISO = milliseconds => new Date(milliseconds).toISOString();
const fields = object => Object.keys(object).filter(key => object[key] !== undefined).sort();
const text = value =>
  Array.isArray(value) ? `[${value.map(text)}]`
  : value && typeof value === 'object' ? `{${fields(value).map(key => `${JSON.stringify(key)}:${text(value[key])}`)}}`
  : typeof value === 'string' ? JSON.stringify(value.toWellFormed())
  : JSON.stringify(value ?? null);
const answer = expression => {
  const run = new Function(...Object.keys(scope), `'use strict'; return [${expression}\n];`);
  try {
    return text(run(...Object.values(scope)));
  } catch (error) {
    if (error instanceof ReferenceError) throw error;
    return null;
  }
};
process.stdout.write(JSON.stringify(expressions.map(answer)));
";

fn recorded_expressions() -> Vec<String> {
    let written = written::EXPRESSIONS.iter().map(|expression| (*expression).to_owned());
    written.chain(Generator::new(RECORDED_SEED).expressions(RECORDED_COUNT)).collect()
}

/// What the expressions read. Keys are sorted, which makes `Object.keys` agree.
fn scope() -> Map<String, Value> {
    let scope = json!({
        "empty": {},
        "flag": true,
        "items": [3, 1, 2],
        "mixed": [null, "a", 1.5, false, [1, [2]], {"k": "v"}],
        "n": -7.25,
        "name": "Ada Lovelace",
        "nothing": null,
        "order": {"10": "ten", "9": "nine", "a": 1, "b.c": [true], "line": {"count": 3, "title": "Été 😀!"}},
        "score": 0.75,
        "tags": ["red", "green", "blue"],
        "text": "  one, two,three ",
        "zero": 0,
    });
    let Value::Object(scope) = scope else { panic!("an object") };
    scope
}

fn vectors_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/javascript.json")
}
