//! What `dalsegno.toml` says: models, tool servers, where things are kept.

mod bedrock;
mod budget;
mod commands;
mod dispatch;
mod keys;
mod models;
mod oauth;
mod oidc;
mod paths;
mod permissions;
mod reach;
mod read;
mod remote;
pub(crate) mod secrets;
mod serve;
mod servers;
mod telemetry;
mod telephone;
mod tenant_keys;
mod triggers;
mod url;
mod voice;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use dalsegno_core::{ModelControl, Price};
use serde_json::{Map, Value};

use crate::trigger::Trigger;

pub use self::commands::SecretCommand;
pub(crate) use self::keys::{FILE, KEPT_SECRET, MAX_COST};
pub use self::oidc::{ACCESS_SCOPES, OIDC_ALGORITHMS};
pub(crate) use self::paths::Paths;
pub(crate) use self::reach::Reach;
pub(crate) use self::read::{SettingsRead, default_store, may_name_store, read, secret_settings};
pub use self::telephone::{Answerer, Telephone, TransferPattern, Transport, is_number};
pub(crate) use self::tenant_keys::KeysPlace;
pub(crate) use self::voice::Unpriced;
pub use self::voice::{LineSurface, VoiceLine};

/// The settings of a workspace. All paths are joined with the workspace's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The models by name, `[models.*]`.
    pub models: BTreeMap<String, ModelBinding>,
    /// What the tokens of models cost, by the model's name, where the file says so.
    pub prices: BTreeMap<String, Price>,
    /// How models are asked, by the model's name, where the file says so; what an agent sets stands above it.
    pub controls: BTreeMap<String, ModelControl>,
    /// The tool servers by name, `[servers.*]`.
    pub servers: BTreeMap<String, ServerBinding>,
    /// The file that keeps runs; `.dalsegno/dalsegno.db` by default.
    pub store: PathBuf,
    /// What agents remember.
    pub memory: MemoryBinding,
    /// The secrets by name, `[secrets]`. Their values are scrubbed from whatever is recorded.
    pub secrets: BTreeMap<String, SecretRef>,
    /// Where secrets are kept that stand nowhere else.
    pub secret_store: SecretStoreBinding,
    /// Whose signatures of archives are known, `[signers]`: the key of each by a name for people.
    pub signers: BTreeMap<String, String>,
    /// What the files of tenants may name of this machine's environment and files, by tenant; nothing by default.
    pub tenants: BTreeMap<String, TenantGrants>,
    /// The places of a caller's context that hold secrets, such as `user.auth_token`, which is always among them. What stands
    /// there when a run is started is kept in the secret store, and only requests of declarative tools may refer to it.
    pub secret_paths: BTreeSet<String>,
    /// How many effects a process performs at once, and when it leaves somebody alone who fails.
    pub dispatch: DispatchSettings,
    /// What runs may spend on models in a day.
    pub budget: DailyBudget,
    /// Where traces of runs are sent; nowhere when absent.
    pub telemetry: Option<TelemetrySettings>,
    /// How `dalsegno serve` serves.
    pub serve: ServeSettings,
    /// The deliveries from outside that start runs, by name.
    pub triggers: BTreeMap<String, Trigger>,
    /// The lines over which agents speak with callers, by name, `[voice.lines]`.
    pub lines: BTreeMap<String, VoiceLine>,
}

/// How `dalsegno serve` serves, `[serve]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeSettings {
    /// Where it listens; port 8700 of this machine's loopback by default.
    pub address: SocketAddr,
    /// The names by which clients call it, in lower case, without a port, beside those of this machine.
    pub hosts: BTreeSet<String>,
    /// A proxy that encrypts stands before it.
    pub behind_proxy: bool,
    /// The files by which it encrypts itself.
    pub tls: Option<TlsFiles>,
    /// Most connections at once. 12,000 by default.
    pub connections: usize,
    /// Most requests of a key in a minute. 6,000 by default.
    pub requests_per_minute: u32,
    /// Most requests without a good credential from one address in a minute. 60 by default.
    pub refusals_per_minute: u32,
    /// Most streams of a key at once. 100 by default.
    pub streams: usize,
    /// Most bytes of the body of a request. 4 MiB by default.
    pub body: u64,
    /// The origins that receive webhooks besides public ones over `https`: of this machine, of a private network, or over `http`.
    pub webhooks: BTreeSet<String>,
    /// Whose tokens clients may show in the place of keys, `[serve.oidc]`; without it, no token is accepted.
    pub oidc: Option<OidcSettings>,
}

