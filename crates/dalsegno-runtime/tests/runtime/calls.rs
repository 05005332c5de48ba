//! A call over its channels: what is recorded, what is sent, and what a process that attaches finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Behaviour, World};
use dalsegno_core::{
    AgentRequest, CommandKind, EffectClass, EndedBy, LiveCommand, LiveNews, OperationId, ResponseEnd, RunId,
    Status, Surface, Timestamp,
};
use dalsegno_runtime::{
    Clock, Conversation, Engine, ForkOptions, RunEnd, RunReport, StartOptions, SystemClock,
};
use dalsegno_store::{Body, Message, RecordKind, RunFilter};
use serde_json::{Value, json};

const AGENT: &str = "[model]\nuse = \"default\"\n[tools]\nallow = [\"t.*\"]\napprove = [\"t.pay\"]\n[voice]\nfiller = false\n";

fn world(agent: &str) -> World {
    World::new(agent)
        .script("")
        .tool("t.find", EffectClass::Read, Behaviour::Answer(json!("a table")))
        .tool("t.wait", EffectClass::Read, Behaviour::Hang)
        .tool("t.send", EffectClass::Unsafe, Behaviour::Answer(json!("sent")))
        .tool("t.pay", EffectClass::Unsafe, Behaviour::Answer(json!("paid")))
}

/// A surface that is written down in the test itself.
struct Desk {
    call: Conversation,
    run: RunId,
}

impl Desk {
    async fn call(engine: &Engine) -> Self {
        let options = StartOptions { key: Some("call-1".to_owned()), ..StartOptions::default() };
        let request = AgentRequest::text("");
        let call = engine.converse(&"a".parse().unwrap(), Surface::Script, request, options).await;
        let call = call.unwrap_or_else(|error| panic!("{error}: {error:#?}"));
        let run = call.handle.run();
        Self { call, run }
    }

    async fn tell(&self, news: LiveNews) {
        self.call.news.send(news).await.unwrap();
    }

    /// The next command, which the session takes.
    async fn next(&mut self) -> CommandKind {
        let LiveCommand { id, kind } = self.call.commands.recv().await.expect("a command");
        self.tell(LiveNews::Taken { command: id }).await;
        if let CommandKind::Respond { .. } = kind {
            let response = format!("ours-{id}");
            self.tell(LiveNews::ResponseBegan { response: response.clone(), command: Some(id) }).await;
            self.tell(LiveNews::ResponseEnded { response, end: ResponseEnd::Completed }).await;
        }
        kind
    }

    async fn asks(&self, response: &str, calls: &[(&str, &str, Value)]) {
        self.tell(LiveNews::ResponseBegan { response: response.into(), command: None }).await;
        for (call_id, name, arguments) in calls {
            let call = dalsegno_core::CallRequest {
                call_id: (*call_id).to_owned(),
                name: (*name).to_owned(),
                arguments: arguments.to_string(),
                validation: None,
            };
            self.tell(LiveNews::Asked { response: response.into(), call }).await;
        }
        let end = ResponseEnd::Completed;
        self.tell(LiveNews::ResponseEnded { response: response.into(), end }).await;
    }

    async fn hang_up(self) -> RunReport {
        self.tell(LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() }).await;
        self.call.handle.finish().await.unwrap()
    }
}

async fn replays(engine: &Engine, run: RunId) {
    let report = engine.journal().replay(run).await.unwrap();
    let records = engine.journal().inspect(run, None).await.unwrap().records;
    let bodies: Vec<&Body> = records.iter().skip(1).map(|record| &record.body).collect();
    assert!(report.identical, "{report:?}: {bodies:#?}");
}

