//! What `/openapi.json` says of documents: the same for each kind, but for its words.

use std::sync::Arc;

use axum::routing::MethodRouter;
use dalsegno_access::Scope;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, SchemaType};
use utoipa::openapi::{PathItem, Paths, RefOr, Schema};

use super::list::{TenantListing, ToolListing};
use super::show::DocumentVersions;
use super::trying::{Tried, Try};
use super::write::{CheckedDocument, Uncovered, WrittenDocument};
use crate::problem::Code;
use crate::routes::Route;
use crate::shared::Shared;

type Handler = MethodRouter<Arc<Shared>>;

/// A kind of document with its addresses.
pub(super) struct Kind {
    /// What a person calls it.
    word: &'static str,
    /// The end of the ids of its operations.
    id: &'static str,
    /// The address of one of them.
    path: &'static str,
    /// The names in the address, each with what it is.
    named: &'static [(&'static str, &'static str)],
    media_type: &'static str,
    tag: &'static str,
    reads: Scope,
    writes: Scope,
}

/// The names of documents.
const NAME: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
/// A version in quotes, or any.
const TAG: &str = "^([*]|\"[0-9a-f]{64}\")$";

const TENANT_NAME: (&str, &str) = ("tenant", "The tenant.");
const TOOL_NAME: (&str, &str) = ("tool", "The name of the tool or toolkit.");

pub(super) const AGENT: Kind = Kind {
    word: "agent",
    id: "agent",
    path: "/v1/agents/{agent}",
    named: &[("agent", "The name of the agent.")],
    media_type: "application/toml",
    tag: "agents",
    reads: Scope::AgentsRead,
    writes: Scope::AgentsWrite,
};

pub(super) const TOOL: Kind = Kind {
    word: "tool",
    id: "tool",
    path: "/v1/tools/{tool}",
    named: &[TOOL_NAME],
    media_type: "application/json",
    tag: "tools",
    reads: Scope::ToolsRead,
    writes: Scope::ToolsWrite,
};

pub(super) const TENANT: Kind = Kind {
    word: "tenant",
    id: "tenant",
    path: "/v1/tenants/{tenant}",
    named: &[TENANT_NAME],
    media_type: "application/toml",
    tag: "tenants",
    reads: Scope::ToolsRead,
    writes: Scope::ToolsWrite,
};

pub(super) const TOOL_OF_TENANT: Kind = Kind {
    word: "tool of a tenant",
    id: "tenant_tool",
    path: "/v1/tenants/{tenant}/tools/{tool}",
    named: &[TENANT_NAME, TOOL_NAME],
    media_type: "application/json",
    tag: "tools",
    reads: Scope::ToolsRead,
    writes: Scope::ToolsWrite,
};

/// An operation as it is described.
struct Told {
    method: &'static str,
    path: String,
    operation: Value,
    problems: Vec<Code>,
    scope: Scope,
}

impl Told {
    fn route(self, handler: Handler) -> Route {
        let Self { method, path, operation, problems, scope } = self;
        // What cannot be read here is missing in the document, which the tests would find.
        let item: PathItem = serde_json::from_value(json!({ method: operation })).unwrap_or_default();
        let mut paths = Paths::new();
        paths.paths.insert(path, item);
        Route::of(scope, (schemas(), paths, handler)).problems(&problems)
    }
}

impl Kind {
    fn parameters(&self, version: bool) -> Vec<Value> {
        let named = self.named.iter().copied();
        let version = version.then_some(("version", "A version: the digits of an `ETag`."));
        let parameter = |(name, description): (&str, &str)| {
            let pattern = if name == "version" { "^[0-9a-f]{64}$" } else { NAME };
            json!({
                "name": name, "in": "path", "required": true, "description": description,
                "schema": { "type": "string", "pattern": pattern },
            })
        };
        named.chain(version).map(parameter).collect()
    }

    /// A header; with a pattern, another value is refused.
    fn header(name: &str, pattern: &str, description: &str) -> Value {
        let mut header = json!({
            "name": name, "in": "header", "required": false, "description": description,
            "schema": { "type": "string" },
        });
        if !pattern.is_empty() {
            header["schema"]["pattern"] = json!(pattern);
        }
        header
    }

