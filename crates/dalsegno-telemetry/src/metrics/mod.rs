//! Numbers for Prometheus, counted from the spans that journals become, and gauges of the process.

mod calls;
mod labels;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dalsegno_core::AgentName;
use dalsegno_runtime::Load;
use dalsegno_store::StorageKind;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::calls::CallMetrics;
use self::labels::{
    AgentLabels, AttemptLabels, ErrorLabels, Known, ModelCallLabels, ModelLabels, OperationLabels, RunLabels,
    TokenLabels, ToolLabels, ToolTimeLabels,
};
use crate::call::Measured;
use crate::export::Counters;
use crate::span::{OperationFacts, OperationKind, Span, Subject};

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of a process. Clones share everything; telling them anything takes no more than a short lock.
///
/// Labels are bounded: agents, tools and models by name, up to 64, 256 and 64 of them, and all further ones as `other`.
/// Runs, sessions and tenants are never labels.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    agents: Known,
    tools: Known,
    models: Known,
    runs_started: Family<AgentLabels, Counter>,
    runs_finished: Family<RunLabels, Counter>,
    run_errors: Family<ErrorLabels, Counter>,
    run_seconds: Histograms<AgentLabels>,
    operations: Family<OperationLabels, Counter>,
    operation_seconds: Histograms<OperationLabels>,
    attempts: Family<AttemptLabels, Counter>,
    late: Family<OperationLabels, Counter>,
    gates: Family<labels::GateLabels, Counter>,
    denials: Family<labels::DenialLabels, Counter>,
    tool_calls: Family<ToolLabels, Counter>,
    tool_seconds: Histograms<ToolTimeLabels>,
    model_calls: Family<ModelCallLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<ModelLabels, Counter<f64, AtomicU64>>,
    lost_attempts: Family<ModelLabels, Counter>,
    deliveries: Family<labels::DeliveryLabels, Counter>,
    credentials: Family<labels::CredentialLabels, Counter>,
    commit_seconds: Histogram,
    commit_records: Counter,
    commit_retries: Family<labels::ReasonLabels, Counter>,
    effects_under_way: Gauge,
    effects_queued: Gauge,
    breakers_open: Gauge,
    runs_owned: Gauge,
    calls: CallMetrics,
    webhook_attempts: Family<labels::WebhookLabels, Counter>,
    webhook_deliveries_waiting: Gauge,
    webhooks_off: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// The form of [`encode`](Self::encode), for `Content-Type`.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Metrics of their own, all zero.
    pub fn new() -> Self {
        Self::with(&Counters::default())
    }

    /// Metrics that show an exporter's counters too.
    pub(crate) fn with(exporter: &Counters) -> Self {
        let mut inner = Inner::new();
        inner.register(exporter);
        Self { inner: Arc::new(inner) }
    }

    /// Counts the beginning of a run.
    pub fn run_started(&self, agent: &AgentName) {
        let agent = self.inner.agents.label(agent.as_str());
        self.inner.runs_started.get_or_create(&AgentLabels { agent }).inc();
    }

    /// Counts what a span is about. Each span is counted once, when its run is live.
    pub fn observe(&self, span: &Span) {
        let inner = &self.inner;
        match &span.subject {
            Subject::Run(run) => {
                let agent = inner.agents.label(run.agent.as_str());
                let millis = span.end.as_millis().saturating_sub(span.start.as_millis());
                let labels = AgentLabels { agent: agent.clone() };
                inner.run_seconds.get_or_create(&labels).observe(seconds(millis));
                if let Some(code) = run.code {
                    inner.run_errors.get_or_create(&ErrorLabels { agent: agent.clone(), code }).inc();
                }
                inner.runs_finished.get_or_create(&RunLabels { agent, status: run.status }).inc();
            }
            Subject::Operation(facts) => {
                let labels = operation_labels(facts);
                inner.operations.get_or_create(&labels).inc();
                inner.operation_seconds.get_or_create(&labels).observe(seconds(facts.active_ms));
                for gate in &facts.gates {
                    inner.gates.get_or_create(&labels::GateLabels { gate }).inc();
                }
                inner.called(facts);
            }
            Subject::Late(facts) => {
                inner.late.get_or_create(&operation_labels(facts)).inc();
                inner.used(facts);
            }
            Subject::Attempt(attempt) => {
                let labels = AttemptLabels { kind: attempt.kind.as_str(), code: attempt.code.unwrap_or(OK) };
                inner.attempts.get_or_create(&labels).inc();
            }
            Subject::Step { .. } | Subject::Turn { .. } => {}
        }
    }

    /// Counts what was measured in a call of an agent.
    pub(crate) fn call(&self, agent: &AgentName, measured: Measured) {
        self.inner.calls.count(&self.inner.agents.label(agent.as_str()), measured);
    }

    /// Counts a delivery to a trigger of dalsegno.toml, or to none that exists.
    pub fn delivery(&self, trigger: Option<&str>, result: &'static str) {
        let trigger = trigger.unwrap_or(UNKNOWN).to_owned();
        self.inner.deliveries.get_or_create(&labels::DeliveryLabels { trigger, result }).inc();
    }

    /// Counts a token that a client showed, by what its check said.
    pub fn token(&self, result: &'static str) {
        self.inner.credentials.get_or_create(&labels::CredentialLabels { result }).inc();
    }

    /// Notes how long a commit took, and how many records it held.
    pub fn commit(&self, took: Duration, records: usize) {
        self.inner.commit_seconds.observe(took.as_secs_f64());
        self.inner.commit_records.inc_by(records as u64);
    }

    /// Counts a commit that could not be written and is written again.
    pub fn commit_retried(&self, kind: StorageKind) {
        let reason = match kind {
            StorageKind::Busy => "busy",
            StorageKind::Full => "full",
            StorageKind::Io => "io",
            _ => "other",
        };
        self.inner.commit_retries.get_or_create(&labels::ReasonLabels { reason }).inc();
    }

    /// Says what the effects of this process are up against.
    pub fn set_load(&self, load: &Load) {
        self.inner.effects_under_way.set(gauge(load.under_way));
        self.inner.effects_queued.set(gauge(load.queued));
        self.inner.breakers_open.set(gauge(load.open.len()));
    }

    /// Counts what came of an attempt to deliver a webhook.
    pub fn webhook_attempted(&self, outcome: &'static str) {
        self.inner.webhook_attempts.get_or_create(&labels::WebhookLabels { outcome }).inc();
    }

    /// Says how many deliveries of webhooks wait, and how many webhooks are off.
    pub fn set_webhooks(&self, waiting: u64, off: u64) {
        self.inner.webhook_deliveries_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.inner.webhooks_off.set(i64::try_from(off).unwrap_or(i64::MAX));
    }

    /// This process performs one more run.
    pub(crate) fn run_taken(&self) {
        self.inner.runs_owned.inc();
    }

    /// This process has let go of a run.
    pub(crate) fn run_left(&self) {
        self.inner.runs_owned.dec();
    }

    /// All metrics as text, in the OpenMetrics form that Prometheus scrapes.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // A `String` takes whatever is written to it, and every metric of ours can be written.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.inner.registry);
        text
    }
}

