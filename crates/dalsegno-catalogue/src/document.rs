//! What a document is called, and what is kept of it.

use std::fmt;
use std::str::FromStr;

use crate::version::digest;

/// The longest name of a document or a tenant, in bytes.
const NAME_MAX: usize = 64;

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentKind {
    /// An agent, as `agents/NAME.toml`.
    Agent,
    /// A tool or a toolkit, as `tools/NAME.json`; one of a tenant, as `tenants/TENANT/tools/NAME.json`.
    Tool,
    /// A tenant, as `tenants/NAME.toml`.
    Tenant,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Tool, Self::Tenant];

    /// The kind as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Tenant => "tenant",
        }
    }
}

/// A name that no document can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not the name of {what}: expected 1 to {NAME_MAX} lower-case letters, digits, `-` and `_`, beginning with a letter or a digit"
)]
pub struct NoDocumentName {
    what: &'static str,
}

/// Which document. Each part of it is a name that can be part of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId {
    tenant: Option<String>,
    kind: DocumentKind,
    name: String,
}

impl DocumentId {
    /// A document of the workspace, or the tool of one tenant. In the name of a tool `-` means `_`.
    ///
    /// # Errors
    /// When a name is not one, or when a tenant would have something other than tools.
    pub fn new(tenant: Option<&str>, kind: DocumentKind, name: &str) -> Result<Self, NoDocumentName> {
        let what = match kind {
            DocumentKind::Agent => "an agent",
            DocumentKind::Tool => "a tool",
            DocumentKind::Tenant => "a tenant",
        };
        if !is_name(name) {
            return Err(NoDocumentName { what });
        }
        if tenant.is_some_and(|tenant| !is_name(tenant) || kind != DocumentKind::Tool) {
            return Err(NoDocumentName { what: "a tenant" });
        }
        let name = if kind == DocumentKind::Tool { name.replace('-', "_") } else { name.to_owned() };
        Ok(Self { tenant: tenant.map(str::to_owned), kind, name })
    }

    /// The tenant whose tool it is; none for a document of the workspace.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// What it describes.
    pub const fn kind(&self) -> DocumentKind {
        self.kind
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.as_str(), self.name)?;
        self.tenant.as_ref().map_or(Ok(()), |tenant| write!(f, " of the tenant `{tenant}`"))
    }
}

fn is_name(text: &str) -> bool {
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inside = |byte: &u8| first(byte) || matches!(byte, b'-' | b'_');
    text.len() <= NAME_MAX && text.as_bytes().first().is_some_and(first) && text.as_bytes().iter().all(inside)
}

/// A version of a document: the BLAKE3 hash of its canonical text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub(crate) blake3::Hash);

impl Version {
    /// The version of this text, which need not be canonical.
    pub fn of(text: &str) -> Self {
        Self(digest(&crate::canonical(text)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a version: expected 64 hexadecimal digits in lower case")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        blake3::Hash::from_hex(text).ok().filter(|_| is_lower).map(Self).ok_or(NoVersion)
    }
}

/// Who wrote a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The id of the access key.
    pub key: String,
    /// The name of the key, if it has one.
    pub name: Option<String>,
}

/// A document in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Which one.
    pub id: DocumentId,
    /// Its canonical text.
    pub text: String,
    /// Its version.
    pub version: Version,
    /// The number of the change that wrote it, counted from 1 for each document.
    pub number: u64,
    /// When it was written, in milliseconds since the epoch.
    pub at: u64,
    /// Who wrote it.
    pub by: Author,
}

/// One change of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionEntry {
    /// The number of the change, counted from 1 for each document.
    pub number: u64,
    /// The version that it wrote; none where it deleted the document.
    pub version: Option<Version>,
    /// The bytes of its text.
    pub bytes: u64,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// Who.
    pub by: Author,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_part_of_a_path_and_nothing_else() {
        let long = "a".repeat(65);
        for bad in ["", "..", ".", "../x", "a/b", "a\\b", "a.b", "A", "-a", "_a", "a b", "a\0", "é", &long] {
            for kind in DocumentKind::ALL {
                assert!(DocumentId::new(None, kind, bad).is_err(), "{bad}");
            }
            assert!(DocumentId::new(Some(bad), DocumentKind::Tool, "x").is_err(), "{bad}");
        }
        assert!(DocumentId::new(Some("acme"), DocumentKind::Agent, "x").is_err());
        assert!(DocumentId::new(Some("acme"), DocumentKind::Tenant, "x").is_err());
        let id = DocumentId::new(Some("acme"), DocumentKind::Tool, "find-case").unwrap();
        assert_eq!((id.tenant(), id.name()), (Some("acme"), "find_case"));
        assert_eq!(id.to_string(), "tool `find_case` of the tenant `acme`");
    }

    #[test]
    fn a_version_is_written_in_one_way() {
        let version = Version::of("x");
        assert_eq!(version.to_string().parse(), Ok(version));
        for wrong in ["", "x", &version.to_string().to_uppercase(), &version.to_string()[1..]] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }
}
