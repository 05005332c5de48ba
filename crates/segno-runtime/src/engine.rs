//! The door of the library: an engine for one workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{OnceCell, broadcast, watch};

use segno_core::{
    AgentConfig, AgentName, AgentRequest, AgentResponse, Answer, Digest, MemoryScope, RunId, SEMANTICS,
    Timestamp, ToolKind, ToolName, digest_json,
};
use segno_memory::{Memory, Principal, Scope, ScopeResolver};
use segno_models::Model;
use segno_store::{
    AcquireError, Created, Lease, NewRun, Owner, Record, RunFilter, RunSummary, SqliteStore, Started, Store,
};
use segno_workspace::{AgentFile, Diagnostic, Loaded, Severity, Workspace};

use crate::answers;
use crate::attempt::RunContext;
use crate::bindings::{Bindings, Sessions, WORKSPACE, make_folder};
use crate::driver::Driver;
use crate::error::{EngineError, OpenError};
use crate::fold::{Fold, FoldError};
use crate::handle::{GateInput, RunEnd, RunEvent, RunHandle, RunReport};
use crate::tool::{Tool, ToolDescription};

/// Events that a slow reader may fall behind before it misses some.
const EVENTS: usize = 1_024;

/// An engine for one workspace. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    workspace: Workspace,
    bindings: Arc<Bindings>,
    store: Arc<dyn Store>,
    owners: Owners,
}

/// Where this process shows that it lives: claimed when it first owns a run, so that a process that only reads claims nothing.
enum Owners {
    Folder {
        dir: PathBuf,
        claimed: OnceCell<Owner>,
    },
    Given(Owner),
    /// An engine that only reads owns nothing.
    None,
}

/// How a run is started.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The caller's key: the same key again returns the same run instead of starting another.
    pub key: Option<String>,
    /// The session that the run belongs to; one of its own when absent.
    pub session: Option<String>,
}

/// Builds an engine with parts of one's own.
#[derive(Default)]
pub struct EngineBuilder {
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: BTreeMap<String, Arc<dyn Model>>,
    store: Option<(Arc<dyn Store>, Owner)>,
    memory: Option<Arc<dyn Memory>>,
}

impl EngineBuilder {
    /// Registers a tool written in Rust.
    #[must_use]
    pub fn tool(mut self, name: ToolName, tool: impl Tool) -> Self {
        let description = tool.describe();
        self.tools.insert(name, (description, Arc::new(tool)));
        self
    }

    /// Puts a model in the place of the one that segno.toml has under this name.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl Model + 'static) -> Self {
        self.models.insert(name.to_owned(), Arc::new(model));
        self
    }

    /// Keeps journals in this store instead of the one that segno.toml names.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static, owner: Owner) -> Self {
        self.store = Some((Arc::new(store), owner));
        self
    }

    /// Uses this memory instead of the one that segno.toml names.
    #[must_use]
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.memory = Some(Arc::new(memory));
        self
    }

    /// Opens a workspace folder.
    ///
    /// # Errors
    /// When its files have errors, or the journal cannot be opened.
    pub async fn open(self, root: &Path) -> Result<Engine, OpenError> {
        let loaded = Workspace::load(root);
        match loaded.workspace {
            Some(workspace) if loaded.diagnostics.iter().all(|one| one.severity != Severity::Error) => {
                self.build(workspace).await
            }
            _ => Err(OpenError::Workspace { root: root.to_owned(), diagnostics: loaded.diagnostics }),
        }
    }

    /// Builds the engine for a workspace that is loaded already.
    ///
    /// # Errors
    /// When a secret cannot be read, or the journal cannot be opened.
    pub async fn build(self, workspace: Workspace) -> Result<Engine, OpenError> {
        let (store, owners) = match self.store {
            Some((store, owner)) => (store, Owners::Given(owner)),
            None => {
                let (store, folder) = open_store(&workspace).await?;
                (store, Owners::Folder { dir: folder.join("owners"), claimed: OnceCell::new() })
            }
        };
        let bindings = Bindings::new(
            workspace.root.clone(),
            workspace.settings.clone(),
            self.tools,
            self.models,
            self.memory,
        )?;
        Ok(Engine { inner: Arc::new(Inner { workspace, bindings: Arc::new(bindings), store, owners }) })
    }
}

