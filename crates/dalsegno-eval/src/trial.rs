//! One trial, its checks and its judges.

use dalsegno_cases::{End, Trajectory, hold};
use dalsegno_core::{AgentRequest, RunId};
use dalsegno_workspace::{Expectations, Judge};
use serde_json::{Map, Value, json};

use crate::data::Item;
use crate::evaluate::{EvalError, Setup};
use crate::plan::{Performer, Place, Start, Way, key};
use crate::taken::Taken;

/// How often a run without a reply is begun again, each time by another evaluation.
const AGAIN_MAX: u32 = 100;

/// The longest message that a report keeps, in characters.
const MESSAGE_MAX: usize = 2_000;

/// What a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) nano_usd: u64,
    pub(crate) tokens: u64,
    /// The part that this evaluation paid; the rest was paid before.
    pub(crate) now_nano_usd: u64,
    /// Runs that were performed, and those that were there.
    pub(crate) performed: u64,
    pub(crate) known: u64,
}

impl Cost {
    fn of(taken: &Taken) -> Self {
        let usage = &taken.trajectory.usage;
        let (nano_usd, tokens) = (usage.cost_nano_usd, usage.tokens());
        match taken.was_there {
            true => Self { nano_usd, tokens, known: 1, ..Self::default() },
            false => Self { nano_usd, tokens, now_nano_usd: nano_usd, performed: 1, known: 0 },
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.nano_usd = self.nano_usd.saturating_add(other.nano_usd);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.now_nano_usd = self.now_nano_usd.saturating_add(other.now_nano_usd);
        self.performed += other.performed;
        self.known += other.known;
    }
}

/// What came of a trial.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) run: RunId,
    /// Whether it passed; none where that is not known.
    pub(crate) passed: Option<bool>,
    /// What does not hold, by its check or judge.
    pub(crate) failures: Vec<(String, String)>,
    /// What each judge said, in their order; none for one that was not asked.
    pub(crate) judged: Vec<Option<Said>>,
    /// Why there is no result, where the model could not be reached.
    pub(crate) no_reply: Option<String>,
    pub(crate) cost: Cost,
}

/// What a judge said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Pass,
    Fail,
    /// Nothing that is a verdict, for this reason.
    Nonsense(String),
}

impl Said {
    pub(crate) const fn verdict(&self) -> Option<bool> {
        match self {
            Self::Pass => Some(true),
            Self::Fail => Some(false),
            Self::Nonsense(_) => None,
        }
    }
}

/// Performs a run; one whose model could not be reached in an earlier evaluation is begun again.
async fn performed<P: Performer>(
    performer: &P,
    start: impl Fn(u32) -> Start,
    cost: &mut Cost,
) -> Result<Taken, EvalError> {
    for again in 0..AGAIN_MAX {
        let taken = performer.perform(start(again)).await.map_err(EvalError::Perform)?;
        cost.add(Cost::of(&taken));
        if !taken.was_there || taken.without_reply().is_none() {
            return Ok(taken);
        }
    }
    Err(EvalError::Perform(format!("a model could not be reached in {AGAIN_MAX} evaluations")))
}

/// Tries an item one way.
pub(crate) async fn attempt<P: Performer>(
    setup: &Setup<'_>,
    performer: &P,
    (item, expect): (&Item, &Expectations),
    way: &Way,
    trial: u32,
) -> Result<Tried, EvalError> {
    let request = item.request(&setup.eval.tenant);
    let mut cost = Cost::default();
    let start = |again| Start {
        agent: way.agent.clone(),
        model: way.model.clone(),
        place: way.place,
        request: request.clone(),
        key: key(&setup.eval.name, "trial", &way.fingerprint, &item.id, &request, (trial, again)),
    };
    let taken = performed(performer, start, &mut cost).await?;
    let mut tried = Tried {
        run: taken.run,
        passed: None,
        failures: Vec::new(),
        judged: setup.eval.judges.iter().map(|_| None).collect(),
        no_reply: taken.without_reply(),
        cost,
    };
    if tried.no_reply.is_some() {
        return Ok(tried);
    }
    let mut more = Map::new();
    more.insert("item".to_owned(), item.value.clone());
    let failures = hold(expect, &taken.config, &taken.trajectory, more);
    tried.failures.extend(failures.into_iter().map(|one| (one.what.to_owned(), shortened(&one.message))));
    let completed = taken.trajectory.end.as_ref().is_some_and(|end| end.kind() == "completed");
    let mut is_unjudged = false;
    for (index, judge) in setup.eval.judges.iter().enumerate() {
        // A run without an answer has nothing to judge, and has failed if it should have one.
        if !completed {
            continue;
        }
        let read = Read::of(&taken.trajectory, item);
        let of = format!("judge {} of {}", judge.name, way.fingerprint);
        let said = ask(setup, performer, (index, judge), &read, (item, &of, trial), &mut tried.cost).await?;
        match &said {
            Said::Pass => {}
            Said::Fail => {
                tried.failures.push((judge.name.clone(), "the judge does not let it pass".to_owned()));
            }
            Said::Nonsense(_) => is_unjudged = true,
        }
        tried.judged[index] = Some(said);
    }
    tried.passed = match (tried.failures.is_empty(), is_unjudged) {
        (false, _) => Some(false),
        (true, true) => None,
        (true, false) => Some(true),
    };
    Ok(tried)
}

