//! What may be written, by whom, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{Answer, EffectClass, FailureCode, Gate, LiveNews, OperationId, Outcome, RunId, Status};
use dalsegno_store::{AttemptCause, Body, Evidence, NewRecord, Start, Started};

use super::pauses::{may_happen_in_a_pause, stop};
use super::{Guarantees, KEYS_KEPT, Line, Op, Question, may_retry, talk::all_settled};
use crate::process::Process;
use crate::workspace::{PHONE, is_document};

/// How long an owner may leave a cancel unread: it looks every 200 ms, and the store takes up to half a second.
const READS_WITHIN: Duration = Duration::from_secs(5);

/// How often beyond its retries an operation may be attempted since the process of an attempt died.
const RECOVERIES: u32 = 3;

/// Who answers when nobody does.
pub(super) const NOBODY: &str = "dalsegno";

/// A step of the clock that does not count as a jump, and how exactly it shows the time.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// The shortest that a generated plan waits, in milliseconds.
const SHORTEST_WAIT: u64 = 1_000;

impl Guarantees {
    /// A run was created with its first records.
    pub(crate) fn created(&mut self, process: &Arc<Process>, run: RunId, epoch: u64, records: &[NewRecord]) {
        let Some(Body::Started(started)) = records.first().map(|record| &record.body) else {
            return self.broken(format!("run {run} does not begin with `started`"));
        };
        self.made += 1;
        let alias = format!("r{}", self.made);
        if self.runs.contains_key(&run) {
            return self.broken(format!("{alias} was created twice"));
        }
        self.check_start(&alias, run, started);
        self.keep_asked(run, started);
        let line = Line {
            run,
            alias,
            agent: started.agent.to_string(),
            tenant: started.request.tenant.clone(),
            session: started.session.clone(),
            number: self.made,
            parent: started.parent,
            predecessor: started.predecessor,
            by_handoff: started.by_handoff,
            forked_from: None,
            inherits: false,
            erased: false,
            epochs: BTreeMap::from([(process.number, epoch)]),
            unsaid: BTreeMap::new(),
            orphaned: None,
            records: Vec::new(),
            epoch,
            owner: Some(Arc::clone(process)),
            ops: BTreeMap::new(),
            places: BTreeSet::new(),
            step: 0,
            signalled: false,
            ended: false,
            response: None,
            cancel_wanted: None,
            paused: false,
            pause_wanted: None,
            closes: false,
            owned_since: self.now,
            last_event: 0,
            ended_by: None,
            read: BTreeMap::new(),
            writing: None,
        };
        self.runs.insert(run, line);
        self.written(process, run, epoch, 0, records);
    }

    fn check_start(&mut self, alias: &str, run: RunId, started: &Started) {
        if let Some(parent) = started.parent
            && !started.by_handoff
        {
            if let Some(other) = self.children.insert(parent.operation, run) {
                let other = self.name(other);
                self.broken(format!("{alias} performs an operation that {other} performs already"));
            }
            let started = self.runs.get(&parent.run).and_then(|line| line.ops.get(&parent.operation));
            if !started.is_some_and(|op| op.started && !op.settled) {
                self.broken(format!("{alias} began before its operation had"));
            }
        }
        if started.parent.is_none() && !started.by_handoff {
            let busy = self.runs.values().find(|line| {
                line.parent.is_none()
                    && !line.ended
                    && line.tenant == started.request.tenant
                    && line.session == started.session
            });
            if let Some(other) = busy.map(|line| line.alias.clone()) {
                self.broken(format!("{alias} began in a session in which {other} goes on"));
            }
            self.check_turn(alias, started);
        }
        if let Some(key) = &started.start_key {
            let key = format!("{} {key}", started.request.tenant);
            if self.starts.insert(key.clone(), run).is_some() {
                self.broken(format!("{alias} began under a key that was used: `{key}`"));
            }
        }
    }

