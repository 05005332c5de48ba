//! The door of the library: an engine for one workspace.

mod ender;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

use dalsegno_catalogue::DocumentStore;
use dalsegno_core::{AgentConfig, AgentName, RunId, Timestamp, ToolName, ToolPattern};
use dalsegno_history::Journal;
use dalsegno_memory::Memory;
use dalsegno_models::Model;
use dalsegno_net::Transport;
use dalsegno_secrets::{Reveal, Secret, SecretStore};
use dalsegno_store::{Owner, SqliteStore, Store};
use dalsegno_workspace::{
    Agent, AgentFile, BrokenAgent, Catalogue, InCode, ModelBinding, SecretRef, Trigger, VoiceLine, Workspace,
};

use crate::clock::{Clock, SystemClock};
use crate::documents::Shelf;
use crate::effects::bindings::Bindings;
use crate::effects::dispatch::{Dispatcher, Load, Target};
use crate::effects::endpoints::Endpoints;
use crate::effects::ports::{Owners, Ports};
use crate::effects::tool::{Tool, ToolDescription};
#[cfg(feature = "oauth")]
use crate::effects::turns::Refreshes;
use crate::error::make_folder;
use crate::error::{EngineError, OpenError};
use crate::known;
use crate::live::{Live, Look};
use crate::names::DEFAULT_TENANT;
use crate::observer::{Observer, Watched, Watches};
use crate::secret;
use crate::secret_source::{SecretSource, SecretUnavailable};
use crate::steady::Steady;
use crate::vault::{Programs, Vault};

/// An engine for one workspace. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Arc<Ports>,
    run_ids: Option<RunIds>,
}

/// Draws the ids of root runs and forks.
type RunIds = Arc<dyn Fn() -> RunId + Send + Sync>;

/// The most steps between two snapshots, unless a builder says otherwise: folding so many takes less than a tenth of a second.
const SNAPSHOT_EVERY: u64 = 1_000;

/// What this process has for runs of a workspace.
fn ports(
    workspace: Workspace,
    documents: Option<Arc<dyn DocumentStore>>,
    bindings: Arc<Bindings>,
    store: Arc<dyn Store>,
    owners: Owners,
    clock: Arc<dyn Clock>,
) -> Ports {
    let settings = &workspace.settings;
    let servers = settings
        .servers
        .iter()
        .filter_map(|(name, server)| Some((Target::Server(name.clone()), server.limits.concurrency?)));
    let models = settings.models.iter().filter_map(|(name, model)| match model {
        ModelBinding::Http(http) => Some((Target::Model(name.clone()), http.concurrency?)),
        ModelBinding::Script { .. } | ModelBinding::Cassette { .. } | ModelBinding::InCode => None,
    });
    let dispatcher = Dispatcher::new(settings.dispatch, servers.chain(models).collect());
    let folder = settings.store.parent().unwrap_or(&workspace.root);
    let journal = Journal::of(store, Some(folder.join("owners")));
    let shelf = documents.map_or_else(|| Shelf::of(&workspace.root, settings), Shelf::given);
    Ports {
        live: Live::new(workspace, shelf),
        bindings,
        journal,
        owners,
        dispatcher,
        endpoints: Endpoints::default(),
        #[cfg(feature = "oauth")]
        refreshes: Refreshes::default(),
        observers: Vec::new(),
        snapshot_every: SNAPSHOT_EVERY,
        clock,
        steady: Steady::default(),
        trial: None,
        tails: Arc::default(),
        switchboard: std::sync::OnceLock::new(),
    }
}

/// Builds an engine with parts of one's own.
#[derive(Default)]
pub struct EngineBuilder {
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: BTreeMap<String, Arc<dyn Model>>,
    in_code: InCode,
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
    trial: Option<Arc<[ToolPattern]>>,
    documents: Option<Arc<dyn DocumentStore>>,
}

impl EngineBuilder {
    /// Registers a tool written in Rust.
    #[must_use]
    pub fn tool(mut self, name: ToolName, tool: impl Tool) -> Self {
        let description = tool.describe();
        self.tools.insert(name, (description, Arc::new(tool)));
        self
    }

    /// Adds an agent that is built in code. It is checked with the rest of the workspace; it takes the place of a file
    /// `agents/NAME.toml`.
    #[must_use]
    pub fn agent(mut self, agent: &Agent) -> Self {
        self.in_code.add_agent(agent);
        self
    }

    /// Reads this text instead of `dalsegno.toml`. Paths in it begin at the workspace's folder.
    #[must_use]
    pub fn settings(mut self, toml: &str) -> Self {
        self.in_code.set_settings(toml);
        self
    }

    /// Adds a model under the name by which agents use it. If dalsegno.toml has a model of that name, this one is called
    /// instead, and the settings there hold, such as the number of calls at once.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl Model + 'static) -> Self {
        self.in_code.add_model(name);
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