#[tokio::test]
async fn a_call_is_carried_recorded_and_replayed() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    assert!(matches!(desk.next().await, CommandKind::Session { .. }));
    desk.tell(LiveNews::Connected).await;
    desk.tell(LiveNews::Heard { text: "Is there a table?".into() }).await;
    desk.asks("r1", &[("c1", "t__find", json!({ "n": "2" })), ("c2", "t__burn", json!({}))]).await;
    let mut outputs = Vec::new();
    loop {
        match desk.next().await {
            CommandKind::Output { call_id, content } => outputs.push((call_id, content)),
            CommandKind::Respond { instructions: None, tools: true } if outputs.len() == 2 => break,
            CommandKind::Respond { instructions: None, tools: true } => {}
            other => panic!("{other:?}"),
        }
    }
    outputs.sort();
    assert_eq!(outputs[0], ("c1".to_owned(), "\"a table\"".to_owned()));
    assert!(outputs[1].1.contains("tool_not_found"), "{outputs:?}");
    assert_eq!(
        world.tools["t.find"].calls.lock().unwrap()[0].arguments,
        json!({ "n": 2 }),
        "as for any model"
    );
    desk.tell(LiveNews::Said { text: "There is one.".into(), heard_ms: None }).await;
    let report = desk.hang_up().await;
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!((response.status, response.answer.as_deref()), (Status::Completed, Some("There is one.")));
    replays(&engine, run).await;
    let inspected = engine.journal().inspect(run, None).await.unwrap();
    assert!(inspected.divergence.is_none());
    assert_eq!(inspected.steps[0].operations.len(), 1);
    assert!(inspected.steps[0].operations[0].outcome.is_some());
}

