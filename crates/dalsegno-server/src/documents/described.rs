//! What `/openapi.json` says of documents: the same for each kind, but for its words.

use std::borrow::Cow;
use std::sync::Arc;

use axum::routing::MethodRouter;
use dalsegno_access::Scope;
use serde_json::{Value, json};
use utoipa::openapi::{PathItem, Paths, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

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
            json!({
                "name": name, "in": "path", "required": true, "description": description,
                "schema": { "type": "string" },
            })
        };
        named.chain(version).map(parameter).collect()
    }

    fn header(name: &str, description: &str) -> Value {
        json!({
            "name": name, "in": "header", "required": false, "description": description,
            "schema": { "type": "string" },
        })
    }

    fn preconditions(&self) -> Vec<Value> {
        let mut parameters = self.parameters(false);
        parameters.push(Self::header(
            "If-Match",
            "The `ETag` of the document that is replaced; `*` for any. Without it and without `If-None-Match` nothing is changed.",
        ));
        parameters.push(Self::header("If-None-Match", "`*`: only if there is no such document."));
        parameters
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
        let parameters: Vec<Value> = match path.contains('{') {
            true => self.parameters(false).drain(..1).collect(),
            false => Vec::new(),
        };
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
            &json!({ "200": sent("What there is.", page) }),
        );
        let problems = if parameters.is_empty() { vec![] } else { vec![Code::NotFound] };
        Told { method: "get", path: path.to_owned(), operation, problems, scope: self.reads }.route(handler)
    }

    pub(super) fn show(&self, handler: Handler) -> Route {
        let mut parameters = self.parameters(false);
        parameters.push(Self::header(
            "If-None-Match",
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
            let mut response = sent(description, "DocumentEntry");
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
            &self.preconditions(),
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
            &self.parameters(false),
            &json!({ "200": sent("The changes that are kept.", "DocumentVersions") }),
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
            &json!({ "200": sent("What the check found.", "DocumentCheck") }),
        );
        operation["requestBody"] = self.request();
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

/// Something that is wrong with a document, as a problem has it.
pub(crate) struct Diagnostic;

impl PartialSchema for Diagnostic {
    fn schema() -> RefOr<Schema> {
        read(json!({
            "type": "object",
            "description": "Something that is wrong with a document. About what is not the tenant's own, a key of a tenant learns the code and the agent.",
            "required": ["code", "severity", "message"],
            "properties": {
                "code": { "type": "string", "description": "The stable name of the diagnostic; it has a page in the book." },
                "severity": { "type": "string", "description": "`error` or `warning`." },
                "message": { "type": "string", "description": "What is wrong." },
                "file": { "type": "string", "description": "The document." },
                "label": { "type": ["string", "null"], "description": "What stands at the place." },
                "help": { "type": ["string", "null"], "description": "What to do." },
                "line": { "type": "integer", "description": "The line, from 1." },
                "column": { "type": "integer", "description": "The column, from 1." },
                "offset": { "type": "integer", "description": "The byte at which the place begins." },
                "length": { "type": "integer", "description": "The bytes of the place." },
            },
        }))
    }
}

impl ToSchema for Diagnostic {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Diagnostic")
    }
}

fn read(schema: Value) -> RefOr<Schema> {
    serde_json::from_value(schema).unwrap_or_else(|_| RefOr::T(Schema::default()))
}

fn object(description: &str, required: &[&str], properties: &Value) -> RefOr<Schema> {
    read(json!({
        "type": "object", "description": description, "required": required, "properties": properties,
    }))
}

/// Any JSON value.
fn any(description: &str) -> Value {
    let types = ["object", "array", "string", "number", "boolean", "null"];
    json!({ "description": description, "type": types })
}

/// The schemas of what is sent and returned.
fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let by = json!({
        "type": "object", "description": "The key that made the change.",
        "properties": {
            "key": { "type": "string", "description": "The id of the key." },
            "name": { "type": ["string", "null"], "description": "The name of the key." },
        },
    });
    let diagnostics = json!({
        "type": "array", "description": "What the check found, each with its place.",
        "items": { "$ref": "#/components/schemas/Diagnostic" },
    });
    let layer = json!({ "type": "string", "description": "Where it comes from: `file`, `catalogue`, or `features` of the tenant's document." });
    let version = json!({ "type": ["string", "null"], "description": "The version: the hash of the text. None for a deletion." });
    let number = json!({ "type": "integer", "description": "The number of the change, from 1." });
    let changed = json!({ "type": "string", "description": "When it was changed, in UTC." });
    let name = json!({ "type": "string", "description": "Its name." });
    let list = |description: &str, item: Value| json!({ "type": "array", "description": description, "items": item });
    let text = json!({ "type": "string" });
    let all = [
        ("Diagnostic", Diagnostic::schema()),
        (
            "ToolDocument",
            read(
                json!({ "type": "object", "description": "A declarative tool or toolkit, as the book describes it.", "additionalProperties": true }),
            ),
        ),
        (
            "DocumentEntry",
            object(
                "A document as it is in use: all but its text.",
                &["kind", "name", "layer", "version"],
                &json!({
                    "kind": { "type": "string", "description": "`agent`, `tool` or `tenant`." },
                    "name": name, "layer": layer, "version": version, "number": number, "changed": changed, "by": by,
                    "tenant": { "type": "string", "description": "The tenant, for a tool of a tenant." },
                    "diagnostics": diagnostics,
                }),
            ),
        ),
        (
            "Uncovered",
            object(
                "What is in use after a deletion.",
                &["uncovers"],
                &json!({
                    "uncovers": { "description": "The file that was below it; null if there is none.", "type": ["object", "null"] },
                }),
            ),
        ),
        (
            "DocumentVersions",
            object(
                "The changes of a document.",
                &["items"],
                &json!({
                    "items": list("The newest first.", json!({
                        "type": "object", "required": ["number", "version", "changed", "by"],
                        "properties": {
                            "number": number, "version": version, "changed": changed, "by": by,
                            "bytes": { "type": ["integer", "null"], "description": "The length of the text; none for a deletion." },
                        },
                    })),
                }),
            ),
        ),
        (
            "DocumentCheck",
            object(
                "What the check of a document found.",
                &["ok", "diagnostics", "agents", "scopes"],
                &json!({
                    "ok": { "type": "boolean", "description": "Whether it can be written." },
                    "diagnostics": diagnostics,
                    "agents": list("The agents that would not work with it.", text.clone()),
                    "scopes": list("The scopes that writing it takes besides.", text.clone()),
                }),
            ),
        ),
        (
            "ToolListing",
            object(
                "Tools and toolkits.",
                &["items"],
                &json!({
                    "items": list("In the order of their names.", json!({
                        "type": "object", "required": ["name", "of", "layer", "tools"],
                        "properties": {
                            "name": name, "layer": layer, "version": version,
                            "of": { "type": "string", "description": "Whose the document is: `workspace` or `tenant`." },
                            "tools": list("The names of its tools, as agents allow them.", text),
                        },
                    })),
                }),
            ),
        ),
        (
            "TenantListing",
            object(
                "Tenants.",
                &["items"],
                &json!({
                    "items": list("In the order of their names.", json!({
                        "type": "object", "required": ["name", "description", "layer", "version"],
                        "properties": {
                            "name": name, "layer": layer, "version": version,
                            "description": { "type": "string", "description": "What the tenant's document says of it." },
                        },
                    })),
                }),
            ),
        ),
        (
            "Try",
            read(json!({
                "type": "object", "description": "What is tried.", "additionalProperties": false,
                "properties": {
                    "document": any("A document that need not be written; the one in use without it."),
                    "action": { "type": ["string", "null"], "description": "The action of a toolkit." },
                    "params": any("The arguments."),
                    "user": { "type": "object", "description": "What is known of the user, as a start has it." },
                    "tenant": { "type": ["string", "null"], "description": "On whose behalf, for a document that all tenants share." },
                    "live": { "type": "boolean", "description": "Whether requests are sent." },
                    "recording": { "type": ["object", "null"], "description": "What requests are answered with, as an earlier try returned it." },
                },
            })),
        ),
        (
            "Tried",
            object(
                "What came of a try.",
                &["outcome", "writes", "recording"],
                &json!({
                    "outcome": any("The outcome of the call."),
                    "writes": any("What it would remember in the memory of an agent."),
                    "recording": { "type": "object", "description": "The requests with their answers, to be sent as `recording`." },
                }),
            ),
        ),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