    /// Keeps the documents of agents, tools and tenants that are changed by API in this store instead of the file `catalogue.db` beside
    /// the journal. Only [`open`](Self::open) reads them.
    #[must_use]
    pub fn documents(mut self, store: impl DocumentStore + 'static) -> Self {
        self.documents = Some(Arc::new(store));
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

    /// Saves a snapshot of a run at least every so many steps, 1,000 by default, and more often while its transcript is short. A
    /// snapshot bounds how much of the journal a later process folds, and takes as long to write as the state is large.
    #[must_use]
    pub fn snapshot_every(mut self, steps: u64) -> Self {
        self.snapshot_every = Some(steps.max(1));
        self
    }

    /// Performs all runs as trials of an eval, apart from the world: a call of a tool that changes something waits for a person, unless the
    /// tool is one of these; and the memory that a run writes is that of its session, so that no other run reads it. Whoever builds
    /// the engine gives it a store and a memory of their own.
    #[must_use]
    pub fn on_trial(mut self, allowed: Vec<ToolPattern>) -> Self {
        self.trial = Some(allowed.into());
        self
    }

    /// Opens a workspace folder. If parts of it come from code, it needs no `dalsegno.toml`: every setting has its default
    /// then, and the journal is below this folder.
    ///
    /// # Errors
    /// When its files or the parts from code have errors, or the journal cannot be opened.
    pub async fn open(mut self, root: &Path) -> Result<Engine, OpenError> {
        if !self.in_code.is_empty() {
            self.in_code.without_settings_file(root);
        }
        let failed = |diagnostics| OpenError::Workspace { root: root.to_owned(), diagnostics };
        let loaded = Workspace::load_under(root, &self.in_code, |settings| match &self.documents {
            Some(store) => Shelf::given(Arc::clone(store)).documents(),
            None => Shelf::of(root, settings).documents(),
        });
        let workspace = loaded.sound().map_err(failed)?;
        // A file with an error may be mended while the engine runs; a part from code may not.
        let broken = workspace.broken.diagnostics.iter().filter(|found| self.in_code.has(&found.file));
        match broken.cloned().collect::<Vec<_>>() {
            broken if broken.is_empty() => self.build(workspace).await,
            broken => Err(failed(broken)),
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
        let source = match self.secret_store {
            Some(store) => SecretSource::with(workspace.settings.secret_store.clone(), store),
            None => SecretSource::new(workspace.settings.secret_store.clone()),
        };
        let programs = if self.no_programs { Programs::Refused } else { Programs::Started };
        let vault = Vault::open(&workspace.settings, source, Arc::clone(&clock), programs).await?;
        let (root, settings) = (workspace.root.clone(), workspace.settings.clone());
        let bindings = Bindings::new(root, settings, self.tools, self.models, self.memory, vault);
        let bindings = if self.no_programs { bindings.without_programs() } else { bindings };
        let bindings = match self.record {
            Some(file) => bindings.recording(file)?,
            None => bindings,
        };
        let ports = Ports {
            endpoints: Endpoints::over(self.transport),
            observers: self.observers,
            snapshot_every: self.snapshot_every.unwrap_or(SNAPSHOT_EVERY),
            trial: self.trial,
            ..ports(workspace, self.documents, Arc::new(bindings), store, owners, clock)
        };
        Ok(Engine { inner: Arc::new(Inner { ports: Arc::new(ports), run_ids: self.run_ids }) })
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
        self.inner.ports.live.workspace()
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
            tokio::task::block_in_place(|| self.inner.ports.live.look())
        } else {
            self.inner.ports.live.look()
        }
    }

    /// The runs of the workspace, as they were recorded.
    pub fn journal(&self) -> &Journal {
        &self.inner.ports.journal
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
        self.inner.ports.dispatcher.load()
    }

    /// Where the secrets of the workspace are found.
    pub fn secret_source(&self) -> &SecretSource {
        self.inner.ports.bindings.vault().source()
    }

    /// Reads the secret of a trigger of dalsegno.toml as of now; it is scrubbed from then on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn trigger_secret(&self, trigger: &Trigger) -> Result<Secret, SecretUnavailable> {
        self.ports().bindings.vault().reveal(&trigger.secret).await
    }

    /// A handle that reads the key of a line as of now; it is scrubbed from then on. None for a line without a key.
    pub fn line_key(&self, line: &VoiceLine) -> Option<Arc<dyn Reveal>> {
        line.api_key.as_ref().map(|reference| self.ports().bindings.vault().handle(reference))
    }

