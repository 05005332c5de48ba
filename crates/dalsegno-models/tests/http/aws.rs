//! Signatures, as a server of AWS reckons them itself: by hand, so that nothing here is what the crate uses.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_models::{AwsKey, HttpModel, HttpModelError, Model, ModelError, ModelErrorKind, Retry, Wire};
use dalsegno_secrets::{Reveal, RevealError, Secret};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::double::{Answer, Double, Received};
use crate::requests::{hello, plain, settings};

const REGION: &str = "eu-central-1";

/// An access key as the server knows it.
#[derive(Clone, Copy)]
struct Known {
    id: &'static str,
    secret: &'static str,
    session: Option<&'static str>,
}

const LASTING: Known =
    Known { id: "AKIACANARYCANARY", secret: "wJalrXUtnFEMI/K7MDENG+canary", session: None };

const OF_SESSION: Known = Known {
    id: "ASIACANARYCANARY",
    secret: "canary+of/a+session",
    session: Some("IQoJb3JpZ2luX2VjE//canary=="),
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Everything but letters, digits and `-._~`, percent-encoded.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The signature of a request by its headers, as the reference of Signature Version 4 describes it.
fn signature(received: &Received, signed: &str, scope: &str, secret: &str) -> String {
    let (method, target) = received.line.split_once(' ').unwrap();
    let target = target.split(' ').next().unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // The path is encoded already, and once more here: that is so for each service but S3.
    let path: Vec<String> = path.split('/').map(encoded).collect();
    let mut query: Vec<&str> = query.split('&').collect();
    query.sort_unstable();
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", received.headers[name])).collect();
    let body = hex(&Sha256::digest(received.text.as_bytes()));
    let canonical = format!("{method}\n{}\n{}\n{headers}\n{signed}\n{body}", path.join("/"), query.join("&"));
    let date = &received.headers["x-amz-date"];
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    hex(&hmac(&key, &to_sign))
}

/// What is wrong with a request, as AWS would say it.
fn refused(received: &Received, known: Known) -> Option<Answer> {
    let refuse = |name: &str, words: &str| {
        let answer = Answer::failure("403 Forbidden", &json!({"message": words}).to_string());
        Some(answer.header("x-amzn-errortype", format!("{name}:http://internal.amazon.com/coral/")))
    };
    let Some(header) = received.headers.get("authorization") else {
        return refuse("MissingAuthenticationTokenException", "Missing Authentication Token");
    };
    let Some(rest) = header.strip_prefix("AWS4-HMAC-SHA256 ") else {
        return refuse("IncompleteSignatureException", header);
    };
    let fields: Vec<(&str, &str)> = rest.split(", ").map(|field| field.split_once('=').unwrap()).collect();
    let [("Credential", credential), ("SignedHeaders", signed), ("Signature", given)] = fields[..] else {
        return refuse("IncompleteSignatureException", header);
    };
    let (id, scope) = credential.split_once('/').unwrap();
    if id != known.id || received.headers.get("x-amz-security-token").map(String::as_str) != known.session {
        let words = format!("The security token included in the request is invalid: {id}");
        return refuse("UnrecognizedClientException", &words);
    }
    let date = &received.headers["x-amz-date"];
    if scope != format!("{}/{REGION}/bedrock/aws4_request", &date[..8]) {
        return refuse("InvalidSignatureException", &format!("Credential should be scoped to {REGION}"));
    }
    let must = received.headers.keys().filter(|name| *name == "host" || name.starts_with("x-amz-"));
    let names: Vec<&str> = signed.split(';').collect();
    if let Some(name) = must.into_iter().find(|name| !names.contains(&name.as_str())) {
        return refuse("InvalidSignatureException", &format!("`{name}` must be signed"));
    }
    if signature(received, signed, scope, known.secret) != given {
        return refuse(
            "InvalidSignatureException",
            &format!(
                "The request signature we calculated does not match, for {header} and {:?}",
                known.session
            ),
        );
    }
    None
}

async fn server(known: Known, answers: usize) -> Double {
    let answers = (0..answers).map(|_| Answer::of(Wire::Bedrock, hello(Wire::Bedrock), 64));
    Double::checking(answers, move |received| refused(received, known)).await
}

fn secret(text: &str) -> Arc<dyn Reveal> {
    Arc::new(Secret::new(text))
}

fn parts(known: Known) -> AwsKey {
    AwsKey::Parts {
        access_key_id: secret(known.id),
        secret_access_key: secret(known.secret),
        session_token: known.session.map(secret),
    }
}

fn document(known: Known, expires: &str) -> String {
    json!({"Version": 1, "AccessKeyId": known.id, "SecretAccessKey": known.secret, "SessionToken": known.session,
        "Expiration": expires})
    .to_string()
}

fn model(double: &Double, name: &str, path: &str, key: AwsKey) -> HttpModel {
    let mut settings = settings(Wire::Bedrock, double);
    settings.model = name.to_owned();
    settings.base_url = Some(double.url(path));
    settings.region = Some(REGION.to_owned());
    settings.headers.insert("X-Amz-Team".to_owned(), "ops".to_owned());
    settings.headers.insert("X-Other".to_owned(), "not signed".to_owned());
    HttpModel::signing(settings, key).unwrap()
}

async fn asked(model: &HttpModel) -> Result<String, ModelError> {
    let reply = model.complete(&plain(json!([{"user": "Grüße, 🦀?"}])), &()).await;
    let shown = format!("{reply:?} {model:?}").to_lowercase();
    assert!(!shown.contains("canary"), "{shown}");
    reply.map(|reply| reply.text())
}

/// The reckoning of this file against a published vector: `post-sts-header-before` and `get-vanilla`.
#[test]
fn the_server_reckons_as_published() {
    let scope = "20150830/us-east-1/service/aws4_request";
    let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let received =
        Received { line: "GET / HTTP/1.1".to_owned(), headers, body: json!(null), text: String::new() };
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let vanilla = signature(&received, "host;x-amz-date", scope, secret);
    assert_eq!(vanilla, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    let post = Received { line: "POST /?Param1=value1 HTTP/1.1".to_owned(), ..received };
    let query = signature(&post, "host;x-amz-date", scope, secret);
    assert_eq!(query, "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11");
}

#[tokio::test]
async fn a_server_that_reckons_itself_takes_each_signature() {
    let names = [
        ("amazon.nova-lite-v1:0", "amazon.nova-lite-v1%3A0"),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0"),
        (
            "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.amazon.nova-pro-v1:0",
            "arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Ainference-profile%2Feu.amazon.nova-pro-v1%3A0",
        ),
        ("a b%2Fc/../ü", "a%20b%252Fc%2F..%2F%C3%BC"),
    ];
    for known in [LASTING, OF_SESSION] {
        for (name, encoded) in names {
            for (path, query) in [("", ""), ("/proxy/", ""), ("", "?b=2&a=1")] {
                let double = server(known, 2).await;
                let base = format!("{path}{query}");
                for key in [parts(known), AwsKey::Document(secret(&document(known, "2999-01-01T00:00:00Z")))]
                {
                    let reply = asked(&model(&double, name, &base, key)).await;
                    assert_eq!(reply.unwrap(), "Hello", "{name}, {base}");
                }
                let line = &double.received()[0].line;
                let path = path.trim_end_matches('/');
                assert_eq!(*line, format!("POST {path}/model/{encoded}/converse-stream{query} HTTP/1.1"));
            }
        }
    }
}

#[tokio::test]
async fn the_time_of_a_signature_is_now() {
    let double = server(LASTING, 1).await;
    asked(&model(&double, "m", "", parts(LASTING))).await.unwrap();
    let date = double.only().headers["x-amz-date"].clone();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let days = i64::try_from(now / 86_400).unwrap();
    // The day alone, as the calendar has it.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    assert_eq!(date[..8], format!("{year:04}{month:02}{day:02}"));
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_told_to_nobody() {
    let wrong = Known { secret: "another-canary-secret", ..LASTING };
    let double = server(LASTING, 0).await;
    let error = asked(&model(&double, "m", "", parts(wrong))).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
    assert!(error.message.contains("check `secret_access_key` and the `region`"), "{error}");
    assert!(error.message.contains("Credential=[secret]/"), "{error}");

    let other = Known { id: "AKIAANOTHERCANARY", ..LASTING };
    let error = asked(&model(&double, "m", "", parts(other))).await.unwrap_err();
    assert!(
        error.message.ends_with("check the access key, and its `session_token` if it is one of a session"),
        "{error}"
    );
}

/// Credentials of which each replaces the one before it.
struct Expiring(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl Reveal for Expiring {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        Ok(Secret::new(&self.0.lock().unwrap()[0]))
    }

    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, RevealError> {
        let mut documents = self.0.lock().unwrap();
        assert_eq!(documents.remove(0), refused.expose());
        Ok(documents.first().map(|document| Secret::new(document)))
    }
}

#[tokio::test]
async fn a_session_that_is_over_is_renewed() {
    let before = Known { session: Some("canary-of-yesterday"), ..OF_SESSION };
    let good = document(OF_SESSION, "2999-01-01T00:00:00Z");
    // It is known to be over, so nothing is sent with it; or the server says so.
    for (old, requests) in [("2020-01-01T00:00:00Z", 1), ("2998-01-01T00:00:00Z", 2)] {
        let double = server(OF_SESSION, 1).await;
        let documents = vec![document(before, old), good.clone()];
        let key = AwsKey::Document(Arc::new(Expiring(documents.into())));
        assert_eq!(asked(&model(&double, "m", "", key)).await.unwrap(), "Hello");
        assert_eq!(double.received().len(), requests);
    }
}

/// A secret that somebody changes after it was read once.
struct Changing(Mutex<Vec<&'static str>>);

#[async_trait::async_trait]
impl Reveal for Changing {
    async fn reveal(&self) -> Result<Secret, RevealError> {
        let mut values = self.0.lock().unwrap();
        Ok(Secret::new(if values.len() > 1 { values.remove(0) } else { values[0] }))
    }
}

#[tokio::test]
async fn parts_that_were_changed_are_read_again() {
    let double = server(OF_SESSION, 1).await;
    let key = AwsKey::Parts {
        access_key_id: secret(OF_SESSION.id),
        secret_access_key: secret(OF_SESSION.secret),
        session_token: Some(Arc::new(Changing(
            vec!["canary-of-yesterday", OF_SESSION.session.unwrap()].into(),
        ))),
    };
    assert_eq!(asked(&model(&double, "m", "", key)).await.unwrap(), "Hello");
    assert_eq!(double.received().len(), 2);
}

#[tokio::test]
async fn errors_of_aws_say_what_to_do() {
    let cases = [
        (
            "InvalidSignatureException",
            "Signature expired: 20260101T000000Z is now earlier than 20260101T000500Z (20260101T001000Z - 5 min.)",
            "; the clock of this machine is wrong: set it, since a signature holds for five minutes",
        ),
        (
            "InvalidSignatureException",
            "Signature not yet current: 20260101T001000Z is still later than 20260101T000500Z",
            "; the clock of this machine is wrong: set it, since a signature holds for five minutes",
        ),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            "; the session of the AWS credentials is over: log in again, or let `command` print new ones",
        ),
        (
            "AccessDeniedException",
            "You don't have access to the model",
            "; check the model's key, and that it may use this model",
        ),
    ];
    for (name, words, advice) in cases {
        for (header, body) in [
            (
                Some(format!("{name}:http://internal.amazon.com/coral/com.amazon.coral.service/")),
                json!({"message": words}),
            ),
            (None, json!({"__type": format!("com.amazon.coral.service#{name}"), "Message": words})),
        ] {
            let answer = Answer::failure("403 Forbidden", &body.to_string());
            let answer = header.iter().fold(answer, |answer, value| answer.header("x-amzn-errortype", value));
            let double = Double::start([answer]).await;
            let error = asked(&model(&double, "m", "", parts(LASTING))).await.unwrap_err();
            assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
            assert!(error.message.ends_with(&format!("403 Forbidden: {words}{advice}")), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_of_a_status_is_what_its_name_says() {
    use ModelErrorKind::{LimitExceeded, Protocol, RateLimited, Refused, Unavailable};
    for (status, name, words, kind) in [
        ("429 Too Many Requests", "ThrottlingException", "Too many requests, please wait", RateLimited),
        ("429 Too Many Requests", "ModelNotReadyException", "The model is not ready", RateLimited),
        ("424 Failed Dependency", "ModelErrorException", "The model failed", Protocol),
        ("400 Bad Request", "ValidationException", "The provided model identifier is invalid.", Refused),
        ("400 Bad Request", "ThrottlingException", "Rate exceeded", RateLimited),
        ("400 Bad Request", "ValidationException", "Input is too long for requested model.", LimitExceeded),
        ("400 Bad Request", "ServiceQuotaExceededException", "Too much", Refused),
        ("404 Not Found", "ResourceNotFoundException", "Could not resolve the model", Refused),
        ("500 Internal Server Error", "InternalServerException", "It broke.", Unavailable),
        (
            "503 Service Unavailable",
            "ServiceUnavailableException",
            "Bedrock is unable to process",
            Unavailable,
        ),
    ] {
        let body = json!({"message": words}).to_string();
        let double = Double::start([Answer::failure(status, &body).header("x-amzn-errortype", name)]).await;
        let error = asked(&model(&double, "m", "", parts(LASTING))).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (kind, kind.retry()), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_key_of_bedrock_itself_is_a_bearer_and_is_renewed() {
    let answers = [
        Answer::failure("403 Forbidden", r#"{"Message":"Bearer Token has expired"}"#)
            .header("x-amzn-errortype", "AccessDeniedException"),
        Answer::of(Wire::Bedrock, hello(Wire::Bedrock), 64),
    ];
    let double = Double::start(answers).await;
    let keys = ["bedrock-api-key-canary-1", "bedrock-api-key-canary-2"].map(str::to_owned).to_vec();
    let model =
        HttpModel::new(settings(Wire::Bedrock, &double), Some(Arc::new(Expiring(keys.into())))).unwrap();
    assert_eq!(asked(&model).await.unwrap(), "Hello");
    let sent: Vec<String> =
        double.received().iter().map(|received| received.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Bearer bedrock-api-key-canary-1", "Bearer bedrock-api-key-canary-2"]);
}

#[test]
fn a_region_is_needed_and_is_the_default_address() {
    let settings = |region: Option<&str>| {
        let mut settings = dalsegno_models::HttpModelSettings::new(Wire::Bedrock, "m:0");
        settings.region = region.map(str::to_owned);
        settings
    };
    for (region, address) in [
        ("eu-central-1", "https://bedrock-runtime.eu-central-1.amazonaws.com/model/m%3A0/converse-stream"),
        ("cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/m%3A0/converse-stream"),
    ] {
        let shown = format!("{:?}", HttpModel::new(settings(Some(region)), None).unwrap());
        assert!(shown.contains(&format!("\"{address}\"")), "{shown}");
    }
    let error = HttpModel::new(settings(None), None).unwrap_err();
    assert_eq!(error.to_string(), "the model has no `region`: add one such as `eu-central-1`");
    let error = HttpModel::signing(settings(None), parts(LASTING)).unwrap_err();
    assert!(matches!(error, HttpModelError::NoRegion), "{error:?}");
    for region in ["", "eu.evil.com/", "EU-central-1", "eu central", "-eu", "eu-", &"a".repeat(33)] {
        let error = HttpModel::new(settings(Some(region)), None).unwrap_err();
        assert!(matches!(error, HttpModelError::Region { .. }), "{error:?}");
    }
    let other = dalsegno_models::HttpModelSettings::new(Wire::Anthropic, "m");
    let error = HttpModel::signing(other, parts(LASTING)).unwrap_err().to_string();
    assert_eq!(error, "the wire `anthropic` takes no access key of AWS: give it an `api_key`");
}

#[test]
fn the_headers_of_a_signature_are_no_settings() {
    for name in ["X-Amz-Date", "x-amz-security-token", "x-amz-content-sha256"] {
        let mut settings = dalsegno_models::HttpModelSettings::new(Wire::Bedrock, "m");
        settings.region = Some(REGION.to_owned());
        settings.headers.insert(name.to_owned(), "x".to_owned());
        let error = HttpModel::new(settings, None).unwrap_err().to_string();
        assert_eq!(error, format!("`headers` cannot set `{name}`: Dalsegno sets this header itself"));
    }
}
