//! Outcomes that are made up, in the words of a case: what models reply, what requests come to, what people answer.

use dalsegno_core::{AgentConfig, FailureCode, Gate, Operation, Request};
use dalsegno_models::judge_result;
use dalsegno_workspace::{Asked, CaseAnswer, CaseResult, Draft, Gives, Says};
use serde_json::{Value, json};

use super::draws::{Draw, Draws};
use super::values::{object, text, value};
use super::words::Words;
use crate::asked::{Kind, Question};

/// Why requests have no answer. The last one is for what must not be repeated.
const FAILURES: [FailureCode; 3] =
    [FailureCode::Timeout, FailureCode::Unavailable, FailureCode::Indeterminate];

/// What a property is made of, for all of its runs.
#[derive(Debug)]
pub(crate) struct Material<'c> {
    config: &'c AgentConfig,
    words: Words,
    /// The tools that a model calls, by their own names.
    tools: Vec<String>,
    /// Those of them that the property forbids: they are called more often.
    forbidden: Vec<String>,
}

/// Makes up the outcomes of one run, and keeps what it made.
#[derive(Debug)]
pub(crate) struct Inventor<'c> {
    material: &'c Material<'c>,
    /// What models reply, what requests come to and what people say have numbers of their own, so that each can be left out alone.
    replies: Draws<'c>,
    results: Draws<'c>,
    people: Draws<'c>,
    /// People answer nothing from here on.
    is_silent: bool,
    pub(crate) made: Invented,
}

/// What was made up, as a case would give it.
#[derive(Debug, Default)]
pub(crate) struct Invented {
    pub(crate) replies: Vec<Value>,
    pub(crate) results: Vec<CaseResult>,
    pub(crate) answers: Vec<CaseAnswer>,
}

impl<'c> Material<'c> {
    pub(crate) fn of(draft: &Draft, config: &'c AgentConfig) -> Self {
        let expect = &draft.expect;
        let conditions = expect.never.iter().map(|rule| rule.when.source());
        let conditions = conditions.chain(expect.always.iter().map(|rule| rule.value.source()));
        let tools: Vec<_> = config.tools.tools.keys().collect();
        let patterns = expect.never.iter().map(|rule| &rule.tool).chain(&expect.never_calls);
        let patterns: Vec<_> = patterns.collect();
        let forbidden = tools.iter().filter(|tool| patterns.iter().any(|one| one.value.matches(tool)));
        Self {
            config,
            words: Words::of(config, conditions),
            forbidden: forbidden.map(ToString::to_string).collect(),
            tools: tools.iter().map(ToString::to_string).collect(),
        }
    }
}

impl<'c> Inventor<'c> {
    pub(crate) fn new(material: &'c Material<'c>, [replies, results, people]: [&'c [Vec<u64>]; 3]) -> Self {
        Self {
            material,
            replies: Draws::new(replies),
            results: Draws::new(results),
            people: Draws::new(people),
            is_silent: false,
            made: Invented::default(),
        }
    }

    /// What a model replies, in the form of a script. The answer may have to fit a schema.
    pub(crate) fn reply(&mut self, schema: Option<&Value>, calls: bool) -> Value {
        let mut draw = self.replies.next();
        let words = &self.material.words;
        let reply = match draw.below(8) {
            1..=6 if calls && !self.material.tools.is_empty() => {
                // Two calls become one of them when they are made simpler, whichever it is that matters.
                let which = draw.below(8);
                let (first, second) = (self.material.call(&mut draw), self.material.call(&mut draw));
                match which {
                    0..=3 => json!({ "calls": [first] }),
                    4..=5 => json!({ "calls": [second] }),
                    _ => json!({ "calls": [first, second] }),
                }
            }
            7 => match draw.below(3) {
                0 => json!({ "error": { "kind": "unavailable", "message": "the model cannot be reached" } }),
                1 => json!({ "text": "I cannot help with that.", "stop": "refusal" }),
                _ => json!({ "text": "It is cut", "stop": "length" }),
            },
            _ => match schema {
                Some(schema) => json!({ "text": value(schema, words, &mut draw).to_string() }),
                None => json!({ "text": text(words, &mut draw) }),
            },
        };
        self.made.replies.push(reply.clone());
        reply
    }

    /// What a request comes to.
    pub(crate) fn result(&mut self, question: &Question, operation: &Operation) -> Option<CaseResult> {
        let name = || question.name.clone();
        let of = match question.kind {
            Kind::Tool => Asked::Tool(name()),
            Kind::Memory => Asked::Memory(name()),
            Kind::Http => Asked::Http(name()),
            // A mail to several people is answered by what is given for each of them.
            Kind::Mail => Asked::Mail(question.name.split(", ").next().unwrap_or_default().to_owned()),
            Kind::Transfer => Asked::Transfer(name()),
            Kind::Agent => Asked::Agent(name()),
            Kind::Model | Kind::Person | Kind::Timer => return None,
        };
        let mut draw = self.results.next();
        let gives = match draw.below(8) {
            7 => self.material.failure(operation, &mut draw),
            _ => self.material.answer(operation, &mut draw),
        };
        let result = CaseResult { of, with: Value::Null, gives, repeat: false, takes_ms: 0, span: 0..0 };
        self.made.results.push(result.clone());
        Some(result)
    }

    /// What a person says at a gate; nothing where they stay silent.
    pub(crate) fn says(&mut self, operation: &Operation, gate: &Gate) -> Option<CaseAnswer> {
        if self.is_silent {
            return None;
        }
        let mut draw = self.people.next();
        let (words, config) = (&self.material.words, self.material.config);
        let of_schema = |schema: Option<&Value>, draw: &mut Draw<'_>| match schema {
            Some(schema) => fitting(schema, words, draw),
            None => Some(text(words, draw).into()),
        };
        let kind = draw.below(6);
        let says = match gate {
            _ if kind == 5 => None,
            Gate::Approval => match (kind, &operation.request) {
                (0..=2, _) => Some(Says::Approve),
                (3, Request::ToolCall(call)) => {
                    let schema = config.tools.tools.get(&call.tool_name).map(|tool| &tool.input_schema);
                    schema.and_then(|schema| fitting(schema, words, &mut draw)).map(Says::Edit)
                }
                _ => Some(Says::Deny("no".to_owned())),
            },
            Gate::Input => {
                let schema = match &operation.request {
                    Request::Input(input) => input.schema.as_ref(),
                    _ => None,
                };
                of_schema(schema, &mut draw).map(Says::Give)
            }
            Gate::InDoubt { .. } => match kind {
                0..=2 => Some(Says::NotDone),
                _ => {
                    let schema = match &operation.request {
                        Request::ToolCall(call) => config.tools.tools.get(&call.tool_name),
                        _ => None,
                    };
                    let schema = schema.and_then(|tool| tool.output_schema.as_ref());
                    of_schema(schema, &mut draw).map(Says::Done)
                }
            },
            // Only servers ask for more, and only shells for secrets.
            Gate::Elicitation { .. } | Gate::Secret { .. } => None,
        };
        let Some(says) = says else {
            self.is_silent = true;
            return None;
        };
        let name = Question::of(&operation.request).called();
        let answer = CaseAnswer { to: Some(name), says, after_ms: 0, span: 0..0 };
        self.made.answers.push(answer.clone());
        Some(answer)
    }
}

