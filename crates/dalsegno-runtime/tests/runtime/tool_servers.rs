//! Agents whose tools come from a child process: a server in a few lines of shell.
#![cfg(unix)]

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentRequest, EffectClass, Gate, OperationId, Request, RunId};
use dalsegno_runtime::{
    Observer, OfferedBy, Received, Secret, Settlement, StartOptions, ToolCallOptions, ToolboxError, Watch,
    Watched,
};
use dalsegno_secrets::Put;
use dalsegno_store::NewRecord;
use serde_json::json;

use crate::support::{World, answer, waits};

/// A server of the old era that uses nothing but what the shell has built in.
const PRINTER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*)
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  *'"method":"initialize"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"printer","version":"1"}}}\n' "$id" ;;
  *'"method":"tools/list"'*)
    schema='"inputSchema":{"type":"object"}'
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look",%s,"annotations":{"readOnlyHint":true}},{"name":"print",%s},{"name":"token",%s},{"name":"trace",%s}]}}\n' "$id" "$schema" "$schema" "$schema" "$schema" ;;
  *'"name":"look"'*) say "seen $REGION by $$" ;;
  *'"name":"token"'*) say "it is $TOKEN" ;;
  *'"name":"trace"'*) case $line in
    *'"traceparent":"'*) of=${line#*\"traceparent\":\"}; say "${of%%\"*}" ;;
    *) say none ;;
    esac ;;
  *'"name":"print"'*) echo 'out of paper' >&2; exit 4 ;;
  esac
done
"#;

const SETTINGS: &str = r#"
[servers.printer]
command = ["/bin/sh", "printer.sh"]
env = { REGION = "eu", TOKEN = { file = "token" } }
"#;

fn world(tool: &str, settings: &str) -> World {
    let agent = format!(
        "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"{tool}\"\n[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    );
    let world = World::new(&agent).settings(settings);
    std::fs::write(world.path().join("printer.sh"), PRINTER).unwrap();
    std::fs::write(world.path().join("token"), "tell-nobody-4711\n").unwrap();
    world
}

#[tokio::test]
async fn an_agent_calls_a_tool_of_a_child_process_and_its_run_replays_without_it() {
    let world = world("printer.look", SETTINGS);
    let report = world.run("go").await;
    assert!(answer(&report).starts_with("seen eu by "), "{}", answer(&report));
    std::fs::remove_file(world.path().join("printer.sh")).unwrap();
    let replay = world.engine().await.journal().replay(report.run).await.unwrap();
    assert!(replay.identical, "{replay:?}");
}

/// Traces every operation, with the run as its trace.
struct Tracing;

impl Observer for Tracing {
    fn watch(&self, _run: &Watched) -> Box<dyn Watch> {
        Box::new(Self)
    }

    fn traceparent(&self, root: RunId, run: RunId, operation: OperationId) -> Option<String> {
        assert_ne!(operation.as_bytes(), &[0; 16]);
        (root == run).then(|| format!("00-{run}-01"))
    }
}

impl Watch for Tracing {
    fn recorded(&mut self, _seq: u64, _record: &NewRecord, _request: Option<&Request>) {}
}

#[tokio::test]
async fn a_call_carries_the_trace_that_it_belongs_to_where_somebody_traces() {
    let world = world("printer.trace", SETTINGS);
    assert_eq!(answer(&world.run("go").await), "none");
    let engine = world.builder().observer(Arc::new(Tracing)).open(world.path()).await.unwrap();
    let started =
        engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await;
    let report = started.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), format!("00-{}-01", report.run));
}

#[tokio::test]
async fn a_secret_that_a_child_process_gives_away_is_scrubbed() {
    let report = world("printer.token", SETTINGS).run("go").await;
    let said = answer(&report);
    assert!(said.starts_with("it is ") && !said.contains("4711"), "{said}");
}

#[tokio::test]
async fn a_child_process_that_exits_in_the_middle_of_an_unsafe_call_leaves_a_doubt_for_a_person() {
    let report = world("printer.print", SETTINGS).run("go").await;
    let [waiting] = waits(&report) else { panic!("{report:?}") };
    assert!(waiting.question.contains("printer.print"), "{}", waiting.question);
}

