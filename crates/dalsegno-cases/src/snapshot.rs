//! Snapshots: the trajectory of a case as it was accepted.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use similar::{ChangeTag, TextDiff};

/// The version of the form of snapshots.
const VERSION: u32 = 1;

/// The folder of snapshots, below the workspace's.
const FOLDER: &str = "tests/snapshots";

/// The largest snapshot.
const BYTES_MAX: u64 = 16 << 20;

/// The lines around a difference that are shown.
const CONTEXT: usize = 3;

/// Where a case stands with its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseSnapshot {
    /// Its file, below the workspace's folder.
    pub file: PathBuf,
    /// What the file must hold to be as the run is.
    pub text: String,
    /// How the two differ.
    pub state: SnapshotState,
}

/// How a run differs from its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotState {
    /// Not at all.
    Same,
    /// There is none yet.
    New,
    /// The lines that differ, each with its sign, with some around them.
    Differs(String),
    /// It is no snapshot that this release reads.
    Unreadable(String),
}

impl CaseSnapshot {
    /// The file in which the run waits to be accepted.
    pub fn pending(&self) -> PathBuf {
        self.file.with_extension("snap.new")
    }
}

/// The file of a case's snapshot.
pub(crate) fn file(cases: &Path, slug: &str) -> PathBuf {
    let stem = cases.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    Path::new(FOLDER).join(format!("{stem}__{slug}.snap"))
}

/// Holds a run against the snapshot of its case.
pub(crate) fn compare(root: &Path, file: PathBuf, case: &str, trajectory: &str) -> CaseSnapshot {
    // A name may have several lines; the head has one for it.
    let name = case.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("version {VERSION}\ncase {name}\n---\n{trajectory}");
    let state = match read(&root.join(&file)) {
        Err(message) => SnapshotState::Unreadable(message),
        Ok(None) => SnapshotState::New,
        Ok(Some(found)) => match body(&found) {
            Err(message) => SnapshotState::Unreadable(message),
            Ok(found) if found == trajectory => SnapshotState::Same,
            Ok(found) => SnapshotState::Differs(diff(found, trajectory)),
        },
    };
    CaseSnapshot { file, text, state }
}

fn read(path: &Path) -> Result<Option<String>, String> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("it is larger than {} MiB", BYTES_MAX >> 20));
    }
    // A checkout on Windows may have other line ends.
    Ok(Some(text.replace("\r\n", "\n")))
}

/// The trajectory in a snapshot.
fn body(text: &str) -> Result<&str, String> {
    let first = text.lines().next().unwrap_or_default();
    match first.strip_prefix("version ") {
        Some(version) if version == VERSION.to_string() => {}
        Some(version) => {
            let version: String = version.chars().take(20).collect();
            return Err(format!("it has version {version}, and this release reads version {VERSION}"));
        }
        None => return Err("its first line does not say its version".to_owned()),
    }
    text.split_once("\n---\n").map(|(_, body)| body).ok_or_else(|| "it has no line `---`".to_owned())
}

/// The differing lines, with their signs.
fn diff(before: &str, now: &str) -> String {
    let diff = TextDiff::from_lines(before, now);
    let mut text = String::new();
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if number > 0 {
            text.push_str("  …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            text.push_str(&format!("{sign} {}\n", change.value().trim_end_matches('\n')));
        }
    }
    text
}

/// The snapshots, accepted or not, that are of no case.
pub(crate) fn unreferenced(root: &Path, referenced: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let entries = root.join(FOLDER).read_dir().into_iter().flatten().flatten();
    let files = entries.map(|entry| Path::new(FOLDER).join(entry.file_name()));
    let mut found: Vec<PathBuf> = files
        .filter(|file| {
            let name = file.to_string_lossy();
            let accepted = name.strip_suffix(".new").unwrap_or(&name);
            accepted.ends_with(".snap") && !referenced.contains(Path::new(accepted))
        })
        .collect();
    found.sort();
    found
}
