//! Reads servers that are no WebAssembly modules: `command = […]` and `url = …`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::paths::Paths;
use super::{CommandBinding, EndpointBinding, EnvValue, RemoteBinding, ServerLimits, oauth, secrets, url};
use crate::code::Code;
use crate::section::{Section, string, wrong_type};

/// The keys of which a server has one.
const PLACES: [&str; 3] = ["wasm", "command", "url"];

/// What only one kind of server has, with that kind.
const KEYS_OF: [(&str, &str); 8] = [
    ("digest", "wasm"),
    ("permissions", "wasm"),
    ("lifetime", "wasm"),
    ("env", "command"),
    ("cwd", "command"),
    ("headers", "url"),
    ("oauth", "url"),
    ("allow_http", "url"),
];

/// The kind of a server, by its key; `None` where it has none or several, which was reported.
pub(super) fn kind(section: &Section<'_>) -> Option<&'static str> {
    let given: Vec<&str> = PLACES.into_iter().filter(|place| section.has(place)).collect();
    let [kind] = given[..] else {
        let added = if given.is_empty() {
            let problem = "a server has none of `wasm`, `command` and `url`";
            section.report.error(Code::MissingKey, section.span.clone(), problem)
        } else {
            let problem = format!("a server has both `{}` and `{}`", given[0], given[1]);
            section.report.error(Code::InvalidValue, section.span.clone(), problem)
        };
        added.help("write `wasm = \"PATH\"`, `command = [\"PROGRAM\", …]` or `url = \"https://…\"`");
        return None;
    };
    for (key, owner) in KEYS_OF {
        if owner != kind
            && let Some(span) = section.key_span(key)
        {
            section
                .report
                .error(Code::InvalidValue, span, format!("`{key}` belongs to a server with `{owner}`"))
                .help(format!("remove `{key}`: this server has `{kind}`"));
        }
    }
    Some(kind)
}

/// Reads how a server is reached that is no module.
pub(super) fn read(kind: &str, section: &Section<'_>, paths: &Paths<'_>) -> Option<RemoteBinding> {
    if kind == "command" {
        command(section, paths).map(RemoteBinding::Command)
    } else {
        endpoint(section, paths).map(RemoteBinding::Endpoint)
    }
}

/// What such servers may use up where the file says nothing.
pub(super) fn limits(limits: &ServerLimits, section: Option<&Section<'_>>) -> ServerLimits {
    let is_given = section.is_some_and(|section| section.has("call_timeout"));
    let call_timeout = if is_given { limits.call_timeout } else { REMOTE_CALL_TIMEOUT };
    if let Some(section) = section
        && section.has("total_timeout")
        && limits.total_timeout < call_timeout
        && let Some(span) = section.key_span("total_timeout")
    {
        section
            .report
            .error(Code::InvalidValue, span, "`total_timeout` is shorter than `call_timeout`")
            .label(format!("a call may take {call_timeout:?} without reporting progress"))
            .help("make `total_timeout` longer, or `call_timeout` shorter");
    }
    ServerLimits { call_timeout, ..limits.clone() }
}

fn command(section: &Section<'_>, paths: &Paths<'_>) -> Option<CommandBinding> {
    let (program, arguments) = program(section, paths)?;
    let directory = match section.has("cwd") {
        true => paths.path(section, "cwd")?.value,
        false => paths.place.root.to_owned(),
    };
    Some(CommandBinding { program, arguments, env: env(section, paths), directory })
}

/// Reads `command`: a program and its arguments.
pub(super) fn program(section: &Section<'_>, paths: &Paths<'_>) -> Option<(PathBuf, Vec<String>)> {
    let words =
        section.items("command", "a program and its arguments, such as `[\"npx\", \"-y\", \"NAME\"]`");
    let words: Vec<String> =
        words.iter().filter_map(|word| Some(string(section.report, "command", word)?.value)).collect();
    let is_usable = words.first().is_some_and(|program| !program.is_empty())
        && words.iter().all(|word| !word.contains('\0'));
    if !is_usable {
        let span = section.key_span("command").unwrap_or(section.span.clone());
        section
            .report
            .error(Code::InvalidValue, span, "`command` names no program")
            .label("expected a list: the program, then its arguments");
        return None;
    }
    let mut words = words.into_iter();
    let program = words.next()?;
    // A path is the workspace's; a bare name is looked up in `PATH`.
    let program = if program.contains('/') { paths.place.root.join(program) } else { program.into() };
    Some((program, words.collect()))
}

/// Reads environment variables: texts, and references to secrets.
pub(super) fn env(section: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, EnvValue> {
    let mut env = BTreeMap::new();
    for (name, value) in section.tables("env") {
        let text = &name.value;
        if text.is_empty() || text.contains(['=', '\0']) {
            section
                .report
                .error(
                    Code::InvalidValue,
                    name.span.clone(),
                    format!("`{}` is not the name of an environment variable", text.escape_debug()),
                )
                .label("expected a name such as `REGION`, without `=`");
            continue;
        }
        let value = match value.get_ref() {
            // Its name may say that it is a secret, which was reported.
            DeValue::String(_) if section.report.is_concealed(&name.span) => None,
            DeValue::String(text) => Some(EnvValue::Text(text.to_string())),
            DeValue::Table(_) => {
                let what = format!("the variable `{text}`");
                secrets::one(section.report, text, value, &what, paths).map(EnvValue::Secret)
            }
            _ => wrong_type(
                section.report,
                text,
                value,
                "a text, `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ store = \"NAME\" }`",
            ),
        };
        env.extend(value.map(|value| (name.value, value)));
    }
    env
}

fn endpoint(section: &Section<'_>, paths: &Paths<'_>) -> Option<EndpointBinding> {
    let allow_http = section.boolean("allow_http").unwrap_or(false);
    let headers = secrets::read(section, "headers", "the header", paths);
    for (name, _) in section.tables("headers") {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
        if name.value.is_empty() || !name.value.bytes().all(is_token) {
            section
                .report
                .error(
                    Code::InvalidValue,
                    name.span.clone(),
                    format!("`{}` is not the name of a header", name.value.escape_debug()),
                )
                .label("expected a name such as `Authorization`");
        }
    }
    let oauth = oauth::read(section, paths, allow_http);
    let url = url::read(section, "url", allow_http)?;
    Some(EndpointBinding { url, headers, oauth })
}

/// Such servers ask others, who take their time.
const REMOTE_CALL_TIMEOUT: Duration = Duration::from_secs(30);
