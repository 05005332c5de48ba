//! `GET /runs/{id}`: a run with its timeline.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_core::{AgentResponse, Usage};
use dalsegno_history::{Inspection, Pause, Walk};
use dalsegno_store::{Body, RunSummary};
use dalsegno_web::inbox::WaitingCard;
use dalsegno_web::run::{Asked, Call, End, Origin, Paused, RunHead, RunPage, Timeline, WINDOW, facts, rows};
use dalsegno_web::{Section, Shell};
use dalsegno_wire::Lineage;
use serde::Deserialize;

use super::form::Form;
use super::{html, shell};
use crate::guard::Client;
use crate::params::Params;
use crate::pausing;
use crate::problem::Problem;
use crate::runs;
use crate::shared::Shared;

/// Records at the end of a run among which its end is.
const LAST: u64 = 8;
/// Most records of a run under way of which the usage is computed for its page.
const COUNTED: u64 = 20_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The number of the first row, or `end`.
    #[serde(default)]
    from: String,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    Params(Query { from }): Params<Query>,
) -> Result<Response, Problem> {
    let summary = shared.run(&access, &id).await?;
    let (own, shell) = (Arc::clone(&shared), shell(&access, Section::Runs));
    let walked = shared.costly.perform(&access, async move { walked(&own, shell, &summary, &from).await });
    Ok(html(&walked.await?))
}

/// The page of a run from a row on.
async fn walked(shared: &Shared, shell: Shell, summary: &RunSummary, from: &str) -> Result<RunPage, Problem> {
    let mut walk = shared.pages.walks.open(shared.journal(), summary.run).await?;
    let from = match from {
        "" => 0,
        "end" => {
            walk.read_all().await?;
            rows(walk.outline()).saturating_sub(WINDOW)
        }
        number => number.parse().map_err(|_| {
            Problem::parameter(
                "from",
                "is not the number of a row",
                "leave it out to begin with the first row",
            )
        })?,
    };
    while rows(walk.outline()) < from.saturating_add(WINDOW + 1) && walk.read_on().await? {}
    page(shared, shell, summary, &mut walk, from).await
}

async fn page(
    shared: &Shared,
    shell: Shell,
    summary: &RunSummary,
    walk: &mut Walk,
    from: usize,
) -> Result<RunPage, Problem> {
    let journal = shared.journal();
    let (waiting, pause) = match !summary.status.is_end() && !summary.waiting.is_empty() {
        true => {
            let found = journal.inspect(summary.run, None).await;
            found.map(|found| (cards(&found, &shell), found.paused)).unwrap_or_default()
        }
        false => Default::default(),
    };
    let response = response(shared, summary).await?;
    let usage = match &response {
        Some(response) => Some(response.usage),
        None => so_far(walk).await?,
    };
    let begun = journal.store().page(summary.run, 0, 2).await?;
    let second = begun.records.get(1).map(|record| &record.body);
    let lineage = Lineage::from_record(summary.parent, walk.config(), second, journal).await;
    let moments = journal.moments(summary.run).await.unwrap_or_default();
    let call = Call::of(summary.started_at, &moments);
    let asked = journal.asked(summary.run).await.ok().as_ref().map(Asked::of);
    Ok(RunPage {
        head: RunHead::of(summary, journal.is_performed(summary)),
        facts: facts(summary, usage.as_ref()),
        // A call is asked nothing but by its caller.
        asked: asked.filter(|asked| call.is_none() || !asked.text.is_empty() || !asked.values.is_empty()),
        end: response.as_ref().map(End::of),
        waiting,
        pause: pause.map(|Pause { by, reason }| Paused { by, reason }),
        origin: Origin::of(summary, &lineage),
        stops: stops(walk),
        call,
        timeline: Timeline::of(walk, from, None),
        shell,
    })
}

/// What a run waits for, as cards.
pub(super) fn cards(inspection: &Inspection, shell: &Shell) -> Vec<WaitingCard> {
    let summary = &inspection.summary;
    let back = format!("/runs/{}", summary.run);
    let card = |one| WaitingCard::of(one, summary.agent.as_str(), shell.may_answer, &back);
    let own = |card: WaitingCard| WaitingCard { names_run: card.run != summary.run.to_string(), ..card };
    inspection.waiting.iter().map(card).map(own).collect()
}

/// What cannot be read or computed of a run.
pub(super) fn stops(walk: &Walk) -> Vec<String> {
    let unread =
        walk.unread().map(|stop| format!("The journal cannot be read from record {} on: {stop}.", stop.seq));
    let unfolded = walk.unfolded().map(|stop| {
        format!(
            "The journal and the core differ at record {}, so there are no states from there on: {stop}.",
            stop.seq
        )
    });
    unread.into_iter().chain(unfolded).collect()
}

/// How a run ended.
pub(super) async fn response(
    shared: &Shared,
    summary: &RunSummary,
) -> Result<Option<AgentResponse>, Problem> {
    if !summary.status.is_end() {
        return Ok(None);
    }
    let from = summary.records.saturating_sub(LAST);
    let last = usize::try_from(LAST).unwrap_or(usize::MAX);
    let page = shared.journal().store().page(summary.run, from, last).await?;
    Ok(page.records.into_iter().rev().find_map(|record| match record.body {
        Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
            Some(response)
        }
        Body::HandedOff { response, .. } => response,
        _ => None,
    }))
}

/// What a run under way used so far.
async fn so_far(walk: &mut Walk) -> Result<Option<Usage>, Problem> {
    if walk.summary().records > COUNTED {
        return Ok(None);
    }
    walk.read_all().await?;
    let last = walk.outline().steps.len().checked_sub(1);
    let scene = match last {
        Some(last) => walk.scene(last).await?,
        None => None,
    };
    Ok(scene.map(|scene| scene.used.unwrap_or_else(|| scene.state.usage())))
}

pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    pausing::hold(&shared, &access, &id, form.given("reason")).await?;
    Ok(Redirect::to(&format!("/runs/{id}")).into_response())
}

pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    pausing::release(&shared, &access, &id).await?;
    Ok(Redirect::to(&format!("/runs/{id}")).into_response())
}

pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    runs::end(&shared, &access, &id, form.given("reason")).await?;
    Ok(Redirect::to(&format!("/runs/{id}")).into_response())
}
