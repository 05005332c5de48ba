//! The real engine.

use crate::generate::Piece;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// What node says about an expression or a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The value as JSON with sorted keys.
    Value(String),
    /// The value, on the way to which a character was cut in half: JavaScript keeps the half, this language does not.
    Halved(String),
    Thrown,
}

impl Answer {
    /// Reads what [`Display`](std::fmt::Display) wrote.
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_prefix('~') {
            _ if text == "!" => Self::Thrown,
            Some(value) => Self::Halved(value.to_owned()),
            None => Self::Value(text.to_owned()),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => f.write_str(value),
            Self::Halved(value) => write!(f, "~{value}"),
            Self::Thrown => f.write_str("!"),
        }
    }
}

/// Evaluates all expressions, each as the only element of an array; `None` where there is no node.
pub(crate) fn ask_expressions(expressions: &[String], scope: &Value) -> Option<Vec<Answer>> {
    ask(&json!({ "scope": scope, "expressions": expressions }))
}

/// Renders all templates from their parts, by what the documentation says of values in text.
pub(crate) fn ask_templates(templates: &[Vec<Piece>], scope: &Value) -> Option<Vec<Answer>> {
    let part = |part: &Piece| match part {
        Piece::Text(text) => json!({ "text": text }),
        Piece::Expression(expression) => json!({ "expression": expression }),
    };
    let templates: Vec<Vec<_>> = templates.iter().map(|parts| parts.iter().map(part).collect()).collect();
    ask(&json!({ "scope": scope, "templates": templates }))
}

fn ask(batch: &Value) -> Option<Vec<Answer>> {
    let mut node = Command::new("node")
        .args(["-e", PROGRAM])
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    node.stdin.take().unwrap().write_all(batch.to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "node failed");
    let answers: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    Some(answers.iter().map(|answer| Answer::parse(answer)).collect())
}

/// `toWellFormed` turns halves of surrogate pairs into U+FFFD, as every encoder of UTF-8 must.
const PROGRAM: &str = r"
const {scope, expressions, templates} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
Date.toISO = milliseconds => new Date(Number(milliseconds)).toISOString();
let halved;
for (const name of ['at', 'padStart', 'slice', 'split']) {
  const method = String.prototype[name];
  String.prototype[name] = function (...all) {
    const answer = method.apply(this, all);
    halved ||= [answer].flat().some(text => text !== undefined && !text.isWellFormed());
    return answer;
  };
}
const fields = object => Object.keys(object).filter(key => object[key] !== undefined).sort();
const json = value =>
  Array.isArray(value) ? `[${value.map(json)}]`
  : value && typeof value === 'object' ? `{${fields(value).map(key => `${json(key)}:${json(value[key])}`)}}`
  : typeof value === 'string' ? JSON.stringify(value.toWellFormed())
  : JSON.stringify(value ?? null);
const shown = value =>
  typeof value === 'string' ? value
  : typeof value === 'object' && value ? json(value)
  : value === undefined || value === null || Number.isNaN(value) || Math.abs(value) === Infinity ? ''
  : String(value);
const run = expression =>
  new Function(...Object.keys(scope), `'use strict'; return [${expression}\n];`)(...Object.values(scope));
const answer = compute => {
  halved = false;
  try {
    const text = json(compute());
    return halved ? `~${text}` : text;
  } catch (error) {
    if (error instanceof ReferenceError || error instanceof SyntaxError) throw error;
    return '!';
  }
};
const render = parts =>
  parts.length === 1 && 'expression' in parts[0] ? run(parts[0].expression)[0]
  : parts.map(({text, expression}) => text ?? shown(run(expression)[0])).join('');
const answers = expressions
  ? expressions.map(expression => answer(() => run(expression)))
  : templates.map(parts => answer(() => render(parts)));
process.stdout.write(JSON.stringify(answers));
";
