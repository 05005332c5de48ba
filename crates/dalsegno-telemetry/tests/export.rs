//! Spans reach a collector, and a collector that is away harms nobody.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use dalsegno_core::RunId;
use dalsegno_store::{Body, NewRecord, Parent, Record};
use dalsegno_telemetry::{
    Content, ExportConfig, ProjectorOptions, SpanId, Telemetry, TelemetryConfig, TraceId, semconv,
};

use support::collector::{Answer, Collector};
use support::journal::{CANARY, TestJournal, generate, operation, run, started};
use support::oracle;

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(60);

fn exporting(config: ExportConfig) -> Telemetry {
    Telemetry::start(TelemetryConfig { export: Some(config), ..TelemetryConfig::default() }).unwrap()
}

fn tell(telemetry: &Telemetry, run: RunId, records: &[NewRecord]) {
    let mut told = telemetry.run(run, run, None);
    for (seq, record) in records.iter().enumerate() {
        told.record(seq as u64, record, None);
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_collector_receives_the_tree_of_a_run_one_to_one() {
    let collector = Collector::start(&[Answer::Takes]).await;
    let mut config = ExportConfig::new(&collector.endpoint);
    config.headers = vec![("x-key".into(), "k1".into())];
    config.resource = vec![("deployment.environment.name".into(), "test".into())];
    config.batch = 3;
    let telemetry = exporting(config);
    let mut total = 0;
    for seed in 0_u8..40 {
        let records = generate(seed.into());
        let run = RunId::from_bytes([seed; 16]);
        tell(&telemetry, run, &records);
        assert!(telemetry.flush(LIMIT).await);
        let expected = oracle::expected(run, &records);
        let mut found = std::collections::BTreeMap::new();
        let of_run = |span: &&opentelemetry_proto::tonic::trace::v1::Span| {
            span.trace_id == TraceId::of(run).as_bytes()
        };
        for span in collector.spans().iter().filter(of_run) {
            let parent = (!span.parent_span_id.is_empty()).then(|| span.parent_span_id.clone());
            let times = (parent, span.start_time_unix_nano, span.end_time_unix_nano);
            assert_eq!(found.insert(span.span_id.clone(), times), None);
        }
        let expected = expected.into_iter().map(|(id, (parent, start, end))| {
            let parent = parent.map(|parent| parent.as_bytes().to_vec());
            (id.as_bytes().to_vec(), (parent, start * 1_000_000, end * 1_000_000))
        });
        let expected: std::collections::BTreeMap<_, _> = expected.collect();
        total += expected.len() as u64;
        assert_eq!(found, expected, "seed {seed}");
    }
    let stats = telemetry.shutdown(LIMIT).await;
    assert_eq!((stats.exported, stats.dropped, stats.failures), (total, 0, 0));
    for received in collector.received() {
        assert_eq!(received.path, "/v1/traces");
        assert_eq!(received.headers["content-type"], "application/x-protobuf");
        assert_eq!(received.headers["x-key"], "k1");
        assert!(!contains(&received.body, CANARY));
        let resource = &received.decoded().resource_spans[0];
        assert_eq!(resource.schema_url, semconv::SCHEMA_URL);
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let names: Vec<&str> = attributes.iter().map(|pair| pair.key.as_str()).collect();
        assert_eq!(names, ["service.name", "service.version", "deployment.environment.name"]);
        assert!(resource.scope_spans[0].spans.len() <= 3);
    }
}

async fn store(records: &[NewRecord]) -> Vec<Record> {
    use dalsegno_store::{Created, MemoryStore, NewRun, Owner, Store};
    let (store, owner) = (MemoryStore::new(), Owner::in_process());
    let Body::Started(started) = &records[0].body else { panic!() };
    let digest = dalsegno_core::Digest::from_bytes([2; 32]);
    let new = NewRun::new(run(1), "{}", digest, owner.id(), records[0].at, started.clone());
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!() };
    store.append(&mut lease, records[1..].to_vec()).await.unwrap();
    store.read(run(1), 0).await.unwrap()
}

#[tokio::test]
async fn a_run_that_is_taken_over_exports_each_span_once() {
    let collector = Collector::start(&[Answer::Takes]).await;
    for seed in 0_u8..20 {
        let records = generate(seed.into());
        let run = RunId::from_bytes([seed + 1; 16]);
        let place = records.len() / 2;
        // One process is killed, another one goes on.
        let telemetry = exporting(ExportConfig::new(&collector.endpoint));
        tell(&telemetry, run, &records[..place]);
        telemetry.shutdown(LIMIT).await;
        let telemetry = exporting(ExportConfig::new(&collector.endpoint));
        let mut told = telemetry.run(run, run, None);
        let mut seq = 0;
        let stored: Vec<Record> = store(&records).await.into_iter().take(place).collect();
        stored.iter().for_each(|record| told.catch_up(record, None));
        for record in &records {
            told.record(seq, record, None);
            seq += 1;
        }
        telemetry.shutdown(LIMIT).await;
        let expected: BTreeSet<Vec<u8>> =
            oracle::expected(run, &records).into_keys().map(|id: SpanId| id.as_bytes().to_vec()).collect();
        let of_run =
            |span: &opentelemetry_proto::tonic::trace::v1::Span| span.trace_id == TraceId::of(run).as_bytes();
        let found: Vec<Vec<u8>> =
            collector.spans().into_iter().filter(of_run).map(|span| span.span_id).collect();
        assert_eq!(found.len(), expected.len(), "seed {seed}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}");
    }
}

#[tokio::test]
async fn runs_below_a_run_are_in_its_trace() {
    let collector = Collector::start(&[Answer::Takes]).await;
    let telemetry = exporting(ExportConfig::new(&collector.endpoint));
    let mut above = Vec::new();
    for depth in 0_u8..4 {
        let parent = depth.checked_sub(1).map(|above| Parent { run: run(above), operation: operation(1) });
        let mut journal = TestJournal::new(started(parent, u32::from(depth)));
        journal.completed();
        let mut told = telemetry.run(run(depth), run(0), None);
        told.record(0, &journal.records[0], None);
        above.push((told, journal));
    }
    for (mut told, journal) in above.into_iter().rev() {
        told.record(1, &journal.records[1], None);
    }
    telemetry.flush(LIMIT).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 4);
    assert!(spans.iter().all(|span| span.trace_id == TraceId::of(run(0)).as_bytes()));
    assert_eq!(spans.iter().filter(|span| span.parent_span_id.is_empty()).count(), 1);
}

