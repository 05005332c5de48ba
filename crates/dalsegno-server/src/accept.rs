//! The accept loop: connections within limits, and an end to those that are too slow.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use dalsegno_access::{KeyStore, Seals, Tickets};
use dalsegno_runtime::{Clock, Engine, EngineError, SystemClock, WorkerEvent, WorkerOptions, WorkerReport};
use dalsegno_telemetry::Telemetry;
use dalsegno_voice::{LineError, Telephones};
use dalsegno_workspace::ServeSettings;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use crate::body::Room;
use crate::costly::Costly;
use crate::documents::Turns;
use crate::hands::Hands;
use crate::health::Readiness;
use crate::limits::Limits;
use crate::oidc::Oidc;
use crate::pages::Pages;
use crate::routes::router;
use crate::shared::Shared;
use crate::tls::{Tls, TlsError};
use crate::triggers::Triggers;
use crate::upload::Uploads;
use crate::webhooks::{Webhooks, deliver};

/// The longest that the head of a request may take to arrive; a connection that is idle as long is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of the head of a request.
const HEADERS: usize = 16 << 10;
/// The longest that a client may take nothing of what it is sent.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// The longest that connections stay after the server was told to stop.
const DRAINED_WITHIN: Duration = Duration::from_secs(30);
/// How often the keys of open streams are looked at again.
const CHECK: Duration = Duration::from_millis(500);
/// The pause after a connection could not be accepted, such as without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(200);

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not free, or not this machine's.
    #[error("cannot listen at `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The address is reachable from other machines, and nothing encrypts: neither a certificate nor a proxy.
    #[error("`{address}` is not a loopback address, and connections to this server are not encrypted")]
    NotEncrypted {
        /// The address.
        address: SocketAddr,
    },
    /// The address is reachable from other machines, and no client has a key or could get a token.
    #[error("`{address}` is not a loopback address, and there is no active access key")]
    NoKeys {
        /// The address.
        address: SocketAddr,
    },
    /// The identity provider cannot be used.
    #[error(transparent)]
    Oidc(#[from] dalsegno_access::NoIssuer),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys cannot be read.
    #[error(transparent)]
    Keys(#[from] dalsegno_access::KeyError),
    /// A file beside that of the keys cannot be used.
    #[error(transparent)]
    Seals(#[from] dalsegno_access::OpenError),
    /// The webhooks cannot be used.
    #[error(transparent)]
    Webhooks(#[from] dalsegno_webhooks::OpenError),
    /// A line that rings cannot be used.
    #[error(transparent)]
    Line(Box<LineError>),
    /// The runs cannot be performed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A server that listens and does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    engine: Engine,
    keys: KeyStore,
    oidc: Option<Oidc>,
    telemetry: Telemetry,
    seals: Seals,
    webhooks: Arc<Webhooks>,
    tls: Option<Tls>,
    settings: ServeSettings,
    clock: Arc<dyn Clock>,
    tickets: Arc<Tickets>,
    telephones: Arc<Telephones>,
}

impl Server {
    /// Listens at the address that the settings name.
    ///
    /// # Errors
    /// When the address is not free, or it is one that other machines reach and nothing protects it.
    pub async fn bind(
        engine: Engine,
        keys: KeyStore,
        telemetry: Telemetry,
        settings: ServeSettings,
    ) -> Result<Self, ServeError> {
        let address = settings.address;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        if !address.ip().is_loopback() {
            if !settings.behind_proxy && settings.tls.is_none() {
                return Err(ServeError::NotEncrypted { address });
            }
            if settings.oidc.is_none() && !keys.has_active(clock.now().as_millis())? {
                return Err(ServeError::NoKeys { address });
            }
        }
        let oidc = settings.oidc.as_ref().map(Oidc::new).transpose()?;
        let seals = keys.seals()?;
        let webhooks = Arc::new(Webhooks::open(&keys.beside("webhooks.db"), &settings)?);
        let root = engine.workspace().root.clone();
        let tls = settings.tls.as_ref().map(|files| Tls::open(&root, files)).transpose()?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tickets = Arc::default();
        engine.keep_speech();
        let telephones = Telephones::open(&engine).map_err(|error| ServeError::Line(Box::new(error)))?;
        Ok(Self {
            listener,
            address,
            engine,
            keys,
            oidc,
            telemetry,
            seals,
            webhooks,
            tls,
            settings,
            clock,
            tickets,
            telephones,
        })
    }

    /// Where it listens; the port that was free if none was named.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it encrypts connections itself.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Makes a link that signs a browser in to the pages: once, within five minutes, for the runs of all
    /// tenants.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn sign_in_link(&self) -> Result<String, ServeError> {
        let ticket = self.tickets.issue(self.clock.now().as_millis())?;
        let place = match self.settings.hosts.first() {
            Some(host) if self.settings.behind_proxy => format!("https://{host}"),
            // The certificate is for a name, and no other host is answered.
            Some(host) if self.is_encrypted() => format!("https://{host}:{}", self.address.port()),
            _ if self.is_encrypted() => format!("https://{}", self.address),
            _ => format!("http://{}", self.address),
        };
        Ok(format!("{place}/sign-in?ticket={ticket}"))
    }

    /// Serves, and performs runs as a worker does, until `stop` is done. Then it takes nothing new, ends streams and waits, and
    /// leaves its runs for another process.
    ///
    /// # Errors
    /// When runs cannot be performed.
    pub async fn serve(
        self,
        options: &WorkerOptions,
        stop: impl Future<Output = ()>,
        tell: impl FnMut(WorkerEvent<'_>),
    ) -> Result<WorkerReport, ServeError> {
        let Self {
            listener,
            engine,
            keys,
            oidc,
            telemetry,
            seals,
            webhooks,
            tls,
            settings,
            clock,
            tickets,
            telephones,
            ..
        } = self;
        let triggers = Triggers::new(engine.workspace().settings.triggers.clone(), settings.body);
        triggers.report(&engine).await;
        let (stopping, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            limits: Limits::new(&settings),
            costly: Costly::new(stopped.clone()),
            hands: Hands::new(stopped.clone()),
            changes: Arc::default(),
            seals,
            readiness: Readiness::default(),
            tls,
            pages: Pages::new(tickets),
            webhooks,
            triggers,
            telephones,
            unproven: Room::new(crate::telephone::UNPROVEN),
            uploads: Uploads::new(),
            turns: Turns::default(),
            engine: engine.clone(),
            keys,
            oidc,
            telemetry,
            settings,
            clock,
            stopping: stopped.clone(),
        });
        let watching = tokio::spawn(watch_keys(Arc::clone(&shared)));
        let delivering = tokio::spawn(deliver(Arc::clone(&shared)));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), stopped));
        let stop = async move {
            stop.await;
            stopping.send_replace(true);
        };
        let report = engine.work(options, stop, tell).await?;
        shared.hands.left().await;
        shared.telephones.left().await;
        // Its only way to fail is a panic, which the log has.
        let _ = accepting.await;
        // The last requests may have begun runs, and may have told of calls that ring: these are rejected by the time this process ends.
        shared.hands.left().await;
        shared.telephones.left().await;
        let _ = delivering.await;
        watching.abort();
        Ok(report)
    }
}

