//! The page of one document: shown, checked, tried, saved and deleted.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{DocumentId, DocumentKind, Version, VersionEntry};
use dalsegno_core::Timestamp;
use dalsegno_runtime::{DocumentCheck, DocumentFailure, Expected, Layer, ShownDocument, document_place};
use dalsegno_web::document::{DocumentPage, Found, Stale, Trial, VersionRow, diff};
use dalsegno_web::{Markup, Section, text};
use dalsegno_workspace::Workspace;
use serde::Deserialize;
use serde_json::Value;

use super::form::Form;
use super::{shell, with_status};
use crate::documents::target::{Target, no_document};
use crate::documents::trying::{self, Try};
use crate::documents::{show, tell, write};
use crate::params::Params;
use crate::problem::Problem;
use crate::shared::Shared;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    done: Option<Done>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Done {
    Saved,
    Uncovered,
}

/// The address of the page of a document.
fn address(id: &DocumentId) -> String {
    match (id.kind(), id.tenant()) {
        (DocumentKind::Agent, _) => format!("/agents/{}", id.name()),
        (DocumentKind::Tenant, _) => format!("/tenants/{}", id.name()),
        (DocumentKind::Tool, None) => format!("/tools/{}", id.name()),
        (DocumentKind::Tool, Some(tenant)) => format!("/tenants/{tenant}/tools/{}", id.name()),
    }
}

/// The list that a document is in.
fn up(id: &DocumentId) -> (String, String) {
    match (id.kind(), id.tenant()) {
        (DocumentKind::Agent, _) => ("Agents".to_owned(), "/agents".to_owned()),
        (DocumentKind::Tenant, _) => ("Tenants".to_owned(), "/tenants".to_owned()),
        (DocumentKind::Tool, None) => ("Tools".to_owned(), "/tools".to_owned()),
        (DocumentKind::Tool, Some(tenant)) => {
            (format!("Tools of {tenant}"), format!("/tenants/{tenant}/tools"))
        }
    }
}

fn may_write(access: &Access, kind: DocumentKind) -> bool {
    access.may(match kind {
        DocumentKind::Agent => Scope::AgentsWrite,
        DocumentKind::Tool | DocumentKind::Tenant => Scope::ToolsWrite,
    })
}

/// What a new document begins with: one that has no errors.
fn beginning(id: &DocumentId) -> String {
    let name = id.name();
    match id.kind() {
        DocumentKind::Agent => {
            format!(
                "name = \"{name}\"\ndescription = \"\"\n\n[[steps]]\nrespond = \"You said: {{{{request.text}}}}\"\n"
            )
        }
        DocumentKind::Tenant => format!("name = \"{name}\"\n"),
        DocumentKind::Tool => format!(
            "{{\n  \"name\": \"{name}\",\n  \"actions\": [\n    {{\n      \"name\": \"say\",\n      \"description\": \"Says what it is given.\",\n      \
             \"parameters\": [{{ \"name\": \"words\", \"type\": \"string\", \"required\": true }}],\n      \
             \"actions\": [{{ \"type\": \"respond\", \"message\": \"{{{{params.words}}}}\" }}]\n    }}\n  ]\n}}\n"
        ),
    }
}

fn time(millis: u64) -> String {
    text::clock(Timestamp::from_millis(millis))
}

fn who(by: &dalsegno_catalogue::Author) -> String {
    let name = by.name.as_deref().map(|name| text::line(name, 64));
    name.unwrap_or_else(|| format!("key {}", text::line(&by.key, 32)))
}

fn facts(shown: &ShownDocument) -> Vec<String> {
    let layer = match shown.layer {
        Layer::File => "a file of the workspace",
        Layer::Catalogue => "a document of the catalogue",
    };
    let mut facts = vec![layer.to_owned(), format!("version {}", text::short(shown.version))];
    if let Some(written) = &shown.written {
        facts.push(format!("change {} by {}, {}", written.number, who(&written.by), time(written.at)));
    }
    facts
}

