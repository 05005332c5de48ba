//! One seed, one history.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dalsegno_store::{MemoryStore, Store};

use crate::error::SimulationError;
use crate::faults::Faults;
use crate::guarantees::Guarantees;
use crate::operator::{ACTIONS, Operator};
use crate::report::{Counts, Report};
use crate::sqlite::OnDisk;
use crate::workspace::{Mix, Plan};
use crate::world::World;

/// A world that a seed decides.
#[derive(Debug, Clone)]
pub struct Simulation {
    seed: u64,
    faults: Faults,
    left_out: BTreeSet<usize>,
}

impl Simulation {
    /// The world of this seed, with the seed's own mix of faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, faults: Faults::drawn(seed), left_out: BTreeSet::new() }
    }

    /// The same world with other faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Leaves out what is not needed for a promise to be broken: kinds of faults, then what the operator does, as long as some
    /// promise breaks still. A world in which all hold stays as it is.
    ///
    /// # Errors
    /// When a world cannot be made.
    pub fn shrink(self) -> Result<Self, SimulationError> {
        let mut least = self;
        if least.clone().run()?.violations.is_empty() {
            return Ok(least);
        }
        for name in Faults::names() {
            let fewer = Self { faults: least.faults.without(name), ..least.clone() };
            if !fewer.clone().run()?.violations.is_empty() {
                least = fewer;
            }
        }
        let mut length = ACTIONS / 2;
        while length > 0 {
            for from in (0..ACTIONS).step_by(length) {
                let mut fewer = least.clone();
                fewer.left_out.extend(from..(from + length).min(ACTIONS));
                if fewer.left_out != least.left_out && !fewer.clone().run()?.violations.is_empty() {
                    least = fewer;
                }
            }
            length /= 2;
        }
        Ok(least)
    }

    /// What is left of a world that was [shrunk](Self::shrink), in a line.
    pub fn outline(&self) -> String {
        let faults = Faults::names().iter().filter(|name| self.faults.without(name) != self.faults);
        let faults: Vec<&str> = faults.copied().collect();
        let actions: Vec<String> = (0..ACTIONS)
            .filter(|action| !self.left_out.contains(action))
            .map(|one| one.to_string())
            .collect();
        format!("faults: {}; actions: {}", faults.join(", "), actions.join(", "))
    }

    /// Lets everything happen. It takes a runtime of its own, so it must not be called within one.
    ///
    /// # Errors
    /// When the world cannot be made. What the engine does wrong is in the report.
    pub fn run(self) -> Result<Report, SimulationError> {
        self.run_then(async |_| ()).map(|(report, ())| report)
    }

    /// The same, and at its end something with the journal, while it is still there.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_then<T>(
        self,
        then: impl AsyncFnOnce(Arc<dyn Store>) -> T,
    ) -> Result<(Report, T), SimulationError> {
        let folder = tempfile::tempdir_in(scratch())?;
        let (plan, mix) = (Plan::generate(self.seed), Mix::generate(self.seed));
        plan.write(folder.path())?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let report = runtime.block_on(async {
            let world = Arc::new(World::new(self.seed, self.faults, Guarantees::new(&plan)));
            let store: Arc<dyn Store> = if mix.sqlite {
                world.count("store", "sqlite");
                Arc::new(OnDisk::open(&folder.path().join("journal.db"))?)
            } else {
                world.count("store", "memory");
                Arc::new(MemoryStore::new())
            };
            let mut operator =
                Operator::new(Arc::clone(&world), Arc::clone(&store), folder.path(), mix, self.left_out)
                    .await?;
            operator.work().await;
            if !world.violated() {
                operator.finish().await;
            }
            let deaths = operator.deaths();
            let (totals, runs, seen) = world.judge(|guarantees| {
                (guarantees.totals, guarantees.made() as u64, guarantees.coverage.clone())
            });
            let mut coverage = world.coverage();
            coverage.add(&seen);
            let counts = Counts {
                runs,
                records: totals.records,
                calls: totals.calls,
                effects: totals.effects,
                deaths,
                in_doubt: totals.in_doubt,
                recovered: totals.recovered,
                fenced: totals.fenced,
                time: world.clock.elapsed(),
            };
            let (violations, history) = (world.violations(), world.history());
            let report = Report { seed: self.seed, violations, history, counts, coverage };
            Ok((report, then(store).await))
        });
        // Work of other threads must not outlive the folder.
        drop(runtime);
        report
    }
}

/// Where the files of a world are: in memory where the system has such a folder, since nothing here outlives the process.
fn scratch() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
