//! What expressions mean where JavaScript is no guide, and what they refuse. `javascript` tests the rest, `limits` what
//! is hostile.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use dalsegno_expr::{Expression, Scope};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[test]
fn paths_read_the_scope() {
    check("steps.score.value > 0.7", json!(true));
    check("steps['score'].value", json!(0.9));
    check("list[1].name", json!("second"));
    check("list[list.length - 1]['name']", json!("second"));
    check("odd['b.c']", json!("dotted"));
    check("{name: 1, list}.list[0].name", json!("first"));
}

#[test]
fn a_missing_path_is_null_at_any_depth() {
    check("missing", json!(null));
    check("missing.deeper.still[3]", json!(null));
    check("nothing.deeper", json!(null));
    check("steps.score.none.none", json!(null));
    check("missing === undefined && missing !== null && nothing === null", json!(true));
    check("missing ?? 'default'", json!("default"));
    check("(missing?.name).length", json!(null));
}

#[test]
fn equality_never_converts() {
    check("1 == '1' || null == undefined || 0 == ''", json!(false));
    check("1 != '1'", json!(true));
}

#[test]
fn integers_beyond_doubles_stay_exact_where_they_are_passed_on() {
    check("id", json!(9_007_199_254_740_993_u64));
    check("[id, {id}]", json!([9_007_199_254_740_993_u64, {"id": 9_007_199_254_740_993_u64}]));
    check("18446744073709551615", json!(u64::MAX));
    check("-9223372036854775808", json!(i64::MIN));
    check("id === 9007199254740993 && id !== 9007199254740992 && id > 9007199254740992", json!(true));
    check("'#' + id", json!("#9007199254740993"));
    check("9007199254740992 - 1", json!(9_007_199_254_740_991_u64));
    let places = [
        ("id + 1", 4),
        ("-id", 1),
        ("id % 2", 4),
        ("1 + Math.max(id, 1)", 5),
        ("id.toFixed()", 3),
        ("!+id", 2),
        ("1 < 2 - id", 7),
        ("list.at(id)", 5),
        ("[1 * 2, {a: [3, 4 - id]}]", 19),
    ];
    for (arithmetic, column) in places {
        check_error(
            arithmetic,
            &format!(
                "`9007199254740993` is outside ±2^53 and would be rounded: pass it on as it is, or as a string (at column {column})"
            ),
        );
    }
}

#[test]
fn numbers_without_a_fraction_become_json_integers() {
    check("1 + 1", json!(2));
    check("0.5 * 4", json!(2));
    check("-0", json!(0));
    check("1e300 * 1e300", json!(null));
    check("0 / 0", json!(null));
}

#[test]
fn only_own_properties_exist() {
    check("'toString' in {}", json!(false));
    check("steps.toString", json!(null));
    check_parse_error("steps.__proto__", "the name `__proto__` is not readable at column 7");
    check_parse_error("steps['constructor']", "the name `constructor` is not readable at column 7");
    check_parse_error("{prototype: 1}", "the name `prototype` is not readable at column 2");
    check_parse_error("constructor", "the name `constructor` is not readable at column 1");
    check_error("steps['__pro' + 'to__']", "the name `__proto__` is not readable (at column 6)");
    check_error("'constructor' in steps", "the name `constructor` is not readable (at column 15)");
}

#[test]
fn values_without_identity_are_not_compared() {
    check_error(
        "list === list",
        "two arrays cannot be compared: compare their members, or their text with `String(…)` (at column 6)",
    );
    check_error(
        "steps == {}",
        "two objects cannot be compared: compare their members, or their text with `String(…)` (at column 7)",
    );
    check_error(
        "[[]].includes([])",
        "two arrays cannot be compared: compare their members, or their text with `String(…)` (at column 5)",
    );
    check("list === steps || list === null || list === 'x'", json!(false));
}

#[test]
fn halves_of_surrogate_pairs_are_replaced() {
    check("'😀'.split('').join('')", json!("\u{fffd}\u{fffd}"));
    check("'😀'.slice(1) + '😀'.slice(0, 1)", json!("\u{fffd}\u{fffd}"));
}

#[test]
fn a_local_time_without_an_offset_is_not_a_date() {
    check("Date.parse('2024-05-06T07:08:09')", json!(null));
    check("Date.parse('May 6, 2024')", json!(null));
}

#[test]
fn keys_have_one_order() {
    check("Object.keys({b: 1, 10: 1, a: 1, 9: 1, '01': 1})", json!(["9", "10", "01", "a", "b"]));
}

