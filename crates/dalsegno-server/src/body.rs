//! Bodies of requests: bounded, in time, and without anything that is not understood.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// The longest that a body may take to arrive, of any size.
const PATIENCE: Duration = Duration::from_secs(30);
/// Up to here every whole number has a form with a decimal point.
const WHOLE: f64 = 9_007_199_254_740_992.0;
/// How deep JSON may be nested.
pub(crate) const DEPTH: u32 = 64;

/// A JSON body of a known form. An empty body is an empty object.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        let bytes = collect(request.into_body(), shared.settings.body).await?;
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        // A form that a browser sends without asking is no JSON.
        let is_json = kind.is_some_and(|kind| essence(&kind) == b"application/json");
        if !is_json {
            return Err(not_json());
        }
        object(&bytes).map(Self)
    }
}

/// Reads a JSON object of a known form.
pub(crate) fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would be read as the values of the keys in their order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        let detail = "the body is no object";
        let help = "send a JSON object as the book describes it";
        return Err(Problem::new(Code::BadRequest, detail, help).at("", detail));
    }
    parse(bytes)
}

/// A media type without its parameters.
pub(crate) fn essence(kind: &[u8]) -> &[u8] {
    kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// The answer to a body of another media type.
pub(crate) fn not_json() -> Problem {
    let help = "send `Content-Type: application/json`";
    Problem::parameter("content-type", "is not `application/json`", help)
        .with_status(axum::http::StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

pub(crate) async fn collect(body: Body, most: u64) -> Result<Vec<u8>, Problem> {
    collect_with(body, most, PATIENCE, |_| Ok(())).await
}

/// Room for bodies that are on their way: of senders that have proven nothing yet, or with files. Only bytes that have arrived take some:
/// a connection that sends nothing keeps no other sender out.
pub(crate) struct Room(Arc<Semaphore>);

/// The room that a body takes.
#[derive(Default)]
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Held {
    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.0 {
            None => self.0 = Some(permit),
            Some(held) => held.merge(permit),
        }
    }
}

impl Room {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Takes room for so many more bytes of a body; says whether there was enough.
    pub(crate) fn take(&self, bytes: usize, held: &mut Held) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0).try_acquire_many_owned(bytes);
        permit.map(|permit| held.add(permit)).is_ok()
    }

    /// Reads a body of an unknown sender whole. One that is too large, too slow or broken off counts as a failure of its address; that
    /// there is no room here does not, or who fills the room would keep out the addresses of all others.
    pub(crate) async fn collect(
        &self,
        body: Body,
        most: u64,
        limits: &Limits,
        address: Option<IpAddr>,
    ) -> Result<(Vec<u8>, Held), Problem> {
        let mut held = Held::default();
        let take = |bytes| self.take(bytes, &mut held).then_some(()).ok_or_else(full);
        let arrived = collect_with(body, most, PATIENCE, take).await;
        if let (Err(problem), Some(address)) = (&arrived, address)
            && !problem.is_unavailable()
        {
            limits.failure(address)?;
        }
        Ok((arrived?, held))
    }
}

/// The answer to a body for which there is no room now.
pub(crate) fn full() -> Problem {
    let detail = "too many bodies are on their way at once";
    Problem::new(Code::Unavailable, detail, "send it again later").retry_after(2)
}

/// Reads a body whole; `take` is asked before each part of it is kept, with the bytes of the part.
pub(crate) async fn collect_with(
    body: Body,
    most: u64,
    patience: Duration,
    mut take: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Vec<u8>, Problem> {
    let mut limited = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX));
    let gathered = async {
        let mut bytes = Vec::new();
        while let Some(frame) = limited.frame().await {
            let frame = frame.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
                true => {
                    let detail = format!("the body has more than {most} bytes");
                    let help = "send less, or raise `body` in `[serve]` of dalsegno.toml";
                    Problem::new(Code::TooLarge, detail, help)
                }
                false => {
                    let detail = "the body ended before it was complete";
                    Problem::new(Code::BadRequest, detail, "send it again")
                }
            })?;
            if let Some(part) = frame.data_ref() {
                take(part.len())?;
                bytes.extend_from_slice(part);
            }
        }
        Ok(bytes)
    };
    tokio::time::timeout(patience, gathered).await.unwrap_or_else(|_| {
        Err(Problem::new(
            Code::TooSlow,
            format!("the body did not arrive within {} s", patience.as_secs()),
            "send it again, over a faster connection",
        ))
    })
}

/// Reads a whole number from 0. JSON has one kind of number, so that `2.0` is one as well.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let exact = number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..WHOLE).contains(number));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and within the bounds"
    )]
    let whole = number.as_u64().or_else(|| exact.map(|number| number as u64));
    let whole = whole.filter(|whole| *whole <= i64::MAX.cast_unsigned());
    whole
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{number} is no whole number from 0 to {}", i64::MAX)))
}

/// Reads JSON of a known form.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let help = "send a JSON object as the book describes it: unknown keys are refused, never dropped";
    let failed = |detail: String| Problem::new(Code::BadRequest, detail.clone(), help).at("", detail);
    if depth(bytes) > DEPTH {
        return Err(failed(format!("the body is nested deeper than {DEPTH} levels")));
    }
    serde_json::from_slice(bytes).map_err(|error| failed(format!("the body cannot be read: {error}")))
}

/// How deep brackets are nested. Of what is no JSON it is some number, and the parser says the rest.
pub(crate) fn depth(bytes: &[u8]) -> u32 {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_u32, 0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use dalsegno_workspace::ServeSettings;

    use super::*;

    #[tokio::test]
    async fn only_what_its_sender_did_counts_against_an_address() {
        let address = Some(IpAddr::from([192, 0, 2, 1]));
        let limits = Limits::new(&ServeSettings::default());
        let times = ServeSettings::default().refusals_per_minute;
        let full = Room::new(4);
        for _ in 0..times + 1 {
            let problem = full.collect(Body::from("12345"), 8, &limits, address).await.err().unwrap();
            assert_eq!(problem.document()["code"], "server_unavailable");
        }
        for time in 0..=times {
            let problem = full.collect(Body::from("12345"), 4, &limits, address).await.err().unwrap();
            let expected = if time < times { "too_large" } else { "too_many" };
            assert_eq!(problem.document()["code"], expected, "{time}");
        }
    }

    #[test]
    fn brackets_in_texts_do_not_count() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{"b":1}],"c":[]}"#, 3),
            (r#"["[[[", "\"[[", "\\"]"#, 1),
            ("]]]][", 1),
        ] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_a_byte_a_second_is_given_up() {
        let byte = async |()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::convert::Infallible>("x"), ()))
        };
        let problem =
            collect(Body::from_stream(futures::stream::unfold((), byte)), 4 << 20).await.unwrap_err();
        assert_eq!(problem.document()["code"], "too_slow");
    }

    #[test]
    fn a_whole_number_is_one_with_a_decimal_point_as_well() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text)).ok();
        for (text, expected) in [
            ("null", None),
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("0", Some(0)),
            ("9223372036854775807", Some(i64::MAX as u64)),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for wrong in ["7.5", "-1", "-1.0", "9223372036854775808", "1e300", "\"7\"", "true"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_as_deep_as_allowed_is_read() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse::<serde_json::Value>(nested(64).as_bytes()).is_ok());
        assert!(parse::<serde_json::Value>(nested(65).as_bytes()).is_err());
        assert!(parse::<serde_json::Value>(nested(1_000_000).as_bytes()).is_err());
    }
}
