//! The rule that all names follow: tenants, workspaces, agents, sessions, entities and their types.

/// The longest name, in bytes: longer ones are text in the wrong place, and names stand in indexes.
pub const NAME_BYTES_MAX: usize = 256;

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty or consists of white space.
    #[error("is empty, expected 1 to {NAME_BYTES_MAX} bytes")]
    Empty,
    /// The name is too long.
    #[error("has {bytes} bytes, expected 1 to {NAME_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The name holds a control character, such as a line break.
    #[error("holds the control character {character:?}, expected one printable line")]
    Control {
        /// The first such character.
        character: char,
    },
}

/// Checks a name against the rule.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    match name.chars().find(|character| character.is_control()) {
        Some(character) => Err(NameError::Control { character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameError, check};

    #[test]
    fn names_are_one_printable_line_of_bounded_length() {
        assert_eq!(check("INC-0001 Überweisung"), Ok(()));
        assert_eq!(check(&"n".repeat(256)), Ok(()));
        assert_eq!(check(&"n".repeat(257)), Err(NameError::TooLong { bytes: 257 }));
        assert_eq!(check("  "), Err(NameError::Empty));
        assert_eq!(check("a\nb"), Err(NameError::Control { character: '\n' }));
    }
}
