//! The doors that keep the core pure, as far as they are builds of their own.
//!
//! The others are tests: `tests/doors` holds the table of dependencies, the import list and the chores.

use crate::process::{cargo, perform};
use crate::toolchain::{BARE_TARGET, IMPORTS_TARGET, REPORT_TARGET, ensure_target};

/// Chooses the crates that decide and never act.
const PURE: [&str; 8] =
    ["-p", "dalsegno-core", "-p", "dalsegno-expr", "-p", "dalsegno-realtime", "-p", "dalsegno-tools"];

/// Tests of how much and how long, by a part of their names: the order of an object's keys says nothing of these.
const UNORDERED: [&str; 3] = ["two_thousand_turns", "the_worlds_reach", "is_paid_for"];

/// Builds the module inside a report, and writes it into the tree. If the tree has a change then, the module was stale.
///
/// # Errors
/// The target cannot be had, or the build failed.
pub(crate) fn report() -> anyhow::Result<()> {
    ensure_target(REPORT_TARGET)?;
    let test = [
        "test",
        "--locked",
        "--workspace",
        "--test",
        "doors",
        "--",
        "--include-ignored",
        "the_module_in_the_tree",
    ];
    perform(cargo().args(test).env("UPDATE", "1"))
}

/// Tries every door.
///
/// # Errors
/// One of them stands open, or a target cannot be had.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure_target(BARE_TARGET)?;
    ensure_target(IMPORTS_TARGET)?;

    eprintln!("door 1: without a standard library ({BARE_TARGET})");
    perform(cargo().args(["check", "--locked", "--target", BARE_TARGET]).args(PURE))?;

    eprintln!("door 2: with JSON objects in the order of insertion (serde_json/preserve_order)");
    // Another crate may switch this on for everybody: no digest and no decision may depend on it.
    let mut tests = cargo();
    tests.args(["test", "--locked", "--tests", "--features", "serde_json/preserve_order"]).args(PURE);
    tests.arg("--").args(UNORDERED.iter().flat_map(|name| ["--skip", *name]));
    // What depends on it shows in any case.
    perform(tests.env("PROPTEST_CASES", "16"))?;

    eprintln!("door 3: dependencies, imports ({IMPORTS_TARGET}) and chores");
    // The module inside a report takes minutes to build: `cargo xtask report` does it.
    let everything = ["--", "--include-ignored", "--skip", "the_module_in_the_tree"];
    perform(cargo().args(["test", "--locked", "--workspace", "--test", "doors"]).args(everything))
}
