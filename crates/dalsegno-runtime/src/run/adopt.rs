//! A run that an archive brought is made a run of this workspace: a new one, with ids of its own, that begins with what the
//! foreign one recorded and goes on with the agent that this workspace has.

use dalsegno_core::{AgentConfig, Mind, RunId};
use dalsegno_history::adopted_run;
use dalsegno_store::{Body, Created, NewRecord, RunSummary};

use crate::engine::Engine;
use crate::error::{EngineError, RunFailure};
use crate::names::DEFAULT_TENANT;
use crate::request;
use crate::run::fork::outcome;
use crate::run::start::Beginning;

/// How a run is adopted.
#[derive(Debug, Clone, Default)]
pub struct AdoptOptions {
    /// Who does it.
    pub by: Option<String>,
    /// Whether the archive may be one that nobody signed whom this workspace knows.
    pub unknown_signer: bool,
}

/// A foreign run and the one that goes on in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Adoption {
    /// The run that the archive brought, or the one that it handed over to. It stays as it is.
    pub foreign: RunId,
    /// The new run. Nobody performs it yet: a worker goes on with it, or a resume.
    pub run: RunId,
    /// Whether it had been adopted before, so that nothing was done.
    pub known: bool,
}

impl Engine {
    /// Makes a foreign run that has not ended a run of this workspace.
    ///
    /// The new run shares what was recorded before the open step, asks for that step anew under ids of its own, and belongs
    /// to the same session. The agent is this workspace's, with its permissions, approvals and limits; what is known of the
    /// tenant is this workspace's; and a person is asked before each unsafe or keyed effect, since the original may have had
    /// it, or may still have it elsewhere. The same run is adopted once, however often this is called.
    ///
    /// # Errors
    /// When the run is none that can be adopted, or this workspace does not allow all that it was allowed: each thing is
    /// named, and nothing is written down then.
    pub async fn adopt(&self, run: RunId, options: &AdoptOptions) -> Result<Adoption, EngineError> {
        let summary = self.journal().last_in_line(run).await?;
        let (foreign, new) = (summary.run, adopted_run(summary.run));
        let refused = |reasons: Vec<String>| EngineError::NotAdopted { run: foreign, reasons };
        if self.journal().known(new).await?.is_some_and(|known| known.foreign.is_none()) {
            return Ok(Adoption { foreign, run: new, known: true });
        }
        let mut reasons = self.reasons(&summary, options).await?;
        if !reasons.is_empty() {
            return Err(refused(reasons));
        }
        let (config, records) = self.journal().journal_of(foreign).await?;
        let (own, modules) = self.resolve(&self.agent(&summary.agent)?, &summary.tenant).await?;
        reasons.extend(beyond(&config, &own));
        if !reasons.is_empty() {
            return Err(refused(reasons));
        }
        let fold = self.journal().fold_all(foreign, config.clone(), &records).await?;
        let open = if fold.state().is_settled() { fold.state().step() + 1 } else { fold.state().step() };
        let point = self
            .journal()
            .fork_point(foreign, &config, &records, Some(open.max(1)), Vec::new(), &outcome)
            .await?;
        if !point.replaced.is_empty() {
            let reason = "it is a fork with replaced outcomes that has done nothing of its own: fork the run before it";
            return Err(refused(vec![reason.to_owned()]));
        }
        let source = self.journal().started(point.run).await?;
        let mut by = options.by.clone();
        if let Some(by) = &mut by {
            self.bindings().secrets().text(by);
        }
        let beginning = Beginning {
            ask_effects: true,
            budget: source.budget,
            pinned: Some((own, modules)),
            ..Beginning::new(
                new,
                source.agent,
                request::without_what_is_ours(source.request, &self.bindings().settings().secret_paths),
                summary.session.clone(),
            )
        };
        let mut prepared = self.prepare(beginning, None).await?;
        let signer = summary.foreign.and_then(|foreign| foreign.signer).map(|signer| signer.to_string());
        let body = Body::Adopted { run: point.run, seq: point.seq, step: point.step, signer, by };
        prepared.new.records.push(NewRecord::new(self.now(), body));
        // What it begins with is folded first: nothing is written down when that does not fit.
        Box::pin(self.journal().origin_of(&mut prepared.new)).await?;
        match self.store().create(prepared.new).await? {
            Created::New(lease) => {
                let released = self.store().release(lease).await;
                released.map_err(|source| RunFailure::Append { run: new, source })?;
                Ok(Adoption { foreign, run: new, known: false })
            }
            Created::Existing(run) => Ok(Adoption { foreign, run, known: true }),
        }
    }

