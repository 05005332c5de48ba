//! A process of a soak: an engine with a runtime of its own, that works until it is stopped, or is gone all at once.

use std::path::Path;
use std::sync::Arc;

use dalsegno_core::{AgentRequest, RunId};
use dalsegno_history::HistoryError;
use dalsegno_runtime::{
    Engine, EngineError, GateInput, RunFailure, RunHandle, StartOptions, WorkerEvent, WorkerOptions,
};
use dalsegno_store::{
    AcquireError, AppendError, CreateError, PostError, ReadError, StorageError, StorageKind,
};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::agents::TOOLS;
use super::tools::{Outside, SoakModel, SoakTool, Witness};
use crate::error::SimulationError;

/// What a process says.
#[derive(Debug)]
pub(super) enum Word {
    /// The start of this number has this run.
    Started(u64, RunId),
    /// The start of this number has failed.
    NotStarted(u64),
}

/// A process.
pub(super) struct Host {
    runtime: Runtime,
    engine: Engine,
    stop: watch::Sender<bool>,
    worker: JoinHandle<()>,
    words: mpsc::UnboundedSender<Word>,
    outside: Arc<Outside>,
}

/// An engine with the tools of the world outside.
pub(super) async fn engine(outside: &Arc<Outside>, folder: &Path) -> Result<Engine, SimulationError> {
    let refused = |message: String| SimulationError::Workspace { seed: outside.seed, message };
    let mut builder = Engine::builder();
    for (name, class) in TOOLS {
        let tool = SoakTool { name, class, outside: Arc::clone(outside) };
        builder = builder.tool(name.parse().map_err(|error| refused(format!("{error:?}")))?, tool);
    }
    let builder = builder
        .model("default", SoakModel(Arc::clone(outside)))
        .observer(Arc::new(Witness(Arc::clone(outside))));
    builder.open(folder).await.map_err(|error| refused(format!("{error}: {error:?}")))
}

impl Host {
    pub(super) async fn boot(
        outside: &Arc<Outside>,
        folder: &Path,
        words: mpsc::UnboundedSender<Word>,
    ) -> Result<Self, SimulationError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let engine = engine(outside, folder).await?;
        let stop = watch::Sender::new(false);
        let worker = runtime.spawn(work(engine.clone(), Arc::clone(outside), stop.subscribe(), false));
        Ok(Self { runtime, engine, stop, worker, words, outside: Arc::clone(outside) })
    }

    /// Starts a run; the same number again is the same run.
    pub(super) fn start(&self, number: u64, agent: &'static str, request: AgentRequest) {
        let (engine, outside, words) = (self.engine.clone(), Arc::clone(&self.outside), self.words.clone());
        let stop = self.stop.subscribe();
        self.runtime.spawn(async move {
            let options = StartOptions { key: Some(format!("soak {number}")), ..StartOptions::default() };
            let Ok(agent) = agent.parse() else { return };
            match engine.start(&agent, request, options).await {
                Ok(handle) => {
                    let _ = words.send(Word::Started(number, handle.run()));
                    follow(handle, &outside, stop).await;
                }
                // Another process had it, and is performing it now.
                Err(EngineError::AlreadyRunning { run }) => drop(words.send(Word::Started(number, run))),
                Err(error) => {
                    notice(&outside, &error);
                    let _ = words.send(Word::NotStarted(number));
                }
            }
        });
    }

    /// Goes on with a run, with these answers.
    pub(super) fn resume(&self, run: RunId, answers: Vec<GateInput>) {
        let (engine, outside) = (self.engine.clone(), Arc::clone(&self.outside));
        let stop = self.stop.subscribe();
        self.runtime.spawn(async move {
            match engine.resume(run, answers).await {
                Ok(handle) => follow(handle, &outside, stop).await,
                Err(error) => notice(&outside, &error),
            }
        });
    }

    /// Tells it to stop, and waits until it did: nothing of it goes on.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.worker.await;
        // Those who follow a run hold a receiver until it is left.
        self.stop.closed().await;
        drop(self.engine);
        self.runtime.shutdown_background();
    }

    /// Ends it in the middle of whatever it does, as far as that can be done to a part of a process.
    pub(super) fn kill(self) {
        drop(self.engine);
        self.runtime.shutdown_background();
    }
}

/// Follows a run until its process lets go of it.
async fn follow(handle: RunHandle, outside: &Outside, mut stop: watch::Receiver<bool>) {
    let (run, mut handle) = (handle.run(), handle);
    let told = loop {
        tokio::select! {
            event = handle.next_event() => if event.is_none() { break false },
            _ = stop.wait_for(|stop| *stop) => break true,
        }
    };
    if told {
        handle.interrupt();
    }
    if let Err(error) = handle.finish().await {
        let error = EngineError::from(error);
        if !is_expected(&error) {
            outside.book().break_promise(format!("run {run}: {}", in_words(&error)));
        }
    }
}

/// Works until told to stop; with `until_idle`, until nothing can go on.
pub(super) async fn work(
    engine: Engine,
    outside: Arc<Outside>,
    mut stop: watch::Receiver<bool>,
    until_idle: bool,
) {
    let options = WorkerOptions { until_idle, concurrency: 256, ..WorkerOptions::default() };
    let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
    let tell = |event: WorkerEvent<'_>| match event {
        WorkerEvent::Failed { error, .. } | WorkerEvent::Blind { error } => notice(&outside, error),
        _ => {}
    };
    if let Err(error) = engine.work(&options, stopped, tell).await {
        notice(&outside, &error);
    }
}

/// Writes down an error that nothing in a soak explains.
pub(super) fn notice(outside: &Outside, error: &EngineError) {
    if !is_expected(error) {
        outside.book().break_promise(in_words(error));
    }
}

/// An error with its causes.
fn in_words(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    text
}

/// Says whether an error follows from processes that come and go, from people who answer late, or from a machine on which
/// a writer finds no gap among the others for as long as it waits. Whatever fails so is taken up again later.
fn is_expected(error: &EngineError) -> bool {
    match error {
        EngineError::Acquire(AcquireError::Storage(source))
        | EngineError::Post(PostError::Storage(source))
        | EngineError::History(HistoryError::Read(ReadError::Storage(source))) => is_expected_storage(source),
        EngineError::Acquire(AcquireError::Owned { .. })
        | EngineError::Create(CreateError::SessionBusy { .. })
        | EngineError::Post(PostError::Ended { .. })
        | EngineError::AlreadyRunning { .. }
        | EngineError::Ended { .. }
        | EngineError::Answer { .. } => true,
        EngineError::Create(CreateError::Append(source)) => is_expected_append(source),
        EngineError::Run(RunFailure::Append { source, .. }) => is_expected_append(source),
        EngineError::Run(RunFailure::Handoff { source, .. } | RunFailure::Child { source, .. }) => {
            is_expected(source)
        }
        _ => false,
    }
}

/// A process that is gone at once can leave a thread that still writes, which is refused.
fn is_expected_append(error: &AppendError) -> bool {
    match error {
        AppendError::Fenced { .. } => true,
        AppendError::Storage(source) => is_expected_storage(source),
        _ => false,
    }
}

/// One that waits too long for its turn, or a process that is gone and whose journal is closed.
fn is_expected_storage(error: &StorageError) -> bool {
    matches!(error.kind(), StorageKind::Busy | StorageKind::Closed)
}
