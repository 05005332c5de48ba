//! Every run ends, and within its limits.

use dalsegno_core::*;
use proptest::prelude::*;

use crate::strategies::{cases, document_world, plan_world, world};
use crate::world::{World, drive};

/// What a run may use, by its own limits and by what its parent lets it use.
fn most(world: &World) -> Budget {
    let own = world.config.limits.budget();
    world.budget.map_or(own, |budget| own.min(budget))
}

/// Checks at every state that what is set aside fits into what is left.
fn set_aside(world: &World, order: u64) -> Result<(), TestCaseError> {
    let most = most(world);
    let trace = drive(world, order, |state| state);
    for state in &trace.states {
        // The tool calls of the step are counted as used already.
        let mut calls_left = most.max_tool_calls.saturating_sub(state.usage().tool_calls);
        let mut tokens_left = most.max_tokens.map(|most| most.saturating_sub(state.usage().tokens()));
        let cost_used = state.usage().cost_nano_usd;
        let mut cost_left = most.max_cost_nano_usd.map(|most| most.saturating_sub(cost_used));
        let mut take = |calls: u64, tokens: Option<u64>, cost: Option<u64>| {
            let left = calls_left.checked_sub(calls)?;
            calls_left = left;
            for (left, taken) in [(&mut tokens_left, tokens), (&mut cost_left, cost)] {
                if let Some(left) = left {
                    *left = left.checked_sub(taken?)?;
                }
            }
            Some(())
        };
        for pending in state.pending() {
            let taken = match &pending.operation.request {
                Request::AgentCall(call) => {
                    let Budget { max_tool_calls, max_tokens, max_cost_nano_usd } = call.budget;
                    take(max_tool_calls, max_tokens, max_cost_nano_usd)
                }
                Request::ModelCompletion(completion) => {
                    let Reserved { input_tokens, output_tokens } = completion.reserved;
                    let settings = state
                        .reading(&world.config, completion)
                        .expect("a model of the configuration")
                        .settings;
                    prop_assert!(settings.price.is_some() || most.max_cost_nano_usd.is_none());
                    let cost = settings
                        .price
                        .as_ref()
                        .map_or(0, |price| price.most_nano_usd(input_tokens, output_tokens));
                    let attempts = u64::from(pending.operation.terms.retries) + 1;
                    take(0, Some((input_tokens + output_tokens) * attempts), Some(cost * attempts))
                }
                Request::MemorySearch(_)
                | Request::MemoryCreate(_)
                | Request::MemoryTraverse(_)
                | Request::ToolCall(_)
                | Request::ApiCall(_)
                | Request::Email(_)
                | Request::Transfer(_)
                | Request::Input(_)
                | Request::Timer(_) => Some(()),
            };
            prop_assert!(taken.is_some(), "{:?} of {most:?}, used {:?}", pending.operation, state.usage());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_run_ends_within_its_limits_whatever_comes(world in world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        let Limits { max_steps, on_exceeded, .. } = world.config.limits;
        let last_answer = u64::from(on_exceeded == OnExceeded::Answer && matches!(world.config.mind, Mind::Model(_)));
        prop_assert!(trace.joins.len() as u64 <= max_steps + last_answer, "{} joins", trace.joins.len());

        let recalls = usize::from(matches!(&world.config.mind, Mind::Model(mind) if mind.recall.is_some()));
        let model = matches!(&world.config.mind, Mind::Model(_));
        let calls = trace.joins.iter().skip(recalls).flatten().filter(|operation| match operation.request {
            Request::ToolCall(_) => true,
            Request::AgentCall(_) => true,
            // A plan's memory steps are no tool calls.
            Request::MemorySearch(_)
            | Request::MemoryCreate(_)
            | Request::MemoryTraverse(_) => model,
            Request::ModelCompletion(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::Input(_)
            | Request::Timer(_) => false,
        });
        let calls = calls.count() as u64;
        prop_assert!(calls <= most(&world).max_tool_calls, "{calls} calls");
        let children = trace.joins.iter().flatten().any(|it| matches!(it.request, Request::AgentCall(_)));
        prop_assert!(trace.end.usage.tool_calls == calls || children && trace.end.usage.tool_calls > calls);
    }

    #[test]
    fn what_is_set_aside_never_exceeds_what_is_left(world in world(), order: u64) {
        set_aside(&world, order)?;
    }

    /// What a document lets agents use is taken from what its siblings may use.
    #[test]
    fn what_documents_set_aside_never_exceeds_what_is_left(world in document_world(), order: u64) {
        set_aside(&world, order)?;
    }

    #[test]
    fn a_run_with_documents_makes_no_more_calls_than_it_may(world in document_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        let calls = trace.joins.iter().flatten().filter(|operation| {
            matches!(operation.request, Request::ToolCall(_) | Request::AgentCall(_))
        });
        let calls = calls.count() as u64;
        prop_assert!(calls <= most(&world).max_tool_calls, "{calls} calls");
        prop_assert!(trace.end.usage.tool_calls >= calls, "{calls} of {:?}", trace.end.usage);
    }

    #[test]
    fn a_plan_keeps_no_more_than_it_may(world in plan_world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        for state in &trace.states {
            let kept = [state.results(), state.vars()].map(|kept| serde_json::to_string(kept).unwrap().len());
            // The core counts a number with eight bytes, and a number may take twenty-five.
            let most = world.config.limits.max_state_bytes * 4 + 100;
            prop_assert!(kept.iter().sum::<usize>() as u64 <= most, "{kept:?}");
        }
    }

    #[test]
    fn what_has_come_of_a_step_is_no_more_than_a_state_may_hold(world in world(), order: u64) {
        // An escaped character takes up to six bytes, a number twenty-five for eight; each outcome has names of its own.
        let most = world.config.limits.max_state_bytes * 8;
        drive(&world, order, |state| {
            let outcomes = state.pending().iter().filter_map(|pending| pending.outcome.as_ref());
            let bytes: u64 = outcomes.clone().map(|outcome| serde_json::to_vec(outcome).unwrap().len() as u64).sum();
            assert!(bytes <= most + 1_000 * outcomes.count() as u64, "{bytes} bytes");
            state
        });
    }

    #[test]
    fn a_list_has_a_result_for_each_item(world in plan_world(), order: u64) {
        let Mind::Plan(plan) = &world.config.mind else { unreachable!("a plan's world") };
        drive(&world, order, |state| {
            let Phase::Waiting(Join { then, operations, .. }) = state.phase() else { return state };
            if let Then::ForEach { index, concurrency, items, results, .. } = then {
                let StepAction::ForEach(each) = &plan.steps[*index].action else { panic!("another step") };
                assert_eq!(each.concurrency, *concurrency);
                assert_eq!(state.concurrency(), Some(each.concurrency.max(1)));
                assert_eq!(items.len(), operations.len());
                assert!(items.is_sorted() && items.iter().all(|item| *item < results.len()));
                for (item, pending) in items.iter().zip(operations) {
                    assert_eq!(pending.operation.ordinal, [*index as u32, *item as u32]);
                }
            }
            state
        });
    }

    #[test]
    fn a_run_says_how_it_ended(world in world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        let well = matches!(trace.end.status, Status::Completed | Status::HandedOff);
        prop_assert_eq!(trace.end.error.is_none(), well);
        if let Some(error) = &trace.end.error {
            prop_assert!(!error.message.is_empty() && !error.help.is_empty());
        }
        let last = trace.states.last().unwrap();
        match last.phase() {
            Phase::HandedOff(handoff) => {
                prop_assert!(world.config.agents.contains_key(&handoff.target));
                let named = matches!(last.decisions().last(), Some(Decision::HandOff { .. }));
                prop_assert!(named, "{:?}", last.decisions());
            }
            phase => {
                prop_assert_eq!(phase, &Phase::Ended(trace.end));
                prop_assert!(matches!(last.decisions().last(), Some(Decision::End { .. })), "{:?}", last.decisions());
            }
        }
    }

    #[test]
    fn a_signal_ends_the_run_at_the_next_step(world in world(), order: u64, cancelled: bool) {
        let (signal, code) = if cancelled {
            (Signal::Cancel, RunErrorCode::Cancelled)
        } else {
            (Signal::Deadline, RunErrorCode::Timeout)
        };
        drive(&world, order, |state| {
            if !state.is_over() && world.signal.is_none() {
                let mut stopped = state.clone();
                stopped.resume(Event::signal(Timestamp::from_millis(0), signal)).unwrap();
                let action = execute_agent_step(&world.config, stopped).unwrap();
                let error = action.response().and_then(|response| response.error.clone());
                assert_eq!(error.map(|error| error.code), Some(code));
            }
            state
        });
    }
}
