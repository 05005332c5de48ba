//! One case that a program built, instead of a suite of files.

use std::fmt;

use dalsegno_workspace::{Case, Expectations, Property, Replies};
use proptest::prelude::Strategy;
use serde_json::{Map, Value};

use crate::cassette::Cassette;
use crate::fold::Folding;
use crate::judge::{self, Failure};
use crate::prepared::{Prepared, Scripts};
use crate::property::{self, Material, Numbers, Search};
use crate::trajectory::Trajectory;

/// One case that a program built, ready to be folded as often as one likes.
#[derive(Debug)]
pub struct OneCase {
    case: Case,
    prepared: Prepared,
    cassette: Option<Cassette>,
}

/// What came of a case that a program built.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// What does not hold: requests without an outcome, outcomes that the run never asked for, and, of a property, what broke it.
    pub failures: Vec<Failure>,
    /// What happened.
    pub trajectory: Trajectory,
}

impl OneCase {
    /// Reads the script and the cassette that the case names.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(case: Case) -> Result<Self, String> {
        let mut scripts = Scripts::new();
        if let Replies::Script(file) = &case.draft.replies {
            let script = dalsegno_models::ScriptModel::open(file).map_err(|error| error.to_string())?;
            scripts.insert(file.clone(), Ok(script));
        }
        let cassette = case.draft.cassette.as_ref().map(|file| {
            let unusable = |error| format!("the cassette `{}` cannot be used: {error}", file.value.display());
            Cassette::open(&file.value).map_err(unusable)
        });
        let mut prepared = Prepared::new(&case.config, &scripts.into());
        prepared.add(&case.agents);
        Ok(Self { prepared, cassette: cassette.transpose()?, case })
    }

    /// The case itself.
    pub const fn case(&self) -> &Case {
        &self.case
    }

    /// Folds the case. What it expects is not looked at: see [`hold`](Self::hold).
    pub fn fold(&self) -> Folded {
        let mut folding = Folding::new(&self.case, &self.prepared, self.cassette.as_ref());
        let failures = match folding.fold() {
            Ok(()) => judge::left_over(&folding),
            Err(trouble) => vec![judge::troubled(trouble)],
        };
        Folded { failures, trajectory: folding.trajectory }
    }

    /// What does not hold of a run of the case.
    pub fn hold(&self, expect: &Expectations, trajectory: &Trajectory) -> Vec<Failure> {
        judge::hold(expect, &self.case.config, trajectory, Map::new())
    }

    /// Makes up runs until one breaks what the case expects of all of them; that one is made as simple as it gets, and described.
    pub fn search(&self, property: &Property, search: Search) -> Folded {
        let found = property::search(&self.case, &self.prepared, property, search);
        Folded { failures: found.failures, trajectory: found.trajectory }
    }

    /// Folds the case with outcomes that are made of these numbers, where it does not give them itself.
    pub fn made_up(&self, [replies, results, people]: &Numbers) -> Folded {
        let material = Material::of(&self.case.draft, &self.prepared.config);
        let inventor = property::Inventor::new(&material, [replies, results, people]);
        let mut folding = Folding::inventing(&self.case, &self.prepared, inventor);
        let failures = match folding.fold() {
            Ok(()) => Vec::new(),
            Err(trouble) => vec![judge::troubled(trouble)],
        };
        Folded { failures, trajectory: folding.trajectory }
    }
}

/// A strategy of values that fit a JSON Schema; null where none is found.
pub fn values(schema: Value) -> impl Strategy<Value = Value> + Clone {
    property::drawn().prop_map(move |numbers| property::fitting_value(&schema, &numbers))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.what)?;
        for line in self.message.lines() {
            write!(f, "\n  {line}")?;
        }
        for (number, line) in self.help.iter().flat_map(|help| help.lines()).enumerate() {
            write!(f, "\n{}{line}", if number == 0 { "help: " } else { "  " })?;
        }
        Ok(())
    }
}
