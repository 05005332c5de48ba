//! Files that go with runs: kept once, under the digest of their bytes.

use dalsegno_core::Digest;

use crate::error::BlobError;

/// Longest file, in bytes: 32 MiB, above what model providers accept, and little enough to be held in memory.
pub(crate) const MAX_BLOB: usize = 32 << 20;

/// Returns the digest under which a store keeps these bytes.
pub fn digest_bytes(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Checks that bytes may be stored under this digest.
pub(crate) fn check(digest: Digest, bytes: &[u8]) -> Result<(), BlobError> {
    if bytes.len() > MAX_BLOB {
        return Err(BlobError::TooLong { digest, found: bytes.len() });
    }
    let found = digest_bytes(bytes);
    if found == digest { Ok(()) } else { Err(BlobError::Digest { digest, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_the_limit_is_refused() {
        let bytes = vec![0; MAX_BLOB + 1];
        let digest = digest_bytes(&bytes);
        assert_eq!(check(digest, &bytes), Err(BlobError::TooLong { digest, found: MAX_BLOB + 1 }));
        assert_eq!(check(digest_bytes(&bytes[1..]), &bytes[1..]), Ok(()));
    }
}
