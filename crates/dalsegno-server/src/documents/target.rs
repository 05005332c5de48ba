//! Which document a request is about, and whether its key reaches it.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use dalsegno_access::Access;
use dalsegno_catalogue::{DocumentId, DocumentKind};

use crate::guard::Client;
use crate::problem::{Code, Problem};

/// A document that is in the reach of the client's key.
pub(crate) struct Target {
    pub(crate) access: Access,
    pub(crate) id: DocumentId,
    /// The version that the address names, as it is written there.
    pub(crate) version: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Target {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Client(access) = Client::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| no_document())?;
        let named = |name: &str| params.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        let (tenant, version) = (named("tenant"), named("version").map(str::to_owned));
        if tenant.is_some_and(|tenant| !access.sees(tenant)) {
            return Err(no_document());
        }
        if tenant.is_none() && access.tenant().is_some() {
            return Err(of_workspace());
        }
        let (parameter, id) = match (named("agent"), named("tool"), tenant) {
            (Some(agent), _, _) => ("agent", DocumentId::new(None, DocumentKind::Agent, agent)),
            (None, Some(tool), tenant) => ("tool", DocumentId::new(tenant, DocumentKind::Tool, tool)),
            (None, None, Some(tenant)) => ("tenant", DocumentId::new(None, DocumentKind::Tenant, tenant)),
            (None, None, None) => return Err(no_document()),
        };
        let id = id.map_err(|error| {
            Problem::parameter(parameter, format!("is no name: {error}"), "choose another name")
        })?;
        Ok(Self { access, id, version })
    }
}

/// The answer for a document that is not there, or belongs to another tenant: the same in both cases.
pub(crate) fn no_document() -> Problem {
    Problem::new(
        Code::NotFound,
        "there is no such document",
        "list what there is with `GET /v1/agents`, `GET /v1/tools` or `GET /v1/tenants`",
    )
}

/// The answer to a key of one tenant that asks for what all tenants share.
fn of_workspace() -> Problem {
    Problem::new(
        Code::Forbidden,
        "documents that all tenants share need a key of all tenants",
        "use a key that was made with `dalsegno key add --all-tenants`, or the tools of your tenant at `/v1/tenants/{tenant}/tools`",
    )
}
