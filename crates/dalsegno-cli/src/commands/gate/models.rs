//! Asks models what they decide when they read the changed requests.

use std::collections::BTreeSet;

use dalsegno_core::{ModelReply, RunId};
use dalsegno_gate::{Asker, Forced, GateReport, Limits, changed_requests, force};
use dalsegno_history::{Journal, Sent};
use dalsegno_runtime::{Engine, OpenError};
use dalsegno_store::RunSummary;

use crate::args::GateArgs;
use crate::commands::Context;
use crate::error::Error;
use crate::render::spinner::Spinner;
use crate::render::text::{count, dollars};

/// The models of the workspace.
struct Models(Engine);

impl Asker for Models {
    async fn ask(&self, tenant: &str, sent: &Sent) -> Result<ModelReply, String> {
        self.0.ask(tenant, sent).await.map_err(|failure| failure.message)
    }
}

/// Asks the models of the runs that would differ.
pub(super) async fn ask(
    report: &GateReport,
    runs: &[RunSummary],
    args: &GateArgs,
    context: &mut Context<'_>,
) -> Result<Forced, Error> {
    let changed: BTreeSet<RunId> =
        report.groups.iter().flat_map(|group| group.runs.iter().map(|run| run.run)).collect();
    let runs: Vec<RunSummary> = runs.iter().filter(|run| changed.contains(&run.run)).cloned().collect();
    // No tool server is asked, so the only programs that start are those that print keys.
    let needs_programs = context.sound()?.settings.secret_commands().next().is_some();
    let engine = if needs_programs { context.engine().await? } else { context.quiet().await? };
    let workspace = engine.workspace();
    let journal = Journal::open(&workspace.settings.store).await.map_err(OpenError::from)?;
    let requests = changed_requests(&journal, &workspace, &runs).await?;
    let limits =
        Limits { pairs: args.asks, nano_usd: args.max_cost_usd, smallest: f64::from(args.smallest) / 100.0 };
    let mut spinner = Spinner::new(context);
    let output = &mut *context.output;
    let forced = force(&requests, &Models(engine), limits, |pairs, cost| {
        let words = format!("asked {} each way, {}", count(pairs, "time"), dollars(cost));
        spinner.draw(Some(words), output);
    })
    .await;
    spinner.clear(context.output);
    Ok(forced)
}
