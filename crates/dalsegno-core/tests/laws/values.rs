//! Texts and JSON values of all kinds.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Text: mostly short, now and then long, JSON, or deeply nested JSON.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z é😀{}\"\\\\]{0,12}",
        1 => Just("x".repeat(100_000)),
        1 => Just(r#"{"value": 0.75, "b": [1, null], "a": {}}"#.to_owned()),
        1 => (1..127_usize).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ]
}

/// A JSON value: mostly small, now and then as deep as a decoder lets through.
pub(crate) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z😀 ]{0,6}".prop_map(Value::from),
    ];
    let small = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            // Keys come in an order of their own, which must not matter where maps keep it.
            prop::collection::vec(("[a-d]", inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    let deep =
        (1..120_usize).prop_map(|depth| (0..depth).fold(Value::Null, |inner, _| json!({ "value": inner })));
    prop_oneof![12 => small, 1 => deep]
}
