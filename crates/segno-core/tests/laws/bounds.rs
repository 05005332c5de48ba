//! Every run ends, and within its limits.

use proptest::prelude::*;
use segno_core::*;

use crate::strategies::{cases, world};
use crate::world::drive;

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_run_ends_within_its_limits_whatever_comes(world in world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        let Limits { max_steps, max_tool_calls, on_exceeded, .. } = world.config.limits;
        let last_answer = u64::from(on_exceeded == OnExceeded::Answer && matches!(world.config.mind, Mind::Model(_)));
        prop_assert!(trace.joins.len() as u64 <= max_steps + last_answer, "{} joins", trace.joins.len());

        let recalls = usize::from(matches!(&world.config.mind, Mind::Model(mind) if mind.recall.is_some()));
        let model = matches!(&world.config.mind, Mind::Model(_));
        let calls = trace.joins.iter().skip(recalls).flatten().filter(|operation| match operation.request {
            Request::ToolCall(_) => true,
            // A plan's memory steps are no tool calls.
            Request::MemorySearch(_) | Request::MemoryCreate(_) => model,
            Request::ModelCompletion(_) => false,
        });
        let calls = calls.count() as u64;
        prop_assert!(calls <= max_tool_calls, "{calls} calls");
        prop_assert_eq!(trace.end.usage.tool_calls, calls);
    }

    #[test]
    fn a_run_says_how_it_ended(world in world(), order: u64) {
        let trace = drive(&world, order, |state| state);
        prop_assert_eq!(trace.end.error.is_none(), trace.end.status == Status::Completed);
        if let Some(error) = &trace.end.error {
            prop_assert!(!error.message.is_empty() && !error.help.is_empty());
        }
        let last = trace.states.last().unwrap();
        prop_assert_eq!(last.phase(), &Phase::Ended(trace.end));
        prop_assert!(matches!(last.decisions().last(), Some(Decision::End { .. })), "{:?}", last.decisions());
    }

    #[test]
    fn a_signal_ends_the_run_at_the_next_step(world in world(), order: u64, cancelled: bool) {
        let (signal, code) = if cancelled {
            (Signal::Cancel, RunErrorCode::Cancelled)
        } else {
            (Signal::Deadline, RunErrorCode::Timeout)
        };
        drive(&world, order, |state| {
            if !matches!(state.phase(), Phase::Ended(_)) && world.signal.is_none() {
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
