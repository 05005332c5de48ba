//! `POST /voice/{line}/calls` and the sockets below it: a carrier asks what to do with a call, and opens a socket for its sound. It has no
//! access key: its signature, over the address as the carrier sees it, is the credential.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use dalsegno_voice::{Answer, Ringing, upgraded};
use dalsegno_workspace::{SecretRef, Transport};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use sha1::Sha1;
use utoipa::ToSchema;

use super::{BODY, refused};
use crate::guard;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// The header of a carrier's signature.
const SIGNATURE: &str = "x-twilio-signature";

/// The least characters of a carrier's authentication token.
const TOKEN_MIN: usize = 16;

/// Most parameters of a carrier's question that are looked at: it sends about thirty.
const PARAMETERS: usize = 256;

/// What a carrier asks about, as far as it matters.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "it describes the form, whose pairs are read one by one")]
pub(super) struct CarrierQuestion {
    /// The carrier's id of the call.
    #[serde(rename = "CallSid")]
    call_sid: String,
    /// The number that was called.
    #[serde(rename = "To")]
    to: String,
    /// Who calls.
    #[serde(rename = "From")]
    from: String,
}

/// Looks whether a token can prove questions of a carrier.
///
/// # Errors
/// In words, why it cannot.
pub(super) fn check_token(token: &str) -> Result<(), String> {
    match token.trim().len() {
        0..TOKEN_MIN => Err(format!("it is shorter than {TOKEN_MIN} characters")),
        _ => Ok(()),
    }
}

/// Answers a carrier that asks what to do with a call: it rings, or the socket of its sound was closed.
///
/// The question and the answer are those of Twilio's voice webhooks. `[voice.lines.LINE]` of dalsegno.toml, with `transport = "media"`,
/// says by which tokens questions are signed, and who answers at which number. A question that is asked again starts nothing. One that
/// is not signed with any of the tokens, or is for a line that does not exist, is refused: always with the same answer.
#[utoipa::path(
    post,
    path = "/voice/{line}/calls",
    operation_id = "answerCarrier",
    tag = "runs",
    params(("line" = String, Path, description = "The line.", max_length = 64)),
    request_body(content = inline(CarrierQuestion), content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "What to do with the call, as TwiML.", body = String, content_type = "text/xml")),
)]
pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    Path(line): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let address = guard::address(&request);
    let (parts, sent) = request.into_parts();
    let (body, held) = shared.unproven.collect(sent, BODY, &shared.limits, address).await?;
    let pairs: Vec<(String, String)> = form_urlencoded::parse(&body)
        .take(PARAMETERS + 1)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let is_known = shared.telephones.transport(&line) == Some(Transport::Media);
    let is_proven = pairs.len() <= PARAMETERS && is_proven(&shared, &line, &parts, "http", &pairs).await;
    drop(held);
    let name = format!("voice/{line}");
    let metrics = shared.telemetry.metrics();
    if !is_known || !is_proven {
        metrics.delivery(Some(name.as_str()).filter(|_| is_known), "refused");
        if let Some(address) = address {
            shared.limits.failure(address)?;
        }
        return Err(refused());
    }
    let wrong = |what: &str| {
        let help = "look at the documentation of the carrier's webhooks";
        Problem::new(Code::BadRequest, format!("the question {what}"), help)
    };
    let value = |wanted: &str| {
        let mut found = pairs.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        found.next().filter(|_| found.next().is_none())
    };
    let call_id = value("CallSid").ok_or_else(|| wrong("has no `CallSid`"))?.to_owned();
    let headers = ["To", "From"].into_iter().filter_map(|name| Some((name.to_owned(), party(value(name)?))));
    let ringing = Ringing { call_id, headers: headers.collect() };
    if !ringing.has_sound_id() {
        return Err(wrong("has a `CallSid` that is none"));
    }
    let called = ringing.called().unwrap_or_default();
    let socket = format!(
        "{}/voice/{line}/calls/{}/{}",
        origin(&shared, &parts, "ws")?,
        called.trim_start_matches('+'),
        ringing.call_id
    );
    // A call that is under way is asked about again: what is wrong here may pass.
    let is_under_way = value("CallStatus") == Some("in-progress");
    let answer = match ask(&shared, line.clone(), ringing).await? {
        Answer::Unavailable if is_under_way => Answer::Wait,
        answer => answer,
    };
    metrics.delivery(
        Some(&name),
        match answer {
            Answer::Stream => "started",
            Answer::Reject | Answer::Busy | Answer::Unavailable => "skipped",
            Answer::Wait | Answer::Dial(_) | Answer::HangUp => "repeated",
        },
    );
    if answer == Answer::Unavailable {
        let help = "ask again later, or at another address";
        return Err(Problem::new(Code::Unavailable, "the call cannot be taken now", help).retry_after(1));
    }
    let document = answer.document(&socket, &format!("/voice/{line}/calls"));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"))], document).into_response())
}

