//! Callers who speak by themselves, all at the same pace.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{LiveAnswer, LiveModel};

/// What each caller does.
#[derive(Debug, Clone)]
pub struct LiveCaller {
    /// What it says in each turn.
    pub says: String,
    /// How long it speaks.
    pub lasts: Duration,
    /// How long the live model then thinks.
    pub thinks: Duration,
    /// The responses of the live model to that; the last one calls no tool.
    pub answers: Vec<LiveAnswer>,
    /// From the beginning of a turn to that of the next one, which waits until the turn was answered.
    pub every: Duration,
    /// How long it waits at most.
    pub patience: Duration,
    /// How many turns there are, since the beginning of the call.
    pub turns: u32,
}

/// What all callers share.
#[derive(Debug, Default)]
pub(super) struct Callers {
    does: watch::Sender<Option<LiveCaller>>,
    count: AtomicU32,
}

impl Callers {
    /// The caller of the next session.
    pub(super) fn next(&self) -> Caller {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        Caller { does: self.does.subscribe(), number, turns: 0, stage: Stage::Turn(None) }
    }
}

/// What happens in a turn.
pub(super) enum Does {
    /// The caller begins to speak.
    Begins,
    /// It has said this.
    Ends(String),
    /// The live model answers with these responses.
    Hears(Vec<LiveAnswer>),
}

/// What is waited for, with the time of the next turn.
#[derive(Clone, Copy)]
enum Stage {
    /// The next turn.
    Turn(Option<Instant>),
    /// The caller speaks until then.
    Speaks(Instant, Instant),
    /// The live model thinks until then.
    Thinks(Instant, Instant),
    /// The live model answers, or the caller waits no longer.
    Hears(Instant, Instant),
}

/// The caller of a session.
pub(super) struct Caller {
    does: watch::Receiver<Option<LiveCaller>>,
    number: u32,
    turns: u32,
    stage: Stage,
}

impl Caller {
    /// What happens next, once it does. It may be dropped and asked again.
    pub(super) async fn next(&mut self) -> Does {
        loop {
            let does = self.does.borrow_and_update().clone();
            match (does, self.stage) {
                (Some(does), Stage::Turn(due)) if self.turns < does.turns => {
                    // The callers are spread over the time of a turn, so that they do not all speak at once.
                    let part = (f64::from(self.number) * 0.618).fract();
                    let due = due.unwrap_or_else(|| Instant::now() + does.every.mul_f64(part));
                    self.stage = Stage::Turn(Some(due));
                    sleep_until(due).await;
                    self.turns += 1;
                    self.stage = Stage::Speaks(Instant::now() + does.lasts, due + does.every);
                    return Does::Begins;
                }
                (Some(does), Stage::Speaks(end, next)) => {
                    sleep_until(end).await;
                    self.stage = Stage::Thinks(Instant::now() + does.thinks, next);
                    return Does::Ends(does.says);
                }
                (Some(does), Stage::Thinks(end, next)) => {
                    sleep_until(end).await;
                    self.stage = Stage::Hears(Instant::now() + does.patience, next);
                    return Does::Hears(does.answers);
                }
                (Some(_), Stage::Hears(end, next)) => {
                    sleep_until(end).await;
                    self.stage = Stage::Turn(Some(next.max(end)));
                }
                _ if self.does.changed().await.is_err() => return std::future::pending().await,
                _ => {}
            }
        }
    }

    /// The live model has answered.
    pub(super) fn is_answered(&mut self) {
        if let Stage::Hears(_, next) = self.stage {
            self.stage = Stage::Turn(Some(next));
        }
    }
}

impl LiveModel {
    /// From now on each caller does this, in every session that there is and begins.
    pub fn callers(&self, does: LiveCaller) {
        self.shared.callers.does.send_replace(Some(does));
    }
}
