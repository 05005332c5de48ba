//! The engine in a simulated world: virtual time, seeded faults, and a reference model of what it promises.
//!
//! One seed is one history. It decides the agents and tools of a workspace, what becomes of each call of a tool or an endpoint,
//! when the store fails, is slow or full, when processes die, are stopped, lose their lock or are started, what people
//! answer, erase and fork, and when the clock is set wrong. Each seed has a mix of its own: some kinds of fault never happen
//! in its world, others often. Real engines with real workers run in it, on one thread and a paused clock; only what is
//! around them is simulated. People only leave messages: workers perform the runs, and everything must end once
//! everything is answered. The same seed gives the same history, byte for byte.
//!
//! ```
//! use dalsegno_testkit::{Faults, Simulation};
//!
//! let report = Simulation::new(7).with_faults(Faults::default()).run()?;
//! assert!(report.violations.is_empty(), "{report}");
//! # Ok::<(), dalsegno_testkit::SimulationError>(())
//! ```
//!
//! What is checked is a reference model that knows no core, no fold and no policy: nothing that was acknowledged is
//! lost, an operation has one outcome, an effect takes place as often as its class allows, a run has one owner, what
//! ended stays so, limits hold, nothing hangs, no call has an argument from a source that its agent does not trust unless a
//! person agreed, a model sees each picture of a tool once and byte for byte, and a journal
//! replays.
//!
//! [`Soak`] is the other way round: real time and a real disk for many runs at once, to see that memory stays flat and
//! that every run ends or says what it waits for.
//!
//! [`LiveModel`] is a provider of a live model over real sockets, and [`Carrier`] a telephone carrier, for tests of calls.
//!
//! [`VirtualClock`] and [`Faults`] serve tests of one's own as well.

mod batches;
mod carrier;
mod clock;
mod coverage;
mod endpoint;
mod error;
mod exchange;
mod faults;
mod guarantees;
mod live_model;
mod operator;
mod pictures;
mod process;
mod provider;
mod random;
mod receiver;
mod report;
mod shared;
mod simulation;
mod soak;
mod sqlite;
mod store;
mod usage;
mod voice_code;
mod workspace;
mod world;

pub use carrier::{Carrier, CarrierCall, CarrierStage};
pub use clock::VirtualClock;
pub use coverage::Coverage;
pub use error::SimulationError;
pub use faults::Faults;
pub use live_model::{
    LiveAnswer, LiveBook, LiveCaller, LiveControl, LiveFault, LiveKeys, LiveModel, LiveRefer, LiveStage,
    LiveTelephone, LiveWait, LiveWebhook,
};
pub use report::{Counts, Report};
pub use simulation::Simulation;
pub use soak::{Effects, MemoryUse, Soak, SoakReport, SoakSample};
pub use usage::{memory_below, memory_of, processor_of, processor_of_ended};
