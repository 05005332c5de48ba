//! Declarative tools among all others.

use std::collections::BTreeSet;

use dalsegno_core::{EffectClass, OrderedJson, ToolKind, ToolName, ToolOwner};
use dalsegno_tools::{Parameter, Shape, Toolkit};
use serde_json::{Map, Value};

use super::ToolkitFile;
use super::config::short;
use crate::catalogue::{Catalogue, CatalogueTool};
use crate::tenant::ToolkitSettings;

/// Where a declarative tool comes from, and how its tenant sets it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredTool {
    /// The document with all its tools. Cheap to clone; a run keeps it as it was when the run began.
    pub toolkit: Toolkit,
    /// What the tenant sets of the configuration. It stands above what an agent sets.
    pub config: Map<String, Value>,
    /// Whose the document is.
    pub owner: ToolOwner,
}

impl DeclaredTool {
    /// The configuration that the tools read: the document's defaults, above them what the agent sets, and above that
    /// what the tenant sets. An agent is there for all tenants, so it cannot take a setting away from one.
    pub fn config_with(&self, agent: Option<&ToolkitSettings>) -> Map<String, Value> {
        let mut given = agent.map(|agent| agent.config.clone()).unwrap_or_default();
        given.extend(self.config.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.toolkit.config_with(&given)
    }
}

/// Adds the tools of a document that are switched on.
pub(crate) fn add(
    catalogue: &mut Catalogue,
    file: &ToolkitFile,
    tenant: Option<&ToolkitSettings>,
    owner: &ToolOwner,
) {
    let none = BTreeSet::new();
    let disabled = tenant.map_or(&none, |tenant| &tenant.disabled);
    let declared = DeclaredTool {
        toolkit: file.toolkit.clone(),
        config: tenant.map(|tenant| tenant.config.clone()).unwrap_or_default(),
        owner: owner.clone(),
    };
    for tool in file.toolkit.tools() {
        if !tool.is_enabled() || !file.toolkit.is_enabled() || disabled.contains(short(tool.name())) {
            continue;
        }
        // Names of documents are stricter than names of tools.
        let Ok(name) = tool.name().parse::<ToolName>() else { continue };
        let offered = CatalogueTool {
            kind: ToolKind::Declarative { toolkit: file.name().to_owned(), tool: tool.name().to_owned() },
            declared: Some(EffectClass::Composite),
            document: Some(declared.clone()),
            ..CatalogueTool::new(tool.description(), in_order(tool.schema(), tool.parameters()))
        };
        catalogue.insert(name, offered);
    }
}

/// The schema of an object with its properties in the order of the document's parameters.
fn in_order(schema: &Value, parameters: &[Parameter]) -> OrderedJson {
    let Value::Object(keywords) = schema else { return OrderedJson::sorted(schema) };
    let keywords = keywords.iter().map(|(keyword, value)| {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties = parameters.iter().filter_map(|parameter| {
                    let (name, schema) = properties.get_key_value(&parameter.name)?;
                    Some((name.clone(), of_shape(schema, &parameter.shape)))
                });
                OrderedJson::object(properties)
            }
            _ => OrderedJson::sorted(value),
        };
        (keyword.clone(), value)
    });
    OrderedJson::object(keywords)
}

fn of_shape(schema: &Value, shape: &Shape) -> OrderedJson {
    match (schema, &shape.items, &shape.properties) {
        (Value::Object(keywords), Some(items), _) => {
            let keywords = keywords.iter().map(|(keyword, value)| {
                let value = match keyword.as_str() {
                    "items" => of_shape(value, items),
                    _ => OrderedJson::sorted(value),
                };
                (keyword.clone(), value)
            });
            OrderedJson::object(keywords)
        }
        (_, None, Some(properties)) => in_order(schema, properties),
        (_, _, _) => OrderedJson::sorted(schema),
    }
}
