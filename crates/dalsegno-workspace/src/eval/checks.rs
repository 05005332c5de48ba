//! What must hold of a trial, with values of its item.

use std::collections::BTreeSet;
use std::ops::Range;

use dalsegno_core::AgentConfig;
use dalsegno_expr::{Scope, ValueTemplate};
use serde_json::{Map, Value};
use toml::de::DeTable;

use crate::agent::json;
use crate::case::{CHECKS, Expectations, check, expect};
use crate::code::Code;
use crate::names::suggestion;
use crate::report::Report;
use crate::section::{Located, Section};
use crate::source::SourceFile;

/// The keys that hold expressions, which read `item` by themselves.
const EXPRESSIONS: &[&str] = &["always", "never"];

/// What must hold of each trial: the same for all items, or with values of the item.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// What does not depend on the item.
    fixed: Expectations,
    /// What does, by its key.
    templates: Vec<(String, ValueTemplate)>,
    /// The fields of items that are read.
    fields: BTreeSet<String>,
}

/// What `always` reads.
fn readable() -> Vec<&'static str> {
    expect::READABLE.iter().copied().chain(["item"]).collect()
}

impl Checks {
    /// Reads the section; what has no template is checked at once.
    pub(super) fn read(
        report: &Report,
        table: &DeTable<'_>,
        span: Range<usize>,
        config: Option<&AgentConfig>,
    ) -> Self {
        let mut literal = table.clone();
        let mut templates = Vec::new();
        let is_rendered = |key: &str| CHECKS.key(key).is_some() && !EXPRESSIONS.contains(&key);
        for (key, value) in table {
            let key = key.get_ref().as_ref();
            if !is_rendered(key) {
                continue;
            }
            let mut is_template = false;
            let Some(json) = json(report, key, value, &mut |key, text| {
                if text.value.contains("{{") {
                    is_template = true;
                    check_roots(report, key, &text);
                }
            }) else {
                literal.remove(key);
                continue;
            };
            if is_template {
                literal.remove(key);
                // An error has been reported with its place.
                templates.extend(ValueTemplate::parse(&json).ok().map(|template| (key.to_owned(), template)));
            }
        }
        let before = report.count();
        let literals = Section::open(report, &literal, span, CHECKS.what, &CHECKS);
        let fixed = expect::checks(&literals, &readable());
        if let Some(config) = config.filter(|_| report.count() == before) {
            check::expected(report, &fixed, config);
        }
        let read = templates.iter().flat_map(|(_, template)| template.paths());
        let read = read.chain(fixed.always.iter().flat_map(|condition| condition.value.paths()));
        let of_item = read.filter(|one| one.root.as_str() == "item");
        let fields = of_item.filter_map(|one| one.segments.first().map(ToString::to_string)).collect();
        Self { fixed, templates, fields }
    }

    /// The fields of items that templates and conditions read.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    pub(super) const fn fixed(&self) -> &Expectations {
        &self.fixed
    }

    /// What must hold of a trial of this item. A key whose template comes to null does not count for it.
    ///
    /// # Errors
    /// What is wrong with a value that the item gives, in words.
    pub fn of(&self, item: &Value) -> Result<Expectations, String> {
        let mut scope = Map::new();
        scope.insert("item".to_owned(), item.clone());
        let (mut rendered, mut output) = (Map::new(), None);
        for (key, template) in &self.templates {
            let value = template.render(&scope as &dyn Scope);
            let value = value.map_err(|error| format!("`{key}` cannot be computed: {error}"))?;
            if value.is_null() {
                continue;
            }
            match key.as_str() {
                // TOML has no null, and the answer of an agent may hold one.
                "output" => output = Some(Located { value, span: 0..0 }),
                _ => drop(rendered.insert(key.clone(), without_nulls(value))),
            }
        }
        let mut expect = self.fixed.clone();
        if output.is_some() {
            expect.output = output;
        }
        if !rendered.is_empty() {
            merge(&mut expect, read(&rendered)?);
        }
        Ok(expect)
    }
}

/// Reads values as if they stood in the file.
fn read(rendered: &Map<String, Value>) -> Result<Expectations, String> {
    let text = toml::to_string(rendered).map_err(|error| error.to_string())?;
    let report = Report::new(SourceFile::new("checks".into(), text.as_str()));
    let table = report.parse(&text).unwrap_or_default();
    let section = Section::open(&report, &table, 0..0, CHECKS.what, &CHECKS);
    let expect = expect::checks(&section, &readable());
    let (_, diagnostics) = report.finish();
    match diagnostics.into_iter().find(|found| found.is_error()) {
        None => Ok(expect),
        Some(found) => Err(match found.label {
            Some(label) => format!("{}: {label}", found.message),
            None => found.message,
        }),
    }
}

/// Takes over what the item gives. Each key is in one of both.
fn merge(into: &mut Expectations, from: Expectations) {
    fn take<T>(into: &mut Option<T>, from: Option<T>) {
        if from.is_some() {
            *into = from;
        }
    }
    let Expectations { ends, error, calls, asks, answer, answer_matches, .. } = from;
    take(&mut into.ends, ends);
    take(&mut into.error, error);
    take(&mut into.calls, calls);
    take(&mut into.asks, asks);
    take(&mut into.answer, answer);
    take(&mut into.answer_matches, answer_matches);
    take(&mut into.max_steps, from.max_steps);
    take(&mut into.max_tokens, from.max_tokens);
    take(&mut into.max_cost_nano_usd, from.max_cost_nano_usd);
    into.never_calls.extend(from.never_calls);
    into.answer_contains.extend(from.answer_contains);
}

/// Checks the template of a string: it reads the item, and nothing else.
fn check_roots(report: &Report, key: &str, text: &Located<String>) {
    super::read::template(report, key, text, &["item"]);
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Reports a name that nothing gives a value.
pub(super) fn unknown_root(
    report: &Report,
    text: &Located<String>,
    reference: &dalsegno_expr::Reference,
    known: &[&str],
) {
    let span = report.within(&text.span, &text.value, &reference.span);
    report
        .error(Code::UnknownName, span, format!("unknown name `{}`", reference.root))
        .help(suggestion(&reference.root, known));
}
