//! What a case gives: the outcomes that stand in for models, tools, the memory, other agents and people.

use std::ops::Range;

use dalsegno_core::{
    AgentConfig, AgentReturn, Answer, Failure, Gate, MemoryCreated, MemoryHit, MemoryTraversal, Operation,
    Outcome, Request, RunError, RunErrorCode, RunId, Status, ToolReturn, Usage,
};
use dalsegno_models::{Schemas, judge_result};
use dalsegno_workspace::{Asked, CaseAnswer, CaseResult, Draft, Gives, Located, Says};
use serde::Deserialize;
use serde_json::Value;

use crate::asked::{Kind, Question};
use crate::compare::lacks;
use crate::trouble::Trouble;

/// What a case gives, and what of it is used.
#[derive(Debug)]
pub(crate) struct World<'c> {
    own: Vec<Given<'c>>,
    shared: &'c [CaseResult],
    answers: Vec<(&'c CaseAnswer, bool)>,
}

/// A result, and whether it was used.
#[derive(Debug)]
struct Given<'c> {
    result: &'c CaseResult,
    used: bool,
}

impl<'c> World<'c> {
    pub(crate) fn new(draft: &'c Draft) -> Self {
        Self {
            own: draft.results.iter().map(|result| Given { result, used: false }).collect(),
            shared: &draft.shared,
            answers: draft.answers.iter().map(|answer| (answer, false)).collect(),
        }
    }

    /// The result of a case's own that answers a request: the first one that is left.
    pub(crate) fn own(&mut self, question: &Question) -> Option<&'c CaseResult> {
        let found = self
            .own
            .iter_mut()
            .find(|given| (!given.used || given.result.repeat) && fits(given.result, question));
        found.map(|given| {
            given.used = true;
            given.result
        })
    }

    /// What the models of an agent reply, where its run is part of the case.
    pub(crate) fn run_of(&mut self, question: &Question) -> Option<(&'c [Located<Value>], u64)> {
        let is_run = |result: &CaseResult| matches!(result.gives, Gives::Run(_));
        // Another result that comes first answers for it.
        let next = self
            .own
            .iter_mut()
            .find(|given| (!given.used || given.result.repeat) && fits(given.result, question));
        let result = match next {
            Some(given) if is_run(given.result) => {
                given.used = true;
                given.result
            }
            Some(_) => return None,
            None => {
                self.shared.iter().find(|result| fits(result, question)).filter(|result| is_run(result))?
            }
        };
        match &result.gives {
            Gives::Run(replies) => Some((replies, result.takes_ms)),
            Gives::Answer { .. } | Gives::Error(_) | Gives::Fails { .. } => None,
        }
    }

    /// The result of the whole file that answers a request.
    pub(crate) fn shared(&self, question: &Question) -> Option<&'c CaseResult> {
        self.shared.iter().find(|result| fits(result, question))
    }

    /// All results that there are, for what comes nearest, each with whether it is used up.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'c CaseResult, bool)> {
        let own = self.own.iter().map(|given| (given.result, given.used && !given.result.repeat));
        own.chain(self.shared.iter().map(|result| (result, false)))
    }

    /// What a person says at a gate: the first answer about it that is left.
    pub(crate) fn answer(&mut self, operation: &Operation, gate: &Gate) -> Option<&'c CaseAnswer> {
        let question = operation.question().unwrap_or_default();
        let name = Question::of(&operation.request).called();
        let found = self.answers.iter_mut().find(|(answer, used)| {
            let is_about = answer.to.as_ref().is_none_or(|to| *to == name || question.contains(to.as_str()));
            !used && is_about && suits(&answer.says, gate)
        });
        found.map(|(answer, used)| {
            *used = true;
            *answer
        })
    }

    /// What the case gives of its own and the run has not asked for.
    pub(crate) fn unused(&self) -> impl Iterator<Item = (String, Range<usize>)> {
        let results = self.own.iter().filter(|given| !given.used);
        let results = results
            .map(|given| (format!("a result of {}", named(&given.result.of)), given.result.span.clone()));
        let answers = self.answers.iter().filter(|(_, used)| !used);
        let answers = answers.map(|(answer, _)| match &answer.to {
            Some(to) => (format!("an answer to `{to}`"), answer.span.clone()),
            None => ("an answer of a person".to_owned(), answer.span.clone()),
        });
        results.chain(answers)
    }
}

