//! Lines of a file that another party wrote, one by one and of bounded length.

use std::io::{self, BufRead, Read};

/// Reads a file line by line.
pub(crate) struct Lines<R> {
    lines: R,
    line: u64,
    bytes_max: usize,
}

/// Why there is no next line.
#[derive(Debug)]
pub(crate) enum LineProblem {
    /// It is longer than this many bytes.
    TooLong(usize),
    /// The file cannot be read on.
    Unreadable(io::Error),
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(lines: R, bytes_max: usize) -> Self {
        Self { lines, line: 0, bytes_max }
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.line
    }

    /// Returns the next line that is not blank, none at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineProblem> {
        loop {
            self.line += 1;
            let mut bytes = Vec::new();
            let read = (&mut self.lines)
                .take(self.bytes_max as u64 + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(LineProblem::Unreadable)?;
            if read == 0 {
                return Ok(None);
            }
            if read > self.bytes_max {
                return Err(LineProblem::TooLong(self.bytes_max));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(bytes));
            }
        }
    }
}

/// Says what is wrong with the JSON of one line.
///
/// serde_json counts lines from the start of what it was given, which is always 1 here.
pub(crate) fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(problem) => format!("{problem} (column {})", error.column()),
        None => text,
    }
}
