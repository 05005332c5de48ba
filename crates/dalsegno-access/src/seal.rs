//! Numbers that clients keep and cannot read.
//!
//! A place in what happened over all tenants would say how much happened to others. So a client gets it sealed: it gives
//! the text back, and learns nothing from it but that it is another one.

use std::io;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;

use crate::error::OpenError;

/// The bytes of the key.
const KEY: usize = 32;
/// The random bytes of each seal.
const NONCE: usize = 8;

/// Seals numbers, and opens what it sealed. All processes of a workspace share its key, which is in a file for their user only.
#[derive(Clone)]
pub struct Seals {
    key: [u8; KEY],
}

impl std::fmt::Debug for Seals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seals(…)")
    }
}

impl Seals {
    /// Reads the key from its file, or makes both.
    ///
    /// # Errors
    /// When the file cannot be read or made, belongs to another user, or holds something else.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = |source| OpenError::File { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            dalsegno_files::make_folder(folder).map_err(file)?;
        }
        if !path.exists() {
            let mut key = [0; KEY];
            getrandom::fill(&mut key).map_err(|error| file(io::Error::other(error)))?;
            match dalsegno_files::write_new(path, &key) {
                // Another process was faster, and its key is the one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(file)?,
            }
        }
        if !dalsegno_files::is_ours(path) {
            return Err(OpenError::NotOurs { path: path.to_owned() });
        }
        let bytes = std::fs::read(path).map_err(file)?;
        let key = bytes.try_into().map_err(|_| OpenError::Foreign { path: path.to_owned() })?;
        Ok(Self { key })
    }

    /// Seals a number: another text each time.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn seal(&self, number: u64) -> io::Result<String> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        Ok(self.write(nonce, number))
    }

    /// Opens a text that [`seal`](Self::seal) made; none for any other.
    pub fn open_seal(&self, text: &str) -> Option<u64> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let nonce: [u8; NONCE] = bytes.get(..NONCE)?.try_into().ok()?;
        let hidden = u64::from_le_bytes(bytes.get(NONCE..NONCE + 8)?.try_into().ok()?);
        let number = hidden ^ self.pad(nonce);
        // Compared whole: its mark as well. What a client learns from the time is a guess of 64 bits.
        (self.write(nonce, number) == text).then_some(number)
    }

    /// Says whether a text has the form of a seal.
    pub fn is_form(text: &str) -> bool {
        BASE64URL_NOPAD.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == NONCE + 16)
    }

    fn write(&self, nonce: [u8; NONCE], number: u64) -> String {
        let hidden = (number ^ self.pad(nonce)).to_le_bytes();
        let mark = self.word(&[&[1], &nonce[..], &number.to_le_bytes()].concat());
        BASE64URL_NOPAD.encode(&[&nonce[..], &hidden, &mark.to_le_bytes()].concat())
    }

    fn pad(&self, nonce: [u8; NONCE]) -> u64 {
        self.word(&[&[0], &nonce[..]].concat())
    }

    fn word(&self, of: &[u8]) -> u64 {
        let hash = blake3::keyed_hash(&self.key, of);
        let mut word = [0; 8];
        word.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_process_of_a_workspace_opens_what_another_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private/positions.key");
        let (one, other) = (Seals::open(&path).unwrap(), Seals::open(&path).unwrap());
        for number in [0, 1, 7, u64::MAX] {
            let (first, second) = (one.seal(number).unwrap(), one.seal(number).unwrap());
            assert!(Seals::is_form(&first) && !Seals::is_form("x"));
            assert_ne!(first, second, "the same number must not look the same");
            assert_eq!((other.open_seal(&first), other.open_seal(&second)), (Some(number), Some(number)));
        }
        let stranger = Seals::open(&folder.path().join("another.key")).unwrap();
        assert_eq!(stranger.open_seal(&one.seal(7).unwrap()), None);
        std::fs::write(&path, b"too short").unwrap();
        assert!(Seals::open(&path).is_err());
    }

    proptest! {
        #[test]
        fn what_was_not_sealed_is_nothing(text in ".*", number: u64, place in 0_usize..32, letter in "[A-Za-z0-9_-]") {
            let seals = Seals { key: [7; KEY] };
            prop_assert_eq!(seals.open_seal(&text), None);
            let sealed = seals.seal(number).unwrap();
            let mut changed = sealed.clone();
            changed.replace_range(place..=place, &letter);
            prop_assume!(changed != sealed);
            prop_assert_eq!(seals.open_seal(&changed), None);
        }
    }
}
