//! Every package of a small product: its layout, its fields, its hashes, and the same bytes each time.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::io::Read as _;

use data_encoding::BASE64URL_NOPAD;
use flate2::read::{DeflateDecoder, GzDecoder};
use rawzip::ZipArchive;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use xtask_dist::archive::Entry;
use xtask_dist::elf::Needs;
use xtask_dist::product::{Machine, Product, Shell};
use xtask_dist::sbom::{Library, NOTICES, notices};
use xtask_dist::{Package, SUMS, debian, image, npm, packages, sbom, sha256, tarball, wheel};

/// The time of the product, 2024-01-02 03:04:05 UTC.
const SECONDS: u64 = 1_704_164_645;

const BINARY: &[u8] = b"a binary";

fn product() -> Product {
    let documents = [
        ("README.md", "# Dalsegno\n"),
        ("LICENSE", "MIT or Apache 2.0\n"),
        ("LICENSE-MIT", "the MIT licence\n"),
        (NOTICES, "the licences of others\n"),
    ];
    Product {
        version: "1.2.3".to_owned(),
        machine: Machine::of("x86_64-unknown-linux-gnu").unwrap(),
        seconds: SECONDS,
        binary: BINARY.to_vec(),
        needs: Needs {
            loader: "/lib64/ld-linux-x86-64.so.2".to_owned(),
            libraries: vec!["libc.so.6".to_owned(), "libgcc_s.so.1".to_owned()],
            glibc: (2, 34),
            libgcc: Some((4, 2)),
        },
        manuals: BTreeMap::from([("dalsegno.1".to_owned(), b".TH dalsegno 1\n".to_vec())]),
        completions: Shell::ALL.map(|shell| (shell, shell.name().as_bytes().to_vec())).into(),
        documents: documents.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into(),
        system: vec![
            Entry::program("lib64/ld-linux-x86-64.so.2", "the loader"),
            Entry::program("lib/x86_64-linux-gnu/libc.so.6", "glibc"),
        ],
        maintainer: "Ada <ada@example.org>".to_owned(),
    }
}

fn library(name: &str, version: &str, checksum: Option<&str>, dependencies: &[(&str, &str)]) -> Library {
    let text = |text: &str| text.to_owned();
    Library {
        name: text(name),
        version: text(version),
        licence: "MIT".to_owned(),
        checksum: checksum.map(text),
        dependencies: dependencies.iter().map(|(name, version)| (text(name), text(version))).collect(),
        contains: None,
        texts: BTreeMap::new(),
    }
}

fn libraries() -> Vec<Library> {
    let licence = BTreeMap::from([("LICENSE".to_owned(), "Do as you like.\n".to_owned())]);
    let sqlite = library("libsqlite3-sys", "0.35.0", Some("cd"), &[]);
    vec![
        library("dalsegno-cli", "1.2.3", None, &[("dalsegno-store", "1.2.3"), ("serde", "1.0.2")]),
        library("dalsegno-store", "1.2.3", None, &[("libsqlite3-sys", "0.35.0")]),
        Library {
            contains: Some(("sqlite".to_owned(), "3.50.2".to_owned())),
            texts: licence.clone(),
            ..sqlite
        },
        Library { texts: licence, ..library("serde", "1.0.2", Some("ab"), &[]) },
    ]
}

/// One entry of a tar archive: its mode, owner, time and content.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    mode: u32,
    owner: u64,
    seconds: u64,
    bytes: Vec<u8>,
}

/// Reads a tar archive in its order.
fn entries(archive: &[u8]) -> Vec<(String, Read)> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let header = entry.header();
        let owner = header.uid().unwrap();
        assert_eq!(owner, header.gid().unwrap(), "{path}");
        let read = Read { mode: header.mode().unwrap(), owner, seconds: header.mtime().unwrap(), bytes };
        (path, read)
    };
    archive.entries().unwrap().map(read).collect()
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Reads a compressed tar archive by its paths.
fn files(package: &[u8]) -> BTreeMap<String, Read> {
    entries(&unpacked(package)).into_iter().collect()
}

