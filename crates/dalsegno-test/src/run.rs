//! What happened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_cases::{End, Failure, Made, Trajectory};
use dalsegno_core::{RunErrorCode, Usage};
use dalsegno_workspace::{Ends, Located};
use serde_json::Value;

use crate::agents::Problems;
use crate::case::Built;
use crate::expect::Expect;

/// What happened in a case.
///
/// As text it is the whole run, step by step, without ids and times: two runs that do the same have the same text. So
/// `insta::assert_snapshot!(run)` keeps it, and shows how it differs after a change.
#[derive(Clone)]
pub struct Run {
    built: Arc<Built>,
    trajectory: Trajectory,
}

/// A run that breaks what must hold of all runs, described.
#[derive(Clone, PartialEq, Eq)]
pub struct Broken(String);

impl Run {
    pub(crate) fn new(built: &Arc<Built>, trajectory: Trajectory) -> Self {
        Self { built: Arc::clone(built), trajectory }
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&str> {
        self.trajectory.answer()
    }

    /// The structured answer, if there is one.
    pub fn output(&self) -> Option<&Value> {
        self.trajectory.end.as_ref()?.response()?.output.as_ref()
    }

    /// How the run ended; nothing where it could not continue, since it asked for something that has no outcome.
    pub fn ends(&self) -> Option<Ends> {
        let kind = self.trajectory.end.as_ref()?.kind();
        Ends::ALL.into_iter().find(|end| end.as_str() == kind)
    }

    /// The error that ended the run, if one did.
    pub fn error(&self) -> Option<RunErrorCode> {
        self.trajectory.end.as_ref().and_then(End::response)?.error.as_ref().map(|error| error.code)
    }

    /// The calls that took place, in order.
    pub fn calls(&self) -> &[Made] {
        &self.trajectory.calls
    }

    /// What people were asked about, in order.
    pub fn asks(&self) -> &[String] {
        &self.trajectory.asks
    }

    /// The number of steps, as limits count them.
    pub fn steps(&self) -> u64 {
        self.trajectory.count
    }

    /// What the run used.
    pub fn usage(&self) -> &Usage {
        &self.trajectory.usage
    }

    /// How long the run waited for timers. They fire at once: the time is virtual.
    pub fn waited(&self) -> Duration {
        self.trajectory.waited
    }

    /// The steps one by one.
    pub fn trajectory(&self) -> &Trajectory {
        &self.trajectory
    }

    /// Holds the run against what is expected of it. [`assert_trajectory!`](crate::assert_trajectory) does so and panics.
    ///
    /// # Errors
    /// All that does not hold, and the run; or a name that the agent does not have, such as a tool's.
    pub fn check(&self, expect: &Expect) -> Result<(), Problems> {
        let mut expectations = expect.expectations.clone();
        let is_one = |ends: &[Ends]| self.ends().filter(|found| ends.contains(found));
        let end = is_one(&expect.ends).or(expect.ends.first().copied());
        expectations.ends = end.map(|value| Located { value, span: 0..0 });
        self.built.knows(&expectations)?;
        let failures = self.built.one.hold(&expectations, &self.trajectory);
        match failures.is_empty() && self.trajectory.end.is_some() {
            true => Ok(()),
            false => Err(Problems::saying(told(&failures, self))),
        }
    }
}

/// What does not hold, and the run below it.
pub(crate) fn told(failures: &[Failure], run: &Run) -> String {
    let mut text = String::new();
    for failure in failures {
        text.push_str(&format!("{failure}\n"));
    }
    text.push_str("in this run:\n");
    text.push_str(&run.trajectory.to_string());
    text.trim_end().to_owned()
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trajectory.fmt(f)
    }
}

// What `proptest` shows of a run that breaks a test.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run\n{}", self.trajectory)
    }
}

impl Broken {
    pub(crate) fn new(failures: &[Failure]) -> Self {
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        Self(lines.join("\n"))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}
