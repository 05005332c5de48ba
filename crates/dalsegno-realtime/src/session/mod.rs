//! One session of a live model, and what came before it.

mod frames;
mod talk;

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use dalsegno_core::{
    AgentConfig, AgentState, CommandKind, EndedBy, Entry, LiveCommand, LiveNews, LivePrice, OperationId,
    OrderedJson, Surface,
};

use crate::dialogue::{Dialogue, Item};
use crate::port::ModelSession;
use crate::sent::{self, Voice};
use crate::taken::Taken;
use talk::Talk;

/// How long the provider may take to open a session, in milliseconds.
const OPEN_MS: u64 = 10_000;

/// How long no frame may come before the provider is asked whether it is there, in milliseconds.
const SILENCE_MS: u64 = 60_000;

/// How long it may take to say so, in milliseconds.
const PROBE_MS: u64 = 10_000;

/// How many commands are kept before the session is open: more than the core keeps.
const WAITING_MAX: usize = 128;

/// How many lines of the caller are kept before the session is open.
const LINES_MAX: usize = 16;

/// The id of the frame that ends the dialogue for a new session.
const RESTORED: &str = "restored";

/// How many commands are remembered that the session has.
const ACKNOWLEDGED_MAX: usize = 128;

/// How long to wait before the next attempt at a lost connection, in milliseconds. The first attempt is number 0.
pub const fn reconnect_after(attempt: u32) -> u64 {
    match attempt {
        0 => 0,
        1 => 250,
        2 => 500,
        3 => 1_000,
        4 => 2_000,
        5 => 4_000,
        6 => 8_000,
        7 => 16_000,
        _ => 30_000,
    }
}

/// A tool that the live model may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name, as models see it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: OrderedJson,
}

/// What a session begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The tools of the agent.
    pub tools: Vec<Tool>,
    /// The system prompt, if the core sent it in a process before this one.
    pub instructions: Option<String>,
    /// What was said before.
    pub dialogue: Dialogue,
    /// Whether the call had a session before: then this one is reported as [`LiveNews::Attached`].
    pub has_begun: bool,
    /// Whether the session outlives its sockets, as that of a telephone call does: it knows what was said before.
    pub outlives: bool,
    /// Whether the sound of the caller and of the live model passes through here.
    pub sound: bool,
    /// Whether the call was not answered yet.
    pub is_ringing: bool,
    /// What the live model costs, where that is known.
    pub price: Option<LivePrice>,
    /// How long the session had lasted when that was last recorded, in milliseconds.
    pub lasted_ms: u64,
}

impl Settings {
    /// The settings of a call by its configuration and its state, as far as that was recorded: what has come and no step has
    /// looked at is looked at here, in a copy.
    pub fn of(config: &AgentConfig, state: &AgentState) -> Self {
        let state = &state.caught_up(config);
        let tools = config.tools.tools.iter().filter(|(name, _)| !config.tools.forbidden.contains(*name));
        let tools = tools.map(|(name, tool)| Tool {
            name: config.tools.model_name(name),
            description: tool.description.clone(),
            parameters: tool.input_schema.ordered(),
        });
        let instructions = state.transcript().iter().find_map(|entry| match entry {
            Entry::Instructions(text) => Some(text.clone()),
            _ => None,
        });
        Self {
            tools: tools.collect(),
            instructions,
            dialogue: Dialogue::of(state),
            has_begun: state.live().is_some_and(dalsegno_core::Live::has_begun),
            is_ringing: state.live().is_some_and(dalsegno_core::Live::is_ringing),
            outlives: state.request().surface.is_some_and(Surface::is_answered),
            sound: state.request().surface == Some(Surface::Media),
            price: None,
            lasted_ms: state.live().map_or(0, dalsegno_core::Live::lasted_ms),
        }
    }
}

/// What one input leads to.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Output {
    /// Frames for the provider, in order.
    pub frames: Vec<String>,
    /// News of the call, in order.
    pub news: Vec<LiveNews>,
    /// Whether the socket is to be closed.
    pub close: bool,
    /// Frames for the carrier of the caller's line, in order.
    pub line: Vec<String>,
    /// What came of the keys that were to be sent to the caller's line, where that is known now.
    pub keys: Option<KeysEnd>,
}

/// What came of keys that were to be sent to the caller's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysEnd {
    /// The provider has sent all of them.
    Sent,
    /// It has sent this many, and refuses the next one.
    Refused {
        /// How many it has sent.
        sent: usize,
        /// Why it sends no more.
        reason: String,
    },
    /// It has sent at least this many, and perhaps the next one.
    Unknown {
        /// How many it has certainly sent.
        sent: usize,
        /// Why no more is known.
        reason: String,
    },
}

