//! Evals: a data set through an agent.
//!
//! An eval file says which agent is evaluated with which data set, what must hold of each trial, and what it is compared with. The
//! file is read here; the crate `dalsegno-eval` evaluates.

mod checks;
mod keys;
mod read;

use std::path::PathBuf;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentName, ToolPattern};
use dalsegno_expr::{Expression, Template, ValueTemplate};

pub use self::checks::Checks;
pub(crate) use self::keys::FILE;
use crate::diagnostic::Diagnostic;
use crate::source::SourceFile;

/// An eval file that was read, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct EvalRead {
    /// What it says; `None` if there is an error.
    pub eval: Option<Eval>,
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
    /// The file, to show the diagnostics; none where it cannot be read.
    pub source: Option<SourceFile>,
}

/// What an eval file says.
#[derive(Debug, Clone)]
pub struct Eval {
    /// By which it is known: its path below the workspace's folder, as a word.
    pub name: String,
    /// The agent, as a run of today has it.
    pub agent: Arc<AgentConfig>,
    /// The data set.
    pub data: PathBuf,
    /// The tenant.
    pub tenant: String,
    /// How often each item is tried, each way.
    pub trials: u32,
    /// The pass rate that must be reached.
    pub at_least: Option<f64>,
    /// The smallest difference of two pass rates that counts.
    pub smallest: f64,
    /// The tools that may change something.
    pub allow_effects: Vec<ToolPattern>,
    /// What the agent is compared with.
    pub against: Option<Against>,
    /// What must hold of each trial.
    pub checks: Checks,
    /// Who judges the answers.
    pub judges: Vec<Judge>,
    /// A model without a price that the agent or a judge uses, if there is one.
    pub unpriced: Option<String>,
}

/// What an agent is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Against {
    /// Another agent.
    Agent(Arc<AgentConfig>),
    /// Another model.
    Model(String),
    /// Another version of the workspace.
    Base(String),
}

/// An agent that judges answers.
#[derive(Debug, Clone)]
pub struct Judge {
    /// What it decides, in a word or two.
    pub name: String,
    /// The agent.
    pub agent: Arc<AgentConfig>,
    /// What it is asked; the answer when absent.
    pub text: Option<Template>,
    /// Its structured input.
    pub data: Option<ValueTemplate>,
    /// Whether the answer passes, from the `output`.
    pub pass: Expression,
    /// The entry of an item's `labels` with the verdict of a person.
    pub label: Option<String>,
}

impl Eval {
    /// The agents that take part: the one that is evaluated, the one that it is compared with, and the judges.
    pub fn agents(&self) -> impl Iterator<Item = &AgentName> {
        let other = match &self.against {
            Some(Against::Agent(other)) => Some(other),
            _ => None,
        };
        let judges = self.judges.iter().map(|judge| &judge.agent);
        std::iter::once(&self.agent).chain(other).chain(judges).map(|config| &config.name)
    }
}
