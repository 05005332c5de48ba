//! Sends requests to those whom the rules allow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use tokio::time::Instant;
use url::Url;

use crate::builder::{SetupError, client_builder};
use crate::egress::Egress;
use crate::error::{DenialReason, EgressDenied, EgressError, NetError};
use crate::origin::{Origin, shown};
use crate::redirect;
use crate::request::Request;
use crate::transport::{Carried, Transport};
use crate::words::error_chain;

/// Sends requests to those whom an [`Egress`] allows. Keeps connections open for the next request.
///
/// There is one inner client for each granted origin, so that a connection is never used for anybody else.
#[derive(Clone)]
pub struct Client {
    egress: Egress,
    clients: Arc<Mutex<BTreeMap<Origin, reqwest::Client>>>,
    transport: Option<Arc<dyn Transport>>,
}

impl Client {
    /// A client under these rules. Nothing is set up before the first request.
    pub fn new(egress: Egress) -> Self {
        Self { egress, clients: Arc::default(), transport: None }
    }

    /// The same client with its requests carried by somebody else than the network.
    #[must_use]
    pub fn carried_by(self, transport: Arc<dyn Transport>) -> Self {
        Self { transport: Some(transport), ..self }
    }

    /// The rules.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Sends a request and gives the answer as soon as its headers are there.
    ///
    /// # Errors
    ///
    /// When the rules do not allow it or a redirect of it, there is no answer in time, or the answer breaks a bound.
    /// A status such as 404 or 503 is an answer.
    pub async fn send(&self, mut request: Request) -> Result<Response, NetError> {
        let deadline = Instant::now() + request.timeout;
        let mut followed = 0;
        loop {
            let answer = self.exchange(&request, deadline).await;
            let response = answer.map_err(|error| redirected(error, followed))?;
            if request.redirects == 0 {
                return Ok(response);
            }
            let status = response.status();
            let is_followed = redirect::follow(&mut request, status, response.headers());
            if !is_followed.map_err(|error| redirected(error, followed + 1))? {
                return Ok(response);
            }
            followed += 1;
            if followed > request.redirects {
                return Err(NetError::Redirects { url: shown(&request.url), limit: request.redirects });
            }
        }
    }

    /// The inner client of one origin, for a library that wants one. It follows no redirects.
    ///
    /// It is safe for URLs of that origin only: whoever uses it sees to it that it gets no others.
    ///
    /// # Errors
    ///
    /// When the origin is not granted, or the client cannot be set up.
    pub fn pinned(&self, origin: &Origin) -> Result<reqwest::Client, NetError> {
        self.egress.permits(origin)?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(origin) {
            return Ok(client.clone());
        }
        let dial = Dial { egress: self.egress.clone(), origin: origin.clone() };
        let client = client_builder(origin.scheme() == crate::Scheme::Https)?
            .dns_resolver(Arc::new(dial))
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(SetupError::from)?;
        // Bounded by the number of grants.
        clients.insert(origin.clone(), client.clone());
        Ok(client)
    }

    async fn exchange(&self, request: &Request, deadline: Instant) -> Result<Response, NetError> {
        let origin = Origin::of(&request.url)?;
        let url = shown(&request.url);
        let answer = async {
            match &self.transport {
                Some(transport) => {
                    self.egress.permits(&origin)?;
                    let carried = transport.carry(request).await?;
                    Ok(Inner::Carried { url: request.url.clone(), carried, is_read: false })
                }
                None => {
                    let client = self.pinned(&origin)?;
                    let mut builder = client.request(request.method.clone(), request.url.clone());
                    builder = builder.headers(request.headers.clone());
                    if let Some(body) = &request.body {
                        builder = builder.body(body.clone());
                    }
                    builder.send().await.map(Inner::Network).map_err(|error| failed(&url, error))
                }
            }
        };
        let Ok(answer) = tokio::time::timeout_at(deadline, answer).await else {
            return Err(NetError::Timeout { url, after: request.timeout, sent: true });
        };
        let inner = answer?;
        let max_bytes = request.max_bytes;
        Ok(Response { inner, shown: url, deadline, timeout: request.timeout, max_bytes, taken: 0 })
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("egress", &self.egress).finish_non_exhaustive()
    }
}

