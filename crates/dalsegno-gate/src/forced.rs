//! Do models decide otherwise when they read the changed requests? Each is sent to its model as it was recorded and as it would be
//! now, with all that came before as it was recorded, and both replies are held against the recorded one. No tool is called.
//!
//! In the field this is called teacher forcing: what a model said before a step is what was recorded, not what it would have said.
//!
//! A model that is asked the same thing twice may decide otherwise without any change. So it is asked both ways each time, and what
//! the unchanged request leads to says how much of a difference is noise.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use dalsegno_core::ModelReply;
use dalsegno_history::{ChangedCompletion, HistoryError, Journal, Sent};
use dalsegno_store::RunSummary;
use dalsegno_workspace::Workspace;
use futures::{StreamExt as _, stream};
use serde::Serialize;

use crate::candidate::{Candidate, Subject};
use crate::decision::{Conclusion, Count, Decision, Departure, Measured};

/// Pairs of requests that are under way at the same time.
pub(crate) const AT_ONCE: usize = 8;

/// What a request to a model is called in a report.
const TO_A_MODEL: &str = "model completion";

/// Sends requests to models.
pub trait Asker: Sync {
    /// Sends a request of a tenant's run to its model.
    ///
    /// # Errors
    /// Why there is no reply, in words.
    fn ask(&self, tenant: &str, sent: &Sent) -> impl Future<Output = Result<ModelReply, String>> + Send;
}

/// How far models are asked.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most pairs of requests. Where there are fewer changed requests than that, each is asked more than once.
    pub pairs: u64,
    /// No further request is sent once this has been spent, in billionths of a US dollar. Those that are under way are paid for.
    pub nano_usd: Option<u64>,
    /// The smallest difference that counts, as a share of all requests.
    pub smallest: f64,
}

/// What models decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forced {
    /// The runs in which a request to a model has changed. Of each, the first such request is asked.
    pub requests: u64,
    /// The runs that would differ in something that asking a model does not settle: they call a tool with other arguments, or the
    /// changed request had no reply.
    pub unsettled: u64,
    /// The pairs that were asked.
    pub pairs: u64,
    /// What came of it.
    pub conclusion: Conclusion,
    /// Which tools were called.
    pub tools: Measured,
    /// Which tools were called with which arguments, and which structured answers were given.
    pub arguments: Measured,
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that were received.
    pub output_tokens: u64,
    /// The cost, in billionths of a US dollar; of models without a price it is not known and counts as nothing.
    pub cost_nano_usd: u64,
    /// Decisions that depart from the recorded one only since the change, at most 20.
    pub examples: Vec<Departure>,
    /// Requests that got no reply, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// The requests that have changed.
#[derive(Debug, Default)]
pub struct ChangedRequests {
    /// Of each run the first one to a model, with the run's tenant.
    pub to_models: Vec<(String, ChangedCompletion)>,
    /// See [`Forced::unsettled`].
    pub unsettled: u64,
}

/// The changed requests of these runs. `workspace` is what the files say now.
///
/// # Errors
/// When a run cannot be read.
pub async fn changed_requests(
    journal: &Journal,
    workspace: &Workspace,
    runs: &[RunSummary],
) -> Result<ChangedRequests, HistoryError> {
    let mut candidates: BTreeMap<Subject, Option<Candidate>> = BTreeMap::new();
    let mut found = ChangedRequests::default();
    for run in runs {
        let subject = Subject::of(run);
        let now = candidates
            .entry(subject)
            .or_insert_with_key(|subject| Candidate::of(workspace, subject).and_then(Result::ok));
        let Some(now) = now else {
            found.unsettled += 1;
            continue;
        };
        let recorded = journal.recorded(run.run).await?;
        let report = now.outline(&recorded)?;
        let completion = recorded.changed_completion(now.config.clone(), now.settings.as_ref())?;
        let is_settled = completion.is_some()
            && report.divergence.is_none()
            && report.changed_requests.iter().all(|request| request.label == TO_A_MODEL);
        found.unsettled += u64::from(!is_settled);
        found.to_models.extend(completion.map(|completion| (run.tenant.clone(), completion)));
    }
    Ok(found)
}

