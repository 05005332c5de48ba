//! The file form of a cassette.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use dalsegno_core::ModelReply;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::CassetteError;
use super::request::{Head, Request, ToolView};

/// The version of the format that is written, and the only one there is.
const VERSION: u32 = 1;

/// Most bytes of a cassette.
const MAX_BYTES: u64 = 64 << 20;

/// A request and its reply.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) reply: ModelReply,
}

/// One line of a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    DalsegnoCassette(u32),
    Request(Opening),
    Tool(ToolView),
    OutputSchema(Value),
    Entry(Value),
    Reply(ModelReply),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    settings: Head,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    like: Option<Like>,
}

/// What a request shares with an earlier one, so that a conversation is not written again at each turn.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Like {
    /// The number of the earlier exchange, counted from 1. Its tools and its output schema are this one's too.
    exchange: usize,
    /// How many of its entries are this one's too.
    entries: usize,
}

/// The line with which a file begins.
pub(super) fn header() -> String {
    line(&Line::DalsegnoCassette(VERSION))
}

/// The lines of an exchange that follows others.
pub(super) fn print(exchange: &Exchange, earlier: &[Exchange]) -> String {
    let request = &exchange.request;
    let shares =
        |other: &Request| other.tools == request.tools && other.output_schema == request.output_schema;
    let nearest = earlier.iter().enumerate().filter(|(_, other)| shares(&other.request));
    let nearest = nearest.map(|(index, other)| (other.request.common_entries(request), index));
    let like = nearest.max().map(|(entries, index)| Like { exchange: index + 1, entries });
    let mut text = String::new();
    let kept = like.as_ref().map_or(0, |like| like.entries);
    let whole = like.is_none();
    text.push_str(&line(&Line::Request(Opening { settings: request.head.clone(), like })));
    if whole {
        request.tools.iter().for_each(|tool| text.push_str(&line(&Line::Tool(tool.clone()))));
        if let Some(schema) = &request.output_schema {
            text.push_str(&line(&Line::OutputSchema(schema.clone())));
        }
    }
    request.entries[kept..].iter().for_each(|entry| text.push_str(&line(&Line::Entry(entry.clone()))));
    text.push_str(&line(&Line::Reply(exchange.reply.clone())));
    text
}

fn line(line: &Line) -> String {
    // Every line is plain data with text keys, which always has a JSON form.
    let mut text = serde_json::to_string(line).expect("a line has a JSON form");
    text.push('\n');
    text
}

/// Reads the exchanges of a file's text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Exchange>, CassetteError> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut open: Option<Request> = None;
    let mut begun = false;
    let wrong = |line: usize, message: String| CassetteError::Syntax {
        path: path.to_owned(),
        line: line + 1,
        message,
    };
    for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line: Line = serde_json::from_str(text).map_err(|error| wrong(number, error.to_string()))?;
        match (line, &mut open) {
            (Line::DalsegnoCassette(version), None) if !begun && version == VERSION => begun = true,
            (Line::DalsegnoCassette(found), None) if !begun => {
                return Err(CassetteError::Version { path: path.to_owned(), found });
            }
            _ if !begun => {
                return Err(wrong(number, "expected `{\"dalsegno_cassette\":1}` first".to_owned()));
            }
            (Line::Request(opening), None) => {
                open = Some(begin(opening, &exchanges).map_err(|message| wrong(number, message))?);
            }
            (Line::Tool(tool), Some(request)) => request.tools.push(tool),
            (Line::OutputSchema(schema), Some(request)) => request.output_schema = Some(schema),
            (Line::Entry(entry), Some(request)) => request.entries.push(entry),
            (Line::Reply(reply), Some(_)) => {
                exchanges.extend(open.take().map(|request| Exchange { request, reply }));
            }
            (Line::DalsegnoCassette(_) | Line::Request(_), _) => {
                return Err(wrong(number, "the request before it has no `reply`".to_owned()));
            }
            (_, None) => return Err(wrong(number, "expected a `request` before it".to_owned())),
        }
    }
    match (begun, open) {
        (_, Some(_)) => Err(wrong(text.lines().count(), "the last request has no `reply`".to_owned())),
        (false, None) => Err(wrong(0, "it is empty, expected `{\"dalsegno_cassette\":1}`".to_owned())),
        (true, None) => Ok(exchanges),
    }
}

fn begin(opening: Opening, earlier: &[Exchange]) -> Result<Request, String> {
    let Opening { settings: head, like } = opening;
    let Some(Like { exchange, entries }) = like else {
        return Ok(Request { head, tools: Vec::new(), output_schema: None, entries: Vec::new() });
    };
    let found = exchange.checked_sub(1).and_then(|index| earlier.get(index));
    let other = &found.ok_or_else(|| format!("there is no exchange {exchange} before it"))?.request;
    let kept = other.entries.get(..entries);
    let kept = kept.ok_or_else(|| format!("exchange {exchange} has fewer than {entries} entries"))?;
    Ok(Request {
        head,
        tools: other.tools.clone(),
        output_schema: other.output_schema.clone(),
        entries: kept.to_vec(),
    })
}

/// Reads a file, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<String>, CassetteError> {
    let read = |source| CassetteError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read(error)),
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(read)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(CassetteError::TooLarge { path: path.to_owned() });
    }
    Ok(Some(text))
}

/// Replaces a file by another text, wholly or not at all.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), CassetteError> {
    if text.len() as u64 > MAX_BYTES {
        return Err(CassetteError::TooLarge { path: path.to_owned() });
    }
    let written = fresh(path).and_then(|mut fresh| {
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().sync_all()?;
        // Dropped before this, it is removed.
        Ok(fresh.persist(path)?)
    });
    written.map(drop).map_err(|source| CassetteError::Write { path: path.to_owned(), source })
}

/// A file of a name of its own in the folder of another, with the rights that the other one has. A new one has none for other users.
fn fresh(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".cassette-").suffix(".tmp");
    match fs::metadata(path) {
        Ok(old) => {
            let fresh = builder.tempfile_in(folder)?;
            fresh.as_file().set_permissions(old.permissions())?;
            Ok(fresh)
        }
        // A new one is its owner's alone: it holds what was said.
        Err(_) => builder.tempfile_in(folder),
    }
}
