//! A model-driven run begins: recall, then the first messages.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use dalsegno_expr::Template;

use super::scope::RunScope;
use super::{Stop, think};
use crate::canonical::{Canonical, Digest};
use crate::config::{AgentConfig, ModelMind};
use crate::event::{Outcome, size};
use crate::inherit::{BYTES_MAX, ENTRIES_MAX};
use crate::join::{Pending, Then};
use crate::operation::{GateState, MemorySearch, Request, Terms};
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, HandedOver, Phase};
use crate::tokens::estimate_tokens;
use crate::transcript::{Entry, Transcript};

/// A search answers in milliseconds; ten seconds allow for a busy disk.
pub(crate) const MEMORY_TIMEOUT_MS: u64 = 10_000;

/// Recalls first, if the agent does that.
pub(crate) fn model(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    within_bounds(mind, state)?;
    state.keep_what_is_told(config);
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
    state.wait_for(config, Then::Recall, vec![(request, Terms::read(MEMORY_TIMEOUT_MS), GateState::Open)]);
    Ok(())
}

/// Checks that what the run takes over is no longer than what a session may have, unless it is about to be compacted.
fn within_bounds(mind: &ModelMind, state: &AgentState) -> Result<(), Stop> {
    let (entries, bytes) = (state.transcript.kept(), state.inherited_bytes);
    let is_compacted = mind.context.is_some_and(|context| state.transcript.tokens() > context.max_tokens);
    if bytes == 0 || is_compacted || (entries <= ENTRIES_MAX && bytes <= BYTES_MAX) {
        return Ok(());
    }
    let message = alloc::format!(
        "the transcript of the session has {entries} entries and about {bytes} bytes, more than {ENTRIES_MAX} entries or \
         {BYTES_MAX} bytes"
    );
    let help = "set `[context]` in the agent file with a `max_tokens` that the model allows, so that it is compacted, or \
                begin a new session";
    Err(Stop::failed(RunErrorCode::LimitExceeded, message, help))
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
                    "look at the memory file that dalsegno.toml names",
                ));
            }
            Some(
                Outcome::ModelReplied(_)
                | Outcome::MemoryCreated(_)
                | Outcome::MemoryTraversed(_)
                | Outcome::ToolReturned(_)
                | Outcome::ApiAnswered(_)
                | Outcome::EmailSent(_)
                | Outcome::TransferRequested
                | Outcome::AgentReturned(_)
                | Outcome::InputGiven(_)
                | Outcome::TimerFired,
            )
            | None => {}
        }
    }
    open(config, mind, state)
}

/// Renders the first messages, once: the prompt's prefix never changes afterwards.
fn open(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    let mut head = Canonical::new("head");
    mind.model.feed(&mut head);
    config.tools.feed(&mut head);
    let mut head_tokens = config.tools.tokens();
    if let Some(output) = &mind.output {
        output.schema.feed(head.tag(1));
        head_tokens = head_tokens.saturating_add(estimate_tokens(size(&output.schema) as u64));
    }
    let instructions = match &mind.instructions {
        Some(instructions) => Some(render("instructions", instructions, state)?),
        None => None,
    };
    let prompt = render("prompt", &mind.prompt, state)?;
    let inherited = core::mem::take(&mut state.transcript);
    let (mut transcript, goes_on) = begin(inherited, head.finish(), head_tokens, instructions);
    if !goes_on {
        state.asked = 0;
    }
    if state.inherited > 0 {
        state.inherited = transcript.len();
    }
    transcript.push(Entry::User(prompt));
    if let Some(HandedOver { agent, message: Some(message) }) = &state.request.handoff {
        transcript.push(Entry::User(alloc::format!("[`{agent}` handed over to you: {message}]")));
    }
    for attachment in &state.request.attachments {
        transcript.push(Entry::Attachment(attachment.clone()));
    }
    state.transcript = transcript;
    state.phase = Phase::Think;
    Ok(())
}

/// Begins the transcript, or goes on with that of the session's run before.
///
/// Where nothing has changed that stands before the first message it is the same transcript (`true`), so that the
/// provider's prompt cache holds from one run to the next. Otherwise it begins anew with the messages of the old one.
fn begin(
    inherited: Transcript,
    head: Digest,
    head_tokens: u64,
    instructions: Option<String>,
) -> (Transcript, bool) {
    let before = match inherited.iter().next() {
        Some(Entry::Instructions(text)) => Some(text),
        Some(_) | None => None,
    };
    if !inherited.is_empty() && inherited.head() == head && before == instructions.as_ref() {
        return (inherited, true);
    }
    let mut transcript = Transcript::begin(head, head_tokens);
    if let Some(instructions) = instructions {
        transcript.push(Entry::Instructions(instructions));
    }
    for entry in inherited.view().iter().filter(|entry| !matches!(entry, Entry::Instructions(_))) {
        transcript.push(entry.clone());
    }
    (transcript, false)
}

/// Renders a template of the agent file as text.
pub(crate) fn render(what: &str, template: &Template, state: &AgentState) -> Result<String, Stop> {
    template.render_text(&RunScope::new(state)).map_err(|error| Stop::evaluation(what, &error))
}
