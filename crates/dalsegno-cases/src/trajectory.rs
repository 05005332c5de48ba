//! What happened in a case, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use dalsegno_core::{AgentConfig, AgentResponse, Handoff, OperationId, Outcome, Usage};
use dalsegno_workspace::Ends;
use serde_json::{Map, Value, json};

use crate::asked::Question;
use crate::talk::Talk;

/// What happened in a case. As text it is what a snapshot holds: without ids and times, so that two runs that do the same have the
/// same text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectory {
    /// The steps, in order; what was decided after the last request has a step of its own, without operations.
    pub steps: Vec<StepTaken>,
    /// The number of steps, as limits count them.
    pub count: u64,
    /// The tools that were called, in order.
    pub calls: Vec<Made>,
    /// What people were asked about, in order.
    pub asks: Vec<String>,
    /// What was said and asked, where the run is a call.
    pub talk: Talk,
    /// How it ended; none where it could not continue.
    pub end: Option<End>,
    /// What it used.
    pub usage: Usage,
    /// How long it waited for timers, and, where it plays a cassette, for what was recorded. No clock is read.
    pub waited: Duration,
}

/// A call that took place.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Whether a person has agreed to it.
    pub approved: bool,
    /// Whether it may change something: it does more than read.
    pub changes: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTaken {
    /// Its number, from 1.
    pub number: u64,
    /// Why the core asked for what it asked.
    pub why: Vec<String>,
    /// What it asked for.
    pub operations: Vec<Done>,
}

/// One operation, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub(crate) id: OperationId,
    /// What was asked.
    pub question: Question,
    /// Whether the call of a declarative tool asked for it.
    pub is_part: bool,
    /// What people were asked about it and what they said, in order.
    pub people: Vec<String>,
    /// The run of another agent that it asked for, where that is part of the case.
    pub run: Option<Box<Trajectory>>,
    /// What came of it.
    pub outcome: Option<Outcome>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// It is over.
    Ended(Box<AgentResponse>),
    /// Another agent continues.
    HandedOff(Box<Handoff>),
    /// It waits for people, who are asked this.
    Suspended(Vec<String>),
}

impl End {
    /// The kind of end, in the words of a case.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ended(response) => match response.status {
                dalsegno_core::Status::Completed => Ends::Completed.as_str(),
                dalsegno_core::Status::Failed => Ends::Failed.as_str(),
                dalsegno_core::Status::Cancelled => "cancelled",
                dalsegno_core::Status::HandedOff => Ends::HandedOff.as_str(),
            },
            Self::HandedOff(_) => Ends::HandedOff.as_str(),
            Self::Suspended(_) => Ends::Suspended.as_str(),
        }
    }

    /// How the run ended, where it is over.
    pub fn response(&self) -> Option<&AgentResponse> {
        match self {
            Self::Ended(response) => Some(&**response),
            Self::HandedOff(_) | Self::Suspended(_) => None,
        }
    }
}

impl Done {
    /// An operation that was asked for.
    pub fn new(id: OperationId, question: Question, is_part: bool, outcome: Option<Outcome>) -> Self {
        Self { id, question, is_part, people: Vec::new(), run: None, outcome }
    }
}

impl Trajectory {
    /// What conditions on the whole run read, by name.
    pub fn values(&self, config: &AgentConfig) -> Map<String, Value> {
        let call = |made: &Made| {
            let Made { tool, arguments, approved, changes: _ } = made;
            json!({ "tool": tool, "args": arguments, "approved": approved })
        };
        let mut counts: BTreeMap<&str, u64> =
            config.tools.tools.keys().map(|tool| (tool.as_str(), 0)).collect();
        self.calls.iter().for_each(|made| *counts.entry(&made.tool).or_default() += 1);
        let response = self.end.as_ref().and_then(End::response);
        let error = response.and_then(|response| response.error.as_ref()).map(|error| error.code.as_str());
        let values = [
            ("calls", self.calls.iter().map(call).collect()),
            ("counts", json!(counts)),
            ("asks", json!(self.asks)),
            ("ends", self.end.as_ref().map(End::kind).into()),
            ("error", error.into()),
            ("answer", self.answer().into()),
            ("output", response.and_then(|response| response.output.clone()).into()),
            ("steps", self.count.into()),
            ("tokens", self.usage.tokens().into()),
        ];
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// This run and all runs of other agents in it.
    pub(crate) fn runs(&self) -> Vec<&Self> {
        let mut runs = vec![self];
        let below =
            self.steps.iter().flat_map(|step| &step.operations).filter_map(|done| done.run.as_deref());
        below.for_each(|run| runs.extend(run.runs()));
        runs
    }

    /// The operation, where it was asked for.
    pub(crate) fn done(&mut self, id: OperationId) -> Option<&mut Done> {
        self.steps.iter_mut().rev().flat_map(|step| &mut step.operations).find(|done| done.id == id)
    }

    /// The answer of the run, if there is one.
    pub fn answer(&self) -> Option<&str> {
        self.end.as_ref()?.response()?.answer.as_deref()
    }
}
