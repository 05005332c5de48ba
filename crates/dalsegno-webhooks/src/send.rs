//! One delivery: a signed request, and what its answer means.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use dalsegno_net::{Client, HeaderMap, NetError, Origin, Request, StatusCode};

use crate::destination::{BadUrl, Destinations};
use crate::secret::Secret;

/// The longest that a receiver may take.
const WITHIN: Duration = Duration::from_secs(15);
/// Most bytes of an answer that are read, so that its connection serves the next delivery.
const ANSWER: u64 = 16 << 10;
/// The longest that the rest of an answer is waited for.
const REST: Duration = Duration::from_secs(1);
/// Most clients that are kept.
const CLIENTS: usize = 256;

/// Sends deliveries. Keeps connections open for the next one.
#[derive(Debug)]
pub struct Sender {
    destinations: Destinations,
    /// One for each origin, so that what it may reach is that origin.
    clients: Mutex<BTreeMap<Origin, Client>>,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Message {
    /// The id of the delivery.
    pub id: String,
    /// When it is sent, in seconds since the epoch.
    pub at: u64,
    /// The body, which is JSON.
    pub body: Vec<u8>,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What it means.
    pub outcome: SendOutcome,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// How long the receiver asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// What an attempt means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The receiver has accepted it: a status of 2xx.
    Delivered,
    /// The receiver wants nothing further: 410.
    Gone,
    /// The receiver answered with another status. Redirects are among them: they are not followed.
    Refused,
    /// There was no answer in time.
    Timeout,
    /// No connection was made.
    Unreachable,
    /// The connection was lost before there was an answer.
    Broken,
    /// Nothing may be sent there: the address is not of the public network, and not listed.
    Blocked,
}

impl SendOutcome {
    /// The outcome as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Blocked => "blocked",
        }
    }
}

impl Sent {
    const fn without_answer(outcome: SendOutcome) -> Self {
        Self { outcome, status: None, retry_after: None }
    }

    /// Why it was not accepted, in words that say nothing of what the receiver or a name server answered but a status.
    pub fn failure(&self) -> String {
        match (self.outcome, self.status) {
            (SendOutcome::Delivered, _) => "it was accepted".to_owned(),
            (_, Some(status)) => format!("the receiver answered with status {status}"),
            (SendOutcome::Timeout, _) => format!("no answer within {} s", WITHIN.as_secs()),
            (SendOutcome::Blocked, _) => "the address may not be reached".to_owned(),
            (SendOutcome::Broken, _) => "the connection was lost before an answer".to_owned(),
            (SendOutcome::Gone | SendOutcome::Refused | SendOutcome::Unreachable, None) => {
                "no connection".to_owned()
            }
        }
    }
}

impl Sender {
    /// Sends to these.
    pub fn new(destinations: Destinations) -> Self {
        Self { destinations, clients: Mutex::default() }
    }

    /// Who may receive webhooks.
    pub fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    /// Sends a message, signed with each of these secrets. It is one attempt: nothing is repeated, and no redirect is followed.
    ///
    /// `url` is checked again: what the operator allows may have changed since the endpoint was made.
    pub async fn send(&self, url: &str, secrets: &[Secret], message: Message) -> Sent {
        let request = match self.request(url, secrets, message) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(%error, "a webhook was not sent");
                return Sent::without_answer(SendOutcome::Blocked);
            }
        };
        let client = match Origin::of(&request.url) {
            Ok(origin) => self.client(origin),
            Err(_) => return Sent::without_answer(SendOutcome::Blocked),
        };
        let response = match client.send(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(error = %dalsegno_net::error_chain(&error), "a webhook was not delivered");
                return Sent::without_answer(of_error(&error));
            }
        };
        let status = response.status();
        let retry_after = retry_after(response.headers());
        // What it says besides means nothing: it may be endless, and is not waited for.
        let _ = tokio::time::timeout(REST, response.bytes()).await;
        let outcome = match status {
            status if status.is_success() => SendOutcome::Delivered,
            StatusCode::GONE => SendOutcome::Gone,
            _ => SendOutcome::Refused,
        };
        Sent { outcome, status: Some(status.as_u16()), retry_after }
    }

    fn request(&self, url: &str, secrets: &[Secret], message: Message) -> Result<Request, BadUrl> {
        let url = self.destinations.check(url)?;
        let Message { id, at, body } = message;
        let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(&id, at, &body)).collect();
        let mut request = Request::post(url, body);
        (request.timeout, request.max_bytes) = (WITHIN, ANSWER);
        for (name, value) in [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ] {
            // Digits, letters and signs of base64.
            let value = value.parse().map_err(|_| BadUrl::Form("cannot be sent to"))?;
            request.headers.insert(name, value);
        }
        Ok(request)
    }

    fn client(&self, origin: Origin) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&origin) {
            return client.clone();
        }
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        let client = Client::new(self.destinations.egress(&origin));
        clients.insert(origin, client.clone());
        client
    }
}

fn of_error(error: &NetError) -> SendOutcome {
    match error {
        NetError::Denied(_) => SendOutcome::Blocked,
        NetError::Timeout { .. } => SendOutcome::Timeout,
        NetError::Unreachable { .. } | NetError::Setup(_) => SendOutcome::Unreachable,
        _ => SendOutcome::Broken,
    }
}

/// How long a receiver asks to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_with_a_date() {
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(600));
        assert!(asked(&later).unwrap() > Duration::from_secs(500));
        for wrong in ["soon", "-1", "1.5", ""] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }
}
