//! The output format, as an argument.

use clap::{Args as ClapArgs, ValueEnum};

/// The format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object for each journal event, as it is recorded.
    Jsonl,
}

/// The output of a verb that writes one document.
#[derive(Debug, ClapArgs)]
pub(crate) struct DocumentArgs {
    /// Write one JSON document: short for `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true, value_name = "text|json")]
    format: DocumentFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocumentFormat {
    Text,
    Json,
}

impl DocumentArgs {
    pub(super) fn resolve(&self) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            DocumentFormat::Text => Format::Text,
            DocumentFormat::Json => Format::Json,
        }
    }
}

/// The output of a verb that follows a run.
#[derive(Debug, ClapArgs)]
pub(crate) struct StreamArgs {
    /// Write one JSON document at the end: short for `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Output format; `jsonl` streams the journal's events as they are recorded
    #[arg(long, value_enum, default_value_t = StreamFormat::Text, hide_possible_values = true, value_name = "text|json|jsonl")]
    format: StreamFormat,
}

/// Whether the events of a run have the model's text, for a verb that follows one run.
#[derive(Debug, ClapArgs)]
pub(crate) struct TokenArgs {
    /// With `--format jsonl`: also write each piece of the model's text as it arrives, as an object of the kind `delta`
    #[arg(long, requires = "format")]
    pub(crate) tokens: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StreamFormat {
    Text,
    Json,
    Jsonl,
}

impl StreamArgs {
    pub(super) fn resolve(&self) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            StreamFormat::Text => Format::Text,
            StreamFormat::Json => Format::Json,
            StreamFormat::Jsonl => Format::Jsonl,
        }
    }
}
