//! What everybody in a simulated world shares: time, the history, the reference model.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dalsegno_core::RunId;

use crate::batches::Batches;
use crate::clock::VirtualClock;
use crate::coverage::Coverage;
use crate::faults::Faults;
use crate::guarantees::Guarantees;
use crate::random::Random;

/// A simulated world.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) clock: VirtualClock,
    faults: Faults,
    calm: AtomicBool,
    history: Mutex<String>,
    guarantees: Mutex<Guarantees>,
    /// Nothing can be written.
    disk_blocked: AtomicBool,
    /// How often what happened, by what kind of thing it is and its name.
    coverage: Mutex<Coverage>,
    /// Draws the ids of root runs.
    ids: Mutex<Random>,
    /// What the model's provider was handed and works on.
    pub(crate) batches: Mutex<Batches>,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, guarantees: Guarantees) -> Self {
        Self {
            seed,
            clock: VirtualClock::new(),
            faults,
            calm: AtomicBool::new(false),
            history: Mutex::default(),
            guarantees: Mutex::new(guarantees),
            disk_blocked: AtomicBool::new(false),
            coverage: Mutex::default(),
            ids: Mutex::new(Random::new(seed, "runs")),
            batches: Mutex::default(),
        }
    }

    /// What goes wrong now.
    pub(crate) fn faults(&self) -> Faults {
        if self.calm.load(Ordering::Relaxed) { Faults::NONE } else { self.faults }
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.block_disk(false);
    }

    /// Keeps the disk from taking any write, or lets it take them again.
    pub(crate) fn block_disk(&self, blocked: bool) {
        self.disk_blocked.store(blocked, Ordering::Relaxed);
    }

    pub(crate) fn disk_is_blocked(&self) -> bool {
        self.disk_blocked.load(Ordering::Relaxed)
    }

    /// Counts that something happened.
    pub(crate) fn count(&self, kind: &'static str, name: &str) {
        self.coverage.lock().unwrap_or_else(PoisonError::into_inner).count(kind, name);
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.coverage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The id of the next root run.
    pub(crate) fn next_run(&self) -> RunId {
        RunId::from_bytes(self.ids.lock().unwrap_or_else(PoisonError::into_inner).bytes())
    }

    /// Writes down what happened.
    pub(crate) fn note(&self, what: &str) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let what = without_owners(what);
        let _ = writeln!(history, "{:>12} ms  {what}", self.clock.elapsed().as_millis());
    }

    pub(crate) fn history(&self) -> String {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the reference model, or tells it something; writes down what it says.
    pub(crate) fn judge<T>(&self, tell: impl FnOnce(&mut Guarantees) -> T) -> T {
        let mut guarantees = self.guarantees();
        let known = guarantees.violations.len();
        guarantees.now = self.clock.elapsed();
        let result = tell(&mut guarantees);
        let notes = std::mem::take(&mut guarantees.notes);
        let violations: Vec<String> = guarantees.violations[known..].to_vec();
        drop(guarantees);
        for line in notes {
            self.note(&line);
        }
        for line in violations {
            self.note(&format!("BROKEN: {line}"));
        }
        result
    }

    pub(crate) fn violated(&self) -> bool {
        !self.guarantees().violations.is_empty()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.guarantees().violations.clone()
    }

    fn guarantees(&self) -> MutexGuard<'_, Guarantees> {
        self.guarantees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text without the ids of owners: they are drawn at random, and are the only thing that differs between two histories
/// of a seed.
fn without_owners(text: &str) -> String {
    const DIGITS: usize = 32;
    let mut clean = text.to_owned();
    for before in [" belongs to the running process ", "OwnerId("] {
        let mut parts = clean.split(before);
        let mut told = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let id = part.get(..DIGITS).filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let (owner, rest) = id.map_or(("", part), |_| ("another owner", &part[DIGITS..]));
            told.extend([before, owner, rest]);
        }
        clean = told;
    }
    clean
}
