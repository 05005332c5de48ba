//! Reads `[settings]` of a tenant: any keys, of which `base_url` and `endpoints` are checked.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::DeValue;
use url::Url;

use super::egress;
use super::keys::{ENDPOINT, NO_SETTINGS};
use crate::agent::json;
use crate::code::Code;
use crate::names::list;
use crate::section::{Located, Section, string, wrong_type};

/// The settings as templates read them, and the addresses in them.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) values: Map<String, Value>,
    /// The origin of each address, and where the address stands.
    origins: Vec<Located<String>>,
}

pub(super) fn read(file: &Section<'_>) -> Settings {
    let mut settings = Settings::default();
    let Some(section) = file.open_section("settings", NO_SETTINGS) else { return settings };
    let base = section.string("base_url");
    settings.add("base_url", base.as_ref(), &section);
    for (name, value) in section.tables("endpoints") {
        settings.endpoint(&name.value, value, base.as_ref(), &section);
    }
    for (key, value) in section.entries() {
        if let Some(value) = json(section.report, &key.value, value, &mut |_, _| {}) {
            settings.values.insert(key.value, value);
        }
    }
    settings
}

impl Settings {
    /// Warns of addresses that the tenant's own tools could not reach.
    pub(super) fn check_egress(&self, file: &Section<'_>, egress: &BTreeSet<String>) {
        for origin in self.origins.iter().filter(|origin| !egress.contains(&origin.value)) {
            let allowed = match list(egress) {
                none if none.is_empty() => "no address may be reached".to_owned(),
                some => format!("only {some} may be reached"),
            };
            file.report
                .warning(
                    Code::BlockedAddress,
                    origin.span.clone(),
                    format!("no tool may reach `{}`", origin.value),
                )
                .label(allowed)
                .help(format!("add `\"{}\"` to `egress`", origin.value));
        }
    }

    fn endpoint(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        base: Option<&Located<String>>,
        section: &Section<'_>,
    ) {
        match value.get_ref() {
            DeValue::String(_) => self.add(name, string(section.report, name, value).as_ref(), section),
            DeValue::Table(_) => {
                let what = format!("the endpoint `{name}`");
                let Some(endpoint) = Section::of(section.report, name, value, &what, &ENDPOINT) else {
                    return;
                };
                endpoint.choice("method", &METHODS.map(|method| (method, ())));
                let Some(path) = endpoint.string("path") else { return };
                if !path.value.starts_with('/') || path.value.contains(is_no_part_of_an_address) {
                    section
                        .report
                        .error(Code::InvalidValue, path.span, format!("`path` cannot be `{}`", path.value))
                        .label("expected a path such as `/meals`");
                } else if base.is_none() && !section.has("base_url") {
                    section
                        .report
                        .error(Code::InvalidValue, path.span, "the path has no base address")
                        .label("`[settings]` has no `base_url`")
                        .help(
                            "add `base_url = \"https://…\"` to `[settings]`, or write the full address here",
                        );
                }
            }
            _ => {
                wrong_type::<()>(
                    section.report,
                    name,
                    value,
                    "an address or `{ path = \"/…\", method = \"POST\" }`",
                );
            }
        }
    }

    /// Checks an address, and remembers where it leads.
    fn add(&mut self, key: &str, text: Option<&Located<String>>, section: &Section<'_>) {
        let Some(text) = text else { return };
        let refuse = |span: Range<usize>, problem: &str| {
            let shown = if text.value.contains('@') { "…" } else { &text.value };
            if text.value.contains('@') {
                section.report.conceal(text.span.clone(), text.span.clone());
            }
            section
                .report
                .error(Code::InvalidValue, span, format!("`{key}` cannot be `{shown}`"))
                .label(problem);
        };
        if text.value.contains("${")
            || text.value.contains("{{")
            || text.value.contains(is_no_part_of_an_address)
        {
            refuse(text.span.clone(), "variables are not expanded here; an address cannot contain spaces");
            return;
        }
        let Ok(url) = Url::parse(&text.value) else {
            refuse(text.span.clone(), "expected an address such as `https://api.example.com/v1`");
            return;
        };
        match egress::origin_of(&url) {
            Ok(origin) => self.origins.push(Located { value: origin, span: text.span.clone() }),
            Err(problem) => refuse(text.span.clone(), problem),
        }
    }
}

fn is_no_part_of_an_address(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
