//! Whole runs as documents: what was decided, what was asked, what came back, how it ended.
//!
//! Each file of `cases` is a document with an agent, a request and what happens to the run; [`read`] says how it is written.
//! `UPDATE=1 cargo test --workspace --test trajectories` writes what the runs do into the documents.

mod agent;
mod door;
mod read;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::read::Document;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trajectories/cases")
}

/// The texts of the documents, by their names.
fn documents() -> BTreeMap<String, String> {
    let files = folder().read_dir().expect("the documents").map(|entry| entry.expect("a document").path());
    let name = |file: &Path| file.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|file| (name(&file), fs::read_to_string(&file).expect("a text"))).collect()
}

/// The first line in which two runs differ.
fn difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let mut found = found.lines();
    for (number, expected) in (1..).zip(expected.lines()) {
        let found = found.next().unwrap_or("(the end)");
        if expected != found {
            return Some(format!("line {number} of the run\n  expected: {expected}\n  found:    {found}"));
        }
    }
    let found = found.next().unwrap_or("another end of the last line");
    Some(format!("after the last line\n  expected: (the end)\n  found:    {found}"))
}

#[test]
fn every_run_is_as_its_document_says() {
    let is_update = std::env::var_os("UPDATE").is_some();
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, text) in documents() {
        count += 1;
        let outcome = Document::read(&text).and_then(|document| Ok((door::run(&document)?, document)));
        let (run, document) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        if is_update {
            let mut updated = text.clone();
            updated.replace_range(document.place, &run);
            if updated != text {
                fs::write(folder().join(name), updated).expect("the document is written");
            }
        } else if let Some(difference) = difference(&document.run, &run) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} documents differ:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count > 140, "{count}");
}

#[test]
fn two_documents_have_titles_of_their_own() {
    let mut titles = BTreeMap::new();
    for (name, text) in documents() {
        let title = text.lines().next().unwrap_or_default().to_owned();
        if let Some(other) = titles.insert(title, name.clone()) {
            panic!("{other} and {name} have the same title");
        }
    }
}

/// The smallest document, with this run.
fn small(run: &str) -> Result<String, String> {
    let text = format!("# A run\n\n```json,model\n{{}}\n```\n\n```text,run\n{run}```\n");
    door::run(&Document::read(&text)?)
}

#[test]
fn a_run_that_differs_from_its_document_is_found() {
    let given = "request: disk full\n> [0] \"Delete /tmp.\" (\"end\", 100 + 10 tokens)\n";
    let run = small(given).expect("a run");
    assert!(run.contains("answer: Delete /tmp."), "{run}");
    assert_eq!(small(&run).as_ref(), Ok(&run), "a run is read again");
    assert_eq!(difference(&run, &run), None);
    let other = difference(&run.replace("Delete /tmp.", "Delete /var."), &run).expect("a difference");
    assert!(other.contains("line"), "{other}");
    assert!(difference(&run, &format!("{run}more\n")).expect("a difference").contains("more"));
}

#[test]
fn a_document_that_cannot_be_run_says_why() {
    let waits = small("request: disk full\n").expect_err("it waits");
    assert!(waits.contains("nothing happens to it"), "{waits}");
    let over = small("request: a\n> [0] \"b\" (\"end\", 1 + 1 tokens)\n\n> signal \"cancel\"\n")
        .expect_err("it is over");
    assert!(over.contains("there is more"), "{over}");
    let unread = small("request: a\n> [0] \"b\" (\"end\", 1 + many tokens)\n").expect_err("it is not read");
    assert!(unread.contains("`many` is not a number"), "{unread}");
    let below = "# A run\n\n```json,plan\n{\"/mind/none/steps\": []}\n```\n\n```text,run\nrequest: a\n```\n";
    assert!(Document::read(below).expect_err("a pointer").contains("is below nothing"));
}
