//! Reads `[serve.oidc]`: whose tokens clients may show in the place of access keys, and what those allow.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::keys::SECRET;
use super::paths::Paths;
use super::{OidcSettings, OidcSignIn, OidcTenant, secrets, url};
use crate::code::Code;
use crate::names::{list, nearest};
use crate::section::{Located, Section, string};
use crate::shape::{Form, Key, Shape};

/// The algorithms of signatures. `none` and those of a shared secret are not among them.
pub const OIDC_ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// The scopes of access keys and tokens, as the server knows them.
pub const ACCESS_SCOPES: [&str; 13] = [
    "runs:list",
    "runs:read",
    "runs:write",
    "runs:erase",
    "answers:write",
    "agents:read",
    "agents:write",
    "tools:read",
    "tools:write",
    "tenants:admin",
    "webhooks:read",
    "webhooks:write",
    "metrics:read",
];

/// The longest value of a setting, in bytes: more than any issuer, audience or claim has.
const LONGEST: usize = 512;

pub(super) static SHAPE: Shape = Shape {
    one_of: &["tenant", "tenant_claim"],
    ..Shape::new(
        "`[serve.oidc]`",
        &[
            Key::new(
                "issuer",
                Form::Text,
                "The issuer of the tokens, exactly as it names itself; its keys are found from there.",
            )
            .required("add `issuer = \"https://…\"`, as the identity provider names itself in `iss`"),
            Key::new(
                "audience",
                Form::List(&Form::Text),
                "What a token must name as its audience: one of these.",
            )
            .required("add `audience = [\"…\"]`, what tokens for this server name in `aud`"),
            Key::new(
                "algorithms",
                Form::List(&Form::Word(&OIDC_ALGORITHMS)),
                "The algorithms with which tokens may be signed; `RS256` by default.",
            ),
            Key::new(
                "tenant",
                Form::Text,
                "The tenant that every token reaches; `*` for all. In the place of `tenant_claim`.",
            ),
            Key::new(
                "tenant_claim",
                Form::Text,
                "The claim with the tenant of a token, such as `organization` or `user.organization`.",
            ),
            Key::new(
                "tenants",
                Form::Map(&Form::Text),
                "The tenant for each value of `tenant_claim`, `*` for all; any other value is refused. Without it the value is the name of the tenant.",
            ),
            Key::new(
                "scopes_claim",
                Form::Text,
                "The claim with what a token allows: a list, or words with spaces between; `scope` by default.",
            ),
            Key::new(
                "scopes",
                Form::Map(&Form::List(&Form::Word(&ACCESS_SCOPES))),
                "The scopes for each value of `scopes_claim`; any other value gives none.",
            )
            .required(
                "add `[serve.oidc.scopes]` with `VALUE = [\"runs:read\"]` for each value that gives scopes",
            ),
            Key::new(
                "name_claim",
                Form::Text,
                "The claim with the name that is recorded with what a token changes; `sub` by default.",
            ),
            Key::new(
                "addresses",
                Form::List(&Form::Text),
                "Addresses of a private network at which the issuer is reached, such as `https://10.1.2.3`; public ones need no entry.",
            ),
            Key::new(
                "sign_in",
                Form::Table(&SIGN_IN),
                "How people sign in to the pages by the identity provider; without it they do not.",
            ),
        ],
    )
};

static SIGN_IN: Shape = Shape::new(
    "`[serve.oidc.sign_in]`",
    &[
        Key::new("client_id", Form::Text, "What the identity provider knows this server by.")
            .required("add `client_id = \"…\"`, the client's id at the identity provider"),
        Key::new(
            "client_secret",
            Form::Table(&SECRET),
            "Where to find the client's secret; without it the client is public, and PKCE alone protects it.",
        ),
        Key::new(
            "scopes",
            Form::List(&Form::Text),
            "What to ask the identity provider for besides `openid`; nothing by default.",
        ),
    ],
);

