//! What waits for people.

use askama::Template;
use dalsegno_core::Gate;
use dalsegno_history::WaitingOperation;
use dalsegno_screen::inert;
use serde_json::Value;

use crate::markup::Markup;
use crate::run::label;
use crate::shell::{Live, Shell};
use crate::text;

/// Most characters of a question.
const QUESTION: usize = 4_000;
/// Most answers that are offered as a choice.
const CHOICES: usize = 20;

/// What waits for people, over all runs; a page of it.
#[derive(Debug, Clone, Template)]
#[template(path = "inbox.html")]
pub struct InboxPage {
    /// What surrounds it.
    pub shell: Shell,
    /// What waits, that of the newest run first.
    pub cards: Vec<WaitingCard>,
    /// The kinds that the list can be filtered by.
    pub tabs: Vec<crate::runs::Tab>,
    /// The address of the next page.
    pub next: Option<String>,
    /// The address of the first page; none on it.
    pub first: Option<String>,
    /// Whether only one kind is shown.
    pub is_filtered: bool,
    /// What has just been answered.
    pub done: Option<String>,
    /// What the first page follows.
    pub live: Option<Live>,
}

/// An operation that waits, with the ways to answer it.
#[derive(Debug, Clone, Template)]
#[template(path = "waiting.html")]
pub struct WaitingCard {
    /// The run that it belongs to.
    pub run: String,
    /// The beginning of its id.
    pub run_short: String,
    /// The agent of the run.
    pub agent: String,
    /// The tenant of the run, where the person sees those of all tenants.
    pub tenant: Option<String>,
    /// The operation.
    pub operation: String,
    /// The beginning of its id.
    pub short: String,
    /// What it waits for.
    pub kind: Kind,
    /// The tool, or what else it is about.
    pub subject: String,
    /// The question, in words.
    pub question: String,
    /// Why it is asked: the reason of a doubt, or the rule of the agent.
    pub reason: Option<String>,
    /// What is to be done.
    pub arguments: Option<Markup>,
    /// The same to be edited, where it can be.
    pub editable: Option<String>,
    /// JSON Schema of the answer.
    pub schema: Option<Markup>,
    /// How the answer is typed.
    pub field: Field,
    /// What stands for exactly this.
    pub shown: String,
    /// Whether the person who looks may answer.
    pub may_answer: bool,
    /// Where to go afterwards.
    pub back: String,
    /// What was wrong with the last answer.
    pub problem: Option<String>,
    /// What was typed then.
    pub typed: Typed,
    /// Whether the card says which run it belongs to.
    pub names_run: bool,
}

/// What a person typed, when it was refused.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// The arguments.
    pub arguments: Option<String>,
    /// The answer or the result.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A person must agree.
    Approval,
    /// A person must answer.
    Question,
    /// A person must say whether it happened.
    Doubt,
    /// A secret is missing.
    Secret,
}

/// How an answer is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// As text.
    Text,
    /// As JSON.
    Json,
    /// As a number.
    Number,
    /// As one of these: label, and value as JSON.
    Choice(Vec<(String, String)>),
}

impl WaitingCard {
    /// The card of an operation of a run of this agent.
    pub fn of(waiting: &WaitingOperation, agent: &str, may_answer: bool, back: &str) -> Self {
        let (kind, reason) = match &waiting.gate {
            Gate::Approval => {
                (Kind::Approval, waiting.rule.as_ref().map(|rule| format!("Rule of the agent: {rule}")))
            }
            Gate::Input | Gate::Elicitation { .. } => (Kind::Question, None),
            Gate::InDoubt { reason } => (Kind::Doubt, Some(reason.clone())),
            Gate::Secret { name } => (Kind::Secret, Some(format!("The secret `{name}` is missing."))),
        };
        let is_tool_approval = kind == Kind::Approval && waiting.tool.is_some();
        let arguments = waiting.arguments.as_ref().filter(|_| kind != Kind::Secret);
        let subject = match &waiting.tool {
            Some(tool) => tool.to_string(),
            None => label(&waiting.question).0,
        };
        Self {
            run: waiting.run.to_string(),
            run_short: text::short(waiting.run),
            agent: agent.to_owned(),
            tenant: None,
            operation: waiting.operation.to_string(),
            short: text::short(waiting.operation),
            kind,
            subject,
            question: text::shown(&waiting.question, QUESTION),
            reason: reason.map(|reason| text::shown(&reason, QUESTION)),
            arguments: arguments.map(Markup::json),
            editable: arguments
                .filter(|_| is_tool_approval)
                .map(|value| inert(&format!("{value:#}")).into_owned()),
            schema: waiting.schema.as_ref().map(Markup::json),
            field: Field::of(waiting.schema.as_ref()),
            shown: waiting.shown(),
            may_answer,
            back: back.to_owned(),
            problem: None,
            typed: Typed::default(),
            names_run: true,
        }
    }

    /// The heading.
    pub fn title(&self) -> String {
        match self.kind {
            Kind::Approval => format!("May {} be called?", self.subject),
            Kind::Question => self.question.clone(),
            Kind::Doubt => format!("Did {} happen?", self.subject),
            Kind::Secret => "A secret is missing".to_owned(),
        }
    }

    /// What those hear who do not see the page, when it comes.
    pub fn news(&self) -> String {
        format!("{}: {}", self.agent, text::line(&self.title(), 120))
    }

    /// The kind in a word.
    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::Approval => "approval",
            Kind::Question => "question",
            Kind::Doubt => "in doubt",
            Kind::Secret => "secret",
        }
    }

    /// The choices, where there are some.
    pub fn choices(&self) -> &[(String, String)] {
        match &self.field {
            Field::Choice(choices) => choices,
            Field::Text | Field::Json | Field::Number => &[],
        }
    }
}

impl Field {
    fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else { return Self::Text };
        if let Some(values) =
            schema.get("enum").and_then(Value::as_array).filter(|values| values.len() <= CHOICES)
        {
            let choice = |value: &Value| match value {
                Value::String(text) => (text::line(text, 120), value.to_string()),
                other => (text::line(&other.to_string(), 120), other.to_string()),
            };
            return Self::Choice(values.iter().map(choice).collect());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("integer" | "number") => Self::Number,
            Some("boolean") => Self::Choice(vec![
                ("Yes".to_owned(), "true".to_owned()),
                ("No".to_owned(), "false".to_owned()),
            ]),
            _ => Self::Json,
        }
    }
}

/// Reads what a person typed as the answer to a question with this schema.
///
/// # Errors
/// When JSON is expected, and it is none.
pub fn read_answer(typed: &str, schema: Option<&Value>) -> Result<Value, String> {
    if Field::of(schema) == Field::Text {
        return Ok(Value::String(typed.to_owned()));
    }
    serde_json::from_str(typed.trim()).map_err(|error| format!("The answer is not JSON: {error}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_as_its_schema_says() {
        assert_eq!(read_answer("42", None), Ok(json!("42")));
        assert_eq!(read_answer(" 42\n", Some(&json!({ "type": "integer" }))), Ok(json!(42)));
        assert_eq!(read_answer("42", Some(&json!({ "type": "string" }))), Ok(json!("42")));
        assert_eq!(read_answer("\"b\"", Some(&json!({ "enum": ["a", "b"] }))), Ok(json!("b")));
        let error = read_answer("{", Some(&json!({ "type": "object" }))).unwrap_err();
        assert!(error.starts_with("The answer is not JSON"), "{error}");
    }
}
