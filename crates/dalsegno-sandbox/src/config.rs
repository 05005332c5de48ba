//! What a tool server is given: its module, its permissions, its limits.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sha2::Digest;

use crate::permissions::Permissions;

/// One tool server, as its configuration names it.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name that errors and traces use.
    pub name: String,
    /// The WebAssembly file.
    pub module: PathBuf,
    /// The digest that the file must have; a mismatch refuses to load.
    pub digest: Option<ModuleDigest>,
    /// The tools that are offered; `None` offers all that the server has.
    pub tools: Option<Vec<String>>,
    /// What the server may touch.
    pub permissions: Permissions,
    /// How long an instance lives.
    pub lifetime: Lifetime,
    /// What the server may use up.
    pub limits: Limits,
}

impl ServerConfig {
    /// A server that is granted nothing, with the default limits.
    pub fn new(name: impl Into<String>, module: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            module: module.into(),
            digest: None,
            tools: None,
            permissions: Permissions::default(),
            lifetime: Lifetime::default(),
            limits: Limits::default(),
        }
    }
}

/// How long an instance lives. Whatever the lifetime, a broken instance is replaced, one that nobody uses may be ended
/// to make room for another, and two tenants never share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Every call gets a fresh instance: nothing of one call can reach the next.
    PerCall,
    /// The calls of one session share an instance. The default: a run's own calls have nothing to hide from each other.
    #[default]
    PerRun,
    /// All sessions of a tenant share an instance. When a call breaks it, the others that are under way fail, too.
    Shared,
}

/// What one instance of a server may use up, and all of them together. An instance that reaches a limit is ended with
/// a typed error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, over all memories of the instance. Default 64 MiB: a Rust server needs one or two,
    /// a JavaScript or Python one 20 to 40.
    pub memory: u64,
    /// The longest that one call may take, whatever the caller allows. Default 5 s: a tool without network that
    /// takes longer is stuck.
    pub call_timeout: Duration,
    /// The longest that a start may take, the handshake included. Default 10 s: interpreters initialise slowly on
    /// a busy machine.
    pub start_timeout: Duration,
    /// Bytes of one answer (one line on standard output). Default 1 MiB: more does not belong into a model's context.
    pub output: u64,
    /// Bytes kept of what the server wrote last to standard error. Default 64 KiB.
    pub stderr: u64,
    /// Elements in all tables together. Default 100,000, ten times what large interpreters need.
    pub table_elements: u64,
    /// Bytes of the module's file. Default 16 MiB: a Rust server has one or two, a JavaScript one about twelve. A Python one
    /// has 40.
    pub module: u64,
    /// The longest that compiling the module may take. Default 90 s: a megabyte takes a second or two.
    pub compile_timeout: Duration,
    /// Bytes of one HTTP response. Default 8 MiB: more is a download, not an answer.
    pub response: u64,
    /// Calls at once, over all instances; further ones wait, as long as a call may take. Default 256, as many as a
    /// process performs at once.
    pub concurrency: usize,
    /// Instances at once. A further one takes the place of the one that was idle the longest; when all are busy it
    /// waits. Default 1,000: of small servers they take less than 256 MiB.
    pub instances: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 * 1024 * 1024,
            call_timeout: Duration::from_secs(5),
            start_timeout: Duration::from_secs(10),
            output: 1024 * 1024,
            stderr: 64 * 1024,
            table_elements: 100_000,
            module: 16 * 1024 * 1024,
            compile_timeout: Duration::from_secs(90),
            response: 8 * 1024 * 1024,
            concurrency: 256,
            instances: 1_000,
        }
    }
}

/// The digest of a module: `sha256:…` or `blake3:…` with 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleDigest {
    algorithm: Algorithm,
    bytes: [u8; 32],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Algorithm {
    Sha256,
    Blake3,
}

impl ModuleDigest {
    /// The SHA-256 digest of a module, which `sha256sum` prints too.
    pub fn sha256(module: &[u8]) -> Self {
        Self { algorithm: Algorithm::Sha256, bytes: sha2::Sha256::digest(module).into() }
    }

    /// The BLAKE3 digest of a module.
    pub fn blake3(module: &[u8]) -> Self {
        Self { algorithm: Algorithm::Blake3, bytes: *blake3::hash(module).as_bytes() }
    }

    /// The digits, without the algorithm.
    pub(crate) fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.bytes).to_hex().as_str().to_owned()
    }

    /// The digest of `module`, whose SHA-256 is known, by the same algorithm as this one.
    pub(crate) fn same_of(&self, module: &[u8], sha256: Self) -> Self {
        match self.algorithm {
            Algorithm::Sha256 => sha256,
            Algorithm::Blake3 => Self::blake3(module),
        }
    }
}

impl fmt::Display for ModuleDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.algorithm {
            Algorithm::Sha256 => SHA256,
            Algorithm::Blake3 => BLAKE3,
        };
        write!(formatter, "{prefix}{}", self.hex())
    }
}

impl fmt::Debug for ModuleDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for ModuleDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let (algorithm, hex) = if let Some(hex) = text.strip_prefix(SHA256) {
            (Algorithm::Sha256, hex)
        } else if let Some(hex) = text.strip_prefix(BLAKE3) {
            (Algorithm::Blake3, hex)
        } else {
            return Err(InvalidDigest { found: text.to_owned() });
        };
        let bytes = blake3::Hash::from_hex(hex).map_err(|_| InvalidDigest { found: text.to_owned() })?;
        Ok(Self { algorithm, bytes: *bytes.as_bytes() })
    }
}

/// A digest that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a digest, expected `sha256:` or `blake3:` and 64 hexadecimal digits")]
pub struct InvalidDigest {
    /// What stood there.
    pub found: String,
}

const SHA256: &str = "sha256:";
const BLAKE3: &str = "blake3:";

#[cfg(test)]
mod tests {
    use super::ModuleDigest;

    #[test]
    fn a_digest_survives_its_text() {
        for digest in [ModuleDigest::sha256(b"abc"), ModuleDigest::blake3(b"abc")] {
            assert_eq!(digest.to_string().parse(), Ok(digest));
        }
    }

    #[test]
    fn the_digest_is_the_one_that_sha256sum_prints() {
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(ModuleDigest::sha256(b"abc").to_string(), expected);
    }

    #[test]
    fn a_digest_of_another_kind_is_refused() {
        let error = "md5:900150983cd24fb0d6963f7d28e17f72".parse::<ModuleDigest>().unwrap_err();
        assert!(error.to_string().contains("expected `sha256:`"), "{error}");
    }
}
