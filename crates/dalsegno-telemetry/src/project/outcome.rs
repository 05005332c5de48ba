//! What came of an operation, as attributes.

use dalsegno_core::{Outcome, Price, ReplyPart, Status as RunStatus, StopReason};
use serde_json::Value as Json;

use super::Shared;
use crate::content::finish_reason;
use crate::semconv as name;
use crate::span::{OperationFacts, Status, Value};

/// Adds what came of an operation to its facts and attributes; gives its status where it failed.
pub(super) fn describe(
    shared: &Shared,
    outcome: &Outcome,
    price: Option<&Price>,
    facts: &mut OperationFacts,
    attributes: &mut Vec<(&'static str, Value)>,
) -> Option<Status> {
    let content = shared.options.content;
    let mut add = |name: &'static str, value: Option<Value>| {
        attributes.extend(value.map(|value| (name, value)));
    };
    let failed = match outcome {
        Outcome::ModelReplied(reply) => {
            facts.input_tokens = reply.input_tokens;
            facts.output_tokens = reply.output_tokens;
            facts.lost_attempts = reply.lost_attempts;
            // Only calls of the agent's own model are calls of its tools, and those of a withheld reply are not performed.
            if let (Some(config), StopReason::ToolCalls | StopReason::End) = (&shared.config, reply.stop) {
                let tool = |name: &str| {
                    config.tools.find(name).map_or_else(|| name.to_owned(), |(tool, _)| tool.to_string())
                };
                let refused =
                    reply.calls().filter_map(|call| Some((tool(&call.name), config.refuses(call)?)));
                facts.refused = refused.collect();
            }
            add(name::GEN_AI_USAGE_INPUT_TOKENS, Some(reply.input_tokens.into()));
            add(name::GEN_AI_USAGE_OUTPUT_TOKENS, Some(reply.output_tokens.into()));
            let known = |count: u64| Some(count).filter(|count| *count > 0).map(Value::from);
            add(name::GEN_AI_USAGE_CACHE_READ, known(reply.details.cached_input_tokens));
            add(name::GEN_AI_USAGE_CACHE_CREATION, known(reply.details.cache_write_tokens));
            add(name::GEN_AI_USAGE_REASONING, known(reply.details.reasoning_tokens));
            let reason = Value::Texts(vec![finish_reason(reply.stop).to_owned()]);
            add(name::GEN_AI_RESPONSE_FINISH_REASONS, Some(reason));
            if let Some(price) = price {
                facts.cost_nano_usd = price.nano_usd(reply.input_tokens, reply.output_tokens, &reply.details);
                add(name::DALSEGNO_COST_NANO_USD, Some(facts.cost_nano_usd.into()));
            }
            let calls = reply.parts.iter().filter(|part| matches!(part, ReplyPart::Call(_))).count();
            add(name::DALSEGNO_TOOL_CALLS, Some(Value::from(calls as u64)));
            add(name::GEN_AI_OUTPUT_MESSAGES, content.reply(reply).map(Value::Text));
            None
        }
        Outcome::MemoryFound(hits) => {
            add(name::GEN_AI_MEMORY_RECORD_COUNT, Some(Value::from(hits.len() as u64)));
            add(name::GEN_AI_MEMORY_RECORDS, content.hits(hits).map(Value::Text));
            None
        }
        Outcome::MemoryCreated(_) => {
            add(name::GEN_AI_MEMORY_RECORD_COUNT, Some(Value::Number(1)));
            None
        }
        Outcome::MemoryTraversed(found) => {
            add(name::GEN_AI_MEMORY_RECORD_COUNT, Some(Value::from(found.entities.len() as u64)));
            None
        }
        Outcome::ToolReturned(returned) => {
            let result = || match &returned.structured {
                Some(value) if returned.text.is_empty() => value.to_string(),
                _ => returned.text.clone(),
            };
            add(name::GEN_AI_TOOL_CALL_RESULT, content.text(result).map(Value::Text));
            returned.error_code().map(|code| (code, returned.text.as_str()))
        }
        Outcome::AgentReturned(returned) => {
            add(name::DALSEGNO_OTHER_RUN, Some(returned.run.to_string().into()));
            add(name::GEN_AI_USAGE_INPUT_TOKENS, Some(returned.usage.input_tokens.into()));
            add(name::GEN_AI_USAGE_OUTPUT_TOKENS, Some(returned.usage.output_tokens.into()));
            let answer = returned.answer.as_deref();
            let answer = answer.and_then(|answer| content.message("assistant", answer, Some("stop")));
            add(name::GEN_AI_OUTPUT_MESSAGES, answer.map(Value::Text));
            match (&returned.error, returned.status) {
                (Some(error), _) => Some((error.code.as_str(), error.message.as_str())),
                (None, RunStatus::Completed | RunStatus::HandedOff) => None,
                (None, RunStatus::Failed) => Some(("agent_failed", "")),
                (None, RunStatus::Cancelled) => Some(("cancelled", "")),
            }
        }
        Outcome::InputGiven(value) => {
            let given = match value {
                Json::String(text) => content.text(|| text.clone()),
                value => content.json(value),
            };
            add(name::DALSEGNO_GIVEN, given.map(Value::Text));
            None
        }
        Outcome::ApiAnswered(response) => {
            add(name::HTTP_RESPONSE_STATUS_CODE, Some(Value::from(u64::from(response.status))));
            match response.status {
                500.. => Some(("http_5xx", "")),
                400..500 => Some(("http_4xx", "")),
                _ => None,
            }
        }
        Outcome::EmailSent(_) | Outcome::TransferRequested | Outcome::TimerFired => None,
        Outcome::Failed(failure) => {
            facts.lost_attempts = failure.lost_attempts;
            Some((failure.code.as_str(), failure.message.as_str()))
        }
    };
    if facts.lost_attempts > 0 {
        attributes.push((name::DALSEGNO_LOST_ATTEMPTS, facts.lost_attempts.into()));
    }
    let (code, message) = failed?;
    facts.code = Some(code);
    attributes.push((name::ERROR_TYPE, code.into()));
    Some(shared.failed(code, message))
}
