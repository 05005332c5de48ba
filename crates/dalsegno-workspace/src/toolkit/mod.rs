//! Declarative tools: documents of one tool or of one toolkit, compiled.

mod catalogue;
mod config;
mod diagnose;
mod link;
mod load;
mod shelf;

use dalsegno_tools::Toolkit;

pub use self::catalogue::DeclaredTool;
pub(crate) use self::catalogue::add;
pub(crate) use self::config::short;
pub(crate) use self::diagnose::validator;
pub(crate) use self::link::{Around, check_mentions};
pub(crate) use self::load::{ReadToolkits, load, load_of_tenant};
pub(crate) use self::shelf::Shelf;
use crate::source::SourceFile;

/// A document of declarative tools.
#[derive(Debug, Clone)]
pub struct ToolkitFile {
    /// What it was compiled to; with the document itself. Cheap to clone.
    pub toolkit: Toolkit,
    /// The file that it stands in; `None` for one that was built from a tenant's features.
    pub source: Option<SourceFile>,
}

impl ToolkitFile {
    /// Its name; that of the tool where it has a single one.
    pub fn name(&self) -> &str {
        self.toolkit.name()
    }

    /// Says whether it is a document of a catalogue, and no file.
    pub fn is_document(&self) -> bool {
        self.source.as_ref().is_some_and(SourceFile::is_document)
    }
}
