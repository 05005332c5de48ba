//! The socket of a live model: dialled, opened, written within a time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::LivePrice;
use dalsegno_net::{Client, Egress, EgressError, Origin, Scheme, StatusCode, Url, error_chain, tls_config};
use dalsegno_realtime::{FRAME_BYTES_MAX, LINE_FRAME_BYTES_MAX};
use dalsegno_secrets::{Reveal, Secret};
use dalsegno_workspace::{LineSurface, VoiceLine};
use futures::{SinkExt as _, StreamExt as _};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use tokio_tungstenite::tungstenite::http::{Request as HttpRequest, Response};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// The longest that a connection, its TLS and its opening may take, each.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a reason that are told.
const REASON_BYTES: usize = 512;

/// Where the live model of a line is.
pub(crate) struct Endpoint {
    /// The address of the API, without what is asked of it.
    url: Url,
    model: String,
    surface: LineSurface,
    price: Option<LivePrice>,
    /// For what is asked about calls of telephones.
    client: Client,
    origin: Origin,
    egress: Egress,
    /// The address as errors show it.
    shown: String,
    tls: Option<TlsConnector>,
    key: Option<Arc<dyn Reveal>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.shown).finish_non_exhaustive()
    }
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) struct NoSocket {
    pub(crate) reason: String,
    /// Whether a further attempt may succeed.
    pub(crate) may_pass: bool,
    /// Whether the provider knows no such call.
    pub(crate) is_gone: bool,
}

impl NoSocket {
    fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_pass: true, is_gone: false }
    }

    fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_pass: false, is_gone: false }
    }
}

impl Endpoint {
    /// The endpoint of a line.
    ///
    /// # Errors
    /// In words, when its address is none, or the certificates of this system cannot be used.
    pub(crate) fn new(line: &VoiceLine, key: Option<Arc<dyn Reveal>>) -> Result<Self, String> {
        let base = line.base_url.as_deref().unwrap_or(VoiceLine::BASE_URL);
        let url: Url = format!("{}/{}", base.trim_end_matches('/'), line.surface.name())
            .parse()
            .map_err(|error| format!("`base_url` is no address: {error}"))?;
        let origin = Origin::of(&url).map_err(|error| error_chain(&error))?;
        let is_secure = origin.scheme() == Scheme::Https;
        let tls = match is_secure {
            true => {
                let config = tls_config(true).map_err(|error| error_chain(&error))?;
                Some(TlsConnector::from(Arc::new(config)))
            }
            false => None,
        };
        let egress = Egress::new([origin.clone()]);
        let (model, client, shown) = (line.model.clone(), Client::new(egress.clone()), url.to_string());
        let surface = line.surface.clone();
        Ok(Self { url, model, surface, price: line.price, client, origin, egress, shown, tls, key })
    }

    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// What its provider speaks.
    pub(crate) fn surface(&self) -> &LineSurface {
        &self.surface
    }

