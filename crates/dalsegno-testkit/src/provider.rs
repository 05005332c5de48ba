//! The other end of a call: a caller, a live model, and the book in which both write down what they hear. It outlives every process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dalsegno_core::{
    CallRequest, CommandKind, EndedBy, LiveCommand, LiveNews, OperationId, ResponseEnd, RunId, Surface,
};
use serde_json::json;
use tokio::time::Instant;

use crate::random::Random;
use crate::workspace::{HANG_UP, KEPT, SEND_DIGITS, SHOP, TOOLS, TRANSFER};
use crate::world::World;

/// Things that happen in a call before its caller hangs up at the latest.
const PATIENCE: u32 = 120;

/// What the output of a call says that was never performed.
const DID_NOTHING: [&str; 6] =
    ["cancelled", "denied", "not_permitted", "invalid_arguments", "overloaded", "limit_exceeded"];

/// What a note says after a transfer that was not made.
const NOT_TRANSFERRED: &str = "was not transferred";

/// Most bytes of an output.
const OUTPUT_MAX: usize = 16 * 1_024;

/// The same, where the live model hears while it speaks.
const DUPLEX_OUTPUT_MAX: usize = 6 * 1_024;

/// Responses under way at once, where the live model hears while it speaks.
const TOGETHER: usize = 2;

/// A live model that is busy is not asked again so soon, unless something happens meanwhile.
const AGAIN: Duration = Duration::from_secs(2);

/// How long a carrier's call rings for a process before its caller gives up.
const LEFT: Duration = Duration::from_secs(15);

/// One call, at the provider.
pub(crate) struct LiveSession {
    /// The number of the call.
    pub(crate) number: usize,
    /// Its run, once it has one.
    pub(crate) run: Option<RunId>,
    /// How its caller speaks with it.
    pub(crate) surface: Surface,
    /// A process carries it.
    pub(crate) carried: bool,
    /// How many processes have carried it: one that is followed by another carries nothing any more.
    pub(crate) turns: u32,
    /// Since when no process has carried it.
    left_since: Instant,
    /// Neither side says anything of its own accord any more.
    pub(crate) quiet: bool,
    pub(crate) over: bool,
    random: Random,
    /// It was answered, if it is one that rings.
    accepted: bool,
    begun: bool,
    /// The connection is lost, and the process that carries the call knows it.
    lost: bool,
    outbound: VecDeque<LiveNews>,
    active: Vec<Active>,
    /// The command by which the model is to speak next.
    due: Option<OperationId>,
    /// The process that carries the call may not count on it: its connection was lost since.
    is_due_unknown: bool,
    /// The wish that was refused last because the live model was busy, and when; none once something has happened since. The same one may
    /// come again before its refusal is known.
    refused: Option<(OperationId, Instant)>,
    /// The caller has had a turn, and waits for an answer.
    turn: bool,
    speaks: bool,
    responses: u32,
    happened: u32,
    asked: Vec<Asked>,
    /// All commands that were taken.
    commands: BTreeMap<OperationId, CommandKind>,
    notes: u32,
    /// The response that ended last, if it was completed and that was told.
    last: Option<String>,
}

/// How callers speak with live models, as often as it says.
const SURFACES: [Surface; 7] = [
    Surface::Script,
    Surface::Script,
    Surface::Telephone,
    Surface::Telephone,
    Surface::Duplex,
    Surface::Duplex,
    Surface::Media,
];

/// A response that is under way.
struct Active {
    response: String,
    /// The command that asked for it.
    ours: Option<OperationId>,
    /// The process that carries the call may not know of it.
    is_unknown: bool,
    /// It was told to the process that carries the call that it has begun.
    is_told: bool,
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
            surface: Random::new(seed, &format!("surface {number}")).pick(&SURFACES),
            carried: false,
            turns: 0,
            left_since: Instant::now(),
            quiet: false,
            over: false,
            random: Random::new(seed, &format!("session {number}")),
            accepted: false,
            begun: false,
            lost: false,
            outbound: VecDeque::new(),
            active: Vec::new(),
            due: None,
            is_due_unknown: false,
            refused: None,
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

    /// The session of a fork of a call: its caller writes.
    pub(crate) fn of_fork(seed: u64, number: usize, run: RunId) -> Self {
        Self { run: Some(run), surface: Surface::Script, ..Self::new(seed, number) }
    }

