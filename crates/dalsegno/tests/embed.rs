//! The engine as a program uses it that is not of this workspace: by the names of the crate `dalsegno` alone.
#![cfg(feature = "schemars")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dalsegno::model::ScriptModel;
use dalsegno::{
    Agent, AgentRequest, EffectClass, Engine, EngineError, ErrorKind, GateInput, Invocation, RunEnd,
    RunReport, Settlement, StartOptions, Status, Tool, ToolError, function,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The number of the order.
    number: u32,
}

const SCRIPT: &str = r#"
[[replies]]
calls = [{ name = "orders.pay", arguments = { number = 7 } }]

[[replies]]
text = "Done: {{last}}."
"#;

async fn open(folder: &Path, agent: Agent, tool: impl Tool) -> Engine {
    let builder = Engine::builder().agent(&agent).tool("orders.pay".parse().unwrap(), tool);
    builder.model("default", ScriptModel::parse(SCRIPT).unwrap()).open(folder).await.unwrap()
}

fn desk() -> Agent {
    Agent::new("desk").model("default").instructions("You pay orders.")
}

async fn run(engine: &Engine) -> RunReport {
    let request = AgentRequest::text("Pay order 7.");
    let run = engine.start(&"desk".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    run.finish().await.unwrap()
}

fn answer(report: &RunReport) -> &str {
    match &report.end {
        RunEnd::Ended(response) => response.answer.as_deref().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_and_a_tool_in_code_run_and_replay() {
    let folder = tempfile::tempdir().unwrap();
    let pay = function("Pays.", EffectClass::Read, async |order: Order, call: Invocation| {
        assert_eq!((call.tenant.as_str(), call.attempt), ("default", 1));
        Ok(format!("order {} is paid", order.number))
    });
    let engine = open(folder.path(), desk().allow("orders.*"), pay).await;
    let report = run(&engine).await;
    assert_eq!(answer(&report), "Done: order 7 is paid.");
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
    assert!(!folder.path().join("dalsegno.toml").exists());
}

#[tokio::test]
async fn a_call_that_needs_approval_waits_and_another_engine_resumes_it() {
    let folder = tempfile::tempdir().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let pay = |calls: Arc<AtomicU32>| {
        function("Pays.", EffectClass::Unsafe, move |order: Order, _: Invocation| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!({ "paid": order.number })) }
        })
    };
    let agent = || desk().approve("orders.pay");
    let report = run(&open(folder.path(), agent(), pay(Arc::clone(&calls))).await).await;
    let RunEnd::Suspended { waiting, .. } = &report.end else { panic!("{report:?}") };
    assert_eq!((waiting.len(), calls.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(waiting[0].arguments, Some(json!({ "number": 7 })));
    let engine = open(folder.path(), agent(), pay(Arc::clone(&calls))).await;
    let input = GateInput::to(&waiting[0], Settlement::approve()).by("alice");
    let resumed = engine.resume(report.run, vec![input.clone()]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&resumed), "Done: {\"paid\":7}.");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let again = engine.resume(report.run, vec![input]).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict, "{again}");
}

#[tokio::test]
async fn an_error_has_the_kind_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let pay = || function("Pays.", EffectClass::Read, async |_: Order, _: Invocation| Ok(()));
    let engine = open(folder.path(), desk().approve("orders.pay"), pay()).await;
    let request = || AgentRequest::text("Pay order 7.");
    let unknown =
        engine.start(&"other".parse().unwrap(), request(), StartOptions::default()).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
    let tenant = AgentRequest { tenant: "Not a name".to_owned(), ..request() };
    let tenant = engine.start(&"desk".parse().unwrap(), tenant, StartOptions::default()).await.unwrap_err();
    assert_eq!(tenant.kind(), ErrorKind::Invalid, "{tenant}");
    let suspended = engine.execute_agent_request(&"desk".parse().unwrap(), request()).await.unwrap_err();
    assert_eq!(suspended.kind(), ErrorKind::Suspended, "{suspended}");
    let EngineError::Suspended { run, .. } = suspended else { panic!() };
    let none = "00000000000000000000000000000001".parse().unwrap();
    assert_eq!(engine.journal().replay(none).await.unwrap_err().kind(), ErrorKind::NotFound);
    // The same run in two places.
    let one = open(folder.path(), desk(), pay()).await;
    assert!(one.journal().replay(run).await.unwrap().identical);
    let wrong =
        Engine::builder().agent(&desk().set("instruction", "x")).open(folder.path()).await.err().unwrap();
    assert_eq!(wrong.kind(), ErrorKind::Invalid, "{wrong}");
    // A journal that is none.
    fs::write(folder.path().join("other.db"), "this is not a journal, and long enough to be taken for one")
        .unwrap();
    let broken =
        Engine::builder().settings("[store]\npath = \"other.db\"\n").open(folder.path()).await.err().unwrap();
    assert_eq!(broken.kind(), ErrorKind::Stored, "{broken}");
}

