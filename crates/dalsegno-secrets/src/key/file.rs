//! The master key from a file that is its owner's alone.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{KeyError, KeySource, MasterKey};
use crate::guard;

/// More than this is no key file.
const FILE_BYTES_MAX: usize = 1024;

/// Takes the master key from a file with the mode 0600.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// Names the file. It is read, and its mode checked, when the key is asked for.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Makes the file with a new key, readable for its owner alone. The key is on the disk when this returns.
    ///
    /// # Errors
    /// [`KeyError::Exists`] when there is a file: it is left alone. Otherwise trouble with the file or with random
    /// numbers.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let path = path.into();
        let key = MasterKey::generate()?;
        let made = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.clone() },
            _ => KeyError::File { path: path.clone(), action: "made", source },
        };
        let mut file = dalsegno_files::create_new(&path).map_err(made)?;
        file.write_all(key.to_base64().expose().as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_folder(&path))
            .map_err(made)?;
        Ok(Self { path })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl KeySource for KeyFile {
    fn master_key(&self) -> Result<MasterKey, KeyError> {
        let read = |source| KeyError::File { path: self.path.clone(), action: "read", source };
        let file = File::open(&self.path).map_err(read)?;
        // Asked of the open file: another one may be in its place a moment later.
        let metadata = file.metadata().map_err(read)?;
        guard::check(&metadata).map_err(|problem| KeyError::TooOpen { path: self.path.clone(), problem })?;
        let place = || format!("the key file `{}`", self.path.display());
        let malformed = |problem| KeyError::Malformed { place: place(), problem };
        if !metadata.is_file() {
            return Err(malformed("is not a regular file"));
        }
        // With its full capacity from the start: a vector that grows would leave a copy of the key behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 1));
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(malformed("is too long"));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| malformed("is not text"))?;
        MasterKey::from_base64(text, &place())
    }
}

/// Makes a new file's name survive a power cut, where folders can be opened.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
