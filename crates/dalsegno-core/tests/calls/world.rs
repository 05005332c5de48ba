//! A call in memory: an agent with a tool of each class, what happens in the call, and a shell that keeps a book of it.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::*;
use serde_json::{Value, json};

/// The tools: one of each class, and one that a person must agree to.
pub(crate) const TOOLS: [(&str, EffectClass); 5] = [
    ("book.find", EffectClass::Read),
    ("book.set", EffectClass::Idempotent),
    ("book.add", EffectClass::Keyed),
    ("book.send", EffectClass::Unsafe),
    ("book.pay", EffectClass::Unsafe),
];

pub(crate) fn config() -> AgentConfig {
    let mind = json!({
        "model": { "model": ModelSettings::named("default"), "instructions": "Take calls.", "prompt": "{{request.text}}", "recall": null }
    });
    let mut config = AgentConfig::new("desk".parse().unwrap(), serde_json::from_value(mind).expect("a mind"));
    for (name, class) in TOOLS {
        let mut tool = Tool::new(name.into(), json!({ "type": "object" }));
        tool.class = class;
        tool.approve = name == "book.pay";
        config.tools.tools.insert(name.parse().unwrap(), tool);
    }
    config.limits.max_tool_calls = 10_000;
    config.voice = Some(Box::default());
    config
}

pub(crate) fn start() -> AgentState {
    let request = AgentRequest { surface: Some(Surface::Script), ..AgentRequest::text("") };
    AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(0))
}

/// What a shell has seen of a call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) config: AgentConfig,
    pub(crate) state: AgentState,
    pub(crate) now: u64,
    /// Every command once, in the order in which they were first there.
    pub(crate) commands: Vec<LiveCommand>,
    /// Every operation once, as it was asked for.
    pub(crate) operations: Vec<Operation>,
    /// What the core itself came to.
    pub(crate) concluded: BTreeMap<OperationId, Outcome>,
    pub(crate) response: Option<AgentResponse>,
    /// The events that were taken, in order.
    pub(crate) events: Vec<Event>,
}

impl Call {
    /// A call whose session is open.
    pub(crate) fn open() -> Self {
        let mut call = Self::with(config());
        call.tell(LiveNews::Connected);
        call
    }

    pub(crate) fn with(config: AgentConfig) -> Self {
        Self::of(config, start())
    }

    /// A call of a telephone, which rings.
    pub(crate) fn ringing(config: AgentConfig) -> Self {
        Self::on(Surface::Telephone, config)
    }

