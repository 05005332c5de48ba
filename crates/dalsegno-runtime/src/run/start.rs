//! A run starts: prepared, written down, performed, and whatever it hands over to.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use dalsegno_core::{
    AgentCall, AgentConfig, AgentName, AgentRequest, AgentResponse, Attachment, Budget, Digest, Handoff,
    OperationId, RUN_DEPTH_MAX, RunId, SessionContext, Surface, Usage, digest_json,
};
use dalsegno_history::{Fold, HistoryError, Latest, child_run, successor_run};
use dalsegno_store::{
    AcquireError, Body, CreateError, Created, Follows, NewRecord, NewRun, Parent, RunFilter, Started,
    digest_bytes,
};

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::request;
use crate::run::context::{Heritage, Prepared, RunContext, Surroundings, Within};
use crate::run::converse::Line;
use crate::run::driver::{Driver, Successor};
use crate::run::handle::{RunEnd, RunEvent, RunHandle, RunReport, Stop};

/// How a run is started.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The caller's key: the same key again returns the same run instead of starting another.
    pub key: Option<String>,
    /// The session that the run belongs to; one of its own when absent. In a session that has runs already it goes on
    /// from the last one: a model reads what was said before.
    pub session: Option<String>,
    /// Files that go with the request.
    pub attachments: Vec<NewAttachment>,
    /// Another model than the agent's own, by its name in dalsegno.toml.
    pub model: Option<String>,
    /// The run to go on from, which has ended: not the last one of the session. Its model reads what was said up to
    /// there.
    pub after: Option<RunId>,
}

/// A file that goes with a request, or with the result of a tool written in Rust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    /// Its name, for the model and for people.
    pub name: String,
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl NewAttachment {
    /// The media type of a file with this name, if its extension is one of those that models read.
    pub fn media_type_of(name: &str) -> Option<&'static str> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "png" => "image/png",
            "jpg" | "jpeg" => "image/jpeg",
            "gif" => "image/gif",
            "webp" => "image/webp",
            "pdf" => "application/pdf",
            "txt" | "log" => "text/plain",
            "md" => "text/markdown",
            "csv" => "text/csv",
            "json" => "text/json",
            "wav" => "audio/wav",
            "mp3" => "audio/mpeg",
            "ogg" => "audio/ogg",
            "flac" => "audio/flac",
            "aac" => "audio/aac",
            "aiff" => "audio/aiff",
            "mp4" => "video/mp4",
            "mpeg" => "video/mpeg",
            "mov" => "video/quicktime",
            "webm" => "video/webm",
            _ => return None,
        })
    }
}

/// All that a new run is made of.
pub(crate) struct Beginning {
    pub(crate) run: RunId,
    pub(crate) agent: AgentName,
    pub(crate) request: AgentRequest,
    pub(crate) session: String,
    pub(crate) key: Option<String>,
    pub(crate) predecessor: Option<RunId>,
    /// The predecessor must be the last root run of the session still when this one is written down.
    pub(crate) follow_last: bool,
    pub(crate) by_handoff: bool,
    pub(crate) parent: Option<Parent>,
    pub(crate) depth: u32,
    pub(crate) budget: Option<Budget>,
    /// The context of the session, for a child run.
    pub(crate) context: Option<SessionContext>,
    pub(crate) ask_effects: bool,
    pub(crate) blobs: Vec<(Digest, Vec<u8>)>,
    /// What the caller asked for besides the request.
    pub(crate) asked: Asked,
    /// The configuration and the modules that it was bound to, where they are not those of the workspace as it is now.
    pub(crate) pinned: Option<(AgentConfig, BTreeMap<String, String>)>,
    /// The surface of a call.
    pub(crate) line: Option<Line>,
}

impl Beginning {
    pub(crate) fn new(run: RunId, agent: AgentName, request: AgentRequest, session: String) -> Self {
        Self {
            run,
            agent,
            request,
            session,
            key: None,
            predecessor: None,
            follow_last: false,
            by_handoff: false,
            parent: None,
            depth: 0,
            budget: None,
            context: None,
            ask_effects: false,
            blobs: Vec::new(),
            asked: Asked::default(),
            pinned: None,
            line: None,
        }
    }
}