/// The mode and content of a file of an archive.
fn file<'f>(files: &'f BTreeMap<String, Read>, path: &str) -> (u32, &'f str) {
    let found = files.get(path).unwrap_or_else(|| panic!("there is no `{path}`: {:?}", files.keys()));
    (found.mode, std::str::from_utf8(&found.bytes).unwrap())
}

#[test]
fn the_same_product_gives_the_same_bytes() {
    assert_eq!(packages(&product(), &libraries()).unwrap(), packages(&product(), &libraries()).unwrap());
}

#[test]
fn the_list_of_checksums_has_every_package() {
    let mut made = packages(&product(), &libraries()).unwrap();
    let sums = made.pop().unwrap();
    assert_eq!(sums.name, SUMS);
    let names: Vec<&str> = made.iter().map(|package| package.name.as_str()).collect();
    let expected = [
        "dalsegno-1.2.3-amd64.oci.tar",
        "dalsegno-1.2.3-py3-none-manylinux_2_34_x86_64.whl",
        "dalsegno-1.2.3-x86_64-unknown-linux-gnu.cdx.json",
        "dalsegno-1.2.3-x86_64-unknown-linux-gnu.tar.gz",
        "dalsegno-1.2.3.tgz",
        "dalsegno-linux-x64-1.2.3.tgz",
        "dalsegno_1.2.3_amd64.deb",
    ];
    assert_eq!(names, expected);
    let line = |package: &Package| format!("{}  {}\n", sha256(&package.bytes), package.name);
    assert_eq!(String::from_utf8(sums.bytes).unwrap(), made.iter().map(line).collect::<String>());
}

#[test]
fn a_checksum_is_the_one_that_sha256sum_prints() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn entries_are_sorted_and_have_one_owner_and_one_time() {
    let package = tarball::package(&product()).unwrap();
    let entries = entries(&unpacked(&package.bytes));
    assert!(entries.is_sorted_by_key(|(path, _)| path.trim_end_matches('/').to_owned()));
    for (path, entry) in &entries {
        assert_eq!((entry.owner, entry.seconds), (0, SECONDS), "{path}");
    }
    // No name and no time in the head of the compressed stream, either.
    assert_eq!(package.bytes[3..8], [0; 5]);
}

#[test]
fn the_archive_has_the_folders_of_a_prefix() {
    let package = tarball::package(&product()).unwrap();
    assert_eq!(package.name, "dalsegno-1.2.3-x86_64-unknown-linux-gnu.tar.gz");
    let files = files(&package.bytes);
    let top = "dalsegno-1.2.3-x86_64-unknown-linux-gnu";
    assert_eq!(file(&files, &format!("{top}/bin/dalsegno")), (0o755, "a binary"));
    assert_eq!(file(&files, &format!("{top}/share/man/man1/dalsegno.1")), (0o644, ".TH dalsegno 1\n"));
    assert_eq!(file(&files, &format!("{top}/share/doc/dalsegno/LICENSE-MIT")).1, "the MIT licence\n");
    let completions = [
        ("bash-completion/completions/dalsegno", "bash"),
        ("fish/vendor_completions.d/dalsegno.fish", "fish"),
        ("zsh/site-functions/_dalsegno", "zsh"),
    ];
    for (path, script) in completions {
        assert_eq!(file(&files, &format!("{top}/share/{path}")), (0o644, script));
    }
    assert_eq!(files[&format!("{top}/bin/")].mode, 0o755);
}

/// The files of a ZIP archive with their permissions, in its order.
fn zipped(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let archive = ZipArchive::from_slice(archive).unwrap();
    let mut entries = archive.entries();
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().unwrap() {
        let local = archive.get_entry(entry.wayfinder()).unwrap();
        let mut bytes = Vec::new();
        local.verifying_reader(DeflateDecoder::new(local.data())).read_to_end(&mut bytes).unwrap();
        let path = String::from_utf8(entry.file_path().as_ref().to_vec()).unwrap();
        found.push((path, entry.mode().permissions(), bytes));
    }
    found
}

