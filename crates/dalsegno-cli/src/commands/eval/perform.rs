//! Trials as durable runs, in a journal of the eval's own.

use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::{Timestamp, ToolPattern};
use dalsegno_eval::{Performer, Place, Start, Taken};
use dalsegno_runtime::{
    Engine, EngineError, GateInput, RunEnd, RunHandle, Settlement, StartOptions, WaitingOperation,
};
use dalsegno_store::AcquireError;
use dalsegno_workspace::{Eval, Workspace};
use tokio::sync::watch;

use super::folder;
use super::places::Places;
use crate::commands::{Context, programs};
use crate::error::Error;
use crate::render::failure;

/// Who agrees to calls that the eval file allows, as records say it.
const BY: &str = "dalsegno eval";

/// Answers that a trial is given before it is left as it is: a tool that asks again and again never ends.
const ANSWERS_MAX: usize = 1_000;

/// The engines of an eval.
pub(super) struct Trials {
    now: Engine,
    base: Option<Engine>,
    allowed: Vec<ToolPattern>,
    began: Timestamp,
    stop: watch::Sender<bool>,
}

impl Trials {
    /// Opens the journal and the memory of an eval, apart from those of the workspace.
    pub(super) async fn open(eval: &Eval, places: Places, context: &mut Context<'_>) -> Result<Self, Error> {
        let seeds = [Place::Now, Place::Base].map(|place| places.seeds(place));
        let Places { now, base } = places;
        let store = now.settings.store.clone();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut engines = Vec::new();
        for (mut workspace, seeds) in
            [Some(now), base].into_iter().zip(&seeds).filter_map(|(one, seeds)| Some((one?, seeds)))
        {
            let folder = folder(&store, &eval.name);
            workspace.settings.store = folder.join("journal.db");
            workspace.settings.memory.path = folder.join(format!("memory-{}.db", &seeds[..12]));
            engines.push(build(eval, workspace, context).await?);
        }
        let mut engines = engines.into_iter();
        let now =
            engines.next().ok_or_else(|| Error::EvalStopped { message: "there is no engine".to_owned() })?;
        Ok(Self {
            now,
            base: engines.next(),
            allowed: eval.allow_effects.clone(),
            began: Timestamp::from_millis(u64::try_from(began.as_millis()).unwrap_or(u64::MAX)),
            stop: watch::Sender::new(false),
        })
    }

    /// Leaves what is under way where it can be resumed.
    pub(super) fn interrupt(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        *self.stop.borrow()
    }

    /// What is agreed to of all that a run waits for: calls of the tools that the eval file allows.
    fn answers(&self, waiting: &[WaitingOperation]) -> Vec<GateInput> {
        let allowed = waiting.iter().filter(|one| {
            one.kind() == "approval"
                && one
                    .tool
                    .as_ref()
                    .is_some_and(|tool| self.allowed.iter().any(|pattern| pattern.matches(tool)))
        });
        allowed.map(|one| GateInput::to(one, Settlement::approve()).by(BY)).collect()
    }

    /// Waits for the end of a run, or until it waits for a person.
    async fn follow(&self, mut handle: RunHandle) -> Result<RunEnd, String> {
        let mut stop = self.stop.subscribe();
        let mut is_told = false;
        loop {
            tokio::select! {
                event = handle.next_event() => if event.is_none() { break },
                _ = stop.wait_for(|stop| *stop), if !is_told => {
                    handle.interrupt();
                    is_told = true;
                }
            }
        }
        handle.finish().await.map(|report| report.end).map_err(|error| failure::chain(&error))
    }
}

/// An engine that performs trials of one version.
async fn build(eval: &Eval, workspace: Workspace, context: &mut Context<'_>) -> Result<Engine, Error> {
    programs::admit(&workspace.settings, context)?;
    Ok(Engine::builder().on_trial(eval.allow_effects.clone()).build(workspace).await?)
}

impl Performer for Trials {
    async fn perform(&self, start: Start) -> Result<Taken, String> {
        let engine = match (start.place, &self.base) {
            (Place::Base, Some(base)) => base,
            _ => &self.now,
        };
        if self.is_interrupted() {
            return Err("it was interrupted".to_owned());
        }
        let options = StartOptions { key: Some(start.key), model: start.model, ..StartOptions::default() };
        let handle =
            engine.start(&start.agent, start.request, options).await.map_err(|error| told(&error))?;
        let run = handle.run();
        let mut end = self.follow(handle).await?;
        for _ in 0..ANSWERS_MAX {
            let RunEnd::Suspended { waiting, .. } = &end else { break };
            let answers = self.answers(waiting);
            if answers.is_empty() {
                break;
            }
            let resumed = engine.resume(run, answers).await.map_err(|error| told(&error))?;
            end = self.follow(resumed).await?;
        }
        if matches!(end, RunEnd::Interrupted) {
            return Err("it was interrupted".to_owned());
        }
        let journal = engine.journal();
        // A handle of a run that handed over has the id of the last run: the trial is the first one.
        let first = first(engine, run).await.map_err(|error| failure::chain(&error))?;
        let summary = journal.summary(first).await.map_err(|error| failure::chain(&error))?;
        let was_there = summary.started_at < self.began;
        Taken::read(journal, first, was_there).await.map_err(|error| failure::chain(&error))
    }
}

/// The run with which a chain of handoffs began. Each trial has a session of its own.
async fn first(
    engine: &Engine,
    run: dalsegno_core::RunId,
) -> Result<dalsegno_core::RunId, dalsegno_history::HistoryError> {
    let mut first = run;
    while let Some(before) = engine.journal().predecessor(first).await? {
        first = before;
    }
    Ok(first)
}

fn told(error: &EngineError) -> String {
    match error {
        EngineError::AlreadyRunning { .. } | EngineError::Acquire(AcquireError::Owned { .. }) => {
            "another process performs this eval: wait for its end, or stop it".to_owned()
        }
        error => failure::chain(error),
    }
}
