//! Reads how a model is asked, from `[models.*]`, from `[model]` of an agent and from a step, and reports what its wire does
//! not have.

use dalsegno_core::{ModelControl, ProviderTool, Reasoning, ToolChoice, ToolName, Verbosity};

use crate::code::Code;
use crate::section::Section;
use crate::settings::Provider;
use crate::shape::{Form, Key, Shape, TOOL_NAME};

pub(crate) const TOP_P: Key = Key::new(
    "top_p",
    Form::Number(0.0, 1.0),
    "Nucleus sampling, from 0 to 1; the provider's own by default.",
);
pub(crate) const STOP: Key =
    Key::new("stop", Form::List(&Form::Text), "Texts at which a reply ends; none by default.");
pub(crate) const SEED: Key =
    Key::new("seed", Form::Integer(0, i64::MAX as u64), "The seed of sampling; none by default.");
pub(crate) const REASONING: Key = Key::new(
    "reasoning",
    Form::Either(REASONING_FORMS),
    "How much the model reasons: `\"none\"`, `\"low\"`, `\"medium\"`, `\"high\"` or `{ max_tokens = N }`; the provider's own \
     by default.",
);
static REASONING_FORMS: &[Form] = &[Form::Word(&["none", "low", "medium", "high"]), Form::Table(&BUDGET)];
static BUDGET: Shape = Shape::new(
    "`reasoning`",
    &[Key::new("max_tokens", Form::Integer(1024, u32::MAX as u64), "Maximum tokens of reasoning.")
        .required("add `max_tokens = …`, at least 1024")],
);
pub(crate) const PARALLEL_TOOL_CALLS: Key = Key::new(
    "parallel_tool_calls",
    Form::Boolean,
    "Whether one reply may call several tools; the provider's own by default.",
);
pub(crate) const VERBOSITY: Key = Key::new(
    "verbosity",
    Form::Word(&["low", "medium", "high"]),
    "How long answers are; the provider's own by default.",
);
pub(crate) const SERVICE_TIER: Key = Key::new(
    "service_tier",
    Form::Text,
    "The provider's class of service, such as `flex` or `priority`; the provider's own by default.",
);
pub(crate) const STRICT: Key = Key::new(
    "strict",
    Form::Boolean,
    "Whether the provider makes arguments fit the schemas of tools, where it has a form for a schema; `false` by default.",
);
pub(crate) const PROVIDER_TOOLS: Key = Key::new(
    "provider_tools",
    Form::List(&Form::Word(&["code_execution", "web_fetch", "web_search"])),
    "The tools that the provider runs by itself, if the agent allows them as `provider.NAME`; none by default.",
);
pub(crate) const BATCH: Key = Key::new(
    "batch",
    Form::Boolean,
    "Whether each request is a batch of the provider, which is answered within a day at a lower price; `false` by default.",
);
pub(crate) const TOOL_CHOICE: Key = Key::new(
    "tool_choice",
    TOOL_NAME,
    "Whether the model calls tools: `auto`, `none`, `required`, or the name of the tool to call; `auto` by default.",
);
pub(crate) const FIRST: Key = Key::new(
    "first",
    TOOL_NAME,
    "`tool_choice` of the first reply of a run; the same as for the others by default.",
);

/// Reads the settings that a table has.
pub(crate) fn read(section: &Section<'_>) -> ModelControl {
    let has = |key: &Key| section.form(key.name).is_some();
    let choice = |key: &Key| has(key).then(|| choice(section, key.name)).flatten();
    ModelControl {
        tool_choice: choice(&TOOL_CHOICE),
        first: choice(&FIRST),
        top_p: section.number("top_p"),
        stop: section.list::<String>("stop").into_iter().map(|text| text.value).collect(),
        seed: section.integer("seed"),
        reasoning: reasoning(section),
        parallel_tool_calls: has(&PARALLEL_TOOL_CALLS)
            .then(|| section.boolean("parallel_tool_calls"))
            .flatten(),
        verbosity: section.choice("verbosity", VERBOSITIES),
        service_tier: section.string("service_tier").map(|tier| tier.value),
        strict: has(&STRICT).then(|| section.boolean("strict")).flatten(),
        provider_tools: match has(&PROVIDER_TOOLS) {
            true => section.list("provider_tools").into_iter().map(|tool| tool.value).collect(),
            false => Vec::new(),
        },
        batch: has(&BATCH).then(|| section.boolean("batch")).flatten(),
    }
}

