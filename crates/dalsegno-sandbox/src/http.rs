//! HTTP requests of guests, `wasi:http`: each is checked against the grants, resolved, checked again and dialled by the
//! host. A guest that follows a redirect makes another request, which is checked like the first.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dalsegno_net::{DenialReason, Egress, EgressError, Origin, Resolver, Scheme};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpHooks,
};

use crate::config::ServerConfig;
use crate::denial::Denials;
use crate::error::LoadError;
use crate::exchange::{self, Exchanged};
use crate::permissions::Injection;
use dalsegno_protocol::DenialKind;
use dalsegno_secrets::Reveal;

/// What all instances of a server may do over HTTP.
pub(crate) struct Rules {
    egress: Egress,
    secrets: BTreeMap<Origin, Vec<Secret>>,
    /// The headers that carry secrets, for whatever destination.
    reserved: HashSet<HeaderName>,
    /// Made with the first request that needs it: the certificates of the system take some milliseconds.
    tls: OnceLock<Arc<ClientConfig>>,
    /// Bytes of one response.
    response_limit: u64,
    /// The longest that a request and its response may take.
    time_limit: Duration,
}

struct Secret {
    header: HeaderName,
    prefix: String,
    value: Arc<dyn Reveal>,
}

impl Rules {
    /// The rules of a server; a grant that makes no sense refuses to load.
    pub(crate) fn new(config: &ServerConfig, resolver: Option<Arc<dyn Resolver>>) -> Result<Self, LoadError> {
        let permissions = &config.permissions;
        let network = permissions.network.iter().cloned();
        let mut secrets = BTreeMap::<Origin, Vec<Secret>>::new();
        let mut reserved = HashSet::new();
        for Injection { destination, header, prefix, value } in &permissions.secrets {
            let refused = |reason: String| LoadError::Permission { server: config.name.clone(), reason };
            if !permissions.network.contains(destination) {
                return Err(refused(format!("`{destination}` gets a secret and is not in `network`")));
            }
            if destination.scheme() == Scheme::Http && !is_loopback(destination) {
                return Err(refused(format!("the secret for `{destination}` would be sent unencrypted")));
            }
            let name: HeaderName = header
                .parse()
                .map_err(|_| refused(format!("`{}` is not a header", header.escape_debug())))?;
            if DEFAULT_FORBIDDEN_HEADERS.contains(&name) || name == http::header::CONTENT_LENGTH {
                return Err(refused(format!("`{name}` belongs to the connection and cannot carry a secret")));
            }
            reserved.insert(name.clone());
            let secret = Secret { header: name, prefix: prefix.clone(), value: Arc::clone(value) };
            secrets.entry(destination.clone()).or_default().push(secret);
        }
        let egress = match resolver {
            Some(resolver) => Egress::with_resolver(network, resolver),
            None => Egress::new(network),
        };
        Ok(Self {
            egress,
            secrets,
            reserved,
            tls: OnceLock::new(),
            response_limit: config.limits.response,
            time_limit: config.limits.call_timeout,
        })
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = dalsegno_net::tls_config(true).map_err(|error| {
            tracing::warn!(%error, "no request of a server can be encrypted");
            Error::ConfigurationError
        })?;
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }

    fn is_forbidden(&self, name: &HeaderName) -> bool {
        DEFAULT_FORBIDDEN_HEADERS.contains(name) || self.reserved.contains(name)
    }
}

/// What one instance does over HTTP.
pub(crate) struct Http {
    rules: Arc<Rules>,
    denials: Arc<Denials>,
    connections: Arc<Semaphore>,
}

