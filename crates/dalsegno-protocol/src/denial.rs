//! What a server in the sandbox wanted and was refused.

use std::fmt;

/// Something that a guest wanted and was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What kind of thing it was.
    pub kind: DenialKind,
    /// What the guest asked for: a destination, a name, a path. At most 200 characters, without control characters.
    /// It is the guest's own word.
    pub subject: String,
    /// Why it was refused.
    pub reason: String,
    /// How often, one after another.
    pub count: u64,
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} `{}`: {}", self.kind, self.subject, self.reason)
    }
}

/// Kinds of things that a guest can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DenialKind {
    /// An HTTP request to a destination that is not granted.
    Network,
    /// An HTTP request to a granted name with an address that nobody may be sent to, such as a private one.
    Address,
    /// An HTTP request of a form that is never sent: a tunnel, a user in the address.
    Request,
    /// A header that the host sets itself.
    Header,
    /// The resolution of a name.
    NameLookup,
    /// A raw socket.
    Socket,
    /// A path outside of the granted folders, or a change to a folder that is granted for reading.
    File,
}

impl DenialKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Address,
        Self::Request,
        Self::Header,
        Self::NameLookup,
        Self::Socket,
        Self::File,
    ];

    /// The name, for metrics and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Address => "address",
            Self::Request => "request",
            Self::Header => "header",
            Self::NameLookup => "name_lookup",
            Self::Socket => "socket",
            Self::File => "file",
        }
    }
}

impl fmt::Display for DenialKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
