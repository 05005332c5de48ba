//! The packages that users install: what has to be there first, then the crate that makes them.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use crate::process::{become_command, cargo, command, perform, read};

/// Gets the libraries, then becomes the program of `xtask-dist` with these arguments.
///
/// # Errors
/// The compiler has no standard library for this machine, or the libraries cannot be had.
pub(crate) fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if !arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        let version = read(command("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc does not say which machine it is for")?;
        let library = read(command("rustc").args(["--print", "target-libdir"]))?;
        ensure!(Path::new(&library).is_dir(), "{}", no_target(host));
        let is_offline = arguments.iter().any(|argument| argument == "--offline");
        fetch(&mut cargo(), host, is_offline)?;
    }
    // A crate of its own: it is compiled only to make packages.
    let start = ["run", "--locked", "--quiet", "--package", "xtask-dist", "--"];
    become_command(cargo().args(start).args(arguments))
}

/// Says what to do when the compiler has no standard library for this machine.
fn no_target(host: &str) -> String {
    format!(
        "the Rust toolchain has no standard library for `{host}`: get it with `rustup target add {host}` (https://rustup.rs)"
    )
}

/// Gets the libraries that `Cargo.lock` names, so that a missing network is reported before anything is compiled. If all
/// are there, it needs no network.
fn fetch(cargo: &mut Command, host: &str, is_offline: bool) -> anyhow::Result<()> {
    cargo.args(["fetch", "--quiet", "--locked", "--target", host]);
    cargo.args(is_offline.then_some("--offline"));
    perform(cargo).context(
        "Cargo has not all libraries of `Cargo.lock`: run `cargo fetch --locked` once with a network; \
        after that, `cargo xtask dist --offline` needs none",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn without_a_cache_and_a_network_the_message_says_to_fetch_once() {
        // A home of Cargo with nothing in it: rustup's own folder is beside it, so that the compiler stays the same.
        let home = std::env::temp_dir().join(format!("dalsegno-empty-cargo-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let mut empty = cargo();
        empty.env("CARGO_HOME", &home).stderr(Stdio::null());
        let error = fetch(&mut empty, "x86_64-unknown-linux-gnu", true).unwrap_err().to_string();
        fs::remove_dir_all(&home).unwrap();
        assert!(error.contains("run `cargo fetch --locked` once with a network"), "{error}");
    }

    #[test]
    fn a_toolchain_without_a_library_gets_the_name_of_the_target_to_add() {
        assert!(
            no_target("riscv64gc-unknown-linux-gnu")
                .contains("`rustup target add riscv64gc-unknown-linux-gnu`")
        );
    }
}
