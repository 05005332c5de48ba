//! How a model is asked: each setting on each wire.

use std::sync::Arc;

use dalsegno_core::{ModelControl, ProviderTool, Reasoning, ToolChoice, Verbosity};
use dalsegno_models::{CompletionRequest, HttpModel, Model, ModelErrorKind, Retry, Wire};
use serde_json::{Value, json};

use crate::double::{Answer, Double};
use crate::requests::{ask, hello, plain, sent, settings, with_tools};

/// A request with tools and these settings.
fn request(control: ModelControl) -> CompletionRequest {
    let mut request = with_tools(json!([{"user": "hi"}]));
    request.settings.control = control.into();
    request
}

/// What a setting adds to the body.
async fn adds(wire: Wire, control: ModelControl) -> Value {
    let (before, after) =
        (sent(wire, &request(ModelControl::default())).await, sent(wire, &request(control)).await);
    let changed = after.as_object().unwrap().iter().filter(|(name, value)| before.get(*name) != Some(*value));
    changed.map(|(name, value)| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

fn control() -> ModelControl {
    ModelControl::default()
}

#[tokio::test]
async fn each_setting_has_its_field_on_each_wire() {
    use Wire::{Anthropic, OpenaiChat, OpenaiResponses};
    let cases = [
        (
            ModelControl { top_p: Some(0.5), ..control() },
            [json!({"top_p": 0.5}), json!({"top_p": 0.5}), json!({"top_p": 0.5})],
        ),
        (
            ModelControl { service_tier: Some("flex".to_owned()), ..control() },
            [
                json!({"service_tier": "flex"}),
                json!({"service_tier": "flex"}),
                json!({"service_tier": "flex"}),
            ],
        ),
        (
            ModelControl { parallel_tool_calls: Some(false), ..control() },
            [
                json!({"parallel_tool_calls": false}),
                json!({"parallel_tool_calls": false}),
                json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            ],
        ),
        (
            ModelControl { reasoning: Some(Reasoning::Low), ..control() },
            [
                json!({"reasoning_effort": "low"}),
                json!({"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}),
                json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}, "max_tokens": 32_000}),
            ],
        ),
        (
            ModelControl { reasoning: Some(Reasoning::None), ..control() },
            [
                json!({"reasoning_effort": "none"}),
                json!({"reasoning": {"effort": "none"}}),
                json!({"thinking": {"type": "disabled"}}),
            ],
        ),
    ];
    for (control, expected) in cases {
        for (wire, expected) in [OpenaiChat, OpenaiResponses, Anthropic].into_iter().zip(expected) {
            assert_eq!(adds(wire, control.clone()).await, expected, "{wire} {control:?}");
        }
    }
    let stop = ModelControl { stop: vec!["END".to_owned()], ..control() };
    assert_eq!(
        adds(Wire::Gemini, stop.clone()).await,
        json!({"generationConfig": {"stopSequences": ["END"]}})
    );
    assert_eq!(adds(OpenaiChat, stop.clone()).await, json!({"stop": ["END"]}));
    assert_eq!(adds(Anthropic, stop).await, json!({"stop_sequences": ["END"]}));
    let verbosity = ModelControl { verbosity: Some(Verbosity::Low), ..control() };
    assert_eq!(adds(OpenaiChat, verbosity.clone()).await, json!({"verbosity": "low"}));
    assert_eq!(adds(OpenaiResponses, verbosity).await, json!({"text": {"verbosity": "low"}}));
    assert_eq!(adds(OpenaiChat, ModelControl { seed: Some(7), ..control() }).await, json!({"seed": 7}));
}

#[tokio::test]
async fn a_setting_that_a_wire_does_not_have_is_refused_before_anything_is_sent() {
    use Wire::{Anthropic, Bedrock, Gemini, OpenaiChat, OpenaiResponses};
    let budget = ModelControl { reasoning: Some(Reasoning::MaxTokens(2_000)), ..control() };
    let seed = ModelControl { seed: Some(7), ..control() };
    let stop = ModelControl { stop: vec!["END".to_owned()], ..control() };
    let verbosity = ModelControl { verbosity: Some(Verbosity::Low), ..control() };
    let alone = ModelControl { parallel_tool_calls: Some(false), ..control() };
    let fetch = ModelControl { provider_tools: vec![ProviderTool::WebFetch], ..control() };
    for (wire, control, name) in [
        (OpenaiChat, &budget, "reasoning.max_tokens"),
        (OpenaiResponses, &budget, "reasoning.max_tokens"),
        (OpenaiResponses, &seed, "seed"),
        (OpenaiChat, &fetch, "provider_tools"),
        (OpenaiResponses, &fetch, "web_fetch"),
        (Bedrock, &fetch, "provider_tools"),
        (Anthropic, &seed, "seed"),
        (OpenaiResponses, &stop, "stop"),
        (Anthropic, &verbosity, "verbosity"),
        (Gemini, &verbosity, "verbosity"),
        (Gemini, &alone, "parallel_tool_calls"),
        // Of a model that is not Claude.
        (Bedrock, &budget, "reasoning.max_tokens"),
        (Bedrock, &seed, "seed"),
        (Bedrock, &verbosity, "verbosity"),
        (Bedrock, &alone, "parallel_tool_calls"),
    ] {
        let double = Double::start([]).await;
        let model = HttpModel::new(settings(wire, &double), None).unwrap();
        let error = model.complete(&request(control.clone()), &()).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
        assert_eq!(
            error.message,
            format!("the wire `{wire}` has no `{name}`: remove it from the model's settings")
        );
        assert_eq!(double.connections(), 0);
    }
}

#[tokio::test]
async fn the_tools_of_a_provider_stand_behind_those_of_the_agent() {
    let tools = |tools: &[ProviderTool]| ModelControl { provider_tools: tools.to_vec(), ..control() };
    let all = ProviderTool::ALL;
    let two = [ProviderTool::WebSearch, ProviderTool::CodeExecution];
    for (wire, asked, expected) in [
        (
            Wire::Anthropic,
            all.as_slice(),
            json!([
                {"type": "code_execution_20250825", "name": "code_execution"},
                {"type": "web_fetch_20250910", "name": "web_fetch"},
                {"type": "web_search_20250305", "name": "web_search"},
            ]),
        ),
        (
            Wire::OpenaiResponses,
            two.as_slice(),
            json!([{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]),
        ),
        (
            Wire::Gemini,
            all.as_slice(),
            json!([{"codeExecution": {}}, {"urlContext": {}}, {"googleSearch": {}}]),
        ),
    ] {
        let of = async |request: &CompletionRequest| sent(wire, request).await["tools"].clone();
        let (own, expected) = (of(&request(control())).await, expected.as_array().unwrap());
        let own = own.as_array().unwrap();
        let both: Vec<Value> = own.iter().chain(expected).cloned().collect();
        assert_eq!(of(&request(tools(asked))).await, Value::Array(both), "{wire}");
        // An agent without tools of its own.
        let mut alone = plain(json!([{"user": "hi"}]));
        alone.settings.control = tools(asked).into();
        assert_eq!(of(&alone).await, Value::Array(expected.clone()), "{wire}");
        // A last answer calls nothing: where the wire has no word for that, the tools are left out.
        let last = CompletionRequest { tool_choice: ToolChoice::None, ..request(tools(asked)) };
        let body = sent(wire, &last).await;
        match wire {
            Wire::Gemini => assert_eq!(body["tools"], Value::Array(own.clone())),
            Wire::Anthropic => assert_eq!(body["tool_choice"], json!({"type": "none"})),
            _ => assert_eq!(body["tool_choice"], json!("none")),
        }
    }
}

#[tokio::test]
async fn a_call_can_be_demanded() {
    for (wire, required, named) in [
        (
            Wire::OpenaiChat,
            json!("required"),
            json!({"type": "function", "function": {"name": "disk__free"}}),
        ),
        (Wire::OpenaiResponses, json!("required"), json!({"type": "function", "name": "disk__free"})),
        (Wire::Anthropic, json!({"type": "any"}), json!({"type": "tool", "name": "disk__free"})),
    ] {
        let chosen = async |choice: ToolChoice| {
            let request = CompletionRequest { tool_choice: choice, ..request(control()) };
            sent(wire, &request).await["tool_choice"].clone()
        };
        assert_eq!(chosen(ToolChoice::Required).await, required);
        assert_eq!(chosen(ToolChoice::Tool("disk.free".parse().unwrap())).await, named);
        assert_eq!(
            chosen(ToolChoice::Tool("secret.read".parse().unwrap())).await,
            required,
            "it is forbidden"
        );
    }
}

#[tokio::test]
async fn strict_tools_are_asked_for_where_a_schema_has_the_form() {
    for wire in [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Bedrock] {
        let mut request = request(ModelControl { strict: Some(true), ..control() });
        let tools = &mut Arc::make_mut(&mut request.tools).tools;
        tools.get_mut(&"risk.score".parse().unwrap()).unwrap().input_schema =
            json!({"type": "object"}).into();
        let body = sent(wire, &request).await;
        let place = |index: usize| match wire {
            Wire::OpenaiChat => body["tools"][index]["function"].clone(),
            Wire::Bedrock => body["toolConfig"]["tools"][index]["toolSpec"].clone(),
            _ => body["tools"][index].clone(),
        };
        let parameters = match wire {
            Wire::Anthropic => "/input_schema",
            Wire::Bedrock => "/inputSchema/json",
            _ => "/parameters",
        };
        assert_eq!(place(0)["strict"], true, "{wire}");
        assert_eq!(place(0).pointer(parameters).unwrap()["additionalProperties"], false);
        assert_ne!(place(1)["strict"], true, "{wire}: a tool that takes anything");
        assert_eq!(place(1).pointer(parameters).unwrap(), &json!({"type": "object"}));
    }
    let body = sent(Wire::Gemini, &request(ModelControl { strict: Some(true), ..control() })).await;
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "VALIDATED"}}));
}

