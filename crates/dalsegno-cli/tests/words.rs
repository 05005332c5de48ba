//! The words of the README, the book and the help: plain English, without the habits that readers stumble over. And the words
//! of the glossary: a type with the name of one is the one that the glossary means.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words with no noun before them, and verbs that say something else than in most documentation.
const AVOIDED: &[&str] = &[
    "whoever",
    "whatever",
    "nobody",
    "somebody",
    "go on",
    "goes on",
    "went on",
    "going on",
    "gone on",
    "take up",
    "takes up",
    "taken up",
    "is told",
    "are told",
    "be told",
    "stand for",
    "stands for",
    "is away",
    "are away",
    "is through",
    "in the way of",
    "what is to become of",
];

/// The pages that people read, from the root of the repository.
const PAGES: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tool-servers/README.md"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Markdown files of a folder and of those below it.
fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The prose of a page in lower case, as one text, and where each line of it begins, with its number. Blocks of code and code
/// within a line are left out.
fn prose(page: &str) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut lines) = (String::new(), Vec::new());
    let mut is_code = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            text.push('|');
        } else if !is_code {
            lines.push((text.len(), number));
            let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            text.push_str(&outside.to_lowercase());
            text.push(' ');
        }
    }
    (text, lines)
}

/// The places of a page where a word is used that readers stumble over, also across the end of a line.
fn avoided(page: &str) -> Vec<String> {
    let is_letter = |character: Option<char>| character.is_some_and(char::is_alphabetic);
    let (text, lines) = prose(page);
    let mut found = Vec::new();
    for words in AVOIDED {
        for (at, _) in text.match_indices(words) {
            let (before, after) = (&text[..at], &text[at + words.len()..]);
            if !is_letter(before.chars().next_back()) && !is_letter(after.chars().next()) {
                let line = lines.iter().rfind(|(begin, _)| *begin <= at).map_or(0, |(_, number)| *number);
                found.push((line, *words));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(line, words)| format!("{line}: {words}")).collect()
}

#[test]
fn the_pages_are_in_plain_words() {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(|page| repository().join(page)).collect();
    pages_below(&repository().join("docs/src"), &mut pages);
    assert!(pages.len() > 90, "{}", pages.len());
    let mut found = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(repository()).unwrap().display().to_string();
        found.extend(avoided(&text).into_iter().map(|place| format!("{name}:{place}")));
    }
    assert!(found.is_empty(), "say it with a noun, or with another verb:\n{}", found.join("\n"));
}

#[test]
fn a_word_is_found_in_prose_and_nowhere_else() {
    let page =
        "It goes\non. `goes on`, undergoes on\n```text\nnobody\n```\nWhoever reads `x` stands for nobody.\n";
    assert_eq!(avoided(page), ["1: goes on", "6: nobody", "6: stands for", "6: whoever"]);
}

/// A type that the glossary names: its own name and that of its crate, without `dalsegno-`.
type Named = (String, String);

/// The words of the glossary as types would be called, each with the type in its row.
fn glossary(page: &str) -> BTreeMap<String, Option<Named>> {
    let section = page.split("\n## ").find(|section| section.starts_with("Glossary\n")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut words = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').splitn(3, '|').map(str::trim).collect();
        let named = cells[1].strip_prefix('`').map(|cell| {
            let (name, place) = cell.split_once("` (").unwrap();
            (name.to_owned(), place.trim_end_matches(')').to_owned())
        });
        for word in cells[0].split(", ") {
            let letters = word.split(' ').map(|part| part[..1].to_uppercase() + &part[1..]);
            words.insert(letters.collect::<String>(), named.clone());
        }
    }
    words
}

/// The name of the type that a line of Rust defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.split_once(") ").filter(|_| rest.starts_with('(')).map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let (keyword, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    is_type.then(|| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap())
}

/// The types that the Rust files of a folder define, by their names, with the files.
fn types_below(folder: &Path, found: &mut BTreeMap<String, Vec<PathBuf>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // What a fuzz target was compiled to is no source of ours.
            if !path.ends_with("target") {
                types_below(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for name in text.lines().filter_map(defined) {
                found.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
}

/// Where a type has the name of a word that means something else, and where the glossary names a type that does not exist.
fn misnamed(words: &BTreeMap<String, Option<Named>>, types: &BTreeMap<String, Vec<PathBuf>>) -> Vec<String> {
    let crates = repository().join("crates");
    let is_in = |path: &Path, place: &str| path.starts_with(crates.join(format!("dalsegno-{place}/src")));
    let mut found = Vec::new();
    for (word, named) in words {
        for path in types.get(word).into_iter().flatten() {
            let is_meant = named.as_ref().is_some_and(|(name, place)| name == word && is_in(path, place));
            if !is_meant {
                let path = path.strip_prefix(repository()).unwrap_or(path).display();
                found.push(format!("{path}: `{word}` is a word of the glossary, with another meaning"));
            }
        }
        if let Some((name, place)) = named
            && !types.get(name).is_some_and(|paths| paths.iter().any(|path| is_in(path, place)))
        {
            found.push(format!("ARCHITECTURE.md: `dalsegno-{place}` has no type `{name}`"));
        }
    }
    found
}

#[test]
fn a_type_with_the_name_of_a_glossary_word_is_the_one_that_the_glossary_means() {
    let words = glossary(&fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap());
    assert!(words.len() > 20 && words.values().flatten().count() > 10, "{words:?}");
    let mut types = BTreeMap::new();
    types_below(&repository().join("crates"), &mut types);
    assert!(types.len() > 500, "{}", types.len());
    let found = misnamed(&words, &types);
    assert!(found.is_empty(), "rename the types, or change the glossary:\n{}", found.join("\n"));
}

#[test]
fn a_type_with_another_meaning_is_found_and_one_that_is_meant_is_not() {
    let page = "# A\n\n## Glossary\n\n| word | type | meaning |\n|---|---|---|\n| gate | `Gate` (core) | a |\n\
                | child run, step | | b |\n| fold | `Fold` (core) | c |\n\n## B\n";
    let words = glossary(page);
    assert_eq!(words.keys().map(String::as_str).collect::<Vec<_>>(), ["ChildRun", "Fold", "Gate", "Step"]);
    let file = |path: &str| repository().join("crates").join(path);
    let lines = [
        ("pub struct Gate {", "dalsegno-core/src/a.rs"),
        ("    pub(crate) enum Gate<'a> {", "dalsegno-cli/src/b.rs"),
        ("type ChildRun = u8;", "dalsegno-cli/tests/c.rs"),
        ("let Step = 1;", "dalsegno-cli/src/d.rs"),
    ];
    let mut types: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (line, path) in lines {
        if let Some(name) = defined(line) {
            types.entry(name.to_owned()).or_default().push(file(path));
        }
    }
    let found = misnamed(&words, &types);
    let expected = ["tests/c.rs: `ChildRun`", "has no type `Fold`", "src/b.rs: `Gate`"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
}
