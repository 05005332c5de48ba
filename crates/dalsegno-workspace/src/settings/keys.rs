//! The keys of `dalsegno.toml`.

use super::{bedrock, dispatch, models, serve, tenant_keys, triggers, voice};
use crate::control;
use crate::shape::{Form, Key, Need, Shape, Tagged};

pub(crate) static FILE: Shape = Shape::new(
    "`dalsegno.toml`",
    &[
        Key::new(
            "models",
            Form::Map(&Form::Tagged(&MODEL)),
            "The models by name; agents use them by that name.",
        ),
        Key::new(
            "servers",
            Form::Map(&Form::Table(&SERVER)),
            "The tool servers by name; their tools are `name.tool`.",
        ),
        Key::new("store", Form::Table(&STORE), "Where to store runs."),
        Key::new("memory", Form::Table(&MEMORY), "Where to store the memory of agents."),
        Key::new(
            "secrets",
            Form::Map(&Form::Table(&SECRET)),
            "References to secrets, by name; never the secrets themselves.",
        ),
        Key::new(
            "secret_store",
            Form::Table(&SECRET_STORE),
            "The encrypted store for secrets that are not kept elsewhere.",
        ),
        Key::new(
            "signers",
            Form::Map(&Form::Name("^[0-9A-Fa-f]{64}$")),
            "The keys of known signers of archives, by name.",
        ),
        Key::new(
            "tenants",
            Form::Map(&Form::Table(&TENANT)),
            "The environment variables and files of this machine that each tenant's file may name, by tenant.",
        ),
        Key::new(
            "secret_paths",
            Form::List(&SECRET_PATH),
            "Paths in `user` that hold secrets besides `user.auth_token`, such as `user.crm.token`.",
        ),
        Key::new(
            "budget",
            Form::Table(&BUDGET),
            "What all runs may spend on models in a day, and what those of each tenant may.",
        ),
        Key::new(
            "dispatch",
            Form::Table(&DISPATCH),
            "How many calls a process makes at once, and when it stops calling a server or model that fails.",
        ),
        Key::new(
            "telemetry",
            Form::Table(&TELEMETRY),
            "Where to send traces of runs; without this section, nothing is sent.",
        ),
        Key::new("serve", Form::Table(&serve::SHAPE), "How `dalsegno serve` serves."),
        Key::new(
            "triggers",
            Form::Map(&Form::Tagged(&triggers::TRIGGER)),
            "Deliveries from outside that start runs, by the last part of their address.",
        ),
        Key::new(
            "voice",
            Form::Table(&voice::SHAPE),
            "Over which lines agents with `[voice]` speak with callers.",
        ),
    ],
);

/// A place below `user`, by names alone.
static SECRET_PATH: Form = Form::Name(r"^user(\.[A-Za-z_][A-Za-z0-9_]*)+$");

pub(super) static MODEL: Tagged = Tagged {
    tag: "provider",
    shapes: &[
        (&["openai", "openai-responses", "anthropic", "gemini"], &HTTP_MODEL),
        (&["bedrock"], &BEDROCK_MODEL),
        (&["script"], &SCRIPT_MODEL),
        (&["cassette"], &CASSETTE_MODEL),
    ],
};

const PROVIDER: Key = Key::new(
    "provider",
    Form::Word(&["openai", "openai-responses", "anthropic", "gemini", "bedrock", "script", "cassette"]),
    "Where replies come from: a wire format, a script or a recording.",
)
.required(
    "expected one of `openai`, `openai-responses`, `anthropic`, `gemini`, `bedrock`, `script`, `cassette`",
);

const PRICE: Key =
    Key::new("price", Form::Table(&PRICE_TABLE), "The price of tokens, in US dollars per million.");

const MODEL_NAME: Key = Key::new("model", Form::Text, "The provider's name for the model.")
    .required("add `model = \"…\"`, the provider's name for it");