    /// A run of a session goes on from the last one, unless another one is named: no turn is lost.
    fn check_turn(&mut self, alias: &str, started: &Started) {
        let key = format!("{} {}", started.request.tenant, started.start_key.as_deref().unwrap_or_default());
        if self.after.contains(&key) {
            return;
        }
        let same = |line: &&Line| {
            let here = line.tenant == started.request.tenant && line.session == started.session;
            // What was erased is passed over.
            here && line.parent.is_none() && !line.erased
        };
        let last = self.runs.values().filter(same).max_by_key(|line| line.number);
        if started.predecessor != last.map(|line| line.run) {
            let last = last.map_or_else(|| "no run".to_owned(), |line| line.alias.clone());
            self.broken(format!("{alias} does not go on from {last}, the last of its session"));
        }
    }

    /// Says whether another run may do the same as this one: this one, or one that handed over to it, is a fork or has one.
    fn is_copied(&self, line: &Line) -> bool {
        let before = line.predecessor.filter(|_| line.by_handoff).and_then(|run| self.runs.get(&run));
        let has_fork = || self.runs.values().any(|other| other.forked_from == Some(line.run));
        line.forked_from.is_some() || has_fork() || before.is_some_and(|before| self.is_copied(before))
    }

    /// An owner tries to write records, perhaps not for the first time: what they say was decided when it first tried.
    pub(crate) fn writing(&mut self, run: RunId, epoch: u64, first: u64) {
        let now = self.now;
        if let Some(line) = self.runs.get_mut(&run)
            && line.writing.is_none_or(|(by, at, _)| (by, at) != (epoch, first))
        {
            line.writing = Some((epoch, first, now));
        }
    }

    /// Records are in the journal.
    pub(crate) fn written(
        &mut self,
        process: &Process,
        run: RunId,
        epoch: u64,
        first: u64,
        records: &[NewRecord],
    ) {
        let Some(mut line) = self.runs.remove(&run) else {
            return self.broken(format!("records of the unknown run {run}"));
        };
        let mut wrong = Vec::new();
        if line.epoch != epoch || line.owner.as_ref().is_none_or(|owner| owner.number != process.number) {
            wrong.push(format!(
                "p{} wrote under epoch {epoch}, and epoch {} owns it",
                process.number, line.epoch
            ));
        }
        if first != line.records.len() as u64 {
            wrong.push(format!("record {first} follows {} records", line.records.len()));
        }
        line.unsaid.entry(process.number).or_default().written();
        let decided = line.writing.filter(|(by, at, _)| (*by, *at) == (epoch, first));
        let decided = decided.map_or(self.now, |(_, _, since)| since);
        let cancel = self.unread(process, &line, line.cancel_wanted, decided);
        let orphaned = self.unread(process, &line, line.orphaned, decided);
        let paused = self.unread(process, &line, line.pause_wanted, decided);
        line.closes = line.agent == PHONE && records.iter().any(|record| ends(&record.body));
        for record in records {
            let words = describe(&line, record);
            self.notes.push(format!("p{} {} #{} {words}", process.number, line.alias, line.records.len()));
            self.totals.records += 1;
            self.coverage.count("record", record.body.kind().as_str());
            if let Body::Requested { label, .. } = &record.body {
                self.coverage.count("request", request_kind(label));
            }
            if orphaned && matches!(record.body, Body::Requested { .. }) && !line.signalled {
                wrong.push("it goes on, and the run that it works for ended long ago".into());
            }
            if cancel && matches!(record.body, Body::Requested { .. }) && !line.signalled {
                wrong.push("it goes on, and somebody wanted it to end long ago".into());
            }
            if paused && matches!(record.body, Body::Requested { .. }) && !line.signalled {
                wrong.push("it goes on, and somebody wanted it to stand still long ago".into());
            }
            if line.ended_by.is_none() && ends(&record.body) {
                line.ended_by = Some(process.number);
            }
            if let Err(what) = self.take(&mut line, record) {
                wrong.push(format!("{words}: {what}"));
            }
            line.records.push(record.clone());
        }
        for ((read_in, _), commits) in &mut line.read {
            *commits += u32::from(*read_in == epoch);
        }
        let alias = line.alias.clone();
        let ended = line.ended;
        self.runs.insert(run, line);
        if ended && records.iter().any(|record| ends(&record.body)) {
            let now = self.now;
            let below = |line: &&mut Line| line.parent.is_some_and(|parent| parent.run == run) && !line.ended;
            let handed = records.iter().any(|record| matches!(record.body, Body::HandedOff { .. }));
            for child in self.runs.values_mut().filter(below).filter(|_| !handed) {
                child.orphaned.get_or_insert(now);
            }
        }
        wrong.into_iter().for_each(|what| self.broken(format!("{alias}: {what}")));
    }

