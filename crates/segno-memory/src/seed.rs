//! Seed files: JSON lines that fill a memory before the first run.

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observation::{CheckedObservation, canonical_metadata, seed_operation};
use crate::scope::ScopeKey;
use crate::{MemoryError, NewObservation, Source};

/// The longest line of a seed file, in bytes: the largest observation, escaped.
pub const SEED_LINE_BYTES_MAX: usize = 512 * 1024;

/// How many lines of a seed file were new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeedCounts {
    /// Lines that were added.
    pub added: u64,
    /// Lines that stood there already.
    pub already: u64,
}

impl SeedCounts {
    /// Counts one line.
    pub(crate) fn count(&mut self, duplicate: bool) {
        if duplicate {
            self.already += 1;
        } else {
            self.added += 1;
        }
    }
}

/// Why a seed file was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// A line is not the JSON that was expected.
    #[error(
        r#"line {line}: {problem}; expected {{"entity": "…", "type": "…", "text": "…", "metadata": {{…}}}} on one line"#
    )]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A line cannot be kept: a part is out of bounds, or contradicts what is there.
    #[error("line {line}: {problem}")]
    Refused {
        /// The line, from 1.
        line: u64,
        /// Why.
        problem: MemoryError,
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

/// Reads a seed file line by line.
pub(crate) struct SeedLines<'scope, R> {
    lines: R,
    line: u64,
    scope: &'scope ScopeKey,
    recorded_at: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedLine {
    entity: String,
    #[serde(rename = "type")]
    entity_type: String,
    text: String,
    #[serde(default)]
    metadata: Value,
}

impl<'scope, R: BufRead> SeedLines<'scope, R> {
    pub(crate) fn new(lines: R, scope: &'scope ScopeKey, recorded_at: u64) -> Self {
        Self { lines, line: 0, scope, recorded_at }
    }

    /// Returns the next line that is not blank, none at the end of the file.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, SeedError> {
        loop {
            self.line += 1;
            let mut bytes = Vec::new();
            let read = (&mut self.lines)
                .take(SEED_LINE_BYTES_MAX as u64 + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(|source| SeedError::Unreadable { line: self.line, source })?;
            if read == 0 {
                return Ok(None);
            }
            if read > SEED_LINE_BYTES_MAX {
                return Err(self.problem(format!("it is longer than {SEED_LINE_BYTES_MAX} bytes")));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    fn observation(&self, bytes: &[u8]) -> Result<CheckedObservation, SeedError> {
        let seed: SeedLine = serde_json::from_slice(bytes).map_err(|error| {
            // serde_json counts lines from the start of what it was given, which is always 1 here.
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            match text.strip_suffix(&place) {
                Some(problem) => self.problem(format!("{problem} (column {})", error.column())),
                None => self.problem(text),
            }
        })?;
        let refused = |problem| SeedError::Refused { line: self.line, problem };
        let metadata = canonical_metadata(&seed.metadata).map_err(refused)?;
        let operation = seed_operation(self.scope, &seed.entity, &seed.entity_type, &seed.text, &metadata);
        let observation = NewObservation {
            operation,
            entity: seed.entity,
            entity_type: seed.entity_type,
            text: seed.text,
            metadata: seed.metadata,
            source: Source::Seed,
            recorded_at: self.recorded_at,
        };
        observation.check().map_err(refused)
    }

    fn problem(&self, problem: String) -> SeedError {
        SeedError::Line { line: self.line, problem }
    }
}

impl<R: BufRead> Iterator for SeedLines<'_, R> {
    type Item = Result<(u64, CheckedObservation), SeedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.next_line().transpose()?;
        Some(bytes.and_then(|bytes| Ok((self.line, self.observation(&bytes)?))))
    }
}
