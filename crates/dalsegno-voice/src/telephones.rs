//! The telephones of a workspace: which of its lines ring, who answers, and the calls that this process takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dalsegno_core::{AgentConfig, AgentRequest, AgentState, LiveCommand, LiveNews, RunId, Surface};
use dalsegno_history::HistoryError;
use dalsegno_realtime::{Backend, DuplexSession, LiveSession, Settings, reconnect_after};
use dalsegno_runtime::{
    Conversation, Engine, EngineError, NotTransferred, OpenCall, RunHandle, StartOptions, Stay, Switchboard,
};
use dalsegno_store::{CreateError, ReadError, RunFilter};
use dalsegno_tools::Transfer;
use dalsegno_workspace::{LineSurface, SecretRef, Telephone as TelephoneSettings};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::call::{Carrier, Provider};
use crate::control::{Control, NoControl};
use crate::headers::{Ringing, is_call_id};
use crate::line::LineError;
use crate::socket::Endpoint;
use crate::telephone::Telephone;

/// Most calls that are being rejected at once.
const REJECTIONS: usize = 64;

/// How often a call is rejected before it is left to ring.
const ATTEMPTS: u32 = 3;

/// How long the end of the process waits for what carries and rejects calls.
const LEFT_WITHIN: Duration = Duration::from_secs(10);

/// No agent answers at the number.
const NOT_FOUND: u16 = 404;

/// The line has no room.
const BUSY: u16 = 486;

/// The process stops.
const UNAVAILABLE: u16 = 503;

/// What came of a call that rings.
#[derive(Debug)]
pub enum Rung {
    /// It has a run, which this process performs.
    Started(Box<RunHandle>),
    /// It was told before, here or to another process.
    Known(RunId),
    /// It was told before, and its run is being begun here.
    Begins,
    /// It is rejected with this status of SIP.
    Rejected(u16),
}

/// The lines of a workspace that are reached by telephone.
pub struct Telephones {
    lines: BTreeMap<String, Arc<RingingLine>>,
    rejections: Arc<Semaphore>,
    /// What carries and rejects calls.
    tasks: Arc<Tasks>,
    /// The calls whose runs are being begun, by line: the same event may come again meanwhile.
    beginning: Mutex<BTreeSet<(String, String)>>,
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
    }
}

