//! A run goes on: after an interruption or a crash, with answers, or to be ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use dalsegno_core::{AgentConfig, AgentState, Answer, Gate, GateState, OperationId, RunId};
use dalsegno_store::{AcquireError, Lease, Message, PostError, RunStatus, RunSummary, Waiting};

use dalsegno_history::{Descendant, End, Fold, FoldError, Progress, waiting};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::observer::Watches;
use crate::run::acquire::Opened;
use crate::run::answers;
use crate::run::context::{RunContext, Surroundings};
use crate::run::converse::Line;
use crate::run::driver::Driver;
use crate::run::handle::{GateInput, RunEnd, RunEvent, RunHandle, RunReport, Stop};

/// How long is waited for a process to take an answer, before it is said that it was passed on. It looks every 200 ms.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);

/// The time between two looks whether it has.
const TAKEN_LOOK: Duration = Duration::from_millis(25);

impl Engine {
    /// Goes on with a run: after an interruption or a crash, when its time has come, or with answers to what it waits for.
    /// Answers to child runs are passed on. A run that has ended reports its end again; one that handed over goes on
    /// with the run after it.
    ///
    /// # Errors
    /// When there is no such run, another process owns it, its journal is damaged, or an answer does not fit. Nothing
    /// is recorded then.
    pub async fn resume(&self, run: RunId, answers: Vec<GateInput>) -> Result<RunHandle, EngineError> {
        self.take_up(run, answers, true).await
    }

    /// Goes on with a run. The parent of a child run is told of its end, unless it performs the run itself and sees it.
    pub(crate) async fn take_up(
        &self,
        run: RunId,
        answers: Vec<GateInput>,
        tell: bool,
    ) -> Result<RunHandle, EngineError> {
        loop {
            match self.take_open(run, answers.clone(), tell).await? {
                // It ends, and takes no answer.
                Some(handle) if *handle.stop.borrow() == Stop::Cancel && !answers.is_empty() => {
                    handle.finish().await?;
                }
                Some(handle) => return Ok(handle),
                None => {}
            }
            let summary = self.own_last_in_line(run).await?;
            // Where another process handed it over meanwhile, the run after it is resumed.
            if summary.status == RunStatus::Abandoned && answers.is_empty() {
                return Ok(Box::pin(self.report_abandoned(&summary)).await);
            }
            if summary.status.is_end() {
                let config = self.journal().config(summary.run, summary.config).await?;
                let settles = !answers.is_empty() && summary.waiting.contains(&Waiting::InDoubt);
                if settles {
                    self.settle_ended(&summary, answers).await?;
                    return self.report_end(summary.run, config, &[]).await;
                }
                return self.report_end(summary.run, config, &answers).await;
            }
        }
    }

    /// Resumes a run; none when it has ended, also by another process meanwhile. A run that is to end, since a person asked
    /// for that or the run above it has ended, is ended and does nothing else.
    pub(crate) async fn take_open(
        &self,
        run: RunId,
        answers: Vec<GateInput>,
        tell: bool,
    ) -> Result<Option<RunHandle>, EngineError> {
        self.take_open_on(run, answers, tell, None).await
    }

    /// The same for a call, which has a surface.
    pub(crate) async fn take_open_on(
        &self,
        run: RunId,
        answers: Vec<GateInput>,
        tell: bool,
        line: Option<Line>,
    ) -> Result<Option<RunHandle>, EngineError> {
        let run = self.own_last_in_line(run).await?.run;
        let (summary, mut lease) = match self.acquire_open(run).await? {
            Opened::Acquired(summary, lease) => (summary, lease),
            Opened::Ended(summary) => return self.take_ended(&summary).await,
        };
        let taken = async {
            let config = self.journal().config(run, summary.config).await?;
            Ok::<_, EngineError>((config, self.doom(&summary).await?))
        };
        let config = match taken.await {
            Ok((config, None)) => config,
            Ok((config, Some(why))) => return self.end_here(&summary, config, lease, why).await.map(Some),
            Err(error) => return Err(self.give_back(lease, error).await),
        };
        if let Some(parent) = summary.parent.filter(|_| !tell) {
            lease = lease.telling_sleeper(parent);
        }
        match self.take_over(run, config, &summary, &lease, answers).await {
            Ok(taken) => {
                let line = match line {
                    Some(line) => Ok(Some(line)),
                    None => self.line_of(run, &taken.context.config, &taken.fold),
                };
                match line {
                    Ok(line) => self.go_on(run, taken, lease, line).map(Some),
                    Err(error) => Err(self.give_back(lease, error).await),
                }
            }
            Err(error) => Err(self.give_back(lease, error).await),
        }
    }

