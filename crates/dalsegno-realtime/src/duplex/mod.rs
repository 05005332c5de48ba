//! A session whose live model hears while it speaks: it decides itself when to speak, and leaves work to another model of its provider.
//!
//! What the call knows as responses are those of the other model: they ask for tools, and results go to them. What the live model and the
//! caller say comes in fragments, which become whole when the other one speaks, at a delegation, or after a silence.

mod commands;
mod keys;
mod sent;
mod taken;
mod work;

use alloc::borrow::ToOwned as _;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_core::{CommandKind, EndedBy, LiveCommand, LiveNews, OperationId, TEXT_BYTES_MAX};

use crate::dialogue::Item;
use crate::port::ModelSession;
use crate::session::{Counts, NoKeys, Output, Settings};
use crate::taken::Error;
use keys::Keys;
use taken::{Closed, Taken};

/// How long the provider may take to answer on a new socket, in milliseconds.
const OPEN_MS: u64 = 10_000;

/// How long no frame may come before the provider is asked whether it is there, in milliseconds.
const SILENCE_MS: u64 = 60_000;

/// How long it may take to say so, in milliseconds.
const PROBE_MS: u64 = 10_000;

/// How much longer a session has to last before that is told again, in milliseconds.
const LASTED_MS: u64 = 10_000;

/// The silence after which what was said is whole, in milliseconds.
const WHOLE_MS: u64 = 800;

/// How many frames are kept that come before the session has answered on a new socket.
const EARLY_MAX: usize = 256;

/// How many calls, responses and commands are remembered.
const KNOWN_MAX: usize = 256;

/// Who does the work that the live model leaves to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// Another model of the provider, with the agent's tools.
    Hosted {
        /// The provider's name for it.
        model: String,
    },
    /// An agent, as a tool that the live model asks for.
    Agent {
        /// The tool's name, as models see it.
        tool: String,
    },
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no socket.
    Away,
    /// There is a socket, and the session has not answered yet.
    Opening(u64),
    Open,
    /// The call is over.
    Over,
}

/// What a change of the session shows that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Check {
    /// The session is there.
    There,
    /// It has what was sent before.
    Has(OperationId),
    /// The provider is there.
    Probe,
}

/// What one of them says, until it is whole.
#[derive(Debug, Clone, Default)]
struct Words {
    text: String,
    /// When the last part came.
    at: u64,
}

/// A session of a live model that hears while it speaks, across the sockets that it needs. Times are as for
/// [`LiveSession`](crate::LiveSession).
#[derive(Debug, Clone)]
pub struct DuplexSession {
    settings: Settings,
    backend: Backend,
    /// The provider says which response was asked for by what.
    names: bool,
    /// A wish for a response, until none is under way.
    held: Option<LiveCommand>,
    /// When it may be sent again, since the provider said that one is under way which is not known here.
    retry_at: Option<u64>,
    /// What the live model was told to say while a response was under way.
    told: Vec<OperationId>,
    /// Outputs that were too large, and for which a short one was sent.
    shortened: VecDeque<OperationId>,
    /// An agent's live model was told something silently that it has not said.
    untold: bool,
    stage: Stage,
    /// Commands that came before the session was open.
    waiting: VecDeque<LiveCommand>,
    /// Commands that were sent and are not acknowledged.
    sent: Vec<LiveCommand>,
    acknowledged: VecDeque<OperationId>,
    checks: VecDeque<(String, Check)>,
    /// The responses that are under way, each with the delegation that it belongs to; the latest last.
    streams: Vec<(Option<String>, String)>,
    ended: VecDeque<String>,
    /// The command by which a response was asked for that has not begun.
    asked: Option<OperationId>,
    calls: VecDeque<String>,
    caller: Words,
    agent: Words,
    early: VecDeque<String>,
    own: u64,
    heard_at: u64,
    probed: Option<u64>,
    has_closed: bool,
    /// The keys that are being sent to the caller's line.
    keys: Option<Keys>,
    counts: Counts,
}

