//! The arguments of `dalsegno memory`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use clap_complete::ArgValueCandidates;
use dalsegno_core::AgentName;
use dalsegno_memory::{
    DEPTH_DEFAULT, DEPTH_MAX, Direction, ENTITIES_LIMIT_MAX, ImportMode, LIMIT_DEFAULT, LIMIT_MAX,
    RelationTo, STRENGTH_DEFAULT, Scope, TRAVERSE_LIMIT_DEFAULT,
};

use super::{DocumentArgs, Format, names};
use crate::complete;

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    pub(crate) verb: MemoryVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryVerb {
    /// Search for observations, best match first
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(MemorySearchArgs),
    /// Add an observation about an entity
    #[command(after_help = ADD_EXAMPLES)]
    Add(MemoryAddArgs),
    /// Relate one entity to another
    #[command(after_help = RELATE_EXAMPLES)]
    Relate(MemoryRelateArgs),
    /// Correct the text of an observation; the old text stays in the history
    #[command(after_help = EDIT_EXAMPLES)]
    Edit(MemoryEditArgs),
    /// Delete an entity, an observation or a relation, with its history
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(MemoryDeleteArgs),
    /// Follow relations from an entity
    #[command(after_help = TRAVERSE_EXAMPLES)]
    Traverse(MemoryTraverseArgs),
    /// Show everything about an entity
    #[command(after_help = SHOW_EXAMPLES)]
    Show(MemoryShowArgs),
    /// Export a scope as JSON lines
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(MemoryExportArgs),
    /// Import JSON lines into a scope, all or none
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(MemoryImportArgs),
}

impl MemoryVerb {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Search(search) => search.document.resolve(),
            Self::Add(add) => add.document.resolve(),
            Self::Relate(relate) => relate.document.resolve(),
            Self::Edit(edit) => edit.document.resolve(),
            Self::Delete(delete) => delete.document.resolve(),
            Self::Traverse(traverse) => traverse.document.resolve(),
            Self::Show(show) => show.document.resolve(),
            Self::Import(import) => import.document.resolve(),
            // What it writes is a document of its own.
            Self::Export(_) => Format::Text,
        }
    }
}

