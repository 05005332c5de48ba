//! Parses templates and expressions, and checks every name that they read.

use std::collections::BTreeMap;
use std::ops::Range;

use dalsegno_expr::{Expression, ParseError, Reference, Template, ValueTemplate};
use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use crate::code::Code;
use crate::names::{list, nearest, suggestion};
use crate::report::Report;
use crate::section::{Located, wrong_type};

/// What can be read at one place of an agent file.
#[derive(Clone, Copy)]
pub(crate) struct Readable<'a> {
    /// Whether hits can be in `memory.hits` by then.
    pub(crate) recalled: bool,
    /// Which results there are.
    pub(crate) steps: Steps<'a>,
    /// Whether it is read for each item of a list.
    pub(crate) item: bool,
}

/// Which results of steps can be read.
#[derive(Clone, Copy)]
pub(crate) enum Steps<'a> {
    /// The agent has no steps.
    None,
    /// Those of the steps before `index`.
    Before { names: &'a StepNames, index: usize },
}

/// The names that steps give to what they leave behind, each with the index of the first such step and its place.
#[derive(Default)]
pub(crate) struct StepNames {
    /// The ids of steps; the branches of a `parallel` share an index.
    pub(crate) ids: BTreeMap<String, (usize, Range<usize>)>,
    /// The variables that `set` makes.
    pub(crate) variables: BTreeMap<String, (usize, Range<usize>)>,
}

/// Parses a text with `{{expression}}` inside.
pub(crate) fn template(
    report: &Report,
    key: &str,
    text: &Located<String>,
    readable: Readable<'_>,
) -> Option<Template> {
    let template = Template::parse(&text.value)
        .map_err(|error| invalid(report, &format!("the template of `{key}`"), text, &error))
        .ok()?;
    check(report, text, &template.paths(), readable);
    Some(template)
}

/// Parses a condition.
pub(crate) fn expression(
    report: &Report,
    key: &str,
    text: &Located<String>,
    readable: Readable<'_>,
) -> Option<Expression> {
    let expression = parse(report, key, text)?;
    check(report, text, &expression.paths(), readable);
    Some(expression)
}

/// Parses a condition, whatever it reads.
pub(crate) fn parse(report: &Report, key: &str, text: &Located<String>) -> Option<Expression> {
    let source = text.value.trim();
    if let Some(inner) = source.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
        report
            .error(
                Code::InvalidExpression,
                text.span.clone(),
                format!("`{key}` is an expression, not a template"),
            )
            .label("no braces are needed here")
            .help(format!("write `{}`", inner.trim()));
        return None;
    }
    Expression::parse(&text.value)
        .map_err(|error| invalid(report, &format!("the expression of `{key}`"), text, &error))
        .ok()
}

/// Parses a value whose inner strings are templates.
pub(crate) fn value_template(
    report: &Report,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    readable: Readable<'_>,
) -> Option<ValueTemplate> {
    let json = json(report, key, value, &mut |key, text| {
        template(report, key, &text, readable);
    })?;
    // An error has been reported with its place.
    ValueTemplate::parse(&json).ok()
}

/// Turns a value into JSON, and shows every string to `visit`.
pub(crate) fn json(
    report: &Report,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    visit: &mut dyn FnMut(&str, Located<String>),
) -> Option<Value> {
    match value.get_ref() {
        DeValue::String(text) => {
            visit(key, Located { value: text.to_string(), span: value.span() });
            Some(Value::String(text.to_string()))
        }
        DeValue::Boolean(boolean) => Some(Value::Bool(*boolean)),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Some(number.into()),
            Err(_) => {
                report
                    .error(Code::InvalidValue, value.span(), format!("`{key}` is too large a number"))
                    .label("expected a whole number of at most 63 bits");
                None
            }
        },
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            if number.is_none() {
                report
                    .error(Code::InvalidValue, value.span(), format!("`{key}` is not a finite number"))
                    .label("JSON has no such value");
            }
            number.map(Value::Number)
        }
        DeValue::Datetime(_) => {
            wrong_type(report, key, value, "a value that JSON has: write the date as a string")
        }
        // Every part is looked at, so that all problems are found, before the first one that failed decides.
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| json(report, key, item, visit)).collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        DeValue::Table(table) => {
            let entries: Vec<_> = table
                .iter()
                .map(|(key, value)| {
                    Some((key.get_ref().to_string(), json(report, key.get_ref(), value, visit)?))
                })
                .collect();
            entries.into_iter().collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
        }
    }
}

pub(crate) fn invalid(report: &Report, what: &str, text: &Located<String>, error: &ParseError) {
    let span = report.within(&text.span, &text.value, &error.span);
    let added =
        report.error(Code::InvalidExpression, span, format!("{what} cannot be parsed: {}", error.message));
    if let Some(help) = &error.help {
        added.help(help.clone());
    }
}

