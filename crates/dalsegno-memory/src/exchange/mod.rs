//! Export and import: what is said about them, and what goes wrong.

mod fields;
mod lines;
mod read;
mod record;

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::MemoryError;

pub(crate) use self::lines::{LineProblem, Lines, json_problem};
pub(crate) use self::read::{Entry, Period, Reader};
pub(crate) use self::record::{EntityRecord, ObservationRecord, Record, RelationRecord, header};

/// The longest line of an imported file, in bytes. The MCP reference memory server keeps an entity with all
/// its observations on one line.
pub const IMPORT_LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an import does about content that is there already and differs.
///
/// An entity differs by its type, an observation (of the same entity, text and metadata) or a relation (of
/// the same ends and type) by its times, source, successor or strength. A type that is unknown differs from
/// none: it takes the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportMode {
    /// The file wins.
    Update,
    /// The memory wins.
    Skip,
    /// Nothing is imported.
    Fail,
}

impl ImportMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Update, Self::Skip, Self::Fail];

    /// The name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for ImportMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for ImportMode {
    type Err = UnknownImportMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| UnknownImportMode { given: text.chars().take(64).collect() })
    }
}

/// A word that names no import mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown import mode `{given}`, expected `update`, `skip` or `fail`")]
pub struct UnknownImportMode {
    given: String,
}

/// What an import did, counted in entities, observations and relations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportCounts {
    /// How many were new.
    pub added: u64,
    /// How many were there and took what the file says.
    pub updated: u64,
    /// How many were there and stayed as they were.
    pub skipped: u64,
}

/// What an export wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportCounts {
    /// How many entities.
    pub entities: u64,
    /// How many observations, those that no longer stand too.
    pub observations: u64,
    /// How many relations, ended ones too.
    pub relations: u64,
}

/// Why an export is not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output took no more.
    #[error("the export cannot be written")]
    Output {
        /// What the system said.
        #[from]
        source: io::Error,
    },
    /// The memory itself failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl From<rusqlite::Error> for ExportError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Memory(source.into())
    }
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line is not what was expected.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A field of a line is not what was expected.
    #[error("line {line}, field `{field}`: {problem}")]
    Field {
        /// The line, from 1.
        line: u64,
        /// The name of the field.
        field: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A line cannot be kept: a part is out of bounds.
    #[error("line {line}: {problem}")]
    Refused {
        /// The line, from 1.
        line: u64,
        /// Why.
        problem: MemoryError,
    },
    /// What a line says differs from what is there, and the mode is [`ImportMode::Fail`].
    #[error(
        "line {line}: {what} already exists and differs; import with the mode `update` to replace what is \
             there, or `skip` to keep it"
    )]
    Conflict {
        /// The line, from 1.
        line: u64,
        /// What differs, with its name.
        what: String,
    },
    /// The file cannot be read on.
    #[error("line {line} cannot be read")]
    Unreadable {
        /// The line, from 1.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The memory itself failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl From<rusqlite::Error> for ImportError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Memory(source.into())
    }
}

#[cfg(test)]
mod tests {
    use super::ImportMode;

    #[test]
    fn a_mode_is_written_as_it_is_read() {
        for mode in ImportMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let problem = "merge".parse::<ImportMode>().unwrap_err().to_string();
        assert_eq!(problem, "unknown import mode `merge`, expected `update`, `skip` or `fail`");
    }
}
