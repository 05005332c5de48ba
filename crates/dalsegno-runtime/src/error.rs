//! What can go wrong around a run. Trouble inside a run is its outcome, not an error.

use std::path::{Path, PathBuf};

use dalsegno_core::{AgentName, OperationId, RunId, Violation};
use dalsegno_history::HistoryError;
use dalsegno_workspace::{Diagnostic, NoTenant};

use crate::effects::bindings::add_key;

/// Why a workspace could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The workspace's files have errors; each is a diagnostic.
    #[error("the workspace `{}` has errors", root.display())]
    Workspace {
        /// The folder.
        root: PathBuf,
        /// What is wrong, and where.
        diagnostics: Vec<Diagnostic>,
    },
    /// A folder that the engine needs could not be made.
    #[error("cannot create the folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The journal could not be opened.
    #[error(transparent)]
    Store(#[from] dalsegno_store::OpenError),
    /// This process could not show that it lives.
    #[error(transparent)]
    Owner(dalsegno_store::OwnerError),
    /// The memory could not be opened.
    #[error(transparent)]
    Memory(#[from] dalsegno_memory::OpenError),
    /// A seed file of the memory could not be loaded.
    #[error("cannot load the seeds `{}`: {message}", path.display())]
    Seeds {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A tool belongs to a server that dalsegno.toml does not have.
    #[error("dalsegno.toml has no tool server `{server}`: {}", servers(server, known))]
    UnknownServer {
        /// The name.
        server: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A tool server is a program, and this engine starts none.
    #[error(
        "tool server `{server}` is a program, and this engine starts no programs: use an engine that does"
    )]
    Program {
        /// The name.
        server: String,
    },
    /// The digest of a module in dalsegno.toml is not one.
    #[error("tool server `{server}`: {message}")]
    Digest {
        /// The server.
        server: String,
        /// What is wrong with it.
        message: String,
    },
    /// A permission of a tool server in dalsegno.toml cannot be granted.
    #[error("tool server `{server}`: {message}")]
    Grant {
        /// The server.
        server: String,
        /// What is wrong with it.
        message: String,
    },
    /// The work was given up because the program is shutting down.
    #[error("cannot open the workspace: {message}: try again")]
    Stopped {
        /// What ended it.
        message: String,
    },
    /// A tool server could not be loaded.
    #[cfg(feature = "wasm")]
    #[error("tool server `{server}`: {source}")]
    Server {
        /// Its name in dalsegno.toml.
        server: String,
        /// Why.
        source: dalsegno_sandbox::LoadError,
    },
    /// A tool server is a WebAssembly module, which this build cannot run.
    #[error(
        "tool server `{server}` is a WebAssembly module, and this build of Dalsegno runs no WebAssembly: build it with the feature `wasm`"
    )]
    NoModules {
        /// Its name in dalsegno.toml.
        server: String,
    },
    /// A model could not be opened.
    #[error("model `{model}`: {message}")]
    Model {
        /// Its name in dalsegno.toml.
        model: String,
        /// Why.
        message: String,
    },
    /// The file for exchanges with models could not be opened.
    #[error("cannot record to `{}`: {message}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A secret could not be read.
    #[error("secret `{name}`: {message}")]
    Secret {
        /// Its name in dalsegno.toml.
        name: String,
        /// Why; never the value.
        message: String,
    },
}

