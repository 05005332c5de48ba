//! Reasoning that comes as a list of pieces: of one entry the beginning, then more of its text, then its signature.

use serde_json::{Map, Value};

use super::reply::Output;
use crate::model::ModelError;

/// The entries so far.
#[derive(Default)]
pub(super) struct Pieces(pub(super) Vec<Value>);

impl Pieces {
    /// Takes the next piece: more of the last entry, or another one.
    pub(super) fn add(&mut self, piece: Value, output: &mut Output<'_>) -> Result<(), ModelError> {
        output.opaque(&piece)?;
        let Value::Object(piece) = piece else { return Ok(()) };
        match self.0.last_mut() {
            Some(Value::Object(last)) if goes_on(last, &piece) => extend(last, piece),
            _ => self.0.push(piece.into()),
        }
        Ok(())
    }
}

/// What is sent in pieces.
const TEXTS: [&str; 4] = ["text", "summary", "thinking", "data"];

/// What ends an entry.
const SIGNATURE: &str = "signature";

/// Says whether a piece belongs to the last entry: of the same kind, with nothing that tells the two apart. A signature ends
/// an entry.
fn goes_on(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let given =
        |map: &Map<String, Value>, name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
    let is_signed = given(last, SIGNATURE).is_some_and(|signature| signature != "");
    let apart = |name: &str| match (given(last, name), given(piece, name)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    !is_signed && last.get("type") == piece.get("type") && !apart("index") && !apart("id")
}

fn extend(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (name, value) in piece {
        match (last.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&name.as_str()) => {
                text.push_str(&more);
            }
            (_, value) => {
                last.insert(name, value);
            }
        }
    }
}