pub(super) fn read(serve: &Section<'_>, paths: &Paths<'_>) -> Option<OidcSettings> {
    let section = serve.section("oidc")?;
    let issuer = issuer(&section);
    let audience = texts(&section, "audience", "an audience");
    if audience.is_empty()
        && let Some(span) = section.key_span("audience")
    {
        section
            .report
            .error(Code::InvalidValue, span, "`audience` names nothing")
            .label("no token would be accepted")
            .help("write what tokens for this server name in `aud`, such as `[\"dalsegno\"]`");
    }
    let tenant = tenant(&section);
    let scopes = scopes(&section);
    let claim = |key: &str| section.has(key).then(|| text(&section, key, "the name of a claim"));
    let (scopes_claim, name_claim) = (claim("scopes_claim"), claim("name_claim"));
    let algorithms = algorithms(&section);
    let addresses = addresses(&section);
    let sign_in = section.section("sign_in").and_then(|section| {
        let client_secret = secrets::at(&section, "client_secret", paths, "the client's secret");
        let scopes = texts(&section, "scopes", "a scope").into_iter();
        Some(OidcSignIn {
            client_id: text(&section, "client_id", "the id of a client")?,
            client_secret,
            scopes: scopes.filter(|scope| scope != "openid").collect(),
        })
    });
    if audience.is_empty() || scopes.is_empty() {
        return None;
    }
    Some(OidcSettings {
        issuer: issuer?,
        audience,
        algorithms,
        tenant: tenant?,
        scopes_claim: scopes_claim.unwrap_or_else(|| Some("scope".to_owned()))?,
        scopes,
        name_claim: name_claim.unwrap_or_else(|| Some("sub".to_owned()))?,
        addresses,
        sign_in,
    })
}

/// Reads the issuer: keys come from there, so no one on the way may change them.
fn issuer(section: &Section<'_>) -> Option<String> {
    let text = section.string("issuer")?;
    let rest = text.value.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let scheme = text.value.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    let is_plain = text.value.len() <= LONGEST
        && text.value.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\\\"<>{}^`|%".contains(&byte));
    let origin = url::origin(&format!("{scheme}://{authority}")).filter(|_| is_plain);
    let Some(origin) = origin else {
        section
            .report
            .error(Code::InvalidValue, text.span, format!("`{}` is not an issuer", text.value.escape_debug()))
            .label("expected an address without a query, such as `https://login.example.com/realms/main`");
        return None;
    };
    if url::is_private(&origin) {
        return Some(text.value);
    }
    section
        .report
        .error(Code::InsecureUrl, text.span, "the keys of the issuer would arrive unprotected")
        .label("this `http` address is not on this machine")
        .help("write `https://…`: who changes the keys on their way can sign any token");
    None
}

/// Reads whose runs a token reaches.
fn tenant(section: &Section<'_>) -> Option<OidcTenant> {
    let (fixed, claim) = (section.string("tenant"), section.has("tenant_claim"));
    if let (Some(fixed), true) = (&fixed, claim) {
        section
            .report
            .error(
                Code::InvalidValue,
                fixed.span.clone(),
                "`[serve.oidc]` has both `tenant` and `tenant_claim`",
            )
            .help("remove one of them");
        return None;
    }
    if let (Some(span), false) = (section.key_span("tenants"), claim) {
        section
            .report
            .error(Code::InvalidValue, span, "`tenants` does nothing without `tenant_claim`")
            .help("add `tenant_claim = \"…\"`, the claim whose values these are");
        return None;
    }
    match fixed {
        Some(fixed) => reach(section, fixed).map(OidcTenant::Fixed),
        None if claim => {
            let claim = text(section, "tenant_claim", "the name of a claim")?;
            if !section.has("tenants") {
                return Some(OidcTenant::Claim { claim, tenants: None });
            }
            let mut tenants = BTreeMap::new();
            for (value, name) in section.tables("tenants") {
                let name = string(section.report, &value.value, name);
                if let Some(name) = name.and_then(|name| reach(section, name)) {
                    tenants.insert(value.value, name);
                }
            }
            Some(OidcTenant::Claim { claim, tenants: Some(tenants) })
        }
        None => {
            if !section.has("tenant") {
                section
                    .report
                    .error(
                        Code::MissingKey,
                        section.span.clone(),
                        "`[serve.oidc]` has neither `tenant_claim` nor `tenant`",
                    )
                    .help("add `tenant_claim = \"…\"`, the claim with the tenant, or `tenant = \"…\"`");
            }
            None
        }
    }
}

/// The name of a tenant, or `*` for all.
fn reach(section: &Section<'_>, name: Located<String>) -> Option<String> {
    if name.value == "*" || crate::tenant::is_tenant_name(&name.value) {
        return Some(name.value);
    }
    section
        .report
        .error(
            Code::InvalidValue,
            name.span,
            format!("`{}` is not the name of a tenant", name.value.escape_debug()),
        )
        .label("expected the name of a tenant, or `*` for all tenants");
    None
}

