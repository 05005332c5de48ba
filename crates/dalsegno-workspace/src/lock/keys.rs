//! The keys of `dalsegno.lock`.

use crate::shape::{Form, Key, MODEL_NAME, Shape};

pub(crate) static FILE: Shape = Shape::new(
    "`dalsegno.lock`",
    &[
        Key::new("version", Form::Integer(super::VERSION, super::VERSION), "The version of the file's form.")
            .required("write the file anew with `dalsegno check --connect`"),
        Key::new("names", Form::Map(&MODEL_NAME), "The names by which models see actions of toolkits."),
        Key::new("servers", Form::Map(&Form::Table(&SERVER)), "What each tool server offers."),
    ],
);

pub(super) static SERVER: Shape = Shape::new(
    "a server",
    &[
        Key::new("digest", Form::Name("^[0-9a-f]{64}$"), "The digest of the server's catalogue.")
            .required("write the file anew with `dalsegno check --connect`"),
        Key::new("tools", Form::List(&Form::Table(&TOOL)), "The tools in the order of their names."),
    ],
);

pub(super) static TOOL: Shape = Shape::new(
    "a tool",
    &[
        Key::new("name", Form::Text, "The tool's own name, without that of the server.")
            .required("write the file anew with `dalsegno check --connect`"),
        Key::new("description", Form::Text, "What the tool does, for a model.")
            .required("write the file anew with `dalsegno check --connect`"),
        Key::new("read_only", Form::Boolean, "The server says that the tool changes nothing."),
        Key::new("idempotent", Form::Boolean, "The server says that twice is the same as once."),
        Key::new("destructive", Form::Boolean, "The server says that the tool may destroy something."),
        Key::new(
            "builtin",
            Form::Boolean,
            "It reads the server's resources or prompts, and is no tool of its own.",
        ),
        Key::new("input_schema", Form::Text, "JSON Schema of the arguments, as JSON text.")
            .required("write the file anew with `dalsegno check --connect`"),
        Key::new("output_schema", Form::Text, "JSON Schema of the structured result, as JSON text."),
    ],
);
