//! The order in which outcomes arrive does not matter.

use proptest::prelude::*;

use crate::strategies::{cases, world};
use crate::world::{World, drive};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_order_of_arrival_ends_in_the_same_state(world in world(), one: u64, other: u64) {
        // What a signal finds done does depend on the order.
        let world = World { signal: None, ..world };
        prop_assert_eq!(drive(&world, one, |state| state), drive(&world, other, |state| state));
    }
}
