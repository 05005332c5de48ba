//! Ids and names. Parsing is the only way in: `FromStr` and `Deserialize` call the same validator.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An id that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: expected 32 hexadecimal digits")]
pub struct IdError {
    what: &'static str,
    found: String,
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Wraps sixteen bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The sixteen bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_hex(text).map(Self).ok_or_else(|| IdError { what: $what, found: text.chars().take(64).collect() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    serializer.serialize_bytes(&self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
                } else {
                    deserializer.deserialize_bytes(Bytes($what)).map(Self)
                }
            }
        }
    };
}

id_type!(
    /// One run of one agent. Drawn by the shell, or derived from a parent's operation.
    RunId, "a run id"
);
id_type!(
    /// One request of a run. Derived before anything happens, so it can serve as the key for deduplication, as the
    /// journal's key and as `Idempotency-Key`; all attempts of one operation share it.
    OperationId, "an operation id"
);

/// Reads sixteen raw bytes.
struct Bytes(&'static str);

impl<'de> Visitor<'de> for Bytes {
    type Value = [u8; 16];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sixteen bytes of {}", self.0)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<[u8; 16], E> {
        bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<[u8; 16], A::Error> {
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(index, &"sixteen bytes"))?;
        }
        Ok(bytes)
    }
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

/// A point in time: milliseconds since 1970-01-01T00:00:00Z. The core never reads a clock; every event brings its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// A point in time from milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// A name that breaks the rules for its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: expected {expected}")]
pub struct NameError {
    what: &'static str,
    expected: &'static str,
    found: String,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $expected:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    let found = text.chars().take(64).collect();
                    Err(NameError { what: $what, expected: $expected, found })
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

name_type!(
    /// An agent's name, such as `triage`.
    AgentName, "an agent name", "1 to 64 lower-case letters, digits and single hyphens, beginning with a letter",
    |text| {
        text.len() <= 64
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.split('-').all(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            })
    }
);
name_type!(
    /// The name under which a plan step's result is read, as in `steps.<id>`.
    StepId, "a step id", "1 to 64 lower-case letters, digits and `_`, beginning with a letter",
    |text| {
        text.len() <= 64
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    }
);
name_type!(
    /// A tool's name, `server.tool`, such as `risk.score`.
    ToolName, "a tool name", "1 to 128 letters, digits, `_`, `-` and `.`, beginning with a letter",
    |text| text.len() <= 128 && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(tool_byte)
);
name_type!(
    /// Names one tool (`risk.score`), all tools below a prefix (`risk.*`) or all tools (`*`).
    ToolPattern, "a tool pattern", "a tool name, a prefix such as `risk.*`, or `*`",
    |text| text == "*" || ToolName::from_str(text.strip_suffix(".*").unwrap_or(text)).is_ok()
);
name_type!(
    /// A name by which models see a tool, such as `create_event`: what every provider accepts.
    ModelName, "a name for models", "1 to 64 letters, digits, `_` and `-`",
    |text| {
        (1..=MODEL_NAME_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    }
);

fn tool_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

impl ToolPattern {
    /// Says whether the pattern covers `tool`.
    pub fn matches(&self, tool: &ToolName) -> bool {
        if self.0 == "*" {
            return true;
        }
        match self.0.strip_suffix('*') {
            Some(prefix) => tool.0.starts_with(prefix),
            None => self.0 == tool.0,
        }
    }
}

impl ToolName {
    /// The name that a model sees unless a shorter one is pinned ([`Toolbox::names`](crate::Toolbox::names)): models
    /// accept only `[A-Za-z0-9_-]{1,64}`, so `risk.score` becomes `risk__score`, and what is too long ends in a part of
    /// its hash.
    pub fn model_name(&self) -> String {
        let name = self.0.replace('.', "__");
        if name.len() <= MODEL_NAME_LENGTH {
            return name;
        }
        let hash = blake3::hash(self.0.as_bytes()).to_hex();
        alloc::format!("{}_{}", &name[..MODEL_NAME_LENGTH - 9], &hash[..8])
    }
}

/// The longest tool name that every provider accepts.
const MODEL_NAME_LENGTH: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn an_id_round_trips_through_text() {
        let id = RunId::from_bytes([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("abc".parse::<RunId>().is_err());
        assert!("zz".repeat(16).parse::<RunId>().is_err());
        assert!("é".repeat(16).parse::<RunId>().is_err());
    }

    #[test]
    fn names_are_checked_when_they_are_parsed() {
        for good in ["triage", "a", "on-call-2"] {
            assert!(good.parse::<AgentName>().is_ok(), "{good}");
        }
        for bad in ["", "Triage", "2nd", "a--b", "a-", "a_b", "a b"] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad}");
        }
        assert!("risk.score".parse::<ToolName>().is_ok());
        assert!("risk score".parse::<ToolName>().is_err());
    }

    #[test]
    fn a_name_for_models_is_what_every_provider_accepts() {
        for good in ["create_event", "Create-Event", "7", "_"] {
            assert!(good.parse::<ModelName>().is_ok(), "{good}");
        }
        assert!("x".repeat(64).parse::<ModelName>().is_ok());
        for bad in ["", "a.b", "a b", "é", &"x".repeat(65)] {
            assert!(bad.parse::<ModelName>().is_err(), "{bad}");
        }
        assert_eq!(
            "a.b".parse::<ModelName>().unwrap_err().to_string(),
            "`a.b` is not a name for models: expected 1 to 64 letters, digits, `_` and `-`"
        );
    }

    #[test]
    fn long_tool_names_stay_different_for_models() {
        let name =
            |last: &str| alloc::format!("server.{}{last}", "x".repeat(80)).parse::<ToolName>().unwrap();
        assert_eq!(name("a").model_name().len(), 64);
        assert_ne!(name("a").model_name(), name("b").model_name());
        assert_eq!("risk.score".parse::<ToolName>().unwrap().model_name(), "risk__score");
    }

    #[test]
    fn a_pattern_covers_its_prefix_and_nothing_else() {
        let pattern: ToolPattern = "risk.*".parse().unwrap();
        assert!(pattern.matches(&"risk.score".parse().unwrap()));
        assert!(!pattern.matches(&"risky.score".parse().unwrap()));
        assert!("*".parse::<ToolPattern>().unwrap().matches(&"a".parse().unwrap()));
        assert!("*.x".parse::<ToolPattern>().is_err());
    }
}
