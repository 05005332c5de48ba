//! Holds what the steps of a plan give to tools against what the tools take.

use std::ops::Range;

use dalsegno_core::ToolName;
use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::{AgentFile, expressions};
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::names::{list, nearest, some};
use crate::report::Report;
use crate::section::{Located, Section};
use crate::toolkit;

/// A step's call of a tool, as it stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    tool: Located<ToolName>,
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone)]
struct Argument {
    name: Located<String>,
    at: Range<usize>,
    /// The value, where it is the same in every run: no template is in it.
    literal: Option<Value>,
}

impl Call {
    /// Reads what a step calls and with what; what is wrong with the values is told where they are read as templates.
    pub(super) fn read(section: &Section<'_>, tool: &Located<ToolName>) -> Self {
        let table = section.get("with").and_then(|with| match with.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        let arguments = table.into_iter().flat_map(|table| table.iter()).map(|(name, value)| {
            let mut is_fixed = true;
            let unheard = Report::new(section.report.source().clone());
            let literal = expressions::json(&unheard, "with", value, &mut |_, text| {
                is_fixed &= !text.value.contains("{{");
            });
            Argument {
                name: Located { value: name.get_ref().to_string(), span: name.span() },
                at: value.span(),
                literal: literal.filter(|_| is_fixed),
            }
        });
        Self { tool: tool.clone(), arguments: arguments.collect() }
    }
}

impl AgentFile {
    /// Reports arguments of steps that tools of the catalogue do not take, in so far as every run would give them.
    pub(crate) fn check_arguments(&self, catalogue: &Catalogue) -> Vec<Diagnostic> {
        let report = Report::new(self.source.clone());
        for call in &self.calls {
            if let Some(offered) = catalogue.get(&call.tool.value) {
                check(&report, call, &offered.input_schema);
            }
        }
        report.finish().1
    }
}

fn check(report: &Report, call: &Call, schema: &Value) {
    let tool = &call.tool.value;
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let known = || properties.keys().map(String::as_str);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_given = |name: &str| call.arguments.iter().any(|given| given.name.value == name);
    let missing: Vec<&str> = required.filter_map(Value::as_str).filter(|name| !is_given(name)).collect();
    if !missing.is_empty() {
        report
            .error(
                Code::MissingKey,
                call.tool.span.clone(),
                format!("the call of `{tool}` is missing {}", list(missing.iter().copied())),
            )
            .label("required by the tool")
            .help(format!("add `{} = …` to `with`", missing[0]));
    }
    for given in &call.arguments {
        let name = &given.name.value;
        let Some(property) = properties.get(name) else {
            // What a pattern allows, or a part of the schema that is put together, is not looked at.
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            if is_closed && !schema.as_object().is_some_and(|schema| schema.contains_key("patternProperties"))
            {
                let help = match nearest(name, known()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if properties.is_empty() => "remove it: the tool has no arguments".to_owned(),
                    None => format!("the tool takes {}", some(known())),
                };
                report
                    .error(
                        Code::UnknownKey,
                        given.name.span.clone(),
                        format!("`{tool}` has no argument `{name}`"),
                    )
                    .help(help);
            } else if !properties.is_empty() && nearest(name, known()).is_some() {
                let near = nearest(name, known()).unwrap_or_default();
                report
                    .warning(
                        Code::UnknownKey,
                        given.name.span.clone(),
                        format!("`{tool}` does not describe an argument `{name}`"),
                    )
                    .help(format!("did you mean `{near}`?"));
            }
            continue;
        };
        let Some(value) = &given.literal else { continue };
        if let Some(problem) = misfit(schema, property, value) {
            report
                .error(
                    Code::InvalidValue,
                    given.at.clone(),
                    format!("the argument `{name}` of `{tool}` does not match its schema: {problem}"),
                )
                .label("every call with it would be refused");
        }
    }
}

/// Why a value does not fit its part of a schema; none as well where the part cannot be judged alone.
fn misfit(schema: &Value, property: &Value, value: &Value) -> Option<String> {
    let mut alone = json!({ "properties": { "it": property } });
    for shared in ["$schema", "$defs", "definitions"] {
        if let Some(found) = schema.get(shared) {
            alone[shared] = found.clone();
        }
    }
    let validator = toolkit::validator(&alone)?;
    let it = json!({ "it": value });
    let mut problems = validator.iter_errors(&it);
    problems.next().map(|problem| problem.to_string())
}