/// The system's clock, which can be set back by so many milliseconds.
#[derive(Clone, Default)]
struct Behind(Arc<AtomicU64>);

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() - self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_holds_up_no_call() {
    let world = world(&AGENT.replace("filler = false", "filler = false\nmax_duration = \"2s\""));
    let clock = Behind::default();
    let engine = world.builder().clock(clock.clone()).open(world.path()).await.unwrap();
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    clock.0.store(3_600_000, Ordering::SeqCst);
    // The longest duration is over after as long as it says.
    let closes = async { while !matches!(desk.next().await, CommandKind::Close { .. }) {} };
    tokio::time::timeout(Duration::from_secs(60), closes).await.unwrap();
    desk.hang_up().await;
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_call_is_not_forked_where_it_was_over() {
    let world = world(&AGENT.replace("filler = false", "filler = false\nmax_duration = \"1s\""));
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.tell(LiveNews::Said { text: "Good evening.".into(), heard_ms: None }).await;
    while !matches!(desk.next().await, CommandKind::Close { .. }) {}
    // The agent has ended it, and the caller does not know it yet.
    desk.tell(LiveNews::Heard { text: "Is there a table?".into() }).await;
    desk.hang_up().await;
    let at = |turn| ForkOptions { at: Some(turn), ..ForkOptions::default() };
    let refused = engine.fork_call(run, Surface::Script, at(2)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("run {run} cannot be forked: it is over by then: fork it at an earlier step or turn")
    );
    assert_eq!(engine.journal().runs(&RunFilter::default()).await.unwrap().len(), 1, "nothing was begun");
    engine.fork_call(run, Surface::Script, at(1)).await.unwrap();
}

#[tokio::test]
async fn a_long_call_without_a_tool_is_replayed() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    // No command is asked for, so nothing but the news themselves says how far the call has come.
    for _ in 0..1_100 {
        desk.tell(LiveNews::Heard { text: "and another thing".into() }).await;
    }
    desk.hang_up().await;
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_as_its_journal_does() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.tell(LiveNews::Said { text: "Good evening.".into(), heard_ms: None }).await;
    desk.tell(LiveNews::SpeechStarted).await;
    while engine.journal().inspect(run, None).await.unwrap().records.len() < 2 {
        tokio::task::yield_now().await;
    }
    desk.call.handle.cancel();
    let report = desk.call.handle.finish().await.unwrap();
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Cancelled);
    let inspected = engine.journal().inspect(run, None).await.unwrap();
    assert_eq!(inspected.response, Some(response));
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_read_is_let_go_when_the_model_is_interrupted() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    desk.tell(LiveNews::ResponseBegan { response: "r1".into(), command: None }).await;
    for (call_id, name) in [("c1", "t__wait"), ("c2", "t__send")] {
        let call = dalsegno_core::CallRequest {
            call_id: call_id.into(),
            name: name.into(),
            arguments: "{}".into(),
            validation: None,
        };
        desk.tell(LiveNews::Asked { response: "r1".into(), call }).await;
    }
    desk.tell(LiveNews::SpeechStarted).await;
    desk.tell(LiveNews::ResponseEnded { response: "r1".into(), end: ResponseEnd::Interrupted }).await;
    for _ in 0..2 {
        let CommandKind::Output { content, .. } = desk.next().await else { panic!("an output") };
        assert!(content.contains("cancelled"), "{content}");
    }
    let report = desk.hang_up().await;
    assert!(matches!(report.end, RunEnd::Ended(_)), "the read is not waited for: {report:?}");
    assert_eq!(world.count("t.send"), 0);
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_process_that_attaches_sends_what_was_not_taken_under_the_same_ids() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    desk.asks("r1", &[("c1", "t__send", json!({}))]).await;
    let output = desk.call.commands.recv().await.unwrap();
    let respond = desk.call.commands.recv().await.unwrap();
    assert!(matches!(&output.kind, CommandKind::Output { content, .. } if content == "\"sent\""));
    desk.call.handle.interrupt();
    let report = desk.call.handle.finish().await.unwrap();
    assert_eq!(report.end, RunEnd::Interrupted);
    drop(engine);

    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    assert_eq!(desk.run, run);
    desk.tell(LiveNews::Attached).await;
    let again: [LiveCommand; 2] =
        [desk.call.commands.recv().await.unwrap(), desk.call.commands.recv().await.unwrap()];
    assert_eq!(again, [output, respond]);
    // After `attached` whatever was not taken comes once more, and a note of the gap.
    let mut ids: Vec<OperationId> = Vec::new();
    loop {
        let LiveCommand { id, kind } = desk.call.commands.recv().await.unwrap();
        ids.push(id);
        desk.tell(LiveNews::Taken { command: id }).await;
        if let CommandKind::Note { text } = kind {
            assert!(text.contains("ask again"));
            break;
        }
    }
    assert!(ids.starts_with(&again.map(|one| one.id)), "{ids:?}");
    // A repeated call is answered by what was done before the gap.
    desk.asks("r2", &[("c2", "t__send", json!({}))]).await;
    loop {
        if let CommandKind::Output { call_id, content } = desk.next().await {
            assert_eq!((call_id.as_str(), content.as_str()), ("c2", "\"sent\""));
            break;
        }
    }
    desk.hang_up().await;
    assert_eq!(world.count("t.send"), 1);
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_call_whose_surface_is_gone_is_over() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    let Conversation { handle, news, commands, stay: _ } = desk.call;
    drop((news, commands));
    let report = handle.finish().await.unwrap();
    let RunEnd::Ended(response) = report.end else { panic!("{report:?}") };
    assert_eq!(response.status, Status::Failed);
    assert!(response.error.unwrap().message.contains("the process that carried it has ended"));
    replays(&engine, run).await;
}

