//! One seed, one history.

use std::sync::Arc;

use dalsegno_store::MemoryStore;

use crate::error::SimulationError;
use crate::faults::Faults;
use crate::guarantees::Guarantees;
use crate::operator::Operator;
use crate::report::{Counts, Report};
use crate::workspace::Plan;
use crate::world::World;

/// A world that a seed decides.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    seed: u64,
    faults: Faults,
}

impl Simulation {
    /// The world of this seed, with the usual faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, faults: Faults::default() }
    }

    /// The same world with other faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Lets everything happen. It takes a runtime of its own, so it must not be called within one.
    ///
    /// # Errors
    /// When the world cannot be made. What the engine does wrong is in the report.
    pub fn run(self) -> Result<Report, SimulationError> {
        let folder = tempfile::tempdir()?;
        let plan = Plan::generate(self.seed);
        plan.write(folder.path())?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on(async {
            let guarantees = Guarantees::new(&plan);
            let world = Arc::new(World::new(self.seed, self.faults, guarantees));
            let store = Arc::new(MemoryStore::new());
            let mut operator =
                Operator::new(Arc::clone(&world), store, folder.path(), plan.roots.clone()).await?;
            operator.work().await;
            if !world.violated() {
                operator.finish().await;
            }
            let deaths = operator.deaths();
            let (totals, runs) = world.judge(|guarantees| (guarantees.totals, guarantees.runs.len() as u64));
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
            Ok(Report { seed: self.seed, violations: world.violations(), history: world.history(), counts })
        })
    }
}
