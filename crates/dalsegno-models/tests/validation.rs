//! Validations of arguments, through one `check`.

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests that take `json!` literals"
)]

use std::thread;

use dalsegno_core::{Tool, ToolName, Toolbox, Validation};
use dalsegno_models::{
    MAX_ARGUMENT_BYTES, MAX_DEPTH, MAX_VIOLATIONS, Schema, SchemaError, Schemas, judge_call,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn toolbox(schema: Value) -> Toolbox {
    let mut toolbox = Toolbox::default();
    toolbox.tools.insert("risk.score".parse().unwrap(), Tool::new("Scores.".to_owned(), schema));
    toolbox
}

/// An object schema with these properties, and no others.
fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Judges a call of a tool with `schema`. Arguments that come as JSON must get the same validation as their text.
fn judge(schema: &Value, text: &str) -> Validation {
    let tools = toolbox(schema.clone());
    let validation = judge_call(&tools, "risk.score", text, false);
    if let Ok(value) = serde_json::from_str(text) {
        let tool: ToolName = "risk.score".parse().unwrap();
        assert_eq!(Schemas::compile(&tools).judge_arguments(&tool, value), validation, "{text}");
    }
    validation
}

/// Compares a validation, in one line for each violation, with what is expected.
#[track_caller]
fn check(schema: &Value, text: &str, expected: &str) {
    let found = match judge(schema, text) {
        Validation::Valid { arguments } => format!("valid {arguments}"),
        Validation::Invalid { violations } => {
            let lines =
                violations.iter().map(|violation| format!("{}: {}", violation.path, violation.message));
            lines.collect::<Vec<_>>().join("\n")
        }
        Validation::Malformed { message } => format!("malformed: {message}"),
        Validation::Truncated => "truncated".to_owned(),
    };
    assert_eq!(found, expected, "for {text}");
}

#[test]
fn missing_arguments_are_an_empty_object() {
    for text in ["", " \n", "{}"] {
        check(&object(json!({})), text, "valid {}");
    }
}

#[test]
fn arguments_that_are_no_json_object_are_malformed() {
    let schema = object(json!({}));
    check(&schema, "[1]", "malformed: the arguments are an array, expected an object");
    check(&schema, "null", "malformed: the arguments are null, expected an object");
    check(&schema, r#""{}""#, "malformed: the arguments are a string, expected an object");
    for text in ["{", "{'a': 1}", "{} {}", "NaN", r#"{"a": 1e999}"#, "\u{feff}{}"] {
        assert!(matches!(judge(&schema, text), Validation::Malformed { .. }), "{text}");
    }
}

#[test]
fn a_string_becomes_what_it_spells_where_no_string_is_accepted() {
    let cases = [
        (json!({"type": "integer"}), json!("3"), json!(3)),
        (json!({"type": "integer"}), json!("-9223372036854775808"), json!(i64::MIN)),
        (json!({"type": "integer"}), json!("18446744073709551615"), json!(u64::MAX)),
        (json!({"type": "number"}), json!("2.5"), json!(2.5)),
        (json!({"type": "number"}), json!("2.50"), json!(2.5)),
        (json!({"type": "number"}), json!("1e3"), json!(1000.0)),
        (json!({"type": "number"}), json!("-7"), json!(-7)),
        (json!({"type": "boolean"}), json!("true"), json!(true)),
        (json!({"type": "boolean"}), json!("false"), json!(false)),
        (json!({"type": "array", "items": {"type": "integer"}}), json!("[1, \"2\"]"), json!([1, 2])),
        (json!({"type": "object"}), json!("{\"b\": [1]}"), json!({"b": [1]})),
        (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!("3"), json!(3)),
        (json!({"type": ["integer", "boolean"]}), json!("true"), json!(true)),
        (json!({"enum": [1, 2]}), json!("2"), json!(2)),
        (json!({"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]}), json!("3"), json!(3)),
        (json!({"$ref": "#/$defs/count"}), json!("3"), json!(3)),
        (json!({"$ref": "#named"}), json!("3"), json!(3)),
        (json!({"additionalProperties": {"type": "integer"}}), json!({"x": "3"}), json!({"x": 3})),
        (
            json!({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
            json!(["1", "2"]),
            json!(["1", 2]),
        ),
        (
            json!({"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]}),
            json!({"n": "3"}),
            json!({"n": 3}),
        ),
    ];
    for (schema, given, expected) in cases {
        let mut schema = object(json!({ "a": schema }));
        schema["$defs"] =
            json!({"count": {"type": "integer"}, "other": {"$anchor": "named", "type": "integer"}});
        check(&schema, &json!({ "a": given }).to_string(), &format!("valid {}", json!({ "a": expected })));
    }
}

/// Providers that make every property come have models write null for what is not there.
#[test]
fn a_null_that_can_only_mean_nothing_is_left_out() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer"}, "b": {"type": ["integer", "null"]}, "c": {}, "d": {"enum": ["x"]},
            "e": {"anyOf": [{"type": "object", "properties": {"f": {"type": "string"}}}, {"type": "null"}]},
        },
    });
    let given = json!({"a": null, "b": null, "c": null, "d": null, "e": {"f": null}, "g": null});
    let left = json!({"b": null, "c": null, "e": {}, "g": null});
    check(&schema, &given.to_string(), &format!("valid {left}"));
    let mut required = schema;
    required["required"] = json!(["a"]);
    let validation = judge(&required, &json!({"a": null}).to_string());
    assert!(matches!(validation, Validation::Invalid { .. }), "{validation:?}");
}

#[test]
fn nothing_else_is_coerced() {
    let cases = [
        (json!({"type": "integer"}), json!(" 3")),
        (json!({"type": "integer"}), json!("+3")),
        (json!({"type": "integer"}), json!("03")),
        (json!({"type": "integer"}), json!("-0")),
        (json!({"type": "integer"}), json!("3.0")),
        (json!({"type": "integer"}), json!("18446744073709551616")),
        (json!({"type": "integer"}), json!(true)),
        (json!({"type": "integer"}), json!("")),
        (json!({"type": "number"}), json!("0.12345678901234567890123")),
        (json!({"type": "number"}), json!("123456789012345678901234")),
        (json!({"type": "number"}), json!("NaN")),
        (json!({"type": "boolean"}), json!("True")),
        (json!({"type": "boolean"}), json!(1)),
        (json!({"type": "null"}), json!("null")),
        (json!({"type": "array"}), json!("{}")),
        (json!({"type": "array"}), json!("1,2")),
        (json!({"type": "array"}), json!(1)),
        (json!({"type": "string"}), json!(3)),
        (json!({"type": "string", "maxLength": 0}), json!("3")),
        (json!({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 0}]}), json!("3")),
    ];
    for (schema, given) in cases {
        let validation = judge(&object(json!({ "a": schema })), &json!({ "a": given }).to_string());
        assert!(matches!(validation, Validation::Invalid { .. }), "{schema} took {given}: {validation:?}");
    }
}

#[test]
fn what_fits_stays_as_it_is() {
    let schema = object(json!({ "a": {"type": ["integer", "string"]}, "b": {} }));
    let text = r#"{"a":"3","b":"true"}"#;
    check(&schema, text, &format!("valid {text}"));
}

#[test]
fn every_violation_is_reported_at_once_with_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1},
            "kind": {"enum": ["low", "high"]},
            "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tags": {"type": "array", "maxItems": 1, "items": {"type": "string", "maxLength": 2}},
            "a/b": {"type": "object", "required": ["c"], "properties": {"c": {"type": ["number", "null"]}}},
            "mode": {"oneOf": [{"const": "x"}, {"const": "y"}]},
        },
        "required": ["text", "count"],
        "additionalProperties": false,
    });
    let text = json!({
        "count": "many", "kind": "mid", "owner": 7, "tags": ["abc", 1], "a/b": {}, "mode": "z", "extra": 1
    });
    let expected = "\
/a~1b/c: required, but missing: expected number or null
/count: expected integer, found string
/kind: expected one of \"low\", \"high\"
/mode: expected one of \"x\", \"y\"
/owner: expected string or null, found integer
/tags/0: expected at most 2 characters, found 3
/tags/1: expected string, found integer
/tags: expected at most 1 items, found 2
/extra: no such property: expected only `a/b`, `count`, `kind`, `mode`, `owner`, `tags`
/text: required, but missing";
    let Validation::Invalid { violations } = judge(&schema, &text.to_string()) else { panic!("it is valid") };
    let sorted = |lines: &mut Vec<String>| lines.sort();
    let mut found = violations.iter().map(|v| format!("{}: {}", v.path, v.message)).collect();
    let mut expected = expected.lines().map(str::to_owned).collect();
    sorted(&mut found);
    sorted(&mut expected);
    assert_eq!(found, expected);
}

