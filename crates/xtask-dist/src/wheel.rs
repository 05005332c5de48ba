//! The wheel: the binary, where pip puts the scripts of a package.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest as _, Sha256};

use crate::Package;
use crate::archive::{Entry, zip};
use crate::product::{DESCRIPTION, LICENCE, Product, SUMMARY};

/// The oldest Python whose pip knows the tags of these wheels (`manylinux_2_…`, since pip 20.3).
const PYTHON: &str = ">=3.8";

/// Returns the wheel. Its tag names the version of glibc that the binary needs, so that pip refuses it on an older system
/// and on one with musl.
///
/// # Errors
/// A name is not allowed in a ZIP archive.
pub fn package(product: &Product) -> anyhow::Result<Package> {
    let (major, minor) = product.needs.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", product.machine.wheel);
    let base = format!("dalsegno-{}", product.version);
    let info = format!("{base}.dist-info");

    let mut entries = vec![Entry::program(format!("{base}.data/scripts/dalsegno"), product.binary.clone())];
    let licences = product.licences();
    entries.extend(licences.map(|(name, text)| Entry::file(format!("{info}/licenses/{name}"), text)));
    entries.push(Entry::file(format!("{info}/METADATA"), metadata(product)));
    entries.push(Entry::file(format!("{info}/WHEEL"), wheel(&tag)));
    let record = format!("{info}/RECORD");
    let lines: String = entries.iter().map(line).collect();
    entries.push(Entry::file(&record, format!("{lines}{record},,\n")));

    Ok(Package { name: format!("{base}-{tag}.whl"), bytes: zip(&entries, product.seconds)? })
}

/// The description of the package, as indexes read it.
fn metadata(product: &Product) -> String {
    let version = &product.version;
    let files: String = product.licences().map(|(name, _)| format!("License-File: {name}\n")).collect();
    format!(
        "Metadata-Version: 2.4\nName: dalsegno\nVersion: {version}\nSummary: {SUMMARY}\n\
        License-Expression: {LICENCE}\n{files}Requires-Python: {PYTHON}\n\
        Description-Content-Type: text/markdown\n\n{DESCRIPTION}"
    )
}

/// The description of the archive, as pip reads it.
fn wheel(tag: &str) -> String {
    format!("Wheel-Version: 1.0\nGenerator: xtask-dist\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// The line of `RECORD` for a file: path, hash and size.
fn line(entry: &Entry) -> String {
    let bytes = entry.bytes();
    let hash = BASE64URL_NOPAD.encode(&Sha256::digest(bytes));
    format!("{},sha256={hash},{}\n", entry.path, bytes.len())
}