const BASE_URL: Key = Key::new(
    "base_url",
    Form::Text,
    "The endpoint, without the path of the wire format; the provider's own by default.",
);
const ALLOW_HTTP: Key = Key::new(
    "allow_http",
    Form::Boolean,
    "Whether the endpoint may be reached without encryption; `false` by default, loopback is always allowed.",
);
const API_KEY: Key = Key::new(
    "api_key",
    Form::Table(&SECRET),
    "Where to find the key: `{ env = \"NAME\" }`, `{ file = \"PATH\" }`, `{ store = \"NAME\" }` or `{ command = [\"PROGRAM\", …] }`.",
);
const EXTRA: Key = Key::new("extra", Form::Open, "Further fields of the request's body, such as `metadata`.");
const HEADERS: Key = Key::new(
    "headers",
    Form::Map(&Form::Text),
    "Further headers of each request, which are no secrets, such as `anthropic-beta`.",
);
const IDLE_TIMEOUT: Key = Key::new(
    "idle_timeout",
    Form::Duration,
    "Maximum silence within a reply; as long as an attempt may take by default.",
);
const CACHE: Key = Key::new(
    "cache",
    Form::Word(&["off", "5m", "1h"]),
    "How long the provider keeps what it has read, over `anthropic` and `bedrock`; `5m` by default.",
);
const TOOL_FILES: Key = Key::new(
    "tool_files",
    Form::Word(&["all", "images", "off"]),
    "Which files that tools return the model reads; `all` that the wire carries by default.",
);
const CONCURRENCY: Key = Key::new(
    "concurrency",
    dispatch::COUNT,
    "Maximum number of concurrent requests; by default the limit of `[dispatch]` for a process.",
);

pub(super) static HTTP_MODEL: Shape = Shape::new(
    "a model",
    &[
        PROVIDER,
        MODEL_NAME,
        BASE_URL,
        ALLOW_HTTP,
        API_KEY,
        tenant_keys::KEYS,
        Key::new(
            "api_key_header",
            Form::Name("^[A-Za-z0-9-]+$"),
            "The header that carries the key: `authorization` as `Bearer KEY`, any other as the key alone; the wire's own by default.",
        ),
        EXTRA,
        HEADERS,
        IDLE_TIMEOUT,
        Key::new(
            "stream_options",
            Form::Boolean,
            "Whether Chat Completions are asked to count tokens by `stream_options`; `true` by default.",
        ),
        CACHE,
        TOOL_FILES,
        control::TOP_P,
        control::STOP,
        control::SEED,
        control::REASONING,
        control::PARALLEL_TOOL_CALLS,
        control::VERBOSITY,
        control::SERVICE_TIER,
        control::STRICT,
        control::BATCH,
        control::PROVIDER_TOOLS,
        CONCURRENCY,
        PRICE,
    ],
);

pub(super) static BEDROCK_MODEL: Shape = Shape {
    what: "a model",
    one_of: &[],
    needs: &[
        Need { because_of: "access_key_id", word: None, keys: &["secret_access_key", "region"] },
        Need { because_of: "secret_access_key", word: None, keys: &["access_key_id"] },
        Need { because_of: "session_token", word: None, keys: &["access_key_id"] },
        Need { because_of: "credentials", word: None, keys: &["region"] },
    ],
    keys: &[
        PROVIDER,
        MODEL_NAME,
        Key::new(
            "region",
            Form::Name("^[a-z0-9]+(-[a-z0-9]+)+$"),
            "The region of AWS, such as `eu-central-1`; part of the default endpoint and of each signature.",
        ),
        BASE_URL,
        ALLOW_HTTP,
        API_KEY,
        bedrock::KEYS[0],
        bedrock::KEYS[1],
        bedrock::KEYS[2],
        bedrock::KEYS[3],
        tenant_keys::BEDROCK_KEYS,
        EXTRA,
        HEADERS,
        IDLE_TIMEOUT,
        CACHE,
        TOOL_FILES,
        control::TOP_P,
        control::STOP,
        control::SEED,
        control::REASONING,
        control::PARALLEL_TOOL_CALLS,
        control::VERBOSITY,
        control::SERVICE_TIER,
        control::STRICT,
        control::BATCH,
        control::PROVIDER_TOOLS,
        CONCURRENCY,
        PRICE,
    ],
};

