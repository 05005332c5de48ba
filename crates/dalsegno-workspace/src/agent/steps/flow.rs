//! Steps that shape the course of a plan: groups, repetitions, variables, answers, handoffs.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, Branch, ForEach, PlanCall, PlanHandoff, PlanStep, StepAction, StepId};
use dalsegno_expr::{Expression, ValueTemplate};
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{BRANCH, OPERATIONS, STEP};
use super::{Reader, optional};
use crate::agent::expressions;
use crate::code::Code;
use crate::names::list;
use crate::section::{Section, string, wrong_type};

impl<'t> Reader<'t, '_> {
    pub(super) fn parallel(&mut self, section: &Section<'t>) -> Option<Vec<Branch>> {
        let items = section.items("parallel", "a list of steps");
        if items.is_empty() {
            self.report
                .error(Code::StepAction, section.get("parallel")?.span(), "`parallel` has no steps")
                .help("add at least one step, or remove it");
            return None;
        }
        let branches: Vec<_> = items.iter().map(|item| self.branch(item)).collect();
        branches.into_iter().collect()
    }

    fn branch(&mut self, value: &'t Spanned<DeValue<'t>>) -> Option<Branch> {
        // Opened as a step: what a branch may not hold gets words of its own.
        let section = Section::of(self.report, "parallel", value, BRANCH.what, &STEP)?;
        let when = self.when(&section);
        let nested = STEP.keys.iter().map(|key| key.name).filter(|key| BRANCH.key(key).is_none());
        if let Some((key, span)) = nested.filter_map(|key| Some((key, section.key_span(key)?))).next() {
            let help = match key {
                "parallel" => "put all of the steps into one list: they start together",
                "for_each" | "concurrency" => {
                    "move it to a separate step, and set `concurrency` to run items at the same time"
                }
                _ => "move it into a step after this one",
            };
            self.report
                .error(Code::NestedStep, span, format!("`{key}` is not allowed inside `parallel`"))
                .label(format!("expected one of {}", list(OPERATIONS)))
                .help(help);
            return None;
        }
        self.action(&section, OPERATIONS)?;
        Some(Branch { operation: self.operation(&section)?, when: when? })
    }

    pub(super) fn for_each(&mut self, section: &Section<'t>) -> Option<ForEach> {
        let list = self.expression(section, "for_each");
        let concurrency = optional(section.has("concurrency"), section.integer("concurrency"));
        self.is_in_item = true;
        let operation = self.operation(section);
        self.is_in_item = false;
        Some(ForEach { list: list?, concurrency: concurrency?.unwrap_or(1), operation: operation? })
    }

    pub(super) fn set(&self, section: &Section<'t>) -> Option<BTreeMap<String, Expression>> {
        let entries = section.tables("set");
        if entries.is_empty() {
            let value = section.get("set")?;
            if value.get_ref().is_table() {
                self.report
                    .error(Code::StepAction, value.span(), "`set` sets nothing")
                    .help("write `set = { name = \"EXPRESSION\" }`, or remove it");
            }
            return None;
        }
        // Every variable is looked at, so that all problems are found.
        let read: Vec<_> = entries
            .into_iter()
            .map(|(name, value)| {
                if name.value.parse::<StepId>().is_err() {
                    self.report
                        .error(
                            Code::InvalidValue,
                            name.span,
                            format!("`{}` cannot be the name of a variable", name.value),
                        )
                        .label(
                            "expected 1 to 64 lower-case letters, digits and `_`, beginning with a letter",
                        );
                    return None;
                }
                if !value.get_ref().is_str() {
                    return wrong_type(
                        self.report,
                        &name.value,
                        value,
                        "an expression in quotes, such as `\"1\"`",
                    );
                }
                let text = string(self.report, &name.value, value)?;
                let read = expressions::expression(self.report, &name.value, &text, self.readable())?;
                Some((name.value, read))
            })
            .collect();
        read.into_iter().collect()
    }

    pub(super) fn output(&self, section: &Section<'t>) -> Option<ValueTemplate> {
        expressions::value_template(self.report, "output", section.get("output")?, self.readable())
    }

    pub(super) fn handoff(&mut self, section: &Section<'t>) -> Option<PlanHandoff> {
        let target = self.agent(section, "handoff");
        let message = self.optional_template(section, "message");
        let data = optional(section.has("with"), self.data(section));
        let target = target?;
        self.needs.successors.insert(target.value.clone());
        Some(PlanHandoff { target: target.value, message: message?, data: data? })
    }

    /// Warns of what is certain about the course of a plan: steps that are never reached, and calls without an end.
    pub(super) fn check_course(&self, items: &[Spanned<DeValue<'t>>], steps: &[Option<PlanStep>]) {
        for (index, step) in steps.iter().enumerate() {
            let Some(step) = step else { return };
            let ends = matches!(step.action, StepAction::Handoff(_));
            let always = step.when.is_none();
            if let Some(target) = certain_target(&step.action).filter(|_| always)
                && Some(target) == self.own
            {
                self.report
                    .warning(
                        Code::EndlessCall,
                        items[index].span(),
                        format!("the plan of `{target}` always calls itself"),
                    )
                    .label("only a limit ends this")
                    .help("add `when = \"…\"`, a condition that becomes false at some point");
            }
            if !ends {
                continue;
            }
            if !always {
                // From here on, the run may be over.
                return;
            }
            if let Some(next) = items.get(index + 1) {
                let line = self.report.source().position(items[index].span().start).line;
                self.report
                    .warning(Code::UnreachableStep, next.span(), "this step never runs")
                    .label(format!("the handoff on line {line} ends the run"))
                    .help("move it before the handoff, or give the handoff a `when`");
            }
            return;
        }
    }
}

/// The agent that a step without a condition always starts.
pub(crate) fn certain_target(action: &StepAction) -> Option<&AgentName> {
    let call = |call: &PlanCall| matches!(call, PlanCall::Agent { .. });
    match action {
        StepAction::Operation(operation) => match &operation.call {
            PlanCall::Agent { agent, .. } => Some(agent),
            _ => None,
        },
        StepAction::Handoff(handoff) => Some(&handoff.target),
        StepAction::Parallel(branches) => branches
            .iter()
            .filter(|branch| branch.when.is_none() && call(&branch.operation.call))
            .find_map(|branch| match &branch.operation.call {
                PlanCall::Agent { agent, .. } => Some(agent),
                _ => None,
            }),
        StepAction::ForEach(_) | StepAction::Set(_) | StepAction::Respond(_) | StepAction::Output(_) => None,
    }
}