#[test]
fn a_wheel_records_the_hash_and_the_size_of_every_file() {
    let package = wheel::package(&product()).unwrap();
    let files = zipped(&package.bytes);
    let (path, _, record) = files.last().unwrap();
    assert_eq!(path, "dalsegno-1.2.3.dist-info/RECORD");
    let mut expected = String::new();
    for (path, _, bytes) in &files[..files.len() - 1] {
        let hash = BASE64URL_NOPAD.encode(&Sha256::digest(bytes));
        expected += &format!("{path},sha256={hash},{}\n", bytes.len());
    }
    expected += "dalsegno-1.2.3.dist-info/RECORD,,\n";
    assert_eq!(std::str::from_utf8(record).unwrap(), expected);
}

#[test]
fn a_wheel_puts_the_binary_among_the_scripts_and_names_its_glibc() {
    let package = wheel::package(&product()).unwrap();
    assert_eq!(package.name, "dalsegno-1.2.3-py3-none-manylinux_2_34_x86_64.whl");
    let files = zipped(&package.bytes);
    let find = |path: &str| files.iter().find(|(name, ..)| name == path).unwrap();
    let (_, mode, bytes) = find("dalsegno-1.2.3.data/scripts/dalsegno");
    assert_eq!((mode & 0o777, bytes.as_slice()), (0o755, BINARY));
    let text = |path: &str| std::str::from_utf8(&find(path).2).unwrap();
    let wheel = text("dalsegno-1.2.3.dist-info/WHEEL");
    assert!(wheel.contains("Root-Is-Purelib: false\nTag: py3-none-manylinux_2_34_x86_64\n"), "{wheel}");
    let metadata = text("dalsegno-1.2.3.dist-info/METADATA");
    for line in ["Name: dalsegno", "Version: 1.2.3", "Requires-Python: >=3.8", "License-File: LICENSE-MIT"] {
        assert!(metadata.lines().any(|other| other == line), "no `{line}` in:\n{metadata}");
    }
    find("dalsegno-1.2.3.dist-info/licenses/LICENSE-MIT");
}

fn json(files: &BTreeMap<String, Read>, path: &str) -> Value {
    serde_json::from_str(file(files, path).1).unwrap()
}

#[test]
fn the_launcher_of_npm_asks_for_the_binary_of_the_same_version() {
    let package = npm::launcher(&product()).unwrap();
    assert_eq!(package.name, "dalsegno-1.2.3.tgz");
    let files = files(&package.bytes);
    let manifest = json(&files, "package/package.json");
    assert_eq!(manifest["bin"]["dalsegno"], "bin/dalsegno.js");
    assert_eq!(manifest["optionalDependencies"]["dalsegno-linux-x64"], "1.2.3");
    assert_eq!(manifest["scripts"], Value::Null);
    let (mode, script) = file(&files, "package/bin/dalsegno.js");
    assert_eq!(mode, 0o755);
    assert!(script.starts_with("#!/usr/bin/env node\n"));
}

#[test]
fn the_binary_of_npm_says_where_it_runs() {
    let package = npm::platform(&product()).unwrap();
    assert_eq!(package.name, "dalsegno-linux-x64-1.2.3.tgz");
    let files = files(&package.bytes);
    let manifest = json(&files, "package/package.json");
    assert_eq!(manifest["os"], serde_json::json!(["linux"]));
    assert_eq!(manifest["cpu"], serde_json::json!(["x64"]));
    assert_eq!(manifest["libc"], serde_json::json!(["glibc"]));
    assert_eq!(manifest["glibc"], "2.34");
    assert_eq!(file(&files, "package/bin/dalsegno"), (0o755, "a binary"));
    assert_eq!(file(&files, "package/LICENSE-MIT").1, "the MIT licence\n");
}