impl Engine {
    /// Opens a workspace folder. Models and tool servers are opened when they are first needed.
    ///
    /// # Errors
    /// When the workspace's files have errors, a secret cannot be read, or the journal cannot be opened.
    pub async fn open(root: &Path) -> Result<Self, OpenError> {
        Self::builder().open(root).await
    }

    /// Opens the journals of a workspace folder, whatever errors its agents, tool servers or secrets have.
    ///
    /// The engine can list, inspect and replay runs. It has no agents, so that starting a run finds none, and it
    /// refuses to go on with one.
    ///
    /// # Errors
    /// When segno.toml does not say where the journal is, or the journal cannot be opened.
    pub async fn journal(root: &Path) -> Result<Self, OpenError> {
        let Loaded { settings, diagnostics, .. } = Workspace::load(root);
        let Some(mut settings) = settings else {
            return Err(OpenError::Workspace { root: root.to_owned(), diagnostics });
        };
        // Nothing is performed, so that there is nothing to authorise, and nothing to scrub from a record.
        settings.secrets.clear();
        let workspace = Workspace { root: root.to_owned(), settings, agents: BTreeMap::new() };
        let (store, _) = open_store(&workspace).await?;
        let (root, settings) = (workspace.root.clone(), workspace.settings.clone());
        let bindings = Arc::new(Bindings::new(root, settings, BTreeMap::new(), BTreeMap::new(), None)?);
        Ok(Self { inner: Arc::new(Inner { workspace, bindings, store, owners: Owners::None }) })
    }

    /// Builds an engine with tools, models, a store or a memory of one's own.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The workspace as it was loaded.
    pub fn workspace(&self) -> &Workspace {
        &self.inner.workspace
    }

    /// Runs an agent to its end.
    ///
    /// # Errors
    /// When the run cannot be started or written down, or waits for a person: then it can be resumed by its id.
    pub async fn execute_agent_request(
        &self,
        agent: &AgentName,
        request: AgentRequest,
    ) -> Result<AgentResponse, EngineError> {
        let report = self.start(agent, request, StartOptions::default()).await?.finish().await?;
        match report.end {
            RunEnd::Ended(response) => Ok(response),
            RunEnd::Suspended(waiting) => Err(EngineError::Suspended { run: report.run, waiting }),
            RunEnd::Interrupted => Err(EngineError::Interrupted { run: report.run }),
        }
    }