/// Tasks that are waited for before the process ends.
#[derive(Default)]
struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over are let go.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// One of these lines.
struct RingingLine {
    name: String,
    endpoint: Arc<Endpoint>,
    room: Arc<Semaphore>,
    settings: TelephoneSettings,
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
            let (name, tasks) = (name.clone(), Arc::clone(&tasks));
            lines.insert(name.clone(), Arc::new(RingingLine { name, endpoint, room, settings, tasks }));
        }
        let rejections = Arc::new(Semaphore::new(REJECTIONS));
        let beginning = Mutex::default();
        let telephones = Arc::new(Self { lines, rejections, tasks, beginning });
        engine.set_switchboard(Arc::clone(&telephones) as Arc<dyn Switchboard>);
        Ok(telephones)
    }

    fn beginning(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the provider of a line speaks; none where no such line rings.
    pub fn surface(&self, line: &str) -> Option<&LineSurface> {
        Some(self.lines.get(line)?.endpoint.surface())
    }

    /// The secrets that prove a webhook of a line; none where no such line rings.
    pub fn secrets(&self, line: &str) -> Option<&[SecretRef]> {
        Some(&self.lines.get(line)?.settings.webhook_secrets)
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
        let Some(line) = self.lines.get(line) else {
            return Err(LineError::Unknown {
                name: line.to_owned(),
                known_lines: self.lines.keys().cloned().collect(),
            });
        };
        let (call, called) = (&ringing.call_id, ringing.called());
        let answerer = called.as_ref().and_then(|number| line.settings.numbers.get(number));
        let Some(answerer) = answerer else {
            tracing::warn!(line = line.name, call, "no agent answers at the number that was called");
            return Ok(self.reject(line, call, NOT_FOUND));
        };
        let tenant = answerer.tenant.value.clone();
        let name = format!("call-{}-{call}", line.name);
        let Some(_beginning) = Beginning::of(self, &line.name, call) else { return Ok(Rung::Begins) };
        if let Some(run) = known(engine, &tenant, &name).await? {
            return Ok(Rung::Known(run));
        }
        if is_stopping {
            return Ok(self.reject(line, call, UNAVAILABLE));
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
            return Ok(self.reject(line, call, NOT_FOUND));
        }
        match engine.check_budget(&tenant).await {
            Ok(()) => {}
            Err(error @ EngineError::Budget { .. }) => {
                tracing::error!(line = line.name, call, %error, "the call is rejected");
                return Ok(self.reject(line, call, UNAVAILABLE));
            }
            Err(error) => return Err(error.into()),
        }
        let Ok(room) = Arc::clone(&line.room).try_acquire_owned() else {
            tracing::warn!(line = line.name, call, "the line has as many calls as it may have");
            return Ok(self.reject(line, call, BUSY));
        };
        let surface = line.endpoint.surface().name();
        let of_call = match line.endpoint.surface() {
            LineSurface::Realtime => Surface::Telephone,
            LineSurface::Live { .. } => Surface::Duplex,
        };
        let user = json!({
            "call_id": call, "line": line.name, "surface": surface,
            "caller": ringing.caller(), "called": called,
        });
        let request = AgentRequest { user, tenant, ..AgentRequest::text("") };
        // No client can send this character in a key of its own.
        let key = Some(format!("call→{}→{call}", line.name));
        let options = StartOptions { key, session: Some(name), ..StartOptions::default() };
        let agent = &answerer.agent.value;
        match engine.converse(agent, of_call, request, options).await {
            Ok(Conversation { handle, news, commands, stay }) => {
                let run = handle.run();
                let settings = async {
                    let config = engine.journal().configuration(run).await?;
                    let fold = engine.journal().fold_from_snapshot(run, &config).await?;
                    let has_ended = engine.journal().summary(run).await?.status.is_end();
                    Ok::<_, HistoryError>((config, Box::new(fold.state().clone()), has_ended))
                };
                let (config, state, has_ended) = settings.await.map_err(EngineError::History)?;
                if !has_ended {
                    line.carry(
                        call.clone(),
                        OpenCall { run, config, state, news, commands, stay },
                        Some(room),
                    );
                }
                Ok(Rung::Started(Box::new(handle)))
            }
            Err(
                EngineError::AlreadyRunning { run }
                | EngineError::Create(CreateError::KeyConflict { run, .. })
                | EngineError::History(HistoryError::Read(ReadError::Erased { run, .. })),
            ) => Ok(Rung::Known(run)),
            Err(
                error @ (EngineError::NoVoice { .. }
                | EngineError::UnknownAgent { .. }
                | EngineError::BrokenAgent { .. }
                | EngineError::Agent { .. }
                | EngineError::Tenant(_)),
            ) => {
                tracing::error!(line = line.name, call, %error, "the call cannot be answered");
                Ok(self.reject(line, call, NOT_FOUND))
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

/// The run of a call that was told before.
async fn known(engine: &Engine, tenant: &str, session: &str) -> Result<Option<RunId>, LineError> {
    let filter = RunFilter {
        tenant: Some(tenant.to_owned()),
        session: Some(session.to_owned()),
        roots_only: true,
        limit: 1,
        ..RunFilter::default()
    };
    let runs = engine.journal().runs(&filter).await.map_err(EngineError::History)?;
    Ok(runs.first().map(|run| run.run))
}

impl RingingLine {
    /// Carries a call.
    fn carry(&self, call: String, open: OpenCall, room: Option<OwnedSemaphorePermit>) {
        let OpenCall { run, config, state, news, commands, stay } = open;
        let parts = Parts { config: &config, state: &state, news, commands, stay };
        let carrier = parts.carrier(call, &self.endpoint);
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
    fn carrier(self, call: String, endpoint: &Arc<Endpoint>) -> Carrier {
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
        carrier.of_telephone(telephone, is_ringing)
    }
}

/// The line and the call of a request.
fn place(request: &AgentRequest) -> Option<(&str, &str)> {
    let text = |key: &str| request.user.get(key).and_then(Value::as_str);
    text("line").zip(text("call_id").filter(|call| is_call_id(call)))
}

impl Telephones {
    /// Asks the provider of a call to have it taken to an address.
    async fn refer(&self, request: &AgentRequest, target: &str) -> Result<(), NotTransferred> {
        let found = place(request).and_then(|(line, call)| Some((self.lines.get(line)?, call)));
        let Some((line, call)) = found else {
            let message = "no line of this process has the call: nobody can transfer it";
            return Err(NotTransferred::Passing(message.to_owned()));
        };
        let called = request.user.get("called").and_then(Value::as_str).unwrap_or_default();
        let allowed = line.settings.numbers.get(called).map(|answerer| answerer.transfer_to.as_slice());
        if !allowed.is_some_and(|patterns| patterns.iter().any(|pattern| pattern.matches(target))) {
            let name = &line.name;
            return Err(NotTransferred::Refused(format!(
                "calls to {called} may not be transferred there: add the address to `transfer_to` of the number in \
                 `[voice.lines.{name}]`"
            )));
        }
        let answer = line.endpoint.control(call, &Control::Refer(target.to_owned())).await;
        answer.map_err(|refused| match refused {
            NoControl::Gone(reason) | NoControl::Key(reason) | NoControl::Refused(reason) => {
                NotTransferred::Failed(reason)
            }
            NoControl::Passing(reason) => NotTransferred::Passing(reason),
            NoControl::Unknown(reason) => NotTransferred::Unknown(reason),
        })
    }
}

impl Switchboard for Telephones {
    fn has_line(&self, request: &AgentRequest) -> bool {
        place(request).is_some_and(|(line, _)| self.lines.contains_key(line))
    }

    fn transfer<'t>(
        &'t self,
        request: &'t AgentRequest,
        transfer: &'t Transfer,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotTransferred>> + Send + 't>> {
        Box::pin(self.refer(request, &transfer.target))
    }

    fn connect(&self, call: OpenCall) {
        let found = place(call.state.request()).map(|(line, id)| (self.lines.get(line), id.to_owned()));
        if let Some((Some(line), id)) = found {
            // A call that is under way is carried, however many there are.
            let room = Arc::clone(&line.room).try_acquire_owned().ok();
            line.carry(id, call, room);
        }
    }
}
