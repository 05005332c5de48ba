//! Reads `[triggers.NAME]`: deliveries from outside that start runs.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::AgentName;
use dalsegno_expr::{Reference, Template, ValueTemplate};
use toml::Spanned;
use toml::de::DeValue;

use super::keys::SECRET;
use super::paths::Paths;
use super::secrets;
use crate::agent::{expression, invalid, json};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::names::{list, nearest, some, suggestion};
use crate::report::Report;
use crate::section::{Located, Section, string, wrong_type};
use crate::shape::{AGENT_NAME, Form, Key, Shape, Tagged};
use crate::source::SourceFile;
use crate::trigger::{Signature, Trigger};
use crate::workspace::Workspace;

/// The name of a header.
const HEADER: Form = Form::Name("^[A-Za-z0-9-]{1,64}$");

const AGENT: Key = Key::new("agent", AGENT_NAME, "The agent whose runs deliveries start.")
    .required("add `agent = \"NAME\"`, the agent whose runs deliveries start");
const TENANT: Key = Key::new("tenant", Form::Text, "The tenant of the runs; `default` by default.");
const SIGNATURE: Key = Key::new(
    "signature",
    Form::Word(&["standard", "github", "token"]),
    "How a delivery proves who sent it: Standard Webhooks, the signature of GitHub, or a secret in a header.",
)
.required("expected one of `standard`, `github`, `token`");
const SECRET_KEY: Key = Key::new(
    "secret",
    Form::Table(&SECRET),
    "Where to find the secret that the sender has, too: `{ env = \"NAME\" }`, `{ file = \"PATH\" }`, `{ store = \"NAME\" }` or `{ command = [\"PROGRAM\", …] }`.",
)
.required("add `secret = { env = \"NAME\" }`, where the secret is found that the sender has, too");
const HEADERS: Key = Key::new(
    "headers",
    Form::List(&HEADER),
    "Headers that the templates can read as `headers[\"NAME\"]`, in lower case; none by default.",
);
const WHEN: Key = Key::new(
    "when",
    Form::Expression,
    "Which deliveries start a run, such as `body.action == 'opened'`; all by default.",
);
const TEXT: Key = Key::new("text", Form::Template, "What the agent is asked; empty by default.");
const DATA: Key = Key::new(
    "data",
    Form::Any,
    "What it is given besides, with templates in its strings; the body by default.",
);
const SESSION: Key = Key::new(
    "session",
    Form::Template,
    "The session of the run, such as `issue-{{body.issue.number}}`; one of its own by default.",
);

static SIGNED: Shape =
    Shape::new("a trigger", &[AGENT, TENANT, SIGNATURE, SECRET_KEY, HEADERS, WHEN, TEXT, DATA, SESSION]);

static WITH_TOKEN: Shape = Shape::new(
    "a trigger",
    &[
        AGENT,
        TENANT,
        SIGNATURE,
        SECRET_KEY,
        Key::new(
            "token_header",
            HEADER,
            "The header that carries the secret: `authorization` as `Bearer SECRET`, any other as the secret alone.",
        )
        .required("add `token_header = \"X-Token\"`, the header that carries the secret"),
        Key::new(
            "id_header",
            HEADER,
            "The header with the id of a delivery; by default the digest of the body is its id.",
        ),
        HEADERS,
        WHEN,
        TEXT,
        DATA,
        SESSION,
    ],
);

pub(super) static TRIGGER: Tagged =
    Tagged { tag: "signature", shapes: &[(&["standard", "github"], &SIGNED), (&["token"], &WITH_TOKEN)] };

/// What the templates can read.
const ROOTS: [&str; 3] = ["body", "headers", "query"];

/// Headers that no template reads: they are credentials, or about the connection and not the delivery.
const UNREADABLE: [&str; 7] = [
    "authorization",
    "connection",
    "cookie",
    "proxy-authorization",
    "webhook-signature",
    "x-hub-signature",
    "x-hub-signature-256",
];

/// The longest name of a trigger.
const NAME_MAX: usize = 64;

