//! The `validate` action.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::run::{Advance, Notes, Run};
use crate::action::{Check, Rule};
use crate::outcome::{ErrorCode, ToolError};

/// Text that a rule looks through for one step.
const BYTES_PER_STEP: usize = 64;
/// Longest message of one rule, in characters.
const MAX_MESSAGE: usize = 500;

impl Run<'_, '_> {
    /// Checks all rules, and reports all failures.
    pub(super) fn validate(&mut self, rules: &[Rule], notes: &mut Notes) -> Result<Advance, ToolError> {
        let mut violations = Vec::new();
        for rule in rules {
            let length = match self.names().find(&rule.field).as_deref() {
                Some(Value::String(text)) => text.len(),
                _ => 0,
            };
            // Looking through text costs, and there can be many rules.
            self.spend(1 + u32::try_from(length / BYTES_PER_STEP).unwrap_or(u32::MAX - 1))?;
            let names = self.names();
            let found = names.find(&rule.field);
            let value = found.as_deref().unwrap_or(&Value::Null);
            let Some(reason) = broken(&rule.check, value) else { continue };
            let message = match &rule.error_message {
                Some(message) => {
                    message.text(&names, &mut notes.warnings)?.chars().take(MAX_MESSAGE).collect()
                }
                None => format!("`{}` {reason}", rule.field),
            };
            violations.push(json!({
                "field": format!("{}", rule.field), "rule": rule.check.name(), "message": message,
            }));
        }
        if violations.is_empty() {
            return Ok(Advance::Done);
        }
        let messages: Vec<Cow<'_, str>> = violations
            .iter()
            .filter_map(|violation| violation["message"].as_str().map(Cow::Borrowed))
            .collect();
        let message = messages.join("; ");
        Err(ToolError::new(ErrorCode::ValidationFailed, message).with("violations", Value::Array(violations)))
    }
}

/// Returns how a value breaks a rule. All rules but `required` pass over what is absent.
fn broken(check: &Check, value: &Value) -> Option<String> {
    let holds = match (check, value) {
        (Check::Required, Value::Null) => false,
        (Check::Required, Value::String(text)) => !text.trim().is_empty(),
        (Check::Required, Value::Array(items)) => !items.is_empty(),
        (Check::Required, _) | (_, Value::Null) => true,
        (Check::Email, Value::String(text)) => is_email(text),
        (Check::Phone, Value::String(text)) => is_phone(text),
        (Check::Number, Value::Number(_)) => true,
        (Check::Number, Value::String(text)) => is_number(text),
        (Check::MinLength(least), value) => length(value).is_some_and(|length| length >= *least),
        (Check::MaxLength(most), value) => length(value).is_some_and(|length| length <= *most),
        (Check::Pattern(pattern), Value::String(text)) => pattern.is_match(text),
        (Check::Pattern(pattern), Value::Number(number)) => pattern.is_match(&format!("{number}")),
        (Check::Email | Check::Phone | Check::Number | Check::Pattern(_), _) => false,
    };
    if holds {
        return None;
    }
    Some(match check {
        Check::Required => "is missing".to_owned(),
        Check::Email => "is not an e-mail address".to_owned(),
        Check::Phone => "is not a telephone number such as `+33123456789`".to_owned(),
        Check::Number => "is not a number".to_owned(),
        Check::MinLength(least) => format!("is shorter than {least}"),
        Check::MaxLength(most) => format!("is longer than {most}"),
        Check::Pattern(pattern) => format!("does not match `{}`", pattern.as_str()),
    })
}

/// The characters of a text, the items of a list.
fn length(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => Some(text.chars().count() as u64),
        Value::Array(items) => Some(items.len() as u64),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The usual form of an address, without quoted parts and comments, which nobody types.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_local = !local.is_empty()
        && local.len() <= 64
        && local.split('.').all(|part| {
            !part.is_empty()
                && part.chars().all(|char| char.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(char))
        });
    let labels: Vec<&str> = domain.split('.').collect();
    let is_domain = labels.len() >= 2
        && labels.iter().all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|char| char.is_alphanumeric() || char == '-')
        });
    is_local && is_domain && text.len() <= 254
}

/// E.164: a `+` and up to 15 digits.
fn is_phone(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (2..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    has_digit && text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_numbers_are_what_people_type() {
        for good in ["a@b.co", "first.last+tag@sub.example.org", "é@exämple.de"] {
            assert!(is_email(good), "{good}");
        }
        for bad in ["", "a", "a@", "@b.co", "a@b", "a b@c.de", "a@b..c", "a@-b.co", "a.@b.co", "a@b.co\n"] {
            assert!(!is_email(bad), "{bad:?}");
        }
        for good in ["+33123456789", "+12"] {
            assert!(is_phone(good), "{good}");
        }
        for bad in ["", "+", "0123", "+0123", "+1234567890123456", "+1 23"] {
            assert!(!is_phone(bad), "{bad}");
        }
        assert!(is_number("1.5") && is_number("-2e3"));
        assert!(!is_number("inf") && !is_number("NaN") && !is_number("") && !is_number("1,5"));
    }

    #[test]
    fn only_required_looks_at_what_is_absent() {
        for check in [Check::Email, Check::Phone, Check::Number, Check::MinLength(1), Check::MaxLength(1)] {
            assert_eq!(broken(&check, &Value::Null), None, "{check:?}");
        }
        for absent in [json!(null), json!(""), json!("  "), json!([])] {
            assert!(broken(&Check::Required, &absent).is_some(), "{absent}");
        }
        assert_eq!(broken(&Check::Required, &json!(false)), None);
        assert!(broken(&Check::MinLength(3), &json!("éé")).is_some());
        assert_eq!(broken(&Check::MaxLength(2), &json!("éé")), None);
    }
}
