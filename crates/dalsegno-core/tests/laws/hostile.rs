//! Nothing that arrives makes the core panic, and what it refuses leaves no trace.

use dalsegno_core::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::outcomes::stray;
use crate::strategies::{cases, world};
use crate::world::{World, drive, expected, packed, parsed, printed, unpacked};

/// The same news for another operation.
pub(crate) fn addressed(news: News, operation: OperationId) -> News {
    match news {
        News::Outcome { outcome, .. } => News::Outcome { operation, outcome },
        News::Gated { gate, .. } => News::Gated { operation, gate },
        News::Answered { answer, .. } => News::Answered { operation, answer },
        News::Signalled(signal) => News::Signalled(signal),
        News::Live(news) => News::Live(news),
    }
}

/// Steps a state that may be nonsense, with news for whatever it waits for.
fn stagger(world: &World, mut state: AgentState) {
    for _ in 0..8 {
        let Ok(action) = execute_agent_step(&world.config, state) else { return };
        if action.state().is_over() {
            return;
        }
        state = action.into_state();
        if state.pending().iter().any(|pending| pending.operation.ordinal.is_empty()) || state.step() > 1_000
        {
            return;
        }
        for news in expected(world, &state) {
            let _ = state.resume(Event { at: Timestamp::from_millis(u64::MAX), news });
        }
    }
}

/// Gathers every place of a JSON document that holds no other, in order.
fn places<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| places(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| places(field, found)),
        leaf => found.push(leaf),
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn news_that_are_refused_leave_the_state_as_it_was(
        world in world(), order: u64, strays in prop::collection::vec(stray(), 1..6),
    ) {
        drive(&world, order, |state| {
            let mut touched = state.clone();
            for (place, news) in &strays {
                let known = place.and_then(|place| touched.pending().get(place)).map(|pending| pending.operation.id);
                let news = known.map_or_else(|| news.clone(), |id| addressed(news.clone(), id));
                let before = touched.clone();
                let taken = touched.resume(Event { at: Timestamp::from_millis(u64::MAX), news });
                assert!(taken.is_ok() || touched == before, "{taken:?}");
                assert!(known.is_some() || taken.is_err(), "news for nobody were taken");
            }
            state
        });
    }

    #[test]
    fn a_run_among_strays_still_ends(world in world(), order: u64, strays in prop::collection::vec(stray(), 1..6)) {
        let mut state = world.start();
        let mut joins = 0;
        loop {
            let action = execute_agent_step(&world.config, state).unwrap();
            if action.state().is_over() {
                break;
            }
            state = action.into_state();
            joins += 1;
            prop_assert!(joins <= world.config.limits.max_steps + 1);
            for (place, news) in &strays {
                let known = place.and_then(|place| state.pending().get(place)).map(|pending| pending.operation.id);
                let news = known.map_or_else(|| news.clone(), |id| addressed(news.clone(), id));
                let _ = state.resume(Event { at: Timestamp::from_millis(order), news });
            }
            // Whatever the strays did, answers and an outcome for each operation take it on.
            let missing: Vec<OperationId> = state.pending().iter().map(|pending| pending.operation.id).collect();
            for id in missing {
                let at = Timestamp::from_millis(0);
                let _ = state.resume(Event::answer(at, id, Answer::NotDone { by: None }));
                let _ = state.resume(Event::answer(at, id, Answer::Denied { reason: None, by: None }));
                let failure = Failure::new(FailureCode::Unavailable, "gone");
                let _ = state.resume(Event::outcome(at, id, Outcome::Failed(failure)));
            }
            prop_assert!(state.is_ready());
        }
    }

    #[test]
    fn a_state_with_changed_bytes_is_refused_or_steps(
        world in world(), order: u64, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let state = drive(&world, order, |state| state).states.swap_remove(0);
        let mut bytes = packed(&Envelope::new(state));
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(envelope) = rmp_serde::from_slice::<Envelope>(&bytes)
            && let Ok(state) = envelope.open()
        {
            stagger(&world, state);
        }
    }

    #[test]
    fn a_state_with_changed_values_is_refused_or_steps(
        world in world(), order: u64, which: prop::sample::Index, changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(vec![
                json!(u64::MAX), json!(u32::MAX), json!(-1), json!(0), json!(null), json!(""), json!([]), json!({}), json!(true),
            ])), 1..6),
    ) {
        let mut states = drive(&world, order, |state| state).states;
        let state = states.swap_remove(which.index(states.len()));
        let mut document: Value = parsed(&printed(&Envelope::new(state)));
        for (index, value) in changes {
            let mut found = Vec::new();
            places(&mut document, &mut found);
            let index = index.index(found.len());
            *found[index] = value;
        }
        if let Ok(envelope) = serde_json::from_value::<Envelope>(document)
            && let Ok(state) = envelope.open()
        {
            stagger(&world, state);
        }
    }

    #[test]
    fn a_state_of_another_configuration_is_refused_or_steps(one in world(), other in world(), order: u64) {
        for state in drive(&one, order, |state| state).states {
            stagger(&other, state);
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = rmp_serde::from_slice::<Envelope>(&bytes);
        let _ = rmp_serde::from_slice::<Event>(&bytes);
        let _ = serde_json::from_slice::<Envelope>(&bytes);
        let _ = serde_json::from_slice::<Event>(&bytes);
    }

    #[test]
    fn an_event_with_changed_bytes_is_refused_or_taken(
        world in world(), news in stray(), index: prop::sample::Index, byte: u8,
    ) {
        let mut bytes = packed(&Event { at: Timestamp::from_millis(1), news: news.1 });
        let index = index.index(bytes.len());
        bytes[index] = byte;
        if let Ok(event) = rmp_serde::from_slice::<Event>(&bytes) {
            let again: Event = unpacked(&packed(&event));
            let mut state = drive(&world, 0, |state| state).states.swap_remove(0);
            let before = state.clone();
            let event = match state.pending().first().map(|pending| pending.operation.id) {
                Some(id) => Event { news: addressed(event.news, id), ..again },
                None => event,
            };
            prop_assert!(state.resume(event).is_ok() || state == before);
        }
    }
}