async fn ask(shared: &Arc<Shared>, line: String, ringing: Ringing) -> Result<Answer, Problem> {
    let own = Arc::clone(shared);
    shared
        .whole(async move {
            match own.telephones.answer(&own.engine, &line, &ringing, own.is_stopping()).await {
                Ok((answer, handle)) => {
                    if let Some(handle) = handle {
                        own.hands.hold(*handle);
                    }
                    Ok(answer)
                }
                Err(error) => {
                    tracing::error!(line, %error, "a carrier asks about a call that cannot be written down");
                    Ok(Answer::Unavailable)
                }
            }
        })
        .await
}

/// An address of a party as a carrier writes it, in the form of a header of SIP: it may be a bare number.
fn party(value: &str) -> String {
    if value.contains(':') { value.to_owned() } else { format!("tel:{value}") }
}

/// Takes the sound of a call, over a socket that its carrier opens.
///
/// The answer to the carrier's question has its address. The frames are those of Twilio's Media Streams.
#[utoipa::path(
    get,
    path = "/voice/{line}/calls/{called}/{call}",
    operation_id = "openSound",
    tag = "runs",
    params(
        ("line" = String, Path, description = "The line.", max_length = 64),
        ("called" = String, Path, description = "The number that was called, without `+`.", max_length = 15),
        ("call" = String, Path, description = "The carrier's id of the call.", max_length = 128),
    ),
    responses((status = 101, description = "The socket is open.")),
)]
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    Path((line, called, call)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let address = guard::address(&request);
    let (parts, _) = request.into_parts();
    let called = format!("+{called}");
    let is_known = shared.telephones.takes_sound(&line, &called);
    if !is_proven(&shared, &line, &parts, "ws", &[]).await || !is_known {
        if let Some(address) = address {
            shared.limits.failure(address)?;
        }
        return Err(refused());
    }
    let mut request = Request::from_parts(parts, Body::empty());
    let response = upgraded(&request, Body::empty).map_err(|message| {
        let detail = format!("the request opens no socket: {message}");
        Problem::new(Code::BadRequest, detail, "open a WebSocket here")
    })?;
    if shared.is_stopping() {
        return Err(Problem::new(Code::Unavailable, "the server stops", "ask again elsewhere").retry_after(1));
    }
    let connection = hyper::upgrade::on(&mut request);
    let own = Arc::clone(&shared);
    shared.telephones.spawn(async move {
        let mut stopping = own.stopping.clone();
        let Ok(connection) = connection.await else { return };
        let connection = TokioIo::new(connection);
        let connected =
            own.telephones.connect(&own.engine, &line, (&called, &call), connection, &mut stopping).await;
        match connected {
            Ok(Some(handle)) => own.hands.hold(*handle),
            Ok(None) => tracing::debug!(line, call, "a carrier's socket begins nothing here"),
            Err(error) => tracing::error!(line, call, %error, "the sound of a call cannot be taken"),
        }
    });
    Ok(response)
}

/// Where this server is for who sent a request, with `http` or `ws` as the scheme, or the same with TLS.
fn origin(shared: &Shared, parts: &Parts, scheme: &str) -> Result<String, Problem> {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]_".contains(&byte);
    if host.is_empty() || !host.bytes().all(inside) {
        return Err(Problem::parameter("host", "is no name of a host", "send the name of this server"));
    }
    let is_encrypted = shared.settings.behind_proxy || shared.tls.is_some();
    Ok(format!("{scheme}{}://{host}", if is_encrypted { "s" } else { "" }))
}

/// Says whether a request is signed with any of the tokens of a line: over its address and the pairs of its form. All of them are
/// tried, so that the time says nothing of them.
async fn is_proven(
    shared: &Shared,
    line: &str,
    parts: &Parts,
    scheme: &str,
    pairs: &[(String, String)],
) -> bool {
    let secrets = shared.telephones.secrets(line).unwrap_or_default();
    let Ok(origin) = origin(shared, parts, scheme) else { return false };
    let place = parts.uri.path_and_query().map_or("/", |place| place.as_str());
    let urls = forms(&origin).map(|origin| format!("{origin}{place}"));
    let mut is_proven = false;
    for secret in secrets {
        match token(shared, secret).await {
            Ok(token) => {
                for url in &urls {
                    is_proven |= holds(&token, &parts.headers, url, pairs);
                }
            }
            Err(error) => tracing::error!(line, "a token of the line's carrier cannot be used: {error}"),
        }
    }
    is_proven
}

