//! Nothing is asked for that the configuration does not allow, and nothing passes a gate without its answer.

use dalsegno_core::*;
use proptest::prelude::*;

use crate::outcomes::{outcome, stray};
use crate::strategies::{cases, document_world, world};
use crate::world::{World, drive};

/// Says whether the configuration lets `name` be called.
fn is_allowed(world: &World, name: &ToolName) -> bool {
    world.config.tools.tools.contains_key(name) && !world.config.tools.forbidden.contains(name)
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn no_forbidden_or_unknown_tool_is_ever_asked_for(world in world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        for operation in trace.joins.iter().flatten() {
            if let Request::ToolCall(call) = &operation.request {
                prop_assert!(is_allowed(&world, &call.tool_name), "{}", call.tool_name);
                let tool = &world.config.tools.tools[&call.tool_name];
                prop_assert_eq!(&tool.kind, &ToolKind::External);
                let asks = tool.approve || tool.asks(&call.parameters).is_some();
                prop_assert!(!asks || operation.gate == GateState::Waiting(Gate::Approval));
                prop_assert_eq!(tool.denies(&call.parameters), None);
                prop_assert_eq!(operation.terms, tool.terms());
            }
            if let Request::AgentCall(call) = &operation.request {
                prop_assert!(world.config.agents.contains_key(&call.agent), "{}", call.agent);
                let own = world.config.agents[&call.agent].budget;
                prop_assert_eq!(call.budget.min(own), call.budget);
            }
            let effect = matches!(operation.terms.class, EffectClass::Unsafe | EffectClass::Keyed);
            prop_assert!(!(world.asks_effects && effect) || operation.gate != GateState::Open);
        }
    }

    #[test]
    fn no_document_asks_for_what_its_agent_may_not(world in document_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        for operation in trace.joins.iter().flatten() {
            match &operation.request {
                Request::ToolCall(call) => {
                    prop_assert!(is_allowed(&world, &call.tool_name), "{}", call.tool_name);
                    let tool = &world.config.tools.tools[&call.tool_name];
                    let asks = tool.approve || tool.asks(&call.parameters).is_some();
                    prop_assert!(!asks || operation.gate == GateState::Waiting(Gate::Approval));
                    prop_assert_eq!(tool.denies(&call.parameters), None);
                }
                Request::AgentCall(call) => {
                    prop_assert!(world.config.agents.contains_key(&call.agent), "{}", call.agent);
                    let own = world.config.agents[&call.agent].budget;
                    prop_assert_eq!(call.budget.min(own), call.budget);
                }
                _ => {}
            }
            let effect = matches!(operation.terms.class, EffectClass::Unsafe | EffectClass::Keyed);
            prop_assert!(!(world.asks_effects && effect) || operation.gate != GateState::Open);
        }
    }

    /// Whatever name of a tool a model writes, the same tool is meant and the same permission holds.
    #[test]
    fn a_tool_is_what_it_is_by_each_of_its_names(world in world()) {
        let toolbox = &world.config.tools;
        for tool in toolbox.tools.keys().chain(&toolbox.forbidden) {
            for name in [tool.to_string(), tool.model_name(), toolbox.model_name(tool)] {
                let found = toolbox.find(&name).map(|(found, _)| found);
                prop_assert_eq!(found, Some(tool).filter(|tool| is_allowed(&world, tool)), "{}", name);
                prop_assert_eq!(toolbox.is_forbidden(&name), toolbox.forbidden.contains(tool), "{}", name);
            }
        }
    }

    #[test]
    fn an_operation_at_a_gate_takes_no_outcome_before_its_answer(world in world(), order: u64, outcome in outcome()) {
        drive(&world, order, |state| {
            let waiting = state.pending().iter().filter(|pending| pending.outcome.is_none());
            for Pending { operation, .. } in waiting {
                let GateState::Waiting(gate) = &operation.gate else { continue };
                let invalid = matches!(&outcome, Outcome::Failed(failure) if failure.code == FailureCode::InvalidArguments);
                let mut touched = state.clone();
                let taken = touched.resume(Event::outcome(Timestamp::from_millis(0), operation.id, outcome.clone()));
                assert_eq!(taken.is_ok(), invalid && *gate == Gate::Approval, "{taken:?}");
                assert!(taken.is_ok() || touched == state);
            }
            state
        });
    }

    #[test]
    fn an_approval_is_passed_by_an_approval_alone(world in world(), order: u64, strays in prop::collection::vec(stray(), 1..8)) {
        drive(&world, order, |state| {
            let mut touched = state.clone();
            for (place, news) in &strays {
                let Some(operation) = place.and_then(|place| touched.pending().get(place)).map(|it| it.operation.clone())
                else { continue };
                let approved = matches!(news, News::Answered { answer: Answer::Approved { .. }, .. });
                let news = crate::hostile::addressed(news.clone(), operation.id);
                let _ = touched.resume(Event { at: Timestamp::from_millis(0), news });
                let after = &touched.pending()[place.unwrap()];
                if operation.gate == GateState::Waiting(Gate::Approval) && after.operation.gate != operation.gate {
                    assert!(approved || after.outcome.is_some(), "{after:?}");
                }
            }
            state
        });
    }
}