/// What a caller asks for besides the request: the same start key with something else is a conflict.
#[derive(Default)]
pub(crate) struct Asked {
    session: Option<String>,
    after: Option<RunId>,
    model: Option<String>,
}

impl Engine {
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
            RunEnd::Paused { waiting, .. } => Err(EngineError::Suspended { run: report.run, waiting }),
            RunEnd::Interrupted => Err(EngineError::Interrupted { run: report.run }),
        }
    }

    /// Starts a run of an agent.
    ///
    /// # Errors
    /// When there is no such agent, its tools are not what its file expects, the session has a run that is not over, or
    /// the run cannot be written down.
    pub async fn start(
        &self,
        agent: &AgentName,
        request: AgentRequest,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        // A call needs a surface, which carries its words.
        let request = AgentRequest { surface: None, ..request };
        self.start_on(agent, request, options, None).await
    }

    /// The same for a call, which has a surface.
    pub(crate) async fn start_on(
        &self,
        agent: &AgentName,
        mut request: AgentRequest,
        options: StartOptions,
        line: Option<Line>,
    ) -> Result<RunHandle, EngineError> {
        self.look().await;
        self.workspace().check_tenant(&request.tenant)?;
        let run = self.new_run_id();
        self.know_secrets(&request.tenant, &Value::Null).await?;
        // Only an agent hands over.
        request.handoff = None;
        // What is asked is written down: a secret that a person typed is not, nor one that came with the request, wherever else in it
        // it stands.
        request::keep_secrets(self.ports(), run, &mut request).await?;
        let secrets = self.bindings().secrets();
        secrets.request(&mut request);
        for (what, name) in [("session", &options.session), ("key", &options.key)] {
            if name.as_ref().is_some_and(|name| secrets.is_in(name)) {
                return Err(EngineError::SecretName { what });
            }
        }
        let mut blobs = Vec::with_capacity(options.attachments.len());
        for NewAttachment { name, media_type, bytes } in options.attachments {
            let digest = digest_bytes(&bytes);
            request.attachments.push(Attachment { name, media_type, digest, bytes: bytes.len() as u64 });
            blobs.push((digest, bytes));
        }
        let session = options.session.clone().unwrap_or_else(|| run.to_string());
        if let Some(after) = options.after {
            let before = self.store().summary(after).await?;
            if before.foreign.is_some() {
                return Err(EngineError::Foreign { run: after });
            }
            if !before.status.is_end() || before.tenant != request.tenant {
                return Err(EngineError::After { run: after });
            }
        }
        let predecessor = match &options.session {
            _ if options.after.is_some() => options.after,
            Some(session) => self.last_of(&request.tenant, session).await?,
            None => None,
        };
        let asked =
            Asked { session: options.session.clone(), after: options.after, model: options.model.clone() };
        let tenant = request.tenant.clone();
        let beginning = Beginning { asked, ..Beginning::new(run, agent.clone(), request, session) };
        let pinned = match options.model {
            Some(model) => {
                let (mut config, modules) = Box::pin(self.resolve(&self.agent(agent)?, &tenant)).await?;
                let changed = self.workspace().change_model(&mut config, &model);
                changed.map_err(|message| EngineError::Model { agent: agent.clone(), message })?;
                Some((config, modules))
            }
            None => None,
        };
        let follow_last = options.session.is_some() && options.after.is_none();
        let beginning =
            Beginning { key: options.key, predecessor, follow_last, blobs, pinned, line, ..beginning };
        // Boxed, since callers hold many starts at a time.
        Box::pin(self.begin_run(beginning, None)).await
    }

    /// The last run of a session, from which the next one goes on. One that was erased or abandoned is passed over.
    async fn last_of(&self, tenant: &str, session: &str) -> Result<Option<RunId>, EngineError> {
        let filter = RunFilter {
            tenant: Some(tenant.to_owned()),
            session: Some(session.to_owned()),
            roots_only: true,
            foreign: Some(false),
            followable: true,
            limit: 1,
            ..RunFilter::default()
        };
        // One that is not over is refused by the store, unless the start itself is known by its key.
        Ok(self.store().runs(&filter).await?.first().map(|run| run.run))
    }

    /// Says whether a session has root runs of this workspace's own.
    pub(crate) async fn has_session(&self, tenant: &str, session: &str) -> Result<bool, EngineError> {
        let filter = RunFilter {
            tenant: Some(tenant.to_owned()),
            session: Some(session.to_owned()),
            roots_only: true,
            foreign: Some(false),
            limit: 1,
            ..RunFilter::default()
        };
        Ok(!self.store().runs(&filter).await?.is_empty())
    }

    /// Writes a run down and performs it; a start that happened already goes on instead.
    pub(crate) async fn begin_run(
        &self,
        mut beginning: Beginning,
        forked: Option<NewRecord>,
    ) -> Result<RunHandle, EngineError> {
        let follow_last = beginning.follow_last;
        let line = beginning.line.take();
        let mut prepared = self.prepare(beginning, None).await?;
        let is_fork = forked.is_some();
        prepared.new.records.extend(forked);
        let run = prepared.new.run;
        let modules = prepared.modules;
        let (mut overtaken, own_files) = (0, prepared.new.blobs.len());
        let (lease, origin, records) = loop {
            // What comes before it is read first: nothing is written down when that is damaged.
            let origin = Box::pin(self.journal().origin_of(&mut prepared.new)).await?;
            if follow_last {
                prepared.new.follows = Follows::Last(predecessor_of(&prepared.new));
            }
            let records = prepared.new.records.clone();
            match self.store().create(prepared.new.clone()).await {
                Ok(Created::New(lease)) => break (lease, origin, records),
                Ok(Created::Existing(known)) => {
                    let is_call = line.is_some();
                    let mut handle = self.resume_existing(known, line).await?;
                    if !is_call {
                        // The same start has the same answer, whichever run the first one has handed over to.
                        handle.run = known;
                    }
                    return Ok(handle);
                }
                // While this start was prepared another run of the session began and ended: it is followed instead.
                // Or the one that was to be followed was erased.
                Err(CreateError::Overtaken { last, .. }) if overtaken < OVERTAKEN_MAX => {
                    overtaken += 1;
                    tracing::info!(%run, ?last, "the session has another last run by now");
                    follow(&mut prepared.new, last);
                    prepared.new.blobs.truncate(own_files);
                }
                Err(error) => return Err(error.into()),
            }
        };
        for (record, seq) in records.into_iter().zip(0..) {
            prepared.watches.began(seq, &record);
            // The handle that is about to be returned holds the receiver.
            let _ = prepared.context.events.send(RunEvent::Recorded { seq, record: Arc::new(record) });
        }
        let summary = prepared.new.summary().ok().filter(|_| !is_fork);
        let latest = |summary| Latest::begun(summary, Arc::clone(&prepared.config), origin.clone());
        let begun = summary.map(latest).map(Box::new);
        let fold = Fold::at(prepared.config, run, origin).with_modules(modules);
        let (stop, stopped) = watch::channel(Stop::Go);
        let mut driver =
            Driver::new(prepared.context, Arc::clone(self.store()), lease, fold, prepared.watches, stopped)
                .on(line);
        // A fork may keep a configuration of before.
        driver.narrow();
        let (events, task) = (prepared.reader, self.perform(driver));
        Ok(RunHandle { run, is_new: true, begun, events, stop, task })
    }

    async fn resume_existing(&self, run: RunId, line: Option<Line>) -> Result<RunHandle, EngineError> {
        let resumed = async {
            if line.is_some()
                && let Some(handle) = self.take_open_on(run, Vec::new(), true, line).await?
            {
                return Ok(handle);
            }
            self.resume(run, Vec::new()).await
        };
        let resumed = Box::pin(resumed).await;
        resumed.map_err(|error| match error {
            EngineError::Acquire(AcquireError::Owned { .. }) => EngineError::AlreadyRunning { run },
            error => error,
        })
    }

    /// Resolves the agent and checks the names; nothing is written down.
    pub(crate) async fn prepare(
        &self,
        beginning: Beginning,
        events: Option<broadcast::Sender<RunEvent>>,
    ) -> Result<Prepared, EngineError> {
        let digest = digest_request(&beginning, &self.bindings().settings().secret_paths);
        let Beginning { run, agent, mut request, session, key, .. } = beginning;
        if self.workspace().tenants.contains_key(&request.tenant) {
            request.tenant_settings = self.workspace().settings_of(&request.tenant);
            self.bindings().secrets().request(&mut request);
        }
        let (config, modules) = match beginning.pinned {
            Some(pinned) => pinned,
            None => self.resolve(&self.agent(&agent)?, &request.tenant).await?,
        };
        for (toolkit, document) in &config.toolkits {
            if let Some(name) = document.missing().first() {
                let (tenant, toolkit) = (request.tenant.clone(), toolkit.clone());
                return Err(EngineError::ToolkitConfig { agent, tenant, toolkit, name: (*name).to_owned() });
            }
        }
        if request.surface.is_some() && config.voice.is_none() {
            return Err(EngineError::NoVoice { agent });
        }
        // In a call over a line no model of the workspace is asked.
        let asks = request.surface.is_none_or(|surface| surface == Surface::Model);
        let asked = config.models().filter(|_| asks);
        if let Some(model) =
            asked.into_iter().find(|model| !self.bindings().has_key(&model.name, &request.tenant))
        {
            let (tenant, model) = (request.tenant.clone(), model.name.clone());
            return Err(EngineError::TenantKey { agent, tenant, model });
        }
        let config_json = serde_json::to_string(&config)
            .map_err(|error| HistoryError::Config { run, message: error.to_string() })?;
        let started = Started {
            agent: agent.clone(),
            config: config.digest(),
            semantics: config.semantics,
            request: request.clone(),
            session: session.clone(),
            predecessor: beginning.predecessor,
            start_key: key,
            modules: modules.clone(),
            parent: beginning.parent,
            depth: beginning.depth,
            budget: beginning.budget,
            context: beginning.context.map(Box::new),
            by_handoff: beginning.by_handoff,
            ask_effects: beginning.ask_effects,
        };
        // A tenant or session that is no name is refused before anything is written down.
        let config = Arc::new(config);
        let surroundings = Surroundings {
            session: &session,
            tenant: &request.tenant,
            user: &request.user,
            modules: &modules,
        };
        let (context, reader) = self.context(run, Arc::clone(&config), &surroundings, events)?;
        // A run that was just made: nobody else has set it.
        let _ = context.heritage.set(Heritage::of(&started));
        let watches = self.watches(run, started.parent.map(|parent| parent.run), &config).await?;
        let owner = self.ports().owner().await?;
        let mut new = NewRun::new(run, config_json, digest, owner.id(), self.now(), started);
        new.blobs = beginning.blobs;
        Ok(Prepared { new, config, modules, context, reader, watches })
    }

    /// Performs a run, and those that it hands over to, as a task of its own.
    pub(crate) fn perform(&self, driver: Driver) -> JoinHandle<Result<RunReport, RunFailure>> {
        let store = Arc::clone(self.store());
        tokio::spawn(async move {
            let mut driver = driver;
            let mut before = Vec::new();
            let (mut steps, mut usage) = (0, Usage::default());
            loop {
                let stop = driver.stop();
                let (mut report, successor) = driver.drive().await?;
                steps += report.steps;
                usage.add(&report.usage);
                let Some(Successor { context, lease, fold, watches }) = successor else {
                    (report.steps, report.usage, report.before) = (steps, usage, before);
                    return Ok(report);
                };
                before.push(report.run);
                driver = Driver::new(context, Arc::clone(&store), lease, fold, watches, stop);
            }
        })
    }

    /// Prepares the run that goes on where this one hands over.
    pub(crate) async fn prepare_successor(
        &self,
        context: &RunContext,
        handoff: &Handoff,
        used: &Usage,
    ) -> Result<Prepared, EngineError> {
        let heritage = context.heritage().await?;
        let beginning = Beginning {
            predecessor: Some(context.run),
            by_handoff: true,
            parent: heritage.parent,
            depth: heritage.depth,
            budget: heritage.budget.map(|budget| budget.without(used)),
            ask_effects: heritage.ask_effects,
            ..Beginning::new(
                successor_run(context.run),
                handoff.target.clone(),
                handoff.request.clone(),
                heritage.session.clone(),
            )
        };
        self.prepare(beginning, Some(context.events.clone())).await
    }

    /// Starts a child run, or goes on with it when it has begun already.
    ///
    /// Boxed, since a child may have children.
    pub(crate) fn start_child<'a>(
        &'a self,
        context: &'a RunContext,
        operation: OperationId,
        call: &'a AgentCall,
        within: &'a Within,
    ) -> Pin<Box<dyn Future<Output = Result<RunHandle, EngineError>> + Send + 'a>> {
        Box::pin(async move {
            let run = child_run(operation);
            if let Some(known) = self.journal().known(run).await? {
                return self.take_up(known.run, Vec::new(), false).await;
            }
            let heritage = context.heritage().await?;
            let depth = heritage.depth + 1;
            if depth > RUN_DEPTH_MAX {
                return Err(EngineError::TooDeep { agent: call.agent.clone(), depth });
            }
            let request = AgentRequest {
                text: call.text.clone(),
                data: call.data.clone(),
                tenant: context.tenant.clone(),
                user: heritage.user.clone(),
                called_by: Some(context.config.name.clone()),
                ..AgentRequest::text("")
            };
            let beginning = Beginning {
                parent: Some(Parent { run: context.run, operation }),
                depth,
                budget: Some(call.budget),
                context: Some(within.context.clone()),
                ask_effects: within.ask_effects,
                ..Beginning::new(run, call.agent.clone(), request, heritage.session.clone())
            };
            self.begin_run(beginning, None).await
        })
    }
}

