//! The door of the library: an engine for one workspace.

mod journal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OnceCell, broadcast};

use dalsegno_core::{
    AgentConfig, AgentName, AgentRequest, AgentResponse, Digest, MemoryScope, RunId, Timestamp, ToolName,
    digest_json,
};
use dalsegno_memory::{Memory, Principal, Scope, ScopeResolver};
use dalsegno_models::Model;
use dalsegno_net::Transport;
use dalsegno_secrets::SecretStore;
use dalsegno_store::{Owner, ReadError, RunFilter, RunSummary, SqliteStore, Store};
use dalsegno_workspace::{AgentFile, BrokenAgent, Catalogue, ModelBinding, Workspace};

use crate::attempt::RunContext;
use crate::bindings::{Bindings, Sessions, secrets_of};
use crate::bound::Bound;
use crate::clock::{Clock, SystemClock};
use crate::declared::{Endpoints, kept_secrets};
use crate::dispatch::{Dispatcher, Load, Target};
use crate::error::make_folder;
use crate::error::{EngineError, OpenError};
use crate::grant::Grant;
use crate::handle::{RunEnd, RunEvent};
use crate::live::{Live, Look};
use crate::names::{DEFAULT_TENANT, WORKSPACE};
#[cfg(feature = "oauth")]
use crate::oauth::Refreshes;
use crate::observer::{Observer, Watched, Watches};
use crate::secret;
use crate::secret_source::{SecretSource, SecretUnavailable};
use crate::start::StartOptions;
use crate::steady::Steady;
use crate::tasks::Announcements;
use crate::tool::{Tool, ToolDescription};

/// Events that a slow reader may fall behind before it misses some.
const EVENTS: usize = 1_024;

pub use self::journal::open_journal;

/// An engine for one workspace. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    live: Live,
    bindings: Arc<Bindings>,
    store: Arc<dyn Store>,
    owners: Owners,
    dispatcher: Dispatcher,
    endpoints: Endpoints,
    #[cfg(feature = "oauth")]
    refreshes: Refreshes,
    clock: Arc<dyn Clock>,
    steady: Steady,
    observers: Vec<Arc<dyn Observer>>,
    run_ids: Option<RunIds>,
    snapshot_every: u64,
}

/// Draws the ids of root runs and forks.
type RunIds = Arc<dyn Fn() -> RunId + Send + Sync>;

/// The steps between two snapshots, unless a builder says otherwise: folding so many takes less than a tenth of a second.
const SNAPSHOT_EVERY: u64 = 1_000;

impl Inner {
    fn new(
        workspace: Workspace,
        bindings: Arc<Bindings>,
        store: Arc<dyn Store>,
        owners: Owners,
        clock: Arc<dyn Clock>,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        let settings = &workspace.settings;
        let servers = settings
            .servers
            .iter()
            .filter_map(|(name, server)| Some((Target::Server(name.clone()), server.limits.concurrency?)));
        let models = settings.models.iter().filter_map(|(name, model)| match model {
            ModelBinding::Http(http) => Some((Target::Model(name.clone()), http.concurrency?)),
            ModelBinding::Script { .. } | ModelBinding::Cassette { .. } => None,
        });
        let dispatcher = Dispatcher::new(settings.dispatch, servers.chain(models).collect());
        let endpoints = Endpoints::default();
        let live = Live::new(workspace);
        Self {
            live,
            bindings,
            store,
            owners,
            dispatcher,
            endpoints,
            #[cfg(feature = "oauth")]
            refreshes: Refreshes::default(),
            clock,
            steady: Steady::default(),
            observers,
            run_ids: None,
            snapshot_every: SNAPSHOT_EVERY,
        }
    }
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

/// Builds an engine with parts of one's own.
#[derive(Default)]
pub struct EngineBuilder {
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: BTreeMap<String, Arc<dyn Model>>,
    store: Option<(Arc<dyn Store>, Owner)>,
    memory: Option<Arc<dyn Memory>>,
    record: Option<PathBuf>,
    clock: Option<Arc<dyn Clock>>,
    observers: Vec<Arc<dyn Observer>>,
    secret_store: Option<Arc<dyn SecretStore>>,
    no_programs: bool,
    transport: Option<Arc<dyn Transport>>,
    run_ids: Option<RunIds>,
    snapshot_every: Option<u64>,
}

impl EngineBuilder {
    /// Registers a tool written in Rust.
    #[must_use]
    pub fn tool(mut self, name: ToolName, tool: impl Tool) -> Self {
        let description = tool.describe();
        self.tools.insert(name, (description, Arc::new(tool)));
        self
    }

    /// Puts a model in the place of the one that dalsegno.toml has under this name.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl Model + 'static) -> Self {
        self.models.insert(name.to_owned(), Arc::new(model));
        self
    }

