//! What a call of a telephone needs besides its socket: it is answered, found again, let go of, and hung up.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{CommandKind, LiveCommand};
use dalsegno_realtime::{ModelSession, Output, reconnect_after};
use dalsegno_runtime::Stay;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::control::{Control, NoControl};
use crate::socket::Endpoint;

/// How long the provider may know nothing of a call before it is over, in milliseconds: right after it was answered its session may
/// not be there yet.
const GONE_MS: u64 = 5_000;

/// How long the process waits for a moment at which it can let go of a call, in milliseconds.
pub(crate) const LETS_GO_MS: u64 = 3_000;

/// How often a call is hung up before it is left to the provider.
const HANG_UPS: u32 = 3;

/// How long after it the provider may take an answer that was given up, in milliseconds.
const ANSWERED_LATE_MS: u64 = 1_000;

/// A call of a telephone.
pub(crate) struct Telephone {
    call: String,
    endpoint: Arc<Endpoint>,
    stay: watch::Receiver<Stay>,
    asking: Asking,
    /// The command to answer, where it is not known whether the call was answered: the process before this one may have answered it.
    unsure: Option<(LiveCommand, NoControl)>,
    /// Since when the provider knows nothing of the call.
    gone_since: Option<u64>,
    /// When the process lets go of the call, at any moment.
    lets_go_at: Option<u64>,
    /// The provider has no such call any more.
    is_gone: bool,
    /// An answer to the call was given up whose outcome is not known: the provider may still take it.
    may_be_answered: bool,
}

/// What is asked of the provider about the call.
enum Asking {
    Nothing,
    /// At this time of the call.
    Later(u64, LiveCommand, u32),
    Now(JoinHandle<Result<(), NoControl>>, LiveCommand, u32),
}

/// What is told of the call, besides what its session says.
pub(crate) enum Told {
    /// It is time to ask the provider.
    Due,
    /// What came of asking.
    Answer(Result<(), NoControl>),
    /// The process is to let go of the call.
    LetGo,
}

/// What follows for the carrier.
#[derive(Default)]
pub(crate) struct Follows {
    pub(crate) output: Output,
    /// The socket to the session is opened.
    pub(crate) attaches: bool,
}

impl From<Output> for Follows {
    fn from(output: Output) -> Self {
        Self { output, attaches: false }
    }
}

impl Telephone {
    pub(crate) fn new(call: String, endpoint: Arc<Endpoint>, stay: watch::Receiver<Stay>) -> Self {
        Self {
            call,
            endpoint,
            stay,
            asking: Asking::Nothing,
            unsure: None,
            gone_since: None,
            lets_go_at: None,
            is_gone: false,
            may_be_answered: false,
        }
    }

    pub(crate) fn call(&self) -> &str {
        &self.call
    }

    /// The next thing that is told. It may be dropped and asked again.
    pub(crate) async fn next(&mut self, began: Instant) -> Told {
        let (asking, stay, is_told) = (&mut self.asking, &mut self.stay, self.lets_go_at.is_some());
        let asked = async {
            match asking {
                Asking::Nothing => pending().await,
                Asking::Later(at, ..) => {
                    sleep_until(began + Duration::from_millis(*at)).await;
                    Told::Due
                }
                Asking::Now(task, ..) => Told::Answer(
                    task.await.unwrap_or_else(|error| Err(NoControl::Unknown(error.to_string()))),
                ),
            }
        };
        let wish = async {
            if stay.wait_for(|stay| *stay == Stay::LetGo).await.is_err() {
                // The run has let go of the call, which its other channels say.
                pending::<()>().await;
            }
        };
        tokio::select! {
            told = asked => told,
            () = wish, if !is_told => Told::LetGo,
        }
    }

    /// Says whether a command is one that the provider is asked for, and not its session; asks for it then.
    pub(crate) fn takes(&mut self, session: &dyn ModelSession, command: &LiveCommand) -> bool {
        if !matches!(command.kind, CommandKind::Answer { .. } | CommandKind::Close { .. }) {
            return false;
        }
        let is_asked = match &self.asking {
            Asking::Nothing => false,
            Asking::Later(_, asked, _) | Asking::Now(_, asked, _) => asked.id == command.id,
        };
        let is_answered = self.unsure.as_ref().is_some_and(|(unsure, _)| unsure.id == command.id);
        if !is_asked && !is_answered {
            self.ask(session, command.clone(), 0);
        }
        true
    }

    fn ask(&mut self, session: &dyn ModelSession, command: LiveCommand, attempt: u32) {
        let control = match &command.kind {
            CommandKind::Answer { instructions } => {
                Control::Accept(session.acceptance(self.endpoint.model(), instructions))
            }
            _ => Control::HangUp,
        };
        let (endpoint, call) = (Arc::clone(&self.endpoint), self.call.clone());
        let task = tokio::spawn(async move { endpoint.control(&call, &control).await });
        if let Asking::Now(before, given_up, _) =
            std::mem::replace(&mut self.asking, Asking::Now(task, command, attempt))
        {
            self.may_be_answered |= matches!(given_up.kind, CommandKind::Answer { .. });
            before.abort();
        }
    }

