//! A report as one HTML file: no script, no font, no address of another place. Everything that comes from data is text.

use std::fmt::Write as _;

use dalsegno_statistics::{Figure, Interval, Verdict};

use crate::report::{
    Compared, Conclusion, FailedTrial, Goal, ItemReport, JudgeReport, Report, Stopped, WayReport,
};

/// The width of the charts, in their own units.
const WIDTH: f64 = 640.0;

/// What the names of a chart take of it.
const NAMES: f64 = 150.0;

/// Items that the page lists: those that passed least.
const ITEMS_MAX: usize = 1_000;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#59636e;--line:#d1d9e0;--bar:#0969da;--good:#1a7f37;--bad:#cf222e;--open:#9a6700;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#f0f6fc;--dim:#9198a1;--line:#3d444d;--bar:#4493f8;--good:#3fb950;--bad:#f85149;--open:#d29922;--paper:#0d1117}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--open)}
.verdict{font-size:1.2rem;font-weight:600}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}th{white-space:nowrap}td{overflow-wrap:anywhere}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.4 ui-monospace,monospace}
svg{width:100%;height:auto}svg text{fill:var(--ink);font:13px system-ui,sans-serif}svg .grid{stroke:var(--line)}svg .range{stroke:var(--bar);stroke-width:6;stroke-linecap:round;opacity:.45}svg .dot{fill:var(--bar)}svg .goal{stroke:var(--open);stroke-dasharray:4 3}
";

/// The report as a file of its own.
pub fn html(report: &Report) -> String {
    let mut page = String::new();
    let title = escaped(&report.eval);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Eval {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>Eval {title}</h1>\n<p class=\"dim\">{}</p>\n",
        escaped(&summary(report))
    );
    for (class, text) in conclusions(report) {
        let _ = writeln!(page, "<p class=\"verdict {class}\">{}</p>", escaped(&text));
    }
    page.push_str("<h2>Pass rate</h2>\n");
    rates(report, &mut page);
    ways(report, &mut page);
    if let Some(compared) = &report.comparison {
        page.push_str("<h2>Difference</h2>\n");
        difference(compared, &mut page);
    }
    if !report.judges.is_empty() {
        judges(&report.judges, &mut page);
    }
    if !report.no_reply.is_empty() {
        page.push_str("<h2>No reply</h2>\n<table><tr><th>reason</th><th>trials</th></tr>\n");
        for (why, times) in &report.no_reply {
            let _ = writeln!(page, "<tr><td>{}</td><td>{times}</td></tr>", escaped(why));
        }
        page.push_str("</table>\n");
    }
    failures(&report.failures, &mut page);
    items(report, &mut page);
    page.push_str("</body>\n</html>\n");
    page
}

fn summary(report: &Report) -> String {
    let stopped = match report.stopped {
        Stopped::AllItems => "all items were tried",
        Stopped::Enough => "as many items as were wanted",
        Stopped::Decided => "stopped as soon as the answer was known",
        Stopped::Money => "stopped before the money was spent",
        Stopped::NoReply => "stopped, since no model replied",
    };
    let cost = match &report.unpriced {
        Some(model) => format!("cost unknown: the model {model} has no price"),
        None => format!("${:.4}", nano(report.cost_nano_usd)),
    };
    format!(
        "{} of {} items, each way {}; {stopped}. {} runs performed, {} known from before, {} tokens, {cost}. Intervals hold with {:.0} % \
         confidence, whenever you look; an item counts once.",
        report.items,
        report.items_in_data,
        if report.trials == 1 { "once".to_owned() } else { format!("{} times", report.trials) },
        report.performed,
        report.known,
        report.tokens,
        report.confidence * 100.0
    )
}

/// What the evaluation comes to, each with the class of its colour.
fn conclusions(report: &Report) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let (Some(Compared { verdict, interval, .. }), [before, now]) = (&report.comparison, &report.ways[..])
    {
        let (class, words) = match verdict {
            Verdict::Better => ("good", "passes more often than"),
            Verdict::Worse => ("bad", "passes less often than"),
            Verdict::Equal => ("good", "is as good as"),
            Verdict::Inconclusive => ("open", "may or may not be as good as"),
        };
        let open = if *verdict == Verdict::Inconclusive { "inconclusive: " } else { "" };
        found.push((class, format!("{open}{} {words} {}; {}", now.name, before.name, points(*interval))));
    }
    if let Some(Goal { at_least, conclusion }) = &report.goal {
        let wanted = format!("{:.1} %", at_least * 100.0);
        found.push(match conclusion {
            Conclusion::Reached => ("good", format!("{wanted} reached")),
            Conclusion::NotReached => ("bad", format!("{wanted} not reached")),
            Conclusion::Inconclusive => ("open", format!("inconclusive whether {wanted} is reached")),
        });
    }
    found
}