pub(super) fn read(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, Trigger> {
    let mut triggers = BTreeMap::new();
    for (name, value) in file.tables("triggers") {
        if name.value.parse::<AgentName>().is_err() || name.value.len() > NAME_MAX {
            file.report
                .error(Code::InvalidValue, name.span.clone(), format!("`{}` is not the name of a trigger", name.value))
                .label(format!("expected 1 to {NAME_MAX} lower-case letters, digits and single hyphens, beginning with a letter"))
                .help("it is a part of the address: `/triggers/NAME`");
        }
        if let Some(trigger) = open(paths, &name, value).and_then(|section| one(&section, paths)) {
            triggers.insert(name.value, trigger);
        }
    }
    triggers
}

/// Opens the table of a trigger by the way in which its deliveries are signed.
fn open<'t>(
    paths: &Paths<'t>,
    name: &Located<String>,
    value: &'t Spanned<DeValue<'t>>,
) -> Option<Section<'t>> {
    let (report, what) = (paths.report, format!("`[triggers.{}]`", name.value));
    let Some(table) = value.get_ref().as_table() else {
        return wrong_type(report, &name.value, value, "a table");
    };
    let words: Vec<_> = TRIGGER.words().collect();
    let Some(signature) = table.get(TRIGGER.tag) else {
        report
            .error(Code::MissingKey, value.span(), format!("{what} has no `signature`"))
            .label("anyone could start runs")
            .help(format!("expected one of {}", list(words)));
        return None;
    };
    let signature = string(report, TRIGGER.tag, signature)?;
    let Some(shape) = TRIGGER.shape(&signature.value) else {
        // The other keys belong to that kind of signature, so nothing can be said about them.
        let added = report
            .error(Code::InvalidValue, signature.span, format!("`signature` cannot be `{}`", signature.value))
            .label(format!("expected one of {}", list(&words)));
        if let Some(near) = nearest(&signature.value, words.iter().copied()) {
            added.help(format!("did you mean `{near}`?"));
        }
        return None;
    };
    Section::of(report, &name.value, value, &what, shape)
}

fn one(section: &Section<'_>, paths: &Paths<'_>) -> Option<Trigger> {
    let report = section.report;
    let headers = headers(section);
    let readable: BTreeSet<&str> = headers.iter().map(String::as_str).collect();
    let template = |key: &str| {
        let text = section.string(key)?;
        let template = Template::parse(&text.value)
            .map_err(|error| invalid(report, &format!("the template of `{key}`"), &text, &error))
            .ok()?;
        check(report, &text, &template.paths(), &readable);
        Some(template)
    };
    let when = section.string("when").and_then(|text| {
        let when = expression(report, "when", &text)?;
        check(report, &text, &when.paths(), &readable);
        Some(when)
    });
    let data = section.get("data").and_then(|value| {
        let value = json(report, "data", value, &mut |key, text| match Template::parse(&text.value) {
            Ok(template) => check(report, &text, &template.paths(), &readable),
            Err(error) => invalid(report, &format!("the template of `{key}`"), &text, &error),
        })?;
        // An error has been reported with its place.
        ValueTemplate::parse(&value).ok()
    });
    let (text, session) = (template("text"), template("session"));
    let signature = section.string("signature").and_then(|signature| match signature.value.as_str() {
        "standard" => Some(Signature::Standard),
        "github" => Some(Signature::Github),
        _ => {
            let id = header(report, section.string("id_header"));
            Some(Signature::Token { header: header(report, section.string("token_header"))?, id })
        }
    });
    let secret = secrets::at(section, "secret", paths, &format!("`secret` of {}", section.what()));
    let tenant = match section.string("tenant") {
        Some(tenant) if !crate::tenant::is_tenant_name(&tenant.value) => {
            report.error(
                Code::InvalidValue,
                tenant.span,
                format!("`{}` is not the name of a tenant", tenant.value),
            );
            return None;
        }
        Some(tenant) => tenant,
        None => Located { value: Workspace::DEFAULT_TENANT.to_owned(), span: section.span.clone() },
    };
    let agent = section.parsed("agent")?;
    Some(Trigger {
        agent,
        tenant,
        signature: signature?,
        secret: secret?,
        headers,
        when,
        text,
        data,
        session,
    })
}

