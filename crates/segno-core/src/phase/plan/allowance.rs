//! What the operations of one step may use together. Nothing leaves unless all of it fits.

use alloc::string::String;

use super::place::Place;
use crate::config::{AgentConfig, Budget, ModelSettings};
use crate::event::size;
use crate::id::AgentName;
use crate::operation::{Purpose, Request};
use crate::phase::budget::{self, Reservation, Shorter};
use crate::phase::{Stop, think};
use crate::response::RunErrorCode;
use crate::state::AgentState;

/// What is left of the run's limits for the operations of one step.
pub(super) struct Allowance<'a> {
    config: &'a AgentConfig,
    granted: Option<Budget>,
    left: Budget,
    bytes_left: u64,
    steps_left: u64,
    calls: u64,
}

impl<'a> Allowance<'a> {
    pub(super) fn new(config: &'a AgentConfig, state: &AgentState) -> Self {
        Self {
            config,
            granted: state.budget,
            left: budget::left(config, state),
            bytes_left: config.limits.max_state_bytes,
            steps_left: config.limits.max_steps.saturating_sub(state.step),
            calls: 0,
        }
    }

    /// The tool calls that were set aside.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Refuses a step more than the limit allows.
    pub(super) fn step(&self, place: Place<'_>) -> Result<(), Stop> {
        if self.steps_left > 0 {
            return Ok(());
        }
        let most = self.config.limits.max_steps;
        Err(place.stop(
            RunErrorCode::LimitExceeded,
            format_args!("`limits.max_steps` ({most}) is reached"),
            think::RAISE_THE_LIMIT,
        ))
    }

    /// Sets a tool call aside. Those of a step come before its child runs, which may take all that is left.
    pub(super) fn call(&mut self, place: Place<'_>) -> Result<(), Stop> {
        if let Some(left) = self.left.max_tool_calls.checked_sub(1) {
            self.left.max_tool_calls = left;
            self.calls += 1;
            return Ok(());
        }
        let most = self.config.limits.max_tool_calls;
        let (code, help) = (RunErrorCode::LimitExceeded, think::RAISE_THE_LIMIT);
        Err(match self.granted.map(|granted| granted.max_tool_calls).filter(|granted| *granted < most) {
            Some(granted) => place.stop(
                code,
                format_args!("the {granted} tool calls that the parent run grants are used up"),
                "raise the limits of the agent that starts this one, or give this one less to do",
            ),
            None => place.stop(code, format_args!("`limits.max_tool_calls` ({most}) is reached"), help),
        })
    }

    /// Sets aside what a child run may use; `None` for an agent that may not be called.
    pub(super) fn child(&mut self, agent: &AgentName) -> Option<Budget> {
        budget::grant(self.config, agent, &mut self.left)
    }

    /// Sets aside what a completion may take.
    pub(super) fn completion(
        &mut self,
        place: Place<'_>,
        model: &ModelSettings,
        input_tokens: u64,
        state: &AgentState,
    ) -> Result<Reservation, Stop> {
        budget::reserve(model, input_tokens, Shorter::No, &mut self.left).map_err(|limit| {
            place.stop(
                RunErrorCode::LimitExceeded,
                format_args!("{}", budget::too_little(self.config, state, limit)),
                "raise the limit in the agent file, or set `max_output_tokens` to what the reply needs",
            )
        })
    }

    /// Refuses operations that would make the state too large: it holds them until they have an outcome.
    pub(super) fn request(&mut self, place: Place<'_>, request: &Request) -> Result<(), Stop> {
        match self.bytes_left.checked_sub(bytes(request)) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(place.stop(
                RunErrorCode::LimitExceeded,
                format_args!(
                    "what the step asks for has more bytes than `limits.max_state` ({}) allows",
                    self.config.limits.max_state_bytes
                ),
                "pass on only the part of an earlier result that is needed, or raise the limit in the agent file",
            )),
        }
    }
}

/// About how many bytes a request takes.
fn bytes(request: &Request) -> u64 {
    let bytes = match request {
        Request::ModelCompletion(completion) => match &completion.purpose {
            Purpose::Step(prompt) => prompt.text.len() + prompt.instructions.as_ref().map_or(0, String::len),
            Purpose::Reply | Purpose::Summary { .. } => 0,
        },
        Request::MemorySearch(search) => search.query.len(),
        Request::MemoryCreate(create) => {
            let relations =
                create.relations.iter().map(|relation| relation.relation.len() + relation.to.len());
            create.entity.len() + create.entity_type.len() + create.content.len() + relations.sum::<usize>()
        }
        Request::MemoryTraverse(traverse) => traverse.from.len(),
        Request::ToolCall(call) => size(&call.parameters),
        Request::AgentCall(call) => call.text.len() + size(&call.data),
        Request::Input(input) => input.question.len(),
        Request::Timer(_) => 0,
    };
    bytes as u64
}
