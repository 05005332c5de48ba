//! Names of secrets and of tenants. Parsing is the only way in.

use std::fmt;
use std::str::FromStr;

/// The longest name of a secret, in bytes; that of a tool's name.
pub const NAME_BYTES_MAX: usize = 128;

/// The longest name of a tenant, in bytes; the same as where memories are kept by tenant.
pub const TENANT_BYTES_MAX: usize = 256;

/// What is wrong with a name. It never quotes the text: that may be a secret in the wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name of a secret does not follow the rule.
    #[error(
        "this is not the name of a secret: expected 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`, beginning with \
         a letter, and found {bytes} bytes, of which the one at {at} does not fit"
    )]
    Secret {
        /// Its length.
        bytes: usize,
        /// The first byte that does not fit, counted from 1; one past the end for a name that is empty.
        at: usize,
    },
    /// The name of a tenant does not follow the rule.
    #[error(
        "this is not the name of a tenant: expected one printable line of 1 to {TENANT_BYTES_MAX} bytes, and found {bytes} \
         bytes of which {control} are control characters"
    )]
    Tenant {
        /// Its length.
        bytes: usize,
        /// How many control characters there are.
        control: usize,
    },
}

/// The name of a secret, such as `crm.token`: it follows the rule for the names of tools.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let bytes = text.as_bytes();
        let fits = |(index, byte): (usize, &u8)| {
            let inside = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            index < NAME_BYTES_MAX && if index == 0 { byte.is_ascii_alphabetic() } else { inside }
        };
        let good = bytes.iter().enumerate().take_while(|place| fits(*place)).count();
        if bytes.is_empty() || good < bytes.len() {
            return Err(NameError::Secret { bytes: bytes.len(), at: good + 1 });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose secrets are meant. A name of one tenant says nothing to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

impl Tenant {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tenant {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let control = text.chars().filter(|character| character.is_control()).count();
        if text.trim().is_empty() || text.len() > TENANT_BYTES_MAX || control > 0 {
            return Err(NameError::Tenant { bytes: text.len(), control });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_for_tools() {
        for good in ["a", "user.auth_token", "run.0a1b-2.x", &"n".repeat(128)] {
            assert!(good.parse::<SecretName>().is_ok(), "{good}");
        }
        for (bad, at) in
            [("", 1), ("1a", 1), (".a", 1), ("a b", 2), ("a/b", 2), ("aé", 2), (&"n".repeat(129), 129)]
        {
            assert_eq!(bad.parse::<SecretName>(), Err(NameError::Secret { bytes: bad.len(), at }), "{bad}");
        }
    }

    #[test]
    fn a_tenant_is_one_printable_line() {
        for good in ["acme", "Ärzte & Söhne", &"t".repeat(256)] {
            assert!(good.parse::<Tenant>().is_ok(), "{good}");
        }
        for bad in ["", "  ", "a\nb", "a\0", &"t".repeat(257)] {
            assert!(bad.parse::<Tenant>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refused_name_is_not_quoted() {
        let error = "hunter2 hunter2".parse::<SecretName>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        let error = "hunter2\nhunter2".parse::<Tenant>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