fn found(check: &DocumentCheck, access: &Access, file: &str) -> Vec<Found> {
    let all: Vec<_> = check.errors.iter().chain(&check.warnings).cloned().collect();
    let mut told: Vec<Found> = tell::diagnostics(&all, access)
        .into_iter()
        .map(|one| Found {
            class: match one.severity {
                dalsegno_workspace::Severity::Error => "error",
                dalsegno_workspace::Severity::Warning => "warning",
                dalsegno_workspace::Severity::Note => "note",
            },
            code: one.code.to_string(),
            message: text::shown(&one.message, 2_000),
            label: one.label.map(|label| text::line(&label, 240)),
            help: one.help.map(|help| text::shown(&help, 2_000)),
            file: one.file.filter(|of| of != file).map(|of| text::line(&of, 240)),
            place: one.place.map(|place| [place.line, place.column, place.offset, place.length]),
        })
        .collect();
    // Agents that break without an error that says so.
    if check.errors.is_empty() {
        told.extend(check.agents.iter().map(|agent| Found {
            class: "error",
            message: format!("the agent `{agent}` would not work with this document"),
            ..Found::default()
        }));
    }
    told
}

fn trial(workspace: &Workspace, id: &DocumentId, access: &Access) -> Option<Trial> {
    if id.kind() != DocumentKind::Tool {
        return None;
    }
    let file = match id.tenant() {
        Some(tenant) => workspace.tenants.get(tenant).and_then(|own| own.tools.get(id.name())),
        None => workspace.toolkits.get(id.name()),
    };
    let tools = file.map(|file| file.toolkit.tools()).unwrap_or_default();
    let actions = tools.iter().map(|tool| tool.name().split_once('.').map_or(tool.name(), |(_, one)| one));
    Some(Trial {
        actions: actions.map(str::to_owned).collect(),
        params: "{}".to_owned(),
        tenant: id.tenant().is_none().then(|| Workspace::DEFAULT_TENANT.to_owned()),
        may_live: access.may(Scope::RunsWrite) && access.may(Scope::AnswersWrite),
        ..Trial::default()
    })
}

fn row(id: &DocumentId, entry: &VersionEntry) -> VersionRow {
    VersionRow {
        number: entry.number,
        href: entry.version.map(|version| format!("{}/versions/{version}", address(id))),
        short: entry.version.map(text::short).unwrap_or_default(),
        at: time(entry.at),
        by: who(&entry.by),
    }
}

/// The page of a document as it is in use, or of one that is to be written.
async fn page(shared: &Arc<Shared>, access: &Access, id: &DocumentId) -> Result<DocumentPage, Problem> {
    let may_write = may_write(access, id.kind());
    let shown = match show::in_use(shared, access, id).await? {
        Ok(shown) => Some(shown),
        Err(DocumentFailure::Unknown) if may_write => None,
        Err(failure) => return Err(tell::failure(failure, access)),
    };
    let workspace = shared.engine.workspace();
    if let (None, Some(tenant)) = (&shown, id.tenant())
        && !workspace.tenants.contains_key(tenant)
    {
        return Err(no_document());
    }
    let versions = shared.engine.document_versions(id).await;
    let versions = versions.map_err(|failure| tell::failure(failure, access))?;
    let is_tool = id.kind() == DocumentKind::Tool;
    Ok(DocumentPage {
        shell: shell(access, if id.kind() == DocumentKind::Agent { Section::Agents } else { Section::Tools }),
        word: id.kind().as_str(),
        name: id.name().to_owned(),
        address: address(id),
        up: up(id),
        file: tell::slashes(&document_place(id).source()),
        media_type: if is_tool { "application/json" } else { "application/toml" },
        facts: shown.as_ref().map(facts).unwrap_or_default(),
        version: shown.as_ref().map(|shown| shown.version.to_string()).unwrap_or_default(),
        may_delete: may_write && shown.as_ref().is_some_and(|shown| shown.layer == Layer::Catalogue),
        text: shown.map_or_else(|| beginning(id), |shown| shown.text),
        may_write,
        found: Vec::new(),
        is_checked: false,
        problem: None,
        done: None,
        stale: None,
        versions: versions.iter().map(|entry| row(id, entry)).collect(),
        trial: may_write.then(|| trial(&workspace, id, access)).flatten(),
        is_earlier: false,
    })
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    Params(Query { done }): Params<Query>,
) -> Result<Response, Problem> {
    let mut page = page(&shared, &access, &id).await?;
    page.done = done.map(|done| match done {
        Done::Saved => "Saved. Each run that starts from now on uses it.",
        Done::Uncovered => "The document is deleted, and the file below it is in use again.",
    });
    Ok(with_status(StatusCode::OK, &page))
}

