//! The keys of `dalsegno.lock`.

use crate::shape::{Form, Key, MODEL_NAME, Shape};

pub(crate) static FILE: Shape = Shape::new(
    "`dalsegno.lock`",
    &[
        Key::new(
            "version",
            Form::Integer(super::VERSION, super::VERSION),
            "The version of the file's format.",
        )
        .required("rewrite the file with `dalsegno check --connect`"),
        Key::new("names", Form::Map(&MODEL_NAME), "The names by which models see actions of toolkits."),
        Key::new("servers", Form::Map(&Form::Table(&SERVER)), "What each tool server offers."),
    ],
);

pub(super) static SERVER: Shape = Shape::new(
    "a server",
    &[
        Key::new("digest", Form::Name("^[0-9a-f]{64}$"), "The digest of the server's catalogue.")
            .required("rewrite the file with `dalsegno check --connect`"),
        Key::new("tools", Form::List(&Form::Table(&TOOL)), "The tools in the order of their names."),
    ],
);

pub(super) static TOOL: Shape = Shape::new(
    "a tool",
    &[
        Key::new("name", Form::Text, "The tool's own name, without that of the server.")
            .required("rewrite the file with `dalsegno check --connect`"),
        Key::new("description", Form::Text, "What the tool does, for a model.")
            .required("rewrite the file with `dalsegno check --connect`"),
        Key::new("read_only", Form::Boolean, "The server says that the tool changes nothing."),
        Key::new(
            "idempotent",
            Form::Boolean,
            "The server says that calling the tool twice has the same effect as calling it once.",
        ),
        Key::new("destructive", Form::Boolean, "The server says that the tool may destroy something."),
        Key::new(
            "builtin",
            Form::Boolean,
            "Whether the engine adds the tool, to read the server's resources or prompts.",
        ),
        Key::new("input_schema", Form::Text, "JSON Schema of the arguments, as JSON text.")
            .required("rewrite the file with `dalsegno check --connect`"),
        Key::new("output_schema", Form::Text, "JSON Schema of the structured result, as JSON text."),
    ],
);