/// Ends the streams of keys that were revoked or have expired, and reads a certificate that has changed.
async fn watch_keys(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(CHECK).await;
        let now = shared.now();
        shared.limits.check_streams(|key| shared.keys.is_active(key, now));
        if shared.tls.is_some() {
            let shared = Arc::clone(&shared);
            // It reads files.
            let _ = tokio::task::spawn_blocking(move || shared.tls.as_ref().map(Tls::look)).await;
        }
    }
}

/// Whether a client has gone away before it was accepted: the next one is not concerned.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(shared.settings.connections));
    let router = router(Arc::clone(&shared));
    let acceptor = shared.tls.as_ref().map(Tls::acceptor);
    // Each connection has an end of it until it is over.
    let (open, mut over) = mpsc::channel::<()>(1);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(HEADERS);
    let mut is_failing = false;
    loop {
        // With all places taken, further clients wait in the queue of the system.
        let accepted = async {
            let permit = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        match accepted {
            None => break,
            Some((_, Err(error))) if is_of_the_client(&error) => {}
            Some((_, Err(error))) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "no connection can be accepted: the server tries again until it can");
                }
                tokio::time::sleep(PAUSE).await;
            }
            Some((permit, Ok((stream, client)))) => {
                is_failing = false;
                // What is sent is small, and is to arrive at once.
                let _ = stream.set_nodelay(true);
                let mut stream = TimeoutStream::new(stream);
                stream.set_write_timeout(Some(TAKEN_WITHIN));
                let service = router.clone().map_request(move |request: Request<Incoming>| {
                    let mut request = request.map(Body::new);
                    request.extensions_mut().insert(ConnectInfo(client));
                    request
                });
                let service = TowerToHyperService::new(service);
                let (http, acceptor) = (http.clone(), acceptor.clone());
                let (stopping, open) = (stopping.clone(), open.clone());
                let stream = Box::pin(stream);
                tokio::spawn(async move {
                    // A client that goes away or is too slow has no answer, and no other is harmed.
                    match acceptor {
                        None => {
                            serve_one(http.serve_connection(TokioIo::new(stream), service), stopping).await;
                        }
                        Some(acceptor) => {
                            let accepted =
                                tokio::time::timeout(HEADERS_WITHIN, acceptor.accept(stream)).await;
                            if let Ok(Ok(stream)) = accepted {
                                let served = http.serve_connection(TokioIo::new(stream), service);
                                serve_one(served, stopping).await;
                            }
                        }
                    }
                    drop((permit, open));
                });
            }
        }
    }
    drop((listener, open));
    if tokio::time::timeout(DRAINED_WITHIN, over.recv()).await.is_err() {
        tracing::warn!("connections were open 30 s after the server was told to stop, and are closed");
    }
}

/// Serves a connection until it is over or given over to a socket. When the server stops, it ends after the request that is under way.
async fn serve_one<I, S>(connection: http1::Connection<I, S>, mut stopping: watch::Receiver<bool>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<axum::BoxError>,
{
    let mut served = std::pin::pin!(connection.with_upgrades());
    let stops = async {
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // A client that goes away or is too slow has no answer, and no other is harmed.
        _ = &mut served => return,
        () = stops => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}
