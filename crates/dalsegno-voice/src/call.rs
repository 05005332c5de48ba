//! One call: the run, the socket of the live model and the caller, until one of them ends it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{LiveCommand, LiveNews};
use dalsegno_realtime::{ModelSession, Output, reconnect_after};
use dalsegno_runtime::RunHandle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::caller::{Caller, Dropped, Turns};
use crate::keys::{Keypad, Wished};
use crate::media::{CallerLine, Heard};
use crate::own::{OwnModel, OwnSession};
use crate::socket::{Endpoint, NoSocket, Socket};
use crate::telephone::{Follows, Telephone, Told};

/// How long the run may take no news before the call is let go of.
const STALLED: Duration = Duration::from_secs(10);

/// How often a session that was never open is tried: four seconds.
const FIRST_ATTEMPTS: u32 = 5;

/// How long a session has to be open before the next loss counts as the first one.
const STEADY_MS: u64 = 5_000;

/// A call that this process carries.
#[derive(Debug)]
pub struct Call {
    /// The run.
    pub handle: RunHandle,
    /// What the caller does. When this is dropped, the caller hangs up, unless a turn that waits is to do so.
    pub caller: mpsc::Sender<Caller>,
    /// The words of the agent's own model as it speaks them, in a call by hand.
    pub spoken: Option<mpsc::UnboundedReceiver<String>>,
    /// What carries the words. It ends with the run.
    pub carried: JoinHandle<()>,
}

/// Where the live model is.
#[derive(Clone)]
pub(crate) enum Provider {
    /// Behind a socket.
    Remote(Arc<Endpoint>),
    /// It is the agent's own model.
    Own(Arc<OwnModel>),
}

/// A way to the live model that is open.
enum Connection {
    Socket(Box<Socket>),
    Own(Box<OwnSession>),
}

impl Provider {
    /// Opens a session, or attaches to the session of a telephone's call.
    async fn open(&self, call: Option<&str>) -> Result<Connection, NoSocket> {
        Ok(match self {
            Self::Remote(endpoint) => Connection::Socket(Box::new(endpoint.open(call).await?)),
            Self::Own(model) => Connection::Own(Box::new(OwnSession::open(model))),
        })
    }
}

impl Connection {
    async fn next(&mut self) -> Result<String, String> {
        match self {
            Self::Socket(socket) => socket.next().await,
            Self::Own(session) => Ok(session.next().await),
        }
    }

    async fn send(&mut self, frames: Vec<String>) -> Result<(), String> {
        match self {
            Self::Socket(socket) => socket.send(frames).await,
            Self::Own(session) => {
                session.send(&frames);
                Ok(())
            }
        }
    }

    async fn close(self) {
        match self {
            Self::Socket(socket) => socket.close().await,
            Self::Own(_) => {}
        }
    }

    /// What a response has taken that is cut off by the end of the session, where that is known.
    fn taken(&self) -> Option<LiveNews> {
        let Self::Own(session) = self else { return None };
        session.taken().map(|(response, tokens)| LiveNews::Counted { response, tokens })
    }
}

/// The session, or the way to one.
enum Link {
    /// There is none yet: the call was not answered.
    None,
    /// The next attempt is at this time of the call.
    Waiting(u64),
    Opening(JoinHandle<Result<Connection, NoSocket>>),
    Open(Connection),
}

/// What came of the session.
enum Came {
    Time,
    Opened(Result<Connection, NoSocket>),
    Frame(String),
    Lost(String),
}

impl Link {
    /// The next thing that comes of it. It may be dropped and asked again.
    async fn next(&mut self, began: Instant) -> Came {
        match self {
            Self::None => pending().await,
            Self::Waiting(at) => {
                sleep_until(began + Duration::from_millis(*at)).await;
                Came::Time
            }
            Self::Opening(opening) => match opening.await {
                Ok(opened) => Came::Opened(opened),
                Err(error) => {
                    Came::Opened(Err(NoSocket { reason: error.to_string(), may_pass: false, is_gone: false }))
                }
            },
            Self::Open(session) => match session.next().await {
                Ok(frame) => Came::Frame(frame),
                Err(reason) => Came::Lost(reason),
            },
        }
    }
}

