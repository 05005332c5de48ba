//! What scrubbing means, wherever it is done.

/// What stands in a record or an error where a secret stood.
pub const SCRUBBED: &str = "[secret]";

/// The fewest bytes of a secret that can be scrubbed: a shorter one would be found in the middle of innocent words.
pub const SHORTEST: usize = 6;
