//! The published test vectors of Signature Version 4 (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4).

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
const STS_TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

/// The name of a vector, its method, path, token and signature.
const VECTORS: [(&str, &str, &str, Option<&str>, &str); 7] = [
    ("get-vanilla", "GET", "/", None, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        "get-unreserved",
        "GET",
        "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        None,
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    (
        "get-slashes-normalized",
        "GET",
        "//example//",
        None,
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    (
        "get-vanilla-with-session-token",
        "GET",
        "/",
        Some(TOKEN),
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    ),
    ("post-vanilla", "POST", "/", None, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "post-vanilla-query",
        "POST",
        "/?Param1=value1",
        None,
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "post-sts-header-before",
        "POST",
        "/",
        Some(STS_TOKEN),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
];

fn key(parts: &[&str]) -> Revealed {
    Revealed { parts: parts.iter().map(|part| Secret::new(part)).collect(), read_from: None }
}

fn unsigned<'r>(method: &'r str, url: &'r Url) -> Unsigned<'r> {
    // 2015-08-30T12:36:00Z
    let now = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
    Unsigned { method, url, body: b"", region: "us-east-1", service: "service", now }
}

#[test]
fn requests_are_signed_as_published() {
    for (name, method, path, token, expected) in VECTORS {
        let url = Url::parse(&format!("https://example.amazonaws.com{path}")).unwrap();
        let mut headers = HeaderMap::new();
        let parts: Vec<&str> = ["AKIDEXAMPLE", SECRET].into_iter().chain(token).collect();
        unsigned(method, &url).sign(&key(&parts), &mut headers).unwrap();
        let signed = if token.is_some() { "host;x-amz-date;x-amz-security-token" } else { "host;x-amz-date" };
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={signed}, \
             Signature={expected}"
        );
        assert_eq!(headers["authorization"], authorization, "{name}");
        assert_eq!(headers["x-amz-date"], "20150830T123600Z", "{name}");
        assert_eq!(headers.get("x-amz-security-token").map(|value| value.to_str().unwrap()), token, "{name}");
        assert!(headers.values().all(HeaderValue::is_sensitive), "{name}");
    }
}

#[test]
fn a_key_that_no_header_can_hold_is_refused_without_being_told() {
    let url = Url::parse("https://example.amazonaws.com/").unwrap();
    for parts in [["AKID\nEXAMPLE", SECRET, TOKEN], ["AKIDEXAMPLE", SECRET, "token\r\nof two lines"]] {
        let error = unsigned("POST", &url).sign(&key(&parts), &mut HeaderMap::new()).unwrap_err();
        assert!(error.message.starts_with("cannot sign the request for AWS: "), "{error}");
        assert!(!parts.iter().any(|part| format!("{error:?}").contains(part)), "{error:?}");
    }
}

async fn read(document: &str) -> Result<Vec<String>, ModelError> {
    let revealed = AwsKey::Document(Arc::new(Secret::new(document))).reveal().await?;
    Ok(revealed.parts.iter().map(|part| part.expose().to_owned()).collect())
}

#[tokio::test]
async fn a_document_is_what_the_command_line_prints() {
    let process = r#"{"Version": 1, "AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "canary", "SessionToken": "token",
        "Expiration": "2999-01-01T00:00:00+00:00"}"#;
    assert_eq!(read(process).await.unwrap(), ["ASIAEXAMPLE", "canary", "token"]);
    let assumed = format!(r#"{{"Credentials": {process}, "AssumedRoleUser": {{}}}}"#);
    assert_eq!(read(&assumed).await.unwrap(), ["ASIAEXAMPLE", "canary", "token"]);
    let lasting = r#"{"AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "canary", "SessionToken": ""}"#;
    assert_eq!(read(lasting).await.unwrap(), ["AKIAEXAMPLE", "canary"]);
}

#[tokio::test]
async fn a_document_that_is_none_is_refused_without_being_told() {
    let over =
        r#"{"AccessKeyId": "canary", "SecretAccessKey": "canary", "Expiration": "2020-01-01T00:00:00Z"}"#;
    for (document, words) in [
        ("AWS_ACCESS_KEY_ID=canary", "the credentials are not JSON: expected JSON with `AccessKeyId`"),
        ("[\"canary\"]", "the credentials have no `AccessKeyId`"),
        (r#"{"AccessKeyId": "canary", "SecretAccessKey": 7}"#, "the credentials have no `SecretAccessKey`"),
        (over, "the AWS credentials of the model have expired"),
    ] {
        let error = read(document).await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}
