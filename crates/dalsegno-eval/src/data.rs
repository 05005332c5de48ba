//! Data sets: files of JSON lines, checked as a whole before anything starts, and read again item by item.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dalsegno_core::{AgentRequest, Digest, digest_json};
use dalsegno_expr::MAX_VALUE_DEPTH;
use serde_json::{Map, Value, json};

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The most items.
const ITEMS_MAX: usize = 1_000_000;

/// The longest id, in bytes.
const ID_BYTES_MAX: usize = 200;

/// Why a data set cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct DataError {
    /// The line, from 1; none where the file itself is the problem.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// One thing to do.
    pub help: &'static str,
}

/// A data set that was checked. It keeps the places of its items, and not the items.
#[derive(Debug)]
pub struct DataSet {
    file: Mutex<File>,
    /// In the order in which they are tried.
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    line: u64,
    offset: u64,
    bytes: u32,
    /// The beginning of the digest of the item: the file may change meanwhile.
    digest: u64,
}

/// One item of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// By which it is known: its `id`, or the number of its line.
    pub id: String,
    /// Its line, from 1.
    pub line: u64,
    /// The whole item, as its line says it.
    pub value: Value,
}

impl Item {
    fn read(line: u64, text: &str) -> Result<Self, DataError> {
        let failed = |message: String, help| DataError { line: Some(line), message, help };
        // Behind the end of its line, an error would be in column 0 of another one.
        let value: Value = serde_json::from_str(text.trim_end()).map_err(|error| {
            // The error names a line of its own, which is always the first.
            let told = error.to_string();
            let told = told.split(" at line ").next().unwrap_or_default().to_owned();
            failed(
                format!("this is not JSON: {told} (column {})", error.column()),
                "write one JSON object on each line",
            )
        })?;
        let Value::Object(fields) = &value else {
            return Err(failed("an item is an object".to_owned(), "write `{\"text\": \"…\"}`"));
        };
        if depth(&value) > MAX_VALUE_DEPTH {
            return Err(failed("the item is nested too deeply".to_owned(), "make it flatter"));
        }
        let id = match fields.get("id") {
            None => format!("line-{line}"),
            Some(Value::String(id)) if !id.trim().is_empty() && id.len() <= ID_BYTES_MAX => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            Some(_) => {
                return Err(failed(
                    format!("`id` is not a name of at most {ID_BYTES_MAX} bytes"),
                    "write the id as a string",
                ));
            }
        };
        if !matches!(fields.get("text"), None | Some(Value::String(_))) {
            return Err(failed("`text` is not a string".to_owned(), "write what the user says as a string"));
        }
        if !fields.contains_key("text") && !fields.contains_key("data") {
            return Err(failed(
                "the item has neither `text` nor `data`".to_owned(),
                "add what the agent is asked",
            ));
        }
        for key in ["user", "labels"] {
            if !matches!(fields.get(key), None | Some(Value::Object(_))) {
                return Err(failed(format!("`{key}` is not an object"), "write it as an object"));
            }
        }
        Ok(Self { id, line, value })
    }

    /// What the agent is asked.
    pub fn request(&self, tenant: &str) -> AgentRequest {
        let field = |name: &str| self.value.get(name).cloned().unwrap_or_default();
        AgentRequest {
            data: field("data"),
            user: field("user"),
            tenant: tenant.to_owned(),
            ..AgentRequest::text(self.value["text"].as_str().unwrap_or_default())
        }
    }

    /// The verdict of a person on the item's own answer.
    pub fn label(&self, label: &str) -> Option<bool> {
        self.value.get("labels")?.get(label)?.as_bool()
    }

    /// The answer that a person has judged.
    pub fn answer(&self) -> Option<&str> {
        self.value.get("answer")?.as_str()
    }

    /// The item as a judge sees it: without the verdicts of people.
    pub(crate) fn unlabelled(&self) -> Value {
        let mut value = self.value.clone();
        if let Value::Object(fields) = &mut value {
            fields.remove("labels");
        }
        value
    }
}

