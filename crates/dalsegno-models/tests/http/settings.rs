//! Addresses, names and additional fields.

use std::sync::Arc;

use dalsegno_core::{JsonSchema, Tool, Toolbox};
use dalsegno_models::{HttpModel, HttpModelError, HttpModelSettings, Model, Wire};
use serde_json::{Map, Value, json};

use crate::double::{Answer, Double};
use crate::requests::{KEY, ask, hello, key, plain, settings};

#[test]
fn a_wire_has_the_name_that_a_workspace_gives() {
    for (name, wire) in [
        ("openai", Wire::OpenaiChat),
        ("openai-responses", Wire::OpenaiResponses),
        ("anthropic", Wire::Anthropic),
        ("gemini", Wire::Gemini),
        ("bedrock", Wire::Bedrock),
    ] {
        assert_eq!(name.parse::<Wire>().unwrap(), wire);
        assert_eq!(wire.to_string(), name);
    }
    let error = "palm".parse::<Wire>().unwrap_err().to_string();
    let words = "expected `openai`, `openai-responses`, `anthropic`, `gemini` or `bedrock`";
    assert_eq!(error, format!("there is no provider `palm`: {words}"));
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
        (
            Wire::Gemini,
            None,
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent",
        ),
        (
            Wire::Gemini,
            Some("https://eu-aiplatform.example.com/v1/projects/p/locations/l/publishers/google/"),
            "https://eu-aiplatform.example.com/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
        ),
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

#[test]
fn an_address_that_cannot_be_read_is_shown_without_its_secrets() {
    for base in [
        "https://user:canary@example.com:port/v1",
        "https://user:can/canary@exa mple.com/v1",
        "https://user:p?canary@[::1/v1",
        "https://user:p#canary@:1",
        "user:canary@example.com/v1",
        "https:/user:canary@example.com:99999",
        "ftp://canary@example.com",
        "ftp://example.com/v1?token=canary",
        "https://example.com:port/v1?token=canary",
        "https://example.com:port/v1#canary",
        "https://canary@example.com:444/a@b?canary#canary",
        "other://user:canary@example.com/v1?canary",
    ] {
        let mut settings = HttpModelSettings::new(Wire::OpenaiChat, "m");
        settings.base_url = Some(base.to_owned());
        let error = HttpModel::new(settings, None).unwrap_err();
        assert!(matches!(error, HttpModelError::BaseUrl { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert!(!base.contains("example") || error.to_string().contains("example"), "{error}");
    }
}

#[test]
fn an_address_beyond_this_machine_is_encrypted() {
    for (base, allow, refused) in [
        ("http://example.com/v1", false, true),
        ("http://10.0.0.1:11434/v1", false, true),
        ("http://localhost.example.com", false, true),
        ("http://127.0.0.1.example.com", false, true),
        ("http://0.0.0.0:1", false, true),
        ("http://[fe80::1]/v1", false, true),
        ("http://example.com/v1", true, false),
        ("https://example.com/v1", false, false),
        ("http://LOCALHOST:1/v1", false, false),
        ("http://127.1.2.3/v1", false, false),
        ("http://[::1]:1/v1", false, false),
    ] {
        for key in [key(), None] {
            let mut settings = HttpModelSettings::new(Wire::OpenaiChat, "m");
            settings.base_url = Some(base.to_owned());
            settings.allow_http = allow;
            let model = HttpModel::new(settings, key);
            assert_eq!(model.is_err(), refused, "{base}: {model:?}");
            if let Err(error) = model {
                assert!(matches!(error, HttpModelError::Insecure { .. }), "{error:?}");
                assert!(error.to_string().ends_with("set `allow_http` for your own network"), "{error}");
            }
        }
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

/// Models write an answer in the order of its schema: the reasoning has to stand before the answer.
#[tokio::test]
async fn schemas_are_sent_in_the_order_of_their_authors() {
    const SCHEMA: &str = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"string"}},"required":["reasoning","answer"],"additionalProperties":false}"#;
    for wire in Wire::ALL {
        let mut request = plain(json!([{"user": "hi"}]));
        let mut tools = Toolbox::default();
        let tool = Tool::new("Does it.".to_owned(), SCHEMA.parse::<JsonSchema>().unwrap());
        tools.tools.insert("note".parse().unwrap(), tool);
        request.tools = Arc::new(tools);
        request.output_schema = Some(Arc::new(SCHEMA.parse().unwrap()));
        let (received, reply) = ask(wire, &request, Answer::of(wire, hello(wire), 64)).await;
        reply.unwrap();
        // Over Bedrock, the model is told of the answer's schema in words.
        let words = received.text.replace("\\\"", "\"");
        assert_eq!(words.matches(SCHEMA).count(), 2, "{wire}: {}", received.text);
    }
}

#[tokio::test]
async fn the_key_is_in_the_header_that_is_asked_for() {
    let cases = [
        // Azure: a deployment in the path, the version in the query, the key alone in its header.
        (
            Wire::OpenaiChat,
            "/openai/deployments/d?api-version=2024-10-21",
            Some("api-key"),
            ("api-key", KEY.to_owned()),
        ),
        (Wire::OpenaiResponses, "/v1", Some("x-gateway-key"), ("x-gateway-key", KEY.to_owned())),
        // A gateway that speaks Anthropic's wire and wants a bearer.
        (Wire::Anthropic, "", Some("Authorization"), ("authorization", format!("Bearer {KEY}"))),
        (Wire::Anthropic, "", None, ("x-api-key", KEY.to_owned())),
        (Wire::Gemini, "", None, ("x-goog-api-key", KEY.to_owned())),
        (Wire::Gemini, "", Some("authorization"), ("authorization", format!("Bearer {KEY}"))),
        (Wire::OpenaiChat, "/v1", Some("X-Goog-Api-Key"), ("x-goog-api-key", KEY.to_owned())),
    ];
    for (wire, path, header, (name, value)) in cases {
        let double = Double::start([Answer::of(wire, hello(wire), 64)]).await;
        let mut settings = settings(wire, &double);
        settings.base_url = Some(double.url(path));
        settings.api_key_header = header.map(str::to_owned);
        HttpModel::new(settings, key()).unwrap().complete(&plain(json!([])), &()).await.unwrap();
        let sent = double.only();
        let with_key: Vec<_> = sent.headers.iter().filter(|(_, value)| value.contains(KEY)).collect();
        assert_eq!(with_key, [(&name.to_owned(), &value)], "{wire}");
        if header == Some("api-key") {
            assert_eq!(
                sent.line,
                "POST /openai/deployments/d/chat/completions?api-version=2024-10-21 HTTP/1.1"
            );
        }
    }
}

#[test]
fn a_header_of_the_request_itself_cannot_carry_the_key() {
    for name in
        ["", "a b", "api-key:", "host", "Content-Type", "accept", "content-length", "anthropic-version"]
    {
        let mut settings = HttpModelSettings::new(Wire::Anthropic, "m");
        settings.api_key_header = Some(name.to_owned());
        let error = HttpModel::new(settings, key()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("`api_key_header` is `{name}`")), "{error}");
    }
}

#[test]
fn extra_fields_cannot_replace_the_request() {
    let all = ["model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream"];
    let gemini = ["contents", "systemInstruction", "system_instruction", "tool_config", "generation_config"];
    let own: [(Wire, &[&str]); 5] = [
        (Wire::OpenaiChat, &["response_format", "functions", "function_call", "n"]),
        (Wire::OpenaiResponses, &["store", "background", "conversation", "previous_response_id", "prompt"]),
        (Wire::Anthropic, &["output_format"]),
        (Wire::Gemini, &gemini),
        (Wire::Bedrock, &["modelId", "toolConfig"]),
    ];
    for (wire, own) in own {
        let fields: Vec<&str> = wire.reserved().filter(|name| !name.contains('.')).collect();
        assert_eq!(fields, all.iter().chain(own).copied().collect::<Vec<_>>());
        for name in all.iter().chain(own) {
            let error = refused(wire, json!({"top_p": 1, *name: 1}));
            let words = format!("`extra` cannot set `{name}`, a field that Dalsegno sets itself: remove it");
            assert_eq!(error.to_string(), words);
        }
    }
}

#[test]
fn an_object_of_ours_takes_members_but_not_our_own() {
    for (wire, name, own) in [
        (Wire::OpenaiChat, "stream_options", "include_usage"),
        (Wire::OpenaiResponses, "text", "format"),
        (Wire::Anthropic, "output_config", "format"),
        (Wire::Gemini, "toolConfig", "functionCallingConfig"),
        (Wire::Gemini, "generationConfig", "candidateCount"),
        (Wire::Gemini, "generationConfig", "responseJsonSchema"),
        (Wire::Bedrock, "outputConfig", "textFormat"),
    ] {
        assert!(wire.reserved().any(|path| path == format!("{name}.{own}")), "{wire}");
        let error = refused(wire, json!({name: {own: 1}}));
        let words =
            format!("`extra` cannot set `{name}.{own}`, a field that Dalsegno sets itself: remove it");
        assert_eq!(error.to_string(), words);
        for value in [json!(null), json!(7), json!([])] {
            let error = refused(wire, json!({name: value}));
            assert!(matches!(error, HttpModelError::NotAnObject { .. }), "{error:?}");
            assert!(error.to_string().starts_with(&format!("`extra` sets `{name}` to ")), "{error}");
        }
    }
}

fn refused(wire: Wire, extra: Value) -> HttpModelError {
    let mut settings = HttpModelSettings::new(wire, "m");
    settings.extra = object(extra);
    HttpModel::new(settings, key()).unwrap_err()
}

/// What is sent of a request with a schema, and with limits or without.
async fn sent_with(wire: Wire, extra: Value, set: bool) -> Value {
    let double = Double::start([Answer::of(wire, hello(wire), 64)]).await;
    let mut settings = settings(wire, &double);
    settings.extra = object(extra);
    let mut request = plain(json!([{"user": "hi"}]));
    let mut closed = crate::requests::schema();
    closed["additionalProperties"] = json!(false);
    request.output_schema = Some(Arc::new(closed.into()));
    if set {
        request.settings.temperature = Some(0.25);
        request.settings.max_output_tokens = Some(300);
    }
    HttpModel::new(settings, None).unwrap().complete(&request, &()).await.unwrap();
    double.only().body
}

#[tokio::test]
async fn what_a_request_says_wins_over_extra_fields() {
    let chat = json!({
        "temperature": 1, "max_tokens": 9, "max_completion_tokens": 9, "stream_options": {"include_obfuscation": false},
    });
    let body = sent_with(Wire::OpenaiChat, chat.clone(), true).await;
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.25), &json!(300)));
    assert!(body.get("max_completion_tokens").is_none(), "one limit: {body}");
    assert_eq!(body["stream_options"], json!({"include_usage": true, "include_obfuscation": false}));
    assert_eq!(body["response_format"]["type"], "json_schema");
    let body = sent_with(Wire::OpenaiChat, chat, false).await;
    assert_eq!((&body["temperature"], &body["max_completion_tokens"]), (&json!(1), &json!(9)));

    let responses = json!({"temperature": 1, "max_output_tokens": 9, "text": {"verbosity": "low"}});
    let body = sent_with(Wire::OpenaiResponses, responses.clone(), true).await;
    assert_eq!((&body["temperature"], &body["max_output_tokens"]), (&json!(0.25), &json!(300)));
    assert_eq!(
        (&body["text"]["verbosity"], &body["text"]["format"]["type"]),
        (&json!("low"), &json!("json_schema"))
    );
    let body = sent_with(Wire::OpenaiResponses, responses, false).await;
    assert_eq!((&body["temperature"], &body["max_output_tokens"]), (&json!(1), &json!(9)));

    let anthropic = json!({"temperature": 1, "max_tokens": 9, "output_config": {"effort": "low"}});
    let body = sent_with(Wire::Anthropic, anthropic.clone(), true).await;
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.25), &json!(300)));
    let format = &body["output_config"]["format"]["type"];
    assert_eq!((&body["output_config"]["effort"], format), (&json!("low"), &json!("json_schema")));
    let body = sent_with(Wire::Anthropic, anthropic, false).await;
    assert_eq!(body["max_tokens"], 9, "our default is only a default");

    let safety = json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]);
    let config =
        json!({"temperature": 1, "maxOutputTokens": 9, "topK": 40, "thinkingConfig": {"thinkingBudget": -1}});
    let gemini = json!({"safetySettings": safety, "generationConfig": config});
    let body = sent_with(Wire::Gemini, gemini.clone(), true).await;
    assert_eq!(body["safetySettings"], safety);
    let config = &body["generationConfig"];
    assert_eq!((&config["temperature"], &config["maxOutputTokens"]), (&json!(0.25), &json!(300)));
    assert_eq!((&config["topK"], &config["responseMimeType"]), (&json!(40), &json!("application/json")));
    assert_eq!(config["thinkingConfig"], json!({"thinkingBudget": -1}));
    let body = sent_with(Wire::Gemini, gemini, false).await;
    let config = &body["generationConfig"];
    assert_eq!((&config["temperature"], &config["maxOutputTokens"]), (&json!(1), &json!(9)));

    let bedrock = json!({
        "inferenceConfig": {"maxTokens": 9, "topP": 0.5}, "requestMetadata": {"team": "ops"},
        "additionalModelRequestFields": {"top_k": 7},
    });
    let body = sent_with(Wire::Bedrock, bedrock.clone(), true).await;
    assert_eq!(body["inferenceConfig"], json!({"maxTokens": 300, "topP": 0.5, "temperature": 0.25}));
    assert_eq!(body["requestMetadata"], json!({"team": "ops"}));
    let body = sent_with(Wire::Bedrock, bedrock, false).await;
    assert_eq!(body["inferenceConfig"], json!({"maxTokens": 9, "topP": 0.5}));
    assert_eq!(body["additionalModelRequestFields"], json!({"top_k": 7}));
}

/// Models that do not reason refuse it.
#[tokio::test]
async fn encrypted_reasoning_is_asked_of_models_that_reason() {
    let encrypted = json!(["reasoning.encrypted_content"]);
    for (extra, expected) in [
        (json!({}), None),
        (json!({"reasoning": {"effort": "low"}}), Some(encrypted.clone())),
        (json!({"reasoning": {}, "include": []}), Some(json!([]))),
        (json!({"include": ["file_search_call.results"]}), Some(json!(["file_search_call.results"]))),
    ] {
        let body = sent_with(Wire::OpenaiResponses, extra, true).await;
        assert_eq!(body.get("include"), expected.as_ref());
    }
}
