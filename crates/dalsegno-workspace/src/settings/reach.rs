//! Which secrets a file of the workspace may name. `dalsegno.toml` is the operator's, and names any; a tenant's file names
//! those of that tenant, and of the operator's environment and files only what `dalsegno.toml` grants.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use super::paths::Paths;
use super::{SecretCommand, SecretRef, TenantGrants, remote};
use crate::code::Code;
use crate::section::{Located, Section};

/// How the names of secrets begin that the engine itself keeps: access that a person gave, and what came with a request.
const OF_THE_ENGINE: [&str; 2] = ["oauth.", "request."];

/// The folder in which the engine keeps what is its own.
const ENGINE_FOLDER: &str = ".dalsegno";

/// Whose the file is that names a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach<'t> {
    /// The operator's: any variable, any file, the workspace's names in the secret store.
    Workspace,
    /// A tenant's.
    Tenant {
        /// Its name.
        name: &'t str,
        /// What it was granted; `None` while `dalsegno.toml` has errors of its own, which are told first.
        grants: Option<&'t TenantGrants>,
        /// The files of the engine that stand elsewhere than in its own folder.
        kept: &'t [PathBuf],
    },
    /// That of a person who writes documents of the catalogue: nothing of the operator's environment and files, and of the secret
    /// store the names of one tenant.
    Document {
        /// The tenant; none for an agent, which names no secret.
        tenant: Option<&'t str>,
    },
}

impl Paths<'_> {
    /// A variable of the environment, if the file may read it.
    pub(super) fn variable(&self, name: String, span: Range<usize>) -> Option<SecretRef> {
        if let Reach::Document { tenant } = self.reach {
            return self.refuse(tenant, span, "an environment variable");
        }
        if let Reach::Tenant { name: tenant, grants: Some(grants), .. } = self.reach
            && !grants.env_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
        {
            self.report
                .error(
                    Code::SecretNotGranted,
                    span,
                    format!("the tenant `{tenant}` may not read the environment variable `{name}`"),
                )
                .label(granted("no variable", "variables that begin with ", &grants.env_prefixes))
                .help(format!(
                    "store the value as one of the tenant's own secrets (`dalsegno secret put --tenant \
                     {tenant} NAME`, then `{{ store = \"NAME\" }}`), or grant it in dalsegno.toml: \
                     `[tenants.{tenant}]`, `env_prefixes`"
                ));
            return None;
        }
        Some(SecretRef::Env(name))
    }

    /// A file, if the file of the workspace may read it.
    pub(super) fn secret_file(&self, path: Located<PathBuf>) -> Option<SecretRef> {
        if let Reach::Document { tenant } = self.reach {
            return self.refuse(tenant, path.span, "a file");
        }
        let plain = plain(&path.value);
        let shown = plain.strip_prefix(self::plain(self.place.root)).unwrap_or(&plain).display().to_string();
        let kept = match self.reach {
            Reach::Workspace | Reach::Document { .. } => &[][..],
            Reach::Tenant { kept, .. } => kept,
        };
        let engine_folder = OsStr::new(ENGINE_FOLDER);
        if plain.iter().any(|part| part == engine_folder)
            || kept.iter().any(|kept| self::plain(kept) == plain)
        {
            self.report
                .error(
                    Code::SecretNotGranted,
                    path.span,
                    format!("`{shown}` is a file of the engine, which no file of the workspace may name"),
                )
                .label("the engine keeps journals, secrets and keys there")
                .help("keep the secret in a separate file elsewhere, or in the secret store");
            return None;
        }
        let Reach::Tenant { name: tenant, grants, .. } = self.reach else {
            return Some(SecretRef::File(path.value));
        };
        // What is wrong with dalsegno.toml is told first, and nothing is read.
        let Some(grants) = grants else {
            return Some(SecretRef::Below { folder: plain.clone(), path: plain });
        };
        if let Some(folder) =
            grants.file_prefixes.iter().find(|folder| plain.starts_with(self::plain(folder)))
        {
            return Some(SecretRef::Below { path: path.value, folder: folder.clone() });
        }
        let prefixes: Vec<String> =
            grants.file_prefixes.iter().map(|path| path.display().to_string()).collect();
        self.report
            .error(Code::SecretNotGranted, path.span, format!("the tenant `{tenant}` may not read this file"))
            .label(granted("no file", "files below ", &prefixes))
            .help(format!(
                "store the value as one of the tenant's own secrets (`dalsegno secret put --tenant \
                 {tenant} NAME`, then `{{ store = \"NAME\" }}`), or grant the folder in dalsegno.toml: \
                 `[tenants.{tenant}]`, `file_prefixes`"
            ));
        None
    }

    /// A program that prints the secret: only dalsegno.toml names one.
    pub(super) fn secret_command(&self, section: &Section<'_>) -> Option<SecretRef> {
        if let Reach::Document { tenant } = self.reach {
            let span = section.key_span("command").unwrap_or(section.span.clone());
            return self.refuse(tenant, span, "a program");
        }
        if let Reach::Tenant { name: tenant, .. } = self.reach {
            let span = section.key_span("command").unwrap_or(section.span.clone());
            self.report
                .error(Code::SecretNotGranted, span, format!("the tenant `{tenant}` may not start a program"))
                .label("only dalsegno.toml may name a program that prints a secret")
                .help(format!(
                    "store the value as one of the tenant's own secrets (`dalsegno secret put --tenant \
                     {tenant} NAME`, then `{{ store = \"NAME\" }}`)"
                ));
            return None;
        }
        let (program, arguments) = remote::program(section, self)?;
        let time = |key, default| if section.has(key) { section.duration(key) } else { Some(default) };
        Some(SecretRef::Command(Box::new(SecretCommand {
            program,
            arguments,
            directory: self.place.root.to_owned(),
            ttl: time("ttl", SecretCommand::TTL)?,
            timeout: time("timeout", SecretCommand::TIMEOUT)?,
        })))
    }

    /// A name in the secret store: of a tenant's file, among the secrets of that tenant.
    pub(super) fn stored(&self, name: Located<String>) -> Option<SecretRef> {
        if let Some(prefix) = OF_THE_ENGINE.into_iter().find(|prefix| name.value.starts_with(prefix)) {
            self.report
                .error(
                    Code::SecretNotGranted,
                    name.span,
                    format!("`{}` is a secret of the engine, which no file may name", name.value),
                )
                .label(format!("the engine keeps its own under names that begin with `{prefix}`"))
                .help("remove it, and choose another name for your own secret");
            return None;
        }
        Some(match self.reach {
            Reach::Document { tenant: None } => return self.refuse(None, name.span, "a secret"),
            Reach::Workspace => SecretRef::Store(name.value),
            Reach::Tenant { name: tenant, .. } | Reach::Document { tenant: Some(tenant) } => {
                SecretRef::OfTenant { tenant: tenant.to_owned(), name: name.value }
            }
        })
    }
}