/// Whose tokens are accepted, and what they allow, `[serve.oidc]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The issuer, exactly as tokens name it.
    pub issuer: String,
    /// What a token must name as its audience: one of these.
    pub audience: BTreeSet<String>,
    /// The algorithms with which tokens may be signed, of [`OIDC_ALGORITHMS`].
    pub algorithms: BTreeSet<String>,
    /// Whose runs a token reaches.
    pub tenant: OidcTenant,
    /// The claim with what a token allows.
    pub scopes_claim: String,
    /// The scopes, of [`ACCESS_SCOPES`], by the values of that claim.
    pub scopes: BTreeMap<String, BTreeSet<String>>,
    /// The claim with the name that is recorded.
    pub name_claim: String,
    /// The origins of a private network at which the issuer is reached.
    pub addresses: BTreeSet<String>,
    /// How people sign in to the pages, `[serve.oidc.sign_in]`; without it they do not by the identity provider.
    pub sign_in: Option<OidcSignIn>,
}

/// Whose runs a token reaches. Tenants are names, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OidcTenant {
    /// Those of this tenant, for every token.
    Fixed(String),
    /// Those of the tenant that a claim names.
    Claim {
        /// The claim.
        claim: String,
        /// The tenant for each value; without it the value is the name of the tenant.
        tenants: Option<BTreeMap<String, String>>,
    },
}

/// How people sign in to the pages by the identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSignIn {
    /// What the identity provider knows the server by.
    pub client_id: String,
    /// Where the client's secret is found; none for a public client.
    pub client_secret: Option<SecretRef>,
    /// What is asked for besides `openid`.
    pub scopes: Vec<String>,
}

/// A certificate and its private key, as files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to its issuer behind it. Relative to the workspace, or absolute.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8700)),
            hosts: BTreeSet::new(),
            behind_proxy: false,
            tls: None,
            connections: 12_000,
            requests_per_minute: 6_000,
            refusals_per_minute: 60,
            streams: 100,
            body: 4 << 20,
            webhooks: BTreeSet::new(),
            oidc: None,
        }
    }
}

/// Where traces of runs are sent, `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The collector's address, for OTLP over HTTP. `https`, or `http` to this machine or where the file allows it.
    pub endpoint: String,
    /// Headers of each request: where their values are found.
    pub headers: BTreeMap<String, SecretRef>,
    /// Attributes of the resource that the spans are of.
    pub resource: BTreeMap<String, String>,
    /// Whether spans carry what people, models and tools said; `false` by default.
    pub content: bool,
}

/// What runs may spend on models in a day, `[budget]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DailyBudget {
    /// Most that all tenants together may spend, in billionths of a US dollar; no bound when absent.
    pub max_cost_nano_usd: Option<u64>,
    /// Most that each tenant may spend; its own file may set less.
    pub tenant_max_cost_nano_usd: Option<u64>,
    /// The zone of the workspace's day, one of the IANA database; UTC when absent.
    pub time_zone: Option<String>,
}

/// How many effects a process performs at once, and when it leaves somebody alone who fails, `[dispatch]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchSettings {
    /// Most effects of a process at once: calls of tools and models, memory operations. 256 by default.
    pub concurrency: usize,
    /// Most effects of one tenant at once. 64 by default, so that four busy tenants do not stop the others.
    pub tenant_concurrency: usize,
    /// Most effects that wait for one tool server or model; the next one fails as `overloaded`. 1,024 by default.
    pub queue: usize,
    /// Failures in a row after which a tool server or model is left alone for a while. 5 by default.
    pub breaker_failures: u32,
    /// How long it is left alone at first; each further failure doubles it, up to sixteen times. 10 seconds by default.
    pub breaker_cool_down: Duration,
}

