//! What happened in a case, step by step.

use dalsegno_core::{AgentResponse, Handoff, OperationId, Outcome, Usage};
use dalsegno_workspace::Ends;
use serde_json::Value;

use crate::asked::Question;

/// What happened in a case.
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
    /// How it ended; none where it could not continue.
    pub end: Option<End>,
    /// What it used.
    pub usage: Usage,
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

impl Trajectory {
    /// The operation, where it was asked for.
    pub(crate) fn done(&mut self, id: OperationId) -> Option<&mut Done> {
        self.steps.iter_mut().rev().flat_map(|step| &mut step.operations).find(|done| done.id == id)
    }

    /// The answer of the run, if there is one.
    pub fn answer(&self) -> Option<&str> {
        self.end.as_ref()?.response()?.answer.as_deref()
    }
}
