//! The telephones of a workspace: which of its lines ring, who answers, and the calls that this process takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentState, LiveCommand, LiveNews, OperationId, RunId, Surface,
};
use dalsegno_history::HistoryError;
use dalsegno_realtime::{Backend, DuplexSession, LiveSession, Settings, reconnect_after};
use dalsegno_runtime::{
    Conversation, Engine, EngineError, KeysSent, NotDone, OpenCall, RunHandle, StartOptions, Stay,
    Switchboard,
};
use dalsegno_store::{CreateError, ReadError, RunFilter};
use dalsegno_tools::Transfer;
use dalsegno_workspace::{LineSurface, SecretRef, Telephone as TelephoneSettings, Transport};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::call::{Carrier, Provider};
use crate::control::{Control, NoControl};
use crate::headers::{Ringing, is_call_id};
use crate::keys::{Keypad, Keypads};
use crate::line::LineError;
use crate::media::{self, Callers};
use crate::socket::Endpoint;
use crate::telephone::Telephone;

/// Most calls that are being rejected at once.
const REJECTIONS: usize = 64;

/// How often a call is rejected before it is left to ring.
const ATTEMPTS: u32 = 3;

/// How long the end of the process waits for what carries and rejects calls.
const LEFT_WITHIN: Duration = Duration::from_secs(10);

/// Most runs of a call's session among which its own is looked for.
const RUNS_OF_SESSION: u32 = 64;

/// No agent answers at the number.
pub(crate) const NOT_FOUND: u16 = 404;

/// The line has no room.
pub(crate) const BUSY: u16 = 486;

/// The process stops.
const UNAVAILABLE: u16 = 503;

/// What came of a call that rings.
#[derive(Debug)]
pub enum Rung {
    /// It has a run, which this process performs.
    Started(Box<RunHandle>),
    /// It was told before, here or to another process.
    Known(RunId),
    /// It is rejected with this status of SIP.
    Rejected(u16),
}

/// What came of writing down the run of a call that rings.
pub(crate) enum Begun {
    /// It is performed here.
    Here(Box<Conversation>, OwnedSemaphorePermit),
    /// It was written down before, here or by another process.
    Known(RunId),
    /// It is being written down here.
    Begins,
    /// The call is to be rejected with this status of SIP.
    Rejected(u16),
}

/// The lines of a workspace that are reached by telephone.
pub struct Telephones {
    pub(crate) lines: BTreeMap<String, Arc<RingingLine>>,
    rejections: Arc<Semaphore>,
    /// What carries and rejects calls.
    pub(crate) tasks: Arc<Tasks>,
    /// The callers whose sound passes through this process.
    pub(crate) callers: Arc<Callers>,
    /// The calls whose runs are being begun, by line: the same event may come again meanwhile.
    beginning: Mutex<BTreeSet<(String, String)>>,
    /// The run of a call has been begun, or could not be.
    begun: watch::Sender<()>,
}

/// A call whose run is being begun.
struct Beginning<'t> {
    telephones: &'t Telephones,
    call: (String, String),
}

impl<'t> Beginning<'t> {
    /// None where its run is being begun already.
    fn of(telephones: &'t Telephones, line: &str, call: &str) -> Option<Self> {
        let call = (line.to_owned(), call.to_owned());
        let is_first = telephones.beginning().insert(call.clone());
        // Not made before it is known: what is dropped lets go of the call.
        is_first.then(|| Self { telephones, call })
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.telephones.beginning().remove(&self.call);
        self.telephones.begun.send_replace(());
    }
}

/// Tasks that are waited for before the process ends.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over are let go.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// One of these lines.
pub(crate) struct RingingLine {
    pub(crate) name: String,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) settings: TelephoneSettings,
    keypads: Arc<Keypads>,
    tasks: Arc<Tasks>,
}

impl fmt::Debug for Telephones {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Telephones").field("lines", &self.lines.keys()).finish_non_exhaustive()
    }
}

