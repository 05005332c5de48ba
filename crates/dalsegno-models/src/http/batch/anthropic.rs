//! Batches of Anthropic Messages: requests in the body, answers in a list of lines.

use serde_json::{Value, json};

use super::{Answer, Call, Stand, bounded, ended};
use crate::http::HttpModel;
use crate::http::body::object;
use crate::http::failure;
use crate::http::surrogates::Surrogates;
use crate::model::{CompletionRequest, ModelError, ModelErrorKind};

impl HttpModel {
    /// Batches of this wire say nothing by which one could be found again.
    pub(super) async fn submit_to_anthropic(
        &self,
        request: &CompletionRequest,
    ) -> Result<String, ModelError> {
        let one = object([
            ("custom_id", json!(request.operation.to_string()).into()),
            ("params", self.request_body(request)?),
        ]);
        let body = format!("{{\"requests\":[{one}]}}");
        let call = Call::post(["v1", "messages", "batches"], bounded(body.into_bytes())?);
        self.call(&call).await?.id("id")
    }

    pub(super) async fn look_at_anthropic(&self, id: &str) -> Result<(Stand, Answer), ModelError> {
        let answer = self.call(&Call::get(["v1", "messages", "batches", id])).await?;
        match answer.json()?["processing_status"].as_str() {
            Some("in_progress" | "canceling") => return Ok((Stand::Working, answer)),
            Some("ended") => {}
            _ => return Err(answer.unexpected("a batch with a `processing_status`")),
        }
        // Not from the address that the batch names: the key goes to the endpoint of the settings alone.
        let answer = self.call(&Call::get(["v1", "messages", "batches", id, "results"])).await?;
        let text = answer.text();
        let line = text.lines().next().unwrap_or_default();
        let line: Value = serde_json::from_str(&Surrogates::default().join(line)).unwrap_or_default();
        let mut result = line["result"].clone();
        let stand = match result["type"].as_str() {
            Some("succeeded") => Stand::Replied(result["message"].take()),
            Some("errored") => {
                let error = result["error"].get("error").unwrap_or(&result["error"]);
                Stand::Failed(failure::from_event(error, answer.hidden()))
            }
            Some("expired") => Stand::Failed(ended("expired")),
            Some("canceled") => {
                let message = "the batch was cancelled at the provider";
                Stand::Failed(ModelError::new(ModelErrorKind::Refused, message))
            }
            _ => Stand::Failed(answer.unexpected("a line with a `result`")),
        };
        Ok((stand, answer))
    }
}

pub(super) fn cancel(id: &str) -> Call {
    Call::post(["v1", "messages", "batches", id, "cancel"], Vec::new())
}
