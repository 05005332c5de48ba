//! What a run is performed in, and what it asks of those who start and end other runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{
    AgentCall, AgentConfig, AgentRequest, Budget, Handoff, MemoryScope, OperationId, Outcome, RunId,
    SessionContext, ToolCall, ToolDocument, ToolName, ToolOwner, Toolbox, Usage,
};
use dalsegno_history::{Fold, HistoryError};
use dalsegno_memory::{Principal, Scope, ScopeResolver, ScopeSet};
use dalsegno_store::{Body, Message, NewRun, Parent, RunSummary, Started};
use dalsegno_tools::Finished;
use dalsegno_workspace::ToolkitFile;
use serde_json::Value;
use tokio::sync::{OnceCell, broadcast};

use crate::effects::bindings::{Bindings, Sessions};
use crate::effects::failure::AttemptError;
use crate::effects::ports::Ports;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::grant::Grant;
use crate::hidden::Held;
use crate::names::WORKSPACE;
use crate::observer::Watches;
use crate::request::kept_secrets;
use crate::run::bound::Bound;
use crate::run::declared::{Asker, OfUser};
use crate::run::files::ReturnedFiles;
use crate::run::handle::{RunEvent, RunHandle};
use crate::run::tasks::Announcements;

/// Events that a slow reader may fall behind before it misses some.
const EVENTS: usize = 1_024;

/// What a run asks of those who start and end others. Nothing else of them is known here.
#[async_trait]
pub(crate) trait Runs: Send + Sync {
    /// Starts a child run, or goes on with it when it has begun already.
    async fn start_child(
        &self,
        context: &RunContext,
        operation: OperationId,
        call: &AgentCall,
        within: &Within,
    ) -> Result<RunHandle, EngineError>;

    /// Ends a child run whose operation is given up, or tells the process that performs it to.
    async fn give_up_child(&self, child: RunId, by: Option<String>, reason: Option<String>) -> GivenUp;

    /// Tells a child run to stand still, or to continue, as the run above it was told.
    async fn pass_word(&self, child: RunId, word: &Message);

    /// Ends a child run whose parent has ended, unless another process performs it.
    async fn end_below(&self, run: RunId);

    /// Prepares the run that goes on where this one hands over.
    async fn prepare_successor(
        &self,
        context: &RunContext,
        handoff: &Handoff,
        used: &Usage,
    ) -> Result<Prepared, EngineError>;

    /// Says whether a tool is one of the engine's own.
    fn offers(&self, tool: &ToolName) -> bool;

    /// Calls one of the engine's own tools; one that is about the run's call needs what the run was begun with.
    async fn call_tool(
        &self,
        context: &RunContext,
        call: &ToolCall,
        of_call: Option<OfCall<'_>>,
    ) -> Result<Outcome, AttemptError>;

    /// Calls a tool that is a document, beside the operations of the run.
    async fn call_document(&self, context: &RunContext, call: DocumentCall<'_>) -> Result<Finished, String>;
}

/// An operation that asks something of those who carry the run's call.
#[derive(Clone, Copy)]
pub(crate) struct OfCall<'a> {
    /// What the run was begun with.
    pub(crate) request: &'a AgentRequest,
    pub(crate) operation: OperationId,
}

/// One call of a tool that is a document.
pub(crate) struct DocumentCall<'a> {
    /// The document, and on whose behalf it is called.
    pub(crate) asker: Asker,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
    /// What it reads as `config`.
    pub(crate) config: Value,
    pub(crate) operation: OperationId,
}

/// What all attempts of a run share.
pub(crate) struct RunContext {
    pub(crate) run: RunId,
    pub(crate) tenant: String,
    /// What it has of this process.
    pub(crate) ports: Arc<Ports>,
    /// Those who start and end other runs.
    pub(crate) runs: Arc<dyn Runs>,
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) sessions: Sessions,
    pub(crate) config: Arc<AgentConfig>,
    /// What today's workspace grants it.
    pub(crate) grant: Grant,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) scopes: ScopeSet,
    pub(crate) events: broadcast::Sender<RunEvent>,
    /// What tool servers were refused and no record says yet.
    pub(crate) denied: Mutex<Vec<(OperationId, Body)>>,
    /// The files of results that no record has yet.
    pub(crate) files: ReturnedFiles,
    /// The tasks that attempts were told of and no record says yet.
    pub(crate) tasked: Arc<Announcements>,
    /// Read when it is first needed.
    pub(crate) heritage: OnceCell<Heritage>,
    /// The run above all others; read when it is first needed.
    pub(crate) root: OnceCell<RunId>,
    /// The tool servers that the run uses, as it knows them.
    pub(crate) bound: Bound,
    /// Keeps the secrets that came with the request among those that are scrubbed.
    pub(crate) _held: Held,
}

/// What the start of a run says that child runs and the run after a handoff take over.
pub(crate) struct Heritage {
    pub(crate) session: String,
    pub(crate) parent: Option<Parent>,
    pub(crate) depth: u32,
    pub(crate) budget: Option<Budget>,
    pub(crate) ask_effects: bool,
    pub(crate) user: Value,
}

impl Heritage {
    pub(crate) fn of(started: &Started) -> Self {
        Self {
            session: started.session.clone(),
            parent: started.parent,
            depth: started.depth,
            budget: started.budget,
            ask_effects: started.ask_effects,
            user: started.request.user.clone(),
        }
    }
}

