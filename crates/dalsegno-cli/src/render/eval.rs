//! What an evaluation found, in words.

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, EffectClass};
use dalsegno_eval::{Compared, Conclusion, FailedTrial, Goal, Report, Stopped, WayReport};
use dalsegno_statistics::{Figure, Interval, Verdict};
use dalsegno_workspace::Eval;

use super::output::Output;
use super::table::table;
use super::text::{Style, Words, brief, count, dollars, grouped, short, styled};

/// Trials that did not pass and are shown, unless all are asked for.
const SHOWN: usize = 10;

/// Says before anything starts which tools would act on the world.
pub(crate) fn effects(eval: &Eval, agents: &[Arc<AgentConfig>], output: &mut Output) {
    let (mut performed, mut held) = (BTreeSet::new(), BTreeSet::new());
    for (name, tool) in agents.iter().flat_map(|config| &config.tools.tools) {
        let is_tool = !name.as_str().starts_with("memory.") && !name.as_str().starts_with("agents.");
        if is_tool && !matches!(tool.class, EffectClass::Read | EffectClass::Composite) {
            let is_allowed = eval.allow_effects.iter().any(|pattern| pattern.matches(name));
            if is_allowed { &mut performed } else { &mut held }.insert(name.as_str());
        }
    }
    let list = |names: BTreeSet<&str>| {
        names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    if !performed.is_empty() {
        output.note(
            styled(Style::Yellow, "warning")
                .and(format!(": trials call {} for real, since `allow_effects` says so", list(performed))),
        );
    }
    if !held.is_empty() {
        output.note(format!(
            "a trial stops where it would change something: {}; `allow_effects` lets it",
            list(held)
        ));
    }
}

/// The table, and the trials that did not pass.
pub(crate) fn show(report: &Report, verbose: bool, output: &mut Output) {
    let rows: Vec<[String; 7]> = report.ways.iter().map(row).collect();
    let head = ["way", "passed", "pass rate", "all trials", "flips", "no verdict", "cost"];
    let width = output.stdout.terminal.width;
    for line in table(head, &rows, width) {
        output.stdout.line(line);
    }
    for judge in &report.judges {
        let figure = |figure: Option<Figure>, show: fn(f64) -> String| match figure {
            Some(Figure { value, interval: Interval { low, high } }) => {
                format!("{} ({} to {})", show(value), show(low), show(high))
            }
            None => "not known".to_owned(),
        };
        let without: u64 = judge.no_verdict.values().sum();
        let agreement = judge.labelled.map(|labelled| {
            format!(
                "; of {} with labels: agreement {}, kappa {}",
                count(labelled.count(), "answer"),
                figure(judge.agreement, percent),
                figure(judge.kappa, |kappa| format!("{kappa:.2}"))
            )
        });
        output.stdout.line(format!(
            "judge {}: {} pass, {} fail, {without} no verdict{}",
            judge.name,
            judge.passed,
            judge.failed,
            agreement.unwrap_or_default()
        ));
        for (why, times) in judge.no_verdict.iter().take(3) {
            output
                .stdout
                .line(styled(Style::Dim, format!("  {}: {}", count(*times, "time"), brief(why, 160))));
        }
    }
    let shown = if verbose { report.failures.len() } else { SHOWN.min(report.failures.len()) };
    for FailedTrial { item, line, run, failures, .. } in &report.failures[..shown] {
        output.stdout.line("");
        output.stdout.line(styled(Style::Red, "failed").and(format!(
            " {}, line {line}, run {}",
            brief(item, 80),
            short(*run)
        )));
        for (what, message) in failures {
            for (index, part) in message.lines().enumerate() {
                let start = if index == 0 { format!("  {what}: ") } else { "  ".to_owned() };
                output.stdout.line(format!("{start}{}", brief_line(part)));
            }
        }
    }
    if report.failures.len() > shown {
        output.stdout.line("");
        output.stdout.line(format!("and {} more: see them with `--verbose`", report.failures.len() - shown));
    }
}

/// A line as it stands, but for its length.
fn brief_line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    format!("{}{}", &line[..indent], brief(line, 200))
}

