//! Reads `[servers.*.permissions]`. What cannot be read refuses the file; nothing falls back to something wider.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{GRANT, INJECTION};
use super::paths::Paths;
use super::{Access, EnvValue, FileGrant, SecretGrant, ServerPermissions, remote, secrets, url};
use crate::code::Code;
use crate::names::list;
use crate::section::{Located, Section, string};

pub(super) fn read(section: &Section<'_>, paths: &Paths<'_>) -> ServerPermissions {
    let network = network(section);
    ServerPermissions {
        files: files(section, paths),
        env: env(section, paths),
        secrets: injections(section, paths, &network),
        network,
        clock: section.boolean("clock").unwrap_or(false),
        random: section.boolean("random").unwrap_or(false),
    }
}

fn network(section: &Section<'_>) -> Vec<String> {
    let mut network = Vec::new();
    for item in section.items("network", "a list of destinations such as `\"https://crm.example.com\"`") {
        let Some(text) = string(section.report, "network", item) else { continue };
        match url::origin(&text.value) {
            Some(origin) => network.push(origin),
            None => {
                section
                    .report
                    .error(Code::InvalidValue, text.span, format!("`{}` is not a destination", text.value))
                    .label("expected a scheme, a host and perhaps a port, such as `https://crm.example.com`")
                    .help("write each host in full: wildcards and paths are not allowed");
            }
        }
    }
    network
}

/// Reads the variables. A secret among them is granted, since it is written there, and that is said aloud.
fn env(section: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, EnvValue> {
    let env = remote::env(section, paths);
    for (name, _) in section.tables("env") {
        if !matches!(env.get(&name.value), Some(EnvValue::Secret(_))) {
            continue;
        }
        section
            .report
            .warning(
                Code::SecretInServer,
                name.span,
                format!("the server itself holds the secret of `{}`", name.value),
            )
            .label("the server can write it to any place that it may write to")
            .help(
                "if it is for requests, grant it in `permissions.secrets`: the host adds it, and the server \
                 never holds it",
            );
    }
    env
}

fn injections(section: &Section<'_>, paths: &Paths<'_>, network: &[String]) -> Vec<SecretGrant> {
    let mut grants: Vec<SecretGrant> = Vec::new();
    for (destination, value) in section.tables("secrets") {
        let what = format!("the secret for `{}`", destination.value);
        let Some(table) = Section::of(section.report, &destination.value, value, &what, &INJECTION) else {
            continue;
        };
        if let Some((key, text)) = value.get_ref().as_table().and_then(|table| table.get_key_value("value"))
            && text.get_ref().is_str()
        {
            crate::secrets::in_clear(section.report, key, text);
        }
        let header = header(&table);
        let prefix = table.string("prefix").map(|prefix| prefix.value).unwrap_or_default();
        let value = secrets::at(&table, "value", paths, &what);
        let Some(origin) = receiver(section, &destination, network) else { continue };
        if let (Some(header), Some(value)) = (header, value) {
            grants.push(SecretGrant { destination: origin, header, prefix, value });
        }
    }
    grants
}

/// Who gets a secret: somebody whom the server may reach, over a connection that nobody else reads.
fn receiver(section: &Section<'_>, destination: &Located<String>, network: &[String]) -> Option<String> {
    let report = section.report;
    let Some(origin) = url::origin(&destination.value) else {
        report
            .error(
                Code::InvalidValue,
                destination.span.clone(),
                format!("`{}` is not a destination", destination.value),
            )
            .label("expected one of `network`, such as `https://crm.example.com`");
        return None;
    };
    if !network.contains(&origin) {
        report
            .error(
                Code::InvalidValue,
                destination.span.clone(),
                format!("the server may not reach `{origin}`, which receives a secret"),
            )
            .help(format!("add `network = [\"{origin}\"]`, or remove the secret"));
        return None;
    }
    if !url::is_private(&origin) {
        report
            .error(
                Code::InsecureUrl,
                destination.span.clone(),
                format!("the secret for `{origin}` is sent unencrypted"),
            )
            .label("this `http` address is not on this machine")
            .help("write `https://…`");
        return None;
    }
    Some(origin)
}

fn header(table: &Section<'_>) -> Option<String> {
    let header = table.string("header")?;
    let name = header.value.to_ascii_lowercase();
    let is_token = !name.is_empty()
        && name.len() <= 128
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    let problem = if !is_token {
        "expected a name such as `Authorization`".to_owned()
    } else if OF_THE_CONNECTION.contains(&name.as_str()) {
        format!("{} belong to the connection", list(OF_THE_CONNECTION.iter().copied()))
    } else {
        return Some(name);
    };
    table
        .report
        .error(
            Code::InvalidValue,
            header.span,
            format!("`header` cannot be `{}`", header.value.escape_debug()),
        )
        .label(problem);
    None
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
                .help("remove it, or grant `write`");
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
            "the folder `{}` {}",
            written.value,
            if host.value.exists() { "is not a folder" } else { "does not exist" }
        ),
    );
    added
        .label("relative to the workspace's folder")
        .help("create it, correct the path, or let Dalsegno create it with `create = true`");
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

/// Headers that say where a message begins and ends, or whom it is for.
const OF_THE_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