#[test]
fn the_one_alternative_of_the_right_type_is_explained() {
    let schema = object(json!({
        "a": {"anyOf": [{"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}, {"type": "null"}]}
    }));
    check(&schema, r#"{"a": {}}"#, "/a/x: required, but missing: expected string");
    let schema = object(json!({"a": {"anyOf": [{"minimum": 5}, {"minimum": 7}]}}));
    check(&schema, r#"{"a": 1}"#, "/a: fits none of the 2 alternatives");
}

#[test]
fn violations_are_bounded() {
    let schema = object(json!({ "a": {"type": "array", "items": {"type": "string"}} }));
    let Validation::Invalid { violations } = judge(&schema, &json!({ "a": vec![1; 1000] }).to_string())
    else {
        panic!("it is valid")
    };
    assert_eq!(violations.len(), MAX_VIOLATIONS);
    let schema = object(json!({ "a": {"enum": vec!["x".repeat(1000); 1]} }));
    let Validation::Invalid { violations } = judge(&schema, r#"{"a": 1}"#) else { panic!("it is valid") };
    assert!(violations[0].message.chars().count() < 500);
}

#[test]
fn an_unknown_tool_is_left_to_the_core() {
    let tools = toolbox(object(json!({})));
    let validation = judge_call(&tools, "no.such", r#"{"a": 1}"#, false);
    assert_eq!(validation, Validation::Valid { arguments: json!({"a": 1}) });
    assert!(matches!(judge_call(&tools, "no.such", "{", false), Validation::Malformed { .. }));
    assert!(matches!(judge_call(&tools, "risk__score", r#"{"a": 1}"#, false), Validation::Invalid { .. }));
}

#[test]
fn a_truncated_call_is_not_judged_further() {
    assert_eq!(judge_call(&toolbox(object(json!({}))), "risk.score", "{}", true), Validation::Truncated);
}

#[test]
fn large_and_deep_arguments_are_malformed() {
    let schema = json!({ "type": "object" });
    let large = json!({ "a": "x".repeat(MAX_ARGUMENT_BYTES) }).to_string();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    for text in [&large, &deep] {
        assert!(matches!(
            judge_call(&toolbox(schema.clone()), "risk.score", text, false),
            Validation::Malformed { .. }
        ));
    }
    let tools = Schemas::compile(&toolbox(schema));
    let tool: ToolName = "risk.score".parse().unwrap();
    for text in [&large, &deep] {
        let value = serde_json::from_str(text).unwrap();
        assert!(matches!(tools.judge_arguments(&tool, value), Validation::Malformed { .. }));
    }
}

#[test]
fn a_reference_outside_the_schema_is_refused_and_not_fetched() {
    for reference in
        ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "#/$defs/missing", "#nowhere"]
    {
        let schema = object(json!({ "a": {"$ref": reference} }));
        let error = Schema::compile(&schema).unwrap_err();
        assert_eq!(error, SchemaError::Reference { reference: reference.to_owned() });
        let validation = judge(&schema, "{}");
        let Validation::Invalid { violations } = validation else { panic!("{validation:?}") };
        assert!(violations[0].message.contains(reference), "{violations:?}");
        assert_eq!(Schemas::compile(&toolbox(schema)).problems().count(), 1);
    }
    // Neither where no value leads to it, nor as the dialect.
    for schema in [
        json!({"$defs": {"unused": {"$ref": "https://example.com/a.json"}}}),
        json!({"$schema": "https://example.com/dialect"}),
    ] {
        assert!(matches!(Schema::compile(&schema), Err(SchemaError::Invalid(_))), "{schema}");
    }
}

#[test]
fn an_unusable_schema_is_refused_with_the_reason() {
    let cases = [
        (json!({"type": "integr"}), "the schema is not usable at `/type`: "),
        (
            json!({"properties": {"a": {"pattern": "(?=a)b"}}}),
            "`/properties/a/pattern`: \"(?=a)b\" is not a pattern that",
        ),
        (json!({"pattern": "(a{1000}){1000}"}), "runs in linear time"),
        (json!(3), "the schema is not usable: expected boolean or object, found integer"),
    ];
    for (schema, expected) in cases {
        let error = Schema::compile(&schema).unwrap_err();
        assert!(error.to_string().contains(expected), "{schema}: {error}");
    }
    let circular = json!({"anyOf": [{"$ref": "#"}, {"type": "string"}]});
    assert_eq!(Schema::compile(&circular).unwrap_err(), SchemaError::Circular);
    let embedded = json!({"properties": {"a": {"$id": "https://example.com/a", "type": "string"}}});
    assert!(matches!(Schema::compile(&embedded), Err(SchemaError::Embedded { .. })));
    let mut deep = json!(true);
    for _ in 0..MAX_DEPTH {
        deep = json!({ "not": deep });
    }
    assert!(Schema::compile(&deep).is_ok());
    assert_eq!(Schema::compile(&json!({ "not": deep })).unwrap_err(), SchemaError::TooLarge);
}

#[test]
fn an_older_draft_is_understood() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
        "properties": {"a": {"items": [{"$ref": "#/definitions/n"}, {"type": "string"}]}},
    });
    check(&schema, r#"{"a": ["1", "2"]}"#, r#"valid {"a":[1,"2"]}"#);
    check(&schema, r#"{"a": [1, 2]}"#, "/a/1: expected string, found integer");
}

#[test]
fn a_catastrophic_pattern_runs_in_linear_time() {
    // A backtracking engine needs 2^50000 steps here; the test ends because this one does not.
    let schema = object(json!({ "a": {"pattern": "^(a+)+(b|a)*$"} }));
    let text = json!({ "a": format!("{}!", "a".repeat(50_000)) }).to_string();
    assert!(matches!(judge(&schema, &text), Validation::Invalid { .. }));
}

#[test]
fn references_that_double_are_refused_before_they_take_exponential_time() {
    let doubling = |levels: usize| {
        let mut defs = json!({});
        for level in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/r{}", level + 1) });
            defs[format!("r{level}")] = json!({ "allOf": [next, next] });
        }
        defs[format!("r{levels}")] = json!({ "type": "integer" });
        json!({ "$defs": defs, "type": "object", "properties": {"a": {"$ref": "#/$defs/r0"}} })
    };
    assert_eq!(Schema::compile(&doubling(40)).unwrap_err(), SchemaError::TooComplex);
    check(&doubling(10), r#"{"a": 1}"#, r#"valid {"a":1}"#);
    check(&doubling(10), r#"{"a": []}"#, "/a: expected integer, found array");
}

#[test]
fn recursive_alternatives_end_on_deep_arguments() {
    let inner = json!({ "$ref": "#/$defs/term" });
    let schema = json!({
        "$defs": {"term": {"anyOf": [
            {"type": "integer"},
            {"type": "object", "properties": {"a": inner}},
            {"type": "object", "properties": {"a": inner}, "required": ["b"]},
        ]}},
        "type": "object",
        "properties": {"a": inner},
    });
    let nest =
        |levels: usize, leaf: Value| (0..levels).fold(leaf, |value, _| json!({ "a": value })).to_string();
    assert!(matches!(judge(&schema, &nest(60, json!(1))), Validation::Valid { .. }));
    check(&schema, &nest(60, json!("x")), ": does not fit the schema, which is too intricate to say where");
    check(&schema, &nest(1, json!("x")), "/a: expected integer or object, found string");
}

#[test]
fn the_longest_chain_fits_a_small_stack() {
    let chain = |length: usize| {
        let mut defs = json!({});
        for link in 0..length {
            defs[format!("d{link}")] = json!({ "$ref": format!("#/$defs/d{}", link + 1) });
        }
        defs[format!("d{length}")] = json!({ "type": "object", "properties": {"a": {"$ref": "#"}} });
        json!({ "$defs": defs, "$ref": "#/$defs/d0" })
    };
    for length in [13, 1000, 5000] {
        assert_eq!(Schema::compile(&chain(length)).unwrap_err(), SchemaError::TooComplex);
    }
    let work = move || {
        let schema = Schema::compile(&chain(12)).unwrap();
        let value = (1..MAX_DEPTH).fold(json!({"a": 1}), |value, _| json!({ "a": value }));
        assert_eq!(schema.violations(&value).len(), 1);
    };
    thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9eE.+-]{0,12}|true|false|\\PC{0,8}|[\\[{\\]},:\"a0-9]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let name =
        prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    let leaf = prop_oneof![Just(json!({})), name.prop_map(|name| json!({ "type": name }))];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-d]", inner.clone(), 0..3)
                .prop_map(|map| json!({ "properties": map })),
            inner.clone().prop_map(|items| json!({ "items": items })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "anyOf": all })),
            prop::collection::vec(inner, 1..3).prop_map(|all| json!({ "allOf": all })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_a_verdict(text in "\\PC*|[\\[{\\]},:\"a0-9\\\\]*") {
        judge(&object(json!({ "a": {"type": "integer"} })), &text);
    }

    #[test]
    fn a_coerced_value_fits_and_a_second_coercion_changes_nothing(schema in schema(), value in value()) {
        let schema = Schema::compile(&schema).unwrap();
        let fits = schema.violations(&value).is_empty();
        match schema.coerce(value.clone()) {
            Ok(coerced) => {
                prop_assert!(schema.violations(&coerced).is_empty());
                prop_assert!(!fits || coerced == value);
                prop_assert_eq!(schema.coerce(coerced.clone()), Ok(coerced));
            }
            Err(violations) => {
                prop_assert!(!fits);
                prop_assert!(!violations.is_empty());
            }
        }
    }
}
