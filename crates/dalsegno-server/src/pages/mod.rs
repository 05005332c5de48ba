//! The debugger: pages over what the API shows, for a person with a browser.
//!
//! A page is a view of the same values that the API sends, found by the same code with the same [`Access`]. What a form sends goes
//! the way of the API as well. Who is signed in is a cookie with an access key, see [`session`].

mod answer;
mod assets;
mod chat;
mod diff;
mod document;
mod documents;
mod fork;
mod form;
mod inbox;
mod provider;
mod run;
mod runs;
pub(crate) mod session;
mod sign_in;
mod step;
mod walks;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use dalsegno_access::{Access, Scope, Tickets};
use dalsegno_web::notice::NoticePage;
use dalsegno_web::{Live, Section, Shell, Template};

use self::walks::Walks;
use crate::problem::{Code, Problem, Told};
use crate::shared::Shared;
use crate::{changes, oidc};

/// What a browser may do on a page: load style and scripts of this server, ask this server, and send forms to it. No text becomes
/// a script, no other site has the page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What the pages keep from one request to the next.
pub(crate) struct Pages {
    tickets: Arc<Tickets>,
    walks: Walks,
}

impl Pages {
    pub(crate) fn new(tickets: Arc<Tickets>) -> Self {
        Self { tickets, walks: Walks::default() }
    }

    /// The runs that are walked through, which the API does as well.
    pub(crate) fn walks(&self) -> &Walks {
        &self.walks
    }
}

type Handler = MethodRouter<Arc<Shared>>;

/// The addresses of the pages, each with the scope that it needs.
fn table() -> Vec<(&'static str, Scope, Handler)> {
    use Scope::{
        AgentsRead, AgentsWrite, AnswersWrite, RunsList, RunsRead, RunsWrite, ToolsRead, ToolsWrite,
    };
    let mut table = vec![
        ("/runs", RunsList, get(runs::list)),
        ("/runs/{id}", RunsRead, get(run::show)),
        ("/runs/{id}/steps/{step}", RunsRead, get(step::show)),
        ("/runs/{id}/replay", RunsRead, get(diff::replay)),
        ("/runs/{id}/fork", RunsWrite, get(fork::ask).post(fork::fork)),
        ("/runs/{id}/cancel", RunsWrite, post(run::cancel)),
        ("/runs/{id}/pause", RunsWrite, post(run::pause)),
        ("/runs/{id}/resume", RunsWrite, post(run::resume)),
        ("/runs/{id}/answers", AnswersWrite, post(answer::answer)),
        ("/inbox", RunsRead, get(inbox::list)),
        ("/diff", RunsRead, get(diff::show)),
        ("/chat", RunsRead, get(chat::show)),
        ("/chat", RunsWrite, post(chat::say)),
        ("/agents", AgentsRead, get(documents::agents)),
        ("/tools", ToolsRead, get(documents::tools)),
        ("/tenants", ToolsRead, get(documents::tenants)),
        ("/tenants/{tenant}/tools", ToolsRead, get(documents::tools_of)),
        ("/agents/{agent}/versions/{version}", AgentsRead, get(document::version)),
        ("/tools/{tool}/versions/{version}", ToolsRead, get(document::version)),
        ("/tenants/{tenant}/versions/{version}", ToolsRead, get(document::version)),
        ("/tenants/{tenant}/tools/{tool}/versions/{version}", ToolsRead, get(document::version)),
    ];
    for (path, reads, writes) in [
        ("/agents/{agent}", AgentsRead, AgentsWrite),
        ("/tools/{tool}", ToolsRead, ToolsWrite),
        ("/tenants/{tenant}", ToolsRead, ToolsWrite),
        ("/tenants/{tenant}/tools/{tool}", ToolsRead, ToolsWrite),
    ] {
        table.push((path, reads, get(document::show)));
        // What comes back is the page, with all that it shows.
        table.push((path, writes, post(document::send)));
    }
    table
}

/// The handlers of the pages.
pub(crate) fn router(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let mut router = Router::new();
    for (path, scope, handler) in table() {
        let guard = from_fn_with_state((Arc::clone(shared), scope), session::signed_in);
        router = router.route(path, handler.route_layer(guard));
    }
    router
        .route("/", get(async || Redirect::to("/runs")))
        .route("/sign-in", get(sign_in::show).post(sign_in::by_key))
        .route("/sign-in/oidc", get(provider::begin))
        .route(oidc::RETURN, get(provider::end))
        .route("/sign-out", post(sign_in::out))
        .route("/assets/{version}/{name}", get(assets::asset))
        .layer(from_fn(guarded))
}