/// The forms in which a carrier may sign the place of a server: with its port, or without.
fn forms(origin: &str) -> [String; 2] {
    let after_scheme = origin.find("://").map_or(0, |place| place + "://".len());
    let port = origin[after_scheme..].rfind(':').map(|place| after_scheme + place);
    // The colons of an IPv6 address stand in brackets.
    let port = port.filter(|place| !origin[*place..].contains(']'));
    let other = match port {
        Some(place) => origin[..place].to_owned(),
        None if origin.starts_with("https") || origin.starts_with("wss") => format!("{origin}:443"),
        None => format!("{origin}:80"),
    };
    [origin.to_owned(), other]
}

async fn token(shared: &Shared, secret: &SecretRef) -> Result<String, String> {
    let token = shared.engine.webhook_secret(secret).await.map_err(|error| error.to_string())?;
    check_token(token.expose())?;
    Ok(token.expose().trim().to_owned())
}

/// Says whether a request to this address, with these pairs, is signed with a token.
fn holds(token: &str, headers: &HeaderMap, url: &str, pairs: &[(String, String)]) -> bool {
    let mut sorted: Vec<_> = pairs.iter().collect();
    sorted.sort();
    // A pair that is sent twice is signed once.
    sorted.dedup();
    // A key of any length is one.
    let mut code = Hmac::<Sha1>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
    code.update(url.as_bytes());
    for (name, value) in sorted {
        code.update(name.as_bytes());
        code.update(value.as_bytes());
    }
    let mut shown = headers.get_all(SIGNATURE).iter();
    let (first, second) = (shown.next(), shown.next());
    let shown = first.filter(|_| second.is_none()).and_then(|shown| BASE64.decode(shown.as_bytes()).ok());
    code.verify_slice(&shown.unwrap_or_default()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(signature: &str) -> HeaderMap {
        HeaderMap::from_iter([(SIGNATURE.parse().unwrap(), signature.parse().unwrap())])
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The example of the carrier's own documentation and libraries.
    #[test]
    fn a_question_is_proven_as_the_carrier_documents_it() {
        let (token, url) = ("12345", "https://mycompany.com/myapp.php?foo=1&bar=2");
        let sent = pairs(&[
            ("CallSid", "CA1234567890ABCDE"),
            ("Digits", "1234"),
            ("From", "+14158675309"),
            ("To", "+18005551212"),
            ("Caller", "+14158675309"),
        ]);
        let signed = headers("RSOYDt4T1cUTdK1PDd93/VVr8B8=");
        assert!(holds(token, &signed, url, &sent));
        assert!(!holds("12346", &signed, url, &sent));
        assert!(!holds(token, &signed, "https://mycompany.com/myapp.php?foo=1&bar=3", &sent));
        assert!(!holds(token, &signed, url, &sent[1..]));
        for wrong in ["", "RSOYDt4T1cUTdK1PDd93/VVr8B8", "not base64!", "AAAA"] {
            assert!(!holds(token, &headers(wrong), url, &sent), "{wrong}");
        }
        let mut twice = signed;
        twice.append(SIGNATURE, "RSOYDt4T1cUTdK1PDd93/VVr8B8=".parse().unwrap());
        assert!(!holds(token, &twice, url, &sent));
        assert!(!holds(token, &HeaderMap::new(), url, &sent));
    }

    #[test]
    fn a_place_is_signed_with_its_port_or_without() {
        for (origin, other) in [
            ("https://a.example", "https://a.example:443"),
            ("wss://a.example:8443", "wss://a.example"),
            ("ws://localhost", "ws://localhost:80"),
            ("https://[::1]", "https://[::1]:443"),
            ("https://[::1]:8443", "https://[::1]"),
        ] {
            assert_eq!(forms(origin), [origin, other]);
        }
    }

    #[test]
    fn a_party_is_a_number_or_an_address() {
        assert_eq!(party("+33176540001"), "tel:+33176540001");
        assert_eq!(party("sip:desk@example.com"), "sip:desk@example.com");
    }
}
