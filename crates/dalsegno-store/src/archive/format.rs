//! The portable file: a magic line, MessagePack, the length, a checksum.
//!
//! Everything in it is bounded by the bytes that are there: no claimed length is believed before its bytes were seen.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Cursor;

use dalsegno_core::{Digest, OperationId, RunId, Timestamp};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::blob::MAX_BLOB;
use crate::bytes::{Checksum, Link};
use crate::chain::{MAX_BODY, Row};
use crate::origin::Signer;
#[cfg(feature = "disk")]
use crate::signing::{SigningKey, verify};

const FAMILY: &[u8] = b"dalsegno archive ";
/// The first line of an archive that nobody signed.
const MAGIC: &[u8] = b"dalsegno archive 1\n";
/// The first line of one that ends with the key of its signer and the signature, before the length.
const SIGNED: &[u8] = b"dalsegno archive 2\n";
/// The bytes of the signer's key.
const KEY: usize = 32;
/// The bytes of a signature.
pub(crate) const SIGNATURE: usize = 64;
/// The bytes of the length, which is a little-endian number.
const LENGTH: usize = 8;
/// The bytes of the checksum, a BLAKE3 hash.
const CHECKSUM: usize = 32;
/// Deepest nesting that is read. The contents have five levels; the rest is room for fields of later releases.
const MAX_DEPTH: usize = 64;

/// Bytes that are no archive. Offsets count from the beginning of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The file does not begin like an archive.
    #[error(
        "not an archive: byte {offset} differs from an archive's first line; name a file that `dalsegno export` wrote"
    )]
    NotAnArchive {
        /// The first byte that differs.
        offset: usize,
    },
    /// The archive has a version that this release does not read.
    #[error("this release cannot read the version of the archive (byte {offset}): use a newer release")]
    Version {
        /// Where the version stands.
        offset: usize,
    },
    /// The file is too short to be an archive.
    #[error("the archive is incomplete: it ends at byte {offset}; copy it again")]
    Cut {
        /// Where it ends.
        offset: usize,
    },
    /// The file is not as long as it says.
    #[error(
        "the archive ends at byte {offset}, expected {stated} bytes: it is incomplete or was changed; copy it again"
    )]
    Length {
        /// Where it ends.
        offset: usize,
        /// Its length as stated in it.
        stated: u64,
    },
    /// The file does not have its checksum.
    #[error("the checksum at byte {offset} does not match the archive: it was changed; copy it again")]
    Checksum {
        /// Where the checksum stands.
        offset: usize,
    },
    /// The file is signed, and the signature is of something else.
    #[error(
        "the signature of the archive, at byte {offset}, is not that of {signer} for what the archive holds: it was changed, \
         or has another signer; export it again where it came from"
    )]
    Signature {
        /// Where the signature stands.
        offset: usize,
        /// Whose signature it should be.
        signer: Signer,
    },
    /// The file is whole, and malformed.
    #[error("the archive is malformed at byte {offset}: export it again where it came from")]
    Form {
        /// Where reading stopped.
        offset: usize,
        /// The cause.
        source: rmp_serde::decode::Error,
    },
    /// Something stands between the contents and the length.
    #[error("the archive has unexpected bytes from byte {offset} on: export it again where it came from")]
    Surplus {
        /// Where they begin.
        offset: usize,
    },
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) runs: Vec<ArchivedRun>,
    pub(super) configs: Vec<(Digest, String)>,
    pub(super) blobs: Vec<(Digest, Bytes<0, MAX_BLOB>)>,
}

impl Contents {
    pub(super) fn new(
        runs: Vec<ArchivedRun>,
        configs: BTreeMap<Digest, String>,
        blobs: BTreeMap<Digest, Vec<u8>>,
    ) -> Self {
        let blobs = blobs.into_iter().map(|(digest, bytes)| (digest, Bytes(bytes))).collect();
        Self { runs, configs: configs.into_iter().collect(), blobs }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArchivedRun {
    pub(super) run: RunId,
    request: Digest,
    records: Vec<ArchivedRow>,
}

/// One record: time, kind, operation, parent, body, checksum, link. Its number is its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ArchivedRow(
    Timestamp,
    u8,
    Option<OperationId>,
    Option<OperationId>,
    Bytes<0, MAX_BODY>,
    Bytes<16, 16>,
    Bytes<16, 16>,
);

impl ArchivedRun {
    pub(super) fn new(run: RunId, request: Digest, rows: Vec<Row>) -> Self {
        let records = rows.into_iter().map(|row| {
            let Row { seq: _, at, kind, operation, parent, body, checksum, link } = row;
            let (checksum, link) = (checksum.as_bytes().to_vec(), link.as_bytes().to_vec());
            // Nothing erased is exported: a run without its content is refused before.
            ArchivedRow(
                at,
                kind,
                operation,
                parent,
                Bytes(body.unwrap_or_default()),
                Bytes(checksum),
                Bytes(link),
            )
        });
        Self { run, request, records: records.collect() }
    }

