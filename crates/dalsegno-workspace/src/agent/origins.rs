//! `unless_from` of a rule of `approve`: the sources that an argument's value must come from.

use std::collections::BTreeMap;
use std::ops::Range;

use dalsegno_core::{Origin, OriginRule, ToolName, ToolPattern, Toolbox};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::AgentTools;
use super::rules::{CallRule, check_argument};
use super::tools::plain;
use crate::code::Code;
use crate::report::Report;
use crate::section::{Located, Section, string, wrong_type};
use crate::shape::{Form, Key, Shape, TOOL_PATTERN};

/// What an argument may come from, in words.
const SOURCES: &str = "expected `user`, `tenant`, `instructions`, or tools such as `contacts.*`";

pub(super) static SOURCE_RULE: Shape = Shape::new(
    "a rule",
    &[
        Key::new("tool", TOOL_PATTERN, "The tools that the rule is about.")
            .required("add `tool = \"server.tool\"`, the tool that the rule is about"),
        Key::new("when", Form::Expression, "The condition on a call's arguments, which it reads as `args`."),
        Key::new(
            "unless_from",
            Form::Map(&Form::Either(&[LISTED, Form::Map(&LISTED)])),
            "Sources by argument, such as `args.to = [\"user\"]`: a person is asked unless the value stands in one of \
             them. Sources are `user`, `tenant`, `instructions` and tools.",
        )
        .required("add `unless_from = { args.to = [\"user\"] }`, the sources of each argument"),
    ],
);

/// The sources of an argument.
const LISTED: Form = Form::List(&Form::Text);

/// How deep tables are within `unless_from`: `args.to` needs no quotes. A longer path is written in quotes.
const DEPTH: usize = 1;

/// A rule about where the arguments of calls come from.
#[derive(Debug, Clone)]
pub struct SourceRule {
    /// The tools whose calls it is about.
    pub tool: Located<ToolPattern>,
    /// What it demands.
    pub rule: OriginRule,
    /// The condition on the arguments, where it has one, with what it reads.
    condition: Option<CallRule>,
    /// The arguments, each with its place in the file.
    arguments: Vec<Located<Vec<String>>>,
    /// The tools that are sources.
    sources: Vec<Located<ToolPattern>>,
}

impl SourceRule {
    /// Reads a table with `tool`, `unless_from`, and perhaps `when`.
    pub(super) fn read(table: &Section<'_>) -> Option<Self> {
        let report = table.report;
        let tool = table.parsed::<ToolPattern>("tool").map(plain);
        let condition = if table.has("when") { Some(CallRule::read(table, &[])?) } else { None };
        let value = table.get("unless_from")?;
        let DeValue::Table(given) = value.get_ref() else {
            return wrong_type(report, "unless_from", value, "a table of arguments with their sources");
        };
        let mut found = Found::default();
        let is_sound = found.table(report, "", given, 0);
        if found.unless_from.is_empty() && is_sound {
            report
                .error(Code::InvalidValue, value.span(), "`unless_from` names no argument".to_owned())
                .help(
                    "write `unless_from = { args.to = [\"user\"] }`, or the tool's name alone to ask always",
                );
            return None;
        }
        let when = condition.as_ref().map(|condition| condition.when.clone());
        let rule = OriginRule { when, unless_from: found.unless_from };
        let Found { arguments, sources, .. } = found;
        Some(Self { tool: tool?, rule, condition, arguments, sources }).filter(|_| is_sound)
    }

    /// Reports arguments that the tools do not have: the rule would never ask.
    pub(super) fn check(&self, report: &Report, tools: &Toolbox) {
        if let Some(condition) = &self.condition {
            condition.check(report, tools);
        }
        for (name, tool) in tools.tools.iter().filter(|(name, _)| self.tool.value.matches(name)) {
            for Located { value, span } in &self.arguments {
                check_argument(report, &self.tool.value, (name, tool), value, span.clone());
            }
        }
    }
}

/// What was read of a table so far.
#[derive(Default)]
struct Found {
    unless_from: BTreeMap<String, Vec<Origin>>,
    arguments: Vec<Located<Vec<String>>>,
    sources: Vec<Located<ToolPattern>>,
}

impl Found {
    /// Reads a table whose keys are paths, with or without quotes; says whether it is sound.
    fn table(&mut self, report: &Report, above: &str, table: &DeTable<'_>, depth: usize) -> bool {
        let mut is_sound = true;
        for (key, value) in table {
            let path = match above {
                "" => key.get_ref().to_string(),
                above => format!("{above}.{}", key.get_ref()),
            };
            is_sound &= match value.get_ref() {
                DeValue::Table(inner) if depth < DEPTH => self.table(report, &path, inner, depth + 1),
                DeValue::Array(items) => self.argument(report, &path, key.span(), items),
                _ => wrong_type::<()>(report, &path, value, "a list of sources").is_some(),
            };
        }
        is_sound
    }

    fn argument(
        &mut self,
        report: &Report,
        path: &str,
        span: Range<usize>,
        items: &[Spanned<DeValue<'_>>],
    ) -> bool {
        let mut names = path.split('.').map(str::to_owned);
        if names.next().as_deref() != Some("args") || path.split('.').any(str::is_empty) {
            report
                .error(Code::UnknownName, span, format!("`{path}` is no argument"))
                .help(format!("write it as in a condition, such as `args.{}`", path.trim_matches('.')));
            return false;
        }
        if items.is_empty() {
            report
                .error(Code::InvalidValue, span, format!("`{path}` has no source"))
                .label(SOURCES)
                .help("write the tool's name alone in `approve` to ask before each call");
            return false;
        }
        let mut origins = Vec::new();
        for item in items {
            let Some(Located { value, span }) = string(report, path, item) else { return false };
            match value.parse() {
                Ok(Origin::Tool(pattern)) => {
                    let pattern = plain(Located { value: pattern, span });
                    origins.push(Origin::Tool(pattern.value.clone()));
                    self.sources.push(pattern);
                }
                Ok(origin) => origins.push(origin),
                Err(_) => {
                    report
                        .error(Code::InvalidValue, span, format!("`{value}` is no source of values"))
                        .label(SOURCES);
                    return false;
                }
            }
        }
        self.arguments.push(Located { value: names.collect(), span });
        self.unless_from.insert(path.to_owned(), origins);
        true
    }
}

impl AgentTools {
    /// The rules by which calls of a tool need a person's approval unless their arguments come from certain sources.
    pub fn approve_from(&self, tool: &ToolName) -> impl Iterator<Item = &OriginRule> {
        self.source_rules.iter().filter(|rule| rule.tool.value.matches(tool)).map(|rule| &rule.rule)
    }

    /// The tools that rules name as sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Located<ToolPattern>> {
        self.source_rules.iter().flat_map(|rule| &rule.sources)
    }
}
