//! Batches of Gemini: requests in the body, answers in the batch.

use serde_json::{Value, json};

use super::{Answer, Call, Stand, bounded, ended};
use crate::http::HttpModel;
use crate::http::body::object;
use crate::http::failure;
use crate::http::gemini;
use crate::model::{CompletionRequest, ModelError, ModelErrorKind};

impl HttpModel {
    pub(super) async fn submit_to_gemini(&self, request: &CompletionRequest) -> Result<String, ModelError> {
        let operation = request.operation.to_string();
        if let Some(id) = self.find_at_gemini(&operation).await? {
            return Ok(id);
        }
        let request = self.request_body(request)?;
        let one = object([("request", request), ("metadata", json!({ "key": operation }).into())]);
        let name = json!(operation);
        let body = format!(
            "{{\"batch\":{{\"displayName\":{name},\"inputConfig\":{{\"requests\":{{\"requests\":[{one}]}}}}}}}}"
        );
        let path = gemini::batch_path(&self.settings.model);
        let call = Call { path, ..Call::post([], bounded(body.into_bytes())?) };
        self.call(&call).await?.id("name")
    }

    /// The batch of an operation that is worked on already: the process that began it may have died before it wrote that down.
    async fn find_at_gemini(&self, operation: &str) -> Result<Option<String>, ModelError> {
        let listed = Call { query: &[("pageSize", "100")], ..Call::get(["batches"]) };
        let listed = self.call(&listed).await?.json()?;
        let mut batches = listed["operations"].as_array().into_iter().flatten();
        let found = batches.find(|batch| {
            let state = batch["metadata"]["state"].as_str().unwrap_or_default();
            batch["metadata"]["displayName"] == operation && is_working(state)
        });
        Ok(found.and_then(|batch| batch["name"].as_str()).map(str::to_owned))
    }

    pub(super) async fn look_at_gemini(&self, id: &str) -> Result<(Stand, Answer), ModelError> {
        let path = path(id)?;
        let answer = self.call(&Call { path, ..Call::get([]) }).await?;
        let batch = answer.json()?;
        let state = batch["metadata"]["state"].as_str().unwrap_or_default();
        let stand = match state {
            _ if is_working(state) => Stand::Working,
            "BATCH_STATE_SUCCEEDED" => reply(&batch, &answer),
            "BATCH_STATE_FAILED" => Stand::Failed(failure::from_event(&batch["error"], answer.hidden())),
            "BATCH_STATE_EXPIRED" => Stand::Failed(ended("expired")),
            "BATCH_STATE_CANCELLED" => {
                let message = "the batch was cancelled at the provider";
                Stand::Failed(ModelError::new(ModelErrorKind::Refused, message))
            }
            _ => return Err(answer.unexpected("a batch with a `state`")),
        };
        Ok((stand, answer))
    }
}

/// The answer to the one request of a batch. It stands in the batch, and in what the long operation came to.
fn reply(batch: &Value, answer: &Answer) -> Stand {
    let one = ["/metadata/output/inlinedResponses", "/response/inlinedResponses"]
        .iter()
        .find_map(|place| batch.pointer(place)?.get("inlinedResponses")?.get(0));
    match one {
        Some(one) if one["response"].is_object() => Stand::Replied(one["response"].clone()),
        Some(one) if one["error"].is_object() => {
            Stand::Failed(failure::from_event(&one["error"], answer.hidden()))
        }
        _ => Stand::Failed(answer.unexpected("an answer to the request")),
    }
}

fn is_working(state: &str) -> bool {
    matches!(state, "BATCH_STATE_UNSPECIFIED" | "BATCH_STATE_PENDING" | "BATCH_STATE_RUNNING")
}

/// The address of a batch, whose id is `batches/` and a name.
fn path(id: &str) -> Result<Vec<String>, ModelError> {
    match id.split_once('/') {
        Some(("batches", name)) if !name.is_empty() && !name.contains('/') => {
            Ok(vec!["batches".to_owned(), name.to_owned()])
        }
        _ => {
            let id = failure::excerpt(id);
            Err(ModelError::new(ModelErrorKind::Refused, format!("`{id}` is no batch of Gemini")))
        }
    }
}

pub(super) fn cancel(id: &str) -> Result<Call, ModelError> {
    let mut path = path(id)?;
    if let Some(name) = path.last_mut() {
        name.push_str(":cancel");
    }
    Ok(Call { path, ..Call::post([], Vec::new()) })
}
