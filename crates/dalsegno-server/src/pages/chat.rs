//! `/chat`: a conversation with an agent, each message of which is a run of one session.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_core::AgentRequest;
use dalsegno_runtime::StartOptions;
use dalsegno_store::{RunFilter, RunSummary};
use dalsegno_web::chat::{ChatPage, Turn};
use dalsegno_web::inbox::WaitingCard;
use dalsegno_web::run::End;
use dalsegno_web::runs::{Mark, encoded};
use dalsegno_web::{Live, Section, text};
use dalsegno_workspace::Workspace;
use serde::Deserialize;

use super::form::Form;
use super::{html, run, shell, with_status, wrong};
use crate::guard::Client;
use crate::listing::tenant_filter;
use crate::params::{self, Params};
use crate::problem::Problem;
use crate::runs::launch;
use crate::shared::Shared;

/// Messages on the page.
const TURNS: u32 = 20;
/// Most characters of a message on the page.
const SAID: usize = 8_000;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    #[serde(default)]
    agent: String,
    #[serde(default)]
    session: String,
    tenant: Option<String>,
}

/// The address of a conversation.
fn address(agent: &str, session: &str, tenant: Option<&str>) -> String {
    let tenant = tenant.map(|tenant| format!("&tenant={}", encoded(tenant))).unwrap_or_default();
    format!("/chat?agent={}&session={}{tenant}", encoded(agent), encoded(session))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    if !access.may(Scope::RunsWrite) {
        return Err(Problem::forbidden(&access, Scope::RunsWrite));
    }
    Ok(html(&page(&shared, &access, query).await?))
}

/// What runs wait for is computed.
async fn page(shared: &Arc<Shared>, access: &Access, query: Query) -> Result<ChatPage, Problem> {
    let (own, reader) = (Arc::clone(shared), access.clone());
    shared.costly.perform(access, async move { conversation(&own, &reader, query).await }).await
}

async fn conversation(shared: &Shared, access: &Access, query: Query) -> Result<ChatPage, Problem> {
    let Query { agent, session, tenant } = query;
    let is_operator = access.tenant().is_none();
    let tenant = match access.tenant() {
        Some(own) => own.to_owned(),
        None => tenant.filter(|tenant| !tenant.trim().is_empty()).unwrap_or_else(default_tenant),
    };
    let agents = match access.may(Scope::AgentsRead) {
        true => shared.engine.workspace().agents.keys().map(ToString::to_string).collect(),
        false => Vec::new(),
    };
    let mut found = Vec::new();
    if !session.is_empty() {
        let filter = RunFilter {
            tenant: tenant_filter(access, Some(tenant.clone())).flatten(),
            session: Some(session.clone()),
            roots_only: true,
            limit: TURNS + 1,
            ..RunFilter::default()
        };
        found = shared.journal().runs(&filter).await?;
    }
    let is_cut = found.len() > TURNS as usize;
    found.truncate(TURNS as usize);
    let back = address(&agent, &session, is_operator.then_some(tenant.as_str()));
    let live = found.first().filter(|run| !run.status.is_end() && run.foreign.is_none()).map(|run| Live {
        stream: format!("/v1/runs/{}/events", run.run),
        after: run.records.saturating_sub(1).to_string(),
    });
    let mut turns = Vec::with_capacity(found.len());
    for run in found.iter().rev() {
        turns.push(turn(shared, access, run, &back).await);
    }
    Ok(ChatPage {
        shell: shell(access, Section::Chat),
        agent: text::line(&agent, 64),
        agents,
        earlier: is_cut.then(|| format!("/runs?session={}", encoded(&session))),
        session,
        address: back,
        tenant: is_operator.then_some(tenant),
        // Another text each time, which names the message that is typed on this page.
        key: shared.seals.seal(shared.now()).unwrap_or_default(),
        typed: String::new(),
        problem: None,
        turns,
        live,
    })
}

