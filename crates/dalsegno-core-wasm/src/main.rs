//! One step of the core as a WASI program, so that its imports can be read.
//!
//! Reads `{"config": …, "state": …, "event": …}` from standard input, with the event optional, and prints the action.
//! Built for `wasm32-wasip1` it must import nothing but its pipes and the way to end: a clock anywhere below the core
//! would show up as `clock_time_get`, a `HashMap` as `random_get`. The `doors` test of xtask reads the list.

use std::error::Error;
use std::io;

use dalsegno_core::{AgentConfig, AgentState, Event, execute_agent_step};

/// What one step needs.
#[derive(serde::Deserialize)]
struct Input {
    config: AgentConfig,
    state: AgentState,
    event: Option<Event>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Input { config, mut state, event } = serde_json::from_reader(io::stdin().lock())?;
    if let Some(event) = event {
        state.resume(event)?;
    }
    let action = execute_agent_step(&config, state)?;
    serde_json::to_writer(io::stdout().lock(), &action)?;
    #[cfg(feature = "impure")]
    impure::leak()?;
    Ok(())
}

/// What the core must never do.
#[cfg(feature = "impure")]
mod impure {
    use std::collections::HashMap;
    use std::io::{self, Write as _};
    use std::time::Instant;

    /// Prints an age from a clock, and an order from a hash seed.
    pub(crate) fn leak() -> io::Result<()> {
        let ages: HashMap<&str, _> = [("first", Instant::now()), ("second", Instant::now())].into();
        writeln!(io::stdout(), "{ages:?}")
    }
}
