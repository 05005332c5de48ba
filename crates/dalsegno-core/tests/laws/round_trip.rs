//! A state can be saved and loaded anywhere, and the run goes on as if nothing had happened.

use dalsegno_core::{AgentState, Envelope, Event, News, Timestamp, execute_agent_step};
use proptest::prelude::*;

use crate::outcomes::stray;
use crate::strategies::{cases, document_world, world};
use crate::world::{drive, packed, parsed, printed, unpacked};

fn through_message_pack(state: &AgentState) -> AgentState {
    unpacked::<Envelope>(&packed(&Envelope::new(state.clone()))).open().expect("a state of this release")
}

fn through_json(state: &AgentState) -> AgentState {
    parsed::<Envelope>(&printed(&Envelope::new(state.clone()))).open().expect("a state of this release")
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn every_reachable_state_reads_back_as_it_was_and_steps_alike(world in world(), order: u64) {
        drive(&world, order, |state| {
            let action = execute_agent_step(&world.config, state.clone()).unwrap();
            for copy in [through_message_pack(&state), through_json(&state)] {
                assert_eq!(copy, state);
                assert_eq!(execute_agent_step(&world.config, copy).unwrap(), action);
            }
            state
        });
    }

    #[test]
    fn a_run_that_is_cut_everywhere_comes_to_the_same_end(world in world(), order: u64, cuts: u64) {
        let whole = drive(&world, order, |state| state);
        let mut cut = cuts;
        let pieces = drive(&world, order, |state| {
            cut = cut.rotate_left(1);
            match cut & 3 {
                0 => state,
                1 => through_json(&state),
                _ => through_message_pack(&state),
            }
        });
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn a_run_with_documents_that_is_cut_everywhere_comes_to_the_same_end(
        world in document_world(), order: u64, cuts: u64
    ) {
        let whole = drive(&world, order, |state| state);
        let mut cut = cuts;
        let pieces = drive(&world, order, |state| {
            cut = cut.rotate_left(1);
            if cut & 1 == 0 { through_json(&state) } else { through_message_pack(&state) }
        });
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn news_read_back_as_they_were(news in stray()) {
        let event = Event { at: Timestamp::from_millis(1), news: news.1 };
        let copy: Event = unpacked(&packed(&event));
        // NaN differs from itself, so it is the bytes that are compared.
        prop_assert_eq!(packed(&copy), packed(&event));
        if !matches!(&event.news, News::Outcome { .. }) {
            prop_assert_eq!(&copy, &event);
        }
    }
}
