//! What goes wrong for whole processes, their clock and their disk.

use std::sync::Arc;
use std::time::Duration;

use super::{Machine, Operator};
use crate::process::Process;
use crate::world::World;

/// Longer than a receiver remembers a key; twice the half is as well.
const DOWNTIME: Duration = Duration::from_secs(27 * 60 * 60);

/// By how much the clock is wrong at times, in milliseconds. Set back by more, no process could tell a key that is too old.
const WRONG: [i64; 4] = [-3_600_000, -3_600_000, 3_600_000, 48 * 3_600_000];

impl Operator {
    /// Lets something go wrong, or not; says whether it did.
    pub(super) async fn trouble(&mut self) -> bool {
        let faults = self.world.faults();
        let kinds = [
            ("killed", faults.killed),
            ("loses_lock", faults.loses_lock),
            ("frozen", faults.frozen),
            ("disk_blocked", faults.disk_blocked),
            ("downtime", faults.downtime),
            ("clock_jumps", faults.clock_jumps),
        ];
        // Each is drawn, so that one that never happens changes nothing about the others.
        let drawn: Vec<&str> =
            kinds.iter().filter(|(_, rate)| self.random.chance(*rate)).map(|(name, _)| *name).collect();
        let Some(name) = drawn.first() else { return false };
        self.world.count("fault", name);
        match *name {
            "killed" => self.kill_one().await,
            "loses_lock" => self.unlock_one(),
            "frozen" => self.freeze_one(),
            "disk_blocked" => self.block_disk(),
            "downtime" => self.go_away().await,
            _ => {
                self.clock_is_wrong = !self.clock_is_wrong;
                let wrong = if self.clock_is_wrong { self.random.pick(&WRONG) } else { 0 };
                self.world.clock.set_wrong_by(wrong);
                self.world.judge(|guarantees| guarantees.clock_is_set(wrong));
                self.world.note(&format!("the clock is wrong by {wrong} ms"));
            }
        }
        true
    }

    pub(super) async fn kill_one(&mut self) {
        let number = self.random.below(self.machines.len() + self.stale.len());
        let machine = self.machines.get(number).or_else(|| self.stale.get(number - self.machines.len()));
        if let Some(machine) = machine {
            self.world.note(&format!("p{} is killed", machine.process.number));
            machine.process.kill();
        }
        self.bury().await;
    }

    fn unlock_one(&mut self) {
        let number = self.random.below(self.machines.len());
        if number < self.machines.len() {
            let machine = self.machines.remove(number);
            self.world.note(&format!("p{} loses its lock", machine.process.number));
            machine.process.lose_lock();
            machine.process.spare();
            self.stale.push(machine);
        }
    }

    /// Stops a process for a while; it keeps its lock, so that its runs wait for it.
    fn freeze_one(&mut self) {
        let pause = match self.random.below(4) {
            0 => self.random.millis(1_000, 60_000),
            1..3 => self.random.millis(60_000, 1_200_000),
            _ => self.random.millis(1_200_000, 7_200_000),
        };
        let Some(Machine { process, .. }) = self.machine() else { return };
        let world = Arc::clone(&self.world);
        world.note(&format!("p{} is stopped for {} ms", process.number, pause.as_millis()));
        process.freeze();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            thaw(&world, &process);
        });
    }

    /// Lets every stopped process continue.
    pub(super) fn thaw_all(&self) {
        let machines = self.machines.iter().chain(&self.stale);
        machines.for_each(|machine| thaw(&self.world, &machine.process));
    }

    fn block_disk(&mut self) {
        let pause = self.random.millis(500, 30_000);
        let world = Arc::clone(&self.world);
        world.note(&format!("the disk takes nothing for {} ms", pause.as_millis()));
        world.block_disk(true);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            world.note("the disk takes writes again");
            world.block_disk(false);
        });
    }

    pub(super) async fn kill_all(&mut self) {
        for machine in self.machines.iter().chain(&self.stale) {
            self.world.note(&format!("p{} is killed", machine.process.number));
            machine.process.kill();
        }
        self.bury().await;
    }

    async fn go_away(&mut self) {
        self.kill_all().await;
        if self.random.chance(500) {
            return self.stay_away(DOWNTIME).await;
        }
        self.stay_away(DOWNTIME / 2).await;
        // What goes on is stopped again at once.
        self.boot(false).await;
        let pause = self.random.millis(1, 400);
        tokio::time::sleep(pause).await;
        self.kill_all().await;
        self.stay_away(DOWNTIME / 2).await;
    }

    async fn stay_away(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.world.note("somebody comes back");
    }
}

/// Lets a process continue if it is stopped.
fn thaw(world: &World, process: &Process) {
    if process.is_frozen() && process.is_alive() {
        world.note(&format!("p{} continues", process.number));
        world.judge(|guarantees| guarantees.goes_on(process));
    }
    process.thaw();
}
