//! The examination of the whole file, in one read transaction.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use dalsegno_core::{Digest, RunId};
use rusqlite::{Connection, params};

use super::read::{self, bytes, damaged_row, entry};
use super::{Fault, definitions, inbox, rows, storage_error};
use crate::archive::{files, needed};
use crate::blob::digest_bytes;
use crate::bytes::{Checksum, Link};
use crate::chain::{Verifier, checksum};
use crate::doctor::{Checkup, Finding};
use crate::error::{Damage, Flaw, ReadError};
use crate::progress::Progress;
use crate::record::Record;

/// Examines everything. What cannot be read is a finding, and the rest is examined all the same.
pub(super) fn examine(connection: &Connection, progress: &mut dyn FnMut(Progress)) -> Checkup {
    let mut checkup = Checkup::default();
    type Examination = fn(&Connection, &mut Checkup) -> Result<(), rusqlite::Error>;
    let parts: [(&str, Examination); 3] =
        [("the file", database), ("the schema", schema), ("the tables", orphans)];
    for (what, part) in parts {
        note(connection, &mut checkup, what, part);
    }
    note(connection, &mut checkup, "the configurations", configs);
    note(connection, &mut checkup, "the files", blobs);
    note(connection, &mut checkup, "the runs", |connection, checkup| runs(connection, checkup, progress));
    checkup
}

fn note(
    connection: &Connection,
    checkup: &mut Checkup,
    what: &'static str,
    part: impl FnOnce(&Connection, &mut Checkup) -> Result<(), rusqlite::Error>,
) {
    if let Err(error) = part(connection, checkup) {
        checkup.findings.push(Finding::Storage { what, source: storage_error(connection, error) });
    }
}

fn database(connection: &Connection, checkup: &mut Checkup) -> Result<(), rusqlite::Error> {
    checkup.version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut lines = statement.query([])?;
    while let Some(line) = lines.next()? {
        let message = line.get_ref(0)?.as_str().unwrap_or("unreadable").to_owned();
        if message != "ok" {
            checkup.findings.push(Finding::Database { message });
        }
    }
    Ok(())
}

fn schema(connection: &Connection, checkup: &mut Checkup) -> Result<(), rusqlite::Error> {
    let (expected, found) = (definitions::expected()?, definitions::read(connection)?);
    let names = found.keys().chain(expected.keys()).collect::<BTreeSet<_>>();
    for key in names.into_iter().filter(|key| found.get(key) != expected.get(key)) {
        checkup.findings.push(Finding::Schema { name: key.1.clone() });
    }
    Ok(())
}

fn orphans(connection: &Connection, checkup: &mut Checkup) -> Result<(), rusqlite::Error> {
    let questions = [
        (
            "record",
            "SELECT count(*) FROM record WHERE NOT EXISTS (SELECT 1 FROM run WHERE id = key >> 32)
                AND NOT EXISTS (SELECT 1 FROM doomed WHERE doomed.run = key >> 32)",
        ),
        (
            "reference",
            "SELECT count(*) FROM reference WHERE NOT EXISTS (SELECT 1 FROM record WHERE key = reference.record)",
        ),
        (
            "snapshot",
            "SELECT count(*) FROM snapshot WHERE NOT EXISTS (SELECT 1 FROM run WHERE id = snapshot.run)",
        ),
        ("inbox", "SELECT count(*) FROM inbox WHERE NOT EXISTS (SELECT 1 FROM run WHERE id = inbox.run)"),
        ("doomed", "SELECT count(*) FROM doomed JOIN run ON run.id = doomed.run"),
        (
            "doomed",
            "SELECT count(*) FROM doomed WHERE NOT EXISTS
                (SELECT 1 FROM record WHERE key BETWEEN doomed.run << 32 AND (doomed.run << 32) + 4294967295)
                AND doomed.run > (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'run')",
        ),
        // The number of the next run lies above all, and within what a key can hold.
        (
            "sqlite_sequence",
            "SELECT count(*) FROM run WHERE id > (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'run')",
        ),
        (
            "sqlite_sequence",
            "SELECT count(*) FROM sqlite_sequence WHERE name <> 'run' OR seq NOT BETWEEN 0 AND 2147483646",
        ),
    ];
    for (table, sql) in questions {
        let rows: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        if rows > 0 {
            checkup.findings.push(Finding::Orphans { table, rows: rows.cast_unsigned() });
        }
    }
    Ok(())
}

fn configs(connection: &Connection, checkup: &mut Checkup) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT digest, json, checksum FROM config")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        checkup.configs += 1;
        let digest = bytes(row.get_ref(0)?).map(Digest::from_bytes);
        let stored = bytes(row.get_ref(2)?).map(Checksum::from_bytes);
        let json = row.get_ref(1)?.as_str().ok();
        let sound =
            digest.is_some() && json.is_some() && json.map(|json| checksum(json.as_bytes())) == stored;
        if !sound {
            checkup.findings.push(Finding::Config { digest });
        }
    }
    Ok(())
}

fn blobs(connection: &Connection, checkup: &mut Checkup) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT digest FROM blob")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        checkup.files += 1;
        let digest = bytes(row.get_ref(0)?).map(Digest::from_bytes);
        let found = digest.map(|digest| rows::blob(connection, digest)).transpose()?.flatten().flatten();
        if digest.is_none() || found.map(|bytes| digest_bytes(&bytes)) != digest {
            checkup.findings.push(Finding::File { digest });
        }
    }
    let missing: i64 = connection.query_row(
        "SELECT count(DISTINCT digest) FROM reference
         WHERE place < 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.digest = reference.digest)",
        [],
        |row| row.get(0),
    )?;
    checkup.missing_files = missing.cast_unsigned();
    Ok(())
}

