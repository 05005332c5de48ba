//! Rules about calls: conditions on the arguments that a tool is called with.

use alloc::borrow::Cow;
use alloc::string::String;

use dalsegno_expr::{Expression, Scope};
use serde_json::Value;

use super::Tool;

/// What a rule reads: `args`, the arguments of the call, and nothing else, so that it says the same whenever it is asked.
struct Arguments<'a>(&'a Value);

impl Scope for Arguments<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        (name == "args").then_some(Cow::Borrowed(self.0))
    }
}

impl Tool {
    /// Says which rule of [`approve_when`](Self::approve_when) demands that a person agrees to a call with these arguments.
    /// One that cannot be evaluated demands it, too.
    pub fn asks(&self, arguments: &Value) -> Option<String> {
        first_rule_met(&self.approve_when, arguments)
    }

    /// Says whether a person must agree to some of its calls, by their arguments.
    pub fn has_rules(&self) -> bool {
        !self.approve_when.is_empty() || !self.approve_from.is_empty()
    }

    /// Says which rule of [`deny_when`](Self::deny_when) forbids a call with these arguments. One that cannot be evaluated
    /// forbids it, too.
    pub fn denies(&self, arguments: &Value) -> Option<String> {
        first_rule_met(&self.deny_when, arguments)
    }
}

/// Returns the first of some conditions that the arguments of a call meet, in words. One that cannot be evaluated counts as
/// met: otherwise arguments of a strange form would pass.
pub fn first_rule_met<'r>(
    rules: impl IntoIterator<Item = &'r Expression>,
    arguments: &Value,
) -> Option<String> {
    let scope = Arguments(arguments);
    rules.into_iter().find_map(|rule| match rule.is_true(&scope) {
        Ok(true) => Some(alloc::format!("`{rule}`")),
        Ok(false) => None,
        Err(error) => Some(alloc::format!("`{rule}`, which cannot be evaluated: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use serde_json::json;

    use super::*;

    fn tool(rules: &[&str]) -> Tool {
        let rules: Vec<Expression> = rules.iter().map(|rule| Expression::parse(rule).unwrap()).collect();
        Tool { approve_when: rules.clone(), deny_when: rules, ..Tool::new("pays".into(), json!({})) }
    }

    #[test]
    fn the_first_rule_that_holds_is_named() {
        let tool = tool(&["args.amount > 100", "args.to == 'me'"]);
        let asks = |arguments: Value| tool.asks(&arguments);
        assert_eq!(asks(json!({"amount": 100, "to": "you"})), None);
        assert_eq!(asks(json!({"amount": 101, "to": "me"})).as_deref(), Some("`args.amount > 100`"));
        assert_eq!(asks(json!({"amount": 1, "to": "me"})).as_deref(), Some("`args.to == 'me'`"));
        assert_eq!(tool.denies(&json!({"amount": 101})), asks(json!({"amount": 101})));
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_holds() {
        let tool = tool(&["args.to.startsWith('boss')"]);
        assert_eq!(tool.asks(&json!({"to": "ab"})), None);
        for strange in
            [json!({"to": null}), json!({"to": 7}), json!({"to": ["boss"]}), json!({}), json!(null)]
        {
            let met = tool.asks(&strange).unwrap();
            assert!(met.starts_with("`args.to.startsWith('boss')`, which cannot be evaluated: "), "{met}");
            assert!(tool.denies(&strange).is_some());
        }
    }

    #[test]
    fn a_rule_reads_nothing_but_the_arguments() {
        assert_eq!(tool(&["user != undefined || request != undefined"]).asks(&json!({})), None);
    }

    #[test]
    fn a_tool_without_rules_is_written_as_it_always_was() {
        let json = serde_json::to_value(Tool::new("pays".into(), json!({}))).unwrap();
        assert!(json.get("approve_when").is_none() && json.get("deny_when").is_none());
        let ruled = tool(&["args.amount > 100"]);
        let json = serde_json::to_value(&ruled).unwrap();
        assert_eq!(json["approve_when"], json!(["args.amount > 100"]));
        assert_eq!(serde_json::from_value::<Tool>(json).unwrap(), ruled);
    }
}
