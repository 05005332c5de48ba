//! What holds in every call, whatever happens in it and however it is cut.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::*;
use proptest::prelude::*;
use serde_json::json;

use crate::transfer::{NAME as TRANSFER, transfers};
use crate::world::{Call, TOOLS, asked};

/// The tools that the model asks for.
fn tool(number: usize) -> &'static str {
    TOOLS.get(number).map_or(TRANSFER, |(name, _)| name)
}

/// Something that may happen. What is impossible at its time, such as the end of a response that is not active, is left out.
#[derive(Debug, Clone)]
enum Happens {
    Speech,
    Began,
    Ended(ResponseEnd),
    Asked { tool: usize, n: u64 },
    AskedAgain(usize),
    Withdrawn(usize),
    Outcome { which: usize, code: Option<FailureCode> },
    Doubt(usize),
    Answered { which: usize, yes: bool },
    Taken(usize),
    Busy,
    Wait(u64),
    Lost,
    Attached,
    Digit(char),
    Cut,
    Lasted(u64),
    HungUp,
}

fn happens() -> impl Strategy<Value = Happens> {
    let end = prop_oneof![
        3 => Just(ResponseEnd::Completed),
        1 => Just(ResponseEnd::Interrupted),
        1 => Just(ResponseEnd::Failed)
    ];
    let code = prop_oneof![
        Just(FailureCode::ToolFailed),
        Just(FailureCode::Indeterminate),
        Just(FailureCode::Unavailable),
        Just(FailureCode::Timeout)
    ];
    prop_oneof![
        3 => Just(Happens::Speech),
        5 => Just(Happens::Began),
        5 => end.prop_map(Happens::Ended),
        8 => (0..=TOOLS.len(), 0..3_u64).prop_map(|(tool, n)| Happens::Asked { tool, n }),
        1 => any::<usize>().prop_map(Happens::AskedAgain),
        1 => any::<usize>().prop_map(Happens::Withdrawn),
        6 => (any::<usize>(), prop::option::weighted(0.3, code))
            .prop_map(|(which, code)| Happens::Outcome { which, code }),
        1 => any::<usize>().prop_map(Happens::Doubt),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, yes)| Happens::Answered { which, yes }),
        6 => any::<usize>().prop_map(Happens::Taken),
        1 => Just(Happens::Busy),
        4 => (1..12_000_u64).prop_map(Happens::Wait),
        1 => Just(Happens::Lost),
        1 => Just(Happens::Attached),
        1 => Just(Happens::Digit('1')),
        1 => Just(Happens::Cut),
        1 => (0..60_000_u64).prop_map(Happens::Lasted),
        1 => Just(Happens::HungUp),
    ]
}

/// A call, and a provider that keeps to the protocol.
struct Play {
    call: Call,
    active: Option<String>,
    /// A response of the provider's own and one of ours may not be active together.
    ours: Option<OperationId>,
    speaking: bool,
    responses: usize,
    asked: Vec<(String, String, usize, u64)>,
    completed: BTreeSet<String>,
    withdrawn: BTreeSet<String>,
    /// The calls that were told of while their answer was still possible.
    known_calls: BTreeSet<String>,
    hung_up: bool,
}

impl Play {
    fn new() -> Self {
        let mut call = Call::with(transfers());
        call.tell(LiveNews::Connected);
        Self {
            call,
            active: None,
            ours: None,
            speaking: false,
            responses: 0,
            asked: Vec::new(),
            completed: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            known_calls: BTreeSet::new(),
            hung_up: false,
        }
    }

    fn pick<T: Clone>(from: &[T], which: usize) -> Option<T> {
        from.get(which.checked_rem(from.len())?).cloned()
    }

    fn under_way(&self) -> Vec<Operation> {
        let pending = self.call.state.pending().iter();
        let open = pending.filter(|pending| pending.outcome.is_none() && !pending.operation.is_declarative());
        open.map(|pending| pending.operation.clone()).collect()
    }

    fn respond(&self) -> Option<LiveCommand> {
        let is_respond = |one: &LiveCommand| matches!(one.kind, CommandKind::Respond { .. });
        self.call.outbox().into_iter().find(is_respond)
    }

