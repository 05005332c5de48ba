//! The keys of a file of cases.

use crate::settings::MAX_COST;
use crate::shape::{AGENT_NAME, Form, Key, Shape, TOOL_NAME, TOOL_PATTERN};
use crate::{schema, tenant};

pub(crate) static FILE: Shape = Shape::new(
    "a file of cases",
    &[
        Key::new("agent", AGENT_NAME, "The agent of the cases that do not name one."),
        Key::new("tenant", tenant::TENANT_NAME, "The tenant of the cases that do not name one."),
        Key::new(
            "user",
            Form::Open,
            "What is known of the user, in cases that do not say it: `user` in templates.",
        ),
        Key::new(
            "script",
            Form::Text,
            "The script of what models reply in cases without `replies`, relative to the workspace's folder.",
        ),
        Key::new(
            "results",
            Form::List(&Form::Table(&RESULT)),
            "What comes of requests in all cases, as often as they are made; the results of a case come first.",
        ),
        Key::new("cases", Form::List(&Form::Table(&CASE)), "The cases."),
        Key::new(
            "properties",
            Form::List(&Form::Table(&PROPERTY)),
            "What must hold of every run, for all replies of models, results of tools and answers of people.",
        ),
    ],
);

/// The keys of the whole file that are no tables: below a table header they would belong to that table.
pub(super) const FILE_TEXTS: &[&str] = &["agent", "tenant", "script"];

static A_MESSAGE: Form = Form::Table(&MESSAGE);
static A_TOOL_OR_CALL: Form = Form::Either(&[TOOL_NAME, Form::Table(&CALL)]);
static A_TOOL_OR_OUTPUT: Form = Form::Either(&[Form::Text, Form::Table(&OUTPUT_OF_CALL)]);
static A_FORBIDDEN_CALL: Form = Form::Table(&FORBIDDEN);

const NAME: Key =
    Key::new("name", Form::Name(r"\S"), "What the case shows, in words; each name of a file is another.")
        .required("add `name = \"…\"`, what the case shows");
const AGENT: Key = Key::new("agent", AGENT_NAME, "The agent; that of the file by default.");
const TENANT: Key = Key::new("tenant", tenant::TENANT_NAME, "The tenant on whose behalf the agent works.");
const USER: Key = Key::new("user", Form::Open, "What is known of the user: `user` in templates.");
const INPUT: Key = Key::new("input", Form::Text, "What the user says: `request.text` in templates.");
const MESSAGES: Key = Key::new(
    "messages",
    Form::List(&A_MESSAGE),
    "A conversation instead of `input`; its last message is the user's, which the agent answers.",
);
const DATA: Key = Key::new("data", Form::Any, "The structured input: `request.data` in templates.");
const NEVER_CALLS: Key =
    Key::new("never_calls", Form::List(&TOOL_PATTERN), "The tools that must not be asked for.");
const NEVER: Key = Key::new(
    "never",
    Form::List(&A_FORBIDDEN_CALL),
    "The calls that must not take place, by their arguments and by whether a person has agreed.",
);
const ALWAYS: Key = Key::new(
    "always",
    Form::List(&Form::Expression),
    "Conditions on the whole run: on `calls`, `counts`, `asks`, `ends`, `error`, `answer`, `output`, `steps` and `tokens`.",
);
const MAX_STEPS: Key =
    Key::new("max_steps", Form::Integer(0, 1_000_000), "The most steps that the run may take.");
const MAX_TOKENS: Key =
    Key::new("max_tokens", Form::Integer(0, 1_000_000_000), "The most tokens that the run may use.");
const MAX_COST_USD: Key =
    Key::new("max_cost_usd", MAX_COST, "The most that the run may cost, in US dollars.");

const ENDS_KEY: Key = Key::new("ends", Form::Word(ENDS), "How the run must end; `completed` by default.");
const ERROR_KEY: Key = Key::new("error", Form::Word(ERRORS), "The error that must end the run.");
const CALLS: Key = Key::new(
    "calls",
    Form::List(&A_TOOL_OR_CALL),
    "The tools that must be called, all of them, in order; a table names arguments as well.",
);
const ASKS: Key = Key::new(
    "asks",
    Form::List(&Form::Text),
    "What people must be asked about, all of it, in order: the tool of an approval, or the question.",
);
const ANSWER_KEY: Key = Key::new("answer", Form::Text, "The whole answer.");
const ANSWER_CONTAINS: Key = Key::new(
    "answer_contains",
    Form::Either(&[Form::Text, Form::List(&Form::Text)]),
    "A text, or several, that the answer must have.",
);
const ANSWER_MATCHES: Key =
    Key::new("answer_matches", Form::Text, "A regular expression that must match the answer.");
