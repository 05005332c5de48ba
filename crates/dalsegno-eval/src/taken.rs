//! A run that was performed, as checks see it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dalsegno_cases::{Done, End, Kind, Made, Question, StepTaken, Trajectory};
use dalsegno_core::{AgentConfig, Answer, FailureCode, Gate, OperationId, Outcome, RunId, Usage};
use dalsegno_history::{HistoryError, Inspection, Journal};
use dalsegno_store::Body;

/// A run that was performed, with the runs that it handed over to.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The run.
    pub run: RunId,
    /// The configuration with which it began.
    pub config: Arc<AgentConfig>,
    /// What happened.
    pub trajectory: Trajectory,
    /// Whether it was there already.
    pub was_there: bool,
}

impl Taken {
    /// Reads a run from the journal.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(journal: &Journal, run: RunId, was_there: bool) -> Result<Self, HistoryError> {
        let mut trajectory = Trajectory::default();
        let (mut config, mut next) = (None, Some(run));
        while let Some(run) = next {
            let inspection = journal.inspect(run, None).await?;
            next = add(&mut trajectory, &inspection);
            config.get_or_insert(inspection.config);
        }
        let config = match config {
            Some(config) => config,
            None => journal.configuration(run).await?,
        };
        Ok(Self { run, config, trajectory, was_there })
    }

    /// Why the run says nothing about the agent: its model could not be reached.
    pub(crate) fn without_reply(&self) -> Option<String> {
        let response = self.trajectory.end.as_ref()?.response()?;
        response.error.as_ref()?;
        let last = self.trajectory.steps.iter().rev().flat_map(|step| step.operations.iter().rev());
        let last = last.into_iter().find(|done| done.question.kind == Kind::Model)?;
        match &last.outcome {
            Some(Outcome::Failed(failure))
                if matches!(
                    failure.code,
                    FailureCode::Unavailable | FailureCode::Overloaded | FailureCode::Timeout
                ) =>
            {
                Some(failure.message.clone())
            }
            _ => None,
        }
    }
}

/// Adds one run of a chain; returns the run that it handed over to.
fn add(trajectory: &mut Trajectory, inspection: &Inspection) -> Option<RunId> {
    let Inspection { records, steps, state, response, waiting, .. } = inspection;
    let (mut asked, mut refused, mut agreed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut next = None;
    let operations = || steps.iter().flat_map(|step| &step.operations);
    let called = |id: OperationId| {
        let found = operations().find(|view| view.operation == id);
        found.map(|view| Question::of(&view.request).called())
    };
    for record in records {
        match (&record.body, record.operation) {
            (Body::Waiting { .. }, Some(id)) => {
                trajectory.asks.extend(called(id));
                asked.insert(id);
            }
            (Body::Answered { answer }, Some(id)) => {
                asked.remove(&id);
                match answer {
                    Answer::Approved { .. } => drop(agreed.insert(id)),
                    Answer::Denied { .. } => drop(refused.insert(id)),
                    _ => {}
                }
            }
            (Body::HandedOff { run, .. }, _) => next = Some(*run),
            _ => {}
        }
    }
    // What child runs ask is asked of the same people.
    let below = waiting.iter().filter(|one| operations().all(|view| view.operation != one.operation));
    trajectory.asks.extend(below.map(|one| match (&one.tool, &one.gate) {
        (Some(tool), Gate::Approval) => tool.to_string(),
        _ => one.question.clone(),
    }));
    let mut seen = BTreeSet::new();
    for step in steps {
        let mut taken = StepTaken { number: step.step, why: step.decisions.clone(), operations: Vec::new() };
        for view in step.operations.iter().filter(|view| seen.insert(view.operation)) {
            let question = Question::of(&view.request);
            let is_call = question.is_call(view.is_called);
            // What waits for a person, was refused, or did not fit the tool did not take place.
            let is_unfit = matches!(&view.outcome, Some(Outcome::Failed(failure))
                if matches!(failure.code, FailureCode::InvalidArguments | FailureCode::NotPermitted));
            let took_place =
                !asked.contains(&view.operation) && !refused.contains(&view.operation) && !is_unfit;
            if is_call && took_place {
                let approved = agreed.contains(&view.operation)
                    || view.parent.is_some_and(|parent| agreed.contains(&parent));
                let arguments = question.arguments.clone();
                let changes = question.changes(&inspection.config);
                trajectory.calls.push(Made { tool: question.called(), arguments, approved, changes });
            }
            let is_part = view.parent.is_some();
            taken.operations.push(Done::new(view.operation, question, is_part, view.outcome.clone()));
        }
        trajectory.steps.push(taken);
    }
    trajectory.count += state.step();
    let usage: Usage = response.as_ref().map_or_else(|| state.usage(), |response| response.usage);
    trajectory.usage.add(&usage);
    trajectory.end = Some(match response {
        Some(response) => End::Ended(Box::new(response.clone())),
        None => End::Suspended(waiting.iter().map(|one| one.question.clone()).collect()),
    });
    next
}