    /// Says whether the owner of a run has left unread for too long, at a time, what came at another.
    pub(super) fn unread(
        &self,
        process: &Process,
        line: &Line,
        came: Option<Duration>,
        at: Duration,
    ) -> bool {
        let thawed = self.thawed.get(&process.number).copied().unwrap_or_default();
        came.is_some_and(|came| at.saturating_sub(came.max(line.owned_since).max(thawed)) > READS_WITHIN)
    }

    fn take(&mut self, line: &mut Line, record: &NewRecord) -> Result<(), String> {
        // The core knows no other time than that of its news and of the end of a pause. What a declarative tool came to is its own conclusion: a run that was
        // paused in between writes it down later.
        let is_conclusion = matches!(&record.body, Body::Resolved { outcome, .. } if !matches!(outcome, Outcome::Failed(_)))
            && record.operation.and_then(|id| line.ops.get(&id)).is_some_and(|op| op.is_declared);
        if !is_conclusion
            && !matches!(
                record.body,
                Body::Requested { .. }
                    | Body::Attempted { .. }
                    | Body::Suspended { .. }
                    | Body::Paused { .. }
            )
        {
            line.last_event = line.last_event.max(record.at.as_millis());
        }
        let late = matches!(record.body, Body::Late { .. });
        let ends = ends(&record.body);
        let is_call = line.agent == PHONE;
        if line.ended && !late {
            return Err("the run had ended".into());
        }
        if line.signalled && !late && !ends {
            return Err("the run was to end".into());
        }
        if line.paused && !line.signalled && !may_happen_in_a_pause(&record.body) {
            return Err("the run stands still".into());
        }
        let first = matches!(record.body, Body::Started(_));
        if first != line.records.is_empty() {
            return Err("a start is the first record, and no other".into());
        }
        match &record.body {
            Body::Forked { run, .. } | Body::Adopted { run, .. } => {
                line.forked_from = Some(*run);
                Ok(())
            }
            Body::Inherited(_) => {
                line.inherits = true;
                if line.records.len() == 1 { Ok(()) } else { Err("it has gone on already".into()) }
            }
            Body::Conversed { news } => {
                self.heard(line.run, news);
                Ok(())
            }
            Body::Started(_)
            | Body::Rebound { .. }
            | Body::Narrowed { .. }
            | Body::Denied { .. }
            | Body::Tasked { .. } => Ok(()),
            Body::Signalled { .. } => {
                line.signalled = true;
                Ok(())
            }
            Body::Paused { .. } => stop(line),
            Body::Continued { .. } if !line.paused => Err("nobody had paused it".into()),
            Body::Continued { .. } => {
                line.paused = false;
                Ok(())
            }
            Body::Suspended { waiting_for, wake_at } => {
                if waiting_for.is_empty() && wake_at.is_none() {
                    return Err("the run is suspended without a reason".into());
                }
                Ok(())
            }
            Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
                line.ended = true;
                line.response = Some(response.clone());
                let fits = match response.status {
                    Status::Completed => matches!(record.body, Body::Completed { .. }),
                    Status::Failed => matches!(record.body, Body::Failed { .. }),
                    Status::Cancelled | Status::HandedOff => matches!(record.body, Body::Cancelled { .. }),
                };
                if !fits {
                    return Err(format!("its response says {:?}", response.status));
                }
                all_settled(line, is_call)
            }
            Body::HandedOff { .. } => {
                line.ended = true;
                all_settled(line, is_call)
            }
            Body::Requested { step, ordinal, label, class, start, .. } => {
                let id = record.operation.ok_or("a request of nothing")?;
                if *step != line.step {
                    all_settled(line, is_call)?;
                }
                if *step < line.step || !line.places.insert((*step, ordinal.clone())) {
                    return Err("its place in the run was taken".into());
                }
                line.step = *step;
                let by = line.writer();
                let own = label.strip_prefix("tool `").and_then(|rest| rest.strip_suffix('`'));
                // A part is a call of the declarative tool that asks for it.
                let above = record.parent.and_then(|parent| line.ops.get(&parent));
                let tool = above.map_or(own, |above| above.tool.as_deref());
                let is_declared = above.is_none() && own.is_some_and(is_document);
                let fits =
                    is_declared || self.terms(&line.agent, tool).is_none_or(|terms| terms.class == *class);
                if let (Some(parent), Some(place)) = (record.parent, ordinal.last()) {
                    self.requests.insert(format!("{parent}{place:04x}"), (line.run, id));
                }
                let tool = tool.map(str::to_owned);
                let now = *start == Start::Now;
                let op = Op {
                    alias: format!("{}.o{}", line.alias, line.ops.len() + 1),
                    tool,
                    above: record.parent,
                    is_declared,
                    class: *class,
                    step: *step,
                    attempts: u32::from(now),
                    started: now,
                    recoveries: 0,
                    doubt: false,
                    first: now.then_some(self.now),
                    intents: now.then_some((1, by)).into_iter().collect(),
                    called: BTreeSet::new(),
                    gate: None,
                    approved: false,
                    denied: false,
                    settled: false,
                    failed_plainly: false,
                    late: false,
                    late_known: false,
                    effects: 0,
                    on_its_way: 0,
                    arguments: None,
                    // A fork goes on at the time at which the other run stood.
                    requested: if line.forked_from.is_some() { 0 } else { line.last_event },
                    asked: record.at.as_millis(),
                    asked_at: self.elapsed_at(record.at),
                };
                if line.ops.insert(id, op).is_some() {
                    return Err("it was requested before".into());
                }
                if fits { Ok(()) } else { Err("it is of another class than its tool".into()) }
            }
            body => {
                let id = record.operation.ok_or("it is about no operation")?;
                // A clock that was set says nothing.
                let at = (!self.clock_was_set()).then_some(record.at.as_millis());
                self.take_of(line, id, body, at)
            }
        }
    }

    fn take_of(
        &mut self,
        line: &mut Line,
        id: OperationId,
        body: &Body,
        at: Option<u64>,
    ) -> Result<(), String> {
        let (agent, signalled, ended) = (line.agent.clone(), line.signalled, line.ended);
        let witness = line.owner.as_ref().and_then(|owner| self.witness_since(owner));
        let (now, patience) = (self.now, self.patience.get(&agent).copied());
        let by = line.writer();
        let is_over = line.closes || self.is_over(line.run);
        let op = line.ops.get_mut(&id).ok_or("it was never requested")?;
        let terms = self.terms(&agent, op.tool.as_deref());
        if op.settled {
            return Err("it had its outcome".into());
        }
        match body {
            Body::Attempted { attempt, cause, start, reason: _ } => {
                if op.gate.is_some() {
                    return Err("it waits for an answer".into());
                }
                self.totals.recovered += u64::from(*cause == AttemptCause::Recovered);
                let result = attempted(op, *attempt, (*cause, *start), terms.as_ref(), now);
                op.attempts = *attempt;
                op.started = *start == Start::Now;
                if op.started {
                    op.intents.insert(*attempt, by);
                    op.first.get_or_insert(now);
                }
                result
            }
            Body::Waiting { gate } => {
                let question = match gate {
                    Gate::Approval => Question::Approval,
                    Gate::Input => Question::Input,
                    Gate::InDoubt { .. } => Question::InDoubt,
                    Gate::Secret { .. } => Question::Secret,
                    Gate::Elicitation { .. } => return Err("nothing here is asked by a server".into()),
                };
                if op.gate.replace(question).is_some() {
                    return Err("it waited already".into());
                }
                self.totals.in_doubt += u64::from(question == Question::InDoubt);
                let possible = match question {
                    Question::Approval | Question::Input => op.attempts == 0,
                    Question::InDoubt => {
                        (op.started || op.doubt)
                            && match op.class {
                                EffectClass::Keyed | EffectClass::Unsafe => true,
                                // Its process died of it as often as is allowed.
                                EffectClass::Idempotent => op.recoveries >= RECOVERIES,
                                EffectClass::Read | EffectClass::Composite => false,
                            }
                    }
                    Question::Secret => op.tool.as_deref() == Some("shop.locked"),
                };
                if possible { Ok(()) } else { Err("there was nothing to ask".into()) }
            }
            Body::Verified { tries: 0, .. } => match op.gate {
                Some(Question::InDoubt) => Ok(()),
                _ => Err("a tool is asked about it, and nobody doubts it".into()),
            },
            Body::Verified { evidence, .. } => {
                let word = match evidence {
                    Evidence::Happened => "happened",
                    Evidence::NotHappened => "not happened",
                    Evidence::Unknown => "unknown",
                };
                self.coverage.count("verify", word);
                match evidence {
                    _ if op.gate != Some(Question::InDoubt) => Err("nobody doubted it".into()),
                    Evidence::Happened if op.effects == 0 => Err("it did not take place".into()),
                    Evidence::NotHappened if op.effects > 0 => Err("it took place".into()),
                    Evidence::Happened | Evidence::NotHappened | Evidence::Unknown => Ok(()),
                }
            }
            Body::Answered { answer } => {
                let fits = matches!(
                    (op.gate.take(), answer),
                    (
                        Some(Question::Approval | Question::Secret),
                        Answer::Approved { .. } | Answer::Denied { .. }
                    ) | (Some(Question::Input), Answer::Given { .. } | Answer::Denied { .. })
                        | (Some(Question::InDoubt), Answer::Done { .. } | Answer::NotDone { .. })
                );
                match answer {
                    // Nothing of it has started since.
                    Answer::Approved { .. } | Answer::Supplied { .. } => {
                        (op.approved, op.started) = (true, false);
                    }
                    Answer::Denied { .. } => (op.denied, op.settled) = (true, true),
                    Answer::Given { .. } | Answer::Done { .. } => op.settled = true,
                    Answer::NotDone { .. } => {
                        (op.doubt, op.started, op.first) = (false, false, None);
                    }
                }
                // The engine answers for somebody who does not, when the time for it is over.
                if let (Answer::Denied { by: Some(by), .. }, Some(at)) = (answer, at)
                    && by == NOBODY
                    && patience.is_none_or(|patience| at < op.asked + patience)
                {
                    return Err(format!(
                        "there was still time to answer: asked at {}, answered at {at}",
                        op.asked
                    ));
                }
                if let (Answer::Denied { by: Some(by), .. }, Some(asked)) = (answer, op.asked_at)
                    && by == NOBODY
                    && witness.is_some_and(|since| since <= asked)
                    && let Some(patience) = patience.map(Duration::from_millis)
                    && now + CLOCK_STEP < asked + patience
                {
                    let after = now.saturating_sub(asked);
                    return Err(format!("a clock that was set left no more time to answer than {after:?}"));
                }
                if fits { Ok(()) } else { Err("nobody asked that".into()) }
            }
            Body::Resolved { outcome, .. } => {
                // A question that the end of its call withdraws waits for no answer any more.
                let question = op.gate.take();
                op.settled = true;
                let child =
                    |other: &&Line| !other.ended && other.parent.is_some_and(|parent| parent.operation == id);
                let goes_on = self.runs.values().find(child).map(|other| other.alias.clone());
                if let Some(other) = goes_on {
                    return Err(format!("its child run {other} has not ended"));
                }
                let result = outcome_fits(op, outcome, at);
                let unique = line.parent.is_none() && !self.is_copied(line) && !self.has_pruned;
                if unique && matches!(outcome, Outcome::MemoryCreated(created) if created.duplicate) {
                    return Err("it finds a duplicate of what it wrote itself".into());
                }
                let found = self.came_from(line, id, outcome);
                // Who has hung up is not asked any more, nor is anybody about a call that ends by itself.
                let is_denied =
                    matches!(outcome, Outcome::Failed(failure) if failure.code == FailureCode::Denied);
                let is_withdrawn = is_over && is_denied && question != Some(Question::InDoubt);
                if question.is_some() && !is_withdrawn {
                    return Err("it waits for an answer".into());
                }
                result.and(found)
            }
            Body::Late { outcome, .. } => {
                if !(signalled || ended) {
                    return Err("nothing is late before the end".into());
                }
                op.late = true;
                // That it is in doubt is replaced by what came of it, and by nothing after that.
                let in_doubt =
                    matches!(outcome, Outcome::Failed(failure) if failure.code == FailureCode::Indeterminate);
                if std::mem::replace(&mut op.late_known, !in_doubt) {
                    return Err("it had an outcome that was late".into());
                }
                outcome_fits(op, outcome, at)
            }
            _ => Ok(()),
        }
    }
}

