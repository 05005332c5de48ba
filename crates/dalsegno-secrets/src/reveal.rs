//! Secrets that are read when they are needed.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Secret;

/// Reads one secret whenever it is needed, so that a changed value counts at once.
///
/// Such a handle is all that a client gets of the secrets of a workspace: it reads this secret, and no other. Where the
/// secret is, and that it is scrubbed from then on, is the business of the program that made the handle. A [`Secret`] is a
/// handle of itself.
#[async_trait]
pub trait Reveal: Send + Sync {
    /// Reads the value as of now.
    ///
    /// # Errors
    /// When it cannot be read. Nothing may be sent then.
    async fn reveal(&self) -> Result<Secret, RevealError>;

    /// Reads a value to use instead of one that its receiver refused; none if there is no other. By default it reads the
    /// value again and compares: it may have changed since.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, RevealError> {
        let secret = self.reveal().await?;
        Ok((secret.expose() != refused.expose()).then_some(secret))
    }
}

#[async_trait]
impl Reveal for Secret {
    async fn reveal(&self) -> Result<Self, RevealError> {
        Ok(self.clone())
    }
}

/// Why a secret cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RevealError {
    /// What is missing and what to do, in words that hold no secret.
    pub message: String,
    /// The name in the secret store under which a person can put the value, if that is all that is missing.
    pub missing: Option<String>,
    /// Whether the same may succeed a moment later.
    pub transient: bool,
}

impl RevealError {
    /// An error that lasts, and that no value in the secret store would mend.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), missing: None, transient: false }
    }
}

/// A value that is known, or a secret that is read when it is needed: a variable of an environment, a header.
#[derive(Clone)]
pub enum MaybeSecret {
    /// A text that anybody may read.
    Text(String),
    /// A secret.
    Secret(Arc<dyn Reveal>),
}

impl MaybeSecret {
    /// Reads the value as of now.
    ///
    /// # Errors
    /// When it is a secret that cannot be read.
    pub async fn read(&self) -> Result<String, RevealError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Secret(secret) => Ok(secret.reveal().await?.expose().to_owned()),
        }
    }
}

impl From<&str> for MaybeSecret {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Debug for MaybeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Secret(_) => f.write_str("Secret(…)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A secret that another process changes after it was read once.
    struct Rotated(AtomicBool);

    #[async_trait]
    impl Reveal for Rotated {
        async fn reveal(&self) -> Result<Secret, RevealError> {
            let is_changed = self.0.swap(true, Ordering::Relaxed);
            Ok(Secret::new(if is_changed { "the new one" } else { "the old one" }))
        }
    }

    #[tokio::test]
    async fn a_refused_value_is_exchanged_for_another_one_only() {
        let rotated = Rotated(AtomicBool::new(false));
        let old = rotated.reveal().await.unwrap();
        let new = rotated.renew(&old).await.unwrap().expect("it changed");
        assert_eq!(new.expose(), "the new one");
        assert!(rotated.renew(&new).await.unwrap().is_none());
    }

    #[test]
    fn a_secret_is_not_shown_among_other_values() {
        let values = [MaybeSecret::from("eu"), MaybeSecret::Secret(Arc::new(Secret::new("hunter2")))];
        assert_eq!(format!("{values:?}"), r#"[Text("eu"), Secret(…)]"#);
    }
}