impl Default for DispatchSettings {
    fn default() -> Self {
        Self {
            concurrency: 256,
            tenant_concurrency: 64,
            queue: 1_024,
            breaker_failures: 5,
            breaker_cool_down: Duration::from_secs(10),
        }
    }
}

/// Where a model's replies come from.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a workspace has a handful of models")]
pub enum ModelBinding {
    /// Replies written down beforehand, `provider = "script"`: needs no network and no key.
    Script {
        /// The script.
        file: PathBuf,
    },
    /// A recording that is played back, `provider = "cassette"`: what it does not hold is an error.
    Cassette {
        /// The recording.
        file: PathBuf,
    },
    /// An endpoint that speaks one of the known wire formats.
    Http(HttpBinding),
    /// A model that the program brings: see [`InCode`](crate::InCode).
    InCode,
}

/// A model behind an HTTP endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpBinding {
    /// The wire format.
    pub provider: Provider,
    /// The model, as the endpoint calls it.
    pub model: String,
    /// The endpoint's address, without the wire's own path; the provider's own when absent. `https`, or `http` to
    /// this machine or where the file allows it.
    pub base_url: Option<String>,
    /// Whether it may be reached unencrypted elsewhere than on this machine; `false` by default.
    pub allow_http: bool,
    /// The key; endpoints of one's own may need none.
    pub api_key: Option<SecretRef>,
    /// The access key of AWS that signs requests instead; of Bedrock alone.
    pub aws_key: Option<AwsKeyBinding>,
    /// The keys of single tenants, by tenant. A tenant that is not here uses the key above; where there is none, and this table is
    /// there, it cannot use the model.
    pub keys: Option<BTreeMap<String, TenantKey>>,
    /// The region of AWS; of Bedrock alone.
    pub region: Option<String>,
    /// The header that carries it: `authorization` behind `Bearer `, any other alone; the wire's own when absent.
    pub api_key_header: Option<String>,
    /// Further fields of the request's body.
    pub extra: Map<String, Value>,
    /// Most requests at once; what a process may perform at once when absent.
    pub concurrency: Option<usize>,
    /// Further headers of each request; they are no secrets.
    pub headers: BTreeMap<String, String>,
    /// Longest silence within a reply; as long as an attempt may take when absent.
    pub idle_timeout: Option<Duration>,
    /// Whether Chat Completions are asked to count tokens by `stream_options`; `true` by default.
    pub stream_options: bool,
    /// How long the provider keeps what it has read, where the wire has to ask for that.
    pub cache: PromptCache,
    /// Which files that tools return the model is sent.
    pub tool_files: ToolFiles,
}

/// Which files that tools return a model is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolFiles {
    /// All that the wire carries, `all`.
    #[default]
    All,
    /// Images, `images`.
    Images,
    /// None, `off`.
    Off,
}

/// How long a provider keeps what it has read of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PromptCache {
    /// Not at all, `off`.
    Off,
    /// Five minutes from the last use, `5m`.
    #[default]
    FiveMinutes,
    /// An hour from the last use, `1h`.
    OneHour,
}

/// An access key of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsKeyBinding {
    /// Each part is found by itself.
    Parts {
        /// The id of the key, `access_key_id`.
        access_key_id: SecretRef,
        /// Its secret, `secret_access_key`.
        secret_access_key: SecretRef,
        /// The token of its session, `session_token`.
        session_token: Option<SecretRef>,
    },
    /// All parts are in one JSON document, `credentials`.
    Document(SecretRef),
}

/// The key of a model that belongs to one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantKey {
    /// A text that stands in a header.
    Text(SecretRef),
    /// An access key of AWS that signs requests; of Bedrock alone.
    Aws(AwsKeyBinding),
}

/// A wire format, named after whoever made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI Chat Completions, `openai`.
    Openai,
    /// OpenAI Responses, `openai-responses`.
    OpenaiResponses,
    /// Anthropic Messages, `anthropic`.
    Anthropic,
    /// Gemini, `gemini`.
    Gemini,
    /// Amazon Bedrock's Converse, `bedrock`.
    Bedrock,
}

impl Provider {
    /// Every wire format.
    pub const ALL: [Self; 5] =
        [Self::Openai, Self::OpenaiResponses, Self::Anthropic, Self::Gemini, Self::Bedrock];

