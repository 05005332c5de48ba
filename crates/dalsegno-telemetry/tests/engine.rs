//! Runs of a real engine reach a real collector, span by span as their journals have it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, ToolReturn};
use dalsegno_runtime::{
    Engine, GateInput, Invocation, Received, RunEnd, Settlement, StartOptions, Tool, ToolDescription,
    ToolError,
};
use dalsegno_store::{Body, NewRecord, RunFilter};
use dalsegno_telemetry::{ExportConfig, SpanId, Telemetry, TelemetryConfig, TraceId, semconv};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use support::collector::{Answer, Collector};
use support::oracle;

const LIMIT: Duration = Duration::from_secs(60);

/// Fails the first time.
struct Flaky(AtomicU32);

#[async_trait]
impl Tool for Flaky {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            description: "Looks something up.".into(),
            input_schema: json!({ "type": "object", "properties": { "note": { "type": "string" } } }).into(),
            output_schema: None,
            class: EffectClass::Read,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(ToolError { message: "busy".into(), received: Received::No, transient: true });
        }
        Ok(ToolReturn::structured(invocation.arguments))
    }
}

const ABOVE: &str = r#"name = "above"
version = "1.0.0"
description = "Does everything that spans show."

[tools]
allow = ["*"]

[[steps]]
parallel = [
  { id = "one", tool = "local.flaky", with = { note = "one" } },
  { id = "two", agent = "below", input = "two" },
]

[[steps]]
id = "q"
ask = "go on?"

[[steps]]
respond = "done"
"#;

const BELOW: &str = r#"name = "below"
version = "1.0.0"
description = "Asks a model."
instructions = "Be brief."
prompt = "{{request.text}}"

[model]
use = "default"
"#;

const SCRIPT: &str = "[[replies]]\ntext = \"all is well\"\n";

fn workspace(root: &Path) {
    for (file, text) in [
        ("dalsegno.toml", "[models.default]\nprovider = \"script\"\nfile = \"replies.toml\"\n"),
        ("replies.toml", SCRIPT),
        ("agents/above.toml", ABOVE),
        ("agents/below.toml", BELOW),
    ] {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

async fn open(root: &Path, collector: &Collector) -> (Engine, Telemetry) {
    let export = Some(ExportConfig::new(&collector.endpoint));
    let telemetry = Telemetry::start(TelemetryConfig { export, ..TelemetryConfig::default() }).unwrap();
    let builder = Engine::builder().observer(Arc::new(telemetry.clone()));
    let engine = builder.tool("local.flaky".parse().unwrap(), Flaky(AtomicU32::new(0))).open(root).await;
    (engine.unwrap(), telemetry)
}

/// Where a span stands: its trace, its parent, its begin and its end in nanoseconds.
type Place = (Vec<u8>, Vec<u8>, u64, u64);

/// What the journals say that there must be: each span with its trace, its parent and its times.
async fn expected(engine: &Engine) -> BTreeMap<Vec<u8>, Place> {
    let mut spans = BTreeMap::new();
    let runs = engine.journal().runs(&RunFilter::default()).await.unwrap();
    let root = runs.iter().find(|run| run.parent.is_none()).unwrap().run;
    for run in runs {
        let records = engine.journal().inspect(run.run, None).await.unwrap().records;
        let Body::Started(started) = &records[0].body else { panic!() };
        let above = started.parent.map(|parent| SpanId::of_operation(parent.run, parent.operation));
        let records: Vec<NewRecord> = records
            .iter()
            .map(|record| NewRecord {
                operation: record.operation,
                ..NewRecord::new(record.at, record.body.clone())
            })
            .collect();
        for (id, (parent, start, end)) in oracle::expected(run.run, &records) {
            let parent = parent.or(above).map_or_else(Vec::new, |parent| parent.as_bytes().to_vec());
            let trace = TraceId::of(root).as_bytes().to_vec();
            spans.insert(id.as_bytes().to_vec(), (trace, parent, start * 1_000_000, end * 1_000_000));
        }
    }
    spans
}

fn found(spans: &[Span]) -> BTreeMap<Vec<u8>, Place> {
    let mut found = BTreeMap::new();
    for span in spans {
        let place = (
            span.trace_id.clone(),
            span.parent_span_id.clone(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
        );
        assert_eq!(found.insert(span.span_id.clone(), place), None, "`{}` was exported twice", span.name);
    }
    found
}

fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a Attribute> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    attribute.value.as_ref()?.value.as_ref()
}

#[tokio::test]
async fn a_collector_has_every_span_of_a_run_and_its_child_over_two_processes_and_none_of_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    let collector = Collector::start(&[Answer::Takes]).await;

    let (engine, telemetry) = open(folder.path(), &collector).await;
    let agent = "above".parse().unwrap();
    let start = engine.start(&agent, AgentRequest::text("go"), StartOptions::default());
    let report = start.await.unwrap().finish().await.unwrap();
    assert!(matches!(report.end, RunEnd::Suspended { .. }), "{report:?}");
    let stats = telemetry.shutdown(LIMIT).await;
    assert_eq!((stats.dropped, stats.failures), (0, 0));
    drop(engine);
    let before = collector.spans();
    assert!(before.iter().any(|span| span.name == "invoke_agent below"), "{before:#?}");
    assert!(!before.iter().any(|span| span.name == "invoke_agent above"), "{before:#?}");

    let (engine, telemetry) = open(folder.path(), &collector).await;
    let settlement = Settlement::Give { value: json!("yes") };
    let input = GateInput { operation: None, seen: None, settlement, by: None };
    let report = engine.resume(report.run, vec![input]).await.unwrap().finish().await.unwrap();
    assert!(matches!(report.end, RunEnd::Ended(_)), "{report:?}");
    assert!(telemetry.flush(LIMIT).await);

    let spans = collector.spans();
    assert_eq!(found(&spans), expected(&engine).await);
    let named = |name: &str| spans.iter().filter(|span| span.name == name).count();
    // The call of an agent and the run that it starts are a span each.
    assert_eq!((named("invoke_agent above"), named("invoke_agent below")), (1, 2));
    let chat = spans.iter().find(|span| span.name.starts_with("chat")).unwrap();
    let model = attribute(chat, semconv::GEN_AI_REQUEST_MODEL);
    assert_eq!(model, Some(&Attribute::StringValue("default".into())));
    let tools = spans.iter().filter(|span| span.name.starts_with("execute_tool local.flaky"));
    assert!(tools.count() >= 1);
    // The first attempt of the tool was refused, so there are two, below the operation.
    let attempts = attribute_of(&spans, "dalsegno.attempts");
    assert!(attempts.contains(&Attribute::IntValue(2)), "{attempts:?}");

    assert!(engine.journal().replay(report.run).await.unwrap().identical);
    telemetry.shutdown(LIMIT).await;
    assert_eq!(collector.spans().len(), spans.len());
    let text = telemetry.metrics().encode();
    assert!(text.contains("dalsegno_runs_owned 0\n"), "{text}");
    assert!(
        text.contains("dalsegno_runs_finished_total{agent=\"above\",status=\"completed\"} 1\n"),
        "{text}"
    );
}

fn attribute_of(spans: &[Span], name: &str) -> Vec<Attribute> {
    spans.iter().filter_map(|span| attribute(span, name).cloned()).collect()
}
