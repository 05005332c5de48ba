//! A call: a run with a live model, which a surface carries over a pair of channels.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentName, AgentRequest, AgentState, FailureCode, LiveCommand, LiveNews, OperationId,
    Received, RunId, Surface,
};
use dalsegno_history::Fold;
use dalsegno_store::Message;
use dalsegno_tools::Transfer;
use tokio::sync::{mpsc, watch};

use crate::effects::budget;
use crate::effects::failure::{AttemptError, certain};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::run::handle::RunHandle;
use crate::run::start::StartOptions;

/// Most news that waits for the run. A surface waits when there is more.
const NEWS_MAX: usize = 256;

/// A call that this process performs, as its surface sees it: what carries the words of the caller and of the live model.
#[derive(Debug)]
pub struct Conversation {
    /// The run.
    pub handle: RunHandle,
    /// What happens in the call. Once this is dropped the call is over.
    pub news: mpsc::Sender<LiveNews>,
    /// What the live model is asked for, each after the commit that it follows from. After
    /// [`LiveNews::Attached`] what was not taken comes again. It ends with the run.
    pub commands: mpsc::UnboundedReceiver<LiveCommand>,
    /// Whether the call stays with this process.
    pub stay: watch::Receiver<Stay>,
}

/// Whether a call stays with this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stay {
    /// It does.
    #[default]
    Here,
    /// The process stops: the surface is to let go of the call at the next good moment, by dropping its end of the news. Only
    /// asked where the call [continues without a process](Surface::outlives_its_process).
    LetGo,
    /// The run has ended.
    Over,
}

/// Who carries calls that continue without a process: those of telephones. When this process takes such a run over, its
/// switchboard gets the call.
pub trait Switchboard: Send + Sync + 'static {
    /// Says whether there is a line for this call, now.
    fn has_line(&self, state: &AgentState) -> bool;

    /// Carries a call from here on.
    fn connect(&self, call: OpenCall);

    /// Asks the provider of the call of this request, once, to transfer it.
    fn transfer<'t>(
        &'t self,
        request: &'t AgentRequest,
        transfer: &'t Transfer,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotDone>> + Send + 't>>;

    /// Sends keys, each of `0` to `9`, `*`, `#` and `A` to `D`, to the caller's line of the call of this request, once, for this
    /// operation of its run.
    fn send_keys<'t>(
        &'t self,
        request: &'t AgentRequest,
        operation: OperationId,
        keys: &'t str,
    ) -> Pin<Box<dyn Future<Output = Result<KeysSent, NotDone>> + Send + 't>>;
}

/// How many keys were sent to a caller's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysSent {
    /// All of them.
    All,
    /// The first ones; the provider refused the next one.
    First {
        /// How many.
        count: usize,
        /// Why no more were sent.
        reason: String,
    },
}

/// Why a call was not transferred, or no keys were sent to the caller's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDone {
    /// It may not be done.
    Refused(String),
    /// The provider did not take the wish, and will not.
    Failed(String),
    /// The provider did not take the wish; another attempt may be better.
    Passing(String),
    /// The provider may have taken the wish.
    Unknown(String),
}

impl From<NotDone> for AttemptError {
    fn from(not: NotDone) -> Self {
        match not {
            NotDone::Refused(reason) => certain(FailureCode::NotPermitted, reason),
            NotDone::Failed(reason) => certain(FailureCode::Unavailable, reason),
            NotDone::Passing(reason) => Self { transient: true, ..certain(FailureCode::Unavailable, reason) },
            NotDone::Unknown(reason) => {
                Self { received: Received::Possibly, ..certain(FailureCode::Unavailable, reason) }
            }
        }
    }
}

/// A call that was begun, perhaps by another process, and is not over.
pub struct OpenCall {
    /// The run.
    pub run: RunId,
    /// Its configuration.
    pub config: Arc<AgentConfig>,
    /// Where it stands.
    pub state: Box<AgentState>,
    /// What happens in the call.
    pub news: mpsc::Sender<LiveNews>,
    /// What the live model is asked for.
    pub commands: mpsc::UnboundedReceiver<LiveCommand>,
    /// Whether the call stays with this process.
    pub stay: watch::Receiver<Stay>,
}

/// The run's end of the channels.
pub(crate) struct Line {
    pub(crate) news: mpsc::Receiver<LiveNews>,
    commands: mpsc::UnboundedSender<LiveCommand>,
    /// What was sent over this line and is not taken: at most what the core keeps.
    sent: BTreeSet<OperationId>,
    stay: watch::Sender<Stay>,
}

/// The surface's end of the channels.
type Ends = (mpsc::Sender<LiveNews>, mpsc::UnboundedReceiver<LiveCommand>, watch::Receiver<Stay>);

impl Line {
    pub(crate) fn new() -> (Self, Ends) {
        let (news, news_in) = mpsc::channel(NEWS_MAX);
        let (commands, commands_out) = mpsc::unbounded_channel();
        let (stay, stays) = watch::channel(Stay::Here);
        (Self { news: news_in, commands, sent: BTreeSet::new(), stay }, (news, commands_out, stays))
    }

