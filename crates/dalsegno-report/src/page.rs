//! The page: a template, a style, scripts, the module, the archive.

use std::fmt::Write as _;

use dalsegno_core::RunId;
use data_encoding::BASE64;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::seal::Seal;

const TEMPLATE: &str = include_str!("../page/report.html");
const STYLE: &str = include_str!("../page/style.css");
/// One script: what each file declares, the others see.
const SCRIPTS: [&str; 7] = [
    include_str!("../page/core.js"),
    include_str!("../page/dom.js"),
    include_str!("../page/outline.js"),
    include_str!("../page/detail.js"),
    include_str!("../page/edit.js"),
    include_str!("../page/compare.js"),
    include_str!("../page/main.js"),
];

/// The module that pages run, compressed as a browser reads it (raw deflate). `cargo xtask report` makes it.
pub const CORE: &[u8] = include_bytes!("../core.wasm.deflate");

/// The module, as a browser compiles it.
///
/// # Panics
/// When the file in the tree is damaged.
#[must_use]
pub fn module() -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(CORE).expect("the module was compressed when it was built")
}

/// How hard an archive is compressed. A higher level takes several times as long, and saves a few percent.
const LEVEL: u8 = 6;

/// What a page says besides its archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The release that wrote the page.
    pub version: String,
    /// The run that the page opens.
    pub root: RunId,
    /// The run that it is compared with at once.
    pub with: Option<RunId>,
    /// The digests of the engine.
    pub seals: Vec<Seal>,
    /// What a reader has to know of the runs.
    pub notes: Vec<Note>,
}

/// A sentence about a run, or about all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The run.
    pub run: Option<RunId>,
    /// The sentence.
    pub text: String,
}

/// Makes a page of an archive.
#[must_use]
pub fn page(facts: &Facts, archive: &[u8]) -> String {
    let script = SCRIPTS.join("\n");
    // Trusted types make the browser refuse every attempt to turn text into markup.
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}' 'wasm-unsafe-eval'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(&script),
        hash(STYLE)
    );
    let journal = BASE64.encode(&compress_to_vec(archive, LEVEL));
    let core = BASE64.encode(CORE);
    let title = format!("Run {:.8}", facts.root.to_string());
    filled(TEMPLATE, |name| match name {
        "policy" => policy.clone(),
        "version" => facts.version.clone(),
        "title" => title.clone(),
        "style" => STYLE.to_owned(),
        "facts" => embedded(facts),
        "journal" => journal.clone(),
        "core" => core.clone(),
        "script" => script.clone(),
        _ => String::new(),
    })
}

/// Bytes that are no page, or one that was changed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: export it again where it came from")]
pub struct PageError {
    what: &'static str,
}

/// Says whether bytes begin like a page.
#[must_use]
pub fn is_page(bytes: &[u8]) -> bool {
    bytes.starts_with(b"<!doctype html>")
}

/// Reads a page back: what it says, and its archive, of at most so many bytes.
///
/// # Errors
/// When the bytes are no page of this program, or its archive is larger.
pub fn read(page: &[u8], most: usize) -> Result<(Facts, Vec<u8>), PageError> {
    let failed = |what| PageError { what };
    let page = std::str::from_utf8(page).map_err(|_| failed("it is not text"))?;
    let part = |id: &str| {
        let (_, rest) = page.split_once(&format!(" id=\"{id}\">"))?;
        rest.split_once('<').map(|(part, _)| part)
    };
    let facts = part("facts").and_then(|facts| serde_json::from_str(facts).ok());
    let facts = facts.ok_or(failed("it does not say which runs it has"))?;
    let journal = part("journal").ok_or(failed("it has no journal"))?;
    let journal = BASE64.decode(journal.as_bytes()).map_err(|_| failed("its journal is damaged"))?;
    let archive = decompress_to_vec_with_limit(&journal, most)
        .map_err(|_| failed("its journal is damaged, or too large"))?;
    Ok((facts, archive))
}

/// Fills in a template. What is filled in is not looked at again, so that no text can name another field.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(&value(name));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON inside of an element: nothing in it can end the element, or begin a comment.
fn embedded(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(safe, "\\u{:04x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

fn hash(text: &str) -> String {
    BASE64.encode(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_names_no_other_field() {
        let page = filled("a {{x}} b {{y}}", |name| format!("<{name} {{{{y}}}}>"));
        assert_eq!(page, "a <x {{y}}> b <y {{y}}>");
    }

    #[test]
    fn embedded_text_cannot_leave_its_element() {
        let safe = embedded(&"</script><!-- <script> & \u{2028}");
        assert!(!safe.contains(['<', '>', '&', '\u{2028}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), "</script><!-- <script> & \u{2028}");
    }

    #[test]
    fn every_field_of_the_template_is_filled_and_every_value_has_its_place() {
        let facts = Facts {
            version: "9.9.9".into(),
            root: RunId::from_bytes([7; 16]),
            with: None,
            seals: Vec::new(),
            notes: Vec::new(),
        };
        let page = page(&facts, b"archive");
        assert_eq!(read(page.as_bytes(), 7).unwrap(), (facts, b"archive".to_vec()));
        assert!(is_page(page.as_bytes()));
        for (broken, what) in [
            (page.replace("id=\"journal\">", "id=\"journal\">?"), "its journal is damaged"),
            (page.replace("id=\"journal\"", "id=\"x\""), "it has no journal"),
            (page.replace("id=\"facts\"", "id=\"x\""), "it does not say which runs it has"),
        ] {
            assert!(read(broken.as_bytes(), 7).unwrap_err().to_string().contains(what), "{what}");
        }
        assert!(read(page.as_bytes(), 6).unwrap_err().to_string().contains("too large"));
        // The budget: 3 MB beside the journal.
        assert!(page.len() < 3_000_000, "{}", page.len());
        for field in ["policy", "version", "title", "style", "facts", "journal", "core", "script"] {
            assert!(TEMPLATE.contains(&format!("{{{{{field}}}}}")), "{field}");
        }
        assert_eq!(TEMPLATE.matches("{{").count(), 8);
        assert!(page.contains("dalsegno 9.9.9"), "the version");
        // A script of the page that held this would end its element.
        assert_eq!(page.matches("</script>").count(), 4);
        assert_eq!(page.matches("</style>").count(), 1);
    }

    #[test]
    fn no_script_makes_markup_of_text_or_opens_a_connection() {
        for script in SCRIPTS {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
                "fetch(",
                "XMLHttpRequest",
                "WebSocket",
                "setAttribute(\"style\"",
                "localStorage",
                "import(",
            ] {
                assert!(!script.contains(forbidden), "{forbidden}");
            }
        }
    }
}
