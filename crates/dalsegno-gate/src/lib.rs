//! Does a change alter what agents do? Recorded runs are folded through the workspace as it is now, with the outcomes that they
//! had: nothing is performed, and no model is asked.
//!
//! A [`Comparison`] compares what each run asked for with what it would ask for under the files as they are. Where that differs, it looks for the smallest set of
//! changed lines that explains the difference: it applies some of the lines and not others to the version that the run began
//! with, and folds the run again. This is delta debugging, by Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
//! Input" (IEEE Transactions on Software Engineering 28, 2002).
//!
//! What a fold cannot see: a model that would reply in another way to a request that has changed. After the first difference in what
//! is done, nothing is compared.
#![forbid(unsafe_code)]

mod candidate;
mod cause;
mod decision;
mod edit;
mod explain;
mod explainer;
mod forced;
mod gate;
mod live;
mod minimise;
mod report;
mod variants;
mod version;

pub use cause::Cause;
pub use decision::{Conclusion, Departure, Measured, Rate};
pub use edit::{Changed, Edit};
pub use forced::{Asker, ChangedRequests, Forced, Limits, changed_requests, force};
pub use gate::{Base, Comparison, Past, Progress};
pub use live::{Forked, Forks, Live, Reader, Whose, forks, live};
pub use report::{ChangedRun, Course, GateReport, Group, NotCompared, Reason};
pub use version::Version;
