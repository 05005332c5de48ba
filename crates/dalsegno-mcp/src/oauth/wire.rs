//! The way to an authorization server, under the rules of egress.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dalsegno_net::{Client, EgressDenied, NetError, Request, error_chain};
use http::{Response, StatusCode};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

/// Sends what the SDK wants to have sent, and remembers what went wrong: the SDK keeps not all of it. Made for one
/// operation.
pub(super) struct Wire {
    client: Client,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    denied: Option<EgressDenied>,
    trouble: Option<String>,
}

impl Wire {
    pub(super) fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// The rule that a request broke, if one did since the last that had an answer of use.
    pub(super) fn denied(&self) -> Option<EgressDenied> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).denied.clone()
    }

    /// Why the last request has no answer, if it has none.
    pub(super) fn trouble(&self) -> Option<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    fn see(&self, answered: Result<StatusCode, &NetError>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match answered {
            Ok(status) => {
                seen.trouble = None;
                seen.denied = seen.denied.take().filter(|_| !status.is_success());
            }
            Err(error) => {
                seen.trouble = Some(error_chain(error));
                seen.denied = error.denied().cloned().or(seen.denied.take());
            }
        }
    }

    async fn exchange(&self, asked: OAuthHttpRequest) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let (parts, body) = asked.request.into_parts();
        let mut request = Request::new(parts.method, parts.uri.to_string().parse()?);
        request.headers = parts.headers;
        request.body = (!body.is_empty()).then_some(body);
        request.timeout = TIMEOUT;
        request.max_bytes = ANSWER_BYTES_MAX;
        request.redirects = match asked.redirect_policy {
            OAuthHttpRedirectPolicy::Follow => REDIRECTS_MAX,
            _ => 0,
        };
        let answered = async {
            let answer = self.client.send(request).await?;
            let status = answer.status();
            let mut response = Response::builder().status(status);
            if let Some(headers) = response.headers_mut() {
                headers.clone_from(answer.headers());
            }
            Ok::<_, NetError>((status, response, answer.bytes().await?))
        };
        let answered = answered.await;
        self.see(answered.as_ref().map(|(status, ..)| *status));
        let (_, response, body) = answered?;
        Ok(response.body(body)?)
    }
}

impl OAuthHttpClient for Wire {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.exchange(request))
    }
}

/// The longest that one request may take: a call waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Metadata and tokens are short.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// More than these nobody needs.
const REDIRECTS_MAX: u32 = 5;
