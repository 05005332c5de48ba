//! What can go wrong while a module is loaded.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::ModuleDigest;

/// Why a module could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The engine could not be built.
    #[error("cannot build the WebAssembly engine: {reason}")]
    Engine {
        /// What the engine said.
        reason: String,
    },
    /// There is no such file.
    #[error("there is no module at `{}`: build it, or correct the path", path.display())]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is there and cannot be read.
    #[error("cannot read the module `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than its server may have it.
    #[error("the module `{}` has {bytes} bytes, expected at most {limit}: raise `module` in the server's `limits` if you trust it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The file is not WebAssembly.
    #[error("`{}` is not a WebAssembly module: it begins with {found}, expected the bytes 00 61 73 6d", path.display())]
    NotWasm {
        /// The file.
        path: PathBuf,
        /// Its first bytes, in words.
        found: String,
    },
    /// The file is not the one that was pinned.
    #[error("`{}` has the digest `{found}`, expected `{expected}`: it changed after it was pinned; pin it again if you trust it", path.display())]
    DigestMismatch {
        /// The file.
        path: PathBuf,
        /// The pinned digest.
        expected: ModuleDigest,
        /// The digest of the file.
        found: ModuleDigest,
    },
    /// The file would take too long or too much memory to compile.
    #[error("`{}` is not compiled: {reason}", path.display())]
    Bounds {
        /// The file.
        path: PathBuf,
        /// The bound that it breaks.
        reason: String,
    },
    /// The file takes too long to compile.
    #[error("`{}` did not compile within {} s: raise `compile_timeout` in the server's `limits` if you trust it", path.display(), limit.as_secs_f64())]
    Slow {
        /// The file.
        path: PathBuf,
        /// The longest that it may take.
        limit: Duration,
    },
    /// Other files are being compiled for longer than they may, so that this one is not.
    #[error("`{}` cannot be compiled now: {others} other modules exceed their `compile_timeout` and still compile; try again later", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How many others.
        others: usize,
    },
    /// The file is damaged, or uses a feature that the engine does not have.
    #[error("cannot compile `{}`: {reason}", path.display())]
    Compile {
        /// The file.
        path: PathBuf,
        /// What the compiler said.
        reason: String,
    },
    /// The module is not a command, or needs an import that this host does not offer.
    #[error("`{}` cannot run here: {reason}; expected a `wasi:cli/command` component or a WASI 0.1 command", path.display())]
    Link {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A grant contradicts itself or another one.
    #[error("the permissions of the server `{server}` are not valid: {reason}")]
    Permission {
        /// The server.
        server: String,
        /// What is wrong.
        reason: String,
    },
    /// A granted folder cannot be opened.
    #[error("cannot grant the folder `{}` to the server as `{guest}`: {source}", host.display())]
    Preopen {
        /// The folder on the host.
        host: PathBuf,
        /// The name it would have had.
        guest: String,
        /// Why.
        source: std::io::Error,
    },
}