    /// Reads a secret by which webhooks of a line are signed, as of now; it is scrubbed from then on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn webhook_secret(&self, secret: &SecretRef) -> Result<Secret, SecretUnavailable> {
        self.ports().bindings.vault().reveal(secret).await
    }

    /// What runs have of this process.
    pub(crate) fn ports(&self) -> &Arc<Ports> {
        &self.inner.ports
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.inner.ports.now()
    }

    /// The id of a run that is about to be made.
    pub(crate) fn new_run_id(&self) -> RunId {
        match &self.inner.run_ids {
            Some(draw) => draw(),
            None => RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
        }
    }

    /// Those who watch a run that this engine is about to perform.
    pub(crate) async fn watches(
        &self,
        run: RunId,
        parent: Option<RunId>,
        config: &Arc<AgentConfig>,
    ) -> Result<Watches, EngineError> {
        if self.ports().observers.is_empty() {
            return Ok(Watches::default());
        }
        let root = self.journal().root(run, parent).await?;
        Ok(Watches::of(&self.ports().observers, &Watched { run, root, config: Arc::clone(config) }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.inner.ports.store()
    }

    pub(crate) fn bindings(&self) -> &Arc<Bindings> {
        &self.inner.ports.bindings
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Result<AgentFile, EngineError> {
        self.check_agent(name)?;
        let workspace = self.workspace();
        workspace.agents.get(name).cloned().ok_or_else(|| EngineError::UnknownAgent {
            name: name.clone(),
            known: workspace.agents.keys().map(ToString::to_string).collect(),
        })
    }

    /// Refuses to continue with a run of an agent that is in the workspace and cannot be used, since a file has errors. What its runs
    /// may do is not known: less than they began with, or as much. Servers are not asked: nothing is said about the tools of one that
    /// `dalsegno.lock` does not pin.
    pub(crate) async fn check_resumed(&self, name: &AgentName, tenant: &str) -> Result<(), EngineError> {
        self.check_agent(name)?;
        let workspace = self.workspace();
        let Some(file) = workspace.agents.get(name) else { return Ok(()) };
        let (pinned, unpinned) = self.offered(file, tenant);
        let mut catalogue = self.bindings().catalogue(Vec::new()).await?;
        catalogue.extend(pinned);
        file.resolve_known(&catalogue, &unpinned).map(drop).map_err(|diagnostics| EngineError::BrokenAgent {
            name: name.clone(),
            reason: "its file has errors".to_owned(),
            diagnostics,
        })
    }

    /// Refuses an agent that is in the workspace and whose file, or one that it needs, cannot be read.
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
        let bindings = self.bindings();
        let workspace = self.workspace();
        let (known, unpinned) = self.offered(file, tenant);
        let mut digests = BTreeMap::new();
        for server in &unpinned {
            self.has_secrets(server).await?;
            digests.insert(server.clone(), bindings.digest(server).await?);
        }
        let mut catalogue = bindings.catalogue(unpinned).await?;
        catalogue.extend(known);
        let mut config = file.resolve(&catalogue).map_err(|mut diagnostics| {
            // A tool that it needs may be missing because its file has errors.
            diagnostics.extend(workspace.broken.diagnostics.iter().cloned());
            EngineError::Agent { name: file.name.clone(), diagnostics }
        })?;
        self.admit_handoffs(&mut config)?;
        Ok((config, digests))
    }

    /// What an agent is offered as far as no server is asked: the tools of the servers that `dalsegno.lock` pins and the declarative
    /// ones of a tenant; and the servers that would have to be asked.
    fn offered(&self, file: &AgentFile, tenant: &str) -> (Catalogue, BTreeSet<String>) {
        let workspace = self.workspace();
        let (mut known, mut unpinned) = (Catalogue::new(), BTreeSet::new());
        for server in file.servers(self.bindings().settings()) {
            match workspace.pinned_tools(&server) {
                Some(tools) => known.extend(tools),
                None => {
                    unpinned.insert(server);
                }
            }
        }
        known.extend(workspace.declared_tools(tenant));
        (known, unpinned)
    }

    /// Says whether the secret store has what a server needs that is about to be asked for its tools.
    async fn has_secrets(&self, server: &str) -> Result<(), EngineError> {
        let settings = self.bindings().settings();
        for reference in settings.servers.get(server).into_iter().flat_map(known::of_server) {
            let found = self.secret_source().read(reference, self.now()).await;
            if let Err(SecretUnavailable::NotStored { name }) = found {
                return Err(EngineError::ServerSecret { server: server.to_owned(), name });
            }
        }
        Ok(())
    }

    /// Lets an agent hand over to those whom its declarative tools name.
    ///
    /// # Errors
    /// When the file of one of these has errors.
    pub(crate) fn admit_handoffs(&self, config: &mut AgentConfig) -> Result<(), EngineError> {
        let plain = |name: &str| name.replace('-', "_");
        let workspace = self.workspace();
        let named = workspace.admit_handoffs(config);
        let broken = workspace.broken.agents.keys().filter(|name| named.contains(&plain(name)));
        for name in broken.filter_map(|name| name.parse().ok()) {
            self.check_agent(&name)?;
        }
        Ok(())
    }
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