/// The limit of a reply counts the thinking, and the API refuses a budget that is not below it.
#[tokio::test]
async fn the_limit_of_a_reply_is_above_the_budget_of_its_thinking() {
    let budget = |tokens| ModelControl { reasoning: Some(Reasoning::MaxTokens(tokens)), ..control() };
    for (control, limit, extra, max_tokens, thinking) in [
        (budget(16_000), None, json!({}), 24_192, json!({"type": "enabled", "budget_tokens": 16_000})),
        (
            budget(16_000),
            Some(20_000),
            json!({}),
            20_000,
            json!({"type": "enabled", "budget_tokens": 16_000}),
        ),
        (budget(16_000), Some(8_000), json!({}), 8_000, json!({"type": "enabled", "budget_tokens": 6_976})),
        (budget(16_000), Some(1_500), json!({}), 1_500, json!({"type": "disabled"})),
        (
            control(),
            None,
            json!({"thinking": {"type": "enabled", "budget_tokens": 16_000}}),
            24_192,
            json!({"type": "enabled", "budget_tokens": 16_000}),
        ),
        (
            control(),
            Some(8_000),
            json!({"thinking": {"type": "enabled", "budget_tokens": 16_000, "display": "omitted"}}),
            8_000,
            json!({"type": "enabled", "budget_tokens": 6_976, "display": "omitted"}),
        ),
    ] {
        let double = Double::start([Answer::events(hello(Wire::Anthropic), 64)]).await;
        let mut settings = settings(Wire::Anthropic, &double);
        settings.extra = extra.as_object().unwrap().clone();
        let mut request = plain(json!([{"user": "hi"}]));
        request.settings.control = control.into();
        request.settings.max_output_tokens = limit;
        HttpModel::new(settings, None).unwrap().complete(&request, &()).await.unwrap();
        let body = double.only().body;
        assert_eq!((&body["max_tokens"], &body["thinking"]), (&json!(max_tokens), &thinking));
    }
}

