//! The packages that users install, made from one binary.
//!
//! [`Product`] is everything that goes into a package, read once. Each format is a pure function of it, so that the
//! same product gives the same bytes: entries are sorted, belong to user 0, and have the time of the product. [`gather`]
//! builds the binary and reads the rest; [`check`] installs what was made in clean places.
#![expect(clippy::print_stderr, reason = "a command line tool says there what takes it so long")]

pub mod archive;
pub mod check;
pub mod debian;
pub mod elf;
pub mod gather;
pub mod image;
pub mod npm;
pub mod process;
pub mod product;
pub mod sbom;
pub mod tarball;
pub mod wheel;

use anyhow::Context as _;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

pub use crate::product::Product;
use crate::sbom::Library;

/// A package: the name of its file, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name of the file, without a folder.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// The name of the file that lists the checksums of all packages, as `sha256sum --check` reads it.
pub const SUMS: &str = "SHA256SUMS";

/// Returns every package of the product, then the list of their checksums.
///
/// # Errors
/// The binary needs a library that not every system has, or an archive refuses a name.
pub fn packages(product: &Product, libraries: &[Library]) -> anyhow::Result<Vec<Package>> {
    let mut packages = vec![
        tarball::package(product)?,
        wheel::package(product).context("cannot make the wheel")?,
        npm::launcher(product)?,
        npm::platform(product)?,
        debian::package(product).context("cannot make the Debian package")?,
        image::package(product)?,
        sbom::package(product, libraries)?,
    ];
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    let sums = packages.iter().map(|package| format!("{}  {}\n", sha256(&package.bytes), package.name));
    let sums = Package { name: SUMS.to_owned(), bytes: sums.collect::<String>().into_bytes() };
    packages.push(sums);
    Ok(packages)
}

/// Returns the SHA-256 of some bytes in lower-case hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
