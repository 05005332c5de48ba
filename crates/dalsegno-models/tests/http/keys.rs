//! One endpoint for many keys: each request carries the key that it was made for, over connections that all share.

use std::sync::Arc;

use dalsegno_models::{AwsKey, HttpModel, HttpModelError, Model, Wire};
use dalsegno_secrets::{Reveal, Secret};
use serde_json::json;

use crate::double::{Answer, Double};
use crate::requests::{hello, plain, settings};

fn secret(text: &str) -> Arc<dyn Reveal> {
    Arc::new(Secret::new(text))
}

#[tokio::test]
async fn models_of_one_endpoint_share_its_connections_and_never_a_key() {
    for (wire, header, prefix) in [
        (Wire::OpenaiChat, "authorization", "Bearer "),
        (Wire::OpenaiResponses, "authorization", "Bearer "),
        (Wire::Anthropic, "x-api-key", ""),
        (Wire::Gemini, "x-goog-api-key", ""),
        (Wire::Bedrock, "authorization", "Bearer "),
    ] {
        let double = Double::start((0..6).map(|_| Answer::of(wire, hello(wire), 64))).await;
        let own = HttpModel::new(settings(wire, &double), Some(secret("key-of-all"))).unwrap();
        let models =
            [own.with_key(secret("key-of-one")), own.without_key(), own.with_key(secret("key-of-two")), own];
        for index in [0, 2, 1, 0, 3, 2] {
            models[index].complete(&plain(json!([])), &()).await.unwrap();
        }
        let keys: Vec<Option<String>> =
            double.received().iter().map(|request| request.headers.get(header).cloned()).collect();
        let key = |name: &str| Some(format!("{prefix}key-of-{name}"));
        assert_eq!(keys, [key("one"), key("two"), None, key("one"), key("all"), key("two")], "{wire}");
        assert_eq!(double.connections(), 1, "{wire}");
    }
}

#[tokio::test]
async fn a_key_that_signs_and_one_that_does_not_serve_the_same_endpoint() {
    let wire = Wire::Bedrock;
    let double = Double::start((0..3).map(|_| Answer::of(wire, hello(wire), 64))).await;
    let mut settings = settings(wire, &double);
    settings.region = Some("eu-central-1".to_owned());
    let shared = HttpModel::new(settings, Some(secret("key-of-all"))).unwrap();
    let document = json!({ "AccessKeyId": "AKIAONE", "SecretAccessKey": "of-one" }).to_string();
    let one = shared.with_aws_key(AwsKey::Document(secret(&document))).unwrap();
    for model in [&one, &shared, &one] {
        model.complete(&plain(json!([])), &()).await.unwrap();
    }
    let sent: Vec<String> =
        double.received().iter().map(|request| request.headers["authorization"].clone()).collect();
    let signed = "AWS4-HMAC-SHA256 Credential=AKIAONE/";
    assert!(sent[0].starts_with(signed) && sent[2].starts_with(signed), "{sent:?}");
    assert_eq!(sent[1], "Bearer key-of-all");
}

#[tokio::test]
async fn a_key_that_signs_needs_the_wire_and_the_region() {
    let key = || AwsKey::Document(secret("{}"));
    let double = Double::start([]).await;
    let of = |wire| HttpModel::new(settings(wire, &double), None).unwrap().with_aws_key(key());
    assert!(matches!(of(Wire::Bedrock), Err(HttpModelError::NoRegion)));
    assert!(matches!(of(Wire::OpenaiChat), Err(HttpModelError::NotSigned { wire: Wire::OpenaiChat })));
}
