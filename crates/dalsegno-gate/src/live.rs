//! How would runs end? Each is forked where its first difference is, and continues from there to its end: once as it was, once as it
//! would be now. Models are asked. What a tool, a service, another agent or a person said to the same request is what was recorded;
//! what only reads may be asked for anew. All else is not performed: there the fork stops.
//!
//! Two forks of the same run differ, since models do. So both ways are taken each time, and how often the way without the change
//! departs from what was recorded says how much of a difference is noise.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dalsegno_cases::Question;
use dalsegno_core::{
    AgentAction, AgentCall, AgentName, Budget, Digest, EffectClass, Event, GateState, MemoryCreated, News,
    Operation, OperationId, Outcome, Price, Request, Status, Timestamp, execute_agent_step,
};
use dalsegno_history::{Answered, Branch, End, HistoryError, Journal, Parting, Sent};
use dalsegno_store::{RunStatus, RunSummary};
use dalsegno_workspace::Workspace;
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;

use crate::candidate::{Candidate, Subject};
use crate::decision::{Conclusion, Count, Decision, Departure, Measured};
use crate::forced::{AT_ONCE, Asker, Limits};

/// Most requests to models in a fork. An agent's own limits end it earlier.
const ASKS_MAX: usize = 200;

/// After so many pairs that say nothing, and none that says something, no more are begun.
const UNTOLD_MAX: u64 = 20;

/// Most pieces of news in a fork.
const NEWS_MAX: usize = 10_000;

/// Performs requests that only read.
pub trait Reader: Asker {
    /// Performs a request that was not recorded and only reads.
    ///
    /// # Errors
    /// Why it is not performed, in words.
    fn read(
        &self,
        whose: &Whose,
        operation: &Operation,
    ) -> impl Future<Output = Result<Outcome, String>> + Send;
}

/// Whose request it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Whose {
    /// The tenant.
    pub tenant: String,
    /// What is known of the user.
    pub user: Value,
    /// The agent.
    pub agent: AgentName,
    /// The session.
    pub session: String,
}

/// A run that can be forked where it would differ.
#[derive(Debug)]
pub struct Forked {
    whose: Whose,
    parting: Parting,
    news: Vec<Answered>,
    /// What the run did from there.
    recorded: Decision,
}

/// The runs that can be forked.
#[derive(Debug, Default)]
pub struct Forks {
    /// The runs, the newest first.
    pub runs: Vec<Forked>,
    /// See [`Live::not_forked`].
    pub not_forked: BTreeMap<String, u64>,
    /// What tokens of models cost now, by the models' names.
    prices: BTreeMap<String, Price>,
}

/// How forks ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// The runs among which forks were made.
    pub runs: u64,
    /// The runs that would differ and cannot be forked.
    pub unfollowed: u64,
    /// Why they cannot, with how many.
    pub not_forked: BTreeMap<String, u64>,
    /// The pairs of forks that were compared.
    pub pairs: u64,
    /// The pairs that say nothing: the fork of the run as it was stopped, so there is nothing to compare with.
    pub untold: u64,
    /// What came of it.
    pub conclusion: Conclusion,
    /// Which tools were called, and how the runs ended.
    pub tools: Measured,
    /// The same with the arguments of the calls and the structured answers.
    pub arguments: Measured,
    /// Requests that were not recorded, only read, and were performed.
    pub reads: u64,
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that were received.
    pub output_tokens: u64,
    /// The cost, in billionths of a US dollar; of models without a price it is not known and counts as nothing.
    pub cost_nano_usd: u64,
    /// What runs do since the change and had not done before, at most 20.
    pub examples: Vec<Departure>,
    /// Where forks stopped, since what they ask for was not recorded and may change something; with how often.
    pub stopped: BTreeMap<String, u64>,
    /// Forks that could not continue, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// A fork that came to an end.
struct Followed {
    decision: Decision,
    /// Why it did not get to the run's end.
    stopped: Option<String>,
}

/// What forks use, together.
#[derive(Default)]
struct Used {
    reads: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    nano_usd: AtomicU64,
}

