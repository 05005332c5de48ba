//! The module inside a report, which is in the tree, is what the sources give.

use std::collections::BTreeSet;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;
use wasmparser::{Parser, Payload};

use crate::dependencies::metadata;
use crate::imports::imports;
use crate::{cargo, root};

/// Where the module lies, compressed.
const PLACE: &str = "crates/dalsegno-report/core.wasm.deflate";

/// The machine on which it is built: Cargo names symbols by the machine that compiles, and their order follows from the names.
const BUILT_ON: (&str, &str) = ("linux", "x86_64");

fn in_the_tree() -> Vec<u8> {
    let bytes = fs::read(root().join(PLACE)).expect("the module is in the tree");
    decompress_to_vec(&bytes).expect("it is compressed as a browser reads it")
}

/// Builds the module, with neutral names for the folders of this machine.
fn built() -> Vec<u8> {
    let home = env::var_os("CARGO_HOME").map(Into::into).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let folders = [(Some(root()), "/dalsegno"), (home, "/cargo")];
    let flags = folders
        .into_iter()
        .filter_map(|(folder, name)| Some(format!("--remap-path-prefix={}={name}", folder?.display())));
    let target = metadata().target_directory.join("report");
    let status = cargo()
        .args(["build", "--locked", "--profile", "page", "--package", "dalsegno-report-wasm"])
        .args(["--target", "wasm32-unknown-unknown", "--target-dir", target.as_str()])
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.collect::<Vec<_>>().join("\u{1f}"))
        .env("CARGO_INCREMENTAL", "0")
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the target is added by `rustup target add wasm32-unknown-unknown`");
    let place = target.join("wasm32-unknown-unknown/page/dalsegno_report_wasm.wasm");
    fs::read(place).expect("cargo put the module in its place")
}

#[test]
#[ignore = "builds the module, which takes minutes: `cargo xtask report` runs this and updates the module"]
fn the_module_in_the_tree_is_what_the_sources_give() {
    if (env::consts::OS, env::consts::ARCH) != BUILT_ON {
        println!("the module is built on x86_64 Linux: not compared here");
        return;
    }
    let built = built();
    if env::var_os("UPDATE").is_some() {
        fs::write(root().join(PLACE), compress_to_vec(&built, 10)).expect("the tree can be written");
    }
    let differs = built.iter().zip(&in_the_tree()).position(|(built, known)| built != known);
    assert_eq!(differs, None, "`cargo xtask report` writes the module anew");
    assert_eq!(built.len(), in_the_tree().len(), "`cargo xtask report` writes the module anew");
}

#[test]
fn the_module_imports_nothing_and_offers_four_functions() {
    let module = in_the_tree();
    assert_eq!(imports(&module), BTreeSet::new());
    let mut exported = BTreeSet::new();
    for payload in Parser::new(0).parse_all(&module) {
        if let Payload::ExportSection(section) = payload.expect("the module is well-formed") {
            for export in section {
                exported.insert(export.expect("the module is well-formed").name.to_owned());
            }
        }
    }
    let expected = ["__data_end", "__heap_base", "add", "answer", "ask", "memory", "room"];
    assert_eq!(exported.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn the_module_names_no_folder_of_the_machine_that_built_it() {
    let module = in_the_tree();
    let names = |folder: &str| module.windows(folder.len()).any(|window| window == folder.as_bytes());
    // It has paths, for panics.
    assert!(names("/dalsegno/crates/") || names("crates/dalsegno-"));
    for folder in ["/home/", "/Users/", "/root/", "/tmp/", root().to_str().expect("a plain path")] {
        assert!(!names(folder), "{folder}");
    }
}
