//! Files that a model reads besides text: their types, told by their bytes, and how many a result may hold.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::canonical::Digest;
use crate::event::{Failure, FailureCode};
use crate::transcript::{Attachment, Entry, Transcript};

/// Most files of one result of a tool.
pub const RESULT_FILES_MAX: usize = 16;

/// Most bytes of all files of one result together, 20 MiB: in base64 a third more, which is below the 32 MB that providers take
/// in one request.
pub const RESULT_FILES_BYTES_MAX: u64 = 20 << 20;

/// Most files of results in one request. Providers take 100 and more, those of the user included.
const SENT_MAX: usize = 80;

/// The media types of files in results: what at least one provider reads.
const MEDIA_TYPES: [&str; 15] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "audio/aac",
    "audio/aiff",
    "audio/flac",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "video/mp4",
    "video/mpeg",
    "video/quicktime",
    "video/webm",
];

/// The media type of a file by its first bytes: of an image, a PDF, sound or a video that some provider reads; none for all
/// others. What a file's sender says of it does not count: a provider refuses a request with a file of another type.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let at = |place: usize, sign: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(sign));
    Some(match bytes {
        _ if at(0, b"\x89PNG\r\n\x1a\n") => "image/png",
        _ if at(0, b"\xff\xd8\xff") => "image/jpeg",
        _ if at(0, b"GIF87a") || at(0, b"GIF89a") => "image/gif",
        _ if at(0, b"RIFF") && at(8, b"WEBP") => "image/webp",
        _ if at(0, b"%PDF-") => "application/pdf",
        _ if at(0, b"RIFF") && at(8, b"WAVE") => "audio/wav",
        _ if at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")) => "audio/aiff",
        _ if at(0, b"fLaC") => "audio/flac",
        _ if at(0, b"OggS") => "audio/ogg",
        _ if at(0, b"ID3") => "audio/mpeg",
        // The frames of both begin with bits that are set; the layer tells one from the other.
        [0xff, second, ..] if second & 0xf6 == 0xf0 => "audio/aac",
        [0xff, second, ..] if second & 0xe0 == 0xe0 && second & 0x06 == 0x02 => "audio/mpeg",
        _ if at(4, b"ftypqt") => "video/quicktime",
        _ if at(4, b"ftypM4A") || at(4, b"ftypM4B") => return None,
        _ if at(4, b"ftyp") => "video/mp4",
        _ if at(0, b"\x1a\x45\xdf\xa3") && bytes[..bytes.len().min(64)].windows(4).any(is_webm) => {
            "video/webm"
        }
        _ if at(0, b"\0\0\x01\xba") || at(0, b"\0\0\x01\xb3") => "video/mpeg",
        _ => return None,
    })
}

fn is_webm(word: &[u8]) -> bool {
    word == b"webm"
}

impl Transcript {
    /// The files of results that a request carries: the newest ones, as many as providers take. The others are left out, and
    /// their results stay.
    ///
    /// Once there are too many, half of what a request can carry is left out at once, so that what is sent only grows at its end
    /// for many turns, and a provider's prompt cache holds.
    pub fn sent_files(&self) -> BTreeSet<Digest> {
        let results = self.iter().filter(|entry| matches!(entry, Entry::ToolResult { .. }));
        let files: Vec<&Attachment> = results.flat_map(Entry::files).collect();
        let (mut first, mut bytes) = (0, 0u64);
        for (place, file) in files.iter().enumerate() {
            bytes = bytes.saturating_add(file.bytes);
            if bytes <= RESULT_FILES_BYTES_MAX && place - first < SENT_MAX {
                continue;
            }
            while first < place && (bytes > RESULT_FILES_BYTES_MAX / 2 || place - first >= SENT_MAX / 2) {
                bytes = bytes.saturating_sub(files[first].bytes);
                first += 1;
            }
        }
        files.into_iter().skip(first).map(|file| file.digest).collect()
    }
}