#[tokio::test]
async fn headers_and_the_count_of_tokens_are_settings() {
    let double = Double::start([Answer::events(hello(Wire::OpenaiChat), 64)]).await;
    let mut settings = settings(Wire::OpenaiChat, &double);
    settings.headers.insert("OpenAI-Organization".to_owned(), "org-1".to_owned());
    settings.stream_options = false;
    HttpModel::new(settings.clone(), None)
        .unwrap()
        .complete(&plain(json!([{"user": "hi"}])), &())
        .await
        .unwrap();
    let received = double.only();
    assert_eq!(received.headers["openai-organization"], "org-1");
    assert!(received.body.get("stream_options").is_none());
    for (name, value, words) in [
        ("authorization", "Bearer x", "Dalsegno sets this header itself"),
        ("Content-Type", "x", "Dalsegno sets this header itself"),
        ("a b", "x", "it is not the name of a header"),
        ("x-a", "a\nb", "its value cannot stand in a header"),
    ] {
        let mut settings = settings.clone();
        settings.headers.insert(name.to_owned(), value.to_owned());
        let error = HttpModel::new(settings, None).unwrap_err().to_string();
        assert_eq!(error, format!("`headers` cannot set `{name}`: {words}"));
    }
}

/// The provider pauses a long reply, and continues when it is sent back.
#[tokio::test]
async fn a_paused_reply_is_gone_on_with() {
    let stream = |blocks: &[Value], stop: &str, tokens: u64| {
        let mut events = vec![json!({"type": "message_start", "message": {"usage": {"input_tokens": 10}}})];
        for (index, block) in blocks.iter().enumerate() {
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        }
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": tokens}}));
        events.push(json!({"type": "message_stop"}));
        events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()
    };
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "disk"}});
    let first = stream(&[json!({"type": "text", "text": "I search. "}), search.clone()], "pause_turn", 5);
    let second = stream(&[json!({"type": "text", "text": "It is full."})], "end_turn", 3);
    let double = Double::start([Answer::events(&first, 64), Answer::events(&second, 64)]).await;
    let model = HttpModel::new(settings(Wire::Anthropic, &double), None).unwrap();
    let reply = model.complete(&plain(json!([{"user": "hi"}])), &()).await.unwrap();
    assert_eq!((reply.text().as_str(), reply.parts.len()), ("I search. It is full.", 3));
    assert_eq!((reply.input_tokens, reply.output_tokens), (20, 8));
    let sent = &double.received()[1].body["messages"];
    let mut last = search;
    last["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(
        sent[1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "I search. "}, last]})
    );
}

/// Nothing but the attempt's own time bounds how long a model may say nothing.
#[tokio::test]
async fn silence_is_bounded_by_the_attempt_unless_it_is_set() {
    use std::time::Duration;

    use crate::double::End;
    let mut request = plain(json!([{"user": "hi"}]));
    request.settings.timeout_ms = 50;
    let answer = Answer::events(&hello(Wire::OpenaiChat)[..20], 64).end(End::Silence);
    let error = ask(Wire::OpenaiChat, &request, answer.clone()).await.1.unwrap_err();
    assert!(error.message.contains("sent nothing for 0.05 s"), "{error}");
    request.settings.timeout_ms = 600_000;
    let double = Double::start([answer]).await;
    let mut settings = settings(Wire::OpenaiChat, &double);
    settings.idle_timeout = Some(Duration::from_millis(40));
    let error = HttpModel::new(settings, None).unwrap().complete(&request, &()).await.unwrap_err();
    assert!(error.message.contains("sent nothing for 0.04 s"), "{error}");
}
