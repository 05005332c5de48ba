//! What came of effects.

use alloc::format;

use serde_json::{Value, json};

use super::run::{Advance, Notes, Run};
use crate::action::{ActionKind, ApiCallSource, OnError, ToolAction};
use crate::effect::{ApiResponse, EffectOutcome, EffectRequest};
use crate::json::{self, measure};
use crate::limits::{MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use crate::outcome::{ErrorCode, ToolError};

/// How much of an error's body is kept, in bytes.
const MAX_ERROR_BODY: usize = 2 * 1024;
/// How much of a shell's message is kept, in characters.
const MAX_MESSAGE: usize = 1_000;

impl Run<'_, '_> {
    /// Takes the outcome of an action's effect.
    pub(super) fn settled(
        &mut self,
        action: &ToolAction,
        request: &EffectRequest,
        outcome: EffectOutcome,
        notes: &mut Notes,
    ) -> Result<Advance, ToolError> {
        notes.details.insert("request".into(), json::excerpt(&request.label()).into());
        let mut on_error = match &action.kind {
            ActionKind::ApiCall(source) => source.on_error,
            ActionKind::Email(source) => source.on_error,
            ActionKind::Tool(source) => source.on_error,
            ActionKind::Transfer { on_error, .. } => *on_error,
            _ => OnError::Fail,
        };
        let taken = match (outcome, &action.kind) {
            (EffectOutcome::Response(response), ActionKind::ApiCall(source)) => {
                notes.details.insert("status".into(), response.status.into());
                notes.details.insert("attempts".into(), response.attempts.into());
                let mut is_performed = (200..300).contains(&response.status);
                if let EffectRequest::ApiCall(call) = request {
                    if call.repeats_tolerated {
                        notes.details.insert("repeats_tolerated".into(), true.into());
                    }
                    if let Some(meaning) = call.statuses.get(&response.status) {
                        notes.details.insert("status_means".into(), meaning.as_str().into());
                    }
                    is_performed = call.is_performed(response.status);
                }
                self.response(action, source, response, is_performed)
            }
            (EffectOutcome::Sent { message_id }, ActionKind::Email(_)) => {
                self.keep(action, json!({"sent": true, "message_id": message_id}))
            }
            (EffectOutcome::Returned { output }, ActionKind::Tool(source)) => match &source.response {
                Some(path) => self.write(path, output.clone(), false),
                None => Ok(()),
            }
            .and_then(|()| self.keep(action, output)),
            (EffectOutcome::Requested, ActionKind::Transfer { .. }) => {
                self.keep(action, json!({"requested": true}))
            }
            (EffectOutcome::Failed(failure), _) => {
                if failure.attempts > 0 {
                    notes.details.insert("attempts".into(), failure.attempts.into());
                }
                let message: alloc::string::String = failure.message.chars().take(MAX_MESSAGE).collect();
                let mut error = ToolError::new(failure.code, message);
                error.details = failure.details;
                if failure.ends {
                    on_error = OnError::Fail;
                }
                Err(match &failure.reason {
                    Some(reason) => error.with("reason", json::excerpt(reason)),
                    None => error,
                })
            }
            // `resume` refuses these; a state from elsewhere may hold one.
            _ => Err(ToolError::new(ErrorCode::Internal, "the outcome does not answer the action's effect")),
        };
        match taken {
            Ok(()) => Ok(Advance::Done),
            Err(error) => self.effect_failed(action, on_error, error),
        }
    }

    /// Fails, or goes on with the error as the result.
    pub(super) fn effect_failed(
        &mut self,
        action: &ToolAction,
        on_error: OnError,
        error: ToolError,
    ) -> Result<Advance, ToolError> {
        // Who cancels does not mean the next action either.
        let goes_on = on_error == OnError::Continue && error.code != ErrorCode::Cancelled;
        if !goes_on {
            return Err(error);
        }
        let mut shown = json!({"code": error.code.as_str(), "message": error.message});
        if let Some(status) = error.details.get("status") {
            shown["status"] = status.clone();
        }
        self.keep(action, json!({"error": shown}))?;
        Ok(Advance::Continue(error))
    }

    fn response(
        &mut self,
        action: &ToolAction,
        source: &ApiCallSource,
        response: ApiResponse,
        is_performed: bool,
    ) -> Result<(), ToolError> {
        let ApiResponse { status, body, violations, .. } = response;
        if !is_performed {
            return Err(ToolError::new(
                ErrorCode::HttpError,
                format!("the service answered with status {status}"),
            )
            .with("status", status)
            .with("body", shortened(body)));
        }
        let most = usize::try_from(source.max_response_bytes).unwrap_or(MAX_VALUE_BYTES);
        if measure(&body, most.saturating_add(MEASURE_SLACK).min(MAX_VALUE_BYTES), MAX_VALUE_DEPTH).is_none()
        {
            let message = format!("the response has more than {most} bytes or {MAX_VALUE_DEPTH} levels");
            return Err(ToolError::because(ErrorCode::LimitExceeded, "response_too_large", message));
        }
        if !violations.is_empty() {
            let listed: alloc::vec::Vec<Value> = violations
                .iter()
                .take(crate::limits::MAX_VIOLATIONS)
                .map(|violation| json!({"pointer": violation.pointer, "message": violation.message}))
                .collect();
            let message = "the response does not have the form that `response_schema` asks for";
            return Err(ToolError::because(ErrorCode::ActionFailed, "response_schema", message)
                .with("schema_violations", Value::Array(listed)));
        }
        if let Some(path) = &source.response {
            self.write(path, body.clone(), false)?;
        }
        self.keep(action, body)
    }
}

/// Sizes here are estimates, a little more than a compact document.
const MEASURE_SLACK: usize = 1024;

/// The beginning of what a service sent with an error, for the people who keep the tool.
fn shortened(body: Value) -> Value {
    if measure(&body, MAX_ERROR_BODY, MAX_VALUE_DEPTH).is_some() {
        return body;
    }
    let text = match &body {
        Value::String(text) => text.clone(),
        other if measure(other, MAX_VALUE_BYTES, MAX_VALUE_DEPTH).is_some() => json::print(other),
        _ => return Value::Null,
    };
    let end = text.char_indices().map(|(index, _)| index).take_while(|index| *index <= MAX_ERROR_BODY).last();
    format!("{}…", &text[..end.unwrap_or_default()]).into()
}
