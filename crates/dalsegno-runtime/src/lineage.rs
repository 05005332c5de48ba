//! Where a run begins: by itself, after the run before it in its session, or as a copy of another up to a step.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentState, OperationId, Outcome, RunId, Timestamp};
use dalsegno_store::{Body, NewRun, Record, Started};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::fold::{Fold, FoldError};

/// Most runs before a run, by sessions and forks. A chat of a message every minute needs a week to get there.
const LINKS_MAX: usize = 10_000;

/// What a run's beginning is made of.
struct Beginning {
    /// The state of a run that begins by itself.
    fresh: AgentState,
    link: Option<Link>,
}

/// The run from which another one goes on.
enum Link {
    /// The run before it in the session.
    After { run: RunId, by_handoff: bool },
    /// A copy of its first records.
    Fork { run: RunId, seq: u64, replaced: BTreeMap<OperationId, Outcome>, ask_effects: bool },
}

impl Link {
    fn run(&self) -> RunId {
        match self {
            Self::After { run, .. } | Self::Fork { run, .. } => *run,
        }
    }
}

/// A run that another one goes on from.
struct Ancestor {
    run: RunId,
    config: Arc<AgentConfig>,
    records: Vec<Record>,
    /// How another one goes on from it.
    link: Link,
    /// That other one.
    below: RunId,
    /// The state of that other one, if it began by itself.
    fresh_below: AgentState,
}

impl Engine {
    /// Folds a whole journal.
    pub(crate) async fn fold_all(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        records: &[Record],
    ) -> Result<Fold, EngineError> {
        let mut fold = self.begin(run, config, records).await?;
        records[1..].iter().try_for_each(|record| fold.apply(record))?;
        Ok(fold)
    }

    /// A fold that stands after the first record.
    pub(crate) async fn begin(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        records: &[Record],
    ) -> Result<Fold, EngineError> {
        let first = records.first().ok_or(FoldError::NoStart { run })?;
        let origin = self.origin(run, records).await?;
        Ok(Fold::begin(config, run, first, origin)?)
    }

    /// The state in which a run began, of its first records.
    pub(crate) async fn origin(&self, run: RunId, records: &[Record]) -> Result<AgentState, EngineError> {
        self.walk(run, beginning(run, records)?).await
    }

    /// The state in which a run begins that is to be written down.
    pub(crate) async fn origin_of(&self, new: &NewRun) -> Result<AgentState, EngineError> {
        let bodies = new.records.iter().map(|record| (record.at, &record.body));
        self.walk(new.run, Beginning::of(new.run, bodies)?).await
    }

    async fn walk(&self, run: RunId, beginning: Beginning) -> Result<AgentState, EngineError> {
        let Beginning { mut fresh, link } = beginning;
        // The runs before it, the nearest first. A loop, since a chat has as many as it has messages.
        let mut steps: Vec<Ancestor> = Vec::new();
        let mut next = link.map(|link| (run, link));
        while let Some((below, link)) = next {
            if steps.len() == LINKS_MAX {
                return Err(EngineError::Lineage { run });
            }
            let ancestor = link.run();
            let (config, records) = self.journal_of(ancestor).await?;
            let above = self::beginning(ancestor, &records)?;
            let fresh_below = std::mem::replace(&mut fresh, above.fresh);
            steps.push(Ancestor { run: ancestor, config, records, link, below, fresh_below });
            next = above.link.map(|link| (ancestor, link));
        }
        // Now `fresh` is the state of the oldest one.
        steps.into_iter().rev().try_fold(fresh, |origin, ancestor| Ok(ancestor.go_on(origin)?))
    }

    /// A run's configuration and its journal.
    pub(crate) async fn journal_of(
        &self,
        run: RunId,
    ) -> Result<(Arc<AgentConfig>, Vec<Record>), EngineError> {
        let summary = self.store().summary(run).await?;
        let records = self.store().read(run, 0).await?;
        Ok((self.config(run, summary.config).await?, records))
    }
}

fn beginning(run: RunId, records: &[Record]) -> Result<Beginning, FoldError> {
    Beginning::of(run, records.iter().map(|record| (record.at, &record.body)))
}

impl Beginning {
    /// Reads the first two records.
    fn of<'a>(
        run: RunId,
        mut records: impl Iterator<Item = (Timestamp, &'a Body)>,
    ) -> Result<Self, FoldError> {
        let Some((at, Body::Started(started))) = records.next() else {
            return Err(FoldError::NoStart { run });
        };
        let link = match records.next() {
            Some((_, Body::Forked { run, seq, overrides, outcomes, ask_effects, .. })) => Some(Link::Fork {
                run: *run,
                seq: *seq,
                replaced: overrides.iter().copied().zip(outcomes.iter().cloned()).collect(),
                ask_effects: *ask_effects,
            }),
            _ => started
                .predecessor
                .map(|predecessor| Link::After { run: predecessor, by_handoff: started.by_handoff }),
        };
        Ok(Self { fresh: fresh(run, started, at), link })
    }
}

/// The state in which a run begins that goes on from a state which hands over.
pub(crate) fn successor(new: &NewRun, state: &AgentState) -> Result<AgentState, FoldError> {
    let records = new.records.iter().map(|record| (record.at, &record.body));
    Ok(Beginning::of(new.run, records)?.fresh.following(state, true))
}

/// The state of a run that begins by itself.
fn fresh(run: RunId, started: &Started, at: Timestamp) -> AgentState {
    let mut state = AgentState::start(run, started.request.clone(), at).in_session(&started.session);
    if let Some(budget) = started.budget {
        state = state.within(budget);
    }
    if let Some(context) = &started.context {
        state = state.sharing(context);
    }
    if started.ask_effects { state.asking_effects() } else { state }
}

impl Ancestor {
    /// The state in which the run below begins, of the one in which this one began.
    fn go_on(self, origin: AgentState) -> Result<AgentState, FoldError> {
        let run = self.run;
        let (first, rest) = self.records.split_first().ok_or(FoldError::NoStart { run })?;
        let mut fold = Fold::begin(self.config, run, first, origin)?;
        match self.link {
            Link::After { by_handoff, .. } => {
                rest.iter().try_for_each(|record| fold.apply(record))?;
                Ok(self.fresh_below.following(fold.state(), by_handoff))
            }
            Link::Fork { seq, replaced, ask_effects, .. } => {
                let mut shared = rest.iter().take_while(|record| record.seq < seq);
                shared.try_for_each(|record| fold.apply_replaced(record, &replaced))?;
                fold.replace_rest(first, replaced)?;
                let forked = fold.machine.into_state().fork(self.below, ask_effects);
                forked.map_err(|source| FoldError::Fork { run: self.below, of: run, source })
            }
        }
    }
}
