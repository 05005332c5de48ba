//! What an issuer publishes of itself: its document and its keys. Both are fetched when they are needed, and kept.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dalsegno_net::{Client, Egress, NetError, Origin, Request, Scheme, StatusCode, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::keys::KeySet;

/// The longest that the issuer may take for one document.
const WITHIN: Duration = Duration::from_secs(5);
/// Most bytes of the document of an issuer.
const DOCUMENT: u64 = 64 << 10;
/// Most bytes of its keys.
const KEYS: u64 = 256 << 10;
/// How long keys are used before the issuer is asked again.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// How long keys are used while the issuer cannot be asked.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Most times that the issuer is asked within [`WINDOW`], however many tokens name keys that it does not have.
const ASKED: usize = 6;
/// See [`ASKED`].
const WINDOW: Duration = Duration::from_secs(60);

/// What an issuer says of itself: OpenID Connect Discovery.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    issuer: String,
    jwks_uri: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What is known of an issuer.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) document: Document,
    pub(super) keys: KeySet,
    since: Instant,
}

/// Why an issuer cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// There is no answer.
    #[error("{}", dalsegno_net::error_chain(.0))]
    Net(#[from] NetError),
    /// It answers with another status than expected. Redirects are among them: none is followed.
    #[error("it answers with status {0}")]
    Status(StatusCode),
    /// What it answers cannot be used.
    #[error("{0}")]
    Content(&'static str),
}

/// Asks an issuer for what it publishes.
pub(super) struct Directory {
    issuer: String,
    origin: Origin,
    /// Origins of a private network at which the issuer may be reached.
    addresses: BTreeSet<Origin>,
    state: Mutex<State>,
    /// One is asked at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    known: Option<Arc<Known>>,
    /// When it was last asked, the latest at the end.
    asked: VecDeque<Instant>,
    /// When the last answer, or none, was there.
    answered: Option<Instant>,
}

impl Directory {
    pub(super) fn new(issuer: &str, addresses: BTreeSet<Origin>) -> Option<Self> {
        let origin = Origin::of(&Url::parse(issuer).ok()?).ok()?;
        let (state, turn) = (Mutex::default(), Arc::default());
        Some(Self { issuer: issuer.to_owned(), origin, addresses, state, turn })
    }

    /// What is known of the issuer; it is asked if nothing is, or if what is known does not suffice. None where it cannot be asked.
    ///
    /// What comes back may not suffice either: then the issuer was asked as often as it may be.
    pub(super) async fn known(self: &Arc<Self>, suffices: impl Fn(&Known) -> bool) -> Option<Arc<Known>> {
        let since = Instant::now();
        if let Some(known) = self.kept(since).filter(|known| suffices(known)) {
            if since.duration_since(known.since) >= FRESH {
                let own = Arc::clone(self);
                // No request waits for it: the keys are good until then.
                tokio::spawn(async move { own.ask_again().await });
            }
            return Some(known);
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let kept = self.kept(Instant::now());
        // Who has waited while it was asked takes that answer.
        let is_news = self.state().answered.is_some_and(|answered| answered > since);
        if is_news || kept.as_deref().is_some_and(&suffices) || !self.may_ask() {
            return kept;
        }
        let own = Arc::clone(self);
        // It is asked to the end, also when the client goes away: its answer is for all.
        let asked = tokio::spawn(async move {
            own.ask().await;
            drop(turn);
        });
        // Its only way to fail is a panic, which the log has.
        let _ = asked.await;
        self.kept(Instant::now())
    }

    /// Asks again while what is known is in use.
    async fn ask_again(&self) {
        let Ok(_turn) = self.turn.try_lock() else { return };
        let is_old = |known: Arc<Known>| known.since.elapsed() >= FRESH;
        if self.kept(Instant::now()).is_none_or(is_old) && self.may_ask() {
            self.ask().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, now: Instant) -> Option<Arc<Known>> {
        self.state().known.clone().filter(|known| now.duration_since(known.since) < KEPT)
    }

    /// Counts a question, if there may be one now.
    fn may_ask(&self) -> bool {
        let (mut state, now) = (self.state(), Instant::now());
        while state.asked.front().is_some_and(|asked| now.duration_since(*asked) >= WINDOW) {
            state.asked.pop_front();
        }
        if state.asked.len() >= ASKED {
            return false;
        }
        state.asked.push_back(now);
        true
    }

    async fn ask(&self) {
        let fetched = self.fetch().await;
        let mut state = self.state();
        state.answered = Some(Instant::now());
        match fetched {
            Ok(known) => state.known = Some(Arc::new(known)),
            Err(error) => {
                tracing::warn!(target: "dalsegno::oidc", issuer = self.issuer, %error, "the keys of the issuer could not be fetched");
            }
        }
    }

    async fn fetch(&self) -> Result<Known, Trouble> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = self.get(&address, DOCUMENT).await?;
        let document: Document = serde_json::from_slice(&document)
            .map_err(|_| Trouble::Content("its document is not that of an issuer"))?;
        if document.issuer != self.issuer {
            return Err(Trouble::Content("its document names another issuer"));
        }
        let keys = self.get(&document.jwks_uri, KEYS).await?;
        let keys = KeySet::read(&keys).map_err(Trouble::Content)?;
        Ok(Known { document, keys, since: Instant::now() })
    }

    async fn get(&self, address: &str, most: u64) -> Result<Vec<u8>, Trouble> {
        let url = Url::parse(address)
            .map_err(|_| Trouble::Content("its document names an address that is none"))?;
        let mut request = Request::get(url);
        request.max_bytes = most;
        match self.send(request).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(Trouble::Status(status)),
        }
    }

    /// Sends a request to the issuer, or to a host that its document names.
    pub(super) async fn send(&self, mut request: Request) -> Result<(StatusCode, Vec<u8>), Trouble> {
        request.timeout = WITHIN;
        let origin = self.permits(&request.url)?;
        let client = Client::new(Egress::new(self.addresses.iter().cloned().chain([origin])));
        let response = client.send(request).await?;
        Ok((response.status(), response.bytes().await?))
    }

    /// The origin of an address, if it may be used: that of the issuer, one that the settings list, or a public name over TLS.
    /// Which machines such a name means is checked for each connection.
    pub(super) fn permits(&self, url: &Url) -> Result<Origin, Trouble> {
        let denied = Trouble::Content("its document names an address that may not be used");
        let Ok(origin) = Origin::of(url) else { return Err(denied) };
        let is_name = |name: &str| name != "localhost" && !name.ends_with(".localhost");
        let is_public = origin.scheme() == Scheme::Https && origin.name().is_some_and(is_name);
        let is_own = origin == self.origin || self.addresses.contains(&origin);
        if is_own || is_public { Ok(origin) } else { Err(denied) }
    }
}
