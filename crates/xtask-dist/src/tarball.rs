//! The archive for every Linux with glibc: unpack it below `/usr/local`, or anywhere.

use crate::Package;
use crate::archive::{gzip, tar};
use crate::product::Product;

/// Returns the archive. Its one top folder has the folders of a prefix: `bin` and `share`.
///
/// # Errors
/// A name is too long for the format.
pub fn package(product: &Product) -> anyhow::Result<Package> {
    let name = format!("dalsegno-{}-{}", product.version, product.machine.triple);
    let entries = product.below(&name, "site-functions", false);
    let bytes = gzip(&tar(entries, product.seconds)?);
    Ok(Package { name: format!("{name}.tar.gz"), bytes })
}
