//! What a server says about its tools, and what its tools answer.

use std::collections::BTreeSet;

use rmcp::model::{CallToolResult, ContentBlock, Tool};
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

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The structured result, if there is one. Not checked against the output schema.
    pub structured: Option<Value>,
    /// All text blocks, joined by line breaks.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Blocks that are not text (images, audio, resources), as the protocol writes them.
    pub content: Vec<Value>,
}

/// The tools of a server as they come in, page by page, within limits.
#[derive(Default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<ToolDescription>,
    names: BTreeSet<String>,
    cursors: BTreeSet<String>,
    bytes: usize,
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

    /// Notes that the page after `cursor` is asked for. A cursor that comes again would never end.
    pub(crate) fn follow(&mut self, cursor: &str) -> Result<(), String> {
        if !self.cursors.insert(cursor.to_owned()) {
            return Err("its list of tools goes round in a circle".to_owned());
        }
        if self.cursors.len() >= PAGES_MAX {
            return Err(format!("its list of tools has more than {PAGES_MAX} pages"));
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

/// Sorts the blocks of a result.
pub(crate) fn output(result: CallToolResult) -> ToolOutput {
    let mut texts = Vec::new();
    let mut content = Vec::new();
    for block in result.content {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            // A block that was just read can be written again.
            other => content.extend(serde_json::to_value(other)),
        }
    }
    ToolOutput {
        structured: result.structured_content,
        text: texts.join("\n"),
        is_error: result.is_error.unwrap_or(false),
        content,
    }
}

/// The longest tool name that the protocol allows.
const NAME_BYTES_MAX: usize = 128;

/// More tools than this no model can choose among.
const TOOLS_MAX: usize = 1_000;

/// Names, descriptions and schemas of all tools together.
const CATALOGUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Pages of the tool list.
const PAGES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::Tool;

    use super::{Catalogue, PAGES_MAX, TOOLS_MAX};

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
        let mut catalogue = Catalogue::default();
        catalogue.follow("a").unwrap();
        assert!(catalogue.follow("a").is_err());
    }

    #[test]
    fn pages_without_end_are_refused() {
        let mut catalogue = Catalogue::default();
        assert!((0..PAGES_MAX).any(|page| catalogue.follow(&page.to_string()).is_err()));
    }
}