impl Material<'_> {
    /// A call that a model asks for.
    fn call(&self, draw: &mut Draw<'_>) -> Value {
        let list = if self.forbidden.is_empty() || draw.one_in(3) { &self.tools } else { &self.forbidden };
        let name = draw.of(list).cloned().unwrap_or_default();
        let tool = name.parse().ok().and_then(|name| self.config.tools.tools.get(&name));
        let schema = tool.map_or(&Value::Null, |tool| &tool.input_schema);
        let mut arguments = value(schema, &self.words, draw);
        if !arguments.is_object() {
            arguments = json!({});
        }
        if draw.one_in(10)
            && let Value::Object(fields) = &mut arguments
            && let Some(field) = fields.keys().next().cloned()
        {
            fields.remove(&field);
        }
        match has_null(&arguments) {
            // A script is TOML, which has no null.
            true => json!({ "name": name, "arguments_text": arguments.to_string() }),
            false => json!({ "name": name, "arguments": arguments }),
        }
    }

    /// Why a request has no answer, or the error that its receiver tells.
    fn failure(&self, operation: &Operation, draw: &mut Draw<'_>) -> Gives {
        let is_told = matches!(operation.request, Request::ToolCall(_) | Request::AgentCall(_));
        if is_told && draw.below(2) == 0 {
            return Gives::Error("it is not possible".to_owned());
        }
        // What may be repeated is never in doubt.
        let codes = if operation.terms.class.may_repeat() { &FAILURES[..2] } else { &FAILURES[..] };
        let code = draw.of(codes).copied().unwrap_or(FAILURES[0]);
        Gives::Fails { code, message: "no answer came".to_owned() }
    }

    fn answer(&self, operation: &Operation, draw: &mut Draw<'_>) -> Gives {
        let words = &self.words;
        let plain =
            |returns: Option<Value>, text: Option<String>| Gives::Answer { returns, text, status: 200 };
        match &operation.request {
            Request::ToolCall(call) => {
                let tool = self.config.tools.tools.get(&call.tool_name);
                match tool.and_then(|tool| tool.output_schema.as_ref()) {
                    None => plain(None, Some(text(words, draw))),
                    Some(schema) => match fitting(schema, words, draw) {
                        Some(returns) => plain(Some(returns), None),
                        None => Gives::Error("it is not possible".to_owned()),
                    },
                }
            }
            Request::MemorySearch(_) => {
                let count = draw.below(3);
                let hits = (0..count).map(|number| {
                    json!({ "entity": format!("entry {}", number + 1), "text": text(words, draw), "score": 0.5 })
                });
                plain(Some(hits.collect()), None)
            }
            Request::ApiCall(_) => {
                let status = draw.of(&[200, 200, 404, 500, 429]).copied().unwrap_or(200);
                Gives::Answer { returns: Some(object(words, draw)), text: None, status }
            }
            Request::AgentCall(_) => plain(None, Some(text(words, draw))),
            Request::MemoryCreate(_)
            | Request::MemoryTraverse(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::ModelCompletion(_)
            | Request::Input(_)
            | Request::Timer(_) => plain(None, None),
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A value that fits a schema, if one is found.
fn fitting(schema: &Value, words: &Words, draw: &mut Draw<'_>) -> Option<Value> {
    let fits = |made: &Value| judge_result(schema, made).is_empty();
    let made = value(schema, words, draw);
    if fits(&made) {
        Some(made)
    } else {
        Some(value(schema, words, &mut Draws::new(&[]).next())).filter(fits)
    }
}