#[tokio::test]
async fn content_is_exported_only_where_it_is_switched_on() {
    let collector = Collector::start(&[Answer::Takes]).await;
    let spans = ProjectorOptions { content: Content::DEFAULT_ON, ..ProjectorOptions::default() };
    let export = Some(ExportConfig::new(&collector.endpoint));
    let telemetry = Telemetry::start(TelemetryConfig { export, spans }).unwrap();
    tell(&telemetry, run(1), &generate(3));
    telemetry.flush(LIMIT).await;
    assert!(contains(&collector.received()[0].body, CANARY));
}

#[tokio::test]
async fn an_overloaded_collector_is_asked_again() {
    let collector = Collector::start(&[Answer::Status(503), Answer::Takes]).await;
    let telemetry = exporting(ExportConfig::new(&collector.endpoint));
    let mut journal = TestJournal::root();
    tell(&telemetry, run(1), &journal.completed().records);
    assert!(telemetry.flush(LIMIT).await);
    let stats = telemetry.export_stats();
    assert_eq!((stats.exported, stats.dropped, stats.failures), (1, 0, 1));
    let received = collector.received();
    assert_eq!(received[0].body, received[1].body);
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted_and_runs_go_on() {
    for (answer, exported, failures) in
        [(Answer::Status(500), 0, 1), (Answer::Status(400), 0, 1), (Answer::Rejects(1), 0, 0)]
    {
        let collector = Collector::start(&[answer]).await;
        let telemetry = exporting(ExportConfig::new(&collector.endpoint));
        tell(&telemetry, run(1), &TestJournal::root().completed().records);
        assert!(telemetry.flush(LIMIT).await);
        let stats = telemetry.export_stats();
        assert_eq!((stats.exported, stats.dropped, stats.failures), (exported, 1, failures), "{answer:?}");
        assert!(telemetry.metrics().encode().contains("dalsegno_spans_dropped_total 1\n"));
    }
}

#[tokio::test]
async fn a_collector_that_hangs_blocks_nobody_and_every_span_is_accounted_for() {
    let collector = Collector::start(&[Answer::Hangs]).await;
    let mut config = ExportConfig::new(&collector.endpoint);
    config.queue = 16;
    config.batch = 4;
    let telemetry = exporting(config);
    for number in 0..200 {
        // On this one thread: if telling it waited for the collector, the test would never end.
        tell(&telemetry, run(number), &TestJournal::root().completed().records);
        tokio::task::yield_now().await;
    }
    let stats = telemetry.shutdown(Duration::from_millis(50)).await;
    assert_eq!((stats.exported, stats.dropped), (0, 200));
    // What comes afterwards is counted too.
    tell(&telemetry, run(1), &TestJournal::root().completed().records);
    assert_eq!(telemetry.export_stats().dropped, 201);
}

#[tokio::test]
async fn a_collector_that_is_away_is_complained_about_once() {
    // Nobody listens there any more.
    let address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = ExportConfig::new(format!("http://{address}"));
    config.retry_for = Duration::ZERO;
    tracing::subscriber::set_global_default(Warnings).unwrap();
    // Another test may have met the event while the subscriber was being set.
    tracing::callsite::rebuild_interest_cache();
    let telemetry = exporting(config);
    for number in 0..5 {
        tell(&telemetry, run(number), &TestJournal::root().completed().records);
        assert!(telemetry.flush(LIMIT).await);
    }
    let stats = telemetry.shutdown(LIMIT).await;
    assert_eq!((stats.exported, stats.dropped, stats.failures), (0, 5, 5));
    assert_eq!(WARNED.get(), 1);
}

/// Counts warnings of this crate, for each thread: a test and its exporter share one.
///
/// It is the one subscriber of the process. One for each test would lose warnings: `tracing` asks whether
/// anybody wants an event where it first meets that event, and that may be the thread of another test.
struct Warnings;

thread_local! {
    static WARNED: Cell<usize> = const { Cell::new(0) };
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("dalsegno_telemetry")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() == tracing::Level::WARN {
            WARNED.set(WARNED.get() + 1);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn export_outside_of_a_runtime_and_to_no_address_is_refused() {
    let start = |endpoint: &str| {
        let export = Some(ExportConfig::new(endpoint));
        Telemetry::start(TelemetryConfig { export, ..TelemetryConfig::default() }).unwrap_err().to_string()
    };
    assert!(start("http://127.0.0.1:4318").contains("tokio runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    assert!(start("collector").contains("`collector` is no address"));
}

/// The address for the process below, which does nothing without it.
const ENDPOINT: &str = "DALSEGNO_TEST_COLLECTOR";

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_changes_nothing() {
    let collector = Collector::start(&[Answer::Takes]).await;
    let ambient = Collector::start(&[Answer::Takes]).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_exports_once"]).env(ENDPOINT, &collector.endpoint);
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ambient.endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ambient.endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-ambient=yes"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_SERVICE_NAME", "ambient"),
        ("OTEL_RESOURCE_ATTRIBUTES", "ambient=yes"),
        ("OTEL_SDK_DISABLED", "true"),
        ("HTTP_PROXY", ambient.endpoint.as_str()),
        ("http_proxy", ambient.endpoint.as_str()),
        ("ALL_PROXY", ambient.endpoint.as_str()),
    ] {
        command.env(name, value);
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(collector.spans().len(), 1);
    let received = &collector.received()[0];
    assert_eq!(received.headers["content-type"], "application/x-protobuf");
    assert!(!received.headers.contains_key("x-ambient") && !contains(&received.body, "ambient"));
    assert!(ambient.received().is_empty());
}

#[tokio::test]
async fn a_process_that_exports_once() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let telemetry = exporting(ExportConfig::new(endpoint));
    tell(&telemetry, run(1), &TestJournal::root().completed().records);
    assert_eq!(telemetry.shutdown(LIMIT).await.exported, 1);
}
