//! Where a run came from: this journal, or an archive that somebody brought.

use std::fmt;
use std::str::FromStr;

use dalsegno_core::Digest;
use serde::{Deserialize, Serialize};

/// Says that a run came in an archive. Nobody performs such a run: it can be read, compared and forked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Foreign {
    /// Who signed the archive; none where it was not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
}

impl Foreign {
    /// The stored form: the key, or nothing where nobody signed.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        self.signer.map(|signer| signer.as_bytes().to_vec()).unwrap_or_default()
    }

    /// Reads the stored form; none if it has another length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => Some(Self { signer: None }),
            bytes => Some(Self { signer: Some(Signer::from_bytes(bytes.try_into().ok()?)) }),
        }
    }
}

/// The key by which signatures of archives are verified: an Ed25519 public key. As text it is 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signer(Digest);

impl Signer {
    /// Wraps the bytes of a key. Whether they are one is found out when a signature is verified.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not the key of a signer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not the key of a signer: expected 64 hexadecimal digits, as `dalsegno import` shows them")]
pub struct SignerError;

impl FromStr for Signer {
    type Err = SignerError;

    fn from_str(text: &str) -> Result<Self, SignerError> {
        let bytes = blake3::Hash::from_hex(text).map_err(|_| SignerError)?;
        Ok(Self::from_bytes(*bytes.as_bytes()))
    }
}