fn ends(body: &Body) -> bool {
    matches!(
        body,
        Body::Completed { .. } | Body::Failed { .. } | Body::Cancelled { .. } | Body::HandedOff { .. }
    )
}

/// A further attempt: does the class allow it?
fn attempted(
    op: &mut Op,
    attempt: u32,
    (cause, start): (AttemptCause, Start),
    terms: Option<&crate::workspace::ToolTerms>,
    now: Duration,
) -> Result<(), String> {
    if op.tool.is_none() && matches!(op.class, EffectClass::Composite) {
        return Ok(());
    }
    let expected = if op.started { op.attempts + 1 } else { op.attempts.max(1) };
    // One that was refused before it was sent has its number still.
    if attempt < expected || attempt > op.attempts + 1 {
        return Err(format!("attempt {attempt} follows attempt {}", op.attempts));
    }
    match cause {
        AttemptCause::Recovered => op.doubt |= op.started,
        AttemptCause::Failed { possibly_received, .. } => op.doubt |= possibly_received,
        AttemptCause::Answered | AttemptCause::Queued => {}
    }
    let Some(terms) = terms else { return Ok(()) };
    if matches!(cause, AttemptCause::Failed { .. }) && attempt > terms.retries + 1 {
        return Err(format!("it has {} attempts", terms.retries + 1));
    }
    // One that was put off never started, so its process did not die of it; nor did one that puts it off now.
    if cause == AttemptCause::Recovered && op.started && start == Start::Now {
        op.recoveries += 1;
        if op.recoveries > terms.retries + RECOVERIES {
            return Err(format!("it is attempted once more after {} deaths", op.recoveries - 1));
        }
    }
    let old = op.first.is_some_and(|first| now.saturating_sub(first) > KEYS_KEPT);
    let twice_is_wrong = op.class == EffectClass::Unsafe || (op.class == EffectClass::Keyed && old);
    if op.doubt && twice_is_wrong && !(may_retry(terms.policy) && attempt <= terms.retries + 1) {
        return Err("it may have taken place, and must not be repeated".into());
    }
    Ok(())
}

