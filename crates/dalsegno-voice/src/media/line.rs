//! The line of a caller at a carrier, as the process that carries the call has it.

use std::future::pending;
use std::time::Duration;

use dalsegno_realtime::{LineFrame, ModelSession};
use dalsegno_runtime::Stay;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Entered, Wish};
use crate::socket::Socket;
use crate::telephone::LETS_GO_MS;

/// How long the carrier may take to say of which call the sound is.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// How long a line may be silent before it is lost: sound comes fifty times a second, also where no one speaks.
const SILENT: Duration = Duration::from_secs(5);

/// How long a call stays here whose line is lost, in milliseconds: the carrier mostly opens another one at once.
const AWAY_MS: u64 = 1_500;

/// How long the last words may take before a transfer, in milliseconds.
const LAST_WORDS_MS: u64 = 5_000;

/// How long the carrier may take to ask what to do with a call whose line was closed, in milliseconds: within the time in which the end
/// of a call makes it a transferred one.
const ASKS_MS: u64 = 12_000;

/// How long the end of a call may take to be written down.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// The line of a caller.
pub(crate) struct CallerLine {
    /// None once it was lost, or closed here.
    socket: Option<Socket>,
    /// When the carrier sent something last.
    heard_at: Instant,
    stay: watch::Receiver<Stay>,
    entered: Entered,
    /// When the process lets go of the call, at any moment.
    lets_go_at: Option<u64>,
    transfer: Option<Transfer>,
    /// Until when the carrier may open another line that replaces the lost one.
    away_until: Option<u64>,
}

/// How far a transfer has come.
#[derive(Debug, Clone, Copy)]
enum Transfer {
    /// The last words are played, at most until then.
    LastWords(u64),
    /// The line is closed, and the carrier may ask what to do with the call until then.
    Asks(u64),
}

/// What comes of the line.
pub(crate) enum Heard {
    Frame(String),
    Lost(String),
    /// The carrier has opened another one, with this name of its stream.
    Opened(Box<Socket>, String),
    /// The process is to let go of the call.
    LetGo,
    /// The call is to be transferred.
    Transfer,
    /// The carrier was told whom to dial.
    Dialled,
}

/// Waits until the carrier says of which call the sound is; the name of the stream.
///
/// # Errors
/// In words, when it is none of this call, or no sound of telephones.
pub(super) async fn begin(socket: &mut Socket, call: &str) -> Result<String, String> {
    let begun = async {
        loop {
            match LineFrame::read(&socket.next().await?) {
                Some(LineFrame::Start { stream, call: of, is_telephone }) => {
                    return match (of == call, is_telephone) {
                        (true, true) => Ok(stream),
                        (false, _) => Err("the carrier sends the sound of another call".to_owned()),
                        (true, false) => {
                            Err("the carrier sends no µ-law with 8,000 samples a second".to_owned())
                        }
                    };
                }
                Some(LineFrame::Connected | LineFrame::Other) | None => {}
                Some(_) => return Err("the carrier does not say of which call the sound is".to_owned()),
            }
        }
    };
    timeout(BEGINS_WITHIN, begun).await.unwrap_or_else(|_| Err("the carrier sends nothing".to_owned()))
}

impl CallerLine {
    pub(super) fn new(socket: Socket, stay: watch::Receiver<Stay>, entered: Entered) -> Self {
        Self {
            socket: Some(socket),
            heard_at: Instant::now(),
            stay,
            entered,
            lets_go_at: None,
            transfer: None,
            away_until: None,
        }
    }