/// The members of a Debian package, in its order: the format is 60 bytes of text before each, in columns.
fn members(package: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut rest = package.strip_prefix(b"!<arch>\n").unwrap();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (head, behind) = rest.split_at(60);
        let head = std::str::from_utf8(head).unwrap();
        assert_eq!(&head[16..48], "1704164645  0     0     100644  ");
        assert_eq!(&head[58..], "`\n");
        let size: usize = head[48..58].trim_end().parse().unwrap();
        found.push((head[..16].trim_end().to_owned(), behind[..size].to_vec()));
        rest = &behind[size.next_multiple_of(2)..];
    }
    found
}

#[test]
fn a_debian_package_depends_on_the_versions_that_the_binary_needs() {
    let package = debian::package(&product()).unwrap();
    assert_eq!(package.name, "dalsegno_1.2.3_amd64.deb");
    let members = members(&package.bytes);
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    assert_eq!(members[0].1, b"2.0\n");
    let control = files(&members[1].1);
    let (_, control) = file(&control, "control");
    let expected = [
        "Package: dalsegno",
        "Version: 1.2.3",
        "Architecture: amd64",
        "Maintainer: Ada <ada@example.org>",
        "Depends: libc6 (>= 2.34), libgcc-s1 (>= 4.2)",
    ];
    for line in expected {
        assert!(control.lines().any(|other| other == line), "no `{line}` in:\n{control}");
    }
    // The lines of the description: each begins with a space, and none is empty.
    let (_, description) = control.split_once("\nDescription: ").unwrap();
    assert!(
        description.lines().skip(1).all(|line| line.starts_with(' ') && line.trim() != ""),
        "{description}"
    );
    assert!(control.ends_with('\n'));
}

#[test]
fn a_debian_package_has_its_files_where_debian_wants_them() {
    let package = debian::package(&product()).unwrap();
    let files = files(&members(&package.bytes)[2].1);
    assert_eq!(file(&files, "usr/bin/dalsegno"), (0o755, "a binary"));
    assert_eq!(unpacked(&files["usr/share/man/man1/dalsegno.1.gz"].bytes), b".TH dalsegno 1\n");
    assert_eq!(file(&files, "usr/share/zsh/vendor-completions/_dalsegno").1, "zsh");
    let (_, copyright) = file(&files, "usr/share/doc/dalsegno/copyright");
    assert!(copyright.contains("the MIT licence") && copyright.contains(NOTICES), "{copyright}");
    let changelog = String::from_utf8(unpacked(&files["usr/share/doc/dalsegno/changelog.gz"].bytes)).unwrap();
    assert!(changelog.starts_with("dalsegno (1.2.3) unstable; urgency="), "{changelog}");
    assert!(
        changelog.ends_with("\n -- Ada <ada@example.org>  Tue, 2 Jan 2024 03:04:05 +0000\n"),
        "{changelog}"
    );
}

#[test]
fn a_maintainer_cannot_add_a_field() {
    let product = Product { maintainer: "Ada\nEssential: yes".to_owned(), ..product() };
    let error = format!("{:#}", debian::package(&product).unwrap_err());
    assert!(error.contains("DEBFULLNAME"), "{error}");
}