/// Why a run could not be started, resumed, replayed or inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A secret came with the request, and there is no place to keep it.
    #[error("the secret `{path}` of the request cannot be written to the secret store: {message}")]
    UserSecret {
        /// Where it stands.
        path: String,
        /// Why not.
        message: String,
    },
    /// A secret that a run may meet is there and cannot be read, so that it could not be kept out of the records.
    #[error("cannot read a secret that has to be scrubbed from the records: {message}")]
    Scrubbing {
        /// Why; never the value.
        message: String,
    },
    /// A name that the caller chose holds a secret.
    #[error("the {what} contains a secret and would be recorded: use another one")]
    SecretName {
        /// What the name is for, such as `session`.
        what: &'static str,
    },
    /// The workspace has no such agent.
    #[error("there is no agent `{name}`: {}", agents(known))]
    UnknownAgent {
        /// The name that was asked for.
        name: AgentName,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The request is on behalf of a tenant that is none.
    #[error(transparent)]
    Tenant(#[from] NoTenant),
    /// A declarative tool that the agent may call lacks a part of its configuration.
    #[error(
        "`{name}` of the configuration of `{toolkit}` is set neither by the agent `{agent}` nor by the tenant `{tenant}`: add it to \
         `[tools.{toolkit}.config]` of tenants/{tenant}.toml"
    )]
    ToolkitConfig {
        /// The agent.
        agent: AgentName,
        /// The tenant.
        tenant: String,
        /// The document.
        toolkit: String,
        /// The value that is missing.
        name: String,
    },
    /// The agent asks a model of which each tenant has its own key, and this tenant has none.
    #[error(
        "the agent `{agent}` asks the model `{model}`, which has no key for the tenant `{tenant}`: {}",
        add_key(model, tenant)
    )]
    TenantKey {
        /// The agent.
        agent: AgentName,
        /// The tenant.
        tenant: String,
        /// The model.
        model: String,
    },
    /// The agent's file does not fit what its tool servers offer.
    #[error("the agent `{name}` has errors")]
    Agent {
        /// The agent.
        name: AgentName,
        /// What is wrong, and where.
        diagnostics: Vec<Diagnostic>,
    },
    /// The agent's file has errors, or that of an agent that it needs.
    #[error("the agent `{name}` cannot be used: {reason}")]
    BrokenAgent {
        /// The agent.
        name: AgentName,
        /// Why, in words.
        reason: String,
        /// What is wrong, and where.
        diagnostics: Vec<Diagnostic>,
    },
    /// Something that the agent needs could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A tool server that is not pinned needs a secret that the store does not have. Which tools a run has is not known then, so
    /// that there is no run that could wait.
    #[error(
        "tool server `{server}` needs the secret `{name}`, which the secret store does not have, and its tools are not pinned: no run \
         was started"
    )]
    ServerSecret {
        /// The server.
        server: String,
        /// The secret's name.
        name: String,
    },
    /// A tool server did not say what it offers.
    #[error(transparent)]
    Catalogue(#[from] dalsegno_protocol::CallError),
    /// The run could not be written down.
    #[error(transparent)]
    Create(#[from] dalsegno_store::CreateError),
    /// The run could not be taken over.
    #[error(transparent)]
    Acquire(#[from] dalsegno_store::AcquireError),
    /// A journal could not be read, or does not say what was asked.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A tool server offers something else than when the run started.
    #[error(
        "tool server `{server}` does not offer `{tool}` as run {run} knows it: put the earlier server back, or run \
         `dalsegno check --connect` and start a new run"
    )]
    Rebind {
        /// The run.
        run: RunId,
        /// The server.
        server: String,
        /// The tool that changed.
        tool: String,
    },
    /// The tenant or session is not a name that the memory can keep.
    #[error("{message}")]
    Principal {
        /// What is wrong with it.
        message: String,
    },
    /// The run waits for answers.
    #[error("run {run} waits for an answer: {}", waiting.first().map_or("", |one| one.question.as_str()))]
    Suspended {
        /// The run.
        run: RunId,
        /// What it waits for.
        waiting: Vec<dalsegno_history::WaitingOperation>,
    },
    /// The start key belongs to a run that a process performs at this moment.
    #[error(
        "the idempotency key belongs to run {run}, which another process executes: nothing new was started"
    )]
    AlreadyRunning {
        /// The run.
        run: RunId,
    },
    /// The run came in an archive.
    #[error(
        "run {run} came in an archive and is foreign: it can be shown, replayed, compared and forked, but not \
         executed"
    )]
    Foreign {
        /// The run.
        run: RunId,
    },
    /// A foreign run cannot be made one of this workspace.
    #[error("run {run} cannot be adopted: {}", reasons.join("; "))]
    NotAdopted {
        /// The foreign run.
        run: RunId,
        /// Each thing that stands in the way.
        reasons: Vec<String>,
    },
    /// The run has ended already.
    #[error("run {run} has already ended ({status}): see `dalsegno show {run}`")]
    Ended {
        /// The run.
        run: RunId,
        /// How.
        status: dalsegno_store::RunStatus,
    },
    /// The run is a call, whose caller would hear nothing.
    #[error("run {run} is a call, which cannot be paused: end it with `dalsegno call hangup {run}`")]
    PausedCall {
        /// The run.
        run: RunId,
    },
    /// The run is not paused.
    #[error("run {run} is not paused: see `dalsegno show {run}`")]
    NotPaused {
        /// The run.
        run: RunId,
    },
    /// The run can be ended with a look at what it has come to, which is better.
    #[error(
        "run {run} is healthy: end it with `dalsegno cancel {run}`, which also settles its unfinished operations, or add `--force`"
    )]
    Cancellable {
        /// The run.
        run: RunId,
    },
    /// Nobody can say where a run stands that is to be cancelled.
    #[error(
        "run {run} cannot be cancelled, because its state cannot be computed from its records: {source}: end it with `dalsegno abandon \
         {run} --reason TEXT`"
    )]
    Uncancellable {
        /// The run.
        run: RunId,
        /// Why.
        source: Box<Self>,
    },
    /// A run cannot go on from another.
    #[error(
        "run {run} has not ended, or belongs to another tenant: continue from a run of the same tenant that has ended"
    )]
    After {
        /// The other run.
        run: RunId,
    },
    /// Runs start runs too deep.
    #[error("agent `{agent}` would be {depth} runs below the first one: nest fewer calls of agents")]
    TooDeep {
        /// The agent that was to be started.
        agent: AgentName,
        /// How deep it would be.
        depth: u32,
    },
    /// The agent takes no calls.
    #[error("agent `{agent}` takes no calls: give its file a `[voice]` section")]
    NoVoice {
        /// The agent.
        agent: AgentName,
    },
    /// A daily budget has no room for a further call.
    #[error("no call is begun: {message}")]
    Budget {
        /// Whose budget it is, what is spent of it, and when it renews.
        message: String,
    },
    /// The run is a call of a telephone, which goes on at its provider, and this process has no line for it.
    #[error("run {run} is a call of a telephone, and no line of this process carries it")]
    NoLine {
        /// The run.
        run: RunId,
    },
    /// The live model of a call cannot be given this note.
    #[error("the note for run {run} needs words, and the name of who gives it at most 256 bytes")]
    Note {
        /// The run.
        run: RunId,
    },
    /// The run is no call.
    #[error("run {run} is no call: it has no live model that could be given a note")]
    NoCall {
        /// The run.
        run: RunId,
    },
    /// The agent cannot be given another model.
    #[error("cannot replace the model of agent `{agent}`: {message}")]
    Model {
        /// The agent.
        agent: AgentName,
        /// Why.
        message: String,
    },
    /// The file's runs could not be imported.
    #[error(transparent)]
    Import(#[from] dalsegno_store::ImportError),
    /// The key with which archives are signed cannot be read or made.
    #[error("cannot use the key that signs archives: {0}")]
    SigningKey(dalsegno_secrets::KeyError),
    /// There is no such key.
    #[error("this workspace has no key that signs archives: export a run, which creates one")]
    NoSigningKey,
    /// Another process could not be told.
    #[error(transparent)]
    Post(#[from] dalsegno_store::PostError),
    /// The run was interrupted.
    #[error("run {run} was interrupted: run `dalsegno resume {run}`")]
    Interrupted {
        /// The run.
        run: RunId,
    },
    /// The answer does not fit what the run waits for.
    #[error("{message}")]
    Answer {
        /// What is wrong, what was expected, what to do next.
        message: String,
        /// Whether the run does not wait for this answer, or not any more.
        is_late: bool,
    },
    /// The edited arguments do not fit the tool's schema; nothing was recorded.
    #[error(
        "the edited arguments of operation {operation} do not fit the schema of `{tool}`: {}",
        list(violations)
    )]
    Edit {
        /// The operation.
        operation: OperationId,
        /// Its tool.
        tool: String,
        /// Each place that does not fit.
        violations: Vec<Violation>,
    },
    /// Performing the run failed.
    #[error(transparent)]
    Run(#[from] RunFailure),
}

