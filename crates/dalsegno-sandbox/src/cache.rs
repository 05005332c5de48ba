//! Keeps compiled modules between processes: `<folder>/<engine>/<module>.cwasm`, and what authenticates it in
//! `<module>.tag`.
//!
//! The machine code is a file of its own, so that it is mapped into memory rather than read. A file appears by renaming,
//! whole or not at all, and is never changed. It is run only with a tag that was made with this user's key for this
//! module and this engine, and only from a folder that no other user can change. Anything else is compiled anew.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::Engine;

use crate::compiled::{Compiled, Encoding};
use crate::config::ModuleDigest;
use crate::place::{CachePlace, Key, check_own, make_private};

/// The folder of one engine version.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Tells engines apart, whose machine code differs.
    version: String,
    key: Key,
}

impl Cache {
    /// Opens the part of a place that belongs to `engine`, and creates it if need be.
    ///
    /// # Errors
    ///
    /// Why the place cannot be used or trusted.
    pub(crate) fn open(place: &CachePlace, engine: &Engine) -> Result<Self, String> {
        let mut hasher = Blake3Hasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let version = hasher.0.finalize().to_hex()[..32].to_owned();
        make_private(&place.folder)?;
        let folder = place.folder.join(&version);
        make_private(&folder)?;
        Ok(Self { folder, version, key: place.key()? })
    }

    /// Takes a module from the cache, if it is there and this user's own work.
    pub(crate) fn take(&self, engine: &Engine, encoding: Encoding, module: ModuleDigest) -> Option<Compiled> {
        let path = self.path(module);
        let tag = tag_file(&path);
        fs::symlink_metadata(&tag).ok()?;
        let proved = check_own(&path, false).and_then(|()| check_own(&tag, false)).and_then(|()| {
            let expected = self.tag(module, &path).map_err(|error| error.to_string())?;
            let noted = fs::read_to_string(&tag).map_err(|error| error.to_string())?;
            // Compared in constant time.
            let same = blake3::Hash::from_hex(noted.trim()).is_ok_and(|noted| noted == expected);
            if same { Ok(()) } else { Err("it is not what this user compiled".to_owned()) }
        });
        if let Err(reason) = proved {
            let path = path.display();
            tracing::warn!(%path, reason, "a compiled module is not trusted, and is compiled anew");
            return None;
        }
        match Compiled::deserialize(engine, encoding, &path) {
            Ok(compiled) => {
                tracing::debug!(path = %path.display(), "module taken from the cache");
                Some(compiled)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cached module does not fit and will be compiled anew");
                None
            }
        }
    }

    /// Keeps a compiled module. A failure costs the next load time, nothing else, so it is only logged.
    pub(crate) fn keep(&self, module: ModuleDigest, compiled: &Compiled) {
        let path = self.path(module);
        let written = compiled
            .serialize()
            .map_err(io::Error::other)
            .and_then(|artefact| self.write(module, &path, &artefact));
        match written {
            Ok(()) => tracing::debug!(path = %path.display(), "module kept in the cache"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot keep a compiled module"),
        }
    }

    fn path(&self, module: ModuleDigest) -> PathBuf {
        self.folder.join(format!("{}.cwasm", module.hex()))
    }

    /// What proves that this user compiled this module with this engine: whoever has no key cannot make it, and it is
    /// good for no other module.
    fn tag(&self, module: ModuleDigest, path: &Path) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.version.as_bytes()).update(module.hex().as_bytes());
        hasher.update_reader(File::open(path)?)?;
        Ok(hasher.finalize())
    }

    /// Writes a module's machine code, then its tag: one that is not there yet, or is another's, proves nothing.
    fn write(&self, module: ModuleDigest, path: &Path, artefact: &[u8]) -> io::Result<()> {
        write_whole(path, artefact)?;
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.version.as_bytes()).update(module.hex().as_bytes()).update(artefact);
        write_whole(&tag_file(path), hasher.finalize().to_hex().as_bytes())
    }
}

/// The file that holds the tag of a module's machine code.
fn tag_file(path: &Path) -> PathBuf {
    path.with_extension("tag")
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Several loads may write the same file at once; each has a name of its own until it is whole.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{count}.tmp", std::process::id()));
    let result = dalsegno_files::create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        drop(file);
        fs::rename(&temporary, path)
    });
    if result.is_err() {
        // What remains of a failed attempt is of no use; if it cannot be removed either, there is nothing to add.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Lets `Hash` feed a digest that is the same in every process.
struct Blake3Hasher(blake3::Hasher);

impl Hasher for Blake3Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.finalize();
        u64::from_le_bytes(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }
}