/// Where what comes of a request comes from.
enum World<'w, R> {
    /// All from the journal.
    Recorded,
    /// Models are asked, and what only reads is performed.
    Live {
        reader: &'w R,
        used: &'w Used,
        prices: &'w BTreeMap<String, Price>,
        most: Option<u64>,
        now: &'w Branch,
    },
}

/// The runs among these that can be forked. `workspace` is what the files say now.
///
/// # Errors
/// When a run cannot be read.
pub async fn forks(
    journal: &Journal,
    workspace: &Workspace,
    runs: &[RunSummary],
) -> Result<Forks, HistoryError> {
    let mut candidates: BTreeMap<Subject, Result<Candidate, &str>> = BTreeMap::new();
    let mut found = Forks { prices: workspace.settings.prices.clone(), ..Forks::default() };
    for run in runs {
        let now = candidates.entry(Subject::of(run)).or_insert_with_key(|subject| {
            match Candidate::of(workspace, subject) {
                Some(Ok(candidate)) => Ok(candidate),
                Some(Err(_)) => Err("its agent cannot be used as it is now"),
                None => Err("its agent is gone"),
            }
        });
        let forked = match now {
            Ok(now) => fork(journal, run, now).await?,
            Err(why) => Err((*why).to_owned()),
        };
        match forked {
            Ok(fork) => found.runs.push(fork),
            Err(why) => *found.not_forked.entry(why).or_default() += 1,
        }
    }
    Ok(found)
}

/// Forks a run where it would differ now. The inner error says why that cannot be.
async fn fork(
    journal: &Journal,
    run: &RunSummary,
    now: &Candidate,
) -> Result<Result<Forked, String>, HistoryError> {
    let recorded = journal.recorded(run.run).await?;
    let Some(parting) = recorded.parting(now.config.clone(), now.settings.as_ref())? else {
        return Ok(Err("it began with what the files say now".to_owned()));
    };
    let whose = Whose {
        tenant: run.tenant.clone(),
        user: recorded.request().user.clone(),
        agent: run.agent.clone(),
        session: parting.was.state.session_name().to_owned(),
    };
    let news = recorded.answered()?;
    let fork = Forked { whose, parting, news, recorded: Decision::default() };
    // With nothing but what was recorded, the run as it was comes to what it came to.
    Ok(match follow::<Nothing>(&fork, &fork.parting.was, &World::Recorded).await {
        Ok(Followed { decision, stopped: None }) => Ok(Forked { recorded: decision, ..fork }),
        Ok(Followed { stopped: Some(_), .. }) if run.status == RunStatus::Cancelled => {
            Err("it was cancelled before it came to an end".to_owned())
        }
        Ok(Followed { stopped: Some(why), .. }) => Err(why),
        Err(error) => Err(format!("it cannot be followed: {error}")),
    })
}

/// Forks the runs, until it is known whether they end otherwise, or a limit is reached. `tell` is called with the number of pairs so
/// far and their cost.
pub async fn live(
    forks: &Forks,
    reader: &impl Reader,
    limits: Limits,
    mut tell: impl FnMut(u64, u64),
) -> Live {
    let used = Used::default();
    let mut count = Count::default();
    let mut live = Live::new(forks, limits.smallest);
    let world = |now| World::Live { reader, used: &used, prices: &forks.prices, most: limits.nano_usd, now };
    let rounds = forks.runs.iter().cycle().take(usize::try_from(limits.pairs).unwrap_or(usize::MAX));
    let pairs = rounds.map(|fork| {
        let Parting { was, now, .. } = &fork.parting;
        let (one, other) = (world(now), world(now));
        async move { (fork, futures::join!(follow(fork, was, &one), follow(fork, now, &other))) }
    });
    // In the order in which they were begun: which fork ends first may depend on what is said in it.
    let mut pairs = pin!(stream::iter(pairs).buffered(AT_ONCE));
    let mut failures = 0;
    while let Some((fork, (before, now))) = pairs.next().await {
        match (before, now) {
            (Ok(before), Ok(now)) => {
                for why in [&before.stopped, &now.stopped].into_iter().flatten() {
                    *live.stopped.entry(why.clone()).or_default() += 1;
                }
                // Where the run as it was does not get to its end, the run as it is now is compared with nothing.
                if before.stopped.is_some() {
                    live.untold += 1;
                    live.take(&used);
                    if live.pairs == 0 && live.untold >= UNTOLD_MAX {
                        break;
                    }
                    continue;
                }
                count.add(&fork.recorded, &before.decision, &now.decision);
                live.pairs += 1;
                if now.decision != fork.recorded && before.decision == fork.recorded {
                    let place = (fork.parting.run, fork.parting.step);
                    Departure::note(&mut live.examples, place, &fork.recorded, &now.decision);
                }
                (live.tools, live.arguments) = count.measured(limits.smallest);
                live.conclusion = live.tools.conclusion.and(live.arguments.conclusion);
            }
            (before, now) => {
                failures += 1;
                for why in [before.err(), now.err()].into_iter().flatten() {
                    *live.failed.entry(why).or_default() += 1;
                }
            }
        }
        live.take(&used);
        tell(live.pairs, live.cost_nano_usd);
        let is_spent = limits.nano_usd.is_some_and(|most| live.cost_nano_usd >= most);
        // A model that never replies is not asked to the end.
        let is_hopeless = live.pairs == 0 && failures >= AT_ONCE;
        if live.conclusion != Conclusion::Inconclusive || is_spent || is_hopeless {
            break;
        }
    }
    live
}

