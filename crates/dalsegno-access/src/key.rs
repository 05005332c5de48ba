//! A key: how it is written, and what is kept of it.

use std::collections::BTreeSet;
use std::fmt;

use data_encoding::HEXLOWER;
use serde::Serialize;

use crate::access::Reach;
use crate::scope::Scope;

/// How every key begins, so that scanners for leaked secrets find one.
const PREFIX: &str = "dalsegno_";
/// The digits of an id: 64 random bits.
const ID: usize = 16;
/// The digits of the secret: 256 random bits.
const SECRET: usize = 64;

/// What is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// A name for people; recorded with what the key changes.
    pub name: Option<String>,
    /// Whose runs it reaches.
    pub reach: Reach,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// When it ends, in milliseconds since the epoch; never when absent.
    pub expires_at: Option<u64>,
}

impl Default for NewKey {
    /// A key of all tenants that allows nothing.
    fn default() -> Self {
        Self { name: None, reach: Reach::All, scopes: BTreeSet::new(), expires_at: None }
    }
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyEntry {
    /// Its id, which is a part of the key.
    pub id: String,
    /// A name for people.
    pub name: Option<String>,
    /// The tenant whose runs it reaches; `*` for all.
    pub tenant: String,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it ends.
    pub expires_at: Option<u64>,
    /// When it was last used, to the minute.
    pub used_at: Option<u64>,
    /// When it was revoked.
    pub revoked_at: Option<u64>,
}

/// Whether a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is good.
    Active,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyState {
    /// The state as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl KeyEntry {
    /// Whether the key is good at a time, in milliseconds since the epoch.
    pub fn state(&self, now: u64) -> KeyState {
        if self.revoked_at.is_some() {
            KeyState::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }
}

/// A key as its holder has it. It is shown once, and its `Debug` form does not have it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A new key of this id.
    pub(crate) fn generate(id: &str) -> Result<Self, getrandom::Error> {
        Ok(Self(format!("{PREFIX}{id}_{}", HEXLOWER.encode(&random::<{ SECRET / 2 }>()?))))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A new id.
pub(crate) fn new_id() -> Result<String, getrandom::Error> {
    Ok(HEXLOWER.encode(&random::<{ ID / 2 }>()?))
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The parts of a text that has the form of a key: its id, and what is kept of it.
pub(crate) fn parse(text: &str) -> Option<(&str, blake3::Hash)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    (is_hex(id, ID) && is_hex(secret, SECRET)).then(|| (id, digest(text)))
}

/// What is kept of a key. A hash that is quick to compute is enough: the key is 256 random bits, and no password.
pub(crate) fn digest(key: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key("dalsegno 2026-11 access key");
    hasher.update(key.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_its_prefix_its_id_and_256_random_bits() {
        let id = new_id().unwrap();
        let (one, other) = (Key::generate(&id).unwrap(), Key::generate(&id).unwrap());
        assert_ne!(one, other);
        assert_eq!(parse(one.expose()), Some((id.as_str(), digest(one.expose()))));
        assert_eq!(one.expose().len(), "dalsegno_".len() + 16 + 1 + 64);
        assert_eq!(format!("{one:?}"), "Key(…)");
    }

    proptest! {
        #[test]
        fn what_is_no_key_is_refused(text in ".*") {
            prop_assert!(parse(&text).is_none());
        }

        #[test]
        fn a_key_with_another_letter_is_another_key_or_none(place in 0_usize..90, letter in "[0-9a-f_X é]") {
            let key = Key::generate("0123456789abcdef").unwrap();
            let mut changed: Vec<char> = key.expose().chars().collect();
            let new = letter.chars().next().unwrap();
            prop_assume!(changed[place] != new);
            changed[place] = new;
            let changed: String = changed.into_iter().collect();
            let own = parse(key.expose()).unwrap();
            prop_assert!(parse(&changed).is_none_or(|(_, hash)| hash != own.1));
        }
    }
}
