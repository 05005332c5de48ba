//! Records as rows of the file: their keys, how their bodies are kept, and the way back.

use dalsegno_core::{Digest, OperationId, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::read::{bytes, optional};
use crate::archive::{files, has_files, needed, returned};
use crate::bytes::{Checksum, Link};
use crate::chain::{Row, checksum};
use crate::codec::decode_body;
use crate::error::Flaw;
use crate::pack::{Form, Packed, pack_body, pack_file, unpack_body, unpack_file};
use crate::record::{Body, NewRecord};

/// The columns that [`load`] reads.
pub(crate) const COLUMNS: &str = "key, at, kind, form, operation, parent, body, checksum, link";

/// The bits of a key that are the record's number in its run.
const SEQ_BITS: u32 = 32;

/// The key of a record; none beyond what the file can number (four thousand million records a run).
pub(crate) fn key(run: i64, seq: u64) -> Option<i64> {
    let seq = u32::try_from(seq).ok()?;
    let run = i32::try_from(run).ok().filter(|run| *run >= 0)?;
    Some(i64::from(run) << SEQ_BITS | i64::from(seq))
}

/// The first and the last key that a run's records may have, from this record on. None lies between them when the run
/// or the record has a number that the file cannot have.
pub(crate) fn keys(run: i64, from: u64) -> (i64, i64) {
    match (key(run, from), key(run, u64::from(u32::MAX))) {
        (Some(first), Some(last)) => (first, last),
        _ => (1, 0),
    }
}

/// The run's row number and the record's number in a key.
pub(crate) const fn split(key: i64) -> (i64, u64) {
    (key >> SEQ_BITS, (key & u32::MAX as i64).cast_unsigned())
}

/// A record, ready to be inserted.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    seq: u64,
    at: Timestamp,
    kind: u8,
    operation: Option<OperationId>,
    parent: Option<OperationId>,
    checksum: Checksum,
    link: Link,
    packed: Packed,
    files: Vec<Digest>,
    /// Those of the files without which a new run cannot begin.
    needed: Vec<Digest>,
    /// Those of the files that results name.
    returned: Vec<Digest>,
}

impl Stored {
    /// Packs a row. It takes some time, so it is done before the writer is called.
    pub(crate) fn new(row: Row) -> Self {
        let body = has_files(row.kind).then(|| decode_body(row.body.as_deref().unwrap_or_default()));
        Self::of(row, body.and_then(Result::ok).as_ref())
    }

    /// Packs a row with this body; none refers to nothing.
    fn of(row: Row, known: Option<&Body>) -> Self {
        let Row { seq, at, kind, operation, parent, body, checksum, link } = row;
        let packed = pack_body(body.unwrap_or_default());
        let files = known.into_iter().flat_map(files).collect();
        let needed = known.into_iter().flat_map(needed).collect();
        let returned = known.into_iter().flat_map(returned).collect();
        let mut stored =
            Self { seq, at, kind, operation, parent, checksum, link, packed, files, needed, returned };
        stored.use_files(std::iter::empty());
        stored
    }

    pub(crate) fn all(rows: Vec<Row>) -> Vec<Self> {
        rows.into_iter().map(Self::new).collect()
    }

    /// Packs the rows of these records, each of which uses the files that come with it, too.
    pub(crate) fn of_records(rows: Vec<Row>, records: &[NewRecord]) -> Vec<Self> {
        let of = |(row, record): (Row, &NewRecord)| {
            let mut stored = Self::of(row, Some(&record.body));
            stored.use_files(record.files.iter().map(|(digest, _)| *digest));
            stored
        };
        rows.into_iter().zip(records).map(of).collect()
    }

    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }

    pub(crate) const fn link(&self) -> Link {
        self.link
    }

    /// The files without which a new run cannot begin.
    pub(crate) fn needed(&self) -> &[Digest] {
        &self.needed
    }

    /// The files that results name, which must be here or come with the record.
    pub(crate) fn returned(&self) -> &[Digest] {
        &self.returned
    }

    /// Says whether the record uses this file.
    pub(crate) fn uses(&self, file: &Digest) -> bool {
        self.files.contains(file)
    }

    /// Says that the record uses these files, whatever its content says.
    pub(crate) fn use_files(&mut self, used: impl Iterator<Item = Digest>) {
        self.files.extend(used);
        self.files.sort_unstable();
        self.files.dedup();
    }
}

