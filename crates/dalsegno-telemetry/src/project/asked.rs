//! What an operation is: its kind, its model, the attributes that are known when it is requested.

use std::collections::BTreeMap;

use dalsegno_core::{
    EffectClass, Mind, ModelSettings, OperationId, Outcome, Price, Purpose, Request, Timestamp,
};

use super::{ModelInfo, Shared, outcome};
use crate::ids::SpanId;
use crate::semconv as name;
use crate::span::{Kind, OperationFacts, OperationKind, Span, Status, Subject, Value};

/// What a `requested` record says.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) operation: OperationId,
    pub(super) parent: Option<OperationId>,
    pub(super) step: u64,
    pub(super) label: &'a str,
    pub(super) class: EffectClass,
    pub(super) request: Option<&'a Request>,
}

/// An operation that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) operation: OperationId,
    /// The call of a declarative tool that asks for it.
    pub(super) parent: Option<OperationId>,
    /// The step; none for an operation whose request was not seen.
    pub(super) step: Option<u64>,
    pub(super) kind: OperationKind,
    pub(super) object: Option<String>,
    /// The model, as its span shows it.
    pub(super) model: Option<String>,
    /// Which of the agent's models, where that is known.
    pub(super) fallback: Option<u32>,
    pub(super) price: Option<Price>,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

impl Asked {
    pub(super) fn new(shared: &Shared, asking: Asking<'_>) -> Self {
        let (kind, object) = OperationKind::of_label(asking.label);
        let mut attributes = vec![
            (name::DALSEGNO_OPERATION, asking.operation.to_string().into()),
            (name::DALSEGNO_RUN, shared.run.to_string().into()),
            (name::DALSEGNO_STEP, asking.step.into()),
            (name::DALSEGNO_KIND, kind.as_str().into()),
            (name::DALSEGNO_CLASS, class(asking.class).into()),
        ];
        if let Some(operation) = operation_name(kind) {
            attributes.push((name::GEN_AI_OPERATION_NAME, operation.into()));
            attributes.push((name::GEN_AI_CONVERSATION_ID, shared.session.as_str().into()));
        }
        match (kind, object) {
            (OperationKind::Tool, Some(tool)) => {
                attributes.push((name::GEN_AI_TOOL_NAME, tool.into()));
                attributes.push((name::GEN_AI_TOOL_TYPE, "function".into()));
            }
            (OperationKind::Agent, Some(agent)) => attributes.push((name::GEN_AI_AGENT_NAME, agent.into())),
            _ => {}
        }
        let object = object.map(str::to_owned);
        let mut asked = Self {
            operation: asking.operation,
            parent: asking.parent,
            step: Some(asking.step),
            kind,
            object,
            model: None,
            fallback: None,
            price: None,
            attributes,
        };
        if kind == OperationKind::Chat {
            asked.take_model(shared, asking.request);
        }
        if let Some(request) = asking.request {
            asked.take_content(shared, request);
        }
        asked
    }

    /// An operation whose request was not seen.
    pub(super) fn unknown(operation: OperationId) -> Self {
        Self {
            operation,
            parent: None,
            step: None,
            kind: OperationKind::Unknown,
            object: None,
            model: None,
            fallback: None,
            price: None,
            attributes: vec![(name::DALSEGNO_OPERATION, operation.to_string().into())],
        }
    }

    fn take_model(&mut self, shared: &Shared, request: Option<&Request>) {
        let mind = match shared.config.as_deref().map(|config| &config.mind) {
            Some(Mind::Model(mind)) => Some(mind),
            Some(Mind::Plan(_)) | None => None,
        };
        let completion = match request {
            Some(Request::ModelCompletion(completion)) => Some(completion),
            _ => None,
        };
        let settings = match completion.map(|completion| (&completion.purpose, completion.fallback)) {
            Some((Purpose::Step(prompt), _)) => Some(&prompt.model),
            Some((Purpose::Reply | Purpose::Summary { .. }, fallback)) => {
                self.fallback = Some(fallback);
                self.attributes.push((name::DALSEGNO_FALLBACK, fallback.into()));
                mind.and_then(|mind| mind.settings(fallback))
            }
            // With more than one model only the request knows which.
            None => mind.filter(|mind| mind.fallback.is_empty()).map(|mind| &mind.model),
        };
        let structured = match completion.map(|completion| &completion.purpose) {
            Some(Purpose::Step(prompt)) => prompt.schema.is_some(),
            Some(Purpose::Summary { .. }) => false,
            Some(Purpose::Reply) | None => mind.is_some_and(|mind| mind.output.is_some()),
        };
        if structured {
            self.attributes.push((name::GEN_AI_OUTPUT_TYPE, "json".into()));
        }
        let Some(ModelSettings { name: own, temperature, max_output_tokens, price, .. }) = settings else {
            return;
        };
        let (provider, model) = match shared.options.models.get(own) {
            Some(ModelInfo { provider, model }) => (Some(provider.as_str()), model),
            None => (None, own),
        };
        self.price.clone_from(price);
        self.model = Some(model.clone());
        self.attributes.push((name::GEN_AI_REQUEST_MODEL, model.as_str().into()));
        let most = completion.and_then(|completion| completion.max_output_tokens).or(*max_output_tokens);
        self.attributes.extend(provider.map(|provider| (name::GEN_AI_PROVIDER_NAME, provider.into())));
        self.attributes
            .extend(temperature.map(|value| (name::GEN_AI_REQUEST_TEMPERATURE, Value::Real(value))));
        self.attributes.extend(most.map(|most| (name::GEN_AI_REQUEST_MAX_TOKENS, most.into())));
    }

