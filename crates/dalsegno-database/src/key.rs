//! A key that all processes of a workspace share.

use std::io;
use std::path::Path;

use crate::error::OpenError;

/// The bytes of a key.
const BYTES: usize = 32;

/// Reads a key of random bytes from its file, or makes both for their owner only.
///
/// # Errors
/// When the file cannot be read or made, belongs to another user, or holds something else.
pub fn key(what: &'static str, path: &Path) -> Result<[u8; BYTES], OpenError> {
    let file = |source| OpenError::File { what, path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        dalsegno_files::make_folder(folder).map_err(file)?;
    }
    if !path.exists() {
        let mut key = [0; BYTES];
        getrandom::fill(&mut key).map_err(|error| file(io::Error::other(error)))?;
        match dalsegno_files::write_new(path, &key) {
            // Another process was faster, and its key is the one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(file)?,
        }
    }
    if !dalsegno_files::is_ours(path) {
        return Err(OpenError::NotOurs { what, path: path.to_owned() });
    }
    let bytes = std::fs::read(path).map_err(file)?;
    bytes.try_into().map_err(|_| OpenError::Foreign { what, path: path.to_owned() })
}
