//! Reads an agent file.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{AgentName, Callee, MemoryScope, Mind, ModelSettings, OnFailure, ToolName};
use toml::de::DeTable;

use super::callees::{self, Callees};
use super::directory::Directory;
use super::keys::{FILE, FILE_TEXTS};
use super::wishes::Wishes;
use super::{AgentFile, AgentTools, Open, Unpriced, limits, mind, provider_tools, steps, tools, voice};
use crate::code::Code;
use crate::place::Place;
use crate::report::Report;
use crate::section::{Located, Section};
use crate::settings::{Paths, Reach, Settings};
use crate::toolkit::Shelf;

/// What an agent file may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The workspace's folder.
    pub(crate) place: Place<'a>,
    /// What `dalsegno.toml` says; `None` where that is not known for certain.
    pub(crate) settings: Option<&'a Settings>,
    /// All agents.
    pub(crate) directory: &'a Directory,
    /// All declarative tools.
    pub(crate) shelf: &'a Shelf<'a>,
}

impl<'a> Surroundings<'a> {
    /// Where the paths of an agent file start, and what it may name.
    pub(crate) fn paths(&self, report: &'a Report) -> Paths<'a> {
        let reach =
            if report.source().is_document() { Reach::Document { tenant: None } } else { Reach::Workspace };
        Paths { report, place: self.place, reach }
    }
}

/// What could be read of an agent file.
pub(crate) struct ReadAgent {
    /// The name, known even where the rest is not.
    pub(crate) name: Option<Located<AgentName>>,
    /// The agent, if every part of it could be read.
    pub(crate) file: Option<AgentFile>,
}

/// Reads an agent file.
pub(crate) fn read(report: &Report, root: &DeTable<'_>, around: &Surroundings<'_>) -> ReadAgent {
    crate::secrets::report_secrets(report, root, false);
    report.set_absent(FILE_TEXTS.iter().copied().filter(|key| !root.contains_key(*key)));
    let file = Section::open(report, root, 0..0, FILE.what, &FILE);

    // Tables come first: a key that landed in one of them is then not missed here.
    let tools = tools::read(&file);
    around.shelf.check(report, &tools.toolkit_uses, &tools.toolkits);
    let memory = file.section("memory");
    let memory_scope = memory.as_ref().and_then(|memory| memory.choice("scope", SCOPES)).unwrap_or_default();
    if let Some(memory) = &memory {
        // Nothing else is offered, so there is nothing to remember of it.
        memory.choice("store", STORES);
    }
    let (limits, cost) = limits::read(&file);
    let own = own_name(root);
    let callees = callees::read(report, &tools, around.directory, own.as_ref());
    let minded = minded(&file, memory.as_ref(), &tools, around, own.as_ref());
    let voice = voice::read(&file, minded.as_ref().map(|minded| &minded.mind));

    file.require_all();
    let name = file.parsed::<AgentName>("name");
    if let Some(name) = &name {
        check_file_name(report, name);
    }
    let version = file.string("version").map_or_else(|| "0.0.0".to_owned(), |version| version.value);
    let description = file.string("description").map(|description| description.value).unwrap_or_default();
    let capabilities = capabilities(&file);
    let file = name.clone().zip(minded.zip(voice)).map(|(name, (minded, voice))| {
        let Callees { children, successors, tools: agent_tools } = callees;
        let children: BTreeSet<_> = children.into_iter().chain(minded.children).collect();
        let known = children.iter().cloned().chain(successors).chain(minded.successors);
        // What a model costs is known only if `dalsegno.toml` could be read.
        let models = minded.models.iter().filter(|_| around.settings.is_some());
        let mut unpriced = models.filter_map(Unpriced::of);
        let first = unpriced.next();
        let searches = first.iter().cloned().chain(unpriced).find(Unpriced::is_of_searches);
        let asks = file.key_span("model").or_else(|| file.key_span("steps")).unwrap_or_default();
        AgentFile {
            name: name.value,
            version,
            description,
            capabilities,
            mind: minded.mind,
            // Their limits are filled in when all files are read.
            agents: known.map(|name| (name, Callee { budget: limits.budget() })).collect(),
            called: minded.called,
            calls: minded.calls,
            tools,
            memory_scope,
            limits,
            voice,
            source: report.source().clone(),
            agent_tools,
            of_tenants: BTreeSet::new(),
            names: BTreeMap::new(),
            wishes: minded.wishes,
            open: Open { children, unpriced: first, searches, asks, cost },
        }
    });
    ReadAgent { name, file }
}

/// How an agent decides, and whatever that needs.
struct Minded {
    mind: Mind,
    called: Vec<Located<ToolName>>,
    calls: Vec<super::arguments::Call>,
    children: BTreeSet<AgentName>,
    successors: BTreeSet<AgentName>,
    models: Vec<ModelSettings>,
    wishes: Option<Wishes>,
}

fn minded(
    file: &Section<'_>,
    memory: Option<&Section<'_>>,
    tools: &AgentTools,
    around: &Surroundings<'_>,
    own: Option<&AgentName>,
) -> Option<Minded> {
    let report = file.report;
    match (file.get("model"), file.get("steps")) {
        (Some(_), None) => {
            let called = tools.stand_ins.clone();
            check_allowed(report, &[], &called, tools);
            let (mind, wishes) = mind::read(file, memory, tools, around)?;
            let models = std::iter::once(&mind.model).chain(&mind.fallback).cloned().collect();
            Some(Minded {
                mind: Mind::Model(mind),
                called,
                calls: Vec::new(),
                children: BTreeSet::new(),
                successors: BTreeSet::new(),
                models,
                wishes: Some(wishes),
            })
        }
        (None, Some(value)) => {
            warn_of_unread(file, memory);
            callees::warn_of_unread(report, tools, around.shelf);
            provider_tools::warn_of_unused(report, tools, &[]);
            if value.get_ref().as_array().is_some_and(|steps| steps.is_empty()) {
                report
                    .error(Code::ModelOrSteps, value.span(), "the agent has an empty list of steps")
                    .help("add a step, or a `[model]` instead of the list");
            }
            let read = steps::read(file, around, own);
            let stand_ins: Vec<_> = tools.stand_ins.iter().cloned().chain(read.stand_ins).collect();
            check_allowed(report, &read.called, &stand_ins, tools);
            Some(Minded {
                mind: Mind::Plan(read.plan?),
                called: read.called.into_iter().chain(stand_ins).collect(),
                calls: read.calls,
                children: read.children,
                successors: read.successors,
                models: read.models,
                wishes: None,
            })
        }
        (Some(model), Some(steps)) => {
            let line = report.source().position(steps.span().start).line;
            report
                .error(Code::ModelOrSteps, model.span(), "the agent has both a `[model]` and `[[steps]]`")
                .label(format!("the steps begin on line {line}"))
                .help("keep one of them, and move the other to a separate agent");
            mind::read(file, memory, tools, around);
            steps::read(file, around, own);
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

/// The name, if it is one; whether it is, is said where it is read.
fn own_name(root: &DeTable<'_>) -> Option<AgentName> {
    root.get("name")?.get_ref().as_str()?.parse().ok()
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
    if stem != name.value.as_str() && report.source().is_document() {
        report
            .error(Code::FileName, name.span.clone(), format!("the document `{stem}` has another `name`"))
            .help(format!("write `{stem}` as its `name`, or send it to the address of its name"));
    } else if stem != name.value.as_str() {
        report
            .warning(
                Code::FileName,
                name.span.clone(),
                format!("the agent `{}` is in the file `{stem}.toml`", name.value),
            )
            .help(format!("rename the file to `{}.toml`", name.value));
    }
}

/// Whatever only a model reads has no effect in a plan.
fn warn_of_unread(file: &Section<'_>, memory: Option<&Section<'_>>) {
    let recall = memory.and_then(|memory| memory.key_span("recall"));
    let unread = ["instructions", "prompt", "output", "context"];
    let unread = unread.into_iter().map(|key| (key, file.key_span(key))).chain([("recall", recall)]);
    for (key, span) in unread {
        let Some(span) = span else { continue };
        let help = match key {
            "output" => "remove it: a plan sets its structured answer with a step, `output = { … }`",
            _ => "remove it, or give the agent a `[model]` instead of the steps",
        };
        file.report
            .warning(Code::NoEffect, span, format!("`{key}` has no effect: the agent has steps and no model"))
            .help(help);
    }
}

/// A step may call only what the agent allows, and so may a failure.
fn check_allowed(
    report: &Report,
    called: &[Located<ToolName>],
    stand_ins: &[Located<ToolName>],
    tools: &AgentTools,
) {
    let called = called.iter().map(|tool| ("the step calls", tool));
    let stand_ins = stand_ins.iter().map(|tool| ("a failure falls back to", tool));
    for (problem, tool) in called.chain(stand_ins) {
        if !tools.allows(&tool.value) {
            report
                .error(
                    Code::ToolNotAllowed,
                    tool.span.clone(),
                    format!("{problem} `{}`, which the agent does not allow", tool.value),
                )
                .help(format!("add `\"{}\"` to `allow` of `[tools]`", tool.value));
        }
    }
    for (name, settings) in &tools.settings {
        if let Some(OnFailure::Fallback(other)) = &settings.value.on_failure
            && other == name
        {
            report
                .error(Code::InvalidValue, settings.span.clone(), format!("`{name}` falls back to itself"))
                .help("name another tool: `retries` sets the attempts after the first");
        }
    }
}

const SCOPES: &[(&str, MemoryScope)] = &[
    ("session", MemoryScope::Session),
    ("agent", MemoryScope::Agent),
    ("workspace", MemoryScope::Workspace),
    ("tenant", MemoryScope::Tenant),
];

const STORES: &[(&str, ())] = &[("explicit", ())];
