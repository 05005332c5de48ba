//! `GET /inbox`: what waits for people.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use dalsegno_store::Waiting;
use dalsegno_web::Section;
use dalsegno_web::inbox::{InboxPage, WaitingCard};
use dalsegno_web::runs::{Tab, encoded};
use serde::Deserialize;

use super::{html, live, shell};
use crate::guard::Client;
use crate::inbox;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    kind: Option<Waiting>,
    cursor: Option<String>,
    /// What has just been answered.
    done: Option<Done>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum Done {
    Recorded,
    PassedOn,
}

const KINDS: [(Option<Waiting>, &str, &str); 5] = [
    (None, "All", "/inbox"),
    (Some(Waiting::Approval), "Approvals", "/inbox?kind=approval"),
    (Some(Waiting::Input), "Questions", "/inbox?kind=input"),
    (Some(Waiting::InDoubt), "In doubt", "/inbox?kind=in_doubt"),
    (Some(Waiting::Secret), "Secrets", "/inbox?kind=secret"),
];

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Client(access): Client,
    Params(Query { kind, cursor, done }): Params<Query>,
) -> Result<Response, Problem> {
    let shell = shell(&access, Section::Inbox);
    let is_first = cursor.is_none();
    let live = match is_first {
        true => live(&shared, &access, "/v1/runs").await,
        false => None,
    };
    let asked = inbox::Query { kind, cursor, ..inbox::Query::default() };
    let found = inbox::find(&shared, &access, asked).await?;
    let address = KINDS.iter().find(|(of, ..)| *of == kind).map_or("/inbox", |(.., address)| *address);
    let mark = if address.contains('?') { '&' } else { '?' };
    let card = |(run, one): &(dalsegno_store::RunSummary, _)| {
        let card = WaitingCard::of(one, run.agent.as_str(), shell.may_answer, address);
        let tenant = access.tenant().is_none().then(|| dalsegno_web::text::line(&run.tenant, 60));
        WaitingCard { tenant, ..card }
    };
    let tab = |(of, label, address): (Option<Waiting>, &'static str, &str)| Tab {
        label,
        address: address.to_owned(),
        is_current: of == kind,
    };
    let done = done.map(|done| match done {
        Done::Recorded => "The answer is recorded, and the run continues.",
        Done::PassedOn => "The answer is passed on to the process that performs the run.",
    });
    Ok(html(&InboxPage {
        cards: found.items.iter().map(card).collect(),
        tabs: KINDS.into_iter().map(tab).collect(),
        next: found.next.map(|next| format!("{address}{mark}cursor={}", encoded(&next))),
        first: (!is_first).then(|| address.to_owned()),
        is_filtered: kind.is_some(),
        done: done.map(str::to_owned),
        live,
        shell,
    }))
}
