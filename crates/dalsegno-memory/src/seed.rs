//! Seed files: JSON lines that fill a memory before the first run.

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exchange::{LineProblem, Lines, json_problem};
use crate::observation::{CheckedObservation, canonical_metadata, seed_operation};
use crate::scope::ScopeKey;
use crate::{MemoryError, NewObservation, Principal, Scope, ScopeResolver, Source};

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

/// Reads a seed file without keeping anything: finds what is wrong with its lines by themselves.
///
/// # Errors
/// Names the first line that cannot be read, and what was expected.
pub fn check_seed(lines: impl BufRead) -> Result<(), SeedError> {
    let nobody = Principal::new("check", "check", "check", "check").expect("these are names");
    let scopes = ScopeResolver.resolve(&nobody, Scope::Workspace);
    SeedLines::new(lines, scopes.write_key(), 0).try_for_each(|entry| entry.map(drop))
}

/// A reader that knows the digest of what was read from it.
pub(crate) struct Digesting<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R> Digesting<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: blake3::Hasher::new() }
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }
}

impl<R: BufRead> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.hasher.update(&into[..read]);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Digesting<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // What was read into the buffer is there still: nothing is read for it.
        if let Some(taken) = self.inner.fill_buf().ok().and_then(|buffer| buffer.get(..amount)) {
            self.hasher.update(taken);
        }
        self.inner.consume(amount);
    }
}

/// Reads a seed file line by line.
pub(crate) struct SeedLines<'scope, R> {
    lines: Lines<R>,
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
        Self { lines: Lines::new(lines, SEED_LINE_BYTES_MAX), scope, recorded_at }
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, SeedError> {
        self.lines.next_line().map_err(|problem| match problem {
            LineProblem::TooLong(bytes) => self.problem(format!("it is longer than {bytes} bytes")),
            LineProblem::Unreadable(source) => SeedError::Unreadable { line: self.lines.number(), source },
        })
    }

    fn observation(&self, bytes: &[u8]) -> Result<CheckedObservation, SeedError> {
        let seed: SeedLine =
            serde_json::from_slice(bytes).map_err(|error| self.problem(json_problem(&error)))?;
        let refused = |problem| SeedError::Refused { line: self.lines.number(), problem };
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
        SeedError::Line { line: self.lines.number(), problem }
    }
}

impl<R: BufRead> Iterator for SeedLines<'_, R> {
    type Item = Result<(u64, CheckedObservation), SeedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.next_line().transpose()?;
        Some(bytes.and_then(|bytes| Ok((self.lines.number(), self.observation(&bytes)?))))
    }
}
