//! Waits for a browser to come back, at an address of this machine that only this machine reaches.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};
use url::Url;

use super::question::Question;

/// The path that the browser is sent to.
const PATH: &str = "/callback";
/// The longest that a connection is listened to: browsers open some that they do not use.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most connections at once.
const CONNECTIONS: usize = 16;
/// Most bytes of a request that are kept.
const REQUEST: usize = 16 << 10;
/// How long to wait when no connection can be accepted, such as without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(200);

/// The address that the browser is sent to. It is written with numbers: a name could lead elsewhere.
pub(super) fn redirect(port: u16) -> Url {
    format!("http://{}:{port}{PATH}", Ipv4Addr::LOCALHOST).parse().expect("it is a URL whatever the port")
}

/// Whoever comes to the address.
pub(super) struct Browser {
    listener: TcpListener,
    port: u16,
}

impl Browser {
    /// Listens at a port; 0 is any free one.
    pub(super) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The address that answers the question. What else comes is refused, and changes nothing.
    pub(super) async fn answer(self, question: &Question) -> Url {
        let base = redirect(self.port);
        let (sender, mut visits) = mpsc::channel::<Visit>(CONNECTIONS);
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                Some(visit) = visits.recv() => {
                    let is_answer = question.accepts(&visit.url).is_ok();
                    let _ = visit.verdict.send(is_answer);
                    if is_answer {
                        // The page is shown before the process continues, and ends. Other connections may end before it.
                        let shown = async {
                            while let Some(Ok((ended, ()))) = open.join_next_with_id().await {
                                if ended == visit.connection {
                                    break;
                                }
                            }
                        };
                        let _ = tokio::time::timeout(PATIENCE, shown).await;
                        return visit.url;
                    }
                }
                // Connections that say nothing must not keep out the one that does: each has its end.
                accepted = self.listener.accept(), if open.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let (base, sender) = (base.clone(), sender.clone());
                        open.spawn(async move {
                            let _ = tokio::time::timeout(PATIENCE, serve(stream, &base, &sender)).await;
                        });
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
    }
}

/// A browser that came, and waits for what is made of it.
struct Visit {
    url: Url,
    verdict: oneshot::Sender<bool>,
    /// The task that serves its connection.
    connection: task::Id,
}

async fn serve(stream: TcpStream, base: &Url, visits: &mpsc::Sender<Visit>) -> Result<(), hyper::Error> {
    let connection = task::id();
    let service = service_fn(async |request: Request<Incoming>| {
        let is_callback = request.method() == Method::GET && request.uri().path() == PATH;
        let mut url = base.clone();
        url.set_query(request.uri().query());
        let (verdict, is_answer) = oneshot::channel();
        let is_answer = is_callback
            && visits.send(Visit { url, verdict, connection }).await.is_ok()
            && is_answer.await.unwrap_or(false);
        // Nothing of the request is shown: anybody can make a browser come here.
        let (status, text) = match is_answer {
            true => (
                StatusCode::OK,
                "The answer has arrived. The terminal says the rest; this page can be closed.\n",
            ),
            false => (StatusCode::BAD_REQUEST, "This is not what is waited for.\n"),
        };
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Ok::<_, Infallible>(response)
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).keep_alive(false).max_buf_size(REQUEST);
    server.serve_connection(TokioIo::new(stream), service).await
}
