//! What a run did, as spans and as metrics: projected from its journal, exported over OTLP, exposed for Prometheus.
//!
//! A [`Projector`] takes the records of one run in order and gives finished [`Span`]s: one for the run, one for each
//! step, one for each operation, one for each attempt where there were several. It is a pure function of the journal:
//! trace and span ids are derived from the run, the operation and the attempt, so a journal that is read again gives
//! the same spans with the same ids, and a run that goes on in another process goes on in the same trace. A replay
//! writes no records, so it emits nothing.
//!
//! [`Telemetry`] does this for live runs: it is an [`Observer`](dalsegno_runtime::Observer) of an engine. Each run has a
//! [`RunTelemetry`], which is told each committed record; it projects them where it stands, and hands finished spans to a bounded queue. One task sends the queue to the
//! collector that the caller has named; when the collector is away, spans are dropped and counted, and no run waits or
//! fails. [`Metrics`] counts the same spans.
//!
//! ```
//! use dalsegno_core::{AgentRequest, Digest, RunId, Timestamp};
//! use dalsegno_store::{Body, NewRecord, Signal, Started};
//! use dalsegno_telemetry::{Telemetry, TelemetryConfig};
//! # mod dalsegno_store { pub use ::dalsegno_store::*; pub use dalsegno_core::Signal; }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // No endpoint: metrics only, and nothing leaves the process.
//! let telemetry = Telemetry::start(TelemetryConfig::default())?;
//! let run = RunId::from_bytes([7; 16]);
//! let mut watch = telemetry.run(run, run, None);
//! # let started = Started {
//! #     agent: "triage".parse()?, config: Digest::from_bytes([1; 32]), semantics: 1,
//! #     request: AgentRequest::text("disk full"), session: "s1".into(), predecessor: None, start_key: None,
//! #     modules: Default::default(), parent: None, depth: 0, budget: None, context: None, by_handoff: false, ask_effects: false,
//! # };
//! // After each commit, with the sequence numbers that the store gave:
//! watch.record(0, &NewRecord::new(Timestamp::from_millis(0), Body::Started(started)), None);
//! watch.record(1, &NewRecord::new(Timestamp::from_millis(5), Body::signalled(Signal::Cancel)), None);
//! assert!(telemetry.metrics().encode().contains("dalsegno_runs_started_total{agent=\"triage\"} 1"));
//! # Ok(())
//! # }
//! ```
//!
//! What people and models said, and what tools were called with, is left out unless [`Content::On`] asks for it.

mod call;
mod content;
mod export;
mod ids;
mod metrics;
mod otlp;
mod project;
pub mod semconv;
mod span;
mod telemetry;

pub use content::Content;
pub use export::{ExportConfig, ExportError, ExportStats};
pub use ids::{SpanId, TraceId};
pub use metrics::Metrics;
pub use project::{Entry, ModelInfo, Projector, ProjectorOptions};
pub use span::{
    AttemptFacts, Kind, Link, OperationFacts, OperationKind, RunFacts, Span, SpanEvent, Status, Subject,
    Value,
};
pub use telemetry::{RunTelemetry, Telemetry, TelemetryConfig};
