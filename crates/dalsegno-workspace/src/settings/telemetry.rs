//! Reads `[telemetry]`.

use std::collections::BTreeMap;

use super::paths::Paths;
use super::{SecretRef, TelemetrySettings, secrets, url};
use crate::code::Code;
use crate::section::{Section, string};

pub(super) fn read(file: &Section<'_>, paths: &Paths<'_>) -> Option<TelemetrySettings> {
    let section = file.section("telemetry")?;
    let allow_http = section.boolean("allow_http").unwrap_or(false);
    let mut headers = secrets::read(&section, "headers", "the header", paths);
    headers.retain(|name, reference| {
        let is_printed = matches!(reference, SecretRef::Command(_));
        if is_printed && let Some(span) = section.key_span("headers") {
            let problem = format!("the header `{name}` of `[telemetry]` cannot come from a program");
            let added = section.report.error(Code::InvalidValue, span, problem);
            added.help("write `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`");
        }
        !is_printed
    });
    let (resource, content) = (resource(&section), section.boolean("content").unwrap_or(false));
    let endpoint = url::read(&section, "endpoint", allow_http)?;
    Some(TelemetrySettings { endpoint, headers, resource, content })
}

fn resource(section: &Section<'_>) -> BTreeMap<String, String> {
    let entries = section.tables("resource").into_iter();
    let texts = entries.filter_map(|(name, value)| {
        let text = string(section.report, &name.value, value)?;
        Some((name.value, text.value))
    });
    texts.collect()
}
