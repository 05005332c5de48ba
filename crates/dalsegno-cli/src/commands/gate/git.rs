//! Earlier versions of a workspace, read with Git: its own commands that only read objects. They run no program that a repository
//! names, and open no connection.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dalsegno_gate::{Past, Version};
use dalsegno_workspace::Workspace;

/// How many commits are looked at for the version that a run began with.
const COMMITS_MAX: usize = 200;

/// The most bytes of all files of a version.
const BYTES_MAX: u64 = 64 << 20;

/// The repository that a workspace is in.
#[derive(Clone)]
pub(in crate::commands) struct Repository {
    /// The workspace's folder, which may lie below that of the repository.
    root: PathBuf,
}

/// The commits that changed the workspace, the newest first.
pub(super) struct Commits {
    repository: Repository,
    commits: Vec<String>,
    now: Version,
}

impl Repository {
    /// The repository around this folder; `None` where there is none with a commit, or no Git.
    pub(in crate::commands) fn around(root: &Path) -> Option<Self> {
        let repository = Self { root: root.to_path_buf() };
        repository.commit("HEAD").map(|_| repository)
    }

    /// The commit that a revision means.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let revision = format!("{revision}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &revision];
        let found = String::from_utf8(self.ask(arguments, None)?).ok()?;
        let found = found.trim();
        (found.len() >= 40 && found.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| found.to_owned())
    }

    /// The commits that changed the workspace.
    pub(super) fn past(self, now: &Version) -> Commits {
        let most = format!("--max-count={COMMITS_MAX}");
        let schemas: Vec<PathBuf> = now.schemas().into_iter().collect();
        let mut arguments: Vec<&OsStr> = ["rev-list", &most, "HEAD", "--"].map(OsStr::new).to_vec();
        arguments.extend(Workspace::PLACES.map(OsStr::new));
        arguments.extend(schemas.iter().map(|schema| schema.as_os_str()));
        let listed = self.ask(arguments, None).and_then(|listed| String::from_utf8(listed).ok());
        let commits = listed.unwrap_or_default().lines().map(str::to_owned).collect();
        Commits { repository: self, commits, now: now.clone() }
    }

    /// The workspace as it was at a commit. Files that are no text, or larger than a workspace reads, are left out, as are
    /// symbolic links; of these the present form counts. `None` if Git does not have all files, as in a partial clone.
    pub(super) fn version(&self, commit: &str, name: String, now: &Version) -> Option<Version> {
        let places = Workspace::PLACES.map(PathBuf::from);
        let mut version = Version { name, texts: self.texts(commit, &places, now)? };
        let schemas: Vec<PathBuf> = version.schemas().union(&now.schemas()).cloned().collect();
        if !schemas.is_empty() {
            version.texts.extend(self.texts(commit, &schemas, now)?);
        }
        Some(version)
    }

    fn texts(&self, commit: &str, places: &[PathBuf], now: &Version) -> Option<BTreeMap<PathBuf, String>> {
        let mut arguments: Vec<&OsStr> = ["ls-tree", "-r", "-z", "-l", commit, "--"].map(OsStr::new).to_vec();
        arguments.extend(places.iter().map(|place| place.as_os_str()));
        let listing = self.ask(arguments, None)?;
        let (mut files, mut others, mut bytes) = (Vec::new(), Vec::new(), 0);
        for line in listing.split(|byte| *byte == 0) {
            let Some((facts, path)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once('\t'))
            else {
                continue;
            };
            let path = PathBuf::from(path);
            match listed(facts) {
                Listed::Other => others.push(path),
                _ if !Version::is_read(&path) => {}
                Listed::Missing => return None,
                Listed::File { size, .. } if size > Workspace::FILE_BYTES_MAX => others.push(path),
                Listed::File { object, size } => {
                    bytes += size;
                    files.push((object.to_owned(), path));
                }
            }
        }
        if files.len() > Version::FILES_MAX || bytes > BYTES_MAX {
            return None;
        }
        let wanted: String = files.iter().map(|(object, _)| format!("{object}\n")).collect();
        let mut rest = &*self.ask(["cat-file", "--batch"], Some(wanted))?;
        let mut texts = BTreeMap::new();
        for (_, path) in files {
            let content = next_object(&mut rest)?;
            match String::from_utf8(content.to_vec()) {
                Ok(text) => drop(texts.insert(path, text)),
                Err(_) => others.push(path),
            }
        }
        let is_other = |file: &Path| others.iter().any(|other| file.starts_with(other));
        let present = now.texts.iter().filter(|(file, _)| is_other(file));
        texts.extend(present.map(|(file, text)| (file.clone(), text.clone())));
        Some(texts)
    }

    /// What a command of Git answers; `None` if it fails or is not there.
    fn ask<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: Option<String>,
    ) -> Option<Vec<u8>> {
        let mut git = Command::new("git")
            .args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never"])
            .args(arguments)
            .current_dir(&self.root)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            // No character of a path has a meaning of its own.
            .env("GIT_LITERAL_PATHSPECS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let stdin = git.stdin.take();
        // Git answers while it still reads: both at once, or each waits for the other.
        let writer = std::thread::spawn(move || {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // What is not read is not answered, which is noticed below.
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        let output = git.wait_with_output().ok()?;
        writer.join().ok()?;
        output.status.success().then_some(output.stdout)
    }
}

impl Past for Commits {
    fn version(&mut self, index: usize) -> Option<Version> {
        let commit = self.commits.get(index)?;
        let name = format!("commit {}", &commit[..commit.len().min(10)]);
        self.repository.version(commit, name, &self.now)
    }
}

/// What a listing says of a path.
#[derive(Debug, PartialEq, Eq)]
enum Listed<'a> {
    /// An ordinary file, with its size in bytes.
    File { object: &'a str, size: u64 },
    /// An ordinary file whose content is not in the repository, as in a partial clone.
    Missing,
    /// A symbolic link, or another repository.
    Other,
}

/// Reads a line of a listing: `MODE blob OBJECT SIZE`.
fn listed(facts: &str) -> Listed<'_> {
    let facts: Vec<&str> = facts.split_ascii_whitespace().collect();
    match *facts {
        [mode, ..] if !mode.starts_with("100") => Listed::Other,
        [_, "blob", object, size] => {
            size.parse().map_or(Listed::Missing, |size| Listed::File { object, size })
        }
        _ => Listed::Missing,
    }
}

/// The next object of an answer: `OBJECT blob SIZE<newline>CONTENT<newline>`.
fn next_object<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let size = std::str::from_utf8(&rest[..end]).ok()?.rsplit_once(' ')?.1.parse::<usize>().ok()?;
    let content = rest.get(end + 1..end + 1 + size)?;
    *rest = rest.get(end + 1 + size + 1..)?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_by_their_sizes_and_cut_answers_are_none() {
        let answer = b"aa blob 3\nx\ny\nbb blob 0\n\ncc missing\n";
        let mut rest = &answer[..];
        assert_eq!(next_object(&mut rest), Some(&b"x\ny"[..]));
        assert_eq!(next_object(&mut rest), Some(&b""[..]));
        assert_eq!(next_object(&mut rest), None);
        let mut cut = &b"aa blob 30\nx\n"[..];
        assert_eq!(next_object(&mut cut), None);
    }

    #[test]
    fn only_ordinary_files_that_are_there_are_read() {
        let facts = |mode: &str, size: &str| format!("{mode} blob 9daeafb9864cf430 {size:>7}");
        for mode in ["100644", "100755"] {
            assert_eq!(listed(&facts(mode, "12")), Listed::File { object: "9daeafb9864cf430", size: 12 });
            assert_eq!(listed(&facts(mode, "BAD")), Listed::Missing);
        }
        assert_eq!(listed(&facts("120000", "12")), Listed::Other);
        assert_eq!(listed("160000 commit 9daeafb9864cf430       -"), Listed::Other);
        assert_eq!(listed(""), Listed::Missing);
    }
}