pub(super) static SCRIPT_MODEL: Shape = Shape::new(
    "a model",
    &[
        PROVIDER,
        Key::new("file", Form::Text, "The script with the replies to return.")
            .required("add `file = \"tests/scripts/NAME.toml\"`, the script with the replies"),
        PRICE,
    ],
);

pub(super) static CASSETTE_MODEL: Shape = Shape::new(
    "a model",
    &[
        PROVIDER,
        Key::new(
            "file",
            Form::Text,
            "The recording to play back; a request that it does not contain is an error.",
        )
        .required("add `file = \"tests/cassettes/NAME.jsonl\"`, the recording to play back"),
        PRICE,
    ],
);

pub(super) const INPUT: Key = Key::new("input", models::DOLLARS, "The price of a million tokens sent.")
    .required("add `input = …`, US dollars for a million tokens sent");
pub(super) const OUTPUT: Key =
    Key::new("output", models::DOLLARS, "The price of a million tokens received, reasoning included.")
        .required("add `output = …`, US dollars for a million tokens received");
pub(super) const CACHED_INPUT: Key = Key::new(
    "cached_input",
    models::DOLLARS,
    "The price of a million tokens sent that the provider had in its cache; that of `input` by default.",
);
const CACHE_WRITE: Key = Key::new(
    "cache_write",
    models::DOLLARS,
    "The price of a million tokens sent that the provider wrote to its cache; that of `input` by default.",
);
const CACHE_WRITE_1H: Key = Key::new(
    "cache_write_1h",
    models::DOLLARS,
    "The same for tokens that it keeps for an hour; that of `cache_write` by default.",
);

static PRICE_TABLE: Shape = Shape::new(
    "`price`",
    &[
        INPUT,
        OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
        CACHE_WRITE_1H,
        Key::new(
            "long_context",
            Form::List(&Form::Table(&LONG_CONTEXT)),
            "The prices of long requests, each with the number of tokens above which they apply.",
        ),
        Key::new(
            "web_search",
            models::DOLLARS,
            "The price of a thousand searches of the web that the provider makes; nothing by default.",
        ),
    ],
);

pub(super) static LONG_CONTEXT: Shape = Shape::new(
    "an entry of `long_context`",
    &[
        Key::new(
            "above",
            Form::Integer(1, 1_000_000_000),
            "The number of tokens sent above which these prices apply to the whole request.",
        )
        .required("add `above = …`, the number of tokens sent above which these prices apply"),
        INPUT,
        OUTPUT,
        CACHED_INPUT,
        CACHE_WRITE,
        CACHE_WRITE_1H,
    ],
);

pub(crate) static SECRET: Shape = Shape {
    what: "a secret",
    one_of: &["env", "file", "store", "command"],
    needs: &[
        Need { because_of: "ttl", word: None, keys: &["command"] },
        Need { because_of: "timeout", word: None, keys: &["command"] },
    ],
    keys: &SECRET_KEYS,
};

/// The keys of a reference to a secret.
pub(super) const SECRET_KEYS: [Key; 6] = [
    SECRET_ENV,
    SECRET_FILE,
    SECRET_STORED,
    Key::new("command", Form::List(&Form::Text), "The program that prints it, and its arguments."),
    Key::new("ttl", Form::Duration, "How long to use what the program printed; `5m` by default."),
    Key::new("timeout", Form::Duration, "The longest that the program may take; `30s` by default."),
];

/// A secret that no program prints: of a tenant, or of telemetry.
pub(crate) static KEPT_SECRET: Shape = Shape {
    what: "a secret",
    one_of: &["env", "file", "store"],
    needs: &[],
    keys: &[SECRET_ENV, SECRET_FILE, SECRET_STORED],
};

