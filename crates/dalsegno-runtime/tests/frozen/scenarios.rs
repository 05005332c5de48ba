//! The runs of the archives: together they have every kind of record.

use std::pin::Pin;
use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, RunId, Surface};
use dalsegno_models::LiveTwin;
use dalsegno_runtime::{
    AbandonOptions, AdoptOptions, Conversation, Engine, ForkOptions, NewAttachment, Received, RunReport,
    Settlement, StartOptions,
};
use dalsegno_store::{Body, RunFilter};
use serde_json::json;

use crate::support::{Behaviour, World, waits};

type Act = fn(&World) -> Pin<Box<dyn Future<Output = RunId> + '_>>;

/// What a set has of one kind.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) world: fn() -> World,
    /// Makes the runs, and says which one is exported with all that belongs to it.
    pub(crate) act: Act,
    /// How the run goes on that is left open, if one is.
    pub(crate) open: Option<Open>,
}

/// How an open run goes on.
pub(crate) struct Open {
    pub(crate) settlement: fn() -> Option<Settlement>,
    pub(crate) answer: &'static str,
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "plan", world: plan, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "model", world: model, act: |world| Box::pin(twice(world)), open: None },
    Scenario { name: "compaction", world: compaction, act: |world| Box::pin(chat(world, 6)), open: None },
    Scenario {
        name: "approval",
        world: approval,
        act: |world| Box::pin(once(world)),
        open: Some(Open { settlement: approve, answer: "wrote 1" }),
    },
    Scenario {
        name: "session",
        world: session,
        act: |world| Box::pin(chat(world, 3)),
        open: Some(Open { settlement: || Some(Settlement::Give { value: json!("fine") }), answer: "fine" }),
    },
    Scenario {
        name: "doubt",
        world: doubt,
        act: |world| Box::pin(once(world)),
        open: Some(Open { settlement: done, answer: "{\"n\":7}" }),
    },
    Scenario {
        name: "timer",
        world: timer,
        act: |world| Box::pin(once(world)),
        open: Some(Open { settlement: || None, answer: "waited" }),
    },
    Scenario { name: "retried", world: retried, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "failed", world: failed, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "late", world: late, act: |world| Box::pin(cancelled(world)), open: None },
    Scenario { name: "below", world: below, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "handoff", world: handoff, act: |world| Box::pin(first_of(world)), open: None },
    Scenario { name: "declarative", world: declarative, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "fork", world: approval, act: |world| Box::pin(forked(world)), open: None },
    Scenario { name: "rebound", world: rebound, act: |world| Box::pin(other_module(world)), open: None },
    Scenario { name: "tasked", world: tasked, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "denied", world: denied, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "long", world: long, act: |world| Box::pin(chat(world, 40)), open: None },
    Scenario { name: "verified", world: verified, act: |world| Box::pin(once(world)), open: None },
    Scenario { name: "adopted", world: approval, act: |world| Box::pin(adopted(world)), open: None },
    Scenario { name: "narrowed", world: approval, act: |world| Box::pin(with_less(world)), open: None },
    Scenario { name: "call", world: call, act: |world| Box::pin(called(world)), open: None },
    Scenario {
        name: "paused",
        world: approval,
        act: |world| Box::pin(paused(world)),
        open: Some(Open { settlement: approve, answer: "wrote 1" }),
    },
    Scenario { name: "abandoned", world: doubt, act: |world| Box::pin(abandoned(world)), open: None },
];

fn approve() -> Option<Settlement> {
    Some(Settlement::Approve { edited: None, reason: Some("fine".to_owned()) })
}

fn done() -> Option<Settlement> {
    Some(Settlement::Done { result: Some(json!({ "n": 7 })) })
}

async fn once(world: &World) -> RunId {
    world.run("disk full on db-1").await.run
}

/// A run that is paused, continues, and is paused again.
async fn paused(world: &World) -> RunId {
    let run = once(world).await;
    let engine = world.engine().await;
    engine.pause(run, Some("ada".to_owned()), Some("an audit".to_owned())).await.unwrap();
    engine.unpause(run, Some("eve".to_owned())).await.unwrap();
    world.resume(run, None).await;
    engine.pause(run, Some("ada".to_owned()), None).await.unwrap();
    run
}

fn call() -> World {
    World::new("[model]\nuse = \"default\"\n[tools]\nallow = [\"count\"]\n[voice]\n").script("").tool(
        "count",
        EffectClass::Unsafe,
        Behaviour::Echo,
    )
}

/// A call with a tool, an interruption and a lost connection.
const CALL: &str = r#"
turns = [
  { caller = "count" },
  { model = "One", calls = [{ tool = "count", arguments = { n = 1 } }] },
  { model = "It is counted, and now a long story", interrupt = "20ms" },
  { caller = "stop" },
  { drop = "20ms" },
  { digits = "12#" },
  { hang_up = "50ms" },
]
"#;

