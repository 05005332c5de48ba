//! Tools made of functions.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use dalsegno_core::{EffectClass, OrderedJson, ToolReturn};
use dalsegno_runtime::{Invocation, Tool, ToolDescription, ToolError};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Makes a tool of an async function.
///
/// The function takes the arguments of a call, as a type with named fields, and the [`Invocation`], which tells whose call it
/// is. The JSON Schema of the arguments comes from the type: the comments of its fields are what a model reads about them. The
/// value that the function returns is the result of the call, as JSON; a text stays a text.
///
/// Arguments that the type does not accept, although the schema does, are a [refused](ToolError::refused) call.
///
/// ```
/// use dalsegno::{EffectClass, Invocation, Tool, ToolError, function};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Payment {
///     /// The customer's number.
///     customer: u64,
///     cents: u32,
/// }
///
/// #[derive(Serialize)]
/// struct Receipt {
///     number: String,
/// }
///
/// // The operation is the same for every attempt, so the bank can tell a repeat by it.
/// let pay = function("Pays a customer.", EffectClass::Keyed, async |payment: Payment, call: Invocation| {
///     if payment.cents > 10_000 {
///         return Err(ToolError::refused("the limit is 100 euros"));
///     }
///     Ok(Receipt { number: format!("{}-{}", payment.customer, call.operation) })
/// });
/// assert_eq!(pay.describe().input_schema["required"], serde_json::json!(["customer", "cents"]));
/// ```
pub fn function<A, R, F, Fut>(description: impl Into<String>, class: EffectClass, run: F) -> Function<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize,
    F: Fn(A, Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send,
{
    let description = ToolDescription::new(description, class).with_input(schema_of::<A>());
    Function { description, run, arguments: PhantomData }
}

/// A tool that [`function`] made.
pub struct Function<A, F> {
    description: ToolDescription,
    run: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F> fmt::Debug for Function<A, F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Function").field("description", &self.description).finish_non_exhaustive()
    }
}

#[async_trait]
impl<A, R, F, Fut> Tool for Function<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize,
    F: Fn(A, Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send,
{
    fn describe(&self) -> ToolDescription {
        self.description.clone()
    }

    async fn call(&self, mut invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let arguments = serde_json::from_value(invocation.arguments.take())
            .map_err(|error| ToolError::refused(format!("the arguments do not fit: {error}")))?;
        let class = self.description.class;
        let value = (self.run)(arguments, invocation).await?;
        let value = serde_json::to_value(value).map_err(|error| {
            let message = format!("the result of the tool cannot be written as JSON: {error}");
            // The function has run, so that its effect took place.
            match class {
                EffectClass::Read => ToolError::refused(message),
                _ => ToolError { transient: false, ..ToolError::possibly_received(message) },
            }
        })?;
        Ok(match value {
            Value::String(text) => ToolReturn { text, ..ToolReturn::default() },
            value => ToolReturn::structured(value),
        })
    }
}

/// The schema of a type, without what a model does not need. The properties that must be given come first, in the order of
/// the type's fields; the generator does not keep the order of the others.
fn schema_of<A: JsonSchema>() -> OrderedJson {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    required_first(OrderedJson::sorted(&schema.to_value()))
}

fn required_first(schema: OrderedJson) -> OrderedJson {
    let required: Vec<String> = match schema.get("required") {
        Some(OrderedJson::Array(names)) => names.iter().filter_map(text).collect(),
        _ => Vec::new(),
    };
    match schema {
        OrderedJson::Object(members) => OrderedJson::Object(
            members
                .into_iter()
                .map(|(name, value)| {
                    let mut value = required_first(value);
                    if let (true, OrderedJson::Object(properties)) = (name == "properties", &mut value) {
                        let place = |name: &str| required.iter().position(|required| required == name);
                        properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
                    }
                    (name, value)
                })
                .collect(),
        ),
        OrderedJson::Array(items) => OrderedJson::Array(items.into_iter().map(required_first).collect()),
        OrderedJson::Value(value) => OrderedJson::Value(value),
    }
}

fn text(json: &OrderedJson) -> Option<String> {
    match json {
        OrderedJson::Value(Value::String(text)) => Some(text.clone()),
        OrderedJson::Value(_) | OrderedJson::Array(_) | OrderedJson::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Verdict {
        reasoning: String,
        note: Option<String>,
        answer: Inner,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        why: String,
        certain: bool,
    }

    #[test]
    fn a_model_is_told_of_the_fields_in_their_order() {
        let schema = schema_of::<Verdict>().to_string();
        let places = ["\"reasoning\":{", "\"answer\":{", "\"why\":{", "\"certain\":{", "\"note\":{"];
        let places = places.map(|field| schema.find(field).unwrap());
        assert!(places.is_sorted(), "{schema}");
    }
}
