//! Long strings in an encoded body, found without knowing what the body means.
//!
//! MessagePack is a row of tokens, each with its length before it, so a walk needs neither a stack nor a type.

/// Shortest string that is kept by itself: a page of the file. Below that the row it leaves behind gains nothing.
pub(crate) const LONG: usize = 4096;

/// A string that is cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where it stands in the plain body.
    pub(crate) place: usize,
    /// Its length in bytes.
    pub(crate) length: usize,
}

/// Finds the long strings and byte strings. Bytes that are no MessagePack have none.
pub(super) fn find(bytes: &[u8]) -> Vec<Cut> {
    if bytes.len() < LONG { Vec::new() } else { walk(bytes).unwrap_or_default() }
}

fn walk(bytes: &[u8]) -> Option<Vec<Cut>> {
    let mut cuts = Vec::new();
    let mut at = 0;
    while let Some(marker) = bytes.get(at) {
        at += 1;
        // How many bytes state the length, and how many more there are besides.
        let (stated, plus) = match marker {
            0x00..=0x9f | 0xc0..=0xc3 | 0xe0..=0xff => (0, 0),
            0xa0..=0xbf => (0, usize::from(marker & 0x1f)),
            0xc4 | 0xd9 => (1, 0),
            0xc5 | 0xda => (2, 0),
            0xc6 | 0xdb => (4, 0),
            0xc7 => (1, 1),
            0xc8 => (2, 1),
            0xc9 => (4, 1),
            0xcc | 0xd0 => (0, 1),
            0xcd | 0xd1 => (0, 2),
            0xca | 0xce | 0xd2 => (0, 4),
            0xcb | 0xcf | 0xd3 => (0, 8),
            0xd4 => (0, 2),
            0xd5 => (0, 3),
            0xd6 => (0, 5),
            0xd7 => (0, 9),
            0xd8 => (0, 17),
            // The number of members; they are tokens of their own.
            0xdc | 0xde => (0, 2),
            0xdd | 0xdf => (0, 4),
        };
        let length = bytes.get(at..at + stated)?;
        let length = length.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte)) + plus;
        at += stated;
        bytes.get(at..at.checked_add(length)?)?;
        if length >= LONG && plus == 0 {
            cuts.push(Cut { place: at, length });
        }
        at += length;
    }
    Some(cuts)
}

/// What is left without these cuts.
pub(super) fn without(bytes: &[u8], cuts: &[Cut]) -> Vec<u8> {
    let mut rest = Vec::new();
    let mut at = 0;
    for cut in cuts {
        rest.extend_from_slice(&bytes[at..cut.place]);
        at = cut.place + cut.length;
    }
    rest.extend_from_slice(&bytes[at..]);
    rest
}

/// Puts the parts back in their places, in the order of the places. None if one is missing or does not fit.
pub(crate) fn join(
    rest: &[u8],
    parts: impl IntoIterator<Item = Option<(usize, Vec<u8>)>>,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = rest;
    for part in parts {
        let (place, part) = part?;
        let (before, after) = rest.split_at_checked(place.checked_sub(bytes.len())?)?;
        bytes.extend_from_slice(before);
        bytes.extend_from_slice(&part);
        rest = after;
    }
    bytes.extend_from_slice(rest);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_token_is_passed_over() {
        #[derive(serde::Serialize)]
        struct All<'a> {
            numbers: (u8, u16, u32, u64, i8, i16, i32, i64, f32, f64),
            others: (Option<u8>, bool, bool),
            texts: Vec<String>,
            #[serde(with = "serde_bytes_like")]
            bytes: &'a [u8],
            many: Vec<u8>,
            end: String,
        }
        mod serde_bytes_like {
            pub(super) fn serialize<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
                to.serialize_bytes(bytes)
            }
        }
        let all = All {
            numbers: (
                200,
                60_000,
                4_000_000_000,
                u64::MAX,
                -100,
                -30_000,
                -2_000_000_000,
                i64::MIN,
                0.5,
                0.25,
            ),
            others: (None, true, false),
            texts: [0, 10, 40, 300, 4_095, 4_096, 70_000].map(|length| "t".repeat(length)).to_vec(),
            bytes: &[9; 5_000],
            many: vec![1; 70_000],
            end: "e".repeat(4_096),
        };
        let bytes = rmp_serde::to_vec_named(&all).unwrap();
        let cuts = find(&bytes);
        let lengths: Vec<_> = cuts.iter().map(|cut| cut.length).collect();
        assert_eq!(lengths, [4_096, 70_000, 5_000, 4_096]);
        let parts =
            cuts.iter().map(|cut| Some((cut.place, bytes[cut.place..cut.place + cut.length].to_vec())));
        assert_eq!(join(&without(&bytes, &cuts), parts).unwrap(), bytes);
        // Cut anywhere it is no MessagePack any more, or ends between two tokens.
        for length in (0..bytes.len()).step_by(97) {
            find(&bytes[..length]);
        }
    }
}
