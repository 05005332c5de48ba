//! Tools by which an agent reads a server's resources and prompts: requests of the protocol in the form of tools.

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, ReadResourceRequest, ReadResourceRequestParams, Role,
    ServerCapabilities, ServerResult,
};
use serde_json::{Map, Value, json};

use crate::ask::Ask;
use crate::catalogue::{Annotations, Pages, ToolDescription, page};
use crate::content;
use crate::failure::{CallErrorKind, Failure};
use crate::files::ResultFiles;
use crate::output::{Answer, Input, ToolOutput, input_required};
use crate::request::misfit;

/// A request of the protocol that agents see as a tool. It changes nothing at the server, as the protocol has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `resources/list` and `resources/templates/list`.
    ListResources,
    /// `resources/read`.
    ReadResource,
    /// `prompts/list`.
    ListPrompts,
    /// `prompts/get`.
    GetPrompt,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ListResources, Self::ReadResource, Self::ListPrompts, Self::GetPrompt];

    /// The name of the tool, without that of the server.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ListResources => "resources.list",
            Self::ReadResource => "resources.read",
            Self::ListPrompts => "prompts.list",
            Self::GetPrompt => "prompts.get",
        }
    }

    /// The built-in tool of this name. A server may have a tool of its own with the same name, which wins.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// Whether a server of these capabilities has it.
    pub(crate) fn is_offered(self, capabilities: &ServerCapabilities) -> bool {
        match self {
            Self::ListResources | Self::ReadResource => capabilities.resources.is_some(),
            Self::ListPrompts | Self::GetPrompt => capabilities.prompts.is_some(),
        }
    }

    pub(crate) fn describe(self) -> ToolDescription {
        ToolDescription {
            name: self.name().to_owned(),
            description: Some(self.description().to_owned()),
            input_schema: self.input_schema().into(),
            output_schema: None,
            annotations: Annotations { read_only: Some(true), ..Annotations::default() },
            builtin: Some(self),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListResources => {
                "Lists the resources of this server: documents and data, each with the URI to read it by. Templates \
                 are URIs with places in braces to be filled in."
            }
            Self::ReadResource => {
                "Reads one resource of this server by its URI. Text is returned as it is; other content is named by \
                 its media type and size."
            }
            Self::ListPrompts => {
                "Lists the prompts of this server: prepared texts, with the arguments that each takes."
            }
            Self::GetPrompt => "Returns one prompt of this server as messages, filled in with the arguments.",
        }
    }

    fn input_schema(self) -> Value {
        let (properties, required) = match self {
            Self::ListResources | Self::ListPrompts => (json!({}), json!([])),
            Self::ReadResource => (
                json!({ "uri": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": URI_CHARS_MAX,
                    "description": "The URI, as the list of resources has it or as a template gives it.",
                } }),
                json!(["uri"]),
            ),
            Self::GetPrompt => (
                json!({
                    "name": { "type": "string", "minLength": 1, "description": "The name of the prompt." },
                    "arguments": {
                        "type": "object",
                        "additionalProperties": { "type": "string" },
                        "description": "Its arguments by their names.",
                    },
                }),
                json!(["name"]),
            ),
        };
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    }
}

/// Performs a built-in tool.
///
/// Lists are gathered from all their pages: up to 1,000 entries and the server's limit of output; what is left out then
/// is said by `truncated`.
///
/// # Errors
///
/// When there is no answer, it is not one to the request, or the arguments do not fit.
pub async fn perform<A: Ask>(
    server: &A,
    builtin: Builtin,
    mut arguments: Map<String, Value>,
    input: Input,
) -> Result<Answer, A::Error> {
    match builtin {
        Builtin::ListResources => list_resources(server).await.map(Answer::Done),
        Builtin::ListPrompts => list_prompts(server).await.map(Answer::Done),
        Builtin::ReadResource => {
            let mut params = ReadResourceRequestParams::new(text(server, &mut arguments, "uri")?);
            params.input_responses = input.responses();
            params.request_state = input.request_state;
            read(server, params).await
        }
        Builtin::GetPrompt => {
            let mut params = GetPromptRequestParams::new(text(server, &mut arguments, "name")?);
            if let Some(Value::Object(values)) = arguments.remove("arguments") {
                params = params.with_arguments(values);
            }
            params.input_responses = input.responses();
            params.request_state = input.request_state;
            get(server, params).await
        }
    }
}

