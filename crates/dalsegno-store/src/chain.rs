//! The stored rows of a run, the hash chain over them, and their verification.
//!
//! A row's checksum covers the encoded body; its link covers the link before it and everything else in the row, the
//! checksum included. So a body can be erased and the chain over the rest still verifies.

use dalsegno_core::{OperationId, RunId, Timestamp};

use crate::bytes::{Checksum, Link};
use crate::codec::{decode_body, encode_body};
use crate::error::{Damage, Flaw, ReadError, RecordError};
use crate::record::{NewRecord, Record};

/// Longest encoded body, in bytes. Outcomes are bounded far below this where they arise; here it only keeps one
/// record from filling the disk.
pub(crate) const MAX_BODY: usize = 64 << 20;

/// One record as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) kind: u8,
    pub(crate) operation: Option<OperationId>,
    pub(crate) parent: Option<OperationId>,
    /// None when it was erased.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) checksum: Checksum,
    pub(crate) link: Link,
}

/// Makes rows of records: the first gets `seq`, and its link follows `head`.
pub(crate) fn seal(run: RunId, seq: u64, head: Link, records: &[NewRecord]) -> Result<Vec<Row>, RecordError> {
    let mut previous = head;
    let rows = records.iter().zip(seq..).map(|(record, seq)| {
        let body = encode_body(&record.body)?;
        if body.len() > MAX_BODY {
            return Err(RecordError::TooLong { found: body.len() });
        }
        let checksum = checksum(&body);
        let mut row = Row {
            seq,
            at: record.at,
            kind: record.body.kind() as u8,
            operation: record.operation,
            parent: record.parent,
            body: Some(body),
            checksum,
            link: Link::default(),
        };
        row.link = link(run, previous, &row);
        previous = row.link;
        Ok(row)
    });
    rows.collect()
}

/// The checksum of stored bytes.
pub(crate) fn checksum(bytes: &[u8]) -> Checksum {
    Checksum::from_bytes(truncate(blake3::hash(bytes)))
}

/// What every link is hashed with first. It is part of the stored format, and older than the product's name: journals that
/// were written with it are read for ever.
const LINK: &[u8] = b"segno link 1";

/// The link of a row after `previous`.
pub(crate) fn link(run: RunId, previous: Link, row: &Row) -> Link {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(LINK);
    bytes.extend_from_slice(previous.as_bytes());
    bytes.extend_from_slice(run.as_bytes());
    bytes.extend_from_slice(&row.seq.to_le_bytes());
    bytes.extend_from_slice(&row.at.as_millis().to_le_bytes());
    bytes.push(row.kind);
    for id in [row.operation, row.parent] {
        // The tag keeps "no operation" apart from every operation.
        bytes.push(u8::from(id.is_some()));
        bytes.extend_from_slice(id.as_ref().map_or(&[0; 16], |id| id.as_bytes()));
    }
    bytes.extend_from_slice(row.checksum.as_bytes());
    Link::from_bytes(truncate(blake3::hash(&bytes)))
}

fn truncate(hash: blake3::Hash) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    bytes
}

/// What a store knows about a run's last record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// The number of records.
    pub(crate) next_seq: u64,
    /// The link of the last one.
    pub(crate) link: Link,
}

/// Checks a run's rows one after the other and turns them into records.
pub(crate) struct Verifier {
    run: RunId,
    next: u64,
    previous: Link,
}

impl Verifier {
    /// Begins at `seq`, after a row with the link `previous`.
    pub(crate) const fn new(run: RunId, seq: u64, previous: Link) -> Self {
        Self { run, next: seq, previous }
    }

    /// Checks a run's first row by itself.
    pub(crate) fn check_first(run: RunId, row: &Row) -> Result<Record, ReadError> {
        Self::new(run, 0, Link::default()).check(row)
    }

    /// Checks the next row, whose content must be there.
    pub(crate) fn check(&mut self, row: &Row) -> Result<Record, ReadError> {
        self.check_any(row)?.ok_or(ReadError::Erased { run: self.run, seq: row.seq })
    }

