//! Parts of transcripts, as they are kept once for all runs of a session.

use dalsegno_core::{Digest, Entry};

use crate::blob::digest_bytes;
use crate::codec::{DecodeError, EncodeError, decode, encode};

/// Encodes entries of a transcript, and returns the digest under which a store keeps them with the bytes.
///
/// # Errors
/// When a JSON value in them is nested too deeply to be read back.
pub fn encode_block(entries: &[&Entry]) -> Result<(Digest, Vec<u8>), EncodeError> {
    let bytes = encode("block of a transcript", &entries)?;
    Ok((digest_bytes(&bytes), bytes))
}

/// Decodes what [`encode_block`] wrote.
///
/// # Errors
/// When the bytes are no entries that this release knows.
pub fn decode_block(bytes: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    decode("block of a transcript", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_of_a_block_never_changes() {
        let entries = [
            Entry::User("hello".into()),
            Entry::ToolResult {
                call_id: "c".into(),
                name: "t".into(),
                content: "x".into(),
                is_error: false,
                files: vec![],
            },
        ];
        let (digest, bytes) = encode_block(&entries.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(decode_block(&bytes).unwrap(), entries);
        assert_eq!(digest.to_string(), "fbb747cf64f6f069fc4e403addad7751970f51147ec833fe9fc26193faa24694");
        for length in 0..bytes.len() {
            assert!(decode_block(&bytes[..length]).is_err(), "{length}");
        }
    }
}