    /// The run, the digest of what it was asked, and its rows.
    pub(super) fn into_rows(self) -> (RunId, Digest, Vec<Row>) {
        let rows = self.records.into_iter().zip(0..).map(|(record, seq)| {
            let ArchivedRow(at, kind, operation, parent, body, checksum, link) = record;
            let (checksum, link) = (Checksum::from_bytes(checksum.array()), Link::from_bytes(link.array()));
            Row { seq, at, kind, operation, parent, body: Some(body.0), checksum, link }
        });
        (self.run, self.request, rows.collect())
    }
}

/// Raw bytes, at least `MIN` and at most `MAX`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bytes<const MIN: usize, const MAX: usize>(Vec<u8>);

impl<const MIN: usize, const MAX: usize> Bytes<MIN, MAX> {
    pub(super) fn into_inner(self) -> Vec<u8> {
        self.0
    }
}

impl Bytes<16, 16> {
    fn array(&self) -> [u8; 16] {
        // The length was checked when they were read.
        self.0.as_slice().try_into().unwrap_or_default()
    }
}

impl<const MIN: usize, const MAX: usize> fmt::Debug for Bytes<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<const MIN: usize, const MAX: usize> Serialize for Bytes<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Bytes<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Visitor<'_> for BytesVisitor<MIN, MAX> {
    type Value = Bytes<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if MIN == MAX { write!(f, "{MIN} bytes") } else { write!(f, "at most {MAX} bytes") }
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        if (MIN..=MAX).contains(&bytes.len()) {
            Ok(Bytes(bytes.to_vec()))
        } else {
            Err(E::invalid_length(bytes.len(), &self))
        }
    }
}

/// Writes the file.
pub(super) fn encode(contents: &Contents) -> Vec<u8> {
    close(begin(MAGIC, contents))
}

/// Writes the file, signed with a key.
#[cfg(feature = "disk")]
pub(super) fn encode_signed(contents: &Contents, key: &SigningKey) -> Vec<u8> {
    let mut bytes = begin(SIGNED, contents);
    let signature = key.sign(&bytes[SIGNED.len()..]);
    bytes.extend_from_slice(key.signer().as_bytes());
    bytes.extend_from_slice(&signature);
    close(bytes)
}

fn begin(magic: &[u8], contents: &Contents) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    rmp_serde::encode::write_named(&mut bytes, contents)
        .expect("plain data has a stored form, and memory takes it");
    bytes
}

/// Adds the length and the checksum.
fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() + LENGTH + CHECKSUM;
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// Reads the file, and says who signed it.
pub(super) fn decode(bytes: &[u8]) -> Result<(Contents, Option<Signer>), ArchiveError> {
    let magic = if bytes.starts_with(SIGNED) { SIGNED } else { MAGIC };
    if !bytes.starts_with(magic) {
        let offset = bytes.iter().zip(MAGIC).take_while(|(found, expected)| found == expected).count();
        return Err(if offset == bytes.len() {
            ArchiveError::Cut { offset }
        } else if bytes.starts_with(FAMILY) {
            ArchiveError::Version { offset: FAMILY.len() }
        } else {
            ArchiveError::NotAnArchive { offset }
        });
    }
    let (Some((rest, checksum)), offset) = (bytes.split_last_chunk::<CHECKSUM>(), bytes.len()) else {
        return Err(ArchiveError::Cut { offset: bytes.len() });
    };
    let Some((rest, length)) = rest.split_last_chunk::<LENGTH>() else {
        return Err(ArchiveError::Cut { offset });
    };
    let Some(body) = rest.strip_prefix(magic) else {
        return Err(ArchiveError::Cut { offset });
    };
    let stated = u64::from_le_bytes(*length);
    if stated != bytes.len() as u64 {
        return Err(ArchiveError::Length { offset, stated });
    }
    let offset = bytes.len() - CHECKSUM;
    if blake3::hash(&bytes[..offset]) != *checksum {
        return Err(ArchiveError::Checksum { offset });
    }
    let (body, signer) = if magic == SIGNED { signed(body)? } else { (body, None) };
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(body));
    reader.set_max_depth(MAX_DEPTH);
    let contents = Contents::deserialize(&mut reader);
    let read = usize::try_from(reader.position()).unwrap_or(body.len()).min(body.len());
    let offset = MAGIC.len() + read;
    match contents {
        Ok(_) if read < body.len() => Err(ArchiveError::Surplus { offset }),
        Ok(contents) => Ok((contents, signer)),
        Err(source) => Err(ArchiveError::Form { offset, source }),
    }
}

/// Takes the signature off the contents, if it is of these contents.
fn signed(body: &[u8]) -> Result<(&[u8], Option<Signer>), ArchiveError> {
    let cut = || ArchiveError::Cut { offset: SIGNED.len() + body.len() + LENGTH + CHECKSUM };
    let (rest, signature) = body.split_last_chunk::<SIGNATURE>().ok_or_else(cut)?;
    let (contents, signer) = rest.split_last_chunk::<KEY>().ok_or_else(cut)?;
    let signer = Signer::from_bytes(*signer);
    #[cfg(feature = "disk")]
    if verify(&signer, contents, signature) {
        return Ok((contents, Some(signer)));
    }
    #[cfg(not(feature = "disk"))]
    {
        let _ = (signature, signer);
        return Ok((contents, None));
    }
    #[cfg(feature = "disk")]
    Err(ArchiveError::Signature { offset: SIGNED.len() + rest.len(), signer })
}
