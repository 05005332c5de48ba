//! Reads `[[steps]]`.

use std::collections::btree_map::Entry;

use segno_core::{
    Approve, Branch, OnFailure, Plan, PlanCall, PlanOperation, PlanStep, StepAction, StepId, ToolName,
};
use segno_expr::{Expression, Template, ValueTemplate};
use serde_json::json;
use toml::Spanned;
use toml::de::DeValue;

use super::expressions::{self, Readable, StepIds, Steps};
use super::tools::on_failure;
use crate::code::Code;
use crate::names::list;
use crate::report::Report;
use crate::section::{Located, Section, wrong_type};

/// A plan, and the tools that it calls.
pub(super) struct ReadPlan {
    pub(super) plan: Plan,
    pub(super) called: Vec<Located<ToolName>>,
}

pub(super) fn read(file: &Section<'_>) -> Option<ReadPlan> {
    let report = file.report;
    let items = file.items("steps", "a list of steps, each under its own `[[steps]]`");
    let ids = collect_ids(report, items);
    let mut reader = Reader { report, ids: &ids, index: 0, called: Vec::new() };
    let mut steps = Vec::new();
    for (index, item) in items.iter().enumerate() {
        reader.index = index;
        steps.push(reader.step(item));
    }
    let steps = steps.into_iter().collect::<Option<Vec<_>>>()?;
    Some(ReadPlan { plan: Plan { steps }, called: reader.called })
}

/// Collects the ids of all steps first, so that a step that reads a later one can be told so.
fn collect_ids(report: &Report, items: &[Spanned<DeValue<'_>>]) -> StepIds {
    let mut ids = StepIds::new();
    for (index, item) in items.iter().enumerate() {
        let branches = item.get_ref().get("parallel").and_then(|branches| branches.get_ref().as_array());
        let branches = branches.map(|branches| branches.iter()).into_iter().flatten();
        for step in std::iter::once(item).chain(branches) {
            let Some(value) = step.get_ref().get("id") else { continue };
            let Some(id) = value.get_ref().as_str() else { continue };
            match ids.entry(id.to_owned()) {
                Entry::Vacant(entry) => {
                    entry.insert((index, value.span()));
                }
                Entry::Occupied(entry) => {
                    let line = report.source().position(entry.get().1.start).line;
                    report
                        .error(
                            Code::DuplicateStep,
                            value.span(),
                            format!("there are two steps with the id `{id}`"),
                        )
                        .label(format!("the other one stands in line {line}"))
                        .help("rename one of them, so that `steps.<id>` is one result");
                }
            }
        }
    }
    ids
}

/// Reads the steps one by one.
struct Reader<'t> {
    report: &'t Report,
    ids: &'t StepIds,
    /// The step that is being read.
    index: usize,
    called: Vec<Located<ToolName>>,
}

impl<'t> Reader<'t> {
    fn step(&mut self, value: &'t Spanned<DeValue<'t>>) -> Option<PlanStep> {
        let section = Section::of(self.report, "steps", value, "a step", STEP_KEYS)?;
        let when = self.when(&section);
        let action = match self.action(&section, ACTIONS)? {
            "respond" => self.template(&section, "respond").map(StepAction::Respond),
            "parallel" => self.parallel(&section).map(StepAction::Parallel),
            _ => self.operation(&section).map(StepAction::Operation),
        };
        Some(PlanStep { when: when?, action: action? })
    }

