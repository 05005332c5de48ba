//! What hostile sources and hostile data come to: a typed error, before memory or time is spent.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use dalsegno_expr::{
    EvalErrorKind, Expression, MAX_DEPTH, MAX_RENDER_STEPS, MAX_SOURCE_CHARS, MAX_STEPS, MAX_VALUE_DEPTH,
    Meter, Template, ValueTemplate,
};
use serde_json::{Map, Value, json};

#[test]
fn hostile_nesting_is_refused() {
    let openings = [
        "(",
        "[",
        "{a:",
        "!",
        "-",
        "- ",
        "+",
        "a[",
        "a?.[",
        "a.at(",
        "a?.at(",
        "Number(",
        "a?",
        "a?b:",
        "a ?? ",
        "a&&(",
        "[[",
        "({a:[",
        "a in(",
        "1+(",
        "a.concat(b,",
        "Math.max(1,",
    ];
    for opening in openings {
        for count in [40, 300, 10_000] {
            assert!(Expression::parse(&opening.repeat(count)).is_err(), "{opening} times {count}");
        }
    }
    for (opening, closing) in
        [("(", ")"), ("[", "]"), ("{a:", "}"), ("a[", "]"), ("Number(", ")"), ("a.at(", ")"), ("!", "")]
    {
        let nested = |depth: usize| format!("{}1{}", opening.repeat(depth), closing.repeat(depth));
        Expression::parse(&nested(MAX_DEPTH)).unwrap_or_else(|error| panic!("{opening}: {error}"));
        let error = Expression::parse(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(error.message, "this expression is nested too deeply", "{opening}");
        assert_eq!(error.help.as_deref(), Some("expected at most 32 levels"), "{opening}");
        let deepest = opening.len() * MAX_DEPTH..=opening.len() * (MAX_DEPTH + 1);
        assert!(deepest.contains(&error.span.start), "{opening}: {error:?}");
    }
}

#[test]
fn length_counts_characters_and_is_limited() {
    let longest = format!("'{}'", "é".repeat(MAX_SOURCE_CHARS - 2));
    assert!(Expression::parse(&longest).is_ok());
    for source in [format!("{longest} "), "\u{10ffff}".repeat(MAX_SOURCE_CHARS + 1), " ".repeat(5_000_000)] {
        let error = Expression::parse(&source).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this expression is too long at column 1: expected at most 1000 characters"
        );
        assert_eq!(error.span, 0..source.len());
    }
}

#[test]
fn long_chains_are_not_deep() {
    check(&format!("1{}", "+1".repeat(400)), json!(401));
    check(&format!("0{}", "||0".repeat(300)), json!(0));
    check(&format!("null{}", "??null".repeat(160)), json!(null));
    check(&format!("1{}", "&&1".repeat(300)), json!(1));
    check(&format!("{}3", "0?1:".repeat(200)), json!(3));
    check(&format!("list{}", ".a".repeat(400)), json!(null));
    check(&format!("list{}", "?.[0]".repeat(190)), json!(null));
    check(&format!("'a'{}", ".trim()".repeat(140)), json!("a"));
    check(&format!("1{}", "<1".repeat(400)), json!(true));
    check(&format!("[{}]", "1,".repeat(498)), json!(vec![1; 498]));
}

#[test]
fn what_would_grow_without_bound_is_stopped() {
    let sources = [
        // Text.
        "'a'.padStart(1e15)",
        "'a'.padStart(9007199254740991)",
        "'a'.padStart(Infinity, 'xyz')",
        "'a'.padStart(12000000)",
        "big + big + big + big + big + big",
        "[big + big, big + big, big + big]",
        "big.concat(big, big, big, big, big, big, big, big, big, big)",
        "[big.concat(), big.concat(), big.concat(), big.concat(), big.concat(), big.concat(), big.concat(), big.concat(), big.concat(), big.concat()]",
        "big.replace('x', quotes)",
        "String([big, big, big, big, big, big, big, big, big, big, big])",
        "encodeURIComponent(big + big) + encodeURIComponent(big + big)",
        "big.toUpperCase() + big.toLowerCase() + big.toUpperCase() + big.toLowerCase()",
        // Elements.
        "big.split('')",
        "Object.keys(big)",
        "big.split('').join(big)",
        "items.concat(items, items)",
        "[big, big, big, big, big, big, big, big, big, big, big, big]",
        "[items, items, items]",
        "list.concat([big.split('a'), big.split('')]).join(big)",
        "items.join(big)",
        "items + items + items",
    ];
    let scope = json!({
        "big": "x".repeat(1_000_000),
        "quotes": "$'".repeat(100_000),
        "items": vec![0; 60_000],
        "list": [],
    });
    for source in sources {
        check_too_many_steps(source, &scope);
    }
}

