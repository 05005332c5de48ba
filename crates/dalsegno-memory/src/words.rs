//! Splits text into the words that are indexed and asked for.
//!
//! A word is a run of letters and digits, in lower case, without the accents of Latin letters, at most 64
//! bytes, brought to its stem. Han, kana and Hangul signs, which no spaces divide, are words of their own.
//! SQLite sees only the result, so that no text can reach its query language.

use crate::search::{QUERY_BYTES_MAX, QUERY_WORDS_MAX};
use crate::stem::stem;

/// Longer words are cut: they are keys and encoded bytes, recognised by their beginning.
const WORD_BYTES_MAX: usize = 64;

/// English words that say little; a query leaves them out unless it has no others. They are indexed all the
/// same.
const FUNCTION_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "if", "in", "into", "is", "it",
    "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was",
    "were", "will", "with",
];

/// A word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryWord {
    /// As it was asked, in lower case.
    pub(crate) word: String,
    /// As it stands in the index.
    pub(crate) term: String,
}

/// Returns the terms of a text in their order, repeated ones too.
pub(crate) fn terms(text: &str) -> impl Iterator<Item = String> {
    words(text).map(stem)
}

/// Returns the words of a query in their order, each term once, within the bounds of a query.
pub(crate) fn query_words(text: &str) -> Vec<QueryWord> {
    let text = &text[..text.floor_char_boundary(QUERY_BYTES_MAX)];
    let telling = distinct(words(text).filter(|word| !FUNCTION_WORDS.contains(&word.as_str())));
    if telling.is_empty() { distinct(words(text)) } else { telling }
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<QueryWord> {
    let mut found: Vec<QueryWord> = Vec::new();
    for word in words {
        let term = stem(word.clone());
        if found.iter().all(|known| known.term != term) {
            found.push(QueryWord { word, term });
        }
        if found.len() == QUERY_WORDS_MAX {
            break;
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, character)| !character.is_alphanumeric()).is_some() {}
        let (start, first) = rest.next()?;
        let mut end = start + first.len_utf8();
        if !stands_alone(first) {
            let inside = |character: char| {
                (character.is_alphanumeric() && !stands_alone(character)) || is_accent(character)
            };
            while let Some((at, character)) = rest.next_if(|(_, character)| inside(*character)) {
                end = at + character.len_utf8();
            }
        }
        Some(&text[start..end])
    })
    .map(fold)
    .filter(|word| !word.is_empty())
}

fn fold(word: &str) -> String {
    let mut folded: String = word
        .chars()
        .flat_map(char::to_lowercase)
        .map(without_accent)
        .filter(|character| character.is_alphanumeric())
        .collect();
    folded.truncate(folded.floor_char_boundary(WORD_BYTES_MAX));
    folded
}

/// Whether the sign belongs to a script that is written without spaces.
fn stands_alone(character: char) -> bool {
    matches!(
        character,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{323af}'
    )
}

fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}')
}

fn without_accent(character: char) -> char {
    match character {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => 'i',
        'ĺ' | 'ļ' | 'ľ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{WORD_BYTES_MAX, query_words, terms};
    use crate::search::QUERY_WORDS_MAX;

    fn check(text: &str, expected: &str) {
        assert_eq!(terms(text).collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn text_is_split_at_everything_that_is_no_letter_or_digit() {
        check("Payments failed: HTTP-502 (db_pool)", "payment fail http 502 db pool");
        check("\") OR scope:\"1\" NEAR(a* b)", "or scope 1 near a b");
        check("", "");
        check("… — !!", "");
    }

    #[test]
    fn case_and_accents_do_not_matter() {
        check("Ärger im CAFÉ", "arger im cafe");
        check("cafe\u{301} İzmir", "cafe izmir");
        check("Платёж", "платёж");
    }

    #[test]
    fn signs_of_scripts_without_spaces_are_words() {
        check("支払い失敗 now", "支 払 い 失 敗 now");
    }

    #[test]
    fn a_query_leaves_out_function_words_unless_it_has_no_others() {
        let words = |text: &str| query_words(text).into_iter().map(|word| word.word).collect::<Vec<_>>();
        assert_eq!(words("the payment was in the queue of payments"), ["payment", "queue"]);
        assert_eq!(words("to be or"), ["to", "be", "or"]);
        assert!(words(" \t ").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_gives_bounded_plain_words(text in "\\PC{0,200}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.len() <= WORD_BYTES_MAX);
                prop_assert!(term.chars().all(char::is_alphanumeric), "{}", term);
            }
        }

        #[test]
        fn a_query_is_bounded(text in prop::collection::vec("[a-zé]{1,9}", 0..2_000)) {
            prop_assert!(query_words(&text.join(" ")).len() <= QUERY_WORDS_MAX);
        }
    }
}