    /// Starts a run of an agent.
    ///
    /// # Errors
    /// When there is no such agent, its tools are not what its file expects, or the run cannot be written down.
    pub async fn start(
        &self,
        agent: &AgentName,
        request: AgentRequest,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        let file = self.agent(agent)?;
        let (config, modules) = self.resolve(file).await?;
        let run = RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes());
        let config_json = serde_json::to_string(&config)
            .map_err(|error| EngineError::Config { run, message: error.to_string() })?;
        let session = options.session.unwrap_or_else(|| run.to_string());
        let started = Started {
            agent: agent.clone(),
            config: config.digest(),
            semantics: SEMANTICS,
            request: request.clone(),
            session: session.clone(),
            predecessor: None,
            start_key: options.key,
            modules,
        };
        // A tenant or session that is no name is refused before anything is written down.
        let config = Arc::new(config);
        let (context, events) = self.context(run, Arc::clone(&config), &session, request.tenant.as_str())?;
        let owner = self.owner(run).await?;
        let at = now();
        let new = NewRun::new(run, config_json, digest_request(agent, &request), owner.id(), at, started);
        let records = new.records.clone();
        let lease = match self.inner.store.create(new).await? {
            Created::New(lease) => lease,
            Created::Existing(run) => {
                let resumed = Box::pin(self.resume(run, Vec::new())).await;
                return resumed.map_err(|error| match error {
                    EngineError::Acquire(AcquireError::Owned { .. }) => EngineError::AlreadyRunning { run },
                    error => error,
                });
            }
        };
        let state = segno_core::AgentState::start(run, request, at);
        let fold = Fold::at(config, run, state);
        for (record, seq) in records.into_iter().zip(0..) {
            // The handle that is about to be returned holds the receiver.
            let _ = context.events.send(RunEvent::Recorded { seq, record: Arc::new(record) });
        }
        let (interrupt, interrupted) = watch::channel(false);
        let driver = Driver::new(context, Arc::clone(&self.inner.store), lease, fold, interrupted);
        Ok(RunHandle { run, events, interrupt, task: tokio::spawn(driver.drive()) })
    }

    /// Goes on with a run: after an interruption or a crash, or with answers to what it waits for. A run that has
    /// ended reports its end again.
    ///
    /// # Errors
    /// When there is no such run, another process owns it, its journal is damaged, or an answer does not fit. Nothing
    /// is recorded then.
    pub async fn resume(&self, run: RunId, answers: Vec<GateInput>) -> Result<RunHandle, EngineError> {
        let summary = self.inner.store.summary(run).await?;
        let config = self.config(run, summary.config).await?;
        if summary.status.is_end() {
            return self.report_end(run, config, &answers).await;
        }
        let owner = self.owner(run).await?;
        let lease = self.inner.store.acquire(run, owner).await?;
        match self.take_over(run, config, &summary, &lease, answers).await {
            Ok((context, events, fold, answers)) => self.go_on(run, context, events, fold, lease, answers),
            Err(error) => {
                // The error that stopped us matters more than one while giving the run back.
                let _ = self.inner.store.release(lease).await;
                Err(error)
            }
        }
    }

    /// Lists runs, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, EngineError> {
        Ok(self.inner.store.runs(filter).await?)
    }

    /// Finds the runs whose ids begin with these hexadecimal digits.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, EngineError> {
        Ok(self.inner.store.find_runs(prefix).await?)
    }

    /// Checks every agent against what its tool servers really offer.
    ///
    /// # Errors
    /// When a tool server cannot be loaded or asked.
    pub async fn check(&self) -> Result<Vec<Diagnostic>, EngineError> {
        let mut diagnostics = Vec::new();
        for file in self.inner.workspace.agents.values() {
            match self.resolve(file).await {
                Ok(_) => {}
                Err(EngineError::Agent { diagnostics: found, .. }) => diagnostics.extend(found),
                Err(error) => return Err(error),
            }
        }
        Ok(diagnostics)
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// A run's configuration, as the store keeps it.
    pub(crate) async fn config(&self, run: RunId, digest: Digest) -> Result<Arc<AgentConfig>, EngineError> {
        let failed = |message: String| EngineError::Config { run, message };
        let json = self.inner.store.config(digest).await.map_err(|error| failed(error.to_string()))?;
        let config: AgentConfig = serde_json::from_str(&json).map_err(|error| failed(error.to_string()))?;
        if config.digest() == digest {
            Ok(Arc::new(config))
        } else {
            Err(failed("it does not have its digest".into()))
        }
    }

    fn agent(&self, name: &AgentName) -> Result<&AgentFile, EngineError> {
        self.inner.workspace.agents.get(name).ok_or_else(|| EngineError::UnknownAgent {
            name: name.clone(),
            known: self.inner.workspace.agents.keys().map(ToString::to_string).collect(),
        })
    }

    /// An agent with what its servers offer now, and the digests of their modules.
    async fn resolve(
        &self,
        file: &AgentFile,
    ) -> Result<(AgentConfig, BTreeMap<String, String>), EngineError> {
        let bindings = &self.inner.bindings;
        let servers = file.servers(bindings.settings());
        let mut digests = BTreeMap::new();
        for server in &servers {
            digests.insert(server.clone(), bindings.server(server).await?.digest().to_string());
        }
        let catalogue = bindings.catalogue(servers).await?;
        let config = file
            .resolve(&catalogue)
            .map_err(|diagnostics| EngineError::Agent { name: file.name.clone(), diagnostics })?;
        Ok((config, digests))
    }

    /// Who this process is, to own a run.
    async fn owner(&self, run: RunId) -> Result<&Owner, EngineError> {
        match &self.inner.owners {
            Owners::None => Err(EngineError::ReadOnly { run }),
            Owners::Given(owner) => Ok(owner),
            Owners::Folder { dir, claimed } => {
                let owner =
                    claimed.get_or_try_init(|| async { Owner::claim(dir).map_err(OpenError::Owner) }).await?;
                Ok(owner)
            }
        }
    }

    async fn report_end(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        answers: &[GateInput],
    ) -> Result<RunHandle, EngineError> {
        if !answers.is_empty() {
            return Err(EngineError::Answer {
                message: format!(
                    "run {run} has ended and waits for no answer: look at it with `segno show {run}`"
                ),
            });
        }
        let agent = config.name.clone();
        let records = self.inner.store.read(run, 0).await?;
        let fold = fold_all(run, config, &records)?;
        let state = fold.state();
        let (steps, usage) = (state.step(), state.usage());
        let end = fold.ended.ok_or(FoldError::NoStart { run })?;
        let report = RunReport { run, agent, end: RunEnd::Ended(end), steps, usage };
        let (_, events) = broadcast::channel(1);
        let (interrupt, _) = watch::channel(false);
        Ok(RunHandle { run, events, interrupt, task: tokio::spawn(async { Ok(report) }) })
    }

    /// Reads where an owned run stands, and checks that it can go on here.
    async fn take_over(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        summary: &RunSummary,
        lease: &Lease,
        answers: Vec<GateInput>,
    ) -> Result<Taken, EngineError> {
        let fold = self.fold_from_snapshot(run, &config).await?;
        let rebound = self.rebind(run, &config, &fold).await?;
        let answers = answers::check(run, &config, fold.state(), answers)?;
        let (context, events) = self.context(run, config, &summary.session, &summary.tenant)?;
        tracing::debug!(%run, records = lease.next_seq(), answers = answers.len(), "taking a run over");
        Ok((context, events, fold, Orders { rebound, answers }))
    }

    fn go_on(
        &self,
        run: RunId,
        context: Arc<RunContext>,
        events: broadcast::Receiver<RunEvent>,
        fold: Fold,
        lease: Lease,
        orders: Orders,
    ) -> Result<RunHandle, EngineError> {
        let (interrupt, interrupted) = watch::channel(false);
        let mut driver = Driver::new(context, Arc::clone(&self.inner.store), lease, fold, interrupted);
        driver.rebind(orders.rebound);
        driver.take_up()?;
        for (operation, answer) in orders.answers {
            driver.answer(operation, answer)?;
        }
        Ok(RunHandle { run, events, interrupt, task: tokio::spawn(driver.drive()) })
    }

    /// Folds the journal from the latest snapshot on; from the beginning when there is none.
    async fn fold_from_snapshot(&self, run: RunId, config: &Arc<AgentConfig>) -> Result<Fold, EngineError> {
        let Some(snapshot) = self.inner.store.snapshot(run).await? else {
            let records = self.inner.store.read(run, 0).await?;
            return Ok(fold_all(run, Arc::clone(config), &records)?);
        };
        let records = self.inner.store.read(run, snapshot.seq).await?;
        let mut fold = Fold::at(Arc::clone(config), run, snapshot.state);
        fold.carry(snapshot.active_ms, snapshot.modules);
        records.iter().try_for_each(|record| fold.apply(record))?;
        Ok(fold)
    }

    /// Compares the tool servers with those that the run has used: another module is fine as long as it offers the
    /// same tools, and is written down.
    async fn rebind(
        &self,
        run: RunId,
        config: &AgentConfig,
        fold: &Fold,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let mut rebound = BTreeMap::new();
        for (server, known) in &fold.modules {
            let digest = self.inner.bindings.server(server).await?.digest().to_string();
            if digest != *known {
                rebound.insert(server.clone(), digest);
            }
        }
        if rebound.is_empty() {
            return Ok(rebound);
        }
        let servers: BTreeSet<String> = rebound.keys().cloned().collect();
        let offered = self.inner.bindings.catalogue(servers.clone()).await?;
        for (name, tool) in config.tools.tools.iter().filter(|(_, tool)| tool.kind == ToolKind::External) {
            let Some((server, _)) =
                name.as_str().split_once('.').filter(|(server, _)| servers.contains(*server))
            else {
                continue;
            };
            let same = offered.get(name).is_some_and(|now| {
                now.input_schema == tool.input_schema
                    && now.output_schema == tool.output_schema
                    && now.description == tool.description
            });
            if !same {
                let (server, tool) = (server.to_owned(), name.to_string());
                return Err(EngineError::Rebind { run, server, tool });
            }
        }
        Ok(rebound)
    }

    /// What the attempts of a run share, and the first reader of its events.
    fn context(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        session: &str,
        tenant: &str,
    ) -> Result<(Arc<RunContext>, broadcast::Receiver<RunEvent>), EngineError> {
        let scope = match config.memory_scope {
            MemoryScope::Session => Scope::Session,
            MemoryScope::Agent => Scope::Agent,
            MemoryScope::Workspace => Scope::Workspace,
            MemoryScope::Tenant => Scope::Tenant,
        };
        let principal = Principal::new(tenant, WORKSPACE, config.name.as_str(), session)
            .map_err(|error| EngineError::Principal { message: error.to_string() })?;
        let (events, reader) = broadcast::channel(EVENTS);
        let context = RunContext {
            run,
            bindings: Arc::clone(&self.inner.bindings),
            sessions: Sessions::default(),
            toolbox: Arc::new(config.tools.clone()),
            config,
            scopes: ScopeResolver.resolve(&principal, scope),
            events,
        };
        Ok((Arc::new(context), reader))
    }
}

