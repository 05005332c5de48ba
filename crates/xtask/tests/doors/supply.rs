//! What comes from others: licences, sources, and crates that are not wanted. The lists are those of `deny.toml`.

use std::collections::BTreeSet;
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand};
use spdx::{Expression, ParseMode};

use crate::root;

/// The workspaces that have a lock file of their own.
const WORKSPACES: [&str; 2] = ["", "tool-servers"];

/// A list of `deny.toml`: of texts, or of tables with a name.
fn list(path: [&str; 2]) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("there is a deny.toml");
    let rules: toml::Table = text.parse().expect("deny.toml is TOML");
    let entries = rules[path[0]][path[1]].as_array().expect("a list");
    let name = |entry: &toml::Value| entry.get("name").unwrap_or(entry).as_str().expect("a name").to_owned();
    entries.iter().map(name).collect()
}

/// Each package of a lock file with its source; the workspace's own have none.
fn locked(workspace: &str) -> Vec<(String, Option<String>)> {
    let file = root().join(workspace).join("Cargo.lock");
    let text = std::fs::read_to_string(file).expect("there is a lock file");
    let lock: toml::Table = text.parse().expect("a lock file is TOML");
    let text = |package: &toml::Value, key: &str| {
        package.get(key).map(|value| value.as_str().expect("a text").to_owned())
    };
    let packages = lock["package"].as_array().expect("packages");
    packages.iter().map(|package| (text(package, "name").expect("a name"), text(package, "source"))).collect()
}

/// What is built for this machine. Crates of other machines are not here, so that none has to be fetched for this.
fn metadata(workspace: &str) -> Metadata {
    let version = Command::new("rustc").arg("-vV").output().expect("there is a rustc").stdout;
    let version = String::from_utf8(version).expect("a version is text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    MetadataCommand::new()
        .manifest_path(root().join(workspace).join("Cargo.toml"))
        .other_options(["--locked", "--filter-platform", host].map(str::to_owned))
        .exec()
        .expect("`cargo metadata` reads the workspace")
}

/// Says whether a licence expression can be met by the licences of a list.
fn is_allowed(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|needed| allowed.contains(&needed.to_string()))
}

#[test]
fn every_licence_is_one_that_deny_toml_allows() {
    let allowed = list(["licenses", "allow"]);
    let mut refused = Vec::new();
    for workspace in WORKSPACES {
        // Those that are written here have the licence of the repository.
        for package in metadata(workspace).packages.into_iter().filter(|package| package.source.is_some()) {
            let licence = package.license.clone().unwrap_or_default();
            if !is_allowed(&licence, &allowed) {
                refused.push(format!("{} {}: `{licence}`", package.name, package.version));
            }
        }
    }
    assert!(refused.is_empty(), "look at these, and allow what may stay in deny.toml: {refused:#?}");
}

#[test]
fn a_licence_is_allowed_only_where_the_expression_is_met() {
    let allowed = BTreeSet::from(["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned));
    for licence in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "Apache-2.0 WITH LLVM-exception"] {
        assert!(is_allowed(licence, &allowed), "{licence}");
    }
    for licence in ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "no such licence"] {
        assert!(!is_allowed(licence, &allowed), "{licence}");
    }
}

#[test]
fn every_crate_comes_from_a_source_that_deny_toml_allows() {
    let registries = list(["sources", "allow-registry"]);
    let allowed: BTreeSet<String> =
        registries.iter().map(|registry| format!("registry+{registry}")).collect();
    for workspace in WORKSPACES {
        for (name, source) in locked(workspace) {
            let fits = source.as_ref().is_none_or(|source| allowed.contains(source));
            assert!(fits, "`{name}` of `{workspace}` comes from {source:?}");
        }
    }
}

#[test]
fn no_crate_is_one_that_deny_toml_bans() {
    let banned = list(["bans", "deny"]);
    for workspace in WORKSPACES {
        let found: Vec<String> = locked(workspace)
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| banned.contains(name))
            .collect();
        assert!(found.is_empty(), "`{workspace}` needs {found:?}");
    }
}

#[test]
fn no_dependency_takes_any_version() {
    for workspace in WORKSPACES {
        for package in metadata(workspace).workspace_packages() {
            let open =
                package.dependencies.iter().filter(|one| one.path.is_none() && one.req.to_string() == "*");
            let open: Vec<&str> = open.map(|one| one.name.as_str()).collect();
            assert!(open.is_empty(), "{} takes any version of {open:?}", package.name);
        }
    }
}
