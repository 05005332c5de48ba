//! Reads what arguments refer to: a text itself, a file, standard input.

use std::fs::File;
use std::io::{self, Read};
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
    fn a_result_is_json_or_else_a_text() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"line\": 3}").unwrap();
        let path = file.path().display().to_string();
        assert_eq!(result(&path).unwrap(), serde_json::json!({"line": 3}));
        file.write_all(b" and more").unwrap();
        assert_eq!(result(&path).unwrap(), Value::from("{\"line\": 3} and more"));
    }
}
