//! The runs that requests have begun or resumed, which this process performs.

use std::sync::{Mutex, PoisonError};

use dalsegno_runtime::RunHandle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Performs runs until they end, are suspended, or the server stops; then they are left for another process.
pub(crate) struct Hands {
    tasks: Mutex<JoinSet<()>>,
    stopping: watch::Receiver<bool>,
}

impl Hands {
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { tasks: Mutex::default(), stopping }
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

    /// Waits until every run was left.
    pub(crate) async fn left(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}
