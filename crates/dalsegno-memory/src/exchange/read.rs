//! Reads the lines of an import, of either format, into values that are within all bounds.

use std::io::BufRead;

use super::fields::{FieldProblem, Fields, problem};
use super::record::{FORMAT, VERSION};
use super::{IMPORT_LINE_BYTES_MAX, ImportError, LineProblem, Lines, json_problem};
use crate::hash::{hex, long_from_hex};
use crate::observation::{CheckedObservation, check_source, stored};
use crate::relation::{CheckedRelation, STRENGTH_DEFAULT, UNKNOWN_TYPE, check_strength, checked};
use crate::{MemoryError, NewObservation, Source, name};

/// What one line says.
#[derive(Debug)]
pub(crate) enum Entry {
    /// There is an entity of this type.
    Entity { name: String, entity_type: String },
    /// An observation about an entity that a line before named; its type is not given.
    Observation(Box<CheckedObservation>),
    /// A relation between entities that lines before named.
    Relation(Box<CheckedRelation>, Box<Period>),
    /// An entity with what is known about it today.
    Known { name: String, entity_type: String, observations: Vec<CheckedObservation> },
    /// A relation that holds today, between entities that may yet be unknown.
    Link(Box<CheckedRelation>),
}

/// When a relation held, and what ended it.
#[derive(Debug)]
pub(crate) struct Period {
    pub(crate) valid_from: i64,
    pub(crate) valid_to: Option<i64>,
    pub(crate) ended_by: Option<(String, i64)>,
}

/// Reads entries one by one.
pub(crate) struct Reader<R> {
    lines: Lines<R>,
    format: Option<Format>,
    at: u64,
}

#[derive(Clone, Copy)]
enum Format {
    Export,
    McpServer,
}

/// What is wrong with a line, without its number.
enum Problem {
    Line(String),
    Field(FieldProblem),
    Refused(MemoryError),
}

impl From<FieldProblem> for Problem {
    fn from(problem: FieldProblem) -> Self {
        Self::Field(problem)
    }
}

