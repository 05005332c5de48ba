//! The two streams of the command, and the one place that writes to them: nothing reaches a reader unscreened.

use std::io::{self, Write};

use serde::Serialize;

use super::screen::{Prose, inert, screened};
use super::terminal::{self, Terminal};
use super::text::Words;
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
    /// Says whether its reader went away, also before something is written.
    is_unread: fn() -> bool,
    /// What it is connected to.
    pub(crate) terminal: Terminal,
    fault: Option<io::Error>,
    /// The last thing written did not end its line.
    pub(crate) mid_line: bool,
    prose: Prose,
    /// The lines of a stream that is not written but drawn.
    kept: Option<Vec<Words>>,
}

impl Output {
    /// The process's own streams.
    pub(crate) fn open(colour: ColourArg) -> Self {
        Self {
            stdout: Stream {
                is_unread: terminal::is_stdout_unread,
                ..Stream::new(Box::new(io::stdout()), terminal::stdout().coloured(colour))
            },
            stderr: Stream::new(Box::new(io::stderr()), terminal::stderr().coloured(colour)),
        }
    }

    /// Writes words on a line of their own; on a terminal that shows both streams, below unfinished data.
    pub(crate) fn note(&mut self, words: impl Into<Words>) {
        self.below_data();
        self.stderr.line(words);
    }

    /// Writes what was drawn with styles of its own, which was screened before, like [`Self::note`].
    pub(crate) fn drawing(&mut self, screened: &str) {
        self.below_data();
        self.stderr.put(screened);
        self.stderr.put("\n");
    }

    /// Says whether one of its readers went away.
    pub(crate) fn is_closed(&self) -> bool {
        self.stdout.is_closed() || self.stderr.is_closed()
    }

    fn below_data(&mut self) {
        if self.stdout.mid_line && self.stdout.terminal.live && self.stderr.terminal.live {
            self.stdout.write("\n");
        }
    }

    /// Writes one JSON document.
    pub(crate) fn document(&mut self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(json) => self.stdout.json(&json),
            Err(error) => self.stdout.fault(error.into()),
        }
    }

    /// Writes one JSON object on a line, at once.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) {
        match serde_json::to_string(object) {
            Ok(json) => self.stdout.json(&json),
            Err(error) => self.stdout.fault(error.into()),
        }
    }

    /// Ends the output; a reader that went away is no failure, lost data is.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        if self.stdout.mid_line && self.stdout.terminal.live {
            // A reply that was streamed and then cut off: the shell's prompt begins on a line of its own.
            self.stdout.write("\n");
        }
        // What a piece of prose held back.
        self.stdout.put("");
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
        Self {
            writer,
            is_unread: || false,
            terminal,
            fault: None,
            mid_line: false,
            prose: Prose::default(),
            kept: None,
        }
    }

    /// Writes text.
    pub(crate) fn write(&mut self, text: &str) {
        self.put(&screened(text));
    }

    /// A stream whose lines are kept, whole, for a screen that breaks them itself.
    pub(crate) fn kept() -> Self {
        let terminal = Terminal { live: false, colour: false, progress: false, width: 80, room: usize::MAX };
        Self { kept: Some(Vec::new()), ..Self::new(Box::new(io::sink()), terminal) }
    }

    /// The lines that were kept.
    pub(crate) fn into_lines(self) -> Vec<Words> {
        self.kept.unwrap_or_default()
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, words: impl Into<Words>) {
        if let Some(kept) = &mut self.kept {
            return kept.push(words.into());
        }
        let mut line = self.styled(&words.into());
        line.push('\n');
        self.put(&line);
    }

    /// Writes the beginning of a line.
    pub(crate) fn opening(&mut self, words: impl Into<Words>) {
        let opening = self.styled(&words.into());
        self.put(&opening);
    }

    fn styled(&self, words: &Words) -> String {
        let mut line = String::new();
        for (style, text) in words.parts() {
            let text = screened(text);
            match style.filter(|_| self.terminal.colour) {
                Some(style) => line.push_str(&format!("\u{1b}[{}m{text}\u{1b}[0m", style.code())),
                None => line.push_str(&text),
            }
        }
        line
    }

    /// Writes a piece of running text that nobody agrees to; more of it may follow.
    pub(crate) fn prose(&mut self, text: &str) {
        let mut prose = std::mem::take(&mut self.prose);
        let mut piece = String::with_capacity(text.len());
        prose.push(text, &mut piece);
        self.put(&piece);
        self.prose = prose;
    }

    /// Writes a control sequence of our own.
    pub(crate) fn steer(&mut self, sequence: &'static str) {
        self.put(sequence);
    }

    fn json(&mut self, json: &str) {
        self.put(&format!("{}\n", inert(json)));
    }

    /// Writes what was screened.
    fn put(&mut self, text: &str) {
        let mut rest = String::new();
        std::mem::take(&mut self.prose).end(&mut rest);
        for text in [&*rest, text] {
            if let Some(last) = text.chars().last() {
                self.mid_line = last != '\n';
                self.attempt(|writer| writer.write_all(text.as_bytes()));
            }
        }
    }

    /// Says whether its reader went away.
    pub(crate) fn is_closed(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.kind() == io::ErrorKind::BrokenPipe)
            || (self.is_unread)()
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
    use crate::render::text::{Style, styled};

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

    /// What was written, where a test can read it.
    #[derive(Clone, Default)]
    struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(colour: bool, write: impl FnOnce(&mut Stream)) -> String {
        let shared = Shared::default();
        let terminal = Terminal { live: false, colour, progress: false, width: 80, room: 80 };
        write(&mut Stream::new(Box::new(shared.clone()), terminal));
        String::from_utf8(shared.0.take()).unwrap()
    }

    #[test]
    fn styles_are_put_on_what_was_screened() {
        let words = || styled(Style::Red, "a\u{1b}[0m").and(": b\u{202e}");
        assert_eq!(
            written(true, |stream| stream.line(words())),
            "\u{1b}[31ma\\u{1b}[0m\u{1b}[0m: b\\u{202e}\n"
        );
        assert_eq!(written(false, |stream| stream.line(words())), "a\\u{1b}[0m: b\\u{202e}\n");
        assert_eq!(written(false, |stream| stream.json("{\"a\": \"\u{202e}\"}")), "{\"a\": \"\\u202e\"}\n");
    }

    #[test]
    fn a_piece_of_prose_may_end_anywhere() {
        let pieces = written(false, |stream| {
            stream.prose("👩\u{200d}");
            stream.prose("👧 a\u{200d}");
            stream.line("b");
        });
        assert_eq!(pieces, "👩\u{200d}👧 a\\u{200d}b\n");
    }

    fn output(kind: io::ErrorKind) -> Output {
        let terminal = Terminal { live: false, colour: false, progress: false, width: 80, room: 80 };
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
