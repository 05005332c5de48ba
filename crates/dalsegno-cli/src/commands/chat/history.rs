//! The messages that were typed in earlier conversations of a workspace, for the keys that recall them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// Most messages that are kept: the oldest ones go first.
pub(super) const MOST: usize = 1_000;

/// The longest message that is kept, in bytes. What is longer was pasted, and is in another place already.
const LONGEST: usize = 8 * 1024;

/// The most bytes that are read of the file: all of its messages, each of their characters escaped.
const LARGEST: u64 = (MOST * LONGEST * 6) as u64;

/// A file that only its owner may read (0600), with one message a line, each as JSON.
pub(super) struct History {
    file: PathBuf,
}

impl History {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// The messages, the oldest first. A file that is missing or cannot be read has none, and a line that is not a message is
    /// left out.
    pub(super) fn load(&self) -> Vec<String> {
        let mut text = String::new();
        let read = File::open(&self.file).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
        if read.is_err() {
            return Vec::new();
        }
        let mut messages: Vec<String> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        messages.drain(..messages.len().saturating_sub(MOST));
        messages
    }

    /// Adds a message, unless it is the last one already, or too long.
    ///
    /// The file is read before it is written: another conversation may have added to it.
    ///
    /// # Errors
    /// When the file cannot be written; it stays as it was.
    pub(super) fn keep(&self, message: &str) -> io::Result<()> {
        let mut messages = self.load();
        if message.len() > LONGEST || messages.last().is_some_and(|last| last == message) {
            return Ok(());
        }
        messages.push(message.to_owned());
        messages.drain(..messages.len().saturating_sub(MOST));
        let mut text = String::new();
        for message in messages {
            text.push_str(&serde_json::Value::String(message).to_string());
            text.push('\n');
        }
        if let Some(folder) = self.file.parent() {
            dalsegno_files::make_folder(folder)?;
        }
        dalsegno_files::replace(&self.file, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_messages_are_kept_and_a_spoiled_line_harms_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().join("new/chat_history"));
        assert!(history.load().is_empty());
        for message in ["one", "two\nlines", "two\nlines", "\u{1b}[2J"] {
            history.keep(message).unwrap();
        }
        history.keep(&"x".repeat(LONGEST + 1)).unwrap();
        assert_eq!(history.load(), ["one", "two\nlines", "\u{1b}[2J"]);
        let text = std::fs::read_to_string(&history.file).unwrap();
        assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text:?}");
        std::fs::write(&history.file, format!("no JSON\n{text}")).unwrap();
        assert_eq!(history.load().len(), 3);
        for number in 0..MOST {
            std::fs::write(
                &history.file,
                format!("{}\"{number}\"\n", std::fs::read_to_string(&history.file).unwrap()),
            )
            .unwrap();
        }
        history.keep("last").unwrap();
        let kept = history.load();
        assert_eq!((kept.len(), kept[0].as_str(), kept[MOST - 1].as_str()), (MOST, "1", "last"));
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path().join("chat_history"));
        std::fs::write(&history.file, "\"from elsewhere\"\n").unwrap();
        std::fs::set_permissions(&history.file, PermissionsExt::from_mode(0o644)).unwrap();
        history.keep("secret plans").unwrap();
        let mode = std::fs::metadata(&history.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
