//! A call: a run with a live model, which a surface carries over a pair of channels.

use std::collections::BTreeSet;

use dalsegno_core::{AgentName, AgentRequest, LiveCommand, LiveNews, OperationId, RunId, Surface};
use dalsegno_store::Message;
use tokio::sync::mpsc;

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
}

/// The run's end of the channels.
pub(crate) struct Line {
    pub(crate) news: mpsc::Receiver<LiveNews>,
    commands: mpsc::UnboundedSender<LiveCommand>,
    /// What was sent over this line and is not taken: at most what the core keeps.
    sent: BTreeSet<OperationId>,
}

impl Line {
    pub(crate) fn new() -> (Self, mpsc::Sender<LiveNews>, mpsc::UnboundedReceiver<LiveCommand>) {
        let (news, news_in) = mpsc::channel(NEWS_MAX);
        let (commands, commands_out) = mpsc::unbounded_channel();
        (Self { news: news_in, commands, sent: BTreeSet::new() }, news, commands_out)
    }

    /// Sends what was not sent yet. Whoever listened may have gone: then the news ends, too.
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
        let (line, news, commands) = Line::new();
        let request = AgentRequest { surface: Some(surface), ..request };
        let handle = self.start_on(agent, request, options, Some(line)).await?;
        Ok(Conversation { handle, news, commands })
    }

    /// Gives the live model of a call a note, through the process that carries the call; it speaks of it at the next pause. If no
    /// process does now, the next one that attaches to the call takes the note.
    ///
    /// # Errors
    /// When there is no such run, it is no call, it has ended, or the note cannot be written down.
    pub async fn say(&self, run: RunId, text: String, by: Option<String>) -> Result<(), EngineError> {
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