/// Why no keys can be sent to the caller's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeys {
    /// The protocol has no frame for it.
    Never,
    /// There is no connection to the session at the moment, or other keys are being sent.
    NotNow,
}

/// How many frames there were, and how many of them were of no use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames of the provider.
    pub frames: u64,
    /// Audio and parts of words.
    pub parts: u64,
    /// Frames of a kind that is not known.
    pub unknown: u64,
    /// Frames that are none of this protocol: no JSON, too large, without what their kind must have.
    pub garbage: u64,
    /// Frames about a response or a call that is not known, or is over.
    pub stray: u64,
    /// Errors that are about nothing of ours.
    pub errors: u64,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no socket.
    Away,
    /// There is a socket, and no session yet.
    Opening(u64),
    /// A new session is given the dialogue.
    Restoring(u64),
    Open,
    /// The call is over.
    Over,
}

/// A change of the session that is not acknowledged. These come back in order, without an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Update {
    Command(OperationId),
    Restored,
    Probe,
}

/// How many frames are kept that come before a session which is there already has answered.
const EARLY_MAX: usize = 256;

/// A session of a live model, across the sockets that it needs. Times are milliseconds of a clock that the caller of its methods
/// chooses.
#[derive(Debug, Clone)]
pub struct LiveSession {
    settings: Settings,
    stage: Stage,
    /// Commands that came before the session was open.
    waiting: VecDeque<LiveCommand>,
    /// Lines of the caller that came before the session was open.
    lines: VecDeque<String>,
    /// Commands that were sent and are not acknowledged.
    sent: Vec<LiveCommand>,
    /// The commands that were acknowledged last.
    acknowledged: VecDeque<OperationId>,
    updates: VecDeque<Update>,
    talk: Talk,
    /// The items that are calls, and the ids of these calls.
    calls: VecDeque<(String, String)>,
    /// Calls without an output in the conversation.
    open: BTreeSet<String>,
    /// There are outputs or notes that no response has read.
    pub(super) unread: bool,
    /// The provider knows how the session is to sound.
    is_set_up: bool,
    /// How many frames of our own there were: their ids.
    own: u64,
    /// Frames about the call that came before the session had answered.
    early: VecDeque<String>,
    /// When the last frame came.
    heard_at: u64,
    /// When the provider was asked whether it is there.
    probed: Option<u64>,
    counts: Counts,
}