/// Puts on every answer what a browser may do with it.
async fn guarded(request: Request, next: Next) -> Response {
    guard(next.run(request).await)
}

fn guard(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Not `no-referrer`: with that, browsers send `Origin: null` with the forms of a page.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        // For what does not know `frame-ancestors`.
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // A page shows what its reader may see, and is kept nowhere.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A page as an answer.
pub(crate) fn html(page: &impl Template) -> Response {
    with_status(StatusCode::OK, page)
}

fn with_status(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Says whether a person may talk with agents: start runs, and read what comes of them.
fn may_chat(access: &Access) -> bool {
    access.may(Scope::RunsWrite) && access.may(Scope::RunsRead)
}

/// What surrounds a page for who has this access.
pub(crate) fn shell(access: &Access, section: Section) -> Shell {
    let may_write = access.may(Scope::RunsWrite);
    let offered = [
        (Section::Runs, Scope::RunsList),
        (Section::Inbox, Scope::RunsRead),
        (Section::Diff, Scope::RunsRead),
        (Section::Agents, Scope::AgentsRead),
        (Section::Tools, Scope::ToolsRead),
    ];
    let sections = offered.into_iter().filter(|(_, scope)| access.may(*scope)).map(|(section, _)| section);
    let sections = sections.chain(may_chat(access).then_some(Section::Chat));
    Shell {
        section,
        sections: sections.collect(),
        actor: access.actor(),
        reach: access.tenant().map_or_else(|| "all tenants".to_owned(), str::to_owned),
        may_answer: access.may(Scope::AnswersWrite),
        may_write,
    }
}

/// What a list follows: the changes of runs after the place at which this is called, which has to be before the list is read.
async fn live(shared: &Shared, access: &Access, stream: impl Into<String>) -> Option<Live> {
    if !access.may(Scope::RunsList) {
        return None;
    }
    // Without a place the page is as it was when it was loaded.
    let after = changes::now(shared).await.ok()?;
    Some(Live { stream: stream.into(), after })
}

/// A problem as a page.
fn notice(shell: Shell, response: Response) -> Response {
    let Some(Told(document)) = response.extensions().get::<Told>() else { return response };
    let text = |key: &str| {
        let text = document[key].as_str().unwrap_or_default();
        let mut letters = text.chars();
        // The API has parts of sentences.
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    let violations = document["violations"].as_array().into_iter().flatten();
    let violations = violations.map(|one| {
        let part = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        (part("pointer"), part("message"))
    });
    let page = NoticePage {
        shell,
        title: text("title"),
        detail: format!("{}.", text("detail").trim_end_matches('.')),
        help: format!("{}.", text("help").trim_end_matches('.')),
        violations: violations.collect(),
    };
    let mut dressed = with_status(response.status(), &page);
    for name in [axum::http::header::RETRY_AFTER] {
        if let Some(value) = response.headers().get(&name) {
            dressed.headers_mut().insert(name, value.clone());
        }
    }
    dressed
}

/// A problem as a page, if it answers a person with a browser at an address that is not the API's.
pub(crate) fn dressed(request: &Request, response: Response) -> Response {
    let accepts = |accept: &HeaderValue| accept.to_str().is_ok_and(|accept| accept.contains("text/html"));
    let is_page =
        !request.uri().path().starts_with("/v1/") && request.headers().get(ACCEPT).is_some_and(accepts);
    if is_page { guard(notice(Shell::signed_out(), response)) } else { response }
}

/// An address on this server to go to, from what a client sent: nothing else is followed.
fn local(address: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_graphic() && c != '\\';
    let is_local = address.starts_with('/') && !address.starts_with("//") && address.chars().all(is_plain);
    if is_local && address.len() <= 512 { address } else { "/runs" }
}

/// A form that was filled in wrongly.
fn wrong(detail: impl Into<String>, help: &str) -> Problem {
    Problem::new(Code::Invalid, detail, help)
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn no_form_leads_elsewhere() {
        for address in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "",
            "/a b",
            "/\u{202e}",
        ] {
            assert_eq!(local(address), "/runs", "{address:?}");
        }
        assert_eq!(local("/inbox?kind=approval#op-1"), "/inbox?kind=approval#op-1");
    }
}