/// Reads which scopes the values of a claim give.
fn scopes(section: &Section<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let mut scopes = BTreeMap::new();
    let tables = section.tables("scopes");
    if tables.is_empty()
        && let Some(value) = section.get("scopes").filter(|value| value.get_ref().is_table())
    {
        section
            .report
            .error(Code::InvalidValue, value.span(), "`scopes` of `[serve.oidc]` gives no scope")
            .label("no token would allow anything")
            .help("add `VALUE = [\"runs:read\"]` for each value that gives scopes");
    }
    for (value, given) in tables {
        let Some(items) = given.get_ref().as_array() else {
            crate::section::wrong_type::<()>(section.report, &value.value, given, "a list of scopes");
            continue;
        };
        let words = items.iter().filter_map(|item| string(section.report, &value.value, item));
        let known = words.filter_map(|word| known(section, word, "a scope", &ACCESS_SCOPES)).collect();
        scopes.insert(value.value, known);
    }
    scopes
}

fn algorithms(section: &Section<'_>) -> BTreeSet<String> {
    if !section.has("algorithms") {
        return BTreeSet::from(["RS256".to_owned()]);
    }
    let words = section.list::<String>("algorithms");
    if words.is_empty()
        && let Some(span) = section.key_span("algorithms")
    {
        section
            .report
            .error(Code::InvalidValue, span, "`algorithms` names nothing")
            .label("no token would be accepted")
            .help("write those that the identity provider signs with, such as `[\"RS256\"]`");
    }
    let words = words.into_iter();
    words.filter_map(|word| known(section, word, "an algorithm of signatures", &OIDC_ALGORITHMS)).collect()
}

/// A word that is one of a few; any other one is reported.
fn known(section: &Section<'_>, word: Located<String>, what: &str, all: &[&str]) -> Option<String> {
    if all.contains(&word.value.as_str()) {
        return Some(word.value);
    }
    let problem = format!("`{}` is not {what} here", word.value.escape_debug());
    let added = section
        .report
        .error(Code::InvalidValue, word.span, problem)
        .label(format!("expected one of {}", list(all)));
    let is_unsafe = ["HS256", "HS384", "HS512", "NONE"].contains(&word.value.to_ascii_uppercase().as_str());
    if is_unsafe {
        added.help("remove it: only the signature of a public key says who made a token");
    } else if let Some(near) = nearest(&word.value, all.iter().copied()) {
        added.help(format!("did you mean `{near}`?"));
    }
    None
}

/// Reads where the issuer is besides the public network.
fn addresses(section: &Section<'_>) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    for text in section.list::<String>("addresses") {
        match url::origin(&text.value).filter(|origin| url::is_private(origin) && is_address(origin)) {
            Some(origin) => drop(addresses.insert(origin)),
            None => {
                section
                    .report
                    .error(
                        Code::InvalidValue,
                        text.span,
                        format!("`{}` is not an address of an issuer", text.value.escape_debug()),
                    )
                    .label(
                        "expected `https`, an IP address and perhaps a port, such as `https://10.1.2.3:8443`",
                    );
            }
        }
    }
    addresses
}

/// Says whether the host of an origin is an IP address. A name would say nothing: which addresses it may lead to is the question.
fn is_address(origin: &str) -> bool {
    let authority = origin.split_once("://").map(|(_, authority)| authority).unwrap_or_default();
    match authority.strip_prefix('[') {
        // It was read as one of IPv6.
        Some(_) => true,
        None => authority.split(':').next().is_some_and(|host| host.parse::<Ipv4Addr>().is_ok()),
    }
}

fn text(section: &Section<'_>, key: &str, what: &str) -> Option<String> {
    plain(section, section.string(key)?, what)
}

fn texts(section: &Section<'_>, key: &str, what: &str) -> BTreeSet<String> {
    section.list::<String>(key).into_iter().filter_map(|text| plain(section, text, what)).collect()
}

/// A text as a token has it: not empty, without spaces and control characters.
fn plain(section: &Section<'_>, text: Located<String>, what: &str) -> Option<String> {
    let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
    if !text.value.is_empty() && text.value.len() <= LONGEST && text.value.chars().all(is_plain) {
        return Some(text.value);
    }
    section
        .report
        .error(Code::InvalidValue, text.span, format!("`{}` is not {what}", text.value.escape_debug()))
        .label(format!("expected 1 to {LONGEST} characters without spaces"));
    None
}
