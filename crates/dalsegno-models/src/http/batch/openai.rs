//! Batches of OpenAI's wires: a file of requests, one on each line, and a file of answers.

use dalsegno_core::OrderedJson;
use serde_json::{Value, json};

use super::{Answer, Call, Stand, bounded, ended, refused};
use crate::http::body::object;
use crate::http::failure;
use crate::http::surrogates::Surrogates;
use crate::http::{HttpModel, Wire};
use crate::model::{CompletionRequest, ModelError, ModelErrorKind};

/// What a batch says of the operation that it is for, so that it is found again if its id was lost.
const OPERATION: &str = "dalsegno_operation";

/// How long the provider has: the only choice that there is.
const WINDOW: &str = "24h";

impl HttpModel {
    pub(super) async fn submit_to_openai(&self, request: &CompletionRequest) -> Result<String, ModelError> {
        let operation = request.operation.to_string();
        if let Some(id) = self.find_at_openai(&operation).await? {
            return Ok(id);
        }
        let line = object([
            ("custom_id", json!(operation).into()),
            ("method", json!("POST").into()),
            ("url", json!(self.batch_url()).into()),
            ("body", self.request_body(request)?),
        ]);
        let file = self.call(&upload(&operation, &line)?).await?.id("id")?;
        let batch = json!({
            "input_file_id": file, "endpoint": self.batch_url(), "completion_window": WINDOW,
            "metadata": { OPERATION: operation },
        });
        self.call(&Call::post(["batches"], batch.to_string().into_bytes())).await?.id("id")
    }

    /// What the provider calls the address that each request of a batch goes to.
    fn batch_url(&self) -> &'static str {
        match self.settings.wire {
            Wire::OpenaiResponses => "/v1/responses",
            _ => "/v1/chat/completions",
        }
    }

    /// The batch of an operation that is worked on already: the process that began it may have died before it wrote that down.
    async fn find_at_openai(&self, operation: &str) -> Result<Option<String>, ModelError> {
        let listed = Call { query: &[("limit", "100")], ..Call::get(["batches"]) };
        let listed = self.call(&listed).await?.json()?;
        let mut batches = listed["data"].as_array().into_iter().flatten();
        let found = batches.find(|batch| {
            let status = batch["status"].as_str().unwrap_or_default();
            batch["metadata"][OPERATION] == operation
                && matches!(status, "validating" | "in_progress" | "finalizing")
        });
        Ok(found.and_then(|batch| batch["id"].as_str()).map(str::to_owned))
    }

    pub(super) async fn look_at_openai(
        &self,
        request: &CompletionRequest,
        id: &str,
    ) -> Result<(Stand, Answer), ModelError> {
        let answer = self.call(&Call::get(["batches", id])).await?;
        let batch = answer.json()?;
        let stand = match batch["status"].as_str() {
            Some("validating" | "in_progress" | "finalizing" | "cancelling") => Stand::Working,
            Some("failed") => Stand::Failed(why(&batch, &answer)),
            Some("expired") => Stand::Failed(ended("expired")),
            Some("cancelled") => Stand::Failed(cancelled()),
            Some("completed") => {
                let file = ["output_file_id", "error_file_id"].iter().find_map(|file| batch[*file].as_str());
                let Some(file) = file else { return Ok((Stand::Failed(ended("has no answers")), answer)) };
                let answer = self.call(&Call::get(["files", file, "content"])).await?;
                let stand = self.answer_of(&request.operation.to_string(), &answer);
                return Ok((stand, answer));
            }
            _ => return Err(answer.unexpected("a batch with a `status`")),
        };
        Ok((stand, answer))
    }

    /// The answer to the request of an operation, in a file of answers.
    fn answer_of(&self, operation: &str, answer: &Answer) -> Stand {
        let text = answer.text();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(&Surrogates::default().join(line)).ok());
        let Some(mut line) = lines.into_iter().find(|line| line["custom_id"] == operation) else {
            return Stand::Failed(answer.unexpected("a line for the request"));
        };
        if line["error"].is_object() {
            return Stand::Failed(failure::from_event(&line["error"], answer.hidden()));
        }
        let body = line["response"]["body"].take();
        match line["response"]["status_code"].as_u64() {
            Some(200) => Stand::Replied(body),
            status => {
                Stand::Failed(refused(self.endpoint.shown(), status.unwrap_or(0), &body, answer.hidden()))
            }
        }
    }
}

/// Why a batch was not worked on.
fn why(batch: &Value, answer: &Answer) -> ModelError {
    let error = &batch["errors"]["data"][0];
    if error["code"] == "token_limit_exceeded" {
        // The account has as much in its queue as it may.
        let said = failure::quote(error["message"].as_str().unwrap_or_default(), answer.hidden());
        return ModelError::new(ModelErrorKind::RateLimited, format!("the provider took no batch: {said}"));
    }
    let failed = failure::from_event(error, answer.hidden());
    ModelError::new(ModelErrorKind::Refused, format!("the provider refused the batch: {}", failed.message))
}

fn cancelled() -> ModelError {
    ModelError::new(ModelErrorKind::Refused, "the batch was cancelled at the provider")
}

pub(super) fn cancel(id: &str) -> Call {
    Call::post(["batches", id, "cancel"], Vec::new())
}

/// The upload of a file with one request. Nothing in a line of JSON looks like a boundary, which begins a line.
fn upload(operation: &str, line: &OrderedJson) -> Result<Call, ModelError> {
    let boundary = format!("dalsegno-{operation}");
    let body = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{operation}.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n{line}\n\r\n--{boundary}--\r\n"
    );
    let media_type = format!("multipart/form-data; boundary={boundary}");
    Ok(Call { media_type, ..Call::post(["files"], bounded(body.into_bytes())?) })
}
