//! The words of the README, the book and the help: plain English, without the habits that readers stumble over.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

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