async fn called(world: &World) -> RunId {
    let engine = world.engine().await;
    let request = AgentRequest::text("");
    let options = StartOptions::default();
    let call = engine.converse(&"a".parse().unwrap(), Surface::Script, request, options).await.unwrap();
    let Conversation { handle, news, mut commands, stay: _ } = call;
    let mut twin = LiveTwin::new(CALL.parse().unwrap());
    let began = std::time::Instant::now();
    let now = || u64::try_from(began.elapsed().as_millis()).unwrap();
    'talk: loop {
        for one in twin.advance(now()) {
            if news.send(one).await.is_err() {
                break 'talk;
            }
        }
        let wakes_in =
            twin.wakes_at().map_or(Duration::MAX, |at| Duration::from_millis(at.saturating_sub(now())));
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => twin.take(&command),
                None => break,
            },
            () = tokio::time::sleep(wakes_in) => {}
        }
    }
    handle.finish().await.unwrap().run
}

async fn say(engine: &Engine, text: &str) -> RunReport {
    let options = StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text(text), options).await.unwrap();
    handle.finish().await.unwrap()
}

async fn chat(world: &World, messages: usize) -> RunId {
    let engine = world.engine().await;
    let mut last = None;
    for number in 0..messages {
        last = Some(say(&engine, &format!("message {number}: {}", "word ".repeat(150))).await.run);
    }
    last.unwrap()
}

async fn twice(world: &World) -> RunId {
    let engine = world.engine().await;
    let file = NewAttachment {
        name: "log.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: b"a line of a log".to_vec(),
    };
    let options = StartOptions {
        session: Some("s".to_owned()),
        attachments: vec![file],
        key: Some("key 1".to_owned()),
        ..StartOptions::default()
    };
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), options).await.unwrap();
    handle.finish().await.unwrap();
    say(&engine, "and again").await.run
}

async fn first_of(world: &World) -> RunId {
    say(&world.engine().await, "help").await.before[0]
}

async fn cancelled(world: &World) -> RunId {
    let engine = world.engine().await;
    let handle =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await.unwrap();
    let run = handle.run();
    while world.count("local.slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = engine.cancel(run, Some("ada".to_owned()), Some("not needed".to_owned())).await.unwrap();
    drop(told);
    handle.finish().await.unwrap();
    run
}

async fn forked(world: &World) -> RunId {
    let original = once(world).await;
    world.resume(original, approve()).await;
    let engine = world.engine().await;
    let records = engine.journal().inspect(original, None).await.unwrap().records;
    let first = records.iter().find(|record| matches!(record.body, Body::Requested { .. })).unwrap();
    let set = vec![(first.operation.unwrap(), json!({ "n": 2 }))];
    let options = ForkOptions { set, ..ForkOptions::default() };
    let forked = engine.fork(original, options).await.unwrap().finish().await.unwrap();
    world.resume(forked.run, approve()).await;
    forked.run
}

async fn other_module(world: &World) -> RunId {
    let report = world.run("go").await;
    assert_eq!(waits(&report).len(), 1);
    let script = std::fs::read_to_string(world.path().join("plant.sh")).unwrap();
    let offered = "{\"name\":\"work\",\"inputSchema\":{\"type\":\"object\"}}";
    assert!(script.contains(offered));
    let more = format!("{offered},{{\"name\":\"rest\",\"inputSchema\":{{\"type\":\"object\"}}}}");
    std::fs::write(world.path().join("plant.sh"), script.replace(offered, &more)).unwrap();
    world.resume(report.run, approve()).await;
    let runs = world.engine().await.journal().runs(&RunFilter::default()).await.unwrap();
    assert!(runs[0].status.is_end(), "{runs:?}");
    report.run
}

async fn adopted(world: &World) -> RunId {
    let home = approval();
    let foreign = once(&home).await;
    let archive = home.engine().await.journal().export(foreign).await.unwrap();
    let engine = world.engine().await;
    engine.archives().import(archive).await.unwrap();
    let options = AdoptOptions { by: Some("ada".to_owned()), unknown_signer: true };
    let run = engine.adopt(foreign, &options).await.unwrap().run;
    drop(engine);
    world.resume(run, None).await;
    world.resume(run, approve()).await;
    run
}

async fn with_less(world: &World) -> RunId {
    let run = once(world).await;
    let file = world.path().join("agents/a.toml");
    let agent = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, format!("{agent}[limits]\nmax_tool_calls = 1\n")).unwrap();
    world.resume(run, approve()).await;
    run
}