    /// Finds the one thing that a step does, and refuses what belongs to another.
    fn action(&self, section: &Section<'_>, allowed: &[&'static str]) -> Option<&'static str> {
        let found: Vec<_> = ACTIONS.iter().copied().filter(|action| section.get(action).is_some()).collect();
        let [action] = found[..] else {
            let problem = if found.is_empty() {
                "this step does nothing".to_owned()
            } else {
                format!("this step does {} things: {}", found.len(), list(&found))
            };
            self.report
                .error(Code::StepAction, section.span.clone(), problem)
                .label(format!("expected one of {}", list(allowed)))
                .help("give each thing a step of its own; what should happen at the same time stands in `parallel`");
            return None;
        };
        let unfit: &[(&str, &str)] = match action {
            "tool" => &[],
            "respond" | "parallel" => &[
                ("id", "it has no result that could be read"),
                ("on_failure", "it belongs to a single operation"),
                ("with", "it belongs to `tool`"),
                ("approve", "it belongs to `tool`"),
            ],
            _ => &[("with", "it belongs to `tool`"), ("approve", "it belongs to `tool`")],
        };
        for (key, reason) in unfit {
            if let Some(span) = section.key_span(key) {
                self.report
                    .error(Code::StepAction, span, format!("a `{action}` step takes no `{key}`"))
                    .label(*reason);
            }
        }
        Some(action)
    }

    fn parallel(&mut self, section: &Section<'t>) -> Option<Vec<Branch>> {
        let items = section.items("parallel", "a list of steps");
        if items.is_empty() {
            self.report
                .error(Code::StepAction, section.get("parallel")?.span(), "`parallel` holds no step")
                .help("put at least one step in, or take it out");
            return None;
        }
        let branches: Vec<_> = items.iter().map(|item| self.branch(item)).collect();
        branches.into_iter().collect()
    }

    fn branch(&mut self, value: &'t Spanned<DeValue<'t>>) -> Option<Branch> {
        let section = Section::of(self.report, "parallel", value, "a step of `parallel`", STEP_KEYS)?;
        let when = self.when(&section);
        let nested = ["respond", "parallel"].into_iter().find(|action| section.get(action).is_some());
        if let Some(action) = nested {
            let help = if action == "respond" {
                "move it into a step after this one"
            } else {
                "put all of them into one list: they start together anyway"
            };
            self.report
                .error(
                    Code::NestedStep,
                    section.key_span(action)?,
                    format!("`{action}` cannot stand inside `parallel`"),
                )
                .label(format!("expected one of {}", list(OPERATIONS)))
                .help(help);
            return None;
        }
        self.action(&section, OPERATIONS)?;
        Some(Branch { operation: self.operation(&section)?, when: when? })
    }

    fn operation(&mut self, section: &Section<'t>) -> Option<PlanOperation> {
        let id = optional(section.get("id").is_some(), section.parsed::<StepId>("id"));
        let failure = optional(section.get("on_failure").is_some(), on_failure(section));
        let call = if section.get("tool").is_some() {
            self.tool(section)
        } else if section.get("memory_search").is_some() {
            self.memory_search(section)
        } else {
            self.memory_create(section)
        };
        let failure: Option<OnFailure> = failure?;
        Some(PlanOperation { id: id?.map(|id| id.value), call: call?, on_failure: failure })
    }

    fn tool(&mut self, section: &Section<'t>) -> Option<PlanCall> {
        let tool = section.parsed::<ToolName>("tool");
        let with = self.arguments(section);
        let approve = self.approve(section);
        let tool = tool?;
        if let Some(step) = memory_step(tool.value.as_str()) {
            self.report
                .error(
                    Code::StepAction,
                    tool.span,
                    format!("a step calls `{}` by a key of its own", tool.value),
                )
                .help(format!("write `{step}`"));
            return None;
        }
        self.called.push(tool.clone());
        Some(PlanCall::Tool { tool: tool.value, with: with?, approve: approve? })
    }

    fn arguments(&self, section: &Section<'t>) -> Option<ValueTemplate> {
        let Some(with) = section.get("with") else {
            return ValueTemplate::parse(&json!({})).ok();
        };
        match with.get_ref() {
            DeValue::Table(_) => expressions::value_template(self.report, "with", with, self.readable()),
            _ => wrong_type(self.report, "with", with, "a table of arguments"),
        }
    }

    fn approve(&self, section: &Section<'t>) -> Option<Approve> {
        let Some(value) = section.get("approve") else { return Some(Approve::AsConfigured) };
        match value.get_ref() {
            DeValue::Boolean(true) => Some(Approve::Always),
            DeValue::Boolean(false) => Some(Approve::AsConfigured),
            DeValue::String(_) => self.expression(section, "approve").map(Approve::When),
            _ => wrong_type(
                self.report,
                "approve",
                value,
                "`true` or an expression such as `\"steps.a.value > 1\"`",
            ),
        }
    }

    fn memory_search(&self, section: &Section<'t>) -> Option<PlanCall> {
        let search = section.section("memory_search", "`memory_search`", &["query", "limit", "min_score"])?;
        search.require("query", "add `query = \"{{request.text}}\"`");
        let query = self.template(&search, "query");
        let limit = optional(search.get("limit").is_some(), search.integer("limit", 1..=HITS_MAX));
        let min_score = optional(search.get("min_score").is_some(), search.number("min_score", 0.0..=1.0));
        Some(PlanCall::MemorySearch {
            query: query?,
            limit: limit?.unwrap_or(DEFAULT_HITS),
            min_score: min_score?.unwrap_or(0.0),
        })
    }

    fn memory_create(&self, section: &Section<'t>) -> Option<PlanCall> {
        let create = section.section("memory_create", "`memory_create`", &["entity", "type", "content"])?;
        create.require("entity", "add `entity = \"…\"`, the name of what was observed");
        create.require("content", "add `content = \"…\"`, what was observed");
        let entity = self.template(&create, "entity");
        let entity_type = optional(create.get("type").is_some(), create.string("type"));
        let content = self.template(&create, "content");
        Some(PlanCall::MemoryCreate {
            entity: entity?,
            entity_type: entity_type?.map_or_else(|| "note".to_owned(), |entity_type| entity_type.value),
            content: content?,
        })
    }

    /// Reads a condition; the outer `None` is a condition that cannot be read, the inner one none at all.
    fn when(&self, section: &Section<'t>) -> Option<Option<Expression>> {
        optional(section.get("when").is_some(), self.expression(section, "when"))
    }

    fn expression(&self, section: &Section<'t>, key: &str) -> Option<Expression> {
        expressions::expression(self.report, key, &section.string(key)?, self.readable())
    }

    fn template(&self, section: &Section<'t>, key: &str) -> Option<Template> {
        expressions::template(self.report, key, &section.string(key)?, self.readable())
    }

    fn readable(&self) -> Readable<'t> {
        Readable { recalled: false, steps: Steps::Before { ids: self.ids, index: self.index } }
    }
}

/// Tells an absent value, `Some(None)`, from one that could not be read, `None`.
fn optional<T>(is_there: bool, value: Option<T>) -> Option<Option<T>> {
    if is_there { value.map(Some) } else { Some(None) }
}

fn memory_step(tool: &str) -> Option<&'static str> {
    match tool {
        "memory.search" => Some("memory_search = { query = \"…\" }"),
        "memory.create" => Some("memory_create = { entity = \"…\", content = \"…\" }"),
        _ => None,
    }
}

const STEP_KEYS: &[&str] = &[
    "id",
    "when",
    "tool",
    "with",
    "approve",
    "memory_search",
    "memory_create",
    "respond",
    "parallel",
    "on_failure",
];
const ACTIONS: &[&str] = &["tool", "memory_search", "memory_create", "respond", "parallel"];
const OPERATIONS: &[&str] = &["tool", "memory_search", "memory_create"];

/// What a person still reads; the same as the model's own default.
pub(super) const DEFAULT_HITS: u32 = 5;

/// More hits than this are not a search any more.
pub(super) const HITS_MAX: u64 = 100;
