//! The master key, and where it comes from.

mod env;
mod file;

use std::fmt;
use std::io;
use std::path::PathBuf;

use data_encoding::{BASE64, HEXLOWER};
use zeroize::{Zeroize, Zeroizing};

use crate::Secret;
use crate::guard::TooOpen;
use crate::seal::{Cipher, KEY_BYTES, KeyBytes, random_key};

pub use self::env::{EnvKey, KEY_VARIABLE};
pub use self::file::KeyFile;

/// Gives the master key when a store is opened, from wherever it is kept.
///
/// Implement it for a keyring or a vault. It is asked once for each opening, and may block.
pub trait KeySource: fmt::Debug + Send + Sync {
    /// Returns the key.
    ///
    /// # Errors
    /// Says where the key was looked for and what was wrong.
    fn master_key(&self) -> Result<MasterKey, KeyError>;
}

/// The key that wraps a store's data key: 32 random bytes, overwritten when they are dropped.
#[derive(Clone)]
pub struct MasterKey(KeyBytes);

impl MasterKey {
    /// Draws a key from the operating system.
    ///
    /// # Errors
    /// [`KeyError::Random`] when it gives no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        random_key().map(Self).map_err(|source| KeyError::Random { source })
    }

    /// Reads a key as it is written: 32 bytes in base64 with padding, as `openssl rand -base64 32` prints it. White
    /// space around it is ignored.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], naming `place`. The text is not quoted.
    pub fn from_base64(text: &str, place: &str) -> Result<Self, KeyError> {
        let malformed = |problem| KeyError::Malformed { place: place.to_owned(), problem };
        let Ok(bytes) = BASE64.decode(text.trim_ascii().as_bytes()).map(Zeroizing::new) else {
            return Err(malformed("is not base64"));
        };
        if bytes.len() != KEY_BYTES {
            return Err(malformed("has another length"));
        }
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(malformed("repeats a single byte"));
        }
        let mut key = KeyBytes::default();
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    /// The key as [`MasterKey::from_base64`] reads it.
    pub fn to_base64(&self) -> Secret {
        Secret::of(BASE64.encode(&*self.0))
    }

    /// What the key is called. It tells keys apart and gives nothing away.
    pub fn id(&self) -> KeyId {
        let mut hash = blake3::derive_key("dalsegno-secrets v1: the id of a master key", &*self.0);
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        hash.zeroize();
        KeyId(id)
    }

    /// The cipher that wraps data keys.
    pub(crate) fn wrapper(&self) -> Cipher {
        let context = "dalsegno-secrets v1: the key that wraps data keys";
        Cipher::new(&Zeroizing::new(blake3::derive_key(context, &*self.0)))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

/// The name of a master key: a part of its hash, shown as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 8]);

impl KeyId {
    /// Wraps eight bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The eight bytes.
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The environment has no such variable.
    #[error(
        "the environment variable `{variable}` is not set, expected the key of the secret store in base64"
    )]
    Unset {
        /// Its name.
        variable: String,
    },
    /// What stands there is no key.
    #[error(
        "{place} {problem}, expected a key of 32 bytes in base64, as `openssl rand -base64 32` prints it"
    )]
    Malformed {
        /// Where it stands.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Others than the owner of the file may read or write it.
    #[error("the key file `{}` {problem}", path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// What others may do, and the remedy.
        problem: TooOpen,
    },
    /// A key file is to be made where a file exists.
    #[error("the key file `{}` already exists and is not replaced, because its key may belong to a store; name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or made.
    #[error("the key file `{}` cannot be {action}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `made`.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The operating system gave no random numbers.
    #[error("the operating system returned no random numbers for a key; try again")]
    Random {
        /// What it said.
        source: getrandom::Error,
    },
    /// A source of another kind has no key.
    #[error("cannot read the key of the secret store from {place}")]
    Source {
        /// What was asked.
        place: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
