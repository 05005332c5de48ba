//! What goes wrong in a simulated world, and how often.

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
    /// A call of a tool or a model goes wrong: lost before or after it was received, refused, never answered, answered
    /// with an error, or with a panic.
    pub call_fails: u32,
    /// A process dies at one of its next writes, before or after it. Counted for each process that begins.
    pub dies_at_write: u32,
    /// A process is killed at some instant. Counted, like all that follow, for each thing that the operator does.
    pub killed: u32,
    /// A process loses its lock and does not know it: others take its runs over while it goes on.
    pub loses_lock: u32,
    /// All processes are killed, and nothing happens for more than a day.
    pub downtime: u32,
    /// The clock is set back by an hour, or set right.
    pub clock_jumps: u32,
}

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
        loses_lock: 0,
        downtime: 0,
        clock_jumps: 0,
    };
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
            loses_lock: 25,
            downtime: 15,
            clock_jumps: 25,
        }
    }
}