impl LiveSession {
    /// A session without a socket.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            stage: Stage::Away,
            waiting: VecDeque::new(),
            lines: VecDeque::new(),
            sent: Vec::new(),
            acknowledged: VecDeque::new(),
            updates: VecDeque::new(),
            talk: Talk::default(),
            calls: VecDeque::new(),
            open: BTreeSet::new(),
            unread: false,
            is_set_up: false,
            own: 0,
            early: VecDeque::new(),
            heard_at: 0,
            probed: None,
            counts: Counts::default(),
        }
    }

    /// The session takes words and commands from here on.
    fn open(&mut self, now: u64, output: &mut Output) {
        self.stage = Stage::Open;
        if core::mem::replace(&mut self.settings.has_begun, true) {
            // The core sends again what was not taken.
            self.waiting.clear();
            output.news.push(LiveNews::Attached);
        } else {
            output.news.push(LiveNews::Connected);
            while let Some(command) = self.waiting.pop_front() {
                self.transmit(now, &command, output);
            }
        }
        while let Some(line) = self.lines.pop_front() {
            self.speak(now, line, output);
        }
        while let Some(frame) = self.early.pop_front() {
            let early = self.frame(now, &frame);
            output.news.extend(early.news);
            output.frames.extend(early.frames);
            output.close |= early.close;
            output.line.extend(early.line);
        }
        self.settle(now, output);
    }

    /// Gives a session what it does not know: one that outlives its sockets knows what was said, and whether it is there shows
    /// when it acknowledges what it is told.
    fn restore(&mut self, now: u64, output: &mut Output) {
        let voice = self.voice();
        let Settings {
            outlives,
            dialogue,
            instructions,
            tools,
            has_begun,
            sound: _,
            is_ringing: _,
            price: _,
            lasted_ms: _,
        } = &self.settings;
        if !outlives {
            for (place, item) in dialogue.items().enumerate() {
                let id = alloc::format!("past{place}");
                output.frames.push(sent::item(&id, &id, item));
            }
        }
        if *outlives || *has_begun {
            self.stage = Stage::Restoring(now);
            self.updates.push_back(Update::Restored);
            output.frames.push(sent::session(RESTORED, instructions.as_deref(), tools, voice));
        } else {
            self.open(now, output);
        }
    }

    /// Sends a command of the core.
    fn transmit(&mut self, now: u64, command: &LiveCommand, output: &mut Output) {
        let id = command.id.to_string();
        let item = match &command.kind {
            CommandKind::Session { instructions } => {
                self.settings.instructions = Some(instructions.clone());
                self.updates.push_back(Update::Command(command.id));
                output.frames.push(sent::session(
                    &id,
                    Some(instructions),
                    &self.settings.tools,
                    self.voice(),
                ));
                self.sent.push(command.clone());
                return;
            }
            CommandKind::Respond { .. } => return self.respond(now, command, output),
            CommandKind::Output { call_id, content } => {
                Item::Output { call_id: call_id.clone(), content: content.clone() }
            }
            CommandKind::Note { text } => Item::Note(text.clone()),
            CommandKind::Answer { .. } | CommandKind::Close { .. } => return,
        };
        output.frames.push(sent::item(&id, &id, &item));
        self.sent.push(command.clone());
    }

    /// The session has a command.
    fn acknowledge(&mut self, id: OperationId, output: &mut Output) {
        let Some(place) = self.sent.iter().position(|command| command.id == id) else { return };
        match self.sent.remove(place).kind {
            CommandKind::Output { call_id, content } => {
                self.open.remove(&call_id);
                self.unread = true;
                self.settings.dialogue.push(Item::Output { call_id, content });
            }
            CommandKind::Note { text } => {
                self.unread = true;
                self.settings.dialogue.push(Item::Note(text));
            }
            CommandKind::Session { .. } => self.is_set_up = true,
            CommandKind::Answer { .. } | CommandKind::Respond { .. } | CommandKind::Close { .. } => {}
        }
        if self.acknowledged.len() >= ACKNOWLEDGED_MAX {
            self.acknowledged.pop_front();
        }
        self.acknowledged.push_back(id);
        output.news.push(LiveNews::Taken { command: id });
    }

    /// The session refuses a command: it is not sent again.
    fn forget(&mut self, id: OperationId) {
        let Some(place) = self.sent.iter().position(|command| command.id == id) else { return };
        if let CommandKind::Output { call_id, .. } = self.sent.remove(place).kind {
            self.open.remove(&call_id);
        }
    }

    fn end(&mut self, now: u64, by: EndedBy, reason: &str) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Over {
            return output;
        }
        self.talk.break_off(now, &mut self.settings.dialogue, &mut output);
        self.stage = Stage::Over;
        self.waiting.clear();
        self.sent.clear();
        output.news.push(LiveNews::Ended { by, reason: reason.to_owned() });
        output.close = true;
        output
    }

    fn voice(&self) -> Voice {
        match self.settings {
            Settings { sound: true, .. } => Voice::PassedOn,
            Settings { outlives: true, .. } => Voice::AsAnswered,
            _ => Voice::Text,
        }
    }

    /// Says whether the provider knows how the session is to sound, so that it can be sent sound.
    pub(crate) fn hears(&self) -> bool {
        self.stage == Stage::Open && self.is_set_up
    }

    /// The id of a frame of our own.
    pub(crate) fn own_id(&mut self, what: &str) -> String {
        self.own += 1;
        alloc::format!("{what}{}", self.own)
    }
}

impl ModelSession for LiveSession {
    fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    fn is_quiet(&self) -> bool {
        self.is_open() && self.talk.is_quiet() && self.sent.is_empty() && self.open.is_empty() && !self.unread
    }

    fn is_still(&self) -> bool {
        self.is_open() && self.talk.is_quiet()
    }

    fn press(&mut self, keys: &str) -> Output {
        let mut output = Output::default();
        if self.stage != Stage::Over {
            output.news.extend(keys.chars().take(64).map(|digit| LiveNews::Digit { digit }));
        }
        output
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn connected(&mut self, now: u64) {
        if self.stage == Stage::Away {
            self.stage = Stage::Opening(now);
            self.heard_at = now;
        }
    }

    fn attached(&mut self, now: u64) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Away {
            self.heard_at = now;
            self.restore(now, &mut output);
        }
        output
    }

    fn acceptance(&self, model: &str, instructions: &str) -> String {
        sent::acceptance(model, instructions, &self.settings.tools)
    }

    fn answered(&mut self, command: &LiveCommand) -> Output {
        let mut output = Output::default();
        if let CommandKind::Answer { instructions } = &command.kind
            && self.stage != Stage::Over
        {
            self.settings.instructions = Some(instructions.clone());
            output.news.push(LiveNews::Taken { command: command.id });
        }
        output
    }

    fn is_between(&self) -> bool {
        !self.is_open() || self.talk.is_between()
    }

