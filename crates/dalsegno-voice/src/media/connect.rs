//! A carrier opens a socket for the sound of a call.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_realtime::{LiveSession, MediaSession, Settings};
use dalsegno_runtime::{Conversation, Engine, EngineError, RunHandle};
use dalsegno_store::AcquireError;
use dalsegno_workspace::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::Wish;
use super::line::{CallerLine, begin};
use crate::call::{Carrier, Provider};
use crate::line::{LineError, standing};
use crate::socket::Socket;
use crate::telephones::Telephones;

/// How long a call is waited for that another process carries, which is about to let go of it or has died.
const FREE_WITHIN: Duration = Duration::from_secs(15);

/// How long to wait before the next look.
const PAUSE: Duration = Duration::from_millis(50);

impl Telephones {
    /// Says whether a carrier may open a socket for the sound of calls to this number.
    pub fn takes_sound(&self, line: &str, called: &str) -> bool {
        self.lines.get(line).is_some_and(|line| {
            line.settings.transport == Transport::Media && line.settings.numbers.contains_key(called)
        })
    }

    /// A carrier has opened a socket for the sound of a call to this number, over a connection that was given over to it. The call is
    /// carried from here on; none where it is here already, there is no such call, or it is over. A process that stops takes none.
    ///
    /// # Errors
    /// When there is no such line, the carrier does not send what it must, another process keeps the call, or its run cannot be read.
    pub async fn connect(
        &self,
        engine: &Engine,
        line: &str,
        (called, call): (&str, &str),
        connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<Option<Box<RunHandle>>, LineError> {
        let line = Arc::clone(self.line(line)?);
        let mut socket = Socket::of_carrier(connection).await;
        let begun = tokio::select! {
            begun = begin(&mut socket, call) => begun,
            () = stops(stopping) => return Ok(None),
        };
        let stream = begun.map_err(|message| LineError::Unusable { name: line.name.clone(), message })?;
        let wish = Wish::Line(Box::new(socket), stream);
        let Err(Wish::Line(socket, stream)) = self.callers.tell(&line.name, call, wish) else {
            // The process carries the call, and had lost its line or is about to.
            return Ok(None);
        };
        let Some(answerer) = line.settings.numbers.get(called) else { return Ok(None) };
        let attached = match line.run_of(engine, &answerer.tenant.value, call).await? {
            Some(run) => attach(engine, run, stopping).await?,
            None => None,
        };
        let Some(conversation) = attached else {
            socket.close().await;
            return Ok(None);
        };
        let Conversation { handle, news, commands, stay } = conversation;
        let (config, state) = standing(engine, handle.run()).await?;
        let settings = Settings { price: line.endpoint.price(), ..Settings::of(&config, &state) };
        let has_begun = settings.has_begun;
        let session = MediaSession::new(LiveSession::new(settings), stream);
        let caller = CallerLine::new(*socket, stay, self.callers.enter(&line.name, call));
        // Its caller is heard over the line.
        let (_, said) = mpsc::channel(1);
        let provider = Provider::Remote(Arc::clone(&line.endpoint));
        let carrier = Carrier::new(session, provider, news, commands, said).over(caller, has_begun);
        // A call that is under way is carried, however many there are.
        let room = self.callers.room(&line.name, call);
        let room = room.or_else(|| Arc::clone(&line.room).try_acquire_owned().ok());
        tracing::info!(run = %handle.run(), line = line.name, "carries the sound of a call");
        self.tasks.spawn(async move {
            carrier.carry().await;
            drop(room);
        });
        Ok(Some(Box::new(handle)))
    }
}

/// Returns when the process stops.
async fn stops(stopping: &mut watch::Receiver<bool>) {
    // Without a sender nothing is left that could stop it in order.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Attaches to the run of a call, once no other process performs it; none where it is over, or this process stops.
async fn attach(
    engine: &Engine,
    run: RunId,
    stopping: &watch::Receiver<bool>,
) -> Result<Option<Conversation>, LineError> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        if *stopping.borrow() {
            return Ok(None);
        }
        match engine.attach(run).await {
            Err(EngineError::AlreadyRunning { .. } | EngineError::Acquire(AcquireError::Owned { .. }))
                if Instant::now() < until =>
            {
                sleep(PAUSE).await;
            }
            attached => return Ok(attached?),
        }
    }
}
