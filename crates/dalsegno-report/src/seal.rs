//! The digests of a run as the engine computes them, and their comparison with those that a page computes.

use dalsegno_core::{Digest, RunId, digest_json};
use dalsegno_history::{HistoryError, Journal};
use dalsegno_store::Link;
use serde::{Deserialize, Serialize};

use crate::course::Course;

/// The digests of a run. Two that are equal are of runs with the same records, the same steps and the same state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The run.
    pub run: RunId,
    /// The number of its records.
    pub records: u64,
    /// The last link of its hash chain, which covers all of them.
    pub head: Link,
    /// The digest of its configuration.
    pub config: Digest,
    /// Its steps.
    pub steps: u64,
    /// The digest of its course: at each step the conversation, the requests with their ids, the decisions, the usage.
    pub course: Digest,
    /// The digest of its whole state after the last record.
    pub state: Digest,
    /// Whether the journal has what the core says, to the end.
    pub replays: bool,
}

impl Seal {
    /// Folds a run and computes its digests.
    ///
    /// # Errors
    /// When the run is unknown, or its journal, its configuration or what it began with cannot be read.
    pub async fn of(journal: &Journal, run: RunId) -> Result<Self, HistoryError> {
        Ok(Self::of_course(&Course::load(journal, run, None).await?))
    }

    pub(crate) fn of_course(course: &Course) -> Self {
        let state = serde_json::to_value(course.last.state()).unwrap_or_default();
        Self {
            run: course.run,
            records: course.records.len() as u64,
            head: course.records.last().map(|record| record.link).unwrap_or_default(),
            config: course.summary.config,
            steps: course.last.state().step(),
            course: course.mark(),
            state: digest_json(&state),
            replays: course.divergence.is_none(),
        }
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What is compared.
    what: &'static str,
    /// What the engine says.
    engine: String,
    /// What was computed here.
    here: String,
    /// Whether both are equal.
    equal: bool,
}

/// Compares the digests of the engine with those that were computed here.
pub(crate) fn checks(engine: &Seal, here: &Seal) -> Vec<Check> {
    let check = |what, engine: String, here: String| Check { what, equal: engine == here, engine, here };
    let replays = |seal: &Seal| if seal.replays { "identical" } else { "different" }.to_owned();
    vec![
        check("records", engine.records.to_string(), here.records.to_string()),
        check("hash chain", engine.head.to_string(), here.head.to_string()),
        check("configuration", engine.config.to_string(), here.config.to_string()),
        check("steps", engine.steps.to_string(), here.steps.to_string()),
        check("requests of every step", engine.course.to_string(), here.course.to_string()),
        check("last state", engine.state.to_string(), here.state.to_string()),
        check("replay", replays(engine), replays(here)),
    ]
}

/// Whether each comparison found the same, and the replay is identical.
pub(crate) fn is_verified(checks: &[Check], here: &Seal) -> bool {
    here.replays && checks.iter().all(|check| check.equal)
}
