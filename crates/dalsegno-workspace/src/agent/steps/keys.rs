//! The keys of `[[steps]]`.

use super::super::keys::{
    LIMIT, MAX_OUTPUT_TOKENS, MIN_SCORE, ON_FAILURE, QUERY, RETRIES, SCHEMA, TEMPERATURE, TIMEOUT,
};
use crate::control;
use crate::shape::{AGENT_NAME, CAPABILITY, Form, Key, STEP_NAME, Shape, TOOL_NAME};

pub(in crate::agent) const STEPS: Key =
    Key::new("steps", Form::List(&STEP_FORM), "What the agent does, step by step, without a model.");

static STEP_FORM: Form = Form::Table(&STEP);

/// A step, with every key of every kind of step.
pub(super) static STEP: Shape = Shape {
    what: "a step",
    one_of: ACTIONS,
    needs: &[],
    keys: &[
        ID,
        WHEN,
        TOOL,
        WITH,
        APPROVE,
        MEMORY_SEARCH,
        MEMORY_CREATE,
        MEMORY_TRAVERSE,
        AGENT,
        INPUT,
        MODEL,
        ASK,
        STEP_SCHEMA,
        WAIT,
        ON_FAILURE,
        Key::new(
            "for_each",
            Form::Expression,
            "A list: the operation runs once for each item, read as `item` and `index`.",
        ),
        Key::new(
            "concurrency",
            Form::Integer(1, 1_000),
            "How many items of `for_each` run at once; 1 by default.",
        ),
        Key::new("parallel", Form::List(&Form::Table(&BRANCH)), "Independent steps that start together."),
        Key::new(
            "set",
            Form::Map(&Form::Expression),
            "Sets variables, read as `vars.<name>` by later steps.",
        ),
        Key::new("respond", Form::Template, "Adds to the agent's answer, a template."),
        Key::new("output", Form::Any, "The structured answer; strings in it are templates."),
        Key::new("handoff", AGENT_OR_CAPABILITY, "The agent to hand the session over to."),
        Key::new("message", Form::Template, "The message to the next agent; this run's request by default."),
    ],
};

/// A step of `parallel`: one operation.
pub(super) static BRANCH: Shape = Shape {
    what: "a step of `parallel`",
    one_of: OPERATIONS,
    needs: &[],
    keys: &[
        ID,
        WHEN,
        TOOL,
        WITH,
        APPROVE,
        MEMORY_SEARCH,
        MEMORY_CREATE,
        MEMORY_TRAVERSE,
        AGENT,
        INPUT,
        MODEL,
        ASK,
        STEP_SCHEMA,
        WAIT,
        ON_FAILURE,
    ],
};

/// Of these a step has exactly one.
pub(super) const ACTIONS: &[&str] = &[
    "tool",
    "memory_search",
    "memory_create",
    "memory_traverse",
    "agent",
    "model",
    "ask",
    "wait",
    "parallel",
    "set",
    "respond",
    "output",
    "handoff",
];

/// Those that ask for one thing and have a result.
pub(super) const OPERATIONS: &[&str] =
    &["tool", "memory_search", "memory_create", "memory_traverse", "agent", "model", "ask", "wait"];

/// Keys that go with some kinds of step only, and those kinds.
pub(super) const COMPANIONS: &[(&str, &[&str])] = &[
    ("id", OPERATIONS),
    ("on_failure", OPERATIONS),
    ("for_each", OPERATIONS),
    ("concurrency", OPERATIONS),
    ("with", &["tool", "agent", "handoff"]),
    ("approve", &["tool"]),
    ("input", &["agent"]),
    ("schema", &["ask"]),
    ("message", &["handoff"]),
];

const ID: Key = Key::new("id", STEP_NAME, "The name under which later steps read the result, `steps.<id>`.");
const WHEN: Key = Key::new("when", Form::Expression, "The step is skipped unless this expression holds.");
const TOOL: Key = Key::new("tool", TOOL_NAME, "Calls a tool that the agent allows.");
const WITH: Key = Key::new(
    "with",
    Form::Open,
    "The arguments of a tool, or the data for an agent; strings in it are templates.",
);
const APPROVE: Key = Key::new(
    "approve",
    Form::Either(&[Form::Boolean, Form::Expression]),
    "Whether a person must approve the call: `true`, or an expression.",
);
const MEMORY_SEARCH: Key =
    Key::new("memory_search", Form::Table(&SEARCH), "Searches the memory; the result is a list of hits.");
