//! Where the next page of a listing begins, as a text that means nothing to clients.

use dalsegno_core::RunId;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

/// The bytes of the digest of a listing.
const LIST: usize = 8;
/// Most bytes of the name of an entry.
const NAME: usize = 64;

/// Says whether a text has the form of a cursor.
pub(crate) fn is_one(cursor: &str) -> bool {
    BASE64URL_NOPAD.decode(cursor.as_bytes()).is_ok_and(|bytes| bytes.len() == LIST + 16)
}

/// Says whether a text has the form of a cursor in a list of names.
pub(crate) fn is_named(cursor: &str) -> bool {
    let has_name = |bytes: Vec<u8>| (1..=NAME).contains(&bytes.len().saturating_sub(LIST));
    HEXLOWER.decode(cursor.as_bytes()).is_ok_and(has_name)
}

/// What tells one listing from another: its name, its filters, and whose runs it shows.
pub(crate) struct List([u8; LIST]);

impl List {
    pub(crate) fn of(name: &str, facts: &impl serde::Serialize) -> Self {
        let facts = serde_json::json!([name, facts]).to_string();
        let mut digest = [0; LIST];
        digest.copy_from_slice(&blake3::hash(facts.as_bytes()).as_bytes()[..LIST]);
        Self(digest)
    }

    /// The cursor after this run.
    pub(crate) fn after(&self, run: RunId) -> String {
        let mut bytes = self.0.to_vec();
        bytes.extend_from_slice(run.as_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// The run after which a page begins; none if the cursor is of another list, or none.
    pub(crate) fn read(&self, cursor: &str) -> Option<RunId> {
        let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
        let run = bytes.strip_prefix(&self.0)?;
        Some(RunId::from_bytes(run.try_into().ok()?))
    }

    /// The cursor after the entry with this name.
    pub(crate) fn after_name(&self, name: &str) -> String {
        HEXLOWER.encode(&[&self.0, name.as_bytes()].concat())
    }

    /// The name after which a page begins; none if the cursor is of another list, or none.
    pub(crate) fn read_name(&self, cursor: &str) -> Option<String> {
        let bytes = HEXLOWER.decode(cursor.as_bytes()).ok()?;
        String::from_utf8(bytes.strip_prefix(&self.0)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_of_one_list_alone() {
        let run = RunId::from_bytes([7; 16]);
        let (one, other) = (List::of("runs", &["a"]), List::of("runs", &["b"]));
        let cursor = one.after(run);
        assert!(is_one(&cursor) && !is_one("x") && cursor.len() == 32);
        assert_eq!(one.read(&cursor), Some(run));
        assert_eq!(other.read(&cursor), None);
        assert_eq!(List::of("inbox", &["a"]).read(&cursor), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_cursor_or_none(text in ".*") {
            prop_assert_eq!(List::of("runs", &()).read(&text), None);
            prop_assert_eq!(List::of("agents", &()).read_name(&text), None);
        }

        #[test]
        fn a_name_comes_back_from_its_cursor_and_in_no_other_list(name in "[a-z0-9_-]{1,64}") {
            let list = List::of("agents", &());
            let cursor = list.after_name(&name);
            prop_assert!(is_named(&cursor));
            prop_assert_eq!(List::of("tools", &()).read_name(&cursor), None);
            prop_assert_eq!(list.read_name(&cursor), Some(name));
        }
    }
}
