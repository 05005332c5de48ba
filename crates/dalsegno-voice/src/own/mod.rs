//! A call without a line: the agent's own model plays the live model.

mod call;
mod past;
mod player;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentConfig, LiveTokens, Mind, ModelReply, ModelSettings};
use dalsegno_runtime::{Engine, RunEvent, SpokenRequest};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub use self::call::WORD;
use self::player::{Player, Question, Wish};

/// Most tokens of a reply whose settings name no bound: words of a quarter of an hour.
const OUTPUT_TOKENS: u32 = 4_096;

/// How many pieces of a reply may wait. Whoever falls behind misses some, and has the whole in the end.
const PIECES: usize = 1_024;

/// The model of an agent, which speaks in one call.
pub(crate) struct OwnModel {
    engine: Engine,
    tenant: String,
    config: Arc<AgentConfig>,
    settings: ModelSettings,
    /// How long a word takes, in milliseconds.
    word_ms: u64,
    /// Where its words go as they are spoken. Whoever listens takes them at once, or has gone.
    spoken: mpsc::UnboundedSender<String>,
}

impl OwnModel {
    /// The model of this configuration; none where the agent has none.
    pub(crate) fn of(
        engine: &Engine,
        tenant: &str,
        config: &Arc<AgentConfig>,
        word: Duration,
        spoken: mpsc::UnboundedSender<String>,
    ) -> Option<Self> {
        let Mind::Model(mind) = &config.mind else { return None };
        let mut settings = mind.model.clone();
        settings.max_output_tokens.get_or_insert(OUTPUT_TOKENS);
        let word_ms = u64::try_from(word.as_millis()).unwrap_or(u64::MAX);
        let (tenant, config) = (tenant.to_owned(), Arc::clone(config));
        Some(Self { engine: engine.clone(), tenant, config, settings, word_ms, spoken })
    }

    /// Asks it.
    fn ask(&self, question: Question) -> Asking {
        let (words, hears) = broadcast::channel(PIECES);
        let asked = SpokenRequest {
            tenant: self.tenant.clone(),
            settings: self.settings.clone(),
            toolbox: self.config.tools.clone(),
            transcript: question.transcript,
            tools: question.tools,
            words,
        };
        let engine = self.engine.clone();
        let name = self.settings.name.clone();
        let reply = tokio::spawn(async move {
            let reply = Box::pin(engine.ask_to_speak(asked)).await;
            reply.map_err(|failure| format!("the model `{name}`: {}", failure.message))
        });
        Asking { reply, words: Some(hears) }
    }
}

/// What the model was asked, and what comes of it.
struct Asking {
    reply: JoinHandle<Result<ModelReply, String>>,
    /// The words that arrive; none once the last of them has.
    words: Option<broadcast::Receiver<RunEvent>>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.reply.abort();
    }
}

impl Asking {
    /// The next words, or the reply. It may be dropped and asked again.
    async fn next(&mut self) -> Came {
        let words = async {
            let Some(words) = &mut self.words else { return pending().await };
            loop {
                match words.recv().await {
                    Ok(RunEvent::Delta { attempt, text, .. }) => return Some((attempt, text)),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        tokio::select! {
            biased;
            heard = words => match heard {
                Some((attempt, text)) => Came::Words(attempt, text),
                None => {
                    self.words = None;
                    Came::Nothing
                }
            },
            reply = &mut self.reply => Came::Reply(match reply {
                Ok(reply) => reply,
                Err(error) => Err(error.to_string()),
            }),
        }
    }
}

enum Came {
    Words(u32, String),
    Reply(Result<ModelReply, String>),
    Nothing,
}

/// A session of a model that plays the live model: what a socket is to a provider.
pub(crate) struct OwnSession {
    began: Instant,
    model: Arc<OwnModel>,
    player: Player,
    asking: Option<Asking>,
}

impl OwnSession {
    pub(crate) fn open(model: &Arc<OwnModel>) -> Self {
        let tag = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        let player = Player::new(tag, model.word_ms);
        Self { began: Instant::now(), model: Arc::clone(model), player, asking: None }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The next frame of the session. It may be dropped and asked again.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            for word in self.player.take_spoken() {
                // Nobody has to listen.
                let _ = self.model.spoken.send(word);
            }
            if let Some(frame) = self.player.next_frame() {
                return frame;
            }
            let (began, wakes_at) = (self.began, self.player.wakes_at());
            let wakes = async {
                match wakes_at {
                    Some(at) => sleep_until(began + Duration::from_millis(at)).await,
                    None => pending().await,
                }
            };
            let comes = async {
                match &mut self.asking {
                    Some(asking) => asking.next().await,
                    None => pending().await,
                }
            };
            let came = tokio::select! {
                () = wakes => None,
                came = comes => Some(came),
            };
            let now = self.now();
            match came {
                None => self.player.tick(now),
                Some(Came::Words(attempt, text)) => self.player.hear(now, attempt, &text),
                Some(Came::Reply(reply)) => {
                    self.asking = None;
                    self.player.replied(now, reply);
                }
                Some(Came::Nothing) => {}
            }
        }
    }

    /// Takes frames.
    pub(crate) fn send(&mut self, frames: &[String]) {
        for frame in frames {
            match self.player.take(self.now(), frame) {
                Some(Wish::Ask(question)) => self.asking = Some(self.model.ask(*question)),
                Some(Wish::Drop) => self.asking = None,
                None => {}
            }
        }
    }

    /// What the response that is under way has taken: its id and its tokens.
    pub(crate) fn taken(&self) -> Option<(String, LiveTokens)> {
        self.player.taken()
    }
}
