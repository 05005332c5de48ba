//! Messages that a person types: with keys to edit them, over several lines, and with those of earlier conversations to recall.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc as std_mpsc;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{History as _, MemHistory};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, ColorMode, Config, Editor, Helper};
use tokio::sync::mpsc;

use super::history::MOST;

/// What came of a prompt.
pub(super) enum Typed {
    Text(String),
    /// Ctrl-D.
    End,
    /// Ctrl-C.
    Wish,
    /// The terminal cannot be read.
    Fault(io::Error),
}

enum Order {
    Read(String),
    Recall(String),
}

/// A person at a terminal. A thread reads what they type: a terminal may keep it waiting for ever.
pub(super) struct Typist {
    orders: std_mpsc::Sender<Order>,
    typed: mpsc::Receiver<Typed>,
    /// How the terminal was before the first prompt; it is left like this, also in the middle of one.
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
    /// A prompt is open.
    reads: bool,
}

impl Typist {
    /// Begins with messages that can be recalled, the oldest first.
    pub(super) fn begin(messages: Vec<String>) -> Self {
        let (orders, ordered) = std_mpsc::channel();
        let (sender, typed) = mpsc::channel(1);
        #[cfg(unix)]
        let before = rustix::termios::tcgetattr(io::stdin()).ok();
        std::thread::spawn(move || edit(&ordered, &sender, messages));
        Self {
            orders,
            typed,
            #[cfg(unix)]
            before,
            reads: false,
        }
    }

    /// Shows a prompt and waits for an answer.
    pub(super) async fn read(&mut self, prompt: &str) -> Typed {
        // A prompt that was left open, since a signal came, still waits for its answer.
        if !std::mem::replace(&mut self.reads, true) {
            // A thread that ended has no receiver, and sends nothing.
            let _ = self.orders.send(Order::Read(prompt.to_owned()));
        }
        let typed = self.typed.recv().await.unwrap_or(Typed::End);
        self.reads = false;
        typed
    }

    /// Lets a message be recalled from now on.
    pub(super) fn recall(&self, message: &str) {
        let _ = self.orders.send(Order::Recall(message.to_owned()));
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        if !self.reads {
            return;
        }
        // The thread that reads ends with the process, and leaves the terminal as it set it.
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
            if let Ok(mut terminal) = std::fs::OpenOptions::new().write(true).open("/dev/tty") {
                let _ = io::Write::write_all(&mut terminal, PLAIN_PASTE);
            }
        }
    }
}

/// Ends the mode in which a terminal marks what is pasted.
#[cfg(unix)]
const PLAIN_PASTE: &[u8] = b"\x1b[?2004l\r\n";

/// Performs orders until no more can come.
fn edit(orders: &std_mpsc::Receiver<Order>, typed: &mpsc::Sender<Typed>, messages: Vec<String>) {
    let mut editor = match editor(messages) {
        Ok(editor) => editor,
        Err(error) => {
            let _ = typed.blocking_send(Typed::Fault(io::Error::other(error)));
            return;
        }
    };
    for order in orders {
        match order {
            Order::Recall(message) => {
                let _ = editor.add_history_entry(message);
            }
            Order::Read(prompt) => {
                let read = loop {
                    match editor.readline(&prompt) {
                        // Such as one that the size of the terminal has changed.
                        Err(ReadlineError::Signal(_)) => {}
                        read => break read,
                    }
                };
                let keys = editor.helper().map(Keys::take).unwrap_or_default();
                let answer = match read {
                    Ok(text) => Typed::Text(joined(&text, &keys)),
                    Err(ReadlineError::Eof) => Typed::End,
                    Err(ReadlineError::Interrupted) => Typed::Wish,
                    Err(ReadlineError::Io(error)) => Typed::Fault(error),
                    Err(error) => Typed::Fault(io::Error::other(error)),
                };
                if typed.blocking_send(answer).is_err() {
                    return;
                }
            }
        }
    }
}

fn editor(messages: Vec<String>) -> rustyline::Result<Editor<Keys, MemHistory>> {
    let config = Config::builder()
        .max_history_size(MOST)?
        .auto_add_history(false)
        // Answers may go to a file: the person sees the prompt all the same.
        .behavior(Behavior::PreferTerm)
        .color_mode(ColorMode::Disabled)
        .bracketed_paste(true)
        .build();
    let mut history = MemHistory::with_config(&config);
    for message in messages {
        history.add_owned(message)?;
    }
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(Keys::default()));
    Ok(editor)
}

/// The keys of the editor: Enter after a `\` begins a new line. Pasted text keeps its lines as they are.
#[derive(Default)]
struct Keys {
    /// Where such a `\` is, in bytes from the beginning of the message.
    continued: RefCell<Vec<usize>>,
}

impl Keys {
    fn take(&self) -> Vec<usize> {
        self.continued.take()
    }
}

impl Validator for Keys {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        match context.input().strip_suffix('\\') {
            Some(before) => {
                self.continued.borrow_mut().push(before.len());
                Ok(ValidationResult::Incomplete)
            }
            None => Ok(ValidationResult::Valid(None)),
        }
    }
}

impl Completer for Keys {
    type Candidate = String;
}

impl Hinter for Keys {
    type Hint = String;
}

impl Highlighter for Keys {}

impl Helper for Keys {}

/// The message without the `\` at these places that only began a new line.
fn joined(text: &str, continued: &[usize]) -> String {
    let mut message = String::with_capacity(text.len());
    for (place, character) in text.char_indices() {
        let begins_line = character == '\\' && text[place + 1..].starts_with('\n');
        if !(begins_line && continued.contains(&place)) {
            message.push(character);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn only_what_began_a_new_line_is_taken_out() {
        assert_eq!(joined("one\\\ntwo", &[3]), "one\ntwo");
        assert_eq!(joined("cp a \\\n b", &[]), "cp a \\\n b");
        assert_eq!(joined("é\\\nx\\y\\", &[2, 5]), "é\nx\\y\\");
    }
}
