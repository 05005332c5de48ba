//! The keys of a tenant file.

use crate::settings::{KEPT_SECRET, MAX_COST};
use crate::shape::{ACTION_NAME, Form, Key, Shape};

pub(crate) static FILE: Shape = Shape::new(
    "a tenant file",
    &[
        Key::new("name", TENANT_NAME, "The tenant's name, the same as that of the file.")
            .required("add `name = \"…\"` at the top, the same as the name of the file"),
        Key::new("description", Form::Text, "A one-sentence description of the tenant, for people."),
        Key::new(
            "time_zone",
            Form::Text,
            "The time zone of times without an offset, such as `Europe/Paris`; without it, such a time is refused.",
        ),
        Key::new(
            "egress",
            Form::List(&Form::Text),
            "The hosts that declarative tools may reach, such as `https://api.example.com`; none by default.",
        ),
        Key::new(
            "settings",
            Form::OpenTable(&SETTINGS),
            "The values that tools read as `tenant.settings`: any keys, but never a secret.",
        ),
        Key::new(
            "secrets",
            Form::Map(&Form::Table(&KEPT_SECRET)),
            "References to secrets, by name; never the secrets themselves.",
        ),
        Key::new(
            "tools",
            Form::Map(&Form::Table(&TOOLKIT)),
            "The tenant's settings for single tools and toolkits, by name.",
        ),
        Key::new("features", Form::Table(&FEATURES), "Features that add tools."),
        Key::new("budget", Form::Table(&BUDGET), "What the tenant's runs may spend on models in a day."),
    ],
);

/// The name of a tenant, which is also that of a file and of a folder.
pub(crate) const TENANT_NAME: Form = Form::Name("^[a-z0-9][a-z0-9_-]{0,63}$");

/// The keys of the whole file that are no tables: below a table header they would belong to that table.
pub(super) const FILE_TEXTS: &[&str] = &["name", "description", "time_zone", "egress"];

/// Of those, the ones that mean nothing in a table of settings.
pub(super) const NO_SETTINGS: &[&str] = &["time_zone", "egress"];

pub(super) static BUDGET: Shape = Shape::new(
    "`[budget]`",
    &[Key::new(
        "max_cost_usd_per_day",
        MAX_COST,
        "Maximum cost of model calls in a day of the tenant's time zone, in US dollars; no limit by default.",
    )],
);

pub(super) static SETTINGS: Shape = Shape::new(
    "`[settings]`",
    &[
        Key::new("base_url", Form::Text, "The base address of the endpoints' paths."),
        Key::new(
            "endpoints",
            Form::Map(&Form::Either(&[Form::Text, Form::Table(&ENDPOINT)])),
            "Addresses by name: a URL, or a path below `base_url` with a method.",
        ),
    ],
);

pub(super) static ENDPOINT: Shape = Shape::new(
    "an endpoint",
    &[
        Key::new("path", Form::Name("^/"), "The path below `base_url`.")
            .required("add `path = \"/…\"`, the path below `base_url`"),
        Key::new(
            "method",
            Form::Word(&["GET", "POST", "PUT", "PATCH", "DELETE"]),
            "The method of calls that do not name one; `POST` by default.",
        ),
    ],
);

static TOOLKIT: Shape = Shape::new(
    "the settings of a toolkit",
    &[
        CONFIG,
        Key::new(
            "secrets",
            Form::Map(&Form::Table(&KEPT_SECRET)),
            "The toolkit's secrets by name, each with a reference to its value.",
        ),
        DISABLED,
        Key::new(
            "agents",
            Form::Map(&Form::Table(&OF_AGENT)),
            "Settings that replace these for single agents, by the agent's name.",
        ),
    ],
);

static OF_AGENT: Shape = Shape::new(
    "the settings of a toolkit for an agent",
    &[
        Key::new(
            "secrets",
            Form::Map(&Form::Table(&KEPT_SECRET)),
            "The secrets that this agent uses instead of the tenant's, by name.",
        ),
        Key::new(
            "own_access",
            Form::Boolean,
            "Whether a person consents for this agent alone, so that it has its own account; `false` by default.",
        ),
    ],
);

pub(crate) const CONFIG: Key =
    Key::new("config", Form::Open, "Values of the toolkit's public configuration.");
pub(crate) const DISABLED: Key =
    Key::new("disabled", Form::List(&ACTION_NAME), "The actions that are not offered; none by default.");

static FEATURES: Shape = Shape::new(
    "`[features]`",
    &[Key::new(
        "refer",
        Form::Table(&REFER),
        "Where calls can be transferred; adds the tool `transfer.request_transfer`.",
    )],
);

static REFER: Shape = Shape::new(
    "`[features.refer]`",
    &[
        Key::new("enabled", Form::Boolean, "Whether the tool is offered; `true` by default."),
        Key::new(
            "require_confirmation",
            Form::Boolean,
            "Whether the first call only asks for a confirmation; `true` by default.",
        ),
        Key::new(
            "handoff_phrase",
            Form::Text,
            "What to say before the transfer; `{{label}}` is replaced with the destination's label.",
        ),
        Key::new(
            "destinations",
            Form::List(&Form::Table(&DESTINATION)),
            "Where a call can be transferred to.",
        )
        .required("add `[[features.refer.destinations]]`, where a call can be transferred to"),
    ],
);

pub(super) static DESTINATION: Shape = Shape::new(
    "a destination",
    &[
        Key::new(
            "destination_id",
            Form::Name("^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"),
            "The destination's name for the model.",
        )
        .required("add `destination_id = \"…\"`, the destination's name for the model"),
        Key::new("label", Form::Text, "The destination's name for people; the id by default."),
        Key::new("description_for_model", Form::Text, "When the model should choose it."),
        Key::new(
            "target_uri",
            Form::Name(r"^(sips?:[^\s]+|(tel:)?\+[0-9]{6,15})$"),
            "Where the call goes; no model reads it.",
        )
        .required("add `target_uri = \"sip:…\"` or a telephone number such as `\"+14155552000\"`"),
        Key::new("enabled", Form::Boolean, "Whether it is offered; `true` by default."),
        Key::new(
            "priority",
            Form::Integer(0, 1_000_000),
            "Destinations with a higher number are listed first; 0 by default.",
        ),
    ],
);
