//! Numbers that clients keep and cannot read.
//!
//! A place in what happened over all tenants would say how much happened to others. So a client gets it sealed: it gives
//! the text back, and learns nothing from it but that it is another one.

use std::io;
use std::path::Path;

use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use dalsegno_database::OpenError;
use data_encoding::BASE64URL_NOPAD;

/// The bytes of the key.
const KEY: usize = 32;
/// The random bytes of each seal: so many that they do not meet, however much is sealed.
const NONCE: usize = 24;
/// The bytes by which a seal is known to be ours.
const TAG: usize = 16;
/// The bytes of a seal, with its number.
const SEAL: usize = NONCE + 8 + TAG;

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
        let key = dalsegno_database::key("the key that seals what clients keep", path)?;
        Ok(Self { key })
    }

    /// Seals a number: another text each time.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn seal(&self, number: u64) -> io::Result<String> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let mut sealed = number.to_le_bytes();
        let tag = self.cipher().encrypt_inout_detached(&nonce.into(), &[], (&mut sealed[..]).into());
        let tag = tag.expect("a number is far shorter than the cipher's limit of 256 GiB");
        Ok(BASE64URL_NOPAD.encode(&[&nonce[..], &sealed, &tag].concat()))
    }

    /// Opens a text that [`seal`](Self::seal) made; none for any other.
    pub fn open_seal(&self, text: &str) -> Option<u64> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().filter(|bytes| bytes.len() == SEAL)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE>()?;
        let (sealed, tag) = rest.split_first_chunk::<8>()?;
        let (mut number, tag): ([u8; 8], [u8; TAG]) = (*sealed, tag.try_into().ok()?);
        let opened = (&mut number[..]).into();
        self.cipher().decrypt_inout_detached(&(*nonce).into(), &[], opened, &tag.into()).ok()?;
        Some(u64::from_le_bytes(number))
    }

    /// Says whether a text has the form of a seal.
    pub fn is_form(text: &str) -> bool {
        BASE64URL_NOPAD.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == SEAL)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&self.key).into())
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
        fn what_was_not_sealed_is_nothing(text in ".*", number: u64, place in 0_usize..64, letter in "[A-Za-z0-9_-]") {
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
