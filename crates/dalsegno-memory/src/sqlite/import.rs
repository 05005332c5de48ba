//! Taking JSON lines into one scope, all or none.

use std::io::BufRead;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::create::{self, Observed};
use super::{relate, rows};
use crate::exchange::{Entry, Period, Reader};
use crate::observation::CheckedObservation;
use crate::relation::CheckedRelation;
use crate::scope::ScopeKey;
use crate::{ImportCounts, ImportError, ImportMode, MemoryError, ObservationId, UNKNOWN_TYPE};

/// What stands before the run that a file names as the source: nothing here proves that it was that run.
const IMPORTED: &str = "imported:";

/// Reads all lines. This may take long, so that it is done before anything is locked.
pub(super) fn read(lines: impl BufRead, at: u64) -> Result<Vec<(u64, Entry)>, ImportError> {
    let mut reader = Reader::new(lines, at);
    let mut entries = Vec::new();
    while let Some((line, mut entry)) = reader.next_entry()? {
        match &mut entry {
            Entry::Observation(new) => mark(&mut new.source),
            Entry::Relation(new, period) => {
                mark(&mut new.source);
                mark(&mut period.ended_by);
            }
            Entry::Entity { .. } | Entry::Known { .. } | Entry::Link(_) => {}
        }
        entries.push((line, entry));
    }
    Ok(entries)
}

fn mark(source: &mut Option<(String, i64)>) {
    if let Some((run, _)) = source
        && !run.starts_with(IMPORTED)
    {
        run.insert_str(0, IMPORTED);
    }
}

/// Imports all entries into the scope. Where something is there already, its source stays what it is here.
pub(super) fn import(
    transaction: &Transaction<'_>,
    scope: &ScopeKey,
    entries: &[(u64, Entry)],
    mode: ImportMode,
) -> Result<ImportCounts, ImportError> {
    let scope_id = rows::find_or_add_scope(transaction, scope)?;
    let mut import = Import {
        transaction,
        scope,
        scope_id,
        mode,
        line: 0,
        counts: ImportCounts::default(),
        successors: Vec::new(),
    };
    for (line, entry) in entries {
        import.line = *line;
        let taken = import.take(entry);
        taken.map_err(|error| match error {
            // A value that only the store could refuse belongs to its line as well.
            ImportError::Memory(problem @ MemoryError::EntityType { .. }) => {
                ImportError::Refused { line: *line, problem }
            }
            other => other,
        })?;
    }
    import.check_successors()?;
    Ok(import.counts)
}

struct Import<'import> {
    transaction: &'import Transaction<'import>,
    scope: &'import ScopeKey,
    scope_id: i64,
    mode: ImportMode,
    line: u64,
    counts: ImportCounts,
    /// Observations that lines name as successors, which may come on later lines.
    successors: Vec<(u64, ObservationId)>,
}

/// A run and its step, or neither.
type Named = (Option<String>, Option<i64>);

/// The times and the successor of an observation.
type Course = (i64, i64, Option<i64>, Option<[u8; 32]>);