#[test]
fn work_that_builds_nothing_is_paid_for_too() {
    let scope = json!({
        "big": "x".repeat(10_000_000),
        "same": "x".repeat(10_000_000),
        "wide": "é".repeat(5_000_000),
        "fraction": format!("2024-05-06T07:08:09.{}Z", "1".repeat(10_000_000)),
        "digits": "1".repeat(10_000_000),
    });
    let repeated = |source: &str, joint: &str| vec![source; 950 / (source.len() + joint.len())].join(joint);
    for source in [
        repeated("big<same", "||"),
        repeated("[big].includes(same)===0", "||"),
        repeated("''.includes(big)", "||"),
        repeated("'a'.padStart(1,wide)===0", "||"),
        repeated("wide[9]===0", "||"),
        repeated("big.startsWith(0,9)", "||"),
        repeated("Date.parse(fraction)<0", "||"),
        repeated("+digits<0", "||"),
    ] {
        check_too_many_steps(&source, &scope);
    }
}

#[test]
fn separators_that_never_or_always_match_cost_no_more_than_their_text() {
    let almost = "a".repeat(100_000) + "b";
    let scope = json!({ "text": "a".repeat(900_000), "almost": almost });
    let scope = scope.as_object().unwrap();
    let evaluate = |source: &str| Expression::parse(source).unwrap().evaluate(scope);
    assert_eq!(evaluate("text.indexOf(almost)"), Ok(json!(-1)));
    assert_eq!(evaluate("text.split(almost).length"), Ok(json!(1)));
    assert_eq!(evaluate("text.replace(almost, '') === text"), Ok(json!(true)));
    assert_eq!(evaluate("text.split('a', 3)"), Ok(json!(["", "", ""])));
    check_too_many_steps("text.split('a')", &Value::Object(scope.clone()));
}

#[test]
fn giant_numbers_are_positions_like_any_other() {
    for giant in [
        "1e308",
        "-1e308",
        "9007199254740991",
        "-9007199254740991",
        "4294967296",
        "Infinity",
        "-Infinity",
        "NaN",
    ] {
        for call in [
            "'abc'.at(N)",
            "'abc'.slice(N)",
            "'abc'.slice(0, N)",
            "'abc'.slice(N, N)",
            "'abc'[N]",
            "'abc'.indexOf('', N)",
            "'abc'.includes('c', N)",
            "'abc'.startsWith('a', N)",
            "'abc'.endsWith('c', N)",
            "'abc'.split('', N)",
            "[1, 2].at(N)",
            "[1, 2].slice(N)",
            "[1, 2].slice(0, N)",
            "[1, 2].slice(N, N)",
            "[1, 2][N]",
            "[1, 2].includes(2, N)",
            "[1, 2].indexOf(2, N)",
            "N in [1, 2]",
            "[N].join()",
            "String(N)",
            "'😀'.slice(N)",
            "'😀'.at(N)",
        ] {
            let source = call.replace('N', &format!("({giant})"));
            let evaluated = Expression::parse(&source).unwrap().evaluate(&Map::new());
            assert!(evaluated.is_ok(), "{source}: {evaluated:?}");
        }
    }
    check("(1e308).toFixed(100)", json!("1e+308"));
    check("(5e-324).toFixed(100).length", json!(102));
    check("Number('9'.padStart(400, '9')) === Infinity", json!(true));
    check("Number('0x1'.concat('0'.padStart(400, '0'))) === Infinity", json!(true));
}

#[test]
fn text_is_never_cut_inside_a_character() {
    let scope = json!({ "text": "a😀é👩‍👩‍👧\u{fffd}" });
    let scope = scope.as_object().unwrap();
    for start in -14..14 {
        for end in -14..14 {
            for call in [
                format!("text.slice({start}, {end})"),
                format!("text.at({start})"),
                format!("text.split('', {end})"),
                format!("text.padStart({end}, text)"),
                format!("text.indexOf('é', {start})"),
                format!("text.startsWith('😀', {start})"),
                format!("text.endsWith('😀', {end})"),
            ] {
                let evaluated = Expression::parse(&call).unwrap().evaluate(scope);
                assert!(evaluated.is_ok(), "{call}: {evaluated:?}");
            }
        }
    }
}

#[test]
fn passing_on_a_large_document_costs_no_steps() {
    let scope = json!({"document": {"text": "x".repeat(20_000_000)}});
    let scope = scope.as_object().unwrap();
    let whole = Expression::parse("document").unwrap().evaluate(scope).unwrap();
    assert_eq!(whole, scope["document"]);
    assert_eq!(Template::parse("{{document}}").unwrap().render(scope).unwrap(), scope["document"]);
    assert!(Expression::parse("document.text.length > 100").unwrap().is_true(scope).unwrap());
}

#[test]
fn a_template_that_repeats_a_large_value_is_stopped() {
    let scope = json!({ "document": { "text": "x".repeat(1_000_000) }, "items": vec![0; 50_000] });
    let scope = scope.as_object().unwrap();
    for part in ["{{document}}", "{{document.text}}", "{{items}}", "{{'a'.padStart(1e6).length}}"] {
        let template = Template::parse(&part.repeat(1_000)).unwrap();
        let error = template.render_text(scope).unwrap_err();
        assert_eq!(error.kind, EvalErrorKind::TooManySteps { limit: MAX_RENDER_STEPS }, "{part}");
        // It is the part that was one too many, not the template as a whole.
        assert!(error.span.start > part.len() && error.span.len() < part.len(), "{part}: {error:?}");
        assert_eq!(template.render(scope), Err(error), "{part}");

        let list = ValueTemplate::parse(&json!(vec![part; 1_000])).unwrap();
        let error = list.render(scope).unwrap_err();
        assert!(matches!(error.kind, EvalErrorKind::TooManySteps { .. }), "{part}: {error}");
    }
    let few = Template::parse(&"{{document.text}}".repeat(10)).unwrap();
    assert_eq!(few.render_text(scope).unwrap().len(), 10_000_000);
}