impl From<MemoryError> for Problem {
    fn from(problem: MemoryError) -> Self {
        Self::Refused(problem)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads content that counts as recorded at `at` where it does not say.
    pub(crate) fn new(lines: R, at: u64) -> Self {
        Self { lines: Lines::new(lines, IMPORT_LINE_BYTES_MAX), format: None, at }
    }

    /// Returns the next entry and the number of its line, none at the end of the file.
    pub(crate) fn next_entry(&mut self) -> Result<Option<(u64, Entry)>, ImportError> {
        loop {
            let bytes = self.lines.next_line();
            let line = self.lines.number();
            let bytes = bytes.map_err(|problem| match problem {
                LineProblem::TooLong(bytes) => {
                    ImportError::Line { line, problem: format!("it is longer than {bytes} bytes") }
                }
                LineProblem::Unreadable(source) => ImportError::Unreadable { line, source },
            })?;
            let Some(bytes) = bytes else { return Ok(None) };
            let entry = self.entry(&bytes).map_err(|problem| match problem {
                Problem::Line(problem) => ImportError::Line { line, problem },
                Problem::Field(FieldProblem { field, problem }) => {
                    ImportError::Field { line, field, problem }
                }
                Problem::Refused(problem) => ImportError::Refused { line, problem },
            })?;
            if let Some(entry) = entry {
                return Ok(Some((line, entry)));
            }
        }
    }

    /// Reads one line; the header of an export has no entry.
    fn entry(&mut self, bytes: &[u8]) -> Result<Option<Entry>, Problem> {
        let mut fields: Fields = serde_json::from_slice(bytes).map_err(|error| {
            Problem::Line(format!("{}; expected one JSON object on each line", json_problem(&error)))
        })?;
        let format = match self.format {
            Some(format) => format,
            None if fields.has("format") => {
                check_header(&mut fields)?;
                fields.finish("`format` and `version`")?;
                self.format = Some(Format::Export);
                return Ok(None);
            }
            None if fields.has("entityType") || fields.has("relationType") => {
                self.format = Some(Format::McpServer);
                Format::McpServer
            }
            None => {
                return Err(Problem::Line(format!(
                    "the format is unknown, expected the first line {{\"format\":\"{FORMAT}\",\"version\":\
                     {VERSION}}} of an export, or an entity or a relation of the MCP reference memory server"
                )));
            }
        };
        let kind = fields.text("type")?;
        match (format, kind.as_str()) {
            (Format::Export, "entity") => entity(fields),
            (Format::Export, "observation") => observation(fields, self.at),
            (Format::Export, "relation") => relation(fields, self.at),
            (Format::McpServer, "entity") => mcp_entity(fields, self.at),
            (Format::McpServer, "relation") => mcp_relation(fields, self.at),
            (Format::Export, _) => {
                Err(problem("type", "is unknown, expected `entity`, `observation` or `relation`").into())
            }
            (Format::McpServer, _) => {
                Err(problem("type", "is unknown, expected `entity` or `relation`").into())
            }
        }
        .map(Some)
    }
}

fn check_header(fields: &mut Fields) -> Result<(), Problem> {
    if fields.text("format")? != FORMAT {
        return Err(problem("format", &format!("is another format, expected `{FORMAT}`")).into());
    }
    match fields.optional_number("version")? {
        Some(VERSION) => Ok(()),
        Some(newer) if newer > VERSION => {
            let text = format!("is {newer}, this program knows up to {VERSION}; use a newer version of it");
            Err(problem("version", &text).into())
        }
        _ => Err(problem("version", &format!("is missing or 0, expected {VERSION}")).into()),
    }
}

fn entity(mut fields: Fields) -> Result<Entry, Problem> {
    let name = checked_name(fields.text("name")?, "name")?;
    let entity_type = checked_name(fields.text("entity_type")?, "entity_type")?;
    fields.finish("`type`, `name` and `entity_type`")?;
    Ok(Entry::Entity { name, entity_type })
}

fn observation(mut fields: Fields, at: u64) -> Result<Entry, Problem> {
    let entity = checked_name(fields.text("entity")?, "entity")?;
    let text = fields.text("text")?;
    let metadata = fields.object("metadata")?;
    let hash = fields.optional_text("hash")?;
    let recorded_at = fields.optional_number("recorded_at")?.unwrap_or(at);
    let (valid_from, valid_to) = period(&mut fields, recorded_at)?;
    let superseded_by = fields.optional_text("superseded_by")?;
    let source = source(&mut fields, "run", "step")?;
    fields.finish(
        "`type`, `entity`, `text`, `metadata`, `hash`, `valid_from`, `recorded_at`, `valid_to`, \
         `superseded_by`, `run` and `step`",
    )?;
    let new = NewObservation {
        operation: [0; 16],
        entity,
        entity_type: UNKNOWN_TYPE.to_owned(),
        text,
        metadata,
        source,
        recorded_at,
    };
    let mut checked = new.check()?;
    if hash.is_some_and(|hash| hash != hex(&checked.content_hash)) {
        let text = format!(
            "does not fit text and metadata, expected {}; restore the line, or leave the field out to take \
             it as it is",
            hex(&checked.content_hash)
        );
        return Err(problem("hash", &text).into());
    }
    checked.valid_from = valid_from;
    checked.valid_to = valid_to;
    if let Some(given) = superseded_by {
        let successor = long_from_hex(&given)
            .ok_or_else(|| problem("superseded_by", "is not a hash, expected 64 hexadecimal digits"))?;
        if valid_to.is_none() || successor == checked.content_hash {
            let text = "names a successor, expected another observation and `valid_to` beside it";
            return Err(problem("superseded_by", text).into());
        }
        checked.superseded_by = Some(successor);
    }
    Ok(Entry::Observation(Box::new(checked)))
}

fn relation(mut fields: Fields, at: u64) -> Result<Entry, Problem> {
    let from = checked_name(fields.text("from")?, "from")?;
    let relation = checked_name(fields.text("relation")?, "relation")?;
    let to = checked_name(fields.text("to")?, "to")?;
    let strength = fields.optional_float("strength")?.unwrap_or(STRENGTH_DEFAULT);
    let strength = check_strength(strength)
        .map_err(|_| problem("strength", &format!("is {strength}, expected 0 to 1")))?;
    let recorded_at = fields.optional_number("recorded_at")?.unwrap_or(at);
    let (valid_from, valid_to) = period(&mut fields, recorded_at)?;
    let source = source(&mut fields, "run", "step")?;
    let ended_by = check_source(self::source(&mut fields, "ended_run", "ended_step")?)?;
    if ended_by.is_some() && valid_to.is_none() {
        return Err(problem("ended_run", "names what ended it, expected `valid_to` beside it").into());
    }
    fields.finish(
        "`type`, `from`, `relation`, `to`, `strength`, `valid_from`, `recorded_at`, `valid_to`, `run`, \
         `step`, `ended_run` and `ended_step`",
    )?;
    let relation = checked(from, relation, to, strength, source, recorded_at)?;
    Ok(Entry::Relation(Box::new(relation), Box::new(Period { valid_from, valid_to, ended_by })))
}

/// Fields that are not known are left out: the server keeps whatever it was sent.
fn mcp_entity(mut fields: Fields, at: u64) -> Result<Entry, Problem> {
    let name = checked_name(fields.text("name")?, "name")?;
    let entity_type = checked_name(fields.text("entityType")?, "entityType")?;
    let observations = fields.texts("observations")?.into_iter().enumerate().map(|(index, text)| {
        let new = NewObservation {
            operation: [0; 16],
            entity: name.clone(),
            entity_type: UNKNOWN_TYPE.to_owned(),
            text,
            metadata: serde_json::Value::Null,
            source: Source::Seed,
            recorded_at: at,
        };
        new.check().map_err(|error| problem(&format!("observations[{index}]"), &error.to_string()).into())
    });
    let observations = observations.collect::<Result<_, Problem>>()?;
    Ok(Entry::Known { name, entity_type, observations })
}

fn mcp_relation(mut fields: Fields, at: u64) -> Result<Entry, Problem> {
    let from = checked_name(fields.text("from")?, "from")?;
    let to = checked_name(fields.text("to")?, "to")?;
    let relation = checked_name(fields.text("relationType")?, "relationType")?;
    Ok(Entry::Link(Box::new(checked(from, relation, to, STRENGTH_DEFAULT, Source::Seed, at)?)))
}

fn checked_name(given: String, field: &str) -> Result<String, FieldProblem> {
    name::check(&given).map_err(|wrong| problem(field, &wrong.to_string()))?;
    Ok(given)
}

/// Takes since when and until when something holds.
fn period(fields: &mut Fields, recorded_at: u64) -> Result<(i64, Option<i64>), Problem> {
    let valid_from = fields.optional_number("valid_from")?.unwrap_or(recorded_at);
    let valid_to = fields.optional_number("valid_to")?;
    if valid_to.is_some_and(|valid_to| valid_to <= valid_from) {
        return Err(problem("valid_to", "is not after `valid_from`, expected a later time").into());
    }
    let valid_to = valid_to.map(|valid_to| stored("valid_to", valid_to)).transpose()?;
    Ok((stored("valid_from", valid_from)?, valid_to))
}

/// Takes the run and the step that something comes from: both or neither.
fn source(fields: &mut Fields, run: &str, step: &str) -> Result<Source, FieldProblem> {
    match (fields.optional_text(run)?, fields.optional_number(step)?) {
        (Some(run_id), Some(step)) => Ok(Source::Run { run: checked_name(run_id, run)?, step }),
        (None, None) => Ok(Source::Seed),
        (Some(_), None) => Err(problem(step, &format!("is missing, expected a number beside `{run}`"))),
        (None, Some(_)) => Err(problem(run, &format!("is missing, expected a string beside `{step}`"))),
    }
}