const OUTPUT: Key = Key::new("output", Form::Any, "The structured answer.");

pub(super) static CASE: Shape = Shape {
    what: "a case",
    keys: &[
        NAME,
        AGENT,
        TENANT,
        USER,
        INPUT,
        MESSAGES,
        DATA,
        Key::new(
            "turns",
            Form::List(&Form::Table(&TURN)),
            "A call instead of `input`: what the caller and the live model do, in order.",
        ),
        Key::new("replies", Form::List(&Form::Table(&schema::REPLY)), "What the models reply, in order."),
        Key::new(
            "script",
            Form::Text,
            "The script of what models reply, relative to the workspace's folder.",
        ),
        Key::new(
            "cassette",
            Form::Text,
            "The recorded outcomes of a run, relative to the workspace's folder: see `dalsegno test --from-run`.",
        ),
        Key::new(
            "results",
            Form::List(&Form::Table(&RESULT)),
            "What comes of the other requests, each once, in order.",
        ),
        Key::new("answers", Form::List(&Form::Table(&ANSWER)), "What people answer, each once, in order."),
        ENDS_KEY,
        ERROR_KEY,
        CALLS,
        Key::new(
            "effects",
            Form::List(&A_TOOL_OR_CALL),
            "The tools that must be called and change something, all of them, in order; a table names arguments as well.",
        ),
        Key::new(
            "outputs",
            Form::List(&A_TOOL_OR_OUTPUT),
            "In a call: the outputs that the live model must get, all of them, in order.",
        ),
        Key::new(
            "said_matches",
            Form::Either(&[Form::Text, Form::List(&Form::Text)]),
            "In a call: a regular expression, or several, each of which must match something that the live model says.",
        ),
        Key::new(
            "told_matches",
            Form::Either(&[Form::Text, Form::List(&Form::Text)]),
            "In a call: the same of what the live model is told: its instructions, notes and what it is to say.",
        ),
        Key::new(
            "max_silence",
            Form::Duration,
            "In a call: the longest time for which the caller may wait in silence.",
        ),
        Key::new("ended_by", Form::Word(ENDED_BY), "In a call: who must end it."),
        NEVER_CALLS,
        NEVER,
        ALWAYS,
        ASKS,
        Key::new("hands_over_to", AGENT_NAME, "The agent to which the run must hand over."),
        ANSWER_KEY,
        ANSWER_CONTAINS,
        ANSWER_MATCHES,
        OUTPUT,
        MAX_STEPS,
        MAX_TOKENS,
        MAX_COST_USD,
        Key::new(
            "snapshot",
            Form::Boolean,
            "Whether the run must be as its snapshot shows it; `false` by default. See `dalsegno test --accept`.",
        ),
    ],
    one_of: &["input", "messages", "turns"],
    needs: &[],
};

/// What must hold of a run, beside snapshots and handoffs: an eval says so for every item of its data set.
pub(crate) static CHECKS: Shape = Shape::new(
    "`[checks]`",
    &[
        ENDS_KEY,
        ERROR_KEY,
        CALLS,
        NEVER_CALLS,
        NEVER,
        ALWAYS,
        ASKS,
        ANSWER_KEY,
        ANSWER_CONTAINS,
        ANSWER_MATCHES,
        OUTPUT,
        MAX_STEPS,
        MAX_TOKENS,
        MAX_COST_USD,
    ],
);

/// The same key, which may also be a template with a value of the item.
macro_rules! or_template {
    ($key:expr) => {{
        static FORMS: [Form; 2] = [$key.form, Form::Template];
        Key { form: Form::Either(&FORMS), ..$key }
    }};
}

/// The same as people write it: with values of an item.
pub(crate) static WRITTEN_CHECKS: Shape = Shape::new(
    "`[checks]`",
    &[
        or_template!(ENDS_KEY),
        or_template!(ERROR_KEY),
        or_template!(CALLS),
        or_template!(NEVER_CALLS),
        NEVER,
        ALWAYS,
        or_template!(ASKS),
        ANSWER_KEY,
        or_template!(ANSWER_CONTAINS),
        ANSWER_MATCHES,
        OUTPUT,
        or_template!(MAX_STEPS),
        or_template!(MAX_TOKENS),
        or_template!(MAX_COST_USD),
    ],
);