async fn read<A: Ask>(server: &A, params: ReadResourceRequestParams) -> Result<Answer, A::Error> {
    match server.ask(ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))).await? {
        ServerResult::ReadResourceResult(result) => {
            let several = result.contents.len() > 1;
            let texts = result.contents.iter().map(|one| match several {
                true => format!("{}:\n{}", content::uri(one), content::contents(one)),
                false => content::contents(one),
            });
            let text = texts.collect::<Vec<_>>().join("\n\n");
            // Contents that were just read can be written again.
            let content = result.contents.iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
            let mut files = ResultFiles::default();
            result.contents.iter().for_each(|one| files.add_resource(one));
            Ok(Answer::Done(ToolOutput { text, content, files, ..ToolOutput::default() }))
        }
        ServerResult::InputRequiredResult(result) => Ok(Answer::InputRequired(input_required(result))),
        _ => Err(other_kind(server, "resources/read")),
    }
}

async fn get<A: Ask>(server: &A, params: GetPromptRequestParams) -> Result<Answer, A::Error> {
    match server.ask(ClientRequest::GetPromptRequest(GetPromptRequest::new(params))).await? {
        ServerResult::GetPromptResult(result) => Ok(Answer::Done(prompt(result))),
        ServerResult::InputRequiredResult(result) => Ok(Answer::InputRequired(input_required(result))),
        _ => Err(other_kind(server, "prompts/get")),
    }
}

fn prompt(result: GetPromptResult) -> ToolOutput {
    let messages = result.messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        json!({ "role": role, "text": content::words(&message.content) })
    });
    let mut prompt = json!({ "messages": messages.collect::<Vec<_>>() });
    if let Some(description) = result.description {
        prompt["description"] = Value::from(description);
    }
    structured(prompt)
}

async fn list_resources<A: Ask>(server: &A) -> Result<ToolOutput, A::Error> {
    let mut resources = Gathered::new(server.output_limit());
    let (mut pages, mut cursor) = (Pages::default(), None);
    loop {
        let request = ListResourcesRequest { params: page(cursor), ..Default::default() };
        let ServerResult::ListResourcesResult(result) =
            server.ask(ClientRequest::ListResourcesRequest(request)).await?
        else {
            return Err(other_kind(server, "resources/list"));
        };
        for one in result.resources {
            let mut entry = entry([("uri", Some(one.uri)), ("name", Some(one.name)), ("title", one.title)]);
            more(&mut entry, one.description, one.mime_type);
            if let Some(size) = one.size {
                entry.insert("size".to_owned(), Value::from(size));
            }
            resources.add(entry);
        }
        cursor = resources.next(server, &mut pages, result.next_cursor)?;
        if cursor.is_none() {
            break;
        }
    }
    let mut templates = Gathered::new(server.output_limit().saturating_sub(resources.bytes));
    let mut pages = Pages::default();
    loop {
        let request = ListResourceTemplatesRequest { params: page(cursor), ..Default::default() };
        let result = match server.ask(ClientRequest::ListResourceTemplatesRequest(request)).await {
            Ok(ServerResult::ListResourceTemplatesResult(result)) => result,
            Ok(_) => return Err(other_kind(server, "resources/templates/list")),
            // A server without templates need not know the request.
            Err(error) if A::is_unknown_method(&error) => break,
            Err(error) => return Err(error),
        };
        for one in result.resource_templates {
            let uri = Some(one.uri_template);
            let mut entry = entry([("uri_template", uri), ("name", Some(one.name)), ("title", one.title)]);
            more(&mut entry, one.description, one.mime_type);
            templates.add(entry);
        }
        cursor = templates.next(server, &mut pages, result.next_cursor)?;
        if cursor.is_none() {
            break;
        }
    }
    Ok(structured(json!({
        "resources": resources.entries,
        "templates": templates.entries,
        "truncated": resources.is_cut || templates.is_cut,
    })))
}