/// Carries the words of a call.
pub(crate) struct Carrier {
    began: Instant,
    session: Box<dyn ModelSession>,
    provider: Provider,
    link: Link,
    /// Attempts since the last steady session.
    attempts: u32,
    was_open: bool,
    /// When the session was opened that is there.
    open_since: Option<u64>,
    news: mpsc::Sender<LiveNews>,
    commands: mpsc::UnboundedReceiver<LiveCommand>,
    said: mpsc::Receiver<Caller>,
    turns: Turns,
    is_listening: bool,
    telephone: Option<Telephone>,
    /// By which the run sends keys to the caller's line.
    keypad: Option<Keypad>,
    /// The caller's line, where their sound passes through here.
    line: Option<CallerLine>,
}

impl Carrier {
    pub(crate) fn new(
        session: impl ModelSession + 'static,
        provider: Provider,
        news: mpsc::Sender<LiveNews>,
        commands: mpsc::UnboundedReceiver<LiveCommand>,
        said: mpsc::Receiver<Caller>,
    ) -> Self {
        Self {
            began: Instant::now(),
            session: Box::new(session),
            provider,
            link: Link::Waiting(0),
            attempts: 0,
            was_open: false,
            open_since: None,
            news,
            commands,
            said,
            turns: Turns::default(),
            is_listening: true,
            telephone: None,
            keypad: None,
            line: None,
        }
    }

    /// The same for a call of a telephone, whose caller is heard at the provider.
    pub(crate) fn of_telephone(mut self, telephone: Telephone, keypad: Keypad, is_ringing: bool) -> Self {
        if is_ringing {
            self.link = Link::None;
        }
        self.telephone = Some(telephone);
        self.keypad = Some(keypad);
        self.is_listening = false;
        self
    }

    /// The same for a caller whose sound passes through here, in a call that had a session before, or had none.
    pub(crate) fn over(mut self, line: CallerLine, has_begun: bool) -> Self {
        self.line = Some(line);
        // A call that is under way is not ended because no session can be had for a while.
        self.was_open = has_begun;
        self.is_listening = false;
        self
    }

    fn now(&self) -> u64 {
        now_of(self.began)
    }

    /// Carries the call to its end.
    pub(crate) async fn carry(mut self) {
        while self.turn().await {}
        match self.link {
            Link::Open(session) => session.close().await,
            Link::Opening(opening) => opening.abort(),
            Link::None | Link::Waiting(_) => {}
        }
        // The process that continues with the call need not wait for the rest.
        drop(self.news);
        if let Some(line) = self.line {
            line.close(self.session.is_over()).await;
        }
        if let Some(telephone) = self.telephone {
            telephone.close(&*self.session).await;
        }
        let counts = self.session.counts();
        tracing::debug!(?counts, "the call is not carried any more");
    }

    /// One thing that happens; whether the call continues.
    async fn turn(&mut self) -> bool {
        let now = self.now();
        self.turns.look(now, &*self.session);
        if self.telephone.as_ref().is_some_and(|telephone| telephone.leaves(now, &*self.session)) {
            return false;
        }
        if let Some(line) = &mut self.line {
            if let Some(reason) = line.leaves(now, &*self.session) {
                let mut output = self.session.line_lost(now);
                output.news.extend(self.session.lost(now, reason).news);
                self.perform(output, None).await;
                return false;
            }
            if line.is_given_up(now, self.session.is_playing()).await {
                let output = self.session.hang_up(now, "the line was closed");
                return self.perform(output, None).await;
            }
        }
        let leaves_at = self.telephone.as_ref().and_then(Telephone::leaves_at);
        let looks_at = self.line.as_ref().and_then(CallerLine::wakes_at);
        let wakes_at =
            [self.session.wakes_at(), self.turns.at(), leaves_at, looks_at].into_iter().flatten().min();
        let began = self.began;
        let wakes = async {
            match wakes_at {
                Some(at) => sleep_until(began + Duration::from_millis(at)).await,
                None => pending().await,
            }
        };
        let mut dropped = None;
        let output = tokio::select! {
            command = self.commands.recv() => match command {
                Some(command) => {
                    let telephone = self.telephone.as_mut();
                    match telephone.is_some_and(|telephone| telephone.takes(&*self.session, &command)) {
                        true => Output::default(),
                        false => self.session.command(now_of(began), &command),
                    }
                }
                // The run is over, or this process has let go of it.
                None => return false,
            },
            told = told(&mut self.telephone, began) => self.told(told),
            wished = wished(&mut self.keypad) => self.wished(wished),
            heard = heard(&mut self.line) => self.heard(heard),
            said = self.said.recv(), if self.is_listening => self.hear(said),
            came = self.link.next(began) => self.came(came),
            () = wakes => {
                let now = now_of(began);
                let output = self.session.tick(now);
                let is_still = output == Output::default();
                match is_still.then(|| self.turns.take(now, &mut *self.session)).flatten() {
                    Some((output, cut)) => {
                        dropped = cut;
                        output
                    }
                    None => output,
                }
            }
        };
        self.perform(output, dropped).await
    }

