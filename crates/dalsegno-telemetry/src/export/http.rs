//! One request to a collector.

use std::time::Duration;

use dalsegno_net::{client_builder, error_chain};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};

use super::config::{ExportConfig, ExportError};

/// Most bytes that are read of an answer. One that is longer has nothing to say that a counter needs.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Longest pause that a collector may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A client that speaks to one collector.
pub(super) struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

/// Why a batch was not taken.
pub(super) struct Refusal {
    /// What happened, for the log.
    pub(super) reason: String,
    /// Whether, and when at the earliest, to try again.
    pub(super) again: Option<Duration>,
}

impl Collector {
    pub(super) fn new(config: &ExportConfig) -> Result<Self, ExportError> {
        let url = config.url()?;
        let mut headers = config.header_map()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = client_builder(url.scheme() == "https")
            .map_err(|error| ExportError::Client { source: error.into() })?
            .timeout(config.timeout)
            .build()
            .map_err(|error| ExportError::Client { source: error.into() })?;
        Ok(Self { client, url, headers })
    }

    /// Sends a request; gives the number of spans that the collector rejected for good.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<u64, Refusal> {
        let sent = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send().await;
        let mut response = sent.map_err(|error| Refusal {
            reason: error_chain(&error.without_url()),
            again: Some(Duration::ZERO),
        })?;
        let status = response.status();
        if !status.is_success() {
            let again = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let after = after.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
            let pause = after.unwrap_or_default().min(MAX_PAUSE);
            return Err(Refusal { reason: format!("it answered {status}"), again: again.then_some(pause) });
        }
        // Taken. What else the collector says is only counted.
        let answer = read(&mut response).await.unwrap_or_default();
        let answer = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }
}

/// The whole answer, unless it is too long or breaks off.
async fn read(response: &mut Response) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if answer.len() + chunk.len() > MAX_ANSWER_BYTES {
            return None;
        }
        answer.extend_from_slice(&chunk);
    }
    Some(answer)
}