/// An answer whose body is read piece by piece, within the bounds of its request.
#[derive(Debug)]
pub struct Response {
    inner: Inner,
    shown: String,
    deadline: Instant,
    timeout: Duration,
    max_bytes: u64,
    taken: u64,
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        match &self.inner {
            Inner::Network(inner) => inner.status(),
            Inner::Carried { carried, .. } => carried.status,
        }
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        match &self.inner {
            Inner::Network(inner) => inner.headers(),
            Inner::Carried { carried, .. } => &carried.headers,
        }
    }

    /// Who answered in the end, after redirects.
    pub fn url(&self) -> &Url {
        match &self.inner {
            Inner::Network(inner) => inner.url(),
            Inner::Carried { url, .. } => url,
        }
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    ///
    /// When the connection breaks, the time is over, or the body is too long.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, NetError> {
        // One that says that it is too long is not read. The status and the headers are there all the same.
        if self.taken == 0 && self.inner.content_length().is_some_and(|length| length > self.max_bytes) {
            return Err(NetError::TooLarge { url: self.shown.clone(), limit: self.max_bytes });
        }
        let Ok(chunk) = tokio::time::timeout_at(self.deadline, self.inner.chunk()).await else {
            return Err(NetError::Timeout { url: self.shown.clone(), after: self.timeout, sent: true });
        };
        let chunk = chunk.map_err(|message| NetError::Broken { url: self.shown.clone(), message })?;
        let Some(chunk) = chunk else { return Ok(None) };
        self.taken = self.taken.saturating_add(chunk.len() as u64);
        if self.taken > self.max_bytes {
            return Err(NetError::TooLarge { url: self.shown.clone(), limit: self.max_bytes });
        }
        Ok(Some(chunk))
    }

    /// The whole body, or what is left of it.
    ///
    /// # Errors
    ///
    /// As for [`Response::chunk`].
    pub async fn bytes(mut self) -> Result<Vec<u8>, NetError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Where an answer comes from.
#[derive(Debug)]
enum Inner {
    Network(reqwest::Response),
    Carried { url: Url, carried: Carried, is_read: bool },
}

impl Inner {
    fn content_length(&self) -> Option<u64> {
        match self {
            Self::Network(inner) => inner.content_length(),
            Self::Carried { carried, .. } => (!carried.is_cut).then_some(carried.body.len() as u64),
        }
    }

    /// The next piece of the body, or the words of what broke.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Network(inner) => match inner.chunk().await {
                Ok(chunk) => Ok(chunk.map(Into::into)),
                Err(error) => Err(error_chain(&error.without_url())),
            },
            Self::Carried { carried, is_read, .. } => match std::mem::replace(is_read, true) {
                false if !carried.body.is_empty() => Ok(Some(std::mem::take(&mut carried.body))),
                _ if carried.is_cut => Err("the connection was lost in the middle of the answer".to_owned()),
                _ => Ok(None),
            },
        }
    }
}

/// Resolves and checks for each connection of one origin.
struct Dial {
    egress: Egress,
    origin: Origin,
}

impl Resolve for Dial {
    fn resolve(&self, name: Name) -> Resolving {
        let (egress, origin) = (self.egress.clone(), self.origin.clone());
        Box::pin(async move {
            if origin.name() != Some(name.as_str()) {
                let reason = DenialReason::NotGranted { granted: vec![origin.to_string()] };
                let denied = EgressDenied { origin: name.as_str().to_owned(), reason };
                return Err(EgressError::Denied(denied).into());
            }
            let addresses: Addrs = Box::new(egress.check(&origin).await?.into_iter());
            Ok(addresses)
        })
    }
}

/// An error at a hop, where 0 is the first request. Somebody was reached before a later one, whatever went wrong there.
fn redirected(error: NetError, hop: u32) -> NetError {
    if hop == 0 || matches!(error, NetError::BodyElsewhere { .. } | NetError::Location { .. }) {
        return error;
    }
    NetError::Redirected { source: Box::new(error) }
}

fn failed(url: &str, error: reqwest::Error) -> NetError {
    if let Some(denied) = EgressDenied::among_causes(&error) {
        return NetError::Denied(denied.clone());
    }
    let never_sent = error.is_connect() || error.is_builder();
    let (url, message) = (url.to_owned(), error_chain(&error.without_url()));
    if never_sent { NetError::Unreachable { url, message } } else { NetError::Broken { url, message } }
}

/// Longest time until a connection stands. A request has its own limit; this one finds a dead address earlier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
