//! What a shell can complete beyond the verbs: the agents and the runs of the workspace.
//!
//! Nothing here may fail loudly: whoever presses a key wants a name or nothing.

use std::path::PathBuf;

use clap_complete::CompletionCandidate;
use dalsegno_core::AgentName;
use dalsegno_history::Journal;
use dalsegno_runtime::load_workspace;
use dalsegno_store::RunFilter;
use dalsegno_workspace::Workspace;

use crate::locate;
use crate::render::text::{brief, short, time};

/// Runs that are offered: the newest, as many as fit a screen.
const RUNS: u32 = 20;

/// The agents of the workspace.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let Some(root) = root() else { return Vec::new() };
    let agents = load_workspace(&root).sound().map(|workspace| workspace.agents).unwrap_or_default();
    agents.into_iter().map(|(name, file)| agent(&name, &file.description)).collect()
}

fn agent(name: &AgentName, description: &str) -> CompletionCandidate {
    let help = brief(description, 60);
    CompletionCandidate::new(name.as_str()).help((!help.is_empty()).then(|| help.into()))
}

/// The newest runs of the workspace, and `last`.
pub(crate) fn runs() -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let listed = runtime.ok().and_then(|runtime| runtime.block_on(newest())).unwrap_or_default();
    let last = CompletionCandidate::new("last").help(Some("the newest run".into())).display_order(Some(0));
    if listed.is_empty() { listed } else { [last].into_iter().chain(listed).collect() }
}

async fn newest() -> Option<Vec<CompletionCandidate>> {
    let root = root()?;
    // To open a journal makes one, which looking must not.
    let settings = Workspace::load(&root).settings.filter(|settings| settings.store.exists())?;
    let filter = RunFilter { limit: RUNS, roots_only: true, ..RunFilter::default() };
    let runs = Journal::open(&settings.store).await.ok()?.runs(&filter).await.ok()?;
    let candidates = runs.iter().enumerate().map(|(place, run)| {
        let help = format!("{} · {} · {}", run.agent, run.status, time(run.started_at));
        CompletionCandidate::new(short(run.run)).help(Some(help.into())).display_order(Some(place + 1))
    });
    Some(candidates.collect())
}

/// The workspace of the line that is being completed, whose arguments stand after `--`.
fn root() -> Option<PathBuf> {
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let mut named = None;
    while let Some(word) = words.next() {
        if word == "--workspace" {
            named = words.next().map(PathBuf::from);
        } else if let Some(folder) = word.to_str().and_then(|word| word.strip_prefix("--workspace=")) {
            named = Some(PathBuf::from(folder));
        }
    }
    locate::workspace(named.as_deref()).ok()
}
