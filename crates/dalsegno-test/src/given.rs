//! What comes of requests that are none to a model.

use dalsegno_core::FailureCode;
use dalsegno_workspace::{Asked, CaseResult, Gives, Located};
use serde_json::Value;

use crate::reply::Reply;

/// What comes of a request to a tool, the memory, a service or another agent. It answers the first such request that is left; with
/// [`again`](Self::again) all further ones, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    of: Asked,
    with: Value,
    gives: Gives,
    repeat: bool,
}

impl Given {
    fn new(of: Asked) -> Self {
        Self { of, with: Value::Null, gives: answer(None, None, 200), repeat: false }
    }

    /// A call of a tool. A declarative tool is computed: what is given is what comes of its requests.
    pub fn tool(name: &str) -> Self {
        Self::new(Asked::Tool(name.to_owned()))
    }

    /// A memory operation: `search`, `create` or `traverse`.
    pub fn memory(operation: &str) -> Self {
        Self::new(Asked::Memory(operation.to_owned()))
    }

    /// An HTTP request of a declarative tool, such as `POST https://api.example.com/refunds`; `*` at the end matches any text.
    pub fn http(request: &str) -> Self {
        Self::new(Asked::Http(request.to_owned()))
    }

    /// A mail of a declarative tool to this address, or to any with `*`.
    pub fn mail(recipient: &str) -> Self {
        Self::new(Asked::Mail(recipient.to_owned()))
    }

    /// A transfer of the call to this address, or to any with `*`.
    pub fn transfer(target: &str) -> Self {
        Self::new(Asked::Transfer(target.to_owned()))
    }

    /// A run of another agent.
    pub fn agent(name: &str) -> Self {
        Self::new(Asked::Agent(name.to_owned()))
    }

    /// Answers only requests that have these arguments, among others.
    #[must_use]
    pub fn with(self, arguments: Value) -> Self {
        Self { with: arguments, ..self }
    }

    /// The structured result. It must fit what the tool promises. For a memory search: a list of hits.
    #[must_use]
    pub fn returns(self, value: Value) -> Self {
        let gives = match self.gives {
            Gives::Answer { text, status, .. } => answer(Some(value), text, status),
            Gives::Error(_) | Gives::Fails { .. } | Gives::Run(_) => answer(Some(value), None, 200),
        };
        Self { gives, ..self }
    }

    /// The result as text, or the answer of an agent.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let text = Some(text.to_owned());
        let gives = match self.gives {
            Gives::Answer { returns, status, .. } => answer(returns, text, status),
            Gives::Error(_) | Gives::Fails { .. } | Gives::Run(_) => answer(None, text, 200),
        };
        Self { gives, ..self }
    }

    /// The status of an HTTP answer, 200 by default.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        let gives = match self.gives {
            Gives::Answer { returns, text, .. } => answer(returns, text, status),
            Gives::Error(_) | Gives::Fails { .. } | Gives::Run(_) => answer(None, None, status),
        };
        Self { gives, ..self }
    }

    /// An error in the receiver's own words.
    #[must_use]
    pub fn error(self, message: &str) -> Self {
        Self { gives: Gives::Error(message.to_owned()), ..self }
    }

    /// There is no answer. [`FailureCode::Indeterminate`] asks a person whether it took place, where the agent does not say otherwise.
    #[must_use]
    pub fn fails(self, code: FailureCode, message: &str) -> Self {
        Self { gives: Gives::Fails { code, message: message.to_owned() }, ..self }
    }

    /// The run of the agent is part of the case: this is what its models reply. What its tools return is given as for the agent itself.
    #[must_use]
    pub fn replying(self, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter().enumerate();
        let replies = replies.map(|(number, reply)| Located { value: reply.value(), span: number..number });
        Self { gives: Gives::Run(replies.collect()), ..self }
    }

    /// Answers all further requests as well.
    #[must_use]
    pub fn again(self) -> Self {
        Self { repeat: true, ..self }
    }

    /// As a case has it; the number tells it from others.
    pub(crate) fn result(&self, number: usize) -> Result<CaseResult, String> {
        let Self { of, with, gives, repeat } = self.clone();
        let is_known = match &of {
            Asked::Memory(word) => matches!(word.as_str(), "search" | "create" | "traverse"),
            Asked::Http(request) => request == "*" || request.split_once(' ').is_some(),
            Asked::Tool(_) | Asked::Mail(_) | Asked::Transfer(_) | Asked::Agent(_) => true,
        };
        match is_known {
            true => Ok(CaseResult { of, with, gives, repeat, takes_ms: 0, span: number..number }),
            false => Err(match of {
                Asked::Memory(word) => {
                    format!("a memory has no operation `{word}`: it has `search`, `create` and `traverse`")
                }
                other => format!(
                    "{other:?} is no request: expected a method and an address, such as `POST https://api.example.com/refunds`, or `*`"
                ),
            }),
        }
    }
}

const fn answer(returns: Option<Value>, text: Option<String>, status: u16) -> Gives {
    Gives::Answer { returns, text, status }
}
