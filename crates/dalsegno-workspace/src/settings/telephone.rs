//! Reads what a line of a telephone has: the secrets of its webhooks, and who answers at which number.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::AgentName;
use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::keys::SECRET;
use super::paths::Paths;
use super::{SecretRef, VoiceLine, secrets};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::names::{nearest, some};
use crate::section::{Located, Section};
use crate::shape::{Form, Key, Shape};
use crate::source::SourceFile;
use crate::workspace::Workspace;

/// How a line is reached by telephone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telephone {
    /// The secrets by which the provider's webhooks are signed. Any of them proves one, so that they can be exchanged.
    pub webhook_secrets: Vec<SecretRef>,
    /// Who answers, by number as E.164 writes it: `+33176540001`.
    pub numbers: BTreeMap<String, Answerer>,
}

/// Who answers at a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answerer {
    /// The tenant that the calls belong to; the default tenant when the file does not say.
    pub tenant: Located<String>,
    /// The agent.
    pub agent: Located<AgentName>,
}

/// Most secrets of a line: while they are exchanged there are two.
const SECRETS_MAX: usize = 8;

/// The keys of a line that only a telephone has.
pub(super) const KEYS: [Key; 2] = [
    Key::new(
        "webhook_secrets",
        Form::List(&A_SECRET),
        "Where to find the secrets by which the provider signs its webhooks; any of them proves one.",
    ),
    Key::new(
        "numbers",
        Form::Map(&A_NUMBER),
        "Who answers, by number, such as `\"+33176540001\" = { agent = \"desk\" }`.",
    ),
];

static A_SECRET: Form = Form::Table(&SECRET);

static A_NUMBER: Form = Form::Table(&NUMBER);

static NUMBER: Shape = Shape::new(
    "a number",
    &[
        Key::new(
            "tenant",
            Form::Text,
            "The tenant that the calls belong to; the default tenant when absent.",
        ),
        Key::new("agent", Form::Text, "The agent that answers. It has `[voice]`.")
            .required("add `agent = \"NAME\"`"),
    ],
);

