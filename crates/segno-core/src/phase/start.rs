//! A model-driven run begins: recall, then the first messages.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use segno_expr::Template;

use super::scope::RunScope;
use super::{Stop, think};
use crate::canonical::Canonical;
use crate::config::{AgentConfig, ModelMind};
use crate::event::Outcome;
use crate::operation::{GateState, MemorySearch, Request, Terms};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Pending, Phase, Then};
use crate::transcript::{Entry, Transcript};

/// A search answers in milliseconds; ten seconds allow for a busy disk.
pub(crate) const MEMORY_TIMEOUT_MS: u64 = 10_000;

/// Recalls first, if the agent does that.
pub(crate) fn model(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    let Some(recall) = &mind.recall else {
        return open(config, mind, state);
    };
    let max = config.limits.max_steps;
    if state.step >= max {
        return Err(think::limit_stop(alloc::format!("`limits.max_steps` ({max}) is reached")));
    }
    let query = render("memory.recall.query", &recall.query, state)?;
    let search = MemorySearch { query, limit: recall.limit, min_score: recall.min_score };
    state.decide(Decision::Recall);
    let request = Request::MemorySearch(Arc::new(search));
    state.wait_for(Then::Recall, vec![(request, Terms::read(MEMORY_TIMEOUT_MS), GateState::Open)]);
    Ok(())
}

/// Takes what recall found.
pub(crate) fn recalled(
    config: &AgentConfig,
    mind: &ModelMind,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    for pending in operations {
        match pending.outcome {
            Some(Outcome::MemoryFound(hits)) => state.recalled = hits,
            Some(Outcome::Failed(failure)) => {
                return Err(Stop::failed(
                    RunErrorCode::MemoryFailed,
                    alloc::format!("recall failed: {}", failure.message),
                    "look at the memory file that segno.toml names",
                ));
            }
            Some(Outcome::ModelReplied(_) | Outcome::MemoryCreated(_) | Outcome::ToolReturned(_)) | None => {}
        }
    }
    open(config, mind, state)
}

/// Renders the first messages, once: the prompt's prefix never changes afterwards.
fn open(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    let mut head = Canonical::new("head");
    mind.model.feed(&mut head);
    config.tools.feed(&mut head);
    let mut transcript = Transcript::begin(head.finish());
    if let Some(instructions) = &mind.instructions {
        transcript.push(Entry::Instructions(render("instructions", instructions, state)?));
    }
    transcript.push(Entry::User(render("prompt", &mind.prompt, state)?));
    state.transcript = transcript;
    state.phase = Phase::Think;
    Ok(())
}

/// Renders a template of the agent file as text.
pub(crate) fn render(
    what: &str,
    template: &Template,
    state: &AgentState,
) -> Result<alloc::string::String, Stop> {
    template.render_text(&RunScope(state)).map_err(|error| Stop::evaluation(what, &error))
}
