//! The keys of a script. The reader is that of the scripted model; these words are for editors.

use crate::shape::{Form, Key, Shape};

pub(super) static FILE: Shape = Shape::new(
    "a script",
    &[
        Key::new(
            "repeat",
            Form::Boolean,
            "Whether to start again with the first reply after the last one; `false` by default.",
        ),
        Key::new("replies", Form::List(&Form::Table(&REPLY)), "The replies, in order.")
            .required("add `[[replies]]` with `text = \"…\"`"),
    ],
);

pub(crate) static REPLY: Shape = Shape::new(
    "a reply",
    &[
        Key::new("text", Form::Template, "What the model says, a template; it is streamed word by word."),
        Key::new("calls", Form::List(&Form::Table(&CALL)), "The tools that the model calls."),
        Key::new(
            "opaque",
            Form::List(&Form::Table(&OPAQUE)),
            "Parts for the provider alone; they precede the text.",
        ),
        Key::new(
            "stop",
            Form::Word(&["end", "tool_calls", "length", "refusal"]),
            "Why the reply ends; `tool_calls` with calls, else `end`.",
        ),
        Key::new("usage", Form::Table(&USAGE), "The usage that the reply reports; none by default."),
        Key::new("delay", Form::Text, "How long the reply takes, such as `50ms`."),
        Key::new("error", Form::Table(&ERROR), "A failure before the reply, or instead of it."),
        Key::new(
            "when",
            Form::Text,
            "Text that the model must have read since its last reply; otherwise the run fails.",
        ),
    ],
);

static CALL: Shape = Shape::new(
    "a call",
    &[
        Key::new("name", Form::Text, "The tool.").required("add `name = \"server.tool\"`"),
        Key::new("arguments", Form::Any, "The arguments; strings in it are templates."),
        Key::new("arguments_text", Form::Text, "The arguments as they are sent; they may be broken."),
    ],
);

static OPAQUE: Shape = Shape::new(
    "an opaque part",
    &[
        Key::new("provider", Form::Text, "The provider that the part belongs to.")
            .required("add `provider = \"…\"`"),
        Key::new("data", Form::Any, "The content of the part.").required("add `data = …`"),
    ],
);

static USAGE: Shape = Shape::new(
    "`usage`",
    &[
        Key::new("input", Form::Integer(0, i64::MAX as u64), "Tokens sent."),
        Key::new("output", Form::Integer(0, i64::MAX as u64), "Tokens received."),
    ],
);

static ERROR: Shape = Shape::new(
    "`error`",
    &[
        Key::new(
            "kind",
            Form::Word(&["unavailable", "rate_limited", "refused", "protocol", "limit_exceeded"]),
            "The kind of failure.",
        )
        .required("add `kind = \"unavailable\"`"),
        Key::new("message", Form::Text, "The message of the failure.").required("add `message = \"…\"`"),
        Key::new("attempts", Form::Integer(0, u32::MAX as u64), "How many attempts fail; all by default."),
        Key::new("retry_after", Form::Text, "How long to wait, as the provider says, such as `2s`."),
    ],
);
