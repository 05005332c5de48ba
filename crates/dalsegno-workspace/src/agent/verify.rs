//! `[tools.settings."server.tool".verify]`: how the engine finds out by itself whether a call in doubt took place.

use std::collections::BTreeSet;

use dalsegno_core::{
    AgentConfig, EffectClass, OnIndeterminate, ToolDocuments, ToolKind, ToolName, Toolbox, Verify,
};
use dalsegno_expr::{Expression, Reference, ValueTemplate};
use serde_json::json;
use toml::de::DeValue;

use super::AgentFile;
use super::expressions::json as value_of;
use crate::catalogue::CatalogueTool;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::names::list;
use crate::report::Report;
use crate::section::{Located, Section, wrong_type};
use crate::shape::{Form, Key, Shape};

/// What the settings of `verify` hold.
pub(super) static VERIFY: Shape = Shape::new(
    "`verify`",
    &[
        Key::new(
            "tool",
            Form::Name("^[^.]+\\..+$"),
            "The tool to ask: a read-only tool of a server, in process or a document that the agent may call.",
        )
        .required("add `tool = \"server.tool\"`, a tool that looks the operation up"),
        Key::new(
            "with",
            Form::Open,
            "The arguments of that tool; strings in them are templates, which read `operation.id`, \
             `operation.key`, `operation.tool` and `operation.arguments`.",
        ),
        Key::new(
            "verdict",
            Form::Expression,
            "Whether the call took place, from the tool's result: `'happened'` or `'not_happened'`; with anything \
             else a person is asked. It reads `result` and `operation`.",
        )
        .required("add `verdict = \"result.found ? 'happened' : 'unknown'\"`"),
        Key::new(
            "result",
            Form::Expression,
            "The result of the call, if it took place; `{\"settled\": \"done\"}` by default. It reads `result` \
             and `operation`.",
        ),
        Key::new("delay", Form::Duration, "The pause before each try; `1s` by default."),
        Key::new(
            "tries",
            Form::Integer(1, 10),
            "Maximum number of tries, until the verdict is `'happened'`; 3 by default.",
        ),
    ],
);

/// The longest pause before a try, in milliseconds. The run's process stays for it.
const LONGEST_DELAY_MS: u64 = 60_000;

/// Reads the table, if it is there.
pub(super) fn read(settings: &Section<'_>) -> Option<Located<Verify>> {
    let section = settings.section("verify")?;
    let span = settings.key_span("verify").unwrap_or_default();
    let report = section.report;
    section.require_all();
    let tool = section.parsed::<ToolName>("tool");
    let with = match section.get("with") {
        None => ValueTemplate::parse(&json!({})).ok(),
        Some(value) if !matches!(value.get_ref(), DeValue::Table(_)) => {
            wrong_type(report, "with", value, "a table of arguments")
        }
        Some(value) => value_of(report, "with", value, &mut |_, _| {}).and_then(|source| {
            match ValueTemplate::parse(&source) {
                Ok(template) => {
                    let paths = template.paths();
                    known(report, &value.span(), "with", &paths, &["operation"]).then_some(template)
                }
                Err(error) => {
                    let message = format!("a template of `with` cannot be parsed: {error}");
                    report.error(Code::InvalidExpression, value.span(), message);
                    None
                }
            }
        }),
    };
    let expression = |key: &str| {
        let text = section.string(key)?;
        match Expression::parse(&text.value) {
            Ok(expression) => {
                let paths = expression.paths();
                known(report, &text.span, key, &paths, &["operation", "result"]).then_some(expression)
            }
            Err(error) => {
                let message = format!("the expression of `{key}` cannot be parsed: {}", error.message);
                report.error(Code::InvalidExpression, text.span.clone(), message);
                None
            }
        }
    };
    let (verdict, result) = (expression("verdict"), expression("result"));
    let delay_ms = section.millis("delay").unwrap_or(1_000);
    if delay_ms > LONGEST_DELAY_MS {
        let at = section.get("delay").map_or_else(|| span.clone(), toml::Spanned::span);
        report.error(Code::InvalidValue, at, "`delay` is too long").label("expected at most 60s");
    }
    let tries = section.integer("tries").unwrap_or(3);
    let verify = Verify { tool: tool?.value, with: with?, verdict: verdict?, result, delay_ms, tries };
    Some(Located { value: verify, span })
}