    /// The name, as `provider` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
        }
    }
}

/// What agents remember, `[memory]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBinding {
    /// The file that keeps it; `.dalsegno/memory.db` by default.
    pub path: PathBuf,
    /// Files of JSON lines that a new memory starts with.
    pub seeds: Vec<PathBuf>,
}

/// A sandboxed tool server, with what it is granted. Nothing is granted by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinding {
    /// The WebAssembly file; empty where the server is reached in another way.
    pub module: PathBuf,
    /// How the server is reached that is no WebAssembly module.
    pub remote: Option<RemoteBinding>,
    /// The digest that the file must have, `sha256:…` or `blake3:…`.
    pub digest: Option<String>,
    /// The tools that are offered; `None` offers all that the server has.
    pub tools: Option<Vec<String>>,
    /// What it may touch.
    pub permissions: ServerPermissions,
    /// How long an instance lives.
    pub lifetime: Lifetime,
    /// What it may use up.
    pub limits: ServerLimits,
    /// Whether its annotations may make the engine less careful. They come from the server and prove nothing, so
    /// this is the operator's word for them; `false` by default.
    pub trust_annotations: bool,
}

/// What a server may touch; nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerPermissions {
    /// The folders that it may use.
    pub files: Vec<FileGrant>,
    /// The environment variables that it sees.
    pub env: BTreeMap<String, EnvValue>,
    /// Where its HTTP requests may go: scheme, host and port, such as `https://crm.example.com`.
    pub network: Vec<String>,
    /// Secrets that the host adds to requests. The server never holds them.
    pub secrets: Vec<SecretGrant>,
    /// Whether it sees the real time; `false` by default.
    pub clock: bool,
    /// Whether its random bytes are random; `false` by default.
    pub random: bool,
}

/// A secret that the host adds to every request to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// The only destination that gets it; one of `network`, and encrypted or on this machine.
    pub destination: String,
    /// The header that carries it, in lower case. The server cannot set it.
    pub header: String,
    /// What stands before the value, such as `Bearer `; nothing by default.
    pub prefix: String,
    /// Where the value is found.
    pub value: SecretRef,
}

/// How long an instance of a server lives. Two tenants never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// For one call, `per_call`.
    PerCall,
    /// For the calls of one run, `per_run`. The default.
    #[default]
    PerRun,
    /// For all runs of a tenant, `shared`.
    Shared,
}

/// A server that is no WebAssembly module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteBinding {
    /// A child process that speaks over its standard input and output, `command = […]`.
    Command(CommandBinding),
    /// A server that speaks streamable HTTP, `url = …`.
    Endpoint(EndpointBinding),
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandBinding {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, EnvValue>,
    /// Its working directory; the workspace's folder by default.
    pub directory: PathBuf,
}

/// The value of an environment variable of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// A text that anybody may read.
    Text(String),
    /// A secret, which the server itself holds.
    Secret(SecretRef),
}

/// A server behind an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointBinding {
    /// Its address. `https`, or `http` to this machine or where the file allows it.
    pub url: String,
    /// Headers of each request: where their values are found.
    pub headers: BTreeMap<String, SecretRef>,
    /// How the server is asked for access, `[servers.NAME.oauth]`.
    pub oauth: Option<OAuthBinding>,
}

/// How a server is asked for access.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OAuthBinding {
    /// Who gives access.
    pub grant: OAuthGrant,
    /// What the authorization server knows this client by; without it the client registers itself.
    pub client_id: Option<String>,
    /// Where the client's secret is found.
    pub client_secret: Option<SecretRef>,
    /// The address of a document that describes this client.
    pub client_metadata: Option<String>,
    /// What to ask for, exactly; empty asks for what the server says that it needs.
    pub scopes: Vec<String>,
    /// Who besides the server itself may be asked for access: scheme, host and port.
    pub authorization_servers: Vec<String>,
}

/// Who gives access to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthGrant {
    /// A person, in a browser, `authorization_code`. The default.
    #[default]
    AuthorizationCode,
    /// The client itself, by its id and secret, `client_credentials`.
    ClientCredentials,
}

