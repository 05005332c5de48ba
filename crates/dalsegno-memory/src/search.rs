//! What is asked, and what is found.

use serde::Serialize;
use serde_json::Value;

use crate::{MemoryError, ObservationId};

/// How many hits a query returns unless told: enough to help, few enough for a prompt.
pub const LIMIT_DEFAULT: u32 = 5;

/// The most hits that one query may ask for.
pub const LIMIT_MAX: u32 = 100;

/// How much of a query's text is read, in bytes. Questions are often whole requests, so that what goes
/// beyond is left out rather than refused.
pub const QUERY_BYTES_MAX: usize = 4 * 1024;

/// How many different words of a query count, from its start.
pub const QUERY_WORDS_MAX: usize = 64;

/// A question to a memory.
///
/// The text is plain words, never an expression: quotes, brackets, `*`, `NEAR` and column names mean nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchQuery {
    /// What to look for. An observation needs one of the words to be found; the more and the rarer, the
    /// better.
    pub text: String,
    /// The most hits to return, 1 to [`LIMIT_MAX`].
    pub limit: u32,
    /// The lowest [`Hit::score`] to return, 0 to 1.
    pub min_score: f64,
}

impl SearchQuery {
    /// Asks for [`LIMIT_DEFAULT`] hits of any score.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), limit: LIMIT_DEFAULT, min_score: 0.0 }
    }

    /// Checks the numbers; the text is bounded where it is split into words.
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        if self.limit == 0 || self.limit > LIMIT_MAX {
            return Err(MemoryError::Limit { given: self.limit, most: LIMIT_MAX });
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            return Err(MemoryError::MinScore { given: self.min_score });
        }
        Ok(())
    }
}

/// One observation that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// The name of the entity that the observation is about.
    pub entity: String,
    /// The type of that entity.
    pub entity_type: String,
    /// The observation itself.
    pub text: String,
    /// How well it fits, 0 to 1, higher is better.
    ///
    /// This is `sqrt(bm25 / most)`, where `most` is the BM25 of an observation that would hold every word
    /// of the query without end. The division makes scores of different queries and scopes comparable: all
    /// words once, at average length, give 0.67 in any scope, half of the weight 0.48. The root spreads the
    /// low end, where most useful hits lie, so that a threshold can be set there.
    pub score: f64,
    /// What the score is made of.
    pub why: Why,
    /// The id of the observation.
    pub observation: ObservationId,
    /// When it was recorded, in milliseconds since the epoch.
    pub recorded_at: u64,
    /// What was attached to it: always an object.
    pub metadata: Value,
}

/// The parts that a score is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// BM25 (k1 1.2, b 0.75) with the statistics of the scopes that were read, 0 or more.
    pub bm25: f64,
    /// The words of the query that were found, in lower case and in the query's order.
    pub words: Vec<String>,
}
