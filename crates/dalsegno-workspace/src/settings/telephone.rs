//! Reads what a line of a telephone has: the secrets of its webhooks, and who answers at which number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use dalsegno_core::AgentName;
use dalsegno_tools::Transfer;
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
use crate::tenant::Refer;
use crate::workspace::Workspace;

/// Who holds the lines of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The provider of the live model, over SIP: their sound never comes here.
    Sip,
    /// A carrier that sends their sound here over a socket, in the form of Twilio's Media Streams.
    Media,
}

impl Transport {
    /// The word in the file, such as `sip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sip => "sip",
            Self::Media => "media",
        }
    }
}

/// How a line is reached by telephone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telephone {
    /// Who holds the lines of callers.
    pub transport: Transport,
    /// The secrets by which webhooks are signed: those of the provider, or the authentication tokens of the carrier. Any of them proves
    /// one, so that they can be exchanged.
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
    /// Where calls to the number may be transferred. Nowhere by default: the owner of the line pays for what it dials.
    pub transfer_to: Vec<TransferPattern>,
}

/// Addresses to which calls may be transferred: one of them, or with `*` for letters, digits, `.`, `_`, `+` and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPattern(String);

impl FromStr for TransferPattern {
    type Err = &'static str;

    /// Reads a pattern as people write it: a bare number becomes a `tel:` address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let address = match text.contains(':') {
            true => text.to_owned(),
            // As the number of a target, which has no blanks.
            false => text.chars().fold("tel:".to_owned(), |mut address, one| {
                if !matches!(one, ' ' | '-' | '.') {
                    address.push(one);
                }
                address
            }),
        };
        // It is an address when digits stand for its stars.
        match Transfer::to(&address.replace('*', "1")) {
            Some(_) => Ok(Self(address.to_ascii_lowercase())),
            None => Err("expected a number, or an address with `tel:`, `sip:` or `sips:`"),
        }
    }
}

impl fmt::Display for TransferPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TransferPattern {
    /// Says whether an address is one of them.
    pub fn matches(&self, target: &str) -> bool {
        let target = target.to_ascii_lowercase();
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| target.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        let stands =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte));
        while let Some(part) = parts.next() {
            let found = match parts.peek() {
                None => rest.strip_suffix(part).map(|skipped| (skipped, "")),
                Some(_) => rest.split_once(part),
            };
            let Some((_, left)) = found.filter(|(skipped, _)| stands(skipped)) else { return false };
            rest = left;
        }
        true
    }
}

/// Most secrets of a line: while they are exchanged there are two.
const SECRETS_MAX: usize = 8;

/// The keys of a line that only a telephone has.
pub(super) const KEYS: [Key; 2] = [
    Key::new(
        "webhook_secrets",
        Form::List(&A_SECRET),
        "Where to find the secrets by which webhooks are signed: those of the provider, or the authentication tokens of the carrier; any of them proves one.",
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
        Key::new(
            "transfer_to",
            Form::List(&Form::Text),
            "Where calls may be transferred: addresses such as `\"tel:+33140000000\"`, or with `*`, such as `\"sip:*@acme.example\"`. Nowhere when absent.",
        ),
    ],
);

/// Reads it; nothing where a part of it cannot be read.
pub(super) fn read(
    line: &Section<'_>,
    transport: Transport,
    paths: &Paths<'_>,
    what: &str,
) -> Option<Telephone> {
    let help = match transport {
        Transport::Sip => "add `webhook_secrets = [{ env = \"OPENAI_WEBHOOK_SECRET\" }]`",
        Transport::Media => "add `webhook_secrets = [{ env = \"TWILIO_AUTH_TOKEN\" }]`",
    };
    line.require("webhook_secrets", help);
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
        let patterns: Vec<Located<TransferPattern>> = section.list("transfer_to");
        let transfer_to = patterns.into_iter().map(|pattern| pattern.value).collect();
        if let Some(agent) = section.parsed("agent") {
            numbers.insert(number.value, Answerer { tenant, agent, transfer_to });
        }
    }
    Some(Telephone { transport, webhook_secrets, numbers })
}