impl DataSet {
    /// Reads a data set to its end and shows each item to `check`; nothing of it is kept but where items are. `seed` decides the order.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn open(
        path: &Path,
        seed: &str,
        mut check: impl FnMut(&Item) -> Result<(), String>,
    ) -> Result<Self, DataError> {
        let whole = |message: String, help| DataError { line: None, message, help };
        let unreadable = |error: io::Error| whole(format!("it cannot be read: {error}"), "correct the path");
        let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut seen: HashMap<u128, u64> = HashMap::new();
        let mut keyed: Vec<(u64, Place)> = Vec::new();
        let (mut line, mut offset, mut text) = (0, 0, Vec::new());
        loop {
            text.clear();
            let read =
                (&mut reader).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            line += 1;
            let failed = |message: String, help| DataError { line: Some(line), message, help };
            if read as u64 > LINE_BYTES_MAX {
                return Err(failed("it is longer than 1 MiB".to_owned(), "split the item, or shorten it"));
            }
            let start = offset;
            offset += read as u64;
            let decoded = std::str::from_utf8(&text).map_err(|error| {
                failed(
                    format!("it is not UTF-8: byte {} is not part of a character", error.valid_up_to() + 1),
                    "save the file as UTF-8",
                )
            })?;
            let decoded = if line == 1 { decoded.trim_start_matches('\u{feff}') } else { decoded };
            if decoded.trim().is_empty() {
                continue;
            }
            let item = Item::read(line, decoded)?;
            match seen.entry(short(&digest_json(&json!(item.id)))) {
                Entry::Vacant(new) => drop(new.insert(line)),
                Entry::Occupied(other) => {
                    let message = format!("the id `{}` is that of line {}, too", item.id, other.get());
                    return Err(failed(message, "give each item an id of its own"));
                }
            }
            check(&item).map_err(|message| failed(message, "correct the item, or the eval file"))?;
            if keyed.len() == ITEMS_MAX {
                return Err(failed(format!("there are more than {ITEMS_MAX} items"), "split the data set"));
            }
            let place = Place {
                line,
                offset: start,
                bytes: u32::try_from(read).unwrap_or(u32::MAX),
                digest: tail(&item.value),
            };
            keyed.push((tail(&json!([seed, item.id])), place));
        }
        if keyed.is_empty() {
            return Err(whole("it has no items".to_owned(), "write one JSON object on each line"));
        }
        keyed.sort_unstable_by_key(|(key, place)| (*key, place.line));
        let places = keyed.into_iter().map(|(_, place)| place).collect();
        Ok(Self { file: Mutex::new(reader.into_inner()), places })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Says whether there is no item; a data set that was opened has at least one.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The item that is tried at this place of the order.
    ///
    /// # Errors
    /// When there is no such item, or the file has changed since it was opened.
    pub fn item(&self, index: usize) -> Result<Item, DataError> {
        let changed = |line| DataError {
            line,
            message: "the file changed while it was in use".to_owned(),
            help: "run the command again",
        };
        let place = self.places.get(index).ok_or_else(|| changed(None))?;
        let mut bytes = vec![0; place.bytes as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let read = file.seek(SeekFrom::Start(place.offset)).and_then(|_| file.read_exact(&mut bytes));
            read.map_err(|_| changed(Some(place.line)))?;
        }
        let text = String::from_utf8(bytes).map_err(|_| changed(Some(place.line)))?;
        let item = Item::read(place.line, text.trim_start_matches('\u{feff}'))?;
        if tail(&item.value) != place.digest {
            return Err(changed(Some(place.line)));
        }
        Ok(item)
    }
}

/// How deep a value is nested.
fn depth(value: &Value) -> usize {
    // Bounded by the reader of JSON, which takes no value that is nested more than 128 deep.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + Map::values(fields).map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn short(digest: &Digest) -> u128 {
    u128::from_str_radix(&digest.to_string()[..32], 16).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "half of the digest is enough")]
fn tail(value: &Value) -> u64 {
    short(&digest_json(value)) as u64
}