impl RunContext {
    /// A document that the run began with, as it asks for something on behalf of this user.
    pub(crate) fn asker(&self, document: &ToolDocument, user: &Value) -> Asker {
        Asker {
            toolkit: document.toolkit().clone(),
            owner: Some(self.owner_of(document)),
            agent: Some(self.config.name.clone()),
            user: user.clone(),
            of_user: OfUser::Kept,
        }
    }

    /// The owner of a document that the run began with. Older configurations do not say it: then it is the workspace's only
    /// if that has the same one today.
    fn owner_of(&self, document: &ToolDocument) -> ToolOwner {
        let (workspace, name) = (self.ports.workspace(), document.toolkit().name());
        let same = |file: &ToolkitFile| file.toolkit.source() == document.toolkit().source();
        match document.owner() {
            Some(owner) => owner.clone(),
            None if workspace.toolkits.get(name).is_some_and(same) => ToolOwner::Workspace,
            None => ToolOwner::Tenant(self.tenant.clone()),
        }
    }

    pub(crate) async fn heritage(&self) -> Result<&Heritage, HistoryError> {
        let read = || async { Ok(Heritage::of(&self.ports.journal.started(self.run).await?)) };
        self.heritage.get_or_try_init(read).await
    }

    /// The trace that an operation belongs to, where somebody traces. A call does not fail for want of it.
    pub(crate) async fn traceparent(&self, operation: OperationId) -> Option<String> {
        let observers = &self.ports.observers;
        if observers.is_empty() {
            return None;
        }
        let find = || async {
            let parent = self.heritage().await?.parent.map(|parent| parent.run);
            self.ports.journal.root(self.run, parent).await
        };
        let root = *self.root.get_or_try_init(find).await.ok()?;
        observers.iter().find_map(|observer| observer.traceparent(root, self.run, operation))
    }
}

/// What a child run came to that is to be given up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GivenUp {
    /// It has ended, or whoever performs it was told to end it.
    Told,
    /// It never began.
    Unbegun,
}

/// What the parent gives its child runs besides what it asks of them.
pub(crate) struct Within {
    /// Whether effects that cannot be repeated ask first.
    pub(crate) ask_effects: bool,
    /// The context of the session, as the parent's step found it.
    pub(crate) context: SessionContext,
}

/// A run that is ready to be written down.
pub(crate) struct Prepared {
    pub(crate) new: NewRun,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) modules: BTreeMap<String, String>,
    pub(crate) context: Arc<RunContext>,
    pub(crate) reader: broadcast::Receiver<RunEvent>,
    pub(crate) watches: Watches,
}

/// What a run is performed in, beside its configuration.
pub(crate) struct Surroundings<'a> {
    pub(crate) session: &'a str,
    pub(crate) tenant: &'a str,
    /// What the caller said of the user.
    pub(crate) user: &'a Value,
    /// The modules of tool servers that the journal knows.
    pub(crate) modules: &'a BTreeMap<String, String>,
}

impl<'a> Surroundings<'a> {
    /// Of a run that was taken over.
    pub(crate) fn of(summary: &'a RunSummary, fold: &'a Fold) -> Self {
        let RunSummary { session, tenant, .. } = summary;
        Self { session, tenant, user: &fold.state().request().user, modules: &fold.modules }
    }
}

impl Engine {
    /// What the attempts of a run share, and the first reader of its events.
    pub(crate) fn context(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        of: &Surroundings<'_>,
        events: Option<broadcast::Sender<RunEvent>>,
    ) -> Result<(Arc<RunContext>, broadcast::Receiver<RunEvent>), EngineError> {
        let Surroundings { session, tenant, .. } = *of;
        let scope = match config.memory_scope {
            // What a trial remembers is no other trial's business: each has a session of its own.
            _ if self.ports().trial.is_some() => Scope::Session,
            MemoryScope::Session => Scope::Session,
            MemoryScope::Agent => Scope::Agent,
            MemoryScope::Workspace => Scope::Workspace,
            MemoryScope::Tenant => Scope::Tenant,
        };
        let principal = Principal::new(tenant, WORKSPACE, config.name.as_str(), session)
            .map_err(|error| EngineError::Principal { message: error.to_string() })?;
        let scopes = ScopeResolver.resolve(&principal, scope);
        Ok(self.context_within(run, config, of, scopes, events))
    }

    /// The same with the scopes of the memory that it reads and writes.
    pub(crate) fn context_within(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        of: &Surroundings<'_>,
        scopes: ScopeSet,
        events: Option<broadcast::Sender<RunEvent>>,
    ) -> (Arc<RunContext>, broadcast::Receiver<RunEvent>) {
        let Surroundings { session: _, tenant, user, modules } = *of;
        let events = events.unwrap_or_else(|| broadcast::channel(EVENTS).0);
        let reader = events.subscribe();
        let context = RunContext {
            run,
            tenant: tenant.to_owned(),
            ports: Arc::clone(self.ports()),
            runs: Arc::new(self.clone()),
            bindings: Arc::clone(self.bindings()),
            sessions: Sessions::default(),
            toolbox: Arc::new(config.tools.clone()),
            grant: Grant::of(&self.workspace(), &config).on_trial(self.ports().trial.clone()),
            config,
            scopes,
            events,
            denied: Mutex::default(),
            files: ReturnedFiles::default(),
            tasked: Arc::default(),
            heritage: OnceCell::new(),
            root: OnceCell::new(),
            bound: Bound::new(modules.clone()),
            _held: self.bindings().vault().hold(
                kept_secrets(user, &self.bindings().settings().secret_paths).map(str::to_owned).collect(),
            ),
        };
        (Arc::new(context), reader)
    }
}