    /// The address at which something is asked about a call.
    pub(crate) fn of_call(&self, call: &str, verb: &str) -> Url {
        let mut url = self.url.clone();
        let calls = match self.surface {
            LineSurface::Realtime => "calls",
            LineSurface::Live { .. } => "sessions",
        };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend([calls, call, verb]);
        }
        url
    }

    /// What its live model costs.
    pub(crate) fn price(&self) -> Option<LivePrice> {
        self.price
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn key(&self) -> Option<&Arc<dyn Reveal>> {
        self.key.as_ref()
    }

    /// Opens a socket: to a session of its own, or to that of a call. A key that is refused is read once more: it may have changed.
    pub(crate) async fn open(&self, call: Option<&str>) -> Result<Socket, NoSocket> {
        let key = match &self.key {
            None => None,
            Some(key) => Some(key.reveal().await.map_err(|error| NoSocket {
                reason: format!("cannot read the key of the line: {error}"),
                may_pass: error.transient,
                is_gone: false,
            })?),
        };
        match self.attempt(call, key.as_ref()).await {
            Err(Refused::Key(refused)) => {
                let (Some(key), Some(old)) = (&self.key, &key) else { return Err(refused) };
                match key.renew(old).await {
                    Ok(Some(new)) => self.attempt(call, Some(&new)).await.map_err(Refused::into_inner),
                    Ok(None) | Err(_) => Err(refused),
                }
            }
            other => other.map_err(Refused::into_inner),
        }
    }

    async fn attempt(&self, call: Option<&str>, key: Option<&Secret>) -> Result<Socket, Refused> {
        let mut url = self.url.clone();
        match (call, &self.surface) {
            (Some(call), LineSurface::Realtime) => {
                url.query_pairs_mut().append_pair("call_id", call);
            }
            (Some(call), LineSurface::Live { .. }) => url = self.of_call(call, "attach"),
            // Its model is named when the session begins.
            (None, LineSurface::Live { .. }) => {}
            (None, LineSurface::Realtime) => {
                url.query_pairs_mut().append_pair("model", &self.model);
            }
        }
        let mut request = url
            .as_str()
            .replacen("http", "ws", 1)
            .into_client_request()
            .map_err(|error| NoSocket::lasting(format!("`{}` is no address: {error}", self.shown)))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("dalsegno/", env!("CARGO_PKG_VERSION"))));
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_| {
                NoSocket::lasting("the key of the line has characters that no header can hold")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let stream = self.connect().await?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        let opened = timeout(OPEN_TIMEOUT, client_async_with_config(request, stream, Some(config))).await;
        match opened {
            Ok(Ok((stream, _))) => Ok(Socket { stream, end: "provider" }),
            Ok(Err(SocketError::Http(response))) => Err(self.refused(response.status(), call.is_some())),
            Ok(Err(error)) => Err(NoSocket::passing(format!("`{}`: {error}", self.shown)).into()),
            Err(_) => Err(NoSocket::passing(format!("`{}` does not open the socket", self.shown)).into()),
        }
    }

    fn refused(&self, status: StatusCode, is_call: bool) -> Refused {
        let reason = format!("`{}` refuses the connection: {status}", self.shown);
        match status.as_u16() {
            401 | 403 => Refused::Key(NoSocket::lasting(reason)),
            404 if is_call => NoSocket { reason, may_pass: true, is_gone: true }.into(),
            408 | 409 | 425 | 429 | 500.. => NoSocket::passing(reason).into(),
            _ => NoSocket::lasting(reason).into(),
        }
    }

    /// Connects to one of the checked addresses.
    async fn connect(&self) -> Result<Box<dyn Stream>, NoSocket> {
        let addresses = self.egress.check(&self.origin).await.map_err(|error| NoSocket {
            may_pass: matches!(error, EgressError::Unresolved { .. }),
            reason: error_chain(&error),
            is_gone: false,
        })?;
        let mut last = NoSocket::passing(format!("`{}` has no address", self.shown));
        for address in addresses {
            match self.connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<Box<dyn Stream>, NoSocket> {
        let unreachable =
            |message: String| NoSocket::passing(format!("cannot reach `{}`: {message}", self.shown));
        let stream = match timeout(OPEN_TIMEOUT, TcpStream::connect(address)).await {
            Ok(stream) => stream.map_err(|error| unreachable(error.to_string()))?,
            Err(_) => return Err(unreachable("no connection in 10 s".to_owned())),
        };
        // A frame is short, and the caller waits for it.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|error| NoSocket::lasting(error.to_string()))?;
        match timeout(OPEN_TIMEOUT, tls.connect(name, stream)).await {
            Ok(stream) => Ok(Box::new(stream.map_err(|error| unreachable(error.to_string()))?)),
            Err(_) => Err(unreachable("no TLS in 10 s".to_owned())),
        }
    }
}

/// Why an attempt failed.
enum Refused {
    /// For its key.
    Key(NoSocket),
    Otherwise(NoSocket),
}

impl Refused {
    fn into_inner(self) -> NoSocket {
        match self {
            Self::Key(inner) | Self::Otherwise(inner) => inner,
        }
    }
}

impl From<NoSocket> for Refused {
    fn from(inner: NoSocket) -> Self {
        Self::Otherwise(inner)
    }
}

/// A connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The response to a request that opens a socket, over the connection that it came by.
///
/// # Errors
/// In words, when the request opens none.
pub fn upgraded<T, U>(request: &HttpRequest<T>, body: impl FnOnce() -> U) -> Result<Response<U>, String> {
    create_response_with_body(request, body).map_err(|error| cut(error.to_string()))
}

/// An open socket.
pub(crate) struct Socket {
    stream: WebSocketStream<Box<dyn Stream>>,
    /// What is at the other end, in a word.
    end: &'static str,
}

impl Socket {
    /// The socket that a carrier has opened, over the connection that its request came by and that was given over to it.
    pub(crate) async fn of_carrier(connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(LINE_FRAME_BYTES_MAX))
            .max_frame_size(Some(LINE_FRAME_BYTES_MAX));
        let connection: Box<dyn Stream> = Box::new(connection);
        let stream = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        Self { stream, end: "carrier" }
    }

    /// The next text of the other end; at the end of the socket, why it ended.
    pub(crate) async fn next(&mut self) -> Result<String, String> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                // Pings are answered with the next write or read; other messages are none of this protocol.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    return Err(match frame {
                        Some(frame) => {
                            cut(format!("the {} closes it: {} {}", self.end, frame.code, frame.reason))
                        }
                        None => format!("the {} closes it", self.end),
                    });
                }
                Some(Err(error)) => return Err(cut(error.to_string())),
                None => return Err(format!("the {} has gone", self.end)),
            }
        }
    }

    /// Sends texts.
    pub(crate) async fn send(&mut self, texts: Vec<String>) -> Result<(), String> {
        let sent = async {
            for text in texts {
                self.stream.feed(Message::text(text)).await?;
            }
            self.stream.flush().await
        };
        match timeout(WRITE_TIMEOUT, sent).await {
            Ok(sent) => sent.map_err(|error| cut(error.to_string())),
            Err(_) => Err(format!("the {} takes nothing", self.end)),
        }
    }

    /// Says that it is over. The other end may not answer any more.
    pub(crate) async fn close(mut self) {
        let _ = timeout(Duration::from_secs(1), self.stream.close(None)).await;
    }
}

pub(crate) fn cut(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(REASON_BYTES));
    reason
}
