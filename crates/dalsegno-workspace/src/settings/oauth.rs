//! Reads `[servers.*.oauth]`: how a server is asked for access.

use super::paths::Paths;
use super::{OAuthBinding, OAuthGrant, secrets, url};
use crate::code::Code;
use crate::section::{Section, string};

/// Reads it from the section of its server; `None` where there is none.
pub(super) fn read(server: &Section<'_>, paths: &Paths<'_>, allow_http: bool) -> Option<OAuthBinding> {
    let section = server.section_as("oauth", "`oauth`")?;
    let grant = section.choice("grant", &GRANTS).unwrap_or_default();
    let oauth = OAuthBinding {
        grant,
        client_id: section.string("client_id").map(|id| id.value),
        client_secret: secrets::at(&section, "client_secret", paths, "the client's secret"),
        client_metadata: metadata(&section),
        scopes: scopes(&section),
        authorization_servers: authorization_servers(&section, allow_http),
    };
    check(&section, grant);
    if let Some((name, _)) = server
        .tables("headers")
        .into_iter()
        .find(|(name, _)| name.value.eq_ignore_ascii_case("authorization"))
    {
        section
            .report
            .error(Code::InvalidValue, name.span, "`Authorization` is set twice: here, and by `oauth`")
            .help("remove one of them");
    }
    Some(oauth)
}

/// Reports what is missing for a grant, and what does nothing.
fn check(section: &Section<'_>, grant: OAuthGrant) {
    if grant == OAuthGrant::ClientCredentials {
        section.require("client_id", "add `client_id = \"…\"`, the client's id at the authorization server");
        section.require(
            "client_secret",
            "add `client_secret = { env = \"NAME\" }`, a reference to the client's secret",
        );
    } else if section.has("client_secret") {
        section.require("client_id", "add `client_id = \"…\"`, the id of the client that has the secret");
    }
}

fn metadata(section: &Section<'_>) -> Option<String> {
    let text = section.string("client_metadata")?;
    let path = text.value.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
    if path.is_some_and(|(host, path)| url::origin(&format!("https://{host}")).is_some() && !path.is_empty())
    {
        return Some(text.value);
    }
    section
        .report
        .error(Code::InvalidValue, text.span, "`client_metadata` is not the address of a document")
        .label("expected an address such as `https://example.com/dalsegno.json`");
    None
}

fn scopes(section: &Section<'_>) -> Vec<String> {
    let mut scopes = Vec::new();
    for scope in section.list::<String>("scopes") {
        let is_token = |letter: char| letter.is_ascii_graphic() && letter != '"' && letter != '\\';
        if !scope.value.is_empty() && scope.value.chars().all(is_token) {
            scopes.push(scope.value);
            continue;
        }
        section
            .report
            .error(Code::InvalidValue, scope.span, format!("`{}` is not a scope", scope.value.escape_debug()))
            .label("expected one word, such as `files:read`");
    }
    scopes
}

fn authorization_servers(section: &Section<'_>, allow_http: bool) -> Vec<String> {
    let mut servers = Vec::new();
    let expected = "a list of authorization servers such as `\"https://login.example.com\"`";
    for item in section.items("authorization_servers", expected) {
        let Some(text) = string(section.report, "authorization_servers", item) else { continue };
        match url::origin(&text.value) {
            Some(origin) if allow_http || url::is_private(&origin) => servers.push(origin),
            Some(origin) => {
                section
                    .report
                    .error(
                        Code::InsecureUrl,
                        text.span,
                        format!("tokens from `{origin}` are sent unencrypted"),
                    )
                    .label("this `http` address is not on this machine")
                    .help(
                        "write `https://…`; set `allow_http = true` for the server only in your own network",
                    );
            }
            None => {
                section
                    .report
                    .error(Code::InvalidValue, text.span, format!("`{}` is not a destination", text.value))
                    .label(
                        "expected a scheme, a host and perhaps a port, such as `https://login.example.com`",
                    )
                    .help("write each host in full: wildcards and paths are not allowed");
            }
        }
    }
    servers
}

const GRANTS: [(&str, OAuthGrant); 2] = [
    ("authorization_code", OAuthGrant::AuthorizationCode),
    ("client_credentials", OAuthGrant::ClientCredentials),
];
