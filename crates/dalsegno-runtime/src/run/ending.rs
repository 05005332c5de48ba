//! A run is ended: by a person, since the run above it has ended, or since its process died while it ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use dalsegno_core::{AgentConfig, Answer, Failure, FailureCode, Outcome, RunId};
use dalsegno_history::{Fold, HistoryError, LeftOpen};
use dalsegno_store::{
    AcquireError, Body, Lease, Message, NewRecord, PostError, ReadError, RunFilter, RunStatus, RunSummary,
    Waiting,
};

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::run::abandon::uncancellable;
use crate::run::acquire::Opened;
use crate::run::answers;
use crate::run::context::{GivenUp, Surroundings};
use crate::run::driver::{Driver, Why};
use crate::run::handle::{Cancelled, GateInput, RunHandle, Stop};

/// The pause before something is tried again because the store could not be written.
const PAUSE: Duration = Duration::from_millis(500);

impl Engine {
    /// Ends a run and its child runs: here, or through the process that performs it. What may not be repeated and is under
    /// way finishes, and is recorded.
    ///
    /// # Errors
    /// When there is no such run, it has ended, its journal is damaged, or it cannot be written down.
    pub fn cancel<'a>(
        &'a self,
        run: RunId,
        by: Option<String>,
        reason: Option<String>,
    ) -> Pin<Box<dyn Future<Output = Result<Cancelled, EngineError>> + Send + 'a>> {
        // Boxed, since the driver ends child runs.
        Box::pin(async move {
            let (mut by, mut reason) = (by, reason);
            for text in [&mut by, &mut reason].into_iter().flatten() {
                self.bindings().secrets().text(text);
            }
            loop {
                let run = self.own_last_in_line(run).await?.run;
                let (summary, lease) = match self.acquire_open(run).await {
                    Ok(Opened::Acquired(summary, lease)) => (summary, lease),
                    // It was handed over meanwhile.
                    Ok(Opened::Ended(summary)) if summary.status == RunStatus::HandedOff => continue,
                    Ok(Opened::Ended(summary)) => {
                        self.end_left_behind(run).await?;
                        return Err(EngineError::Ended { run, status: summary.status });
                    }
                    Err(EngineError::Acquire(AcquireError::Owned { .. })) => {
                        let message = Message::Cancel { by: by.clone(), reason: reason.clone() };
                        match self.store().post(run, message).await {
                            Err(PostError::Ended { status: RunStatus::HandedOff, .. }) => continue,
                            posted => posted?,
                        }
                        return Ok(Cancelled::Requested { run });
                    }
                    Err(error) => return Err(uncancellable(run, error)),
                };
                let config = match self.journal().config(run, summary.config).await {
                    Ok(config) => config,
                    Err(error) => return Err(uncancellable(run, self.give_back(lease, error.into()).await)),
                };
                let ended = self.end_here(&summary, config, lease, Why { by, reason }).await;
                let handle = ended.map_err(|error| uncancellable(run, error))?;
                return Ok(Cancelled::Ended(Box::new(handle.finish().await?)));
            }
        })
    }

    /// Why a run is to end before anything else is done with it: somebody asked for that, or the run above it has ended.
    pub(crate) async fn doom(&self, summary: &RunSummary) -> Result<Option<Why>, EngineError> {
        for (_, message) in self.store().inbox(summary.run).await? {
            if let Message::Cancel { by, reason } = message {
                return Ok(Some(Why { by, reason }));
            }
        }
        let Some(parent) = summary.parent else { return Ok(None) };
        match self.store().summary(parent).await {
            Ok(parent) if parent.status.is_end() => match Message::parent_ended() {
                Message::Cancel { by, reason } => Ok(Some(Why { by, reason })),
                _ => Ok(Some(Why::default())),
            },
            // Of a parent that is not here nothing is known.
            Ok(_) | Err(ReadError::UnknownRun { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a run that this process owns. It performs nothing, and no server is opened for it.
    pub(crate) async fn end_here(
        &self,
        summary: &RunSummary,
        config: Arc<AgentConfig>,
        lease: Lease,
        why: Why,
    ) -> Result<RunHandle, EngineError> {
        let begin = |driver: &mut Driver, _| {
            driver.doom(why);
        };
        self.close_here(summary, config, lease, begin).await
    }

    /// Performs the rest of a run that is over, or is about to be.
    async fn close_here(
        &self,
        summary: &RunSummary,
        config: Arc<AgentConfig>,
        lease: Lease,
        begin: impl FnOnce(&mut Driver, LeftOpen),
    ) -> Result<RunHandle, EngineError> {
        let run = summary.run;
        let prepared = async {
            let mut fold = self.journal().fold_from_snapshot(run, &config).await?;
            let left = std::mem::take(&mut fold.left);
            // Only for scrubbing: a secret store that cannot be read keeps no run from its end.
            if let Err(error) = self.know_secrets(&summary.tenant, &fold.state().request().user).await {
                tracing::warn!(%run, %error, "the secrets of the run are not known, and not scrubbed from its end");
            }
            let watches = self.watches_of(summary, &config, fold.state()).await?;
            let (context, events) = self.context(run, config, &Surroundings::of(summary, &fold), None)?;
            Ok::<_, EngineError>((fold, left, watches, context, events))
        };
        let (fold, left, watches, context, events) = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.give_back(lease, error).await),
        };
        let (stop, stopped) = watch::channel(Stop::Cancel);
        // A call of a telephone is hung up when its run has ended. Without a line it ends here all the same.
        let line = self.line_of(run, &context.config, &fold).unwrap_or_default();
        let mut driver =
            Driver::new(context, Arc::clone(self.store()), lease, fold, watches, stopped).on(line);
        begin(&mut driver, left);
        Ok(RunHandle { run, is_new: false, begun: None, events, stop, task: self.perform(driver) })
    }

    /// Ends the child runs of a run that has ended. The commit that ended it told them; this does not wait for a worker.
    pub(crate) async fn end_left_behind(&self, run: RunId) -> Result<(), EngineError> {
        let children =
            RunFilter { parent: Some(run), foreign: Some(false), limit: u32::MAX, ..RunFilter::default() };
        for child in self.store().runs(&children).await? {
            if !child.status.is_end() {
                self.end_below(child.run).await;
            }
        }
        Ok(())
    }

    /// Ends a child run whose parent has ended, unless another process performs it: that one was told in the commit of the
    /// parent's end, as is anybody who resumes the child run.
    pub(crate) fn end_below(&self, run: RunId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let ended = async {
                if let Some(handle) = self.take_open(run, Vec::new(), true).await? {
                    handle.finish().await?;
                }
                Ok::<_, EngineError>(())
            };
            if let Err(error) = ended.await {
                tracing::debug!(%run, %error, "a child run is not ended by this process");
            }
        })
    }

    /// Ends a child run whose operation is given up, or tells the process that performs it to.
    pub(crate) async fn give_up_child(
        &self,
        child: RunId,
        by: Option<String>,
        reason: Option<String>,
    ) -> GivenUp {
        loop {
            match self.cancel(child, by.clone(), reason.clone()).await {
                Err(EngineError::History(HistoryError::Read(ReadError::UnknownRun { run })))
                    if run == child =>
                {
                    return GivenUp::Unbegun;
                }
                Err(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                Ok(_) | Err(EngineError::Ended { .. }) => return GivenUp::Told,
                Err(error) => {
                    tracing::warn!(%child, %error, "a child run that was given up is not ended");
                    return GivenUp::Told;
                }
            }
        }
    }

    /// Resumes a run that has ended and whose process died while effects were under way, so that what became of them is
    /// recorded; none when nothing is left to record, or its process lives and records it.
    pub(crate) async fn take_ended(&self, summary: &RunSummary) -> Result<Option<RunHandle>, EngineError> {
        let run = summary.run;
        if summary.owner.is_none() || !summary.waiting.contains(&Waiting::InDoubt) {
            return Ok(None);
        }
        let config = self.journal().config(run, summary.config).await?;
        let owner = self.ports().owner().await?;
        let lease = match self.store().acquire(run, owner).await {
            Ok(lease) => lease,
            // Its end is known whoever holds it. A parent that waited for the holder would sleep for ever: what comes late
            // wakes nobody.
            Err(AcquireError::Owned { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.close_here(summary, config, lease, Driver::take_up_end).await.map(Some)
    }

    /// Records what somebody says about effects that were in doubt when their run ended.
    pub(crate) async fn settle_ended(
        &self,
        summary: &RunSummary,
        inputs: Vec<GateInput>,
    ) -> Result<(), EngineError> {
        let run = summary.run;
        let config = self.journal().config(run, summary.config).await?;
        let owner = self.ports().owner().await?;
        let mut lease = self.store().acquire(run, owner).await?;
        let settled = async {
            let fold: Fold = self.journal().fold_from_snapshot(run, &config).await?;
            let waiting = fold.left.waiting(run);
            let answers = answers::check_all(run, &config, &waiting, inputs)?;
            let mut open = fold.left.in_doubt.len();
            let mut records = Vec::with_capacity(answers.len());
            for (operation, answer) in answers {
                let by = match &answer {
                    Answer::Done { by, .. } | Answer::NotDone { by } => by.clone(),
                    _ => None,
                };
                let outcome = answer.outcome().unwrap_or_else(|| {
                    Outcome::Failed(Failure::new(FailureCode::Cancelled, "it did not take place"))
                });
                open = open.saturating_sub(1);
                let open = u32::try_from(open).unwrap_or(u32::MAX);
                let mut body = Body::Late { outcome, open, by };
                self.bindings().secrets().record(&mut body);
                records.push(NewRecord::of(self.now(), operation, body));
            }
            let appended = self.store().append(&mut lease, records).await;
            appended.map_err(|source| RunFailure::Append { run, source })?;
            Ok::<_, EngineError>(())
        };
        if let Err(error) = settled.await {
            return Err(self.give_back(lease, error).await);
        }
        Ok(self.ports().release(lease).await?)
    }
}