const MEMORY_CREATE: Key =
    Key::new("memory_create", Form::Table(&CREATE), "Adds an observation to the memory.");
const MEMORY_TRAVERSE: Key = Key::new(
    "memory_traverse",
    Form::Table(&TRAVERSE),
    "Follows relations in the memory; the result is the entities that were reached.",
);
const AGENT: Key = Key::new("agent", AGENT_OR_CAPABILITY, "Runs another agent; the result is its answer.");
const INPUT: Key =
    Key::new("input", Form::Template, "The request to the agent; this run's request by default.");
const MODEL: Key = Key::new("model", Form::Table(&ASKED), "Asks a model once; the result is its answer.");
const ASK: Key = Key::new("ask", Form::Template, "Asks a person; the result is the answer.");
const STEP_SCHEMA: Key = SCHEMA;
const WAIT: Key = Key::new(
    "wait",
    Form::Either(WAIT_FORMS),
    "Waits: a duration such as `10m`, or `{ until = \"EXPRESSION\" }`.",
);

static WAIT_FORMS: &[Form] = &[Form::Duration, Form::Table(&UNTIL)];

const AGENT_OR_CAPABILITY: Form = Form::Either(AGENT_FORMS);
static AGENT_FORMS: &[Form] = &[AGENT_NAME, Form::Table(&BY_CAPABILITY)];
static BY_CAPABILITY: Shape = Shape::new(
    "an agent",
    &[Key::new("capability", CAPABILITY, "The capability that the agent must have.")
        .required("write `{ capability = \"NAME\" }`, or the name of the agent")],
);

static SEARCH: Shape = Shape::new("`memory_search`", &[QUERY, LIMIT, MIN_SCORE]);

static CREATE: Shape = Shape::new(
    "`memory_create`",
    &[
        Key::new("entity", Form::Template, "The name of the entity; a new name creates a new entity.")
            .required("add `entity = \"…\"`, the name of the entity"),
        Key::new("type", Form::Text, "What kind of entity it is, such as `incident`; `note` by default."),
        Key::new("content", Form::Template, "The observation, a template.")
            .required("add `content = \"…\"`, the observation"),
        Key::new("relations", Form::List(&Form::Table(&RELATION)), "How the entity relates to others."),
    ],
);

pub(super) static RELATION: Shape = Shape::new(
    "a relation",
    &[
        Key::new("relation", Form::Text, "The type of the relation, such as `caused_by`.")
            .required("add `relation = \"caused_by\"`, the type of the relation"),
        Key::new("to", Form::Template, "The name of the other entity, a template.")
            .required("add `to = \"…\"`, the name of the other entity"),
    ],
);

static TRAVERSE: Shape = Shape::new(
    "`memory_traverse`",
    &[
        Key::new("from", Form::Template, "The name of the entity to start from, a template.")
            .required("add `from = \"…\"`, the name of the entity to start from"),
        Key::new("relation", Form::Text, "Only relations of this type; all by default."),
        Key::new("depth", Form::Integer(1, DEPTH_MAX), "Maximum number of relations in a row; 2 by default."),
        Key::new("limit", Form::Integer(1, 1_000), "Maximum number of entities; 50 by default."),
    ],
);

/// Further away, everything is related to everything.
const DEPTH_MAX: u64 = 8;

static ASKED: Shape = Shape::new(
    "`model`",
    &[
        Key::new("prompt", Form::Template, "The prompt for the model, a template.")
            .required("add `prompt = \"{{request.text}}\"`"),
        Key::new("instructions", Form::Template, "The system prompt, a template."),
        Key::new("use", Form::Text, "The name of a `[models.*]` of `dalsegno.toml`; `default` by default."),
        TEMPERATURE,
        MAX_OUTPUT_TOKENS,
        TIMEOUT,
        RETRIES,
        control::TOP_P,
        control::STOP,
        control::SEED,
        control::REASONING,
        control::VERBOSITY,
        control::SERVICE_TIER,
        control::BATCH,
        SCHEMA,
    ],
);

static UNTIL: Shape = Shape::new(
    "`wait`",
    &[Key::new("until", Form::Expression, "The time: milliseconds since the epoch, or a date as text.")
        .required("write `{ until = \"EXPRESSION\" }`, or a duration such as `\"10m\"`")],
);
