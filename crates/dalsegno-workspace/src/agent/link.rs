//! What only the whole workspace tells: the limits of the agents that an agent calls, and what their models cost.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dalsegno_core::{AgentName, Callee, Mind, StepAction, ToolKind};

use super::steps::certain_target;
use super::{AgentFile, Unpriced};
use crate::code::Code;
use crate::names::list;
use crate::report::Report;

/// Fills in what an agent needs to know of those that it calls, and reports what does not fit together.
///
/// `is_bounded`: a daily budget bounds what is spent.
pub(crate) fn link(agents: &mut BTreeMap<AgentName, (AgentFile, &Report)>, is_bounded: bool) {
    let limits: BTreeMap<_, _> =
        agents.iter().map(|(name, (agent, _))| (name.clone(), agent.limits)).collect();
    for (agent, _) in agents.values_mut() {
        for (name, callee) in &mut agent.agents {
            if let Some(limits) = limits.get(name) {
                *callee = Callee { budget: limits.budget() };
            }
        }
        for tool in agent.agent_tools.values_mut() {
            if let ToolKind::Agent { agent } = &tool.kind {
                tool.timeout_ms = limits.get(agent).map(|limits| limits.timeout_ms);
            }
        }
    }
    check_cycles(agents);
    if agents.values().any(|(agent, _)| agent.open.cost.is_some()) {
        check_prices(agents);
    }
    if is_bounded {
        for (agent, report) in agents.values() {
            check_searches(agent, report);
        }
    }
}

/// A daily budget does not hold for searches that cost what nobody knows. That tokens have a price is checked with the models.
fn check_searches(agent: &AgentFile, report: &Report) {
    let Some(unpriced) = &agent.open.searches else { return };
    report
        .error(
            Code::MissingPrice,
            agent.open.asks.clone(),
            format!("the daily budget cannot hold: the model `{}` {}", unpriced.model, unpriced.lack()),
        )
        .help(unpriced.help());
}

/// Warns of plans that call each other whatever happens. That one calls itself, its own steps have told.
fn check_cycles(agents: &BTreeMap<AgentName, (AgentFile, &Report)>) {
    let certain: BTreeMap<&AgentName, BTreeSet<&AgentName>> =
        agents.iter().map(|(name, (agent, _))| (name, certain_targets(&agent.mind))).collect();
    for (name, (_, report)) in agents {
        // Each cycle is told once, at the first of its names.
        let (mut way, mut seen) = (vec![name], BTreeSet::from([name]));
        if !closes(name, &certain, &mut way, &mut seen)
            || way.len() < 2
            || way.iter().any(|other| *other < name)
        {
            continue;
        }
        report
            .warning(
                Code::EndlessCall,
                0..0,
                format!("the plans of {} always call each other", list(way.iter().map(|name| name.as_str()))),
            )
            .label("only a limit ends this")
            .help("add `when = \"…\"` to one of the calls, a condition that becomes false at some point");
    }
}

/// Looks for a way from the last agent of a way back to its first one, by calls that always take place.
fn closes<'a>(
    first: &AgentName,
    certain: &BTreeMap<&'a AgentName, BTreeSet<&'a AgentName>>,
    way: &mut Vec<&'a AgentName>,
    seen: &mut BTreeSet<&'a AgentName>,
) -> bool {
    let targets = way.last().and_then(|last| certain.get(last));
    for target in targets.into_iter().flatten() {
        if *target == first {
            return true;
        }
        if seen.insert(*target) {
            way.push(*target);
            if closes(first, certain, way, seen) {
                return true;
            }
            way.pop();
        }
    }
    false
}

/// The agents that a plan calls whatever happens.
fn certain_targets(mind: &Mind) -> BTreeSet<&AgentName> {
    let Mind::Plan(plan) = mind else { return BTreeSet::new() };
    let mut targets = BTreeSet::new();
    for step in &plan.steps {
        if step.when.is_none() {
            targets.extend(certain_target(&step.action));
        }
        // From here on, the run is or may be over.
        if matches!(step.action, StepAction::Handoff(_)) {
            break;
        }
    }
    targets
}

/// A bound on the cost holds for child runs, too, so none of them may use a model without a price.
fn check_prices(agents: &BTreeMap<AgentName, (AgentFile, &Report)>) {
    let mut parents: BTreeMap<&AgentName, Vec<&AgentName>> = BTreeMap::new();
    for (name, (agent, _)) in agents {
        for child in &agent.open.children {
            parents.entry(child).or_default().push(name);
        }
    }
    // From each agent with such a model upwards; the first one that an agent may run is named.
    let mut reached: BTreeMap<&AgentName, (&AgentName, &Unpriced)> = BTreeMap::new();
    let mut queue = VecDeque::new();
    for (name, (agent, _)) in agents {
        if let Some(unpriced) = &agent.open.unpriced {
            reached.insert(name, (name, unpriced));
            queue.push_back(name);
        }
    }
    while let Some(name) = queue.pop_front() {
        let found = reached[name];
        for parent in parents.get(name).into_iter().flatten() {
            if let Entry::Vacant(entry) = reached.entry(parent) {
                entry.insert(found);
                queue.push_back(parent);
            }
        }
    }
    for (name, (holder, unpriced)) in reached {
        let (agent, report) = &agents[name];
        let Some(span) = &agent.open.cost else { continue };
        let (model, lack) = (&unpriced.model, unpriced.lack());
        let whose = if holder == name {
            format!("the model `{model}` {lack}")
        } else {
            format!("`{holder}`, which may run as its child, uses the model `{model}`, which {lack}")
        };
        report
            .error(Code::MissingPrice, span.clone(), format!("the cost cannot be bounded: {whose}"))
            .help(unpriced.help());
    }
}
