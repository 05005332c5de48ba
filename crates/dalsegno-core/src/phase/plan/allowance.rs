//! What the operations of one step may use together. Nothing leaves unless all of it fits.

use alloc::string::String;

use super::place::Place;
use super::request::Draft;
use crate::config::{AgentConfig, Budget, ModelSettings};
use crate::event::size;
use crate::operation::{Purpose, Request};
use crate::phase::budget::{self, Reservation, Short, Shorter};
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

    /// Sets a tool call aside, or the start of a child run, which counts as one.
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

    /// Sets aside what the first attempt of a completion may take.
    pub(super) fn completion(
        &mut self,
        place: Place<'_>,
        model: &ModelSettings,
        input_tokens: u64,
        state: &AgentState,
    ) -> Result<Reservation, Stop> {
        budget::reserve(model, input_tokens, Shorter::No, &mut self.left).map_err(|short| {
            let help = match short {
                Short::Limit(_) => {
                    "raise the limit in the agent file, or set `max_output_tokens` to what the reply needs"
                }
                Short::NoPrice => short.help(),
            };
            let message = budget::too_little(self.config, state, model, (short, Shorter::No), input_tokens);
            place.stop(RunErrorCode::LimitExceeded, format_args!("{message}"), help)
        })
    }

    /// Shares out what the first attempts leave: further ones as far as they fit, then the child runs.
    pub(super) fn share(&self, drafts: &mut [Draft]) {
        let mut left = self.left;
        for Draft { request, terms, .. } in drafts.iter_mut() {
            if let Request::ModelCompletion(completion) = request
                && let Purpose::Step(prompt) = &completion.purpose
            {
                terms.retries = budget::retries(&prompt.model, completion.reserved, &mut left);
            }
        }
        budget::share(drafts.iter_mut().map(|draft| &mut draft.request), left);
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
            Purpose::Step(prompt) => {
                let instructions = prompt.instructions.as_ref().map_or(0, String::len);
                prompt.text.len() + instructions + prompt.schema.as_ref().map_or(0, |schema| size(schema))
            }
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
        Request::Input(input) => input.question.len() + input.schema.as_ref().map_or(0, size),
        // A plan asks for the others only through a tool.
        Request::Timer(_) | Request::ApiCall(_) | Request::Email(_) | Request::Transfer(_) => 0,
    };
    bytes as u64
}
