//! The names of the conventions are what the conventions say.

use dalsegno_telemetry::semconv;
use opentelemetry_semantic_conventions as conventions;

/// Those of the memory are younger than the last release that had all.
const YOUNGER: [&str; 3] =
    ["gen_ai.memory.query.text", "gen_ai.memory.record.count", "gen_ai.memory.records"];

#[test]
#[expect(deprecated, reason = "the crate calls what moved to another repository deprecated")]
fn the_names_are_those_of_the_pinned_release() {
    use conventions::attribute as theirs;
    let released = [
        theirs::ERROR_TYPE,
        theirs::GEN_AI_AGENT_NAME,
        theirs::GEN_AI_AGENT_VERSION,
        theirs::GEN_AI_CONVERSATION_ID,
        theirs::GEN_AI_INPUT_MESSAGES,
        theirs::GEN_AI_OPERATION_NAME,
        theirs::GEN_AI_OUTPUT_MESSAGES,
        theirs::GEN_AI_OUTPUT_TYPE,
        theirs::GEN_AI_PROVIDER_NAME,
        theirs::GEN_AI_REQUEST_MAX_TOKENS,
        theirs::GEN_AI_REQUEST_MODEL,
        theirs::GEN_AI_REQUEST_TEMPERATURE,
        theirs::GEN_AI_RESPONSE_FINISH_REASONS,
        theirs::GEN_AI_RESPONSE_ID,
        theirs::GEN_AI_SYSTEM_INSTRUCTIONS,
        theirs::GEN_AI_TOOL_CALL_ARGUMENTS,
        theirs::GEN_AI_TOOL_CALL_RESULT,
        theirs::GEN_AI_TOOL_NAME,
        theirs::GEN_AI_TOOL_TYPE,
        theirs::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
        theirs::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        theirs::GEN_AI_USAGE_INPUT_TOKENS,
        theirs::GEN_AI_USAGE_OUTPUT_TOKENS,
        theirs::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        theirs::HTTP_REQUEST_METHOD,
        theirs::HTTP_RESPONSE_STATUS_CODE,
    ];
    let mut expected: Vec<&str> = released.into_iter().chain(YOUNGER).collect();
    let mut ours = semconv::CONVENTIONAL.to_vec();
    expected.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, expected);
}

#[test]
fn the_schema_is_that_of_the_pinned_release() {
    assert_eq!(semconv::SCHEMA_URL, conventions::SCHEMA_URL);
}

#[test]
fn what_is_our_own_says_so() {
    assert!(semconv::OWN.iter().chain(semconv::EVENTS).all(|name| name.starts_with("dalsegno.")));
    let operations = [
        semconv::CHAT,
        semconv::EXECUTE_TOOL,
        semconv::INVOKE_AGENT,
        semconv::SEARCH_MEMORY,
        semconv::CREATE_MEMORY,
    ];
    assert_eq!(operations, ["chat", "execute_tool", "invoke_agent", "search_memory", "create_memory"]);
}