/// What a result answers, in words.
pub(crate) fn named(of: &Asked) -> String {
    match of {
        Asked::Tool(name) => format!("`{name}`"),
        Asked::Memory(word) => format!("the memory ({word})"),
        Asked::Http(request) => format!("`{request}`"),
        Asked::Mail(recipient) => format!("a mail to `{recipient}`"),
        Asked::Transfer(target) => format!("a transfer to `{target}`"),
        Asked::Agent(name) => format!("the agent `{name}`"),
    }
}

/// Says whether an answer is one at such a gate.
fn suits(says: &Says, gate: &Gate) -> bool {
    match gate {
        Gate::Approval => matches!(says, Says::Approve | Says::Deny(_) | Says::Edit(_)),
        Gate::Input | Gate::Elicitation { .. } => matches!(says, Says::Give(_) | Says::Deny(_)),
        Gate::InDoubt { .. } => matches!(says, Says::Done(_) | Says::NotDone),
        Gate::Secret { .. } => matches!(says, Says::Approve | Says::Deny(_)),
    }
}

/// Says whether a result is one of such a request.
pub(crate) fn is_of(of: &Asked, question: &Question) -> bool {
    let name = question.name.as_str();
    match (of, question.kind) {
        (Asked::Tool(tool), Kind::Tool) => tool == name,
        (Asked::Memory(word), Kind::Memory) => word == name,
        (Asked::Http(request), Kind::Http) => match request.strip_suffix('*') {
            Some(before) => name.starts_with(before),
            None => request == name,
        },
        (Asked::Mail(recipient), Kind::Mail) => {
            recipient == "*" || name.split(", ").any(|one| one == recipient)
        }
        (Asked::Transfer(target), Kind::Transfer) => target == "*" || target == name,
        (Asked::Agent(agent), Kind::Agent) => agent == name,
        _ => false,
    }
}

fn fits(result: &CaseResult, question: &Question) -> bool {
    is_of(&result.of, question) && lacks(&question.arguments, &result.with).is_none()
}

/// The outcome that a result stands for.
pub(crate) fn outcome(
    result: &CaseResult,
    operation: &Operation,
    config: &AgentConfig,
) -> Result<Outcome, Trouble> {
    let wrong = |message: String| Trouble::Unfit { span: result.span.clone(), message };
    let (returns, text, status) = match &result.gives {
        Gives::Fails { code, message } => return Ok(Outcome::Failed(Failure::new(*code, message.clone()))),
        Gives::Error(error) => return Ok(error_of(operation, error)),
        Gives::Run(_) => return Err(Trouble::Defect("the run of an agent is folded".to_owned())),
        Gives::Answer { returns, text, status } => (returns.clone(), text.clone(), *status),
    };
    Ok(match &operation.request {
        Request::ToolCall(call) => {
            let tool = config.tools.tools.get(&call.tool_name);
            let schema = tool.and_then(|tool| tool.output_schema.as_ref());
            let violations = match (schema, &returns) {
                (Some(schema), Some(returns)) => judge_result(schema, returns),
                _ => Vec::new(),
            };
            if let Some(violation) = violations.first() {
                let place =
                    if violation.path.is_empty() { String::new() } else { format!("`{}` ", violation.path) };
                return Err(wrong(format!(
                    "`returns` is not what `{}` promises: {place}{}",
                    call.tool_name, violation.message
                )));
            }
            let text = text.unwrap_or_default();
            Outcome::ToolReturned(ToolReturn { structured: returns, text, ..ToolReturn::default() })
        }
        Request::MemorySearch(_) => {
            let hits: Vec<Hit> = serde_json::from_value(returns.unwrap_or_else(|| Value::Array(Vec::new())))
                .map_err(|error| wrong(format!("`returns` is no list of hits: {error}")))?;
            Outcome::MemoryFound(hits.into_iter().map(Hit::into_hit).collect())
        }
        Request::MemoryCreate(create) => Outcome::MemoryCreated(MemoryCreated {
            entity: create.entity.clone(),
            observation: "1".to_owned(),
            duplicate: false,
        }),
        Request::MemoryTraverse(_) => {
            let walked = match returns {
                Some(returns) => serde_json::from_value(returns)
                    .map_err(|error| wrong(format!("`returns` is no part of a memory: {error}")))?,
                None => MemoryTraversal::default(),
            };
            Outcome::MemoryTraversed(walked)
        }
        Request::ApiCall(_) => {
            let body = returns.or_else(|| text.map(Value::String)).unwrap_or_default();
            let response = serde_json::json!({ "status": status, "body": body, "attempts": 1 });
            let response = serde_json::from_value(response)
                .map_err(|error| wrong(format!("`returns` is no body of an answer: {error}")))?;
            Outcome::ApiAnswered(response)
        }
        Request::Email(_) => Outcome::EmailSent(dalsegno_core::EmailReceipt::default()),
        Request::Transfer(_) => Outcome::TransferRequested,
        Request::AgentCall(_) => Outcome::AgentReturned(AgentReturn {
            run: CHILD,
            status: Status::Completed,
            answer: text,
            output: returns,
            error: None,
            usage: Usage::default(),
            writes: Vec::new(),
        }),
        Request::ModelCompletion(_) | Request::Input(_) | Request::Timer(_) => {
            return Err(wrong("it answers no such request".to_owned()));
        }
    })
}

