//! The keys of an eval file.

use crate::case::WRITTEN_CHECKS;
use crate::shape::{AGENT_NAME, Form, Key, Shape, TOOL_PATTERN};
use crate::tenant;

pub(crate) static FILE: Shape = Shape::new(
    "an eval file",
    &[
        Key::new("agent", AGENT_NAME, "The agent that is evaluated.")
            .required("add `agent = \"…\"`, the agent that is evaluated"),
        Key::new(
            "data",
            Form::Text,
            "The data set: a file of JSON lines, relative to the workspace's folder. Each line is an item.",
        )
        .required("add `data = \"…\"`, a file of JSON lines"),
        Key::new("tenant", tenant::TENANT_NAME, "The tenant on whose behalf the agent works."),
        Key::new("trials", Form::Integer(1, 1_000), "How often each item is tried, each way; 1 by default."),
        Key::new(
            "at_least",
            Form::Number(0.0, 1.0),
            "The pass rate that must be reached, such as `0.9`. The interval of the pass rate decides.",
        ),
        Key::new(
            "smallest",
            Form::Number(0.001, 0.5),
            "The smallest difference of two pass rates that counts; `0.1` by default, which is ten points.",
        ),
        Key::new(
            "allow_effects",
            Form::List(&TOOL_PATTERN),
            "The tools that a trial may call though they change something. A trial stops at any other such call.",
        ),
        Key::new("against", Form::Table(&AGAINST), "What the agent is compared with; nothing by default."),
        Key::new("checks", Form::Table(&WRITTEN_CHECKS), "What must hold of each trial."),
        Key::new("judges", Form::List(&Form::Table(&JUDGE)), "Agents that judge the answers."),
    ],
);

/// The keys of the whole file that are no tables: below a table header they would belong to that table.
pub(super) const FILE_TEXTS: &[&str] =
    &["agent", "data", "tenant", "trials", "at_least", "smallest", "allow_effects"];

pub(super) static AGAINST: Shape = Shape {
    what: "`[against]`",
    keys: &[
        Key::new("agent", AGENT_NAME, "Another agent of the workspace."),
        Key::new("model", Form::Text, "The same agent with another model of `dalsegno.toml`."),
        Key::new(
            "base",
            Form::Text,
            "The same agent in an earlier version of the workspace: a revision of Git, or a folder.",
        ),
    ],
    one_of: WAYS,
    needs: &[],
};

pub(super) const WAYS: &[&str] = &["agent", "model", "base"];

pub(super) static JUDGE: Shape = Shape::new(
    "a judge",
    &[
        Key::new(
            "name",
            Form::Name(r"\S"),
            "What the judge decides, in a word or two; each judge has another.",
        )
        .required("add `name = \"…\"`, what the judge decides"),
        Key::new("agent", AGENT_NAME, "The agent that judges. It needs an `[output]` with a schema.")
            .required("add `agent = \"…\"`, an agent with an `[output]`"),
        Key::new(
            "text",
            Form::Template,
            "What the judge is asked, from `item`, `answer`, `output`, `ends`, `calls` and `asks`; the answer by default.",
        ),
        Key::new(
            "data",
            Form::Any,
            "The structured input of the judge, with templates as in `text`; the item without its labels, the answer and the \
             output by default.",
        ),
        Key::new(
            "pass",
            Form::Expression,
            "Whether the judge lets the answer pass, from its `output`; `output.pass` by default.",
        ),
        Key::new(
            "label",
            Form::Text,
            "The entry of an item's `labels` with the verdict of a person on the item's own `answer`. The judge is asked about \
             that answer, too, and both are compared.",
        ),
    ],
);