/// A chart of the pass rates with their intervals.
fn rates(report: &Report, page: &mut String) {
    let place = |share: f64| NAMES + share.clamp(0.0, 1.0) * (WIDTH - NAMES - 20.0);
    let rows: Vec<(&str, Figure)> =
        report.ways.iter().filter_map(|way| Some((way.name.as_str(), way.pass_rate?))).collect();
    let bottom = 10.0 + 34.0 * f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Pass rates\">",
        bottom + 24.0
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{:.0} %</text>",
            bottom + 17.0,
            tick * 100.0,
            x = place(tick)
        );
    }
    if let Some(goal) = &report.goal {
        let x = place(goal.at_least);
        let _ = writeln!(page, "<line class=\"goal\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{bottom}\"/>");
    }
    let mut y = 24.0;
    for (name, figure) in rows {
        let _ = writeln!(page, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 4.0, escaped(&cut(name)));
        mark(figure.value, figure.interval, y, place, page);
        y += 34.0;
    }
    page.push_str("</svg>\n");
}

/// A chart of the difference, with the differences that are too small to count.
fn difference(compared: &Compared, page: &mut String) {
    let place = |share: f64| NAMES + (share.clamp(-1.0, 1.0) + 1.0) / 2.0 * (WIDTH - NAMES - 20.0);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} 68\" role=\"img\" aria-label=\"Difference of the pass rates\">"
    );
    for tick in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"44\"/><text x=\"{x:.1}\" y=\"61\" text-anchor=\"middle\">{}</text>",
            if tick == 0.0 { "0".to_owned() } else { format!("{:+.0}", tick * 100.0) },
            x = place(tick)
        );
    }
    for edge in [-compared.smallest, compared.smallest] {
        let x = place(edge);
        let _ = writeln!(page, "<line class=\"goal\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"44\"/>");
    }
    page.push_str("<text x=\"0\" y=\"28\">points</text>\n");
    mark(compared.difference, compared.interval, 24.0, place, page);
    page.push_str("</svg>\n");
    let visible = match compared.visible {
        Some(visible) => format!("so many items show a difference of {:.0} points or more", visible * 100.0),
        None => "so few items show no difference".to_owned(),
    };
    let _ = writeln!(
        page,
        "<p>Better on {} items, worse on {}, the same on {}; {visible}. The dashed lines are the smallest difference that counts.</p>",
        compared.better,
        compared.worse,
        compared.items.saturating_sub(compared.better + compared.worse)
    );
}

fn mark(value: f64, interval: Interval, y: f64, place: impl Fn(f64) -> f64, page: &mut String) {
    let Interval { low, high } = interval;
    let _ = writeln!(
        page,
        "<line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/><circle class=\"dot\" cx=\"{:.1}\" cy=\"{y}\" r=\"5\"/>",
        place(low),
        place(high),
        place(value)
    );
}

fn ways(report: &Report, page: &mut String) {
    page.push_str(
        "<table><tr><th>way</th><th>passed</th><th>pass rate</th><th>all trials pass</th><th>flips</th><th>no verdict</th><th>cost</th><th>failed by</th></tr>\n",
    );
    for way in &report.ways {
        let WayReport { name, passed, trials, no_verdict, failed_by, cost_nano_usd, .. } = way;
        let failed: Vec<String> = failed_by.iter().map(|(what, times)| format!("{what} {times}")).collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{passed} of {trials}</td><td>{}</td><td>{}</td><td>{}</td><td>{no_verdict}</td><td>${:.4}</td><td>{}</td></tr>",
            escaped(name),
            way.pass_rate.map_or_else(none, share),
            way.pass_power.map_or_else(none, share),
            way.flip_rate.map_or_else(none, |rate| format!("{:.1} %", rate * 100.0)),
            nano(*cost_nano_usd),
            escaped(&failed.join(", "))
        );
    }
    page.push_str("</table>\n");
}