async fn abandoned(world: &World) -> RunId {
    let run = once(world).await;
    let options =
        AbandonOptions { reason: "its receiver is gone".to_owned(), by: Some("ada".to_owned()), force: true };
    world.engine().await.abandon(run, options).await.unwrap();
    run
}

const ALL: &str = "[tools]\nallow = [\"*\"]\n";

fn plan() -> World {
    let agent = format!(
        "{ALL}[[steps]]\nid = \"past\"\nmemory_search = {{ query = \"{{{{request.text}}}}\" }}\n\
         [[steps]]\nmemory_create = {{ entity = \"db-1\", type = \"incident\", content = \"{{{{request.text}}}}\" }}\n\
         [[steps]]\nid = \"around\"\nmemory_traverse = {{ from = \"db-1\" }}\n\
         [[steps]]\nid = \"many\"\nfor_each = \"[1, 2, 3]\"\nconcurrency = 2\ntool = \"local.read\"\nwith = {{ n = \"{{{{item}}}}\" }}\n\
         [[steps]]\nparallel = [\n  {{ id = \"one\", tool = \"local.read\", with = {{ n = 4 }} }},\n\
         \x20 {{ id = \"two\", when = \"steps.many.length > 2\", tool = \"local.keyed\", with = {{ n = 5 }} }},\n]\n\
         [[steps]]\nset = {{ sum = \"steps.one.n + steps.two.n\" }}\n\
         [[steps]]\nrespond = \"{{{{vars.sum}}}} after {{{{steps.past.length}}}}\"\n\
         [[steps]]\noutput = {{ sum = \"{{{{vars.sum}}}}\" }}\n"
    );
    World::new(&agent).tool("local.read", EffectClass::Read, Behaviour::Echo).tool(
        "local.keyed",
        EffectClass::Keyed,
        Behaviour::Echo,
    )
}

fn model() -> World {
    let agent = "instructions = \"Be brief.\"\nprompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n\
                 [tools]\nallow = [\"local.read\"]\n[limits]\nmax_tokens = 100000\n\
                 [output]\nschema = { type = \"object\", properties = { n = { type = \"integer\" } }, required = [\"n\"] }\n";
    World::new(agent)
        .script(
            "[[replies]]\ntext = \"I look.\"\ncalls = [{ name = \"local.read\", arguments = { n = 1 } }, { name = \"local.no\" }]\n\
             [[replies]]\ntext = \"{\\\"n\\\": \\\"one\\\"}\"\n[[replies]]\ntext = \"{\\\"n\\\": 1}\"\n",
        )
        .tool("local.read", EffectClass::Read, Behaviour::Echo)
}

fn compaction() -> World {
    let agent = "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[context]\nmax_tokens = 1000\ncompact = \"summarise\"\n";
    World::new(agent).script("[[replies]]\ntext = \"A short reply to what was said.\"\n")
}

fn long() -> World {
    World::new("prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n")
        .script("repeat = true\n[[replies]]\ntext = \"A short reply to what was said.\"\n")
}

fn verified() -> World {
    let agent = "[tools]\nallow = [\"*\"]\n[tools.settings.\"local.it\"]\nretries = 0\n\
         verify = { tool = \"local.find\", with = { n = \"{{operation.arguments.n}}\" }, \
         verdict = \"result.n === 7 ? 'happened' : 'unknown'\", result = \"result\", delay = \"1ms\", tries = 2 }\n\
         [[steps]]\nid = \"it\"\ntool = \"local.it\"\nwith = { n = 7 }\n[[steps]]\nrespond = \"{{steps.it}}\"\n";
    World::new(agent).tool("local.it", EffectClass::Unsafe, Behaviour::LostFirst(2, Received::Possibly)).tool(
        "local.find",
        EffectClass::Read,
        Behaviour::Echo,
    )
}

fn approval() -> World {
    let agent = format!(
        "{ALL}[[steps]]\nid = \"first\"\ntool = \"local.read\"\nwith = {{ n = 1 }}\n\
         [[steps]]\nid = \"second\"\ntool = \"local.write\"\nwith = {{ n = \"{{{{steps.first.n}}}}\" }}\napprove = true\n\
         [[steps]]\nrespond = \"wrote {{{{steps.second.n}}}}\"\n"
    );
    World::new(&agent).tool("local.read", EffectClass::Read, Behaviour::Echo).tool(
        "local.write",
        EffectClass::Unsafe,
        Behaviour::Echo,
    )
}

fn session() -> World {
    // The first two messages are answered, the third one is asked about.
    let agent = "[[steps]]\nid = \"how\"\nwhen = \"request.text.startsWith('message 2')\"\nask = \"How are you?\"\n\
                 [[steps]]\nrespond = \"{{steps.how}}\"\n";
    World::new(agent)
}