    /// What was asked, where that may be exported.
    fn take_content(&mut self, shared: &Shared, request: &Request) {
        let content = shared.options.content;
        let mut add = |name: &'static str, text: Option<String>| {
            self.attributes.extend(text.map(|text| (name, Value::Text(text))));
        };
        match request {
            // The transcript is on the spans before: what was said on the run's, what came back on each operation's.
            Request::ModelCompletion(completion) => {
                if let Purpose::Step(prompt) = &completion.purpose {
                    let instructions = prompt.instructions.as_deref();
                    add(
                        name::GEN_AI_SYSTEM_INSTRUCTIONS,
                        instructions.and_then(|text| content.instructions(text)),
                    );
                    add(name::GEN_AI_INPUT_MESSAGES, content.message("user", &prompt.text, None));
                }
            }
            Request::MemorySearch(search) => {
                add(name::GEN_AI_MEMORY_QUERY_TEXT, content.text(|| search.query.clone()));
            }
            Request::MemoryCreate(create) => {
                add(name::GEN_AI_MEMORY_RECORDS, content.kept(&create.content));
            }
            Request::MemoryTraverse(traverse) => {
                add(name::GEN_AI_MEMORY_QUERY_TEXT, content.text(|| traverse.from.clone()));
            }
            Request::ToolCall(call) => {
                add(name::GEN_AI_TOOL_CALL_ARGUMENTS, content.json(&call.parameters));
            }
            Request::AgentCall(call) => {
                add(name::GEN_AI_INPUT_MESSAGES, content.message("user", &call.text, None));
            }
            Request::Input(input) => add(name::DALSEGNO_QUESTION, content.text(|| input.question.clone())),
            Request::ApiCall(call) => {
                add(name::HTTP_REQUEST_METHOD, Some(call.method.as_str().to_owned()));
            }
            Request::Email(_) | Request::Transfer(_) | Request::Timer(_) => {}
        }
    }

    pub(super) fn span_name(&self) -> String {
        let operation = operation_name(self.kind).unwrap_or(self.kind.as_str());
        match self.object.as_ref().or(self.model.as_ref()) {
            Some(object) => format!("{operation} {object}"),
            None => operation.to_owned(),
        }
    }

    pub(super) fn span_kind(&self) -> Kind {
        match self.kind {
            OperationKind::Chat | OperationKind::Http | OperationKind::Mail | OperationKind::Transfer => {
                Kind::Client
            }
            OperationKind::Tool
            | OperationKind::MemorySearch
            | OperationKind::MemoryCreate
            | OperationKind::MemoryTraverse
            | OperationKind::Agent
            | OperationKind::Question
            | OperationKind::Timer
            | OperationKind::Unknown => Kind::Internal,
        }
    }

    /// What is known of the operation before its outcome.
    pub(super) fn facts(&self, shared: &Shared) -> OperationFacts {
        OperationFacts {
            run: shared.run,
            agent: shared.agent.clone(),
            operation: self.operation,
            kind: self.kind,
            object: self.object.clone(),
            model: self.model.clone(),
            code: None,
            attempts: 0,
            lost_attempts: 0,
            active_ms: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_nano_usd: 0,
            gates: Vec::new(),
            refused: Vec::new(),
            denials: BTreeMap::new(),
        }
    }

    /// The span of an outcome that came after the operation had been given up at `since`.
    pub(super) fn late(
        self,
        shared: &Shared,
        seq: u64,
        since: Timestamp,
        at: Timestamp,
        outcome: &Outcome,
    ) -> Span {
        let mut facts = self.facts(shared);
        let (name, kind) = (format!("late {}", self.span_name()), self.span_kind());
        let mut attributes = self.attributes;
        let status = outcome::describe(shared, outcome, self.price.as_ref(), &mut facts, &mut attributes);
        Span {
            trace: shared.trace,
            id: SpanId::of_late(shared.run, self.operation, seq),
            parent: Some(SpanId::of_operation(shared.run, self.operation)),
            name,
            kind,
            start: since,
            end: at.max(since),
            attributes,
            events: Vec::new(),
            dropped_events: 0,
            links: Vec::new(),
            status: status.unwrap_or(Status::Unset),
            subject: Subject::Late(facts),
        }
    }
}

/// What an operation is called by the conventions.
fn operation_name(kind: OperationKind) -> Option<&'static str> {
    match kind {
        OperationKind::Chat => Some(name::CHAT),
        OperationKind::Tool => Some(name::EXECUTE_TOOL),
        OperationKind::MemorySearch | OperationKind::MemoryTraverse => Some(name::SEARCH_MEMORY),
        OperationKind::MemoryCreate => Some(name::CREATE_MEMORY),
        OperationKind::Agent => Some(name::INVOKE_AGENT),
        OperationKind::Question
        | OperationKind::Timer
        | OperationKind::Http
        | OperationKind::Mail
        | OperationKind::Transfer
        | OperationKind::Unknown => None,
    }
}

fn class(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Idempotent => "idempotent",
        EffectClass::Keyed => "keyed",
        EffectClass::Unsafe => "unsafe",
        EffectClass::Composite => "composite",
    }
}
