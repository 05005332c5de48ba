//! Steps that ask for one thing and have a result.

use dalsegno_core::{
    Approve, JsonSchema, OnFailure, PlanCall, PlanOperation, RelationTemplate, StepId, ToolName, Wait,
};
use dalsegno_expr::ValueTemplate;
use serde_json::json;
use toml::de::DeValue;

use super::keys::{OPERATIONS, RELATION};
use super::{Reader, optional};
use crate::agent::arguments::Call;
use crate::agent::mind::{self, DEFAULT_HITS};
use crate::agent::tools::on_failure;
use crate::agent::{AgentTools, callees, expressions, output};
use crate::code::Code;
use crate::section::{Located, Section, wrong_type};

impl<'t> Reader<'t, '_> {
    pub(super) fn operation(&mut self, section: &Section<'t>) -> Option<PlanOperation> {
        let id = optional(section.has("id"), section.parsed::<StepId>("id"));
        let failure = optional(section.has("on_failure"), self.failure(section));
        let call = match OPERATIONS.iter().copied().find(|action| section.has(action))? {
            "tool" => self.tool(section),
            "memory_search" => self.memory_search(section),
            "memory_create" => self.memory_create(section),
            "memory_traverse" => self.memory_traverse(section),
            "agent" => self.child(section),
            "model" => self.model(section),
            "ask" => self.ask(section),
            _ => self.wait(section).map(PlanCall::Wait),
        };
        Some(PlanOperation { id: id?.map(|id| id.value), call: call?, on_failure: failure? })
    }

    fn failure(&mut self, section: &Section<'t>) -> Option<OnFailure> {
        let (failure, stand_in) = on_failure(section)?;
        if let Some(tool) = stand_in {
            if !section.has("tool") {
                self.report
                    .error(Code::StepAction, tool.span, "only a tool can fall back to another one")
                    .label("it would be called with the same arguments")
                    .help("write `on_failure = { default = … }`, or `\"report\"` and a step that reads the error");
                return None;
            }
            self.needs.stand_ins.push(tool);
        }
        Some(failure)
    }

    fn tool(&mut self, section: &Section<'t>) -> Option<PlanCall> {
        let tool = section.parsed::<ToolName>("tool");
        let with =
            if section.has("with") { self.data(section) } else { ValueTemplate::parse(&json!({})).ok() };
        let approve = self.approve(section);
        let tool = tool?;
        if let Some(step) = own_step(tool.value.as_str()) {
            self.report
                .error(Code::StepAction, tool.span, format!("a `tool` step cannot call `{}`", tool.value))
                .help(format!("write `{step}`"));
            return None;
        }
        self.needs.calls.push(Call::read(section, &tool));
        self.needs.called.push(tool.clone());
        Some(PlanCall::Tool { tool: tool.value, with: with?, approve: approve? })
    }

    /// Reads `with`: a table whose strings are templates.
    pub(super) fn data(&self, section: &Section<'t>) -> Option<ValueTemplate> {
        let with = section.get("with")?;
        match with.get_ref() {
            DeValue::Table(_) => expressions::value_template(self.report, "with", with, self.readable()),
            _ => wrong_type(self.report, "with", with, "a table of arguments"),
        }
    }

    fn approve(&self, section: &Section<'t>) -> Option<Approve> {
        let Some(value) = section.get("approve") else { return Some(Approve::AsConfigured) };
        match value.get_ref() {
            DeValue::Boolean(true) => Some(Approve::Always),
            DeValue::Boolean(false) => Some(Approve::AsConfigured),
            DeValue::String(_) => self.expression(section, "approve").map(Approve::When),
            _ => wrong_type(
                self.report,
                "approve",
                value,
                "`true` or an expression such as `\"steps.a.value > 1\"`",
            ),
        }
    }

    fn memory_search(&self, section: &Section<'t>) -> Option<PlanCall> {
        let search = section.section("memory_search")?;
        let query = self.template(&search, "query");
        let limit = optional(search.has("limit"), search.integer("limit"));
        let min_score = optional(search.has("min_score"), search.number("min_score"));
        Some(PlanCall::MemorySearch {
            query: query?,
            limit: limit?.unwrap_or(DEFAULT_HITS),
            min_score: min_score?.unwrap_or(0.0),
        })
    }

    fn memory_create(&self, section: &Section<'t>) -> Option<PlanCall> {
        let create = section.section("memory_create")?;
        let entity = self.template(&create, "entity");
        let entity_type = optional(create.has("type"), create.string("type"));
        let content = self.template(&create, "content");
        let relations: Vec<_> = create
            .items("relations", "a list of relations")
            .iter()
            .map(|item| {
                let relation = Section::of(self.report, "relations", item, RELATION.what, &RELATION)?;
                let to = self.template(&relation, "to");
                Some(RelationTemplate { relation: self.relation(&relation)?, to: to? })
            })
            .collect();
        Some(PlanCall::MemoryCreate {
            entity: entity?,
            entity_type: entity_type?.map_or_else(|| "note".to_owned(), |entity_type| entity_type.value),
            content: content?,
            relations: relations.into_iter().collect::<Option<_>>()?,
        })
    }

    fn memory_traverse(&self, section: &Section<'t>) -> Option<PlanCall> {
        let traverse = section.section("memory_traverse")?;
        let from = self.template(&traverse, "from");
        let relation = optional(traverse.has("relation"), self.relation(&traverse));
        let depth = optional(traverse.has("depth"), traverse.integer("depth"));
        let limit = optional(traverse.has("limit"), traverse.integer("limit"));
        Some(PlanCall::MemoryTraverse {
            from: from?,
            relation: relation?,
            depth: depth?.unwrap_or(DEFAULT_DEPTH),
            limit: limit?.unwrap_or(DEFAULT_ENTITIES),
        })
    }

    fn relation(&self, section: &Section<'t>) -> Option<String> {
        let relation = section.string("relation")?;
        if relation.value.trim().is_empty() {
            self.report
                .error(Code::InvalidValue, relation.span, "`relation` is empty")
                .label("expected the type of a relation, such as `caused_by`");
            return None;
        }
        Some(relation.value)
    }

    fn child(&mut self, section: &Section<'t>) -> Option<PlanCall> {
        let agent = self.agent(section, "agent");
        let text = self.optional_template(section, "input");
        let data = optional(section.has("with"), self.data(section));
        let agent = agent?.value;
        self.needs.children.insert(agent.clone());
        Some(PlanCall::Agent { agent, text: text?, data: data? })
    }

    fn model(&mut self, section: &Section<'t>) -> Option<PlanCall> {
        let asked = section.section("model")?;
        // The model of a step is offered no tools, so its provider runs none.
        let no_tools = AgentTools::default();
        let name = match asked.has("use") {
            true => asked.string("use"),
            false => Some(Located { value: "default".to_owned(), span: asked.span.clone() }),
        };
        let model = name.and_then(|name| mind::settings(&asked, &name, self.around, &no_tools));
        let prompt = self.template(&asked, "prompt");
        let instructions = self.optional_template(&asked, "instructions");
        let schema = self.schema(&asked);
        let model = model?;
        self.needs.models.push(model.clone());
        Some(PlanCall::Model { model, instructions: instructions?, prompt: prompt?, schema: schema? })
    }

    fn ask(&self, section: &Section<'t>) -> Option<PlanCall> {
        let question = self.template(section, "ask");
        let schema = self.schema(section);
        Some(PlanCall::Ask { question: question?, schema: schema?.map(JsonSchema::into_value) })
    }

    fn schema(&self, section: &Section<'t>) -> Option<Option<JsonSchema>> {
        let paths = self.around.paths(self.report);
        optional(section.has("schema"), output::schema(section, &paths))
    }

    fn wait(&self, section: &Section<'t>) -> Option<Wait> {
        let value = section.get("wait")?;
        match value.get_ref() {
            DeValue::String(_) => section.millis("wait").map(|ms| Wait::For { ms }),
            DeValue::Table(_) => {
                let until = section.section("wait")?;
                self.expression(&until, "until").map(Wait::Until)
            }
            _ => wrong_type(
                self.report,
                "wait",
                value,
                "a duration such as `\"10m\"`, or `{ until = \"EXPRESSION\" }`",
            ),
        }
    }
}

/// How a step does what a model does by such a tool.
fn own_step(tool: &str) -> Option<String> {
    if tool == callees::LIST {
        return None;
    }
    match tool.split_once('.')? {
        ("memory", "search") => Some("memory_search = { query = \"…\" }".to_owned()),
        ("memory", "create") => Some("memory_create = { entity = \"…\", content = \"…\" }".to_owned()),
        ("memory", "traverse") => Some("memory_traverse = { from = \"…\" }".to_owned()),
        ("agents", name) => Some(format!("agent = \"{name}\"")),
        ("capability", name) => Some(format!("agent = {{ capability = \"{name}\" }}")),
        ("handoff", name) => Some(format!("handoff = \"{name}\"")),
        _ => None,
    }
}

/// From an entity to those that it is related to, and on to what those are related to.
const DEFAULT_DEPTH: u32 = 2;

/// What fits into a prompt.
const DEFAULT_ENTITIES: u32 = 50;
