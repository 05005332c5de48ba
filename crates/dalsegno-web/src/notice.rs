//! Pages that say one thing: an address without anything, an error.

use askama::Template;

use crate::shell::Shell;

/// Says one thing, and what to do next.
#[derive(Debug, Clone, Template)]
#[template(path = "notice.html")]
pub struct NoticePage {
    /// What surrounds it.
    pub shell: Shell,
    /// The heading.
    pub title: String,
    /// What is the case.
    pub detail: String,
    /// What to do next.
    pub help: String,
    /// What is wrong in particular: where, and what.
    pub violations: Vec<(String, String)>,
}
