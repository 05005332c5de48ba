//! What a delivery from outside comes to: a start of a run, or nothing.

use std::collections::BTreeMap;

use dalsegno_core::AgentName;
use dalsegno_expr::{EvalError, Expression, Reference, Template, TemplatePart, ValueTemplate};
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
    /// The body.
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
#[non_exhaustive]
pub enum TriggerError {
    /// An expression has no value, or a limit is reached.
    #[error("`{key}` cannot be evaluated for this delivery: {error}")]
    Evaluation {
        /// The key of the trigger.
        key: &'static str,
        /// Why.
        error: Box<EvalError>,
    },
    /// A value that the template reads is not there.
    #[error("`{key}` reads `{path}`, and this delivery has no value there")]
    Missing {
        /// The key of the trigger.
        key: &'static str,
        /// The expression of the template.
        path: Box<str>,
    },
}

impl Trigger {
    /// What a delivery starts a run with; nothing if `when` does not hold.
    ///
    /// # Errors
    /// When an expression has no value, a value that `text` or `session` reads is missing, or a limit is reached.
    pub fn begin(&self, delivery: Delivery) -> Result<Option<Triggered>, TriggerError> {
        let texts = |texts: BTreeMap<String, String>| {
            texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect::<Map<_, _>>()
        };
        let scope = Map::from_iter([
            ("body".to_owned(), delivery.body),
            ("headers".to_owned(), Value::Object(texts(delivery.headers))),
            ("query".to_owned(), Value::Object(texts(delivery.query))),
        ]);
        let failed =
            |key: &'static str| move |error| TriggerError::Evaluation { key, error: Box::new(error) };
        if let Some(when) = &self.when
            && !when.is_true(&scope).map_err(failed("when"))?
        {
            return Ok(None);
        }
        let text = |template: &Template, key| {
            let rendered = template.render_text(&scope).map_err(failed(key))?;
            complete(template, key, &rendered, &scope)?;
            Ok(rendered)
        };
        let asked =
            self.text.as_ref().map(|template| text(template, "text")).transpose()?.unwrap_or_default();
        let session = self.session.as_ref().map(|template| text(template, SESSION)).transpose()?;
        let data = self.data.as_ref().map(|data| data.render(&scope)).transpose().map_err(failed("data"))?;
        let body = |mut scope: Map<String, Value>| scope.remove("body").unwrap_or_default();
        Ok(Some(Triggered {
            text: asked,
            session: session.filter(|session| !session.is_empty()),
            data: data.unwrap_or_else(|| body(scope)),
        }))
    }
}

/// The key whose values name what runs share.
const SESSION: &str = "session";

/// Checks that a delivery has all values that a template reads. What is missing in a session would put runs that have nothing to do
/// with each other into one; there, a value that is `null` or empty is missing as well, unless the whole text is empty, which is no
/// session.
fn complete(
    template: &Template,
    key: &'static str,
    rendered: &str,
    scope: &Map<String, Value>,
) -> Result<(), TriggerError> {
    for part in template.parts() {
        let TemplatePart::Expression(expression) = part else { continue };
        let value = expression
            .evaluate(scope)
            .map_err(|error| TriggerError::Evaluation { key, error: Box::new(error) })?;
        let is_missing = match &value {
            Value::Null if key == SESSION => true,
            Value::Null => expression.paths().iter().any(|path| !is_there(path, scope)),
            Value::String(text) => key == SESSION && text.is_empty() && !rendered.is_empty(),
            _ => false,
        };
        if is_missing {
            return Err(TriggerError::Missing { key, path: expression.source().trim().into() });
        }
    }
    Ok(())
}

/// Says whether a path leads to something, which may be `null`.
fn is_there(path: &Reference, scope: &Map<String, Value>) -> bool {
    let root = scope.get(&path.root);
    let found = path.segments.iter().try_fold(root, |value, name| match value {
        Some(Value::Array(list)) => Some(list.get(name.parse::<usize>().ok()?)),
        value => Some(value?.get(name)),
    });
    found.flatten().is_some()
}
