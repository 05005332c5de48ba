//! What a tool server is and what it may use up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_net::Client;
use dalsegno_secrets::MaybeSecret;
use reqwest::Url;
use serde_json::Value;

use crate::oauth::OAuth;

/// One tool server, as its configuration names it.
#[derive(Clone)]
pub struct ServerConfig {
    /// The name that errors and traces use.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// The tools that are offered; `None` offers all that the server has.
    pub tools: Option<Vec<String>>,
    /// What the server may use up.
    pub limits: Limits,
    /// Who answers its questions. Without anybody, as by default, the server is told that nobody does: questions of the
    /// old era are declined, and a server of the new one asks none.
    pub answers: Option<Arc<dyn Answers>>,
    /// Whether the caller takes [`Answer::InputRequired`](crate::Answer) and comes back with answers: then servers of the
    /// new era may ask. Default no.
    pub asks: bool,
}

impl ServerConfig {
    /// A child process, with the default limits.
    pub fn stdio(name: impl Into<String>, command: Command) -> Self {
        Self::new(name, Reach::Stdio(command))
    }

    /// A server that speaks streamable HTTP, with the default limits.
    pub fn http(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Self::new(name, Reach::Http(endpoint))
    }

    fn new(name: impl Into<String>, reach: Reach) -> Self {
        Self { name: name.into(), reach, tools: None, limits: Limits::default(), answers: None, asks: false }
    }
}

/// How a server is reached.
#[derive(Clone)]
pub enum Reach {
    /// It is a child process that speaks over its standard input and output.
    Stdio(Command),
    /// It speaks streamable HTTP.
    Http(Endpoint),
}

/// A child process.
#[derive(Clone)]
pub struct Command {
    /// The program: a path, or a name that is looked up in the `PATH` of this process.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment: nothing else is passed on. Secrets are read at each start.
    pub environment: BTreeMap<String, MaybeSecret>,
    /// Its working directory; that of this process by default.
    pub directory: Option<PathBuf>,
}

impl Command {
    /// A program with its arguments, and an empty environment.
    pub fn new<A: Into<String>>(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directory: None,
        }
    }
}

/// A server behind an address.
#[derive(Clone)]
pub struct Endpoint {
    /// Its address, with the path.
    pub url: Url,
    /// Headers of each request. Secrets are read before each, so that a changed one is used at once.
    pub headers: BTreeMap<String, MaybeSecret>,
    /// The client, under rules that allow this address.
    pub client: Client,
    /// The access that each request shows; none by default.
    pub oauth: Option<OAuth>,
}

impl Endpoint {
    /// An address without headers of its own.
    pub fn new(url: Url, client: Client) -> Self {
        Self { url, headers: BTreeMap::new(), client, oauth: None }
    }
}

/// Answers what a server of the old era asks in the middle of a call, which waits for the answer.
///
/// A server of the new era ends the call with its questions instead: [`Answer::InputRequired`](crate::Answer).
#[async_trait]
pub trait Answers: Send + Sync {
    /// The answer to a question, both as the protocol writes them; `None` declines.
    async fn elicit(&self, question: Value) -> Option<Value>;
}

/// Reads named values, as of now.
///
/// # Errors
/// Words that say which value is missing, and no value.
pub(crate) async fn values(
    named: &BTreeMap<String, MaybeSecret>,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (name, value) in named {
        let value = value.read().await.map_err(|error| format!("`{name}` cannot be read: {error}"))?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

/// What a server may use up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that one call may go without an answer or word of its progress, whatever the caller allows.
    /// Default 30 s: such servers ask others, who take their time.
    pub call_timeout: Duration,
    /// The longest that one call may take with progress. Default 10 minutes.
    pub total_timeout: Duration,
    /// The longest that anything before a request may take: a start with its handshake, a pause after failures, room
    /// among other calls. Default 30 s: some servers are downloaded first.
    pub start_timeout: Duration,
    /// Bytes of one message of the server. Default 1 MiB: more does not belong into a model's context.
    pub output: usize,
    /// Bytes kept of what a child process wrote last to standard error. Default 64 KiB.
    pub stderr: usize,
    /// Most calls at once in one session; the next ones wait. Default 16.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(600),
            start_timeout: Duration::from_secs(30),
            output: 1024 * 1024,
            stderr: 64 * 1024,
            concurrency: 16,
        }
    }
}