/// How often a start follows a run that was faster, before it is refused.
const OVERTAKEN_MAX: u32 = 16;

/// The run that a new one goes on from, as its first record says.
fn predecessor_of(new: &NewRun) -> Option<RunId> {
    match new.records.first().map(|record| &record.body) {
        Some(Body::Started(started)) => started.predecessor,
        _ => None,
    }
}

/// Lets a new run go on from another one than before, or from none.
fn follow(new: &mut NewRun, predecessor: Option<RunId>) {
    if let Some(NewRecord { body: Body::Started(started), .. }) = new.records.first_mut() {
        started.predecessor = predecessor;
    }
    // What it would have taken over from the other one.
    new.records.truncate(1);
}

/// The digest of what a run is asked: the same start key with another one is a conflict.
fn digest_request(beginning: &Beginning, secret_paths: &BTreeSet<String>) -> Digest {
    let Beginning { agent, request, .. } = beginning;
    let mut asked = json!({ "agent": agent, "text": request.text, "data": request.data });
    // Where the run goes on from is part of the question; a session of its own is not, since it is named after the run.
    if let Some(session) = &beginning.asked.session {
        asked["session"] = json!(session);
    }
    if let Some(after) = &beginning.asked.after {
        asked["after"] = json!(after);
    }
    if let Some(model) = &beginning.asked.model {
        asked["model"] = json!(model);
    }
    if !request.user.is_null() {
        asked["user"] = request::without_secrets(&request.user, secret_paths);
    }
    if !request.attachments.is_empty() {
        asked["attachments"] = json!(request.attachments);
    }
    digest_json(&asked)
}
