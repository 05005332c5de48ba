//! The key of a provider: asked for when it is needed, never kept, never printed.

use reqwest::header::HeaderValue;

use crate::model::{ModelError, ModelErrorKind};

/// What stands in an error where the key stood.
const SCRUBBED: &str = "[secret]";

/// The fewest bytes of a key that is looked for in errors: a shorter one would be found in innocent words.
const SHORTEST: usize = 4;

/// Yields the key of a provider.
///
/// It is asked once for each request, so a key that rotates is always the current one and this crate keeps none. A
/// closure is one:
///
/// ```
/// use segno_models::ApiKey;
///
/// let key = || std::env::var("OPENAI_API_KEY").map_err(|_| "set `OPENAI_API_KEY`".to_owned());
/// let _: &dyn ApiKey = &key;
/// ```
pub trait ApiKey: Send + Sync {
    /// The key.
    ///
    /// # Errors
    /// Fails with the words that tell a person what is missing and what to do; they never hold a secret.
    fn reveal(&self) -> Result<String, String>;
}

impl<F> ApiKey for F
where
    F: Fn() -> Result<String, String> + Send + Sync,
{
    fn reveal(&self) -> Result<String, String> {
        self()
    }
}

/// A key for the time of one request.
pub(super) struct Revealed(String);

impl Revealed {
    pub(super) fn ask(key: &dyn ApiKey) -> Result<Self, ModelError> {
        let key = key.reveal().map_err(|words| {
            ModelError::new(ModelErrorKind::Refused, format!("the model's key is not at hand: {words}"))
        })?;
        Ok(Self(key.trim().to_owned()))
    }

    /// The key behind a prefix, as a header that is marked as sensitive.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, ModelError> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).map_err(|_| {
            let message = "the model's key has characters that no header can hold: check that it is the key alone, \
                           on one line";
            ModelError::new(ModelErrorKind::Refused, message)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The error without the key: some providers repeat it in what they answer.
    pub(super) fn scrub(&self, mut error: ModelError) -> ModelError {
        if self.0.len() >= SHORTEST && error.message.contains(&self.0) {
            error.message = error.message.replace(&self.0, SCRUBBED);
        }
        error
    }
}
