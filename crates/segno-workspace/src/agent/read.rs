//! Reads an agent file.

use std::collections::{BTreeMap, BTreeSet};

use segno_core::{
    AgentName, Limits, MemoryScope, Mind, ModelMind, ModelSettings, OnExceeded, Recall, ToolName,
};
use segno_expr::Template;
use toml::de::DeTable;

use super::expressions::{self, Readable, Steps};
use super::steps::{self, DEFAULT_HITS, HITS_MAX};
use super::{AgentFile, AgentTools, tools};
use crate::code::Code;
use crate::names::{list, nearest};
use crate::report::Report;
use crate::section::{Located, Section};
use crate::settings::ModelBinding;

type Models = BTreeMap<String, ModelBinding>;

/// What could be read of an agent file.
pub(crate) struct ReadAgent {
    /// The name, known even where the rest is not.
    pub(crate) name: Option<Located<AgentName>>,
    /// The agent, if every part of it could be read.
    pub(crate) file: Option<AgentFile>,
}

/// Reads an agent file. `models` is `None` where it is not known which models there are.
pub(crate) fn read(report: &Report, root: &DeTable<'_>, models: Option<&Models>) -> ReadAgent {
    crate::secrets::report_secrets(report, root, false);
    report.set_absent(FILE_TEXTS.iter().copied().filter(|key| !root.contains_key(*key)));
    let known: Vec<_> = FILE_TEXTS.iter().chain(FILE_TABLES).copied().collect();
    let file = Section::open(report, root, 0..0, "an agent file", &known);

    // Tables come first: a key that landed in one of them is then not missed here.
    let tools = tools::read(&file);
    let memory = file.section("memory", "`[memory]`", &["scope", "recall"]);
    let memory_scope = memory.as_ref().and_then(|memory| memory.choice("scope", SCOPES)).unwrap_or_default();
    let limits = limits(&file);
    let minded = mind(&file, memory.as_ref(), &tools, models);

    file.require("name", "add `name = \"…\"` at the top, the same as the name of the file");
    let name = file.parsed::<AgentName>("name");
    if let Some(name) = &name {
        check_file_name(report, name);
    }
    let version = file.string("version").map_or_else(|| "0.0.0".to_owned(), |version| version.value);
    let description = file.string("description").map(|description| description.value).unwrap_or_default();
    let capabilities = capabilities(&file);
    let file = name.clone().zip(minded).map(|(name, (mind, called))| AgentFile {
        name: name.value,
        version,
        description,
        capabilities,
        mind,
        tools,
        memory_scope,
        limits,
        source: report.source().clone(),
        called,
    });
    ReadAgent { name, file }
}

type Minded = (Mind, Vec<Located<ToolName>>);

fn mind(
    file: &Section<'_>,
    memory: Option<&Section<'_>>,
    tools: &AgentTools,
    models: Option<&Models>,
) -> Option<Minded> {
    let report = file.report;
    match (file.get("model"), file.get("steps")) {
        (Some(_), None) => model_mind(file, memory, models).map(|mind| (Mind::Model(mind), Vec::new())),
        (None, Some(value)) => {
            warn_of_unread(file, memory);
            if value.get_ref().as_array().is_some_and(|steps| steps.is_empty()) {
                report
                    .error(Code::ModelOrSteps, value.span(), "the agent has an empty list of steps")
                    .help("add a step, or a `[model]` in place of the list");
            }
            let read = steps::read(file)?;
            check_allowed(report, &read.called, tools);
            Some((Mind::Plan(read.plan), read.called))
        }
        (Some(model), Some(steps)) => {
            let line = report.source().position(steps.span().start).line;
            report
                .error(Code::ModelOrSteps, model.span(), "the agent has both a `[model]` and `[[steps]]`")
                .label(format!("the steps begin in line {line}"))
                .help("keep the one that decides, and move the other into an agent of its own");
            model_mind(file, memory, models);
            steps::read(file);
            None
        }
        (None, None) => {
            report
                .error(Code::ModelOrSteps, 0..0, "the agent has neither a `[model]` nor `[[steps]]`")
                .help("add `[model]` with `use = \"default\"`, or a list of `[[steps]]`");
            None
        }
    }
}

fn model_mind(
    file: &Section<'_>,
    memory: Option<&Section<'_>>,
    models: Option<&Models>,
) -> Option<ModelMind> {
    let recall = memory.and_then(|memory| memory.section("recall", "`recall`", RECALL_KEYS));
    let readable = Readable { recalled: recall.is_some(), steps: Steps::None };
    let recall = recall.map(|recall| self::recall(&recall));
    let instructions =
        file.string("instructions").map(|text| template(file, "instructions", &text, readable));
    let prompt = match file.string("prompt") {
        Some(text) => template(file, "prompt", &text, readable),
        None => Template::parse("{{request.text}}").ok(),
    };
    let model =
        file.section("model", "`[model]`", MODEL_KEYS).and_then(|model| model_settings(&model, models));
    let (instructions, recall) = (
        instructions.map_or(Some(None), |read| read.map(Some)),
        recall.map_or(Some(None), |read| read.map(Some)),
    );
    Some(ModelMind { model: model?, instructions: instructions?, prompt: prompt?, recall: recall? })
}

