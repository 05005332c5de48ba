//! What a memory shows of its entities.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{ObservationId, Scope};

/// The most observations, and the most relations each way, that the view of one entity shows.
pub const VIEW_MAX: usize = 1_000;

/// Everything about one entity.
///
/// Where several of the readable scopes have an entity of that name, they are shown as one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntityView {
    /// Its name.
    pub name: String,
    /// Its type: that of the narrowest scope that knows it.
    pub entity_type: String,
    /// The metadata of its observations that stand, taken together: for each key the newest value.
    pub metadata: Map<String, Value>,
    /// Its observations, the newest first, those that no longer stand too.
    pub observations: Vec<ObservationView>,
    /// The relations that start from it, in the order of type, end and time, ended ones too.
    pub relations_out: Vec<RelationView>,
    /// The relations that lead to it, in the order of type, start and time, ended ones too.
    pub relations_in: Vec<RelationView>,
    /// Whether any of the lists has more than [`VIEW_MAX`] and is cut there.
    pub truncated: bool,
}

/// One observation about an entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObservationView {
    /// Its id.
    pub observation: ObservationId,
    /// The level of the scope that keeps it.
    pub scope: Scope,
    /// What was observed.
    pub text: String,
    /// What was attached to it: always an object.
    pub metadata: Value,
    /// Since when it holds, in milliseconds since the epoch.
    pub valid_from: u64,
    /// When it ceased to hold; absent while it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<u64>,
    /// When it was recorded.
    pub recorded_at: u64,
    /// What replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<ObservationId>,
    /// The step that wrote it; absent when no run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStep>,
}

/// One relation of an entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationView {
    /// The level of the scope that keeps it.
    pub scope: Scope,
    /// The name of the entity that it starts from.
    pub from: String,
    /// Its type.
    pub relation: String,
    /// The name of the entity that it leads to.
    pub to: String,
    /// How firmly it holds, 0 to 1.
    pub strength: f64,
    /// Since when it holds, in milliseconds since the epoch.
    pub valid_from: u64,
    /// When it ceased to hold; absent while it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<u64>,
    /// The step that wrote it; absent when no run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStep>,
    /// The step that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<SourceStep>,
}

/// A step of a run that wrote something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceStep {
    /// The id of the run.
    pub run: String,
    /// The step in that run.
    pub step: u64,
}

/// Entities in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EntityList {
    /// The first of them.
    pub entities: Vec<EntitySummary>,
    /// Whether there are more.
    pub truncated: bool,
}

/// An entity and how much is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntitySummary {
    /// Its name.
    pub name: String,
    /// Its type: that of the narrowest scope that knows it.
    pub entity_type: String,
    /// How many observations about it stand.
    pub observations: u64,
    /// How many relations stand that start from it or lead to it.
    pub relations: u64,
}
