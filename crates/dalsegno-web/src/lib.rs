//! The pages of the debugger: a value in, HTML out.
//!
//! Nothing here reads a journal, a clock or a file. What a run holds is text in every page: templates escape all that they are
//! given, and [`Markup`] is the one type that writes markup itself, for JSON with colours.
//!
//! The style, the scripts and the icon are [`assets`], which the server sends from its memory. A page works without its scripts:
//! they add live updates, keys and rows that load as they are scrolled to.

pub mod assets;
pub mod chat;
pub mod diff;
pub mod document;
pub mod fork;
pub mod inbox;
mod markup;
pub mod notice;
pub mod run;
pub mod runs;
mod shell;
pub mod sign_in;
pub mod step;
pub mod text;
pub mod why;

pub use askama::Template;
pub use markup::Markup;
pub use shell::{Live, Section, Shell};
