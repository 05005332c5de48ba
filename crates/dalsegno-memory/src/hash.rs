//! Hashes over lists of fields, and how hashes are written.

/// Hashes a list of fields under a purpose; lengths go in first, so that fields cannot run into each other.
pub(crate) struct Hasher(blake3::Hasher);

impl Hasher {
    pub(crate) fn new(purpose: &str) -> Self {
        let mut hasher = Self(blake3::Hasher::new());
        // Part of the stored format, and older than the product's name: files that were written with it are read for ever.
        hasher.field(b"segno-memory");
        hasher.field(purpose.as_bytes());
        hasher
    }

    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn long(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }

    pub(crate) fn short(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.0.finalize_xof().fill(&mut bytes);
        bytes
    }
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads 64 lower-case hexadecimal digits, the only form that [`hex`] writes.
pub(crate) fn long_from_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; 32];
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Hasher, hex, long_from_hex};

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = Hasher::new("test").long();
        assert_eq!(long_from_hex(&hex(&hash)), Some(hash));
        assert_eq!(hex(&[0, 0x1f, 0xf0]), "001ff0");
        for wrong in ["", "0", &hex(&hash)[1..], &hex(&hash).to_uppercase(), &"é".repeat(32), &"0".repeat(65)]
        {
            assert_eq!(long_from_hex(wrong), None, "{wrong}");
        }
    }
}