#[test]
fn each_expression_of_a_template_has_its_own_limit() {
    let template = Template::parse("{{1}} {{'a'.padStart(1e15)}}").unwrap();
    let error = template.render_text(&Map::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the evaluation took more than 10000 steps: do less in one expression, or work on less data (at column 12)"
    );
    assert_eq!(&template.source()[error.span], ".padStart(1e15)");
}

#[test]
fn a_budget_can_be_shared_by_many_evaluations() {
    let expression = Expression::parse("1 + 1").unwrap();
    let mut meter = Meter::new(100);
    let mut count = 0;
    while expression.evaluate_within(&Map::new(), &mut meter).is_ok() {
        count += 1;
    }
    assert!((20..=100).contains(&count), "{count} evaluations");
    assert!(meter.steps_left() < 5);
}

#[test]
fn what_is_built_can_be_read_back_as_json() {
    let deepest = |depth: usize| (0..depth).fold(json!(0), |inner, _| json!([inner]));
    let scope = json!({ "deepest": deepest(MAX_VALUE_DEPTH - 1), "deeper": deepest(MAX_VALUE_DEPTH), "far": deepest(MAX_VALUE_DEPTH + 2) });
    let scope = scope.as_object().unwrap();
    let built = Expression::parse("[deepest]").unwrap().evaluate(scope).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&built.to_string()).unwrap(), built);
    let deeper = json!([built]).to_string();
    assert!(serde_json::from_str::<Value>(&deeper).is_err(), "the limit is what can be read");
    let too_deep = EvalErrorKind::TooDeep { limit: MAX_VALUE_DEPTH };
    for source in ["[deeper]", "{a: deeper}", "[[deepest]]", "{a: [1, {b: deepest}]}"] {
        let error = Expression::parse(source).unwrap().evaluate(scope).unwrap_err();
        assert_eq!(error.kind, too_deep, "{source}");
    }
    let template = ValueTemplate::parse(&json!({ "a": [1, "{{deepest}}"] })).unwrap();
    assert_eq!(template.render(scope).unwrap_err().kind, too_deep);
    for source in ["String(far)", "[far].join()", "far + ''", "far < 1", "Number(far)", "({})[far]"] {
        let error = Expression::parse(source).unwrap().evaluate(scope).unwrap_err();
        assert_eq!(error.kind, too_deep, "{source}");
    }
    assert_eq!(
        Template::parse("-{{deeper}}").unwrap().render(scope).unwrap().as_str().unwrap().len(),
        2 * MAX_VALUE_DEPTH + 2
    );
}

#[test]
fn the_deepest_expression_over_the_deepest_data_needs_little_stack() {
    let evaluate = || {
        let data = (0..MAX_VALUE_DEPTH - MAX_DEPTH).fold(json!("x"), |inner, _| json!([inner]));
        let scope = Map::from_iter([("data".to_owned(), data)]);
        let source = format!("{}data{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let value = Expression::parse(&source).unwrap().evaluate(&scope).unwrap();
        assert_eq!(value.to_string().matches('[').count(), MAX_VALUE_DEPTH);
        let source = format!("{}data + ''{}", "(1 ? [".repeat(MAX_DEPTH / 3), "] : 2)".repeat(MAX_DEPTH / 3));
        Template::parse(&format!("-{{{{{source}}}}}")).unwrap().render(&scope).unwrap()
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(evaluate).unwrap();
    assert!(thread.join().unwrap().is_string());
}

#[test]
fn a_scope_of_thousands_of_names_is_no_trouble() {
    let scope: Map<_, _> = (0..20_000).map(|index| (format!("name{index}"), json!(index))).collect();
    let all = Value::Object(Map::from_iter([("all".to_owned(), Value::Object(scope))]));
    check_value("Object.keys(all).length + all['name' + 19999]", &all, json!(39_999));
}

#[track_caller]
fn check(source: &str, expected: Value) {
    check_value(source, &json!({ "list": [] }), expected);
}

#[track_caller]
fn check_value(source: &str, scope: &Value, expected: Value) {
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(expression.evaluate(scope.as_object().unwrap()), Ok(expected), "{source}");
}

#[track_caller]
fn check_too_many_steps(source: &str, scope: &Value) {
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let error = expression.evaluate(scope.as_object().unwrap()).map(|_| "a value").unwrap_err();
    assert_eq!(error.kind, EvalErrorKind::TooManySteps { limit: MAX_STEPS }, "{source}");
    assert!(source.get(error.span.clone()).is_some_and(|part| !part.is_empty()), "{error:?}");
}
