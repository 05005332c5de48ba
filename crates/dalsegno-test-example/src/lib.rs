//! Tests of the demo agents in Rust, as a project of your own has them: see the folder `tests`.
//!
//! The agents are the files in the folder `agents` of the repository. Their cases as TOML are in its folder `tests`, for comparison.
#![forbid(unsafe_code)]
