//! What is delivered: the body of a request.

use dalsegno_core::Timestamp;
use dalsegno_history::Journal;
use dalsegno_store::RunSummary;
use dalsegno_webhooks::{Delivery, Endpoint, Message};
use dalsegno_wire::{ErasedRun, Lineage, Listed, Standing, schema, time};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::problem::Problem;

/// Most bytes of what a run says: receivers take no long bodies.
const CONTENT: usize = 256 << 10;

/// What a webhook receives.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEvent)]
pub(crate) struct Envelope {
    /// What has happened, such as `run.completed`.
    #[schema(value_type = String)]
    r#type: &'static str,
    /// When it happened.
    #[schema(value_type = schema::Time)]
    timestamp: String,
    /// The run as the listing has it, as it is when it is sent.
    data: Data,
}

/// A run for a webhook.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookData)]
pub(crate) struct Data {
    /// The id of the webhook.
    webhook: String,
    #[serde(flatten)]
    listed: Listed,
    /// For a webhook that wants content: the run as `GET /v1/runs/{id}` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    run: Option<Value>,
    /// Why `run` is not there: `too_large`, or `unreadable`. Ask for the run instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    left_out: Option<&'static str>,
}

/// The body of a delivery about a run.
pub(super) async fn of_run(journal: &Journal, delivery: &Delivery, summary: &RunSummary) -> Vec<u8> {
    let (run, left_out) = match delivery.endpoint.content {
        false => (None, None),
        true => match content(journal, summary).await {
            Ok(run) if run.to_string().len() > CONTENT => (None, Some("too_large")),
            Ok(run) => (Some(run), None),
            Err(_) => (None, Some("unreadable")),
        },
    };
    let data = Data {
        webhook: delivery.endpoint.id.clone(),
        listed: Listed::of(summary, None, false, None),
        run,
        left_out,
    };
    let timestamp = time::exact(summary.updated_at);
    // It is texts and numbers, which always have a JSON form.
    serde_json::to_vec(&Envelope { r#type: delivery.event.as_str(), timestamp, data }).unwrap_or_default()
}

/// The run as `GET /v1/runs/{id}` gives it. What was erased is not sent: it is read when it is sent.
async fn content(journal: &Journal, summary: &RunSummary) -> Result<Value, Problem> {
    let standing = async {
        let latest = journal.latest(summary.run).await?;
        let lineage = Lineage::of_latest(&latest, journal).await;
        Ok::<_, Problem>(serde_json::to_value(Standing::of_latest(&latest, lineage)).unwrap_or_default())
    };
    match standing.await {
        Err(problem) if problem.is_erased() => {
            Ok(serde_json::to_value(ErasedRun::of(summary)).unwrap_or_default())
        }
        shown => shown,
    }
}

/// A message that says nothing of a run, `now` in milliseconds since the epoch: what a test sends.
pub fn test_message(endpoint: &Endpoint, now: u64) -> Message {
    let body = json!({
        "type": "webhook.test",
        "timestamp": time::exact(Timestamp::from_millis(now)),
        "data": { "webhook": endpoint.id, "tenant": endpoint.tenant() },
    });
    Message {
        id: format!("msg_test_{}_{now}", endpoint.id),
        at: now / 1_000,
        body: body.to_string().into_bytes(),
    }
}
