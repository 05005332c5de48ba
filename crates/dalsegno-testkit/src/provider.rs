//! The other end of a call: a caller, a live model, and the book in which both write down what they hear. It outlives every process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dalsegno_core::{
    CallRequest, CommandKind, EndedBy, LiveCommand, LiveNews, OperationId, ResponseEnd, RunId,
};
use serde_json::json;

use crate::random::Random;
use crate::workspace::{KEPT, SHOP, TOOLS};
use crate::world::World;

/// Things that happen in a call before its caller hangs up at the latest.
const PATIENCE: u32 = 120;

/// What the output of a call says that was never performed.
const DID_NOTHING: [&str; 6] =
    ["cancelled", "denied", "not_permitted", "invalid_arguments", "overloaded", "limit_exceeded"];

/// Most bytes of an output.
const OUTPUT_MAX: usize = 16 * 1_024;

/// One call, at the provider.
pub(crate) struct LiveSession {
    /// The number of the call.
    pub(crate) number: usize,
    /// Its run, once it has one.
    pub(crate) run: Option<RunId>,
    /// A process carries it.
    pub(crate) carried: bool,
    /// Neither side says anything of its own accord any more.
    pub(crate) quiet: bool,
    pub(crate) over: bool,
    random: Random,
    begun: bool,
    /// The connection is lost, and the process that carries the call knows it.
    lost: bool,
    outbound: VecDeque<LiveNews>,
    active: Option<Active>,
    /// The command by which the model is to speak next.
    due: Option<OperationId>,
    /// The caller has had a turn, and waits for an answer.
    turn: bool,
    speaks: bool,
    responses: u32,
    happened: u32,
    asked: Vec<Asked>,
    /// All commands that were taken.
    commands: BTreeMap<OperationId, CommandKind>,
    notes: u32,
    /// The response that ended last, if it was completed.
    last: Option<String>,
}

/// A response that is under way.
struct Active {
    response: String,
    /// The command that asked for it.
    ours: Option<OperationId>,
    /// The process that carries the call may not know of it.
    is_unknown: bool,
    /// Tools that it asks for still.
    asks: usize,
    /// The calls whose outputs it has read.
    reads: BTreeSet<String>,
}

/// A call of a tool by the model.
struct Asked {
    call_id: String,
    tool: &'static str,
    arguments: String,
    output: Output,
    withdrawn: bool,
}

/// What the model knows of one of its calls.
#[derive(Clone, Copy, PartialEq)]
enum Output {
    None,
    /// It runs, or is in doubt, and so many notes had come then.
    Later(u32),
    /// It did nothing.
    Refused,
    Given,
    /// A response has completed that had read it.
    Heard,
}