fn runs(
    connection: &Connection,
    checkup: &mut Checkup,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), rusqlite::Error> {
    let total: i64 = connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0))?;
    let total = total.cast_unsigned();
    let mut statement = connection.prepare("SELECT id, run FROM run ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        checkup.runs += 1;
        let id: i64 = row.get(0)?;
        match bytes(row.get_ref(1)?).map(RunId::from_bytes) {
            None => {
                let run = RunId::from_bytes([0; 16]);
                checkup.findings.push(Finding::Run { run, source: damaged_row(run) });
            }
            Some(run) => {
                let result = run_of(connection, checkup, run, id);
                if let Err(source) = plain(connection, result) {
                    checkup.findings.push(Finding::Run { run, source });
                }
            }
        }
        progress(Progress { done: checkup.runs, total });
    }
    Ok(())
}

fn plain<T>(connection: &Connection, result: Result<T, Fault<ReadError>>) -> Result<T, ReadError> {
    result.map_err(|fault| match fault {
        Fault::Refused(error) => error,
        Fault::Storage(error) => storage_error(connection, error).into(),
    })
}

/// Examines a run: its records, its entry, and whatever goes by its number.
fn run_of(
    connection: &Connection,
    checkup: &mut Checkup,
    run: RunId,
    id: i64,
) -> Result<(), Fault<ReadError>> {
    let entry = entry(connection, run)?;
    let mut verifier = Verifier::new(run, 0, Link::default());
    // With the content of one record the comparison with all of them is gone, so the others are not kept either.
    let (mut records, mut first, mut naming, mut is_complete) = (Vec::new(), None, Vec::new(), true);
    let names = |record: &Record| record.seq == 0 || files(&record.body).next().is_some();
    let mut times = None;
    {
        let (begin, end) = rows::keys(id, 0);
        let sql = format!("SELECT {} FROM record WHERE key BETWEEN ?1 AND ?2 ORDER BY key", rows::COLUMNS);
        let mut statement = connection.prepare_cached(&sql)?;
        let mut found = statement.query([begin, end])?;
        while let Some(row) = found.next()? {
            let row = rows::load(connection, row)?.map_err(|flaw| Fault::Refused(verifier.damage(flaw)))?;
            let record = verifier.check_any(&row).map_err(Fault::Refused)?;
            checkup.records += 1;
            checkup.erased += u64::from(record.is_none());
            times = Some((times.map_or(row.at, |(first, _)| first), row.at));
            match record {
                Some(record) => {
                    if record.seq == 0 {
                        first = Some(record.clone());
                    }
                    if names(&record) {
                        naming.push(Naming::of(&record));
                    }
                    if is_complete {
                        records.push(record);
                    }
                }
                None => {
                    is_complete = false;
                    records = Vec::new();
                }
            }
        }
    }
    verifier.finish(entry.head).map_err(Fault::Refused)?;
    match &first {
        Some(first) if is_complete => {
            entry.copies.check(run, first, &records).map_err(Fault::Refused)?;
        }
        // With the content the proof of what the entry repeats of it is gone, but for the times. The seal covers it.
        _ => {
            let copies = &entry.copies;
            let (begin, end) = times.unwrap_or_default();
            for (agrees, field) in
                [(copies.started_at == begin, "started_at"), (copies.updated_at == end, "updated_at")]
            {
                if !agrees {
                    let (what, intact) = (Flaw::Copy { field }, entry.head.next_seq);
                    return Err(Fault::Refused(Damage { run, seq: 0, what, intact }.into()));
                }
            }
        }
    }
    drop(records);
    for named in &naming {
        references(connection, checkup, run, id, named)?;
    }
    let config = entry.copies.config;
    read::config(connection, config)?;
    inbox::visit(connection, run, id, |(_, message)| {
        checkup.messages += 1;
        checkup.findings.extend(message.err().map(|source| Finding::Run { run, source }));
        ControlFlow::Continue(())
    })?;
    if let Some(stored) = read::stored_snapshot(connection, id)? {
        checkup.snapshots += 1;
        if read::open_snapshot(connection, run, entry.head.next_seq, &stored).is_none() {
            checkup.findings.push(Finding::Snapshot { run });
        }
    }
    Ok(())
}

/// The files that a record refers to.
struct Naming {
    seq: u64,
    expected: BTreeSet<Digest>,
    needed: BTreeSet<Digest>,
}

impl Naming {
    fn of(record: &Record) -> Self {
        let (expected, needed) = (files(&record.body).collect(), needed(&record.body).collect());
        Self { seq: record.seq, expected, needed }
    }
}

/// Compares the files that a record refers to with the list by which they are kept. A file beyond those is in the list
/// because it came with the run, so it must be there, as must all that the run cannot begin without.
fn references(
    connection: &Connection,
    checkup: &mut Checkup,
    run: RunId,
    id: i64,
    named: &Naming,
) -> Result<(), Fault<ReadError>> {
    let Naming { seq, expected, needed } = named;
    let mut statement = connection.prepare_cached(
        "SELECT digest, EXISTS (SELECT 1 FROM blob WHERE blob.digest = reference.digest) FROM reference
         WHERE record = ?1 AND place < ?2",
    )?;
    let mut rows = statement.query(params![rows::keys(id, *seq).0, 0])?;
    let (mut found, mut sound) = (BTreeSet::new(), true);
    while let Some(row) = rows.next()? {
        match bytes(row.get_ref(0)?).map(Digest::from_bytes) {
            Some(digest) => {
                sound &= (expected.contains(&digest) && !needed.contains(&digest)) || row.get(1)?;
                found.insert(digest);
            }
            None => sound = false,
        }
    }
    if !sound || !expected.is_subset(&found) {
        checkup.findings.push(Finding::References { run });
    }
    Ok(())
}