    /// Checks the next row; none if its content was erased.
    pub(crate) fn check_any(&mut self, row: &Row) -> Result<Option<Record>, ReadError> {
        if row.seq != self.next {
            return Err(self.damage(Flaw::Missing));
        }
        if row.body.as_ref().is_some_and(|body| checksum(body) != row.checksum) {
            return Err(self.damage(Flaw::Checksum));
        }
        if link(self.run, self.previous, row) != row.link {
            return Err(self.damage(Flaw::Link));
        }
        let Some(body) = &row.body else {
            self.next += 1;
            self.previous = row.link;
            return Ok(None);
        };
        // The bytes are what was written; if they cannot be read, another release wrote them.
        let body = decode_body(body).map_err(|source| ReadError::NewerVersion {
            run: self.run,
            seq: row.seq,
            source,
        })?;
        if body.kind() as u8 != row.kind {
            return Err(self.damage(Flaw::Kind));
        }
        self.next += 1;
        self.previous = row.link;
        Ok(Some(Record {
            seq: row.seq,
            at: row.at,
            operation: row.operation,
            parent: row.parent,
            body,
            checksum: row.checksum,
            link: row.link,
        }))
    }

    /// The number of the next row.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Checks that the rows end where the run ends.
    pub(crate) fn finish(&self, head: Head) -> Result<(), ReadError> {
        if self.next < head.next_seq {
            return Err(self.damage(Flaw::Missing));
        }
        if self.next > head.next_seq {
            return Err(Damage {
                run: self.run,
                seq: head.next_seq,
                what: Flaw::Unknown,
                intact: head.next_seq,
            }
            .into());
        }
        if self.previous != head.link {
            let seq = self.next.saturating_sub(1);
            return Err(Damage { run: self.run, seq, what: Flaw::Head, intact: seq }.into());
        }
        Ok(())
    }

    /// Damage at the next row.
    pub(crate) const fn damage(&self, what: Flaw) -> ReadError {
        ReadError::Damaged(Damage { run: self.run, seq: self.next, what, intact: self.next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AttemptCause, Body, Start};

    const RUN: RunId = RunId::from_bytes([7; 16]);

    fn rows() -> Vec<Row> {
        let attempted = |attempt| Body::Attempted {
            attempt,
            cause: AttemptCause::Recovered,
            start: Start::Now,
            reason: None,
        };
        let records = (1..4).map(|attempt| NewRecord::new(Timestamp::from_millis(5), attempted(attempt)));
        seal(RUN, 0, Link::default(), &records.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_intact_body_that_this_release_cannot_read_is_of_a_newer_release() {
        let mut row = rows().remove(0);
        let body = rmp_serde::to_vec_named(&serde_json::json!({"teleported": {}})).unwrap();
        row.checksum = checksum(&body);
        row.body = Some(body);
        row.link = link(RUN, Link::default(), &row);
        let error = Verifier::new(RUN, 0, Link::default()).check(&row).unwrap_err();
        assert!(matches!(error, ReadError::NewerVersion { seq: 0, .. }), "{error}");
    }

    #[test]
    fn a_kind_that_is_not_the_bodys_is_damage_even_when_the_chain_fits() {
        let mut row = rows().remove(0);
        row.kind += 1;
        row.link = link(RUN, Link::default(), &row);
        let error = Verifier::new(RUN, 0, Link::default()).check(&row).unwrap_err();
        assert!(matches!(error, ReadError::Damaged(Damage { what: Flaw::Kind, .. })), "{error}");
    }

    #[test]
    fn a_link_stands_for_its_run() {
        let mut verifier = Verifier::new(RunId::from_bytes([8; 16]), 0, Link::default());
        assert!(matches!(
            verifier.check(&rows()[0]),
            Err(ReadError::Damaged(Damage { what: Flaw::Link, .. }))
        ));
    }

    #[test]
    fn a_body_above_the_limit_is_refused() {
        let digest = "x".repeat(MAX_BODY);
        let record = NewRecord::new(Timestamp::default(), Body::Rebound { server: "risk".into(), digest });
        let error = seal(RUN, 0, Link::default(), &[record]).unwrap_err();
        assert!(matches!(error, RecordError::TooLong { found } if found > MAX_BODY), "{error}");
    }
}