const SECRET_ENV: Key = Key::new("env", Form::Text, "The environment variable that holds it.");

const SECRET_FILE: Key = Key::new("file", Form::Text, "The file that holds it.");

const SECRET_STORED: Key = Key::new(
    "store",
    Form::Name("^[A-Za-z][A-Za-z0-9_.-]{0,127}$"),
    "Its name in the secret store; `dalsegno secret put NAME` stores it.",
);

pub(super) static TENANT: Shape = Shape::new(
    "the grants of a tenant",
    &[
        Key::new(
            "env_prefixes",
            Form::List(&Form::Text),
            "Prefixes of the environment variables that its file may name; none by default.",
        ),
        Key::new(
            "file_prefixes",
            Form::List(&Form::Text),
            "Files and folders that its file may name; none by default.",
        ),
    ],
);

static SECRET_STORE: Shape = Shape::new(
    "`[secret_store]`",
    &[
        Key::new(
            "path",
            Form::Text,
            "The encrypted file that stores secrets; `.dalsegno/secrets.db` by default.",
        ),
        Key::new(
            "key",
            Form::Table(&STORE_KEY),
            "Where to find its key; `{ file = \".dalsegno/secrets.key\" }` by default.",
        ),
    ],
);

static STORE_KEY: Shape = Shape {
    what: "the key of the secret store",
    one_of: &["env", "file"],
    needs: &[],
    keys: &[
        Key::new("env", Form::Text, "The environment variable that holds it."),
        Key::new("file", Form::Text, "The file that holds it, which only its owner may read."),
    ],
};

static STORE: Shape = Shape::new(
    "`[store]`",
    &[Key::new("path", Form::Text, "The file that stores runs; `.dalsegno/dalsegno.db` by default.")],
);

static BUDGET: Shape = Shape::new(
    "`[budget]`",
    &[
        Key::new(
            "max_cost_usd_per_day",
            MAX_COST,
            "Maximum cost of the model calls of all tenants together in a day, in US dollars; no limit by default.",
        ),
        Key::new(
            "tenant_max_cost_usd_per_day",
            MAX_COST,
            "The same for each tenant; a tenant's file may set less. No limit by default.",
        ),
        Key::new(
            "time_zone",
            Form::Text,
            "The time zone of the workspace's day, such as `Europe/Paris`; UTC by default.",
        ),
    ],
);

/// Most US dollars of a limit; a billionth of one is the smallest amount that is counted.
pub(crate) const MAX_COST: Form = Form::Dollars { most: 1_000_000, decimals: 9 };

static DISPATCH: Shape = Shape::new(
    "`[dispatch]`",
    &[
        Key::new(
            "concurrency",
            dispatch::COUNT,
            "Maximum number of calls of tools, models and memory that a process makes at once; 256 by default.",
        ),
        Key::new(
            "tenant_concurrency",
            dispatch::COUNT,
            "Maximum number of these for one tenant; 64 by default.",
        ),
        Key::new(
            "queue",
            dispatch::COUNT,
            "Maximum number of calls that wait for one server or model; 1024 by default. The next one is `overloaded`.",
        ),
        Key::new(
            "breaker_failures",
            dispatch::COUNT,
            "Failures in a row after which the process stops calling a server or model for a while; 5 by default.",
        ),
        Key::new(
            "breaker_cool_down",
            Form::Duration,
            "The first pause, doubled by each further failure; `10s` by default.",
        ),
    ],
);

static TELEMETRY: Shape = Shape::new(
    "`[telemetry]`",
    &[
        Key::new(
            "endpoint",
            Form::Text,
            "The collector, for OTLP over HTTP; spans go to `/v1/traces` below it.",
        )
        .required("add `endpoint = \"http://127.0.0.1:4318\"`, the address of a collector"),
        Key::new(
            "allow_http",
            Form::Boolean,
            "Whether it may be reached without encryption; `false` by default, loopback is always allowed.",
        ),
        Key::new(
            "headers",
            Form::Map(&Form::Table(&KEPT_SECRET)),
            "Headers of each request, such as the collector's key, each with a reference to its value.",
        ),
        Key::new(
            "resource",
            Form::Map(&Form::Text),
            "Resource attributes of the spans, such as `\"deployment.environment.name\" = \"staging\"`.",
        ),
        Key::new(
            "content",
            Form::Boolean,
            "Whether spans include the messages of people, models and tools; `false` by default.",
        ),
    ],
);

