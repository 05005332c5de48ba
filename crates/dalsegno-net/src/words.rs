//! Errors in one line.

use std::error::Error;

/// An error and its causes in one line, each cause once.
pub fn error_chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        // Some errors already say what their cause says.
        if !words.ends_with(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    words
}