    /// Passes answers on to the process that performs a run, or to the next one that does. Returns whether the journal has them all by
    /// now: a process that performs the run is given a moment to take them.
    ///
    /// # Errors
    /// When there is no such run, it has ended, or an answer does not fit or comes after another one. Nothing is passed on then.
    pub async fn pass_on(&self, run: RunId, answers: Vec<GateInput>) -> Result<bool, EngineError> {
        let summary = self.own_last_in_line(run).await?;
        let run = summary.run;
        if summary.status.is_end() && summary.waiting.contains(&Waiting::InDoubt) {
            return self.settle_ended(&summary, answers).await.map(|()| true);
        }
        if summary.status.is_end() {
            return Err(EngineError::Ended { run, status: summary.status });
        }
        let config = self.journal().config(run, summary.config).await?;
        let fold = self.journal().fold_from_snapshot(run, &config).await?;
        self.know_secrets(&summary.tenant, &fold.state().request().user).await?;
        let (own, below) = self.sort(run, fold.state(), answers).await?;
        let expired = self.expired(&config, fold.state(), &fold.progress);
        let own = answers::check(run, &config, fold.state(), &expired, own)?;
        let mut are_recorded = true;
        for one in self.addressed(run, summary.records, &fold.progress, own) {
            are_recorded &= self.pass_on_one(one).await?;
        }
        Ok(self.pass_down(run, below).await? && are_recorded)
    }

    /// Answers to a run, as they are posted: without secrets.
    fn addressed(
        &self,
        to: RunId,
        seen: u64,
        progress: &BTreeMap<OperationId, Progress>,
        answers: Vec<(OperationId, Answer)>,
    ) -> Vec<PassedOn> {
        let of = |(operation, mut answer): (OperationId, Answer)| {
            self.bindings().secrets().scrub_answer(&mut answer);
            let attempts = progress.get(&operation).map_or(0, |progress| progress.attempts);
            PassedOn { to, seen, operation, attempts, answer }
        };
        answers.into_iter().map(of).collect()
    }

    /// Posts answers to the child runs of a run, each of which takes its own from its inbox: now, when it continues, or in the
    /// process that performs it. The run is told to look, so that it takes up those that no process performs.
    async fn pass_down(&self, run: RunId, below: Vec<PassedOn>) -> Result<bool, EngineError> {
        if below.is_empty() {
            return Ok(true);
        }
        let mut are_recorded = true;
        for one in below {
            are_recorded &= self.pass_on_one(one).await?;
        }
        self.store().post(run, Message::Look).await?;
        Ok(are_recorded)
    }

    /// Passes an answer on, unless the same one is there already. The first answer counts: who gave another one learns of it here,
    /// since the process that performs the run drops it.
    async fn pass_on_one(&self, passed: PassedOn) -> Result<bool, EngineError> {
        let PassedOn { to, seen, operation, attempts, answer } = passed;
        if !answers::compare(&self.store().inbox(to).await?, operation, attempts, &answer)? {
            self.store().post(to, Message::Answer { operation, attempts, answer: answer.clone() }).await?;
        }
        // An answer that was there first is in the inbox still, or in the records since the run was looked at, or the process that
        // performs the run was given it and is about to record it. Who takes this one out of the inbox has recorded the first.
        let begun = Instant::now();
        loop {
            // In this order: what a process has recorded before it left the run, or took this out of the inbox, is read after that.
            let is_performed = self.store().summary(to).await?.owner.is_some();
            let waits = answers::compare(&self.store().inbox(to).await?, operation, attempts, &answer)?;
            let is_recorded =
                answers::compare_recorded(&self.store().read(to, seen).await?, operation, &answer)?;
            if is_recorded || !waits || !is_performed || begun.elapsed() > TAKEN_WITHIN {
                return Ok(is_recorded);
            }
            tokio::time::sleep(TAKEN_LOOK).await;
        }
    }

    /// Lets a run look whether there is now what it waits for, such as a secret: at once where it is performed, else when a
    /// worker or somebody else goes on with it.
    ///
    /// # Errors
    /// When there is no such run, it has ended, or the journal cannot be written.
    pub async fn tell_to_look(&self, run: RunId) -> Result<(), PostError> {
        self.store().post(run, Message::Look).await
    }

