//! `approve` and `deny` of `[tools]`: patterns of tools, and rules about the arguments of their calls.

use std::collections::BTreeSet;
use std::ops::Range;

use dalsegno_core::{Tool, ToolName, ToolPattern, Toolbox, first_rule_met};
use dalsegno_expr::{Expression, Reference};
use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::origins::{SOURCE_RULE, SourceRule};
use super::tools::plain;
use super::{AgentFile, AgentTools};
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::names::{list, suggestion};
use crate::report::Report;
use crate::section::{Located, Section, string, wrong_type};
use crate::shape::{Form, Key, Shape, TOOL_PATTERN};

/// An entry of `deny`: tools, or calls of them by their arguments.
pub(super) static DENIED: Form = Form::Either(&[TOOL_PATTERN, Form::Table(&RULE)]);

/// An entry of `approve`: tools, or calls of them by their arguments and where these come from.
pub(super) static ASKED: Form = Form::Either(&[TOOL_PATTERN, Form::Table(&RULE), Form::Table(&SOURCE_RULE)]);

static RULE: Shape = Shape::new(
    "a rule",
    &[
        Key::new("tool", TOOL_PATTERN, "The tools that the rule is about.")
            .required("add `tool = \"server.tool\"`, the tool that the rule is about"),
        Key::new("when", Form::Expression, "The condition on a call's arguments, which it reads as `args`.")
            .required("add `when = \"args.amount > 100\"`, the condition on the arguments"),
    ],
);

/// An entry of one of the two lists.
enum Entry {
    Rule(CallRule),
    Sources(SourceRule),
}

/// A rule about the arguments of calls.
#[derive(Debug, Clone)]
pub struct CallRule {
    /// The tools whose calls it is about.
    pub tool: Located<ToolPattern>,
    /// The condition; it reads `args`.
    pub when: Expression,
    /// What the condition reads of the arguments, each with its place in the file.
    reads: Vec<(Reference, Range<usize>)>,
}

/// What one of the two lists has.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) patterns: Vec<Located<ToolPattern>>,
    pub(super) rules: Vec<CallRule>,
    /// Rules with `unless_from`, which only `approve` has.
    pub(super) sources: Vec<SourceRule>,
}

/// Reads one of the two lists.
pub(super) fn read(section: &Section<'_>, key: &str) -> Entries {
    let mut entries = Entries::default();
    for item in section.items(key, "a list of tools and rules") {
        match item.get_ref() {
            DeValue::String(_) => entries.patterns.extend(pattern(section.report, key, item)),
            DeValue::Table(_) => match entry(section.report, key, item) {
                Some(Entry::Rule(rule)) => entries.rules.push(rule),
                Some(Entry::Sources(rule)) => entries.sources.push(rule),
                None => {}
            },
            _ => {
                let expected = "a tool such as `\"server.tool\"`, or a rule such as \
                    `{ tool = \"server.tool\", when = \"args.amount > 100\" }`";
                wrong_type::<()>(section.report, key, item, expected);
            }
        }
    }
    entries
}

fn pattern(report: &Report, key: &str, item: &Spanned<DeValue<'_>>) -> Option<Located<ToolPattern>> {
    let text = string(report, key, item)?;
    match text.value.parse() {
        Ok(value) => Some(plain(Located { value, span: text.span })),
        Err(error) => {
            report.error(Code::InvalidValue, text.span, format!("{error}"));
            None
        }
    }
}

fn entry(report: &Report, key: &str, item: &Spanned<DeValue<'_>>) -> Option<Entry> {
    let has_sources = matches!(item.get_ref(), DeValue::Table(table) if table.contains_key("unless_from"));
    if key == "approve" && has_sources {
        let table = Section::of(report, key, item, SOURCE_RULE.what, &SOURCE_RULE)?;
        return SourceRule::read(&table).map(Entry::Sources);
    }
    let table = Section::of(report, key, item, RULE.what, &RULE)?;
    let rule = CallRule::read(&table, &[])?;
    if rule.reads.is_empty()
        && let Some(when) = table.string("when")
    {
        report
            .warning(
                Code::NoEffect,
                when.span,
                "the condition reads no argument, so it is the same for each call",
            )
            .help(format!(
                "write the tool's name alone in `{key}`, or a condition such as `args.amount > 100`"
            ));
    }
    Some(Entry::Rule(rule))
}

impl CallRule {
    /// Reads a table with `tool` and `when`, whose condition reads `args` and these names.
    pub(crate) fn read(table: &Section<'_>, more: &[&str]) -> Option<Self> {
        let report = table.report;
        let tool = table.parsed::<ToolPattern>("tool").map(plain);
        let when = table.string("when")?;
        let expression = super::expressions::parse(report, "when", &when)?;
        let mut reads = Vec::new();
        let mut is_sound = true;
        for reference in expression.paths() {
            let span = report.within(&when.span, &when.value, &reference.span);
            if reference.root == "args" {
                reads.push((reference, span));
            } else if !more.contains(&reference.root.as_str()) {
                let others: String = more.iter().map(|name| format!(" and `{name}`")).collect();
                report
                    .error(Code::UnknownName, span, format!("unknown name `{}`", reference.root))
                    .label(format!("a rule reads only `args`, the arguments of the call{others}"))
                    .help("write the condition on the arguments, such as `args.amount > 100`");
                is_sound = false;
            }
        }
        Some(Self { tool: tool?, when: expression, reads }).filter(|_| is_sound)
    }

