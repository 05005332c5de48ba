//! `GET /diff`: two runs side by side; `GET /runs/{id}/replay`: a run computed again.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use dalsegno_access::{Access, Scope};
use dalsegno_store::{RunFilter, RunSummary};
use dalsegno_web::diff::{Diff, DiffPage, Offer, ReplayPage};
use dalsegno_web::run::RunHead;
use dalsegno_web::{Section, text};
use serde::Deserialize;

use super::{html, shell};
use crate::guard::Client;
use crate::listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

/// Runs that are offered for a comparison.
const OFFERS: u32 = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    #[serde(default)]
    left: String,
    #[serde(default)]
    right: String,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(Query { left, right }): Params<Query>,
) -> Result<Response, Problem> {
    let mut problem = None;
    let mut sides = [None, None];
    for (side, (typed, which)) in sides.iter_mut().zip([(&left, "first"), (&right, "second")]) {
        if typed.trim().is_empty() {
            continue;
        }
        match find(&shared, &access, typed.trim()).await? {
            Some(run) => *side = Some(run),
            None => problem = Some(format!("The {which} run is none that you may see, or several begin so.")),
        }
    }
    let found = match &sides {
        [Some(left), Some(right)] => {
            let (journal, left, right) = (shared.journal().clone(), left.run, right.run);
            let found = shared.costly.perform(&access, async move { Ok(journal.diff(left, right).await?) });
            Some(Diff::of(&found.await?))
        }
        _ => None,
    };
    let offers = match found {
        Some(_) => Vec::new(),
        None => offers(&shared, &access, sides[0].as_ref()).await?,
    };
    let page = DiffPage {
        shell: shell(&access, Section::Diff),
        left: text::line(&left, 64),
        right: text::line(&right, 64),
        problem,
        found,
        offers,
    };
    Ok(html(&page))
}

/// The run with this id, or the only one in reach whose id begins so.
async fn find(shared: &Shared, access: &Access, typed: &str) -> Result<Option<RunSummary>, Problem> {
    if let Ok(run) = shared.run(access, typed).await {
        return Ok(Some(run));
    }
    let is_prefix = (4..32).contains(&typed.len()) && typed.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_prefix {
        return Ok(None);
    }
    let mut found = Vec::new();
    for run in shared.journal().find_runs(&typed.to_ascii_lowercase()).await? {
        // What is not in reach is not there: it makes no id ambiguous.
        found.extend(shared.run(access, &run.to_string()).await);
    }
    Ok(found.pop().filter(|_| found.is_empty()))
}

/// Runs to compare with: those of the same agent, or the latest.
async fn offers(shared: &Shared, access: &Access, left: Option<&RunSummary>) -> Result<Vec<Offer>, Problem> {
    if !access.may(Scope::RunsList) {
        return Ok(Vec::new());
    }
    let filter = RunFilter {
        agent: left.map(|left| left.agent.clone()),
        tenant: left.map(|left| left.tenant.clone()).or_else(|| access.tenant().map(str::to_owned)),
        limit: OFFERS,
        ..RunFilter::default()
    };
    let now = shared.now();
    let mut offers = Vec::new();
    for run in shared.journal().runs(&filter).await? {
        if left.is_some_and(|left| left.run == run.run) {
            continue;
        }
        let (asked, _) = listing::content(shared, access, &run).await;
        let asked = asked.map(|asked| format!(" · {}", text::line(&asked, 80))).unwrap_or_default();
        let href = match left {
            Some(left) => format!("/diff?left={}&right={}", left.run, run.run),
            None => format!("/diff?left={}", run.run),
        };
        let words = format!("{} · {}{asked}", run.agent, text::ago(run.started_at, now));
        offers.push(Offer { href, short: text::short(run.run), words });
    }
    Ok(offers)
}

pub(super) async fn replay(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let (journal, run) = (shared.journal().clone(), summary.run);
    let report = shared.costly.perform(&access, async move { Ok(journal.replay(run).await?) }).await?;
    let head = RunHead::of(&summary, shared.journal().is_performed(&summary));
    Ok(html(&ReplayPage::of(shell(&access, Section::Runs), head, &report)))
}
