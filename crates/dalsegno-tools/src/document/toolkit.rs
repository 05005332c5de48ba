//! Toolkits: many tools with one configuration, one set of secrets and one way to prove who calls.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::reader::{Fields, Reader};
use super::tool::{self, is_toolkit};
use crate::json;
use crate::limits::{MAX_NAME, MAX_TOOLS};
use crate::name;
use crate::problem::{item, member};
use crate::tool::{Auth, Inner, KeyPlace, OAuth2, Tool, Toolkit};

/// The fields that a toolkit has besides its tools; a single tool may have them too.
const SHARED: [&str; 3] = ["config_schema", "secrets", "auth"];
const TOOLKIT: [&str; 7] =
    ["name", "description", "config_schema", "secrets", "auth", "actions", "is_enabled"];

/// Reads a document.
pub(super) fn toolkit(reader: &mut Reader<'_>, document: &Value) -> Option<Toolkit> {
    let is_single = !is_toolkit(document);
    let single = [tool::FIELDS.as_slice(), &SHARED].concat();
    let (what, known) = match is_single {
        true => ("a tool", single.as_slice()),
        false => ("a toolkit", TOOLKIT.as_slice()),
    };
    let fields = reader.object(document, "", what, known)?;
    let name = reader.tool_name(&fields, what);
    let (config_schema, config_defaults) = reader.config_schema(&fields);
    let mut secrets = reader.secrets(&fields);
    let auth = reader.auth(&fields, &mut secrets);
    reader.known.secrets = secrets.keys().cloned().collect();
    let is_enabled = reader.flag(&fields, "is_enabled", true);
    let mut description = String::new();
    let mut tools = Vec::new();
    if is_single {
        tools.extend(reader.tool(&fields, name.clone(), &auth).map(|tool| (String::new(), tool)));
    } else {
        description = reader.text(&fields, "description").unwrap_or_default().to_owned();
        tools = reader.tools(&fields, name.as_deref(), is_enabled, &auth);
    }
    if let (true, Some((_, tool))) = (is_single, tools.first()) {
        description = tool.description.clone();
    }
    reader.check_verify(&tools);
    Some(Toolkit(Arc::new(Inner {
        source: document.clone(),
        settings: reader.settings.clone(),
        name: name?,
        description,
        is_single,
        is_enabled,
        config_schema,
        config_defaults,
        secrets,
        auth,
        tools: tools.into_iter().map(|(_, tool)| tool).collect(),
    })))
}

