//! Some records of a run, up to the first that cannot be read.

use crate::chain::{Head, Row, Verifier};
use crate::error::{Flaw, ReadError};
use crate::record::Record;

/// Some records of a run.
///
/// A [`read`](crate::Store::read) returns all records or none. A program that shows a journal needs what can be read of a
/// damaged one too, and not all of a long one at once.
#[derive(Debug, Default)]
pub struct Page {
    /// The records, verified like those of a read.
    pub records: Vec<Record>,
    /// Why the record behind them cannot be read; none where they end with the run, or the page is full.
    pub fault: Option<ReadError>,
}

impl Page {
    /// Bytes of encoded bodies after which a page is full.
    pub const BYTES: usize = 4 << 20;

    /// The records.
    ///
    /// # Errors
    /// When there are none because the first one cannot be read.
    pub fn into_records(self) -> Result<Vec<Record>, ReadError> {
        match self.fault {
            Some(fault) if self.records.is_empty() => Err(fault),
            _ => Ok(self.records),
        }
    }

    /// What a store returns that reads all records or none.
    pub(crate) fn of(read: Result<Vec<Record>, ReadError>, most: usize) -> Result<Self, ReadError> {
        match read {
            Ok(mut records) => {
                records.truncate(most);
                Ok(Self { records, fault: None })
            }
            Err(fault) if is_in_records(&fault) => Ok(Self { records: Vec::new(), fault: Some(fault) }),
            Err(error) => Err(error),
        }
    }

    /// Verifies rows one after the other. A row is an error when it has no good form.
    pub(crate) fn fill<E>(
        mut verifier: Verifier,
        rows: impl Iterator<Item = Result<Result<Row, Flaw>, E>>,
        head: Head,
        most: usize,
    ) -> Result<Self, E> {
        let mut page = Self::default();
        let mut room = Self::BYTES;
        for row in rows {
            let checked = match row? {
                Err(flaw) => Err(verifier.damage(flaw)),
                Ok(row) if row.seq >= head.next_seq => Err(verifier.damage(Flaw::Unknown)),
                Ok(row) => {
                    room = room.saturating_sub(row.body.as_ref().map_or(0, Vec::len));
                    verifier.check(&row)
                }
            };
            match checked {
                Ok(record) => page.records.push(record),
                Err(fault) => {
                    page.fault = Some(fault);
                    return Ok(page);
                }
            }
            if page.records.len() >= most || room == 0 {
                if verifier.next() >= head.next_seq {
                    break;
                }
                return Ok(page);
            }
        }
        page.fault = verifier.finish(head).err();
        Ok(page)
    }
}

/// Says whether records before the one that an error is about can be read.
const fn is_in_records(error: &ReadError) -> bool {
    matches!(error, ReadError::Damaged(_) | ReadError::Erased { .. } | ReadError::NewerVersion { .. })
}
