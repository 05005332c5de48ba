//! Stored bytes made small: which form they have, and the way back.
//!
//! Checksums, links and digests cover the plain bytes, so a form is nobody's business but the file's: it changes no
//! chain and no archive. Whatever does not come back as it was is found by the checksum of what came back.

mod dictionary;
mod parts;

use std::sync::{Mutex, OnceLock, PoisonError};

use dalsegno_core::Digest;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use self::dictionary::DICTIONARY_1;
pub(crate) use self::parts::{Cut, LONG, join};
use crate::blob::digest_bytes;
use crate::chain::MAX_BODY;

/// How bytes are stored. The numbers are part of the file and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// As they are.
    Plain = 0,
    /// Compressed with the first dictionary.
    Dictionary1 = 1,
    /// Compressed with the first dictionary, without the parts that are kept by themselves.
    Parts1 = 2,
    /// Not any more: only the checksum is left.
    Erased = 3,
    /// Compressed without a dictionary.
    Compressed = 4,
}

impl Form {
    const ALL: [Self; 5] = [Self::Plain, Self::Dictionary1, Self::Parts1, Self::Erased, Self::Compressed];

    /// The form with this number.
    pub(crate) fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|form| i64::from(*form as u8) == number)
    }
}

/// Bytes as they are stored.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) form: Form,
    pub(crate) bytes: Vec<u8>,
    /// Parts that were cut out, which are kept once under their digests.
    pub(crate) parts: Vec<BodyPart>,
}

/// A part of a body.
#[derive(Debug, Clone)]
pub(crate) struct BodyPart {
    /// Where it stands in the plain body.
    pub(crate) place: usize,
    pub(crate) digest: Digest,
    pub(crate) form: Form,
    /// As they are stored.
    pub(crate) bytes: Vec<u8>,
}

/// Packs an encoded body.
pub(crate) fn pack_body(plain: Vec<u8>) -> Packed {
    let cuts = parts::find(&plain);
    if cuts.is_empty() {
        return match compress(&plain, true) {
            Some(bytes) => Packed { form: Form::Dictionary1, bytes, parts: Vec::new() },
            None => Packed { form: Form::Plain, bytes: plain, parts: Vec::new() },
        };
    }
    let rest = parts::without(&plain, &cuts);
    // The flag for parts goes with compression, so it is compressed even where that gains nothing.
    let Some(bytes) = compressed(&rest, true) else {
        return Packed { form: Form::Plain, bytes: plain, parts: Vec::new() };
    };
    let part = |cut: &Cut| {
        let bytes = &plain[cut.place..cut.place + cut.length];
        let (form, packed) = pack_file(bytes);
        BodyPart { place: cut.place, digest: digest_bytes(bytes), form, bytes: packed.into_owned() }
    };
    Packed { form: Form::Parts1, bytes, parts: cuts.iter().map(part).collect() }
}

/// Brings a body back. The parts are those that were cut out, in the order of their places. None if the bytes are not
/// what was packed; then again they may be other bytes, which a checksum tells.
pub(crate) fn unpack_body(form: Form, bytes: &[u8], parts: Vec<(usize, Vec<u8>)>) -> Option<Vec<u8>> {
    match form {
        Form::Plain => Some(bytes.to_vec()),
        Form::Dictionary1 => decompress(bytes, true),
        Form::Parts1 => join(&decompress(bytes, true)?, parts.into_iter().map(Some)),
        Form::Erased | Form::Compressed => None,
    }
}

/// Packs a file or a part of a body.
pub(crate) fn pack_file(plain: &[u8]) -> (Form, std::borrow::Cow<'_, [u8]>) {
    match compress(plain, false) {
        Some(bytes) => (Form::Compressed, bytes.into()),
        None => (Form::Plain, plain.into()),
    }
}

/// Brings a file or a part of a body back.
pub(crate) fn unpack_file(form: Form, bytes: Vec<u8>) -> Option<Vec<u8>> {
    match form {
        Form::Plain => Some(bytes),
        Form::Compressed => decompress(&bytes, false),
        Form::Dictionary1 | Form::Parts1 | Form::Erased => None,
    }
}

/// The first four bytes of every frame, which need not be stored.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The compressor's middle way for what is long.
const LEVEL: i32 = 3;
/// What finds most in a dictionary without looking for long: a twentieth less than the level below, at the same cost.
/// Higher ones gain nothing on what is this small.
const LEVEL_DICTIONARY: i32 = 4;
/// Most idle contexts of each kind. They are large, so they are few; whoever finds none makes one.
const IDLE_MAX: usize = 4;

/// Contexts that wait for work.
struct Pool<T>(Mutex<Vec<T>>);

impl<T> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn with<R>(&self, make: impl FnOnce() -> Option<T>, work: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = idle.or_else(make)?;
        let result = work(&mut context);
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(context);
        }
        result
    }
}

/// Compresses, if that makes it shorter.
fn compress(plain: &[u8], dictionary: bool) -> Option<Vec<u8>> {
    compressed(plain, dictionary).filter(|bytes| bytes.len() < plain.len())
}

