//! `dalsegno worker --metrics ADDR`: what the worker counts, for Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dalsegno_runtime::Engine;
use dalsegno_telemetry::{Metrics, Telemetry};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::error::Error;

/// Most connections at once: a few that scrape, and an end to those that only connect.
const CONNECTIONS: usize = 16;
/// The longest that a connection lives: whoever scrapes is done long before.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a request that are kept.
const REQUEST: usize = 16 << 10;
/// How long to wait when no connection can be accepted, such as without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers `GET /metrics` at an address as long as the process lives; returns where that is, since port 0 is any free one.
pub(super) async fn serve(
    address: SocketAddr,
    engine: Engine,
    telemetry: Telemetry,
) -> Result<SocketAddr, Error> {
    let failed = |source| Error::Metrics { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (engine, telemetry) = (engine.clone(), telemetry.clone());
            tokio::spawn(async move {
                // Whoever goes away or is too slow has no answer, and nobody else is harmed.
                let _ = tokio::time::timeout(PATIENCE, answer(stream, &engine, &telemetry)).await;
                drop(permit);
            });
        }
    });
    Ok(bound)
}

async fn answer(stream: TcpStream, engine: &Engine, telemetry: &Telemetry) -> Result<(), hyper::Error> {
    let service = service_fn(async |request: Request<Incoming>| {
        let (status, text) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => {
                telemetry.metrics().set_load(&engine.load());
                (StatusCode::OK, telemetry.metrics().encode())
            }
            (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".to_owned()),
            _ => (StatusCode::NOT_FOUND, "expected /metrics\n".to_owned()),
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        if status == StatusCode::OK {
            let content_type = HeaderValue::from_static(Metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Ok::<_, Infallible>(response)
    });
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).keep_alive(false).max_buf_size(REQUEST);
    connection.serve_connection(TokioIo::new(stream), service).await
}