impl Telephones {
    /// The telephones of an engine's workspace, which carries calls by them from then on. Nothing is dialled.
    ///
    /// # Errors
    /// When the address of a line cannot be used.
    pub fn open(engine: &Engine) -> Result<Arc<Self>, LineError> {
        let (mut lines, tasks) = (BTreeMap::new(), Arc::new(Tasks::default()));
        for (name, line) in &engine.workspace().settings.lines {
            let Some(settings) = line.telephone.clone() else { continue };
            let endpoint = Endpoint::new(line, engine.line_key(line))
                .map_err(|message| LineError::Unusable { name: name.clone(), message })?;
            let (endpoint, room) = (Arc::new(endpoint), Arc::new(Semaphore::new(line.max_calls)));
            let (name, tasks, keypads) = (name.clone(), Arc::clone(&tasks), Arc::default());
            let line = RingingLine { name: name.clone(), endpoint, room, settings, keypads, tasks };
            lines.insert(name, Arc::new(line));
        }
        let rejections = Arc::new(Semaphore::new(REJECTIONS));
        let (callers, beginning) = (Arc::default(), Mutex::default());
        let begun = watch::Sender::default();
        let telephones = Arc::new(Self { lines, rejections, tasks, callers, beginning, begun });
        engine.set_switchboard(Arc::clone(&telephones) as Arc<dyn Switchboard>);
        Ok(telephones)
    }