fn compressed(plain: &[u8], dictionary: bool) -> Option<Vec<u8>> {
    static WITH: Pool<Compressor<'static>> = Pool::new();
    static WITHOUT: Pool<Compressor<'static>> = Pool::new();
    static PREPARED: OnceLock<EncoderDictionary<'static>> = OnceLock::new();
    let work = |context: &mut Compressor<'static>| context.compress(plain).ok();
    let frame = if dictionary {
        let prepared = PREPARED.get_or_init(|| EncoderDictionary::copy(DICTIONARY_1, LEVEL_DICTIONARY));
        WITH.with(|| Compressor::with_prepared_dictionary(prepared).ok(), work)?
    } else {
        WITHOUT.with(|| Compressor::new(LEVEL).ok(), work)?
    };
    frame.strip_prefix(&MAGIC).map(<[u8]>::to_vec)
}

/// Decompresses at most as many bytes as a body may have, which no file exceeds either.
fn decompress(bytes: &[u8], dictionary: bool) -> Option<Vec<u8>> {
    static WITH: Pool<Decompressor<'static>> = Pool::new();
    static WITHOUT: Pool<Decompressor<'static>> = Pool::new();
    static PREPARED: OnceLock<DecoderDictionary<'static>> = OnceLock::new();
    let frame = [MAGIC.as_slice(), bytes].concat();
    let work = |context: &mut Decompressor<'static>| context.decompress(&frame, MAX_BODY).ok();
    if dictionary {
        let prepared = PREPARED.get_or_init(|| DecoderDictionary::copy(DICTIONARY_1));
        WITH.with(|| Decompressor::with_prepared_dictionary(prepared).ok(), work)
    } else {
        WITHOUT.with(|| Decompressor::new().ok(), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn plain_parts(packed: &Packed) -> Vec<(usize, Vec<u8>)> {
        let parts = packed.parts.iter();
        parts.map(|part| (part.place, unpack_file(part.form, part.bytes.clone()).unwrap())).collect()
    }

    fn there_and_back(plain: &[u8]) -> Packed {
        let packed = pack_body(plain.to_vec());
        let parts = plain_parts(&packed);
        let bytes = &packed.bytes;
        assert_eq!(unpack_body(packed.form, bytes, parts).unwrap(), plain);
        packed
    }

    #[test]
    fn the_first_dictionary_never_changes() {
        let found = digest_bytes(DICTIONARY_1).to_string();
        assert_eq!(
            found, "818ee22a08ea9646f9c7a8220d5393e5e0534374c9f95d2ebf88789f1e1e9c8f",
            "bodies were stored with it: make a second one"
        );
    }

    #[test]
    fn bytes_that_do_not_get_shorter_are_stored_as_they_are() {
        for length in [0, 1, 2, 100, 5_000] {
            assert_eq!(there_and_back(&noise(length)).form, Form::Plain, "{length}");
            assert_eq!(pack_file(&noise(length)).0, Form::Plain, "{length}");
        }
        assert_eq!(there_and_back(&[7; 500]).form, Form::Dictionary1);
        let (form, bytes) = pack_file(&[7; 500]);
        assert_eq!(form, Form::Compressed);
        assert_eq!(unpack_file(form, bytes.into_owned()).unwrap(), [7; 500]);
    }

    #[test]
    fn long_text_is_kept_by_itself_wherever_it_stands() {
        let long = |fill: &str| fill.repeat(5_000);
        let value =
            serde_json::json!({ "a": [long("x"), 1, { "b": long("y") }], "c": long("é"), "d": "short" });
        let plain = rmp_serde::to_vec_named(&value).unwrap();
        let packed = there_and_back(&plain);
        assert_eq!((packed.form, packed.parts.len()), (Form::Parts1, 3));
        assert!(packed.bytes.len() < 100);
    }

    #[test]
    fn changed_bytes_never_panic_and_never_come_back_longer_than_a_body() {
        let value = serde_json::json!({ "step": 1, "text": "x".repeat(5_000), "label": "model completion" });
        let packed = pack_body(rmp_serde::to_vec_named(&value).unwrap());
        let parts = plain_parts(&packed);
        let bytes = packed.bytes;
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[index] ^= 1 << bit;
                for form in Form::ALL {
                    let found = unpack_body(form, &changed, parts.clone());
                    assert!(found.is_none_or(|found| found.len() <= MAX_BODY));
                    unpack_file(form, changed.clone());
                }
            }
        }
        for length in 0..bytes.len() {
            assert_eq!(unpack_body(Form::Dictionary1, &bytes[..length], Vec::new()), None, "{length}");
        }
        assert_eq!(unpack_body(packed.form, &bytes, vec![(usize::MAX, vec![1])]), None);
    }

    #[test]
    fn a_frame_that_claims_more_than_a_body_may_have_is_refused() {
        let bytes = compressed(&vec![0; MAX_BODY + 1], false).unwrap();
        assert!(bytes.len() < 10_000);
        assert_eq!(decompress(&bytes, false), None);
    }
}