/// A run that was taken over.
type Taken = (Arc<RunContext>, broadcast::Receiver<RunEvent>, Fold, Orders);

/// What is to be recorded before a run that was taken over goes on.
struct Orders {
    rebound: BTreeMap<String, String>,
    answers: Vec<(segno_core::OperationId, Answer)>,
}

/// Opens the store that segno.toml names; returns the folder that it is in as well.
async fn open_store(workspace: &Workspace) -> Result<(Arc<dyn Store>, PathBuf), OpenError> {
    let path = workspace.settings.store.clone();
    let folder = path.parent().unwrap_or(&workspace.root).to_owned();
    make_folder(&folder)?;
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&path)).await;
    let store = store.map_err(|error| OpenError::Stopped { message: error.to_string() })??;
    Ok((Arc::new(store), folder))
}

/// Folds a whole journal.
pub(crate) fn fold_all(run: RunId, config: Arc<AgentConfig>, records: &[Record]) -> Result<Fold, FoldError> {
    let (first, rest) = records.split_first().ok_or(FoldError::NoStart { run })?;
    let mut fold = Fold::begin(config, run, first)?;
    rest.iter().try_for_each(|record| fold.apply(record))?;
    Ok(fold)
}

/// The digest of what a run is asked: the same start key with another one is a conflict.
fn digest_request(agent: &AgentName, request: &AgentRequest) -> Digest {
    digest_json(&serde_json::json!({ "agent": agent, "text": request.text, "data": request.data }))
}

/// The time of the system's clock. A clock before 1970 counts as 1970.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