impl Inner {
    fn new() -> Self {
        Self {
            registry: Registry::with_prefix("dalsegno"),
            agents: Known::new(64),
            tools: Known::new(256),
            models: Known::new(64),
            runs_started: Family::default(),
            runs_finished: Family::default(),
            run_errors: Family::default(),
            run_seconds: Family::new_with_constructor(long),
            operations: Family::default(),
            operation_seconds: Family::new_with_constructor(long),
            attempts: Family::default(),
            late: Family::default(),
            gates: Family::default(),
            denials: Family::default(),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(long),
            model_calls: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            lost_attempts: Family::default(),
            deliveries: Family::default(),
            credentials: Family::default(),
            commit_seconds: Histogram::new(COMMIT_BUCKETS),
            commit_records: Counter::default(),
            commit_retries: Family::default(),
            effects_under_way: Gauge::default(),
            effects_queued: Gauge::default(),
            breakers_open: Gauge::default(),
            runs_owned: Gauge::default(),
            calls: CallMetrics::new(),
            webhook_attempts: Family::default(),
            webhook_deliveries_waiting: Gauge::default(),
            webhooks_off: Gauge::default(),
        }
    }

    fn register(&mut self, exporter: &Counters) {
        let Self { registry, .. } = self;
        registry.register("runs_started", "Runs that began", self.runs_started.clone());
        registry.register("runs_finished", "Runs that ended, by how", self.runs_finished.clone());
        registry.register(
            "run_errors",
            "Runs that ended with an error, by its code",
            self.run_errors.clone(),
        );
        registry.register(
            "run_seconds",
            "Time from the beginning of a run to its end, waiting included",
            self.run_seconds.clone(),
        );
        registry.register("operations", "Operations that ended, by kind and code", self.operations.clone());
        registry.register(
            "operation_seconds",
            "Time spent on operations, without downtime and without waiting for people",
            self.operation_seconds.clone(),
        );
        registry.register(
            "attempts",
            "Attempts of operations that took more than one, by kind and code",
            self.attempts.clone(),
        );
        registry.register("late_outcomes", "Outcomes that came too late", self.late.clone());
        registry.register("gates", "Gates that operations waited at", self.gates.clone());
        registry.register(
            "tool_denials",
            "What servers of tools wanted and were not granted, by tool and kind",
            self.denials.clone(),
        );
        registry.register(
            "tool_calls",
            "Tool calls that ended or were refused, by agent, tool and code",
            self.tool_calls.clone(),
        );
        registry.register(
            "tool_seconds",
            "Time spent on tool calls, by agent and tool, without downtime and without waiting for people",
            self.tool_seconds.clone(),
        );
        registry.register("model_calls", "Model calls that ended, by code", self.model_calls.clone());
        registry.register("model_tokens", "Tokens, as the providers count", self.tokens.clone());
        registry.register(
            "model_cost_usd",
            "What model replies cost in US dollars, as far as prices are known",
            self.cost.clone(),
        );
        registry.register(
            "model_lost_attempts",
            "Model calls without a reply that may have been charged for",
            self.lost_attempts.clone(),
        );
        registry.register(
            "deliveries",
            "Deliveries to triggers, by what came of them",
            self.deliveries.clone(),
        );
        registry.register(
            "tokens_checked",
            "Tokens of an identity provider that clients showed",
            self.credentials.clone(),
        );
        registry.register("commit_seconds", "Time of a commit", self.commit_seconds.clone());
        registry.register("committed_records", "Records that were committed", self.commit_records.clone());
        registry.register(
            "commit_retries",
            "Commits that could not be written and were written again, by reason",
            self.commit_retries.clone(),
        );
        registry.register("effects_under_way", "Effects under way", self.effects_under_way.clone());
        registry.register(
            "effects_queued",
            "Effects that wait for others to end",
            self.effects_queued.clone(),
        );
        registry.register("breakers_open", "Circuit breakers that are open", self.breakers_open.clone());
        registry.register("runs_owned", "Runs that this process owns", self.runs_owned.clone());
        self.calls.register(registry);
        registry.register(
            "webhook_attempts",
            "Attempts to deliver webhooks, by outcome",
            self.webhook_attempts.clone(),
        );
        registry.register(
            "webhook_deliveries_waiting",
            "Deliveries of webhooks that wait",
            self.webhook_deliveries_waiting.clone(),
        );
        registry.register("webhooks_off", "Webhooks that are off", self.webhooks_off.clone());
        registry.register("spans_exported", "Spans that the collector took", exporter.exported.clone());
        registry.register("spans_dropped", "Spans that were given up", exporter.dropped.clone());
        registry.register(
            "span_export_failures",
            "Requests to the collector that failed",
            exporter.failures.clone(),
        );
    }

