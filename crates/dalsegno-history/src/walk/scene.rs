//! What a walk shows at one place: a step with its state, or the end.

use std::sync::Arc;

use dalsegno_core::{AgentConfig, AgentResponse, AgentState, Entry, OperationId, Outcome, Request, Usage};
use dalsegno_store::{Body, Record};
use serde_json::{Value, json};

use super::Walk;
use crate::compare::{self, Change};
use crate::error::HistoryError;
use crate::fold::{End, Fold};
use crate::inspect::{Prompt, StepView, operation, settle, view};

/// A step of a run, or its end.
#[derive(Debug, Clone)]
pub struct Scene {
    /// What was asked for and why, and what came of it.
    pub view: StepView,
    /// The state when it was asked for.
    pub state: AgentState,
    /// The state when the step before it was asked for; at the first step the state that the run began in.
    pub before: AgentState,
    /// The records of the step, from its first request on.
    pub records: Vec<Record>,
    /// What the run had used once the outcomes of the step were folded; none before that.
    pub used: Option<Usage>,
    /// How the run ended; at the end only.
    pub response: Option<AgentResponse>,
    config: Arc<AgentConfig>,
}

impl Walk {
    /// The step at a place of the outline, or the end of the run behind its last step. None where no state can be computed:
    /// there is no such place, or the journal and the core part before it.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn scene(&mut self, place: usize) -> Result<Option<Scene>, HistoryError> {
        let steps = &self.outline.steps;
        let ending = self.outline.ending.as_ref().map(|ending| ending.seq);
        let first_of = |place: usize| steps.get(place).map(|step| step.first);
        let Some(first) = first_of(place).or(ending.filter(|_| place == steps.len())) else {
            return Ok(None);
        };
        let previous = place.checked_sub(1).and_then(first_of);
        let next = if place < steps.len() { first_of(place + 1).or(ending) } else { None };
        // Of the first step: the state after all that stands before it.
        if !self.seek(previous.map_or(first, |first| first + 1)).await? {
            return Ok(None);
        }
        let before = self.state();
        if !self.seek(first + 1).await? {
            return Ok(None);
        }
        let (Some(before), Some(state)) = (before, self.state()) else { return Ok(None) };
        self.keep_lately();
        let mut view = view(&state);
        if place == self.outline.steps.len() {
            view.operations.clear();
        }
        let response = self.fold().and_then(|fold| fold.ended.as_ref()).and_then(End::response).cloned();
        let response = response.filter(|_| next.is_none() && place == self.outline.steps.len());
        let records = self.records(first, next.unwrap_or(self.read), &mut view).await?;
        let used = match next {
            Some(next) if self.seek(next + 1).await? => self.fold().map(|fold| fold.state().usage()),
            Some(_) | None => None,
        };
        let config = Arc::clone(&self.config);
        Ok(Some(Scene { view, state, before, records, used, response, config }))
    }

    fn state(&self) -> Option<AgentState> {
        self.fold().map(|fold: &Fold| fold.state().clone())
    }

    fn keep_lately(&mut self) {
        if let Some((at, fold)) = &self.cursor {
            self.kept.lately(*at, fold);
        }
    }

    /// The records of a step, with what they say of its operations. Those behind the end of the fold say less.
    async fn records(
        &mut self,
        first: u64,
        end: u64,
        view: &mut StepView,
    ) -> Result<Vec<Record>, HistoryError> {
        let mut records = Vec::new();
        for seq in first..end {
            let (start, page) = self.page(seq).await?;
            let Some(record) = usize::try_from(seq - start).ok().and_then(|index| page.get(index)) else {
                break;
            };
            records.push(record.clone());
            let outcome = match &record.body {
                Body::Resolved { outcome, .. } => Some(outcome.clone()),
                Body::Answered { answer } => answer.outcome(),
                _ => None,
            };
            if let Some(outcome) = outcome {
                settle(record.operation, &outcome, Some(view));
            }
            let is_part = matches!(record.body, Body::Requested { .. }) && record.parent.is_some();
            if is_part
                && self.seek(seq + 1).await?
                && let Some(fold) = self.fold()
            {
                let asked = fold.state().pending().iter();
                let asked = asked.filter(|pending| Some(pending.operation.id) == record.operation);
                view.operations.extend(asked.map(|asked| operation(fold.state(), asked)));
            }
        }
        Ok(records)
    }
}

impl Scene {
    /// What the model was sent for a completion of this step; none for another operation.
    pub fn prompt(&self, id: OperationId) -> Option<Prompt> {
        let view = self.view.operations.iter().find(|view| view.operation == id)?;
        let Request::ModelCompletion(completion) = &view.request else { return None };
        let reading = self.state.reading(&self.config, completion).ok()?;
        Some(Prompt { step: self.view.step, operation: id, reading, config: Arc::clone(&self.config) })
    }

    /// How many of the last messages of that prompt the completion before it was not sent.
    pub fn new_messages(&self, id: OperationId) -> usize {
        let mut views = self.view.operations.iter();
        let Some(Request::ModelCompletion(completion)) =
            views.find(|view| view.operation == id).map(|view| &view.request)
        else {
            return 0;
        };
        let new = usize::try_from(completion.entries.saturating_sub(completion.new_from));
        let entries = self.state.transcript().iter().rev().take(new.unwrap_or(usize::MAX));
        // It says what is left out, and is not sent itself.
        entries.filter(|entry| !matches!(entry, Entry::Compaction(_))).count()
    }

    /// What the run used for this step; none before its outcomes were folded.
    pub fn spent(&self) -> Option<Usage> {
        let (after, before) = (self.used?, self.state.usage());
        Some(Usage {
            model_calls: after.model_calls.saturating_sub(before.model_calls),
            tool_calls: after.tool_calls.saturating_sub(before.tool_calls),
            input_tokens: after.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: after.output_tokens.saturating_sub(before.output_tokens),
            cost_nano_usd: after.cost_nano_usd.saturating_sub(before.cost_nano_usd),
            ..Usage::default()
        })
    }

    /// How the state differs from that of the step before.
    pub fn changes(&self) -> Vec<Change> {
        compare::values(&visible(&self.before), &visible(&self.state))
    }

    /// The state as a document: all that a plan, a template or a tool reads of it, and how long the conversation is.
    pub fn visible(&self) -> Value {
        visible(&self.state)
    }

    /// The operation because of which an operation was asked for: the call of a declarative tool for a part of it, else the
    /// reply of a model with the call, which is an operation of the step before. None for what the agent's own plan asks for.
    pub fn cause(&self, id: OperationId, before: Option<&Self>) -> Option<OperationId> {
        let view = self.view.operations.iter().find(|view| view.operation == id)?;
        if view.parent.is_some() {
            return view.parent;
        }
        let call = self.state.call_id_of(id)?;
        before?.view.operations.iter().find_map(|asked| match &asked.outcome {
            Some(Outcome::ModelReplied(reply)) => {
                reply.calls().any(|made| made.call_id == call).then_some(asked.operation)
            }
            _ => None,
        })
    }
}

fn visible(state: &AgentState) -> Value {
    let (transcript, session) = (state.transcript(), state.session());
    json!({
        "request": { "text": state.request().text, "data": state.request().data },
        "results": state.results(),
        "vars": state.vars(),
        "said": state.said(),
        "session": {
            "workflow": session.workflow(),
            "agents": session.agents(),
            "flags": session.flags(),
        },
        "transcript": { "messages": transcript.len(), "tokens": transcript.tokens() },
        "usage": state.usage(),
    })
}
