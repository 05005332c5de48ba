//! The runs that requests have begun or resumed, which this process performs.

use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_runtime::RunHandle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Performs runs until they end, are suspended, or the server stops; then they are left for another process.
pub(crate) struct Hands {
    tasks: Mutex<JoinSet<()>>,
    /// How much is being done that may begin runs.
    beginning: Arc<watch::Sender<usize>>,
    stopping: watch::Receiver<bool>,
}

/// Something that may begin runs, until it is dropped.
pub(crate) struct Beginning(Arc<watch::Sender<usize>>);

impl Drop for Beginning {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}

impl Hands {
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { tasks: Mutex::default(), beginning: Arc::default(), stopping }
    }

    /// Begins something that may begin runs, which are not left before it is over.
    pub(crate) fn begin(&self) -> Beginning {
        self.beginning.send_modify(|number| *number += 1);
        Beginning(Arc::clone(&self.beginning))
    }

    /// Takes a run over. It is followed to its end whether a client waits for it or not.
    pub(crate) fn hold(&self, mut handle: RunHandle) {
        let mut stopping = self.stopping.clone();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over are let go.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let run = handle.run();
            let mut is_told = false;
            loop {
                tokio::select! {
                    event = handle.next_event() => if event.is_none() { break },
                    _ = stopping.wait_for(|stopping| *stopping), if !is_told => {
                        handle.interrupt();
                        is_told = true;
                    }
                }
            }
            if let Err(error) = handle.finish().await {
                tracing::error!(%run, %error, "a run was left; a worker resumes it");
            }
        });
    }

    /// Waits until nothing begins any more and every run was left.
    pub(crate) async fn left(&self) {
        // The sender is its own.
        let _ = self.beginning.subscribe().wait_for(|number| *number == 0).await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}