/// The run of a child whose outcome a case gives.
const CHILD: RunId = RunId::from_bytes([0xc1; 16]);

/// An error in the words of the receiver.
fn error_of(operation: &Operation, error: &str) -> Outcome {
    match &operation.request {
        Request::AgentCall(_) => Outcome::AgentReturned(AgentReturn {
            run: CHILD,
            status: Status::Failed,
            answer: None,
            output: None,
            error: Some(RunError {
                code: RunErrorCode::AgentFailed,
                message: error.to_owned(),
                help: "see the case".to_owned(),
            }),
            usage: Usage::default(),
            writes: Vec::new(),
        }),
        _ => Outcome::ToolReturned(ToolReturn {
            text: error.to_owned(),
            is_error: true,
            ..ToolReturn::default()
        }),
    }
}

/// A hit as a case writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hit {
    entity: String,
    #[serde(rename = "type", default = "default_type")]
    entity_type: String,
    #[serde(default)]
    text: String,
    #[serde(default = "default_score")]
    score: f64,
    #[serde(default)]
    metadata: Value,
}

fn default_type() -> String {
    "note".to_owned()
}

const fn default_score() -> f64 {
    1.0
}

impl Hit {
    fn into_hit(self) -> MemoryHit {
        let Self { entity, entity_type, text, score, metadata } = self;
        MemoryHit { entity, entity_type, text, score, metadata }
    }
}

/// What a person's word comes to at a gate.
pub(crate) fn answer(
    given: &CaseAnswer,
    operation: &Operation,
    schemas: &Schemas,
) -> Result<Answer, Trouble> {
    let wrong = |message: String| Trouble::Unfit { span: given.span.clone(), message };
    let is_elicited = matches!(&operation.gate, dalsegno_core::GateState::Waiting(Gate::Elicitation { .. }));
    Ok(match &given.says {
        Says::Approve => Answer::Approved { edited: None, reason: None, by: None },
        Says::Deny(reason) => Answer::Denied { reason: Some(reason.clone()), by: None },
        Says::Edit(arguments) => {
            let Request::ToolCall(call) = &operation.request else {
                return Err(wrong("only the arguments of a tool can be edited".to_owned()));
            };
            let edited = schemas.judge_arguments(&call.tool_name, arguments.clone());
            Answer::Approved { edited: Some(edited), reason: None, by: None }
        }
        Says::Give(value) if is_elicited => Answer::Supplied { value: value.clone(), by: None },
        Says::Give(value) => {
            if let Request::Input(input) = &operation.request
                && let Some(schema) = &input.schema
                && let Some(violation) = judge_result(schema, value).first()
            {
                return Err(wrong(format!("`give` does not fit the question: {}", violation.message)));
            }
            Answer::Given { value: value.clone(), by: None }
        }
        Says::Done(result) => Answer::Done { result: Some(result.clone()), error: None, by: None },
        Says::NotDone => Answer::NotDone { by: None },
    })
}
