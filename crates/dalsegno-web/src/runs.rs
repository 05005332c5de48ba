//! The list of runs.

use askama::Template;
use dalsegno_core::Usage;
use dalsegno_store::{RunStatus, RunSummary, Waiting};

use crate::shell::{Live, Shell};
use crate::text;

/// Most characters of what a run was asked.
const ASKED: usize = 160;

/// The list of runs, a page of it.
#[derive(Debug, Clone, Template)]
#[template(path = "runs.html")]
pub struct RunsPage {
    /// What surrounds it.
    pub shell: Shell,
    /// What is filtered by.
    pub filter: Filter,
    /// The links that filter by a status.
    pub tabs: Vec<Tab>,
    /// The runs, the newest first.
    pub rows: Vec<RunRow>,
    /// The address of the next page.
    pub next: Option<String>,
    /// The address of the first page; none on it.
    pub first: Option<String>,
    /// The names of the agents, to choose from.
    pub agents: Vec<String>,
    /// What is wrong with the filters.
    pub problem: Option<String>,
    /// What the first page follows.
    pub live: Option<Live>,
}

/// What a list is filtered by, as the address has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The agent.
    pub agent: String,
    /// The status.
    pub status: String,
    /// The tenant.
    pub tenant: String,
    /// The session.
    pub session: String,
    /// Only runs that no other run started.
    pub root: bool,
}

impl Filter {
    /// Says whether all runs are shown.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The address of the list with this filter.
    pub fn address(&self) -> String {
        let mut pairs = Vec::new();
        let parts = [
            ("status", &self.status),
            ("agent", &self.agent),
            ("tenant", &self.tenant),
            ("session", &self.session),
        ];
        for (name, value) in parts {
            if !value.is_empty() {
                pairs.push(format!("{name}={}", encoded(value)));
            }
        }
        if self.root {
            pairs.push("root=true".to_owned());
        }
        if pairs.is_empty() { "/runs".to_owned() } else { format!("/runs?{}", pairs.join("&")) }
    }

    /// The address of the stream of all runs that this list may show, now or once they have changed: a run that leaves a status
    /// has to be seen as well.
    pub fn stream(&self) -> String {
        let address = Self { status: String::new(), ..self.clone() }.address();
        format!("/v1{address}")
    }

    /// The links that filter by a status, with the other filters as they are.
    pub fn tabs(&self) -> Vec<Tab> {
        let all = [
            ("", "All"),
            ("running", "Running"),
            ("suspended", "Suspended"),
            ("completed", "Completed"),
            ("failed", "Failed"),
            ("cancelled", "Cancelled"),
        ];
        let tab = |(status, label): (&str, &'static str)| Tab {
            label,
            address: Self { status: status.to_owned(), ..self.clone() }.address(),
            is_current: self.status == status,
        };
        all.into_iter().map(tab).collect()
    }
}

/// A link that filters.
#[derive(Debug, Clone)]
pub struct Tab {
    /// Its label.
    pub label: &'static str,
    /// Its address.
    pub address: String,
    /// Whether it is the filter of this page.
    pub is_current: bool,
}

/// A run in the list.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// The run.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// Its agent.
    pub agent: String,
    /// Its tenant.
    pub tenant: String,
    /// Where it stands.
    pub mark: Mark,
    /// What it was asked.
    pub asked: String,
    /// When it began, roughly.
    pub ago: String,
    /// When it began.
    pub started: String,
    /// The same in milliseconds since the epoch.
    pub at: u64,
    /// How long it took.
    pub took: String,
    /// Tokens and cost.
    pub used: Vec<String>,
    /// The number of its records.
    pub records: String,
    /// Whether another run started it.
    pub is_child: bool,
}

/// Where a run or an operation stands: a word, with the class of its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The class.
    pub class: &'static str,
    /// The word.
    pub word: &'static str,
}

impl Mark {
    /// The mark of a run; `is_performed` says whether a living process performs it.
    pub fn of(summary: &RunSummary, is_performed: bool) -> Self {
        let (class, word) = match summary.status {
            RunStatus::Running if summary.foreign.is_none() && !is_performed => ("wait", "interrupted"),
            RunStatus::Running if !summary.waiting.is_empty() => ("wait", waits_for(&summary.waiting)),
            RunStatus::Running => ("live", "running"),
            RunStatus::Suspended => ("wait", waits_for(&summary.waiting)),
            RunStatus::Completed => ("good", "completed"),
            RunStatus::Failed => ("bad", "failed"),
            RunStatus::Cancelled => ("off", "cancelled"),
            RunStatus::HandedOff => ("good", "handed over"),
            RunStatus::Abandoned => ("off", "abandoned"),
        };
        Self { class, word }
    }
}

fn waits_for(waiting: &[Waiting]) -> &'static str {
    let has = |kind| waiting.contains(&kind);
    if has(Waiting::Paused) {
        "paused"
    } else if has(Waiting::InDoubt) {
        "in doubt"
    } else if has(Waiting::Approval) {
        "needs approval"
    } else if has(Waiting::Input) {
        "needs an answer"
    } else if has(Waiting::Secret) {
        "needs a secret"
    } else if has(Waiting::Timer) {
        "waits for a time"
    } else {
        "suspended"
    }
}

impl RunRow {
    /// A line of the listing, as it is seen at the time `now`.
    pub fn of(
        summary: &RunSummary,
        asked: Option<&str>,
        usage: Option<&Usage>,
        is_performed: bool,
        now: u64,
    ) -> Self {
        let span = summary.updated_at.as_millis().saturating_sub(summary.started_at.as_millis());
        let tokens = usage.map(Usage::tokens).filter(|tokens| *tokens > 0);
        let mut used: Vec<String> = tokens.map(|tokens| text::count(tokens, "token")).into_iter().collect();
        used.extend(usage.and_then(text::cost));
        Self {
            id: summary.run.to_string(),
            short: text::short(summary.run),
            agent: summary.agent.to_string(),
            tenant: text::line(&summary.tenant, 40),
            mark: Mark::of(summary, is_performed),
            asked: asked.map(|asked| text::line(asked, ASKED)).unwrap_or_default(),
            ago: text::ago(summary.started_at, now),
            started: text::clock(summary.started_at),
            at: summary.started_at.as_millis(),
            took: text::duration(span),
            used,
            records: text::count(summary.records, "record"),
            is_child: summary.parent.is_some(),
        }
    }
}

/// A text as a part of an address.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
