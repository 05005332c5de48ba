//! A call: what its surface reports, and what is sent to it.

use std::time::Duration;

use dalsegno_core::{EndedBy, Event, LiveNews, OperationId, Surface, Timestamp};
use dalsegno_models::judge_call;
use dalsegno_store::{Body, NewRecord};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

use super::Driver;
use crate::error::RunFailure;
use crate::run::converse::Line;

/// A clock that shows less than the latest news of a call by more than this was set back, in milliseconds: one that is set right
/// bit by bit differs by less.
const SET_BACK_MS: u64 = 1_000;

/// Most news that one record holds.
const TOGETHER: usize = 64;

impl Driver {
    /// The same run with a surface that carries its call.
    pub(crate) fn on(mut self, line: Option<Line>) -> Self {
        self.line = line;
        self
    }

    /// Says whether the run is a call that is not over, and has a surface here.
    pub(super) fn is_conversing(&self) -> bool {
        self.line.is_some() && self.has_open_call() && !self.stopping
    }

    /// Says whether the run is a call that is not over.
    pub(super) fn has_open_call(&self) -> bool {
        self.ended.is_none() && self.machine.state().live().is_some_and(|live| !live.is_over())
    }

    /// A call whose surface is not here is over: what it says would not be heard. One that continues at its provider is let go
    /// of, for a process that has its line.
    pub(super) fn end_without_line(&mut self) -> Result<(), RunFailure> {
        let state = self.machine.state();
        let goes_on = state.live().is_some_and(|live| !live.is_over());
        if self.line.is_some() || !goes_on || self.ended.is_some() || self.stopping {
            return Ok(());
        }
        if state.request().surface.is_some_and(Surface::outlives_its_process) {
            self.stopping = true;
            return Ok(());
        }
        let reason = "the process that carried it has ended".to_owned();
        self.take_news(vec![LiveNews::Ended { by: EndedBy::Provider, reason }])
    }

    /// Stops the run. A call that continues at its provider is let go of by its surface, at a moment when little is missed.
    pub(super) fn interrupt(&mut self) {
        self.leave_pause();
        let outlives = self.machine.state().request().surface.is_some_and(Surface::outlives_its_process);
        match &self.line {
            Some(line) if outlives && self.is_conversing() => line.let_go(),
            Some(_) | None => self.stopping = true,
        }
    }

    /// Says whether the surface was asked to let go of the call, and has not.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_conversing() && self.line.as_ref().is_some_and(Line::is_leaving)
    }

    /// Tells the surface that the end of the run is written down.
    pub(super) fn tell_line(&self) {
        if let Some(line) = &self.line {
            line.is_over();
        }
    }

    /// Waits for the next news of the call; nothing where its surface has gone.
    pub(super) async fn next_news(line: &mut Option<Line>) -> Vec<LiveNews> {
        let Some(line) = line else { return std::future::pending().await };
        let mut together = Vec::new();
        if let Some(news) = line.news.recv().await {
            together.push(news);
            while together.len() < TOGETHER {
                match line.news.try_recv() {
                    Ok(news) => together.push(news),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
        }
        together
    }

    /// How long until something follows in the call from silence alone.
    pub(super) fn wakes_in(&mut self) -> Option<Duration> {
        let wake_at = self.machine.state().wake_at(&self.context.config)?;
        let at = self.time_of_call();
        Some(Duration::from_millis(wake_at.as_millis().saturating_sub(at.as_millis())))
    }

    /// The time in the call. Where the clock was set back, it continues from the latest news at the pace of this process: else the
    /// call would wait for nothing to come of a silence, and for its longest duration, until the clock has caught up.
    fn time_of_call(&mut self) -> Timestamp {
        let (shown, latest) = (self.now(), self.machine.state().now());
        if self.pace.0 < latest {
            self.pace = (latest, Instant::now());
        }
        if shown.as_millis().saturating_add(SET_BACK_MS) >= latest.as_millis() {
            return shown;
        }
        let since = u64::try_from(self.pace.1.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.pace.0.as_millis().saturating_add(since))
    }

    /// Reports that a time has come, if it has.
    pub(super) fn wake_call(&mut self) -> Result<(), RunFailure> {
        let at = self.time_of_call();
        let is_due = |wake_at: Timestamp| wake_at <= at;
        if self.machine.state().wake_at(&self.context.config).is_some_and(is_due) {
            self.take_news(vec![LiveNews::Woke])?;
        }
        Ok(())
    }

    /// Records what happened in the call, as far as the core can take it.
    pub(super) fn take_news(&mut self, together: Vec<LiveNews>) -> Result<(), RunFailure> {
        if self.ended.is_some() || self.stopping {
            return Ok(());
        }
        if together.is_empty() {
            // The surface has gone, and the call with it.
            self.line = None;
            return self.end_without_line();
        }
        let at = self.time_of_call();
        let mut news = Vec::with_capacity(together.len());
        for mut one in together {
            if let LiveNews::Asked { call, .. } = &mut one {
                let validation = judge_call(&self.context.toolbox, &call.name, &call.arguments, false);
                call.validation = Some(validation);
            }
            self.context.bindings.secrets().live_news(&mut one);
            let kind = one.kind();
            let Some(one) = one.bounded() else {
                tracing::warn!(run = %self.context.run, news = kind, "news of the call is of no use");
                continue;
            };
            if let Err(error) = self.machine.state().admits(&one) {
                tracing::debug!(run = %self.context.run, %error, "news of the call is dropped");
                continue;
            }
            if one == LiveNews::Attached
                && let Some(line) = &mut self.line
            {
                line.begin_anew();
            }
            self.resume(Event::live(at, one.clone()))?;
            news.push(one);
        }
        if !news.is_empty() {
            self.outbox.push(NewRecord::new(at, Body::Conversed { news }));
        }
        self.go_on()
    }

    /// Sends the commands that the last commit made ready.
    pub(super) fn send_commands(&mut self) {
        if let (Some(line), Some(live)) = (&mut self.line, self.machine.state().live())
            && !live.is_lost()
        {
            line.send(live.commands());
        }
    }

    /// Lets go of operations to which the core itself gave an outcome.
    pub(super) fn let_go(&mut self, concluded: &[OperationId]) {
        if self.machine.state().live().is_none() {
            return;
        }
        let busy: Vec<OperationId> =
            self.running.all().map(|running| running.operation).filter(|id| !self.is_missing(*id)).collect();
        for id in busy.iter().chain(concluded) {
            for running in self.running.of(*id) {
                running.abort.abort();
            }
            self.flights.give_up(*id);
        }
    }
}
