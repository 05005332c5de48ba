//! Whole runs as documents: what was decided, what was asked, what came back, how it ended.
//!
//! Each test gives [`door::check`] an agent, a request and the news of each join; the snapshot is the run as text.

mod door;

mod declarative;
mod model;
mod model_answers;
mod model_calls;
mod model_context;
mod model_limits;
mod plan;
mod plan_failures;
mod plan_kinds;
mod plan_lists;