/// The headers that the templates can read.
fn headers(section: &Section<'_>) -> Vec<String> {
    let token = section.form("token_header").and_then(|_| section.string("token_header"));
    let mut headers = Vec::new();
    for named in section.list::<String>("headers") {
        let span = named.span.clone();
        let Some(name) = header(section.report, Some(named)) else { continue };
        let is_token = token.as_ref().is_some_and(|token| token.value.eq_ignore_ascii_case(&name));
        if is_token || UNREADABLE.contains(&name.as_str()) {
            section
                .report
                .error(Code::InvalidValue, span, format!("no template can read the header `{name}`"))
                .label("it is a credential, or says nothing of the delivery")
                .help("remove it");
        } else if !headers.contains(&name) {
            headers.push(name);
        }
    }
    headers
}

/// The name of a header, in lower case.
fn header(report: &Report, name: Option<Located<String>>) -> Option<String> {
    let name = name?;
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if (1..=NAME_MAX).contains(&name.value.len()) && name.value.bytes().all(inside) {
        return Some(name.value.to_ascii_lowercase());
    }
    report
        .error(Code::InvalidValue, name.span, format!("`{}` is not the name of a header", name.value))
        .label("expected letters, digits and `-`, such as `X-Delivery`");
    None
}

/// Reports what a template reads that no delivery has.
fn check(report: &Report, text: &Located<String>, references: &[Reference], headers: &BTreeSet<&str>) {
    for reference in references {
        let span = report.within(&text.span, &text.value, &reference.span);
        match (reference.root.as_str(), reference.segments.first()) {
            ("headers", Some(name)) if !headers.contains(name.as_str()) => {
                report
                    .error(
                        Code::UnknownName,
                        span,
                        format!("the header `{name}` is not one that can be read here"),
                    )
                    .help(match headers.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                        Some(known) => format!("write `headers[\"{known}\"]`"),
                        None => format!("add `headers = [\"{}\"]` to the trigger", name.to_ascii_lowercase()),
                    });
            }
            (root, _) if !ROOTS.contains(&root) => {
                report
                    .error(Code::UnknownName, span, format!("unknown name `{root}`"))
                    .help(suggestion(root, &ROOTS));
            }
            _ => {}
        }
    }
}

impl Trigger {
    /// Compares the agent and the tenant with those that there are; `broken` ones have errors of their own.
    ///
    /// Both problems are warnings: an agent that is removed, by a file or by the API, does not take the rest out of use.
    pub(crate) fn check(
        &self,
        name: &str,
        source: &SourceFile,
        (agents, tenants): (&BTreeSet<&str>, &BTreeSet<&str>),
    ) -> Vec<Diagnostic> {
        let warning = |code, span, problem: String, help: String| {
            let found = Diagnostic::new(code, Severity::Warning, source.file(), problem).at(source, span);
            found.with_label(format!("deliveries to `/triggers/{name}` start nothing")).with_help(help)
        };
        let help =
            |name: &str, known: &BTreeSet<&str>, folder: &str| match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => format!("add `{folder}/{name}.toml`"),
                None => format!("add `{folder}/{name}.toml`, or use one of {}", some(known.iter().copied())),
            };
        let mut found = Vec::new();
        let agent = self.agent.value.as_str();
        if !agents.contains(agent) {
            let problem = format!("the workspace has no agent `{agent}`");
            let help = help(agent, agents, "agents");
            found.push(warning(Code::UnknownAgent, self.agent.span.clone(), problem, help));
        }
        let tenant = self.tenant.value.as_str();
        if tenant != Workspace::DEFAULT_TENANT && !tenants.contains(tenant) {
            let problem = format!("the workspace has no tenant `{tenant}`");
            let help = help(tenant, tenants, "tenants");
            found.push(warning(Code::UnknownTenant, self.tenant.span.clone(), problem, help));
        }
        found
    }
}
