//! What holds for any bytes: the bodies of the fuzz targets.
//!
//! The targets call these with what libFuzzer invents; `tests/corpus.rs` of `dalsegno-expr` calls them on stable with every
//! file of the corpus. A panic is a finding.

use dalsegno_expr::{
    EvalError, EvalErrorKind, Expression, MAX_RENDER_STEPS, MAX_SOURCE_CHARS, MAX_STEPS, MAX_VALUE_DEPTH,
    ParseError, Reference, Template, ValueTemplate,
};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::LazyLock;

/// An expression is refused with a position, or gives one answer however it is wrapped.
pub fn expression(data: &[u8]) {
    let Ok(source) = str::from_utf8(data) else { return };
    let expression = match Expression::parse(source) {
        Ok(expression) => expression,
        Err(error) => return check_parse_error(source, &error),
    };
    assert!(source.chars().count() <= MAX_SOURCE_CHARS, "longer than the limit");
    assert_eq!(expression.to_string(), source, "it prints as it was written");
    check_references(source, &expression.paths());

    let answer = expression.evaluate(&*SCOPE);
    assert_eq!(expression.evaluate(&*SCOPE), answer, "the second answer differs");
    let stored = serde_json::to_string(&expression).expect("it is text");
    let restored: Expression = serde_json::from_str(&stored).expect("what parsed once parses again");
    assert_eq!(restored.evaluate(&*SCOPE), answer, "it was stored and read back");

    let truth = expression.is_true(&*SCOPE);
    match &answer {
        Ok(value) => {
            check_size(value, MAX_STEPS);
            check_truth(value, truth.as_ref().expect("what has a value has a truth"));
        }
        Err(error) => check_eval_error(source, error),
    }
    if let Ok(negated) = Expression::parse(&format!("!({source})")) {
        assert_same(&truth.map(|truth| json!(!truth)), &negated.evaluate(&*SCOPE));
    }
    if let Ok(listed) = Expression::parse(&format!("[{source}][0]")) {
        assert_same(&answer, &listed.evaluate(&*SCOPE));
    }
    check_as_template(source, &answer);
}

/// A template is refused with a position, or gives one text, which what stands around it does not change.
pub fn template(data: &[u8]) {
    let Ok(source) = str::from_utf8(data) else { return };
    let template = match Template::parse(source) {
        Ok(template) => template,
        Err(error) => return check_parse_error(source, &error),
    };
    assert_eq!(template.to_string(), source, "it prints as it was written");
    check_references(source, &template.paths());

    let (value, text) = (template.render(&*SCOPE), template.render_text(&*SCOPE));
    assert_eq!(template.render(&*SCOPE), value, "the second value differs");
    assert_eq!(template.render_text(&*SCOPE), text, "the second text differs");
    let stored = serde_json::to_string(&template).expect("it is text");
    let restored: Template = serde_json::from_str(&stored).expect("what parsed once parses again");
    assert_eq!(restored.render(&*SCOPE), value, "it was stored and read back");
    if let Err(error) = &text {
        check_eval_error(source, error);
    }
    if let Ok(text) = &text {
        assert!(text.len() <= source.len() + bytes_of(MAX_RENDER_STEPS), "longer than the limit");
        if !source.contains("{{") {
            assert_eq!(text, source, "nothing was to be replaced");
        }
    }

    let longer = Template::parse(&format!("«{source}»")).expect("the text around it changes nothing");
    let framed = text.map(|text| json!(format!("«{text}»")));
    assert_same(&framed, &longer.render(&*SCOPE));
}

/// A JSON value is refused with a pointer and a position, or is rendered to a value of its own shape.
pub fn value_template(data: &[u8]) {
    let Ok(source) = serde_json::from_slice::<Value>(data) else { return };
    let template = match ValueTemplate::parse(&source) {
        Ok(template) => template,
        Err(error) => {
            let refused = source.pointer(&error.pointer).expect("the pointer leads to a string");
            return check_parse_error(refused.as_str().unwrap_or_default(), &error.error);
        }
    };
    assert_eq!(template.source(), &source, "it is kept as it was written");
    for (pointer, reference) in template.located_paths() {
        let string = source.pointer(&pointer).and_then(Value::as_str).expect("the pointer leads to a string");
        check_references(string, &[reference]);
    }

    let rendered = template.render(&*SCOPE);
    assert_eq!(template.render(&*SCOPE), rendered, "the second value differs");
    let stored = serde_json::to_string(&template).expect("it is JSON");
    let restored: ValueTemplate = serde_json::from_str(&stored).expect("what parsed once parses again");
    assert_eq!(restored.render(&*SCOPE), rendered, "it was stored and read back");
    if let Ok(rendered) = rendered {
        check_shape(&source, &rendered);
        let nested = depth(&rendered);
        assert!(nested <= MAX_VALUE_DEPTH, "nested {nested} deep");
    }
}

/// Inside a template the same source gives the same value, and a text that says it.
fn check_as_template(source: &str, answer: &Result<Value, EvalError>) {
    let template =
        Template::parse(&format!("{{{{{source}}}}}")).expect("an expression is a template in braces");
    assert_same(answer, &template.render(&*SCOPE));
    let Ok(value) = answer else { return };
    let text = match template.render_text(&*SCOPE) {
        Ok(text) => text,
        // Text is paid for, while a value that is passed on is not.
        Err(error) => return assert!(is_limit(&error), "{error}"),
    };
    match value {
        Value::Null => assert_eq!(text, ""),
        Value::String(string) => assert_eq!(&text, string),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let read = serde_json::from_str(&text).expect("the text is JSON");
            assert!(is_same_json(&read, value), "{text} is not {value}");
        }
    }
}

