//! What a tool server may touch: folders, destinations in the network, environment, clock, randomness. All denied by
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_net::Origin;
use dalsegno_secrets::{MaybeSecret, Reveal};

/// What a server may touch beside its own memory. Everything is denied by default.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// The folders that it may use.
    pub files: Vec<Preopen>,
    /// The environment variables that it sees. A secret among them is read for each instance, which holds it from its start.
    pub env: BTreeMap<String, MaybeSecret>,
    /// Where its HTTP requests may go. Only components can make any.
    pub network: Vec<Origin>,
    /// Secrets that the host adds to requests. The guest never holds them.
    pub secrets: Vec<Injection>,
    /// Whether it sees the real time; otherwise the wall clock stands still.
    pub clock: bool,
    /// Whether its random bytes are random; otherwise they are the same in every instance.
    pub random: bool,
}

/// A folder of the host that a server may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preopen {
    /// The folder on the host. It must exist when the server is loaded.
    pub host: PathBuf,
    /// The path under which the server sees it, such as `/data`.
    pub guest: String,
    /// What the server may do with it.
    pub access: Access,
}

/// What a server may do with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files and list folders.
    Read,
    /// Read, create, change and delete.
    Write,
}

/// A secret that the host adds to every request to one destination.
#[derive(Clone)]
pub struct Injection {
    /// The only destination that it is sent to: one of those in `network`, encrypted or on this machine.
    pub destination: Origin,
    /// The header that carries it, such as `authorization`. The guest cannot set it, for any destination.
    pub header: String,
    /// What stands before the value, such as `Bearer `; nothing by default.
    pub prefix: String,
    /// The value, read for each request.
    pub value: Arc<dyn Reveal>,
}

impl fmt::Debug for Injection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Injection")
            .field("destination", &self.destination)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}