fn row(way: &WayReport) -> [String; 7] {
    let WayReport {
        name, trials, passed, no_verdict, pass_rate, pass_power, flip_rate, cost_nano_usd, ..
    } = way;
    let figure = |figure: &Option<Figure>| match figure {
        Some(Figure { value, interval: Interval { low, high } }) => {
            format!("{} ({:.1} to {:.1})", percent(*value), low * 100.0, high * 100.0)
        }
        None => "-".to_owned(),
    };
    [
        name.clone(),
        format!("{passed} of {trials}"),
        figure(pass_rate),
        pass_power.as_ref().map_or_else(|| "-".to_owned(), |power| percent(power.value)),
        flip_rate.map_or_else(|| "-".to_owned(), percent),
        no_verdict.to_string(),
        dollars(*cost_nano_usd),
    ]
}

/// Says in a few lines what it comes to.
pub(crate) fn sum_up(report: &Report, output: &mut Output) {
    for (why, times) in &report.no_reply {
        output.note(
            styled(Style::Yellow, "warning")
                .and(format!(": {} without a reply: {why}", count(*times, "trial"))),
        );
    }
    if let Some(first) = report.failures.first() {
        output.note(format!("see a trial with `dalsegno show {}`", short(first.run)));
    }
    let cost = match &report.unpriced {
        Some(model) => format!("cost unknown, since the model `{model}` has no price"),
        None if report.cost_now_nano_usd < report.cost_nano_usd => {
            format!("{}, of which {} now", dollars(report.cost_nano_usd), dollars(report.cost_now_nano_usd))
        }
        None => dollars(report.cost_nano_usd),
    };
    let stopped = match report.stopped {
        Stopped::AllItems | Stopped::Enough => "",
        Stopped::Decided => ", stopped since the answer is known",
        Stopped::Money => ", stopped before `--max-cost-usd` was passed",
        Stopped::NoReply => ", stopped since no model replied",
    };
    output.note(format!(
        "{} of {}, {} performed, {} known from before, {}, {cost}{stopped}",
        grouped(report.items),
        count(report.items_in_data, "item"),
        count(report.performed, "run"),
        grouped(report.known),
        count(report.tokens, "token"),
    ));
    if let (Some(compared), [before, now]) = (&report.comparison, &report.ways[..]) {
        output.note(comparison(compared, &before.name, &now.name));
    }
    if let (Some(Goal { at_least, conclusion }), Some(way)) = (&report.goal, report.ways.last()) {
        let wanted = percent(*at_least);
        let rate = way.pass_rate.map(|rate| rate.interval);
        let between = rate.map_or_else(String::new, |Interval { low, high }| {
            format!(": the pass rate is between {} and {}", percent(low), percent(high))
        });
        output.note(
            match conclusion {
                Conclusion::Reached => styled(Style::Green, format!("{wanted} reached")),
                Conclusion::NotReached => styled(Style::Red, format!("{wanted} not reached")),
                Conclusion::Inconclusive => {
                    styled(Style::Yellow, format!("inconclusive whether {wanted} is reached"))
                }
            }
            .and(between),
        );
    }
    if report.ways.iter().all(|way| way.trials == 0) && report.comparison.is_none() && report.goal.is_none() {
        output.note(styled(Style::Yellow, "inconclusive").and(": no trial has a verdict"));
    }
}

fn comparison(compared: &Compared, before: &str, now: &str) -> Words {
    let Compared { verdict, interval: Interval { low, high }, smallest, visible, better, worse, .. } =
        compared;
    let between = format!("difference between {} and {}", points(*low), points(*high));
    let items = format!("better on {}, worse on {}", count(*better, "item"), count(*worse, "item"));
    match verdict {
        Verdict::Better => styled(Style::Green, "better")
            .and(format!(": {now} passes more often than {before}; {between}; {items}")),
        Verdict::Worse => styled(Style::Red, "worse")
            .and(format!(": {now} passes less often than {before}; {between}; {items}")),
        Verdict::Equal => styled(Style::Green, "equal").and(format!(
            ": if {now} differs from {before}, then by less than {:.0} points; {between}",
            smallest * 100.0
        )),
        Verdict::Inconclusive => {
            let visible = match visible {
                Some(visible) => format!("so many items show {} or more", points(*visible)),
                None => "so few items show no difference".to_owned(),
            };
            styled(Style::Yellow, "inconclusive")
                .and(format!(": {now} against {before}; {between}; {items}; {visible}"))
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn points(difference: f64) -> String {
    // Without it, a small negative number is shown as "-0".
    let points = (difference * 100.0).round() + 0.0;
    format!("{points:+} points")
}
