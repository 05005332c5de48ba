//! What is written: observations, their ids and hashes, and the bounds that each part must keep.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::hash::{Hasher, hex};
use crate::scope::ScopeKey;
use crate::{MemoryError, RelationTo, name};

/// The longest text of one observation, in bytes: a page or ten, not a document.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The largest metadata of one observation, in bytes of JSON.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;

/// The deepest nesting of metadata.
pub const METADATA_DEPTH_MAX: usize = 16;

/// An observation to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewObservation {
    /// The operation that writes it. The same operation again writes nothing.
    pub operation: [u8; 16],
    /// The name of the entity it is about, unique within the written scope.
    pub entity: String,
    /// The type of that entity, such as `incident`.
    pub entity_type: String,
    /// What was observed, 1 to [`TEXT_BYTES_MAX`] bytes.
    pub text: String,
    /// Anything else worth keeping: an object, or null for none.
    pub metadata: Value,
    /// Where it comes from.
    pub source: Source,
    /// When it is recorded, in milliseconds since the epoch. A repeated operation keeps the first time.
    pub recorded_at: u64,
}

/// Where an observation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A step of a run.
    Run {
        /// The id of the run.
        run: String,
        /// The step in that run.
        step: u64,
    },
    /// No run: a seed file, an imported file, a person.
    Seed,
}

/// The answer to a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Created {
    /// The observation that now stands.
    pub observation: ObservationId,
    /// The name of its entity.
    pub entity: String,
    /// Whether it had been there before, from another operation with the same content. An operation that is repeated is
    /// answered as it was the first time.
    pub duplicate: bool,
    /// Whether this very operation had written it before.
    pub repeated: bool,
}

/// The id of an observation.
///
/// It is derived from scope, entity and content. So it is the same in every file, it tells nothing about
/// how much others keep, and equal content about one entity cannot be stored twice. Displayed as 32
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObservationId([u8; 16]);

impl ObservationId {
    /// Takes an id as it is stored.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id of an observation with this content in that scope.
    pub(crate) fn derive(scope: &ScopeKey, entity: &str, content_hash: &[u8; 32]) -> Self {
        let mut hasher = Hasher::new("observation id");
        scope.parts().iter().for_each(|part| hasher.field(part.as_bytes()));
        hasher.field(entity.as_bytes());
        hasher.field(content_hash);
        Self(hasher.short())
    }

    /// The id as it is stored.
    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ObservationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ObservationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ObservationId({self})")
    }
}

impl Serialize for ObservationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An observation within all bounds, with its hashes, ready to be stored.
#[derive(Debug)]
pub(crate) struct CheckedObservation {
    pub(crate) operation: [u8; 16],
    pub(crate) entity: String,
    pub(crate) entity_type: String,
    pub(crate) text: String,
    /// JSON with sorted keys.
    pub(crate) metadata: String,
    /// The run and the step, absent when no run did it.
    pub(crate) source: Option<(String, i64)>,
    pub(crate) recorded_at: i64,
    pub(crate) valid_from: i64,
    /// When it ceased to hold, absent while it stands.
    pub(crate) valid_to: Option<i64>,
    /// The content of the observation that replaced it, about the same entity.
    pub(crate) superseded_by: Option<[u8; 32]>,
    /// Hash of text and metadata: what makes two observations of one entity the same.
    pub(crate) content_hash: [u8; 32],
}

impl CheckedObservation {
    /// The id of this observation in that scope.
    pub(crate) fn id(&self, scope: &ScopeKey) -> ObservationId {
        ObservationId::derive(scope, &self.entity, &self.content_hash)
    }

    /// What an operation id stands for. The time is left out: a repeated call may come later.
    pub(crate) fn digest(&self, relations: &[RelationTo]) -> [u8; 16] {
        let mut hasher = Hasher::new("operation");
        hasher.field(self.entity.as_bytes());
        hasher.field(self.entity_type.as_bytes());
        hasher.field(&self.content_hash);
        for relation in relations {
            hasher.field(relation.relation.as_bytes());
            hasher.field(relation.to.as_bytes());
        }
        hasher.short()
    }

    /// The operation id in words.
    pub(crate) fn operation_text(&self) -> String {
        hex(&self.operation)
    }
}

/// The operation id under which a seed line is written into a scope: the same line, the same id.
pub(crate) fn seed_operation(
    scope: &ScopeKey,
    entity: &str,
    entity_type: &str,
    text: &str,
    metadata: &str,
) -> [u8; 16] {
    let mut hasher = Hasher::new("seed");
    scope.parts().iter().for_each(|part| hasher.field(part.as_bytes()));
    [entity, entity_type, text, metadata].iter().for_each(|part| hasher.field(part.as_bytes()));
    hasher.short()
}

impl NewObservation {
    /// Checks all bounds and computes the hashes.
    pub(crate) fn check(self) -> Result<CheckedObservation, MemoryError> {
        for (field, name) in [("entity", &self.entity), ("entity type", &self.entity_type)] {
            name::check(name).map_err(|problem| MemoryError::Name { field, problem })?;
        }
        if self.text.trim().is_empty() {
            return Err(MemoryError::Text { bytes: 0 });
        }
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(MemoryError::Text { bytes: self.text.len() });
        }
        let metadata = canonical_metadata(&self.metadata)?;
        let source = check_source(self.source)?;
        let recorded_at = stored("recorded_at", self.recorded_at)?;
        let mut hasher = Hasher::new("content");
        hasher.field(self.text.as_bytes());
        hasher.field(metadata.as_bytes());
        Ok(CheckedObservation {
            operation: self.operation,
            entity: self.entity,
            entity_type: self.entity_type,
            text: self.text,
            metadata,
            source,
            recorded_at,
            valid_from: recorded_at,
            valid_to: None,
            superseded_by: None,
            content_hash: hasher.long(),
        })
    }
}

