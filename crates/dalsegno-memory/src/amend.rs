//! Deleting and correcting what a memory keeps: for people who found that something should not be there.

use serde::Serialize;

use crate::{ObservationId, Source};

/// The most observations that [`Memory::find`](crate::Memory::find) returns.
pub const FOUND_MAX: usize = 20;

/// Something to delete from the written scope, with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// An entity, its observations, and every relation from it or to it.
    Entity {
        /// The name of the entity.
        name: String,
    },
    /// One observation. Its entity stays, even without any other.
    Observation {
        /// The id of the observation.
        id: ObservationId,
    },
    /// A relation, in all periods. The entities at both ends stay.
    Relation {
        /// The name of the entity that it starts from.
        from: String,
        /// The type of the relation.
        relation: String,
        /// The name of the entity that it leads to.
        to: String,
    },
}

/// How much a [`Delete`] removes, entries of the history included. All zero: the scope has nothing of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The number of entities.
    pub entities: u64,
    /// The number of observations.
    pub observations: u64,
    /// The number of relations; each period of a relation counts.
    pub relations: u64,
}

impl Deleted {
    /// Whether there was nothing to delete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Another text for an observation that turned out wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correct {
    /// The observation to correct, in the written scope.
    pub observation: ObservationId,
    /// The text that is right. Entity, type and metadata stay the same.
    pub text: String,
    /// Where the correction comes from.
    pub source: Source,
    /// When the old text ceases to hold, in milliseconds since the epoch.
    pub at: u64,
}

/// The answer to [`Correct`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corrected {
    /// The observation that now stands.
    pub observation: ObservationId,
    /// The observation that it replaces.
    pub replaced: ObservationId,
    /// The name of the entity of both.
    pub entity: String,
    /// Whether the memory changed: false if the text is the same, or if this correction was made before.
    pub changed: bool,
}

/// An observation that was found by the beginning of its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The id of the observation.
    pub observation: ObservationId,
    /// The name of its entity.
    pub entity: String,
    /// What was observed.
    pub text: String,
    /// When it ceased to hold, in milliseconds since the epoch; absent while it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<u64>,
}