    /// Asks the surface to let go of the call.
    pub(crate) fn let_go(&self) {
        self.stay.send_if_modified(|stay| {
            let is_here = *stay == Stay::Here;
            if is_here {
                *stay = Stay::LetGo;
            }
            is_here
        });
    }

    /// Says whether the surface was asked to let go.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.stay.borrow() == Stay::LetGo
    }

    /// The end of the run is written down.
    pub(crate) fn is_over(&self) {
        self.stay.send_replace(Stay::Over);
    }

    /// Sends what was not sent yet. The listener may have gone: then the news ends, too.
    pub(crate) fn send(&mut self, commands: &[LiveCommand]) {
        self.sent.retain(|id| commands.iter().any(|command| command.id == *id));
        for command in commands {
            if self.sent.insert(command.id) {
                let _ = self.commands.send(command.clone());
            }
        }
    }

    /// The surface is there anew: what was not taken is sent again.
    pub(crate) fn begin_anew(&mut self) {
        self.sent.clear();
    }
}

impl Engine {
    /// Begins a call of an agent that has `[voice]`. With the key of a call that is not over, this process attaches to it: what was sent
    /// and not taken is sent again, under the same ids.
    ///
    /// # Errors
    /// When there is no such agent, it has no `[voice]`, another process performs the call, or it cannot be written down.
    pub async fn converse(
        &self,
        agent: &AgentName,
        surface: Surface,
        request: AgentRequest,
        options: StartOptions,
    ) -> Result<Conversation, EngineError> {
        let (line, (news, commands, stay)) = Line::new();
        let request = AgentRequest { surface: Some(surface), ..request };
        let handle = self.start_on(agent, request, options, Some(line)).await?;
        Ok(Conversation { handle, news, commands, stay })
    }

    /// Attaches to a call that is not over, with what carries its words from here on: what was sent and not taken is sent again, under
    /// the same ids. None where the call is over.
    ///
    /// # Errors
    /// When there is no such run, another process performs it, or it cannot be read.
    pub async fn attach(&self, run: RunId) -> Result<Option<Conversation>, EngineError> {
        let (line, (news, commands, stay)) = Line::new();
        let handle = Box::pin(self.take_open_on(run, Vec::new(), true, Some(line))).await?;
        Ok(handle.map(|handle| Conversation { handle, news, commands, stay }))
    }

    /// Looks whether a call over a line may be begun for a tenant: no daily budget that bounds it is used up. The shell that begins
    /// one asks first; a call under way is not ended.
    ///
    /// # Errors
    /// When a budget is used up, or cannot be read.
    pub async fn check_budget(&self, tenant: &str) -> Result<(), EngineError> {
        budget::check(self.ports(), tenant).await
    }

    /// Has this switchboard carry the calls of telephones that this process takes over. The first one stays.
    pub fn set_switchboard(&self, switchboard: Arc<dyn Switchboard>) {
        let _ = self.ports().switchboard.set(switchboard);
    }

    /// The line of an open call of a telephone that is taken over here; none for every other run.
    ///
    /// # Errors
    /// When no line of this process carries it.
    pub(crate) fn line_of(
        &self,
        run: RunId,
        config: &Arc<AgentConfig>,
        fold: &Fold,
    ) -> Result<Option<Line>, EngineError> {
        let state = fold.state();
        if !state.request().surface.is_some_and(Surface::outlives_its_process) {
            return Ok(None);
        }
        // That the call is over may have come last.
        if state.caught_up(config).live().is_none_or(|live| live.is_over()) {
            return Ok(None);
        }
        match self.ports().switchboard.get() {
            Some(switchboard) if switchboard.has_line(state) => {
                let (line, (news, commands, stay)) = Line::new();
                let (config, state) = (Arc::clone(config), Box::new(state.clone()));
                switchboard.connect(OpenCall { run, config, state, news, commands, stay });
                Ok(Some(line))
            }
            Some(_) | None => Err(EngineError::NoLine { run }),
        }
    }

    /// Gives the live model of a call a note, through the process that carries the call; it speaks of it at the next pause. If no
    /// process does now, the next one that attaches to the call takes the note.
    ///
    /// # Errors
    /// When there is no such run, it is no call, it has ended, the note has no words or a name of more than 256 bytes, or it cannot be
    /// written down.
    pub async fn say(&self, run: RunId, text: String, by: Option<String>) -> Result<(), EngineError> {
        if (LiveNews::Told { text: text.clone(), by: by.clone() }).bounded().is_none() {
            return Err(EngineError::Note { run });
        }
        let summary = self.store().summary(run).await?;
        if summary.status.is_end() {
            return Err(EngineError::Ended { run, status: summary.status });
        }
        if self.journal().started(run).await?.request.surface.is_none() {
            return Err(EngineError::NoCall { run });
        }
        let (mut text, mut by) = (text, by);
        self.bindings().secrets().text(&mut text);
        by.iter_mut().for_each(|by| self.bindings().secrets().text(by));
        self.store().post(run, Message::Say { text, by }).await?;
        Ok(())
    }
}
