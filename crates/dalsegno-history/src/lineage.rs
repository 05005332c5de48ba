//! Where a run begins: by itself, after the run before it in its session, or as a copy of another up to a step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentState, Digest, InheritError, Inheritance, Inherited, OperationId, Outcome, RunId,
    Timestamp,
};
use dalsegno_store::{
    Body, NewRecord, NewRun, ReadError, Record, RunSummary, Started, decode_block, encode_block,
};

use dalsegno_store::codec::EncodeError;

use crate::error::HistoryError;
use crate::fold::{Fold, FoldError};
use crate::journal::Journal;
use crate::turns::{self, Place};

/// Most forks of forks.
const FORKS_MAX: usize = 10_000;

/// What a run's beginning is made of.
struct Beginning {
    /// The state of a run that begins by itself, or with what its own records say that it took over.
    fresh: AgentState,
    link: Option<Link>,
    /// The name of its session.
    session: String,
}

/// Whose a run is.
struct Whose {
    tenant: String,
    session: String,
    foreign: bool,
}

impl Whose {
    fn of(beginning: &Beginning, foreign: bool) -> Self {
        let (tenant, session) = (beginning.fresh.request().tenant.clone(), beginning.session.clone());
        Self { tenant, session, foreign }
    }

    /// Whose the run is that another one goes on from, if it may: always one of the same tenant; and what an archive
    /// brought goes on from no session of this journal's own but the one that it belongs to.
    fn may_follow(&self, run: RunId, above: &RunSummary) -> Result<Self, HistoryError> {
        let foreign = above.foreign.is_some();
        let reaches_out = self.foreign && !foreign && self.session != above.session;
        if self.tenant != above.tenant || reaches_out {
            return Err(HistoryError::Stranger { run, other: above.run });
        }
        Ok(Self { tenant: above.tenant.clone(), session: above.session.clone(), foreign })
    }
}

/// The run from which another one goes on.
enum Link {
    /// The run before it in the session.
    After { run: RunId, by_handoff: bool },
    /// A copy of its first records.
    Fork {
        run: RunId,
        shared: Place,
        replaced: BTreeMap<OperationId, Outcome>,
        ask_effects: bool,
        foreign: bool,
    },
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

impl Journal {
    /// Folds a whole journal.
    ///
    /// # Errors
    /// When the journal is damaged, or does not replay.
    pub async fn fold_all(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        records: &[Record],
    ) -> Result<Fold, HistoryError> {
        let mut fold = self.begin(run, config, records).await?;
        records[1..].iter().try_for_each(|record| fold.apply(record))?;
        Ok(fold)
    }

    /// A fold that stands after the first record.
    ///
    /// # Errors
    /// When what the run began with cannot be read, or does not replay.
    pub async fn begin(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        records: &[Record],
    ) -> Result<Fold, HistoryError> {
        let first = records.first().ok_or(FoldError::NoStart { run })?;
        let origin = self.origin(run, records).await?;
        Ok(Fold::begin(config, run, first, origin)?)
    }

    /// The state in which a run began, of its first records.
    ///
    /// # Errors
    /// When what it began with cannot be read, or does not replay.
    pub async fn origin(&self, run: RunId, records: &[Record]) -> Result<AgentState, HistoryError> {
        let beginning = self.beginning(run, records).await?;
        if beginning.link.is_none() {
            return Ok(beginning.fresh);
        }
        let foreign = self.store().summary(run).await?.foreign.is_some();
        Box::pin(self.go_back(run, Whose::of(&beginning, foreign), beginning)).await
    }