impl Live {
    fn new(forks: &Forks, smallest: f64) -> Self {
        let (tools, arguments) = Count::default().measured(smallest);
        Self {
            runs: forks.runs.len() as u64,
            unfollowed: forks.not_forked.values().sum(),
            not_forked: forks.not_forked.clone(),
            pairs: 0,
            untold: 0,
            conclusion: Conclusion::Inconclusive,
            tools,
            arguments,
            reads: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_nano_usd: 0,
            examples: Vec::new(),
            stopped: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    fn take(&mut self, used: &Used) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.reads = read(&used.reads);
        self.input_tokens = read(&used.input_tokens);
        self.output_tokens = read(&used.output_tokens);
        self.cost_nano_usd = read(&used.nano_usd);
    }
}

/// What was recorded, while it is given out.
struct Recordings<'f> {
    left: BTreeMap<Digest, Vec<&'f Event>>,
    /// The last outcome of each request: what only reads may be asked for again.
    last: BTreeMap<Digest, &'f Event>,
    /// By what the request of an operation is known. A person who edits it later does not change that.
    keys: BTreeMap<OperationId, Digest>,
}

impl<'f> Recordings<'f> {
    fn new(news: &'f [Answered]) -> Self {
        let (mut left, mut last) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
        let mut keys = BTreeMap::new();
        for Answered { operation, event } in news {
            let key = *keys.entry(operation.id).or_insert_with(|| known_by(operation));
            left.entry(key).or_default().push(event);
            if matches!(event.news, News::Outcome { .. }) {
                last.insert(key, event);
            }
        }
        Self { left, last, keys }
    }

    fn key(&mut self, operation: &Operation) -> Digest {
        *self.keys.entry(operation.id).or_insert_with(|| known_by(operation))
    }

    /// What came last of the same request.
    fn last(&mut self, operation: &Operation) -> Option<&'f Event> {
        let key = self.key(operation);
        self.last.get(&key).copied()
    }

    /// The next piece of news about a request, of this kind.
    fn next(&mut self, operation: &Operation, is_meant: impl Fn(&News) -> bool) -> Option<&'f Event> {
        let key = self.key(operation);
        let left = self.left.get_mut(&key)?;
        let at = left.iter().position(|event| is_meant(&event.news))?;
        Some(left.remove(at))
    }
}

/// By what a request is known when it is made again. What a child run may use at most is no part of that: it follows from what its
/// parent has used, and models do not use the same twice.
fn known_by(operation: &Operation) -> Digest {
    match &operation.request {
        Request::AgentCall(call) => {
            let budget = Budget { max_tool_calls: 0, max_tokens: None, max_cost_nano_usd: None };
            let call = AgentCall { budget, ..(**call).clone() };
            Request::AgentCall(Arc::new(call)).digest()
        }
        _ => operation.digest,
    }
}

