//! Looks at a run of many steps in a browser, as a person does.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::chromium::{Chromium, find};
use crate::line::{Line, Unit};
use crate::times::Times;
use crate::workspace::Workspace;

/// How often each page is opened, and each key pressed.
const TRIES: usize = 15;

/// How often a person scrolls to the end of the page.
const SCROLLS: usize = 40;

/// The most until the first rows are painted, in milliseconds.
const ROWS: f64 = 300.0;

/// The most until another step is painted, in milliseconds.
const STEP: f64 = 100.0;

/// The longest that the page may keep the browser busy at a stretch, in milliseconds.
const TASK: f64 = 50.0;

/// How long a page may take: an end for one that never comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most rows in the page.
const IN_PAGE: f64 = 400.0;

/// Notes every task that keeps the browser busy for more than 50 ms.
const TASKS: &str = "window.busy = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => { \
    window.busy = Math.max(window.busy, entry.duration); })).observe({ type: 'longtask', buffered: true });";

/// The time until something of the page was painted for the first time.
const PAINTED: &str = "(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime";

/// Measures the row.
///
/// # Errors
/// There is no Chromium, the run could not be made, or the page does not show it.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let browser = find().context("no Chromium is installed")?;
    let workspace = Workspace::with_steps(&arguments.dalsegno, arguments.steps)?;
    let server = workspace.serve_with(&["--sign-in-link"])?;
    let (run, steps) = workspace.walk(server.address).await?;
    let link =
        server.told["sign_in_link"].as_str().context("the server prints no link to sign in")?.to_owned();
    let place = format!("http://{}/runs/{run}", server.address);
    let looked = tokio::task::spawn_blocking(move || look(&browser, &link, &place, steps));
    looked.await.context("the browser does not show it")?
}

/// What a person meets who looks at the run.
fn look(browser: &Path, link: &str, run: &str, steps: u64) -> anyhow::Result<Vec<Line>> {
    let mut page = Chromium::online(browser);
    page.size(1440, 900);
    page.before(TASKS);
    page.visit(link);
    page.until("location.pathname === '/runs'");
    let mut seen = Seen::default();
    let (mut empty, mut rows, mut anew) = (Times::default(), Times::default(), Times::default());
    for number in 0..TRIES {
        empty.add(seen.painted(&mut page, "data:text/html,<p>nothing</p>")?);
        rows.add(seen.painted(&mut page, run)?);
        // Far from each other, so that no step is near the one before.
        let step = (number as u64 * 7_919) % steps + 1;
        anew.add(seen.painted(&mut page, &format!("{run}/steps/{step}"))?);
    }
    let mut keys = Times::default();
    for key in ["ArrowRight", "ArrowLeft"] {
        for _ in 0..TRIES {
            keys.add(stepped(&mut page, key)?);
            seen.note(&mut page)?;
        }
    }
    seen.painted(&mut page, run)?;
    for _ in 0..SCROLLS {
        page.ask("scrollTo(0, document.documentElement.scrollHeight)");
        std::thread::sleep(Duration::from_millis(100));
        seen.note(&mut page)?;
    }
    let note = |times: &Times| format!("p99 {}", Unit::Millis.show(times.p99()));
    Ok(vec![
        Line::told("an empty page in Chromium, painted, p50", empty.p50(), Unit::Millis).noted(note(&empty)),
        Line::at_most(
            format!("a run of {steps} steps, first rows painted, p50"),
            rows.p50(),
            ROWS,
            Unit::Millis,
        )
        .noted(note(&rows)),
        Line::at_most("  the next step by key, painted, p50", keys.p50(), STEP, Unit::Millis)
            .noted(note(&keys)),
        Line::told("  any step as a new page, painted, p50", anew.p50(), Unit::Millis).noted(note(&anew)),
        Line::at_most("  rows in the page", seen.rows, IN_PAGE, Unit::Whole),
        Line::at_most("  longest task", seen.busy, TASK, Unit::Millis),
    ])
}

/// The most that any page had and did.
#[derive(Default)]
struct Seen {
    rows: f64,
    busy: f64,
}

impl Seen {
    /// Opens a page; the time until something of it was painted.
    fn painted(&mut self, page: &mut Chromium, url: &str) -> anyhow::Result<Duration> {
        page.visit(url);
        let ready = "(location.protocol === 'data:' || document.documentElement?.dataset.ready === 'yes')";
        let begun = Instant::now();
        while page.ask(&format!("{ready} && {PAINTED} !== undefined")) != true {
            ensure!(begun.elapsed() < PATIENCE, "nothing of {url} is painted");
        }
        let painted = millis(&page.ask(PAINTED))?;
        self.note(page)?;
        Ok(painted)
    }

    fn note(&mut self, page: &mut Chromium) -> anyhow::Result<()> {
        let rows = page.ask("document.querySelectorAll('tr[data-row], [data-rail] li').length");
        self.rows = self.rows.max(rows.as_f64().context("a page has no number of rows")?);
        self.busy = self.busy.max(millis(&page.ask("window.busy"))?.as_secs_f64() * 1e3);
        Ok(())
    }
}

/// Presses a key on the page of a step; the time until the next step was painted.
fn stepped(page: &mut Chromium, key: &str) -> anyhow::Result<Duration> {
    let press = format!(
        "new Promise((done) => {{
            const title = () => document.querySelector('h1').textContent;
            const before = title(), begun = performance.now();
            new MutationObserver((_, observer) => {{
                if (title() === before) return;
                observer.disconnect();
                requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
            }}).observe(document, {{ subtree: true, childList: true, characterData: true }});
            setTimeout(() => done(null), 10000);
            document.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}));
        }})"
    );
    let took = page.ask(&press);
    ensure!(!took.is_null(), "`{key}` leads to no other step");
    millis(&took)
}

fn millis(value: &Value) -> anyhow::Result<Duration> {
    let millis =
        value.as_f64().filter(|millis| *millis >= 0.0).with_context(|| format!("{value} is no time"))?;
    Ok(Duration::from_secs_f64(millis / 1e3))
}
