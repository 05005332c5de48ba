//! Live runs: their records as they are committed, their spans to a collector, their numbers to Prometheus.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentConfig, Live, OperationId, Request, RunId, Timestamp};
use dalsegno_runtime::{Observer, Watch, Watched};
use dalsegno_store::{Body, NewRecord, Record, StorageKind};

use crate::call::CallMeter;
use crate::export::{Counters, ExportConfig, ExportError, ExportStats, Exporter};
use crate::ids::{SpanId, TraceId};
use crate::metrics::Metrics;
use crate::project::{Entry, Projector, ProjectorOptions};
use crate::span::Span;

/// What is told to whom.
#[derive(Debug, Clone, Default)]
pub struct TelemetryConfig {
    /// Where spans are sent; nowhere when absent.
    pub export: Option<ExportConfig>,
    /// What spans carry.
    pub spans: ProjectorOptions,
}

/// The telemetry of a process. Clones share everything.
#[derive(Debug, Clone)]
pub struct Telemetry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    exporter: Option<Exporter>,
    options: Arc<ProjectorOptions>,
    metrics: Metrics,
    counters: Counters,
}

impl Telemetry {
    /// Starts the telemetry of a process; with an endpoint, inside of a tokio runtime.
    ///
    /// # Errors
    /// When the endpoint or a header is none, or there is no runtime to send from. Whether the collector is there is
    /// not asked: it may come later.
    pub fn start(config: TelemetryConfig) -> Result<Self, ExportError> {
        let counters = Counters::default();
        let export = config.export.as_ref();
        let exporter = export.map(|export| Exporter::start(export, counters.clone())).transpose()?;
        let inner =
            Inner { exporter, options: Arc::new(config.spans), metrics: Metrics::with(&counters), counters };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What is told of one run. `root` is the root run above it, or the run itself; `config` is the configuration that the
    /// run is pinned to.
    pub fn run(&self, run: RunId, root: RunId, config: Option<Arc<AgentConfig>>) -> RunTelemetry {
        self.metrics().run_taken();
        let projector = Projector::new(run, self.inner.options.clone(), config).below(root);
        RunTelemetry { projector, call: CallMeter::default(), telemetry: self.clone() }
    }

    /// The metrics of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// What became of spans so far.
    pub fn export_stats(&self) -> ExportStats {
        self.inner.counters.stats()
    }

    /// Sends what waits; says whether all of it left in time.
    pub async fn flush(&self, limit: Duration) -> bool {
        match &self.inner.exporter {
            Some(exporter) => exporter.flush(limit).await,
            None => true,
        }
    }

    /// Sends what waits and stops sending. What does not leave in time, and what comes afterwards, is dropped and
    /// counted.
    pub async fn shutdown(&self, limit: Duration) -> ExportStats {
        if let Some(exporter) = &self.inner.exporter {
            exporter.stop(limit).await;
        }
        self.export_stats()
    }

    fn send(&self, span: Span) {
        if let Some(exporter) = &self.inner.exporter {
            exporter.offer(span);
        }
    }
}

/// What is told of one run that this process performs.
///
/// Whoever performs the run owns it, so telling it anything takes no lock that another run holds, and forgetting the run
/// frees all that is known of it.
#[derive(Debug)]
pub struct RunTelemetry {
    projector: Projector,
    call: CallMeter,
    telemetry: Telemetry,
}

impl RunTelemetry {
    /// Takes a record that is in the journal now. Cheap, and never waits, fails or panics.
    ///
    /// With a `requested` record comes what was asked for, where the caller has it at hand; see
    /// [`Entry::with_request`].
    pub fn record(&mut self, seq: u64, record: &NewRecord, request: Option<&Request>) {
        if seq < self.projector.next_seq() {
            return;
        }
        let spans = self.projector.observe(Entry::new(seq, record).with_request(request));
        if let Body::Started(started) = &record.body {
            self.telemetry.metrics().run_started(&started.agent);
        }
        if let (Body::Conversed { news }, Some(agent)) = (&record.body, self.projector.agent()) {
            let metrics = self.telemetry.metrics();
            for one in news {
                self.call.hear(record.at, one, &mut |measured| metrics.call(agent, measured));
            }
        }
        for span in spans {
            self.telemetry.metrics().observe(&span);
            self.telemetry.send(span);
        }
    }

    /// Takes note of where a call stands.
    pub fn call(&mut self, at: Timestamp, live: &Live) {
        let Some(agent) = self.projector.agent() else { return };
        let metrics = self.telemetry.metrics();
        self.call.look(at, live, &mut |measured| metrics.call(agent, measured));
    }

    /// Takes a record that was in the journal before this process took the run over, so that what is still open ends
    /// well. What ended with it was told by whoever wrote it, and is not told again.
    ///
    /// The first record of the journal must come; of the rest those of the step that is under way suffice.
    pub fn catch_up(&mut self, record: &Record, request: Option<&Request>) {
        let _ = self.projector.observe(Entry::from(record).with_request(request));
    }
}

impl Drop for RunTelemetry {
    fn drop(&mut self) {
        self.telemetry.metrics().run_left();
    }
}

impl Observer for Telemetry {
    fn watch(&self, run: &Watched) -> Box<dyn Watch> {
        Box::new(self.run(run.run, run.root, Some(Arc::clone(&run.config))))
    }

    fn traceparent(&self, root: RunId, run: RunId, operation: OperationId) -> Option<String> {
        Some(format!("00-{}-{}-01", TraceId::of(root), SpanId::of_operation(run, operation)))
    }

    fn unwritable(&self, _run: RunId, kind: StorageKind, _waited: Duration) {
        self.metrics().commit_retried(kind);
    }

    fn committed(&self, records: usize, took: Duration) {
        self.metrics().commit(took, records);
    }
}

impl Watch for RunTelemetry {
    fn recorded(&mut self, seq: u64, record: &NewRecord, request: Option<&Request>) {
        self.record(seq, record, request);
    }

    fn conversed(&mut self, at: Timestamp, live: &Live) {
        self.call(at, live);
    }

    fn found(&mut self, record: &Record, request: Option<&Request>) {
        self.catch_up(record, request);
    }
}