impl DuplexSession {
    /// A session without a socket, in which this one does the work.
    pub fn new(settings: Settings, backend: Backend) -> Self {
        Self {
            settings,
            backend,
            names: false,
            held: None,
            retry_at: None,
            told: Vec::new(),
            shortened: VecDeque::new(),
            untold: false,
            stage: Stage::Away,
            waiting: VecDeque::new(),
            sent: Vec::new(),
            acknowledged: VecDeque::new(),
            checks: VecDeque::new(),
            streams: Vec::new(),
            ended: VecDeque::new(),
            asked: None,
            calls: VecDeque::new(),
            caller: Words::default(),
            agent: Words::default(),
            early: VecDeque::new(),
            own: 0,
            heard_at: 0,
            probed: None,
            has_closed: false,
            keys: None,
            counts: Counts::default(),
        }
    }

    fn end(&mut self, by: EndedBy, reason: &str) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Over {
            return output;
        }
        self.break_off(&mut output);
        self.stage = Stage::Over;
        self.waiting.clear();
        output.news.push(LiveNews::Ended { by, reason: reason.to_owned() });
        output.close = true;
        output
    }

    /// The socket is lost, or the call is over: what was said until now is told, and what is under way continues unseen.
    fn break_off(&mut self, output: &mut Output) {
        self.tell_caller(output);
        self.tell_agent(output);
        self.break_off_keys(output);
        self.sent.clear();
        self.checks.clear();
        self.streams.clear();
        self.asked = None;
        self.held = None;
        self.retry_at = None;
        self.told.clear();
        self.early.clear();
        self.probed = None;
    }

    fn check(&mut self, check: Check, output: &mut Output) {
        self.own += 1;
        let id = alloc::format!("check{}", self.own);
        output.frames.push(sent::check(&id, matches!(self.backend, Backend::Agent { .. })));
        self.checks.push_back((id, check));
    }

    /// The session takes commands from here on.
    fn open(&mut self, now: u64, output: &mut Output) {
        self.stage = Stage::Open;
        let has_begun = core::mem::replace(&mut self.settings.has_begun, true);
        output.news.push(if has_begun { LiveNews::Attached } else { LiveNews::Connected });
        let waiting = core::mem::take(&mut self.waiting);
        // The core sends again what was not taken.
        for command in waiting.iter().filter(|_| !has_begun) {
            self.transmit(command, output);
        }
        while let Some(frame) = self.early.pop_front() {
            let early = self.frame(now, &frame);
            output.news.extend(early.news);
            output.frames.extend(early.frames);
            output.close |= early.close;
        }
    }

    fn take(&mut self, now: u64, taken: Taken, output: &mut Output) {
        match taken {
            Taken::Heard(part) => {
                self.tell_agent(output);
                if self.caller.text.trim().is_empty() && !part.trim().is_empty() {
                    output.news.push(LiveNews::SpeechStarted);
                }
                self.caller.add(now, &part);
            }
            Taken::Said(part) => {
                self.tell_caller(output);
                self.agent.add(now, &part);
            }
            Taken::Delegated { delegation, is_ours } => {
                self.tell_caller(output);
                if is_ours {
                    self.delegated(&delegation, output);
                }
            }
            Taken::Digits(digits) => {
                output.news.extend(digits.chars().take(64).map(|digit| LiveNews::Digit { digit }));
            }
            Taken::KeySent { about } => self.key_sent(about.as_deref(), output),
            Taken::Response { about, delegation, event } => {
                self.response(about.as_deref(), delegation, event, output);
            }
            Taken::Lasted(millis) => self.lasted(millis, LASTED_MS, output),
            Taken::Closed(closed, lasted) => {
                self.has_closed = true;
                if let Some(millis) = lasted {
                    self.lasted(millis, 1, output);
                }
                let (by, reason) = match closed {
                    Closed::Caller => (EndedBy::Caller, "hung up"),
                    Closed::Asked => (EndedBy::Agent, "closed"),
                    Closed::Expired => {
                        (EndedBy::Provider, "the session has lasted as long as its provider allows")
                    }
                    Closed::Content => (EndedBy::Provider, "the provider does not allow what was said"),
                    Closed::Other => (EndedBy::Provider, "the provider closed the session"),
                };
                *output = joined(output, self.end(by, reason));
            }
            Taken::Broken(reason) => *output = joined(output, self.end(EndedBy::Provider, &reason)),
            Taken::Accepted { .. }
            | Taken::Error(_)
            | Taken::Nothing
            | Taken::Sound
            | Taken::Unknown
            | Taken::Garbage => {}
        }
    }

    /// The provider bills this much time: that is news where it has a price, once it is this much more than before.
    fn lasted(&mut self, millis: u64, least: u64, output: &mut Output) {
        let before = self.settings.lasted_ms;
        let cost = self.settings.price.and_then(|price| price.nano_usd_of_time(before, millis));
        if cost.is_some() && millis >= before.saturating_add(least) {
            self.settings.lasted_ms = millis;
            output.news.push(LiveNews::Lasted { millis, cost_nano_usd: cost });
        }
    }

    fn refused_for_good(&mut self, error: &Error) -> Output {
        let reason = alloc::format!("{}: {}", error.code(), error.message());
        self.end(EndedBy::Provider, &reason)
    }

    fn tell_caller(&mut self, output: &mut Output) {
        if let Some(text) = self.caller.take() {
            self.settings.dialogue.push(Item::Caller(text.clone()));
            output.news.push(LiveNews::SpeechStopped);
            output.news.push(LiveNews::Heard { text });
        }
    }

    fn tell_agent(&mut self, output: &mut Output) {
        if let Some(text) = self.agent.take() {
            self.settings.dialogue.push(Item::Agent(text.clone()));
            output.news.push(LiveNews::Said { text, heard_ms: None });
            // The call reckons words to the response that is under way, or ended last.
            let latest = self.streams.last().map(|(_, response)| response).or_else(|| self.ended.back());
            output.news.extend(latest.map(|response| LiveNews::Played { response: response.clone() }));
        }
    }

    /// When what was said is whole.
    fn whole_at(&self) -> Option<u64> {
        let words = [&self.caller, &self.agent].into_iter().filter(|words| !words.text.is_empty());
        words.map(|words| words.at.saturating_add(WHOLE_MS)).min()
    }
}

