//! Whether an operation may start: its queue, its circuit breaker, and results that stand for further calls.

use std::time::Duration;

use dalsegno_core::{EffectClass, Operation, OperationId, Outcome, Request, ToolReturn};
use dalsegno_store::AttemptCause;

use super::running::Running;
use super::{Driver, Input};
use crate::effects::dispatch::{self, Admission, CacheKey, Permit};
use crate::effects::failure::AttemptError;
use crate::effects::tool::user_id;
use crate::error::RunFailure;
use crate::run::files::Files;

/// What a request is told before it is written down.
pub(super) enum Ask {
    /// It starts with the commit that writes it down, and has its permit if it is limited.
    Start(Option<Permit>),
    /// It waits for its turn.
    Wait(dispatch::Wait),
    /// It is refused, and nothing was sent.
    Refused(AttemptError),
}

impl Driver {
    /// Asks whether an operation may start now.
    pub(super) fn ask(&self, operation: &Operation) -> Ask {
        let model = match &operation.request {
            Request::ModelCompletion(completion) => {
                completion.settings(&self.context.config).ok().map(|settings| settings.name.as_str())
            }
            _ => None,
        };
        let in_process = match &operation.request {
            Request::ToolCall(call) => self.context.bindings.tool(&call.tool_name).is_some(),
            _ => false,
        };
        let Some(target) = dispatch::target(&operation.request, model, in_process) else {
            return Ask::Start(None);
        };
        match self.context.ports.dispatcher.admit(&target, &self.context.tenant) {
            Admission::Now(permit) => Ask::Start(Some(permit)),
            Admission::Later(wait) => Ask::Wait(wait),
            Admission::Refused(error) => Ask::Refused(error),
        }
    }

    /// Starts an attempt, or lets it wait for its turn. While the run stops it is put off.
    pub(super) fn admit(
        &mut self,
        id: OperationId,
        attempt: u32,
        cause: AttemptCause,
    ) -> Result<(), RunFailure> {
        let Some(operation) = self.missing().find(|operation| operation.id == id).cloned() else {
            return Ok(());
        };
        if self.stopping {
            self.attempt(id, attempt, cause, None);
            return Ok(());
        }
        if self.hold_back(&operation, cause)? {
            return Ok(());
        }
        match self.ask(&operation) {
            Ask::Start(permit) => {
                if self.may_start(id, cause)? {
                    self.attempt(id, attempt, cause, permit);
                }
                Ok(())
            }
            Ask::Wait(wait) => {
                self.wait(id, attempt, cause, wait);
                Ok(())
            }
            Ask::Refused(error) => self.decide(id, attempt, Some(cause), Err(error)),
        }
    }

    /// Lets an attempt wait for its turn.
    pub(super) fn wait(
        &mut self,
        operation: OperationId,
        attempt: u32,
        cause: AttemptCause,
        wait: dispatch::Wait,
    ) {
        self.flights.admit(operation);
        self.running.spawn(Running::pause(operation, attempt, cause), async move {
            let result = wait.admitted().await;
            Input::Admitted { operation, attempt, cause, result }
        });
    }

    /// Takes an attempt's turn.
    pub(super) fn admitted(
        &mut self,
        operation: OperationId,
        attempt: u32,
        cause: AttemptCause,
        result: Result<Permit, AttemptError>,
    ) -> Result<(), RunFailure> {
        self.flights.admitted(operation);
        match result {
            Ok(permit) if self.may_start(operation, cause)? => {
                self.attempt(operation, attempt, cause, Some(permit));
                Ok(())
            }
            Ok(_) => {
                self.fill()?;
                self.go_on()
            }
            Err(error) => self.settle(operation, attempt, Some(cause), Err(error)),
        }
    }

    /// A kept result of the same call, where the agent's file lets one stand for it.
    pub(super) fn kept(&self, operation: &Operation) -> Option<(ToolReturn, Files)> {
        let (key, age) = self.cache_key(operation)?;
        self.context.ports.dispatcher.cache.get(&key, age)
    }

    /// Keeps a result for further calls, where the agent's file lets it stand for them.
    pub(super) fn keep(&self, operation: OperationId, outcome: &Outcome, files: &Files) {
        let Outcome::ToolReturned(result) = outcome else { return };
        let operation = self.missing().find(|missing| missing.id == operation);
        if let Some((key, _)) = operation.and_then(|operation| self.cache_key(operation)) {
            self.context.ports.dispatcher.cache.put(key, result, files);
        }
    }

    fn cache_key(&self, operation: &Operation) -> Option<(CacheKey, Duration)> {
        let Request::ToolCall(call) = &operation.request else { return None };
        let age = self.context.config.tools.tools.get(&call.tool_name)?.cache_ms?;
        if operation.terms.class != EffectClass::Read {
            return None;
        }
        let server = call.tool_name.as_str().split('.').next().unwrap_or_default();
        let module = self.modules.get(server);
        let user = user_id(&self.machine.state().request().user);
        let is_shown = self.is_shown(operation.id);
        let key = CacheKey::new(&self.context.tenant, user, &call.tool_name, module, &call.parameters);
        Some((key.shown(is_shown), Duration::from_millis(age)))
    }

    /// Says whether a model reads the result of an operation itself: it is one of its calls, and no part of one.
    pub(super) fn is_shown(&self, operation: OperationId) -> bool {
        let state = self.machine.state();
        state.parent_of(operation).is_none() && state.call_id_of(operation).is_some()
    }
}