/// The scope of a memory, and its owner.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Scope options")]
pub(crate) struct ScopeArgs {
    /// Scope of the memory [default: that of the agent's file, else `workspace`]
    #[arg(long, value_parser = names::<Scope>(Scope::ALL.map(Scope::as_str)), value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,
    /// Agent that owns the memory; required for the scopes `agent` and `session`
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::agents))]
    pub(crate) agent: Option<AgentName>,
    /// Session that owns the memory; required for the scope `session`
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub(crate) session: Option<String>,
    /// Tenant that owns the memory [default: that of a run that names none]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemorySearchArgs {
    /// Text to search for, in plain words
    pub(crate) query: String,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(LIMIT_MAX)))]
    pub(crate) limit: u32,
    /// Minimum score of a hit, 0 to 1
    #[arg(long, value_name = "SCORE", default_value_t = 0.0)]
    pub(crate) min_score: f64,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryAddArgs {
    /// The entity's name; a new name creates a new entity
    pub(crate) entity: String,
    /// Observation: a text, `-` for standard input, `@FILE` for a file
    pub(crate) text: String,
    /// Type of the entity
    #[arg(long = "type", value_name = "TYPE", default_value = "note")]
    pub(crate) entity_type: String,
    /// A relation of the entity, such as `caused_by=DEP-3`; may be repeated
    #[arg(long, value_name = "RELATION=TO", value_parser = relation)]
    pub(crate) relation: Vec<RelationTo>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryRelateArgs {
    /// The entity that the relation starts from
    pub(crate) from: String,
    /// The type of the relation, such as `caused_by`
    pub(crate) relation: String,
    /// The entity that it leads to
    pub(crate) to: String,
    /// Strength of the relation, 0 to 1
    #[arg(long, default_value_t = STRENGTH_DEFAULT)]
    pub(crate) strength: f64,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryEditArgs {
    /// The observation: the first digits of its id, as `dalsegno memory show` lists them
    #[arg(value_name = "OBSERVATION")]
    pub(crate) observation: String,
    /// The text that is right: a text, `-` for standard input, `@FILE` for a file
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryDeleteArgs {
    /// The entity to delete with everything about it; before RELATION and TO, the entity that the relation starts from
    #[arg(required_unless_present = "observation")]
    pub(crate) entity: Option<String>,
    /// The type of the relation to delete
    #[arg(requires = "to")]
    pub(crate) relation: Option<String>,
    /// The entity that the relation leads to
    pub(crate) to: Option<String>,
    /// Delete one observation: the first digits of its id, as `dalsegno memory show` lists them
    #[arg(long, value_name = "OBSERVATION", conflicts_with = "entity")]
    pub(crate) observation: Option<String>,
    /// Delete it for ever; without this, only say what would be deleted
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryTraverseArgs {
    /// The entity to begin at
    pub(crate) from: String,
    /// Only relations of this type
    #[arg(long)]
    pub(crate) relation: Option<String>,
    /// Maximum number of relations in a path
    #[arg(long, value_name = "N", default_value_t = DEPTH_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    pub(crate) depth: u32,
    /// Direction to follow: along the relations, against them, or both
    #[arg(long, default_value_t = Direction::Out, value_name = "DIRECTION")]
    #[arg(value_parser = names::<Direction>(Direction::ALL.map(Direction::as_str)))]
    pub(crate) direction: Direction,
    /// Maximum number of entities
    #[arg(long, value_name = "N", default_value_t = TRAVERSE_LIMIT_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(ENTITIES_LIMIT_MAX)))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryShowArgs {
    /// The entity's name
    pub(crate) entity: String,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryExportArgs {
    /// New file to write; without it, standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MemoryImportArgs {
    /// The file; `-` for standard input. An export, or the file of the MCP reference memory server
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// How to treat existing content that differs: the file wins, the memory wins, or nothing is imported
    #[arg(long, default_value_t = ImportMode::Fail, value_name = "MODE")]
    #[arg(value_parser = names::<ImportMode>(ImportMode::ALL.map(ImportMode::as_str)))]
    pub(crate) merge: ImportMode,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) document: DocumentArgs,
}

fn relation(text: &str) -> Result<RelationTo, String> {
    match text.split_once('=') {
        Some((relation, to)) if !relation.is_empty() && !to.is_empty() => {
            Ok(RelationTo { relation: relation.to_owned(), to: to.to_owned() })
        }
        Some(_) | None => Err("expected `RELATION=TO`, such as `caused_by=DEP-3`".to_owned()),
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  dalsegno memory search \"disk full\"
  dalsegno memory add INC-7 \"disk full on db-1\" --type incident --relation caused_by=DEP-3
  dalsegno memory show INC-7
  dalsegno memory delete INC-7";

const SEARCH_EXAMPLES: &str = "\
Examples:
  dalsegno memory search \"disk full on db-1\"
  dalsegno memory search timeout --agent triage --limit 20 --min-score 0.3
  dalsegno memory search timeout --json | jq '.[].entity'";

const ADD_EXAMPLES: &str = "\
Examples:
  dalsegno memory add INC-7 \"disk full on db-1\" --type incident
  dalsegno memory add INC-7 @report.txt --relation caused_by=DEP-3 --relation affects=db-1";

const RELATE_EXAMPLES: &str = "\
Examples:
  dalsegno memory relate INC-7 caused_by DEP-3
  dalsegno memory relate INC-7 similar_to INC-2 --strength 0.6";

const EDIT_EXAMPLES: &str = "\
Examples:
  dalsegno memory show INC-7              lists the ids of its observations
  dalsegno memory edit 5f3a90c2 \"disk full on db-2\"
  dalsegno memory edit 5f3a90c2 @report.txt --scope tenant --tenant acme";

const DELETE_EXAMPLES: &str = "\
Nothing brings back what was deleted: neither a run that resumes nor a seed file. Runs that wrote it or
read it keep it in their journals until `dalsegno erase RUN`.

Examples:
  dalsegno memory delete INC-7            says what would be deleted
  dalsegno memory delete INC-7 --yes      the entity, its observations and its relations
  dalsegno memory delete --observation 5f3a90c2 --yes
  dalsegno memory delete INC-7 caused_by DEP-3 --yes";

const TRAVERSE_EXAMPLES: &str = "\
Examples:
  dalsegno memory traverse INC-7
  dalsegno memory traverse DEP-3 --direction in --relation caused_by --depth 1";

const SHOW_EXAMPLES: &str = "\
Examples:
  dalsegno memory show INC-7
  dalsegno memory show INC-7 --json | jq .observations";

const EXPORT_EXAMPLES: &str = "\
Examples:
  dalsegno memory export backup.jsonl
  dalsegno memory export --scope tenant --tenant acme | gzip > acme.jsonl.gz";

const IMPORT_EXAMPLES: &str = "\
Examples:
  dalsegno memory import backup.jsonl
  gunzip -c acme.jsonl.gz | dalsegno memory import - --merge skip --scope tenant --tenant acme";
