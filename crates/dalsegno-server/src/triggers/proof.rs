//! Whether a delivery comes from who has the secret of a trigger.

use axum::http::HeaderMap;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use dalsegno_workspace::Signature;

/// How far the time of a delivery may be from now, in seconds, as Standard Webhooks has it.
const TOLERANCE: u64 = 5 * 60;

/// The least bytes of a secret: what is shorter can be guessed.
const SECRET_MIN: usize = 16;

/// How secrets of Standard Webhooks begin.
const PREFIX: &str = "whsec_";

/// Why no delivery can prove anything with a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongSecret {
    #[error("it is shorter than {SECRET_MIN} bytes: use a longer one")]
    Short,
    #[error("it is not base64 behind `whsec_`, as Standard Webhooks writes secrets")]
    NotBase64,
}

/// The key of the secret of a trigger.
///
/// # Errors
/// When it is too short, or does not have the form of its kind.
pub(crate) fn key(signature: &Signature, secret: &str) -> Result<Vec<u8>, WrongSecret> {
    let key = match signature {
        Signature::Standard => {
            let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
            BASE64.decode(encoded.as_bytes()).map_err(|_| WrongSecret::NotBase64)?
        }
        Signature::Github | Signature::Token { .. } => secret.as_bytes().to_vec(),
    };
    if key.len() < SECRET_MIN { Err(WrongSecret::Short) } else { Ok(key) }
}

/// Says whether a delivery is signed with the key, `now` in milliseconds since the epoch.
///
/// The code of the body is computed in every case, and compared in constant time, so that the time that this takes says nothing of
/// the key or of what was wrong.
pub(crate) fn holds(signature: &Signature, key: &[u8], headers: &HeaderMap, body: &[u8], now: u64) -> bool {
    match signature {
        Signature::Standard => {
            let (id, time) = (header(headers, "webhook-id"), header(headers, "webhook-timestamp"));
            let code = code(key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
            let signed = header(headers, "webhook-signature")
                .split(' ')
                .filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?.as_bytes()).ok());
            // While a secret is exchanged, a sender signs with both.
            let is_signed = signed.fold(false, |is_signed, shown| is_signed | is_same(&code, &shown));
            is_signed && !id.is_empty() && is_recent(time, now)
        }
        Signature::Github => {
            let code = code(key, &[body]);
            let shown = header(headers, "x-hub-signature-256").strip_prefix("sha256=").unwrap_or_default();
            is_same(&code, &HEXLOWER_PERMISSIVE.decode(shown.as_bytes()).unwrap_or_default())
        }
        Signature::Token { header: name, .. } => {
            let _ = code(key, &[body]);
            let shown = header(headers, name);
            let shown = match name.as_str() {
                "authorization" => bearer(shown),
                _ => shown,
            };
            // Hashes of equal length are compared, so that not even the length of the secret shows.
            blake3::hash(shown.as_bytes()) == blake3::hash(key)
        }
    }
}

fn code(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key of any length is one.
    let mut code = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        code.update(part);
    }
    code
}

fn is_same(code: &Hmac<Sha256>, shown: &[u8]) -> bool {
    code.clone().verify_slice(shown).is_ok()
}

/// The one value of a header; nothing where there is none, or several.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let mut values = headers.get_all(name).iter();
    let first = values.next().filter(|_| values.next().is_none());
    first.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn bearer(text: &str) -> &str {
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => "",
    }
}