#[test]
fn methods_say_what_they_work_on() {
    check_error("steps.none.trim()", "`trim` needs a string, but `steps.none` is undefined");
    check_error("list.trim()", "`trim` needs a string, but `list` is an array");
    check_error("(1 + 2).includes(1)", "`includes` needs a string or an array, but `(1 + 2)` is a number");
    check_error("'a'.toFixed(1)", "`toFixed` needs a number, but `'a'` is a string");
    check_error(
        "'a' in 'abc'",
        "`in` needs an object or an array, but its right side is a string (at column 5)",
    );
    check_error("Object.keys(null)", "`Object.keys` needs an object, but its argument is null (at column 1)");
    check_error("(1).toFixed(101)", "`toFixed` takes 0 to 100 digits, found 101 (at column 4)");
    check_error(
        "Date.toISO(1e300)",
        "`Date.toISO` takes milliseconds from the year 0 to the year 9999, found 1e+300 (at column 1)",
    );
}

#[test]
fn syntax_errors_say_where_and_what_was_expected() {
    check_parse_error("", "unexpected end at column 1: expected a value");
    check_parse_error("a + )", "unexpected `)` at column 5: expected a value");
    check_parse_error("é + + *", "unexpected `*` at column 7: expected a value");
    check_parse_error("a b", "unexpected `b` at column 3: expected an operator or the end of the expression");
    check_parse_error("(a", "unexpected end at column 3: expected `)`");
    check_parse_error("[1 2]", "unexpected `2` at column 4: expected `,` or `]`");
    check_parse_error("{a 1}", "unexpected `1` at column 4: expected `:` and the value of this key");
    check_parse_error("a ? b", "unexpected end at column 6: expected `:` and the value for the other case");
    check_parse_error(
        "a.1",
        "unexpected `.1` at column 2: expected an operator or the end of the expression",
    );
    check_parse_error("a. + 1", "unexpected `+` at column 4: expected the name of a member");
    check_parse_error("'abc", "this string does not end at column 1: expected a closing '");
    check_parse_error(
        r"'\ud83d'",
        r"this escape is not a character at column 2: expected for instance `\n`, `\'`, `\x41`, `\u00e9` or `\u{1f600}`",
    );
    check_parse_error("a = 1", "unexpected `=` at column 3: use `===` to compare; values cannot be changed");
    check_parse_error(
        "a & b",
        "unexpected `&` at column 3: there are no bitwise operators, use `&&` for and",
    );
    check_parse_error(
        "1_000",
        "unexpected `1_` at column 1: expected a decimal number such as `12`, `0.5` or `1e3`",
    );
    check_parse_error("012", "unexpected `012` at column 1: a number does not start with a zero");
    check_parse_error(
        "a ?? b || c",
        "`??` is mixed with `&&` or `||` at column 8: expected parentheses that say which comes first",
    );
    check_parse_error(
        "typeof a",
        "unexpected `typeof` at column 1: this word of JavaScript is not part of the expression language",
    );
    check_parse_error(
        "`a`",
        "unexpected a backtick at column 1: write strings with ' or \" and join them with `+`",
    );
    check_parse_error(
        "a\n  .b\n  .c(",
        "unknown method `c` at line 3, column 4: the methods are `at`, `concat`, `endsWith`, `includes`, `indexOf`, `join`, `padStart`, `replace`, `slice`, `split`, `startsWith`, `toFixed`, `toLowerCase`, `toUpperCase`, `trim`",
    );
    check_parse_error(
        "Math.sqrt(2)",
        "unknown function `Math.sqrt` at column 1: expected one of `Math.abs`, `Math.ceil`, `Math.floor`, `Math.max`, `Math.min`, `Math.round`",
    );
    check_parse_error("Object", "unknown function `Object` at column 1: expected one of `Object.keys`");
    check_parse_error("String.x", "unexpected `.` at column 7: expected `(` and the arguments");
}