static MEMORY: Shape = Shape::new(
    "`[memory]`",
    &[
        Key::new("path", Form::Text, "The file that stores the memory; `.dalsegno/memory.db` by default."),
        Key::new("seeds", Form::List(&Form::Text), "Files of JSON lines to load into a new memory."),
    ],
);

pub(super) static SERVER: Shape = Shape {
    what: "a server",
    one_of: &["wasm", "command", "url"],
    needs: &[],
    keys: &[
        Key::new("wasm", Form::Text, "The compiled server, if it is a WebAssembly module."),
        Key::new(
            "command",
            Form::List(&Form::Text),
            "The program and its arguments, if it is a child process.",
        ),
        Key::new(
            "env",
            Form::Map(&Form::Either(&[Form::Text, Form::Table(&SECRET)])),
            "The whole environment of the child process; empty by default.",
        ),
        Key::new("cwd", Form::Text, "The folder in which it runs; the workspace's own by default."),
        Key::new("url", Form::Text, "Its address, if it uses streamable HTTP."),
        Key::new(
            "headers",
            Form::Map(&Form::Table(&SECRET)),
            "Headers of each request, each with a reference to its value.",
        ),
        Key::new("oauth", Form::Table(&OAUTH), "How to get access to the server, if it uses OAuth."),
        Key::new(
            "allow_http",
            Form::Boolean,
            "Whether it may be reached without encryption; `false` by default, loopback is always allowed.",
        ),
        Key::new(
            "digest",
            Form::Name("^(sha256|blake3):[0-9a-fA-F]{64}$"),
            "The digest that the file must have.",
        ),
        Key::new("tools", Form::List(&Form::Text), "The tools that are offered; all by default."),
        Key::new(
            "trust_annotations",
            Form::Boolean,
            "Whether to trust the server's annotations about the effects of its tools; `false` by default.",
        ),
        Key::new(
            "lifetime",
            Form::Word(&["per_call", "per_run", "shared"]),
            "How long an instance lives: for one call, for a run, or for all runs of a tenant; `per_run` by default.",
        ),
        Key::new("permissions", Form::Table(&PERMISSIONS), "What the server may access; nothing by default."),
        Key::new("limits", Form::Table(&LIMITS), "The limits of one instance."),
    ],
};

static OAUTH: Shape = Shape {
    what: "`oauth`",
    one_of: &[],
    needs: &[
        Need { because_of: "grant", word: Some("client_credentials"), keys: &["client_id", "client_secret"] },
        Need { because_of: "client_secret", word: None, keys: &["client_id"] },
    ],
    keys: &[
        Key::new(
            "grant",
            Form::Word(&["authorization_code", "client_credentials"]),
            "Who grants access: a person, with `dalsegno auth NAME`, or the client itself; `authorization_code` by default.",
        ),
        Key::new(
            "client_id",
            Form::Text,
            "The client's id at the authorization server; without it, the client registers itself.",
        ),
        Key::new(
            "client_secret",
            Form::Table(&SECRET),
            "Where to find the client's secret: `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`.",
        ),
        Key::new(
            "client_metadata",
            Form::Name("^https://[^\\s]+$"),
            "The address of a document that describes this client, for authorization servers that accept one.",
        ),
        Key::new(
            "scopes",
            Form::List(&Form::Text),
            "The exact scopes to request; by default those that the server says that it needs.",
        ),
        Key::new(
            "authorization_servers",
            Form::List(&Form::Name("^https?://[^/*@\\s]+$")),
            "Authorization servers to use besides the server itself, such as `https://login.example.com`.",
        ),
    ],
};

