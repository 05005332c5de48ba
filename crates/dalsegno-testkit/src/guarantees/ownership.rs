//! Who may have a run, take it, give it back, and be refused a write to it.

use std::sync::Arc;

use dalsegno_core::RunId;

use super::{Guarantees, Line, Unsaid};
use crate::process::Process;

impl Guarantees {
    /// Somebody took a run.
    pub(crate) fn acquired(&mut self, process: &Arc<Process>, run: RunId, epoch: u64) {
        let now = self.now;
        let Some(line) = self.runs.get_mut(&run) else {
            return self.broken(format!("the unknown run {run} was acquired"));
        };
        let mut wrong = Vec::new();
        if epoch <= line.epoch {
            wrong.push(format!("epoch {epoch} follows epoch {}", line.epoch));
        }
        if let Some(owner) = &line.owner
            && owner.number != process.number
            && owner.holds_lock()
        {
            wrong.push(format!("p{} took it from p{}, which lives", process.number, owner.number));
        }
        line.epoch = epoch;
        line.epochs.insert(process.number, epoch);
        line.owner = Some(Arc::clone(process));
        line.owned_since = now;
        line.unsaid.entry(process.number).or_default().wrote = false;
        let alias = line.alias.clone();
        self.notes.push(format!("p{} acquires {alias}, epoch {epoch}", process.number));
        wrong.into_iter().for_each(|what| self.broken(format!("{alias}: {what}")));
    }

    /// Somebody gave a run back.
    pub(crate) fn released(&mut self, process: &Process, run: RunId) {
        let Some(line) = self.runs.get_mut(&run) else { return };
        let mine = line.owner.as_ref().is_some_and(|owner| owner.number == process.number);
        let alias = line.alias.clone();
        line.owner = None;
        line.unsaid.entry(process.number).or_default().given_back();
        if !mine {
            self.broken(format!("{alias}: p{} gave it back and did not own it", process.number));
        }
    }

    /// Somebody could not give a run back, and tries again later.
    pub(crate) fn left(&mut self, process: &Process, run: RunId) {
        let Some(line) = self.runs.get_mut(&run) else { return };
        line.unsaid.entry(process.number).or_default().left = true;
    }

    /// An acquisition was refused since somebody owns the run.
    pub(crate) fn refused(&mut self, process: &Process, run: RunId) {
        let Some(line) = self.runs.get(&run) else { return };
        let held = line.owner.as_ref().is_some_and(|owner| owner.holds_lock());
        if !held {
            let alias = line.alias.clone();
            self.broken(format!("{alias}: p{} was refused a run that nobody alive owns", process.number));
        }
    }

    /// A write was refused since somebody else owns the run.
    pub(crate) fn fenced(&mut self, process: &Process, run: RunId) {
        self.totals.fenced += 1;
        let alias = self.name(run);
        self.notes.push(format!("p{} is refused a write to {alias}", process.number));
        if process.holds_lock() {
            self.broken(format!("{alias}: p{} lost it while it lived", process.number));
        }
    }
}

impl Line {
    /// The number of the process that writes its records.
    pub(super) fn writer(&self) -> u32 {
        self.owner.as_ref().map_or(0, |owner| owner.number)
    }
}

impl Unsaid {
    /// The process has written records of the run.
    pub(super) fn written(&mut self) {
        self.wrote = true;
        // Who only tries again to give it back writes nothing: this is another task, and the report is still to come of the one
        // that could not.
        if std::mem::take(&mut self.left) && !self.overtaken {
            self.overtaken = true;
            self.times += 1;
            self.mixed = true;
        }
    }

    fn given_back(&mut self) {
        self.left = false;
        if self.overtaken && !self.wrote {
            self.overtaken = false;
            return;
        }
        self.times += 1;
        self.mixed |= self.times > 1;
    }

    /// The process says how the run stood when it gave it back. Returns whether that may be about another time.
    pub(super) fn said(&mut self) -> bool {
        let mixed = self.mixed;
        self.times = self.times.saturating_sub(1);
        self.mixed &= self.times > 0;
        mixed
    }
}
