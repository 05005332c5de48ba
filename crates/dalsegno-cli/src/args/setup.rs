//! The arguments of the verbs that set things up: workspaces, editors, shells, manual pages.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use dalsegno_workspace::FileKind;

use super::{DocumentArgs, names};

#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// Folder of the workspace; created if it does not exist [default: the current one]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Template to start from
    #[arg(long, value_enum, default_value_t = TemplateArg::Plan, value_name = "NAME")]
    pub(crate) template: TemplateArg,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

/// The template of a new workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateArg {
    /// An agent that follows written steps and remembers; no model
    Plan,
    /// An agent that a model drives; the model is scripted until you name a real one
    Chat,
    /// A support desk: tools, another agent as a tool, an approval, memory, a structured answer
    Support,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Start every tool server, compare its tools with `dalsegno.lock`, and rewrite that file, including the names that
    /// models see for the actions of toolkits
    #[arg(long)]
    pub(crate) connect: bool,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SchemaArgs {
    /// The kind of file
    #[arg(value_parser = names::<FileKind>(FileKind::ALL.map(FileKind::as_str)))]
    pub(crate) kind: FileKind,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: ShellArg,
}

/// A shell that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellArg {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl ShellArg {
    /// The name that the shell's program has.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Folder to write one page for each command to; without it, the main page goes to standard output
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

pub(super) const INIT_EXAMPLES: &str = "\
Examples:
  dalsegno init                           in this folder
  dalsegno init my-desk --template support";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  dalsegno check                          reads files, starts nothing
  dalsegno check --connect                what changed at the tool servers?
  dalsegno check --json | jq '.[].message'";

pub(super) const SCHEMA_EXAMPLES: &str = "\
Examples:
  dalsegno schema agent > agent.schema.json
  dalsegno schema dalsegno";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(dalsegno completions bash)     in ~/.bashrc
  source <(dalsegno completions zsh)      in ~/.zshrc
  dalsegno completions fish | source      in ~/.config/fish/config.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  dalsegno man | man -l -
  dalsegno man ~/.local/share/man/man1";
