//! What is asked of the provider about a call: to answer it, to reject it, to hang up.

use std::time::Duration;

use dalsegno_net::{NetError, Request, error_chain};
use dalsegno_secrets::Secret;
use serde_json::json;
use tokio_tungstenite::tungstenite::http::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
};

use crate::socket::{Endpoint, cut};

/// The longest that the provider may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Most bytes that are read of its answer.
const ANSWER_BYTES: u64 = 64 * 1_024;

/// Something to ask about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// Answer it, with this session.
    Accept(String),
    /// Reject it with this status of SIP.
    Reject(u16),
    /// End it.
    HangUp,
    /// Have it taken to this address.
    Refer(String),
}

/// Why it was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoControl {
    /// There is no such call, or it is in no such state any more.
    Gone(String),
    /// The key is wrong: no other attempt is better.
    Key(String),
    /// The provider refuses it.
    Refused(String),
    /// Another attempt may be better; nothing was done.
    Passing(String),
    /// Another attempt may be better; it may have been done.
    Unknown(String),
}

impl NoControl {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Gone(reason)
            | Self::Key(reason)
            | Self::Refused(reason)
            | Self::Passing(reason)
            | Self::Unknown(reason) => reason,
        }
    }
}

impl Endpoint {
    /// Asks it once. A key that is refused is read once more: it may have changed.
    pub(crate) async fn control(&self, call: &str, control: &Control) -> Result<(), NoControl> {
        let key = match self.key() {
            None => None,
            Some(key) => Some(key.reveal().await.map_err(|error| {
                let reason = format!("cannot read the key of the line: {error}");
                if error.transient { NoControl::Passing(reason) } else { NoControl::Key(reason) }
            })?),
        };
        match self.attempt_control(call, control, key.as_ref()).await {
            Err(NoControl::Key(refused)) => {
                let (Some(own), Some(old)) = (self.key(), &key) else { return Err(NoControl::Key(refused)) };
                match own.renew(old).await {
                    Ok(Some(new)) => self.attempt_control(call, control, Some(&new)).await,
                    Ok(None) | Err(_) => Err(NoControl::Key(refused)),
                }
            }
            other => other,
        }
    }

    async fn attempt_control(
        &self,
        call: &str,
        control: &Control,
        key: Option<&Secret>,
    ) -> Result<(), NoControl> {
        let (verb, body) = match control {
            Control::Accept(session) => ("accept", session.clone()),
            Control::Reject(status) => ("reject", format!("{{\"status_code\":{status}}}")),
            Control::HangUp => ("hangup", String::new()),
            Control::Refer(target) => ("refer", json!({ "target_uri": target }).to_string()),
        };
        let url = self.of_call(call, verb);
        let mut request =
            Request { timeout: WITHIN, max_bytes: ANSWER_BYTES, ..Request::post(url, Vec::new()) };
        headers(&mut request.headers, key)?;
        if !body.is_empty() {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = Some(body.into_bytes());
        }
        let answer = self.client().send(request).await.map_err(|error| failed(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let said = if status.as_u16() == 401 {
            None
        } else {
            answer.bytes().await.ok().and_then(|bytes| words(&bytes))
        };
        let said = said.map_or_else(String::new, |said| format!(": {said}"));
        let reason = cut(format!("the provider does not {verb} the call: {status}{said}"));
        let is_refer = matches!(control, Control::Refer(_));
        Err(match status.as_u16() {
            // A proxy that gave up on the provider does not know what it did.
            408 | 409 | 425 if is_refer => NoControl::Unknown(reason),
            401 | 403 => NoControl::Key(reason),
            404 | 409 | 410 => NoControl::Gone(reason),
            408 | 425 | 429 => NoControl::Passing(reason),
            500.. => NoControl::Unknown(reason),
            _ => NoControl::Refused(reason),
        })
    }
}

fn headers(headers: &mut HeaderMap, key: Option<&Secret>) -> Result<(), NoControl> {
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("dalsegno/", env!("CARGO_PKG_VERSION"))));
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_| {
            NoControl::Key("the key of the line has characters that no header can hold".to_owned())
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(())
}

fn failed(error: &NetError) -> NoControl {
    let reason = cut(error_chain(error));
    match error.is_possibly_received() {
        true => NoControl::Unknown(reason),
        false if error.denied().is_some() => NoControl::Refused(reason),
        false => NoControl::Passing(reason),
    }
}

/// What the provider says of its refusal.
fn words(answer: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Said,
    }
    #[derive(serde::Deserialize)]
    struct Said {
        message: String,
    }
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(answer.error.message.chars().map(plain).collect())
}