    /// Gives up operations that a run waits for: a question is answered with a no, a child run is ended, and what has
    /// not started or may be repeated fails as cancelled. An effect that may not be repeated and is under way
    /// finishes, and its outcome is kept.
    ///
    /// The run goes on here, unless another process performs it: that one is told, and nothing is returned.
    ///
    /// # Errors
    /// When there is no such run, it has ended, it does not wait for one of the operations, one may have taken place
    /// (somebody must say whether it did), or the run cannot be read or written.
    pub async fn give_up(
        &self,
        run: RunId,
        operations: Vec<OperationId>,
        by: Option<String>,
        reason: Option<String>,
    ) -> Result<Option<RunHandle>, EngineError> {
        let summary = self.own_last_in_line(run).await?;
        let run = summary.run;
        if summary.status.is_end() {
            return Err(EngineError::Ended { run, status: summary.status });
        }
        let config = self.journal().config(run, summary.config).await?;
        let fold = self.journal().fold_from_snapshot(run, &config).await?;
        let open = fold.state().pending().iter().filter(|pending| pending.outcome.is_none());
        let open: BTreeMap<OperationId, &GateState> =
            open.map(|pending| (pending.operation.id, &pending.operation.gate)).collect();
        for id in &operations {
            let message = match open.get(id) {
                Some(GateState::Waiting(Gate::InDoubt { .. })) => {
                    format!(
                        "operation {id} may have taken place: say `--outcome happened` or `--outcome not-happened`"
                    )
                }
                Some(_) => continue,
                None => format!("run {run} does not wait for an operation {id}"),
            };
            return Err(EngineError::Answer { message, is_late: !open.contains_key(id) });
        }
        let (mut by, mut reason) = (by, reason);
        for text in [&mut by, &mut reason].into_iter().flatten() {
            self.bindings().secrets().text(text);
        }
        self.store().post(run, Message::GiveUp { operations, by, reason }).await?;
        match self.resume(run, Vec::new()).await {
            Ok(handle) => Ok(Some(handle)),
            Err(EngineError::Acquire(AcquireError::Owned { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A run's entry, to go on with it or to end it; after handoffs that of the last run.
    ///
    /// # Errors
    /// When an archive brought the run.
    pub(crate) async fn own_last_in_line(&self, run: RunId) -> Result<RunSummary, EngineError> {
        let summary = self.journal().last_in_line(run).await?;
        if summary.foreign.is_some() { Err(EngineError::Foreign { run: summary.run }) } else { Ok(summary) }
    }

    async fn report_end(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        answers: &[GateInput],
    ) -> Result<RunHandle, EngineError> {
        if !answers.is_empty() {
            return Err(EngineError::Answer {
                message: format!(
                    "run {run} has ended and waits for no answer: look at it with `dalsegno show {run}`"
                ),
                is_late: true,
            });
        }
        let agent = config.name.clone();
        let records = self.store().read(run, 0).await?;
        let fold = self.journal().fold_all(run, config, &records).await?;
        let state = fold.state();
        let (steps, usage) = (state.step(), state.usage());
        let Some(End::Response(response)) = fold.ended else {
            return Err(FoldError::NoStart { run }.into());
        };
        let report = RunReport { run, agent, end: RunEnd::Ended(response), steps, usage, before: Vec::new() };
        let (_, events) = broadcast::channel(1);
        let (stop, _) = watch::channel(Stop::Go);
        Ok(RunHandle {
            run,
            is_new: false,
            begun: None,
            events,
            stop,
            task: tokio::spawn(async { Ok(report) }),
        })
    }

    /// Reads where an owned run stands, and checks that it can go on here.
    async fn take_over(
        &self,
        run: RunId,
        config: Arc<AgentConfig>,
        summary: &RunSummary,
        lease: &Lease,
        inputs: Vec<GateInput>,
    ) -> Result<Taken, EngineError> {
        // Without its file its tools would reach no host and find no secret, and nothing would bound what it spends.
        self.workspace().check_tenant(&summary.tenant)?;
        self.check_resumed(&config.name, &summary.tenant).await?;
        let fold = self.journal().fold_from_snapshot(run, &config).await?;
        self.know_secrets(&summary.tenant, &fold.state().request().user).await?;
        let (own, below) = self.sort(run, fold.state(), inputs).await?;
        let expired = self.expired(&config, fold.state(), &fold.progress);
        let answers = answers::check(run, &config, fold.state(), &expired, own)?;
        let messages = self.store().inbox(run).await?;
        for (operation, answer) in &answers {
            // What another person was told that it counts, counts. It was posted without secrets.
            let attempts = fold.progress.get(operation).map_or(0, |progress| progress.attempts);
            let mut scrubbed = answer.clone();
            self.bindings().secrets().scrub_answer(&mut scrubbed);
            answers::compare(&messages, *operation, attempts, &scrubbed)?;
        }
        let watches = self.watches_of(summary, &config, fold.state()).await?;
        let (context, events) = self.context(run, config, &Surroundings::of(summary, &fold), None)?;
        self.pass_down(run, below).await?;
        tracing::debug!(%run, records = lease.next_seq(), answers = answers.len(), "taking a run over");
        Ok(Taken { context, events, fold, watches, answers, messages })
    }

    /// Those who watch a run that was taken over, after they have seen what is open in it.
    pub(crate) async fn watches_of(
        &self,
        summary: &RunSummary,
        config: &Arc<AgentConfig>,
        state: &AgentState,
    ) -> Result<Watches, EngineError> {
        let run = summary.run;
        let mut watches = self.watches(run, summary.parent, config).await?;
        if watches.is_empty() {
            return Ok(watches);
        }
        // Snapshots are taken right after a step was requested, so what is open now began no earlier.
        let from = self.store().snapshot(run).await?.map_or(0, |snapshot| snapshot.seq);
        if from > 0 {
            watches.found(&self.store().first(run).await?, state);
        }
        for record in self.store().read(run, from).await? {
            watches.found(&record, state);
        }
        Ok(watches)
    }

    /// Sorts answers into the run's own and those of its child runs. The latter are checked here, before anything is recorded.
    async fn sort(
        &self,
        run: RunId,
        state: &AgentState,
        inputs: Vec<GateInput>,
    ) -> Result<(Vec<GateInput>, Vec<PassedOn>), EngineError> {
        let (mut own, mut below) = (Vec::new(), Vec::new());
        if inputs.is_empty() {
            return Ok((own, below));
        }
        let descendants = self.journal().descendants(run, state).await?;
        let theirs: Vec<(&Descendant, OperationId)> = descendants
            .iter()
            .flat_map(|one| waiting(one.run, &one.state).into_iter().map(move |waits| (one, waits.operation)))
            .collect();
        let mine = waiting(run, state);
        let mut by_run: BTreeMap<RunId, (&Descendant, Vec<GateInput>)> = BTreeMap::new();
        for mut input in inputs {
            let found = match input.operation {
                Some(id) => theirs.iter().find(|(_, operation)| *operation == id),
                None if mine.is_empty() && theirs.len() == 1 => theirs.first(),
                None if !mine.is_empty() && !theirs.is_empty() => {
                    let all = mine.iter().map(|one| one.operation).chain(theirs.iter().map(|(_, id)| *id));
                    return Err(EngineError::Answer { message: answers::which(run, all), is_late: false });
                }
                None => None,
            };
            match found {
                Some((descendant, operation)) => {
                    input.operation = Some(*operation);
                    by_run.entry(descendant.run).or_insert((*descendant, Vec::new())).1.push(input);
                }
                None => own.push(input),
            }
        }
        for (child, inputs) in by_run.into_values() {
            let expired = self.expired(&child.config, &child.state, &child.progress);
            let answers = answers::check(child.run, &child.config, &child.state, &expired, inputs)?;
            below.extend(self.addressed(child.run, child.records, &child.progress, answers));
        }
        Ok((own, below))
    }

    fn go_on(
        &self,
        run: RunId,
        taken: Taken,
        lease: Lease,
        line: Option<Line>,
    ) -> Result<RunHandle, EngineError> {
        let Taken { context, events, fold, watches, answers, messages } = taken;
        let (stop, stopped) = watch::channel(Stop::Go);
        let mut driver =
            Driver::new(context, Arc::clone(self.store()), lease, fold, watches, stopped).on(line);
        driver.narrow();
        driver.foresee_pause(&messages)?;
        driver.take_up()?;
        for (operation, answer) in answers {
            driver.answer(operation, answer)?;
        }
        Ok(RunHandle { run, is_new: false, begun: None, events, stop, task: self.perform(driver) })
    }
}

/// An answer for the process that performs a run.
struct PassedOn {
    to: RunId,
    /// How many records the run had before it was looked at.
    seen: u64,
    operation: OperationId,
    /// How many attempts the operation had when it was asked.
    attempts: u32,
    answer: Answer,
}

/// A run that was taken over.
struct Taken {
    context: Arc<RunContext>,
    events: broadcast::Receiver<RunEvent>,
    fold: Fold,
    watches: Watches,
    /// The answers to be recorded then.
    answers: Vec<(OperationId, Answer)>,
    /// What its inbox had.
    messages: Vec<(u64, Message)>,
}
