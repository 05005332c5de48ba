//! The keys of an agent file, but for those of its steps.

use super::rules::{ASKED, DENIED};
use super::steps::keys::STEPS;
use super::voice::VOICE;
use crate::control;
use crate::shape::{AGENT_NAME, CAPABILITY, Form, Key, Shape, TOOL_NAME, TOOL_PATTERN};
use crate::tenant::{CONFIG, DISABLED};

pub(crate) static FILE: Shape = Shape {
    what: "an agent file",
    one_of: &["model", "steps"],
    needs: &[],
    keys: &[
        Key::new("name", AGENT_NAME, "The agent's name, the same as that of the file.")
            .required("add `name = \"…\"` at the top, the same as the name of the file"),
        Key::new("version", Form::Text, "The author's version of the agent; `0.0.0` by default."),
        Key::new(
            "description",
            Form::Text,
            "A one-sentence description of the agent; other agents' models read it.",
        ),
        Key::new(
            "capabilities",
            Form::List(&CAPABILITY),
            "Names that other agents can use instead of the agent's name.",
        ),
        Key::new("instructions", Form::Template, "The system prompt, a template; rendered once."),
        Key::new(
            "prompt",
            Form::Template,
            "The first message to the model, a template; `{{request.text}}` by default.",
        ),
        Key::new("model", Form::Table(&MODEL), "The model that decides, and its settings."),
        Key::new("tools", Form::Table(&TOOLS), "The tools that the agent may use, and their settings."),
        Key::new("memory", Form::Table(&MEMORY), "The agent's memory."),
        Key::new("limits", Form::Table(&LIMITS), "The limits of one run."),
        Key::new("output", Form::Table(&OUTPUT), "The form of the model's answer."),
        Key::new("context", Form::Table(&CONTEXT), "How much of the transcript to send to the model."),
        Key::new("voice", Form::Table(&VOICE), "How the agent behaves in a call with a live model."),
        STEPS,
    ],
};

/// The keys of the whole file that are no tables: below a table header they would belong to that table.
pub(super) const FILE_TEXTS: &[&str] =
    &["name", "version", "description", "capabilities", "instructions", "prompt"];

pub(super) static MODEL: Shape = Shape::new(
    "`[model]`",
    &[
        Key::new("use", Form::Text, "The name of a `[models.*]` of `dalsegno.toml`.")
            .required("add `use = \"default\"`, the name of a `[models.*]` in `dalsegno.toml`"),
        Key::new(
            "fallback",
            Form::List(&Form::Text),
            "The models to try next, in order, when one gives no usable reply; none by default.",
        ),
        TEMPERATURE,
        MAX_OUTPUT_TOKENS,
        TIMEOUT,
        RETRIES,
        control::TOOL_CHOICE,
        control::FIRST,
        control::PARALLEL_TOOL_CALLS,
        control::STRICT,
        control::BATCH,
        control::PROVIDER_TOOLS,
        control::TOP_P,
        control::STOP,
        control::SEED,
        control::REASONING,
        control::VERBOSITY,
        control::SERVICE_TIER,
    ],
);

pub(super) const TEMPERATURE: Key = Key::new(
    "temperature",
    Form::Number(0.0, 2.0),
    "The sampling temperature; the provider's own by default.",
);
pub(super) const MAX_OUTPUT_TOKENS: Key = Key::new(
    "max_output_tokens",
    Form::Integer(1, u32::MAX as u64),
    "Maximum tokens of one reply; the provider's own limit by default.",
);
pub(super) const TIMEOUT: Key =
    Key::new("timeout", Form::Duration, "Maximum time for one attempt, such as `30s`.");
/// With doubling pauses, ten retries take a quarter of an hour; more is an outage, not a hiccup.
pub(super) const RETRIES: Key =
    Key::new("retries", Form::Integer(0, 10), "Attempts after the first; 2 by default.");

static TOOLS: Shape = Shape::new(
    "`[tools]`",
    &[
        Key::new(
            "allow",
            Form::List(&TOOL_PATTERN),
            "The tools that the agent may use: `server.tool`, `server.*`, `memory.*`, `agents.<name>`, \
             `capability.<name>`, `handoff.<name>`, `provider.<name>`; nothing by default.",
        ),
        Key::new(
            "approve",
            Form::List(&ASKED),
            "The tools that need a person's approval before each call; a rule `{ tool, when }` is about calls with \
             certain arguments, and `{ tool, unless_from }` about where the arguments come from.",
        ),
        Key::new(
            "deny",
            Form::List(&DENIED),
            "The tools that the agent may not use although `allow` covers them; a rule `{ tool, when }` is about calls \
             with certain arguments.",
        ),
        Key::new(
            "settings",
            Form::Map(&Form::Table(&SETTINGS)),
            "Settings of single tools, each under its full name in quotes.",
        ),
        Key::new(
            "toolkits",
            Form::Map(&Form::Table(&TOOLKIT)),
            "The agent's settings for declarative tools, by the name of their document.",
        ),
    ],
);

static TOOLKIT: Shape = Shape::new("the settings of a toolkit", &[CONFIG, DISABLED]);