impl Import<'_> {
    fn take(&mut self, entry: &Entry) -> Result<(), ImportError> {
        match entry {
            Entry::Entity { name, entity_type } => self.entity(name, entity_type).map(|_| ()),
            Entry::Observation(new) => {
                let entity = self.known("entity", &new.entity)?;
                self.observation(entity, new)
            }
            Entry::Relation(new, period) => {
                let from = self.known("from", &new.from)?;
                let to = self.known("to", &new.to)?;
                self.relation(from, to, new, period)
            }
            Entry::Known { name, entity_type, observations } => {
                let entity = self.entity(name, entity_type)?;
                for new in observations {
                    let (_, observed) =
                        create::observe(self.transaction, self.scope, self.scope_id, entity, new)?;
                    match observed {
                        Observed::Added => self.counts.added += 1,
                        Observed::Revived => self.counts.updated += 1,
                        Observed::Present => self.counts.skipped += 1,
                    }
                }
                Ok(())
            }
            Entry::Link(new) => {
                let related = relate::stand(self.transaction, self.scope_id, new)?;
                self.counts.added += related.made.len() as u64 + u64::from(!related.duplicate);
                self.counts.skipped += u64::from(related.duplicate);
                Ok(())
            }
        }
    }

    /// Takes an entity and returns its row.
    fn entity(&mut self, name: &str, entity_type: &str) -> Result<i64, ImportError> {
        let Some((id, existing)) = rows::find_entity(self.transaction, self.scope_id, name)? else {
            self.counts.added += 1;
            return Ok(rows::add_entity(self.transaction, self.scope_id, name, entity_type)?);
        };
        if existing == entity_type || entity_type == UNKNOWN_TYPE {
            self.counts.skipped += 1;
        } else if existing == UNKNOWN_TYPE
            || self.replaces(|| format!("the entity `{name}`, of type `{existing}`,"))?
        {
            rows::set_type(self.transaction, id, entity_type)?;
            self.counts.updated += 1;
        }
        Ok(id)
    }

    fn observation(&mut self, entity: i64, new: &CheckedObservation) -> Result<(), ImportError> {
        if let Some(successor) = &new.superseded_by {
            let successor = ObservationId::derive(self.scope, &new.entity, successor);
            self.successors.push((self.line, successor));
        }
        let present: Option<(i64, Course)> = self
            .transaction
            .prepare_cached(
                "SELECT id, valid_from, recorded_at, valid_to, superseded_by FROM observation WHERE public_id = ?1",
            )?
            .query_row([new.id(self.scope).as_bytes()], |row| Ok((row.get(0)?, course(row)?)))
            .optional()?;
        let Some((id, present)) = present else {
            create::add(self.transaction, self.scope, self.scope_id, entity, new)?;
            self.counts.added += 1;
            return Ok(());
        };
        let given: Course = (new.valid_from, new.recorded_at, new.valid_to, new.superseded_by);
        if present == given {
            self.counts.skipped += 1;
            return Ok(());
        }
        if !self.replaces(|| format!("an observation about `{}`", new.entity))? {
            return Ok(());
        }
        match (present.2, new.valid_to) {
            (None, Some(_)) => create::remove_from_index(self.transaction, self.scope_id, id)?,
            (Some(_), None) => create::index(self.transaction, self.scope_id, id, new)?,
            (None, None) | (Some(_), Some(_)) => {}
        }
        let (valid_from, recorded_at, valid_to, superseded_by) = given;
        self.transaction
            .prepare_cached(
                "UPDATE observation SET valid_from = ?2, recorded_at = ?3, valid_to = ?4, superseded_by = ?5
                 WHERE id = ?1",
            )?
            .execute(params![id, valid_from, recorded_at, valid_to, superseded_by])?;
        self.counts.updated += 1;
        Ok(())
    }

    /// Takes one period of a relation. It meets the period that began at the same time, and when it stands,
    /// the one that stands.
    fn relation(
        &mut self,
        from: i64,
        to: i64,
        new: &CheckedRelation,
        period: &Period,
    ) -> Result<(), ImportError> {
        // What stands here keeps the source that it has here, and the one of its end.
        let here = self.sources(from, to, new, period)?;
        let given = (new.source.clone().unzip(), period.ended_by.clone().unzip());
        let ((run, step), (ended_run, ended_step)) = match here {
            Some((made, ended)) => (made, if ended.0.is_some() { ended } else { given.1 }),
            None => given,
        };
        let row = params![
            from,
            new.relation,
            to,
            period.valid_from,
            period.valid_to,
            new.strength,
            new.at,
            run,
            step,
            ended_run,
            ended_step
        ];
        let met_by =
            params![from, new.relation, to, period.valid_from, period.valid_to, new.strength, new.at];
        let (met, equal): (i64, i64) = self
            .transaction
            .prepare_cached(
                "SELECT count(*),
                        count(*) FILTER (WHERE valid_from = ?4 AND valid_to IS ?5 AND strength = ?6
                            AND recorded_at = ?7)
                 FROM relation WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3
                     AND (valid_from = ?4 OR (valid_to IS NULL AND ?5 IS NULL))",
            )?
            .query_row(met_by, |row| Ok((row.get(0)?, row.get(1)?)))?;
        if (met, equal) == (1, 1) {
            self.counts.skipped += 1;
            return Ok(());
        }
        if met > 0 {
            let what = || format!("the relation `{}` `{}` `{}`", new.from, new.relation, new.to);
            if !self.replaces(what)? {
                return Ok(());
            }
            self.transaction
                .prepare_cached(
                    "DELETE FROM relation WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3
                         AND (valid_from = ?4 OR (valid_to IS NULL AND ?5 IS NULL))",
                )?
                .execute(params![from, new.relation, to, period.valid_from, period.valid_to])?;
            self.counts.updated += 1;
        } else {
            self.counts.added += 1;
        }
        self.transaction
            .prepare_cached(
                "INSERT INTO relation (from_entity, type, to_entity, valid_from, valid_to, strength,
                                       recorded_at, source_run, source_step, ended_run, ended_step)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(row)?;
        Ok(())
    }

    /// The sources of the period of a relation that began at the same time, and of its end.
    fn sources(
        &self,
        from: i64,
        to: i64,
        new: &CheckedRelation,
        period: &Period,
    ) -> Result<Option<(Named, Named)>, ImportError> {
        let sql = "SELECT source_run, source_step, ended_run, ended_step FROM relation
                   WHERE from_entity = ?1 AND type = ?2 AND to_entity = ?3 AND valid_from = ?4";
        let mut statement = self.transaction.prepare_cached(sql)?;
        let found = statement.query_row(params![from, new.relation, to, period.valid_from], |row| {
            Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?)))
        });
        Ok(found.optional()?)
    }

    /// Whether what the file says replaces what is there; counts it when it does not.
    fn replaces(&mut self, what: impl FnOnce() -> String) -> Result<bool, ImportError> {
        match self.mode {
            ImportMode::Update => Ok(true),
            ImportMode::Skip => {
                self.counts.skipped += 1;
                Ok(false)
            }
            ImportMode::Fail => Err(ImportError::Conflict { line: self.line, what: what() }),
        }
    }

    /// Returns the row of an entity that must be there.
    fn known(&self, field: &str, name: &str) -> Result<i64, ImportError> {
        match rows::find_entity(self.transaction, self.scope_id, name)? {
            Some((id, _)) => Ok(id),
            None => Err(ImportError::Field {
                line: self.line,
                field: field.to_owned(),
                problem: format!("there is no entity `{name}`, expected its line before this one"),
            }),
        }
    }

    fn check_successors(&self) -> Result<(), ImportError> {
        let mut statement =
            self.transaction.prepare_cached("SELECT 1 FROM observation WHERE public_id = ?1")?;
        for (line, successor) in &self.successors {
            if !statement.exists([successor.as_bytes()])? {
                return Err(ImportError::Field {
                    line: *line,
                    field: "superseded_by".to_owned(),
                    problem: "its entity has no such observation, expected the hash of one".to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn course(row: &Row<'_>) -> Result<Course, rusqlite::Error> {
    Ok((row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}
