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

use dalsegno_core::{Digest, ModelReply, ReplyPart, RunId, Validation, digest_json};
use dalsegno_history::{ChangedCompletion, HistoryError, Journal, Sent};
use dalsegno_statistics::{Comparison as Statistics, Interval, Pairs, Sample, Verdict};
use dalsegno_store::RunSummary;
use dalsegno_workspace::Workspace;
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;

use crate::candidate::{Candidate, Subject};

/// Pairs of requests that are under way at the same time.
const AT_ONCE: usize = 8;

/// What a request to a model is called in a report.
const TO_A_MODEL: &str = "model completion";

/// Decisions that are told as examples.
const EXAMPLES: usize = 20;

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

/// What is known about the decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Models decide otherwise since the change.
    Differs,
    /// If they do, then in fewer cases than count.
    Same,
    /// So many requests do not tell.
    Inconclusive,
}

/// How often decisions depart from the recorded ones, before and after the change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// The share that departs when the recorded request is sent again: the noise.
    pub before: Rate,
    /// The share that departs when the changed request is sent.
    pub now: Rate,
    /// What the difference of the two may be.
    pub difference: Interval,
    /// The smallest difference that so many pairs show in four of five cases; `None` where they would show none.
    pub visible: Option<f64>,
    /// What it comes to.
    pub conclusion: Conclusion,
}

/// A share, and what it may truly be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// What was observed.
    pub share: f64,
    /// What it may truly be.
    pub interval: Interval,
}

/// A decision that departs from the recorded one, since the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// The run.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// The step.
    pub step: u64,
    /// What was recorded.
    pub recorded: String,
    /// What the model decides now.
    pub now: String,
}

/// How sure a conclusion is. Tools and arguments are judged apart, so each has half of the error.
const CONFIDENCE: f64 = 0.95;

/// What a model decided: the calls that it wants, or its structured answer.
#[derive(Debug, Clone, PartialEq)]
struct Decision {
    /// Names and arguments, by their digests: it does not matter which of several calls is named first.
    calls: Vec<(String, Digest, Value)>,
    answer: Option<Value>,
}

impl Decision {
    fn of(reply: &ModelReply) -> Self {
        let call = |part: &ReplyPart| match part {
            ReplyPart::Call(call) => {
                let arguments = serde_json::from_str(&call.arguments);
                let arguments = arguments.unwrap_or_else(|_| Value::String(call.arguments.clone()));
                Some((call.name.clone(), digest_json(&arguments), arguments))
            }
            ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
        };
        let mut calls: Vec<(String, Digest, Value)> = reply.parts.iter().filter_map(call).collect();
        calls.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        let answer = match &reply.output {
            Some(Validation::Valid { arguments }) => Some(arguments.clone()),
            _ => None,
        };
        Self { calls, answer }
    }

    fn has_tools_of(&self, other: &Self) -> bool {
        self.calls.iter().map(|call| &call.0).eq(other.calls.iter().map(|call| &call.0))
    }

    fn in_words(&self) -> String {
        match (&self.calls[..], &self.answer) {
            ([], None) => "answers in text".to_owned(),
            ([], Some(answer)) => format!("answers {answer}"),
            (calls, _) => {
                let calls: Vec<String> =
                    calls.iter().map(|(name, _, with)| format!("{name} {with}")).collect();
                format!("calls {}", calls.join(", "))
            }
        }
    }
}

/// The pairs so far.
#[derive(Default)]
struct Count {
    tools: Pairs,
    arguments: Pairs,
    /// How many decisions departed: tools before and now, arguments before and now.
    departed: [u64; 4],
}

impl Count {
    fn add(&mut self, recorded: &Decision, before: &Decision, now: &Decision) {
        let tools = (before.has_tools_of(recorded), now.has_tools_of(recorded));
        let all = (before == recorded, now == recorded);
        self.tools.add(tools.0, tools.1);
        self.arguments.add(all.0, all.1);
        for (count, kept) in self.departed.iter_mut().zip([tools.0, tools.1, all.0, all.1]) {
            *count += u64::from(!kept);
        }
    }

    fn measured(&self, smallest: f64) -> (Measured, Measured) {
        let statistics = Statistics { confidence: f64::midpoint(1.0, CONFIDENCE), smallest };
        let measured = |pairs: &Pairs, before: u64, now: u64| {
            let rate = |departed: u64| {
                let sample = Sample::of_trials(departed, pairs.count());
                let share = sample.mean().unwrap_or_default();
                Rate { share, interval: sample.interval(CONFIDENCE) }
            };
            let kept = statistics.interval(pairs);
            Measured {
                before: rate(before),
                now: rate(now),
                // The pairs count what is kept; what departs is the other way round.
                difference: Interval { low: -kept.high, high: -kept.low },
                visible: statistics.visible(pairs),
                conclusion: match statistics.judge(pairs) {
                    Verdict::Better | Verdict::Worse => Conclusion::Differs,
                    Verdict::Equal => Conclusion::Same,
                    Verdict::Inconclusive => Conclusion::Inconclusive,
                },
            }
        };
        let [tools_before, tools_now, before, now] = self.departed;
        (measured(&self.tools, tools_before, tools_now), measured(&self.arguments, before, now))
    }
}

fn concluded(tools: Conclusion, arguments: Conclusion) -> Conclusion {
    match (tools, arguments) {
        (Conclusion::Differs, _) | (_, Conclusion::Differs) => Conclusion::Differs,
        (Conclusion::Same, Conclusion::Same) => Conclusion::Same,
        _ => Conclusion::Inconclusive,
    }
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
            forced.conclusion = concluded(forced.tools.conclusion, forced.arguments.conclusion);
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
        let departure = Departure {
            run: request.run,
            step: request.step,
            recorded: recorded.in_words(),
            now: now.in_words(),
        };
        if self.examples.len() < EXAMPLES && !self.examples.contains(&departure) {
            self.examples.push(departure);
        }
    }
}