    /// A call over this surface.
    pub(crate) fn on(surface: Surface, config: AgentConfig) -> Self {
        let request = AgentRequest { surface: Some(surface), ..AgentRequest::text("") };
        Self::of(config, AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(0)))
    }

    fn of(config: AgentConfig, state: AgentState) -> Self {
        let mut call = Self {
            config,
            state,
            now: 0,
            commands: Vec::new(),
            operations: Vec::new(),
            concluded: BTreeMap::new(),
            response: None,
            events: Vec::new(),
        };
        call.step();
        call
    }

    pub(crate) fn after(&mut self, millis: u64) -> &mut Self {
        self.now += millis;
        self
    }

    /// One step.
    pub(crate) fn step(&mut self) {
        let action = execute_agent_step(&self.config, self.state.clone()).expect("the protocol is kept");
        if let AgentAction::Converse { commands, wake_at, continuation, .. } = &action {
            assert_eq!(*wake_at, continuation.state.wake_at(&self.config));
            for command in commands {
                if !self.commands.iter().any(|known| known.id == command.id) {
                    self.commands.push(command.clone());
                }
            }
        }
        self.response = action.response().cloned();
        let continuation = action.into_continuation();
        self.operations.extend(continuation.asked().cloned());
        let concluded = continuation.concluded().map(|(id, outcome)| (id, outcome.clone()));
        self.concluded.extend(concluded);
        self.state = continuation.state;
    }

    /// Takes an event; whether it was taken.
    pub(crate) fn take(&mut self, event: Event) -> bool {
        let taken = self.state.resume(event.clone()).is_ok();
        if taken {
            self.events.push(event);
        }
        taken
    }

    pub(crate) fn settle(&mut self) {
        while self.response.is_none() && self.state.is_ready() {
            self.step();
        }
    }

    pub(crate) fn tell(&mut self, news: LiveNews) -> bool {
        let taken = self.take(Event::live(Timestamp::from_millis(self.now), news));
        self.settle();
        taken
    }

    pub(crate) fn outcome(&mut self, id: OperationId, outcome: Outcome) {
        self.take(Event::outcome(Timestamp::from_millis(self.now), id, outcome));
        self.settle();
    }

    pub(crate) fn returns(&mut self, id: OperationId, value: Value) {
        self.outcome(id, Outcome::ToolReturned(ToolReturn::structured(value)));
    }

    pub(crate) fn gate(&mut self, id: OperationId, gate: Gate) {
        self.take(Event::gated(Timestamp::from_millis(self.now), id, gate));
        self.settle();
    }

    pub(crate) fn answer(&mut self, id: OperationId, answer: Answer) {
        self.take(Event::answer(Timestamp::from_millis(self.now), id, answer));
        self.settle();
    }

    /// The session takes every command that it has not taken.
    pub(crate) fn take_all(&mut self) {
        for id in self.outbox().into_iter().map(|command| command.id).collect::<Vec<_>>() {
            self.tell(LiveNews::Taken { command: id });
        }
    }

    pub(crate) fn outbox(&self) -> Vec<LiveCommand> {
        self.state.live().map(|live| live.commands().to_vec()).unwrap_or_default()
    }

    pub(crate) fn began(&mut self, response: &str) {
        self.tell(LiveNews::ResponseBegan { response: response.into(), command: None });
    }

    pub(crate) fn ended(&mut self, response: &str, end: ResponseEnd) {
        self.tell(LiveNews::ResponseEnded { response: response.into(), end });
    }

    /// The model asks for a tool with one argument.
    pub(crate) fn asks(&mut self, response: &str, call_id: &str, tool: &str, n: u64) {
        self.tell(asked(response, call_id, tool, n));
    }

    /// One response that asks for one tool, and completes.
    pub(crate) fn calls(&mut self, response: &str, call_id: &str, tool: &str, n: u64) {
        self.began(response);
        self.asks(response, call_id, tool, n);
        self.ended(response, ResponseEnd::Completed);
    }

    /// One response of words alone.
    pub(crate) fn calls_nothing(&mut self, response: &str) {
        self.began(response);
        self.ended(response, ResponseEnd::Completed);
    }

    /// The outputs of a call so far.
    pub(crate) fn outputs(&self, of: &str) -> Vec<&str> {
        let outputs = self.commands.iter().filter_map(|command| match &command.kind {
            CommandKind::Output { call_id, content } if call_id == of => Some(content.as_str()),
            _ => None,
        });
        outputs.collect()
    }

    pub(crate) fn notes(&self) -> Vec<&str> {
        let notes = self.commands.iter().filter_map(|command| match &command.kind {
            CommandKind::Note { text } => Some(text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    /// How often the model was asked to speak.
    pub(crate) fn responds(&self) -> usize {
        self.commands.iter().filter(|one| matches!(one.kind, CommandKind::Respond { .. })).count()
    }

    pub(crate) fn open_operations(&self) -> BTreeSet<OperationId> {
        let open = self.state.pending().iter().filter(|pending| pending.outcome.is_none());
        open.map(|pending| pending.operation.id).collect()
    }
}

pub(crate) fn asked(response: &str, call_id: &str, tool: &str, n: u64) -> LiveNews {
    let arguments = json!({ "n": n });
    let call = CallRequest {
        call_id: call_id.into(),
        name: tool.into(),
        arguments: arguments.to_string(),
        validation: Some(Validation::Valid { arguments }),
    };
    LiveNews::Asked { response: response.into(), call }
}
