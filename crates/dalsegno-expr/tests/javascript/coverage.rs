//! Counts what of the language a set of expressions uses.

use dalsegno_expr::Expression;
use std::collections::BTreeMap;

/// How often each part has to be used.
const LEAST: usize = 12;

/// Fails if a member, a function, an operator or another form is hardly used.
pub(crate) fn check(expressions: &[String]) {
    let mut counts = BTreeMap::new();
    for pattern in patterns() {
        let count = expressions.iter().filter(|expression| expression.contains(&pattern)).count();
        counts.insert(pattern, count);
    }
    let rare: Vec<_> = counts.iter().filter(|(_, count)| **count < LEAST).collect();
    assert!(rare.is_empty(), "used in less than {LEAST} of {} expressions: {rare:?}", expressions.len());
}

fn patterns() -> Vec<String> {
    // The language lists its own members where it refuses another, so a new one is missed here at once.
    let mut patterns: Vec<_> = listed("x.unknown()").iter().map(|method| format!(".{method}(")).collect();
    patterns.extend(listed("unknown()").iter().map(|function| format!("{function}(")));
    assert!(patterns.len() > 25, "the members are not listed any more: {patterns:?}");
    let operators = [
        "===", "!==", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "??", "+", "-", "*", "/", "%", "in", "?",
        ":",
    ];
    patterns.extend(operators.iter().map(|operator| format!(" {operator} ")));
    let forms = [
        "(-",
        "(!",
        "(+",
        "?.",
        "?.[",
        ".length",
        "[",
        "({",
        "({a: ",
        "true",
        "false",
        "null",
        "undefined",
        "NaN",
        "Infinity",
        "\\u",
        "\"",
        "😀",
    ];
    patterns.extend(forms.map(str::to_owned));
    patterns
}

/// The names in backticks of the help for a source that does not parse.
fn listed(source: &str) -> Vec<String> {
    let help = Expression::parse(source).unwrap_err().help.unwrap();
    help.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
