//! Walks along relations: what is asked, and what is reached.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::MemoryError;

/// How many relations in a row a walk follows unless told: neighbours, and their neighbours.
pub const DEPTH_DEFAULT: u32 = 2;

/// The most relations in a row that a walk may follow.
pub const DEPTH_MAX: u32 = 8;

/// How many entities a walk returns unless told.
pub const TRAVERSE_LIMIT_DEFAULT: u32 = 50;

/// The most entities that one walk or listing may ask for.
pub const ENTITIES_LIMIT_MAX: u32 = 1_000;

/// How many relations a walk returns for each entity that its limit allows, so that entities which are all
/// related to each other do not make an answer without bounds.
pub const RELATIONS_PER_ENTITY: u32 = 10;

/// How many relations a walk reads at most: a bound on the work around entities that everything relates to.
pub const RELATIONS_READ_MAX: u32 = 50_000;

/// How many observations a walk shows of each entity, the newest.
pub const OBSERVATIONS_SHOWN: usize = 3;

/// How much a walk shows of each observation, in bytes; longer ones end in `…`.
pub const OBSERVATION_BYTES_SHOWN: usize = 1024;

/// A walk along relations, breadth first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traverse {
    /// The name of the entity to begin at.
    pub from: String,
    /// Follow only relations of this type; all when absent.
    pub relation: Option<String>,
    /// Which way to follow them.
    pub direction: Direction,
    /// The most relations in a row, 1 to [`DEPTH_MAX`].
    pub depth: u32,
    /// The most entities to return, the first included, 1 to [`ENTITIES_LIMIT_MAX`].
    pub limit: u32,
    /// Walk as it stood at this time, in milliseconds since the epoch; as it stands when absent.
    pub as_of: Option<u64>,
}

impl Traverse {
    /// Follows relations of every type outwards, [`DEPTH_DEFAULT`] deep.
    #[must_use]
    pub fn new(from: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            relation: None,
            direction: Direction::Out,
            depth: DEPTH_DEFAULT,
            limit: TRAVERSE_LIMIT_DEFAULT,
            as_of: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return Err(MemoryError::Depth { given: self.depth });
        }
        check_limit(self.limit)
    }
}

/// Checks the limit of a walk or a listing.
pub(crate) fn check_limit(given: u32) -> Result<(), MemoryError> {
    if given == 0 || given > ENTITIES_LIMIT_MAX {
        return Err(MemoryError::Limit { given, most: ENTITIES_LIMIT_MAX });
    }
    Ok(())
}

/// Which way relations are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From where they start to where they lead.
    #[default]
    Out,
    /// From where they lead to where they start.
    In,
    /// Either way.
    Both,
}

impl Direction {
    /// All directions.
    pub const ALL: [Self; 3] = [Self::Out, Self::In, Self::Both];

    /// The name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
            Self::Both => "both",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|direction| direction.as_str() == text)
            .ok_or_else(|| UnknownDirection { given: text.chars().take(64).collect() })
    }
}

/// A word that names no direction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown direction `{given}`, expected `out`, `in` or `both`")]
pub struct UnknownDirection {
    given: String,
}

/// What a walk reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traversal {
    /// The entities, each once at its smallest depth, in the order of depth and then of name. The first is
    /// the one that the walk began at; none when there is no entity of that name.
    pub entities: Vec<TraversedEntity>,
    /// The relations that were followed and both ends of which are among the entities, each once, in the
    /// order of depth, start, type and end.
    pub relations: Vec<TraversedRelation>,
    /// Whether a bound left something out that depth alone would have reached.
    pub truncated: bool,
}

/// An entity that a walk reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraversedEntity {
    /// Its name.
    pub name: String,
    /// Its type, [`UNKNOWN_TYPE`](crate::UNKNOWN_TYPE) when only relations name it.
    pub entity_type: String,
    /// The fewest relations that lead to it.
    pub depth: u32,
    /// The newest observations about it, at most [`OBSERVATIONS_SHOWN`] of [`OBSERVATION_BYTES_SHOWN`].
    pub observations: Vec<String>,
}

/// A relation that a walk followed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraversedRelation {
    /// The name of the entity that it starts from, whichever way it was followed.
    pub from: String,
    /// Its type.
    pub relation: String,
    /// The name of the entity that it leads to.
    pub to: String,
    /// Its place in the row of relations, from 1.
    pub depth: u32,
    /// How firmly it holds, 0 to 1.
    pub strength: f64,
}

/// Shortens an observation to what a walk shows.
pub(crate) fn shown(text: &str) -> String {
    if text.len() <= OBSERVATION_BYTES_SHOWN {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(OBSERVATION_BYTES_SHOWN - '…'.len_utf8());
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::{Direction, OBSERVATION_BYTES_SHOWN, Traverse, shown};

    #[test]
    fn depth_and_limit_keep_their_bounds() {
        for (depth, limit, problem) in [
            (0, 1, "the depth is 0, expected 1 to 8"),
            (9, 1, "the depth is 9, expected 1 to 8"),
            (1, 0, "the limit is 0, expected 1 to 1000"),
            (1, 1_001, "the limit is 1001, expected 1 to 1000"),
        ] {
            let traverse = Traverse { depth, limit, ..Traverse::new("e") };
            assert_eq!(traverse.check().unwrap_err().to_string(), problem);
        }
        assert!(Traverse { depth: 8, limit: 1_000, ..Traverse::new("e") }.check().is_ok());
    }

    #[test]
    fn long_observations_are_cut_between_characters() {
        assert_eq!(shown("short"), "short");
        for text in ["é".repeat(1_000), "x".repeat(1_025), "🦀".repeat(300)] {
            let cut = shown(&text);
            assert!(cut.len() <= OBSERVATION_BYTES_SHOWN && cut.len() > OBSERVATION_BYTES_SHOWN - 4);
            assert!(text.starts_with(cut.strip_suffix('…').unwrap()));
        }
    }

    #[test]
    fn a_direction_is_written_as_it_is_read() {
        for direction in Direction::ALL {
            assert_eq!(direction.to_string().parse(), Ok(direction));
        }
        let problem = "sideways".parse::<Direction>().unwrap_err().to_string();
        assert_eq!(problem, "unknown direction `sideways`, expected `out`, `in` or `both`");
    }
}