/// What is wrong with the files of a result, if anything is: what no shell records, and an archive may hold all the same.
pub(crate) fn misfit(files: &[Attachment]) -> Option<Failure> {
    let count = files.len();
    let bytes = files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
    let (code, message) = if count > RESULT_FILES_MAX {
        let message = alloc::format!("the result has {count} files, which is more than {RESULT_FILES_MAX}");
        (FailureCode::LimitExceeded, message)
    } else if bytes > RESULT_FILES_BYTES_MAX {
        let message = alloc::format!(
            "the files of the result have {bytes} bytes, which is more than {RESULT_FILES_BYTES_MAX}"
        );
        (FailureCode::LimitExceeded, message)
    } else {
        let file = files.iter().find(|file| !MEDIA_TYPES.contains(&file.media_type.as_str()))?;
        let mut media_type = String::clone(&file.media_type);
        media_type.truncate(media_type.floor_char_boundary(64));
        (FailureCode::Protocol, alloc::format!("the result has a file of the type `{media_type}`"))
    };
    Some(Failure::new(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_told_by_the_first_bytes() {
        let known: [(&[u8], &str); 21] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF87a\x01\0", "image/gif"),
            (b"GIF89a\x01\0", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
            (b"FORM\0\0\0\x20AIFFCOMM", "audio/aiff"),
            (b"FORM\0\0\0\x20AIFCFVER", "audio/aiff"),
            (b"fLaC\0\0\0\x22", "audio/flac"),
            (b"OggS\0\x02", "audio/ogg"),
            (b"ID3\x04\0", "audio/mpeg"),
            (b"\xff\xfb\x90\x64", "audio/mpeg"),
            (b"\xff\xf3\x40\xc4", "audio/mpeg"),
            (b"\xff\xf1\x50\x80", "audio/aac"),
            (b"\xff\xf9\x50\x80", "audio/aac"),
            (b"\0\0\0\x20ftypisom\0\0\x02\0", "video/mp4"),
            (b"\0\0\0\x14ftypqt  ", "video/quicktime"),
            (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm"),
            (b"\0\0\x01\xba\x44", "video/mpeg"),
            (b"\0\0\x01\xb3\x14", "video/mpeg"),
        ];
        for (bytes, expected) in known {
            assert_eq!(media_type(bytes), Some(expected), "{bytes:?}");
            assert!(MEDIA_TYPES.contains(&expected));
        }
        assert!(MEDIA_TYPES.iter().all(|one| known.iter().any(|(_, known)| known == one)));
    }

    /// The numbers of the files that are sent of so many, each in a result of its own.
    fn sent(count: u64, bytes: u64) -> Vec<u64> {
        let mut transcript = Transcript::begin(Digest::default(), 0);
        let digest = |number: u64| crate::digest_json(&number.into());
        for number in 0..count {
            let (name, media_type) = ("a".into(), "image/png".into());
            let files = alloc::vec![Attachment { name, media_type, digest: digest(number), bytes }];
            let (call_id, name, content) = ("c".into(), "look".into(), String::new());
            transcript.push(Entry::ToolResult { call_id, name, content, is_error: false, files });
        }
        let sent = transcript.sent_files();
        (0..count).filter(|number| sent.contains(&digest(*number))).collect()
    }

    #[test]
    fn a_request_carries_the_newest_files() {
        assert_eq!(sent(80, 1_000), (0..80).collect::<Vec<_>>());
        assert_eq!(sent(81, 1_000), (41..81).collect::<Vec<_>>());
        // The next cut is many turns away.
        assert_eq!(sent(121, 1_000), (41..121).collect::<Vec<_>>());
        assert_eq!(sent(122, 1_000), (82..122).collect::<Vec<_>>());
        assert_eq!(sent(20, 1 << 20), (0..20).collect::<Vec<_>>());
        assert_eq!(sent(21, 1 << 20), (11..21).collect::<Vec<_>>());
        assert_eq!(sent(3, RESULT_FILES_BYTES_MAX), [2]);
        assert_eq!(sent(3, u64::MAX), [2]);
    }

    #[test]
    fn everything_else_has_no_type() {
        let unknown: [&[u8]; 12] = [
            b"",
            b"\x89PNG",
            b"\xff",
            b"\xff\xfeh\0i\0",
            b"RIFF\x24\0\0\0AVI LIST",
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            b"<html>",
            b"PK\x03\x04",
            b"\0\0\0\x20ftypM4A ",
            b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska",
            b" %PDF-1.7",
            b"hello",
        ];
        for bytes in unknown {
            assert_eq!(media_type(bytes), None, "{bytes:?}");
        }
    }
}