    /// Why a run cannot be adopted, whatever its journal holds.
    async fn reasons(
        &self,
        summary: &RunSummary,
        options: &AdoptOptions,
    ) -> Result<Vec<String>, EngineError> {
        let mut reasons = Vec::new();
        let Some(foreign) = summary.foreign else {
            return Ok(vec!["it is this workspace's own already".to_owned()]);
        };
        if summary.status.is_end() {
            reasons.push(format!("it has ended ({}): nothing of it is left to perform", summary.status));
        }
        if let Some(parent) = summary.parent {
            reasons.push(format!("it is a child of run {parent}: adopt that one"));
        }
        if self.journal().asked(summary.run).await?.surface.is_some() {
            // Its caller is elsewhere; and a call of a telephone names a call at the provider, which may be any.
            reasons.push("it is a call, whose caller is not here: fork it".to_owned());
        }
        let known = match foreign.signer {
            None => false,
            Some(signer) => {
                let text = signer.to_string();
                self.archives().signer()? == Some(signer)
                    || self.workspace().settings.signers.values().any(|key| *key == text)
            }
        };
        if !known && !options.unknown_signer {
            reasons.push(match foreign.signer {
                Some(signer) => format!(
                    "{signer} signed its archive, whom `[signers]` of dalsegno.toml does not name: add the key there if you know whose it is"
                ),
                None => "its archive is not signed: adopt it with `--unknown-signer` if you know who made it".to_owned(),
            });
        }
        let workspace = self.workspace();
        if !workspace.agents.contains_key(&summary.agent) {
            reasons.push(format!("this workspace has no agent `{}`", summary.agent));
        }
        if summary.tenant != DEFAULT_TENANT && !workspace.tenants.contains_key(&summary.tenant) {
            reasons.push(format!("this workspace has no tenant `{}`", summary.tenant));
        }
        if self.has_session(&summary.tenant, &summary.session).await? {
            reasons.push(format!(
                "the session `{}` of the tenant `{}` has runs of this workspace's own",
                summary.session, summary.tenant
            ));
        }
        Ok(reasons)
    }
}

/// What a configuration allows and this workspace's own does not.
fn beyond(config: &AgentConfig, own: &AgentConfig) -> Vec<String> {
    let mut reasons = Vec::new();
    for tool in config.tools.tools.keys().filter(|tool| !own.tools.tools.contains_key(*tool)) {
        reasons.push(format!("the agent `{}` may not use `{tool}` here", own.name));
    }
    for agent in config.agents.keys().filter(|agent| !own.agents.contains_key(*agent)) {
        reasons.push(format!("the agent `{}` may not start `{agent}` or hand over to it here", own.name));
    }
    let same = match (&config.mind, &own.mind) {
        (Mind::Model(_), Mind::Model(_)) => true,
        // Where a plan stands is the number of a step.
        (Mind::Plan(theirs), Mind::Plan(ours)) => theirs == ours,
        (Mind::Model(_), Mind::Plan(_)) | (Mind::Plan(_), Mind::Model(_)) => false,
    };
    if !same {
        reasons.push(format!("the agent `{}` has other steps here", own.name));
    }
    reasons
}
