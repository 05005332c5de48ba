//! The time until which a plan waits.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use dalsegno_expr::{Expression, Scope};
use serde_json::Value;

use super::place::Place;
use crate::canonical::print_json;
use crate::config::Wait;
use crate::id::Timestamp;
use crate::phase::Stop;
use crate::response::RunErrorCode;

/// The longest wait, 366 days: a longer one is more likely seconds taken for milliseconds than a plan.
pub(super) const LONGEST_WAIT_MS: u64 = 366 * 24 * 60 * 60 * 1_000;

/// The time at which the plan goes on.
pub(super) fn until(
    place: Place<'_>,
    wait: &Wait,
    scope: &dyn Scope,
    now: Timestamp,
) -> Result<Timestamp, Stop> {
    let until = match wait {
        Wait::For { ms } => now.as_millis().saturating_add(*ms),
        Wait::Until(expression) => {
            let value = place.evaluate(expression, scope)?;
            moment(place, &value)?.ok_or_else(|| {
                place.stop(
                    RunErrorCode::EvaluationFailed,
                    format_args!("`{}` is {}, which is no time", expression.source(), shown(&value)),
                    "give milliseconds since 1970, or a date such as `2026-11-22T09:00:00Z`",
                )
            })?
        }
    };
    if until.saturating_sub(now.as_millis()) > LONGEST_WAIT_MS {
        return Err(place.stop(
            RunErrorCode::LimitExceeded,
            format_args!("the wait would be longer than 366 days"),
            "wait for a nearer time; times are in milliseconds",
        ));
    }
    Ok(Timestamp::from_millis(until))
}

/// Milliseconds since the epoch; 0 for all that lies before it.
fn moment(place: Place<'_>, value: &Value) -> Result<Option<u64>, Stop> {
    match value {
        Value::Number(number) => Ok(number.as_u64().or_else(|| number.as_f64().and_then(millis))),
        Value::String(text) => {
            let parsed = parse_date(place, text)?;
            Ok(parsed.as_f64().and_then(millis))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Ok(None),
    }
}

/// What is negative becomes 0 and what is too large the largest, as the cast has it.
fn millis(number: f64) -> Option<u64> {
    number.is_finite().then_some(number as u64)
}

/// Reads a date as an agent's own expressions do: a date is read in one way everywhere.
fn parse_date(place: Place<'_>, text: &str) -> Result<Value, Stop> {
    let expression = Expression::parse("Date.parse(text)").expect("a sound expression");
    let scope = BTreeMap::from([("text".to_string(), Value::from(text))]);
    place.evaluate(&expression, &scope)
}

/// A value in a message: the beginning of its JSON.
fn shown(value: &Value) -> String {
    let mut text = print_json(value);
    let end = text.floor_char_boundary(40);
    if end < text.len() {
        text.truncate(end);
        text.push('…');
    }
    text
}