/// Inserts records of a run.
pub(crate) fn insert(connection: &Connection, run: i64, rows: &[Stored]) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO record (key, at, kind, form, operation, parent, body, checksum, link)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for row in rows {
        let key =
            key(run, row.seq).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, row.seq.cast_signed()))?;
        statement.execute(params![
            key,
            row.at.as_millis().cast_signed(),
            row.kind,
            row.packed.form as u8,
            row.operation.as_ref().map(OperationId::as_bytes),
            row.parent.as_ref().map(OperationId::as_bytes),
            row.packed.bytes,
            row.checksum.as_bytes(),
            row.link.as_bytes(),
        ])?;
        let parts = row.packed.parts.iter().map(|part| (part.place as i64, part.digest));
        let files = row.files.iter().zip(1i64..).map(|(digest, number)| (-number, *digest));
        for part in &row.packed.parts {
            insert_blob(connection, part.digest, part.form, &part.bytes)?;
        }
        for (place, digest) in parts.chain(files) {
            connection
                .prepare_cached("INSERT INTO reference (record, place, digest) VALUES (?1, ?2, ?3)")?
                .execute(params![key, place, digest.as_bytes()])?;
        }
    }
    Ok(())
}

/// A packed file.
pub(crate) type PackedFile = (Digest, Form, Vec<u8>);

/// Packs files. It takes some time, so it is done before the writer is called.
pub(crate) fn pack_files<'f, B: AsRef<[u8]> + 'f>(
    files: impl IntoIterator<Item = &'f (Digest, B)>,
) -> Vec<PackedFile> {
    let pack = |(digest, bytes): &(Digest, B)| {
        let (form, bytes) = pack_file(bytes.as_ref());
        (*digest, form, bytes.into_owned())
    };
    files.into_iter().map(pack).collect()
}

/// Says whether a file is here.
pub(crate) fn has_blob(connection: &Connection, digest: Digest) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM blob WHERE digest = ?1)")?
        .query_row([digest.as_bytes()], |row| row.get(0))
}

/// Keeps a file or a part of a body, unless it is there. What is there in other bytes is replaced: it may be damaged, and
/// then nothing that repeats it could be read.
pub(crate) fn insert_blob(
    connection: &Connection,
    digest: Digest,
    form: Form,
    bytes: &[u8],
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO blob (digest, form, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (digest) DO UPDATE SET form = excluded.form, bytes = excluded.bytes
             WHERE form <> excluded.form OR bytes <> excluded.bytes",
        )?
        .execute(params![digest.as_bytes(), form as u8, bytes])?;
    Ok(())
}

/// Replaces a record's body, kind, checksum and link.
#[cfg(feature = "conformance")]
pub(crate) fn replace(connection: &Connection, run: i64, row: &Stored) -> Result<(), rusqlite::Error> {
    let key = key(run, row.seq).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    connection.execute("DELETE FROM reference WHERE record = ?1", [key])?;
    connection.execute("DELETE FROM record WHERE key = ?1", [key])?;
    insert(connection, run, std::slice::from_ref(row))
}

/// Reads a row of [`COLUMNS`], and says what is wrong when it has no good form.
pub(crate) fn load(
    connection: &Connection,
    row: &rusqlite::Row<'_>,
) -> Result<Result<Row, Flaw>, rusqlite::Error> {
    let operation = |value| optional(value, |value| bytes(value).map(OperationId::from_bytes));
    let (ValueRef::Integer(key), ValueRef::Integer(at), ValueRef::Integer(kind), ValueRef::Integer(form)) =
        (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?, row.get_ref(3)?)
    else {
        return Ok(Err(Flaw::Form));
    };
    let (Ok(kind), Some(form), Some(operation), Some(parent), Some(checksum), Some(link)) = (
        u8::try_from(kind),
        Form::of(form),
        operation(row.get_ref(4)?),
        operation(row.get_ref(5)?),
        bytes(row.get_ref(7)?),
        bytes(row.get_ref(8)?),
    ) else {
        return Ok(Err(Flaw::Form));
    };
    let body = match (form, row.get_ref(6)?) {
        (Form::Erased, ValueRef::Null) => None,
        (form, ValueRef::Blob(stored)) => {
            let parts = if form == Form::Parts1 { parts(connection, key)? } else { Some(Vec::new()) };
            match parts.and_then(|parts| unpack_body(form, stored, parts)) {
                Some(body) => Some(body),
                None => return Ok(Err(Flaw::Checksum)),
            }
        }
        _ => return Ok(Err(Flaw::Form)),
    };
    Ok(Ok(Row {
        seq: split(key).1,
        at: Timestamp::from_millis(at.cast_unsigned()),
        kind,
        operation,
        parent,
        body,
        checksum: Checksum::from_bytes(checksum),
        link: Link::from_bytes(link),
    }))
}

/// Parts of a body, with their places.
type Parts = Vec<(usize, Vec<u8>)>;

/// The parts of a record's body, in the order of their places; none if one is missing or damaged.
fn parts(connection: &Connection, key: i64) -> Result<Option<Parts>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT reference.place, blob.form, blob.bytes FROM reference LEFT JOIN blob USING (digest)
         WHERE reference.record = ?1 AND reference.place >= 0 ORDER BY reference.place",
    )?;
    let mut rows = statement.query([key])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        let form = row.get::<_, Option<i64>>(1)?.and_then(Form::of);
        let stored: Option<Vec<u8>> = row.get(2)?;
        let place = usize::try_from(row.get::<_, i64>(0)?);
        let bytes = form.zip(stored).and_then(|(form, stored)| unpack_file(form, stored));
        let (Ok(place), Some(bytes)) = (place, bytes) else { return Ok(None) };
        parts.push((place, bytes));
    }
    Ok(Some(parts))
}