#[tokio::test]
async fn a_note_stays_for_the_process_that_takes_the_call_over() {
    let world = world(AGENT).tool("t.send", EffectClass::Unsafe, Behaviour::Slow(800));
    let engine = world.engine().await;
    let (agent, options) = ("a".parse().unwrap(), StartOptions::default());
    let call = engine.converse(&agent, Surface::Telephone, AgentRequest::text(""), options).await.unwrap();
    let run = call.handle.run();
    let desk = Desk { call, run };
    desk.tell(LiveNews::Connected).await;
    desk.asks("r1", &[("c1", "t__send", json!({}))]).await;
    while world.count("t.send") == 0 {
        tokio::task::yield_now().await;
    }
    // The process lets go of the call, and waits for what it has sent.
    let Conversation { handle, news, commands, stay: _ } = desk.call;
    handle.interrupt();
    drop((news, commands));
    world.engine().await.say(run, "The kitchen is closed.".into(), None).await.unwrap();
    let report = handle.finish().await.unwrap();
    assert!(!matches!(report.end, RunEnd::Ended(_)), "{report:?}");
    let waits = engine.journal().store().inbox(run).await.unwrap();
    let [(_, Message::Say { text, .. })] = &waits[..] else { panic!("{waits:?}") };
    assert_eq!(text, "The kitchen is closed.");
    assert_eq!(world.count("t.send"), 1);
}

#[tokio::test]
async fn after_the_call_a_run_waits_for_whom_the_agents_file_says() {
    let world = world(&format!("{AGENT}after_hangup = \"keep\"\n"));
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    desk.asks("r1", &[("c1", "t__pay", json!({}))]).await;
    let CommandKind::Output { content, .. } = desk.next().await else { panic!("an output") };
    assert!(content.contains("running"), "{content}");
    let report = desk.hang_up().await;
    assert_eq!(crate::support::waits(&report).len(), 1);
    let report = world.resume(run, Some(dalsegno_runtime::Settlement::approve())).await;
    assert!(matches!(report.end, RunEnd::Ended(_)));
    assert_eq!(world.count("t.pay"), 1);
    replays(&engine, run).await;
}

#[tokio::test]
async fn what_the_session_was_never_sent_cannot_be_taken_and_a_journal_that_says_so_differs() {
    let world = world(AGENT);
    let engine = world.engine().await;
    let mut desk = Desk::call(&engine).await;
    let run = desk.run;
    desk.tell(LiveNews::Connected).await;
    desk.next().await;
    let never = OperationId::from_bytes([9; 16]);
    desk.tell(LiveNews::Taken { command: never }).await;
    desk.tell(LiveNews::Heard { text: "hello".into() }).await;
    desk.hang_up().await;
    replays(&engine, run).await;
    let inspected = engine.journal().inspect(run, None).await.unwrap();
    let (config, mut records) = (inspected.config, inspected.records);
    let is_call = |body: &Body| matches!(body, Body::Conversed { .. });
    assert!(records.iter().any(|record| is_call(&record.body)));
    let place = records.iter().position(|record| is_call(&record.body)).unwrap();
    let Body::Conversed { news } = &mut records[place].body else { unreachable!() };
    news.push(LiveNews::Taken { command: never });
    let origin = dalsegno_core::AgentState::start(
        run,
        AgentRequest { surface: Some(Surface::Script), ..AgentRequest::text("") },
        records[0].at,
    );
    let mut fold = dalsegno_history::Fold::begin(config, run, &records[0], origin).unwrap();
    let told = records[1..].iter().try_for_each(|record| fold.apply(record)).unwrap_err();
    assert!(told.to_string().contains("it was never sent"), "{told}");
}

#[tokio::test]
async fn an_agent_without_a_voice_takes_no_calls() {
    let world = world("[model]\nuse = \"default\"\n");
    let engine = world.engine().await;
    let request = AgentRequest::text("");
    let called =
        engine.converse(&"a".parse().unwrap(), Surface::Script, request, StartOptions::default()).await;
    assert!(called.unwrap_err().to_string().contains("`[voice]`"));
    // A run that is no call never becomes one.
    let request = AgentRequest { surface: Some(Surface::Script), ..AgentRequest::text("hello") };
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let run = handle.run();
    drop(handle.finish().await);
    let records = engine.journal().inspect(run, None).await.unwrap().records;
    assert!(records.iter().all(|record| record.body.kind() != RecordKind::Conversed));
}
