//! Keeps compiled modules between processes: `<folder>/<engine>/<module>.cwasm`, and its digest in `<module>.blake3`.
//!
//! The machine code is a file of its own, so that it is mapped into memory rather than read. A file appears by renaming,
//! whole or not at all, and is never changed. What cannot be verified is compiled anew; a folder that everyone may write
//! to is refused, since whoever can write there could have this process run their machine code.

use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::Engine;

use crate::compiled::{Compiled, Encoding};
use crate::config::ModuleDigest;
use crate::error::LoadError;

/// The folder of one engine version.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the part of `folder` that belongs to `engine`, and creates it if need be.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, LoadError> {
        let mut hasher = Blake3Hasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let version = hasher.0.finalize().to_hex();
        let own = folder.join(&version[..32]);
        let failed = |reason: String| LoadError::Cache { path: folder.to_owned(), reason };
        create_private(&own).map_err(|error| failed(format!("cannot create it: {error}")))?;
        for path in [folder, &own] {
            let metadata = fs::symlink_metadata(path).map_err(|error| failed(error.to_string()))?;
            if !metadata.is_dir() {
                return Err(failed("it is not a folder".to_owned()));
            }
            if writable_for_everyone(&metadata) {
                let path = path.display();
                return Err(failed(format!(
                    "everyone may write to `{path}`; take that right away (chmod o-w)"
                )));
            }
        }
        Ok(Self { folder: own })
    }

    /// Takes a module from the cache, if it is there and unharmed.
    pub(crate) fn take(&self, engine: &Engine, encoding: Encoding, module: ModuleDigest) -> Option<Compiled> {
        let path = self.path(module);
        let note = digest_file(&path);
        for file in [&path, &note] {
            let metadata = fs::symlink_metadata(file).ok()?;
            if !metadata.is_file() || writable_for_everyone(&metadata) {
                let path = file.display();
                tracing::warn!(%path, "cached module is not trusted: everyone may write to it");
                return None;
            }
        }
        let noted = fs::read_to_string(note).ok()?;
        if digest(&path).ok()?.to_hex().as_str() != noted {
            tracing::warn!(path = %path.display(), "cached module is damaged and will be compiled anew");
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
        let written =
            compiled.serialize().map_err(io::Error::other).and_then(|artefact| write(&path, &artefact));
        match written {
            Ok(()) => tracing::debug!(path = %path.display(), "module kept in the cache"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot keep a compiled module"),
        }
    }

    fn path(&self, module: ModuleDigest) -> PathBuf {
        self.folder.join(format!("{}.cwasm", module.hex()))
    }
}

/// The file that holds the digest of a module's machine code.
fn digest_file(path: &Path) -> PathBuf {
    path.with_extension("blake3")
}

fn digest(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}

/// Writes a module's machine code, then its digest: one that is not there yet, or is another's, verifies nothing.
fn write(path: &Path, artefact: &[u8]) -> io::Result<()> {
    write_whole(path, artefact)?;
    write_whole(&digest_file(path), blake3::hash(artefact).to_hex().as_bytes())
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Several loads may write the same file at once; each has a name of its own until it is whole.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{count}.tmp", std::process::id()));
    let result = create_new(&temporary).and_then(|mut file| {
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

fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
fn writable_for_everyone(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o002 != 0
}

#[cfg(not(unix))]
fn writable_for_everyone(_: &fs::Metadata) -> bool {
    false
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