    fn hear(&mut self, said: Option<Caller>) -> Output {
        let now = self.now();
        match said {
            Some(Caller::Says(text)) => self.session.say(now, &text),
            Some(Caller::Turn(turn)) => {
                self.turns.push(turn);
                Output::default()
            }
            Some(Caller::HangsUp) => self.session.hang_up(now, "hung up"),
            None => {
                self.is_listening = false;
                // What was said last may be that the caller hangs up in the end.
                match self.turns.hangs_up() {
                    true => Output::default(),
                    false => self.session.hang_up(now, "hung up"),
                }
            }
        }
    }

    fn came(&mut self, came: Came) -> Output {
        let now = self.now();
        match came {
            Came::Time => {
                let provider = self.provider.clone();
                let call = self.telephone.as_ref().map(|telephone| telephone.call().to_owned());
                self.link = Link::Opening(tokio::spawn(async move { provider.open(call.as_deref()).await }));
                Output::default()
            }
            Came::Opened(Ok(session)) => {
                self.link = Link::Open(session);
                match &mut self.telephone {
                    Some(telephone) => {
                        let mut output = telephone.found(&mut *self.session);
                        output.frames.extend(self.session.attached(now).frames);
                        output
                    }
                    None => {
                        self.session.connected(now);
                        Output::default()
                    }
                }
            }
            Came::Opened(Err(NoSocket { reason, may_pass, is_gone })) => {
                self.attempts = self.attempts.saturating_add(1);
                if is_gone && let Some(telephone) = &mut self.telephone {
                    let wait = match telephone.not_found(now, &mut *self.session) {
                        Ok(over) => return over,
                        Err(left) => left.min(reconnect_after(self.attempts)),
                    };
                    tracing::debug!(%reason, "the provider does not know the call yet, or any more");
                    self.link = Link::Waiting(now.saturating_add(wait));
                    return Output::default();
                }
                let has_time = self.was_open || self.telephone.is_some();
                if !may_pass || (!has_time && self.attempts >= FIRST_ATTEMPTS) {
                    return self.session.fail(now, &reason);
                }
                tracing::warn!(%reason, attempts = self.attempts, "no session of the live model");
                self.link = Link::Waiting(now.saturating_add(reconnect_after(self.attempts)));
                Output::default()
            }
            Came::Frame(frame) => {
                let output = self.session.frame(now, &frame);
                if self.session.is_open() && self.open_since.is_none() {
                    (self.was_open, self.open_since) = (true, Some(now));
                }
                output
            }
            Came::Lost(reason) => self.lost(&reason),
        }
    }

    /// The session is lost. A provider that opened none in so many attempts will not.
    fn lost(&mut self, reason: &str) -> Output {
        let now = self.now();
        let has_time = self.was_open || self.telephone.is_some();
        match !has_time && self.attempts.saturating_add(1) >= FIRST_ATTEMPTS {
            true => self.session.fail(now, &format!("the live model opens no session: {reason}")),
            false => self.session.lost(now, reason),
        }
    }

    /// What follows from what the provider says of the call, or the process.
    fn told(&mut self, told: Told) -> Output {
        let now = self.now();
        let Some(telephone) = &mut self.telephone else { return Output::default() };
        let Follows { output, attaches } = telephone.told(now, told, &mut *self.session);
        if attaches {
            self.link = Link::Waiting(now);
        }
        output
    }

