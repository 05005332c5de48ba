//! Porter's algorithm: brings English word forms to a common stem, so that `failing` finds `failed`.
//!
//! Words of other languages and words with digits pass unchanged. It is written here because the words that
//! are indexed and the words that are asked for must be cut alike, and both are made in this crate. The
//! tests compare it with the tokenizer of the same name in SQLite.

/// Returns the stem of a word in lower case.
pub(crate) fn stem(word: String) -> String {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    let mut word = word;
    plural(&mut word);
    past_and_progressive(&mut word);
    if let Some(stem) = word.strip_suffix('y')
        && has_vowel(stem)
    {
        replace(&mut word, 1, "i");
    }
    first_match(&mut word, DOUBLE_SUFFIXES, |stem| measure(stem) > 0);
    first_match(&mut word, FULL_SUFFIXES, |stem| measure(stem) > 0);
    residual(&mut word);
    tidy(&mut word);
    word
}

fn plural(word: &mut String) {
    if has_suffix(word, "sses") || has_suffix(word, "ies") {
        replace(word, 2, "");
    } else if word.ends_with('s') && !word.ends_with("ss") {
        replace(word, 1, "");
    }
}

fn past_and_progressive(word: &mut String) {
    if has_suffix(word, "eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            replace(word, 1, "");
        }
        return;
    }
    let cut = if has_suffix(word, "ed") {
        2
    } else if has_suffix(word, "ing") {
        3
    } else {
        return;
    };
    if !has_vowel(&word[..word.len() - cut]) {
        return;
    }
    replace(word, cut, "");
    if has_suffix(word, "at") || has_suffix(word, "bl") || has_suffix(word, "iz") {
        word.push('e');
    } else if ends_in_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_in_short_syllable(word) {
        word.push('e');
    }
}

fn residual(word: &mut String) {
    // `ion` falls only after `s` or `t`, and both stay.
    if let Some(stem) = word.strip_suffix("ion") {
        if stem.ends_with(['s', 't']) && measure(stem) > 1 {
            replace(word, 3, "");
        }
        return;
    }
    first_match(word, RESIDUAL_SUFFIXES, |stem| measure(stem) > 1);
}

fn tidy(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measure = measure(stem);
        if measure > 1 || (measure == 1 && !ends_in_short_syllable(stem)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
}

/// Replaces the first suffix of the list that the word has, if what stands before it is fit; only one is
/// tried.
fn first_match(word: &mut String, suffixes: &[(&str, &str)], fit: impl Fn(&str) -> bool) {
    if let Some((suffix, replacement)) = suffixes.iter().find(|(suffix, _)| has_suffix(word, suffix))
        && fit(&word[..word.len() - suffix.len()])
    {
        replace(word, suffix.len(), replacement);
    }
}

fn replace(word: &mut String, cut: usize, replacement: &str) {
    word.truncate(word.len() - cut);
    word.push_str(replacement);
}

/// Whether the word ends so and something stands before it.
fn has_suffix(word: &str, suffix: &str) -> bool {
    word.len() > suffix.len() && word.ends_with(suffix)
}

/// Tells for each letter whether it is a vowel; `y` is one after a consonant.
fn vowels(word: &str) -> impl Iterator<Item = bool> {
    let mut after_consonant = false;
    word.bytes().map(move |byte| {
        let vowel = matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u') || (byte == b'y' && after_consonant);
        after_consonant = !vowel;
        vowel
    })
}

fn has_vowel(stem: &str) -> bool {
    vowels(stem).any(|vowel| vowel)
}

/// Counts how often a consonant follows a vowel.
fn measure(stem: &str) -> usize {
    let mut after_vowel = false;
    vowels(stem).filter(|vowel| std::mem::replace(&mut after_vowel, *vowel) && !vowel).count()
}

fn ends_in_double_consonant(word: &str) -> bool {
    let bytes = word.as_bytes();
    let [.., before, last] = bytes else { return false };
    before == last && !matches!(last, b'a' | b'e' | b'i' | b'o' | b'u')
}

/// Whether the word ends in consonant, vowel, consonant, the last being none of `w`, `x`, `y`.
fn ends_in_short_syllable(word: &str) -> bool {
    let kinds: Vec<bool> = vowels(word).collect();
    kinds.ends_with(&[false, true, false]) && !word.ends_with(['w', 'x', 'y'])
}

// Where one suffix ends in another, the longer stands first.
const DOUBLE_SUFFIXES: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const FULL_SUFFIXES: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const RESIDUAL_SUFFIXES: &[(&str, &str)] = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::stem;

    #[test]
    fn forms_of_a_word_share_a_stem() {
        for forms in [
            &["fail", "failed", "failing", "fails"][..],
            &["charge", "charged", "charges", "charging"],
            &["retry", "retries", "retried"],
            &["connect", "connection", "connections", "connected"],
            &["duplicate", "duplicates", "duplicated", "duplication"],
        ] {
            let stems: Vec<_> = forms.iter().map(|form| stem((*form).to_owned())).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{stems:?}");
        }
        assert_eq!(stem("zahlungen".to_owned()), "zahlungen");
        assert_eq!(stem("x509s".to_owned()), "x509s");
    }

    /// What SQLite's own tokenizer of that name makes of each word.
    fn second_opinion(words: &[String]) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE VIRTUAL TABLE t USING fts5(w, tokenize = 'porter ascii');
                 CREATE VIRTUAL TABLE v USING fts5vocab(t, instance);",
            )
            .unwrap();
        connection.execute("INSERT INTO t (w) VALUES (?1)", [words.join(" ")]).unwrap();
        let mut statement = connection.prepare("SELECT term FROM v ORDER BY \"offset\"").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn word() -> impl Strategy<Value = String> {
        let suffix = prop::sample::select(
            [
                "", "s", "es", "ies", "sses", "eed", "ed", "ing", "y", "ational", "tional", "enci", "izer",
                "logi", "bli", "alli", "entli", "ousli", "ization", "ation", "ator", "alism", "iveness",
                "fulness", "aliti", "biliti", "icate", "ative", "alize", "iciti", "ical", "ful", "ness",
                "al", "ance", "er", "able", "ant", "ement", "ment", "ent", "sion", "tion", "ion", "ou",
                "ism", "ate", "iti", "ous", "ive", "ize", "e", "ll", "lle",
            ]
            .as_slice(),
        );
        ("[a-z]{0,3}[aeiouybtls]{0,3}[a-z]{1,2}", suffix, prop::sample::select(&["", "", "s", "ed", "ly"]))
            .prop_map(|(start, middle, end)| format!("{start}{middle}{end}"))
    }

    proptest! {
        #[test]
        fn stems_are_those_of_sqlite(words in prop::collection::vec(word(), 64)) {
            let expected = second_opinion(&words);
            let stems: Vec<_> = words.iter().cloned().map(stem).collect();
            for ((word, stem), expected) in words.iter().zip(&stems).zip(&expected) {
                prop_assert_eq!(stem, expected, "of {}", word);
            }
        }
    }
}