    /// Counts a call that ended.
    fn called(&self, facts: &OperationFacts) {
        let code = facts.code.unwrap_or(OK);
        match facts.kind {
            OperationKind::Tool => {
                let tool = self.tools.label(facts.object.as_deref().unwrap_or(UNKNOWN));
                for (kind, count) in &facts.denials {
                    let labels = labels::DenialLabels { tool: tool.clone(), kind };
                    self.denials.get_or_create(&labels).inc_by(*count);
                }
                let agent = self.agents.label(facts.agent.as_str());
                let labels = ToolTimeLabels { agent: agent.clone(), tool: tool.clone() };
                self.tool_seconds.get_or_create(&labels).observe(seconds(facts.active_ms));
                self.tool_calls.get_or_create(&ToolLabels { agent, tool, code }).inc();
            }
            OperationKind::Chat => {
                for &(ref tool, code) in &facts.refused {
                    let agent = self.agents.label(facts.agent.as_str());
                    // A name that no tool has is a model's invention, of which there is no end.
                    let tool = match code {
                        "tool_not_found" => UNKNOWN.to_owned(),
                        _ => self.tools.label(tool),
                    };
                    self.tool_calls.get_or_create(&ToolLabels { agent, tool, code }).inc();
                }
                let ModelLabels { agent, model } = self.model_labels(facts);
                self.model_calls.get_or_create(&ModelCallLabels { agent, model, code }).inc();
                self.used(facts);
            }
            OperationKind::MemorySearch
            | OperationKind::MemoryCreate
            | OperationKind::MemoryTraverse
            | OperationKind::Agent
            | OperationKind::Question
            | OperationKind::Timer
            | OperationKind::Http
            | OperationKind::Mail
            | OperationKind::Transfer
            | OperationKind::Unknown => {}
        }
    }

    /// Counts what a model call took.
    fn used(&self, facts: &OperationFacts) {
        if facts.kind != OperationKind::Chat {
            return;
        }
        let labels = self.model_labels(facts);
        for (direction, tokens) in [("input", facts.input_tokens), ("output", facts.output_tokens)] {
            if tokens > 0 {
                let ModelLabels { agent, model } = labels.clone();
                self.tokens.get_or_create(&TokenLabels { agent, model, direction }).inc_by(tokens);
            }
        }
        if facts.cost_nano_usd > 0 {
            self.cost.get_or_create(&labels).inc_by(facts.cost_nano_usd as f64 / 1e9);
        }
        if facts.lost_attempts > 0 {
            self.lost_attempts.get_or_create(&labels).inc_by(facts.lost_attempts.into());
        }
    }

    fn model_labels(&self, facts: &OperationFacts) -> ModelLabels {
        ModelLabels {
            agent: self.agents.label(facts.agent.as_str()),
            model: self.models.label(facts.model.as_deref().unwrap_or(UNKNOWN)),
        }
    }
}

fn operation_labels(facts: &OperationFacts) -> OperationLabels {
    OperationLabels { kind: facts.kind.as_str(), code: facts.code.unwrap_or(OK) }
}

/// The code of what has no error.
const OK: &str = "ok";

/// The name of what is not known.
const UNKNOWN: &str = "unknown";

/// From a tool that is fast to a run that waits for a day.
fn long() -> Histogram {
    Histogram::new([
        0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0,
    ])
}

/// From memory to a disk under load.
const COMMIT_BUCKETS: [f64; 12] =
    [0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.1, 0.5, 2.5];

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

fn gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