static PERMISSIONS: Shape = Shape::new(
    "`permissions`",
    &[
        Key::new("files", Form::List(&Form::Table(&GRANT)), "The folders that it may use."),
        Key::new(
            "env",
            Form::Map(&Form::Either(&[Form::Text, Form::Table(&SECRET)])),
            "The environment variables that it sees; the server itself holds any secret among them.",
        ),
        Key::new(
            "network",
            Form::List(&Form::Name("^https?://[^/*@\\s]+$")),
            "Where its HTTP requests may go: scheme, host and port, such as `https://crm.example.com`.",
        ),
        Key::new(
            "secrets",
            Form::Map(&Form::Table(&INJECTION)),
            "Secrets that the host adds to requests, by destination; the server never holds them.",
        ),
        Key::new(
            "clock",
            Form::Boolean,
            "Whether it sees the real time; `false` by default: the clock does not advance.",
        ),
        Key::new(
            "random",
            Form::Boolean,
            "Whether its random bytes are random; `false` by default: they are always the same.",
        ),
    ],
);

pub(super) static INJECTION: Shape = Shape::new(
    "a secret for a destination",
    &[
        Key::new("header", Form::Text, "The header that carries it; the server cannot set it.")
            .required("add `header = \"Authorization\"`, the header that carries it"),
        Key::new("prefix", Form::Text, "The text before the secret, such as `Bearer `; empty by default."),
        Key::new(
            "value",
            Form::Table(&SECRET),
            "Where to find the secret: `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`.",
        )
        .required("add `value = { env = \"NAME\" }`, where the secret is found"),
    ],
);

pub(super) static GRANT: Shape = Shape::new(
    "a grant of `files`",
    &[
        Key::new("host", Form::Text, "The folder on this machine.")
            .required("add `host = \"PATH\"`, the folder on this machine"),
        Key::new("guest", Form::Name("^(/[^/\\u0000]+)+$"), "The path at which the server sees it.")
            .required("add `guest = \"/data\"`, the path at which the server sees it"),
        Key::new("access", Form::Word(&["read", "write"]), "What the server may do with it.")
            .required("add `access = \"read\"` or `access = \"write\"`"),
        Key::new(
            "create",
            Form::Boolean,
            "Whether to create the folder if it does not exist; `false` by default.",
        ),
    ],
);

static LIMITS: Shape = Shape::new(
    "`limits`",
    &[
        Key::new("memory", Form::Size, "Maximum linear memory; `64MiB` by default."),
        Key::new("call_timeout", Form::Duration, "Maximum time for one call; `5s` by default."),
        Key::new(
            "total_timeout",
            Form::Duration,
            "Maximum time for one call that reports progress, and for a task that the server creates for it; \
             `10m` by default. For servers with `command` or `url`.",
        ),
        Key::new("output", Form::Size, "Maximum size of one answer; `1MiB` by default."),
        Key::new("stderr", Form::Size, "How much of its standard error to keep; `64KiB` by default."),
        Key::new(
            "concurrency",
            dispatch::COUNT,
            "Maximum number of concurrent calls; by default the limit of `[dispatch]` for a process.",
        ),
        Key::new("start_timeout", Form::Duration, "Maximum time to start an instance; `10s` by default."),
        Key::new(
            "table_elements",
            Form::Integer(1, 100_000),
            "Maximum number of elements in all tables of an instance; 100,000 by default.",
        ),
        Key::new(
            "instances",
            Form::Integer(1, 4_096),
            "Maximum number of instances; 1,000 by default. An idle instance makes room for the next.",
        ),
        Key::new("module", Form::Size, "Maximum size of its WebAssembly file; `16MiB` by default."),
        Key::new(
            "compile_timeout",
            Form::Duration,
            "Maximum time to compile its WebAssembly file; `90s` by default.",
        ),
        Key::new("response", Form::Size, "Maximum size of one HTTP response to it; `8MiB` by default."),
    ],
);
