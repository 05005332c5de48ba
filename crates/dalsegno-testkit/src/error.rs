//! What can go wrong with a simulation itself.

/// A world that could not be simulated; this says nothing about the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The folder of the workspace, or the runtime, could not be made.
    #[error("cannot make the simulated world: {0}")]
    World(#[from] std::io::Error),
    /// The generated workspace was refused: a defect of the generator, or of whoever checks workspaces.
    #[error("seed {seed}: the generated workspace is refused: {message}")]
    Workspace {
        /// The seed.
        seed: u64,
        /// What is wrong with it.
        message: String,
    },
}
