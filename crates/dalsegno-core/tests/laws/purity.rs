//! A step is a function: the same input gives the same answer and the same bytes.

use dalsegno_core::execute_agent_step;
use proptest::prelude::*;

use crate::strategies::{cases, document_world, world};
use crate::world::{drive, packed, printed};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_same_step_twice_gives_the_same_action_and_the_same_bytes(world in world(), order: u64) {
        drive(&world, order, |state| {
            let one = execute_agent_step(&world.config, state.clone()).unwrap();
            let other = execute_agent_step(&world.config, state.clone()).unwrap();
            assert_eq!(one, other);
            assert_eq!(packed(&one), packed(&other));
            assert_eq!(printed(&one), printed(&other));
            state
        });
    }

    #[test]
    fn the_same_step_of_documents_twice_gives_the_same_action(world in document_world(), order: u64) {
        drive(&world, order, |state| {
            let one = execute_agent_step(&world.config, state.clone()).unwrap();
            assert_eq!(packed(&one), packed(&execute_agent_step(&world.config, state.clone()).unwrap()));
            state
        });
    }

    #[test]
    fn a_whole_run_twice_is_the_same_run(world in world(), order: u64) {
        prop_assert_eq!(drive(&world, order, |state| state), drive(&world, order, |state| state));
    }

    #[test]
    fn equal_configurations_have_equal_digests_and_others_do_not(one in world(), other in world()) {
        let copy = crate::world::unpacked(&packed(&one.config));
        prop_assert_eq!(&one.config, &copy);
        prop_assert_eq!(one.config.digest(), copy.digest());
        prop_assert_eq!(one.config == other.config, one.config.digest() == other.config.digest());
    }
}
