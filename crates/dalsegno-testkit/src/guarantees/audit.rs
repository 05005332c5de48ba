//! What must be true of a whole journal: at every restart, and when everything is over.

use std::collections::BTreeSet;
use std::time::Duration;

use dalsegno_core::{AgentResponse, EffectClass, RunId};
use dalsegno_runtime::{Inspection, ReplayReport, RunEnd, RunReport};
use dalsegno_store::{Body, NewRecord, Record, RunStatus, RunSummary};

use super::{Guarantees, Question};
use crate::process::Process;

/// Longer than it takes a process to take a run and to say so.
const MOMENT: Duration = Duration::from_secs(1);

impl Guarantees {
    /// An observer, or somebody who follows a run, was told of a record: it must be in the journal already.
    pub(crate) fn told(&mut self, run: RunId, seq: u64, record: &NewRecord) {
        let known = self.runs.get(&run).and_then(|line| line.records.get(usize::try_from(seq).ok()?));
        if known != Some(record) {
            let alias = self.name(run);
            self.broken(format!("{alias}: record {seq} was shown and is not in the journal"));
        }
    }

    /// The journal as the store has it, against all that was written.
    pub(crate) fn compare(&mut self, run: RunId, records: &[Record], summary: &RunSummary) {
        let Some(line) = self.runs.get(&run) else {
            return self.broken(format!("the store has a run that nobody created: {run}"));
        };
        let same = |(written, found): (&NewRecord, &Record)| {
            written.at == found.at
                && written.operation == found.operation
                && written.parent == found.parent
                && written.body == found.body
        };
        let mut wrong = Vec::new();
        if records.len() < line.records.len() {
            wrong.push(format!("{} of {} acknowledged records are left", records.len(), line.records.len()));
        } else if records.len() > line.records.len() {
            wrong.push(format!("{} records, and {} were written", records.len(), line.records.len()));
        }
        if !line.records.iter().zip(records).all(same) {
            wrong.push("a record is not what was written".into());
        }
        if !records.iter().zip(0..).all(|(record, seq)| record.seq == seq) {
            wrong.push("the sequence numbers have a gap".into());
        }
        if summary.status.is_end() != line.ended {
            wrong.push(format!("it is listed as {}", summary.status));
        }
        if summary.status == RunStatus::Running {
            let open = line.ops.values().filter(|op| !op.settled).filter_map(|op| op.gate);
            let open: BTreeSet<&str> = open.map(Question::as_str).collect();
            let listed: BTreeSet<&str> = summary.waiting.iter().map(|kind| kind.as_str()).collect();
            if open != listed {
                wrong.push(format!("it waits for {open:?}, and is listed with {listed:?}"));
            } else if !open.is_empty() {
                self.coverage.count("waits", "while it is performed");
            }
        }
        let alias = line.alias.clone();
        wrong.into_iter().for_each(|what| self.broken(format!("{alias}: {what}")));
    }

    /// A fold of the journal.
    pub(crate) fn folded(&mut self, run: RunId, replay: &ReplayReport, inspection: &Inspection) {
        let alias = self.name(run);
        if let Some(divergence) = replay.divergence.as_ref().or(inspection.divergence.as_ref()) {
            self.broken(format!("{alias} does not replay: {divergence}"));
        } else if !replay.identical {
            self.broken(format!("{alias} does not replay"));
        }
        let error = inspection.response.as_ref().and_then(|response| response.error.as_ref());
        if error.is_some_and(|error| error.message.contains("the agent's rules deny this call")) {
            self.coverage.count("rule", "denies a step");
        }
        for decision in inspection.state.decisions() {
            match decision.to_string().as_str() {
                words if words.contains("the call was transferred") => self.ended_so(run, true),
                words if words.contains("the call is over") => self.ended_so(run, false),
                _ => {}
            }
        }
        let Some(line) = self.runs.get(&run) else { return };
        if let Some(response) = &line.response
            && inspection.response.as_ref() != Some(response)
        {
            self.broken(format!("{alias}: the fold ends otherwise than the journal"));
        }
    }