impl Words {
    fn add(&mut self, now: u64, part: &str) {
        let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        self.at = now;
    }

    fn take(&mut self) -> Option<String> {
        let text = core::mem::take(&mut self.text);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

impl ModelSession for DuplexSession {
    fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn has_closed(&self) -> bool {
        self.has_closed
    }

    fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    fn is_between(&self) -> bool {
        !self.is_open() || (self.streams.is_empty() && self.asked.is_none() && self.keys.is_none())
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn attached(&mut self, now: u64) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Away {
            self.heard_at = now;
            self.stage = Stage::Opening(now);
            self.check(Check::There, &mut output);
        }
        output
    }

    fn acceptance(&self, model: &str, instructions: &str) -> String {
        let backend = match &self.backend {
            Backend::Hosted { model } => Some(model.as_str()),
            Backend::Agent { .. } => None,
        };
        sent::acceptance(model, backend, instructions, &self.settings.tools)
    }

    fn answered(&mut self, command: &LiveCommand) -> Output {
        let mut output = Output::default();
        if matches!(command.kind, CommandKind::Answer { .. }) && self.stage != Stage::Over {
            output.news.push(LiveNews::Taken { command: command.id });
        }
        output
    }

    fn lost(&mut self, _now: u64, reason: &str) -> Output {
        let mut output = Output::default();
        if matches!(self.stage, Stage::Over | Stage::Away) {
            return output;
        }
        let was_open = self.stage == Stage::Open;
        self.break_off(&mut output);
        if was_open {
            output.news.push(LiveNews::Lost { reason: reason.to_owned() });
            // What was not taken comes again after the next socket is reported.
            self.waiting.clear();
        }
        self.stage = Stage::Away;
        output.close = true;
        output
    }

    fn fail(&mut self, _now: u64, reason: &str) -> Output {
        self.end(EndedBy::Provider, reason)
    }

    fn hang_up(&mut self, _now: u64, reason: &str) -> Output {
        self.end(EndedBy::Caller, reason)
    }

    fn command(&mut self, _now: u64, command: &LiveCommand) -> Output {
        let mut output = Output::default();
        let id = command.id;
        if self.stage == Stage::Over {
            return output;
        }
        if let CommandKind::Close { reason } = &command.kind {
            output.news.push(LiveNews::Taken { command: id });
            return joined(&mut output, self.end(EndedBy::Agent, reason));
        }
        if self.acknowledged.contains(&id) {
            output.news.push(LiveNews::Taken { command: id });
        } else if self.stage != Stage::Open {
            if self.waiting.len() < KNOWN_MAX && !self.waiting.iter().any(|one| one.id == id) {
                self.waiting.push_back(command.clone());
            }
        } else if !self.sent.iter().any(|one| one.id == id)
            && self.held.as_ref().is_none_or(|held| held.id != id)
        {
            self.transmit(command, &mut output);
        }
        output
    }

    fn frame(&mut self, now: u64, frame: &str) -> Output {
        let mut output = Output::default();
        if matches!(self.stage, Stage::Over | Stage::Away) {
            return output;
        }
        self.counts.frames += 1;
        self.heard_at = now;
        let taken = Taken::read(frame);
        match &taken {
            Taken::Sound => self.counts.parts += 1,
            Taken::Unknown => self.counts.unknown += 1,
            Taken::Garbage => self.counts.garbage += 1,
            _ => {}
        }
        match (self.stage, taken) {
            (_, Taken::Accepted { about }) => self.accepted(now, about.as_deref(), &mut output),
            (_, Taken::Error(error)) => self.error(&error, &mut output),
            (Stage::Open, taken) | (_, taken @ (Taken::Closed(..) | Taken::Broken(_))) => {
                self.take(now, taken, &mut output);
                self.settle(&mut output);
            }
            (_, taken) if taken.is_of_a_call() && self.early.len() < EARLY_MAX => {
                self.early.push_back(frame.to_owned());
            }
            _ => {}
        }
        output
    }

    fn send_keys(&mut self, operation: OperationId, keys: &str) -> Result<Output, NoKeys> {
        self.begin_keys(operation, keys)
    }

    fn stop_keys(&mut self) {
        self.keys = None;
    }

    fn wakes_at(&self) -> Option<u64> {
        match self.stage {
            Stage::Away | Stage::Over => None,
            Stage::Opening(since) => Some(since.saturating_add(OPEN_MS)),
            Stage::Open => {
                let silence = match self.probed {
                    Some(probed) => probed.saturating_add(PROBE_MS),
                    None => self.heard_at.saturating_add(SILENCE_MS),
                };
                [Some(silence), self.whole_at(), self.retry_at].into_iter().flatten().min()
            }
        }
    }

    fn tick(&mut self, now: u64) -> Output {
        let mut output = Output::default();
        match self.stage {
            Stage::Opening(since) if since.saturating_add(OPEN_MS) <= now => {
                return self.lost(now, "the provider does not answer for the session");
            }
            Stage::Open => match self.probed {
                Some(probed) if probed.saturating_add(PROBE_MS) <= now => {
                    return self.lost(now, "the provider is silent");
                }
                None if self.heard_at.saturating_add(SILENCE_MS) <= now => {
                    self.probed = Some(now);
                    self.check(Check::Probe, &mut output);
                }
                Some(_) | None => {}
            },
            Stage::Opening(_) | Stage::Away | Stage::Over => {}
        }
        if self.retry_at.take_if(|retry| *retry <= now).is_some() {
            self.settle(&mut output);
        }
        if self.caller.at.saturating_add(WHOLE_MS) <= now {
            self.tell_caller(&mut output);
        }
        if self.agent.at.saturating_add(WHOLE_MS) <= now {
            self.tell_agent(&mut output);
        }
        output
    }
}

/// Both, one after the other.
fn joined(before: &mut Output, after: Output) -> Output {
    let mut output = core::mem::take(before);
    output.frames.extend(after.frames);
    output.news.extend(after.news);
    output.close |= after.close;
    output.keys = after.keys.or(output.keys);
    output
}

/// Remembers one more, and forgets the first of too many.
fn remember<T>(known: &mut VecDeque<T>, one: T) {
    if known.len() >= KNOWN_MAX {
        known.pop_front();
    }
    known.push_back(one);
}
