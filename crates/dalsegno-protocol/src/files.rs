//! Files in a result: images, PDFs, sound and videos that a model may read.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dalsegno_core::{RESULT_FILES_BYTES_MAX, RESULT_FILES_MAX, media_type};
use rmcp::model::{ContentBlock, ResourceContents};

use crate::content::size;

/// Servers pad or do not; nothing else may differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Most characters of a file's name.
const NAME_MAX: usize = 80;

/// A type that says nothing.
const ANYTHING: &str = "application/octet-stream";

/// A file that a tool returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFile {
    /// Its name: of letters, digits, `.`, `_` and `-`, another one for each file of a result.
    pub name: String,
    /// Its media type, told by its bytes.
    pub media_type: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The files of one result, within the limits of one, and why others are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultFiles {
    files: Vec<ResultFile>,
    bytes: u64,
    names: BTreeSet<String>,
    refused: Vec<String>,
}

impl ResultFiles {
    /// The files, in the order of the result.
    pub fn files(&self) -> &[ResultFile] {
        &self.files
    }

    /// What was left out: one line each, with the reason.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The files and what was left out.
    pub fn into_parts(self) -> (Vec<ResultFile>, Vec<String>) {
        (self.files, self.refused)
    }

    /// Takes a file, by its bytes alone: `claimed` is what its sender says of its type, and must be of the same kind.
    pub fn add(&mut self, name: Option<&str>, claimed: Option<&str>, bytes: Vec<u8>) {
        let size = bytes.len() as u64;
        self.take(name, claimed, size, || Some(bytes));
    }

    /// Takes what a block of a result holds, if that is a file.
    pub(crate) fn add_block(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Image(image) => self.add_base64(None, Some(&image.mime_type), &image.data),
            ContentBlock::Audio(audio) => self.add_base64(None, Some(&audio.mime_type), &audio.data),
            ContentBlock::Resource(resource) => self.add_resource(&resource.resource),
            _ => {}
        }
    }

    /// Takes what a resource holds, if that is a file.
    pub(crate) fn add_resource(&mut self, contents: &ResourceContents) {
        if let ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } = contents {
            // Binary content of other types was never for a model.
            let claimed = mime_type.as_deref().unwrap_or(ANYTHING);
            if kind(claimed).is_some() || essence(claimed) == ANYTHING {
                self.add_base64(uri.rsplit('/').next(), Some(claimed), blob);
            }
        }
    }

    fn add_base64(&mut self, name: Option<&str>, claimed: Option<&str>, base64: &str) {
        self.take(name, claimed, size(base64) as u64, || {
            let is_blank = |byte: u8| byte.is_ascii_whitespace();
            if !base64.bytes().any(is_blank) {
                return BASE64.decode(base64).ok();
            }
            let text: Vec<u8> = base64.bytes().filter(|byte| !is_blank(*byte)).collect();
            BASE64.decode(text).ok()
        });
    }

    /// Takes a file of about this size, which is read only where there is room for it.
    fn take(
        &mut self,
        name: Option<&str>,
        claimed: Option<&str>,
        size: u64,
        read: impl FnOnce() -> Option<Vec<u8>>,
    ) {
        let claimed = claimed.map_or(ANYTHING, essence);
        let left = RESULT_FILES_BYTES_MAX - self.bytes;
        let refused = if self.files.len() >= RESULT_FILES_MAX {
            // One line says it for all.
            if self.refused.iter().any(|line| line.contains(MORE)) {
                return;
            }
            format!("{MORE}{RESULT_FILES_MAX}")
        } else if size > left {
            format!("the files of a result have at most {} MiB together", RESULT_FILES_BYTES_MAX >> 20)
        } else {
            match read().map(|bytes| (media_type(&bytes), bytes)) {
                None => "it is not base64".to_owned(),
                Some((Some(media_type), bytes)) if agrees(claimed, media_type) => {
                    self.bytes += bytes.len() as u64;
                    let name = self.name(name, media_type);
                    return self.files.push(ResultFile { name, media_type, bytes });
                }
                // It was not said to be for a model.
                Some(_) if claimed == ANYTHING => return,
                Some((Some(other), _)) => format!("its bytes are `{other}`"),
                Some((None, _)) => "its bytes are none that a model reads under this type".to_owned(),
            }
        };
        let claimed: String = claimed.chars().filter(|letter| !letter.is_control()).take(NAME_MAX).collect();
        self.refused.push(format!("[{claimed}, {size} bytes, is not passed on: {refused}]"));
    }

    /// A name that no other file of the result has.
    fn name(&mut self, name: Option<&str>, media_type: &str) -> String {
        let fits = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
        let name: String = name.unwrap_or_default().chars().filter(fits).take(NAME_MAX).collect();
        let name = name.trim_start_matches(['.', '-']);
        let (kind, form) = media_type.split_once('/').unwrap_or((media_type, ""));
        let (stem, ending) = match name.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() && !ending.is_empty() => (stem, ending),
            _ if !name.is_empty() => (name, ""),
            _ if kind == "application" => ("document", form),
            _ => (kind, form),
        };
        let numbered = (1..).map(|number| {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let dot = if ending.is_empty() { "" } else { "." };
            format!("{stem}{number}{dot}{ending}")
        });
        let mut free = numbered.skip_while(|name| self.names.contains(name));
        let name = free.next().unwrap_or_default();
        self.names.insert(name.clone());
        name
    }
}

/// How the line begins that says that there are too many files.
const MORE: &str = "a result has at most this many files: ";

/// A media type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or(media_type).trim()
}

