//! The master key from the environment.

use zeroize::Zeroize;

use super::{KeyError, KeySource, MasterKey};

/// The environment variable that holds the master key, unless another is named.
pub const KEY_VARIABLE: &str = "DALSEGNO_SECRETS_KEY";

/// Takes the master key from an environment variable, by default [`KEY_VARIABLE`].
#[derive(Clone, Debug)]
pub struct EnvKey {
    variable: String,
}

impl EnvKey {
    /// Names the variable.
    pub fn new(variable: impl Into<String>) -> Self {
        Self { variable: variable.into() }
    }
}

impl Default for EnvKey {
    fn default() -> Self {
        Self::new(KEY_VARIABLE)
    }
}

impl KeySource for EnvKey {
    fn master_key(&self) -> Result<MasterKey, KeyError> {
        let place = format!("the environment variable `{}`", self.variable);
        match std::env::var_os(&self.variable).map(std::ffi::OsString::into_string) {
            None => Err(KeyError::Unset { variable: self.variable.clone() }),
            Some(Err(_)) => Err(KeyError::Malformed { place, problem: "is not text" }),
            Some(Ok(mut text)) => {
                let key = MasterKey::from_base64(&text, &place);
                text.zeroize();
                key
            }
        }
    }
}