pub(super) static PROPERTY: Shape = Shape {
    what: "a property",
    keys: &[
        NAME,
        AGENT,
        TENANT,
        USER,
        INPUT,
        MESSAGES,
        DATA,
        Key::new(
            "results",
            Form::List(&Form::Table(&GIVEN)),
            "What comes of some requests in all runs; everything else is made up.",
        ),
        Key::new("runs", Form::Integer(1, 1_000_000), "How many runs are made up; 100 by default."),
        NEVER_CALLS,
        NEVER,
        ALWAYS,
        Key::new("ends", Form::List(&Form::Word(ENDS)), "How a run may end; in any way by default."),
        MAX_STEPS,
        MAX_TOKENS,
        MAX_COST_USD,
    ],
    one_of: &["input", "messages"],
    needs: &[],
};

/// The keys of a property that say what must hold.
pub(super) const HOLDS: &[&str] =
    &["never_calls", "never", "always", "ends", "max_steps", "max_tokens", "max_cost_usd"];

pub(super) const ENDS: &[&str] = &["completed", "failed", "suspended", "handed_off"];

pub(super) const ERRORS: &[&str] = &[
    "evaluation_failed",
    "model_failed",
    "memory_failed",
    "tool_failed",
    "agent_failed",
    "invalid_output",
    "cycle_detected",
    "denied",
    "limit_exceeded",
    "timeout",
    "cancelled",
    "abandoned",
];

pub(super) static MESSAGE: Shape = Shape {
    what: "a message",
    keys: &[
        Key::new("user", Form::Text, "What the user says."),
        Key::new("assistant", Form::Text, "What the agent has answered."),
    ],
    one_of: &["user", "assistant"],
    needs: &[],
};

pub(super) static CALL: Shape = Shape::new(
    "a call",
    &[
        Key::new("tool", TOOL_NAME, "The tool.").required("add `tool = \"…\"`"),
        Key::new("with", Form::Any, "Arguments that the call must have; others may be there."),
    ],
);

/// The keys that only a call has.
pub(super) const OF_CALLS: &[&str] = &["outputs", "said_matches", "told_matches", "max_silence", "ended_by"];

pub(super) const ENDED_BY: &[&str] = &["caller", "agent", "provider"];

pub(super) static OUTPUT_OF_CALL: Shape = Shape::new(
    "an output",
    &[
        Key::new("tool", Form::Text, "The tool, as the live model wrote it.").required("add `tool = \"…\"`"),
        Key::new("says", Form::Text, "A text that the output has; any by default."),
    ],
);

pub(super) static ASK: Shape = Shape::new(
    "a call of the live model",
    &[
        Key::new("tool", Form::Text, "The tool. It may be one that the agent does not have.")
            .required("add `tool = \"…\"`"),
        Key::new("arguments", Form::Any, "The arguments; none by default."),
        Key::new("call_id", Form::Text, "The provider's id of the call; one of its own by default."),
    ],
);

pub(super) static TURN: Shape = Shape {
    what: "a turn",
    keys: &[
        Key::new("caller", Form::Text, "What the caller says."),
        Key::new("model", Form::Text, "What the live model says in its next response."),
        Key::new(
            "calls",
            Form::List(&Form::Table(&ASK)),
            "The tools that the live model asks for in that response.",
        ),
        Key::new("for", Form::Duration, "How long the live model speaks; no time by default."),
        Key::new("interrupt", Form::Duration, "The time after which the next turn cuts the response off."),
        Key::new("digits", Form::Name("^[0-9*#A-D]{1,64}$"), "Keys that the caller presses."),
        Key::new("drop", Form::Duration, "The time for which the connection to the live model is lost."),
        Key::new(
            "kill",
            Form::Duration,
            "The process that performs the run dies, and another one resumes it from its journal after this time.",
        ),
        Key::new("hang_up", Form::Duration, "The time after the turn before at which the caller hangs up."),
        Key::new(
            "after",
            Form::Duration,
            "The time after the turn before; by default the caller speaks when the live model has spoken of all it has.",
        ),
    ],
    one_of: &["caller", "model", "digits", "drop", "kill", "hang_up"],
    needs: &[],
};

pub(super) static FORBIDDEN: Shape = Shape::new(
    "a forbidden call",
    &[
        Key::new("tool", TOOL_PATTERN, "The tools that it is about.")
            .required("add `tool = \"server.tool\"`, the tool that must not be called"),
        Key::new(
            "when",
            Form::Expression,
            "The condition: on the arguments of the call, `args`, and on `approved`, which says whether a person has agreed to it.",
        )
        .required("add `when = \"args.amount > 100 && !approved\"`, or name the tool in `never_calls`"),
    ],
);

