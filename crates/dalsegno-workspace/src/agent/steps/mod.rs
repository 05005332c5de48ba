//! Reads `[[steps]]`.

mod flow;
pub(super) mod keys;
mod operations;

pub(super) use self::flow::certain_target;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use dalsegno_core::{AgentName, ModelSettings, Plan, PlanStep, StepAction, ToolName};
use dalsegno_expr::{Expression, Template};
use toml::Spanned;
use toml::de::DeValue;

use self::keys::{ACTIONS, COMPANIONS, OPERATIONS, STEP};
use super::expressions::{self, Readable, StepNames, Steps};
use super::read::Surroundings;
use crate::code::Code;
use crate::names::list;
use crate::report::Report;
use crate::section::{Located, Section};

/// A plan, and whatever it needs.
pub(super) struct ReadPlan {
    /// The plan, if every step could be read.
    pub(super) plan: Option<Plan>,
    /// The tools that steps call.
    pub(super) called: Vec<Located<ToolName>>,
    /// What steps call them with.
    pub(super) calls: Vec<super::arguments::Call>,
    /// The tools that stand in for them.
    pub(super) stand_ins: Vec<Located<ToolName>>,
    /// The agents that run as children.
    pub(super) children: BTreeSet<AgentName>,
    /// The agents that go on in this one's place.
    pub(super) successors: BTreeSet<AgentName>,
    /// The models that are asked.
    pub(super) models: Vec<ModelSettings>,
}

pub(super) fn read(file: &Section<'_>, around: &Surroundings<'_>, own: Option<&AgentName>) -> ReadPlan {
    let report = file.report;
    let items = file.items("steps", "a list of steps, each under its own `[[steps]]`");
    let names = collect_names(report, items);
    let mut reader = Reader {
        report,
        around,
        own,
        names: &names,
        index: 0,
        is_in_item: false,
        needs: ReadPlan {
            plan: None,
            called: Vec::new(),
            calls: Vec::new(),
            stand_ins: Vec::new(),
            children: BTreeSet::new(),
            successors: BTreeSet::new(),
            models: Vec::new(),
        },
    };
    let mut steps = Vec::new();
    for (index, item) in items.iter().enumerate() {
        reader.index = index;
        steps.push(reader.step(item));
    }
    reader.check_course(items, &steps);
    let plan = steps.into_iter().collect::<Option<_>>().map(|steps| Plan { steps });
    ReadPlan { plan, ..reader.needs }
}

