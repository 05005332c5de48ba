//! The core as a WebAssembly module imports no clock and no randomness.
//!
//! On `wasm32-wasip1` whatever a program wants from its host is an import with a name of its own, so the list says
//! what the core and everything below it can reach. (On `wasm32-unknown-unknown` it would say nothing: there the
//! standard library has stubs instead.)

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};

use wasmparser::{Parser, Payload};

use crate::cargo;
use crate::dependencies::metadata;

/// What a Rust program imports that reads a pipe and writes a pipe: the pipes, the end of the process, and the
/// environment, in which a panic looks for `RUST_BACKTRACE`.
const ALLOWED: [&str; 5] = [
    "wasi_snapshot_preview1.environ_get",
    "wasi_snapshot_preview1.environ_sizes_get",
    "wasi_snapshot_preview1.fd_read",
    "wasi_snapshot_preview1.fd_write",
    "wasi_snapshot_preview1.proc_exit",
];

/// Builds `dalsegno-core-wasm` and returns the module.
fn module(features: &str) -> Vec<u8> {
    // Both builds put their module in the same place, so it is read before the next one starts.
    static PLACE: Mutex<()> = Mutex::new(());
    let _place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = cargo()
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "dalsegno-core-wasm",
            "--target",
            "wasm32-wasip1",
        ])
        .args(["--features", features])
        .output()
        .expect("cargo can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\nthe target is added by `rustup target add wasm32-wasip1`");
    let place = metadata().target_directory.join("wasm32-wasip1/debug/dalsegno-core-wasm.wasm");
    fs::read(place).expect("cargo put the module in its place")
}

/// Returns the imports of a module, as `module.name`.
pub(crate) fn imports(module: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(section) = payload.expect("the module is well-formed") {
            for import in section.into_imports() {
                let import = import.expect("the module is well-formed");
                found.insert(format!("{}.{}", import.module, import.name));
            }
        }
    }
    found
}

/// Returns what a module imports beyond the allowed.
fn forbidden(module: &[u8]) -> Vec<String> {
    imports(module).into_iter().filter(|import| !ALLOWED.contains(&import.as_str())).collect()
}

#[test]
#[ignore = "needs the target wasm32-wasip1: `cargo xtask doors` adds it and runs this"]
fn the_core_imports_no_clock_and_no_randomness() {
    let module = module("");
    assert_eq!(forbidden(&module), Vec::<String>::new());
    // An empty list would mean that the program was not linked in at all.
    assert!(imports(&module).contains("wasi_snapshot_preview1.fd_read"));
}

#[test]
#[ignore = "needs the target wasm32-wasip1: `cargo xtask doors` adds it and runs this"]
fn a_clock_and_a_hash_map_are_noticed() {
    let expected = ["wasi_snapshot_preview1.clock_time_get", "wasi_snapshot_preview1.random_get"];
    assert_eq!(forbidden(&module("impure")), expected);
}