fn default_tenant() -> String {
    Workspace::DEFAULT_TENANT.to_owned()
}

async fn turn(shared: &Shared, access: &Access, summary: &RunSummary, back: &str) -> Turn {
    let journal = shared.journal();
    // What was erased or is damaged cannot be read, and the rest of the conversation can.
    let asked = journal.asked(summary.run).await.ok().map(|asked| asked.text);
    let response = run::response(shared, summary).await.ok().flatten();
    let mut waiting = Vec::new();
    if !summary.status.is_end() && !summary.waiting.is_empty() {
        let found = journal.inspect(summary.run, None).await.map(|found| found.waiting).unwrap_or_default();
        let may_answer = access.may(Scope::AnswersWrite);
        let card = |one| WaitingCard::of(one, summary.agent.as_str(), may_answer, back);
        waiting = found.iter().map(card).map(|card| WaitingCard { names_run: false, ..card }).collect();
    }
    Turn {
        id: summary.run.to_string(),
        short: text::short(summary.run),
        agent: summary.agent.to_string(),
        mark: Mark::of(summary, journal.is_performed(summary)),
        text: asked.map_or_else(|| "(cannot be read)".to_owned(), |asked| text::shown(&asked, SAID)),
        end: response.as_ref().map(End::of),
        waiting,
        is_open: !summary.status.is_end(),
    }
}

/// Starts a run with a message, once however often the form is sent.
pub(super) async fn say(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    form: Form,
) -> Result<Response, Problem> {
    if !access.may(Scope::RunsRead) {
        return Err(Problem::forbidden(&access, Scope::RunsRead));
    }
    let (agent, session, said) = (form.text("agent"), form.given("session"), form.text("text"));
    let tenant = match access.tenant() {
        Some(own) => own.to_owned(),
        None => form.given("tenant").unwrap_or_else(default_tenant),
    };
    let started = begin(&shared, &agent, &tenant, session.clone(), form.given("key"), &said).await;
    let started = match started {
        Ok(run) => run,
        Err(problem) if problem.is_invalid() || problem.is_conflict() || problem.is_unknown() => {
            let query = Query { agent, session: session.unwrap_or_default(), tenant: Some(tenant) };
            let words = problem.document()["detail"].as_str().unwrap_or_default().to_owned();
            let problem = Some(format!("The message was not sent: {words}."));
            let page = ChatPage { typed: said, problem, ..page(&shared, &access, query).await? };
            return Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, &page));
        }
        Err(problem) => return Err(problem),
    };
    let summary = shared.run(&access, &started.to_string()).await?;
    let tenant = access.tenant().is_none().then_some(tenant.as_str());
    Ok(Redirect::to(&address(&agent, &summary.session, tenant)).into_response())
}

async fn begin(
    shared: &Arc<Shared>,
    agent: &str,
    tenant: &str,
    session: Option<String>,
    key: Option<String>,
    said: &str,
) -> Result<dalsegno_core::RunId, Problem> {
    if said.trim().is_empty() {
        return Err(wrong("the message is empty", "type one"));
    }
    let help = "choose one of the agents";
    let agent =
        agent.parse().map_err(|error| wrong(format!("this is no name of an agent: {error}"), help))?;
    for (pointer, name) in
        [("/session", session.as_deref()), ("/key", key.as_deref()), ("/tenant", Some(tenant))]
    {
        if let Some(name) = name {
            params::name(pointer, name)?;
        }
    }
    // Only a key that a page was given: those of deliveries and of other clients are not within reach of a form.
    if key.as_deref().is_some_and(|key| shared.seals.open_seal(key).is_none()) {
        return Err(wrong("`key` is not one that this page was given", "load the page again"));
    }
    let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text(said) };
    let options = StartOptions { key, session, ..StartOptions::default() };
    launch(shared, agent, request, options).await.map(|launched| launched.run)
}
