//! What a run asks for, in the words of a case.

use std::fmt;

use dalsegno_core::{AgentConfig, MemoryCreate, MemoryTraverse, Request, ToolName};
use serde_json::{Value, json};

/// A request in the words of a case: what answers it, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked.
    pub kind: Kind,
    /// Its name: the tool, the memory operation, the method and address, the recipients, the agent.
    pub name: String,
    /// What it says, an object.
    pub arguments: Value,
}

/// The kinds of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A reply of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// A memory operation.
    Memory,
    /// An HTTP request of a declarative tool.
    Http,
    /// A mail of a declarative tool.
    Mail,
    /// A transfer of the call, which a declarative tool asks for.
    Transfer,
    /// A run of another agent.
    Agent,
    /// A question to a person.
    Person,
    /// A time to wait for.
    Timer,
}

impl Question {
    /// The request in the words of a case. What a model reads is not in it.
    pub fn of(request: &Request) -> Self {
        let (kind, name, arguments) = match request {
            Request::ModelCompletion(_) => (Kind::Model, String::new(), json!({})),
            Request::MemorySearch(search) => {
                let arguments =
                    json!({ "query": search.query, "limit": search.limit, "min_score": search.min_score });
                (Kind::Memory, "search".to_owned(), arguments)
            }
            Request::MemoryCreate(create) => {
                let MemoryCreate { entity, entity_type, content, relations } = &**create;
                let mut arguments = json!({ "entity": entity, "type": entity_type, "content": content });
                if !relations.is_empty() {
                    let relations =
                        relations.iter().map(|one| json!({ "relation": one.relation, "to": one.to }));
                    arguments["relations"] = relations.collect();
                }
                (Kind::Memory, "create".to_owned(), arguments)
            }
            Request::MemoryTraverse(traverse) => {
                let MemoryTraverse { from, relation, depth, limit } = &**traverse;
                let arguments = json!({ "from": from, "relation": relation, "depth": depth, "limit": limit });
                (Kind::Memory, "traverse".to_owned(), arguments)
            }
            Request::ToolCall(call) => (Kind::Tool, call.tool_name.to_string(), call.parameters.clone()),
            Request::ApiCall(call) => {
                let mut arguments = json!({});
                if !call.query.is_empty() {
                    let pairs =
                        call.query.iter().map(|(name, value)| (name.clone(), value.to_string().into()));
                    arguments["query"] = Value::Object(pairs.collect());
                }
                if let Some(body) = &call.body {
                    arguments["body"] = body.value.clone();
                }
                (Kind::Http, format!("{} {}", call.method.as_str(), call.url), arguments)
            }
            Request::Email(mail) => {
                let arguments = json!({ "to": mail.to, "subject": mail.subject, "body": mail.body });
                (Kind::Mail, mail.to.join(", "), arguments)
            }
            Request::Transfer(transfer) => (Kind::Transfer, transfer.target.clone(), json!({})),
            Request::AgentCall(call) => {
                let mut arguments = json!({ "text": call.text });
                if !call.data.is_null() {
                    arguments["data"] = call.data.clone();
                }
                (Kind::Agent, call.agent.to_string(), arguments)
            }
            Request::Input(input) => (Kind::Person, input.question.clone(), json!({})),
            Request::Timer(_) => (Kind::Timer, String::new(), json!({})),
        };
        Self { kind, name, arguments }
    }

    /// Says whether it is a call of a tool or of an agent. A model calls the memory as a tool, too.
    pub const fn is_call(&self, is_by_model: bool) -> bool {
        match self.kind {
            Kind::Tool | Kind::Agent => true,
            Kind::Memory => is_by_model,
            Kind::Model | Kind::Http | Kind::Mail | Kind::Transfer | Kind::Person | Kind::Timer => false,
        }
    }

    /// Says whether such a call may change something: it does more than read.
    pub fn changes(&self, config: &AgentConfig) -> bool {
        if self.kind == Kind::Memory {
            return self.name == "create";
        }
        let tool = self.called().parse().ok().and_then(|name: ToolName| config.tools.tools.get(&name));
        !tool.is_some_and(|tool| tool.only_reads(&config.toolkits))
    }

    /// The name by which `calls`, `asks` and `answers` know it.
    pub fn called(&self) -> String {
        match self.kind {
            Kind::Memory => format!("memory.{}", self.name),
            Kind::Agent => format!("agents.{}", self.name),
            Kind::Model => "model".to_owned(),
            Kind::Timer => "timer".to_owned(),
            Kind::Mail => format!("mail to {}", self.name),
            Kind::Transfer => format!("transfer to {}", self.name),
            Kind::Tool | Kind::Http | Kind::Person => self.name.clone(),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Model => f.write_str("the model"),
            Kind::Tool => write!(f, "the tool `{}`", self.name),
            Kind::Memory => write!(f, "the memory: {}", self.name),
            Kind::Http => write!(f, "`{}`", self.name),
            Kind::Mail => write!(f, "a mail to {}", self.name),
            Kind::Transfer => write!(f, "a transfer to {}", self.name),
            Kind::Agent => write!(f, "the agent `{}`", self.name),
            Kind::Person => write!(f, "a person: {}", self.name),
            Kind::Timer => f.write_str("a timer"),
        }
    }
}