/// Reports the keys of a telephone at a line that is none.
pub(super) fn none(line: &Section<'_>) {
    for key in KEYS {
        if let Some(span) = line.key_span(key.name) {
            line.report
                .error(Code::InvalidValue, span, format!("`{}` is of no use at a line for text", key.name))
                .label("no telephone rings here")
                .help("write `transport = \"sip\"` or `transport = \"media\"`, or remove it");
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
        refers: &BTreeMap<&str, &Refer>,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (number, answerer) in &self.numbers {
            let warned = |code, span, problem: String, help: String| {
                let warning = Diagnostic::new(code, Severity::Warning, source.file(), problem);
                let warning = warning.at(source, span).with_label(format!("calls to {number} are rejected"));
                warning.with_help(help)
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
                found.push(warned(Code::UnknownAgent, span, problem, help(agent, agents, "agents")));
            } else if !speaking.contains(agent) {
                let problem = format!("the agent `{agent}` takes no calls");
                found.push(warned(Code::MissingKey, span, problem, "add `[voice]` to its file".to_owned()));
            }
            let tenant = answerer.tenant.value.as_str();
            for destination in refers.get(tenant).into_iter().flat_map(|refer| refer.offered()) {
                let Some(Transfer { target }) = Transfer::to(&destination.target_uri) else { continue };
                if !answerer.transfer_to.iter().any(|pattern| pattern.matches(&target)) {
                    let problem = format!(
                        "calls to {number} cannot be transferred to `{}` of the tenant `{tenant}`",
                        destination.id
                    );
                    let warning = Diagnostic::new(Code::NoEffect, Severity::Warning, source.file(), problem);
                    let warning = warning.at(source, answerer.agent.span.clone());
                    let warning = warning.with_label("the number does not allow its address");
                    found.push(
                        warning.with_help(format!("add `\"{target}\"` to `transfer_to` of the number")),
                    );
                }
            }
            if tenant != Workspace::DEFAULT_TENANT && !tenants.contains(tenant) {
                let problem = format!("the workspace has no tenant `{tenant}`");
                let help = help(tenant, tenants, "tenants");
                found.push(warned(Code::UnknownTenant, answerer.tenant.span.clone(), problem, help));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::TransferPattern;

    fn matches(pattern: &str, target: &str) -> bool {
        pattern.parse::<TransferPattern>().is_ok_and(|pattern| pattern.matches(target))
    }

    #[test]
    fn a_pattern_allows_what_it_names_and_nothing_else() {
        for (pattern, target) in [
            ("+33140000000", "tel:+33140000000"),
            ("tel:+33140000000", "tel:+33140000000"),
            ("+3314*", "tel:+33140000000"),
            ("+33 1 40-00.00 00", "tel:+33140000000"),
            ("sip:*@acme.example", "SIP:Sales@ACME.example"),
            ("sip:desk-*@*.acme.example", "sip:desk-7@paris.acme.example"),
            ("sip:*@acme.example", "sip:a.b@acme.example"),
        ] {
            assert!(matches(pattern, target), "{pattern} {target}");
        }
        for (pattern, target) in [
            ("+33140000000", "tel:+331400000001"),
            ("+33140000000", "sip:+33140000000@evil.example"),
            ("+3314*", "tel:+33240000000"),
            ("+3314*", "tel:+33140000000;phone-context=evil.example"),
            ("sip:*@acme.example", "sip:a@evil.example;x=b@acme.example"),
            ("sip:*@acme.example", "sip:a@acme.example.evil.example"),
            ("sip:*@acme.example", "sips:a@acme.example"),
            ("sip:a*a@b", "sip:a@b"),
            ("sip:*@*", "sip:a@b:5060"),
        ] {
            assert!(!matches(pattern, target), "{pattern} {target}");
        }
    }

    #[test]
    fn what_is_no_address_is_no_pattern() {
        for wrong in ["", "sales", "http://acme.example", "sip:", "sip:a@b?x=*", "tel:"] {
            assert!(wrong.parse::<TransferPattern>().is_err(), "{wrong}");
        }
    }
}
