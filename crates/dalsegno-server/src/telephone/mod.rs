//! `POST /voice/{line}`: the provider of a line says that a telephone rings. It has no access key: its signature is the credential.

mod media;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use dalsegno_voice::{Ringing, Rung};
use dalsegno_workspace::{LineSurface, SecretRef, Signature, Transport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::guard;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::shared::Shared;
use crate::triggers::proof;

/// Most bytes of a webhook. The headers of an INVITE are a few thousand.
const BODY: u64 = 64 << 10;

/// Most bytes at once of which it is not known yet who sent them.
pub(crate) const UNPROVEN: u64 = 16 << 20;

/// The kinds of events that a telephone rings: the provider tells it once for each surface.
const INCOMING: &str = "realtime.call.incoming";
const INCOMING_LIVE: &str = "live.call.incoming";

pub(crate) fn routes() -> Vec<Route> {
    let problems = [Code::Unauthenticated, Code::TooMany, Code::Unavailable];
    vec![
        Route::open(routes!(ring)).problems(&problems),
        Route::open(routes!(media::answer)).problems(&problems),
        Route::open(routes!(media::open)).problems(&[&problems[..], &[Code::BadRequest]].concat()),
    ]
}

/// An event of a provider, as far as it matters.
#[derive(Deserialize, ToSchema)]
struct LineEvent {
    /// What happened: `realtime.call.incoming`, or `live.call.incoming` at a line with `surface = "live"`.
    r#type: String,
    /// What it is about.
    #[serde(default)]
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

#[derive(Deserialize)]
struct Incoming {
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    sip_headers: Vec<Header>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

/// What came of it.
#[derive(Serialize, ToSchema)]
struct LineReceipt {
    /// `started`: the call has a run and is answered. `known`: it was told before. `rejected`: it is not answered. `ignored`: the
    /// event is about nothing that matters here.
    result: &'static str,
}

/// Takes a webhook of the provider of a line: a telephone rings.
///
/// `[voice.lines.LINE]` of dalsegno.toml says by which secrets it is signed, as Standard Webhooks has it, and who answers at which
/// number. An event that is sent again starts nothing. One that is not signed with any of the secrets, is too old, or is for a line
/// that does not exist is refused: always with the same answer.
#[utoipa::path(
    post,
    path = "/voice/{line}",
    operation_id = "ring",
    tag = "runs",
    params(("line" = String, Path, description = "The line.", max_length = 64)),
    request_body(content = LineEvent, example = json!({
        "type": "realtime.call.incoming",
        "data": { "call_id": "rtc_1", "sip_headers": [{ "name": "To", "value": "sip:+33176540001@sip.example.com" }] },
    })),
    responses((status = 200, description = "It was received.", body = LineReceipt)),
)]
async fn ring(
    State(shared): State<Arc<Shared>>,
    Path(line): Path<String>,
    request: Request,
) -> Result<Json<LineReceipt>, Problem> {
    let address = guard::address(&request);
    let (parts, sent) = request.into_parts();
    let (body, held) = shared.unproven.collect(sent, BODY, &shared.limits, address).await?;
    let is_sip = shared.telephones.transport(&line) == Some(Transport::Sip);
    let known = shared.telephones.secrets(&line).filter(|_| is_sip);
    let is_proven = is_proven(&shared, &line, known.unwrap_or_default(), &parts.headers, &body).await;
    drop(held);
    let metrics = shared.telemetry.metrics();
    let name = format!("voice/{line}");
    if known.is_none() || !is_proven {
        metrics.delivery(known.map(|_| name.as_str()), "refused");
        if let Some(address) = address {
            shared.limits.failure(address)?;
        }
        return Err(refused());
    }
    let result = match incoming(&body, shared.telephones.surface(&line)) {
        Ok(Some(ringing)) => take(&shared, line, ringing).await,
        Ok(None) => Ok("ignored"),
        Err(problem) => {
            tracing::error!(
                line,
                "an event that is signed as it must be cannot be read: its provider may have changed"
            );
            Err(problem)
        }
    };
    let counted = match &result {
        Ok("known") => "repeated",
        Ok("ignored" | "rejected") => "skipped",
        Ok(_) => "started",
        Err(_) => "failed",
    };
    metrics.delivery(Some(&name), counted);
    result.map(|result| Json(LineReceipt { result }))
}

/// Says whether a webhook is signed with any of the secrets. All of them are tried, so that the time says nothing of them.
async fn is_proven(
    shared: &Shared,
    line: &str,
    secrets: &[SecretRef],
    headers: &axum::http::HeaderMap,
    body: &[u8],
) -> bool {
    let now = shared.now();
    let mut is_proven = false;
    for secret in secrets {
        let key = match shared.engine.webhook_secret(secret).await {
            Ok(secret) => {
                proof::key(&Signature::Standard, secret.expose()).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match key {
            Ok(key) => is_proven |= proof::holds(&Signature::Standard, &key, headers, body, now),
            Err(error) => tracing::error!(line, "a secret of the line's webhooks cannot be used: {error}"),
        }
    }
    is_proven
}

/// Looks whether a secret can prove webhooks of a line.
///
/// # Errors
/// In words, why it cannot.
pub fn check_webhook_secret(transport: Transport, secret: &str) -> Result<(), String> {
    if transport == Transport::Media {
        return media::check_token(secret);
    }
    proof::key(&Signature::Standard, secret).map(drop).map_err(|error| error.to_string())
}

/// The call that rings; none where the event is another one.
fn incoming(body: &[u8], surface: Option<&LineSurface>) -> Result<Option<Ringing>, Problem> {
    let wrong = |what: &str| {
        let help = "look at the documentation of the provider's webhooks";
        Problem::new(Code::BadRequest, format!("the event {what}"), help)
    };
    let event: LineEvent =
        serde_json::from_slice(body).map_err(|_| wrong("is no JSON object with a `type`"))?;
    let kind = match surface {
        Some(LineSurface::Live { .. }) => INCOMING_LIVE,
        Some(LineSurface::Realtime) | None => INCOMING,
    };
    if event.r#type != kind {
        return Ok(None);
    }
    let incoming: Incoming = serde_json::from_value(event.data)
        .map_err(|_| wrong("has wrong `sip_headers`, or an id of a call that is no text"))?;
    let of_call = match surface {
        Some(LineSurface::Live { .. }) => incoming.session_id,
        Some(LineSurface::Realtime) | None => incoming.call_id,
    };
    let call_id = of_call.ok_or_else(|| wrong("has no id of a call"))?;
    let headers = incoming.sip_headers.into_iter().map(|header| (header.name, header.value)).collect();
    let ringing = Ringing { call_id, headers };
    if ringing.has_sound_id() { Ok(Some(ringing)) } else { Err(wrong("has an id of a call that is none")) }
}

async fn take(shared: &Arc<Shared>, line: String, ringing: Ringing) -> Result<&'static str, Problem> {
    let own = Arc::clone(shared);
    shared
        .whole(async move {
            let rung = own.telephones.ring(&own.engine, &line, &ringing, own.is_stopping()).await;
            match rung {
                Ok(Rung::Started(handle)) => {
                    let is_new = handle.is_new();
                    own.hands.hold(*handle);
                    Ok(if is_new { "started" } else { "known" })
                }
                Ok(Rung::Known(_)) => Ok("known"),
                Ok(Rung::Rejected(_)) => Ok("rejected"),
                Err(error) => {
                    tracing::error!(line, %error, "a telephone rings, and its call cannot be written down");
                    let detail = "the call cannot be taken now";
                    Err(Problem::new(Code::Unavailable, detail, "send the event again later").retry_after(1))
                }
            }
        })
        .await
}

/// The one answer to a webhook that proves nothing: it does not say what is wrong.
fn refused() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "there is no such line, or the event is not signed as it expects",
        "compare the address, the secrets and the clock of the sender with `[voice.lines.LINE]` of dalsegno.toml",
    )
}
