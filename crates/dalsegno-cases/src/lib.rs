//! Folds the cases of a workspace: agents tested like functions.
//!
//! A case (`tests/*.toml`, read by `dalsegno-workspace`) gives what comes of everything that an agent asks for, and says what must
//! hold. A [`Suite`] folds each case through the pure core, in memory: no journal, no tool server, no network, no key, no clock.
//! So a case takes about a millisecond, and says the same on every machine.
//!
//! ```no_run
//! use dalsegno_cases::{Search, Suite};
//! use dalsegno_workspace::Workspace;
//!
//! # fn example() -> Option<()> {
//! let root = std::path::Path::new(".");
//! let workspace = Workspace::load(root).workspace?;
//! let cases = workspace.cases();
//! let (suite, _problems) = Suite::load(root, &cases);
//! for report in suite.run(Search::default(), |_, _| true) {
//!     println!("{}: {}", report.name, if report.passed() { "passed" } else { "failed" });
//! }
//! # Some(())
//! # }
//! ```
//!
//! A case may be a property: its outcomes are made up, again and again, and what breaks it is made as simple as it gets.
//! A [`Cassette`] holds the outcomes of a recorded run, keyed by the canonical form of what was asked.
#![forbid(unsafe_code)]

mod asked;
mod cassette;
mod compare;
mod fold;
mod heard;
mod judge;
mod miss;
mod one;
mod prepared;
mod property;
mod recorded;
mod render;
mod snapshot;
mod suite;
mod talk;
mod trajectory;
mod trouble;
mod world;

pub use asked::{Kind, Question};
pub use cassette::{Cassette, CassetteError};
pub use judge::{Failure, hold};
pub use one::{Folded, OneCase, values};
pub use property::{Numbers, Search, numbers};
pub use snapshot::{CaseSnapshot, SnapshotState};
pub use suite::{CaseReport, PlacedFailure, Suite};
pub use talk::{Talk, Talked};
pub use trajectory::{Done, End, Made, StepTaken, Trajectory};