impl From<dalsegno_history::OpenError> for OpenError {
    fn from(error: dalsegno_history::OpenError) -> Self {
        match error {
            dalsegno_history::OpenError::Folder { path, source } => Self::Folder { path, source },
            dalsegno_history::OpenError::Store(error) => Self::Store(error),
            error => Self::Stopped { message: error.to_string() },
        }
    }
}

impl From<dalsegno_store::ReadError> for EngineError {
    fn from(error: dalsegno_store::ReadError) -> Self {
        Self::History(error.into())
    }
}

impl From<dalsegno_history::FoldError> for EngineError {
    fn from(error: dalsegno_history::FoldError) -> Self {
        Self::History(error.into())
    }
}

impl EngineError {
    /// Says whether the journal could not be read or written for a reason that can pass: another process locks it, the disk
    /// is full, or the disk failed.
    pub fn is_passing(&self) -> bool {
        use dalsegno_store::{AcquireError, AppendError, CreateError, PostError, ReadError};
        let storage = match self {
            Self::Create(CreateError::Storage(error) | CreateError::Append(AppendError::Storage(error)))
            | Self::Acquire(AcquireError::Storage(error))
            | Self::Acquire(AcquireError::Unreadable(ReadError::Storage(error)))
            | Self::History(HistoryError::Read(ReadError::Storage(error)))
            | Self::Post(PostError::Storage(error))
            | Self::Run(RunFailure::Append { source: AppendError::Storage(error), .. }) => error,
            Self::Run(RunFailure::Handoff { source, .. } | RunFailure::Child { source, .. }) => {
                return source.is_passing();
            }
            _ => return false,
        };
        storage.is_passing()
    }
}

