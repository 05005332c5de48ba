//! A line of the workspace.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentConfig, AgentName, AgentRequest, AgentState, LiveNews, RunId, Surface};
use dalsegno_realtime::{LiveSession, ModelSession as _, Settings};
use dalsegno_runtime::{Conversation, Engine, EngineError, ForkOptions, StartOptions};
use dalsegno_workspace::LineSurface;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::call::{Call, Carrier, Provider};
use crate::control::{Control, NoControl};
use crate::socket::Endpoint;

/// How long the provider may take to open a session that is only looked at.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// A call that no provider has.
const NO_CALL: &str = "live_none";

/// How much of the caller may wait.
pub(crate) const CALLER_MAX: usize = 64;

/// Why there is no call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The workspace has no such line.
    #[error("there is no line `{name}` in dalsegno.toml{}", known(known_lines))]
    Unknown {
        /// The name.
        name: String,
        /// The lines that it has.
        known_lines: Vec<String>,
    },
    /// The address of the line, or the TLS of this system, cannot be used.
    #[error("the line `{name}` cannot be used: {message}")]
    Unusable {
        /// The line.
        name: String,
        /// Why not.
        message: String,
    },
    /// The line has as many calls as it may have.
    #[error("the line `{name}` has {max_calls} calls, as many as `max_calls` allows")]
    Full {
        /// The line.
        name: String,
        /// The limit.
        max_calls: usize,
    },
    /// The call cannot be begun or written down.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn known(lines: &[String]) -> String {
    match lines {
        [] => ", which has no `[voice.lines]`".to_owned(),
        lines => format!(": it has {}", lines.join(", ")),
    }
}

/// A line over which agents speak with callers, as long as it has room.
#[derive(Debug, Clone)]
pub struct Line {
    name: String,
    endpoint: Arc<Endpoint>,
    max_calls: usize,
    room: Arc<Semaphore>,
}

impl Line {
    /// The line of this name. Nothing is dialled.
    ///
    /// # Errors
    /// When the workspace has no such line, or its address cannot be used.
    pub fn open(engine: &Engine, name: &str) -> Result<Self, LineError> {
        let workspace = engine.workspace();
        let lines = &workspace.settings.lines;
        let settings = lines.get(name).ok_or_else(|| LineError::Unknown {
            name: name.to_owned(),
            known_lines: lines.keys().cloned().collect(),
        })?;
        let endpoint = Endpoint::new(settings, engine.line_key(settings))
            .map_err(|message| LineError::Unusable { name: name.to_owned(), message })?;
        let max_calls = settings.max_calls;
        let room = Arc::new(Semaphore::new(max_calls));
        Ok(Self { name: name.to_owned(), endpoint: Arc::new(endpoint), max_calls, room })
    }

    /// Looks whether the provider opens a session, and closes it; where a session begins to cost at once, only whether it takes the key.
    ///
    /// # Errors
    /// In words, why it does not.
    pub async fn look(&self) -> Result<(), String> {
        if matches!(self.endpoint.surface(), LineSurface::Live { .. }) {
            // A session of its own would cost something. Whether the key is good shows when it is asked about a call that is none.
            return match self.endpoint.control(NO_CALL, &Control::HangUp).await {
                // A provider may not like the name of a call that is none; it liked the key.
                Ok(()) | Err(NoControl::Gone(_) | NoControl::Refused(_)) => Ok(()),
                Err(refused) => Err(refused.reason().to_owned()),
            };
        }
        let mut socket = self.endpoint.open(None).await.map_err(|error| error.reason)?;
        let mut session = LiveSession::new(Settings::default());
        session.connected(0);
        let opened = async {
            while !session.is_open() && !session.is_over() {
                let output = session.frame(0, &socket.next().await?);
                if let Some(LiveNews::Ended { reason, .. }) = output.news.into_iter().next() {
                    return Err(reason);
                }
            }
            Ok(())
        };
        let opened = timeout(LOOK_WITHIN, opened).await;
        socket.close().await;
        opened.unwrap_or_else(|_| Err("the provider does not open a session within 10 s".to_owned()))
    }

    /// Begins a call of an agent. With the key of a call that is not over, this process attaches to it: a new session of the live model
    /// is given what was said and done, and what its session before had not taken is sent again, under the same ids.
    ///
    /// # Errors
    /// When the line is full, there is no such agent, it has no `[voice]`, another process performs the call, or it cannot be
    /// written down.
    pub async fn call(
        &self,
        engine: &Engine,
        agent: &AgentName,
        request: AgentRequest,
        options: StartOptions,
    ) -> Result<Call, LineError> {
        let room = self.room()?;
        if options.key.is_none() {
            // With a key it may be a call that is under way.
            engine.check_budget(&request.tenant).await?;
        }
        let conversation = engine.converse(agent, Surface::Realtime, request, options).await?;
        self.carry(engine, conversation, room).await
    }

    /// Forks a call: the new one continues over this line.
    ///
    /// # Errors
    /// When the line is full, or the call cannot be forked.
    pub async fn fork(&self, engine: &Engine, run: RunId, options: ForkOptions) -> Result<Call, LineError> {
        let room = self.room()?;
        let tenant = engine.journal().summary(run).await.map_err(EngineError::History)?.tenant;
        engine.check_budget(&tenant).await?;
        let conversation = engine.fork_call(run, Surface::Realtime, options).await?;
        self.carry(engine, conversation, room).await
    }

    fn room(&self) -> Result<OwnedSemaphorePermit, LineError> {
        if matches!(self.endpoint.surface(), LineSurface::Live { .. }) {
            let message = "its live model hears sound only: call its number, or use a line with `surface = \"realtime\"`";
            return Err(LineError::Unusable { name: self.name.clone(), message: message.to_owned() });
        }
        let room = Arc::clone(&self.room).try_acquire_owned();
        room.map_err(|_| LineError::Full { name: self.name.clone(), max_calls: self.max_calls })
    }

    async fn carry(
        &self,
        engine: &Engine,
        conversation: Conversation,
        room: OwnedSemaphorePermit,
    ) -> Result<Call, LineError> {
        let Conversation { handle, news, commands, stay: _ } = conversation;
        let (config, state) = standing(engine, handle.run()).await?;
        let (caller, said) = mpsc::channel(CALLER_MAX);
        let price = self.endpoint.price();
        let session = LiveSession::new(Settings { price, ..Settings::of(&config, &state) });
        let provider = Provider::Remote(Arc::clone(&self.endpoint));
        let carrier = Carrier::new(session, provider, news, commands, said);
        let carried = tokio::spawn(async move {
            carrier.carry().await;
            drop(room);
        });
        Ok(Call { handle, caller, spoken: None, carried })
    }
}

/// What a call began with, and how it stands in the journal.
pub(crate) async fn standing(
    engine: &Engine,
    run: RunId,
) -> Result<(Arc<AgentConfig>, AgentState), EngineError> {
    let config = engine.journal().configuration(run).await.map_err(EngineError::History)?;
    let fold = engine.journal().fold_from_snapshot(run, &config).await.map_err(EngineError::History)?;
    let state = fold.state().clone();
    Ok((config, state))
}