/// What comes of a request: these keys, and some more.
macro_rules! result {
    ($($more:expr),*) => {
        Shape {
            what: "a result",
            keys: &[
                Key::new("tool", TOOL_NAME, "The tool whose call it answers."),
                Key::new(
                    "memory",
                    Form::Word(&["search", "create", "traverse"]),
                    "The memory operation that it answers.",
                ),
                Key::new(
                    "http",
                    Form::Name("^(\\*|[A-Z]+ \\S+)$"),
                    "The HTTP request of a declarative tool that it answers, such as `POST https://api.example.com/refunds`; `*` at the end matches any text.",
                ),
                Key::new("mail", Form::Text, "The recipient of the mail that it answers, or `*`."),
                Key::new("transfer", Form::Text, "The address of the transfer that it answers, or `*`."),
                Key::new("agent", AGENT_NAME, "The agent whose run it answers."),
                Key::new("with", Form::Any, "Arguments that the request must have; others may be there."),
                Key::new(
                    "returns",
                    Form::Any,
                    "The structured result; the hits of a memory search; the body of an HTTP answer.",
                ),
                Key::new("text", Form::Text, "The result as text; the answer of an agent."),
                Key::new("status", Form::Integer(100, 599), "The status of an HTTP answer; 200 by default."),
                Key::new("error", Form::Text, "An error in the words of the tool, of the service or of the agent."),
                Key::new("fails", Form::Word(FAILURES), "Why there is no answer."),
                Key::new("message", Form::Text, "What went wrong, in words, for `fails`."),
                Key::new(
                    "repeat",
                    Form::Boolean,
                    "Whether it answers all further requests, too; `false` by default in a case.",
                ),
                $($more),*
            ],
            one_of: SUBJECTS,
            needs: &[],
        }
    };
}

/// A result of a case: an agent may run in it.
pub(super) static RESULT: Shape = result!(
    Key::new(
        "replies",
        Form::List(&Form::Table(&schema::REPLY)),
        "Has the run of the agent be part of the case: what its models reply, in order; empty for an agent without a model.",
    ),
    Key::new("takes", Form::Duration, "In a call: how long it takes; no time by default.")
);

/// A result of a property, in which what models reply is made up.
pub(super) static GIVEN: Shape = result!();

pub(super) const SUBJECTS: &[&str] = &["tool", "memory", "http", "mail", "transfer", "agent"];

pub(super) const FAILURES: &[&str] = &[
    "timeout",
    "unavailable",
    "overloaded",
    "protocol",
    "tool_failed",
    "invalid_arguments",
    "denied",
    "not_permitted",
    "indeterminate",
    "result_unreadable",
    "crash_loop",
    "limit_exceeded",
    "invalid_output",
    "agent_failed",
    "cancelled",
    "internal",
];

pub(super) static ANSWER: Shape = Shape {
    what: "an answer",
    keys: &[
        Key::new(
            "to",
            Form::Text,
            "The tool that the answer is about, or a part of the question; any by default.",
        ),
        Key::new("approve", Form::Boolean, "`true`: the call may take place."),
        Key::new("deny", Form::Text, "The call may not take place, for this reason."),
        Key::new("edit", Form::Open, "The call may take place with these arguments."),
        Key::new("give", Form::Any, "The answer to a question."),
        Key::new("done", Form::Any, "It took place, with this result, though that was in doubt."),
        Key::new("not_done", Form::Boolean, "`true`: it did not take place, though that was in doubt."),
        Key::new("after", Form::Duration, "In a call: how long after the question; no time by default."),
    ],
    one_of: SAYS,
    needs: &[],
};

pub(super) const SAYS: &[&str] = &["approve", "deny", "edit", "give", "done", "not_done"];

#[cfg(test)]
mod tests {
    use dalsegno_core::{EndedBy, FailureCode, RunErrorCode};

    use super::*;
    use crate::case::Ends;

    #[test]
    fn the_words_are_those_of_the_types() {
        assert!(FAILURES.iter().copied().eq(FailureCode::ALL.iter().map(|code| code.as_str())));
        assert!(ERRORS.iter().copied().eq(RunErrorCode::ALL.iter().map(|code| code.as_str())));
        let words =
            [EndedBy::Caller, EndedBy::Agent, EndedBy::Provider].map(|by| serde_json::to_value(by).unwrap());
        assert!(ENDED_BY.iter().copied().eq(words.iter().map(|word| word.as_str().unwrap())));
        assert!(ENDS.iter().copied().eq(Ends::ALL.iter().map(|end| end.as_str())));
    }
}
