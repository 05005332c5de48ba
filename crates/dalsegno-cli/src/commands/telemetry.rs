//! Traces of what a verb performs, sent where dalsegno.toml says; nowhere else, and nowhere without it.

use std::time::Duration;

use dalsegno_runtime::{Clock as _, OpenError, SecretSource, SystemClock};
use dalsegno_telemetry::{Content, ExportConfig, ModelInfo, ProjectorOptions, Telemetry, TelemetryConfig};
use dalsegno_workspace::{ModelBinding, Provider, Settings, TelemetrySettings};

use crate::error::Error;
use crate::render::output::Output;
use crate::render::text::count;

/// How long the end of a command waits for a collector: one that is away must not keep a person waiting.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts the telemetry of a process that performs runs. Without `[telemetry]` it counts, and sends nothing.
pub(super) async fn start(settings: &Settings) -> Result<Telemetry, Error> {
    let export = match &settings.telemetry {
        Some(telemetry) => Some(export(telemetry, settings).await?),
        None => None,
    };
    let content = match &settings.telemetry {
        Some(TelemetrySettings { content: true, .. }) => Content::DEFAULT_ON,
        _ => Content::Off,
    };
    let models = settings.models.iter().filter_map(|(name, binding)| match binding {
        ModelBinding::Http(http) => {
            let provider = match http.provider {
                Provider::Openai | Provider::OpenaiResponses => "openai",
                Provider::Anthropic => "anthropic",
                // Of the semantic conventions: any Google endpoint.
                Provider::Gemini => "gcp.gen_ai",
                // The word of the conventions.
                Provider::Bedrock => "aws.bedrock",
            };
            Some((name.clone(), ModelInfo { provider: provider.to_owned(), model: http.model.clone() }))
        }
        ModelBinding::Script { .. } | ModelBinding::Cassette { .. } | ModelBinding::InCode => None,
    });
    let spans = ProjectorOptions { content, models: models.collect() };
    Telemetry::start(TelemetryConfig { export, spans }).map_err(|source| Error::Telemetry { source })
}

async fn export(telemetry: &TelemetrySettings, settings: &Settings) -> Result<ExportConfig, OpenError> {
    let mut export = ExportConfig::new(&telemetry.endpoint);
    let source = SecretSource::new(settings.secret_store.clone());
    for (name, reference) in &telemetry.headers {
        let value = source.read(reference, SystemClock.now()).await;
        let value =
            value.map_err(|error| OpenError::Secret { name: name.clone(), message: error.to_string() })?;
        export.headers.push((name.clone(), value.expose().to_owned()));
    }
    export.resource = telemetry.resource.clone().into_iter().collect();
    Ok(export)
}

/// Sends what waits, for a while, and says what was not taken.
pub(super) async fn finish(telemetry: &Telemetry, output: &mut Output) {
    let stats = telemetry.shutdown(PATIENCE).await;
    if stats.dropped > 0 {
        output.note(format_args!(
            "{} did not reach the collector of `[telemetry]`; the journal has everything",
            count(stats.dropped, "span")
        ));
    }
}
