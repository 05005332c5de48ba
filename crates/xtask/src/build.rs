//! What has to be there before anything runs: the tool servers and the `dalsegno` binary.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use crate::process::{cargo, perform};
use crate::toolchain::{GUEST_TARGET, ensure_target};

/// Chooses the workspace of the tool servers instead of the root's.
pub(crate) const GUESTS: [&str; 2] = ["--manifest-path", "tool-servers/Cargo.toml"];

/// Where the tool servers are built, whatever `CARGO_TARGET_DIR` says: agents name their files below it.
pub(crate) const GUEST_FOLDER: [&str; 2] = ["--target-dir", "tool-servers/target"];

/// Builds the tool servers for WebAssembly.
///
/// # Errors
/// The target cannot be had, or the build failed.
pub(crate) fn guests() -> anyhow::Result<()> {
    ensure_target(GUEST_TARGET)?;
    eprintln!("building the tool servers …");
    perform(
        cargo()
            .args(["build", "--release", "--locked", "--target", GUEST_TARGET])
            .args(GUESTS)
            .args(GUEST_FOLDER),
    )
}

/// Builds the `dalsegno` binary as the tests do, and returns where it lies.
///
/// # Errors
/// The build failed.
pub(crate) fn dalsegno() -> anyhow::Result<PathBuf> {
    eprintln!("building dalsegno …");
    // Cargo unites the features of what it is asked to build, and only a test target brings in those that the tests
    // need (tokio's test clock). With the whole workspace and one test target the features are the ones
    // of `cargo test --workspace`, so that neither command compiles a dependency again for the other.
    perform(cargo().args(["build", "--locked", "--workspace", "--bin", "dalsegno", "--test", "doors"]))?;
    // This program was built with the same profile, so the two lie side by side wherever the target folder is.
    let binary = env::current_exe()
        .context("this program does not know where it lies")?
        .with_file_name(format!("dalsegno{}", env::consts::EXE_SUFFIX));
    ensure!(binary.is_file(), "cargo built no `{}`: start this program with `cargo xtask`", binary.display());
    Ok(binary)
}
