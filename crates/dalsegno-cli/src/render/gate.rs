//! Tells which recorded runs a change would alter, and which lines do it.

use std::time::{Duration, Instant};

use dalsegno_core::RunId;
use dalsegno_gate::{
    Changed, ChangedRun, Conclusion, Course, Departure, Edit, Forced, GateReport, Group, Live, Measured,
    NotCompared, Progress, Rate,
};

use super::diff;
use super::output::Output;
use super::spinner::Spinner;
use super::text::{Style, count, dollars, short, styled};
use crate::commands::Context;

/// Runs of a group that are named where not all of them are.
const NAMED: usize = 5;

/// The time between two words about how many runs are compared so far.
const PAUSE: Duration = Duration::from_millis(120);

/// How many runs are compared so far: on a terminal, where it takes long.
pub(crate) struct Counter {
    spinner: Spinner,
    told: Instant,
}

impl Counter {
    pub(crate) fn new(context: &Context<'_>) -> Self {
        Self { spinner: Spinner::new(context), told: Instant::now() }
    }

    pub(crate) fn tell(&mut self, progress: Progress, output: &mut Output) {
        if self.told.elapsed() >= PAUSE {
            self.told = Instant::now();
            let words = match progress {
                Progress::Compared(done, of) => format!("compared {done} of {}", count(of as u64, "run")),
                Progress::Explained(done, of) => format!("explained {done} of {}", count(of as u64, "run")),
            };
            self.spinner.draw(Some(words), output);
        }
    }

    pub(crate) fn clear(&mut self, output: &mut Output) {
        self.spinner.clear(output);
    }
}

/// Shows each reason for which runs would differ.
pub(crate) fn show(report: &GateReport, verbose: bool, output: &mut Output) {
    for group in &report.groups {
        show_group(group, verbose, output);
    }
}

fn show_group(group: &Group, verbose: bool, output: &mut Output) {
    let causes: Vec<&str> = group.causes.iter().map(|cause| cause.as_str()).collect();
    let causes = if causes.is_empty() { String::new() } else { format!(" · {}", causes.join(", ")) };
    let runs = count(group.runs.len() as u64, "run");
    output.stdout.line(
        styled(Style::Bold, group.agent.as_str())
            .and(causes)
            .and(format!(" · {runs}, first at step {}", group.first_step)),
    );
    for edit in &group.lines {
        show_edit(edit, output);
    }
    for part in &group.parts {
        output.stdout.line(format!("  {part}"));
    }
    if let Some(since) = &group.since {
        output.stdout.line(styled(Style::Dim, format!("  changed since {since}")));
    }
    let named = if verbose { group.runs.len() } else { NAMED };
    let more = group.runs.len().saturating_sub(named);
    let mut listed: Vec<String> = group.runs.iter().take(named).map(told).collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    output.stdout.line(format!("  runs: {}", listed.join(", ")));
    output.stdout.line("");
    output.stdout.line(styled(Style::Dim, format!("  run {}", short(group.example.run))));
    match verbose {
        true => diff::configs(&group.example, output),
        false => diff::first(&group.example, output),
    }
    output.stdout.line("");
}

fn told(run: &ChangedRun) -> String {
    let course = match run.course {
        Course::OtherRequests => "other words",
        Course::OtherCourse => "another course",
    };
    format!("{} (step {}, {course})", short(run.run), run.step)
}

fn show_edit(edit: &Edit, output: &mut Output) {
    let (whole, old, new) = match &edit.what {
        Changed::Line { old, new, .. } => ("", old.as_ref(), new.as_ref()),
        Changed::Added => ("  (a new file)", None, None),
        Changed::Removed => ("  (the file was removed)", None, None),
    };
    output.stdout.line(styled(Style::Cyan, format!("  {}", place(edit))).and(whole));
    for (mark, style, side) in [('-', Style::Red, old), ('+', Style::Green, new)] {
        if let Some(side) = side {
            output.stdout.line(styled(style, format!("    {mark} {side}")));
        }
    }
}

fn place(edit: &Edit) -> String {
    let file = edit.file.to_string_lossy().replace('\\', "/");
    match edit.what {
        Changed::Line { line, .. } => format!("{file}:{line}"),
        Changed::Added | Changed::Removed => file,
    }
}

/// Says in a few lines what came of it.
pub(crate) fn sum_up(report: &GateReport, verbose: bool, output: &mut Output) {
    for NotCompared { message, runs, .. } in &report.not_compared {
        let example = runs.first().copied().map(example).unwrap_or_default();
        output.note(
            styled(Style::Yellow, "warning")
                .and(format!(": {} not compared{example}: {message}", count(runs.len() as u64, "run"))),
        );
    }
    if report.changed_before > 0 {
        let base = report.base.as_deref().unwrap_or("the base");
        let words = format!(
            "{} would differ in {base}, too, and from now on no more than that: they began with another version",
            count(report.changed_before, "run")
        );
        output.note(words);
    }
    let silent = report.silent.len();
    if silent > 0 && (report.changed > 0 || report.base.is_some() || verbose) {
        let places: Vec<String> = report.silent.iter().map(place).collect();
        let shown = if verbose { places.len() } else { NAMED.min(places.len()) };
        let more = if shown < silent { format!(", and {} more", silent - shown) } else { String::new() };
        output.note(format!(
            "{} no recorded run: {}{more}",
            match silent {
                1 => "1 changed line alters".to_owned(),
                _ => format!("{} alter", count(silent as u64, "changed line")),
            },
            places[..shown].join(", ")
        ));
    }
    let compared = count(report.compared, "run");
    let words = match (report.runs, report.compared, report.changed) {
        (0, _, _) => styled(Style::Yellow, "inconclusive")
            .and(": there are no recorded runs; import some with `dalsegno import FILE`"),
        (_, 0, _) => styled(Style::Yellow, "inconclusive").and(": no run could be compared"),
        (_, _, 0) => styled(Style::Green, "no difference").and(format!(": {compared}, nothing performed")),
        (_, all, changed) => {
            styled(Style::Red, format!("{changed} of {all} runs would differ")).and(", nothing performed")
        }
    };
    output.note(words);
    if let Some(group) = report.groups.first() {
        output.note(format!("see how with `dalsegno replay {} --with-config`", short(group.example.run)));
    }
}

