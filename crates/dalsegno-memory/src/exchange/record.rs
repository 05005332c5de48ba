//! The lines of an export, in the order in which their fields are written.

use serde::Serialize;
use serde_json::Value;

/// The name of the format, in the first line.
pub(super) const FORMAT: &str = "dalsegno-memory";

/// The version of the format that is written and read.
pub(super) const VERSION: u64 = 1;

/// The first line.
pub(crate) fn header() -> impl Serialize {
    #[derive(Serialize)]
    struct Header {
        format: &'static str,
        version: u64,
    }
    Header { format: FORMAT, version: VERSION }
}

/// Any other line. Entities come first in the order of their names, each followed by its observations in the
/// order of time and content; then relations in the order of start, type, end and time.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Record {
    Entity(EntityRecord),
    Observation(ObservationRecord),
    Relation(RelationRecord),
}

#[derive(Debug, Serialize)]
pub(crate) struct EntityRecord {
    pub(crate) name: String,
    pub(crate) entity_type: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ObservationRecord {
    pub(crate) entity: String,
    pub(crate) text: String,
    pub(crate) metadata: Value,
    /// The hash of text and metadata, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) valid_from: u64,
    pub(crate) recorded_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) valid_to: Option<u64>,
    /// The hash of an observation about the same entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) superseded_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RelationRecord {
    pub(crate) from: String,
    pub(crate) relation: String,
    pub(crate) to: String,
    pub(crate) strength: f64,
    pub(crate) valid_from: u64,
    pub(crate) recorded_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) valid_to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_step: Option<u64>,
}
