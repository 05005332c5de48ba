//! What a delivery from outside comes to: a start of a run, or nothing.

use std::collections::BTreeMap;

use dalsegno_core::AgentName;
use dalsegno_expr::{EvalError, Expression, Template, ValueTemplate};
use serde_json::{Map, Value};

use crate::section::Located;
use crate::settings::SecretRef;

/// Deliveries from outside that start runs of an agent, `[triggers.NAME]`. Only dalsegno.toml has one: no document of the API
/// adds or changes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// The agent.
    pub agent: Located<AgentName>,
    /// The tenant that the runs belong to; the default tenant when the file does not say.
    pub tenant: Located<String>,
    /// How a delivery proves who sent it.
    pub signature: Signature,
    /// Where the secret is found by which it does.
    pub secret: SecretRef,
    /// The headers that the templates can read, in lower case. No other header leaves the server.
    pub headers: Vec<String>,
    /// Whether a delivery starts a run; each one does when absent.
    pub when: Option<Expression>,
    /// What the agent is asked; nothing when absent.
    pub text: Option<Template>,
    /// What it is given besides; the body when absent.
    pub data: Option<ValueTemplate>,
    /// The session of the run. One of its own when absent, and where it comes to an empty text.
    pub session: Option<Template>,
}

/// How a delivery proves who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// Standard Webhooks, `standard`: `webhook-id`, `webhook-timestamp` and the body are signed with HMAC-SHA256.
    Standard,
    /// GitHub, `github`: `X-Hub-Signature-256` signs the body with HMAC-SHA256.
    Github,
    /// The secret itself in a header, `token`.
    Token {
        /// The header that carries it, in lower case: `authorization` behind `Bearer `, any other alone.
        header: String,
        /// The header with the id of the delivery, in lower case; its id is the digest of its body when absent.
        id: Option<String>,
    },
}

/// What the templates of a trigger read of a delivery.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// The body; `null` where it is empty.
    pub body: Value,
    /// The headers that the trigger names, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The parameters of the address.
    pub query: BTreeMap<String, String>,
}

/// What a run is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct Triggered {
    /// What the agent is asked.
    pub text: String,
    /// What it is given besides.
    pub data: Value,
    /// The session; one of its own when absent.
    pub session: Option<String>,
}

/// A template that has no value for a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` cannot be evaluated for this delivery: {error}")]
pub struct TriggerError {
    /// The key of the trigger.
    pub key: &'static str,
    /// Why.
    pub error: Box<EvalError>,
}

impl Trigger {
    /// What a delivery starts a run with; nothing if `when` does not hold.
    ///
    /// # Errors
    /// When an expression has no value, or a limit is reached.
    pub fn begin(&self, delivery: Delivery) -> Result<Option<Triggered>, TriggerError> {
        let texts = |texts: BTreeMap<String, String>| {
            texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect::<Map<_, _>>()
        };
        let scope = Map::from_iter([
            ("body".to_owned(), delivery.body),
            ("headers".to_owned(), Value::Object(texts(delivery.headers))),
            ("query".to_owned(), Value::Object(texts(delivery.query))),
        ]);
        let failed = |key: &'static str| move |error| TriggerError { key, error: Box::new(error) };
        if let Some(when) = &self.when
            && !when.is_true(&scope).map_err(failed("when"))?
        {
            return Ok(None);
        }
        let text =
            |template: &Option<Template>| template.as_ref().map(|template| template.render_text(&scope));
        let asked = text(&self.text).transpose().map_err(failed("text"))?.unwrap_or_default();
        let session = text(&self.session).transpose().map_err(failed("session"))?;
        let data = self.data.as_ref().map(|data| data.render(&scope)).transpose().map_err(failed("data"))?;
        let body = |mut scope: Map<String, Value>| scope.remove("body").unwrap_or_default();
        Ok(Some(Triggered {
            text: asked,
            session: session.filter(|session| !session.is_empty()),
            data: data.unwrap_or_else(|| body(scope)),
        }))
    }
}