    /// What follows from what is told.
    pub(crate) fn told(&mut self, now: u64, told: Told, session: &mut dyn ModelSession) -> Follows {
        if matches!(told, Told::LetGo) {
            self.lets_go_at.get_or_insert(now.saturating_add(LETS_GO_MS));
            return Follows::default();
        }
        let nothing = Follows::default;
        let (command, attempt) = match std::mem::replace(&mut self.asking, Asking::Nothing) {
            Asking::Nothing => return nothing(),
            Asking::Later(_, command, attempt) | Asking::Now(_, command, attempt) => (command, attempt),
        };
        let Told::Answer(answer) = told else {
            self.ask(session, command, attempt);
            return nothing();
        };
        let is_answer = matches!(command.kind, CommandKind::Answer { .. });
        match answer {
            Ok(()) if is_answer => {
                tracing::debug!(call = self.call, "the call is answered");
                self.unsure = None;
                Follows { output: session.answered(&command), attaches: true }
            }
            Err(NoControl::Gone(_)) if self.may_be_answered && attempt + 1 < HANG_UPS => {
                // It is answered after that, perhaps.
                let at = now.saturating_add(ANSWERED_LATE_MS);
                self.asking = Asking::Later(at, command, attempt + 1);
                nothing()
            }
            Ok(()) | Err(NoControl::Gone(_)) if !is_answer => {
                self.is_gone = true;
                session.command(now, &command).into()
            }
            Err(NoControl::Passing(reason) | NoControl::Unknown(reason))
                if is_answer || attempt + 1 < HANG_UPS =>
            {
                tracing::warn!(call = self.call, %reason, attempt, "the provider did not do what it was asked about a call");
                let at = now.saturating_add(reconnect_after(attempt + 1));
                self.asking = Asking::Later(at, command, attempt + 1);
                nothing()
            }
            Err(NoControl::Key(reason)) if is_answer => session.fail(now, &reason).into(),
            Err(refused) if is_answer => {
                // The process before this one may have answered it: its session shows that.
                self.unsure = Some((command, refused));
                Follows { output: Output::default(), attaches: true }
            }
            Err(refused) => {
                tracing::error!(call = self.call, reason = refused.reason(), "the call cannot be hung up");
                session.command(now, &command).into()
            }
            Ok(()) => nothing(),
        }
    }

    /// The session of the call is there.
    pub(crate) fn found(&mut self, session: &mut dyn ModelSession) -> Output {
        self.gone_since = None;
        self.unsure.take().map(|(command, _)| session.answered(&command)).unwrap_or_default()
    }

    /// The provider knows nothing of the call: what follows, or for how long to wait at most.
    pub(crate) fn not_found(&mut self, now: u64, session: &mut dyn ModelSession) -> Result<Output, u64> {
        let since = *self.gone_since.get_or_insert(now);
        let left = since.saturating_add(GONE_MS).saturating_sub(now);
        if left > 0 {
            return Err(left);
        }
        self.is_gone = true;
        Ok(match &self.unsure {
            Some((_, NoControl::Gone(_))) => session.hang_up(now, "hung up before the call was answered"),
            Some((_, refused)) => session.fail(now, refused.reason()),
            None => session.hang_up(now, "hung up"),
        })
    }

    /// When the process lets go of the call at the latest.
    pub(crate) fn leaves_at(&self) -> Option<u64> {
        self.lets_go_at
    }

    /// Says whether it is a moment to let go of the call.
    pub(crate) fn leaves(&self, now: u64, session: &dyn ModelSession) -> bool {
        let is_idle = matches!(self.asking, Asking::Nothing | Asking::Later(..));
        self.lets_go_at.is_some_and(|at| at <= now || (is_idle && session.is_between()))
    }

    /// The call is not carried any more. If its run has ended, it ends at the provider as well.
    pub(crate) async fn close(self, session: &dyn ModelSession) {
        let mut may_be_answered = self.may_be_answered;
        if let Asking::Now(_, asked, _) | Asking::Later(_, asked, _) = &self.asking {
            may_be_answered |= matches!(asked.kind, CommandKind::Answer { .. });
        }
        if let Asking::Now(task, ..) = self.asking {
            task.abort();
        }
        let is_over = session.is_over() || *self.stay.borrow() == Stay::Over;
        if !is_over || self.is_gone || session.has_closed() {
            return;
        }
        for attempt in 0..HANG_UPS {
            tokio::time::sleep(Duration::from_millis(reconnect_after(attempt))).await;
            match self.endpoint.control(&self.call, &Control::HangUp).await {
                Err(NoControl::Passing(_) | NoControl::Unknown(_)) => {}
                // It is answered after that, perhaps.
                Err(NoControl::Gone(_)) if may_be_answered && attempt + 1 < HANG_UPS => {
                    tokio::time::sleep(Duration::from_millis(ANSWERED_LATE_MS)).await;
                }
                Ok(()) | Err(NoControl::Gone(_)) => return,
                Err(NoControl::Key(reason) | NoControl::Refused(reason)) => {
                    tracing::error!(call = self.call, %reason, "the call cannot be hung up");
                    return;
                }
            }
        }
    }
}
