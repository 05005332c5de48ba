//! What holds for any input.

use dalsegno_expr::{Expression, Template, ValueTemplate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Pieces of the language in any order: often close to an expression, sometimes one.
fn near_expression() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b.c",
        "[0]",
        "['x']",
        "?.",
        ".",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "'s'",
        "\"é😀\"",
        "'",
        "1",
        "0.5",
        "1e21",
        "9007199254740993",
        " ",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "===",
        "!=",
        "<",
        ">=",
        "&&",
        "||",
        "??",
        "in",
        "null",
        "undefined",
        "true",
        ".length",
        ".trim()",
        ".slice(1, -1)",
        ".split('')",
        ".join('-')",
        ".replace('a', '$&')",
        ".padStart(5)",
        ".toFixed(2)",
        ".at(-1)",
        ".concat([1])",
        ".includes('s')",
        "Math.max(1, 2)",
        "Object.keys(",
        "Number(",
        "String(",
        "Date.parse(",
        "Date.toISO(",
        "\\",
        "{{",
        "}}",
        "\n",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z😀 ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn scope(a: &Value, b: &Value) -> Map<String, Value> {
    Map::from_iter([("a".to_owned(), a.clone()), ("b".to_owned(), json!({ "c": b }))])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_string_makes_a_parser_panic(source in "\\PC{0,80}") {
        let _ = Expression::parse(&source);
        let _ = Template::parse(&source);
        let _ = Template::parse(&format!("{{{{{source}}}}}"));
        let _ = ValueTemplate::parse(&json!({ "key": [source] }));
    }

    #[test]
    fn what_parses_evaluates_or_fails_without_panic(
        source in near_expression(), a in json_value(), b in json_value(),
    ) {
        if let Ok(expression) = Expression::parse(&source) {
            let scope = scope(&a, &b);
            let value = expression.evaluate(&scope);
            prop_assert_eq!(&value, &expression.evaluate(&scope), "evaluation is a function");
            // The type of an answer and its truth agree, except where JSON has no such number.
            if let (Ok(value), Ok(is_true)) = (value, expression.is_true(&scope))
                && (value.is_array() || value.is_object() || value.is_boolean())
            {
                prop_assert_eq!(is_true, value != Value::Bool(false));
            }
        }
    }

    #[test]
    fn error_spans_lie_in_the_source(source in near_expression()) {
        if let Err(error) = Expression::parse(&source) {
            prop_assert!(source.get(error.span.clone()).is_some(), "{error:?}");
        }
        if let Err(error) = Template::parse(&source) {
            prop_assert!(source.get(error.span.clone()).is_some(), "{error:?}");
        }
    }

    #[test]
    fn path_spans_begin_with_their_root(source in near_expression()) {
        if let Ok(expression) = Expression::parse(&source) {
            for path in expression.paths() {
                prop_assert!(source[path.span.clone()].starts_with(&path.root), "{path:?}");
            }
        }
    }

    #[test]
    fn the_source_parses_to_an_equal_value(source in near_expression(), value in json_value()) {
        if let Ok(expression) = Expression::parse(&source) {
            prop_assert_eq!(&Expression::parse(expression.source()).unwrap(), &expression);
            prop_assert_eq!(expression.source(), source.as_str());
        }
        if let Ok(template) = Template::parse(&source) {
            prop_assert_eq!(&Template::parse(template.source()).unwrap(), &template);
        }
        let template = ValueTemplate::parse(&value).unwrap();
        prop_assert_eq!(&ValueTemplate::parse(template.source()).unwrap(), &template);
        prop_assert_eq!(template.source(), &value);
    }

    #[test]
    fn literal_templates_render_to_themselves(source in "[^{]{0,40}", value in json_value()) {
        let template = Template::parse(&source).unwrap();
        prop_assert_eq!(template.render(&Map::new()), Ok(Value::String(source)));
        prop_assert_eq!(ValueTemplate::parse(&value).unwrap().render(&Map::new()), Ok(value));
    }

    #[test]
    fn a_path_gives_what_it_points_at(a in json_value()) {
        let scope = scope(&a, &Value::Null);
        let evaluated = Expression::parse("a").unwrap().evaluate(&scope).unwrap();
        // A float without a fraction is an integer to JavaScript.
        prop_assert_eq!(evaluated.as_f64(), a.as_f64());
        prop_assert!(a.is_number() || evaluated == a);
    }

    #[test]
    fn numbers_print_as_text_that_reads_back(number in any::<f64>().prop_filter("finite", |number| number.is_finite())) {
        let scope = scope(&json!(number), &Value::Null);
        let text = Template::parse("{{a}}").unwrap().render_text(&scope).unwrap();
        prop_assert_eq!(text.parse::<f64>().unwrap(), number);
        prop_assert!(Expression::parse("Number(String(a)) === a").unwrap().is_true(&scope).unwrap());
    }

    #[test]
    fn slices_join_to_the_whole(text in "[a-z😀é]{0,12}", at in 0..14_usize) {
        let scope = scope(&json!(text), &Value::Null);
        let length: usize = text.chars().map(char::len_utf16).sum();
        let joined = Expression::parse(&format!("a.slice(0, {at}) + a.slice({at})")).unwrap();
        let joined = joined.evaluate(&scope).unwrap();
        // A cut through a character leaves two replacement characters, and so the same length.
        prop_assert_eq!(joined.as_str().unwrap().encode_utf16().count(), length);
        let is_cut = joined.as_str().unwrap().contains('\u{fffd}');
        prop_assert!(is_cut || joined == json!(text));
    }
}
