//! Documents of a catalogue: they stand in for files of the workspace, and reach less than files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity};
use crate::place::Place;
use crate::source::SourceFile;
use crate::workspace::AGENTS_FOLDER;

/// Where a document stands. In the name of a tool, `-` is written `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentPlace {
    /// An agent of the workspace.
    Agent(String),
    /// A tool or toolkit of the workspace.
    Tool(String),
    /// A tenant.
    Tenant(String),
    /// A tool or toolkit of one tenant.
    ToolOf {
        /// The tenant.
        tenant: String,
        /// The tool.
        name: String,
    },
}

impl DocumentPlace {
    /// The file that the document stands in for, below the workspace's folder.
    pub fn file(&self) -> PathBuf {
        let tenants = Path::new("tenants");
        match self {
            Self::Agent(name) => Path::new(AGENTS_FOLDER).join(format!("{name}.toml")),
            Self::Tool(name) => Path::new("tools").join(format!("{name}.json")),
            Self::Tenant(name) => tenants.join(format!("{name}.toml")),
            Self::ToolOf { tenant, name } => tenants.join(tenant).join("tools").join(format!("{name}.json")),
        }
    }

    /// How the document is named as the source of problems: its file below `catalogue`.
    pub fn source(&self) -> PathBuf {
        Path::new(FOLDER).join(self.file())
    }
}

/// The documents of a catalogue, each in the place of a file of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Documents {
    generation: Option<u64>,
    texts: BTreeMap<DocumentPlace, Arc<str>>,
}

impl Documents {
    /// The documents of a generation, none yet.
    pub fn of_generation(generation: u64) -> Self {
        Self { generation: Some(generation), texts: BTreeMap::new() }
    }

    /// The generation; none for a workspace that was read without a catalogue.
    pub const fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Adds a document, or takes one out.
    pub fn set(&mut self, place: DocumentPlace, text: Option<&str>) {
        match text {
            Some(text) => self.texts.insert(place, text.into()),
            None => self.texts.remove(&place),
        };
    }

    /// The text of a document.
    pub fn get(&self, place: &DocumentPlace) -> Option<&str> {
        self.texts.get(place).map(|text| &**text)
    }

    /// Where there are documents.
    pub fn places(&self) -> impl Iterator<Item = &DocumentPlace> {
        self.texts.keys()
    }

    /// Without documents: for a folder that is read alone.
    pub(crate) const NONE: &Self = &Self { generation: None, texts: BTreeMap::new() };
}

/// A document that is read.
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) source: PathBuf,
    pub(crate) text: String,
}

impl Place<'_> {
    /// The agents of the catalogue.
    pub(crate) fn agents(&self) -> Vec<Read> {
        self.documents_from(&DocumentPlace::Agent(String::new()), |place| match place {
            DocumentPlace::Agent(name) => Some(name),
            _ => None,
        })
    }

    /// The tenants of the catalogue.
    pub(crate) fn tenants(&self) -> Vec<Read> {
        self.documents_from(&DocumentPlace::Tenant(String::new()), |place| match place {
            DocumentPlace::Tenant(name) => Some(name),
            _ => None,
        })
    }

    /// The tools of the catalogue that all tenants have, or those that one tenant has for itself.
    pub(crate) fn tools(&self, of: Option<&str>) -> Vec<Read> {
        let first = match of {
            None => DocumentPlace::Tool(String::new()),
            Some(of) => DocumentPlace::ToolOf { tenant: of.to_owned(), name: String::new() },
        };
        self.documents_from(&first, |place| match (place, of) {
            (DocumentPlace::Tool(name), None) => Some(name),
            (DocumentPlace::ToolOf { tenant, name }, Some(of)) if tenant == of => Some(name),
            _ => None,
        })
    }

    /// The tenants that have documents of their own.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let first = DocumentPlace::ToolOf { tenant: String::new(), name: String::new() };
        self.documents.texts.range(first..).filter_map(|(place, _)| match place {
            DocumentPlace::ToolOf { tenant, .. } => Some((tenant.as_str(), place.source())),
            _ => None,
        })
    }

    /// The documents from a place on that have a name. They stand side by side, so that those of one tenant cost no look at those of
    /// another.
    fn documents_from(
        &self,
        first: &DocumentPlace,
        name: impl Fn(&DocumentPlace) -> Option<&String>,
    ) -> Vec<Read> {
        let wanted = self.documents.texts.range(first..).map_while(|(place, text)| {
            let (name, source) = (name(place)?.clone(), place.source());
            // A program may try another text.
            let text = self.given(&source).map_or_else(|| text.to_string(), str::to_owned);
            Some(Read { name, source, text })
        });
        wanted.collect()
    }
}

impl SourceFile {
    /// Says whether it is a document of a catalogue, and no file.
    pub fn is_document(&self) -> bool {
        is_document(self.file())
    }
}

pub(crate) fn is_document(source: &Path) -> bool {
    source.starts_with(FOLDER)
}

/// Tells that a file is not read, since a document stands in for it.
pub(crate) fn covered(file: &Path) -> Diagnostic {
    let message = "a document of the catalogue stands in for this file";
    Diagnostic::new(crate::code::Code::NoEffect, Severity::Note, file, message)
        .with_help("delete the document by the API of `dalsegno serve` to use the file again")
}

impl fmt::Display for DocumentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "the agent `{name}`"),
            Self::Tool(name) => write!(f, "the tool `{name}`"),
            Self::Tenant(name) => write!(f, "the tenant `{name}`"),
            Self::ToolOf { tenant, name } => write!(f, "the tool `{name}` of the tenant `{tenant}`"),
        }
    }
}

/// The first part of a document's name as a source. No file is read below it.
const FOLDER: &str = "catalogue";