#[test]
fn every_blob_of_the_image_is_named_by_its_digest() {
    let package = image::package(&product()).unwrap();
    assert_eq!(package.name, "dalsegno-1.2.3-amd64.oci.tar");
    let files: BTreeMap<String, Read> = entries(&package.bytes).into_iter().collect();
    assert_eq!(json(&files, "oci-layout")["imageLayoutVersion"], "1.0.0");
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = &files[&format!("blobs/sha256/{digest}")].bytes;
        assert_eq!((sha256(bytes).as_str(), descriptor["size"].as_u64()), (digest, Some(bytes.len() as u64)));
        bytes.clone()
    };
    let listed = &json(&files, "index.json")["manifests"][0];
    assert_eq!(listed["platform"]["architecture"], "amd64");
    let manifest: Value = serde_json::from_slice(&blob(listed)).unwrap();
    let configuration: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    let layer = unpacked(&blob(&manifest["layers"][0]));
    assert_eq!(configuration["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
    assert_eq!(configuration["config"]["Entrypoint"], serde_json::json!(["/usr/bin/dalsegno"]));
    assert_eq!(configuration["config"]["User"], "65532:65532");
    assert_eq!(configuration["created"], "2024-01-02T03:04:05Z");

    let root: BTreeMap<String, Read> = entries(&layer).into_iter().collect();
    assert_eq!(file(&root, "usr/bin/dalsegno"), (0o755, "a binary"));
    assert_eq!(file(&root, "lib64/ld-linux-x86-64.so.2"), (0o755, "the loader"));
    let workspace = &root["workspace/"];
    assert_eq!((workspace.mode, workspace.owner), (0o700, 65532));
    assert_eq!((root["usr/"].owner, root["tmp/"].mode), (0, 0o1777));
}

#[test]
fn the_bill_of_materials_has_every_library_with_its_checksum() {
    let package = sbom::package(&product(), &libraries()).unwrap();
    let bill: Value = serde_json::from_slice(&package.bytes).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let component = &bill["metadata"]["component"];
    assert_eq!(component["hashes"][0]["content"], sha256(BINARY));
    let components = bill["components"].as_array().unwrap();
    let references: Vec<&str> =
        components.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
    let expected =
        ["pkg:cargo/dalsegno-store@1.2.3", "pkg:cargo/libsqlite3-sys@0.35.0", "pkg:cargo/serde@1.0.2"];
    assert_eq!(references, expected);
    // A crate of this repository is in no registry.
    assert_eq!(components[0]["purl"], Value::Null);
    assert_eq!(components[1]["components"][0]["purl"], "pkg:generic/sqlite@3.50.2");
    assert_eq!(components[2]["hashes"][0]["content"], "ab");
    // Every reference leads somewhere.
    for edge in bill["dependencies"].as_array().unwrap() {
        for to in edge["dependsOn"].as_array().unwrap() {
            assert!(references.contains(&to.as_str().unwrap()), "{to}");
        }
    }
    let whole = bill["dependencies"].as_array().unwrap().iter().find(|edge| edge["ref"] == "dalsegno");
    assert_eq!(whole.unwrap()["dependsOn"].as_array().unwrap().len(), 2);
}

#[test]
fn a_licence_that_libraries_share_is_printed_once() {
    let text = notices(&libraries());
    assert!(text.contains("serde 1.0.2: MIT\n"), "{text}");
    assert_eq!(text.matches("Do as you like.").count(), 1, "{text}");
    assert!(text.contains("libsqlite3-sys 0.35.0, LICENSE\nserde 1.0.2, LICENSE\n"), "{text}");
    assert!(!text.contains("dalsegno-store"), "{text}");
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn what_a_program_needs_is_read_from_it() {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let needs = Needs::read(&own, &triple).unwrap();
    assert!(needs.loader.starts_with("/lib"), "{needs:?}");
    assert!(needs.libraries.contains(&"libc.so.6".to_owned()), "{needs:?}");
    // Rust's standard library needs 2.17 at least, and this machine runs the test.
    assert!(needs.glibc >= (2, 17) && needs.glibc < (3, 0), "{needs:?}");
    let error = Needs::read(&own, "riscv64gc-unknown-linux-gnu").unwrap_err().to_string();
    assert!(error.contains("riscv64gc"), "{error}");
    assert!(Needs::read(b"#!/bin/sh\n", &triple).is_err());
}

#[test]
fn for_a_machine_without_packages_the_message_says_what_to_do_instead() {
    let error = Machine::of("x86_64-unknown-linux-musl").unwrap_err().to_string();
    assert!(error.contains("`cargo install --path crates/dalsegno-cli`"), "{error}");
}