    /// The next thing that comes of it. It may be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Heard {
        let is_told = self.lets_go_at.is_some();
        let (socket, heard_at) = (&mut self.socket, &mut self.heard_at);
        let (stay, wishes) = (&mut self.stay, &mut self.entered.wishes);
        let frame = async {
            let Some(socket) = socket else { return pending().await };
            match timeout_at(*heard_at + SILENT, socket.next()).await {
                Ok(Ok(frame)) => {
                    *heard_at = Instant::now();
                    Heard::Frame(frame)
                }
                Ok(Err(reason)) => Heard::Lost(reason),
                Err(_) => Heard::Lost("the carrier sends nothing".to_owned()),
            }
        };
        let leaves = async {
            if stay.wait_for(|stay| *stay == Stay::LetGo).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            heard = frame => heard,
            () = leaves, if !is_told => Heard::LetGo,
            wish = wishes.recv() => match wish {
                Some(Wish::Transfer) => Heard::Transfer,
                Some(Wish::IsDialled) => Heard::Dialled,
                Some(Wish::Line(socket, stream)) => Heard::Opened(socket, stream),
                None => pending().await,
            },
        }
    }

    /// The line is lost: the carrier may open another one.
    pub(crate) fn lost(&mut self, now: u64) {
        self.socket = None;
        self.away_until = Some(now.saturating_add(AWAY_MS));
    }

    /// There is another one; says whether it takes the place of one that was not known to be lost.
    pub(crate) fn opened(&mut self, socket: Socket) -> bool {
        self.heard_at = Instant::now();
        self.away_until = None;
        self.socket.replace(socket).is_some()
    }

    /// The process is to let go of the call.
    pub(crate) fn lets_go(&mut self, now: u64) {
        self.lets_go_at = Some(now.saturating_add(LETS_GO_MS));
    }

    /// The call is to be transferred.
    pub(crate) fn transfer(&mut self, now: u64) {
        self.transfer = Some(Transfer::LastWords(now.saturating_add(LAST_WORDS_MS)));
    }

    /// When it is to be looked at again.
    pub(crate) fn wakes_at(&self) -> Option<u64> {
        let of_line = match self.transfer {
            None => self.away_until,
            Some(Transfer::LastWords(at) | Transfer::Asks(at)) => Some(at),
        };
        [self.lets_go_at, of_line].into_iter().flatten().min()
    }

    /// Why this process is to let go of the call now, if it is: its line is lost, or the process stops.
    pub(crate) fn leaves(&self, now: u64, session: &dyn ModelSession) -> Option<&'static str> {
        if self.transfer.is_none() && self.away_until.is_some_and(|at| at <= now) {
            return Some("the caller's line was lost");
        }
        let is_time = |at: u64| at <= now || session.is_between();
        self.lets_go_at.is_some_and(is_time).then_some("the process stops")
    }

    /// Closes the line for a transfer once the last words were heard; says whether the carrier has not asked what to do with the call for
    /// so long that it has none any more.
    pub(crate) async fn is_given_up(&mut self, now: u64, is_playing: bool) -> bool {
        let is_over = match self.transfer {
            None => return false,
            Some(Transfer::LastWords(at)) => {
                if is_playing && now < at && self.socket.is_some() {
                    return false;
                }
                self.transfer = Some(Transfer::Asks(now.saturating_add(ASKS_MS)));
                false
            }
            Some(Transfer::Asks(at)) => at <= now,
        };
        // The carrier may have opened another one, having asked before the transfer was written down.
        if let Some(socket) = self.socket.take() {
            socket.close().await;
        }
        is_over
    }

    /// Sends frames to the carrier; what the caller is not to hear any more is dropped.
    pub(crate) async fn send(&mut self, frames: Vec<String>) -> Result<(), String> {
        match &mut self.socket {
            Some(socket) => socket.send(frames).await,
            None => Ok(()),
        }
    }

    /// The call is not carried any more. If its run has ended, the carrier finds that written down when it asks what to do next.
    pub(crate) async fn close(mut self, is_over: bool) {
        if is_over {
            // A run whose end cannot be written down is resumed by another process.
            let _ = timeout(WRITTEN_WITHIN, self.stay.wait_for(|stay| *stay == Stay::Over)).await;
        }
        if let Some(socket) = self.socket {
            socket.close().await;
        }
    }
}
