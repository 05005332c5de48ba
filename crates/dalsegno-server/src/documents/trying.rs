//! `POST …/try`: one call of a tool outside of any run, played back from a recording or performed.

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use dalsegno_access::{Access, Scope};
use dalsegno_catalogue::{DocumentId, Limits};
use dalsegno_core::ToolOwner;
use dalsegno_runtime::{
    DocumentCheck, DocumentFailure, ErrorKind, TrialError, TrialOptions, TrialRecording, document_place,
};
use dalsegno_workspace::{Diagnostic, ToolkitFile, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::target::{Target, no_document};
use super::tell;
use crate::body;
use crate::problem::{Code, Problem};
use crate::shared::Shared;

/// What is tried.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Try {
    /// A document that need not be written; the one in use by default.
    #[serde(default)]
    pub(crate) document: Option<Value>,
    /// The action of a toolkit.
    #[serde(default)]
    pub(crate) action: Option<String>,
    /// The arguments.
    #[serde(default = "nothing")]
    pub(crate) params: Value,
    /// What is known of the user, as a start has it.
    #[serde(default = "nothing")]
    #[schema(value_type = Object)]
    pub(crate) user: Value,
    /// On whose behalf, for a document that all tenants share.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// Whether requests are sent.
    #[serde(default)]
    pub(crate) live: bool,
    /// What the requests are answered with where none is sent, as an earlier try returned it.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) recording: Option<TrialRecording>,
}

/// What came of a try.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tried {
    /// The outcome of the call.
    #[schema(value_type = Object)]
    pub(crate) outcome: Value,
    /// What it would remember in the memory of an agent.
    pub(crate) writes: Value,
    /// The requests with their answers, to be sent as `recording`.
    #[schema(value_type = Object)]
    pub(crate) recording: TrialRecording,
}

fn nothing() -> Value {
    json!({})
}

pub(crate) async fn trial(
    State(shared): State<Arc<Shared>>,
    Target { access, id, .. }: Target,
    body::Json(asked): body::Json<Try>,
) -> Result<Json<Tried>, Problem> {
    perform(&shared, &access, &id, asked).await.map(Json)
}

/// Tries a tool on behalf of a client.
pub(crate) async fn perform(
    shared: &Shared,
    access: &Access,
    id: &DocumentId,
    asked: Try,
) -> Result<Tried, Problem> {
    let Try { document, action, params, user, tenant, live, recording } = asked;
    if !user.is_object() {
        let problem =
            Problem::new(Code::Invalid, "`user` is not an object", "send an object, or leave it out");
        return Err(problem.at("/user", "is not an object"));
    }
    if live {
        // No person is asked about what a live call does: it takes the scopes of a start and of an approval.
        for scope in [Scope::RunsWrite, Scope::AnswersWrite] {
            if !access.may(scope) {
                return Err(Problem::forbidden(access, scope));
            }
        }
        if recording.is_some() {
            let detail = "a call is either played back from `recording` or performed `live`";
            return Err(Problem::new(Code::Invalid, detail, "send one of them").at("/recording", detail));
        }
    }
    let tenant = match (id.tenant(), tenant) {
        (Some(own), None) => own.to_owned(),
        (Some(own), Some(named)) if named == own => named,
        (None, named) => named.unwrap_or_else(|| Workspace::DEFAULT_TENANT.to_owned()),
        (Some(_), Some(_)) => return Err(no_document()),
    };
    shared.engine.look().await;
    let workspace = shared.engine.workspace();
    let (toolkit, owner) = match document {
        // A document that no person has reviewed gets the secrets of its tenant, as it would once it was written, and no others.
        Some(document) => {
            let most = Limits::default().document;
            if document.to_string().len() as u64 > most {
                let detail = format!("the document has more than {most} bytes");
                let problem = Problem::new(Code::TooLarge, detail, "split it into several documents");
                return Err(problem.at("/document", "is too long"));
            }
            let source = document_place(id).source();
            let parsed = parse(&workspace, &source, &document)
                .map_err(|check| tell::failure(DocumentFailure::Invalid(Box::new(check)), access))?;
            (parsed.toolkit, ToolOwner::Tenant(tenant.clone()))
        }
        None => {
            let own = workspace.tenants.get(&tenant);
            let file = match id.tenant() {
                Some(_) => own.and_then(|own| own.tools.get(id.name())),
                None => workspace.toolkits.get(id.name()),
            };
            let file = file.ok_or_else(no_document)?;
            let owner = match id.tenant().is_some() || file.is_document() {
                true => ToolOwner::Tenant(tenant.clone()),
                false => ToolOwner::Workspace,
            };
            (file.toolkit.clone(), owner)
        }
    };
    let known: Vec<&str> = toolkit
        .tools()
        .iter()
        .map(|tool| tool.name().split_once('.').map_or(tool.name(), |(_, action)| action))
        .collect();
    let tool = match (action, &known[..]) {
        (Some(action), _) if !toolkit.is_single() => {
            format!("{}.{}", toolkit.name(), action.replace('-', "_"))
        }
        (Some(action), _) => action.replace('-', "_"),
        (None, [_]) => toolkit.tools()[0].name().to_owned(),
        (None, _) => {
            let detail = format!("`action` is missing: the document has {}", known.join(", "));
            return Err(Problem::new(Code::Invalid, detail.clone(), "name one of them").at("/action", detail));
        }
    };
    let options = TrialOptions { tenant, user, owner: Some(owner) };
    let engine = shared.engine.clone();
    let tried = shared.whole(async move {
        Ok(match (live, recording) {
            (true, _) => engine.try_tool(&toolkit, &tool, &params, &options).await,
            (false, recording) => {
                let recording = recording.unwrap_or_else(|| TrialRecording::empty(&tool));
                // The recording says which tool it is of; that of another one answers nothing.
                let recording = TrialRecording { tool, ..recording };
                engine.play_tool(&toolkit, &params, &options, &recording).await
            }
        })
    });
    let trial = tried.await?.map_err(failed)?;
    Ok(Tried {
        outcome: json!(trial.finished.outcome),
        writes: json!(trial.finished.writes),
        recording: trial.recording,
    })
}

fn parse(workspace: &Workspace, source: &Path, document: &Value) -> Result<ToolkitFile, DocumentCheck> {
    ToolkitFile::parse(Some(&workspace.settings), source, &format!("{document:#}")).map_err(|(found, _)| {
        // The client sent a value, and no text: a place in one would be none that it knows.
        let found = found.into_iter().map(|found| Diagnostic { span: None, start: None, ..found });
        let (errors, warnings) = found.partition(Diagnostic::is_error);
        DocumentCheck { errors, warnings, ..DocumentCheck::default() }
    })
}

fn failed(error: TrialError) -> Problem {
    let help = match &error {
        TrialError::NotRecorded { .. } => "send the answer in `recording`, or perform the call with `live`",
        TrialError::UnknownTool { .. } => "name an action of the document in `action`",
        _ => "correct the request, and send it again",
    };
    match error {
        TrialError::Tenant(_) => no_document(),
        // Its words may name what is the operator's.
        error @ TrialError::Scrubbing { .. } => Problem::internal(ErrorKind::Unavailable, &error),
        error => Problem::new(Code::Invalid, error.to_string(), help),
    }
}
