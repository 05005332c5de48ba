//! Tasks: attempts, timers, child runs, and what the loop waits for.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dalsegno_core::Received;
use dalsegno_core::{
    Failure, FailureCode, Operation, OperationId, Outcome, Request, ToolCall, ToolKind, ToolName,
};
use dalsegno_protocol::Caller;
use dalsegno_store::{AttemptCause, NewRecord};
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::flight::{Paused, Starting};
use super::running::Running;
use super::{Driver, HOLD, Input};
use crate::effects::failure::AttemptError;
use crate::effects::policy;
use crate::effects::policy::{Effect, is_free};
use crate::effects::tool::user_id;
use crate::error::RunFailure;
use crate::run::attempt::Attempt;
use crate::run::children;
use crate::run::children::Below;
use crate::run::context::Within;
use crate::run::declared::Asker;
use crate::run::engine_tools::SEND_DIGITS;
use crate::run::handle::Stop;
use crate::run::tasks::Tasking;

impl Driver {
    /// Starts what the last commit announced, and lets go on what waited for it.
    pub(super) fn launch(&mut self) {
        self.send_commands();
        self.acknowledge();
        self.end_released();
        self.ask_questions();
        for Starting { operation: id, attempt, permit, at } in self.flights.take_starting() {
            let Some(operation) = self.missing().find(|operation| operation.id == id).cloned() else {
                continue;
            };
            tracing::debug!(run = %self.context.run, operation = %id, attempt, request = %operation.request.label(), "attempt");
            match &operation.request {
                Request::Timer(timer) => {
                    let left =
                        Duration::from_millis(timer.until.as_millis().saturating_sub(self.now().as_millis()));
                    // A longer one wakes the run when it is suspended.
                    if left <= HOLD {
                        self.running.spawn(Running::idle(id, attempt), async move {
                            tokio::time::sleep(left).await;
                            Input::Attempted { operation: id, attempt, result: Ok(Outcome::TimerFired) }
                        });
                    }
                }
                Request::AgentCall(call) => {
                    let (context, call) = (Arc::clone(&self.context), Arc::clone(call));
                    let (state, stop) = (self.machine.state(), self.below.subscribe());
                    let within =
                        Within { ask_effects: state.asks_effects(), context: state.session().clone().own() };
                    self.running.spawn(Running::busy(id, attempt, false), async move {
                        match children::perform(context, id, call, within, stop).await {
                            Below::Done(result) => Input::Attempted { operation: id, attempt, result },
                            Below::Suspended { waiting, wake_at, answer_by } => {
                                // One that waits for nothing of its own has a child run that another process performs.
                                let elsewhere = waiting.is_empty() && wake_at.is_none();
                                let paused = Paused { waiting, wake_at, answer_by, elsewhere };
                                Input::Paused { operation: id, paused }
                            }
                            Below::Elsewhere => Input::Paused { operation: id, paused: Paused::elsewhere() },
                            Below::Interrupted => Input::GivenUp,
                            Below::Trouble(error) => Input::Trouble(error),
                        }
                    });
                }
                Request::ModelCompletion(_)
                | Request::MemorySearch(_)
                | Request::MemoryCreate(_)
                | Request::MemoryTraverse(_)
                | Request::ToolCall(_)
                | Request::ApiCall(_)
                | Request::Email(_)
                | Request::Transfer(_)
                | Request::Input(_) => {
                    let left = at.map(|at| {
                        Duration::from_millis(at.as_millis().saturating_sub(self.now().as_millis()))
                    });
                    let tasking = Tasking { left: left.unwrap_or_default(), ..self.tasking(id) };
                    let task = self.task(&operation, attempt, tasking);
                    let free = is_free(operation.terms.class);
                    let running = |abort| match left {
                        Some(_) => Running::idle(id, attempt)(abort),
                        None => Running::busy(id, attempt, free)(abort),
                    };
                    self.running.spawn(running, async move {
                        let result = task.perform().await;
                        if let Some(permit) = permit {
                            permit.settle(&result);
                        }
                        match result {
                            Err(AttemptError { is_under_way: true, after, .. }) => {
                                Input::Later { operation: id, pause: after.unwrap_or_default() }
                            }
                            result => Input::Attempted { operation: id, attempt, result },
                        }
                    });
                }
            }
        }
    }