impl Paths<'_> {
    /// Refuses what only a file may name: the author of a document need not be the operator.
    fn refuse<T>(&self, tenant: Option<&str>, span: Range<usize>, what: &str) -> Option<T> {
        let tenant = tenant.unwrap_or("TENANT");
        self.report
            .error(Code::SecretNotGranted, span, format!("a document of the catalogue may not name {what}"))
            .label("only files of the workspace may")
            .help(format!(
                "store the value as one of the tenant's own secrets (`dalsegno secret put --tenant {tenant} NAME`, then \
                 `{{ store = \"NAME\" }}`)"
            ));
        None
    }
}

fn granted(nothing: &str, what: &str, prefixes: &[String]) -> String {
    if prefixes.is_empty() {
        return format!("dalsegno.toml grants it {nothing}");
    }
    let prefixes: Vec<String> = prefixes.iter().map(|prefix| format!("`{prefix}`")).collect();
    format!("dalsegno.toml grants it {what}{}", prefixes.join(", "))
}

/// The same path without `.` and `..`, as it is written: links are looked at when the file is read.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Reads `[tenants]`: what of the operator's environment and files the file of a tenant may name.
pub(super) fn tenants(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, TenantGrants> {
    let mut tenants = BTreeMap::new();
    for (name, value) in file.tables("tenants") {
        let what = format!("the grants of the tenant `{}`", name.value);
        let Some(section) = Section::of(file.report, &name.value, value, &what, &super::keys::TENANT) else {
            continue;
        };
        if !crate::tenant::is_tenant_name(&name.value) {
            let problem = format!("`{}` is not the name of a tenant", name.value);
            section.report.error(Code::InvalidValue, name.span, problem);
            continue;
        }
        let mut grants = TenantGrants::default();
        for prefix in section.list::<String>("env_prefixes") {
            if prefix.value.is_empty() {
                let problem = "an empty prefix would grant every variable";
                section
                    .report
                    .error(Code::InvalidValue, prefix.span, problem)
                    .label("expected a prefix such as `ACME_`");
                continue;
            }
            grants.env_prefixes.push(prefix.value);
        }
        for item in section.items("file_prefixes", "a list of paths") {
            if let Some(text) = crate::section::string(section.report, "file_prefixes", item)
                && let Some(path) = paths.joined("file_prefixes", text)
            {
                grants.file_prefixes.push(plain(&path.value));
            }
        }
        tenants.insert(name.value, grants);
    }
    tenants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_compared_as_it_would_be_opened() {
        for (written, expected) in [
            ("/w/secrets/acme/../../.dalsegno/secrets.key", "/w/.dalsegno/secrets.key"),
            ("/w/./secrets/acme", "/w/secrets/acme"),
            ("/../w", "/../w"),
            ("a/../../b", "../b"),
        ] {
            assert_eq!(plain(Path::new(written)), PathBuf::from(expected), "{written}");
        }
    }
}
