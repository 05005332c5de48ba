//! Installs each package in a clean place, and runs an agent there.
//!
//! A place has nothing of the checkout: a new virtual environment without an index, an empty npm project without a
//! network, a root file system with only the base libraries, or a new Debian.

mod formats;
mod image;
mod place;
mod root;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::process::file;
use crate::product::Product;
use crate::{SUMS, gather, sha256};

/// What came of a check.
#[derive(Debug)]
pub enum CheckResult {
    /// The package works; lines for the report.
    Passed(Vec<String>),
    /// The package was not checked, for this reason.
    Skipped(String),
}

/// A check of one package.
type Check = fn(&Product, &Path, &Path) -> anyhow::Result<CheckResult>;

/// Checks every package in the folder, and returns the report. `is_built` says that the binary was built for packages, and
/// so must not name a folder of this machine.
///
/// # Errors
/// A package is damaged or does not work; the message names each that does not.
pub fn run(product: &Product, folder: &Path, is_built: bool) -> anyhow::Result<String> {
    let mut report = sizes(folder)?;
    report.push(format!("{:>9} the binary itself", megabytes(product.binary.len())));
    if is_built {
        leaks(&product.binary)?;
    }
    let checks: [(&str, Check); 5] = [
        ("tar.gz", formats::tarball),
        ("wheel", formats::wheel),
        ("npm", formats::npm),
        ("deb", formats::debian),
        ("image", image::check),
    ];
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for (name, check) in checks {
        eprintln!("checking {name} …");
        let scratch = tempfile::tempdir().context("cannot make a folder for the check")?;
        match check(product, folder, scratch.path()) {
            Ok(CheckResult::Passed(lines)) => {
                report.push(format!("{name}: works"));
                report.extend(lines.into_iter().map(|line| format!("  {line}")));
            }
            Ok(CheckResult::Skipped(why)) => {
                report.push(format!("{name}: NOT CHECKED: {why}"));
                skipped.push(name);
            }
            Err(error) => {
                report.push(format!("{name}: FAILED: {error:#}"));
                failed.push(name);
            }
        }
    }
    let report = report.join("\n");
    ensure!(failed.is_empty(), "{report}\nthese packages do not work: {}", failed.join(", "));
    Ok(match skipped.as_slice() {
        [] => report,
        _ => format!("{report}\nnot checked: {}", skipped.join(", ")),
    })
}

/// Compares every package with its checksum, and returns their sizes.
fn sizes(folder: &Path) -> anyhow::Result<Vec<String>> {
    let sums = file(&folder.join(SUMS)).context("there are no packages: run `cargo xtask dist`")?;
    let mut lines = Vec::new();
    for line in String::from_utf8(sums)?.lines() {
        let (sum, name) = line.split_once("  ").with_context(|| format!("`{SUMS}` has a line `{line}`"))?;
        let bytes = file(&folder.join(name))?;
        ensure!(
            sha256(&bytes) == sum,
            "`{name}` was changed after it was made: run `cargo xtask dist` again"
        );
        lines.push(format!("{:>9} {name}", megabytes(bytes.len())));
    }
    Ok(lines)
}

/// Makes sure that the binary names no folder of this machine.
fn leaks(binary: &[u8]) -> anyhow::Result<()> {
    for (folder, _) in gather::folders() {
        let name = folder.to_string_lossy().into_owned();
        let is_named = binary.windows(name.len()).any(|window| window == name.as_bytes());
        ensure!(!is_named, "the binary names `{name}`, a folder of this machine");
    }
    Ok(())
}

/// A size in megabytes.
fn megabytes(bytes: usize) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

/// Writes a file below a folder, and makes the folders above it.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let parent = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write `{}`", path.display()))
}
