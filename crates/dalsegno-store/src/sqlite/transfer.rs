//! Runs that leave the file and runs that enter it.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{Digest, RunId};
use rusqlite::{Connection, params};

use super::Fault;
use super::read::{self, Entry, damaged_row};
use super::rows::{PackedFile, Stored, pack_files};
use super::write::{Entering, NewEntry, insert_config, insert_run};
use crate::archive::{Archive, ImportError, Imported, Verified, VerifiedRun, attachments};
use crate::chain::Row;
use crate::error::{Damage, ReadError};
use crate::origin::Foreign;
use crate::record::Record;

/// Takes a copy of runs, in the order in which they were created.
pub(super) fn export(connection: &Connection, runs: &[RunId]) -> Result<Archive, Fault<ReadError>> {
    export_by(connection, runs, read::rows)
}

/// Takes a copy of runs, each as far as its records verify, and says what is damaged.
pub(super) fn export_intact(
    connection: &Connection,
    runs: &[RunId],
) -> Result<(Archive, Vec<Damage>), Fault<ReadError>> {
    let mut damaged = Vec::new();
    let archive = export_by(connection, runs, |connection, run, entry| {
        let (rows, records, damage) = read::intact_rows(connection, run, entry)?;
        damaged.extend(damage);
        Ok((rows, records))
    })?;
    Ok((archive, damaged))
}

fn export_by(
    connection: &Connection,
    runs: &[RunId],
    mut read_rows: impl FnMut(&Connection, RunId, &Entry) -> Result<(Vec<Row>, Vec<Record>), Fault<ReadError>>,
) -> Result<Archive, Fault<ReadError>> {
    let (mut configs, mut blobs) = (BTreeMap::new(), BTreeMap::new());
    let mut exported = Vec::new();
    for run in runs.iter().copied().collect::<BTreeSet<_>>() {
        let entry = read::entry(connection, run)?;
        let (rows, records) = read_rows(connection, run, &entry)?;
        let config = entry.copies.config;
        if let std::collections::btree_map::Entry::Vacant(vacant) = configs.entry(config) {
            vacant.insert(read::config(connection, config)?);
        }
        for digest in attachments(&records) {
            if !blobs.contains_key(&digest)
                && let Some(bytes) = read::blob(connection, digest)?
            {
                blobs.insert(digest, bytes);
            }
        }
        exported.push((entry.id, (run, request_digest(connection, run, entry.id)?, rows)));
    }
    exported.sort_unstable_by_key(|(id, _)| *id);
    Ok(Archive::new(exported.into_iter().map(|(_, run)| run), configs, blobs))
}

fn request_digest(connection: &Connection, run: RunId, id: i64) -> Result<Digest, Fault<ReadError>> {
    let digest = connection
        .prepare_cached("SELECT request_digest FROM run WHERE id = ?1")?
        .query_row([id], |row| Ok(read::bytes(row.get_ref(0)?)))?;
    digest.map(Digest::from_bytes).ok_or(Fault::Refused(damaged_row(run)))
}

/// A verified archive, ready to be inserted.
pub(super) struct Packed {
    foreign: Foreign,
    runs: Vec<(VerifiedRun, Vec<Stored>)>,
    configs: Vec<(Digest, String)>,
    blobs: Vec<PackedFile>,
}

impl Packed {
    pub(super) fn new(archive: Verified) -> Self {
        let Verified { foreign, runs, configs, blobs } = archive;
        let pack = |mut run: VerifiedRun| {
            let rows = Stored::all(std::mem::take(&mut run.rows));
            (run, rows)
        };
        Self { foreign, runs: runs.into_iter().map(pack).collect(), configs, blobs: pack_files(&blobs) }
    }
}

/// Adds the runs of an archive that are not here yet, as foreign ones.
pub(super) fn import(connection: &Connection, archive: &Packed) -> Result<Imported, Fault<ImportError>> {
    let mut imported = Imported::default();
    for (run, rows) in &archive.runs {
        if is_known(connection, run)? {
            imported.known.push(run.run);
            continue;
        }
        check_named(connection, run)?;
        let VerifiedRun { run, request_digest, copies, head, rows: _, named: _, files: _ } = run;
        let entry = NewEntry { run: *run, request_digest: *request_digest, copies, head: *head, rows };
        insert_run(connection, &entry, Entering::Foreign(archive.foreign))?;
        imported.added.push(*run);
    }
    for (digest, json) in &archive.configs {
        insert_config(connection, *digest, json)?;
    }
    for (digest, form, bytes) in &archive.blobs {
        // What was erased here is referred to no more, and must not come back.
        connection
            .prepare_cached(
                "INSERT INTO blob (digest, form, bytes)
                 SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM reference WHERE reference.digest = ?1)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![digest.as_bytes(), *form as u8, bytes])?;
    }
    Ok(imported)
}

fn is_known(connection: &Connection, run: &VerifiedRun) -> Result<bool, Fault<ImportError>> {
    match read::entry(connection, run.run) {
        Ok(entry) => run.is_known_as(entry.head).map(|()| true).map_err(Fault::Refused),
        Err(Fault::Refused(ReadError::UnknownRun { .. })) => Ok(false),
        Err(fault) => Err(fault.within()),
    }
}

/// Refuses a run that names one of this journal's own and may not.
fn check_named(connection: &Connection, run: &VerifiedRun) -> Result<(), Fault<ImportError>> {
    for named in &run.named {
        match read::entry(connection, named.run()) {
            Ok(Entry { foreign: None, copies, .. }) => {
                run.may_name(*named, &copies).map_err(Fault::Refused)?;
            }
            Ok(_) | Err(Fault::Refused(ReadError::UnknownRun { .. })) => {}
            Err(fault) => return Err(fault.within()),
        }
    }
    Ok(())
}
