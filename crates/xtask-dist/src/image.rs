//! The OCI image, as a tar archive of an image layout: no daemon makes it, and `podman load` or `skopeo` reads it.
//!
//! Its root file system holds the binary of the other packages with the dynamic loader and the base libraries of the
//! building machine. A statically linked binary would be another one than the tested one: musl is slower at what a step
//! does most, allocation, and glibc cannot look up names in a static binary.

use serde_json::{Value, json};

use crate::archive::{Entry, gzip, tar};
use crate::product::{LICENCE, Product, SUMMARY};
use crate::{Package, sha256};

/// The number of the user and of the group that the image runs as: the one that distributions give to no account.
pub const USER: u32 = 65532;

/// The folder in which the image starts, for a workspace.
pub const WORKSPACE: &str = "/workspace";

/// The folder of caches and of what the user trusts.
const HOME: &str = "/home/dalsegno";

/// Returns the image.
///
/// # Errors
/// A name is too long for the format.
pub fn package(product: &Product) -> anyhow::Result<Package> {
    let layer = tar(root(product), product.seconds)?;
    let packed = gzip(&layer);
    let configuration = configuration(product, &layer)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &configuration),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &packed)],
        "annotations": {
            "org.opencontainers.image.created": time(product)?,
            "org.opencontainers.image.description": SUMMARY,
            "org.opencontainers.image.licenses": LICENCE,
            "org.opencontainers.image.title": "dalsegno",
            "org.opencontainers.image.version": product.version,
        },
    })
    .to_string()
    .into_bytes();
    let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    listed["platform"] = json!({ "architecture": product.machine.image, "os": "linux" });
    // With the name that `podman load` and `docker load` give to the image.
    let name = format!("dalsegno:{}", product.version);
    listed["annotations"] = json!({
        "org.opencontainers.image.ref.name": product.version,
        "io.containerd.image.name": format!("localhost/{name}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [listed],
    });

    let mut entries = vec![
        Entry::file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string()),
        Entry::file("index.json", index.to_string()),
    ];
    let blobs = [configuration, manifest, packed];
    entries
        .extend(blobs.into_iter().map(|blob| Entry::file(format!("blobs/sha256/{}", sha256(&blob)), blob)));
    let name = format!("dalsegno-{}-{}.oci.tar", product.version, product.machine.image);
    Ok(Package { name, bytes: tar(entries, product.seconds)? })
}

/// The root file system: what the binary needs, and nothing else. It has no shell.
fn root(product: &Product) -> Vec<Entry> {
    let mut entries = product.system.clone();
    entries.push(Entry::program("usr/bin/dalsegno", product.binary.clone()));
    let account = format!("dalsegno:x:{USER}:{USER}::{HOME}:/sbin/nologin\n");
    entries.push(Entry::file("etc/passwd", format!("root:x:0:0::/root:/sbin/nologin\n{account}")));
    entries.push(Entry::file("etc/group", format!("root:x:0:\ndalsegno:x:{USER}:\n")));
    entries.push(Entry::file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"));
    for folder in ["dev", "proc", "sys"] {
        entries.push(Entry::folder(folder, 0o755, 0));
    }
    entries.push(Entry::folder("tmp", 0o1777, 0));
    for folder in [HOME, WORKSPACE] {
        entries.push(Entry::folder(folder.trim_start_matches('/'), 0o700, USER));
    }
    let documents = product.licences();
    entries.extend(documents.map(|(name, text)| Entry::file(format!("usr/share/doc/dalsegno/{name}"), text)));
    entries
}

/// The configuration of a container of this image.
fn configuration(product: &Product, layer: &[u8]) -> anyhow::Result<Vec<u8>> {
    let configuration = json!({
        "created": time(product)?,
        "architecture": product.machine.image,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", format!("HOME={HOME}")],
            "Entrypoint": ["/usr/bin/dalsegno"],
            "WorkingDir": WORKSPACE,
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))] },
        "history": [{ "created": time(product)?, "created_by": "cargo xtask dist" }],
    });
    Ok(configuration.to_string().into_bytes())
}

/// What refers to a blob.
fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(blob)), "size": blob.len() })
}

/// The time of the product, as RFC 3339.
fn time(product: &Product) -> anyhow::Result<String> {
    Ok(jiff::Timestamp::from_second(i64::try_from(product.seconds)?)?.to_string())
}
