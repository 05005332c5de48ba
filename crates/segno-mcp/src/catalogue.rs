//! What a server says about its tools, resources and prompts.

use std::collections::BTreeSet;

use rmcp::model::{Prompt, Resource, Tool};
use serde_json::Value;

/// A tool as its server describes it. All of it is the word of another party.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDescription {
    /// The name to call it by, unique within its server.
    pub name: String,
    /// What it does, for people and models.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, always an object schema.
    pub input_schema: Value,
    /// The JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// What the server says about its effects.
    pub annotations: Annotations,
}

/// Hints of a server about the effects of a tool. They may make a caller more careful, never less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// It reaches things outside of its server.
    pub open_world: Option<bool>,
}

/// A resource as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDescription {
    /// What to read it by.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is, for people and models.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
}

/// A prompt as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptDescription {
    /// The name to get it by.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The names of its arguments, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}

impl From<Resource> for ResourceDescription {
    fn from(resource: Resource) -> Self {
        Self {
            uri: resource.uri,
            name: resource.name,
            description: resource.description,
            mime_type: resource.mime_type,
        }
    }
}

impl From<Prompt> for PromptDescription {
    fn from(prompt: Prompt) -> Self {
        let arguments = prompt.arguments.unwrap_or_default().into_iter();
        let arguments = arguments.map(|argument| (argument.name, argument.required.unwrap_or(false)));
        Self { name: prompt.name, description: prompt.description, arguments: arguments.collect() }
    }
}

/// The tools of a server as they come in, page by page, within limits.
#[derive(Default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<ToolDescription>,
    names: BTreeSet<String>,
    bytes: usize,
}

/// The pages of a list that were asked for.
#[derive(Default)]
pub(crate) struct Pages {
    cursors: BTreeSet<String>,
}

impl Catalogue {
    /// Takes one page. An error says what is wrong with it.
    pub(crate) fn add(&mut self, page: Vec<Tool>) -> Result<(), String> {
        for tool in page {
            let tool = describe(tool);
            if tool.name.is_empty() || tool.name.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "a tool name has {} bytes, expected 1 to {NAME_BYTES_MAX}",
                    tool.name.len()
                ));
            }
            self.bytes += size(&tool);
            if self.bytes > CATALOGUE_BYTES_MAX {
                return Err(format!(
                    "the descriptions of its tools take more than {CATALOGUE_BYTES_MAX} bytes"
                ));
            }
            if !self.names.insert(tool.name.clone()) {
                return Err(format!("it lists the tool `{}` twice", tool.name.escape_debug()));
            }
            self.tools.push(tool);
            if self.tools.len() > TOOLS_MAX {
                return Err(format!("it lists more than {TOOLS_MAX} tools"));
            }
        }
        Ok(())
    }
}

impl Pages {
    /// Notes that the page after `cursor` is asked for. A cursor that comes again would never end.
    pub(crate) fn follow(&mut self, cursor: &str) -> Result<(), String> {
        if !self.cursors.insert(cursor.to_owned()) {
            return Err("one of its lists goes round in a circle".to_owned());
        }
        if self.cursors.len() >= PAGES_MAX {
            return Err(format!("one of its lists has more than {PAGES_MAX} pages"));
        }
        Ok(())
    }
}

fn describe(tool: Tool) -> ToolDescription {
    let hints = tool.annotations.unwrap_or_default();
    ToolDescription {
        name: tool.name.into_owned(),
        description: tool.description.map(std::borrow::Cow::into_owned),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool.output_schema.map(|schema| Value::Object((*schema).clone())),
        annotations: Annotations {
            read_only: hints.read_only_hint,
            idempotent: hints.idempotent_hint,
            destructive: hints.destructive_hint,
            open_world: hints.open_world_hint,
        },
    }
}

fn size(tool: &ToolDescription) -> usize {
    let schema = |schema: &Value| schema.to_string().len();
    tool.name.len()
        + tool.description.as_ref().map_or(0, String::len)
        + schema(&tool.input_schema)
        + tool.output_schema.as_ref().map_or(0, schema)
}

/// The longest tool name that the protocol allows.
const NAME_BYTES_MAX: usize = 128;

/// More tools than this no model can choose among.
const TOOLS_MAX: usize = 1_000;

/// Names, descriptions and schemas of all tools together.
const CATALOGUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Pages of one list.
const PAGES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::Tool;

    use super::{Catalogue, PAGES_MAX, Pages, TOOLS_MAX};

    fn tool(name: String) -> Tool {
        Tool::new(name, "does something", Arc::default())
    }

    #[test]
    fn a_tool_that_is_listed_twice_is_refused() {
        let mut catalogue = Catalogue::default();
        catalogue.add(vec![tool("a".to_owned())]).unwrap();
        assert_eq!(catalogue.add(vec![tool("a".to_owned())]).unwrap_err(), "it lists the tool `a` twice");
    }

    #[test]
    fn too_many_tools_are_refused() {
        let mut catalogue = Catalogue::default();
        let tools = |range: std::ops::Range<usize>| range.map(|number| tool(number.to_string())).collect();
        catalogue.add(tools(0..TOOLS_MAX)).unwrap();
        assert!(catalogue.add(tools(TOOLS_MAX..TOOLS_MAX + 1)).is_err());
    }

    #[test]
    fn names_without_end_are_refused() {
        for name in [String::new(), "a".repeat(200)] {
            assert!(Catalogue::default().add(vec![tool(name)]).is_err());
        }
    }

    #[test]
    fn pages_that_go_round_in_a_circle_are_refused() {
        let mut pages = Pages::default();
        pages.follow("a").unwrap();
        assert!(pages.follow("a").is_err());
    }

    #[test]
    fn pages_without_end_are_refused() {
        let mut pages = Pages::default();
        assert!((0..PAGES_MAX).any(|page| pages.follow(&page.to_string()).is_err()));
    }
}