#[test]
fn javascript_that_is_absent_says_what_to_write_instead() {
    let absent = [
        ("x => x", "`=>` at column 3: there are no functions"),
        ("[...a]", "`...` at column 2: there is no spread, use `concat`"),
        ("2 ** 3", "`**` at column 3: there is no power operator"),
        ("a++", "`++` at column 2: values cannot be changed, use `+ 1`"),
        ("--a", "`--` at column 1: values cannot be changed, use `- 1`"),
        ("1 << 2", "`<<` at column 3: there are no bitwise operators"),
        ("1 >> 2", "`>>` at column 3: there are no bitwise operators"),
        ("a | b", "`|` at column 3: there are no bitwise operators, use `||` for or"),
        ("a ^ b", "`^` at column 3: there are no bitwise operators"),
        ("~a", "`~` at column 1: there are no bitwise operators"),
        ("1; 2", "`;` at column 2: an expression is a single value"),
        ("a += 1", "`=` at column 4: use `===` to compare; values cannot be changed"),
        ("new Date()", "`new` at column 1: this word of JavaScript is not part of the expression language"),
        ("a ? b", "end at column 6: expected `:` and the value for the other case"),
        ("a[0", "end at column 4: expected `]`"),
        ("{1 + 1}", "`+` at column 4: expected `:` and the value of this key"),
        ("{[a]: 1}", "`[` at column 2: expected a key or `}`"),
        ("[1, , 2]", "`,` at column 5: expected a value"),
        ("0x1f", "`0x` at column 1: expected a decimal number such as `12`, `0.5` or `1e3`"),
        ("12px", "`12p` at column 1: expected a decimal number such as `12`, `0.5` or `1e3`"),
        ("1n", "`1n` at column 1: expected a decimal number such as `12`, `0.5` or `1e3`"),
        ("a # b", "`#` at column 3"),
        ("a.#b", "`#` at column 3"),
        ("'a\nb'", "this string does not end at column 1: expected a closing '"),
        ("\"a", "this string does not end at column 1: expected a closing \""),
        ("\u{7}", "`\\u{7}` at column 1"),
        ("/a/", "`/` at column 1: expected a value"),
        ("a // b", "`/` at column 4: expected a value"),
    ];
    for (source, expected) in absent {
        let error = Expression::parse(source).unwrap_err();
        let shown = error.to_string();
        assert_eq!(shown.strip_prefix("unexpected ").unwrap_or(&shown), expected, "{source}");
        assert!(source.get(error.span).is_some(), "{source}");
    }
    for escape in [
        r"'\x4'",
        r"'\xg0'",
        r"'\u12'",
        r"'\u{}'",
        r"'\u{110000}'",
        r"'\ud83dx'",
        r"'\udc00'",
        r"'\08'",
        r"'\7'",
        "'\\\n'",
    ] {
        let error = Expression::parse(escape).unwrap_err();
        assert_eq!((error.message.as_str(), error.column), ("this escape is not a character", 2), "{escape}");
    }
    check_parse_error(
        "a.b()()",
        "unknown method `b` at column 3: the methods are `at`, `concat`, `endsWith`, `includes`, `indexOf`, `join`, `padStart`, `replace`, `slice`, `split`, `startsWith`, `toFixed`, `toLowerCase`, `toUpperCase`, `trim`",
    );
    check_parse_error(
        "1 + a['b'](2)",
        "`a['b']` cannot be called at column 5: the functions are `Array.isArray`, `Boolean`, `Date.parse`, `Date.toISO`, `encodeURIComponent`, `Math.abs`, `Math.ceil`, `Math.floor`, `Math.max`, `Math.min`, `Math.round`, `Number`, `Object.keys`, `String`",
    );
}

#[test]
fn evaluation_errors_say_where() {
    let span = |source: &str| {
        let error = Expression::parse(source).unwrap().evaluate(&scope()).unwrap_err();
        (source[error.span].to_owned(), error.line, error.column)
    };
    assert_eq!(span("1 +\n  (list ===\n list)"), ("===".to_owned(), 2, 9));
    assert_eq!(span("'é' + (5).toFixed(1000).trim()"), (".toFixed(1000)".to_owned(), 1, 10));
    assert_eq!(span("[Math.max(1, Number('2') * id)]"), ("*".to_owned(), 1, 26));
    assert_eq!(span("list[0].name.at(steps.none.trim())"), (".trim()".to_owned(), 1, 27));
    assert_eq!(span("Date.toISO( 0 / 0 )"), ("Date.toISO( 0 / 0 )".to_owned(), 1, 1));
    check_error(
        "true &&\n  list == list",
        "two arrays cannot be compared: compare their members, or their text with `String(…)` (at line 2, column 8)",
    );
}

#[test]
fn words_for_values_are_not_names() {
    check_parse_error(
        "{true}",
        "unexpected `true` at column 2: expected a key and `:`, since this word is a value",
    );
    check("{true: 1, null: 2, undefined}", json!({"true": 1, "null": 2}));
}

#[test]
fn years_may_have_a_sign_and_six_digits() {
    check("Date.parse('+002024-05-06') === Date.parse('2024-05-06')", json!(true));
    check("Date.parse('-000001-01-01')", json!(-62_198_755_200_000_i64));
    check("Date.parse('+275760-09-13T00:00Z')", json!(8_640_000_000_000_000_i64));
    for text in [
        "+275760-09-13T00:00:00.001Z",
        "-271821-04-19",
        "-000000-01-01",
        "+2024",
        "-2024-05-06",
        "+",
        "2024-",
    ] {
        check(&format!("Date.parse('{text}')"), json!(null));
    }
}

