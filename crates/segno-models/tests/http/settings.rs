//! Addresses, names and additional fields.

use segno_models::{HttpModel, HttpModelError, HttpModelSettings, Model, Wire};
use serde_json::{Map, Value, json};

use crate::double::{Answer, Double};
use crate::requests::{hello, key, plain, settings};

#[test]
fn a_wire_has_the_name_that_a_workspace_gives() {
    for (name, wire) in [
        ("openai", Wire::OpenaiChat),
        ("openai-responses", Wire::OpenaiResponses),
        ("anthropic", Wire::Anthropic),
    ] {
        assert_eq!(name.parse::<Wire>().unwrap(), wire);
        assert_eq!(wire.to_string(), name);
    }
    let error = "gemini".parse::<Wire>().unwrap_err().to_string();
    assert_eq!(error, "there is no provider `gemini`: expected `openai`, `openai-responses` or `anthropic`");
}

#[test]
fn an_address_goes_on_with_the_path_of_its_wire() {
    let cases = [
        (Wire::OpenaiChat, None, "https://api.openai.com/v1/chat/completions"),
        (Wire::OpenaiResponses, None, "https://api.openai.com/v1/responses"),
        (Wire::Anthropic, None, "https://api.anthropic.com/v1/messages"),
        (Wire::OpenaiChat, Some("http://localhost:11434/v1/"), "http://localhost:11434/v1/chat/completions"),
        (Wire::OpenaiChat, Some("http://localhost:8080"), "http://localhost:8080/chat/completions"),
        (Wire::Anthropic, Some("http://localhost:8080/"), "http://localhost:8080/v1/messages"),
        (Wire::Anthropic, Some("http://localhost:8080/proxy/v1/"), "http://localhost:8080/proxy/v1/messages"),
    ];
    for (wire, base, expected) in cases {
        let mut settings = HttpModelSettings::new(wire, "m");
        settings.base_url = base.map(str::to_owned);
        let shown = format!("{:?}", HttpModel::new(settings, None).unwrap());
        assert!(shown.contains(&format!("\"{expected}\"")), "{shown}");
    }
}

#[test]
fn an_address_that_cannot_be_used_is_refused() {
    let cases = [
        ("api.openai.com/v1", "expected `https://…`"),
        ("ftp://example.com", "expected `https://…`, or `http://…` for a local server"),
        ("https://user:canary@example.com/v1", "give the key as a secret instead"),
        ("", "expected `https://…`"),
    ];
    for (base, words) in cases {
        let mut settings = HttpModelSettings::new(Wire::OpenaiChat, "m");
        settings.base_url = Some(base.to_owned());
        let error = HttpModel::new(settings, None).unwrap_err();
        assert!(matches!(error, HttpModelError::BaseUrl { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn extra_fields_are_merged_at_the_top() {
    let double = Double::start([Answer::events(hello(Wire::OpenaiResponses), 64)]).await;
    let mut settings = settings(Wire::OpenaiResponses, &double);
    settings.base_url = Some(double.url("/v1?api-version=7"));
    settings.extra = object(json!({"reasoning": {"effort": "low"}, "include": [], "temperature": 1}));
    let model = HttpModel::new(settings, None).unwrap();
    model.complete(&plain(json!([])), &()).await.unwrap();
    let received = double.only();
    let expected = json!({
        "model": "some-model",
        "input": [],
        "stream": true,
        "store": false,
        "include": [],
        "temperature": 1,
        "reasoning": {"effort": "low"},
    });
    assert_eq!(received.body, expected);
    assert_eq!(received.line, "POST /v1/responses?api-version=7 HTTP/1.1");
    assert!(!received.headers.contains_key("authorization"), "there is no key");
}

#[test]
fn extra_fields_cannot_replace_the_request() {
    for name in ["model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream"] {
        let mut settings = HttpModelSettings::new(Wire::OpenaiChat, "m");
        settings.extra = object(json!({"top_p": 1}));
        settings.extra.insert(name.to_owned(), json!(1));
        let error = HttpModel::new(settings, key()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`extra` cannot set `{name}`, which makes up the request itself")
        );
    }
}