#[tokio::test]
async fn a_refused_call_is_a_failure_that_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let pay = function("Pays.", EffectClass::Read, move |_: Order, _: Invocation| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), _>(ToolError::refused("the order is paid already")) }
    });
    let engine = open(folder.path(), desk().allow("orders.pay"), pay).await;
    let report = run(&engine).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(answer(&report).contains("the order is paid already"), "{report:?}");
    let records = format!("{:?}", engine.journal().inspect(report.run, None).await.unwrap().records);
    assert!(records.contains("ToolFailed"), "{records}");
}

#[tokio::test]
async fn an_error_of_a_library_may_have_been_received_so_an_unsafe_call_is_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let pay = function("Pays.", EffectClass::Unsafe, async |_: Order, _: Invocation| {
        let text = fs::read_to_string("/no/such/file")?;
        Ok(text)
    });
    let engine = open(folder.path(), desk().allow("orders.pay"), pay).await;
    let report = run(&engine).await;
    let RunEnd::Suspended { waiting, .. } = &report.end else { panic!("{report:?}") };
    assert_eq!(waiting[0].kind(), "in_doubt");
    let input = GateInput::to(&waiting[0], Settlement::Done { result: Some(json!("paid by hand")) });
    let report = engine.resume(report.run, vec![input]).await.unwrap().finish().await.unwrap();
    assert_eq!(answer(&report), "Done: paid by hand.");
}

#[test]
fn the_schema_of_a_function_is_that_of_its_argument() {
    let tool = function("Pays.", EffectClass::Keyed, async |_: Order, _: Invocation| Ok(()));
    let expected = json!({
        "type": "object",
        "properties": {
            "number": { "description": "The number of the order.", "type": "integer", "format": "uint32", "minimum": 0 }
        },
        "required": ["number"]
    });
    assert_eq!(tool.describe().input_schema, expected);
}

/// The process that is killed: it pays, and never learns that it has.
#[test]
fn pays_and_hangs() {
    let Ok(folder) = std::env::var("DALSEGNO_EMBED_FOLDER") else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = open(folder.as_ref(), desk().allow("orders.pay"), ledger(&folder, true)).await;
        run(&engine).await;
    });
}

/// A payment that is written into a book, under the key of the operation.
fn ledger(folder: &str, hangs: bool) -> impl Tool + use<> {
    let book = Path::new(folder).join("book");
    function("Pays.", EffectClass::Keyed, move |order: Order, call: Invocation| {
        let book = book.clone();
        async move {
            let mut book = fs::File::options().create(true).append(true).open(book)?;
            writeln!(book, "{} {}", order.number, call.operation)?;
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok("paid")
        }
    })
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The signal that no process can catch.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_killed_run_resumes_with_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "pays_and_hangs"]).env("DALSEGNO_EMBED_FOLDER", path);
    let child = Killed(command.stdout(Stdio::null()).spawn().unwrap());
    let book = || fs::read_to_string(folder.path().join("book")).unwrap_or_default();
    let begun = Instant::now();
    while !book().ends_with('\n') {
        assert!(begun.elapsed() < Duration::from_secs(60), "the process did not pay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(child);

    let engine = open(folder.path(), desk().allow("orders.pay"), ledger(path, false)).await;
    let runs = engine.journal().runs(&dalsegno::store::RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 1);
    let report = engine.resume(runs[0].run, Vec::new()).await.unwrap().finish().await.unwrap();
    let RunEnd::Ended(response) = &report.end else { panic!("{report:?}") };
    assert_eq!((response.status, response.answer.as_deref()), (Status::Completed, Some("Done: paid.")));
    let book = book();
    let lines: Vec<&str> = book.lines().collect();
    assert_eq!(lines.len(), 2, "{book}");
    assert_eq!(lines[0], lines[1], "the receiver can tell the repeat by its key");
    assert!(engine.journal().replay(report.run).await.unwrap().identical);
}
