//! The value itself, in a type that cannot be printed.

use std::fmt;
use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

/// A secret value. It has no `Display`, its `Debug` does not show it, and it is overwritten when its last clone is
/// dropped.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Wraps a copy of a value. The original is the caller's to forget.
    pub fn new(value: &str) -> Self {
        Self::of(value.to_owned())
    }

    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The value without the space around it, as it is sent and scrubbed.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        let trimmed = self.expose().trim();
        if trimmed.len() == self.expose().len() { self.clone() } else { Self::new(trimmed) }
    }

    /// Wraps a value without a copy.
    pub(crate) fn of(value: String) -> Self {
        Self(Arc::new(Zeroizing::new(value)))
    }

    /// Wraps bytes that must be text; overwrites them if they are not.
    pub(crate) fn from_bytes(mut bytes: Zeroizing<Vec<u8>>) -> Option<Self> {
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(text) => Some(Self::of(text)),
            Err(error) => {
                error.into_bytes().zeroize();
                None
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