impl LiveSession {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        Self {
            number,
            run: None,
            carried: false,
            quiet: false,
            over: false,
            random: Random::new(seed, &format!("session {number}")),
            begun: false,
            lost: false,
            outbound: VecDeque::new(),
            active: None,
            due: None,
            turn: false,
            speaks: false,
            responses: 0,
            happened: 0,
            asked: Vec::new(),
            commands: BTreeMap::new(),
            notes: 0,
            last: None,
        }
    }

    /// A process begins to carry the call.
    pub(crate) fn attach(&mut self, run: RunId) {
        self.carried = true;
        self.run = Some(run);
        if self.begun {
            self.outbound.push_back(LiveNews::Attached);
        }
    }

    /// The process that carried the call is gone. What it was not told is lost.
    pub(crate) fn detach(&mut self) {
        self.carried = false;
        self.lost = false;
        self.outbound.clear();
        if let Some(active) = &mut self.active {
            active.is_unknown = true;
        }
    }

    pub(crate) fn next_news(&mut self) -> Option<LiveNews> {
        self.outbound.pop_front()
    }

    /// The time until something happens again.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.random.below(20) {
            0 => self.random.millis(5_000, 30_000),
            1..5 => self.random.millis(300, 4_000),
            _ => self.random.millis(0, 300),
        }
    }

    fn say(&mut self, news: LiveNews) {
        self.outbound.push_back(news);
    }

    /// Takes a command, and writes down what it says.
    pub(crate) fn take(&mut self, command: &LiveCommand, world: &World) {
        if self.over || self.lost {
            return;
        }
        let (id, run) = (command.id, self.run);
        let broken = |what: String| {
            let what = format!("call {}: {what}", self.number);
            world.judge(|guarantees| guarantees.broken(what));
        };
        if let Some(known) = self.commands.get(&id) {
            if *known != command.kind {
                broken(format!("command {id} is sent again, and says something else"));
            }
            world.count("call", "a command comes again");
            return self.say(LiveNews::Taken { command: id });
        }
        match &command.kind {
            CommandKind::Respond { .. } => {
                let active = self.active.as_ref();
                if active.is_some_and(|active| active.ours.is_some() && !active.is_unknown) {
                    broken("two responses are asked for at once".to_owned());
                }
                if active.is_some() || self.due.is_some() || self.turn {
                    world.count("call", "busy");
                    let (code, message) = ("busy".to_owned(), "a response is active".to_owned());
                    return self.say(LiveNews::Refused { command: id, code, message });
                }
                self.due = Some(id);
            }
            CommandKind::Output { call_id, content } => {
                if content.len() > OUTPUT_MAX {
                    broken(format!("the output of {call_id} has {} bytes", content.len()));
                }
                if let Some(run) = run {
                    world.judge(|guarantees| guarantees.output(run, call_id, id));
                }
                let output = if content.contains("\"running\"") || content.contains("in_doubt") {
                    world.count("call", "the result follows");
                    Output::Later(self.notes)
                } else if DID_NOTHING.iter().any(|code| content.contains(&format!("\"code\":\"{code}\""))) {
                    Output::Refused
                } else {
                    Output::Given
                };
                for asked in self.asked.iter_mut().filter(|asked| asked.call_id == *call_id) {
                    asked.output = output;
                }
            }
            CommandKind::Note { .. } => self.notes += 1,
            CommandKind::Session { .. } | CommandKind::Answer { .. } => {}
            CommandKind::Close { reason } => {
                world.count("call", "the agent ends it");
                let reason = reason.clone();
                self.say(LiveNews::Taken { command: id });
                self.end(EndedBy::Agent, &reason);
                return;
            }
        }
        self.commands.insert(id, command.kind.clone());
        self.say(LiveNews::Taken { command: id });
    }

    fn end(&mut self, by: EndedBy, reason: &str) {
        self.over = true;
        self.say(LiveNews::Ended { by, reason: reason.to_owned() });
    }

    /// The caller hangs up.
    pub(crate) fn hang_up(&mut self) {
        if !self.over {
            self.end(EndedBy::Caller, "hung up");
        }
    }

    /// One thing happens.
    pub(crate) fn go_on(&mut self, world: &World) {
        if self.over {
            return;
        }
        self.happened += 1;
        if self.lost {
            self.lost = false;
            return self.say(LiveNews::Attached);
        }
        if !self.begun {
            self.begun = true;
            return self.say(LiveNews::Connected);
        }
        if self.active.is_some() {
            return self.respond(world);
        }
        if let Some(command) = self.due.take() {
            return self.begin(Some(command));
        }
        if std::mem::take(&mut self.turn) {
            return self.begin(None);
        }
        if std::mem::take(&mut self.speaks) {
            self.turn = true;
            self.say(LiveNews::SpeechStopped);
            return self.say(LiveNews::Heard { text: "a word of the caller".to_owned() });
        }
        if self.quiet {
            return;
        }
        if self.happened > PATIENCE {
            return self.hang_up();
        }
        match self.random.below(40) {
            0..18 => {
                self.speaks = true;
                self.say(LiveNews::SpeechStarted);
            }
            18..20 => {
                let digit = self.random.pick(&['1', '5', '#']);
                self.say(LiveNews::Digit { digit });
            }
            20..22 => {
                world.count("call", "the connection is lost");
                self.lost = true;
                if let Some(active) = &mut self.active {
                    active.is_unknown = true;
                }
                self.say(LiveNews::Lost { reason: "the line went dead".to_owned() });
            }
            22 => self.withdraw(world),
            23 => {
                world.count("call", "the caller hangs up");
                self.hang_up();
            }
            24 => {
                // A call of the response that has ended comes after its end.
                if let Some(response) = self.last.clone() {
                    self.ask(&response, world);
                }
            }
            25 => {
                if let Some(command) = self.commands.keys().next_back().copied() {
                    self.say(LiveNews::Taken { command });
                }
            }
            _ => {}
        }
    }

    /// The provider takes a call out of the conversation.
    fn withdraw(&mut self, world: &World) {
        let Some(asked) =
            self.asked.iter_mut().find(|asked| asked.output == Output::None && !asked.withdrawn)
        else {
            return;
        };
        asked.withdrawn = true;
        let call_id = asked.call_id.clone();
        world.count("call", "a call is withdrawn");
        if let Some(run) = self.run {
            world.judge(|guarantees| guarantees.withdrawn(run, &call_id));
        }
        self.say(LiveNews::Withdrawn { call_id });
    }

    fn begin(&mut self, ours: Option<OperationId>) {
        self.responses += 1;
        let response = format!("response-{}", self.responses);
        let is_given = |asked: &&Asked| asked.output == Output::Given;
        let reads = self.asked.iter().filter(is_given).map(|asked| asked.call_id.clone()).collect();
        let tools = match ours.and_then(|command| self.commands.get(&command)) {
            Some(CommandKind::Respond { tools, .. }) => *tools,
            _ => true,
        };
        let asks = if tools && !self.quiet { self.random.pick(&[0, 0, 1, 1, 2, 4]) } else { 0 };
        let is_unknown = false;
        self.active = Some(Active { response: response.clone(), ours, is_unknown, asks, reads });
        self.say(LiveNews::ResponseBegan { response, command: ours });
    }

    /// The response that is active continues.
    fn respond(&mut self, world: &World) {
        let Some(mut active) = self.active.take() else { return };
        if active.asks > 0 && !self.random.chance(100) {
            active.asks -= 1;
            let response = active.response.clone();
            self.active = Some(active);
            return self.ask(&response, world);
        }
        let end = match self.random.below(20) {
            _ if self.quiet => ResponseEnd::Completed,
            0..4 => ResponseEnd::Interrupted,
            4 => ResponseEnd::Failed,
            5 => {
                // The connection is lost in the middle of it.
                world.count("call", "the connection is lost in a response");
                self.lost = true;
                active.is_unknown = true;
                self.active = Some(active);
                return self.say(LiveNews::Lost { reason: "the line went dead".to_owned() });
            }
            _ => ResponseEnd::Completed,
        };
        let response = active.response;
        self.last = None;
        match end {
            ResponseEnd::Completed => {
                if let Some(run) = self.run {
                    world.judge(|guarantees| guarantees.response_completed(run, &response));
                }
                for asked in self.asked.iter_mut().filter(|asked| active.reads.contains(&asked.call_id)) {
                    asked.output = Output::Heard;
                }
                self.last = Some(response.clone());
            }
            ResponseEnd::Interrupted => {
                world.count("call", "a response is interrupted");
                self.speaks = true;
                self.say(LiveNews::SpeechStarted);
            }
            ResponseEnd::Failed => world.count("call", "a response fails"),
        }
        let heard_ms = (end == ResponseEnd::Interrupted).then_some(100);
        self.say(LiveNews::Said { text: "a word of the model".to_owned(), heard_ms });
        self.say(LiveNews::ResponseEnded { response: response.clone(), end });
        if end == ResponseEnd::Completed && !self.quiet && self.random.chance(100) {
            world.count("call", "words are interrupted that were told as said");
            self.speaks = true;
            self.say(LiveNews::SpeechStarted);
            self.say(LiveNews::Cut { response, heard_ms: 300 });
        } else if end == ResponseEnd::Completed {
            self.say(LiveNews::Played { response });
        }
    }

    /// The model asks for a tool: often for one that it has no result of yet.
    fn ask(&mut self, response: &str, world: &World) {
        let number = self.asked.len() + 1;
        let notes = self.notes;
        let may_repeat = |asked: &&Asked| match asked.output {
            Output::None | Output::Refused | Output::Given => true,
            Output::Later(then) => then == notes,
            Output::Heard => false,
        };
        // What was heard once is not asked for again.
        let open = self.asked.iter().filter(|asked| {
            let mut same = self
                .asked
                .iter()
                .filter(|other| (other.tool, &other.arguments) == (asked.tool, &asked.arguments));
            same.all(|other| may_repeat(&other))
        });
        let open: Vec<(&'static str, String)> =
            open.map(|asked| (asked.tool, asked.arguments.clone())).collect();
        let (tool, arguments) = if !open.is_empty() && self.random.chance(350) {
            world.count("call", "a call is repeated");
            self.random.pick(&open)
        } else {
            let names: Vec<&'static str> =
                TOOLS.iter().map(|(name, _)| *name).chain(SHOP.iter().map(|(name, _)| *name)).collect();
            let tool = self.random.pick(&names);
            let arguments = if tool == KEPT { json!({ "q": 1 }) } else { json!({ "n": number }) };
            (tool, arguments.to_string())
        };
        // Now and then a provider says the same twice.
        let call_id = if self.random.chance(30) && number > 1 {
            format!("call-{}", number - 1)
        } else {
            format!("call-{number}")
        };
        if self.asked.iter().any(|asked| asked.call_id == call_id) {
            world.count("call", "a call id comes again");
        } else {
            if let Some(run) = self.run {
                world.judge(|guarantees| guarantees.asks(run, &call_id, tool, &arguments, response));
            }
            let (call_id, arguments) = (call_id.clone(), arguments.clone());
            self.asked.push(Asked { call_id, tool, arguments, output: Output::None, withdrawn: false });
        }
        let call = CallRequest { call_id, name: tool.to_owned(), arguments, validation: None };
        self.say(LiveNews::Asked { response: response.to_owned(), call });
    }
}
