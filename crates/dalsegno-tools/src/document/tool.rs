//! One tool of a document.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::actions::transpose;
use super::reader::{Fields, Reader};
use crate::parameters::{Parameter, schema};
use crate::tool::{Auth, Tool};

/// The fields that every tool has.
pub(super) const FIELDS: [&str; 10] = [
    "name",
    "description",
    "parameters",
    "actions",
    "on_success",
    "on_failure",
    "returns",
    "output",
    "verify",
    "is_enabled",
];

impl Reader<'_> {
    /// Reads a tool. `name` is its internal name, where it could be read.
    pub(super) fn tool(&mut self, fields: &Fields<'_>, name: Option<String>, auth: &Auth) -> Option<Tool> {
        let description =
            self.required_text(fields, "description", "what the tool does, in words for the model");
        let parameters = match fields.get("parameters") {
            Some(parameters) => self.parameters(parameters, &fields.at("parameters"), 1),
            None => Vec::new(),
        };
        self.known.params = parameters.iter().map(|parameter: &Parameter| parameter.name.clone()).collect();
        self.known.ids.clear();
        let returns = self.text(fields, "returns").map(ToOwned::to_owned);
        let is_enabled = self.flag(fields, "is_enabled", true);
        let actions = match fields.get("actions") {
            Some(actions) => self.actions(actions, &fields.at("actions"), 0),
            None => {
                self.missing(fields, "actions", "an array of actions");
                Vec::new()
            }
        };
        let output = fields.get("output").map(|output| self.value(&fields.at("output"), output));
        let list = |reader: &mut Self, name: &str| match fields.get(name) {
            Some(actions) => reader.actions(actions, &fields.at(name), 0),
            None => Vec::new(),
        };
        let on_success = list(self, "on_success");
        self.known.in_failure = true;
        let on_failure = list(self, "on_failure");
        self.known.in_failure = false;
        let verify = match fields.get("verify") {
            Some(_) => Some(self.verify(fields, name.as_deref())?),
            None => None,
        };
        let schema = match parameters.is_empty() {
            true => json!({"type": "object", "properties": {}, "additionalProperties": false}),
            false => schema(&parameters),
        };
        Some(Tool {
            name: name?,
            description: description?.to_owned(),
            parameters,
            schema,
            returns,
            is_enabled,
            actions,
            on_success,
            on_failure,
            output: transpose(output)?,
            verify,
            auth: auth.clone(),
            secret_paths: self.settings.secret_paths.clone(),
        })
    }

    /// Reads the name of a tool or of a toolkit.
    pub(super) fn tool_name(&mut self, fields: &Fields<'_>, what: &str) -> Option<String> {
        let text = self.required_text(fields, "name", "a name of lower-case letters, digits and `_`")?;
        self.name(&fields.at("name"), what, text)
    }
}

/// Says whether a document is a toolkit: its actions are tools, which have a name and no type.
pub(super) fn is_toolkit(document: &Value) -> bool {
    let Some(Value::Array(actions)) = document.get("actions") else {
        return document.get("config_schema").is_some() || document.get("auth").is_some();
    };
    match actions.first() {
        Some(first) => {
            first.get("type").is_none() && (first.get("actions").is_some() || first.get("name").is_some())
        }
        None => false,
    }
}
