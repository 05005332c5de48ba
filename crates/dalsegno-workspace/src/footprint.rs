//! Which files a workspace was read from, and whether they are still the same.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::workspace::{FILE_BYTES_MAX, Workspace, is_kept_aside};

/// The files of a workspace as they were: `dalsegno.toml`, `dalsegno.lock`, and everything in `agents`, `tools` and `tenants`.
///
/// A look costs one call of the system for each file and folder. A file that had just been written when the footprint was taken is
/// read as well, until it is older: a second change within the resolution of its clock leaves its times and its size as they were. The
/// default is that of no files, which never change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The files and folders to look at; none for the default.
    places: Vec<PathBuf>,
    entries: BTreeMap<PathBuf, Entry>,
}

/// A file or a folder as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    bytes: u64,
    changed: Option<SystemTime>,
    identity: u64,
    /// A digest of what is in it, where its times do not tell enough.
    content: Option<u64>,
}

impl Footprint {
    /// Looks at the files of the workspace in `root`.
    pub(crate) fn take(root: &Path) -> Self {
        Self::of(Workspace::PLACES.iter().map(|name| root.join(name)).collect())
    }

    /// Looks at the files of the workspace in `root`, at all in its folder of cases, and at these files, which its cases name. Runs
    /// that wait for a review (`*.snap.new`) are left out.
    pub fn with_cases(root: &Path, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let places = Workspace::PLACES.iter().chain(&[crate::case::FOLDER]).map(|name| root.join(name));
        Self::of(places.chain(files).collect())
    }

    fn of(places: Vec<PathBuf>) -> Self {
        let mut footprint = Self { places, entries: BTreeMap::new() };
        let now = SystemTime::now();
        footprint.each(|path, metadata| Entry::take(path, metadata, now));
        footprint
    }

    /// Says whether any of the files is another one by now, was removed, or was added. Trouble with the disk counts as a change,
    /// so that reading the workspace tells it.
    pub fn has_changed(&mut self) -> bool {
        let looked_at = SystemTime::now();
        let mut now = Self { places: self.places.clone(), entries: BTreeMap::new() };
        now.each(|path, metadata| {
            let was = self.entries.get(path);
            Entry {
                content: was.and_then(|was| was.content).and_then(|_| content(path)),
                ..Entry::of(metadata)
            }
        });
        if *self != now {
            return true;
        }
        // What was read now and is old enough by now need not be read again: its next change has another time.
        self.entries
            .values_mut()
            .filter(|entry| !entry.is_fresh(looked_at))
            .for_each(|entry| entry.content = None);
        false
    }

    fn each(&mut self, entry: impl Fn(&Path, &Metadata) -> Entry) {
        let mut open = self.places.clone();
        while let Some(path) = open.pop() {
            if self.entries.len() >= ENTRIES_MAX {
                return;
            }
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                let inside = path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
                // Editors keep their own files beside those of people.
                open.extend(inside.filter(|path| path.file_name().is_some_and(|name| !is_kept_aside(name))));
                continue;
            }
            let entry = entry(&path, &metadata);
            self.entries.insert(path, entry);
        }
    }
}

impl Entry {
    fn take(path: &Path, metadata: &Metadata, now: SystemTime) -> Self {
        let entry = Self::of(metadata);
        Self { content: if entry.is_fresh(now) { content(path) } else { None }, ..entry }
    }

    /// Says whether a second change can have the time of the one that was seen.
    fn is_fresh(&self, now: SystemTime) -> bool {
        self.changed.is_none_or(|changed| changed + RESOLUTION > now)
    }

    fn of(metadata: &Metadata) -> Self {
        let identity = identity(metadata);
        Self { bytes: metadata.len(), changed: metadata.modified().ok(), identity, content: None }
    }
}

/// The file itself, whatever its name: an editor that writes a new one in its place is noticed.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.ino()
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> u64 {
    0
}

fn content(path: &Path) -> Option<u64> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(hasher.finish())
}

/// More files than any workspace has; what is beyond is not looked at.
const ENTRIES_MAX: usize = 100_000;

/// The coarsest clock that a file system in use has: two seconds, that of FAT.
const RESOLUTION: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_noticed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agents/a.toml");
        fs::create_dir(dir.path().join("agents")).unwrap();
        fs::write(&file, "one").unwrap();
        let mut footprint = Footprint::take(dir.path());
        assert!(!footprint.has_changed());
        fs::write(dir.path().join("agents/.a.toml.swp"), "an editor's own").unwrap();
        fs::write(dir.path().join("notes.txt"), "nobody reads it").unwrap();
        assert!(!footprint.has_changed());
        // The same size, at once, and with the same times.
        let times = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "two").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(times).unwrap();
        assert!(footprint.has_changed());
        fs::write(&file, "one").unwrap();
        fs::create_dir_all(dir.path().join("tenants/acme/tools")).unwrap();
        let mut footprint = Footprint::take(dir.path());
        fs::write(dir.path().join("tenants/acme/tools/x.json"), "{}").unwrap();
        assert!(footprint.has_changed());
        let mut footprint = Footprint::take(dir.path());
        fs::remove_file(&file).unwrap();
        assert!(footprint.has_changed());
        assert!(!Footprint::default().has_changed());
    }

    #[test]
    fn cases_and_what_they_name_are_looked_at_and_runs_that_wait_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("tests/snapshots")).unwrap();
        fs::write(root.join("replies.toml"), "one").unwrap();
        let look = || Footprint::with_cases(root, [root.join("replies.toml")]);
        let mut footprint = look();
        fs::write(root.join("tests/snapshots/a.snap.new"), "it waits").unwrap();
        fs::write(root.join("other.toml"), "no case names it").unwrap();
        assert!(!footprint.has_changed());
        for file in ["tests/a.toml", "tests/snapshots/a.snap", "replies.toml", "dalsegno.toml"] {
            let mut footprint = look();
            fs::write(root.join(file), "two").unwrap();
            assert!(footprint.has_changed(), "{file}");
        }
        assert!(!Footprint::take(root).has_changed());
    }

    #[test]
    fn a_file_that_is_written_in_the_place_of_another_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, new) = (dir.path().join("dalsegno.toml"), dir.path().join("new"));
        let old = SystemTime::now() - Duration::from_secs(60);
        for path in [&file, &new] {
            fs::write(path, "same size").unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        let mut footprint = Footprint::take(dir.path());
        assert!(!footprint.has_changed());
        if cfg!(unix) {
            fs::rename(&new, &file).unwrap();
            assert!(footprint.has_changed());
        }
    }

    #[test]
    fn a_file_is_read_again_only_until_its_time_tells_of_its_next_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dalsegno.toml");
        fs::write(&file, "one").unwrap();
        let mut footprint = Footprint::take(dir.path());
        let is_read = |footprint: &Footprint| footprint.entries[&file].content.is_some();
        assert!(!footprint.has_changed() && is_read(&footprint));
        // As if the clock had moved on since.
        let old = SystemTime::now() - RESOLUTION;
        fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
        footprint.entries.get_mut(&file).unwrap().changed =
            Some(fs::metadata(&file).unwrap().modified().unwrap());
        assert!(!footprint.has_changed() && !is_read(&footprint));
        assert!(!footprint.has_changed());
        fs::write(&file, "two").unwrap();
        assert!(footprint.has_changed());
    }
}