    /// On whose behalf a tool is called.
    fn caller(&self, operation: OperationId) -> Caller {
        let state = self.machine.state();
        Caller {
            tenant: Some(self.context.tenant.clone()),
            user: user_id(&state.request().user),
            session: Some(state.session_name().to_owned()).filter(|session| !session.is_empty()),
            call: state.call_id_of(operation).map(str::to_owned),
        }
    }

    pub(super) fn task(&self, operation: &Operation, attempt: u32, tasking: Tasking) -> Attempt {
        let state = self.machine.state();
        Attempt {
            context: Arc::clone(&self.context),
            step: Some(state.step()),
            at: state.now().as_millis(),
            operation: operation.id,
            attempt,
            terms: operation.terms,
            request: operation.request.clone(),
            asker: match &operation.request {
                Request::ApiCall(_) | Request::Email(_) => {
                    self.tool_above(operation.id).and_then(|tool| self.asker(&tool))
                }
                _ => None,
            },
            caller: match &operation.request {
                Request::ToolCall(_) => self.caller(operation.id),
                _ => Caller::default(),
            },
            of_call: match &operation.request {
                Request::Transfer(_) => Some(Box::new(state.request().clone())),
                Request::ToolCall(call) if call.tool_name.as_str() == SEND_DIGITS => {
                    Some(Box::new(state.request().clone()))
                }
                _ => None,
            },
            tasking: Some(tasking),
            is_shown: self.is_shown(operation.id),
            reading: match &operation.request {
                Request::ModelCompletion(completion) => state.reading(&self.context.config, completion).ok(),
                Request::MemorySearch(_)
                | Request::MemoryCreate(_)
                | Request::MemoryTraverse(_)
                | Request::ToolCall(_)
                | Request::ApiCall(_)
                | Request::Email(_)
                | Request::Transfer(_)
                | Request::AgentCall(_)
                | Request::Input(_)
                | Request::Timer(_) => None,
            },
        }
    }

    /// The document of a tool, as it asks for something on behalf of the run; none where the tool is no document.
    pub(super) fn asker(&self, tool: &ToolName) -> Option<Asker> {
        let config = &self.context.config;
        let ToolKind::Declarative { toolkit, .. } = &config.tools.tools.get(tool)?.kind else { return None };
        let document = config.toolkits.get(toolkit)?;
        Some(self.context.asker(document, &self.machine.state().request().user))
    }

    /// The declarative tool that asks for an operation.
    pub(super) fn tool_above(&self, id: OperationId) -> Option<ToolName> {
        self.call_above(id).map(|call| call.tool_name.clone())
    }

    /// The call of a declarative tool that asks for an operation, if one does.
    pub(super) fn call_above(&self, id: OperationId) -> Option<&ToolCall> {
        let state = self.machine.state();
        let above = state.parent_of(id)?;
        let mut pending = state.pending().iter();
        let above = pending.find(|pending| pending.operation.id == above)?;
        above.operation.request.as_tool_call()
    }