fn choice(section: &Section<'_>, key: &str) -> Option<ToolChoice> {
    let word = section.string(key)?;
    Some(match word.value.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        _ => ToolChoice::Tool(section.parsed::<ToolName>(key)?.value),
    })
}

fn reasoning(section: &Section<'_>) -> Option<Reasoning> {
    let value = section.get("reasoning")?;
    match value.get_ref().is_table() {
        true => section.section("reasoning")?.integer("max_tokens").map(Reasoning::MaxTokens),
        false => section.choice("reasoning", LEVELS),
    }
}

/// Reports the settings of a table that the wire of a model does not have. `spoken` is the wire, and the provider's name of the
/// model: over Bedrock, some settings are those of Anthropic's models alone.
pub(crate) fn check(section: &Section<'_>, model: &str, spoken: (Provider, &str), control: &ModelControl) {
    let (provider, name) = spoken;
    let wire = provider.as_str();
    let lacks = |key: &str, setting: &str| {
        let Some(span) = section.key_span(key) else { return };
        let help = match section.form("use") {
            Some(_) => "remove it, or set it in `[models.*]` of those models that have it",
            None => "remove it",
        };
        section
            .report
            .error(Code::UnsupportedSetting, span, format!("the wire `{wire}` has no `{setting}`"))
            .label(format!("the model `{model}` speaks it"))
            .help(help);
    };
    let is_gemini = provider == Provider::Gemini;
    let is_bedrock = provider == Provider::Bedrock;
    let is_claude = provider == Provider::Anthropic || (is_bedrock && name.contains("anthropic."));
    if control.seed.is_some() && provider != Provider::Openai && !is_gemini {
        lacks("seed", "seed");
    }
    if !control.stop.is_empty() && provider == Provider::OpenaiResponses {
        lacks("stop", "stop");
    }
    if control.verbosity.is_some() && (provider == Provider::Anthropic || is_gemini || is_bedrock) {
        lacks("verbosity", "verbosity");
    }
    let alone = control.parallel_tool_calls;
    if alone == Some(false) && is_gemini || alone.is_some() && is_bedrock {
        lacks("parallel_tool_calls", "parallel_tool_calls");
    }
    if control.batch == Some(true) && is_bedrock {
        lacks("batch", "batch");
    }
    for tool in &control.provider_tools {
        if !has_tool(provider, *tool) {
            lacks("provider_tools", &format!("provider_tools = [\"{tool}\"]"));
        }
    }
    if matches!(control.reasoning, Some(Reasoning::MaxTokens(_))) && !is_claude && !is_gemini {
        lacks("reasoning", "reasoning.max_tokens");
    }
    let reasons = control.reasoning.is_some_and(|level| level != Reasoning::None);
    if !is_claude || !reasons {
        return;
    }
    let demands =
        |choice: &Option<ToolChoice>| matches!(choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
    for (key, is_refused, problem) in [
        ("tool_choice", demands(&control.tool_choice), "cannot be made to call a tool"),
        ("first", demands(&control.first), "cannot be made to call a tool"),
        ("temperature", true, "takes no `temperature`"),
    ] {
        let Some(span) = section.key_span(key).filter(|_| is_refused) else { continue };
        let problem = format!("over the wire `{wire}`, a model that reasons {problem}");
        section
            .report
            .error(Code::UnsupportedSetting, span, problem)
            .label(format!("`reasoning` is set for the model `{model}`"))
            .help("remove it, or write `reasoning = \"none\"`");
    }
}

/// Says whether the providers of a wire run a tool by themselves.
fn has_tool(wire: Provider, tool: ProviderTool) -> bool {
    match wire {
        Provider::Anthropic | Provider::Gemini => true,
        Provider::OpenaiResponses => tool != ProviderTool::WebFetch,
        Provider::Openai | Provider::Bedrock => false,
    }
}

const LEVELS: &[(&str, Reasoning)] = &[
    ("none", Reasoning::None),
    ("low", Reasoning::Low),
    ("medium", Reasoning::Medium),
    ("high", Reasoning::High),
];

const VERBOSITIES: &[(&str, Verbosity)] =
    &[("low", Verbosity::Low), ("medium", Verbosity::Medium), ("high", Verbosity::High)];