/// Sends the changed requests to their models, until it is known whether they decide otherwise, or a limit is reached. `tell` is
/// called with the number of pairs so far and their cost.
pub async fn force(
    changed: &ChangedRequests,
    asker: &impl Asker,
    limits: Limits,
    mut tell: impl FnMut(u64, u64),
) -> Forced {
    let requests = &changed.to_models;
    let mut forced = Forced {
        requests: requests.len() as u64,
        unsettled: changed.unsettled,
        pairs: 0,
        conclusion: Conclusion::Inconclusive,
        tools: Count::default().measured(limits.smallest).0,
        arguments: Count::default().measured(limits.smallest).1,
        input_tokens: 0,
        output_tokens: 0,
        cost_nano_usd: 0,
        examples: Vec::new(),
        failed: BTreeMap::new(),
    };
    let mut count = Count::default();
    // A limit on the cost holds only where the cost is known.
    let unpriced =
        requests.iter().find(|(_, request)| limits.nano_usd.is_some() && request.price().is_none());
    if let Some((_, request)) = unpriced {
        let model = &request.now.reading.settings.name;
        let why = format!(
            "its cost has a limit, and the model `{model}` no price: add `price` to `[models.{model}]`"
        );
        forced.failed.insert(why, requests.len() as u64);
        return forced;
    }
    let rounds = requests.iter().cycle().take(usize::try_from(limits.pairs).unwrap_or(usize::MAX));
    let pairs = rounds.map(|(tenant, request)| async move {
        let (before, now) = futures::join!(asker.ask(tenant, &request.was), asker.ask(tenant, &request.now));
        (request, before, now)
    });
    // In the order in which they were begun: which reply comes first may depend on what it says.
    let mut pairs = pin!(stream::iter(pairs).buffered(AT_ONCE));
    let mut failures = 0;
    while let Some((request, before, now)) = pairs.next().await {
        for reply in [&before, &now] {
            match reply {
                Ok(reply) => forced.pay(request, reply),
                Err(why) => *forced.failed.entry(why.clone()).or_default() += 1,
            }
        }
        if let (Ok(before), Ok(now)) = (before, now) {
            let recorded = Decision::of(&request.reply);
            let (before, now) = (Decision::of(&before), Decision::of(&now));
            count.add(&recorded, &before, &now);
            forced.pairs += 1;
            if now != recorded && before == recorded {
                forced.note(request, &recorded, &now);
            }
            (forced.tools, forced.arguments) = count.measured(limits.smallest);
            forced.conclusion = forced.tools.conclusion.and(forced.arguments.conclusion);
        } else {
            failures += 1;
        }
        tell(forced.pairs, forced.cost_nano_usd);
        let is_spent = limits.nano_usd.is_some_and(|most| forced.cost_nano_usd >= most);
        // A model that never replies is not asked to the end.
        let is_hopeless = forced.pairs == 0 && failures >= AT_ONCE;
        if forced.conclusion != Conclusion::Inconclusive || is_spent || is_hopeless {
            break;
        }
    }
    forced
}

impl Forced {
    fn pay(&mut self, request: &ChangedCompletion, reply: &ModelReply) {
        self.input_tokens = self.input_tokens.saturating_add(reply.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(reply.output_tokens);
        if let Some(price) = request.price() {
            let cost = price.nano_usd(reply.input_tokens, reply.output_tokens, &reply.details);
            self.cost_nano_usd = self.cost_nano_usd.saturating_add(cost);
        }
    }

    fn note(&mut self, request: &ChangedCompletion, recorded: &Decision, now: &Decision) {
        Departure::note(&mut self.examples, (request.run, request.step), recorded, now);
    }
}