    /// The state in which a run begins that is to be written down. One that follows another gets a record of what it takes
    /// over, with the parts that are to be kept, so that from then on it needs no other run.
    ///
    /// # Errors
    /// When what it begins with cannot be read, does not replay, or is none of its business.
    pub async fn origin_of(&self, new: &mut NewRun) -> Result<AgentState, HistoryError> {
        let bodies = new.records.iter().map(|record| (record.at, &record.body));
        let beginning = Beginning::of(new.run, bodies)?;
        let whose = Whose::of(&beginning, false);
        let Some(Link::After { run, by_handoff }) = beginning.link else {
            return match Box::pin(self.go_back(new.run, whose, beginning)).await {
                // No journal is wrong: it is not to be forked there.
                Err(HistoryError::Fold(FoldError::Fork { run, of, source })) if run == new.run => {
                    Err(HistoryError::Fork { run: of, message: source.to_string() })
                }
                begun => begun,
            };
        };
        whose.may_follow(new.run, &self.store().summary(run).await?)?;
        let (config, records) = self.journal_of(run).await?;
        // On the heap: one run may start another, and so on.
        let fold = Box::pin(self.fold_all(run, config, &records)).await?;
        let known = match records.get(1).map(|record| &record.body) {
            Some(Body::Inherited(inherited)) => inherited.kept().collect(),
            _ => BTreeSet::new(),
        };
        take_over(new, beginning.fresh, fold.state().inheritance(by_handoff), &known)
    }

    /// What a run's beginning is made of, with what its own records say that it took over.
    async fn beginning(&self, run: RunId, records: &[Record]) -> Result<Beginning, HistoryError> {
        let mut beginning = Beginning::of(run, records.iter().map(|record| (record.at, &record.body)))?;
        if let Some(Body::Inherited(inherited)) = records.get(1).map(|record| &record.body) {
            let taken = Box::pin(self.taken_over(run, inherited)).await?;
            beginning.fresh = beginning.fresh.inheriting(taken);
        }
        Ok(beginning)
    }

    /// Reads what a run took over.
    async fn taken_over(&self, run: RunId, inherited: &Inherited) -> Result<Inheritance, HistoryError> {
        let failed = |message: String| HistoryError::Beginning { run, message };
        let (mut blocks, mut entries, mut bytes) = (Vec::new(), 0u64, 0u64);
        for block in inherited.blocks() {
            let found = match self.store().blob(block.digest).await {
                Ok(Some(found)) => found,
                Ok(None) => return Err(failed(format!("the part {} is missing", block.digest))),
                Err(ReadError::DamagedBlob { digest }) => {
                    return Err(failed(format!("the part {digest} is damaged")));
                }
                Err(error) => return Err(error.into()),
            };
            entries = entries.saturating_add(u64::from(block.entries));
            bytes = bytes.saturating_add(found.len() as u64);
            if Inherited::is_too_long(entries, bytes) {
                return Err(failed(InheritError::TooLong.to_string()));
            }
            blocks.push(
                decode_block(&found).map_err(|_| failed(format!("the part {} is damaged", block.digest)))?,
            );
        }
        inherited.load(blocks).map_err(|error| failed(error.to_string()))
    }

    async fn go_back(
        &self,
        run: RunId,
        mut whose: Whose,
        beginning: Beginning,
    ) -> Result<AgentState, HistoryError> {
        let Beginning { mut fresh, link, session: _ } = beginning;
        let (mut seen, mut forks) = (BTreeSet::from([run]), 0);
        // The runs before it, the nearest first. A loop, since a chat that an earlier release wrote has as many as it has
        // messages.
        let mut steps: Vec<Ancestor> = Vec::new();
        let mut next = link.map(|link| (run, link));
        while let Some((below, link)) = next {
            let ancestor = link.run();
            forks += usize::from(matches!(link, Link::Fork { .. }));
            if !seen.insert(ancestor) || forks > FORKS_MAX {
                return Err(HistoryError::Lineage { run });
            }
            let summary = self.store().summary(ancestor).await?;
            whose = whose.may_follow(below, &summary)?;
            let (config, records) = self.journal_of(ancestor).await?;
            let above = self.beginning(ancestor, &records).await?;
            let fresh_below = std::mem::replace(&mut fresh, above.fresh);
            steps.push(Ancestor { run: ancestor, config, records, link, below, fresh_below });
            next = above.link.map(|link| (ancestor, link));
        }
        // Now `fresh` is the state of the oldest one.
        steps.into_iter().rev().try_fold(fresh, |origin, ancestor| Ok(ancestor.go_on(origin)?))
    }
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
            Some((_, Body::Forked { run, seq, within, overrides, outcomes, ask_effects, foreign, .. })) => {
                Some(Link::Fork {
                    run: *run,
                    shared: Place { seq: *seq, within: *within },
                    replaced: overrides.iter().copied().zip(outcomes.iter().cloned()).collect(),
                    ask_effects: *ask_effects,
                    foreign: *foreign,
                })
            }
            Some((_, Body::Adopted { run, seq, .. })) => Some(Link::Fork {
                run: *run,
                shared: Place { seq: *seq, within: 0 },
                replaced: BTreeMap::new(),
                ask_effects: true,
                foreign: true,
            }),
            Some((_, Body::Inherited(_))) => None,
            _ => started
                .predecessor
                .map(|predecessor| Link::After { run: predecessor, by_handoff: started.by_handoff }),
        };
        Ok(Self { fresh: fresh(run, started, at), link, session: started.session.clone() })
    }
}