fn is_recent(time: &str, now: u64) -> bool {
    let is_number = time.bytes().all(|digit| digit.is_ascii_digit());
    let seconds = time.parse::<u64>().ok().filter(|_| is_number);
    seconds.is_some_and(|seconds| seconds.abs_diff(now / 1_000) <= TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard.
    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const TIME: u64 = 1_649_367_553;
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNED: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn standard(id: &str, time: &str, signed: &str, body: &[u8], now: u64) -> bool {
        let key = key(&Signature::Standard, SECRET).unwrap();
        let headers =
            headers(&[("webhook-id", id), ("webhook-timestamp", time), ("webhook-signature", signed)]);
        holds(&Signature::Standard, &key, &headers, body, now * 1_000)
    }

    #[test]
    fn the_example_of_the_standard_holds_and_nothing_near_it_does() {
        let time = TIME.to_string();
        assert!(standard(ID, &time, SIGNED, BODY, TIME));
        assert!(standard(ID, &time, &format!("v1,AAAA v2,x {SIGNED}"), BODY, TIME));
        for (id, signed, body) in [
            ("msg_other", SIGNED, BODY),
            ("", SIGNED, BODY),
            (ID, "", BODY),
            (ID, "v1,", BODY),
            (ID, &SIGNED[3..], BODY),
            (ID, &SIGNED[..20], BODY),
            (ID, SIGNED, &BODY[1..]),
            (ID, &SIGNED.replace("v1", "v1a"), BODY),
        ] {
            assert!(!standard(id, &time, signed, body, TIME), "{id} {signed}");
        }
    }

    #[test]
    fn a_time_may_be_five_minutes_off_and_no_more() {
        let time = TIME.to_string();
        for (now, expected) in
            [(TIME - 301, false), (TIME - 300, true), (TIME + 300, true), (TIME + 301, false)]
        {
            assert_eq!(standard(ID, &time, SIGNED, BODY, now), expected, "{now}");
        }
        for wrong in ["", "x", "-1", "+1649367553", "1649367553.0", "99999999999999999999"] {
            assert!(!is_recent(wrong, TIME * 1_000), "{wrong}");
        }
    }

    #[test]
    fn the_example_of_github_holds_and_nothing_near_it_does() {
        // The one of GitHub's own pages.
        let key = key(&Signature::Github, "It's a Secret to Everybody").unwrap();
        let signed = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let holds = |signed: &str, body: &[u8]| {
            holds(&Signature::Github, &key, &headers(&[("x-hub-signature-256", signed)]), body, 0)
        };
        assert!(holds(signed, b"Hello, World!"));
        assert!(holds(&signed.to_uppercase().replace("SHA256", "sha256"), b"Hello, World!"));
        for (wrong, body) in [
            (signed, &b"Hello, World"[..]),
            (&signed[7..], b"Hello, World!"),
            (&signed[..60], b"Hello, World!"),
            ("sha256=", b"Hello, World!"),
            ("", b"Hello, World!"),
            (&signed.replace("sha256", "sha1"), b"Hello, World!"),
        ] {
            assert!(!holds(wrong, body), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_the_whole_secret_in_one_header() {
        let secret = "a secret of twenty-five b";
        let token = |header: &str| Signature::Token { header: header.to_owned(), id: None };
        let key = key(&token("x-token"), secret).unwrap();
        let holds =
            |name: &'static str, value: &str| holds(&token(name), &key, &headers(&[(name, value)]), b"", 0);
        assert!(holds("x-token", secret));
        assert!(holds("authorization", &format!("bearer {secret}")));
        for wrong in ["", &secret[1..], &format!("{secret}x"), &secret.to_uppercase()] {
            assert!(!holds("x-token", wrong), "{wrong}");
            assert!(!holds("authorization", &format!("Bearer {wrong}")), "{wrong}");
        }
        assert!(!holds("authorization", secret));
        assert!(!holds("authorization", &format!("Basic {secret}")));
    }

    #[test]
    fn a_header_that_is_there_twice_proves_nothing() {
        let secret = "a secret of twenty-five b";
        let token = Signature::Token { header: "x-token".to_owned(), id: None };
        let mut twice = headers(&[("x-token", secret)]);
        twice.append("x-token", secret.parse().unwrap());
        assert!(!holds(&token, secret.as_bytes(), &twice, b"", 0));
    }

    #[test]
    fn a_secret_that_can_be_guessed_or_is_none_is_refused() {
        for (signature, secret, expected) in [
            (Signature::Github, "", WrongSecret::Short),
            (Signature::Github, "fifteen letters", WrongSecret::Short),
            (Signature::Standard, "whsec_", WrongSecret::Short),
            (Signature::Standard, "whsec_not base64 at all", WrongSecret::NotBase64),
        ] {
            assert_eq!(key(&signature, secret), Err(expected), "{secret}");
        }
    }
}