    /// A process lets go of a run: its live state against a fold of the journal.
    pub(crate) fn let_go(
        &mut self,
        process: &Process,
        report: &RunReport,
        epoch: u64,
        inspection: &Inspection,
    ) {
        let alias = self.name(report.run);
        // It may have been pruned meanwhile.
        let Some(line) = self.runs.get_mut(&report.run).filter(|line| !line.erased) else { return };
        let mixed = line.unsaid.entry(process.number).or_default().said();
        let mut wrong = Vec::new();
        // Somebody else may have it by now; and the same process may have had it again before it said how it stood.
        let untouched = line.epoch == epoch && line.owner.is_none() && !mixed;
        match &report.end {
            RunEnd::Ended(response) => {
                if inspection.response.as_ref() != Some(response) {
                    wrong.push("its report ends otherwise than a fold of its journal");
                }
                if !line.ended {
                    wrong.push("it is reported as ended, and its journal goes on");
                }
            }
            RunEnd::Suspended { waiting, wake_at, .. } if untouched && !line.ended => {
                let last = line.records.last().map(|record| &record.body);
                let says =
                    matches!(last, Some(Body::Suspended { waiting_for, .. }) if !waiting_for.is_empty());
                if waiting.is_empty() && wake_at.is_none() && !says {
                    wrong.push("it waits for nothing");
                }
                let own = |one: &&dalsegno_runtime::WaitingOperation| one.run == report.run;
                let mut live: Vec<_> = waiting.iter().filter(own).map(|one| one.operation).collect();
                let mut folded: Vec<_> =
                    inspection.waiting.iter().filter(own).map(|one| one.operation).collect();
                live.sort_unstable();
                folded.sort_unstable();
                if live != folded {
                    wrong.push("it waits for something else than a fold of its journal");
                }
            }
            RunEnd::Paused { .. } if untouched && !line.ended && !line.paused => {
                wrong.push("it is reported as paused, and its journal says nothing of it");
            }
            RunEnd::Suspended { .. } | RunEnd::Paused { .. } | RunEnd::Interrupted => {}
        }
        if untouched && report.before.is_empty() {
            if report.steps != inspection.state.step() {
                wrong.push("its state has another step than a fold of its journal");
            }
            if report.usage != inspection.state.usage() {
                wrong.push("its state has used something else than a fold of its journal");
            }
        }
        let mine = line.owner.as_ref().is_some_and(|owner| owner.number == process.number);
        // Another task of the same process may have taken it a moment ago.
        let for_a_while = self.now.saturating_sub(line.owned_since) > MOMENT;
        if line.epoch == epoch && mine && !line.ended && process.holds_lock() && for_a_while {
            wrong.push("it lets go and keeps the run");
        }
        // A report of the end is also given to whoever asks later, while the owner still waits for what is under way.
        let is_over = line.ended && line.owner.is_none();
        if is_over && line.signalled && line.ended_by == Some(process.number) {
            let twice_is_wrong =
                |op: &&super::Op| matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe);
            let mut effects = line.ops.values().filter(twice_is_wrong);
            if effects.any(|op| op.effects > 0 && !op.settled && !op.late) {
                wrong.push("an effect took place, and nothing is written of it");
            }
        }
        for what in wrong {
            self.broken(format!("{alias}, of p{}: {what}", process.number));
        }
    }

    /// The epoch under which a process had a run last.
    pub(crate) fn epoch_of(&self, run: RunId, process: &Process) -> u64 {
        let epochs = self.runs.get(&run).map(|line| &line.epochs);
        epochs.and_then(|epochs| epochs.get(&process.number).copied()).unwrap_or_default()
    }

    /// A run that has ended was asked for once more.
    pub(crate) fn ended_again(&mut self, run: RunId, response: &AgentResponse) {
        let alias = self.name(run);
        if let Some(line) = self.runs.get(&run)
            && line.response.as_ref() != Some(response)
        {
            self.broken(format!("{alias} ended otherwise before"));
        }
    }

    /// Everything is over: what took place has a word in the journal.
    pub(crate) fn close(&mut self) {
        self.close_accounts();
        let mut wrong = Vec::new();
        for line in self.runs.values() {
            if !line.ended {
                wrong.push(format!("{} neither ends nor can be led to its end", line.alias));
            }
            for op in line.ops.values() {
                let twice_is_wrong = matches!(op.class, EffectClass::Keyed | EffectClass::Unsafe);
                let told = op.settled || op.late;
                let excused = line.signalled && !twice_is_wrong;
                if op.effects > 0 && !told && !excused {
                    wrong.push(format!("{} took place, and the journal does not know", op.alias));
                }
            }
        }
        self.violations.extend(wrong);
    }
}
