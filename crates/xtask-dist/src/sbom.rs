//! What is in the binary: a bill of materials for programs, and the licences for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::product::{LICENCE, Product};
use crate::{Package, sha256};

/// The name of the document with the licences of all libraries.
pub const NOTICES: &str = "THIRD-PARTY-LICENSES.txt";

/// A library that is linked into the binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// SHA-256 of its package; without one it is a part of this repository.
    pub checksum: Option<String>,
    /// The libraries that it depends on, as names and versions.
    pub dependencies: Vec<(String, String)>,
    /// Code in another language that its package contains, as a name and a version.
    pub contains: Option<(String, String)>,
    /// The texts of its licences, by file name.
    pub texts: BTreeMap<String, String>,
}

impl Library {
    /// What identifies it: for a library of the registry, its package URL.
    fn reference(name: &str, version: &str) -> String {
        format!("pkg:cargo/{name}@{version}")
    }
}

/// Returns the bill of materials, in CycloneDX 1.5 as JSON.
///
/// # Errors
/// The time of the product is out of range.
pub fn package(product: &Product, libraries: &[Library]) -> anyhow::Result<Package> {
    let name = format!("dalsegno-{}-{}.cdx.json", product.version, product.machine.triple);
    let text = format!("{:#}\n", document(product, libraries)?);
    Ok(Package { name, bytes: text.into_bytes() })
}

/// The bill of materials. It has no serial number: that would differ each time.
fn document(product: &Product, libraries: &[Library]) -> anyhow::Result<Value> {
    let time = jiff::Timestamp::from_second(i64::try_from(product.seconds)?)?.to_string();
    let command = "dalsegno-cli";
    let (own, rest): (Vec<_>, Vec<_>) = libraries.iter().partition(|library| library.name == command);
    let mut dependencies: Vec<Value> = rest.iter().map(|library| edges(library)).collect();
    dependencies.extend(
        own.iter().map(|library| json!({ "ref": "dalsegno", "dependsOn": edges(library)["dependsOn"] })),
    );
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "tools": { "components": [{ "type": "application", "name": "xtask-dist", "version": product.version }] },
            "component": {
                "type": "application",
                "bom-ref": "dalsegno",
                "name": "dalsegno",
                "version": product.version,
                "licenses": [{ "expression": LICENCE }],
                "hashes": [{ "alg": "SHA-256", "content": sha256(&product.binary) }],
            },
        },
        "components": rest.iter().map(|library| component(library)).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// A library as a component.
fn component(library: &Library) -> Value {
    let Library { name, version, licence, .. } = library;
    let reference = Library::reference(name, version);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "licenses": [{ "expression": licence }],
    });
    if let Some(checksum) = &library.checksum {
        component["purl"] = json!(reference);
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some((inner, version)) = &library.contains {
        let inner = json!({
            "type": "library",
            "bom-ref": format!("{reference}#{inner}"),
            "name": inner,
            "version": version,
            "purl": format!("pkg:generic/{inner}@{version}"),
        });
        component["components"] = json!([inner]);
    }
    component
}

/// What a library depends on.
fn edges(library: &Library) -> Value {
    let on = library.dependencies.iter().map(|(name, version)| Library::reference(name, version));
    json!({ "ref": Library::reference(&library.name, &library.version), "dependsOn": on.collect::<Vec<_>>() })
}

/// Returns the licences of all libraries that are not a part of this repository. A text that several libraries have in
/// common is there once.
#[must_use]
pub fn notices(libraries: &[Library]) -> String {
    let foreign = || libraries.iter().filter(|library| library.checksum.is_some());
    let mut text = "The binary contains these libraries. Their licences follow.\n\n".to_owned();
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for library in foreign() {
        let Library { name, version, licence, .. } = library;
        writeln!(text, "{name} {version}: {licence}").expect("a text takes every line");
        for (file, content) in &library.texts {
            texts.entry(content.trim()).or_default().push(format!("{name} {version}, {file}"));
        }
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(content, users)| (users, content)).collect();
    texts.sort();
    for (users, content) in texts {
        let line = "-".repeat(80);
        write!(text, "\n{line}\n{}\n\n{content}\n", users.join("\n")).expect("a text takes every line");
    }
    text
}
