//! Which part of its plan a run performs with an operation.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use dalsegno_expr::{Reference, Template, ValueTemplate};
use serde_json::Value;

use super::place::Place;
use crate::config::{AgentConfig, Mind, PlanCall, PlanOperation, StepAction};
use crate::id::OperationId;
use crate::join::Then;
use crate::sought::{index_path, member_path};
use crate::state::{AgentState, Phase};

/// A part of a plan. It is shown as messages name it: ``plan step 4 `notify`, item 3``.
#[derive(Debug, Clone, Copy)]
pub struct PlanPart<'c> {
    index: usize,
    item: Option<usize>,
    /// What the plan says of it.
    pub operation: &'c PlanOperation,
}

impl fmt::Display for PlanPart<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place::operation(self.index, self.operation);
        self.item.map_or(place, |item| place.item(item)).fmt(formatter)
    }
}

/// A path that a template of a plan reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRead {
    /// The place in the request that the template is for, such as `to` or `orders[0].id`.
    pub place: String,
    /// The template, as it is written.
    pub template: String,
    /// Where in it the path stands, in bytes.
    pub range: Range<usize>,
    /// The names of the path, such as `steps`, `contact` and `email`.
    pub path: Vec<String>,
}

impl PartRead {
    fn new(place: String, template: &str, reference: Reference) -> Self {
        let Reference { root, segments, span } = reference;
        let path = core::iter::once(root).chain(segments).collect();
        Self { place, template: template.into(), range: span, path }
    }
}

impl PlanPart<'_> {
    /// What the templates for its request read, in the order of the agent's file.
    pub fn reads(&self) -> Vec<PartRead> {
        let mut reads = Vec::new();
        match &self.operation.call {
            PlanCall::MemorySearch { query, .. } => of_text("query", query, &mut reads),
            PlanCall::MemoryCreate { entity, content, relations, .. } => {
                of_text("entity", entity, &mut reads);
                of_text("content", content, &mut reads);
                for (index, relation) in relations.iter().enumerate() {
                    of_text(&alloc::format!("relations[{index}].to"), &relation.to, &mut reads);
                }
            }
            PlanCall::MemoryTraverse { from, .. } => of_text("from", from, &mut reads),
            PlanCall::Model { instructions, prompt, .. } => {
                instructions.iter().for_each(|template| of_text("instructions", template, &mut reads));
                of_text("prompt", prompt, &mut reads);
            }
            PlanCall::Ask { question, .. } => of_text("question", question, &mut reads),
            PlanCall::Agent { text, data, .. } => {
                text.iter().for_each(|template| of_text("text", template, &mut reads));
                data.iter().for_each(|template| of_value("data", template, &mut reads));
            }
            PlanCall::Tool { with, .. } => of_value("", with, &mut reads),
            PlanCall::Wait(_) => {}
        }
        reads
    }
}

fn of_text(place: &str, template: &Template, reads: &mut Vec<PartRead>) {
    let paths = template.paths().into_iter();
    reads.extend(paths.map(|reference| PartRead::new(place.to_string(), template.source(), reference)));
}

fn of_value(place: &str, template: &ValueTemplate, reads: &mut Vec<PartRead>) {
    let root = template.source();
    for (pointer, reference) in template.located_paths() {
        if let Some(Value::String(source)) = root.pointer(&pointer) {
            reads.push(PartRead::new(below(place, &pointer, root), source, reference));
        }
    }
}

/// The place at which a JSON pointer of this value stands, below another one.
fn below(place: &str, pointer: &str, root: &Value) -> String {
    let (mut path, mut value) = (place.to_string(), Some(root));
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        (path, value) = match value {
            Some(Value::Array(items)) => {
                let index = name.parse().unwrap_or(usize::MAX);
                (index_path(&path, index), items.get(index))
            }
            other => (member_path(&path, &name), other.and_then(|value| value.get(&name))),
        };
    }
    path
}

impl AgentState {
    /// The part of its plan that a run performs with a pending operation; for what the call of a declarative tool asks for, that
    /// of the call. None for an operation that is not of a plan.
    pub fn plan_part<'c>(&self, config: &'c AgentConfig, operation: OperationId) -> Option<PlanPart<'c>> {
        let (Mind::Plan(plan), Phase::Waiting(join)) = (&config.mind, self.phase()) else { return None };
        let mut root = operation;
        while let Some(above) = self.parent_of(root) {
            root = above;
        }
        let place = join.operations.iter().position(|pending| pending.operation.id == root)?;
        match &join.then {
            Then::PlanStep { index, branches, .. } => {
                let operation = match &plan.steps.get(*index)?.action {
                    StepAction::Operation(operation) => operation,
                    StepAction::Parallel(all) => &all.get(*branches.get(place)?)?.operation,
                    _ => return None,
                };
                Some(PlanPart { index: *index, item: None, operation })
            }
            Then::ForEach { index, items, .. } => match &plan.steps.get(*index)?.action {
                StepAction::ForEach(each) => {
                    let item = Some(*items.get(place)?);
                    Some(PlanPart { index: *index, item, operation: &each.operation })
                }
                _ => None,
            },
            _ => None,
        }
    }
}
