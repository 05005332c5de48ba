//! Tests of agents in Rust.
//!
//! An agent is a function of what it is asked and of what comes back from models, tools, memory and people. Here you give both, and
//! hold what it does against what you expect. Nothing is started and no model is asked: there is no network, no key, no journal and no
//! clock, and a test takes about a millisecond. `dalsegno test` runs the same cases from files, by the same code.
//!
//! ```
//! use dalsegno_test::{Agent, Agents, Given, Person, Reply, assert_trajectory, json};
//!
//! let desk = Agent::new("desk").model("default").instructions("You help the customers of a shop.").approve("refunds.create");
//! let agents = Agents::of(&desk).tool("refunds.create", "Pays money back.", json!({
//!     "type": "object", "properties": { "order": { "type": "string" }, "amount": { "type": "number" } }
//! }));
//!
//! let run = agents
//!     .case("desk", "Please pay 20 back for order 7")
//!     .reply(Reply::call("refunds.create", json!({ "order": "7", "amount": 20 })))
//!     .reply(Reply::text("20 are on their way."))
//!     .given(Given::tool("refunds.create").text("paid"))
//!     .person(Person::approves("refunds.create"))
//!     .run();
//!
//! assert_trajectory!(
//!     run,
//!     calls = [("refunds.create", json!({ "amount": 20 }))],
//!     asks = ["refunds.create"],
//!     answer = "20 are on their way.",
//! );
//! ```
//!
//! - [`Agents`] are the agents of a workspace's folder, or those that a test builds.
//! - [`Case`] says what one of them is asked and what comes back: [`Reply`] by models, [`Given`] by everything else, [`Person`] by people.
//! - [`Run`] is what happened. It can be read, held against [`Expect`] by [`assert_trajectory!`], and shown: with `insta`,
//!   `insta::assert_snapshot!(run)` keeps the whole run, without ids and times.
//! - [`assert_property!`] makes up replies, results and answers, and looks for a run that breaks what you expect. Such a run is made
//!   as simple as it gets.
//! - [`Case::any_run`] and [`any_value`] are strategies for [`proptest`], for tests that draw more than outcomes.
//!
//! What a case does not give and the run asks for fails the test, with what to write. What it gives and the run never asks for fails
//! it, too.
#![forbid(unsafe_code)]

mod agents;
mod case;
mod expect;
mod given;
mod macros;
mod person;
mod reply;
mod run;

pub use dalsegno_cases::{Made, Trajectory};
pub use dalsegno_core::{EffectClass, FailureCode, RunErrorCode, Usage};
pub use dalsegno_workspace::{Agent, Ends};
pub use proptest;
pub use serde_json::{Value, json};

pub use self::agents::{Agents, Problems};
pub use self::case::Case;
pub use self::expect::{Call, Expect};
pub use self::given::Given;
pub use self::person::Person;
pub use self::reply::Reply;
pub use self::run::{Broken, Run};

/// A strategy of values that fit a JSON Schema: arguments for a [`Reply::call`], results for a [`Given::returns`], structured input for
/// a [`Case::data`]. A value that breaks a test becomes as simple as its schema lets it be.
///
/// ```
/// use dalsegno_test::{any_value, json, proptest::prelude::*};
///
/// let schema = json!({ "type": "object", "required": ["value"], "properties": { "value": { "type": "number", "minimum": 0 } } });
/// proptest!(|(risk in any_value(&schema))| {
///     prop_assert!(risk["value"].as_f64() >= Some(0.0));
/// });
/// ```
pub fn any_value(schema: &Value) -> impl proptest::strategy::Strategy<Value = Value> + Clone + use<> {
    dalsegno_cases::values(schema.clone())
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/test-in-rust.md")]
struct Book;