/// Which servers there are, in words.
fn servers(wanted: &str, known: &[String]) -> String {
    match known {
        [] => format!("it has none; add `[servers.{wanted}]`"),
        known => format!("it has {}", known.join(", ")),
    }
}

fn agents(known: &[String]) -> String {
    match known {
        [] => "the workspace has none; write one in `agents/`".to_owned(),
        known => format!("the agents are {}", known.join(", ")),
    }
}

fn list(violations: &[Violation]) -> String {
    let words = violations.iter().map(|violation| format!("`{}` {}", violation.path, violation.message));
    words.collect::<Vec<_>>().join("; ")
}

/// Why this process had to let go of a run. Nothing that was recorded is lost; the run can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFailure {
    /// The journal could not be written: the disk is full, or another process took the run over.
    #[error("cannot record what happens in run {run}")]
    Append {
        /// The run.
        run: RunId,
        /// Why.
        source: dalsegno_store::AppendError,
    },
    /// The agent that was to go on could not be started.
    #[error("run {run} cannot hand over to agent `{target}`: correct the cause and resume the run")]
    Handoff {
        /// The run.
        run: RunId,
        /// The agent.
        target: AgentName,
        /// Why.
        source: Box<EngineError>,
    },
    /// A child run cannot be performed here now. It may still act elsewhere, so that its parent waits.
    #[error(
        "run {run} waits for a child run that cannot continue here: correct the cause and resume the run"
    )]
    Child {
        /// The run.
        run: RunId,
        /// Why the child cannot go on.
        source: Box<EngineError>,
    },
    /// The core refused its own state: a defect.
    #[error("run {run} cannot continue: {message}: this is a defect of the engine, please report it")]
    Defect {
        /// The run.
        run: RunId,
        /// What the core said.
        message: String,
    },
    /// The task that performed the run panicked: a defect.
    #[error(
        "run {run} stopped because of a defect of the engine: {message}: resume the run, and report the defect"
    )]
    Panicked {
        /// The run.
        run: RunId,
        /// What the task said.
        message: String,
    },
}

/// Makes a folder that only its owner may use, with those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), OpenError> {
    dalsegno_files::make_folder(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })
}
