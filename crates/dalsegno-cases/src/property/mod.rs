//! Properties: what must hold of every run, for all replies of models, results of tools and answers of people.
//!
//! A run of a property is a fold whose outcomes are made of drawn numbers. `proptest` draws them, and makes those of a run that
//! breaks the property smaller for as long as it breaks it in the same way.

mod draws;
mod outcomes;
mod values;
mod words;
mod written;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use dalsegno_models::judge_result;
use dalsegno_workspace::{Case, Property};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::Value;

use self::draws::Draws;
pub(crate) use self::outcomes::{Invented, Inventor, Material};
use self::words::Words;
use crate::fold::Folding;
use crate::judge::{self, Failure};
use crate::prepared::Prepared;
use crate::render;
use crate::trajectory::Trajectory;
use crate::trouble::Trouble;

/// Most outcomes of a kind in a run that are more than the simplest ones.
const OUTCOMES: usize = 16;

/// Most numbers of an outcome.
const NUMBERS: usize = 24;

/// How often a run is made simpler at most.
const SHRINKS: u32 = 4_000;

/// The numbers of which the outcomes of a run are made: those of replies, of results and of answers, each with a list of its own.
pub type Numbers = [Vec<Vec<u64>>; 3];

/// A strategy of such numbers. Simpler ones make a simpler run.
pub fn numbers() -> impl Strategy<Value = Numbers> + Clone {
    let of_kind = || vec(drawn(), 0..=OUTCOMES);
    [of_kind(), of_kind(), of_kind()]
}

/// A strategy of the numbers of one outcome.
pub(crate) fn drawn() -> impl Strategy<Value = Vec<u64>> + Clone {
    vec(any::<u64>(), 0..=NUMBERS)
}

/// A value that fits a schema, made of these numbers; null where none is found.
pub(crate) fn fitting_value(schema: &Value, numbers: &[u64]) -> Value {
    let one = [numbers.to_vec()];
    let words = Words::default();
    let mut made = values::value(schema, &words, &mut Draws::new(&one).next());
    if !judge_result(schema, &made).is_empty() {
        made = values::value(schema, &words, &mut Draws::new(&[]).next());
    }
    if judge_result(schema, &made).is_empty() { made } else { Value::Null }
}

/// How runs of properties are made up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Search {
    /// Another seed makes up other runs; the same one always the same.
    pub seed: u64,
    /// How many runs are made up, in place of what each property says.
    pub runs: Option<u32>,
}

/// What came of a case, or of the run of a property that breaks it; else of the simplest run.
pub(crate) struct Searched {
    pub(crate) failures: Vec<Failure>,
    pub(crate) trajectory: Trajectory,
}

/// One thing that does not hold: which part of the property, and where that stands.
type Broken = (&'static str, Option<Range<usize>>);

/// Makes up runs until one breaks the property, and makes that one as simple as it gets.
pub(crate) fn search(case: &Case, prepared: &Prepared, property: &Property, search: Search) -> Searched {
    let material = Material::of(&case.draft, &prepared.config);
    let fold = |[replies, results, people]: &Numbers| {
        let inventor = Inventor::new(&material, [replies, results, people]);
        let mut folding = Folding::inventing(case, prepared, inventor);
        let failures = match folding.fold() {
            Ok(()) => judge::judge_run(case, property, &folding.trajectory),
            Err(trouble) => vec![judge::troubled(trouble)],
        };
        let (trajectory, made) = folding.invented();
        (failures, trajectory, made)
    };
    // The simplest run first: what breaks there needs no further look.
    let simplest = [const { Vec::new() }; 3];
    let (failures, trajectory, made) = fold(&simplest);
    if let Some(first) = failures.first().map(of) {
        return explained((failures, trajectory, made), &first, "in the simplest run", case, property);
    }
    let runs = search.runs.unwrap_or(property.runs);
    let config = Config {
        cases: runs,
        max_shrink_iters: SHRINKS,
        failure_persistence: None,
        // No variable of the environment and no clock has a say.
        max_shrink_time: 0,
        verbose: 0,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&search.seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (tried, broken) = (Cell::new(0), RefCell::new(None::<Broken>));
    let found = runner.run(&numbers(), |numbers| {
        let (failures, ..) = fold(&numbers);
        let mut broken = broken.borrow_mut();
        if broken.is_none() {
            tried.set(tried.get() + 1);
        }
        // What is made simpler must break the same part of the property.
        let same = |failure: &&Failure| broken.as_ref().is_none_or(|first| *first == of(failure));
        match failures.iter().find(same) {
            None => Ok(()),
            Some(failure) => {
                *broken = Some(of(failure));
                Err(TestCaseError::fail(failure.what))
            }
        }
    });
    match (found, broken.into_inner()) {
        (Ok(()), _) => Searched { failures: Vec::new(), trajectory },
        (Err(TestError::Fail(_, numbers)), Some(first)) => {
            let place = format!(
                "in run {} of {runs} with the seed {}, made as simple as it gets",
                tried.get(),
                search.seed
            );
            explained(fold(&numbers), &first, &place, case, property)
        }
        (Err(error), _) => {
            let failures = vec![judge::troubled(Trouble::Defect(error.to_string()))];
            Searched { failures, trajectory }
        }
    }
}

/// What does not hold of a run, with the run itself and the case that it makes.
fn explained(
    (failures, trajectory, made): (Vec<Failure>, Trajectory, Invented),
    first: &Broken,
    place: &str,
    case: &Case,
    property: &Property,
) -> Searched {
    let mut failures: Vec<Failure> = failures.into_iter().filter(|failure| of(failure) == *first).collect();
    if failures.is_empty() {
        // A fold has no state of its own: such a run must never pass.
        let defect = Trouble::Defect(format!("a run breaks `{}`, and the same run again does not", first.0));
        failures.push(judge::troubled(defect));
    }
    for failure in &mut failures {
        failure.message += &format!("\n{place}:\n{}", render::trajectory(&trajectory).trim_end());
        // Trouble has advice of its own.
        if failure.help.is_none() {
            failure.help = Some(format!(
                "correct the agent, or the property. To keep this run as a case, write\n{}",
                written::case(case, property, &made, &trajectory, failure)
            ));
        }
    }
    Searched { failures, trajectory }
}

fn of(failure: &Failure) -> Broken {
    (failure.what, failure.span.clone())
}