/// A folder of the host that a server may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGrant {
    /// The folder on the host. A relative path starts at the workspace and may leave it with `..`; an absolute one
    /// is taken as it is. The operator grants it, so it is not confined.
    pub host: PathBuf,
    /// The absolute path under which the server sees it.
    pub guest: String,
    /// What the server may do with it.
    pub access: Access,
    /// Whether the runtime makes the folder when it is not there; `false` by default.
    pub create: bool,
}

/// What a server may do with a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read files and list folders.
    Read,
    /// Read, create, change and delete.
    Write,
}

/// What one instance of a server may use up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of linear memory. 64 MiB by default: a Rust server needs one or two, a Python one 20 to 40.
    pub memory: u64,
    /// The longest that one call may take. 5 seconds by default: a tool without network that takes longer is stuck.
    pub call_timeout: Duration,
    /// The longest that one call may take as long as there is word of its progress, and a task that the server makes of it.
    /// 10 minutes by default. Of servers that are no modules.
    pub total_timeout: Duration,
    /// Bytes of one answer. 1 MiB by default: more does not belong into a model's context.
    pub output: u64,
    /// Bytes kept of what the server wrote last to standard error. 64 KiB by default.
    pub stderr: u64,
    /// Most calls at once, each in an instance of its own; what a process may perform at once when absent.
    pub concurrency: Option<usize>,
    /// The longest that the start of an instance may take. 10 seconds by default.
    pub start_timeout: Duration,
    /// Elements of all tables of an instance. 100,000 by default, ten times what large interpreters need.
    pub table_elements: u64,
    /// Most instances at once; one that is idle makes room for the next. 1,000 by default.
    pub instances: usize,
    /// Bytes of the module's file. 16 MiB by default: a Rust server has one or two, a Python one 40.
    pub module: u64,
    /// The longest that compiling the module may take. 90 seconds by default: a megabyte takes a second or two.
    pub compile_timeout: Duration,
    /// Bytes of one HTTP response. 8 MiB by default: more is a download, not an answer.
    pub response: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            call_timeout: Duration::from_secs(5),
            total_timeout: Duration::from_secs(600),
            output: 1 << 20,
            stderr: 64 << 10,
            concurrency: None,
            start_timeout: Duration::from_secs(10),
            table_elements: 100_000,
            instances: 1_000,
            module: 16 << 20,
            compile_timeout: Duration::from_secs(90),
            response: 8 << 20,
        }
    }
}

/// Where secrets are kept that stand nowhere else, `[secret_store]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretStoreBinding {
    /// The encrypted file; `.dalsegno/secrets.db` by default.
    pub path: PathBuf,
    /// Where its key is found; the file `.dalsegno/secrets.key` by default.
    pub key: StoreKey,
}

/// What the file of a tenant may name of this machine's environment and files, `[tenants.NAME]`. Names in the secret store
/// need no grant: they are looked up among the tenant's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantGrants {
    /// How the names of the environment variables begin that it may name.
    pub env_prefixes: Vec<String>,
    /// The files, and the folders of files, that it may name.
    pub file_prefixes: Vec<PathBuf>,
}

/// Where the key of the secret store is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreKey {
    /// In an environment variable, `{ env = "NAME" }`.
    Env(String),
    /// In a file that only its owner may read, `{ file = "PATH" }`.
    File(PathBuf),
}

/// Where a secret is found when it is needed. The value itself never stands in a file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// In an environment variable, `{ env = "NAME" }`.
    Env(String),
    /// In a file, `{ file = "PATH" }`.
    File(PathBuf),
    /// In the secret store under this name, `{ store = "NAME" }`.
    Store(String),
    /// In a file that the file of a tenant names, wherever links lead: below what the tenant was granted.
    Below {
        /// The file.
        path: PathBuf,
        /// The folder or the file that was granted.
        folder: PathBuf,
    },
    /// Printed by a program, `{ command = ["PROGRAM", …] }`; only dalsegno.toml names one.
    Command(Box<SecretCommand>),
    /// Among the secrets of a tenant in the secret store: `{ store = "NAME" }` in the tenant's file.
    OfTenant {
        /// The tenant.
        tenant: String,
        /// The name.
        name: String,
    },
}
