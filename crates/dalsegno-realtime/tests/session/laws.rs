//! The core, a session and a strict provider in memory, in any order of what happens, with sockets that are lost: laws that hold at
//! every moment and at the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dalsegno_core::*;
use dalsegno_realtime::{LiveSession, ModelSession as _, Output, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

const TOOLS: [(&str, EffectClass); 3] =
    [("find", EffectClass::Read), ("add", EffectClass::Keyed), ("send", EffectClass::Unsafe)];

/// One session of the provider.
#[derive(Default)]
struct Provider {
    active: Option<String>,
    /// The items, and the calls that have an output.
    items: BTreeSet<String>,
    called: BTreeSet<String>,
    answered: BTreeSet<String>,
    frames: VecDeque<Value>,
    /// What it was sent that it must not be sent.
    wrong: Vec<String>,
}

impl Provider {
    fn begin() -> Self {
        let frames = VecDeque::from([json!({ "type": "session.created", "session": {} })]);
        Self { frames, ..Self::default() }
    }

    fn takes(&mut self, frame: &Value, count: &mut u32) {
        let kind = frame["type"].as_str().unwrap();
        match kind {
            "session.update" => self.frames.push_back(json!({ "type": "session.updated", "session": {} })),
            "conversation.item.create" => {
                let item = &frame["item"];
                let (id, call_id) =
                    (item["id"].as_str().unwrap(), item["call_id"].as_str().unwrap_or_default());
                if !self.items.insert(id.to_owned()) {
                    self.wrong.push(format!("the item {id} twice"));
                }
                match item["type"].as_str().unwrap() {
                    "function_call" => drop(self.called.insert(call_id.to_owned())),
                    "function_call_output" if !self.called.contains(call_id) => {
                        self.wrong.push(format!("an output of {call_id}, which was never asked for"));
                    }
                    "function_call_output" if !self.answered.insert(call_id.to_owned()) => {
                        self.wrong.push(format!("a second output of {call_id}"));
                    }
                    _ => {}
                }
                self.frames.push_back(json!({ "type": "conversation.item.added", "item": item }));
            }
            "response.create" => {
                if let Some(active) = &self.active {
                    self.wrong.push(format!("a response while {active} is active"));
                    return;
                }
                *count += 1;
                let id = format!("r{count}");
                let response = json!({ "id": id, "metadata": frame["response"]["metadata"] });
                self.frames.push_back(json!({ "type": "response.created", "response": response }));
                self.active = Some(id);
            }
            "response.cancel" => match self.active {
                Some(_) => self.ends("cancelled"),
                None => {
                    let error =
                        json!({ "code": "response_cancel_not_active", "event_id": frame["event_id"] });
                    self.frames.push_back(json!({ "type": "error", "error": error }));
                }
            },
            other => self.wrong.push(format!("a frame of the kind {other}")),
        }
    }

    fn ends(&mut self, status: &str) {
        if let Some(id) = self.active.take() {
            self.frames
                .push_back(json!({ "type": "response.done", "response": { "id": id, "status": status } }));
        }
    }

    fn asks(&mut self, tool: usize, count: &mut u32) {
        let Some(response) = self.active.clone() else { return };
        *count += 1;
        let call_id = format!("c{count}");
        self.called.insert(call_id.clone());
        let arguments = json!({ "n": count }).to_string();
        let item = json!({ "id": format!("i{count}"), "type": "function_call", "status": "completed",
            "call_id": call_id, "name": TOOLS[tool].0, "arguments": arguments });
        self.frames
            .push_back(json!({ "type": "response.output_item.done", "response_id": response, "item": item }));
    }
}

struct World {
    config: AgentConfig,
    state: AgentState,
    session: LiveSession,
    provider: Provider,
    to_provider: VecDeque<Value>,
    to_core: VecDeque<LiveNews>,
    to_session: VecDeque<LiveCommand>,
    /// What the driver has sent over the line.
    sent: BTreeSet<OperationId>,
    open: BTreeMap<OperationId, Operation>,
    now: u64,
    count: u32,
    wrong: Vec<String>,
}

/// A desk with these tools, and a call of it that begins.
pub(crate) fn desk() -> (AgentConfig, AgentState) {
    let mind = json!({ "model": { "model": ModelSettings::named("default"), "instructions": "Take calls.",
        "prompt": "{{request.text}}", "recall": null } });
    let mut config = AgentConfig::new("desk".parse().unwrap(), serde_json::from_value(mind).unwrap());
    for (name, class) in TOOLS {
        let mut tool = Tool::new(name.into(), json!({ "type": "object" }));
        tool.class = class;
        config.tools.tools.insert(name.parse().unwrap(), tool);
    }
    config.limits.max_tool_calls = 10_000;
    config.voice = Some(Box::default());
    let request = AgentRequest { surface: Some(Surface::Realtime), ..AgentRequest::text("") };
    let state = AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(0));
    (config, state)
}

