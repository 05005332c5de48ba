//! The check of the image: its blobs have the digests that refer to them, and its root file system runs an agent.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use super::CheckResult;
use super::root::{Root, is_super_user};
use crate::image::{USER, WORKSPACE};
use crate::process::file;
use crate::product::Product;
use crate::sha256;

/// Unpacks the layer into a root, as a container engine does, and runs the entry point there as the image's user.
pub(super) fn check(product: &Product, folder: &Path, scratch: &Path) -> anyhow::Result<CheckResult> {
    let name = format!("dalsegno-{}-{}.oci.tar", product.version, product.machine.image);
    let files = unpack(&file(&folder.join(name))?)?;
    let layout: Value = serde_json::from_slice(files.get("oci-layout").context("there is no `oci-layout`")?)?;
    ensure!(layout["imageLayoutVersion"] == "1.0.0", "`oci-layout` has another version: {layout}");
    let index: Value = serde_json::from_slice(files.get("index.json").context("there is no `index.json`")?)?;
    let manifest: Value = serde_json::from_slice(blob(&files, &index["manifests"][0])?)?;
    let configuration: Value = serde_json::from_slice(blob(&files, &manifest["config"])?)?;
    let mut layer = Vec::new();
    GzDecoder::new(blob(&files, &manifest["layers"][0])?).read_to_end(&mut layer)?;
    let expected = format!("sha256:{}", sha256(&layer));
    ensure!(
        configuration["rootfs"]["diff_ids"][0] == expected,
        "the layer is not the one of the configuration"
    );

    let root = match Root::new(scratch.join("root"))? {
        Ok(root) => root,
        Err(why) => return Ok(CheckResult::Skipped(why)),
    };
    let mut archive = tar::Archive::new(layer.as_slice());
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(is_super_user()?);
    archive.unpack(&root.folder)?;

    let container = &configuration["config"];
    let text = |value: &Value| value.as_str().map(str::to_owned).context("the configuration lacks a text");
    ensure!(container["WorkingDir"] == WORKSPACE, "the image starts elsewhere: {container}");
    ensure!(text(&container["User"])? == format!("{USER}:{USER}"), "the image has another user: {container}");
    let home = container["Env"]
        .as_array()
        .and_then(|all| all.iter().find_map(|one| one.as_str()?.strip_prefix("HOME=")));
    let (program, home) = (text(&container["Entrypoint"][0])?, home.context("the image sets no HOME")?);
    let place = root.place(&program, WORKSPACE, home, USER);
    Ok(CheckResult::Passed(place.journey(&product.version)?))
}

/// Reads the files of a tar archive.
fn unpack(archive: &[u8]) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(path, bytes);
    }
    Ok(files)
}

/// Finds the blob of a descriptor, and compares its digest and its size.
fn blob<'f>(files: &'f BTreeMap<String, Vec<u8>>, descriptor: &Value) -> anyhow::Result<&'f [u8]> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.with_context(|| format!("no digest: {descriptor}"))?;
    let blob =
        files.get(&format!("blobs/sha256/{digest}")).with_context(|| format!("there is no blob {digest}"))?;
    ensure!(sha256(blob) == digest, "the blob {digest} has another content");
    ensure!(descriptor["size"] == blob.len(), "the blob {digest} has another size than {descriptor} says");
    Ok(blob)
}