    /// Which page of a list is meant.
    fn paging() -> [Value; 2] {
        [
            json!({
                "name": "limit", "in": "query", "required": false,
                "description": "The most entries of a page; 50 without it.",
                "schema": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 200 },
            }),
            json!({
                "name": "cursor", "in": "query", "required": false, "description": "The `next` of the page before.",
                "schema": { "type": "string", "pattern": "^([0-9a-f]{2}){9,72}$" },
            }),
        ]
    }

    fn preconditions(&self) -> Vec<Value> {
        let mut parameters = self.parameters(false);
        parameters.push(Self::header(
            "If-Match",
            TAG,
            "The `ETag` of the document that is replaced; `*` for any. Without it and without `If-None-Match` nothing is changed.",
        ));
        parameters.push(Self::header("If-None-Match", "^[*]$", "`*`: only if there is no such document."));
        parameters
    }

    /// The version that is deleted.
    fn seen(&self) -> Vec<Value> {
        let mut parameters = self.parameters(false);
        let description = "The `ETag` of the document that is deleted; `*` for any.";
        let mut matches = Self::header("If-Match", TAG, description);
        matches["required"] = json!(true);
        parameters.push(matches);
        parameters
    }

    /// A page of a list as an answer.
    fn page(description: &str, schema: &str) -> Value {
        let mut page = sent(description, schema);
        page["headers"]["Link"] = json!({
            "description": "The address of the next page, with `rel=\"next\"`.", "schema": { "type": "string" },
        });
        json!({ "200": page })
    }

    /// The text of a document in a body.
    fn text(&self) -> Value {
        match self.media_type {
            "application/json" => json!({ self.media_type: {
                "schema": { "$ref": "#/components/schemas/ToolDocument" },
                "example": {
                    "name": "crm",
                    "description": "Customers",
                    "actions": {},
                },
            } }),
            media_type => json!({ media_type: {
                "schema": { "type": "string" },
                "example": format!("name = \"{}\"\n", self.word),
            } }),
        }
    }

    fn request(&self) -> Value {
        json!({ "required": true, "description": "The document itself.", "content": self.text() })
    }

    /// A text that may be a document.
    fn any(&self) -> Value {
        let mut request = self.request();
        let description = "The text that is checked: a document, or what may become one.";
        request["description"] = json!(description);
        if self.media_type == "application/json" {
            request["content"][self.media_type]["schema"] =
                json!({ "$ref": "#/components/schemas/ToolDraft" });
        }
        request
    }

    fn operation(
        &self,
        id: &str,
        summary: &str,
        description: &str,
        parameters: &[Value],
        ok: &Value,
    ) -> Value {
        json!({
            "operationId": id, "tags": [self.tag], "summary": summary, "description": description,
            "parameters": parameters, "responses": ok,
        })
    }

    /// The text of the document, with its version.
    fn shown(&self) -> Value {
        json!({
            "description": "The document.",
            "content": self.text(),
            "headers": {
                "ETag": { "description": "The version of the document.", "schema": { "type": "string" } },
            },
        })
    }

    pub(super) fn list(&self, id: &str, handler: Handler) -> Route {
        let (path, _) = self.path.rsplit_once('/').unwrap_or_default();
        let mut parameters: Vec<Value> = match path.contains('{') {
            true => self.parameters(false).drain(..1).collect(),
            false => Vec::new(),
        };
        parameters.extend(Self::paging());
        let page = match self.id {
            "tenant" => "TenantListing",
            _ => "ToolListing",
        };
        let description = match self.id {
            "tool" => {
                "Those of the workspace that all tenants have. For the key of a tenant: the tools that the tenant has, its own among them."
            }
            "tenant" => "Those that the key reaches and whose documents have no errors.",
            _ => "Its own, and those of the workspace for which none of its own stands in.",
        };
        let word = match self.id {
            "tenant_tool" => "tools of a tenant",
            "tenant" => "tenants",
            _ => "tools",
        };
        let operation = self.operation(
            id,
            &format!("Lists the {word}."),
            description,
            &parameters,
            &Self::page("A page, in the order of the names.", page),
        );
        // The cursor may be of another listing.
        let problems = vec![Code::NotFound];
        Told { method: "get", path: path.to_owned(), operation, problems, scope: self.reads }.route(handler)
    }

    pub(super) fn show(&self, handler: Handler) -> Route {
        let mut parameters = self.parameters(false);
        parameters.push(Self::header(
            "If-None-Match",
            "",
            "The `ETag` that you have: the answer is 304 if it is in use still.",
        ));
        let mut shown = self.shown();
        shown["headers"]["Dalsegno-Layer"] = json!({
            "description": "Where it comes from: `file` or `catalogue`.", "schema": { "type": "string" },
        });
        let operation = self.operation(
            &format!("show_{}", self.id),
            &format!("Shows the document of a {}.", self.word),
            "The text that is in use, whether it is a file of the workspace or was written here.",
            &parameters,
            &json!({ "200": shown, "304": { "description": "You have the version that is in use." } }),
        );
        self.told("get", "", operation, &[Code::BadRequest, Code::Conflict], self.reads).route(handler)
    }

    pub(super) fn put(&self, handler: Handler) -> Route {
        let headers = json!({
            "ETag": { "description": "The version of the document.", "schema": { "type": "string" } },
            "Location": { "description": "Its address, if it is new.", "schema": { "type": "string" } },
        });
        let with = |description: &str| {
            let mut response = sent(description, "WrittenDocument");
            response["headers"] = headers.clone();
            response
        };
        let mut operation = self.operation(
            &format!("put_{}", self.id),
            &format!("Writes the document of a {}.", self.word),
            "It is checked with everything that it touches first; with an error nothing is written, and `diagnostics` says where. Each \
             process uses it from its next start of a run on; runs that have begun keep what they began with.",
            &self.preconditions(),
            &json!({ "200": with("It replaces the one before."), "201": with("It is new.") }),
        );
        operation["requestBody"] = self.request();
        let problems = [Code::NotFound, Code::PreconditionRequired, Code::Stale, Code::Conflict];
        self.told("put", "", operation, &problems, self.writes).route(handler)
    }

    pub(super) fn delete(&self, handler: Handler) -> Route {
        let operation = self.operation(
            &format!("delete_{}", self.id),
            &format!("Deletes the document of a {}.", self.word),
            "The file below it is in use again, if there is one. Earlier versions can still be read.",
            &self.seen(),
            &json!({ "200": sent("It is deleted.", "Uncovered") }),
        );
        let problems =
            [Code::BadRequest, Code::PreconditionRequired, Code::Stale, Code::Conflict, Code::Invalid];
        self.told("delete", "", operation, &problems, self.writes).route(handler)
    }

    pub(super) fn versions(&self, handler: Handler) -> Route {
        let operation = self.operation(
            &format!("list_{}_versions", self.id),
            &format!("Lists the changes of the document of a {}.", self.word),
            "The newest first, each with the key that made it. A file has none.",
            &self.parameters(false).into_iter().chain(Self::paging()).collect::<Vec<_>>(),
            &Self::page("A page of the changes that are kept.", "DocumentVersions"),
        );
        self.told("get", "/versions", operation, &[Code::BadRequest, Code::Conflict], self.reads)
            .route(handler)
    }

    pub(super) fn version(&self, handler: Handler) -> Route {
        let operation = self.operation(
            &format!("show_{}_version", self.id),
            &format!("Shows an earlier document of a {}.", self.word),
            "The text of one version, also of one that is not in use any more.",
            &self.parameters(true),
            &json!({ "200": self.shown() }),
        );
        self.told("get", "/versions/{version}", operation, &[Code::BadRequest, Code::Conflict], self.reads)
            .route(handler)
    }

    pub(super) fn check(&self, handler: Handler) -> Route {
        let mut operation = self.operation(
            &format!("check_{}", self.id),
            &format!("Checks a document of a {}.", self.word),
            "With everything that it touches, as a write would; nothing is written.",
            &self.parameters(false),
            &json!({ "200": sent("What the check found.", "CheckedDocument") }),
        );
        operation["requestBody"] = self.any();
        self.told("post", "/check", operation, &[Code::NotFound, Code::Conflict], self.writes).route(handler)
    }

    pub(super) fn trial(&self, handler: Handler) -> Route {
        let mut operation = self.operation(
            &format!("try_{}", self.id),
            &format!("Tries a {}.", self.word),
            "One call outside of any run. Its requests are answered from `recording`, or sent with `live`, which takes the scopes \
             `runs:write` and `answers:write`: no person is asked.",
            &self.parameters(false),
            &json!({ "200": sent("What came of it.", "Tried") }),
        );
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Try" },
            "example": { "action": "find", "params": { "id": "7" } },
        } } });
        self.told("post", "/try", operation, &[Code::NotFound, Code::Conflict], self.writes).route(handler)
    }

    fn told(
        &self,
        method: &'static str,
        end: &str,
        operation: Value,
        problems: &[Code],
        scope: Scope,
    ) -> Told {
        let mut problems = problems.to_vec();
        if !problems.contains(&Code::NotFound) {
            problems.push(Code::NotFound);
        }
        Told { method, path: format!("{}{end}", self.path), operation, problems, scope }
    }
}

fn sent(description: &str, schema: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } },
    })
}

/// The schemas of what is sent and returned.
fn schemas() -> Vec<(String, RefOr<Schema>)> {
    fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), T::schema()));
        T::schemas(all);
    }
    let document = "A declarative tool or toolkit, as the book describes it.";
    let document = ObjectBuilder::new()
        .description(Some(document))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
    let draft = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("What is checked: a declarative tool or toolkit, or what may become one."))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
    let mut all = vec![("ToolDocument".to_owned(), document.into()), ("ToolDraft".to_owned(), draft.into())];
    add::<WrittenDocument>(&mut all);
    add::<Uncovered>(&mut all);
    add::<DocumentVersions>(&mut all);
    add::<CheckedDocument>(&mut all);
    add::<ToolListing>(&mut all);
    add::<TenantListing>(&mut all);
    add::<Try>(&mut all);
    add::<Tried>(&mut all);
    all
}
