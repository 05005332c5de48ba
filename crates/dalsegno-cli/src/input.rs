//! Reads what arguments refer to: a text itself, a file, standard input.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use serde_json::Value;

use crate::error::Error;

/// The most bytes that an input may have: far beyond what an agent can read, and a bound on memory.
const LARGEST: u64 = 16 * 1024 * 1024;

/// What an argument says: a text, `-` for standard input, `@FILE` for a file, `@@…` for a text that begins with `@`.
pub(crate) fn text(argument: &str) -> Result<String, Error> {
    match argument.strip_prefix('@') {
        _ if argument == "-" => read(Path::new("-")),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(file) => read(Path::new(file)),
        None => Ok(argument.to_owned()),
    }
}

/// The bytes of a file.
pub(crate) fn bytes(file: &Path) -> Result<Vec<u8>, Error> {
    let fault = |source| Error::Input { place: file.display().to_string(), source };
    take(File::open(file).map_err(fault)?).map_err(fault)
}

/// The JSON that an argument says, as in [`text`].
pub(crate) fn json(argument: &str) -> Result<Value, Error> {
    let place = if argument.starts_with('@') || argument == "-" { argument } else { "the argument" };
    parse(&text(argument)?, place)
}

/// The object that an argument says, as in [`text`].
pub(crate) fn object(option: &'static str, argument: &str) -> Result<Value, Error> {
    let found = match json(argument)? {
        object @ Value::Object(_) => return Ok(object),
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
    };
    Err(Error::NotAnObject { option, found })
}

/// The JSON in a file; `-` is standard input.
pub(crate) fn json_file(file: &Path) -> Result<Value, Error> {
    parse(&read(file)?, &file.display().to_string())
}

/// What an operation returned: JSON if it is JSON, else a text.
pub(crate) fn result(file: &str) -> Result<Value, Error> {
    let text = read(Path::new(file))?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn parse(text: &str, place: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|source| Error::Json { place: place.to_owned(), source })
}

fn read(file: &Path) -> Result<String, Error> {
    let fault = |source| Error::Input { place: file.display().to_string(), source };
    let bytes = if file == Path::new("-") {
        take(io::stdin().lock()).map_err(fault)?
    } else {
        take(File::open(file).map_err(fault)?).map_err(fault)?
    };
    String::from_utf8(bytes)
        .map_err(|_| fault(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")))
}

/// The next line, without its end; `None` behind the last one. `number` counts from 1.
pub(crate) fn line(source: &mut impl BufRead, number: u64) -> Result<Option<String>, Error> {
    let mut bytes = Vec::new();
    let fault = |source| Error::Input { place: format!("line {number} of standard input"), source };
    let read = source.take(LARGEST + 1).read_until(b'\n', &mut bytes).map_err(fault)?;
    if read as u64 > LARGEST {
        return Err(Error::Line { number, why: TOO_LONG });
    }
    if read == 0 {
        return Ok(None);
    }
    match String::from_utf8(bytes) {
        Ok(line) => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
        Err(_) => Err(Error::Line { number, why: "is not UTF-8 text" }),
    }
}

/// What is wrong with a line that is beyond [`LARGEST`].
const TOO_LONG: &str = "is longer than 16 MiB";

fn take(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = source.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if read as u64 > LARGEST {
        let message = format!("it is larger than {} MiB", LARGEST / (1024 * 1024));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_argument_is_a_text_or_names_a_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("disk full\n".as_bytes()).unwrap();
        assert_eq!(text("disk full").unwrap(), "disk full");
        assert_eq!(text("@@home").unwrap(), "@home");
        assert_eq!(text(&format!("@{}", file.path().display())).unwrap(), "disk full\n");
        assert!(matches!(text("@/no/such/file"), Err(Error::Input { .. })));
    }

    #[test]
    fn an_endless_input_is_refused() {
        assert!(take(io::repeat(b'x')).is_err());
    }

    #[test]
    fn lines_are_bounded_text() {
        let mut lines: &[u8] = "one\r\n\ntwo".as_bytes();
        let mut next = || line(&mut lines, 1).unwrap();
        assert_eq!((next(), next()), (Some("one".to_owned()), Some(String::new())));
        assert_eq!((next(), next()), (Some("two".to_owned()), None));
        let mut wrong: &[u8] = b"bad\xff line\n";
        assert!(matches!(line(&mut wrong, 7), Err(Error::Line { number: 7, .. })));
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert!(matches!(line(&mut endless, 1), Err(Error::Line { why: TOO_LONG, .. })));
    }

    #[test]
    fn a_result_is_json_or_else_a_text() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"line\": 3}").unwrap();
        let path = file.path().display().to_string();
        assert_eq!(result(&path).unwrap(), serde_json::json!({"line": 3}));
        file.write_all(b" and more").unwrap();
        assert_eq!(result(&path).unwrap(), Value::from("{\"line\": 3} and more"));
    }
}
