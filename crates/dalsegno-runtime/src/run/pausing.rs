//! A run is paused, and continues.

use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_history::HistoryError;
use dalsegno_store::{AcquireError, Body, Message, PostError, ReadError, RunStatus, RunSummary, Waiting};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run::handle::{Pausing, RunEnd, RunEvent};

/// The pause before a child run is told again because the store could not be read or written.
const PAUSE: Duration = Duration::from_millis(500);

impl Engine {
    /// Pauses a run and its child runs: nothing new starts, and what is under way finishes and is recorded. Answers are still
    /// taken, and the run can be cancelled; its timers fire and its questions expire once it continues. A run that is paused stays
    /// so, also in another process, until [`unpause`](Self::unpause).
    ///
    /// # Errors
    /// When there is no such run, it has ended, it is a call, or the journal cannot be read or written.
    pub async fn pause(
        &self,
        run: RunId,
        by: Option<String>,
        reason: Option<String>,
    ) -> Result<Pausing, EngineError> {
        let (mut by, mut reason) = (by, reason);
        for text in [&mut by, &mut reason].into_iter().flatten() {
            self.bindings().secrets().text(text);
        }
        loop {
            let run = self.own_last_in_line(run).await?.run;
            let (summary, is_wanted) = self.pause_of(run).await?;
            if summary.status == RunStatus::HandedOff {
                continue;
            }
            if summary.status.is_end() {
                return Err(EngineError::Ended { run, status: summary.status });
            }
            if self.journal().asked(run).await?.surface.is_some() {
                return Err(EngineError::PausedCall { run });
            }
            if is_wanted && summary.waiting.contains(&Waiting::Paused) {
                return Ok(Pausing::Paused { run });
            }
            if !is_wanted {
                let message = Message::Pause { by: by.clone(), reason: reason.clone() };
                match self.store().post(run, message).await {
                    Err(PostError::Ended { status: RunStatus::HandedOff, .. }) => continue,
                    posted => posted?,
                }
            }
            // Boxed: what follows from it is large.
            let mut handle = match Box::pin(self.take_open(run, Vec::new(), true)).await {
                Ok(Some(handle)) => handle,
                // It ended meanwhile.
                Ok(None) => continue,
                Err(EngineError::Acquire(AcquireError::Owned { .. })) => {
                    return Ok(Pausing::Requested { run });
                }
                Err(error) => return Err(error),
            };
            while let Some(event) = handle.next_event().await {
                // From here on it is left: where it is told to continue right then, that is written down, and another task performs it.
                if matches!(event, RunEvent::Recorded { record, .. } if matches!(record.body, Body::Paused { .. }))
                {
                    handle.interrupt();
                }
            }
            let report = handle.finish().await?;
            return Ok(match report.end {
                RunEnd::Paused { .. } => Pausing::Paused { run: report.run },
                RunEnd::Ended(_) => Pausing::Ended(Box::new(report)),
                RunEnd::Suspended { .. } | RunEnd::Interrupted => Pausing::Requested { run: report.run },
            });
        }
    }

    /// Has a paused run continue, and its child runs: the process that performs it, or whichever takes it up next, such as a worker or
    /// [`resume`](Self::resume).
    ///
    /// # Errors
    /// When there is no such run, it has ended, it is not paused, or the journal cannot be read or written.
    pub async fn unpause(&self, run: RunId, by: Option<String>) -> Result<RunId, EngineError> {
        let mut by = by;
        by.iter_mut().for_each(|by| self.bindings().secrets().text(by));
        loop {
            let run = self.own_last_in_line(run).await?.run;
            let (summary, is_wanted) = self.pause_of(run).await?;
            if summary.status == RunStatus::HandedOff {
                continue;
            }
            if summary.status.is_end() {
                return Err(EngineError::Ended { run, status: summary.status });
            }
            if !is_wanted {
                return Err(EngineError::NotPaused { run });
            }
            match self.store().post(run, Message::Continue { by: by.clone() }).await {
                Err(PostError::Ended { status: RunStatus::HandedOff, .. }) => {}
                posted => return Ok(posted.map(|()| run)?),
            }
        }
    }

    /// Says whether a run is paused, or will be by what its inbox says.
    ///
    /// # Errors
    /// When there is no such run, or the journal cannot be read.
    pub async fn is_paused(&self, run: RunId) -> Result<bool, EngineError> {
        let run = self.journal().last_in_line(run).await?.run;
        let (summary, is_wanted) = self.pause_of(run).await?;
        Ok(!summary.status.is_end() && is_wanted)
    }

    /// A run's line in the listing, and whether the run is to stand still.
    async fn pause_of(&self, run: RunId) -> Result<(RunSummary, bool), ReadError> {
        // In this order: who takes a word out of the inbox has written down what comes of it.
        let messages = self.store().inbox(run).await?;
        let summary = self.store().summary(run).await?;
        let is_wanted = match last_word(&messages) {
            Some(word) => matches!(word, Message::Pause { .. }),
            None => summary.waiting.contains(&Waiting::Paused),
        };
        Ok((summary, is_wanted))
    }

    /// Tells a child run what the run above it was told: to stand still, or to continue. One that has not begun, has ended, or
    /// does so already is told nothing.
    pub(crate) async fn pass_word(&self, child: RunId, word: &Message) {
        loop {
            let told = async {
                let last = self.journal().last_in_line(child).await?.run;
                let (summary, is_wanted) = self.pause_of(last).await?;
                let pauses = matches!(word, Message::Pause { .. });
                if !summary.status.is_end() && is_wanted != pauses {
                    self.store().post(last, word.clone()).await?;
                }
                Ok::<_, EngineError>(())
            };
            match told.await {
                Ok(()) | Err(EngineError::History(HistoryError::Read(ReadError::UnknownRun { .. }))) => {
                    return;
                }
                Err(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                Err(error) => {
                    tracing::warn!(run = %child, %error, "a child run is not told what the run above it was told");
                    return;
                }
            }
        }
    }
}

/// The last message of an inbox by which a run is to stand still or to continue: it is the one that counts.
pub(crate) fn last_word(inbox: &[(u64, Message)]) -> Option<&Message> {
    let is_word = |message: &&Message| matches!(message, Message::Pause { .. } | Message::Continue { .. });
    inbox.iter().rev().map(|(_, message)| message).find(is_word)
}
