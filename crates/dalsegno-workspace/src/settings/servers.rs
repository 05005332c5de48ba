//! Reads `[servers.*]`. A permission or limit that cannot be read refuses the file; nothing falls back to something wider.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use super::keys::SERVER;
use super::paths::Paths;
use super::{Lifetime, ServerBinding, ServerLimits, permissions, remote};
use crate::agent::RESERVED;
use crate::code::Code;
use crate::section::{Located, Section};

pub(crate) fn read(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, ServerBinding> {
    let mut servers = BTreeMap::new();
    for (name, value) in file.tables("servers") {
        let is_valid = check_name(&name, paths);
        if let Some(server) = server(&name.value, value, paths).filter(|_| is_valid) {
            servers.insert(name.value, server);
        }
    }
    servers
}

/// A server's name is the first part of its tools' names, so it holds no `.`.
fn check_name(name: &Located<String>, paths: &Paths<'_>) -> bool {
    let text = &name.value;
    let is_valid = text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
    let is_reserved = text == "memory" || RESERVED.contains(&text.as_str());
    if !is_valid {
        paths
            .report
            .error(Code::InvalidValue, name.span.clone(), format!("`{text}` is not a server name"))
            .label("expected 1 to 32 lower-case letters, digits, `-` and `_`, beginning with a letter");
    } else if is_reserved {
        paths
            .report
            .error(Code::InvalidValue, name.span.clone(), format!("a server cannot be called `{text}`"))
            .label(format!("the built-in tools `{text}.*` have this name"));
    }
    is_valid && !is_reserved
}

fn server<'t>(name: &str, value: &'t Spanned<DeValue<'t>>, paths: &Paths<'t>) -> Option<ServerBinding> {
    let section = Section::of(paths.report, name, value, &format!("`[servers.{name}]`"), &SERVER)?;
    let kind = remote::kind(&section)?;
    let module = paths.file(&section, "wasm", "build it, or correct the path");
    let permissions = section.section_as("permissions", &format!("`[servers.{name}.permissions]`"));
    let limits = section.section_as("limits", &format!("`[servers.{name}.limits]`"));
    let is_module = kind == "wasm";
    if is_module && let Some(span) = limits.as_ref().and_then(|limits| limits.key_span("total_timeout")) {
        paths
            .report
            .error(Code::InvalidValue, span, "`total_timeout` belongs to a server with `command` or `url`")
            .help("remove `total_timeout`: a call of a module takes at most `call_timeout`");
    }
    let remote = if is_module { None } else { Some(remote::read(kind, &section, paths)?) };
    let given = limits.as_ref().map(self::limits).unwrap_or_default();
    let given = if is_module { given } else { remote::limits(&given, limits.as_ref()) };
    let binding = ServerBinding {
        module: module.unwrap_or_default(),
        remote,
        digest: digest(&section, paths),
        tools: section.get("tools").map(|_| tools(&section)),
        permissions: permissions
            .map(|permissions| permissions::read(&permissions, paths))
            .unwrap_or_default(),
        lifetime: section.choice("lifetime", &LIFETIMES).unwrap_or_default(),
        limits: given,
        trust_annotations: section.boolean("trust_annotations").unwrap_or(false),
    };
    (!is_module || !binding.module.as_os_str().is_empty()).then_some(binding)
}

fn tools(section: &Section<'_>) -> Vec<String> {
    section.list::<String>("tools").into_iter().map(|tool| tool.value).collect()
}

fn digest(section: &Section<'_>, paths: &Paths<'_>) -> Option<String> {
    let digest = section.string("digest")?;
    let hexadecimal = ["sha256:", "blake3:"].iter().find_map(|prefix| digest.value.strip_prefix(prefix));
    if hexadecimal
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return Some(digest.value);
    }
    paths
        .report
        .error(Code::InvalidValue, digest.span, "`digest` is not a digest")
        .label("expected `sha256:` or `blake3:` and 64 hexadecimal digits");
    None
}

fn limits(section: &Section<'_>) -> ServerLimits {
    let defaults = ServerLimits::default();
    ServerLimits {
        memory: section.size("memory").unwrap_or(defaults.memory),
        call_timeout: section.duration("call_timeout").unwrap_or(defaults.call_timeout),
        total_timeout: section.duration("total_timeout").unwrap_or(defaults.total_timeout),
        output: section.size("output").unwrap_or(defaults.output),
        stderr: section.size("stderr").unwrap_or(defaults.stderr),
        concurrency: section.integer("concurrency"),
        start_timeout: section.duration("start_timeout").unwrap_or(defaults.start_timeout),
        table_elements: section.integer("table_elements").unwrap_or(defaults.table_elements),
        instances: section.integer("instances").unwrap_or(defaults.instances),
        module: section.size("module").unwrap_or(defaults.module),
        compile_timeout: section.duration("compile_timeout").unwrap_or(defaults.compile_timeout),
        response: section.size("response").unwrap_or(defaults.response),
    }
}

const LIFETIMES: [(&str, Lifetime); 3] =
    [("per_call", Lifetime::PerCall), ("per_run", Lifetime::PerRun), ("shared", Lifetime::Shared)];
