//! Regular expressions in linear time and bounded memory.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use regex::{Regex, RegexBuilder};

use crate::limits::{MAX_PATTERN, MAX_PATTERN_BYTES};

/// A regular expression, found anywhere in a text unless it is anchored, as in JSON Schema.
///
/// Look-around and back references are refused: they cannot be matched in linear time.
#[derive(Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a source, or says why it cannot be.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_PATTERN {
            return Err(format!("it is longer than {MAX_PATTERN} bytes"));
        }
        let built = RegexBuilder::new(source).size_limit(MAX_PATTERN_BYTES).nest_limit(64).build();
        match built {
            Ok(regex) => Ok(Self(regex)),
            Err(regex::Error::CompiledTooBig(limit)) => {
                Err(format!("it needs more than {limit} bytes of memory: use smaller repeats"))
            }
            // The last line of the parser's picture says why.
            Err(error) => Err(error
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .trim()
                .trim_start_matches("error: ")
                .to_string()),
        }
    }

    /// The source.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_cannot_be_bounded_are_refused_with_a_reason() {
        assert!(Pattern::parse(r"^\d{3}$").unwrap().is_match("123"));
        assert!(Pattern::parse("((a{100}){100}){100}").unwrap_err().contains("memory"));
        assert!(
            Pattern::parse("(?=a)b").unwrap_err().contains("look-around"),
            "{:?}",
            Pattern::parse("(?=a)b")
        );
        assert!(Pattern::parse(&"a".repeat(MAX_PATTERN + 1)).unwrap_err().contains("longer"));
        assert!(Pattern::parse(&"(".repeat(500)).is_err());
    }

    #[test]
    fn a_pattern_that_explodes_elsewhere_answers_at_once() {
        let pattern = Pattern::parse("^(a+)+$").unwrap();
        assert!(!pattern.is_match(&alloc::format!("{}!", "a".repeat(50_000))));
    }
}
