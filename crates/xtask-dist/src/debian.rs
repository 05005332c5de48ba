//! The Debian package: an `ar` archive of a description and of the files.

use anyhow::ensure;

use crate::Package;
use crate::archive::{Entry, ar, gzip, tar};
use crate::product::{DESCRIPTION, Product, SUMMARY};
use crate::sbom::NOTICES;

/// Returns the package. It depends on the versions of glibc and libgcc that the binary needs.
///
/// # Errors
/// The maintainer is more than one line, or a name is too long for the format.
pub fn package(product: &Product) -> anyhow::Result<Package> {
    let mut entries = product.below("usr", "vendor-completions", true);
    // Debian's policy asks for this name.
    entries.push(Entry::file("usr/share/doc/dalsegno/copyright", copyright(product)));
    let size = entries.iter().map(|entry| (entry.bytes().len() as u64).div_ceil(1024)).sum();
    let control = vec![Entry::file("control", control(product, size)?)];

    let members = [
        Entry::file("debian-binary", "2.0\n"),
        Entry::file("control.tar.gz", gzip(&tar(control, product.seconds)?)),
        Entry::file("data.tar.gz", gzip(&tar(entries, product.seconds)?)),
    ];
    let name = format!("dalsegno_{}_{}.deb", product.version, product.machine.debian);
    Ok(Package { name, bytes: ar(&members, product.seconds)? })
}

/// The fields that `dpkg` reads. `size` is that of the installed files in KiB.
fn control(product: &Product, size: u64) -> anyhow::Result<String> {
    let maintainer = &product.maintainer;
    ensure!(
        !maintainer.contains(['\n', '\r']),
        "the maintainer is more than one line: set DEBFULLNAME and DEBEMAIL"
    );
    let (major, minor) = product.needs.glibc;
    let mut depends = format!("libc6 (>= {major}.{minor})");
    if let Some((major, minor)) = product.needs.libgcc {
        depends += &format!(", libgcc-s1 (>= {major}.{minor})");
    }
    Ok(format!(
        "Package: dalsegno\nVersion: {}\nArchitecture: {}\nMaintainer: {maintainer}\nInstalled-Size: {size}\n\
        Depends: {depends}\nRecommends: ca-certificates\nSection: utils\nPriority: optional\n\
        Description: {SUMMARY}\n{}",
        product.version,
        product.machine.debian,
        extended(DESCRIPTION)
    ))
}

/// A text as the further lines of a field: each begins with a space, and an empty one is a point.
fn extended(text: &str) -> String {
    let lines = text.trim_end().lines();
    lines.map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

/// The licences in one file.
fn copyright(product: &Product) -> Vec<u8> {
    let texts = product.licences().filter(|(name, _)| *name != NOTICES).map(|(_, text)| text);
    let mut texts: Vec<&[u8]> = texts.collect();
    let more = format!("The licences of the libraries in the binary are in `{NOTICES}`, beside this file.\n");
    texts.push(more.as_bytes());
    texts.join(&b"\n----\n\n"[..])
}
