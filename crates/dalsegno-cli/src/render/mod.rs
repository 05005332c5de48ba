//! Everything that is written for people or programs.

pub(crate) mod bench;
pub(crate) mod cases;
pub(crate) mod diagnostics;
pub(crate) mod dialogue;
pub(crate) mod diff;
pub(crate) mod ending;
pub(crate) mod eval;
pub(crate) mod excerpt;
pub(crate) mod failure;
pub(crate) mod gate;
pub(crate) mod junit;
pub(crate) mod lineage;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod request;
pub(crate) mod screen;
pub(crate) mod server;
pub(crate) mod spinner;
pub(crate) mod steps;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod tool;
pub(crate) mod why;