/// What a model reads by this type: an image, a PDF, sound or a video.
fn kind(media_type: &str) -> Option<&'static str> {
    let essence = essence(media_type);
    if essence.eq_ignore_ascii_case("application/pdf") {
        return Some("application/pdf");
    }
    let (kind, _) = essence.split_once('/')?;
    ["image", "audio", "video"].into_iter().find(|known| kind.eq_ignore_ascii_case(known))
}

/// Says whether bytes of this type are what their sender says they are. Sound begins with two bytes that may be anything, so it
/// must be called sound.
fn agrees(claimed: &str, found: &str) -> bool {
    match kind(claimed) {
        Some(claimed) => kind(found) == Some(claimed),
        None => claimed == ANYTHING && matches!(kind(found), Some("image" | "application/pdf")),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const PDF: &[u8] = b"%PDF-1.7\n";
    const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";

    fn image(bytes: &[u8], media_type: &str) -> ContentBlock {
        ContentBlock::image(STANDARD.encode(bytes), media_type)
    }

    fn blob(uri: &str, media_type: Option<&str>, bytes: &[u8]) -> ResourceContents {
        let mut contents = ResourceContents::blob(STANDARD.encode(bytes), uri);
        if let ResourceContents::BlobResourceContents { mime_type, .. } = &mut contents {
            *mime_type = media_type.map(str::to_owned);
        }
        contents
    }

    fn names(files: &ResultFiles) -> Vec<(&str, &str)> {
        files.files().iter().map(|file| (file.name.as_str(), file.media_type)).collect()
    }

    #[test]
    fn files_are_taken_by_their_bytes() {
        let mut files = ResultFiles::default();
        files.add_block(&image(PNG, "image/png"));
        files.add_block(&image(PNG, "IMAGE/jpeg; q=1"));
        files.add_resource(&blob("file:///a/b/report.pdf", Some("application/pdf"), PDF));
        files.add_resource(&blob("file:///a/b/report.pdf", None, PDF));
        files.add_resource(&blob("x://shots/%2e%2e/..", None, PNG));
        files.add(Some("beep.wav"), Some("audio/x-wav"), WAV.to_vec());
        files.add_block(&ContentBlock::text("nothing"));
        assert_eq!(
            names(&files),
            [
                ("image.png", "image/png"),
                ("image-2.png", "image/png"),
                ("report.pdf", "application/pdf"),
                ("report-2.pdf", "application/pdf"),
                ("image-3.png", "image/png"),
                ("beep.wav", "audio/wav"),
            ]
        );
        assert_eq!(files.files()[0].bytes, PNG);
        assert!(files.refused().is_empty(), "{:?}", files.refused());
    }

    #[test]
    fn base64_may_be_broken_into_lines_and_need_no_padding() {
        let plain = STANDARD.encode(b"\x89PNG\r\n\x1a\n1");
        let (start, end) = plain.trim_end_matches('=').split_at(5);
        for text in [plain.clone(), format!("{start}\r\n{end}"), format!(" {start}{end}\n")] {
            let mut files = ResultFiles::default();
            files.add_block(&ContentBlock::image(text, "image/png"));
            assert_eq!(files.files()[0].bytes, b"\x89PNG\r\n\x1a\n1");
        }
    }

    #[test]
    fn what_is_not_what_it_says_is_left_out_with_the_reason() {
        let reason = |block: ContentBlock| {
            let mut files = ResultFiles::default();
            files.add_block(&block);
            assert!(files.files().is_empty());
            files.into_parts().1.join("; ")
        };
        assert!(
            reason(image(b"<svg/>", "image/svg+xml")).contains("image/svg+xml, 6 bytes, is not passed on")
        );
        assert!(reason(image(PDF, "image/png")).contains("its bytes are `application/pdf`"));
        assert!(reason(ContentBlock::image("%%%", "image/png")).contains("it is not base64"));
        assert!(reason(image(b"", "image/png")).contains("0 bytes"));
        // The first bytes of such sound are too common to be believed alone.
        let mut files = ResultFiles::default();
        files.add_resource(&blob("a", None, b"\xff\xfb\x90\x64"));
        files.add_resource(&blob("b.zip", Some("application/zip"), b"PK\x03\x04"));
        files.add_resource(&blob("c", None, b"PK\x03\x04"));
        assert_eq!(files, ResultFiles::default());
    }

    #[test]
    fn what_a_result_holds_is_bounded() {
        let mut files = ResultFiles::default();
        for _ in 0..100 {
            files.add_block(&image(PNG, "image/png"));
        }
        assert_eq!((files.files().len(), files.refused().len()), (RESULT_FILES_MAX, 1));
        assert!(files.refused()[0].contains("at most this many files: 16"), "{:?}", files.refused());

        let mut files = ResultFiles::default();
        let half = usize::try_from(RESULT_FILES_BYTES_MAX / 2).unwrap() + 1;
        let mut large = PNG.to_vec();
        large.resize(half, 0);
        files.add(None, Some("image/png"), large.clone());
        files.add(None, Some("image/png"), large);
        files.add(None, Some("image/png"), PNG.to_vec());
        assert_eq!((files.files().len(), files.refused().len()), (2, 1));
        assert!(files.refused()[0].contains("at most 20 MiB together"), "{:?}", files.refused());
        // What is too large is not even decoded: this is no base64.
        let mut files = ResultFiles::default();
        files.add_block(&ContentBlock::image("%".repeat(28 << 20), "image/png"));
        assert!(files.refused()[0].contains("at most 20 MiB together"), "{:?}", files.refused());
    }

    #[test]
    fn a_hostile_type_is_short_and_harmless() {
        let mut files = ResultFiles::default();
        files.add_block(&image(b"x", &format!("image/\x1b[31m\n{}", "x".repeat(10_000))));
        let line = &files.refused()[0];
        assert!(line.len() < 300 && !line.contains(['\x1b', '\n']), "{line}");
    }
}