/// Encodes metadata with sorted keys, whatever order the map of this build keeps.
pub(crate) fn canonical_metadata(metadata: &Value) -> Result<String, MemoryError> {
    let problem = |problem: String| MemoryError::Metadata { problem };
    let sorted = match metadata {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => sort_keys(metadata, METADATA_DEPTH_MAX)
            .ok_or_else(|| problem("is nested too deeply".to_owned()))?,
        Value::Bool(_) => return Err(problem("is a boolean".to_owned())),
        Value::Number(_) => return Err(problem("is a number".to_owned())),
        Value::String(_) => return Err(problem("is a string".to_owned())),
        Value::Array(_) => return Err(problem("is an array".to_owned())),
    };
    let text = sorted.to_string();
    if text.len() > METADATA_BYTES_MAX {
        return Err(problem(format!("has {} bytes", text.len())));
    }
    Ok(text)
}

fn sort_keys(value: &Value, depth: usize) -> Option<Value> {
    match value {
        Value::Object(map) => {
            let depth = depth.checked_sub(1)?;
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let sorted = entries
                .into_iter()
                .map(|(key, value)| Some((key.clone(), sort_keys(value, depth)?)))
                .collect::<Option<Map<_, _>>>()?;
            Some(Value::Object(sorted))
        }
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            items.iter().map(|item| sort_keys(item, depth)).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

/// Checks where something comes from: the run and the step, none when no run did it.
pub(crate) fn check_source(source: Source) -> Result<Option<(String, i64)>, MemoryError> {
    match source {
        Source::Run { run, step } => {
            name::check(&run).map_err(|problem| MemoryError::Run { problem })?;
            Ok(Some((run, stored("step", step)?)))
        }
        Source::Seed => Ok(None),
    }
}

/// The form in which a number is stored.
pub(crate) fn stored(field: &'static str, given: u64) -> Result<i64, MemoryError> {
    i64::try_from(given).map_err(|_| MemoryError::Number { field, given })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{METADATA_DEPTH_MAX, NewObservation, Source, TEXT_BYTES_MAX};
    use crate::{MemoryError, Principal, Scope, ScopeResolver};

    fn observation() -> NewObservation {
        NewObservation {
            operation: [1; 16],
            entity: "e".to_owned(),
            entity_type: "t".to_owned(),
            text: "x".to_owned(),
            metadata: Value::Null,
            source: Source::Seed,
            recorded_at: 0,
        }
    }

    fn refusal(change: impl FnOnce(&mut NewObservation)) -> String {
        let mut changed = observation();
        change(&mut changed);
        changed.check().unwrap_err().to_string()
    }

    #[test]
    fn every_bound_is_kept() {
        assert!(observation().check().is_ok());
        assert!(refusal(|new| new.entity = "e".repeat(257)).starts_with("the entity has 257 bytes"));
        assert!(refusal(|new| new.entity_type = String::new()).starts_with("the entity type is empty"));
        assert!(refusal(|new| new.text = " \n".to_owned()).starts_with("the text has 0 bytes"));
        assert!(refusal(|new| new.text = "x".repeat(TEXT_BYTES_MAX + 1)).starts_with("the text has 65537"));
        assert!(refusal(|new| new.metadata = json!([1])).starts_with("the metadata is an array"));
        assert!(refusal(|new| new.metadata = json!({"k": "v".repeat(17_000)})).contains("17008 bytes"));
        assert!(
            refusal(|new| new.recorded_at = u64::MAX).starts_with("the recorded_at 18446744073709551615")
        );
        let run = Source::Run { run: "r\u{0}".to_owned(), step: 0 };
        assert!(refusal(|new| new.source = run).starts_with("the source run holds the control character"));
    }

    #[test]
    fn deep_metadata_is_refused_without_following_it_down() {
        let mut deep = json!({});
        for _ in 0..METADATA_DEPTH_MAX - 1 {
            deep = json!({ "k": deep });
        }
        let mut new = observation();
        new.metadata = deep.clone();
        assert!(new.check().is_ok());
        let problem = refusal(|new| new.metadata = json!({ "k": deep }));
        assert!(problem.starts_with("the metadata is nested too deeply"), "{problem}");
    }

    #[test]
    fn an_id_depends_on_scope_entity_and_content_alone() -> Result<(), MemoryError> {
        let principal = Principal::new("t", "w", "a", "s").unwrap();
        let key = |scope| ScopeResolver.resolve(&principal, scope).write_key().clone();
        let base = observation().check()?.id(&key(Scope::Agent));
        let mut later = observation();
        later.recorded_at = 9;
        later.operation = [2; 16];
        assert_eq!(later.check()?.id(&key(Scope::Agent)), base);
        assert_ne!(observation().check()?.id(&key(Scope::Session)), base);
        let mut other = observation();
        other.metadata = json!({"k": 1});
        assert_ne!(other.check()?.id(&key(Scope::Agent)), base);
        assert_eq!(base.to_string().len(), 32);
        Ok(())
    }
}