pub(super) static SETTINGS: Shape = Shape::new(
    "the settings of a tool",
    &[
        TIMEOUT,
        RETRIES,
        ON_FAILURE,
        Key::new(
            "effect",
            Form::Word(&["read", "idempotent", "keyed", "unsafe"]),
            "The effect class: what may be retried; by default what a trusted server says, else `unsafe`.",
        ),
        Key::new(
            "on_indeterminate",
            Form::Word(&["ask", "report", "retry"]),
            "What to do when it is unknown whether a call took effect; `ask` by default.",
        ),
        Key::new(
            "cache",
            Form::Duration,
            "How long to reuse a result for calls with the same arguments; only if `effect` is `read`.",
        ),
        Key::new(
            "verify",
            Form::Table(&super::verify::VERIFY),
            "How the engine checks whether a call in doubt took place, before it asks a person.",
        ),
    ],
);

pub(super) const ON_FAILURE: Key = Key::new(
    "on_failure",
    Form::Either(ON_FAILURE_FORMS),
    "What to do on failure: `\"report\"`, `\"fail\"`, `{ default = … }` or `{ fallback = \"server.tool\" }`.",
);
static ON_FAILURE_FORMS: &[Form] = &[Form::Word(&["report", "fail"]), Form::Table(&ON_FAILURE_TABLE)];
static ON_FAILURE_TABLE: Shape = Shape {
    what: "`on_failure`",
    one_of: &["default", "fallback"],
    needs: &[],
    keys: &[
        Key::new("default", Form::Any, "The value that replaces the result."),
        Key::new("fallback", TOOL_NAME, "The tool to call with the same arguments; it must be allowed, too."),
    ],
};

static MEMORY: Shape = Shape::new(
    "`[memory]`",
    &[
        Key::new(
            "scope",
            Form::Word(&["session", "agent", "workspace", "tenant"]),
            "How far the memory is shared; `workspace` by default.",
        ),
        Key::new("recall", Form::Table(&RECALL), "What to search for before the first model call."),
        Key::new(
            "store",
            Form::Word(&["explicit"]),
            "What is remembered: only what a tool or a step stores.",
        ),
    ],
);

static RECALL: Shape = Shape::new("`recall`", &[QUERY, LIMIT, MIN_SCORE]);

pub(super) const QUERY: Key = Key::new("query", Form::Template, "What to search for, a template.")
    .required("add `query = \"{{request.text}}\"`");
/// More hits than a hundred are not a search any more.
pub(super) const LIMIT: Key =
    Key::new("limit", Form::Integer(1, 100), "Maximum number of hits; 5 by default.");
pub(super) const MIN_SCORE: Key =
    Key::new("min_score", Form::Number(0.0, 1.0), "Minimum score of a hit; 0 by default.");

/// A bound that is never reached is none.
const COUNT_MAX: u64 = 100_000;
const TOKENS_MAX: u64 = 1_000_000_000_000;

pub(super) static LIMITS: Shape = Shape::new(
    "`[limits]`",
    &[
        Key::new(
            "max_steps",
            Form::Integer(1, COUNT_MAX),
            "Maximum number of steps of a run; 64 by default.",
        ),
        Key::new(
            "max_tool_calls",
            Form::Integer(0, COUNT_MAX),
            "Maximum number of tool calls of a run; 64 by default.",
        ),
        Key::new(
            "max_tokens",
            Form::Integer(1, TOKENS_MAX),
            "Maximum number of tokens, sent and received, child runs included; no limit by default.",
        ),
        Key::new(
            "max_cost_usd",
            Form::Dollars { most: 1_000_000, decimals: 9 },
            "Maximum cost of model calls in US dollars, child runs included; no limit by default.",
        ),
        Key::new("timeout", Form::Duration, "Maximum active time of a run; `10m` by default."),
        Key::new(
            "answer_timeout",
            Form::Duration,
            "How long an approval or a question waits for a person before the answer is no; no limit by default.",
        ),
        Key::new("max_state", Form::Size, "Maximum size of a plan's results; `1MiB` by default."),
        Key::new(
            "repeat_limit",
            Form::Integer(0, 1_000),
            "How many times a model may repeat a call with the same result; 3 by default, 0 for no limit.",
        ),
        Key::new(
            "on_exceeded",
            Form::Word(&["fail", "answer"]),
            "What happens at a limit: the run fails, or the model answers with what it knows.",
        ),
    ],
);

static OUTPUT: Shape = Shape::new(
    "`[output]`",
    &[
        SCHEMA.required("add `schema = \"schemas/NAME.json\"`, the form of the answer"),
        Key::new(
            "retries",
            Form::Integer(0, 10),
            "How many times to ask the model again when its answer does not match; 2 by default.",
        ),
    ],
);

pub(super) const SCHEMA: Key = Key::new(
    "schema",
    Form::Either(&[Form::Text, Form::Open]),
    "The form of the answer: the path of a JSON Schema in the workspace, or the schema itself as a table.",
);

static CONTEXT: Shape = Shape::new(
    "`[context]`",
    &[
        Key::new(
            "max_tokens",
            Form::Integer(1_000, TOKENS_MAX),
            "Maximum tokens of a request, estimated, without the reply.",
        )
        .required("add `max_tokens = 20_000`, the maximum tokens of a request"),
        Key::new(
            "compact",
            Form::Word(&["drop", "summarise"]),
            "How to shorten a transcript that does not fit; `drop` by default.",
        ),
    ],
);
