//! What templates render to.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use dalsegno_expr::{Template, TemplatePart, ValueTemplate};
use serde_json::{Map, Value, json};

#[test]
fn one_whole_expression_keeps_its_type() {
    check("{{n}}", json!(3));
    check("{{ list }}", json!([1, {"b": 2, "a": null}]));
    check("{{missing}}", json!(null));
    check("{{name}}", json!("Ada"));
    check("{{ {a: {b: n}} }}", json!({"a": {"b": 3}}));
    check("{{{a: {b: n}}}}", json!({"a": {"b": 3}}));
}

#[test]
fn inside_other_text_a_value_is_text() {
    check(" {{n}}", json!(" 3"));
    check("{{n}}{{n}}", json!("33"));
    check("Hello {{name}}, {{missing}}{{nothing}}{{0/0}}{{flag}}!", json!("Hello Ada, true!"));
    check("{{list}}.", json!(r#"[1,{"a":null,"b":2}]."#));
    check("{{[n, name, undefined, 1e21, -0]}}.", json!(r#"[3,"Ada",null,1e+21,0]."#));
    check("{{ 1e-7 }} {{big}} {{whole}}", json!("1e-7 9007199254740993 2"));
    check("{{control}}:", json!("a\u{1}\"\\\n:"));
    check("{{[control]}}:", json!("[\"a\\u0001\\\"\\\\\\n\"]:"));
}

#[test]
fn text_is_text_even_for_one_whole_expression() {
    check_text("{{n}}", "3");
    check_text("{{missing}}", "");
    check_text("{{name}}", "Ada");
    check_text("{{list}}", r#"[1,{"a":null,"b":2}]"#);
}

#[test]
fn an_escaped_opening_is_literal() {
    check(r"\{{n}} and {{n}}", json!("{{n}} and 3"));
    check(r"\{{", json!("{{"));
    check(r"a\b {n} }} { {", json!(r"a\b {n} }} { {"));
    check("", json!(""));
}

#[test]
fn braces_in_strings_and_objects_do_not_close() {
    check("{{'}}' + \"}}\"}}", json!("}}}}"));
    check(r"{{'it\'s }}'}}", json!("it's }}"));
    check("{{ {a: '}'}.a }}{{'{{'}}", json!("}{{"));
}

#[test]
fn errors_point_into_the_template() {
    check_error(
        "Hi {{name",
        r"this `{{` is not closed at column 4: expected `}}` after the expression; a literal `{{` is written `\{{`",
    );
    check_error("Hi {{}}", "unexpected end at column 6: expected a value");
    check_error("é\nHi {{ a + }}", "unexpected end at line 2, column 11: expected a value");
    check_error(
        "{{it's}} fine",
        "this string does not end at column 5: expected a closing quote and then `}}`",
    );
    let error = Template::parse("ab {{ x y }}").unwrap_err();
    assert_eq!(&"ab {{ x y }}"[error.span], "y");
}

#[test]
fn evaluation_errors_point_into_the_template() {
    let source = "é\nHi {{name}}, {{ 1 + name.toFixed() }} {{ list == list }}";
    let error = Template::parse(source).unwrap().render(&scope()).unwrap_err();
    assert_eq!(&source[error.span.clone()], ".toFixed()");
    assert_eq!((error.line, error.column), (2, 25));
    let source = "Hi {{name}}\n{{ list == list }}";
    let error = Template::parse(source).unwrap().render_text(&scope()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two arrays cannot be compared: compare their members, or their text with `String(…)` (at line 2, column 9)"
    );
    let whole = Template::parse("{{ big * 1 }}").unwrap().render(&scope()).unwrap_err();
    assert_eq!(whole.column, 8);
}

#[test]
fn paths_point_into_the_template() {
    let source = "é {{a.b}} {{ c[0] + d }}";
    let paths = Template::parse(source).unwrap().paths();
    let spans: Vec<_> = paths.iter().map(|path| &source[path.span.clone()]).collect();
    assert_eq!(spans, ["a.b", "c[0]", "d"]);
}

#[test]
fn values_render_their_inner_strings() {
    let template = json!({"to": "{{name}}", "n": ["{{n}}", 1, null, {"deep": "n={{n}}", "{{key}}": true}], "plain": "x"});
    let parsed = ValueTemplate::parse(&template).unwrap();
    let expected = json!({"to": "Ada", "n": [3, 1, null, {"deep": "n=3", "{{key}}": true}], "plain": "x"});
    assert_eq!(parsed.render(&scope()), Ok(expected));
    assert_eq!(serde_json::to_value(&parsed).unwrap(), template);
    assert_eq!(serde_json::from_value::<ValueTemplate>(template).unwrap(), parsed);
    let located: Vec<_> = parsed
        .located_paths()
        .into_iter()
        .map(|(pointer, path)| format!("{pointer} {}", path.root))
        .collect();
    let mut sorted = located;
    sorted.sort();
    assert_eq!(sorted, ["/n/0 n", "/n/3/deep n", "/to name"]);
    assert_eq!(parsed.paths().len(), 3);
}

#[test]
fn errors_in_values_name_the_string() {
    let error = ValueTemplate::parse(&json!({"a/b": [0, "{{n +}}"]})).unwrap_err();
    assert_eq!(error.to_string(), "at `/a~1b/1`: unexpected end at column 6: expected a value");
    let error = ValueTemplate::parse(&json!("{{")).unwrap_err();
    assert!(error.to_string().starts_with("in the value: this `{{` is not closed"), "{error}");
}

#[test]
fn a_value_that_is_too_deep_is_refused() {
    let nested = |depth: usize| (0..depth).fold(json!("{{n}}"), |inner, _| json!([inner]));
    assert!(ValueTemplate::parse(&nested(dalsegno_expr::MAX_VALUE_DEPTH)).is_ok());
    let error = ValueTemplate::parse(&nested(dalsegno_expr::MAX_VALUE_DEPTH + 1)).unwrap_err();
    assert_eq!(error.error.message, "this value is nested too deeply");
}

#[test]
fn parts_come_in_the_order_of_the_source() {
    let template = Template::parse(r"a \{{ b {{ name }}{{n}}!").unwrap();
    let parts: Vec<String> = template
        .parts()
        .map(|part| match part {
            TemplatePart::Text(text) => format!("text {text}"),
            TemplatePart::Expression(expression) => format!("expression {expression}"),
        })
        .collect();
    assert_eq!(parts, ["text a {{ b ", "expression  name ", "expression n", "text !"]);
}

#[track_caller]
fn check(source: &str, expected: Value) {
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(template.render(&scope()), Ok(expected), "{source}");
}

#[track_caller]
fn check_text(source: &str, expected: &str) {
    assert_eq!(Template::parse(source).unwrap().render_text(&scope()), Ok(expected.to_owned()), "{source}");
}

#[track_caller]
fn check_error(source: &str, expected: &str) {
    let parsed = Template::parse(source);
    assert_eq!(parsed.map_err(|error| error.to_string()), Err(expected.to_owned()), "{source}");
}

fn scope() -> Map<String, Value> {
    let scope = json!({
        "big": 9_007_199_254_740_993_u64,
        "control": "a\u{1}\"\\\n",
        "flag": true,
        "list": [1, {"b": 2, "a": null}],
        "n": 3,
        "name": "Ada",
        "nothing": null,
        "whole": 2.0,
    });
    let Value::Object(scope) = scope else { panic!("an object") };
    scope
}