/// Says in a few lines what models decided when they read the changed requests.
pub(crate) fn show_forced(forced: &Forced, output: &mut Output) {
    show_examples(&forced.examples, output);
    for (why, times) in &forced.failed {
        output.note(
            styled(Style::Yellow, "warning")
                .and(format!(": {} got no reply: {why}", count(*times, "request"))),
        );
    }
    if forced.unsettled > 0 {
        let runs = count(forced.unsettled, "run");
        output.note(format!(
            "{runs} would differ in more than requests to models, which asking models does not settle"
        ));
    }
    if forced.pairs > 0 {
        show_measured("tools", &forced.tools, output);
        show_measured("arguments", &forced.arguments, output);
    }
    let asked = format!(
        "{}, asked {} each way, {}, {}",
        count(forced.requests, "changed request"),
        count(forced.pairs, "time"),
        count(forced.input_tokens + forced.output_tokens, "token"),
        dollars(forced.cost_nano_usd),
    );
    let inconclusive = styled(Style::Yellow, "inconclusive");
    output.note(match (forced.conclusion, forced.requests, forced.pairs) {
        (_, 0, _) => inconclusive.and(": no request to a model has changed".to_owned()),
        (_, _, 0) => inconclusive.and(": no model replied".to_owned()),
        (Conclusion::Differs, ..) => styled(Style::Red, "models decide otherwise").and(format!(" · {asked}")),
        (Conclusion::Same, ..) => styled(Style::Green, "models decide as before").and(format!(" · {asked}")),
        (Conclusion::Inconclusive, ..) => {
            inconclusive.and(format!(": it may be noise, or `--asks` has to be more · {asked}"))
        }
    });
}

fn show_examples(examples: &[Departure], output: &mut Output) {
    for Departure { run, step, recorded, now } in examples {
        output.note(styled(Style::Dim, format!("  run {}, step {step}", short(*run))));
        output.note(styled(Style::Red, format!("    - {recorded}")));
        output.note(styled(Style::Green, format!("    + {now}")));
    }
}

/// Says in a few lines how runs ended that were forked at their first difference.
pub(crate) fn show_live(live: &Live, output: &mut Output) {
    show_examples(&live.examples, output);
    for (why, times) in &live.stopped {
        output.note(format!("{} stopped: {why}", count(*times, "fork")));
    }
    for (why, times) in &live.failed {
        output.note(
            styled(Style::Yellow, "warning").and(format!(": {} got no reply: {why}", count(*times, "fork"))),
        );
    }
    for (why, runs) in &live.not_forked {
        output.note(format!("{} would differ and cannot be forked: {why}", count(*runs, "run")));
    }
    if live.untold > 0 {
        output.note(format!(
            "{} not compared: without the change, too, the fork stopped before its end",
            count(live.untold, "pair"),
        ));
    }
    if live.pairs > 0 {
        show_measured("ends or tools", &live.tools, output);
        show_measured("arguments or answers", &live.arguments, output);
    }
    let forked = format!(
        "{}, forked {} each way, {}, {}, {}",
        count(live.runs, "run"),
        count(live.pairs, "time"),
        match live.reads {
            0 => "nothing performed".to_owned(),
            reads => format!("{} performed", count(reads, "read")),
        },
        count(live.input_tokens + live.output_tokens, "token"),
        dollars(live.cost_nano_usd),
    );
    let inconclusive = styled(Style::Yellow, "inconclusive");
    output.note(match (live.conclusion, live.runs, live.pairs) {
        (_, 0, _) => inconclusive.and(": no run could be forked".to_owned()),
        (_, _, 0) => inconclusive.and(": no fork came to an end".to_owned()),
        (Conclusion::Differs, ..) => styled(Style::Red, "runs end otherwise").and(format!(" · {forked}")),
        (Conclusion::Same, ..) => styled(Style::Green, "runs end as before").and(format!(" · {forked}")),
        (Conclusion::Inconclusive, ..) => {
            inconclusive.and(format!(": it may be noise, or `--live` has to be more · {forked}"))
        }
    });
}

fn show_measured(what: &str, measured: &Measured, output: &mut Output) {
    let visible = match (measured.conclusion, measured.visible) {
        (Conclusion::Inconclusive, Some(visible)) => {
            format!("; so many asks show {} or more", points(visible))
        }
        _ => String::new(),
    };
    output.note(format!(
        "other {what} than recorded: {} before, {} now; difference between {} and {}{visible}",
        percent(&measured.before),
        percent(&measured.now),
        points(measured.difference.low),
        points(measured.difference.high),
    ));
}

fn percent(rate: &Rate) -> String {
    format!("{:.0} %", rate.share * 100.0)
}

fn points(difference: f64) -> String {
    // Without it, a small negative number is shown as "-0".
    let points = (difference * 100.0).round() + 0.0;
    format!("{points:+} points")
}

fn example(run: RunId) -> String {
    format!(", such as {}", short(run))
}