/// An earlier version, to be looked at.
pub(super) async fn version(
    State(shared): State<Arc<Shared>>,
    Target { access, id, version }: Target,
) -> Result<Response, Problem> {
    let version: Version = version.and_then(|version| version.parse().ok()).ok_or_else(no_document)?;
    let found = shared.engine.document_version(&id, version).await;
    let text = found.map_err(|failure| tell::failure(failure, &access))?;
    let page = page(&shared, &access, &id).await?;
    let facts = vec![format!("version {}", text::short(version))];
    let page = DocumentPage {
        facts,
        text,
        may_write: false,
        may_delete: false,
        trial: None,
        is_earlier: true,
        ..page
    };
    Ok(with_status(StatusCode::OK, &page))
}

pub(super) async fn send(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    form: Form,
) -> Result<Response, Problem> {
    // What comes back is the page, with all that it shows.
    let reads = match id.kind() {
        DocumentKind::Agent => Scope::AgentsRead,
        DocumentKind::Tool | DocumentKind::Tenant => Scope::ToolsRead,
    };
    if !access.may(reads) {
        return Err(Problem::forbidden(&access, reads));
    }
    let base: Option<Version> = form.given("version").and_then(|version| version.parse().ok());
    let expected = base.map_or(Expected::Absent, |version| Expected::OneOf(vec![version]));
    let typed = form.text("text");
    let what = form.text("do");
    if what == "delete" {
        return match write::change(&shared, &access, &id, None, expected).await? {
            Ok(changed) if changed.shown.is_some() => {
                Ok(Redirect::to(&format!("{}?done=uncovered", address(&id))).into_response())
            }
            Ok(_) => Ok(Redirect::to(&format!("{}?done=deleted", up(&id).1)).into_response()),
            Err(failure) => {
                let now = page(&shared, &access, &id).await?;
                Ok(refused(&shared, &access, &id, base, failure, now).await)
            }
        };
    }
    write::bounded(id.kind(), typed.as_bytes())?;
    if what == "save" {
        return match write::change(&shared, &access, &id, Some(typed.clone()), expected).await? {
            Ok(_) => Ok(Redirect::to(&format!("{}?done=saved", address(&id))).into_response()),
            Err(failure) => {
                let now = page(&shared, &access, &id).await?;
                let version = form.text("version");
                let trial = now.trial.clone().map(|trial| typed_trial(trial, &form));
                let page = DocumentPage { text: typed, version, trial, ..now };
                Ok(refused(&shared, &access, &id, base, failure, page).await)
            }
        };
    }
    let mut page = page(&shared, &access, &id).await?;
    page.trial = page.trial.map(|trial| typed_trial(trial, &form));
    // The version that the text follows from, and not the one that is there by now.
    page.version = form.text("version");
    if what == "try"
        && let Some(form) = page.trial.take()
    {
        let in_use = page.text.clone();
        page.trial = Some(tried(&shared, &access, &id, (&typed, &in_use), form).await);
        page.text = typed;
        return Ok(with_status(StatusCode::OK, &page));
    }
    let checked = write::judge(&shared, &access, &id, typed.clone()).await?;
    let checked = checked.map_err(|failure| tell::failure(failure, &access))?;
    page.found = found(&checked, &access, &page.file);
    page.is_checked = true;
    page.text = typed;
    Ok(with_status(StatusCode::OK, &page))
}