fn model_settings(section: &Section<'_>, models: Option<&Models>) -> Option<ModelSettings> {
    section.require("use", "add `use = \"default\"`, the name of a `[models.*]` in `segno.toml`");
    let temperature = section.number("temperature", 0.0..=2.0);
    let max_output_tokens = section.integer("max_output_tokens", 1..=u64::from(u32::MAX));
    let timeout_ms = section.millis("timeout");
    let name = section.string("use")?;
    if let Some(models) = models
        && !models.contains_key(&name.value)
    {
        let known: Vec<_> = models.keys().map(String::as_str).collect();
        let help = match nearest(&name.value, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "add a `[models.*]` to `segno.toml`".to_owned(),
            None => format!("the models of `segno.toml` are {}", list(known)),
        };
        section
            .report
            .error(Code::UnknownModel, name.span, format!("`segno.toml` has no model `{}`", name.value))
            .help(help);
        return None;
    }
    let defaults = ModelSettings::named(&name.value);
    let timeout_ms = timeout_ms.unwrap_or(defaults.timeout_ms);
    Some(ModelSettings { temperature, max_output_tokens, timeout_ms, ..defaults })
}

fn recall(section: &Section<'_>) -> Option<Recall> {
    section.require("query", "add `query = \"{{request.text}}\"`");
    let limit = section.integer("limit", 1..=HITS_MAX).unwrap_or(DEFAULT_HITS);
    let min_score = section.number("min_score", 0.0..=1.0).unwrap_or(0.0);
    // Nothing has been recalled while the query is made.
    let readable = Readable { recalled: false, steps: Steps::None };
    let query = template(section, "query", &section.string("query")?, readable)?;
    Some(Recall { query, limit, min_score })
}

fn template(
    section: &Section<'_>,
    key: &str,
    text: &Located<String>,
    readable: Readable<'_>,
) -> Option<Template> {
    expressions::template(section.report, key, text, readable)
}

fn limits(file: &Section<'_>) -> Limits {
    let defaults = Limits::default();
    let Some(section) = file.section("limits", "`[limits]`", LIMIT_KEYS) else { return defaults };
    Limits {
        max_steps: section.integer("max_steps", 1..=COUNT_MAX).unwrap_or(defaults.max_steps),
        max_tool_calls: section.integer("max_tool_calls", 0..=COUNT_MAX).unwrap_or(defaults.max_tool_calls),
        timeout_ms: section.millis("timeout").unwrap_or(defaults.timeout_ms),
        on_exceeded: section.choice("on_exceeded", ON_EXCEEDED).unwrap_or_default(),
    }
}

/// Capabilities are names like those of agents; `_` counts as `-`.
fn capabilities(file: &Section<'_>) -> BTreeSet<String> {
    let mut capabilities = BTreeSet::new();
    for capability in file.list::<String>("capabilities") {
        let name = capability.value.replace('_', "-");
        if name.parse::<AgentName>().is_ok() {
            capabilities.insert(name);
        } else {
            file.report
                .error(
                    Code::InvalidValue,
                    capability.span,
                    format!("`{}` is not a capability", capability.value),
                )
                .label("expected a name such as `incident-triage`");
        }
    }
    capabilities
}

fn check_file_name(report: &Report, name: &Located<AgentName>) {
    let file = report.source().file();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    if stem != name.value.as_str() {
        report
            .warning(
                Code::FileName,
                name.span.clone(),
                format!("the agent `{}` stands in `{stem}.toml`", name.value),
            )
            .help(format!("rename the file to `{}.toml`, so that people find it", name.value));
    }
}

/// Whatever only a model reads has no effect in a plan.
fn warn_of_unread(file: &Section<'_>, memory: Option<&Section<'_>>) {
    let recall = memory.and_then(|memory| memory.key_span("recall"));
    let unread = [
        ("instructions", file.key_span("instructions")),
        ("prompt", file.key_span("prompt")),
        ("recall", recall),
    ];
    for (key, span) in unread {
        if let Some(span) = span {
            file.report
                .warning(
                    Code::NoEffect,
                    span,
                    format!("`{key}` has no effect: the agent has steps and no model"),
                )
                .help("take it out, or give the agent a `[model]` in place of the steps");
        }
    }
}

/// A step may call only what the agent allows.
fn check_allowed(report: &Report, called: &[Located<ToolName>], tools: &AgentTools) {
    for tool in called {
        if !tools.allow.iter().any(|pattern| pattern.value.matches(&tool.value)) {
            report
                .error(
                    Code::ToolNotAllowed,
                    tool.span.clone(),
                    format!("the step calls `{}`, which the agent does not allow", tool.value),
                )
                .help(format!("add `\"{}\"` to `allow` of `[tools]`", tool.value));
        }
    }
}

/// The keys of the whole file that are no tables: below a table header they would belong to that table.
const FILE_TEXTS: &[&str] = &["name", "version", "description", "capabilities", "instructions", "prompt"];
const FILE_TABLES: &[&str] = &["model", "tools", "memory", "limits", "steps"];
const MODEL_KEYS: &[&str] = &["use", "temperature", "max_output_tokens", "timeout"];
const RECALL_KEYS: &[&str] = &["query", "limit", "min_score"];
const LIMIT_KEYS: &[&str] = &["max_steps", "max_tool_calls", "timeout", "on_exceeded"];

const SCOPES: &[(&str, MemoryScope)] = &[
    ("session", MemoryScope::Session),
    ("agent", MemoryScope::Agent),
    ("workspace", MemoryScope::Workspace),
    ("tenant", MemoryScope::Tenant),
];

const ON_EXCEEDED: &[(&str, OnExceeded)] = &[("fail", OnExceeded::Fail), ("answer", OnExceeded::Answer)];

/// A bound that is never reached is none.
const COUNT_MAX: u64 = 100_000;