fn check(report: &Report, text: &Located<String>, references: &[Reference], readable: Readable<'_>) {
    for reference in references {
        let span = report.within(&text.span, &text.value, &reference.span);
        let member = reference.segments.first().map(String::as_str);
        match reference.root.as_str() {
            "request" => {
                check_member(report, span, "request", member, &["text", "data", "attachments", "handoff"]);
            }
            "tenant" => check_member(report, span, "tenant", member, &["name"]),
            "memory" => {
                if !readable.recalled {
                    warn_of_no_hits(report, span.clone(), readable);
                }
                check_member(report, span, "memory", member, &["hits"]);
            }
            // What is in them only a run knows.
            "user" | "workflow" | "flags" => {}
            "steps" => check_step(report, span, member, readable.steps),
            "vars" if matches!(readable.steps, Steps::Before { .. }) => {
                check_variable(report, span, member, readable.steps);
            }
            "item" | "index" if readable.item => {}
            name @ ("item" | "index") if matches!(readable.steps, Steps::Before { .. }) => {
                report
                    .error(Code::UnknownName, span, format!("`{name}` does not exist here"))
                    .label("only the operation of a `for_each` step can read it")
                    .help("add `for_each = \"…\"` to the step; its own expression and `when` are evaluated once, before the first item");
            }
            unknown => {
                report
                    .error(Code::UnknownName, span, format!("unknown name `{unknown}`"))
                    .help(suggestion(unknown, &roots(readable)));
            }
        }
    }
}

/// What can be read everywhere.
const ROOTS: [&str; 6] = ["request", "user", "tenant", "memory", "workflow", "flags"];

fn roots(readable: Readable<'_>) -> Vec<&'static str> {
    let mut roots = ROOTS.to_vec();
    if matches!(readable.steps, Steps::Before { .. }) {
        roots.extend(["steps", "vars"]);
    }
    if readable.item {
        roots.extend(["item", "index"]);
    }
    roots
}

fn check_member(report: &Report, span: Range<usize>, root: &str, member: Option<&str>, known: &[&str]) {
    if let Some(member) = member.filter(|member| !known.contains(member)) {
        report
            .error(Code::UnknownName, span, format!("`{root}` has no `{member}`"))
            .help(suggestion(member, known));
    }
}

fn warn_of_no_hits(report: &Report, span: Range<usize>, readable: Readable<'_>) {
    let help = match readable.steps {
        Steps::None => "add `recall = { query = \"{{request.text}}\" }` to `[memory]`",
        Steps::Before { .. } => "add a `memory_search` step, and read `steps.<id>`",
    };
    report
        .warning(Code::NoEffect, span, "`memory.hits` is always empty here")
        .label("nothing has been recalled")
        .help(help);
}

fn check_step(report: &Report, span: Range<usize>, id: Option<&str>, steps: Steps<'_>) {
    let Steps::Before { names: StepNames { ids, .. }, index } = steps else {
        report
            .error(Code::UnknownName, span, "unknown name `steps`")
            .label("this agent has no `[[steps]]`")
            .help(format!("available: {}", list(ROOTS)));
        return;
    };
    let Some(id) = id else { return };
    let problem = match ids.get(id) {
        Some((place, _)) if *place < index => return,
        Some((place, _)) if *place == index => {
            format!("`steps.{id}` is not available yet: {}", same_step(ids, index))
        }
        Some((_, place)) => {
            let line = report.source().position(place.start).line;
            format!("`steps.{id}` is not available yet: that step runs later, on line {line}")
        }
        None => {
            let earlier: Vec<_> =
                ids.iter().filter(|(_, (place, _))| *place < index).map(|(id, _)| id.as_str()).collect();
            let help = match nearest(id, earlier.iter().copied()) {
                Some(near) => format!("did you mean `steps.{near}`?"),
                None if earlier.is_empty() => "no step before this one has an `id`".to_owned(),
                None => format!("the steps before this one are {}", list(&earlier)),
            };
            report.error(Code::UnknownStep, span, format!("there is no step with the id `{id}`")).help(help);
            return;
        }
    };
    report
        .error(Code::LaterStep, span, problem)
        .help("read the result of an earlier step, or move the steps");
}

/// Says why a result of the step that is being read cannot be read in it.
fn same_step(ids: &BTreeMap<String, (usize, Range<usize>)>, index: usize) -> &'static str {
    if ids.values().filter(|(place, _)| *place == index).count() > 1 {
        "the steps of one `parallel` start together"
    } else {
        "it is the result of this step"
    }
}

fn check_variable(report: &Report, span: Range<usize>, name: Option<&str>, steps: Steps<'_>) {
    let (Steps::Before { names: StepNames { variables, .. }, index }, Some(name)) = (steps, name) else {
        return;
    };
    let problem = match variables.get(name) {
        Some((place, _)) if *place < index => return,
        Some((place, _)) if *place == index => {
            format!("`vars.{name}` is not available yet: this step sets it")
        }
        Some((_, place)) => {
            let line = report.source().position(place.start).line;
            format!("`vars.{name}` is not available yet: it is set later, on line {line}")
        }
        None => {
            let earlier = variables.iter().filter(|(_, (place, _))| *place < index);
            let earlier: Vec<_> = earlier.map(|(name, _)| name.as_str()).collect();
            let help = match nearest(name, earlier.iter().copied()) {
                Some(near) => format!("did you mean `vars.{near}`?"),
                None if earlier.is_empty() => {
                    format!("no step before this one sets a variable: add `set = {{ {name} = \"…\" }}`")
                }
                None => format!("the steps before this one set {}", list(&earlier)),
            };
            report.error(Code::UnknownVariable, span, format!("no step sets a variable `{name}`")).help(help);
            return;
        }
    };
    report
        .error(Code::LaterStep, span, problem)
        .help("read a variable of an earlier step, or move the steps");
}