#[tokio::test]
async fn the_tools_of_a_child_process_are_listed_pinned_and_called_like_all_others() {
    let settings = format!("{SETTINGS}tools = [\"look\", \"print\"]\ntrust_annotations = true\n");
    let world = world("printer.look", &settings);
    let engine = world.engine().await;
    let listing = engine.tools("default").await.unwrap();
    assert!(listing.unreachable.is_empty(), "{:?}", listing.unreachable);
    let printer: Vec<(&str, EffectClass)> = listing
        .tools
        .iter()
        .filter(|tool| matches!(&tool.offered_by, OfferedBy::Server(server) if server == "printer"))
        .map(|tool| (tool.name.as_str(), tool.class))
        .collect();
    assert_eq!(printer, [("printer.look", EffectClass::Read), ("printer.print", EffectClass::Unsafe)]);

    let (lock, unreachable) = engine.pin(&dalsegno_workspace::Lock::default()).await;
    assert!(unreachable.is_empty(), "{unreachable:?}");
    assert_eq!(lock.servers["printer"].tools.len(), 2);

    let options = ToolCallOptions { timeout: Duration::from_secs(20), ..ToolCallOptions::default() };
    let name = "printer.look".parse().unwrap();
    let first = engine.call_tool(&name, json!({}), &options).await.unwrap();
    let second = engine.call_tool(&name, json!({}), &options).await.unwrap();
    assert_eq!(first.text, second.text, "the process stays for the next call");

    // What it last wrote is for the person who called.
    let error = engine.call_tool(&"printer.print".parse().unwrap(), json!({}), &options).await.unwrap_err();
    assert!(matches!(&error, ToolboxError::NoAnswer { received: Received::Possibly, .. }), "{error}");
    assert!(error.to_string().contains("it last wrote: out of paper"), "{error}");
}

#[tokio::test]
async fn a_server_that_offers_something_else_than_when_the_run_began_has_another_digest() {
    let world = world("printer.look", SETTINGS);
    let engine = world.engine().await;
    let before = engine.pin(&dalsegno_workspace::Lock::default()).await.0;
    std::fs::write(world.path().join("printer.sh"), PRINTER.replace("\"print\"", "\"plot\"")).unwrap();
    let after = world.engine().await.pin(&dalsegno_workspace::Lock::default()).await.0;
    assert_ne!(before.servers["printer"].digest(), after.servers["printer"].digest());
}

/// Two servers, of which the agent may use both and needs one.
fn two(tool: &str, more: &str) -> World {
    let agent = format!(
        "[tools]\nallow = [\"printer.*\", \"spare.*\"]\n[[steps]]\nid = \"it\"\ntool = \"{tool}\"\n{more}[[steps]]\nrespond = \"{{{{steps.it}}}}\"\n"
    );
    let settings = format!("{SETTINGS}[servers.spare]\ncommand = [\"/bin/sh\", \"spare.sh\"]\n");
    let world = World::new(&agent).settings(&settings);
    for name in ["printer.sh", "spare.sh"] {
        std::fs::write(world.path().join(name), PRINTER).unwrap();
    }
    std::fs::write(world.path().join("token"), "tell-nobody-4711\n").unwrap();
    world
}

/// Pins what the servers offer, as `dalsegno check --connect` does.
async fn pin(world: &World) {
    let (lock, unreachable) = world.engine().await.pin(&dalsegno_workspace::Lock::default()).await;
    assert!(unreachable.is_empty(), "{unreachable:?}");
    std::fs::write(world.path().join("dalsegno.lock"), lock.to_text()).unwrap();
}

fn kinds(view: &dalsegno_runtime::Inspection) -> Vec<&'static str> {
    view.records.iter().map(|record| record.body.kind().as_str()).collect()
}

#[tokio::test]
async fn a_server_that_is_allowed_and_not_needed_stops_no_run() {
    let world = two("printer.look", "");
    pin(&world).await;
    std::fs::write(world.path().join("spare.sh"), "exit 3").unwrap();
    let report = world.run("go").await;
    assert!(answer(&report).starts_with("seen eu by "), "{}", answer(&report));
}