    /// Keeps journals in this store instead of the one that dalsegno.toml names.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static, owner: Owner) -> Self {
        self.store = Some((Arc::new(store), owner));
        self
    }

    /// Uses this memory instead of the one that dalsegno.toml names.
    #[must_use]
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.memory = Some(Arc::new(memory));
        self
    }

    /// Keeps every exchange with a model in this file, from which a model with `provider = "cassette"` plays it back.
    #[must_use]
    pub fn record(mut self, file: &Path) -> Self {
        self.record = Some(file.to_owned());
        self
    }

    /// Shows every record that is written down to this observer.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Keeps secrets in this store instead of the one that dalsegno.toml names.
    #[must_use]
    pub fn secret_store(mut self, store: impl SecretStore + 'static) -> Self {
        self.secret_store = Some(Arc::new(store));
        self
    }

    /// Starts no program: a tool server with `command` is an error where it is needed. Without this, whoever builds the engine
    /// vouches for the programs that dalsegno.toml names.
    #[must_use]
    pub fn without_programs(mut self) -> Self {
        self.no_programs = true;
        self
    }

    /// Takes the time of day from this clock instead of the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Has the HTTP requests of declarative tools carried by this transport instead of the network. The tenants' `egress` rules hold all
    /// the same.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Draws the ids of root runs and of forks with this function instead of at random. An id that is given twice is refused
    /// by the store.
    #[must_use]
    pub fn run_ids(mut self, draw: impl Fn() -> RunId + Send + Sync + 'static) -> Self {
        self.run_ids = Some(Arc::new(draw));
        self
    }

    /// Saves a snapshot of a run every so many steps, 1,000 by default. A snapshot bounds how much of the journal a later
    /// process folds, and takes as long to write as the state is large.
    #[must_use]
    pub fn snapshot_every(mut self, steps: u64) -> Self {
        self.snapshot_every = Some(steps.max(1));
        self
    }

    /// Opens a workspace folder.
    ///
    /// # Errors
    /// When its files have errors, or the journal cannot be opened.
    pub async fn open(self, root: &Path) -> Result<Engine, OpenError> {
        match Workspace::load(root).sound() {
            Ok(workspace) => self.build(workspace).await,
            Err(diagnostics) => Err(OpenError::Workspace { root: root.to_owned(), diagnostics }),
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
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let bindings = Bindings::new(
            workspace.root.clone(),
            workspace.settings.clone(),
            self.tools,
            self.models,
            self.memory,
            self.secret_store,
            clock.now(),
        )
        .await?;
        let bindings = if self.no_programs { bindings.without_programs() } else { bindings };
        let bindings = match self.record {
            Some(file) => bindings.recording(file)?,
            None => bindings,
        };
        let mut inner = Inner::new(workspace, Arc::new(bindings), store, owners, clock, self.observers);
        inner.endpoints = Endpoints::over(self.transport);
        inner.run_ids = self.run_ids;
        inner.snapshot_every = self.snapshot_every.unwrap_or(SNAPSHOT_EVERY);
        Ok(Engine { inner: Arc::new(inner) })
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

    /// Builds an engine with tools, models, a store or a memory of one's own.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The workspace as it is in use now: what it was when the engine was opened, or when a file was last seen to have changed.
    pub fn workspace(&self) -> Arc<Workspace> {
        self.inner.live.workspace()
    }

    /// A text without the secrets that this process knows: those of the workspace, and of all runs that it has begun.
    pub fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.bindings().secrets().text(&mut text);
        text
    }

    /// Looks whether files of the workspace have changed since they were read, and reads them again if so.
    ///
    /// [`start`](Self::start) and a worker do so by themselves. Runs keep the configuration that they began with; whom a tenant's
    /// tools may reach, and where its secrets are, is what its file says now. What `dalsegno.toml` says is read when an engine is
    /// opened, and stays. An agent, tool or tenant whose file has errors is out of use until it is mended. A workspace that cannot
    /// be used at all, such as one with an error in `dalsegno.toml`, is not taken over: the one before it stays in use. The errors
    /// are in the [`Look`] and in the log.
    pub async fn look(&self) -> Look {
        // On a runtime of one thread there is nobody to leave the thread to.
        if secret::is_shared() {
            tokio::task::block_in_place(|| self.inner.live.look())
        } else {
            self.inner.live.look()
        }
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
            RunEnd::Suspended { waiting, .. } => Err(EngineError::Suspended { run: report.run, waiting }),
            RunEnd::Interrupted => Err(EngineError::Interrupted { run: report.run }),
        }
    }

    /// Lists runs, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, EngineError> {
        Ok(self.inner.store.runs(filter).await?)
    }

    /// The run before this one in its session, if there is one.
    ///
    /// # Errors
    /// When there is no such run, or the store cannot be read.
    pub async fn predecessor(&self, run: RunId) -> Result<Option<RunId>, EngineError> {
        Ok(self.started(run).await?.predecessor)
    }

    /// Finds the runs whose ids begin with these hexadecimal digits.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find_runs(&self, prefix: &str) -> Result<Vec<RunId>, EngineError> {
        Ok(self.inner.store.find_runs(prefix).await?)
    }

    /// An agent's configuration, with what its tool servers offer now.
    ///
    /// # Errors
    /// When there is no such agent, or its tools are not what its file expects.
    pub async fn agent_config(&self, agent: &AgentName) -> Result<AgentConfig, EngineError> {
        Ok(self.resolve(&self.agent(agent)?, DEFAULT_TENANT).await?.0)
    }

    /// What the effects of this process are up against, as of now.
    pub fn load(&self) -> Load {
        self.inner.dispatcher.load()
    }

    /// Where the secrets of the workspace are found.
    pub fn secret_source(&self) -> &SecretSource {
        self.inner.bindings.secret_source()
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.inner.clock.now();
        self.inner.steady.note(now);
        now
    }

    /// The time of day at which a patience ends that began at `since`, in milliseconds since the epoch. What the clock jumped
    /// over since then does not count.
    pub(crate) fn end_of(&self, since: u64, patience: Duration) -> Timestamp {
        self.inner.steady.end_of(since, patience)
    }

    /// The id of a run that is about to be made.
    pub(crate) fn new_run_id(&self) -> RunId {
        match &self.inner.run_ids {
            Some(draw) => draw(),
            None => RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
        }
    }

    /// The steps between two snapshots of a run.
    pub(crate) fn snapshot_every(&self) -> u64 {
        self.inner.snapshot_every
    }

    pub(crate) fn observers(&self) -> &[Arc<dyn Observer>] {
        &self.inner.observers
    }

    /// Those who watch a run that this engine is about to perform.
    pub(crate) async fn watches(
        &self,
        run: RunId,
        parent: Option<RunId>,
        config: &Arc<AgentConfig>,
    ) -> Result<Watches, EngineError> {
        if self.observers().is_empty() {
            return Ok(Watches::default());
        }
        let root = self.root(run, parent).await?;
        Ok(Watches::of(self.observers(), &Watched { run, root, config: Arc::clone(config) }))
    }

    /// The run above this one and all others above that; itself where there is none.
    pub(crate) async fn root(&self, run: RunId, parent: Option<RunId>) -> Result<RunId, EngineError> {
        let (mut root, mut above) = (run, parent);
        while let Some(parent) = above {
            root = parent;
            above = self.store().summary(parent).await?.parent;
        }
        Ok(root)
    }

    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.inner.dispatcher
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// A run's configuration, as the store keeps it.
    pub(crate) async fn config(&self, run: RunId, digest: Digest) -> Result<Arc<AgentConfig>, EngineError> {
        let failed = |message: String| EngineError::Config { run, message };
        let json = self.inner.store.config(digest).await.map_err(|error| match error {
            // Nothing is wrong with the configuration.
            ReadError::Storage(_) => EngineError::Read(error),
            error => failed(error.to_string()),
        })?;
        // The digest is of what was stored. This release may write the same configuration with other fields.
        let stored: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| failed(error.to_string()))?;
        if digest_json(&stored) != digest {
            return Err(failed("it does not have its digest".into()));
        }
        serde_json::from_value(stored).map(Arc::new).map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn bindings(&self) -> &Arc<Bindings> {
        &self.inner.bindings
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Result<AgentFile, EngineError> {
        self.check_agent(name)?;
        let workspace = self.workspace();
        workspace.agents.get(name).cloned().ok_or_else(|| EngineError::UnknownAgent {
            name: name.clone(),
            known: workspace.agents.keys().map(ToString::to_string).collect(),
        })
    }

    /// Refuses an agent that is in the workspace and cannot be used, since a file has errors. What its runs may do is not
    /// known: less than they began with, or as much.
    pub(crate) fn check_agent(&self, name: &AgentName) -> Result<(), EngineError> {
        let workspace = self.workspace();
        let Some(BrokenAgent { reason, files }) = workspace.broken_agent(name) else { return Ok(()) };
        let diagnostics = workspace.broken.diagnostics.iter().filter(|found| files.contains(&found.file));
        let diagnostics = diagnostics.cloned().collect();
        Err(EngineError::BrokenAgent { name: name.clone(), reason, diagnostics })
    }

    /// An agent with what its servers offer and the declarative tools of a tenant, and the digests of their modules. A
    /// server that `dalsegno.lock` pins is not asked: it is compared with that when a run uses it.
    pub(crate) async fn resolve(
        &self,
        file: &AgentFile,
        tenant: &str,
    ) -> Result<(AgentConfig, BTreeMap<String, String>), EngineError> {
        let bindings = &self.inner.bindings;
        let servers = file.servers(bindings.settings());
        let workspace = self.workspace();
        let (mut digests, mut unpinned, mut pinned) = (BTreeMap::new(), Vec::new(), Catalogue::new());
        for server in servers {
            match workspace.pinned_tools(&server) {
                Some(tools) => pinned.extend(tools),
                None => {
                    self.has_secrets(&server).await?;
                    digests.insert(server.clone(), bindings.digest(&server).await?);
                    unpinned.push(server);
                }
            }
        }
        let mut catalogue = bindings.catalogue(unpinned).await?;
        catalogue.extend(pinned);
        catalogue.extend(workspace.declared_tools(tenant));
        let mut config = file.resolve(&catalogue).map_err(|mut diagnostics| {
            // A tool that it needs may be missing because its file has errors.
            diagnostics.extend(workspace.broken.diagnostics.iter().cloned());
            EngineError::Agent { name: file.name.clone(), diagnostics }
        })?;
        self.admit_handoffs(&mut config)?;
        Ok((config, digests))
    }

    /// Says whether the secret store has what a server needs that is about to be asked for its tools.
    async fn has_secrets(&self, server: &str) -> Result<(), EngineError> {
        let settings = self.inner.bindings.settings();
        for reference in settings.servers.get(server).into_iter().flat_map(secrets_of) {
            let found = self.secret_source().read(reference, self.now()).await;
            if let Err(SecretUnavailable::NotStored { name }) = found {
                return Err(EngineError::ServerSecret { server: server.to_owned(), name });
            }
        }
        Ok(())
    }

    /// The clients of declarative tools.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.inner.endpoints
    }

    /// Who refreshes access in this process.
    #[cfg(feature = "oauth")]
    pub(crate) fn refreshes(&self) -> &Refreshes {
        &self.inner.refreshes
    }

    /// Who this process is, to own a run.
    pub(crate) async fn owner(&self, run: RunId) -> Result<&Owner, EngineError> {
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

    /// What the attempts of a run share, and the first reader of its events.
    pub(crate) fn context(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        of: &Surroundings<'_>,
        events: Option<broadcast::Sender<RunEvent>>,
    ) -> Result<(Arc<RunContext>, broadcast::Receiver<RunEvent>), EngineError> {
        let Surroundings { session, tenant, user, modules } = *of;
        let scope = match config.memory_scope {
            MemoryScope::Session => Scope::Session,
            MemoryScope::Agent => Scope::Agent,
            MemoryScope::Workspace => Scope::Workspace,
            MemoryScope::Tenant => Scope::Tenant,
        };
        let principal = Principal::new(tenant, WORKSPACE, config.name.as_str(), session)
            .map_err(|error| EngineError::Principal { message: error.to_string() })?;
        let events = events.unwrap_or_else(|| broadcast::channel(EVENTS).0);
        let reader = events.subscribe();
        let context = RunContext {
            run,
            tenant: tenant.to_owned(),
            engine: self.clone(),
            child_answers: Mutex::default(),
            bindings: Arc::clone(&self.inner.bindings),
            sessions: Sessions::default(),
            toolbox: Arc::new(config.tools.clone()),
            grant: Grant::of(&self.workspace(), &config.name),
            config,
            scopes: ScopeResolver.resolve(&principal, scope),
            events,
            denied: Mutex::default(),
            tasked: Announcements::default(),
            heritage: OnceCell::new(),
            root: OnceCell::new(),
            bound: Bound::new(modules.clone()),
            _held: self.bindings().hold(
                kept_secrets(user, &self.bindings().settings().secret_paths).map(str::to_owned).collect(),
            ),
        };
        Ok((Arc::new(context), reader))
    }
}

/// What a run is performed in, beside its configuration.
pub(crate) struct Surroundings<'a> {
    pub(crate) session: &'a str,
    pub(crate) tenant: &'a str,
    /// What the caller said of the user.
    pub(crate) user: &'a serde_json::Value,
    /// The modules of tool servers that the journal knows.
    pub(crate) modules: &'a BTreeMap<String, String>,
}

/// Opens the store that dalsegno.toml names; returns the folder that it is in as well.
async fn open_store(workspace: &Workspace) -> Result<(Arc<dyn Store>, PathBuf), OpenError> {
    let path = workspace.settings.store.clone();
    let folder = path.parent().unwrap_or(&workspace.root).to_owned();
    make_folder(&folder)?;
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&path)).await;
    let store = store.map_err(|error| OpenError::Stopped { message: error.to_string() })??;
    Ok((Arc::new(store), folder))
}
