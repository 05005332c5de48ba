//! The service that the tool of a run asks. It knows when it was asked, and when it answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How long an answer takes.
const PAUSE: Duration = Duration::from_millis(5);

/// What an answer says, before the number of the call.
const MARK: &str = "rung ";

/// A call, the last time that it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring {
    /// When the request arrived.
    pub(crate) asked: Instant,
    /// When the answer left.
    pub(crate) answered: Instant,
}

type Book = Arc<Mutex<BTreeMap<u64, Ring>>>;

/// The service. Dropped, it is gone.
pub(crate) struct Rings {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    book: Book,
    serving: JoinHandle<()>,
}

impl Rings {
    /// Starts it.
    ///
    /// # Errors
    /// No port can be had.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port can be had")?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let book = Book::default();
        let router = Router::new().route("/ring/{number}", get(ring)).with_state(Arc::clone(&book));
        let serving = tokio::spawn(async move {
            // It serves until it is aborted.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, book, serving })
    }

    /// The calls since this was asked last, by their numbers.
    pub(crate) fn take(&self) -> BTreeMap<u64, Ring> {
        std::mem::take(&mut *self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn ring(State(book): State<Book>, Path(number): Path<u64>) -> impl IntoResponse {
    let asked = Instant::now();
    tokio::time::sleep(PAUSE).await;
    let answered = Instant::now();
    book.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Ring { asked, answered });
    ([(CONTENT_TYPE, "application/json")], json!({ "said": format!("{MARK}{number}") }).to_string())
}

/// The number of the call whose answer stands in this text.
pub(crate) fn answer_in(text: &str) -> Option<u64> {
    let (_, behind) = text.split_once(MARK)?;
    let end = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok()
}