#[tokio::test]
async fn an_answer_is_recorded_before_any_server_is_started() {
    let world = two("printer.look", "approve = true\non_failure = \"report\"\n");
    let asked = world.run("go").await;
    let [_] = waits(&asked) else { panic!("{asked:?}") };
    for name in ["printer.sh", "spare.sh"] {
        std::fs::write(world.path().join(name), "exit 3").unwrap();
    }
    let approved = Settlement::Approve { edited: None, reason: None };
    let report = world.resume(asked.run, Some(approved)).await;
    // The server that it needs is down: that is what came of the operation.
    assert!(answer(&report).contains("unavailable"), "{}", answer(&report));
    let view = world.engine().await.journal().inspect(asked.run, None).await.unwrap();
    assert!(kinds(&view).contains(&"answered"), "{:?}", kinds(&view));
}

#[tokio::test]
async fn a_server_that_offers_something_else_than_was_pinned_is_not_called() {
    let world = two("printer.look", "on_failure = \"report\"\n");
    pin(&world).await;
    let changed = PRINTER.replace("\"look\",%s", "\"look\",\"description\":\"Burns it.\",%s");
    std::fs::write(world.path().join("printer.sh"), changed).unwrap();
    let report = world.run("go").await;
    assert!(answer(&report).contains("does not offer `printer.look` as run"), "{}", answer(&report));
}

#[tokio::test]
async fn a_call_waits_for_a_secret_that_its_server_needs() {
    let world = two("printer.token", "");
    pin(&world).await;
    let settings = std::fs::read_to_string(world.path().join("dalsegno.toml")).unwrap();
    let world = world.settings(&settings.replace("{ file = \"token\" }", "{ store = \"tok\" }"));
    let report = world.run("go").await;
    let [waiting] = waits(&report) else { panic!("{report:?}") };
    assert_eq!(waiting.gate, Gate::Secret { name: "tok".into() });
    let engine = world.engine().await;
    let source = engine.secret_source();
    let put = Put::new(Secret::new("tell-nobody-4711"), 1);
    source.make().await.unwrap().put(source.tenant(), &"tok".parse().unwrap(), put).await.unwrap();
    engine.tell_to_look(report.run).await.unwrap();
    let report = engine.resume(report.run, Vec::new()).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), "it is [secret]");
}

#[tokio::test]
async fn a_server_that_is_not_pinned_and_lacks_a_secret_leaves_no_run() {
    let settings = SETTINGS.replace("{ file = \"token\" }", "{ store = \"tok\" }");
    let world = world("printer.token", &settings);
    let engine = world.engine().await;
    let start =
        async || engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), StartOptions::default()).await;
    let error = start().await.unwrap_err();
    let dalsegno_runtime::EngineError::ServerSecret { server, name } = &error else { panic!("{error:?}") };
    assert_eq!((server.as_str(), name.as_str()), ("printer", "tok"));
    assert!(engine.journal().runs(&dalsegno_store::RunFilter::default()).await.unwrap().is_empty());
    // With the secret it begins.
    let source = engine.secret_source();
    let put = Put::new(Secret::new("tell-nobody-4711"), 1);
    source.make().await.unwrap().put(source.tenant(), &"tok".parse().unwrap(), put).await.unwrap();
    let report = start().await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), "it is [secret]");
}

#[tokio::test]
async fn a_server_that_offers_more_than_before_is_called_and_written_down() {
    let world = two("printer.look", "approve = true\n");
    let asked = world.run("go").await;
    let more = PRINTER
        .replace("{\"name\":\"look\",%s,", "{\"name\":\"plot\",%s},{\"name\":\"look\",%s,")
        .replace("\"$id\" \"$schema\"", "\"$id\" \"$schema\" \"$schema\"");
    std::fs::write(world.path().join("printer.sh"), more).unwrap();
    let approved = Settlement::Approve { edited: None, reason: None };
    let report = world.resume(asked.run, Some(approved)).await;
    assert!(answer(&report).starts_with("seen eu by "), "{}", answer(&report));
    let view = world.engine().await.journal().inspect(asked.run, None).await.unwrap();
    let kinds = kinds(&view);
    assert_eq!(kinds.iter().filter(|kind| **kind == "rebound").count(), 1, "{kinds:?}");
    assert!(world.engine().await.journal().replay(asked.run).await.unwrap().identical);
}
