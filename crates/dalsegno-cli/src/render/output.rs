//! The two streams of the command, and the one place that writes to them.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

use super::terminal::{self, Terminal};
use super::text::inert;
use crate::args::ColourArg;
use crate::exit::Exit;

/// The two streams of the command.
///
/// Writing never fails: a run must not stop because nobody reads its output any more. What went wrong is kept and
/// counts at the end.
pub(crate) struct Output {
    /// Data.
    pub(crate) stdout: Stream,
    /// Words.
    pub(crate) stderr: Stream,
}

/// One stream.
///
/// It is not kept locked between writes: the log and panics of other threads use the same one.
pub(crate) struct Stream {
    writer: Box<dyn Write>,
    /// What it is connected to.
    pub(crate) terminal: Terminal,
    fault: Option<io::Error>,
    /// The last thing written did not end its line.
    pub(crate) mid_line: bool,
}

impl Output {
    /// The process's own streams.
    pub(crate) fn open(colour: ColourArg) -> Self {
        Self {
            stdout: Stream::new(Box::new(io::stdout()), terminal::stdout().coloured(colour)),
            stderr: Stream::new(Box::new(io::stderr()), terminal::stderr().coloured(colour)),
        }
    }

    /// Writes words on a line of their own; on a terminal that shows both streams, below unfinished data.
    pub(crate) fn note(&mut self, words: impl Display) {
        if self.stdout.mid_line && self.stdout.terminal.live && self.stderr.terminal.live {
            self.stdout.write("\n");
        }
        self.stderr.line(words);
    }

    /// Writes one JSON document.
    pub(crate) fn document(&mut self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(json) => self.stdout.line(inert(&json)),
            Err(error) => self.stdout.fault(error.into()),
        }
    }

    /// Writes one JSON object on a line, at once.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) {
        match serde_json::to_string(object) {
            Ok(json) => self.stdout.line(inert(&json)),
            Err(error) => self.stdout.fault(error.into()),
        }
    }

    /// Ends the output; a reader that went away is no failure, lost data is.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        if self.stdout.mid_line && self.stdout.terminal.live {
            // A reply that was streamed and then cut off: the shell's prompt begins on a line of its own.
            self.stdout.write("\n");
        }
        self.stdout.flush();
        self.stderr.flush();
        match self.stdout.fault.take() {
            Some(fault) if fault.kind() != io::ErrorKind::BrokenPipe => {
                self.stderr.line(format_args!("error: cannot write the output: {fault}"));
                if exit == Exit::Done { Exit::Failed } else { exit }
            }
            Some(_) | None => exit,
        }
    }
}

impl Stream {
    fn new(writer: Box<dyn Write>, terminal: Terminal) -> Self {
        Self { writer, terminal, fault: None, mid_line: false }
    }

    /// Writes text as it is.
    pub(crate) fn write(&mut self, text: &str) {
        if let Some(last) = text.chars().last() {
            self.mid_line = last != '\n';
            self.attempt(|writer| writer.write_all(text.as_bytes()));
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.write(&format!("{text}\n"));
    }

    /// Shows what was written so far.
    pub(crate) fn flush(&mut self) {
        self.attempt(Write::flush);
    }

    fn attempt(&mut self, write: impl FnOnce(&mut Box<dyn Write>) -> io::Result<()>) {
        if self.fault.is_none()
            && let Err(error) = write(&mut self.writer)
        {
            self.fault(error);
        }
    }

    fn fault(&mut self, error: io::Error) {
        self.fault.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that goes away after a few bytes.
    struct Leaves(usize, io::ErrorKind);

    impl Write for Leaves {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::from(self.1))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output(kind: io::ErrorKind) -> Output {
        let terminal = Terminal { live: false, colour: false, progress: false, width: 80 };
        let stream = |writer| Stream::new(writer, terminal);
        Output { stdout: stream(Box::new(Leaves(4, kind))), stderr: stream(Box::new(io::sink())) }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        let mut output = output(io::ErrorKind::BrokenPipe);
        output.stdout.line("abc");
        output.stdout.line("def");
        assert_eq!(output.finish(Exit::Done), Exit::Done);
    }

    #[test]
    fn a_full_disk_is_one() {
        let mut output = output(io::ErrorKind::StorageFull);
        output.stdout.line("abc");
        output.stdout.line("def");
        assert_eq!(output.finish(Exit::Done), Exit::Failed);
    }
}
