//! The one form in which a text is kept, so that the same document has the same version.

/// The canonical form of a text: without a byte order mark, with `\n` at the end of each line, and with one at its own end.
/// Neither TOML nor JSON means anything else by it.
pub fn canonical(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let mut text = lines.join("\n");
    text.truncate(text.trim_end_matches('\n').len());
    text.push('\n');
    text
}

/// The digest of a canonical text.
pub(crate) fn digest(text: &str) -> blake3::Hash {
    blake3::hash(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_differ_in_line_ends_alone_are_the_same() {
        for text in ["a = 1\nb = 2", "a = 1\r\nb = 2\r\n", "\u{feff}a = 1\nb = 2\n\n\n"] {
            assert_eq!(canonical(text), "a = 1\nb = 2\n");
        }
        assert_eq!(canonical(""), "\n");
        assert_ne!(canonical("a = 1 \n"), canonical("a = 1\n"), "a space counts");
    }

    proptest! {
        #[test]
        fn a_canonical_text_stays_as_it_is(text in "[\u{feff}\r\na {}\"]{0,12}") {
            let once = canonical(&text);
            prop_assert_eq!(canonical(&once), once);
        }
    }
}