    /// A rule that stands in no file, about `args` and `approved`.
    ///
    /// # Errors
    /// When the condition reads anything else.
    pub(crate) fn new(tool: Located<ToolPattern>, when: Expression) -> Result<Self, String> {
        let span = tool.span.clone();
        let (args, others): (Vec<_>, Vec<_>) =
            when.paths().into_iter().partition(|reference| reference.root == "args");
        if let Some(other) = others.into_iter().find(|reference| reference.root != "approved") {
            return Err(format!(
                "`{when}`: unknown name `{}`; a rule reads only `args`, the arguments of the call, and `approved`",
                other.root
            ));
        }
        let reads = args.into_iter().map(|reference| (reference, span.clone())).collect();
        Ok(Self { tool: plain(tool), when, reads })
    }

    /// Reports what the rule reads and its tools do not have: such a condition would never hold.
    pub(crate) fn check(&self, report: &Report, tools: &Toolbox) {
        for (name, tool) in tools.tools.iter().filter(|(name, _)| self.tool.value.matches(name)) {
            for (reference, span) in &self.reads {
                check_argument(report, &self.tool.value, (name, tool), &reference.segments, span.clone());
            }
        }
    }
}

/// Reports an argument that a tool does not have.
pub(super) fn check_argument(
    report: &Report,
    pattern: &ToolPattern,
    (name, tool): (&ToolName, &Tool),
    way: &[String],
    span: Range<usize>,
) {
    let Some((argument, known)) = missing(&tool.input_schema, way) else { return };
    let known: Vec<&str> = known.into_iter().collect();
    let help = match pattern.as_str().contains('*') {
        true => "name the tools that have the argument, each in a rule of its own".to_owned(),
        false if known.is_empty() => "remove the rule: the tool has no arguments".to_owned(),
        false => suggestion(argument, &known),
    };
    report
        .error(Code::UnknownName, span, format!("`{name}` has no argument `{argument}`"))
        .label(format!("its arguments are {}", or_none(&list(&known))))
        .help(help);
}

/// The conditions of the rules that are about a tool.
fn about<'r>(rules: &'r [CallRule], tool: &ToolName) -> impl Iterator<Item = &'r Expression> {
    rules.iter().filter(|rule| rule.tool.value.matches(tool)).map(|rule| &rule.when)
}

impl AgentTools {
    /// The rules by which calls of a tool need a person's approval, besides those that always do.
    pub(super) fn approve_when(&self, tool: &ToolName) -> impl Iterator<Item = &Expression> {
        about(&self.approve_rules, tool)
    }

    /// The rules by which calls of a tool are refused.
    pub(super) fn deny_when(&self, tool: &ToolName) -> impl Iterator<Item = &Expression> {
        about(&self.deny_rules, tool)
    }

    /// Says by which rule a call of a tool needs a person's approval, besides those that always do.
    pub fn asks(&self, tool: &ToolName, arguments: &Value) -> Option<String> {
        first_rule_met(self.approve_when(tool), arguments)
    }

    /// Says by which rule a call of a tool is refused.
    pub fn denies(&self, tool: &ToolName, arguments: &Value) -> Option<String> {
        first_rule_met(self.deny_when(tool), arguments)
    }

    /// Says whether every call of a tool needs a person's approval.
    pub fn always_asks(&self, tool: &ToolName) -> bool {
        self.approve.iter().any(|pattern| pattern.value.matches(tool))
    }

    /// All patterns of `approve`, also those of its rules.
    pub(super) fn gates(&self) -> impl Iterator<Item = &Located<ToolPattern>> {
        let rules = self.approve_rules.iter().map(|rule| &rule.tool);
        self.approve.iter().chain(rules).chain(self.source_rules.iter().map(|rule| &rule.tool))
    }
}

impl AgentFile {
    /// Reports patterns of `deny` that name nothing: a misspelt one would leave a tool in use.
    pub(super) fn check_denied(
        &self,
        report: &Report,
        catalogue: &Catalogue,
        is_unknown: &dyn Fn(&str) -> bool,
    ) {
        for pattern in self.tools.deny.iter().filter(|pattern| !is_unknown(pattern.value.as_str())) {
            let mut tools = catalogue.keys().chain(&self.of_tenants).chain(self.agent_tools.keys());
            let names_agents = super::callees::names_agents(&pattern.value);
            if !names_agents && !tools.any(|tool| pattern.value.matches(tool)) {
                super::resolve::unknown(report, pattern.span.clone(), pattern.value.as_str(), catalogue);
            }
        }
    }

    /// Reports rules that read arguments which their tools do not have: such a condition would never hold.
    pub(super) fn check_rules(&self, report: &Report, tools: &Toolbox) {
        for rule in self.tools.approve_rules.iter().chain(&self.tools.deny_rules) {
            rule.check(report, tools);
        }
        for rule in &self.tools.source_rules {
            rule.check(report, tools);
        }
    }
}

/// The first name on a way into arguments that their schema does not have, and those that it has there.
fn missing<'s>(schema: &'s Value, way: &'s [String]) -> Option<(&'s str, BTreeSet<&'s str>)> {
    let (first, rest) = way.split_first()?;
    let properties = schema.get("properties").and_then(Value::as_object);
    // Where it is composed of others, or takes any key, a name may be right that is not listed.
    let is_open =
        ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"].iter().any(|key| schema.get(key).is_some())
            || schema.get("additionalProperties").is_some_and(|rest| *rest != Value::Bool(false))
            || schema.get("type").is_some_and(|kind| kind != "object");
    match properties.and_then(|properties| properties.get(first)) {
        Some(inner) if inner.get("properties").is_some() => missing(inner, rest),
        Some(_) => None,
        None if is_open => None,
        None => Some((first, properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect())),
    }
}

fn or_none(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}
