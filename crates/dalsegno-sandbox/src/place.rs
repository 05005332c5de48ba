//! Where a user's compiled modules are kept, and the key that proves that this user compiled them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The folder of compiled modules, and the file with the key that authenticates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlace {
    /// The folder. It is made if it is missing, with no rights for other users.
    pub folder: PathBuf,
    /// The key file, outside of the folder: a copy of the folder brings no key with it.
    pub key: PathBuf,
}

/// A key for authentication. It has no `Debug` on purpose.
pub(crate) type Key = [u8; blake3::KEY_LEN];

impl CachePlace {
    /// The place of the user who runs this process: `$DALSEGNO_CACHE`, else `$XDG_CACHE_HOME/dalsegno`, else
    /// `~/.cache/dalsegno`. The key is in `$DALSEGNO_STATE`, else `$XDG_STATE_HOME/dalsegno`, else
    /// `~/.local/state/dalsegno`. None when these are unset, or are not absolute.
    pub fn of_user() -> Option<Self> {
        let key = dalsegno_files::state_folder()?.join("modules.key");
        Some(Self { folder: dalsegno_files::cache_folder()?, key })
    }

    /// Reads the key, which is made when there is none.
    pub(crate) fn key(&self) -> Result<Key, String> {
        let folder = self.key.parent().ok_or("it has no folder")?;
        make_private(folder)?;
        if fs::symlink_metadata(&self.key).is_err() {
            self.make_key().map_err(|error| format!("cannot make a key: {error}"))?;
        }
        check_own(&self.key, false)?;
        let mut bytes = Vec::new();
        let file = File::open(&self.key)
            .map_err(|error| format!("cannot read `{}`: {error}", self.key.display()))?;
        file.take(1024).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        bytes.try_into().map_err(|_| format!("`{}` is not a key; remove it", self.key.display()))
    }

    /// Writes a new key. Another process may do so at the same time: the first one counts.
    fn make_key(&self) -> io::Result<()> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let mine = self.key.with_extension(format!("{}.tmp", std::process::id()));
        // What a process with the same number left when it died.
        let _ = fs::remove_file(&mine);
        let mut file = dalsegno_files::create_new(&mine)?;
        let kept = file.write_all(&key).and_then(|()| file.sync_all()).and_then(|()| {
            match fs::hard_link(&mine, &self.key) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        });
        let _ = fs::remove_file(&mine);
        kept
    }
}

/// Makes a folder for its owner only, and checks that no other user can exchange it or what is in it: the folder belongs
/// to this user and is closed to others, and nobody but this user and root may write to the folders above it.
pub(crate) fn make_private(folder: &Path) -> Result<(), String> {
    dalsegno_files::make_folder(folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    check_own(folder, true)?;
    // Links on the way are followed first: who may change one may write to its folder, which is looked at as well.
    for written in folder.ancestors().skip(1) {
        check_above(written)?;
    }
    let real = fs::canonicalize(folder).map_err(|error| error.to_string())?;
    real.ancestors().skip(1).try_for_each(check_above)
}

/// Checks that a file or folder is this user's, and closed to all others.
#[cfg(unix)]
pub(crate) fn check_own(path: &Path, is_folder: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let shown = path.display();
    let found = fs::symlink_metadata(path).map_err(|error| format!("cannot look at `{shown}`: {error}"))?;
    if (is_folder && !found.is_dir()) || (!is_folder && !found.is_file()) {
        return Err(format!("`{shown}` is not a {}", if is_folder { "folder" } else { "file" }));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("`{shown}` belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!("other users have rights on `{shown}`; take them away (chmod go-rwx)"));
    }
    Ok(())
}

/// Checks that nobody but this user and root may exchange what is in a folder. One with the sticky bit, as `/tmp` has,
/// lets users exchange only what is theirs.
#[cfg(unix)]
fn check_above(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let shown = folder.display();
    let found = fs::metadata(folder).map_err(|error| format!("cannot look at `{shown}`: {error}"))?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user && found.uid() != 0 {
        return Err(format!("`{shown}` belongs to another user"));
    }
    if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
        return Err(format!("other users may write to `{shown}`; take that right away (chmod go-w)"));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check_own(path: &Path, _: bool) -> Result<(), String> {
    fs::symlink_metadata(path).map(drop).map_err(|error| error.to_string())
}

#[cfg(not(unix))]
fn check_above(_: &Path) -> Result<(), String> {
    Ok(())
}