    fn happen(&mut self, happens: &Happens) {
        let before = self.call.commands.len();
        let quiet = self.active.is_none() && !self.speaking;
        match happens {
            Happens::Speech => {
                self.speaking = !self.speaking;
                let news = if self.speaking { LiveNews::SpeechStarted } else { LiveNews::SpeechStopped };
                self.call.tell(news);
            }
            Happens::Began if self.active.is_none() => {
                self.responses += 1;
                let response = format!("r{}", self.responses);
                let command = self.respond().map(|respond| respond.id);
                if let Some(command) = command {
                    self.call.tell(LiveNews::Taken { command });
                }
                self.active = Some(response.clone());
                self.ours = command;
                self.call.tell(LiveNews::ResponseBegan { response, command });
            }
            Happens::Ended(end) => {
                if let Some(response) = self.active.take() {
                    if *end == ResponseEnd::Completed {
                        self.completed.insert(response.clone());
                    }
                    self.call.tell(LiveNews::ResponseEnded { response, end: *end });
                }
            }
            Happens::Asked { tool, n } => {
                if let Some(response) = self.active.clone() {
                    let call_id = format!("c{}", self.asked.len());
                    self.asked.push((response.clone(), call_id.clone(), *tool, *n));
                    if self.call.tell(asked(&response, &call_id, self::tool(*tool), *n)) {
                        self.known_calls.insert(call_id);
                    }
                }
            }
            Happens::AskedAgain(which) => {
                if let Some((response, call_id, tool, n)) = Self::pick(&self.asked, *which) {
                    self.call.tell(asked(&response, &call_id, self::tool(tool), n + 1));
                }
            }
            Happens::Withdrawn(which) => {
                if let Some((_, call_id, ..)) = Self::pick(&self.asked, *which) {
                    self.withdrawn.insert(call_id.clone());
                    self.call.tell(LiveNews::Withdrawn { call_id });
                }
            }
            Happens::Outcome { which, code } => {
                let free: Vec<_> = self
                    .under_way()
                    .into_iter()
                    .filter(|one| !matches!(one.gate, GateState::Waiting(_)))
                    .collect();
                if let Some(operation) = Self::pick(&free, *which) {
                    let outcome = match code {
                        None if matches!(operation.request, Request::Transfer(_)) => {
                            Outcome::TransferRequested
                        }
                        None => Outcome::ToolReturned(ToolReturn::structured(json!({ "n": which }))),
                        Some(code) => Outcome::Failed(Failure::new(*code, "no")),
                    };
                    self.call.outcome(operation.id, outcome);
                }
            }
            Happens::Doubt(which) => {
                let unsafe_ones: Vec<_> = self
                    .under_way()
                    .into_iter()
                    .filter(|one| one.terms.class == EffectClass::Unsafe && one.gate == GateState::Open)
                    .collect();
                if let Some(operation) = Self::pick(&unsafe_ones, *which) {
                    self.call.gate(operation.id, Gate::InDoubt { reason: "lost".into() });
                }
            }
            Happens::Answered { which, yes } => {
                let waiting: Vec<_> = self
                    .under_way()
                    .into_iter()
                    .filter(|one| matches!(one.gate, GateState::Waiting(_)))
                    .collect();
                if let Some(operation) = Self::pick(&waiting, *which) {
                    let answer = match (&operation.gate, yes) {
                        (GateState::Waiting(Gate::InDoubt { .. }), true) => {
                            Answer::Done { result: None, error: None, by: None }
                        }
                        (GateState::Waiting(Gate::InDoubt { .. }), false) => Answer::NotDone { by: None },
                        (_, true) => Answer::Approved { edited: None, reason: None, by: None },
                        (_, false) => Answer::Denied { reason: None, by: None },
                    };
                    self.call.answer(operation.id, answer);
                }
            }
            Happens::Taken(which) => {
                let outbox = self.call.outbox();
                let plain: Vec<_> = outbox
                    .into_iter()
                    .filter(|one| !matches!(one.kind, CommandKind::Respond { .. }))
                    .collect();
                if let Some(command) = Self::pick(&plain, *which) {
                    self.call.tell(LiveNews::Taken { command: command.id });
                }
            }
            Happens::Busy => {
                // Also with a response that no news told of.
                if let Some(respond) = self.respond() {
                    let (code, message) = ("busy".into(), String::new());
                    self.call.tell(LiveNews::Refused { command: respond.id, code, message });
                    assert!(self.respond().is_none(), "a busy session is asked again at once");
                }
            }
            Happens::Wait(millis) => {
                self.call.now += millis;
                let wake_at = self.call.state.wake_at(&self.call.config);
                if wake_at.is_some_and(|at| at.as_millis() <= self.call.now) {
                    self.call.tell(LiveNews::Woke);
                }
            }
            Happens::Lost => {
                self.call.tell(LiveNews::Lost { reason: "reset".into() });
            }
            Happens::Attached => {
                // A response that was active goes on unseen.
                self.active = None;
                self.speaking = false;
                self.call.tell(LiveNews::Attached);
            }
            Happens::Digit(digit) => {
                self.call.tell(LiveNews::Digit { digit: *digit });
            }
            Happens::Cut => {
                let response = format!("r{}", self.responses);
                self.call.tell(LiveNews::Cut { response, heard_ms: 300 });
            }
            Happens::Lasted(millis) => {
                self.call.tell(LiveNews::Lasted { millis: *millis, cost_nano_usd: Some(1) });
            }
            Happens::HungUp => {
                self.hung_up = true;
                self.call.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() });
            }
            Happens::Began => {}
        }
        self.check(before, quiet);
    }

    /// What holds after each thing that happened.
    fn check(&self, before: usize, was_quiet: bool) {
        let is_respond = |one: &&LiveCommand| matches!(one.kind, CommandKind::Respond { .. });
        let outbox = self.call.outbox();
        assert!(outbox.iter().filter(is_respond).count() <= 1, "one response of ours at a time");
        if self.call.commands[before..].iter().any(|one| is_respond(&one)) {
            assert!(self.active.is_none() && !self.speaking, "nobody speaks: {was_quiet}");
        }
        let mut outputs: BTreeMap<&str, usize> = BTreeMap::new();
        for command in &self.call.commands {
            if let CommandKind::Output { call_id, content } = &command.kind {
                *outputs.entry(call_id).or_default() += 1;
                assert!(content.len() <= TEXT_BYTES_MAX);
                assert!(self.known_calls.contains(call_id), "no output without a call");
            }
        }
        assert!(outputs.values().all(|count| *count == 1), "one output each: {outputs:?}");
        let is_transfer = |one: &&Operation| matches!(one.request, Request::Transfer(_));
        assert!(self.under_way().iter().filter(is_transfer).count() <= 1, "one transfer at a time");
        for operation in self.call.operations.iter().filter(is_transfer) {
            let by = |(response, _, number, n): &(String, String, usize, u64)| {
                tool(*number) == TRANSFER && matches!(n, 1..=3) && self.completed.contains(response)
            };
            assert!(self.asked.iter().any(by), "only a completed response transfers: {operation:?}");
            assert!(!self.call.concluded.contains_key(&operation.id), "what was sent is never stopped");
        }
        for operation in &self.call.operations {
            let Request::ToolCall(call) = &operation.request else { continue };
            let changes = matches!(operation.terms.class, EffectClass::Keyed | EffectClass::Unsafe);
            if changes {
                let n = call.parameters["n"].as_u64().unwrap();
                let by = |(response, _, tool, asked): &(String, String, usize, u64)| {
                    self::tool(*tool) == call.tool_name.as_str()
                        && *asked == n
                        && self.completed.contains(response)
                };
                assert!(self.asked.iter().any(by), "only a completed response changes something: {call:?}");
                let outcome = self.call.concluded.get(&operation.id);
                assert!(
                    outcome.is_none_or(|outcome| matches!(outcome, Outcome::Failed(failure)
                        if failure.code == FailureCode::Denied)),
                    "what was sent is never stopped: {outcome:?}"
                );
            }
        }
        let ids: BTreeSet<_> = self.call.commands.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), self.call.commands.len(), "no two commands have one id");
        let ids: BTreeSet<_> = self.call.operations.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), self.call.operations.len(), "no two operations have one id");
        if let Some(live) = self.call.state.live() {
            assert!(live.commands().len() <= 65 && live.calls().len() <= 16);
        }
    }

    /// Everything ends that is under way, and every call has its output.
    fn wind_down(&mut self) {
        if self.hung_up || self.call.response.is_some() {
            return;
        }
        if let Some(response) = self.active.take() {
            self.completed.insert(response.clone());
            self.call.tell(LiveNews::ResponseEnded { response, end: ResponseEnd::Completed });
        }
        for _ in 0..2_000 {
            let Some(operation) = self.under_way().pop() else { break };
            match operation.gate {
                GateState::Waiting(Gate::InDoubt { .. }) => {
                    self.call.answer(operation.id, Answer::Done { result: None, error: None, by: None });
                }
                GateState::Waiting(_) => {
                    self.call.answer(operation.id, Answer::Denied { reason: None, by: None });
                }
                GateState::Open | GateState::Answered => match operation.request {
                    Request::Transfer(_) => self.call.outcome(operation.id, Outcome::TransferRequested),
                    _ => self.call.returns(operation.id, json!("late")),
                },
            }
        }
        let closed = self.call.commands.iter().any(|one| matches!(one.kind, CommandKind::Close { .. }));
        for call_id in &self.known_calls {
            let count = self.call.outputs(call_id).len();
            let may_lack = self.withdrawn.contains(call_id) || closed;
            assert!(count == 1 || (may_lack && count == 0), "{call_id} has {count} outputs");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_whatever_happens(course in prop::collection::vec(happens(), 1..120)) {
        let mut play = Play::new();
        for happens in &course {
            if play.hung_up || play.call.response.is_some() {
                break;
            }
            play.happen(happens);
        }
        play.wind_down();
    }

    /// However many things come before a step, and wherever a state is saved and loaded, the same follows in the same order.
    #[test]
    fn a_cut_changes_nothing(
        course in prop::collection::vec(happens(), 1..80),
        cuts in prop::collection::vec(any::<bool>(), 1..16),
    ) {
        let mut play = Play::new();
        for happens in &course {
            if play.hung_up || play.call.response.is_some() {
                break;
            }
            play.happen(happens);
        }
        let mut again = Call::with(transfers());
        for (event, stays) in play.call.events.clone().into_iter().zip(cuts.iter().cycle()) {
            if !stays {
                again.settle();
                let bytes = rmp_serde::to_vec_named(&Envelope::new(again.state.clone())).unwrap();
                again.state = rmp_serde::from_slice::<Envelope>(&bytes).unwrap().open().unwrap();
            }
            if !again.take(event.clone()) {
                // What it is about must have been asked for.
                again.settle();
                prop_assert!(again.take(event.clone()), "{event:?}");
            }
        }
        again.settle();
        prop_assert_eq!(&again.commands, &play.call.commands);
        prop_assert_eq!(&again.operations, &play.call.operations);
        prop_assert_eq!(&again.concluded, &play.call.concluded);
        prop_assert_eq!(&again.response, &play.call.response);
        prop_assert_eq!(&again.state, &play.call.state);
    }
}

/// The state of a call in which the same happens over and over, after that many rounds, without its transcript.
fn size_after(rounds: usize) -> usize {
    let mut call = Call::open();
    for round in 0..rounds {
        call.after(20_000).tell(LiveNews::SpeechStarted);
        call.tell(LiveNews::SpeechStopped);
        call.tell(LiveNews::Heard { text: "Is there a table?".into() });
        call.calls(&format!("r{round}"), &format!("c{round}"), "book.find", round as u64);
        let id = call.operations.last().unwrap().id;
        call.returns(id, json!("yes"));
        let respond = call.outbox().last().unwrap().id;
        call.take_all();
        let response = format!("s{round}");
        call.tell(LiveNews::ResponseBegan { response: response.clone(), command: Some(respond) });
        call.tell(LiveNews::Said { text: "There is.".into(), heard_ms: None });
        call.ended(&response, ResponseEnd::Completed);
    }
    let live = call.state.live().unwrap();
    assert!(live.calls().is_empty() && live.commands().is_empty() && call.state.pending().is_empty());
    serde_json::to_vec(live).unwrap().len()
}

#[test]
fn what_a_call_keeps_does_not_grow_with_its_turns() {
    let (some, many) = (size_after(300), size_after(900));
    assert!(many <= some + 64, "{some} bytes after 300 turns, {many} after 900");
}
