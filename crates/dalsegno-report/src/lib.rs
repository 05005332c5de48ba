//! A bug report that runs: one page with a journal and the core that folds it.
//!
//! The crate is compiled twice. Natively it makes pages ([`page`]) and computes the digests that a page has to find ([`Seal`]).
//! As a WebAssembly module without imports (`dalsegno-report-wasm`) it is what a page runs: [`Report`] reads the archive in the
//! page into a store in memory, and answers questions with the reader of journals that the engine has, `dalsegno-history`. There is
//! no second one, and no logic about runs in JavaScript.
//!
//! # Where the module comes from
//!
//! `core.wasm.deflate` beside this crate's manifest is committed, and embedded in the binary. It could also be built by a build
//! script, or by `cargo xtask`, or lie beside the binary:
//!
//! - A build script would need the target `wasm32-unknown-unknown` wherever `dalsegno` is built, which `cargo install` cannot fetch
//!   without a network, and would add a second, optimised build of the core to every change of it.
//! - A file that `cargo xtask` makes, in the build folder or beside the binary, is absent after `cargo install` and `cargo build`.
//!   Then a command of the binary would work on some machines only.
//!
//! So a file in the tree is the smallest harm. `cargo xtask report` builds it, with neutral names for the folders of the machine;
//! run it after a change of the core or of what reads journals. A test compares the answers of the module with those of this crate
//! over recorded runs, so that a module that says something else is found without a build.
//!
//! # What a page trusts
//!
//! Nothing. Everything in a journal is foreign text: the page makes text nodes of it and never markup, and its content security
//! policy refuses every script, style and connection that is not in the file. The module has no imports, so that it can do nothing
//! but compute. A page says `verified` only if each digest that it computed equals the one that the engine computed when the page
//! was written.

mod ask;
mod course;
mod detail;
mod edit;
mod now;
#[cfg(feature = "page")]
pub mod page;
mod report;
mod seal;

pub use report::{Report, ReportError};
pub use seal::Seal;