fn judges(judges: &[JudgeReport], page: &mut String) {
    page.push_str("<h2>Judges</h2>\n<table><tr><th>judge</th><th>pass</th><th>fail</th><th>no verdict</th><th>labelled</th><th>agreement</th><th>kappa</th></tr>\n");
    for judge in judges {
        let nonsense: Vec<String> =
            judge.no_verdict.iter().map(|(why, times)| format!("{times}: {why}")).collect();
        let kappa = |kappa: Figure| {
            let Figure { value, interval: Interval { low, high } } = kappa;
            format!("{value:.2} ({low:.2} to {high:.2})")
        };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&judge.name),
            judge.passed,
            judge.failed,
            if nonsense.is_empty() { "0".to_owned() } else { escaped(&nonsense.join("; ")) },
            judge.labelled.map_or_else(none, |agreement| agreement.count().to_string()),
            judge.agreement.map_or_else(none, share),
            judge.kappa.map_or_else(none, kappa)
        );
    }
    page.push_str("</table>\n");
}

fn failures(failures: &[FailedTrial], page: &mut String) {
    if failures.is_empty() {
        return;
    }
    page.push_str("<h2>Trials that did not pass</h2>\n<table><tr><th>item</th><th>line</th><th>trial</th><th>run</th><th>what does not hold</th></tr>\n");
    for FailedTrial { item, line, trial, run, failures } in failures {
        let told: Vec<String> = failures.iter().map(|(what, message)| format!("{what}: {message}")).collect();
        let run: String = run.to_string().chars().take(12).collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{line}</td><td>{trial}</td><td><code>{run}</code></td><td><pre>{}</pre></td></tr>",
            escaped(item),
            escaped(&told.join("\n"))
        );
    }
    page.push_str("</table>\n");
}

/// Each item, those that passed least first.
fn items(report: &Report, page: &mut String) {
    let share = |item: &ItemReport| {
        let way = item.ways.last().filter(|way| way.trials > 0);
        // Trials without a verdict come first: they are to be looked at.
        way.map_or(0, |way| 1 + way.passed * 1_000_000 / way.trials)
    };
    let mut items: Vec<&ItemReport> = report.results.iter().collect();
    items.sort_by_key(|item| (share(item), item.line));
    page.push_str("<h2>Items</h2>\n<table><tr><th>item</th><th>line</th>");
    for way in &report.ways {
        let _ = write!(page, "<th>{}</th>", escaped(&way.name));
    }
    page.push_str("</tr>\n");
    for ItemReport { item, line, ways } in items.iter().take(ITEMS_MAX) {
        let _ = write!(page, "<tr><td>{}</td><td>{line}</td>", escaped(item));
        for way in ways {
            let open = match way.no_verdict {
                0 => String::new(),
                open => format!(", {open} without a verdict"),
            };
            let _ = write!(page, "<td>{} of {}{open}</td>", way.passed, way.trials);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    if let Some(more) = items.len().checked_sub(ITEMS_MAX).filter(|more| *more > 0) {
        let _ = writeln!(
            page,
            "<p class=\"dim\">{more} items that passed more often are in the output of <code>--json</code>.</p>"
        );
    }
}

fn none() -> String {
    "–".to_owned()
}

fn share(figure: Figure) -> String {
    let Figure { value, interval: Interval { low, high } } = figure;
    format!("{:.1} % ({:.1} to {:.1})", value * 100.0, low * 100.0, high * 100.0)
}

fn points(Interval { low, high }: Interval) -> String {
    // Without it, a small negative number is shown as "-0".
    let [low, high] = [low, high].map(|one| (one * 100.0).round() + 0.0);
    format!("difference between {low:+.0} and {high:+.0} points")
}

#[expect(clippy::cast_precision_loss, reason = "there are never 2^53 billionths")]
fn nano(nano_usd: u64) -> f64 {
    nano_usd as f64 / 1e9
}

/// A name as a chart has room for it.
fn cut(name: &str) -> String {
    match name.char_indices().nth(20) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A text in which nothing is markup, and every character can be seen: those that reorder or hide others are written out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            hidden if is_hidden(hidden) => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(hidden));
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