/// An outcome must not deny what happened.
fn outcome_fits(op: &mut Op, outcome: &Outcome, at: Option<u64>) -> Result<(), String> {
    let effect = matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe) && !op.is_declared;
    match outcome {
        // It took place, and what it gave back cannot be read.
        Outcome::Failed(failure) if failure.code.as_str() == "result_unreadable" => {
            if effect && op.effects == 0 {
                return Err("its result is said to be unreadable, and it did not take place".into());
            }
            Ok(())
        }
        Outcome::Failed(_) if op.is_declared => Ok(()),
        // Somebody's word that it was not done.
        Outcome::ApiAnswered(answer) if !(200..300).contains(&answer.status) => {
            op.failed_plainly = effect;
            refused(op, effect, &answer.status.to_string())
        }
        Outcome::ToolReturned(returned) if returned.is_error => refused(op, effect, "an error of its own"),
        Outcome::Failed(failure) if failure.code != FailureCode::Indeterminate => {
            let class = matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe);
            op.failed_plainly = class;
            if class && op.effects > 0 {
                return Err(format!("it failed plainly ({}), and took place", failure.code.as_str()));
            }
            Ok(())
        }
        Outcome::TimerFired if at.is_some_and(|at| at < op.requested + SHORTEST_WAIT) => {
            Err("its time had not come".into())
        }
        _ => Ok(()),
    }
}

