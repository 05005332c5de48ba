//! Asks models: what they decide when they read the changed requests, and how runs end that are forked there.

use std::collections::BTreeSet;

use dalsegno_core::{ModelReply, Operation, Outcome, RunId};
use dalsegno_gate::{
    Asker, Forced, GateReport, Limits, Live, Reader, Whose, changed_requests, force, forks, live,
};
use dalsegno_history::{Journal, Sent};
use dalsegno_runtime::{Engine, MemoryPlace, OpenError};
use dalsegno_store::RunSummary;

use crate::args::GateArgs;
use crate::commands::{Context, programs};
use crate::error::Error;
use crate::render::spinner::Spinner;
use crate::render::text::{count, dollars};

/// The models of the workspace, and what only reads.
struct Models(Engine);

impl Asker for Models {
    async fn ask(&self, tenant: &str, sent: &Sent) -> Result<ModelReply, String> {
        self.0.ask(tenant, sent).await.map_err(|failure| failure.message)
    }
}

impl Reader for Models {
    async fn read(&self, whose: &Whose, operation: &Operation) -> Result<Outcome, String> {
        let Whose { tenant, user, agent, session } = whose;
        let (tenant, agent, session) = (Some(tenant.clone()), Some(agent.clone()), Some(session.clone()));
        let place = MemoryPlace { tenant, agent, session, ..MemoryPlace::default() };
        self.0.read(operation, user, &place).await.map_err(|failure| failure.message)
    }
}

/// The runs that would differ.
fn differing(report: &GateReport, runs: &[RunSummary]) -> Vec<RunSummary> {
    let changed: BTreeSet<RunId> =
        report.groups.iter().flat_map(|group| group.runs.iter().map(|run| run.run)).collect();
    runs.iter().filter(|run| changed.contains(&run.run)).cloned().collect()
}

fn limits(pairs: u64, args: &GateArgs) -> Limits {
    Limits { pairs, nano_usd: args.max_cost_usd, smallest: f64::from(args.smallest) / 100.0 }
}

/// Forks the runs that would differ. Tool servers start only where something is read that was not recorded.
pub(super) async fn fork(
    report: &GateReport,
    runs: &[RunSummary],
    pairs: u64,
    args: &GateArgs,
    context: &mut Context<'_>,
) -> Result<Live, Error> {
    let files = context.files_alone()?;
    programs::admit(&files.settings, context)?;
    let engine = Engine::builder().build(files).await?;
    let workspace = engine.workspace();
    let journal = Journal::open(&workspace.settings.store).await.map_err(OpenError::from)?;
    // No more are forked than there are pairs, so no more are read; spread over all of them.
    let most = u32::try_from(pairs).unwrap_or(u32::MAX);
    let chosen = super::sample(differing(report, runs), Some(most));
    let forks = forks(&journal, &workspace, &chosen).await?;
    let mut spinner = Spinner::new(context);
    let output = &mut *context.output;
    let found = live(&forks, &Models(engine), limits(pairs, args), |pairs, cost| {
        let words = format!("forked {} each way, {}", count(pairs, "time"), dollars(cost));
        spinner.draw(Some(words), output);
    })
    .await;
    spinner.clear(context.output);
    Ok(found)
}

/// Asks the models of the runs that would differ.
pub(super) async fn ask(
    report: &GateReport,
    runs: &[RunSummary],
    args: &GateArgs,
    context: &mut Context<'_>,
) -> Result<Forced, Error> {
    // No tool server is asked, so the only programs that start are those that print keys.
    let files = context.files_alone()?;
    let needs_programs = files.settings.secret_commands().next().is_some();
    let builder = match needs_programs {
        true => {
            programs::admit(&files.settings, context)?;
            Engine::builder()
        }
        false => Engine::builder().without_programs(),
    };
    let engine = builder.build(files).await?;
    let workspace = engine.workspace();
    let journal = Journal::open(&workspace.settings.store).await.map_err(OpenError::from)?;
    let requests = changed_requests(&journal, &workspace, &differing(report, runs)).await?;
    let mut spinner = Spinner::new(context);
    let output = &mut *context.output;
    let forced = force(&requests, &Models(engine), limits(args.asks, args), |pairs, cost| {
        let words = format!("asked {} each way, {}", count(pairs, "time"), dollars(cost));
        spinner.draw(Some(words), output);
    })
    .await;
    spinner.clear(context.output);
    Ok(forced)
}