    fn beginning(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who holds the lines of callers; none where no such line rings.
    pub fn transport(&self, line: &str) -> Option<Transport> {
        Some(self.lines.get(line)?.settings.transport)
    }

    /// What the provider of a line speaks; none where no such line rings.
    pub fn surface(&self, line: &str) -> Option<&LineSurface> {
        Some(self.lines.get(line)?.endpoint.surface())
    }

    /// The secrets that prove a webhook of a line; none where no such line rings.
    pub fn secrets(&self, line: &str) -> Option<&[SecretRef]> {
        Some(&self.lines.get(line)?.settings.webhook_secrets)
    }

    /// Does something that the end of the process waits for.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits until no call is carried or rejected any more, at most for a few seconds.
    pub async fn left(&self) {
        let left = async {
            // A call that began meanwhile is waited for as well.
            loop {
                let mut tasks =
                    std::mem::take(&mut *self.tasks.0.lock().unwrap_or_else(PoisonError::into_inner));
                if tasks.join_next().await.is_none() {
                    return;
                }
                while tasks.join_next().await.is_some() {}
            }
        };
        if timeout(LEFT_WITHIN, left).await.is_err() {
            tracing::warn!(
                "calls of telephones are left, with something about them not said to their provider"
            );
        }
    }

    /// A call rings at a line. Its run is written down, and the call answered, when this returns [`Rung::Started`]. A call that is
    /// told again has its run already.
    ///
    /// # Errors
    /// When there is no such line, or nothing can be written down.
    pub async fn ring(
        &self,
        engine: &Engine,
        line: &str,
        ringing: &Ringing,
        is_stopping: bool,
    ) -> Result<Rung, LineError> {
        let line = self.line(line)?;
        let call = &ringing.call_id;
        let (conversation, room) = loop {
            let mut over = self.begun.subscribe();
            match self.begin(engine, line, ringing, is_stopping).await? {
                Begun::Known(run) => return Ok(Rung::Known(run)),
                Begun::Rejected(status) => return Ok(self.reject(line, call, status)),
                Begun::Here(conversation, room) => break (conversation, room),
                // Who is told that it is known tells of it no more, so it must be written down before. The sender is its own.
                Begun::Begins => drop(over.changed().await),
            }
        };
        let Conversation { handle, news, commands, stay } = *conversation;
        let run = handle.run();
        let settings = async {
            let config = engine.journal().configuration(run).await?;
            let fold = engine.journal().fold_from_snapshot(run, &config).await?;
            let has_ended = engine.journal().summary(run).await?.status.is_end();
            Ok::<_, HistoryError>((config, Box::new(fold.state().clone()), has_ended))
        };
        let (config, state, has_ended) = settings.await.map_err(EngineError::History)?;
        if !has_ended {
            line.carry(call.clone(), OpenCall { run, config, state, news, commands, stay }, Some(room));
        }
        Ok(Rung::Started(Box::new(handle)))
    }

    /// The line of this name.
    pub(crate) fn line(&self, line: &str) -> Result<&Arc<RingingLine>, LineError> {
        self.lines.get(line).ok_or_else(|| LineError::Unknown {
            name: line.to_owned(),
            known_lines: self.lines.keys().cloned().collect(),
        })
    }

    /// Writes down the run of a call that rings, if an agent answers it.
    pub(crate) async fn begin(
        &self,
        engine: &Engine,
        line: &RingingLine,
        ringing: &Ringing,
        is_stopping: bool,
    ) -> Result<Begun, LineError> {
        let (call, called) = (&ringing.call_id, ringing.called());
        let answerer = called.as_ref().and_then(|number| line.settings.numbers.get(number));
        let Some(answerer) = answerer else {
            tracing::warn!(line = line.name, call, "no agent answers at the number that was called");
            return Ok(Begun::Rejected(NOT_FOUND));
        };
        let tenant = answerer.tenant.value.clone();
        let name = line.session(call);
        let Some(_beginning) = Beginning::of(self, &line.name, call) else { return Ok(Begun::Begins) };
        if let Some(run) = line.run_of(engine, &tenant, call).await? {
            return Ok(Begun::Known(run));
        }
        if is_stopping {
            return Ok(Begun::Rejected(UNAVAILABLE));
        }
        if *line.endpoint.surface() == (LineSurface::Live { backend: None })
            && engine
                .workspace()
                .agents
                .get(&answerer.agent.value)
                .is_some_and(|agent| agent.delegate().is_none())
        {
            tracing::error!(
                line = line.name,
                call,
                "the line has no `backend_model`, and the agent no `delegate`"
            );
            return Ok(Begun::Rejected(NOT_FOUND));
        }
        match engine.check_budget(&tenant).await {
            Ok(()) => {}
            Err(error @ EngineError::Budget { .. }) => {
                tracing::error!(line = line.name, call, %error, "the call is rejected");
                return Ok(Begun::Rejected(UNAVAILABLE));
            }
            Err(error) => return Err(error.into()),
        }
        let Ok(room) = Arc::clone(&line.room).try_acquire_owned() else {
            tracing::warn!(line = line.name, call, "the line has as many calls as it may have");
            return Ok(Begun::Rejected(BUSY));
        };
        let surface = match (line.settings.transport, line.endpoint.surface()) {
            (Transport::Media, _) => Surface::Media,
            (Transport::Sip, LineSurface::Realtime) => Surface::Telephone,
            (Transport::Sip, LineSurface::Live { .. }) => Surface::Duplex,
        };
        let user = json!({
            "call_id": call, "line": line.name, "surface": line.endpoint.surface().name(),
            "caller": ringing.caller(), "called": called,
        });
        let request = AgentRequest { user, tenant, ..AgentRequest::text("") };
        let options =
            StartOptions { key: Some(line.key(call)), session: Some(name), ..StartOptions::default() };
        let agent = &answerer.agent.value;
        match engine.converse(agent, surface, request, options).await {
            Ok(conversation) => Ok(Begun::Here(Box::new(conversation), room)),
            Err(
                EngineError::AlreadyRunning { run }
                | EngineError::Create(CreateError::KeyConflict { run, .. })
                | EngineError::History(HistoryError::Read(ReadError::Erased { run, .. })),
            ) => Ok(Begun::Known(run)),
            Err(
                error @ (EngineError::NoVoice { .. }
                | EngineError::UnknownAgent { .. }
                | EngineError::BrokenAgent { .. }
                | EngineError::Agent { .. }
                | EngineError::Tenant(_)),
            ) => {
                tracing::error!(line = line.name, call, %error, "the call cannot be answered");
                Ok(Begun::Rejected(NOT_FOUND))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Has a call rejected.
    fn reject(&self, line: &Arc<RingingLine>, call: &str, status: u16) -> Rung {
        if let Ok(room) = Arc::clone(&self.rejections).try_acquire_owned() {
            let (endpoint, call) = (Arc::clone(&line.endpoint), call.to_owned());
            self.tasks.spawn(async move {
                for attempt in 0..ATTEMPTS {
                    tokio::time::sleep(Duration::from_millis(reconnect_after(attempt))).await;
                    match endpoint.control(&call, &Control::Reject(status)).await {
                        Ok(()) | Err(NoControl::Gone(_)) => break,
                        Err(NoControl::Passing(_) | NoControl::Unknown(_)) => {}
                        Err(error) => {
                            tracing::error!(call, reason = error.reason(), "the call cannot be rejected");
                            break;
                        }
                    }
                }
                drop(room);
            });
        }
        Rung::Rejected(status)
    }
}

impl RingingLine {
    /// The run of a call that was told before. A client of the tenant may begin runs in a session of that name, and none with its key.
    pub(crate) async fn run_of(
        &self,
        engine: &Engine,
        tenant: &str,
        call: &str,
    ) -> Result<Option<RunId>, LineError> {
        let filter = RunFilter {
            tenant: Some(tenant.to_owned()),
            session: Some(self.session(call)),
            roots_only: true,
            limit: RUNS_OF_SESSION,
            ..RunFilter::default()
        };
        let key = Some(self.key(call));
        for run in engine.journal().runs(&filter).await.map_err(EngineError::History)? {
            match engine.journal().started(run.run).await {
                Ok(started) if started.start_key == key => return Ok(Some(run.run)),
                // What was erased is not known any more.
                Ok(_) | Err(HistoryError::Read(_)) => {}
                Err(error) => return Err(EngineError::History(error).into()),
            }
        }
        Ok(None)
    }

    /// The session of a call.
    fn session(&self, call: &str) -> String {
        format!("call-{}-{call}", self.name)
    }

    /// The key of the start of a call. No client can send its character in a key of its own.
    fn key(&self, call: &str) -> String {
        format!("call→{}→{call}", self.name)
    }

    /// Carries a call.
    fn carry(&self, call: String, open: OpenCall, room: Option<OwnedSemaphorePermit>) {
        let OpenCall { run, config, state, news, commands, stay } = open;
        let parts = Parts { config: &config, state: &state, news, commands, stay };
        let keypad = self.keypads.enter(&call);
        let carrier = parts.carrier(call, &self.endpoint, keypad);
        tracing::info!(%run, line = self.name, "carries the call of a telephone");
        self.tasks.spawn(async move {
            carrier.carry().await;
            drop(room);
        });
    }
}

/// What a carrier is made of.
struct Parts<'p> {
    config: &'p AgentConfig,
    state: &'p AgentState,
    news: mpsc::Sender<LiveNews>,
    commands: mpsc::UnboundedReceiver<LiveCommand>,
    stay: watch::Receiver<Stay>,
}

impl Parts<'_> {
    fn carrier(self, call: String, endpoint: &Arc<Endpoint>, keypad: Keypad) -> Carrier {
        let Self { config, state, news, commands, stay } = self;
        let settings = Settings { price: endpoint.price(), ..Settings::of(config, state) };
        let is_ringing = settings.is_ringing;
        // Its caller is heard at the provider.
        let (_, said) = mpsc::channel(1);
        let telephone = Telephone::new(call, Arc::clone(endpoint), stay);
        let provider = Provider::Remote(Arc::clone(endpoint));
        let carrier = match endpoint.surface() {
            LineSurface::Live { backend } => {
                let delegate = config.voice.as_ref().and_then(|voice| voice.delegate.as_ref());
                let tool = delegate.and_then(|delegate| format!("agents.{delegate}").parse().ok());
                let backend = match tool {
                    Some(tool) => Backend::Agent { tool: config.tools.model_name(&tool) },
                    None => Backend::Hosted { model: backend.clone().unwrap_or_default() },
                };
                Carrier::new(DuplexSession::new(settings, backend), provider, news, commands, said)
            }
            LineSurface::Realtime => Carrier::new(LiveSession::new(settings), provider, news, commands, said),
        };
        carrier.of_telephone(telephone, keypad, is_ringing)
    }
}

/// The line and the call of a request.
fn place(request: &AgentRequest) -> Option<(&str, &str)> {
    let text = |key: &str| request.user.get(key).and_then(Value::as_str);
    text("line").zip(text("call_id").filter(|call| is_call_id(call)))
}

impl Telephones {
    /// The line that carries the call of a request, and the call's id.
    fn carrying<'r>(&self, request: &'r AgentRequest) -> Result<(&Arc<RingingLine>, &'r str), NotDone> {
        let found = place(request).and_then(|(line, call)| Some((self.lines.get(line)?, call)));
        found.ok_or_else(|| NotDone::Passing("no line of this process carries the call".to_owned()))
    }

    /// Sends keys to the caller's line.
    async fn press(
        &self,
        request: &AgentRequest,
        operation: OperationId,
        keys: &str,
    ) -> Result<KeysSent, NotDone> {
        let (line, call) = self.carrying(request)?;
        if !matches!(line.endpoint.surface(), LineSurface::Live { .. }) {
            let message = "keys can be sent in calls of lines with `surface = \"live\"` only";
            return Err(NotDone::Refused(message.to_owned()));
        }
        line.keypads.send(call, operation, keys).await
    }

    /// Asks the provider of a call to have it taken to an address.
    async fn refer(&self, request: &AgentRequest, target: &str) -> Result<(), NotDone> {
        let (line, call) = self.carrying(request)?;
        let called = request.user.get("called").and_then(Value::as_str).unwrap_or_default();
        let allowed = line.settings.numbers.get(called).map(|answerer| answerer.transfer_to.as_slice());
        if !allowed.is_some_and(|patterns| patterns.iter().any(|pattern| pattern.matches(target))) {
            let name = &line.name;
            return Err(NotDone::Refused(format!(
                "calls to {called} may not be transferred there: add the address to `transfer_to` of the number in \
                 `[voice.lines.{name}]`"
            )));
        }
        if line.settings.transport == Transport::Media {
            return self.callers.transfer(&line.name, call, target);
        }
        let answer = line.endpoint.control(call, &Control::Refer(target.to_owned())).await;
        answer.map_err(|refused| match refused {
            NoControl::Gone(reason) | NoControl::Key(reason) | NoControl::Refused(reason) => {
                NotDone::Failed(reason)
            }
            NoControl::Passing(reason) => NotDone::Passing(reason),
            NoControl::Unknown(reason) => NotDone::Unknown(reason),
        })
    }
}

impl Switchboard for Telephones {
    fn has_line(&self, state: &AgentState) -> bool {
        let line = place(state.request()).and_then(|(line, _)| self.lines.get(line));
        line.is_some_and(|line| match line.settings.transport {
            Transport::Sip => true,
            Transport::Media => {
                let call = place(state.request()).map_or("", |(_, call)| call);
                self.callers.is_left(&line.name, call, state.now())
            }
        })
    }

    fn transfer<'t>(
        &'t self,
        request: &'t AgentRequest,
        transfer: &'t Transfer,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotDone>> + Send + 't>> {
        Box::pin(self.refer(request, &transfer.target))
    }

    fn send_keys<'t>(
        &'t self,
        request: &'t AgentRequest,
        operation: OperationId,
        keys: &'t str,
    ) -> Pin<Box<dyn Future<Output = Result<KeysSent, NotDone>> + Send + 't>> {
        Box::pin(self.press(request, operation, keys))
    }

    fn connect(&self, call: OpenCall) {
        let found = place(call.state.request()).map(|(line, id)| (self.lines.get(line), id.to_owned()));
        if let Some((Some(line), id)) = found {
            if line.settings.transport == Transport::Media {
                return self.tasks.spawn(media::end(call));
            }
            // A call that is under way is carried, however many there are.
            let room = Arc::clone(&line.room).try_acquire_owned().ok();
            line.carry(id, call, room);
        }
    }
}