    /// A process begins to carry the call. Returns the number of its turn.
    pub(crate) fn attach(&mut self, run: RunId, world: &World) -> u32 {
        self.turns += 1;
        if self.carried {
            // Another process carried it until now, and does not know yet that it does no more.
            self.break_off();
        }
        if self.surface.outlives_its_process() {
            world.judge(|guarantees| guarantees.outlives(run));
        }
        self.carried = true;
        self.run = Some(run);
        self.lost = false;
        self.outbound.clear();
        if self.over {
            // Whoever asks for it is told so.
            world.count("call", "was over before another process attaches");
            self.say(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".to_owned() });
        } else if self.begun {
            self.say(LiveNews::Attached);
        }
        self.turns
    }

    /// The process that carried the call is gone, or has let go of it. What it was not told is lost.
    pub(crate) fn detach(&mut self) {
        self.carried = false;
        self.left_since = Instant::now();
        self.lost = false;
        self.outbound.clear();
        self.break_off();
    }

    /// The connection between the process and the live model is gone.
    fn break_off(&mut self) {
        for active in &mut self.active {
            active.is_unknown = true;
            active.is_told &= !self.surface.outlives_its_process();
        }
        self.is_due_unknown = true;
        if self.surface.outlives_its_process() {
            // What is told after the end of a response is told over the same connection.
            self.last = None;
        }
        if self.surface == Surface::Media {
            // The next process has a session of its own with the live model.
            self.active.clear();
            self.due = None;
        }
    }

    /// Says whether the caller and the live model hear each other without this process.
    pub(crate) fn goes_on_alone(&self) -> bool {
        self.surface.is_answered() && self.begun && !self.carried && !self.over
    }

    /// Says whether a process that takes over the run may have the call.
    pub(crate) fn has_line(&self) -> bool {
        match self.surface {
            Surface::Media => self.is_left(),
            surface => surface.is_answered(),
        }
    }

    /// Says whether the carrier has asked no process for so long that its call has to be over.
    pub(crate) fn is_left(&self) -> bool {
        !self.carried && self.left_since.elapsed() > LEFT
    }

    /// Says whether it is a good moment to let go of the call.
    pub(crate) fn is_between(&self) -> bool {
        self.outbound.is_empty() && self.active.is_empty() && self.due.is_none()
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
        self.refused = None;
        if self.carried {
            self.outbound.push_back(news);
        }
    }

    fn is_duplex(&self) -> bool {
        self.surface == Surface::Duplex
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
            if self.due != Some(id) || !self.is_duplex() {
                self.say(LiveNews::Taken { command: id });
            }
            return;
        }
        match &command.kind {
            CommandKind::Respond { .. } => {
                if self.is_duplex() {
                    // It is taken when the response begins, once none is under way.
                    if self.due.replace(id).is_some() {
                        broken("a response is asked for while another one is due".to_owned());
                    }
                    self.is_due_unknown = false;
                    self.commands.insert(id, command.kind.clone());
                    return;
                }
                if self.active.iter().any(|active| active.ours.is_some() && !active.is_unknown) {
                    broken("two responses are asked for at once".to_owned());
                }
                if !self.active.is_empty() || self.due.is_some() || self.turn {
                    world.count("call", "busy");
                    if self.refused.is_some_and(|(known, at)| known != id && at.elapsed() < AGAIN) {
                        broken("a live model that is busy is asked again at once".to_owned());
                    }
                    let (code, message) = ("busy".to_owned(), "a response is active".to_owned());
                    self.say(LiveNews::Refused { command: id, code, message });
                    self.refused = Some((id, Instant::now()));
                    return;
                }
                self.due = Some(id);
                self.is_due_unknown = false;
            }
            CommandKind::Output { call_id, content } => {
                let most = if self.is_duplex() { DUPLEX_OUTPUT_MAX } else { OUTPUT_MAX };
                if content.len() > most {
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
            CommandKind::Note { text } => {
                self.notes += 1;
                if let Some(run) = run.filter(|_| text.contains(NOT_TRANSFERRED)) {
                    world.judge(|guarantees| guarantees.stays(run));
                }
            }
            CommandKind::Session { .. } => {
                if self.surface.is_answered() {
                    broken("a call that rings is not answered".to_owned());
                }
            }
            CommandKind::Answer { .. } => {
                if !self.surface.is_answered() || std::mem::replace(&mut self.accepted, true) {
                    broken("it is answered, and does not ring".to_owned());
                }
            }
            CommandKind::Close { reason } => {
                world.count("call", "the agent ends it");
                if let Some(run) = run {
                    world.judge(|guarantees| guarantees.closes(run, reason));
                }
                let reason = reason.clone();
                self.say(LiveNews::Taken { command: id });
                self.end(EndedBy::Agent, &reason, world);
                return;
            }
        }
        self.commands.insert(id, command.kind.clone());
        self.say(LiveNews::Taken { command: id });
    }

    fn end(&mut self, by: EndedBy, reason: &str, world: &World) {
        self.over = true;
        if let Some(run) = self.run {
            world.judge(|guarantees| guarantees.is_put_down(run));
        }
        self.say(LiveNews::Ended { by, reason: reason.to_owned() });
    }

    /// The caller hangs up.
    pub(crate) fn hang_up(&mut self, world: &World) {
        if !self.over {
            self.end(EndedBy::Caller, "hung up", world);
        }
    }

    /// The provider transfers it, as it was asked to.
    pub(crate) fn leave(&mut self, world: &World) {
        if self.over {
            return;
        }
        world.count("transfer", "the call leaves");
        if let Some(run) = self.run {
            world.judge(|guarantees| guarantees.leaves(run));
        }
        self.end(EndedBy::Caller, "hung up", world);
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
            if self.surface.is_answered() && !self.accepted {
                // Who rings for long hangs up.
                if self.happened > PATIENCE {
                    self.hang_up(world);
                }
                return;
            }
            self.begun = true;
            return self.say(LiveNews::Connected);
        }
        if self.is_duplex() {
            return self.go_on_duplex(world);
        }
        if !self.active.is_empty() {
            return self.respond(0, world);
        }
        if let Some(command) = self.due.take() {
            return self.begin(Some(command));
        }
        if std::mem::take(&mut self.turn) {
            return self.begin(None);
        }
        if std::mem::take(&mut self.speaks) {
            self.turn = true;
            return self.words_of_caller();
        }
        self.something_else(world);
    }

    /// One thing happens with a live model that hears while it speaks: nothing waits for the end of anything, but for a wish.
    fn go_on_duplex(&mut self, world: &World) {
        let open = |asked: &Asked| asked.output == Output::None && !asked.withdrawn;
        if self.active.is_empty()
            && !self.asked.iter().any(open)
            && let Some(command) = self.due.take()
        {
            self.say(LiveNews::Taken { command });
            return self.begin(Some(command));
        }
        match self.random.below(10) {
            0..5 if !self.active.is_empty() => {
                let place = self.random.below(self.active.len());
                self.respond(place, world);
            }
            5..7 if self.turn && self.active.len() < TOGETHER => {
                if !self.active.is_empty() {
                    world.count("call", "responses overlap");
                }
                self.turn = false;
                self.begin(None);
            }
            7..9 if self.speaks => {
                self.speaks = false;
                self.turn = true;
                self.words_of_caller();
            }
            9 if self.responses > 0 && self.happened.is_multiple_of(3) => {
                self.say(LiveNews::Lasted { millis: u64::from(self.happened) * 1_000, cost_nano_usd: None });
            }
            9 if self.responses > 0 => {
                let response = format!("response-{}", self.responses);
                self.say(LiveNews::Said { text: "a word of the model".to_owned(), heard_ms: None });
                self.say(LiveNews::Played { response });
            }
            _ if self.quiet && !self.active.is_empty() => self.respond(0, world),
            _ => self.something_else(world),
        }
    }

    fn words_of_caller(&mut self) {
        self.say(LiveNews::SpeechStopped);
        self.say(LiveNews::Heard { text: "a word of the caller".to_owned() });
    }

    /// What the caller or the connection does of its own accord.
    fn something_else(&mut self, world: &World) {
        if self.quiet {
            return;
        }
        if self.happened > PATIENCE {
            return self.hang_up(world);
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
            20..22 if self.carried => {
                world.count("call", "the connection is lost");
                self.lose();
            }
            22 => self.withdraw(world),
            23 => {
                world.count("call", "the caller hangs up");
                self.hang_up(world);
            }
            24 => {
                // A call of the response that has ended comes after its end.
                if let Some(response) = self.last.clone() {
                    self.ask(&response, world);
                }
            }
            25 => {
                let last = self.commands.keys().next_back().copied();
                if let Some(command) = last.filter(|command| self.due != Some(*command)) {
                    self.say(LiveNews::Taken { command });
                }
            }
            _ => {}
        }
    }

    /// The connection is lost, and the process that carries the call knows it.
    fn lose(&mut self) {
        self.lost = true;
        self.break_off();
        self.say(LiveNews::Lost { reason: "the line went dead".to_owned() });
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
        let is_told = self.carried;
        let is_unknown = ours.is_some() && std::mem::take(&mut self.is_due_unknown);
        let told = response.clone();
        self.active.push(Active { response, ours, is_unknown, is_told, asks, reads });
        self.say(LiveNews::ResponseBegan { response: told, command: ours });
    }

    /// A response that is under way continues.
    fn respond(&mut self, place: usize, world: &World) {
        let mut active = self.active.remove(place);
        if active.asks > 0 && !self.random.chance(100) {
            active.asks -= 1;
            if !active.is_told && self.carried {
                self.first_sign(&mut active);
            }
            let response = active.response.clone();
            self.active.insert(place, active);
            return self.ask(&response, world);
        }
        let end = match self.random.below(20) {
            _ if self.quiet => ResponseEnd::Completed,
            0..4 => ResponseEnd::Interrupted,
            4 => ResponseEnd::Failed,
            5 if self.carried => {
                // The connection is lost in the middle of it.
                world.count("call", "the connection is lost in a response");
                self.active.insert(place, active);
                return self.lose();
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
                self.last = Some(response.clone()).filter(|_| self.carried && active.is_told);
            }
            ResponseEnd::Interrupted => {
                world.count("call", "a response is interrupted");
                self.speaks = true;
                self.say(LiveNews::SpeechStarted);
            }
            ResponseEnd::Failed => world.count("call", "a response fails"),
        }
        if !active.is_told {
            // The process that carries the call does not know of it.
            return;
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

    /// A process that was not told of the beginning of a response notices it by a call of it.
    fn first_sign(&mut self, active: &mut Active) {
        active.is_told = true;
        if self.is_duplex() {
            // Its name comes with its end.
            active.response = format!("of-{}", active.response);
        }
        self.say(LiveNews::ResponseBegan { response: active.response.clone(), command: None });
    }

    /// The model asks for a tool: often for one that it has no result of yet.
    fn ask(&mut self, response: &str, world: &World) {
        if !self.carried {
            world.count("call", "a tool is asked for while no process carries the call");
        }
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
            // Not a draw of the session's own, so that each seed still means the same world.
            let draw = |what: &str| Random::new(world.seed, &format!("{what} {} {number}", self.number));
            let tool = match draw("exchange").below(50) {
                0 => HANG_UP,
                1..6 if self.surface.outlives_its_process() => TRANSFER,
                _ if draw("keys").chance(100) => SEND_DIGITS,
                _ => tool,
            };
            let arguments = match tool {
                KEPT => json!({ "q": 1 }),
                HANG_UP => json!({}),
                SEND_DIGITS => json!({ "digits": number.to_string() }),
                _ => json!({ "n": number }),
            };
            (tool, arguments.to_string())
        };
        // Now and then a provider says the same twice.
        let again = usize::from(self.random.chance(30) && number > 1);
        // A fork of the call has ids of its own, as every session of a provider has.
        let call_id = format!("call-{}-{}", self.number, number - again);
        let (mut tool, mut arguments) = (tool, arguments);
        if let Some(asked) = self.asked.iter().find(|asked| asked.call_id == call_id) {
            world.count("call", "a call id comes again");
            let is_known = |run| world.judge(|guarantees| guarantees.knows_call(run, &call_id));
            if !self.run.is_some_and(is_known) {
                // It never came to the journal: it is what it was, and this response asks for it.
                (tool, arguments) = (asked.tool, asked.arguments.clone());
                if let Some(run) = self.run {
                    world.judge(|guarantees| guarantees.asks(run, &call_id, tool, &arguments, response));
                }
            }
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