    /// Gives up what may be given up: pauses, and attempts that may be repeated. The task of an attempt goes on at its server
    /// until the run goes on; after its end it is cancelled there, which the attempt waits for.
    pub(super) fn give_up(&self) {
        let has_ended = self.ended.is_some();
        // What a person pauses finishes all that it has begun.
        let finishes = !has_ended && self.standstill.holds();
        // What waits beside a child run is about to end it.
        let is_child =
            |id| self.missing().any(|one| one.id == id && matches!(one.request, Request::AgentCall(_)));
        for running in self.running.all() {
            let is_task = running.pause.is_none() && self.remote.tasked.get(running.operation).is_some();
            let ends = match is_task {
                true => !has_ended,
                false if finishes => running.pause.is_some() || running.idle && !is_child(running.operation),
                false => running.free || running.pause.is_some(),
            };
            if ends {
                running.abort.abort();
            }
        }
        if has_ended {
            self.unwish_all();
        }
        // Child runs let go by themselves, or are paused as this one is.
        if finishes {
            return;
        }
        self.below.send_replace(if self.ended.is_some() { Stop::Cancel } else { Stop::Interrupt });
    }

    /// Gives up attempts that may be repeated, unless they are about a task of a server, which has to be cancelled there.
    pub(super) fn give_up_free(&self) {
        let is_task = |running: &&Running| self.remote.tasked.get(running.operation).is_some();
        let free = self.running.all().filter(|running| running.free && running.pause.is_none());
        for running in free.filter(|running| !is_task(running)) {
            running.abort.abort();
        }
    }

    pub(super) async fn next_input(&mut self) -> Input {
        let left = self.time_left();
        let goes = self.ended.is_none();
        let may_stop = (!self.stopping || self.standstill.is_wanted()) && goes && !self.is_leaving();
        // Waiting for a time is no active time.
        let idle = self.running.all().all(|running| running.idle);
        let since = Instant::now();
        let wakes_in = self.wakes_in().filter(|_| self.is_conversing());
        let converses = self.is_conversing();
        let told = |stop: &Stop| *stop == Stop::Cancel || (may_stop && *stop == Stop::Interrupt);
        let joined = tokio::select! {
            biased;
            Some(joined) = self.running.next() => Ok(joined),
            Ok(stop) = self.stop.wait_for(told), if goes => {
                Err(if *stop == Stop::Cancel { Input::Cancelled } else { Input::Interrupted })
            }
            () = tokio::time::sleep(left), if may_stop && !idle => Err(Input::Deadline),
            () = self.context.tasked.news() => Err(Input::Tasked),
            news = Self::next_news(&mut self.line), if converses => Err(Input::News(news)),
            () = tokio::time::sleep(wakes_in.unwrap_or_default()), if wakes_in.is_some() => Err(Input::Woke),
            () = tokio::time::sleep_until(self.mailbox.next_look), if goes => Err(Input::Look),
        };
        if idle {
            self.active.leave_out(since.elapsed());
        }
        match joined {
            Ok(joined) => self.joined(joined),
            Err(Input::Look) => {
                self.mailbox.looked();
                self.pauses_below = true;
                if let Ok(owner) = self.context.ports.owner().await {
                    // A file that was deleted makes others take this process for dead.
                    owner.show();
                }
                Input::Inbox(self.look().await)
            }
            Err(input) => input,
        }
    }

    /// What a task came to; a panic is an attempt that was possibly received.
    pub(super) fn joined(&mut self, joined: Result<(Id, Input), JoinError>) -> Input {
        match joined {
            Ok((id, input)) => {
                self.running.take(id);
                input
            }
            Err(error) => {
                let Running { operation, attempt, pause, .. } = self.running.take(error.id());
                if error.is_cancelled() {
                    return match pause {
                        Some(cause) => Input::Due { operation, attempt, cause },
                        None if self.was_given_up(operation).is_some() => Input::GivenUp,
                        // Its server works on a task, which goes on.
                        None if self.remote.tasked.get(operation).is_some() => Input::GivenUp,
                        None => Input::PutOff { operation, attempt },
                    };
                }
                let message = format!("the tool panicked: {}", words_of(error));
                let failure = Failure::new(FailureCode::Internal, message);
                let error = AttemptError {
                    failure,
                    received: Received::Possibly,
                    transient: false,
                    after: None,
                    gate: None,
                    is_under_way: false,
                };
                Input::Attempted { operation, attempt, result: Err(error) }
            }
        }
    }

