//! Tool servers in words, and as documents. The keys are a promise to scripts.

use std::collections::BTreeMap;

use dalsegno_runtime::{ServerHealth, ServerInfo, ServerReach};
use dalsegno_workspace::Lifetime;
use serde::Serialize;

use super::ending::quoted;
use super::failure;
use super::text::count;

/// What `servers` and `servers check` tell about a server.
#[derive(Debug, Serialize)]
pub(crate) struct Listed<'s> {
    name: &'s str,
    kind: &'static str,
    place: String,
    lifetime: Option<&'static str>,
    grants: &'s [String],
    pinned: bool,
    /// Why it cannot be used; the fields below are there if it can.
    error: Option<String>,
    #[serde(flatten)]
    health: Option<Health<'s>>,
}

#[derive(Debug, Serialize)]
struct Health<'s> {
    digest: &'s str,
    from_cache: bool,
    load_us: u128,
    start_us: u128,
    tools: Vec<Tool<'s>>,
    /// Of modules only.
    #[serde(flatten)]
    stats: Option<Stats>,
}

#[derive(Debug, Serialize)]
struct Stats {
    state: &'static str,
    memory_peak: u64,
    instances: u64,
    calls: u64,
    denials: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Tool<'s> {
    name: &'s str,
    problems: &'s [String],
}

impl<'s> Listed<'s> {
    pub(crate) fn of(server: &'s ServerInfo) -> Self {
        Self {
            name: &server.name,
            kind: kind(&server.reach),
            place: place(&server.reach),
            lifetime: lifetime(&server.reach),
            grants: &server.grants,
            pinned: server.pinned,
            error: server.health.as_ref().err().map(|error| failure::chain(error)),
            health: server.health.as_ref().ok().map(Health::of),
        }
    }
}

impl<'s> Health<'s> {
    fn of(health: &'s ServerHealth) -> Self {
        let tool =
            |tool: &'s dalsegno_runtime::ToolHealth| Tool { name: &tool.name, problems: &tool.problems };
        Self {
            digest: &health.digest,
            from_cache: health.from_cache,
            load_us: health.load.as_micros(),
            start_us: health.start.as_micros(),
            tools: health.tools.iter().map(tool).collect(),
            stats: health.stats.as_ref().map(|stats| Stats {
                state: stats.state.as_str(),
                memory_peak: stats.memory_peak,
                instances: stats.instances,
                calls: stats.calls,
                denials: stats.denials.iter().map(|(kind, count)| (kind.as_str(), *count)).collect(),
            }),
        }
    }
}

/// The key of dalsegno.toml that says what a server is.
fn kind(reach: &ServerReach) -> &'static str {
    match reach {
        ServerReach::Module { .. } => "wasm",
        ServerReach::Program { .. } => "command",
        ServerReach::Address(_) => "url",
    }
}

/// Where a server is found.
pub(crate) fn place(reach: &ServerReach) -> String {
    match reach {
        ServerReach::Module { path, .. } => path.display().to_string(),
        ServerReach::Program { program, args } => {
            let program = program.display().to_string();
            let words: Vec<String> = std::iter::once(&program).chain(args).map(|word| quoted(word)).collect();
            words.join(" ")
        }
        ServerReach::Address(url) => url.clone(),
    }
}

/// How long an instance of a module lives, as files write it.
pub(crate) fn lifetime(reach: &ServerReach) -> Option<&'static str> {
    match reach {
        ServerReach::Module { lifetime: Lifetime::PerCall, .. } => Some("per_call"),
        ServerReach::Module { lifetime: Lifetime::PerRun, .. } => Some("per_run"),
        ServerReach::Module { lifetime: Lifetime::Shared, .. } => Some("shared"),
        ServerReach::Program { .. } | ServerReach::Address(_) => None,
    }
}

/// How a server is, in a few words.
pub(crate) fn state(server: &ServerInfo) -> String {
    match &server.health {
        Ok(health) => {
            let tools = count(health.tools.len() as u64, "tool");
            let problems: usize = health.tools.iter().map(|tool| tool.problems.len()).sum();
            match problems {
                0 => format!("ready, {tools}"),
                problems => format!("ready, {tools}, {}", count(problems as u64, "problem")),
            }
        }
        Err(_) => "cannot be used".to_owned(),
    }
}

/// What was refused, each kind in words.
pub(crate) fn denials(health: &ServerHealth) -> Vec<String> {
    let denial = |(kind, count): (&dalsegno_runtime::DenialKind, &u64)| format!("{kind}: {count}");
    health.stats.iter().flat_map(|stats| stats.denials.iter().map(denial)).collect()
}

/// What is wrong with tools, each in words.
pub(crate) fn problems(health: &ServerHealth) -> Vec<String> {
    let of = |tool: &dalsegno_runtime::ToolHealth| {
        let name = &tool.name;
        tool.problems.iter().map(move |problem| format!("{name}: {problem}")).collect::<Vec<_>>()
    };
    health.tools.iter().flat_map(of).collect()
}

/// Bytes in the unit that fits.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