/// The state in which a run begins that goes on from a state which hands over, with a record of what it takes over.
///
/// # Errors
/// When the state is too large to be taken over.
pub fn successor(new: &mut NewRun, state: &AgentState) -> Result<AgentState, HistoryError> {
    let records = new.records.iter().map(|record| (record.at, &record.body));
    let fresh = Beginning::of(new.run, records)?.fresh;
    take_over(new, fresh, state.inheritance(true), &BTreeSet::new())
}

/// Lets a new run begin with this: as a record, and as a state. The parts that the store has already are not kept anew.
fn take_over(
    new: &mut NewRun,
    fresh: AgentState,
    taken: Inheritance,
    known: &BTreeSet<Digest>,
) -> Result<AgentState, HistoryError> {
    enum Failed {
        Encode(EncodeError),
        Inherit(InheritError),
    }
    impl From<InheritError> for Failed {
        fn from(error: InheritError) -> Self {
            Self::Inherit(error)
        }
    }
    let run = new.run;
    let mut parts = Vec::new();
    let stored = taken.clone().store(|entries| {
        let (digest, bytes) = encode_block(entries).map_err(Failed::Encode)?;
        if !known.contains(&digest) {
            parts.push((digest, bytes));
        }
        Ok(digest)
    });
    let inherited = stored.map_err(|error| match error {
        Failed::Encode(source) => HistoryError::Encode(source),
        Failed::Inherit(error) => HistoryError::Beginning { run, message: error.to_string() },
    })?;
    let at = new.records.first().map_or_else(Timestamp::default, |record| record.at);
    new.blobs.extend(parts);
    new.records.insert(1, NewRecord::new(at, Body::Inherited(Box::new(inherited))));
    Ok(fresh.inheriting(taken))
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
        // A run that has no record of what it takes over was begun with all that its predecessor held.
        let origin = match self.link {
            Link::After { .. } => origin.keeping_all(),
            Link::Fork { .. } => origin,
        };
        let mut fold = Fold::begin(self.config, run, first, origin)?;
        match self.link {
            Link::After { by_handoff, .. } => {
                rest.iter().try_for_each(|record| fold.apply(record))?;
                Ok(self.fresh_below.following(fold.state(), by_handoff))
            }
            Link::Fork { shared, replaced, ask_effects, foreign, .. } => {
                let mut before = rest.iter().take_while(|record| record.seq < shared.seq);
                before.try_for_each(|record| fold.apply_replaced(record, &replaced))?;
                if let Some(record) = turns::part_of(rest, shared) {
                    fold.apply(&record)?;
                }
                fold.replace_rest(first, replaced)?;
                let surface = self.fresh_below.request().surface;
                let forked = match surface {
                    Some(surface) => {
                        fold.catch_up()?;
                        fold.machine.into_state().fork_call(self.below, ask_effects, surface)
                    }
                    None => fold.machine.into_state().fork(self.below, ask_effects),
                };
                let forked = forked.map_err(|source| FoldError::Fork { run: self.below, of: run, source })?;
                Ok(if foreign { forked.on_behalf_of(self.fresh_below.request()) } else { forked })
            }
        }
    }
}