/// The page again, with why a change was refused, and with what was typed.
async fn refused(
    shared: &Arc<Shared>,
    access: &Access,
    id: &DocumentId,
    base: Option<Version>,
    failure: DocumentFailure,
    mut page: DocumentPage,
) -> Response {
    match &failure {
        DocumentFailure::Invalid(check) => {
            page.found = found(check, access, &page.file);
            page.is_checked = true;
        }
        DocumentFailure::Stale { .. } => {
            let now = show::in_use(shared, access, id).await.ok().and_then(Result::ok);
            let before = match base {
                Some(base) => shared.engine.document_version(id, base).await.ok(),
                None => None,
            };
            let words = match now.as_ref().map(|now| &now.written) {
                Some(Some(written)) => format!("{} saved it at {}.", who(&written.by), time(written.at)),
                Some(None) => "The file in the workspace's folder is in use.".to_owned(),
                None => "It was deleted.".to_owned(),
            };
            let current = now.as_ref().map(|now| now.text.as_str()).unwrap_or_default();
            let (title, lines) = match &before {
                Some(before) => ("What changed since you opened it", diff(before, current)),
                None => ("From what is there now to your text", diff(current, &page.text)),
            };
            page.version = now.map(|now| now.version.to_string()).unwrap_or_default();
            page.stale = Some(Stale { words, title, lines });
        }
        _ => {}
    }
    let problem = tell::failure(failure, access);
    let document = problem.document();
    if page.found.is_empty() && page.stale.is_none() {
        let part = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        page.problem = Some(format!("Nothing was changed: {}. To do: {}.", part("detail"), part("help")));
    }
    let status = document["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    with_status(status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY), &page)
}

/// What was typed into the form that tries a tool.
fn typed_trial(trial: Trial, form: &Form) -> Trial {
    Trial {
        action: form.text("action"),
        params: form.text("params"),
        tenant: trial.tenant.map(|_| form.text("tenant")),
        recording: form.text("recording"),
        is_live: form.given("live").is_some(),
        ..trial
    }
}

async fn tried(
    shared: &Shared,
    access: &Access,
    id: &DocumentId,
    (typed, in_use): (&str, &str),
    trial: Trial,
) -> Trial {
    match ask(typed, in_use, &trial) {
        Err(problem) => Trial { problem: Some(problem), ..trial },
        Ok(asked) => match trying::perform(shared, access, id, asked).await {
            Ok(tried) => Trial {
                outcome: Some(Markup::json(&tried.outcome)),
                writes: tried
                    .writes
                    .as_array()
                    .is_some_and(|writes| !writes.is_empty())
                    .then(|| Markup::json(&tried.writes)),
                recorded: serde_json::to_string_pretty(&tried.recording)
                    .ok()
                    .map(|recording| text::shown(&recording, 64 * 1024)),
                ..trial
            },
            Err(problem) => {
                let document = problem.document();
                let part = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
                let mut words = format!("{}. To do: {}.", part(&document, "detail"), part(&document, "help"));
                for one in document["diagnostics"].as_array().into_iter().flatten().take(5) {
                    words.push_str(&format!(" {}.", part(one, "message")));
                }
                Trial { problem: Some(text::shown(&words, 4_000)), ..trial }
            }
        },
    }
}

/// What is tried, from what was typed.
fn ask(typed: &str, in_use: &str, trial: &Trial) -> Result<Try, String> {
    let read = |what: &str, text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("The {what} is not JSON: {error}."))
    };
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let is_same = dalsegno_catalogue::canonical(typed) == dalsegno_catalogue::canonical(in_use);
    let params = given(&trial.params)
        .map_or_else(|| Ok(serde_json::json!({})), |params| read("text of the arguments", &params))?;
    let recording = given(&trial.recording)
        .map(|recording| {
            serde_json::from_str(&recording)
                .map_err(|error| format!("The recording cannot be read: {error}."))
        })
        .transpose()?;
    Ok(Try {
        document: if is_same { None } else { Some(read("document", typed)?) },
        action: given(&trial.action),
        params,
        user: serde_json::json!({}),
        tenant: trial.tenant.as_deref().and_then(given),
        live: trial.is_live,
        recording,
    })
}