/// Asks a judge about the answer that a person has judged, if there is one: what the judge says, and what the person says.
pub(crate) async fn labelled<P: Performer>(
    setup: &Setup<'_>,
    performer: &P,
    index: usize,
    item: &Item,
    cost: &mut Cost,
) -> Result<Option<(Said, bool)>, EvalError> {
    let judge = &setup.eval.judges[index];
    let label = judge.label.as_ref().and_then(|label| item.label(label));
    let (Some(person), Some(answer)) = (label, item.answer()) else { return Ok(None) };
    let output = item.value.get("output").cloned().unwrap_or_default();
    let read = Read {
        item: item.unlabelled(),
        answer: answer.into(),
        output,
        ends: "completed".into(),
        calls: json!([]),
        asks: json!([]),
    };
    let of = format!("judge {} of a label", judge.name);
    let said = ask(setup, performer, (index, judge), &read, (item, &of, 0), cost).await?;
    Ok(Some((said, person)))
}

/// What a judge reads.
struct Read {
    item: Value,
    answer: Value,
    output: Value,
    ends: Value,
    calls: Value,
    asks: Value,
}

impl Read {
    fn of(trajectory: &Trajectory, item: &Item) -> Self {
        let response = trajectory.end.as_ref().and_then(End::response);
        let calls = trajectory.calls.iter().map(|made| json!({ "tool": made.tool, "args": made.arguments }));
        Self {
            item: item.unlabelled(),
            answer: trajectory.answer().into(),
            output: response.and_then(|response| response.output.clone()).into(),
            ends: trajectory.end.as_ref().map(End::kind).into(),
            calls: calls.collect(),
            asks: json!(trajectory.asks),
        }
    }

    fn request(&self, judge: &Judge, tenant: &str) -> Result<AgentRequest, String> {
        let Self { item, answer, output, ends, calls, asks } = self;
        let names = [
            ("item", item),
            ("answer", answer),
            ("output", output),
            ("ends", ends),
            ("calls", calls),
            ("asks", asks),
        ];
        let scope: Map<String, Value> =
            names.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let text = match &judge.text {
            Some(template) => template.render_text(&scope).map_err(|error| format!("`text`: {error}"))?,
            None => answer.as_str().unwrap_or_default().to_owned(),
        };
        let data = match &judge.data {
            Some(template) => template.render(&scope).map_err(|error| format!("`data`: {error}"))?,
            None => json!({ "item": item, "answer": answer, "output": output }),
        };
        Ok(AgentRequest { data, tenant: tenant.to_owned(), ..AgentRequest::text(&text) })
    }
}

async fn ask<P: Performer>(
    setup: &Setup<'_>,
    performer: &P,
    (index, judge): (usize, &Judge),
    read: &Read,
    (item, of, trial): (&Item, &str, u32),
    cost: &mut Cost,
) -> Result<Said, EvalError> {
    let request = match read.request(judge, &setup.eval.tenant) {
        Ok(request) => request,
        Err(why) => return Ok(Said::Nonsense(format!("it cannot be asked: {why}"))),
    };
    let fingerprint = setup.judges.get(index).map_or("", String::as_str);
    let start = |again| Start {
        agent: judge.agent.name.clone(),
        model: None,
        place: Place::Now,
        request: request.clone(),
        key: key(&setup.eval.name, of, fingerprint, &item.id, &request, (trial, again)),
    };
    let taken = performed(performer, start, cost).await?;
    Ok(verdict(judge, &taken))
}

/// What a judge's run says.
fn verdict(judge: &Judge, taken: &Taken) -> Said {
    let end = taken.trajectory.end.as_ref();
    let Some(output) = end.and_then(End::response).and_then(|response| response.output.clone()) else {
        let ended = match end {
            Some(End::Ended(response)) => response.error.as_ref().map(|error| error.message.clone()),
            Some(End::Suspended(questions)) if questions.is_empty() => Some("it waits for a time".to_owned()),
            Some(End::Suspended(_)) => Some("it waits for a person".to_owned()),
            _ => None,
        };
        return Said::Nonsense(shortened(
            &ended.unwrap_or_else(|| "it gave no structured answer".to_owned()),
        ));
    };
    let mut scope = Map::new();
    scope.insert("output".to_owned(), output);
    match judge.pass.evaluate(&scope) {
        Ok(Value::Bool(true)) => Said::Pass,
        Ok(Value::Bool(false)) => Said::Fail,
        Ok(other) => {
            Said::Nonsense(shortened(&format!("`{}` is {other}, and not true or false", judge.pass.source())))
        }
        Err(error) => Said::Nonsense(shortened(&error.to_string())),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
