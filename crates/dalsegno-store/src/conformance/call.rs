//! A record of a call.

use dalsegno_core::{CallRequest, EndedBy, LiveNews, LiveTokens, OperationId, ResponseEnd, Validation};

/// All that may happen in a call.
pub(super) fn conversed() -> Vec<LiveNews> {
    let command = OperationId::from_bytes([4; 16]);
    let response = || "resp_1".to_owned();
    let call = CallRequest {
        call_id: "call_1".into(),
        name: "shop.find_order".into(),
        arguments: r#"{"order":7}"#.into(),
        validation: Some(Validation::Valid { arguments: serde_json::json!({ "order": 7 }) }),
    };
    let tokens = LiveTokens { input: 120, output: 9, ..LiveTokens::default() };
    vec![
        LiveNews::Connected,
        LiveNews::Lost { reason: "reset".into() },
        LiveNews::Attached,
        LiveNews::SpeechStarted,
        LiveNews::SpeechStopped,
        LiveNews::Heard { text: "Where is my order?".into() },
        LiveNews::ResponseBegan { response: response(), command: Some(command) },
        LiveNews::Said { text: "I look.".into(), heard_ms: Some(400) },
        LiveNews::Asked { response: response(), call },
        LiveNews::Withdrawn { call_id: "call_1".into() },
        LiveNews::Counted { response: response(), tokens },
        LiveNews::Lasted { millis: 61_000, cost_nano_usd: Some(50_833_334) },
        LiveNews::ResponseEnded { response: response(), end: ResponseEnd::Interrupted },
        LiveNews::Played { response: response() },
        LiveNews::Cut { response: response(), heard_ms: 1_200 },
        LiveNews::Digit { digit: '#' },
        LiveNews::Told { text: "The kitchen is closed.".into(), by: Some("ada".into()) },
        LiveNews::Taken { command },
        LiveNews::Refused { command, code: "busy".into(), message: "a response is active".into() },
        LiveNews::Woke,
        LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() },
    ]
}