/// Reads a file or a part of a body; the inner one is none if it is damaged beyond reading.
pub(super) fn blob(
    connection: &Connection,
    digest: Digest,
) -> Result<Option<Option<Vec<u8>>>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT form, bytes FROM blob WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| {
            Ok(Form::of(row.get(0)?)
                .zip(Some(row.get(1)?))
                .and_then(|(form, bytes)| unpack_file(form, bytes)))
        })
        .optional()
}

/// The columns that a run's seal covers: the first five always, the last one where the run is foreign, the others once
/// content of the run was erased, and with it what they are compared with.
pub(super) const SEALED: &str = "run, request_digest, owner, epoch, posted, agent, tenant, session, config, start_key, \
                                 parent, status, wake_at, waiting, origin";

/// The seal of an entry: the columns from `first` on, as [`SEALED`] names them. None if one has the wrong form.
pub(super) fn seal(
    row: &rusqlite::Row<'_>,
    first: usize,
    erased: bool,
) -> Result<Option<Checksum>, rusqlite::Error> {
    let origin = first + 14;
    let foreign = !matches!(row.get_ref(origin)?, ValueRef::Null);
    // A run's own seal stays what it was before there were foreign ones, and fits no foreign entry.
    let mut covered = match (foreign, erased) {
        (false, false) => b"segno entry 1".to_vec(),
        (false, true) => b"segno entry 2".to_vec(),
        (true, false) => b"segno entry 3".to_vec(),
        (true, true) => b"segno entry 4".to_vec(),
    };
    for column in (first..first + if erased { 14 } else { 5 }).chain(foreign.then_some(origin)) {
        let (tag, bytes) = match row.get_ref(column)? {
            ValueRef::Null => (0, Vec::new()),
            ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec()),
            ValueRef::Text(bytes) => (2, bytes.to_vec()),
            ValueRef::Blob(bytes) => (3, bytes.to_vec()),
            ValueRef::Real(_) => return Ok(None),
        };
        covered.push(tag);
        covered.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        covered.extend_from_slice(&bytes);
    }
    Ok(Some(checksum(&covered)))
}

/// Says whether an entry has its seal: the columns from `first` on, as [`SEALED`] names them.
pub(super) fn is_sealed(
    row: &rusqlite::Row<'_>,
    first: usize,
    stored: ValueRef<'_>,
) -> Result<bool, rusqlite::Error> {
    let Some(stored) = bytes(stored).map(Checksum::from_bytes) else { return Ok(false) };
    Ok(seal(row, first, false)? == Some(stored) || seal(row, first, true)? == Some(stored))
}

/// Asks whether content of a run was erased. The number of the form is spelled as the index says it: an ended run may
/// be long, and it is sealed anew each time that it is released.
const HAS_ERASED: &str =
    "SELECT EXISTS (SELECT 1 FROM record INDEXED BY record_erased WHERE key BETWEEN ?1 AND ?2 AND form = 3)";
const _: () = assert!(Form::Erased as u8 == 3, "the index and the question say 3");

/// Says whether content of a run was erased.
pub(super) fn has_erased(connection: &Connection, run: i64) -> Result<bool, rusqlite::Error> {
    let (first, last) = keys(run, 0);
    connection.prepare_cached(HAS_ERASED)?.query_row([first, last], |row| row.get(0))
}

/// Seals a run's entry after a change of what the seal covers.
pub(super) fn reseal(connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
    let sql = format!("SELECT {SEALED} FROM run WHERE id = ?1");
    let sealed = connection.prepare_cached(&sql)?.query_row([run], |row| {
        // Only of ended and of foreign runs something is erased.
        let erased = (row.get::<_, i64>(11)? >= 2 || row.get_ref(14)? != ValueRef::Null)
            && has_erased(connection, run)?;
        seal(row, 0, erased)
    })?;
    let sealed = sealed.map(|seal| seal.as_bytes().to_vec()).unwrap_or_default();
    connection.prepare_cached("UPDATE run SET seal = ?2 WHERE id = ?1")?.execute(params![run, sealed])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_content_was_erased_is_asked_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let connection = super::super::open::open_writer(&folder.path().join("journal.db")).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {HAS_ERASED}");
        let mut statement = connection.prepare(&sql).unwrap();
        let plan = statement.query_map([1, 2], |row| row.get::<_, String>(3)).unwrap();
        let plan = plan.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(plan.contains("INDEX record_erased") && !plan.contains("SCAN record"), "{plan}");
    }
}
