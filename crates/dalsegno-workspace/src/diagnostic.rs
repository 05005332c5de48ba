//! What is wrong, where, and what to do about it: plain data, for people and for editors.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::code::Code;
use crate::source::{Position, SourceFile};

/// One problem of a workspace.
///
/// Serialized, `line` and `column` stand beside the other keys, and are left out where there is no span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// Whether the workspace can be used all the same.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The file, relative to the workspace, with `/` between its parts.
    #[serde(serialize_with = "with_slashes")]
    pub file: PathBuf,
    /// The offending bytes of the file; absent when the problem is the file itself.
    pub span: Option<Range<usize>>,
    /// Where the span starts.
    #[serde(flatten)]
    pub start: Option<Position>,
    /// What to write beside the underlined place.
    pub label: Option<String>,
    /// One thing to try.
    pub help: Option<String>,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The workspace cannot be used.
    Error,
    /// It can, but probably does not do what its author wants.
    Warning,
    /// Nothing is wrong; something could not be checked.
    Note,
}

impl Diagnostic {
    pub(crate) fn new(code: Code, severity: Severity, file: &Path, message: impl Into<String>) -> Self {
        let file = file.to_path_buf();
        Self {
            code,
            severity,
            message: message.into(),
            file,
            span: None,
            start: None,
            label: None,
            help: None,
        }
    }

    pub(crate) fn at(mut self, source: &SourceFile, span: Range<usize>) -> Self {
        let span = source.clamp(span);
        self.start = Some(source.position(span.start));
        self.span = Some(span);
        self
    }

    pub(crate) fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same with another thing to try.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// That a file beside the workspace's own, such as a script or a seed, does not hold what it should.
    pub fn of_file(root: &Path, file: &Path, problem: impl Into<String>) -> Self {
        let file = file.strip_prefix(root).unwrap_or(file);
        Self::new(Code::InvalidValue, Severity::Error, file, problem).with_help("correct the file")
    }

    /// That a file beside the workspace's own reads a name that nothing gives a value.
    pub fn of_name(root: &Path, file: &Path, problem: impl Into<String>) -> Self {
        let file = file.strip_prefix(root).unwrap_or(file);
        Self::new(Code::UnknownName, Severity::Warning, file, problem)
    }

    /// Says whether the workspace cannot be used because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Position { line, column }) = self.start {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}[{}]: {}", self.severity, self.code, self.message)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

fn with_slashes<S: Serializer>(file: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    serializer.serialize_str(&parts.join("/"))
}
