//! A second opinion: the same expressions and templates, evaluated by a real JavaScript engine.
//!
//! The answers that node gave are recorded in `tests/vectors`, one a line: the source, a tab, and the value as JSON, `!`
//! where it threw, or `~` and the value where a character was cut in half. They are compared on every run. To record
//! them anew: `DALSEGNO_UPDATE_VECTORS=1 cargo test -p dalsegno-expr --test javascript`.
//!
//! With `node` on the path, fresh ones are generated and compared as well, from a new seed each time. It is printed, and
//! `DALSEGNO_SEED=n` takes it again; `DALSEGNO_LIVE_COUNT=n` says how many.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod coverage;
mod generate;
mod node;
mod probe;
mod values;
mod written;

use dalsegno_expr::{EvalError, EvalErrorKind, Expression, Template};
use generate::{Generator, Piece};
use node::{Answer, ask_expressions, ask_templates};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

const RECORDED_SEED: u64 = 1;
const RECORDED_EXPRESSIONS: usize = 4_000;
const RECORDED_TEMPLATES: usize = 400;
/// Keeps the file small; fresh ones may be longer.
const RECORDED_LONGEST: usize = 110;
const LIVE_COUNT: usize = 4_000;

struct Vector {
    source: String,
    answer: Answer,
}

#[test]
fn the_recorded_answers_to_expressions_hold() {
    let expressions = recorded_expressions();
    if is_update() {
        let answers = ask_expressions(&expressions, &scope()).expect("node is needed to record its answers");
        record("expressions.tsv", &expressions, &answers);
    }
    let vectors = recorded("expressions.tsv", &expressions);
    compare(&vectors, evaluate, "recorded");
}

#[test]
fn the_recorded_answers_to_templates_hold() {
    let templates = recorded_templates();
    let sources: Vec<_> = templates.iter().map(|parts| source_of(parts)).collect();
    if is_update() {
        let answers = ask_templates(&templates, &scope()).expect("node is needed to record its answers");
        record("templates.tsv", &sources, &answers);
    }
    let vectors = recorded("templates.tsv", &sources);
    compare(&vectors, render, "recorded");
}

