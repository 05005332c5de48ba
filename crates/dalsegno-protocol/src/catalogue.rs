//! What a server says about its tools.

use std::collections::BTreeSet;

use dalsegno_core::JsonSchema;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use serde_json::Value;

use crate::ask::Ask;
use crate::builtin::Builtin;
use crate::failure::Failure;
use crate::order;
use crate::request::misfit;

/// A tool as its server describes it. All of it is the word of another party, unless it is a built-in one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolDescription {
    /// The name to call it by, unique within its server.
    pub name: String,
    /// What it does, for people and models.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, always an object schema.
    pub input_schema: JsonSchema,
    /// The JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// What the server says about its effects.
    pub annotations: Annotations,
    /// Which built-in tool it is; none for a tool of the server's own.
    pub builtin: Option<Builtin>,
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

/// Asks for all tools, page by page, and adds the built-in ones that the server's capabilities give.
///
/// A tool of the server's own wins over a built-in one of the same name. Bounds: 1,000 tools, 100 pages, 4 MiB.
///
/// # Errors
///
/// When the server does not answer, or describes its tools in a way that breaks a bound.
pub async fn tools<A: Ask>(server: &A) -> Result<Vec<ToolDescription>, A::Error> {
    let (mut catalogue, mut pages, mut cursor) = (Catalogue::default(), Pages::default(), None);
    loop {
        let request = ListToolsRequest { params: page(cursor), ..Default::default() };
        let ServerResult::ListToolsResult(result) =
            server.ask(ClientRequest::ListToolsRequest(request)).await?
        else {
            return Err(
                server.unusable(misfit("the server answered `tools/list` with another kind of result"))
            );
        };
        let unusable = |message: String| server.unusable(Failure::unusable(&message));
        catalogue.add(result.tools).map_err(unusable)?;
        cursor = pages.next(result.next_cursor).map_err(unusable)?;
        if cursor.is_none() {
            break;
        }
    }
    let capabilities = server.capabilities();
    let builtins = Builtin::ALL.into_iter().filter(|builtin| builtin.is_offered(&capabilities));
    let builtins: Vec<Builtin> =
        builtins.filter(|builtin| !catalogue.names.contains(builtin.name())).collect();
    catalogue.tools.extend(builtins.into_iter().map(Builtin::describe));
    Ok(catalogue.tools)
}

pub(crate) fn page(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
}

/// The tools of a server as they come in, page by page, within limits.
#[derive(Default)]
struct Catalogue {
    tools: Vec<ToolDescription>,
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
    fn add(&mut self, page: Vec<Tool>) -> Result<(), String> {
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
    pub(crate) fn next(&mut self, cursor: Option<String>) -> Result<Option<String>, String> {
        let Some(cursor) = cursor else { return Ok(None) };
        if !self.cursors.insert(cursor.clone()) {
            return Err("one of its lists goes round in a circle".to_owned());
        }
        if self.cursors.len() >= PAGES_MAX {
            return Err(format!("one of its lists has more than {PAGES_MAX} pages"));
        }
        Ok(Some(cursor))
    }
}

fn describe(tool: Tool) -> ToolDescription {
    let hints = tool.annotations.unwrap_or_default();
    ToolDescription {
        name: tool.name.into_owned(),
        description: tool.description.map(std::borrow::Cow::into_owned),
        input_schema: order::read(tool.meta.as_ref(), &tool.input_schema),
        output_schema: tool.output_schema.map(|schema| Value::Object((*schema).clone())),
        annotations: Annotations {
            read_only: hints.read_only_hint,
            idempotent: hints.idempotent_hint,
            destructive: hints.destructive_hint,
            open_world: hints.open_world_hint,
        },
        builtin: None,
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
        pages.next(Some("a".to_owned())).unwrap();
        assert!(pages.next(Some("a".to_owned())).is_err());
    }

    #[test]
    fn pages_without_end_are_refused() {
        let mut pages = Pages::default();
        assert!((0..PAGES_MAX).any(|page| pages.next(Some(page.to_string())).is_err()));
    }
}