async fn list_prompts<A: Ask>(server: &A) -> Result<ToolOutput, A::Error> {
    let mut prompts = Gathered::new(server.output_limit());
    let (mut pages, mut cursor) = (Pages::default(), None);
    loop {
        let request = ListPromptsRequest { params: page(cursor), ..Default::default() };
        let ServerResult::ListPromptsResult(result) =
            server.ask(ClientRequest::ListPromptsRequest(request)).await?
        else {
            return Err(other_kind(server, "prompts/list"));
        };
        for one in result.prompts {
            let mut prompt =
                entry([("name", Some(one.name)), ("title", one.title), ("description", one.description)]);
            let arguments = one.arguments.unwrap_or_default().into_iter().map(|argument| {
                let mut described =
                    entry([("name", Some(argument.name)), ("description", argument.description)]);
                described.insert("required".to_owned(), Value::Bool(argument.required.unwrap_or(false)));
                Value::Object(described)
            });
            prompt.insert("arguments".to_owned(), arguments.collect());
            prompts.add(prompt);
        }
        cursor = prompts.next(server, &mut pages, result.next_cursor)?;
        if cursor.is_none() {
            break;
        }
    }
    Ok(structured(json!({ "prompts": prompts.entries, "truncated": prompts.is_cut })))
}

/// The entries of a list, up to a bound.
struct Gathered {
    entries: Vec<Value>,
    bytes: usize,
    bytes_max: usize,
    is_cut: bool,
}

impl Gathered {
    fn new(bytes_max: usize) -> Self {
        Self { entries: Vec::new(), bytes: 0, bytes_max, is_cut: false }
    }

    fn add(&mut self, entry: Map<String, Value>) {
        let entry = Value::Object(entry);
        let bytes = entry.to_string().len();
        self.is_cut |= self.entries.len() == LISTED_MAX || self.bytes + bytes > self.bytes_max;
        if !self.is_cut {
            self.bytes += bytes;
            self.entries.push(entry);
        }
    }

    /// The next page, unless nothing of it would be kept.
    fn next<A: Ask>(
        &mut self,
        server: &A,
        pages: &mut Pages,
        cursor: Option<String>,
    ) -> Result<Option<String>, A::Error> {
        if self.is_cut {
            return Ok(None);
        }
        pages.next(cursor).map_err(|message| server.unusable(Failure::unusable(&message)))
    }
}

/// What is there of these.
fn entry<const N: usize>(members: [(&str, Option<String>); N]) -> Map<String, Value> {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    members.collect()
}

fn more(entry: &mut Map<String, Value>, description: Option<String>, media_type: Option<String>) {
    for (name, value) in [("description", description), ("media_type", media_type)] {
        if let Some(value) = value {
            entry.insert(name.to_owned(), Value::from(value));
        }
    }
}

fn structured(value: Value) -> ToolOutput {
    ToolOutput { text: value.to_string(), structured: Some(value), ..ToolOutput::default() }
}

/// An argument that must be a text. The engine has checked it by the schema; other callers may not have.
fn text<A: Ask>(server: &A, arguments: &mut Map<String, Value>, name: &str) -> Result<String, A::Error> {
    match arguments.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => {
            let message = format!("the argument `{name}` is missing or is not a text");
            // The code that a server would refuse it with.
            Err(server.unusable(Failure::new(CallErrorKind::Refused { code: INVALID_PARAMS }, message)))
        }
    }
}

fn other_kind<A: Ask>(server: &A, method: &str) -> A::Error {
    server.unusable(misfit(&format!("the server answered `{method}` with another kind of result")))
}

/// Resources, templates or prompts of one list. More no model can choose among.
const LISTED_MAX: usize = 1_000;

