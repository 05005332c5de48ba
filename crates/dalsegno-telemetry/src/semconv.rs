//! The names that spans carry, pinned.
//!
//! `gen_ai.*` and `error.type` are those of the OpenTelemetry semantic conventions. The conventions for generative AI
//! are in development and moved to a repository of their own after release 1.42.0; the names here are those of
//! <https://github.com/open-telemetry/semantic-conventions-genai/blob/6f98aef121ae3d5f224c5084d9fb4433bc6f7f67/docs/gen-ai/gen-ai-spans.md>
//! and <https://github.com/open-telemetry/semantic-conventions-genai/blob/55a32cddb97d99cec08d5ee081e74206a0636041/docs/gen-ai/gen-ai-agent-spans.md>.
//! All but those of the memory are in [`SCHEMA_URL`] too. `dalsegno.*` is our own: what the conventions have no word for.

/// The schema that exported spans name: the last one that holds the conventions for generative AI.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.42.0";

macro_rules! names {
    ($(#[$list_doc:meta])* $list:ident: $($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        $(#[$list_doc])*
        pub const $list: &[&str] = &[$($name),*];
    };
}

names! {
    /// Every attribute of the OpenTelemetry conventions that a span may carry.
    CONVENTIONAL:
    /// The kind of error; absent where there is none.
    ERROR_TYPE = "error.type";
    /// The agent.
    GEN_AI_AGENT_NAME = "gen_ai.agent.name";
    /// The author's version of the agent.
    GEN_AI_AGENT_VERSION = "gen_ai.agent.version";
    /// The session.
    GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id";
    /// What was sent. Content.
    GEN_AI_INPUT_MESSAGES = "gen_ai.input.messages";
    /// What a memory was searched for. Content.
    GEN_AI_MEMORY_QUERY_TEXT = "gen_ai.memory.query.text";
    /// How many hits a search had, or how many entries were to be made.
    GEN_AI_MEMORY_RECORD_COUNT = "gen_ai.memory.record.count";
    /// The hits, or what was to be kept. Content.
    GEN_AI_MEMORY_RECORDS = "gen_ai.memory.records";
    /// What is done: one of [`CHAT`], [`EXECUTE_TOOL`], [`INVOKE_AGENT`], [`SEARCH_MEMORY`], [`CREATE_MEMORY`].
    GEN_AI_OPERATION_NAME = "gen_ai.operation.name";
    /// What came back. Content.
    GEN_AI_OUTPUT_MESSAGES = "gen_ai.output.messages";
    /// `json` where the model is asked for a structured answer.
    GEN_AI_OUTPUT_TYPE = "gen_ai.output.type";
    /// Who serves the model.
    GEN_AI_PROVIDER_NAME = "gen_ai.provider.name";
    /// Most tokens of the reply.
    GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens";
    /// The model that is asked.
    GEN_AI_REQUEST_MODEL = "gen_ai.request.model";
    /// The sampling temperature.
    GEN_AI_REQUEST_TEMPERATURE = "gen_ai.request.temperature";
    /// Why the reply ended.
    GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons";
    /// The provider's id of a response in a call.
    GEN_AI_RESPONSE_ID = "gen_ai.response.id";
    /// The system prompt. Content.
    GEN_AI_SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions";
    /// What a tool was called with. Content.
    GEN_AI_TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments";
    /// What a tool returned. Content.
    GEN_AI_TOOL_CALL_RESULT = "gen_ai.tool.call.result";
    /// The tool.
    GEN_AI_TOOL_NAME = "gen_ai.tool.name";
    /// The kind of tool; always `function`.
    GEN_AI_TOOL_TYPE = "gen_ai.tool.type";
    /// Tokens sent that the provider wrote to its cache.
    GEN_AI_USAGE_CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens";
    /// Tokens sent that the provider had in its cache.
    GEN_AI_USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens";
    /// Tokens sent, as the provider counts.
    GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens received, as the provider counts.
    GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// Tokens received that are reasoning.
    GEN_AI_USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens";
    /// The method of an HTTP call.
    HTTP_REQUEST_METHOD = "http.request.method";
    /// The status of its answer.
    HTTP_RESPONSE_STATUS_CODE = "http.response.status_code";
}

names! {
    /// Every attribute that is our own.
    OWN:
    /// How many attempts began, those included that were put off.
    DALSEGNO_ATTEMPTS = "dalsegno.attempts";
    /// Which attempt, from 1.
    DALSEGNO_ATTEMPT = "dalsegno.attempt";
    /// Why there was this attempt: `requested`, `answered`, `queued`, `recovered` or `failed`.
    DALSEGNO_ATTEMPT_CAUSE = "dalsegno.attempt.cause";
    /// Whether the attempt waits for another process to start it.
    DALSEGNO_ATTEMPT_DEFERRED = "dalsegno.attempt.deferred";
    /// Whether the receiver may have acted on an attempt that has no answer.
    DALSEGNO_ATTEMPT_POSSIBLY_RECEIVED = "dalsegno.attempt.possibly_received";
    /// Time that was spent on it, in milliseconds, without downtime and without waiting for people.
    DALSEGNO_ACTIVE_MS = "dalsegno.active_ms";
    /// An answer at a gate: `approved`, `denied`, `done`, `given` or `not_done`.
    DALSEGNO_ANSWER = "dalsegno.answer";
    /// Who answered or sent a signal. Content.
    DALSEGNO_BY = "dalsegno.by";
    /// What the attempts that were lost may have cost besides: how many there were.
    DALSEGNO_LOST_ATTEMPTS = "dalsegno.lost_attempts";
    /// What may repeat: `read`, `idempotent`, `keyed`, `unsafe` or `composite`.
    DALSEGNO_CLASS = "dalsegno.class";
    /// The digest of the agent's configuration.
    DALSEGNO_CONFIG = "dalsegno.config";
    /// What it cost, in billionths of a US dollar, as far as prices are known.
    DALSEGNO_COST_NANO_USD = "dalsegno.cost_nano_usd";
    /// How many runs are above it.
    DALSEGNO_DEPTH = "dalsegno.depth";
    /// The digest of a tool server's module.
    DALSEGNO_DIGEST = "dalsegno.digest";
    /// Who ended a call: `caller`, `agent` or `provider`.
    DALSEGNO_ENDED_BY = "dalsegno.ended_by";
    /// Which of the agent's models: 0 for its own, then its fallbacks.
    DALSEGNO_FALLBACK = "dalsegno.fallback";
    /// What must be answered: `approval`, `input` or `in_doubt`.
    DALSEGNO_GATE = "dalsegno.gate";
    /// The kind of operation, such as `memory_traverse`.
    DALSEGNO_KIND = "dalsegno.kind";
    /// How many replies of models the run took.
    DALSEGNO_MODEL_CALLS = "dalsegno.model_calls";
    /// An action of a declarative tool: its place in the document.
    DALSEGNO_ACTION = "dalsegno.action";
    /// How important a line is: `debug`, `info`, `warn` or `error`.
    DALSEGNO_LEVEL = "dalsegno.level";
    /// A line that a declarative tool wrote for people. Content.
    DALSEGNO_MESSAGE = "dalsegno.message";
    /// The operation.
    DALSEGNO_OPERATION = "dalsegno.operation";
    /// The operation of another run that this run performs.
    DALSEGNO_PARENT_OPERATION = "dalsegno.parent.operation";
    /// The run of that operation.
    DALSEGNO_PARENT_RUN = "dalsegno.parent.run";
    /// The question for whoever answers. Content.
    DALSEGNO_QUESTION = "dalsegno.question";
    /// Why somebody answered or sent a signal. Content.
    DALSEGNO_REASON = "dalsegno.reason";
    /// What a person answered. Content.
    DALSEGNO_GIVEN = "dalsegno.given";
    /// Another run: the one before, the one forked from, the child or the one that goes on.
    DALSEGNO_OTHER_RUN = "dalsegno.other_run";
    /// The run.
    DALSEGNO_RUN = "dalsegno.run";
    /// A sequence number of the journal.
    DALSEGNO_SEQ = "dalsegno.seq";
    /// A tool server.
    DALSEGNO_SERVER = "dalsegno.server";
    /// What kind of thing a tool's server was refused, such as `network`.
    DALSEGNO_DENIED = "dalsegno.denied";
    /// How often.
    DALSEGNO_COUNT = "dalsegno.count";
    /// A signal: `cancel` or `deadline`.
    DALSEGNO_SIGNAL = "dalsegno.signal";
    /// How it ended: `completed`, `failed`, `cancelled`, `handed_off`; for an operation `resolved` or `abandoned`; for a response in a
    /// call `completed`, `interrupted`, `failed` or `lost`.
    DALSEGNO_STATUS = "dalsegno.status";
    /// The step, from 1.
    DALSEGNO_STEP = "dalsegno.step";
    /// How many steps the run took.
    DALSEGNO_STEPS = "dalsegno.steps";
    /// On whose behalf the run works.
    DALSEGNO_TENANT = "dalsegno.tenant";
    /// How many tool calls the run took.
    DALSEGNO_TOOL_CALLS = "dalsegno.tool_calls";
    /// What a suspended run waits for: the kinds, without repetition.
    DALSEGNO_WAITING_FOR = "dalsegno.waiting_for";
    /// When a suspended run wakes by itself, in milliseconds since the epoch.
    DALSEGNO_WAKE_AT = "dalsegno.wake_at";
}

/// A call of a model.
pub const CHAT: &str = "chat";
/// A call of a tool.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// A run of an agent.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// A search in a memory, or a walk along its relations.
pub const SEARCH_MEMORY: &str = "search_memory";
/// A new entry of a memory.
pub const CREATE_MEMORY: &str = "create_memory";

names! {
    /// Every event that a span may have.
    EVENTS:
    /// An attempt began or was put off.
    EVENT_ATTEMPT = "dalsegno.attempt";
    /// An operation waits at a gate.
    EVENT_WAITING = "dalsegno.waiting";
    /// A tool's server wanted what it is not granted.
    EVENT_DENIED = "dalsegno.denied";
    /// A tool's server made a task of an attempt.
    EVENT_TASKED = "dalsegno.tasked";
    /// A declarative tool wrote a line for people, or noticed something odd.
    EVENT_LOG = "dalsegno.log";
    /// Somebody answered at a gate.
    EVENT_ANSWERED = "dalsegno.answered";
    /// The run received a signal.
    EVENT_SIGNAL = "dalsegno.signal";
    /// Another of the agent's models is asked from here on.
    EVENT_FALLBACK = "dalsegno.fallback";
    /// The run began as a copy of another.
    EVENT_FORKED = "dalsegno.forked";
    /// The run is the continuation of one that an archive brought.
    EVENT_ADOPTED = "dalsegno.adopted";
    /// A tool server's module changed.
    EVENT_REBOUND = "dalsegno.rebound";
    /// The run waits and holds no process.
    EVENT_SUSPENDED = "dalsegno.suspended";
    /// A person paused the run.
    EVENT_PAUSED = "dalsegno.paused";
    /// A suspended run goes on.
    EVENT_RESUMED = "dalsegno.resumed";
    /// Another agent goes on.
    EVENT_HANDED_OFF = "dalsegno.handed_off";
    /// The connection to the live model of a call was lost.
    EVENT_LINE_LOST = "dalsegno.line_lost";
    /// The call is connected to its live model again.
    EVENT_LINE_ATTACHED = "dalsegno.line_attached";
    /// The call is over.
    EVENT_CALL_ENDED = "dalsegno.call_ended";
}
