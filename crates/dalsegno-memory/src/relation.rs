//! Relations between entities: what is asked for, and the bounds that each part must keep.

use serde::Serialize;

use crate::hash::{Hasher, hex};
use crate::observation::{check_source, stored};
use crate::{MemoryError, Source, name};

/// The strength of a relation unless told: it holds without reservation.
pub const STRENGTH_DEFAULT: f64 = 1.0;

/// The most relations that one observation may bring along.
pub const RELATIONS_MAX: usize = 64;

/// The type of an entity that so far is known by its relations only.
///
/// The first observation that gives it a type gives it that type for good.
pub const UNKNOWN_TYPE: &str = "unknown";

/// A relation to be written, such as `INC-1` `caused_by` `DEP-7`.
#[derive(Clone, Debug, PartialEq)]
pub struct Relate {
    /// The operation that writes it. The same operation again writes nothing.
    pub operation: [u8; 16],
    /// The name of the entity that it starts from.
    pub from: String,
    /// The type of the relation, a name such as `caused_by`.
    pub relation: String,
    /// The name of the entity that it leads to.
    pub to: String,
    /// How firmly it holds, 0 to 1; [`STRENGTH_DEFAULT`] unless there is doubt.
    pub strength: f64,
    /// Where it comes from.
    pub source: Source,
    /// When it begins to hold, in milliseconds since the epoch. A repeated operation keeps the first time.
    pub at: u64,
}

/// A relation to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrelate {
    /// The operation that ends it. The same operation again ends nothing.
    pub operation: [u8; 16],
    /// The name of the entity that it starts from.
    pub from: String,
    /// The type of the relation.
    pub relation: String,
    /// The name of the entity that it leads to.
    pub to: String,
    /// Where the end comes from.
    pub source: Source,
    /// When it ceases to hold, in milliseconds since the epoch.
    pub at: u64,
}

/// A relation of the entity that an observation is about, written together with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationTo {
    /// The type of the relation.
    pub relation: String,
    /// The name of the entity that it leads to.
    pub to: String,
}

/// The answer to [`Relate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Whether it had stood before, from this operation or from another.
    pub duplicate: bool,
    /// The names of entities that it made, because the scope had none of that name.
    pub made: Vec<String>,
}

/// The answer to [`Unrelate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unrelated {
    /// Whether a relation stood and was ended.
    pub ended: bool,
}

/// A relation within all bounds, ready to be stored or ended.
#[derive(Debug)]
pub(crate) struct CheckedRelation {
    pub(crate) from: String,
    pub(crate) relation: String,
    pub(crate) to: String,
    pub(crate) strength: f64,
    /// The run and the step, absent when no run did it.
    pub(crate) source: Option<(String, i64)>,
    pub(crate) at: i64,
}

/// A checked relation and the operation that writes or ends it.
#[derive(Debug)]
pub(crate) struct CheckedChange {
    pub(crate) operation: [u8; 16],
    /// What the operation id stands for.
    pub(crate) digest: [u8; 16],
    pub(crate) relation: CheckedRelation,
}

impl Relate {
    /// Checks all bounds.
    pub(crate) fn check(self) -> Result<CheckedChange, MemoryError> {
        let relation = checked(self.from, self.relation, self.to, self.strength, self.source, self.at)?;
        let mut hasher = Hasher::new("relate operation");
        relation.triple().iter().for_each(|part| hasher.field(part.as_bytes()));
        hasher.field(&relation.strength.to_bits().to_le_bytes());
        Ok(CheckedChange { operation: self.operation, digest: hasher.short(), relation })
    }
}

impl Unrelate {
    /// Checks all bounds.
    pub(crate) fn check(self) -> Result<CheckedChange, MemoryError> {
        let relation = checked(self.from, self.relation, self.to, STRENGTH_DEFAULT, self.source, self.at)?;
        let mut hasher = Hasher::new("unrelate operation");
        relation.triple().iter().for_each(|part| hasher.field(part.as_bytes()));
        Ok(CheckedChange { operation: self.operation, digest: hasher.short(), relation })
    }
}

impl CheckedChange {
    /// The operation id in words.
    pub(crate) fn operation_text(&self) -> String {
        hex(&self.operation)
    }
}

impl CheckedRelation {
    /// What names a relation within its scope.
    pub(crate) fn triple(&self) -> [&str; 3] {
        [&self.from, &self.relation, &self.to]
    }
}

/// Checks the relations that an observation brings along, each once.
pub(crate) fn check_relations(relations: Vec<RelationTo>) -> Result<Vec<RelationTo>, MemoryError> {
    if relations.len() > RELATIONS_MAX {
        return Err(MemoryError::Relations { given: relations.len() });
    }
    let mut checked: Vec<RelationTo> = Vec::with_capacity(relations.len());
    for relation in relations {
        check_name("relation", &relation.relation)?;
        check_name("to", &relation.to)?;
        if !checked.contains(&relation) {
            checked.push(relation);
        }
    }
    Ok(checked)
}

/// Checks a strength; negative zero becomes zero, so that equal strengths have equal bits.
pub(crate) fn check_strength(given: f64) -> Result<f64, MemoryError> {
    if (0.0..=1.0).contains(&given) { Ok(given + 0.0) } else { Err(MemoryError::Strength { given }) }
}

/// Checks all parts of a relation.
pub(crate) fn checked(
    from: String,
    relation: String,
    to: String,
    strength: f64,
    source: Source,
    at: u64,
) -> Result<CheckedRelation, MemoryError> {
    for (field, given) in [("from", &from), ("relation", &relation), ("to", &to)] {
        check_name(field, given)?;
    }
    let strength = check_strength(strength)?;
    Ok(CheckedRelation {
        from,
        relation,
        to,
        strength,
        source: check_source(source)?,
        at: stored("time", at)?,
    })
}

fn check_name(field: &'static str, given: &str) -> Result<(), MemoryError> {
    name::check(given).map_err(|problem| MemoryError::Name { field, problem })
}

#[cfg(test)]
mod tests {
    use super::{RELATIONS_MAX, Relate, RelationTo, check_relations};
    use crate::Source;

    fn refusal(change: impl FnOnce(&mut Relate)) -> String {
        let mut relate = Relate {
            operation: [1; 16],
            from: "a".to_owned(),
            relation: "knows".to_owned(),
            to: "b".to_owned(),
            strength: 1.0,
            source: Source::Seed,
            at: 0,
        };
        change(&mut relate);
        relate.check().unwrap_err().to_string()
    }

    #[test]
    fn every_bound_is_kept() {
        assert!(refusal(|new| new.from = String::new()).starts_with("the from is empty"));
        assert!(refusal(|new| new.relation = "a\nb".to_owned()).starts_with("the relation holds"));
        assert!(refusal(|new| new.to = "b".repeat(257)).starts_with("the to has 257 bytes"));
        for strength in [-0.1, 1.1, f64::NAN] {
            assert!(refusal(|new| new.strength = strength).ends_with("expected 0 to 1"));
        }
        assert!(refusal(|new| new.at = u64::MAX).starts_with("the time 18446744073709551615"));
        let many = vec![RelationTo { relation: "r".to_owned(), to: "t".to_owned() }; RELATIONS_MAX + 1];
        assert!(check_relations(many.clone()).unwrap_err().to_string().starts_with("65 relations"));
        assert_eq!(check_relations(many[1..].to_vec()).unwrap(), many[..1]);
    }
}
