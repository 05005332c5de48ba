//! The targets and components that a fresh toolchain lacks.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::process::{cargo, command, perform, read};

/// What the tool servers are compiled for.
pub(crate) const GUEST_TARGET: &str = "wasm32-wasip2";
/// WASI as a flat list of imports: what the import door reads.
pub(crate) const IMPORTS_TARGET: &str = "wasm32-wasip1";
/// A browser: what the module inside a report is compiled for.
pub(crate) const REPORT_TARGET: &str = "wasm32-unknown-unknown";
/// A machine without an operating system, and so without `std`.
pub(crate) const BARE_TARGET: &str = "x86_64-unknown-none";

/// Adds a compilation target, unless the toolchain has it.
///
/// # Errors
/// The target is missing and rustup could not add it.
pub(crate) fn ensure_target(target: &str) -> anyhow::Result<()> {
    if has_target(target)? {
        return Ok(());
    }
    eprintln!("adding the target {target} …");
    perform(command("rustup").args(["target", "add", target])).with_context(|| {
        format!("the Rust toolchain lacks the target `{target}`: get it with `rustup target add {target}` (https://rustup.rs)")
    })?;
    // Reached when cargo is not rustup's, while a rustup lies around.
    ensure!(
        has_target(target)?,
        "rustup has the target `{target}`, but the `rustc` in use has not: put rustup's `cargo` first in `PATH`"
    );
    Ok(())
}

/// Adds `cargo fmt` or `cargo clippy`, unless the toolchain has it: rustup's minimal profile leaves them out.
///
/// # Errors
/// The component is missing and rustup could not add it.
pub(crate) fn ensure_component(subcommand: &str, component: &str) -> anyhow::Result<()> {
    let answer = cargo().args([subcommand, "--version"]).output().context("cannot start `cargo`")?;
    if answer.status.success() {
        return Ok(());
    }
    eprintln!("adding the component {component} …");
    perform(command("rustup").args(["component", "add", component])).with_context(|| {
        format!("the Rust toolchain lacks `{component}`: get it with `rustup component add {component}` (https://rustup.rs)")
    })
}

/// Tells whether the compiler has a standard library, or at least `core`, for the target.
fn has_target(target: &str) -> anyhow::Result<bool> {
    // Asked of the compiler rather than of rustup: a distribution's Rust may have the target, too.
    let folder = read(command("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(&folder).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_a_target_that_is_there() {
        let version = read(command("rustc").arg("-vV")).unwrap();
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        assert!(has_target(host).unwrap());
    }

    #[test]
    fn a_target_that_was_never_added_is_missed() {
        // A tier 3 target: rustc knows it, and rustup has no library for it.
        assert!(!has_target("mipsel-sony-psx").unwrap());
    }

    #[test]
    fn a_target_that_does_not_exist_is_an_error() {
        let error = has_target("no-such-target").unwrap_err().to_string();
        assert!(error.contains("no-such-target\""), "{error}");
    }
}
