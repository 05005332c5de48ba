//! The Debian package: an `ar` archive of a description and of the files.

use anyhow::ensure;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

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
    // Debian's policy asks for these two.
    entries.push(Entry::file("usr/share/doc/dalsegno/copyright", copyright(product)));
    entries.push(Entry::file("usr/share/doc/dalsegno/changelog.gz", gzip(changelog(product)?.as_bytes())));
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

/// The licences in one file. Every Debian has the text of the Apache licence.
fn copyright(product: &Product) -> Vec<u8> {
    let is_here = |name: &str| name != NOTICES && name != "LICENSE-APACHE";
    let mut texts: Vec<&[u8]> =
        product.licences().filter(|(name, _)| is_here(name)).map(|(_, text)| text).collect();
    let more = format!(
        "The Apache License, Version 2.0, is in `/usr/share/common-licenses/Apache-2.0`. The licences of the\n\
        libraries in the binary are in `{NOTICES}`, beside this file.\n"
    );
    texts.push(more.as_bytes());
    texts.join(&b"\n----\n\n"[..])
}

/// The change log in Debian's form: it says where the real one is.
fn changelog(product: &Product) -> anyhow::Result<String> {
    let Product { version, maintainer, .. } = product;
    let time = Timestamp::from_second(i64::try_from(product.seconds)?)?.to_zoned(TimeZone::UTC);
    let time = rfc2822::to_string(&time)?;
    Ok(format!(
        "dalsegno ({version}) unstable; urgency=medium\n\n  * `CHANGELOG.md`, beside this file, has the changes.\n\n \
        -- {maintainer}  {time}\n"
    ))
}