impl World {
    fn new() -> Self {
        let (config, state) = desk();
        let session = LiveSession::new(Settings::of(&config, &state));
        let mut world = Self {
            config,
            state,
            session,
            provider: Provider::begin(),
            to_provider: VecDeque::new(),
            to_core: VecDeque::new(),
            to_session: VecDeque::new(),
            sent: BTreeSet::new(),
            open: BTreeMap::new(),
            now: 0,
            count: 0,
            wrong: Vec::new(),
        };
        world.session.connected(0);
        world.step();
        world
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// The core, as far as it comes; then its commands are sent as a driver sends them.
    fn step(&mut self) {
        while self.state.is_ready() {
            let action = execute_agent_step(&self.config, self.state.clone()).unwrap();
            let continuation = action.into_continuation();
            for operation in continuation.asked() {
                self.open.insert(operation.id, operation.clone());
            }
            for (id, _) in continuation.concluded() {
                self.open.remove(&id);
            }
            self.state = continuation.state;
        }
        let Some(live) = self.state.live().filter(|live| !live.is_lost()) else { return };
        let commands = live.commands().to_vec();
        self.sent.retain(|id| commands.iter().any(|command| command.id == *id));
        for command in commands {
            if self.sent.insert(command.id) {
                self.to_session.push_back(command);
            }
        }
    }

    fn put(&mut self, output: Output) {
        self.to_core.extend(output.news);
        if output.close {
            // The socket is gone, and with it the provider's session; the next one is there at once.
            self.to_provider.clear();
            let wrong = std::mem::replace(&mut self.provider, Provider::begin()).wrong;
            self.wrong.extend(wrong);
            self.session.connected(self.now);
            return;
        }
        let frames = output.frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap());
        self.to_provider.extend(frames);
    }

    fn session_hears(&mut self) -> bool {
        let Some(command) = self.to_session.pop_front() else { return false };
        let output = self.session.command(self.now, &command);
        self.put(output);
        true
    }

    fn provider_hears(&mut self) -> bool {
        let Some(frame) = self.to_provider.pop_front() else { return false };
        self.provider.takes(&frame, &mut self.count);
        true
    }

    fn session_reads(&mut self) -> bool {
        let Some(frame) = self.provider.frames.pop_front() else { return false };
        let output = self.session.frame(self.now, &frame.to_string());
        self.put(output);
        true
    }

    fn core_hears(&mut self) -> bool {
        let Some(mut news) = self.to_core.pop_front() else { return false };
        if let LiveNews::Asked { call, .. } = &mut news {
            let arguments = serde_json::from_str(&call.arguments).unwrap();
            call.validation = Some(Validation::Valid { arguments });
        }
        if self.state.admits(&news).is_ok() {
            if news == LiveNews::Attached {
                self.sent.clear();
            }
            self.state.resume(Event::live(self.at(), news)).unwrap();
            self.step();
        }
        true
    }

    fn settles(&mut self) -> bool {
        let Some((id, _)) = self.open.pop_first() else { return false };
        let outcome = Outcome::ToolReturned(ToolReturn::structured(json!("done")));
        // One that the core has let go of is not waited for.
        if self.state.resume(Event::outcome(self.at(), id, outcome)).is_ok() {
            self.step();
        }
        true
    }

    fn passes(&mut self, millis: u64) {
        self.now += millis;
        let output = self.session.tick(self.now);
        self.put(output);
        let is_due = self.state.wake_at(&self.config).is_some_and(|at| at <= self.at());
        if is_due {
            self.to_core.push_back(LiveNews::Woke);
        }
    }

    fn loses(&mut self) {
        let output = self.session.lost(self.now, "cut");
        self.put(output);
    }

    fn happens(&mut self, what: u8) {
        match what {
            0..=3 => drop(self.session_reads()),
            4..=7 => drop(self.provider_hears()),
            8..=10 => drop(self.session_hears()),
            11..=14 => drop(self.core_hears()),
            15..=16 => drop(self.settles()),
            17 => {
                let output = self.session.say(self.now, "hello");
                self.put(output);
            }
            18 => self.provider.ends("completed"),
            19..=21 => self.provider.asks(usize::from(what - 19), &mut self.count),
            22 => self.loses(),
            _ => self.passes(u64::from(what - 22) * 700),
        }
    }

    /// Everything that is under way comes to its end.
    fn ends(&mut self) {
        for round in 0..400 {
            while self.session_reads() | self.provider_hears() | self.session_hears() | self.core_hears() {}
            while self.settles() {}
            if round % 2 == 0 {
                self.provider.ends("completed");
            }
            self.passes(500);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn the_provider_is_sent_nothing_that_it_refuses_and_each_call_has_one_output(
        what in prop::collection::vec(0_u8..26, 0..300),
    ) {
        let mut world = World::new();
        for one in what {
            world.happens(one);
        }
        world.ends();
        world.wrong.append(&mut world.provider.wrong);
        prop_assert!(world.wrong.is_empty(), "{:?}", world.wrong);
        let known: Vec<&String> = world.provider.called.difference(&world.provider.answered).collect();
        prop_assert!(known.is_empty(), "no output of {known:?}");
        let live = world.state.live().unwrap();
        prop_assert!(live.commands().is_empty(), "not taken: {:?}", live.commands());
        prop_assert!(world.session.is_open() && world.session.is_still());
    }
}
