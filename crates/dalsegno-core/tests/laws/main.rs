//! Laws: what holds for every configuration, whatever a model, a tool or a person answers and in whatever order.
//!
//! A [`world::World`] is a configuration with an answer for each operation that it may ask for. [`world::drive`] takes
//! it to its end and shows every state on the way to the law.

mod outcomes;
mod strategies;
mod values;
mod world;

mod bounds;
mod compaction;
mod fork;
mod hostile;
mod identity;
mod order;
mod permission;
mod purity;
mod reach;
mod round_trip;
mod transcript;