impl Reader<'_> {
    fn tools(
        &mut self,
        fields: &Fields<'_>,
        toolkit: Option<&str>,
        is_enabled: bool,
        auth: &Auth,
    ) -> Vec<(String, Tool)> {
        let Some(items) = self.list(fields, "actions") else {
            if fields.get("actions").is_none() {
                self.missing(fields, "actions", "an array of tools");
            }
            return Vec::new();
        };
        let pointer = fields.at("actions");
        if items.len() > MAX_TOOLS {
            self.problem(
                pointer,
                format!("there are {} tools", items.len()),
                format!("expected at most {MAX_TOOLS}"),
            );
            return Vec::new();
        }
        let mut tools: Vec<(String, Tool)> = Vec::new();
        for (index, value) in items.iter().enumerate() {
            let pointer = item(&pointer, index);
            let Some(inner) = self.object(value, &pointer, "a tool", &tool::FIELDS) else { continue };
            let short = self.tool_name(&inner, "a tool");
            let name = short.map(|short| format!("{}.{short}", toolkit.unwrap_or_default()));
            if let Some(name) = &name {
                if name.len() + 1 > MAX_NAME {
                    self.problem(
                        inner.at("name"),
                        format!("`{}` is too long for a model", name.replace('.', "__")),
                        format!("expected at most {MAX_NAME} characters with the toolkit's name"),
                    );
                }
                if tools.iter().any(|(_, tool)| tool.name == *name) {
                    self.problem(
                        inner.at("name"),
                        format!("there are two tools `{name}`"),
                        "give each its own name",
                    );
                }
            }
            let tool = self.tool(&inner, name, auth);
            tools.extend(tool.map(|tool| {
                let is_enabled = tool.is_enabled && is_enabled;
                (pointer, Tool { is_enabled, ..tool })
            }));
        }
        tools
    }

    /// Reads the schema of the configuration; a map of properties stands for the schema of an object with these.
    fn config_schema(&mut self, fields: &Fields<'_>) -> (Option<Value>, Map<String, Value>) {
        self.known.config = Some(Vec::new());
        let Some(value) = fields.get("config_schema") else { return (None, Map::new()) };
        let pointer = fields.at("config_schema");
        let Value::Object(map) = value else {
            self.problem(
                pointer,
                format!("this is {}", json::kind(value)),
                "expected a JSON Schema for an object",
            );
            return (None, Map::new());
        };
        let is_schema = map.get("type").is_some_and(Value::is_string) || map.contains_key("properties");
        let schema = match is_schema {
            true => value.clone(),
            false => json!({"type": "object", "properties": map}),
        };
        let properties = match schema.get("properties") {
            Some(Value::Object(properties)) => properties.clone(),
            None => Map::new(),
            Some(_) => {
                self.problem(
                    member(&pointer, "properties"),
                    "this is no object",
                    "expected an object of properties",
                );
                return (None, Map::new());
            }
        };
        let mut defaults = Map::new();
        for (name, property) in json::sorted(&properties) {
            let pointer = if is_schema {
                member(&member(&pointer, "properties"), name)
            } else {
                member(&pointer, name)
            };
            let Value::Object(property) = property else {
                self.problem(pointer, format!("this is {}", json::kind(property)), "expected a JSON Schema");
                continue;
            };
            if name::is_forbidden(name) {
                self.problem(pointer, format!("the name `{name}` is not allowed"), "choose another");
                continue;
            }
            if let Some(default) = property.get("default") {
                defaults.insert(name.clone(), default.clone());
            }
        }
        let is_open = schema.get("additionalProperties").is_some_and(|more| more != &Value::Bool(false));
        self.known.config =
            (!is_open).then(|| json::sorted(&properties).into_iter().map(|(name, _)| name.clone()).collect());
        (Some(schema), defaults)
    }

    /// Reads the names of secrets: an array of them, or an object with what each is.
    fn secrets(&mut self, fields: &Fields<'_>) -> BTreeMap<String, String> {
        let mut secrets = BTreeMap::new();
        let pointer = fields.at("secrets");
        let named: Vec<(String, String, String)> = match fields.get("secrets") {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, value)| {
                    (item(&pointer, index), value.as_str().unwrap_or_default().to_owned(), String::new())
                })
                .collect(),
            Some(Value::Object(map)) => json::sorted(map)
                .into_iter()
                .map(|(name, value)| {
                    let description = value.get("description").or(Some(value)).and_then(Value::as_str);
                    (member(&pointer, name), name.clone(), description.unwrap_or_default().to_owned())
                })
                .collect(),
            Some(other) => {
                self.problem(
                    pointer,
                    format!("this is {}", json::kind(other)),
                    "expected the names of secrets; their values belong in the secret store",
                );
                return secrets;
            }
        };
        for (pointer, name, description) in named {
            if let Some(name) = self.name(&pointer, "a secret", &name) {
                secrets.insert(name, description);
            }
        }
        secrets
    }

    fn auth(&mut self, fields: &Fields<'_>, secrets: &mut BTreeMap<String, String>) -> Auth {
        let Some(value) = fields.get("auth") else { return Auth::None };
        let pointer = fields.at("auth");
        const TYPES: [(&str, usize); 4] = [("none", 0), ("bearer", 1), ("api_key", 2), ("oauth2", 3)];
        let object;
        let value = match value {
            Value::String(kind) => {
                object = json!({"type": kind});
                &object
            }
            value => value,
        };
        let known: &[&str] = match value.get("type").and_then(Value::as_str) {
            Some("none") => &["type"],
            Some("bearer") => &["type", "secret"],
            Some("api_key") => &["type", "secret", "header", "query"],
            _ => &[
                "type",
                "auth_url",
                "token_url",
                "scopes",
                "client_id",
                "client_id_secret",
                "client_secret",
                "access_token",
                "refresh_token",
                "auth_params",
                "provider",
            ],
        };
        let Some(auth) = self.object(value, &pointer, "`auth`", known) else { return Auth::None };
        if auth.get("type").is_none() {
            self.missing(&auth, "type", "none, bearer, api_key or oauth2");
        }
        match self.choice(&auth, "type", &TYPES) {
            Some(1) => Auth::Bearer {
                secret: self.auth_secret(&auth, "secret", "token", "the bearer token", secrets),
            },
            Some(2) => self.api_key(&auth, secrets),
            Some(3) => self.oauth2(&auth, secrets).map_or(Auth::None, Auth::OAuth2),
            _ => Auth::None,
        }
    }

    /// Reads the name of a secret that the `auth` needs, which need not be named in `secrets` too.
    fn auth_secret(
        &mut self,
        auth: &Fields<'_>,
        field: &str,
        default: &str,
        what: &str,
        secrets: &mut BTreeMap<String, String>,
    ) -> String {
        let name = match self.text(auth, field) {
            Some(text) => {
                let text = text.strip_prefix("secrets.").unwrap_or(text);
                self.name(&auth.at(field), "a secret", text).unwrap_or_default()
            }
            None => default.to_owned(),
        };
        let description = secrets.entry(name.clone()).or_default();
        if description.is_empty() {
            *description = what.to_string();
        }
        name
    }

    fn api_key(&mut self, auth: &Fields<'_>, secrets: &mut BTreeMap<String, String>) -> Auth {
        let secret = self.auth_secret(auth, "secret", "api_key", "the API key", secrets);
        let header = self.text(auth, "header").map(str::to_ascii_lowercase);
        let query = self.text(auth, "query").map(ToOwned::to_owned);
        let place = match (header, query) {
            (Some(_), Some(_)) => {
                self.problem(
                    auth.at("query"),
                    "the key stands in a header already",
                    "give `header` or `query`",
                );
                return Auth::None;
            }
            (None, Some(query)) => KeyPlace::Query(query),
            (header, None) => {
                let header = header.unwrap_or_else(|| "x-api-key".to_owned());
                if !super::api_call::is_header_name(&header) {
                    self.problem(
                        auth.at("header"),
                        format!("`{}` is not the name of a header", json::excerpt(&header)),
                        "expected letters, digits and `-`",
                    );
                }
                KeyPlace::Header(header)
            }
        };
        Auth::ApiKey { secret, place }
    }

    fn oauth2(&mut self, auth: &Fields<'_>, secrets: &mut BTreeMap<String, String>) -> Option<OAuth2> {
        let auth_url = self.endpoint(auth, "auth_url");
        let token_url = self.endpoint(auth, "token_url");
        let scopes = match self.list(auth, "scopes") {
            Some(scopes) => scopes
                .iter()
                .enumerate()
                .filter_map(|(index, scope)| match scope {
                    Value::String(scope) => Some(scope.clone()),
                    _ => {
                        self.problem(
                            item(&auth.at("scopes"), index),
                            "this is not a string",
                            "expected a scope",
                        );
                        None
                    }
                })
                .collect(),
            None => Vec::new(),
        };
        let mut auth_params = BTreeMap::new();
        match auth.get("auth_params") {
            None => {}
            Some(Value::Object(map)) => {
                for (name, value) in json::sorted(map) {
                    match value {
                        Value::String(value) => {
                            auth_params.insert(name.clone(), value.clone());
                        }
                        _ => self.problem(
                            member(&auth.at("auth_params"), name),
                            "this is not a string",
                            "expected text",
                        ),
                    }
                }
            }
            Some(_) => self.problem(auth.at("auth_params"), "this is no object", "expected names and texts"),
        }
        let client_id = self.text(auth, "client_id").map(ToOwned::to_owned);
        let client_id_secret = match client_id {
            Some(_) => String::new(),
            None => self.auth_secret(auth, "client_id_secret", "client_id", "the client's id", secrets),
        };
        Some(OAuth2 {
            auth_url: auth_url?,
            token_url: token_url?,
            scopes,
            client_id,
            client_id_secret,
            client_secret: self.auth_secret(
                auth,
                "client_secret",
                "client_secret",
                "the client's secret",
                secrets,
            ),
            access_token: self.auth_secret(
                auth,
                "access_token",
                "access_token",
                "the access token, kept by the engine",
                secrets,
            ),
            refresh_token: self.auth_secret(
                auth,
                "refresh_token",
                "refresh_token",
                "the refresh token, kept by the engine",
                secrets,
            ),
            auth_params,
        })
    }

    fn endpoint(&mut self, auth: &Fields<'_>, name: &str) -> Option<String> {
        let url = self.required_text(auth, name, "a URL that begins with `https://`")?;
        // Plain HTTP is there for servers on one's own machine; where it may lead is checked when it is used.
        if url.starts_with("https://") || url.starts_with("http://") {
            return Some(url.to_owned());
        }
        self.problem(
            auth.at(name),
            format!("`{}` is not a URL", json::excerpt(url)),
            "expected one that begins with `https://`",
        );
        None
    }
}