impl Http {
    pub(crate) fn new(rules: Arc<Rules>, denials: Arc<Denials>) -> Self {
        Self { rules, denials, connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for Http {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        if self.rules.reserved.contains(name) {
            let reason = "it carries a secret: only the host sets it, and no server sees it";
            self.denials.note(DenialKind::Header, name.as_str(), reason);
        }
        self.rules.is_forbidden(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        let rules = Arc::clone(&self.rules);
        Arc::new(move |name| rules.is_forbidden(name))
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Io,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Io), Error>> + Send> {
        let sending = Sending {
            rules: Arc::clone(&self.rules),
            denials: Arc::clone(&self.denials),
            connection: Arc::clone(&self.connections).try_acquire_owned().ok(),
            options: options.unwrap_or_default(),
        };
        Box::new(sending.perform(request))
    }
}

/// One request on its way.
struct Sending {
    rules: Arc<Rules>,
    denials: Arc<Denials>,
    /// Its place among the connections of the instance.
    connection: Option<OwnedSemaphorePermit>,
    options: RequestOptions,
}

impl Sending {
    async fn perform(mut self, mut request: Request<WasiBody>) -> Result<(Response<WasiBody>, Io), Error> {
        let connection = self.connection.take().ok_or(Error::ConnectionLimitReached)?;
        let deadline = Instant::now() + self.rules.time_limit;
        let origin = self.admit(&request)?;
        let prepared = async {
            let stream = self.dial(&origin).await?;
            // Only now: nothing secret exists for a request that goes nowhere.
            self.add_secrets(&origin, &mut request).await?;
            Ok::<_, Error>(stream)
        };
        let limit = self.options.connect_timeout.unwrap_or(self.rules.time_limit).min(self.rules.time_limit);
        let stream = tokio::time::timeout(limit, prepared).await.map_err(|_| Error::ConnectionTimeout)??;
        let first_byte = self.options.first_byte_timeout.map(|limit| Instant::now() + limit);
        let answered = async {
            match origin.scheme() {
                Scheme::Http => exchange::exchange(TokioIo::new(stream), request, connection).await,
                Scheme::Https => {
                    let connector = TlsConnector::from(self.rules.tls()?);
                    let stream =
                        connector.connect(server_name(&origin)?, stream).await.map_err(Error::Tls)?;
                    exchange::exchange(TokioIo::new(stream), request, connection).await
                }
                // A request has no such scheme: `admit` knows only those of HTTP.
                Scheme::Smtp => Err(Error::HttpRequestUriInvalid),
            }
        };
        let until = first_byte.map_or(deadline, |first_byte| first_byte.min(deadline));
        let Exchanged { response, driver } =
            tokio::time::timeout_at(until, answered).await.map_err(|_| Error::HttpResponseTimeout)??;
        let response = exchange::bounded(response, self.rules.response_limit, deadline);
        Ok((response, driver))
    }

    /// Finds out whom a request is for, and whether they are granted.
    fn admit(&self, request: &Request<WasiBody>) -> Result<Origin, Error> {
        let uri = request.uri();
        let authority = uri.authority().ok_or(Error::HttpRequestUriInvalid)?;
        let scheme = uri.scheme_str().and_then(Scheme::from_name).ok_or(Error::HttpRequestUriInvalid)?;
        let shown = format!("{scheme}://{authority}");
        let denied = |reason: &str| {
            self.denials.note(DenialKind::Request, &shown, reason);
            Error::HttpRequestDenied
        };
        if authority.as_str().contains('@') {
            return Err(denied("an address with a user's name or password is never sent"));
        }
        if request.method() == Method::CONNECT {
            return Err(denied("a tunnel would lead past the checks"));
        }
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().ends_with(':') => return Err(Error::HttpRequestUriInvalid),
            None => scheme.default_port(),
        };
        let origin = Origin::new(scheme, authority.host(), port).map_err(|invalid| denied(invalid.reason))?;
        self.rules.egress.permits(&origin).map_err(|error| {
            self.denials.note(DenialKind::Network, &error.origin, error.reason.to_string());
            Error::HttpRequestDenied
        })?;
        Ok(origin)
    }

    /// Connects to an address that was checked for this very connection.
    async fn dial(&self, origin: &Origin) -> Result<TcpStream, Error> {
        let addresses = self.rules.egress.check(origin).await.map_err(|error| match error {
            EgressError::Denied(error) => {
                let (kind, answer) = match error.reason {
                    DenialReason::Address { .. } => (DenialKind::Address, Error::DestinationIpProhibited),
                    _ => (DenialKind::Network, Error::HttpRequestDenied),
                };
                self.denials.note(kind, &error.origin, error.reason.to_string());
                answer
            }
            error => {
                tracing::debug!(%origin, %error, "a server's request goes nowhere");
                Error::DnsError { rcode: None, info_code: None }
            }
        })?;
        let mut last = Error::DestinationUnavailable;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Error::Connect(error),
            }
        }
        Err(last)
    }

    async fn add_secrets(&self, origin: &Origin, request: &mut Request<WasiBody>) -> Result<(), Error> {
        for secret in self.rules.secrets.get(origin).into_iter().flatten() {
            let unreadable = |reason: &str| {
                self.denials.note(DenialKind::Request, &origin.to_string(), reason);
                Error::ConfigurationError
            };
            let value = secret.value.reveal().await;
            let value = value.map_err(|error| unreadable(&format!("its secret cannot be read: {error}")))?;
            let text = format!("{}{}", secret.prefix, value.expose());
            let mut value = HeaderValue::try_from(text).map_err(|_| {
                unreadable("its secret holds a line break or another sign that no header has")
            })?;
            value.set_sensitive(true);
            request.headers_mut().insert(secret.header.clone(), value);
        }
        Ok(())
    }
}

fn server_name(origin: &Origin) -> Result<ServerName<'static>, Error> {
    match (origin.address(), origin.name()) {
        (Some(address), _) => Ok(ServerName::from(address)),
        (None, Some(name)) => ServerName::try_from(name.to_owned()).map_err(|_| Error::HttpRequestUriInvalid),
        (None, None) => Err(Error::HttpRequestUriInvalid),
    }
}

fn is_loopback(origin: &Origin) -> bool {
    origin.name() == Some("localhost") || origin.address().is_some_and(|address| address.is_loopback())
}

/// Connections of one instance at once.
const CONNECTIONS_MAX: usize = 16;