    fn lost(&mut self, now: u64, reason: &str) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Over || self.stage == Stage::Away {
            return output;
        }
        let was_open = self.stage == Stage::Open;
        self.talk.break_off(now, &mut self.settings.dialogue, &mut output);
        if was_open {
            output.news.push(LiveNews::Lost { reason: reason.to_owned() });
            // What was not taken comes again after the next session is reported.
            self.waiting.clear();
        }
        self.sent.clear();
        self.updates.clear();
        self.early.clear();
        self.probed = None;
        self.is_set_up = false;
        self.stage = Stage::Away;
        output.close = true;
        output
    }

    fn fail(&mut self, now: u64, reason: &str) -> Output {
        self.end(now, EndedBy::Provider, reason)
    }

    fn hang_up(&mut self, now: u64, reason: &str) -> Output {
        self.end(now, EndedBy::Caller, reason)
    }

    fn command(&mut self, now: u64, command: &LiveCommand) -> Output {
        let mut output = Output::default();
        let id = command.id;
        if self.stage == Stage::Over {
            return output;
        }
        if let CommandKind::Close { reason } = &command.kind {
            output.news.push(LiveNews::Taken { command: id });
            let end = self.end(now, EndedBy::Agent, reason);
            output.news.extend(end.news);
            output.close = true;
            return output;
        }
        if self.acknowledged.contains(&id) {
            output.news.push(LiveNews::Taken { command: id });
        } else if self.stage != Stage::Open {
            if self.waiting.len() < WAITING_MAX && !self.waiting.iter().any(|one| one.id == id) {
                self.waiting.push_back(command.clone());
            }
        } else if !self.sent.iter().any(|one| one.id == id) && !self.talk.holds(id) {
            self.transmit(now, command, &mut output);
        }
        output
    }

    fn say(&mut self, now: u64, line: &str) -> Output {
        let mut output = Output::default();
        let mut line = line.trim().to_owned();
        line.truncate(line.floor_char_boundary(dalsegno_core::TEXT_BYTES_MAX));
        if line.is_empty() || self.stage == Stage::Over {
            return output;
        }
        if self.stage == Stage::Open {
            self.speak(now, line, &mut output);
        } else if self.lines.len() < LINES_MAX {
            self.lines.push_back(line);
        }
        output
    }

    fn wakes_at(&self) -> Option<u64> {
        match self.stage {
            Stage::Away | Stage::Over => None,
            Stage::Opening(since) | Stage::Restoring(since) => Some(since.saturating_add(OPEN_MS)),
            Stage::Open => {
                let silence = match self.probed {
                    Some(probed) => probed.saturating_add(PROBE_MS),
                    None => self.heard_at.saturating_add(SILENCE_MS),
                };
                Some(self.talk.retry_at.map_or(silence, |retry| retry.min(silence)))
            }
        }
    }

    fn tick(&mut self, now: u64) -> Output {
        let mut output = Output::default();
        match self.stage {
            Stage::Away | Stage::Over => {}
            Stage::Opening(since) | Stage::Restoring(since) => {
                if since.saturating_add(OPEN_MS) <= now {
                    return self.lost(now, "the provider does not open a session");
                }
            }
            Stage::Open => match self.probed {
                Some(probed) if probed.saturating_add(PROBE_MS) <= now => {
                    return self.lost(now, "the provider is silent");
                }
                None if self.heard_at.saturating_add(SILENCE_MS) <= now => {
                    self.probed = Some(now);
                    self.updates.push_back(Update::Probe);
                    let id = self.own_id("probe");
                    output.frames.push(sent::probe(&id));
                }
                Some(_) | None => {}
            },
        }
        if self.talk.retry_at.take_if(|retry| *retry <= now).is_some() {
            self.settle(now, &mut output);
        }
        output
    }

    fn frame(&mut self, now: u64, frame: &str) -> Output {
        let mut output = Output::default();
        if self.stage == Stage::Over || self.stage == Stage::Away {
            return output;
        }
        self.counts.frames += 1;
        self.heard_at = now;
        let taken = Taken::read(frame);
        match &taken {
            Taken::Part => self.counts.parts += 1,
            Taken::Unknown => self.counts.unknown += 1,
            Taken::Garbage => self.counts.garbage += 1,
            _ => {}
        }
        match (self.stage, taken) {
            (Stage::Opening(_), Taken::SessionCreated) => self.restore(now, &mut output),
            (_, Taken::SessionUpdated) => self.updated(now, &mut output),
            (_, Taken::Error(error)) => self.error(now, &error, &mut output),
            (Stage::Open, taken) => self.take(now, taken, &mut output),
            (Stage::Restoring(_), taken) if self.keeps_early(&taken) => {
                self.early.push_back(frame.to_owned());
            }
            // Before that, nothing of it is about this call.
            _ => {}
        }
        output
    }
}
