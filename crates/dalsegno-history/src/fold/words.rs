//! What a fold found, in words.

use dalsegno_core::{AgentResponse, Operation};

/// An operation in words, with its arguments where it has some.
pub(crate) fn describe(operation: &Operation) -> String {
    let label = operation.request.label();
    let digest = short(&operation.digest);
    match operation.arguments() {
        Some(arguments) => format!("{label} ({digest}) with {}", clip(&arguments.to_string())),
        None => format!("{label} ({digest})"),
    }
}

/// The first difference of two ends, in words.
pub(crate) fn difference(recorded: &AgentResponse, response: &AgentResponse) -> (String, String) {
    if recorded.status != response.status {
        return (
            format!("{:?}", recorded.status).to_lowercase(),
            format!("{:?}", response.status).to_lowercase(),
        );
    }
    if recorded.answer != response.answer {
        let words = |answer: &Option<String>| match answer {
            Some(answer) => format!("with the answer `{}`", clip(answer)),
            None => "without an answer".to_owned(),
        };
        return (words(&recorded.answer), words(&response.answer));
    }
    let words = |response: &AgentResponse| match &response.error {
        Some(error) => format!("with the error {}: {}", error.code.as_str(), clip(&error.message)),
        None => format!("after {:?}", response.usage),
    };
    match (words(recorded), words(response)) {
        (recorded, response) if recorded != response => (recorded, response),
        // What differs has no words of its own: the whole ends are shown.
        _ => (format!("{recorded:?}"), format!("{response:?}")),
    }
}

/// Enough of a text to recognise it.
pub(super) fn clip(text: &str) -> String {
    const LENGTH: usize = 200;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first digits of a digest, enough to tell two apart.
pub(super) fn short(digest: &dalsegno_core::Digest) -> String {
    digest.to_string()[..8].to_owned()
}
