//! Keeps compiled modules between processes: `<folder>/<engine>/<module>.cwasm`.
//!
//! A file holds a magic number, the digest of the machine code and the machine code. It appears by renaming, whole or
//! not at all. What cannot be verified is compiled anew; a folder that everyone may write to is refused, since whoever
//! can write there could have this process run their machine code.

use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::Engine;

use crate::compiled::{Compiled, Encoding};
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
    pub(crate) fn take(&self, engine: &Engine, encoding: Encoding, wasm: &[u8]) -> Option<Compiled> {
        let path = self.path(wasm);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || writable_for_everyone(&metadata) {
            tracing::warn!(path = %path.display(), "cached module is not trusted: everyone may write to it");
            return None;
        }
        let file = fs::read(&path).ok()?;
        let Some(artefact) = verified(&file) else {
            tracing::warn!(path = %path.display(), "cached module is damaged and will be compiled anew");
            return None;
        };
        match Compiled::deserialize(engine, encoding, artefact) {
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
    pub(crate) fn keep(&self, wasm: &[u8], compiled: &Compiled) {
        let path = self.path(wasm);
        let written =
            compiled.serialize().map_err(io::Error::other).and_then(|artefact| write(&path, &artefact));
        match written {
            Ok(()) => tracing::debug!(path = %path.display(), "module kept in the cache"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot keep a compiled module"),
        }
    }

    fn path(&self, wasm: &[u8]) -> PathBuf {
        self.folder.join(format!("{}.cwasm", blake3::hash(wasm).to_hex()))
    }
}

fn verified(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MAGIC)?;
    let (digest, artefact) = rest.split_first_chunk::<{ blake3::OUT_LEN }>()?;
    (blake3::hash(artefact) == *digest).then_some(artefact)
}

fn write(path: &Path, artefact: &[u8]) -> io::Result<()> {
    // Several loads may write the same file at once; each has a name of its own until it is whole.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{count}.tmp", std::process::id()));
    let result = create_new(&temporary).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(blake3::hash(artefact).as_bytes())?;
        file.write_all(artefact)?;
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

/// Names the layout of the file.
const MAGIC: &[u8] = b"segno-aot-1\n";
