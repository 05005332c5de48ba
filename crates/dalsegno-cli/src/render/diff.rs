//! Two runs, or two configurations, side by side.

use dalsegno_history::{Change, ConfigReport, Divergence, RunDiff, Side};

use super::ending::usage;
use super::output::{Output, Stream};
use super::text::{Style, brief, count, short, styled, wrapped};

/// Tells how two runs differ.
pub(crate) fn runs(diff: &RunDiff, stream: &mut Stream) {
    let width = stream.terminal.room;
    for (mark, style, side) in [('-', Style::Red, &diff.left), ('+', Style::Green, &diff.right)] {
        let line = brief(&format!("{mark} {}", describe(side)), width);
        stream.line(styled(style, line));
    }
    let Some(first) = &diff.first else {
        stream.line("");
        stream.line("the same requests, outcomes and end");
        return;
    };
    let place = match first.turn {
        Some(turn) => format!("turn {turn}"),
        None => format!("step {}", first.step),
    };
    section(&format!("first difference: {place}, {} of {}", first.kind, first.label), stream);
    changes(&first.changes, stream);
    if !diff.state.is_empty() {
        section("state", stream);
        changes(&diff.state, stream);
    }
    for (name, place) in [("arguments", &diff.arguments), ("prompt", &diff.prompt)] {
        if let Some(place) = place {
            section(&format!("{name}: step {}, {}", place.step, place.label), stream);
            changes(&place.changes, stream);
        }
    }
    section("cost", stream);
    if diff.left.usage == diff.right.usage {
        stream.line(format!("    the same: {}", cost(&diff.left, width.saturating_sub(14))));
        return;
    }
    for (mark, style, side) in [('-', Style::Red, &diff.left), ('+', Style::Green, &diff.right)] {
        let words = cost(side, width.saturating_sub(6));
        stream.line(styled(style, format_args!("    {mark} {words}")));
    }
}

fn cost(side: &Side, width: usize) -> String {
    let parts = usage(side.usage);
    brief(&if parts.is_empty() { "nothing".to_owned() } else { parts.join(" · ") }, width)
}

fn describe(side: &Side) -> String {
    let (run, steps) = (short(side.run), count(side.steps, "step"));
    // Of one that has not ended its status says all.
    let end = side.end.as_deref().map(|end| format!(" · {end}")).unwrap_or_default();
    format!("{run} {} {} · {steps}{end}", side.agent, side.status)
}

/// Tells what would be different under another configuration.
pub(crate) fn configs(report: &ConfigReport, output: &mut Output) {
    if !report.changed_requests.is_empty() {
        heading(&count(report.changed_requests.len() as u64, "changed request"), &mut output.stdout);
        for request in &report.changed_requests {
            output.stdout.line(format!("step {}, {}", request.step, request.label));
            changes(&request.changes, &mut output.stdout);
        }
    }
    if let Some(divergence) = &report.divergence {
        if !report.changed_requests.is_empty() {
            output.stdout.line("");
        }
        heading(&format!("another course from step {} on", divergence.step), &mut output.stdout);
        course(divergence, output);
    }
}

fn course(divergence: &Divergence, output: &mut Output) {
    let (left, right) = (divergence.expected.clone(), divergence.got.clone());
    let course = Change { path: String::new(), left: Some(left), right: Some(right) };
    changes(std::slice::from_ref(&course), &mut output.stdout);
}

/// Tells the first thing that would be different under another configuration.
pub(crate) fn first(report: &ConfigReport, output: &mut Output) {
    let parts = report.divergence.as_ref();
    let changed = report.changed_requests.first();
    if let Some(request) = changed.filter(|request| parts.is_none_or(|parts| request.step <= parts.step)) {
        output.stdout.line(format!("  step {}, {}", request.step, request.label));
        changes(&request.changes, &mut output.stdout);
    } else if let Some(parts) = parts {
        output.stdout.line(format!("  another course from step {} on", parts.step));
        course(parts, output);
    }
}

fn section(title: &str, stream: &mut Stream) {
    stream.line("");
    heading(title, stream);
}

fn heading(title: &str, stream: &mut Stream) {
    let width = stream.terminal.room;
    stream.line(styled(Style::Bold, brief(title, width)));
}

/// Shows each place that differs, with both sides.
pub(crate) fn changes(changes: &[Change], stream: &mut Stream) {
    let width = stream.terminal.room;
    for Change { path, left, right } in changes {
        if !path.is_empty() {
            stream.line(format!("  {}", brief(path, width.saturating_sub(2))));
        }
        for (mark, style, side) in [('-', Style::Red, left), ('+', Style::Green, right)] {
            let Some(side) = side else { continue };
            for (index, line) in wrapped(side, width.saturating_sub(6)).iter().enumerate() {
                let mark = if index == 0 { mark } else { ' ' };
                stream.line(styled(style, format_args!("    {mark} {line}")));
            }
        }
    }
}