/// Reads it; nothing where a part of it cannot be read.
pub(super) fn read(line: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<Telephone> {
    line.require("webhook_secrets", "add `webhook_secrets = [{ env = \"OPENAI_WEBHOOK_SECRET\" }]`");
    line.require("numbers", "add `numbers = { \"+33176540001\" = { agent = \"NAME\" } }`");
    let mut webhook_secrets = Vec::new();
    let items = line.items("webhook_secrets", "a list of places of secrets");
    let empty = |key: &str, wrong: &str, expected: &str| {
        if let Some(span) = line.key_span(key) {
            line.report
                .error(Code::InvalidValue, span, format!("`{key}` of {what} {wrong}"))
                .label(expected.to_owned());
        }
    };
    let is_list = line.get("webhook_secrets").is_some_and(|value| value.get_ref().is_array());
    if is_list && !(1..=SECRETS_MAX).contains(&items.len()) {
        empty("webhook_secrets", "cannot be used", &format!("expected 1 to {SECRETS_MAX} secrets"));
    }
    for item in items.iter().take(SECRETS_MAX) {
        let of = format!("`webhook_secrets` of {what}");
        match item.get_ref() {
            DeValue::String(_) => {
                if let Some(span) = line.key_span("webhook_secrets") {
                    let key = Spanned::new(span, DeString::from("webhook_secrets"));
                    crate::secrets::in_clear(line.report, &key, item);
                }
            }
            _ => {
                let section = Section::of(line.report, "webhook_secrets", item, &of, &SECRET);
                webhook_secrets.extend(section.and_then(|one| secrets::reference(&one, paths, &of)));
            }
        }
    }
    let mut numbers = BTreeMap::new();
    let tables = line.tables("numbers");
    let is_table = line.get("numbers").is_some_and(|value| value.get_ref().is_table());
    if is_table && tables.is_empty() {
        empty("numbers", "is empty", "no call would be answered");
    }
    for (number, value) in tables {
        if !is_number(&number.value) {
            line.report
                .error(Code::InvalidValue, number.span, format!("`{}` is not a number", number.value))
                .label("expected `+`, the country and the rest, 7 to 15 digits, without spaces")
                .help("write it as E.164 does, such as `\"+33176540001\"`");
            continue;
        }
        let of = format!("the number `{}`", number.value);
        let Some(section) = Section::of(line.report, &number.value, value, &of, &NUMBER) else { continue };
        let tenant = section.string("tenant").unwrap_or_else(|| Located {
            value: Workspace::DEFAULT_TENANT.to_owned(),
            span: number.span.clone(),
        });
        if !crate::tenant::is_tenant_name(&tenant.value) {
            let problem = format!("`{}` is not the name of a tenant", tenant.value);
            line.report.error(Code::InvalidValue, tenant.span, problem);
            continue;
        }
        if let Some(agent) = section.parsed("agent") {
            numbers.insert(number.value, Answerer { tenant, agent });
        }
    }
    Some(Telephone { webhook_secrets, numbers })
}

/// Reports the keys of a telephone at a line that is none.
pub(super) fn none(line: &Section<'_>) {
    for key in KEYS {
        if let Some(span) = line.key_span(key.name) {
            line.report
                .error(Code::InvalidValue, span, format!("`{}` is of no use at a line for text", key.name))
                .label("no telephone rings here")
                .help("write `transport = \"sip\"`, or remove it");
        }
    }
}

/// Reports numbers that two lines have.
pub(super) fn once(lines: &BTreeMap<String, VoiceLine>, paths: &Paths<'_>) {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, line) in lines {
        for (number, answerer) in line.telephone.iter().flat_map(|telephone| &telephone.numbers) {
            if let Some(other) = taken.insert(number, name) {
                paths
                    .report
                    .error(
                        Code::InvalidValue,
                        answerer.agent.span.clone(),
                        format!("the lines `{other}` and `{name}` both have the number `{number}`"),
                    )
                    .label("it is not clear who answers")
                    .help("remove one of them");
            }
        }
    }
}

/// Says whether a text is a number as E.164 writes it.
pub fn is_number(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_digit())
            && !digits.starts_with('0')
    })
}

impl Telephone {
    /// Compares the agents and tenants with those that there are, and with those that take calls.
    ///
    /// All problems are warnings: an agent that is removed, by a file or by the API, does not take the rest out of use.
    pub(crate) fn check(
        &self,
        source: &SourceFile,
        (agents, speaking, tenants): (&BTreeSet<&str>, &BTreeSet<&str>, &BTreeSet<&str>),
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (number, answerer) in &self.numbers {
            let mut warn = |code, span, problem: String, help: String| {
                let warning = Diagnostic::new(code, Severity::Warning, source.file(), problem);
                let warning = warning.at(source, span).with_label(format!("calls to {number} are rejected"));
                found.push(warning.with_help(help));
            };
            let help =
                |name: &str, known: &BTreeSet<&str>, folder: &str| match nearest(name, known.iter().copied())
                {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => format!("add `{folder}/{name}.toml`"),
                    None => {
                        format!("add `{folder}/{name}.toml`, or use one of {}", some(known.iter().copied()))
                    }
                };
            let (agent, span) = (answerer.agent.value.as_str(), answerer.agent.span.clone());
            if !agents.contains(agent) {
                let problem = format!("the workspace has no agent `{agent}`");
                warn(Code::UnknownAgent, span, problem, help(agent, agents, "agents"));
            } else if !speaking.contains(agent) {
                let problem = format!("the agent `{agent}` takes no calls");
                warn(Code::MissingKey, span, problem, "add `[voice]` to its file".to_owned());
            }
            let tenant = answerer.tenant.value.as_str();
            if tenant != Workspace::DEFAULT_TENANT && !tenants.contains(tenant) {
                let problem = format!("the workspace has no tenant `{tenant}`");
                let help = help(tenant, tenants, "tenants");
                warn(Code::UnknownTenant, answerer.tenant.span.clone(), problem, help);
            }
        }
        found
    }
}
