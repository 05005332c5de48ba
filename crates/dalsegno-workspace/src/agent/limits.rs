//! Reads `[limits]`.

use std::ops::Range;

use dalsegno_core::{Limits, OnExceeded};

use crate::section::Section;

/// The bounds of a run, and where the one on its cost stands.
pub(super) fn read(file: &Section<'_>) -> (Limits, Option<Range<usize>>) {
    let defaults = Limits::default();
    let Some(section) = file.section("limits") else { return (defaults, None) };
    let limits = Limits {
        max_steps: section.integer("max_steps").unwrap_or(defaults.max_steps),
        max_tool_calls: section.integer("max_tool_calls").unwrap_or(defaults.max_tool_calls),
        timeout_ms: section.millis("timeout").unwrap_or(defaults.timeout_ms),
        answer_timeout_ms: section.millis("answer_timeout"),
        on_exceeded: section.choice("on_exceeded", ON_EXCEEDED).unwrap_or_default(),
        max_tokens: section.integer("max_tokens"),
        max_cost_nano_usd: section.dollars("max_cost_usd"),
        max_state_bytes: section.size("max_state").unwrap_or(defaults.max_state_bytes),
        repeat_limit: section.integer("repeat_limit").unwrap_or(defaults.repeat_limit),
    };
    (limits, section.key_span("max_cost_usd").filter(|_| limits.max_cost_nano_usd.is_some()))
}

const ON_EXCEEDED: &[(&str, OnExceeded)] = &[("fail", OnExceeded::Fail), ("answer", OnExceeded::Answer)];
