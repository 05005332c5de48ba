//! Who owns runs, and how everybody sees whether an owner still lives.
//!
//! An owner is a process that holds an exclusive lock of the operating system on a file of its own. The lock ends with
//! the process, however it ends; so there is nothing to renew and nothing to wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::bytes::bytes_type;
#[cfg(feature = "disk")]
use crate::error::OwnerError;

bytes_type!(
    /// An owner's id. Drawn at random, never used twice.
    OwnerId
);

/// An owner of runs, which lives until its last clone is dropped or its process ends.
///
/// Only creating and acquiring runs takes one. Reading takes none, but a store may still ask for the right to write, as
/// [`SqliteStore::open`](crate::SqliteStore::open) does.
#[derive(Debug, Clone)]
pub struct Owner {
    claim: Arc<Claim>,
}

#[derive(Debug)]
struct Claim {
    id: OwnerId,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File { dir: PathBuf, locked: Mutex<File> },
    Process,
}

/// The owners that live in this process without a file.
static IN_PROCESS: Mutex<BTreeSet<OwnerId>> = Mutex::new(BTreeSet::new());

impl Owner {
    /// Claims a new owner with a locked file in `dir`, which is created when it is missing. All processes that share a
    /// store must share this folder too.
    ///
    /// # Errors
    /// When the file cannot be created or locked, as on some network file systems.
    #[cfg(feature = "disk")]
    pub fn claim(dir: &Path) -> Result<Self, OwnerError> {
        let failed = |source| OwnerError { dir: dir.to_owned(), source };
        dalsegno_files::make_folder(dir).map_err(failed)?;
        // Whoever may open a lock file could hold its lock, and make a dead owner look alive.
        if let Err(error) = dalsegno_files::close(dir) {
            tracing::warn!(dir = %dir.display(), %error, "other users may use this folder of locks");
        }
        let id = draw();
        let locked = Mutex::new(lock(&lock_path(dir, id)).map_err(failed)?);
        Ok(Self { claim: Arc::new(Claim { id, place: Place::File { dir: dir.to_owned(), locked } }) })
    }

    /// Says whether others can see that this owner lives: its file is where they look for it. A person may have deleted it.
    pub fn is_shown(&self) -> bool {
        match &self.claim.place {
            Place::Process => true,
            Place::File { dir, locked } => {
                let locked = locked.lock().unwrap_or_else(PoisonError::into_inner);
                is_same(&locked, &lock_path(dir, self.claim.id))
            }
        }
    }

    /// Makes a new locked file in the place of one that is gone. What others have acquired meanwhile stays theirs.
    #[cfg(feature = "disk")]
    pub fn show(&self) {
        if let (Place::File { dir, locked }, false) = (&self.claim.place, self.is_shown()) {
            match lock(&lock_path(dir, self.claim.id)) {
                Ok(file) => *locked.lock().unwrap_or_else(PoisonError::into_inner) = file,
                Err(error) => tracing::warn!(
                    owner = %self.claim.id,
                    %error,
                    "the lock file of this process is gone: others take its runs for abandoned"
                ),
            }
        }
    }

    /// Makes an owner that only this process knows, for stores that only this process uses.
    #[cfg(feature = "disk")]
    pub fn in_process() -> Self {
        Self::in_process_as(draw())
    }

    /// The same with an id of one's own, which nothing else in this process may ever have had: where many owners die, the order
    /// of their ids is the order in which their runs are found.
    pub fn in_process_as(id: OwnerId) -> Self {
        IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Self { claim: Arc::new(Claim { id, place: Place::Process }) }
    }

    /// The owner's id.
    pub fn id(&self) -> OwnerId {
        self.claim.id
    }