#[test]
fn a_live_engine_agrees_on_fresh_ones() {
    let seed = number_from("DALSEGNO_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 1);
    let count = number_from("DALSEGNO_LIVE_COUNT").map_or(LIVE_COUNT, |count| count as usize);
    eprintln!("to try these again: DALSEGNO_SEED={seed} DALSEGNO_LIVE_COUNT={count}");
    let mut generator = Generator::new(seed);
    // The brackets that go around take two characters.
    let expressions = generator.expressions(count, dalsegno_expr::MAX_SOURCE_CHARS - 2);
    let templates = generator.templates(count / 8);
    let Some(answers) = ask_expressions(&expressions, &scope()) else {
        // Without an engine the generator is still held to its word: what it writes is in the language.
        for expression in &expressions {
            Expression::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        }
        return;
    };
    let title = format!("DALSEGNO_SEED={seed}");
    let with_answers = |sources: Vec<String>, answers: Vec<Answer>| -> Vec<_> {
        sources.into_iter().zip(answers).map(|(source, answer)| Vector { source, answer }).collect()
    };
    compare(&with_answers(expressions, answers), evaluate, &title);
    let answers = ask_templates(&templates, &scope()).unwrap();
    let sources = templates.iter().map(|parts| source_of(parts)).collect();
    compare(&with_answers(sources, answers), render, &title);
}

#[test]
fn the_recorded_expressions_use_all_of_the_language() {
    if is_update() {
        return;
    }
    let expressions = recorded_expressions();
    let answered: Vec<_> = recorded("expressions.tsv", &expressions)
        .into_iter()
        .filter(|vector| vector.answer != Answer::Thrown)
        .map(|vector| vector.source)
        .collect();
    coverage::check(&answered);
}

/// Compares every answer. A few are not comparable, for reasons that [`is_deliberate`] names.
fn compare(vectors: &[Vector], answer: fn(&str) -> Result<String, EvalError>, title: &str) {
    let (mut compared, mut skipped, mut wrong) = (0, 0, Vec::new());
    for Vector { source, answer: expected } in vectors {
        let found = answer(source);
        let is_same = match (&found, expected) {
            (Ok(found), Answer::Value(expected) | Answer::Halved(expected)) => found == expected,
            (Err(_), Answer::Thrown) => true,
            _ => false,
        };
        if is_same {
            compared += 1;
        } else if matches!(expected, Answer::Halved(_)) || found.as_ref().is_err_and(is_deliberate) {
            skipped += 1;
        } else {
            wrong.push(format!("{source}\n  JavaScript: {expected}\n  here:       {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{title}: {} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 9 * skipped, "{title}: only {compared} were compared, {skipped} were not");
}

/// The errors with which the language departs from JavaScript.
fn is_deliberate(error: &EvalError) -> bool {
    matches!(error.kind, EvalErrorKind::Identity { .. } | EvalErrorKind::InexactInteger { .. })
}

/// Evaluates as node does, inside brackets. Only arrays and objects are printed as JSON with every digit.
fn evaluate(source: &str) -> Result<String, EvalError> {
    let template = Template::parse(&format!("{{{{[{source}]}}}}"));
    let template = template.unwrap_or_else(|error| panic!("{source}: {error}"));
    let scope = scope();
    template.render_text(scope.as_object().unwrap())
}

fn render(source: &str) -> Result<String, EvalError> {
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let value = template.render(scope().as_object().unwrap())?;
    // As one element of an array, it is printed by the same rules.
    let element =
        Template::parse("{{[x]}}").unwrap().render_text(json!({ "x": value }).as_object().unwrap())?;
    Ok(element[1..element.len() - 1].to_owned())
}

/// Writes a template from its parts.
fn source_of(parts: &[Piece]) -> String {
    let part = |part: &Piece| match part {
        Piece::Text(text) => text.replace("{{", "\\{{"),
        Piece::Expression(expression) => format!("{{{{{expression}}}}}"),
    };
    parts.iter().map(part).collect()
}

fn recorded_expressions() -> Vec<String> {
    let written = written::EXPRESSIONS.iter().map(|expression| (*expression).to_owned());
    written.chain(Generator::new(RECORDED_SEED).expressions(RECORDED_EXPRESSIONS, RECORDED_LONGEST)).collect()
}

fn recorded_templates() -> Vec<Vec<Piece>> {
    Generator::new(RECORDED_SEED).templates(RECORDED_TEMPLATES)
}

fn record(file: &str, sources: &[String], answers: &[Answer]) {
    let line = |(source, answer): (&String, &Answer)| format!("{}\t{answer}\n", escaped(source));
    let lines: String = sources.iter().zip(answers).map(line).collect();
    std::fs::write(vectors_path(file), lines).unwrap();
}

fn recorded(file: &str, sources: &[String]) -> Vec<Vector> {
    let text = std::fs::read_to_string(vectors_path(file)).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert_eq!(lines.len(), sources.len(), "{file} is stale: record it anew with DALSEGNO_UPDATE_VECTORS=1");
    let vectors = lines.into_iter().zip(sources).map(|((recorded, answer), source)| {
        assert_eq!(
            recorded,
            escaped(source),
            "{file} is stale: record it anew with DALSEGNO_UPDATE_VECTORS=1"
        );
        Vector { source: source.clone(), answer: Answer::parse(answer) }
    });
    vectors.collect()
}

/// Keeps a source on its line. Nothing reads it back: the generator writes it again.
fn escaped(source: &str) -> String {
    source.replace('\n', "⏎").replace('\t', "⇥")
}

fn is_update() -> bool {
    std::env::var_os("DALSEGNO_UPDATE_VECTORS").is_some()
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// What they read. Keys are sorted, which makes `Object.keys` agree.
fn scope() -> Value {
    json!({
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
    })
}

fn vectors_path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file)
}
