//! What goes wrong in a simulated world, and how often.

use crate::random::Random;

/// How often things go wrong, in thousandths of the times that they could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// A write of the store fails, and nothing was written.
    pub write_fails: u32,
    /// A write of the store is made, and the writer is told that it failed.
    pub write_unacknowledged: u32,
    /// A read of the store fails.
    pub read_fails: u32,
    /// The store takes up to half a second instead of a few milliseconds.
    pub store_slow: u32,
    /// A call of a tool, an endpoint or a model goes wrong: lost before or after it was received, refused, never answered,
    /// answered with an error, or with a panic.
    pub call_fails: u32,
    /// A process dies at one of its next writes, before or after it. Counted for each process that begins.
    pub dies_at_write: u32,
    /// A process is killed at some instant. Counted, like all that follow, for each thing that the operator does.
    pub killed: u32,
    /// A process is stopped for up to two hours, keeps its lock, and goes on where it was, as after SIGSTOP and SIGCONT.
    pub frozen: u32,
    /// A process loses its lock and does not know it: others take its runs over while it goes on.
    pub loses_lock: u32,
    /// The disk is full or locked for up to half a minute: no write of any process is made.
    pub disk_blocked: u32,
    /// All processes are killed, and nothing happens for more than a day.
    pub downtime: u32,
    /// The clock is set back by an hour or forward by up to two days, or set right.
    pub clock_jumps: u32,
    /// The memory never answers, before or after it did what it was asked.
    pub memory_silent: u32,
}

/// The kinds of fault, by the names of their fields.
const NAMES: [&str; 13] = [
    "write_fails",
    "write_unacknowledged",
    "read_fails",
    "store_slow",
    "call_fails",
    "dies_at_write",
    "killed",
    "frozen",
    "loses_lock",
    "disk_blocked",
    "downtime",
    "clock_jumps",
    "memory_silent",
];

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        write_fails: 0,
        write_unacknowledged: 0,
        read_fails: 0,
        store_slow: 0,
        call_fails: 0,
        dies_at_write: 0,
        killed: 0,
        frozen: 0,
        loses_lock: 0,
        disk_blocked: 0,
        downtime: 0,
        clock_jumps: 0,
        memory_silent: 0,
    };

    /// The mix of a seed: some kinds never happen, others more often than usual, so that no kind always hides what another
    /// one shows.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed, "faults");
        let mut drawn = Self::default();
        for name in NAMES {
            let share = random.pick(&[0, 0, 50, 100, 100, 200]);
            let rate = drawn.rate_mut(name);
            *rate = *rate * share / 100;
        }
        drawn
    }

    /// The names of all kinds.
    pub const fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The same without one kind; all of them where there is no such kind.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        *self.rate_mut(name) = 0;
        self
    }

    fn rate_mut(&mut self, name: &str) -> &mut u32 {
        match name {
            "write_fails" => &mut self.write_fails,
            "write_unacknowledged" => &mut self.write_unacknowledged,
            "read_fails" => &mut self.read_fails,
            "store_slow" => &mut self.store_slow,
            "call_fails" => &mut self.call_fails,
            "dies_at_write" => &mut self.dies_at_write,
            "killed" => &mut self.killed,
            "frozen" => &mut self.frozen,
            "loses_lock" => &mut self.loses_lock,
            "disk_blocked" => &mut self.disk_blocked,
            "downtime" => &mut self.downtime,
            "clock_jumps" => &mut self.clock_jumps,
            _ => &mut self.memory_silent,
        }
    }
}

impl Default for Faults {
    /// Enough that most runs meet some, and few enough that they get on.
    fn default() -> Self {
        Self {
            write_fails: 8,
            write_unacknowledged: 8,
            read_fails: 4,
            store_slow: 60,
            call_fails: 350,
            dies_at_write: 300,
            killed: 60,
            frozen: 30,
            loses_lock: 25,
            disk_blocked: 20,
            downtime: 15,
            clock_jumps: 25,
            memory_silent: 60,
        }
    }
}