    /// What follows from what the run wishes to send to the caller's line.
    fn wished(&mut self, wished: Wished) -> Output {
        match wished {
            Wished::Send(operation, keys) => self.session.send_keys(operation, &keys).unwrap_or_else(|why| {
                if let Some(keypad) = &mut self.keypad {
                    keypad.refuse(why);
                }
                Output::default()
            }),
            Wished::Stop => {
                self.session.stop_keys();
                Output::default()
            }
        }
    }

    /// What follows from what comes over the caller's line.
    fn heard(&mut self, heard: Heard) -> Output {
        let now = self.now();
        let Some(line) = &mut self.line else { return Output::default() };
        match heard {
            Heard::Frame(frame) => return self.session.line(now, &frame),
            Heard::Lost(reason) => {
                tracing::info!(%reason, "the caller's line is lost");
                line.lost(now);
                return self.session.line_lost(now);
            }
            Heard::Opened(socket, stream) => {
                let mut output = match line.opened(*socket) {
                    true => self.session.line_lost(now),
                    false => Output::default(),
                };
                let opened = self.session.line_opened(now, stream);
                output.frames.extend(opened.frames);
                output.news.extend(opened.news);
                output.line.extend(opened.line);
                return output;
            }
            Heard::Dialled => return self.session.hang_up(now, "connected with someone else"),
            Heard::LetGo => line.lets_go(now),
            Heard::Transfer => line.transfer(now),
        }
        Output::default()
    }

    /// Does what follows; whether the call continues.
    async fn perform(&mut self, output: Output, dropped: Option<Dropped>) -> bool {
        let mut output = output;
        loop {
            if let Some((keypad, end)) = self.keypad.as_mut().zip(output.keys.take()) {
                keypad.ended(end);
            }
            // The caller hears it, or hears no more, before anything is written down.
            if let Some(line) = &mut self.line
                && !output.line.is_empty()
                && let Err(reason) = line.send(std::mem::take(&mut output.line)).await
            {
                let lost = self.heard(Heard::Lost(reason));
                output.news.extend(lost.news);
                output.frames.extend(lost.frames);
            }
            if output.close
                && let Link::Open(session) = &self.link
            {
                output.news.splice(0..0, session.taken());
            }
            for news in output.news {
                // A run that takes nothing for so long does not hear the call.
                match timeout(STALLED, self.news.send(news)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return false,
                }
            }
            if self.session.is_over() {
                return false;
            }
            if output.close {
                let opens_none = !self.was_open && self.telephone.is_none() && dropped.is_none();
                if opens_none && self.attempts.saturating_add(1) >= FIRST_ATTEMPTS {
                    output = self.session.fail(self.now(), "the live model opens no session");
                    continue;
                }
                self.reconnect(dropped).await;
                return true;
            }
            let Link::Open(session) = &mut self.link else { return true };
            if output.frames.is_empty() {
                return true;
            }
            match session.send(output.frames).await {
                Ok(()) => return true,
                Err(reason) => output = self.lost(&reason),
            }
        }
    }

    /// The socket is lost: the next attempt is made after a while.
    async fn reconnect(&mut self, dropped: Option<Dropped>) {
        let now = self.now();
        if self.open_since.take().is_some_and(|since| now.saturating_sub(since) >= STEADY_MS) {
            self.attempts = 0;
        }
        let wait = match dropped {
            Some(Dropped(lasts)) => u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            None => reconnect_after(self.attempts),
        };
        self.attempts = self.attempts.saturating_add(1);
        let before = std::mem::replace(&mut self.link, Link::Waiting(now.saturating_add(wait)));
        if let Link::Open(session) = before {
            session.close().await;
        }
    }
}

/// What comes over the caller's line.
async fn heard(line: &mut Option<CallerLine>) -> Heard {
    match line {
        Some(line) => line.next().await,
        None => pending().await,
    }
}

/// What is to be sent to the caller's line.
async fn wished(keypad: &mut Option<Keypad>) -> Wished {
    match keypad {
        Some(keypad) => keypad.next().await,
        None => pending().await,
    }
}

/// What is told of the call of a telephone.
async fn told(telephone: &mut Option<Telephone>, began: Instant) -> Told {
    match telephone {
        Some(telephone) => telephone.next(began).await,
        None => pending().await,
    }
}

fn now_of(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