/// Says the same of the operation of a fork, at the time at which it was said: what a run waits for is a time.
fn about(event: &Event, id: OperationId, now: Timestamp) -> Event {
    let at = now.max(event.at);
    match &event.news {
        News::Outcome { outcome, .. } => Event::outcome(at, id, outcome.clone()),
        News::Gated { gate, .. } => Event::gated(at, id, gate.clone()),
        News::Answered { answer, .. } => Event::answer(at, id, answer.clone()),
        News::Signalled(signal) => Event::signal(at, *signal),
        News::Live(news) => Event::live(at, news.clone()),
    }
}

/// Follows a fork to its end.
async fn follow<R: Reader>(fork: &Forked, branch: &Branch, world: &World<'_, R>) -> Result<Followed, String> {
    let mut decision = Decision::default();
    let done = |mut decision: Decision, end: &End| {
        match end {
            End::Response(response) => {
                let ends = match response.status {
                    Status::Completed => "completes",
                    Status::Failed => "fails",
                    Status::Cancelled => "is cancelled",
                    Status::HandedOff => "hands over",
                };
                decision.end(ends, response.output.clone());
            }
            End::Handoff(handoff) => decision.end(format!("hands over to `{}`", handoff.target), None),
        }
        Followed { decision, stopped: None }
    };
    if let Some(end) = &branch.end {
        return Ok(done(decision, end));
    }
    let mut recordings = Recordings::new(&fork.news);
    // What came before the parting is used up.
    for Answered { operation, event } in &fork.news {
        if fork.parting.was.state.pending().iter().any(|pending| pending.operation.id == operation.id) {
            break;
        }
        recordings.next(operation, |news| *news == event.news);
    }
    let (mut state, config) = (branch.state.clone(), &branch.config);
    let (mut noted, mut asks, mut news) = (BTreeSet::new(), 0, 0);
    loop {
        let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
        let open: Vec<Operation> = open.map(|pending| pending.operation.clone()).collect();
        let mut has_news = false;
        let mut calls: Vec<(String, Value)> = Vec::new();
        let unnoted = open.iter().filter(|operation| !matches!(operation.gate, GateState::Waiting(_)));
        for operation in unnoted {
            let is_by_model = state.call_id_of(operation.id).is_some();
            let question = Question::of(&operation.request);
            if question.is_call(is_by_model) && noted.insert(operation.id) {
                calls.push((question.called(), question.arguments));
            }
        }
        // Which of several calls of one reply is named first does not matter.
        calls.sort_by_cached_key(|(tool, arguments)| (tool.clone(), arguments.to_string()));
        for (tool, arguments) in calls {
            decision.call(tool, &arguments);
        }
        for operation in open {
            let at = state.now();
            let event = match &operation.gate {
                GateState::Waiting(_) => {
                    let said = recordings.next(&operation, |news| matches!(news, News::Answered { .. }));
                    said.map(|event| about(event, operation.id, at))
                }
                GateState::Open | GateState::Answered => match operation.is_declarative() {
                    true => None,
                    false => match given(&operation, at, &mut recordings, world) {
                        Some(event) => Some(event),
                        None => match perform(fork, &state, branch, &operation, world, &mut asks).await? {
                            Ok(outcome) => Some(Event::outcome(at, operation.id, outcome)),
                            Err(why) => {
                                decision.end(format!("stops: {why}"), None);
                                return Ok(Followed { decision, stopped: Some(why) });
                            }
                        },
                    },
                },
            };
            let Some(event) = event else { continue };
            (has_news, news) = (true, news + 1);
            state.resume(event).map_err(|error| error.to_string())?;
        }
        if !has_news && !state.is_ready() {
            decision.end("waits for a person", None);
            return Ok(Followed { decision, stopped: None });
        }
        if news > NEWS_MAX {
            decision.end("does not end", None);
            return Ok(Followed { decision, stopped: Some("it does not end".to_owned()) });
        }
        state = match execute_agent_step(config, state).map_err(|error| error.to_string())? {
            AgentAction::Complete { response, .. } => return Ok(done(decision, &End::Response(response))),
            AgentAction::Handoff { handoff, .. } => return Ok(done(decision, &End::Handoff(handoff))),
            action => action.into_state(),
        };
    }
}