/// What took place is not denied by a receiver that says no to a later attempt.
fn refused(op: &Op, effect: bool, word: &str) -> Result<(), String> {
    if effect && op.effects > 0 {
        return Err(format!("its outcome is a refusal ({word}), and it took place"));
    }
    Ok(())
}

/// What kind of request it is, by its label.
fn request_kind(label: &str) -> &'static str {
    match label.split([' ', '`']).next().unwrap_or_default() {
        "model" => "model completion",
        "tool" => "tool",
        "agent" => "agent",
        "question" => "question",
        "timer" => "timer",
        "memory" if label.contains("create") => "memory create",
        "memory" if label.contains("search") => "memory search",
        "memory" => "memory traverse",
        _ => "api call",
    }
}

/// A record in a few words.
fn describe(line: &Line, record: &NewRecord) -> String {
    let new = || format!("{}.o{}", line.alias, line.ops.len() + 1);
    let op = record.operation.map(|id| line.ops.get(&id).map_or_else(new, |op| op.alias.clone()));
    let op = op.map_or_else(String::new, |op| format!("{op} "));
    let detail = match &record.body {
        Body::Started(started) => format!("{} for {}", started.agent, started.request.tenant),
        Body::Requested { label, class, start, .. } => format!("{label} {class:?} {start:?}"),
        Body::Attempted { attempt, cause, start, reason: _ } => format!("{attempt} {cause:?} {start:?}"),
        Body::Waiting { gate } => format!("{gate:?}"),
        Body::Answered { answer } => format!("{answer:?}"),
        Body::Resolved { outcome, .. } | Body::Late { outcome, .. } => match outcome {
            Outcome::Failed(failure) => format!("failed {}: {}", failure.code.as_str(), failure.message),
            Outcome::ToolReturned(returned) if returned.is_error => "an error of the tool's own".into(),
            Outcome::ToolReturned(returned) => {
                returned.structured.as_ref().map_or_else(String::new, ToString::to_string)
            }
            other => {
                let words = format!("{other:?}");
                words.chars().take_while(|letter| *letter != '(' && *letter != ' ').collect()
            }
        },
        Body::Signalled { signal, .. } => format!("{signal:?}"),
        Body::Conversed { news } => news.iter().map(LiveNews::kind).collect::<Vec<_>>().join(", "),
        Body::Suspended { waiting_for, wake_at } => {
            format!("for {}, until {wake_at:?}", waiting_for.len())
        }
        Body::HandedOff { target, .. } => target.to_string(),
        _ => String::new(),
    };
    format!("{op}{} {detail}", record.body.kind())
}