fn doubt() -> World {
    let agent = format!(
        "{ALL}[[steps]]\nid = \"it\"\ntool = \"local.write\"\nwith = {{ n = 1 }}\n[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    );
    World::new(&agent).tool("local.write", EffectClass::Unsafe, Behaviour::Lost(Received::Possibly))
}

fn timer() -> World {
    World::new("[[steps]]\nwait = \"31s\"\n[[steps]]\nrespond = \"waited\"\n")
}

fn retried() -> World {
    let agent = format!(
        "{ALL}[[steps]]\nid = \"it\"\ntool = \"local.read\"\n[[steps]]\nrespond = \"{{{{steps.it.calls}}}}\"\n"
    );
    World::new(&agent).tool("local.read", EffectClass::Read, Behaviour::LostFirst(1, Received::Possibly))
}

fn failed() -> World {
    let agent = format!("{ALL}[[steps]]\ntool = \"local.read\"\n");
    World::new(&agent).tool("local.read", EffectClass::Read, Behaviour::Error("no such row"))
}

fn late() -> World {
    let agent = format!("{ALL}[[steps]]\ntool = \"local.slow\"\nwith = {{ n = 1 }}\n");
    World::new(&agent).tool("local.slow", EffectClass::Unsafe, Behaviour::Slow(700))
}

fn below() -> World {
    let agent = format!(
        "{ALL}[[steps]]\nid = \"b\"\nagent = \"b\"\ninput = \"go\"\n[[steps]]\nrespond = \"{{{{steps.b}}}}\"\n"
    );
    World::new(&agent)
        .agent(
            "b",
            &format!(
                "{ALL}[[steps]]\ntool = \"local.read\"\nwith = {{ n = 1 }}\n[[steps]]\nrespond = \"b\"\n"
            ),
        )
        .tool("local.read", EffectClass::Read, Behaviour::Echo)
}

fn handoff() -> World {
    World::new("[[steps]]\nhandoff = \"b\"\nmessage = \"please: {{request.text}}\"\n")
        .agent("b", "[[steps]]\nrespond = \"b was told {{request.text}}\"\n")
}

fn declarative() -> World {
    let world = World::new(&format!(
        "{ALL}[[steps]]\nid = \"it\"\ntool = \"note\"\nwith = {{ text = \"milk\" }}\n[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    ));
    std::fs::create_dir(world.path().join("tools")).unwrap();
    let document = json!({
        "name": "note",
        "description": "Keeps a note.",
        "parameters": [{"name": "text", "type": "string", "required": true}],
        "actions": [
            {"type": "context.set", "path": "workflow.notes[+]", "value": "params.text"},
            {"type": "respond", "message": "kept {{params.text}}"}
        ]
    });
    std::fs::write(world.path().join("tools/note.json"), document.to_string()).unwrap();
    world
}

/// A server of the stateless revision, in nothing but what a shell has built in, that makes a task of each call.
const PLANT: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"%s",%s}}\n' "$id" "$1" "$2"; }
stands() {
  reply "$1" "\"taskId\":\"$task\",\"status\":\"$2\",\"ttlMs\":null,\"pollIntervalMs\":100,\"createdAt\":\"2026-07-28T00:00:00Z\",\"lastUpdatedAt\":\"2026-07-28T00:00:00Z\"$3"
}
task=t-1
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*) reply complete '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/list"'*) reply complete '"tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"' ;;
  *'"method":"tools/call"'*) stands task working ;;
  *'"method":"tasks/get"'*) stands complete completed ',"result":{"content":[{"type":"text","text":"made"}]}' ;;
  esac
done
"#;

fn plant(step: &str) -> World {
    let world = World::new(&format!(
        "[tools]\nallow = [\"plant.work\"]\n[[steps]]\nid = \"it\"\ntool = \"plant.work\"\n{step}[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    ))
    .settings("[servers.plant]\ncommand = [\"/bin/sh\", \"plant.sh\"]\n");
    std::fs::write(world.path().join("plant.sh"), PLANT).unwrap();
    world
}

fn tasked() -> World {
    plant("")
}

fn rebound() -> World {
    plant("approve = true\n")
}

/// A guest that tries what it is not granted. `cargo xtask guests` builds it.
fn denied() -> World {
    let world = World::new(
        "[tools]\nallow = [\"probe.*\"]\n[[steps]]\nid = \"it\"\ntool = \"probe.connect\"\nwith = { at = \"127.0.0.1:9\" }\n\
         [[steps]]\nrespond = \"{{steps.it.open}}\"\n",
    )
    .settings("[servers.probe]\nwasm = \"probe.wasm\"\n");
    let guest =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tool-servers/target/wasm32-wasip2/release/probe.wasm");
    if let Err(error) = std::fs::copy(guest, world.path().join("probe.wasm")) {
        panic!("{guest}: {error}: build the guests first: cargo xtask guests");
    }
    world
}