#[test]
fn halfway_between_two_shortest_decimals_the_even_one_is_printed() {
    check("String(900719925474099.25)", json!("900719925474099.2"));
    check("String(-2097152.00048828125)", json!("-2097152.0004882812"));
    check("String(4503599627370495.5 / 2.5)", json!("1801439850948198.2"));
    check("String(900719925474099.75)", json!("900719925474099.8"));
}

#[test]
fn calls_of_anything_else_are_refused() {
    for source in ["eval('1')", "a()", "a.b()()", "a?.()", "(a)()", "'x'()", "[].map(x)", "a['b']()"] {
        assert!(Expression::parse(source).is_err(), "{source}");
    }
}

#[test]
fn truth_is_that_of_javascript() {
    for source in ["0", "-0", "0/0", "''", "null", "undefined", "false", "missing"] {
        assert!(!is_true(source), "{source}");
    }
    for source in ["1", "-1", "'0'", "' '", "[]", "{}", "true", "id", "1/0"] {
        assert!(is_true(source), "{source}");
    }
}

#[test]
fn paths_list_what_is_read_with_its_place() {
    let listed = |source: &str| -> Vec<String> {
        let paths = Expression::parse(source).unwrap().paths();
        paths
            .iter()
            .map(|path| format!("{} {:?} {}", path.root, path.segments, &source[path.span.clone()]))
            .collect()
    };
    assert_eq!(listed("steps.score.value > 0.7"), [r#"steps ["score", "value"] steps.score.value"#]);
    assert_eq!(
        listed("a.b[0]['c d']?.e.trim() + x[y.z].w"),
        [r#"a ["b", "0", "c d", "e"] a.b[0]['c d']?.e"#, "x [] x", r#"y ["z"] y.z"#]
    );
    assert_eq!(listed("{k: a, b}.a ? 'c' : Math.max(d)"), ["a [] a", "b [] b", "d [] d"]);
    assert_eq!(listed("(a).b"), ["a [] a"]);
}

#[test]
fn a_scope_is_asked_once_for_each_root_and_only_if_needed() {
    struct Recording(RefCell<Vec<String>>);
    impl Scope for Recording {
        fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
            self.0.borrow_mut().push(name.to_owned());
            Some(Cow::Owned(json!({"name": name})))
        }
    }
    let scope = Recording(RefCell::default());
    let expression =
        Expression::parse("a.name + a.name + (a.name === 'a' ? b.name : c.name) + d + e").unwrap();
    assert_eq!(expression.evaluate(&scope), Ok(json!("aab[object Object][object Object]")));
    assert_eq!(*scope.0.borrow(), ["a", "b", "d", "e"]);
}

#[test]
fn expressions_are_written_as_their_source() {
    let expression = Expression::parse(" a  +b ").unwrap();
    assert_eq!(serde_json::to_value(&expression).unwrap(), json!(" a  +b "));
    assert_eq!(serde_json::from_value::<Expression>(json!(" a  +b ")).unwrap(), expression);
    assert_ne!(Expression::parse("a + b").unwrap(), expression);
    let error = serde_json::from_value::<Expression>(json!("a +")).unwrap_err();
    assert_eq!(error.to_string(), "unexpected end at column 4: expected a value");
}

#[test]
fn ordered_maps_are_scopes_too() {
    let scope = BTreeMap::from([("n".to_owned(), json!(41))]);
    assert_eq!(Expression::parse("n + 1").unwrap().evaluate(&scope), Ok(json!(42)));
}

#[track_caller]
fn check(source: &str, expected: Value) {
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(expression.evaluate(&scope()), Ok(expected), "{source}");
}

#[track_caller]
fn check_error(source: &str, expected: &str) {
    let evaluated = Expression::parse(source).unwrap().evaluate(&scope());
    assert_eq!(evaluated.map_err(|error| error.to_string()), Err(expected.to_owned()), "{source}");
}

#[track_caller]
fn check_parse_error(source: &str, expected: &str) {
    let parsed = Expression::parse(source);
    assert_eq!(parsed.map_err(|error| error.to_string()), Err(expected.to_owned()), "{source}");
}

#[track_caller]
fn is_true(source: &str) -> bool {
    Expression::parse(source).unwrap().is_true(&scope()).unwrap()
}

fn scope() -> Map<String, Value> {
    let scope = json!({
        "id": 9_007_199_254_740_993_u64,
        "list": [{"name": "first"}, {"name": "second"}],
        "nothing": null,
        "odd": {"b.c": "dotted"},
        "steps": {"score": {"value": 0.9}},
    });
    let Value::Object(scope) = scope else { panic!("an object") };
    scope
}