    pub(super) fn handle(&mut self, input: Input) -> Result<(), RunFailure> {
        self.record_rebounds();
        self.record_denials();
        self.record_tasks();
        let given_up = match &input {
            Input::Attempted { operation, .. } => self.was_given_up(*operation),
            _ => None,
        };
        match input {
            // Its answer was on the way to this loop, and it has that for its outcome.
            Input::Attempted { operation, .. } if self.flights.is_given_up(operation) => Ok(()),
            Input::Attempted { operation, attempt, result } if self.ended.is_some() => {
                if let Some(left) = self.closing.left.get(&operation) {
                    let progress = self.progress.get(&operation).copied().unwrap_or_default();
                    let now = self.situation(&progress, attempt);
                    self.record_late(operation, policy::late(Effect::from(left), now, result));
                }
                Ok(())
            }
            // Somebody has settled it meanwhile.
            Input::Attempted { operation, .. } if !self.is_missing(operation) => Ok(()),
            Input::Attempted { operation, result: Err(error), .. } if given_up.is_some() => {
                self.given_up_task(operation, given_up.unwrap_or_default(), error)
            }
            Input::Attempted { operation, attempt, result } => self.settle(operation, attempt, None, result),
            Input::Later { operation, pause } => self.comes_later(operation, pause),
            Input::Due { operation, attempt, cause } => {
                self.flights.admitted(operation);
                if self.ended.is_some() {
                    return Ok(());
                }
                self.admit(operation, attempt, cause)?;
                self.fill()?;
                self.go_on()
            }
            Input::Admitted { operation, attempt, cause, result } => {
                self.admitted(operation, attempt, cause, result)
            }
            Input::Verified { operation, attempts, found } => {
                self.verified(operation, attempts, found)?;
                self.go_on()
            }
            Input::ChildGivenUp { operation, attempt, given_up, ending } => {
                self.child_given_up(operation, attempt, given_up, ending)
            }
            Input::Paused { operation, paused } => {
                self.flights.suspend(operation, paused);
                if self.flights.take_news(operation) {
                    let attempt = self.progress.get(&operation).map_or(1, |progress| progress.attempts);
                    self.look_at_child(operation, attempt);
                }
                Ok(())
            }
            Input::Inbox(messages) => self.take_messages(messages),
            Input::Trouble(error) => {
                self.trouble.get_or_insert(error);
                self.stopping = true;
                Ok(())
            }
            Input::Cancelled => self.cancel(),
            Input::PutOff { operation, attempt } => {
                if self.stopping && self.ended.is_none() && self.is_missing(operation) {
                    self.attempt(operation, attempt + 1, AttemptCause::Recovered, None);
                }
                Ok(())
            }
            Input::News(news) => self.take_news(news),
            Input::Woke => self.wake_call(),
            Input::Look | Input::GivenUp | Input::Tasked => Ok(()),
            Input::Interrupted => {
                self.interrupt();
                Ok(())
            }
            Input::Deadline => self.end_by_deadline(),
        }
    }
}

impl Driver {
    /// Records what tool servers were refused, before what came of their calls. After its end a run takes no more of it.
    fn record_denials(&mut self) {
        let noted = std::mem::take(&mut *self.context.denied.lock().unwrap_or_else(PoisonError::into_inner));
        if self.ended.is_none() {
            let at = self.now();
            let records = noted.into_iter().filter(|(operation, _)| self.is_missing(*operation));
            let records: Vec<_> = records.map(|(id, body)| NewRecord::of(at, id, body)).collect();
            self.outbox.extend(records);
        }
    }
}

/// What a panic said. Nothing else of it is the same in another process.
fn words_of(error: JoinError) -> String {
    let panic = error.try_into_panic().unwrap_or_else(|_| Box::new("its task ended"));
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic
            .downcast::<&'static str>()
            .map_or_else(|_| "no words".to_owned(), |words| (*words).to_owned()),
    }
}
