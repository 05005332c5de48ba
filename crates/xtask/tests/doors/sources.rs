//! What every file and every crate has in common.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{PURE, root};

/// The longest a source file may be, in lines: beyond it a reader loses the thread.
const LINES_MAX: usize = 700;

/// Returns the folders of all crates.
fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).expect("there are crates");
    let folders = entries.map(|entry| entry.expect("a crate can be read").path());
    folders.filter(|folder| folder.join("Cargo.toml").is_file()).collect()
}

/// Returns all Rust files below a folder, and none if there is no such folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a source file can be read").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns all Rust files of all crates, each with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let folders =
        crates().into_iter().flat_map(|folder| ["src", "tests", "benches"].map(|part| folder.join(part)));
    let files = folders.flat_map(|folder| rust_files(&folder));
    files.map(|file| (file.clone(), read(&file))).collect()
}

/// Reads a text file.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read `{}`: {error}", path.display()))
}

/// Returns the files of which `is_wrong` says so, by their path in the repository.
fn wrong(is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let root = root();
    let found = sources().into_iter().filter(|(_, text)| is_wrong(text));
    found.map(|(path, _)| path.strip_prefix(&root).unwrap_or(&path).display().to_string()).collect()
}

/// Tells whether a file says at its top what it is for.
fn has_module_doc(text: &str) -> bool {
    text.starts_with("//! ")
}

/// Tells whether a manifest takes its lints from the workspace.
fn has_workspace_lints(manifest: &str) -> bool {
    let lints = manifest.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
    lints.take_while(|line| !line.starts_with('[')).any(|line| line.trim() == "workspace = true")
}

/// Tells whether the documentation in a file has an example that is compiled.
fn has_example(text: &str) -> bool {
    let docs = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = docs.filter_map(|line| line.trim().strip_prefix("```"));
    // Every other fence ends a block.
    let is_compiled = |info: &str| {
        let words = ["rust", "no_run", "should_panic", "compile_fail", "edition"];
        info.is_empty() || words.iter().any(|word| info.starts_with(word))
    };
    text.contains("#[doc = include_str!") || fences.step_by(2).any(is_compiled)
}

#[test]
fn every_module_says_what_it_is_for() {
    assert_eq!(wrong(|text| !has_module_doc(text)), Vec::<String>::new());
}

#[test]
fn no_file_is_too_long() {
    assert_eq!(wrong(|text| text.lines().count() > LINES_MAX), Vec::<String>::new());
}

#[test]
fn the_search_for_sources_finds_this_file() {
    assert!(sources().iter().any(|(path, _)| path.ends_with("xtask/tests/doors/sources.rs")));
}

#[test]
fn every_crate_takes_its_lints_from_the_workspace() {
    for folder in crates() {
        assert!(has_workspace_lints(&read(&folder.join("Cargo.toml"))), "`{}` does not", folder.display());
    }
}

/// To look for examples takes seconds for each library.
#[test]
fn examples_are_looked_for_where_there_are_any() {
    for folder in crates() {
        let lib = folder.join("src/lib.rs");
        let manifest = read(&folder.join("Cargo.toml"));
        // Cargo looks for none in other kinds of libraries.
        if !lib.is_file() || manifest.contains("\"cdylib\"") {
            continue;
        }
        let has_examples = rust_files(&folder.join("src")).iter().any(|file| has_example(&read(file)));
        let is_looked_at = !manifest.lines().any(|line| line == "doctest = false");
        assert_eq!(
            is_looked_at,
            has_examples,
            "`{}`: `[lib]` says `doctest = false` where the documentation has no example that is compiled, and nowhere else",
            folder.display()
        );
    }
}

#[test]
fn every_crate_folder_has_the_name_of_its_crate() {
    for folder in crates() {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a crate's folder has a name");
        let line = format!("name = \"{name}\"");
        assert!(
            read(&folder.join("Cargo.toml")).lines().any(|other| other == line),
            "`{}` has not",
            folder.display()
        );
    }
}

#[test]
fn the_pure_crates_forbid_std_and_unsafe_code() {
    for name in PURE {
        let lib = read(&root().join("crates").join(name).join("src/lib.rs"));
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            assert!(lib.lines().any(|line| line == attribute), "`{name}` lacks `{attribute}`");
        }
    }
}

#[test]
fn a_file_without_a_purpose_and_a_crate_without_lints_are_noticed() {
    assert!(has_module_doc("//! Reads.\n"));
    assert!(!has_module_doc("use std::fs;\n//! Reads.\n"));
    assert!(has_workspace_lints("[package]\n\n[lints]\nworkspace = true\n\n[dependencies]\n"));
    assert!(!has_workspace_lints("[package]\nworkspace = true\n[lints]\n[dependencies]\nworkspace = true\n"));
    assert!(
        has_example("    /// ```\n    /// one();\n    /// ```\n")
            && has_example("//! ```rust,no_run\n//! ```\n")
    );
    assert!(!has_example("/// ```text\n/// a\n/// ```\nfn f() { \"```\"; }\n"));
}