/// Collects the names of all steps first, so that a step that reads a later one can be told so.
fn collect_names(report: &Report, items: &[Spanned<DeValue<'_>>]) -> StepNames {
    let mut names = StepNames::default();
    for (index, item) in items.iter().enumerate() {
        let branches = item.get_ref().get("parallel").and_then(|branches| branches.get_ref().as_array());
        let branches = branches.map(|branches| branches.iter()).into_iter().flatten();
        for step in std::iter::once(item).chain(branches) {
            if let Some(id) = step.get_ref().get("id") {
                add_id(report, &mut names.ids, index, id);
            }
        }
        let Some(DeValue::Table(set)) = item.get_ref().get("set").map(Spanned::get_ref) else { continue };
        for name in set.keys() {
            names.variables.entry(name.get_ref().to_string()).or_insert((index, name.span()));
        }
    }
    names
}

fn add_id(
    report: &Report,
    ids: &mut BTreeMap<String, (usize, Range<usize>)>,
    index: usize,
    value: &Spanned<DeValue<'_>>,
) {
    let Some(id) = value.get_ref().as_str() else { return };
    match ids.entry(id.to_owned()) {
        Entry::Vacant(entry) => {
            entry.insert((index, value.span()));
        }
        Entry::Occupied(entry) => {
            let line = report.source().position(entry.get().1.start).line;
            report
                .error(Code::DuplicateStep, value.span(), format!("there are two steps with the id `{id}`"))
                .label(format!("the other one is on line {line}"))
                .help("rename one of them");
        }
    }
}

/// Reads the steps one by one.
struct Reader<'t, 'a> {
    report: &'t Report,
    around: &'a Surroundings<'a>,
    own: Option<&'a AgentName>,
    names: &'t StepNames,
    /// The step that is being read.
    index: usize,
    /// Whether what is being read runs once for each item.
    is_in_item: bool,
    needs: ReadPlan,
}

impl<'t> Reader<'t, '_> {
    fn step(&mut self, value: &'t Spanned<DeValue<'t>>) -> Option<PlanStep> {
        let section = Section::of(self.report, "steps", value, STEP.what, &STEP)?;
        let when = self.when(&section);
        let action = match self.action(&section, ACTIONS)? {
            "respond" => self.template(&section, "respond").map(StepAction::Respond),
            "output" => self.output(&section).map(StepAction::Output),
            "set" => self.set(&section).map(StepAction::Set),
            "handoff" => self.handoff(&section).map(StepAction::Handoff),
            "parallel" => self.parallel(&section).map(StepAction::Parallel),
            _ if section.has("for_each") => self.for_each(&section).map(StepAction::ForEach),
            _ => self.operation(&section).map(StepAction::Operation),
        };
        Some(PlanStep { when: when?, action: action? })
    }

    /// Finds the one thing that a step does, and refuses what belongs to another.
    fn action(&self, section: &Section<'_>, allowed: &[&'static str]) -> Option<&'static str> {
        let found: Vec<_> = ACTIONS.iter().copied().filter(|action| section.has(action)).collect();
        let [action] = found[..] else {
            let (problem, help) = if found.is_empty() {
                let help = "write what the step does, such as `tool = \"NAME\"` or `respond = \"…\"`";
                ("this step does nothing".to_owned(), help)
            } else {
                let help =
                    "write a separate step for each; put steps that run at the same time in `parallel`";
                (format!("this step does {} things: {}", found.len(), list(&found)), help)
            };
            self.report
                .error(Code::StepAction, section.span.clone(), problem)
                .label(format!("expected one of {}", list(allowed)))
                .help(help);
            return None;
        };
        for (key, actions) in COMPANIONS {
            if let Some(span) = section.key_span(key)
                && !actions.contains(&action)
            {
                let reason = match *key {
                    "id" => "it has no result to read".to_owned(),
                    _ if *actions == OPERATIONS => "it belongs to a single operation".to_owned(),
                    _ => format!("it belongs to {}", list(*actions)),
                };
                self.report
                    .error(Code::StepAction, span, format!("a `{action}` step takes no `{key}`"))
                    .label(reason);
            }
        }
        if let Some(span) = section.key_span("concurrency")
            && !section.has("for_each")
            && OPERATIONS.contains(&action)
        {
            self.report
                .error(
                    Code::StepAction,
                    span,
                    "`concurrency` sets how many items run at once, but this step has no items",
                )
                .label("it belongs to `for_each`")
                .help("add `for_each = \"…\"`, a list, or remove it");
        }
        Some(action)
    }

    /// Reads a condition; the outer `None` is a condition that cannot be read, the inner one none at all.
    fn when(&self, section: &Section<'t>) -> Option<Option<Expression>> {
        optional(section.has("when"), self.expression(section, "when"))
    }

    fn expression(&self, section: &Section<'t>, key: &str) -> Option<Expression> {
        expressions::expression(self.report, key, &section.string(key)?, self.readable())
    }

    fn template(&self, section: &Section<'t>, key: &str) -> Option<Template> {
        expressions::template(self.report, key, &section.string(key)?, self.readable())
    }

    /// A template that may be missing.
    fn optional_template(&self, section: &Section<'t>, key: &str) -> Option<Option<Template>> {
        optional(section.has(key), self.template(section, key))
    }

    fn readable(&self) -> Readable<'t> {
        Readable {
            recalled: false,
            steps: Steps::Before { names: self.names, index: self.index },
            item: self.is_in_item,
        }
    }

    /// Reads an agent by name or by capability, and where it stands.
    fn agent(&self, section: &Section<'t>, key: &str) -> Option<Located<AgentName>> {
        let value = section.get(key)?;
        let directory = self.around.directory;
        let found = match value.get_ref() {
            DeValue::String(_) => directory.agent(self.report, &section.string(key)?),
            DeValue::Table(_) => {
                let by = section.section(key)?;
                directory.capability(self.report, &by.string("capability")?)
            }
            _ => {
                return crate::section::wrong_type(
                    self.report,
                    key,
                    value,
                    "the name of an agent, or `{ capability = \"NAME\" }`",
                );
            }
        };
        found.map(|name| Located { value: name, span: value.span() })
    }
}

/// Tells an absent value, `Some(None)`, from one that could not be read, `None`.
pub(super) fn optional<T>(is_there: bool, value: Option<T>) -> Option<Option<T>> {
    if is_there { value.map(Some) } else { Some(None) }
}