/// What comes of a request without asking anything: what was recorded of the same request, the time, and the memory that only seems to
/// be added to.
fn given<R>(
    operation: &Operation,
    at: Timestamp,
    recordings: &mut Recordings<'_>,
    world: &World<'_, R>,
) -> Option<Event> {
    let is_live = matches!(world, World::Live { .. });
    if is_live && matches!(operation.request, Request::ModelCompletion(_)) {
        return None;
    }
    if let Some(event) = recordings.next(operation, |news| !matches!(news, News::Answered { .. })) {
        return Some(about(event, operation.id, at));
    }
    if !is_live {
        return None;
    }
    let again = recordings.last(operation).filter(|_| operation.terms.class == EffectClass::Read);
    if let Some(event) = again {
        return Some(about(event, operation.id, at));
    }
    let (at, outcome) = match &operation.request {
        Request::Timer(timer) => (at.max(timer.until), Outcome::TimerFired),
        Request::MemoryCreate(create) => {
            let entity = create.entity.clone();
            (
                at,
                Outcome::MemoryCreated(MemoryCreated {
                    entity,
                    observation: "1".to_owned(),
                    duplicate: false,
                }),
            )
        }
        _ => return None,
    };
    Some(Event::outcome(at, operation.id, outcome))
}

/// Asks a model, or performs what only reads. The inner error says why that is not done, the outer one that there is no reply.
async fn perform<R: Reader>(
    fork: &Forked,
    state: &dalsegno_core::AgentState,
    branch: &Branch,
    operation: &Operation,
    world: &World<'_, R>,
    asks: &mut usize,
) -> Result<Result<Outcome, String>, String> {
    let config = &branch.config;
    let World::Live { reader, used, prices, most, now } = world else {
        return Ok(Err("it has not come to an end".to_owned()));
    };
    let Request::ModelCompletion(completion) = &operation.request else {
        let unknown = || format!("{} was not recorded, and may change something", operation.request.label());
        // What may be read is what the agent may read now: the journal may be from elsewhere.
        let is_read = match &operation.request {
            Request::MemorySearch(_) | Request::MemoryTraverse(_) => true,
            Request::ToolCall(call) => {
                let tool = now.config.tools.tools.get(&call.tool_name);
                tool.is_some_and(|tool| tool.class == EffectClass::Read)
            }
            _ => false,
        };
        if !is_read {
            return Ok(Err(unknown()));
        }
        used.reads.fetch_add(1, Ordering::Relaxed);
        return Ok(reader.read(&fork.whose, operation).await.map_err(|why| {
            format!("{} was not recorded, and cannot be read: {why}", operation.request.label())
        }));
    };
    *asks += 1;
    if *asks > ASKS_MAX {
        return Ok(Err(format!("it asks models more than {ASKS_MAX} times")));
    }
    let reading = state.reading(config, completion).map_err(|error| error.to_string())?;
    let name = &reading.settings.name;
    let price = prices.get(name).or(reading.settings.price.as_ref());
    if let Some(most) = most {
        if price.is_none() {
            return Err(format!(
                "its cost has a limit, and the model `{name}` no price: add `price` to `[models.{name}]`"
            ));
        }
        if used.nano_usd.load(Ordering::Relaxed) >= *most {
            return Err("the money is spent".to_owned());
        }
    }
    let price = price.cloned();
    let sent = Sent { config: config.clone(), request: completion.clone(), terms: operation.terms, reading };
    let reply = reader.ask(&fork.whose.tenant, &sent).await?;
    used.input_tokens.fetch_add(reply.input_tokens, Ordering::Relaxed);
    used.output_tokens.fetch_add(reply.output_tokens, Ordering::Relaxed);
    if let Some(price) = price {
        let cost = price.nano_usd(reply.input_tokens, reply.output_tokens, &reply.details);
        used.nano_usd.fetch_add(cost, Ordering::Relaxed);
    }
    Ok(Ok(Outcome::ModelReplied(reply)))
}

/// A world in which nothing is asked.
struct Nothing;

impl Asker for Nothing {
    async fn ask(&self, _: &str, _: &Sent) -> Result<dalsegno_core::ModelReply, String> {
        Err("no model is asked".to_owned())
    }
}

impl Reader for Nothing {
    async fn read(&self, _: &Whose, _: &Operation) -> Result<Outcome, String> {
        Err("nothing is performed".to_owned())
    }
}
