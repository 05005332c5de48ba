//! The two packages of npm: a launcher, and the binary for one kind of machine.
//!
//! npm installs only the optional dependency whose `os`, `cpu` and `libc` fit. No script runs at installation.

use serde_json::{Value, json};

use crate::Package;
use crate::archive::{Entry, gzip, tar};
use crate::product::{DESCRIPTION, LICENCE, Product, SUMMARY};

/// The script that starts the binary.
const LAUNCHER: &str = include_str!("launcher.js");

/// Returns the name of the package with the binary.
#[must_use]
pub fn platform_name(product: &Product) -> String {
    format!("dalsegno-linux-{}", product.machine.npm)
}

/// Returns the package `dalsegno`, which people install.
///
/// # Errors
/// A name is too long for the format.
pub fn launcher(product: &Product) -> anyhow::Result<Package> {
    let mut manifest = manifest(product, "dalsegno", SUMMARY);
    manifest["bin"] = json!({ "dalsegno": "bin/dalsegno.js" });
    manifest["engines"] = json!({ "node": ">=18" });
    manifest["optionalDependencies"] = json!({ platform_name(product): product.version });
    pack(product, "dalsegno", &manifest, Entry::program("bin/dalsegno.js", LAUNCHER))
}

/// Returns the package with the binary, such as `dalsegno-linux-x64`.
///
/// # Errors
/// A name is too long for the format.
pub fn platform(product: &Product) -> anyhow::Result<Package> {
    let name = platform_name(product);
    let summary = format!("The binary of dalsegno for Linux on {}", product.machine.npm);
    let mut manifest = manifest(product, &name, &summary);
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([product.machine.npm]);
    manifest["libc"] = json!(["glibc"]);
    let (major, minor) = product.needs.glibc;
    manifest["glibc"] = json!(format!("{major}.{minor}"));
    pack(product, &name, &manifest, Entry::program("bin/dalsegno", product.binary.clone()))
}

/// What both manifests have.
fn manifest(product: &Product, name: &str, summary: &str) -> Value {
    json!({ "name": name, "version": product.version, "description": summary, "license": LICENCE })
}

/// Packs a program with its manifest.
fn pack(product: &Product, name: &str, manifest: &Value, program: Entry) -> anyhow::Result<Package> {
    let mut entries = vec![
        program,
        Entry::file("package.json", format!("{manifest:#}\n")),
        Entry::file("README.md", format!("# {name}\n\n{DESCRIPTION}")),
    ];
    entries.extend(product.licences().map(|(name, text)| Entry::file(name, text)));
    for entry in &mut entries {
        entry.path.insert_str(0, "package/");
    }
    let bytes = gzip(&tar(entries, product.seconds)?);
    Ok(Package { name: format!("{name}-{}.tgz", product.version), bytes })
}
