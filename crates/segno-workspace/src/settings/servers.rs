//! Reads `[servers.*]`. A permission or limit that cannot be read refuses the file; nothing falls back to something wider.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::DeValue;

use super::keys::{GRANT, SERVER};
use super::paths::Paths;
use super::{Access, FileGrant, ServerBinding, ServerLimits, remote};
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
    let remote = if is_module { None } else { Some(remote::read(kind, &section, paths)?) };
    let given = limits.as_ref().map(self::limits).unwrap_or_default();
    let given = if is_module { given } else { remote::limits(given, limits.as_ref()) };
    let binding = ServerBinding {
        module: module.unwrap_or_default(),
        remote,
        digest: digest(&section, paths),
        tools: section.get("tools").map(|_| tools(&section)),
        files: permissions.map(|permissions| files(&permissions, paths)).unwrap_or_default(),
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
        output: section.size("output").unwrap_or(defaults.output),
        stderr: section.size("stderr").unwrap_or(defaults.stderr),
        concurrency: section.integer("concurrency"),
    }
}

fn files(permissions: &Section<'_>, paths: &Paths<'_>) -> Vec<FileGrant> {
    let mut guests = BTreeSet::new();
    let mut grants = Vec::new();
    for item in permissions.items("files", "a list of grants") {
        let Some(section) = Section::of(paths.report, "files", item, GRANT.what, &GRANT) else { continue };
        let access = section.choice("access", &[("read", Access::Read), ("write", Access::Write)]);
        let create = section.boolean("create").unwrap_or(false);
        if create && access == Some(Access::Read) {
            let span = section.key_span("create").unwrap_or(section.span.clone());
            paths
                .report
                .error(Code::InvalidValue, span, "`create` belongs to a grant with `access = \"write\"`")
                .help("take it out, or grant `write`");
        }
        let host = host(&section, paths, create);
        let guest = guest(&section, paths);
        if let (Some(host), Some(guest), Some(access)) = (host, guest, access) {
            if guests.insert(guest.value.clone()) {
                grants.push(FileGrant { host, guest: guest.value, access, create });
            } else {
                paths.report.error(
                    Code::InvalidValue,
                    guest.span,
                    format!("two grants have the guest path `{}`", guest.value),
                );
            }
        }
    }
    grants
}

fn host(section: &Section<'_>, paths: &Paths<'_>, create: bool) -> Option<std::path::PathBuf> {
    let written = section.string("host")?;
    let host = paths.path(section, "host")?;
    if host.value.is_dir() || create && !host.value.exists() {
        return Some(host.value);
    }
    let added = paths.report.error(
        Code::MissingFolder,
        host.span,
        format!(
            "the folder `{}` is {}",
            written.value,
            if host.value.exists() { "not a folder" } else { "not there" }
        ),
    );
    added
        .label("relative to the workspace's folder")
        .help("make it, correct the path, or let Segno make it with `create = true`");
    None
}

fn guest(section: &Section<'_>, paths: &Paths<'_>) -> Option<Located<String>> {
    let guest = section.string("guest")?;
    let is_plain = guest.value.strip_prefix('/').is_some_and(|path| {
        path.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'))
    });
    if is_plain {
        return Some(guest);
    }
    paths
        .report
        .error(Code::InvalidValue, guest.span, "`guest` is not a path that a server can see")
        .label("expected an absolute path such as `/data`, without `.`, `..` or a slash at the end");
    None
}