/// The longest URI that is asked for.
const URI_CHARS_MAX: usize = 8 * 1024;

/// What JSON-RPC calls parameters that do not fit.
const INVALID_PARAMS: i32 = -32602;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A server that answers requests of one kind page by page, and counts them.
    struct Listing {
        entries: usize,
        asked: Mutex<usize>,
        limit: usize,
    }

    impl Ask for Listing {
        type Error = Failure;

        async fn ask(&self, request: ClientRequest) -> Result<ServerResult, Failure> {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            let result = match request {
                ClientRequest::ListResourcesRequest(_) => {
                    let page = (0..self.entries).map(|number| {
                        json!({ "uri": format!("test://{asked}/{number}"), "name": "one", "mimeType": "text/plain" })
                    });
                    json!({ "resources": page.collect::<Vec<_>>(), "nextCursor": asked.to_string() })
                }
                ClientRequest::ListResourceTemplatesRequest(_) => {
                    return Err(Failure::new(CallErrorKind::Refused { code: -32601 }, "unknown method"));
                }
                other => panic!("{other:?}"),
            };
            Ok(serde_json::from_value(result).unwrap())
        }

        fn capabilities(&self) -> ServerCapabilities {
            ServerCapabilities::default()
        }

        fn output_limit(&self) -> usize {
            self.limit
        }

        fn unusable(&self, failure: Failure) -> Failure {
            failure
        }

        fn is_unknown_method(error: &Failure) -> bool {
            error.kind == CallErrorKind::Refused { code: -32601 }
        }
    }

    async fn list(entries: usize, limit: usize) -> (Result<Value, Failure>, usize) {
        let server = Listing { entries, asked: Mutex::default(), limit };
        let answer = perform(&server, Builtin::ListResources, Map::new(), Input::default()).await;
        let listed = answer.map(|answer| match answer {
            Answer::Done(output) => output.structured.unwrap(),
            Answer::InputRequired(input) => panic!("{input:?}"),
        });
        let asked = *server.asked.lock().unwrap();
        (listed, asked)
    }

    #[tokio::test]
    async fn a_list_without_end_is_cut_off_and_says_so() {
        let (listed, asked) = list(300, 1 << 20).await;
        let listed = listed.unwrap();
        assert_eq!(listed["resources"].as_array().unwrap().len(), LISTED_MAX);
        assert_eq!((&listed["truncated"], &listed["templates"]), (&json!(true), &json!([])));
        assert_eq!(asked, 5, "four pages, and the templates");
    }

    #[tokio::test]
    async fn a_list_is_no_longer_than_the_output_of_a_server() {
        let listed = list(300, 1_000).await.0.unwrap();
        assert!(listed["resources"].to_string().len() < 1_200, "{listed}");
        assert_eq!(listed["truncated"], true);
    }

    #[tokio::test]
    async fn pages_without_end_and_without_entries_are_refused() {
        let error = list(0, 1_000).await.0.unwrap_err();
        assert!(error.kind == CallErrorKind::Protocol && error.message.contains("pages"), "{error:?}");
    }

    #[tokio::test]
    async fn arguments_that_do_not_fit_are_refused_before_anything_is_asked() {
        let server = Listing { entries: 0, asked: Mutex::default(), limit: 0 };
        for builtin in [Builtin::ReadResource, Builtin::GetPrompt] {
            let error = perform(&server, builtin, Map::new(), Input::default()).await.unwrap_err();
            assert_eq!(error.kind, CallErrorKind::Refused { code: INVALID_PARAMS });
        }
        assert_eq!(*server.asked.lock().unwrap(), 0);
    }

    #[test]
    fn a_name_leads_back_to_its_tool() {
        for builtin in Builtin::ALL {
            assert_eq!(Builtin::named(builtin.name()), Some(builtin));
            assert_eq!(builtin.describe().input_schema["type"], "object");
        }
        assert_eq!(Builtin::named("resources.write"), None);
    }
}
