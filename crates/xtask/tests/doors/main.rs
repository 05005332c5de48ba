//! The doors that keep the core pure, and the chores that keep the sources alike.
//!
//! What a compiler cannot promise by itself is read from the sources, from `cargo metadata` and from the import list
//! of a WebAssembly module. The doors that are builds of their own lie in `src/doors.rs`; `cargo xtask doors` tries
//! them all.

mod dependencies;
mod imports;
mod report;
mod sources;
mod supply;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that decide and never act: no clock, file, thread, environment or hash order, in them or below them.
const PURE: [&str; 4] = ["dalsegno-core", "dalsegno-expr", "dalsegno-realtime", "dalsegno-tools"];

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("xtask lies two folders below the root")
        .to_owned()
}

/// Returns a command for the cargo that runs the tests, in the root of the repository.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