fn check_parse_error(source: &str, error: &ParseError) {
    check_place(source, &error.span, error.line, error.column);
    let shown = error.to_string();
    assert!(shown.contains(&format!("column {}", error.column)), "{shown}");
}

fn check_eval_error(source: &str, error: &EvalError) {
    check_place(source, &error.span, error.line, error.column);
    assert!(!error.to_string().is_empty());
}

fn check_place(source: &str, span: &Range<usize>, line: usize, column: usize) {
    assert!(source.get(span.clone()).is_some(), "{span:?} is not a part of the source");
    let before = &source[..span.start];
    assert_eq!(line, before.matches('\n').count() + 1);
    let last_line = before.rsplit('\n').next().unwrap_or_default();
    assert_eq!(column, last_line.chars().count() + 1);
}

fn check_references(source: &str, references: &[Reference]) {
    for reference in references {
        let text = source.get(reference.span.clone()).expect("a reference is a part of the source");
        assert!(text.starts_with(&reference.root), "{text} does not start with {}", reference.root);
        let names = reference.segments.iter().chain([&reference.root]);
        for name in names {
            assert!(!["__proto__", "constructor", "prototype"].contains(&name.as_str()), "{name} is read");
        }
    }
}

fn check_truth(value: &Value, truth: &bool) {
    match value {
        Value::Null => {}
        Value::Bool(bool) => assert_eq!(truth, bool),
        Value::Number(number) => assert_eq!(*truth, number.as_f64() != Some(0.0)),
        Value::String(text) => assert_eq!(*truth, !text.is_empty()),
        Value::Array(_) | Value::Object(_) => assert!(truth),
    }
}

/// Two ways to one answer agree, unless one of them is longer and reaches a limit.
fn assert_same(left: &Result<Value, EvalError>, right: &Result<Value, EvalError>) {
    match (left, right) {
        (Ok(left), Ok(right)) => assert_eq!(left, right),
        (Err(left), Err(right)) if !is_limit(left) && !is_limit(right) => assert_eq!(left.kind, right.kind),
        (Err(error), _) | (_, Err(error)) => assert!(is_limit(error), "{error}"),
    }
}

fn is_limit(error: &EvalError) -> bool {
    matches!(error.kind, EvalErrorKind::TooManySteps { .. } | EvalErrorKind::TooDeep { .. })
}

fn is_same_json(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same_json(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, left)| right.get(name).is_some_and(|right| is_same_json(left, right)))
        }
        (left, right) => left == right,
    }
}

/// Only strings with a template in them change.
fn check_shape(source: &Value, rendered: &Value) {
    match (source, rendered) {
        (Value::String(text), rendered) if text.contains("{{") => {
            if !text.starts_with("{{") {
                assert!(rendered.is_string(), "{text} is text");
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            assert_eq!(left.len(), right.len());
            left.iter().zip(right).for_each(|(left, right)| check_shape(left, right));
        }
        (Value::Object(left), Value::Object(right)) => {
            assert!(left.keys().eq(right.keys()));
            left.values().zip(right.values()).for_each(|(left, right)| check_shape(left, right));
        }
        (left, right) => assert_eq!(left, right),
    }
}

fn check_size(value: &Value, steps: u32) {
    let (bytes, items) = size(value);
    let (scope_bytes, scope_items) = size(&Value::Object(SCOPE.clone()));
    assert!(bytes <= scope_bytes + bytes_of(steps), "{bytes} bytes of text");
    assert!(items <= scope_items + bytes_of(steps) / 64, "{items} values");
    assert!(depth(value) <= MAX_VALUE_DEPTH);
}

/// What a budget buys, by the documentation of the limits.
fn bytes_of(steps: u32) -> usize {
    steps as usize * 1024
}

/// Counts the bytes of text and the values.
fn size(value: &Value) -> (usize, usize) {
    let sum = |(bytes, items): (usize, usize), value| {
        let (more_bytes, more_items) = size(value);
        (bytes + more_bytes, items + more_items)
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (0, 1),
        Value::String(text) => (text.len(), 1),
        Value::Array(items) => items.iter().fold((0, 1), sum),
        Value::Object(fields) => fields.values().fold((fields.keys().map(String::len).sum(), 1), sum),
    }
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(|item| depth(item) + 1).max(),
        Value::Object(fields) => fields.values().map(|field| depth(field) + 1).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    inner.unwrap_or(0)
}

/// What every source reads: names of one letter, since a fuzzer finds those.
static SCOPE: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let scope = json!({
        "a": [3, "x", null, [1, [2]], {"k": "v"}, 1.5, false],
        "b": true,
        "e": "aé😀\u{fffd} x,y ",
        "f": -7.25,
        "i": 9_007_199_254_740_993_u64,
        "l": ["red", "green", "blue"],
        "n": 42,
        "o": {"k": {"k": [0, -0.0, 1e300]}, "9": "nine", "10": "ten", "b.c": 1},
        "s": "one two",
        "w": "long ".repeat(400),
        "z": null,
    });
    let Value::Object(scope) = scope else { return Map::new() };
    scope
});