/// Reports names that are not there, and says whether all are.
fn known(
    report: &Report,
    span: &std::ops::Range<usize>,
    key: &str,
    paths: &[Reference],
    roots: &[&str],
) -> bool {
    let unknown = paths.iter().find(|reference| !roots.contains(&reference.root.as_str()));
    if let Some(reference) = unknown {
        let message = format!("unknown name `{}` in `{key}` of `verify`", reference.root);
        report.error(Code::UnknownName, span.clone(), message).help(format!("available: {}", list(roots)));
    }
    unknown.is_none()
}

impl AgentFile {
    /// Warns of documents that ask a tool which this agent does not have: a person is asked then.
    pub(crate) fn check_verify_of_documents(
        &self,
        config: &AgentConfig,
        unknown: &BTreeSet<String>,
    ) -> Vec<Diagnostic> {
        let report = Report::new(self.source.clone());
        for (name, tool) in &config.tools.tools {
            let is_own =
                self.tools.settings.get(name).is_some_and(|settings| settings.value.verify.is_some());
            let Some(verify) = tool.verify.as_ref().filter(|_| !is_own) else { continue };
            let server = verify.tool.as_str().split('.').next();
            if server.is_some_and(|server| unknown.contains(server)) {
                continue;
            }
            let Some((problem, help)) = unfit(&verify.tool, &config.tools, &config.toolkits) else {
                continue;
            };
            let pattern = self.tools.allow.iter().find(|pattern| pattern.value.matches(name));
            report
                .warning(
                    Code::NoEffect,
                    pattern.map_or(0..0, |pattern| pattern.span.clone()),
                    format!("`verify` in the document of `{name}` asks `{}`, {problem}", verify.tool),
                )
                .label("a person is asked at once whether a call in doubt took place")
                .help(help);
        }
        report.finish().1
    }

    /// Whoever is asked must only read, be the agent's own, and not be in doubt itself.
    pub(super) fn check_verify(
        &self,
        report: &Report,
        tools: &Toolbox,
        documents: &ToolDocuments,
        unknown: &dyn Fn(&str) -> bool,
    ) {
        for (name, settings) in &self.tools.settings {
            let Some(Located { value: verify, span }) = &settings.value.verify else { continue };
            if unknown(verify.tool.as_str()) {
                continue;
            }
            if let Some((problem, help)) = unfit(&verify.tool, tools, documents) {
                report
                    .error(
                        Code::InvalidValue,
                        span.clone(),
                        format!("`verify` asks `{}`, {problem}", verify.tool),
                    )
                    .help(help);
            }
            let of = tools.tools.get(name);
            let is_never = of.is_some_and(|tool| {
                !matches!(tool.kind, ToolKind::External | ToolKind::Declarative { .. })
                    || tool.class == EffectClass::Read
                    || tool.on_indeterminate == OnIndeterminate::Report
            });
            if is_never {
                report
                    .error(Code::InvalidValue, span.clone(), format!("`verify` of `{name}` is never used"))
                    .help("remove it: `verify` is for calls in doubt, with `on_indeterminate` other than `report`");
            }
        }
    }
}

/// Why a tool cannot be asked whether another one took effect, and what to do.
fn unfit(
    name: &ToolName,
    tools: &Toolbox,
    documents: &ToolDocuments,
) -> Option<(&'static str, &'static str)> {
    match tools.tools.get(name) {
        None => Some((
            "which is not among the agent's tools",
            "add it to `allow`, or name another tool in `verify`",
        )),
        Some(tool) if !tool.only_reads(documents) => Some((
            "which does not only read",
            match tool.kind {
                ToolKind::Declarative { .. } => {
                    "name a document whose calls only read: each a `GET`, or with `\"effect\": \"read\"`, and \
                     without mail, tool, handoff, reply or `persist`"
                }
                _ => {
                    "name a read-only tool; mark a tool of a server as one with `effect = \"read\"` in its settings"
                }
            },
        )),
        Some(tool) if tool.approve || tool.has_rules() => {
            Some(("which a person must approve", "remove the tool from `approve`, or name another one"))
        }
        Some(_) => None,
    }
}

/// What a document says of its own tool.
pub(super) fn of_document(offered: &CatalogueTool) -> Option<Verify> {
    let ToolKind::Declarative { tool, .. } = &offered.kind else { return None };
    let verify = offered.document.as_ref()?.toolkit.tool(tool)?.verify()?;
    let dalsegno_tools::Verify { tool, with, verdict, result, delay_ms, tries } = verify.clone();
    Some(Verify { tool: tool.parse().ok()?, with, verdict, result, delay_ms, tries })
}
