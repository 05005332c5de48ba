//! From one request of a run to the next, what was sent stays as it was: that is what a provider's cache finds again.

use dalsegno_models::Wire;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use crate::requests::{sent, with_tools};

/// One round of a conversation: a reply with its calls and their results, or an answer and the user's next words.
fn round() -> impl Strategy<Value = Vec<Value>> {
    let words = "[ -~äß€😀]{0,12}";
    let call = (words, prop::bool::ANY);
    let calls = (words, prop::collection::vec(call, 1..4), 0..1000u32).prop_map(|(text, calls, number)| {
        let id = |index: usize| format!("call-{number}-{index}");
        let mut parts = vec![json!({"text": text})];
        let mut results = Vec::new();
        for (index, (result, is_error)) in calls.into_iter().enumerate() {
            let verdict = json!({"valid": {"arguments": {"n": index}}});
            let arguments = format!("{{\"n\": {index}}}");
            parts.push(json!({"call": {"call_id": id(index), "name": "risk__score", "arguments": arguments, "verdict": verdict}}));
            results.push(json!({"tool_result": {"call_id": id(index), "name": "risk__score", "content": result, "is_error": is_error}}));
        }
        [vec![json!({"assistant": {"parts": parts, "stop": "tool_calls"}})], results].concat()
    });
    let answer = (words, words).prop_map(|(text, next)| {
        vec![json!({"assistant": {"parts": [{"text": text}], "stop": "end"}}), json!({"user": next})]
    });
    prop_oneof![2 => calls, 1 => answer]
}

/// What a body has before the conversation, and the blocks of the conversation, each with who says it; without marks, which
/// move on with the end.
fn split(mut body: Value) -> (Value, Vec<Value>) {
    strip(&mut body);
    let list = ["messages", "input", "contents"].into_iter().find(|name| body[*name].is_array()).unwrap();
    let Value::Array(messages) = body[list].take() else { unreachable!("it is a list") };
    let within = if list == "contents" { "parts" } else { "content" };
    let blocks = messages.into_iter().flat_map(|message| match &message[within] {
        // Neighbours of one speaker are one message on some wires.
        Value::Array(blocks) => blocks.iter().map(|block| json!([message["role"], block])).collect(),
        _ => vec![message],
    });
    let blocks = blocks.collect();
    (body, blocks)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => {
            items.retain(|item| item.get("cachePoint").is_none());
            items.iter_mut().for_each(strip);
        }
        _ => {}
    }
}

fn is_prefix(before: &[Value], after: &[Value]) -> Result<(), TestCaseError> {
    prop_assert!(before.len() <= after.len(), "{before:?} is longer than {after:?}");
    for (one, other) in before.iter().zip(after) {
        prop_assert_eq!(one.to_string(), other.to_string());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_sent_stays_as_it_was(rounds in prop::collection::vec(round(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for wire in Wire::ALL {
            let mut entries = vec![json!({"instructions": "Be brief."}), json!({"user": "Is the disk full?"})];
            let mut before: Option<(Value, Vec<Value>)> = None;
            for round in [Vec::new()].into_iter().chain(rounds.iter().cloned()) {
                entries.extend(round);
                let body = runtime.block_on(sent(wire, &with_tools(json!(entries))));
                let now = split(body);
                if let Some((fields, conversation)) = before {
                    prop_assert_eq!(fields.to_string(), now.0.to_string());
                    is_prefix(&conversation, &now.1)?;
                }
                before = Some(now);
            }
        }
    }
}

/// The end of the request before has a mark in the next one: the provider looks for what it has kept at marks, and only 20
/// blocks back.
#[tokio::test]
async fn the_request_before_is_found_however_much_came_since() {
    let ids: Vec<String> = (0..30).map(|number| format!("c{number}")).collect();
    let call = |id: &String| {
        let verdict = json!({"valid": {"arguments": {"n": 1}}});
        json!({"call": {"call_id": id, "name": "risk__score", "arguments": "{\"n\":1}", "verdict": verdict}})
    };
    let calls: Vec<Value> = ids.iter().map(call).collect();
    let result = |id: &String| json!({"tool_result": {"call_id": id, "name": "risk__score", "content": "7", "is_error": false}});
    let start = vec![json!({"instructions": "Be brief."}), json!({"user": "All disks?"})];
    let reply = json!({"assistant": {"parts": calls, "stop": "tool_calls"}});
    let rest = [start.clone(), vec![reply], ids.iter().map(result).collect()].concat();
    let first = sent(Wire::Anthropic, &with_tools(json!(start))).await;
    let second = sent(Wire::Anthropic, &with_tools(json!(rest))).await;
    let mark = json!({"type": "ephemeral"});
    assert_eq!(first["messages"][0], second["messages"][0]);
    assert_eq!(first["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(second["messages"][2]["content"][29]["cache_control"], mark);
    let marks = second.to_string().matches("cache_control").count();
    assert_eq!(marks, 3, "the wire takes four: {second}");
}
