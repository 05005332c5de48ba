//! Two calls side by side: the first turn that differs in words, calls or effects.

use serde_json::{Value, json};

use super::FirstDifference;
use crate::compare;
use crate::turns::{Conversation, Effect, Turn};

/// Where two calls part, if what was said and done in one of them differs from the other. Ids, times and tokens do not count.
pub(super) fn part(left: &Conversation, right: &Conversation) -> Option<FirstDifference> {
    let most = left.turns.len().max(right.turns.len());
    // What is done before the first turn is done in turn 0.
    for number in 0..=most {
        let turns = number.checked_sub(1).map(|place| (left.turns.get(place), right.turns.get(place)));
        if let Some((a, b)) = turns
            && let Some(first) = turn(number as u64, a, b)
        {
            return Some(first);
        }
        if let Some(first) = effects(number as u64, left, right) {
            return Some(first);
        }
    }
    None
}

fn turn(number: u64, left: Option<&Turn>, right: Option<&Turn>) -> Option<FirstDifference> {
    let words = |turn: Option<&Turn>| match turn {
        Some(turn) => {
            let cut = if turn.cut_off_ms.is_some() { " (cut off)" } else { "" };
            json!({ turn.by.as_str(): format!("{}{cut}", turn.text) })
        }
        None => json!({}),
    };
    let changes = compare::values(&words(left), &words(right));
    if !changes.is_empty() {
        return Some(difference(number, "words", who(left, right), changes));
    }
    let calls = |turn: Option<&Turn>| {
        let calls = turn.map(|turn| turn.calls.as_slice()).unwrap_or_default();
        let calls = calls.iter().map(|call| {
            let arguments = serde_json::from_str(&call.arguments);
            json!({ "tool": call.name, "arguments": arguments.unwrap_or_else(|_| Value::from(call.arguments.as_str())) })
        });
        Value::Array(calls.collect())
    };
    let changes = compare::values(&calls(left), &calls(right));
    (!changes.is_empty()).then(|| difference(number, "call", who(left, right), changes))
}

fn who(left: Option<&Turn>, right: Option<&Turn>) -> String {
    match (left, right) {
        (Some(a), Some(b)) if a.by != b.by => "another one speaks".to_owned(),
        (Some(turn), _) | (_, Some(turn)) => format!("the {}", turn.by.as_str()),
        (None, None) => String::new(),
    }
}

fn effects(number: u64, left: &Conversation, right: &Conversation) -> Option<FirstDifference> {
    let (a, b) = (left.effects_of(number), right.effects_of(number));
    for place in 0..a.len().max(b.len()) {
        let (a, b) = (a.get(place), b.get(place));
        let shown = |effect: Option<&Effect>| match effect {
            Some(effect) => json!({ "asks for": effect.label, "outcome": effect.outcome }),
            None => json!({}),
        };
        let same = match (a, b) {
            (Some(a), Some(b)) => a.digest == b.digest && a.outcome == b.outcome,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            let label = a.or(b).map(|effect| effect.label.clone()).unwrap_or_default();
            return Some(difference(number, "effect", label, compare::values(&shown(a), &shown(b))));
        }
    }
    None
}

fn difference(
    turn: u64,
    kind: &'static str,
    label: String,
    changes: Vec<compare::Change>,
) -> FirstDifference {
    FirstDifference { step: 1, turn: Some(turn), kind, label, changes }
}