    /// Says whether another owner of the same kind lives. In doubt it does: adopting a living owner's run is worse
    /// than leaving a dead one's.
    pub fn sees_alive(&self, other: OwnerId) -> bool {
        match &self.claim.place {
            Place::Process => IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).contains(&other),
            Place::File { dir, .. } => Self::lives_in(dir, other),
        }
    }

    /// Says whether an owner with a file in `dir` lives, for readers that claim no owner themselves. Takes no right to write. In
    /// doubt it does, as in [`Self::sees_alive`].
    pub fn lives_in(dir: &Path, other: OwnerId) -> bool {
        match File::open(lock_path(dir, other)) {
            // A shared lock, so that two who look at the same time do not take each other for the owner.
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes the file that a dead owner left behind.
    pub(crate) fn bury(&self, dead: OwnerId) {
        if let Place::File { dir, .. } = &self.claim.place
            && let Err(error) = std::fs::remove_file(lock_path(dir, dead))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(owner = %dead, %error, "cannot remove the lock file of a dead owner");
        }
    }
}

/// An owner who looks at each other owner once.
pub(crate) struct Witness<'a> {
    owner: &'a Owner,
    seen: BTreeMap<OwnerId, bool>,
}

impl<'a> Witness<'a> {
    pub(crate) const fn new(owner: &'a Owner) -> Self {
        Self { owner, seen: BTreeMap::new() }
    }

    /// As [`Owner::sees_alive`], as of the first time it was asked.
    pub(crate) fn sees_alive(&mut self, other: OwnerId) -> bool {
        let owner = self.owner;
        *self.seen.entry(other).or_insert_with(|| owner.sees_alive(other))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        match &self.place {
            Place::Process => {
                IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
            }
            Place::File { dir, .. } => {
                // A file that stays is harmless: its lock is free, so its owner counts as dead.
                let _ = std::fs::remove_file(lock_path(dir, self.id));
            }
        }
    }
}

#[cfg(feature = "disk")]
fn draw() -> OwnerId {
    OwnerId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// Makes a file and locks it.
#[cfg(feature = "disk")]
fn lock(path: &Path) -> io::Result<File> {
    let file = dalsegno_files::create_new(path)?;
    file.try_lock()?;
    Ok(file)
}

/// Says whether an open file is the one at this path.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => place(ours) == place(there),
        // Whatever else is wrong says nothing about the lock.
        (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
        (Err(_), Ok(_)) => true,
    }
}

/// Elsewhere an open file cannot be deleted.
#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

fn lock_path(dir: &Path, id: OwnerId) -> PathBuf {
    // As UUIDs are written, as all releases did.
    let digits = id.to_string();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    dir.join(format!("{}.lock", parts.join("-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_exactly_as_long_as_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let one = Owner::claim(dir.path()).unwrap();
        let other = Owner::claim(dir.path()).unwrap();
        let clone = other.clone();
        drop(other);
        assert!(one.sees_alive(clone.id()));
        assert!(one.sees_alive(one.id()));
        let id = clone.id();
        drop(clone);
        assert!(!one.sees_alive(id));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_without_a_lock_is_a_dead_owner_and_is_removed_when_it_is_buried() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::claim(dir.path()).unwrap();
        let dead = OwnerId::from_bytes([9; 16]);
        File::create(lock_path(dir.path(), dead)).unwrap();
        assert!(!owner.sees_alive(dead));
        owner.bury(dead);
        assert!(!lock_path(dir.path(), dead).exists());
    }

    #[cfg(unix)]
    #[test]
    fn an_owner_notices_that_its_file_is_gone_and_makes_another() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Owner::claim(dir.path()).unwrap(), Owner::claim(dir.path()).unwrap());
        assert!(one.is_shown() && other.sees_alive(one.id()));
        std::fs::remove_file(lock_path(dir.path(), one.id())).unwrap();
        assert!(!one.is_shown() && !other.sees_alive(one.id()));
        // A file of the same name that another process made is not its lock.
        File::create(lock_path(dir.path(), one.id())).unwrap();
        assert!(!one.is_shown());
        std::fs::remove_file(lock_path(dir.path(), one.id())).unwrap();
        one.show();
        assert!(one.is_shown() && other.sees_alive(one.id()));
    }

    #[test]
    fn an_owner_without_a_file_lives_until_it_is_dropped() {
        let one = Owner::in_process();
        let other = Owner::in_process();
        let id = other.id();
        assert!(one.sees_alive(id));
        drop(other);
        assert!(!one.sees_alive(id));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Owner::claim(&file.join("owners")).unwrap_err();
        assert!(error.to_string().contains("owners"), "{error}");
    }
}
