//! Reads what a model-driven agent asks its model.

use dalsegno_core::{
    Compact, ContextSettings, ModelControl, ModelMind, ModelSettings, OutputSettings, Recall, ToolChoice,
};
use dalsegno_expr::Template;

use super::expressions::{self, Readable, Steps};
use super::output;
use super::read::Surroundings;
use super::steps::optional;
use super::wishes::Wishes;
use super::{AgentTools, provider_tools};
use crate::code::Code;
use crate::control;
use crate::names::{nearest, some};
use crate::section::{Located, Section};
use crate::settings::ModelBinding;

pub(super) fn read(
    file: &Section<'_>,
    memory: Option<&Section<'_>>,
    tools: &AgentTools,
    around: &Surroundings<'_>,
) -> Option<(ModelMind, Wishes)> {
    let recall = memory.and_then(|memory| memory.section("recall"));
    let readable = Readable { recalled: recall.is_some(), steps: Steps::None, item: false };
    let recall = optional(recall.is_some(), recall.and_then(|recall| self::recall(&recall)));
    let instructions = file.string("instructions");
    let instructions = optional(
        instructions.is_some(),
        instructions.and_then(|text| {
            let template = template(file, "instructions", &text, readable)?;
            warn_of_changes(file, &text, &template);
            Some(template)
        }),
    );
    let prompt = match file.string("prompt") {
        Some(text) => template(file, "prompt", &text, readable),
        None => Template::parse("{{request.text}}").ok(),
    };
    let section = file.section("model");
    let models = section.as_ref().and_then(|model| models(model, around, tools));
    if let (Some(section), Some((model, fallback))) = (&section, &models) {
        check_choices(section, &model.control, tools);
        provider_tools::check(section, tools);
        let controls: Vec<_> = std::iter::once(model).chain(fallback).map(|model| &*model.control).collect();
        provider_tools::warn_of_unused(file.report, tools, &controls);
    }
    let output = optional(file.has("output"), output(file, around));
    let context = optional(file.has("context"), context(file));
    let (model, fallback) = models?;
    let wishes = Wishes::read(section.as_ref()?);
    let mind = ModelMind {
        model,
        fallback,
        instructions: instructions?,
        prompt: prompt?,
        recall: recall?,
        output: output?,
        context: context?,
    };
    Some((mind, wishes))
}

/// Warns of instructions that differ from message to message: they stand before all that was said, so that a provider's
/// cache of a conversation is of no use once they change. What the memory knows may differ as well, but an agent that is
/// asked once may well read it first.
fn warn_of_changes(file: &Section<'_>, text: &Located<String>, template: &Template) {
    for reference in template.paths().iter().filter(|path| path.root == "request") {
        let members = reference.segments.iter().map(String::as_str);
        let path = std::iter::once(reference.root.as_str()).chain(members).collect::<Vec<_>>().join(".");
        let span = file.report.within(&text.span, &text.value, &reference.span);
        file.report
            .warning(
                Code::ChangingInstructions,
                span,
                format!("the instructions read `{path}`, which differs from message to message"),
            )
            .label("the provider's prompt cache begins anew with each message")
            .help(format!("move `{{{{{path}}}}}` to `prompt`"));
    }
}

/// The agent's model and those to fall back to. They are asked alike.
fn models(
    section: &Section<'_>,
    around: &Surroundings<'_>,
    tools: &AgentTools,
) -> Option<(ModelSettings, Vec<ModelSettings>)> {
    let name = section.string("use");
    let settings = name.as_ref().and_then(|name| settings(section, name, around, tools));
    let mut fallback = Vec::new();
    let mut seen: Vec<_> = name.map(|name| name.value).into_iter().collect();
    for next in section.list::<String>("fallback") {
        if seen.contains(&next.value) {
            section
                .report
                .error(Code::InvalidValue, next.span, format!("the model `{}` is tried twice", next.value))
                .help("remove it: `retries` sets the attempts after the first");
            continue;
        }
        seen.push(next.value.clone());
        fallback.push(self::settings(section, &next, around, tools));
    }
    Some((settings?, fallback.into_iter().collect::<Option<_>>()?))
}

/// Reads how a model is asked, from `[model]` or from a step.
pub(super) fn settings(
    section: &Section<'_>,
    name: &Located<String>,
    around: &Surroundings<'_>,
    tools: &AgentTools,
) -> Option<ModelSettings> {
    let defaults = ModelSettings::named(&name.value);
    let read = ModelSettings {
        temperature: section.number("temperature"),
        max_output_tokens: section.integer("max_output_tokens"),
        retries: section.integer("retries").unwrap_or(defaults.retries),
        ..defaults
    };
    let read = Wishes::read(section).ask(read, around.settings, tools);
    if let Some(ModelBinding::Http(binding)) =
        around.settings.and_then(|settings| settings.models.get(&name.value))
    {
        // Also what the agent does not allow: it is set for the model.
        let control = Wishes::read(section).control(&name.value, around.settings);
        control::check(section, &name.value, (binding.provider, &binding.model), &control);
    }
    let Some(models) = around.settings.map(|settings| &settings.models) else { return Some(read) };
    if models.contains_key(&name.value) {
        return Some(read);
    }
    let help = match nearest(&name.value, models.keys().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if models.is_empty() => "add a `[models.*]` to `dalsegno.toml`".to_owned(),
        None => format!("the models of `dalsegno.toml` are {}", some(models.keys().map(String::as_str))),
    };
    section
        .report
        .error(
            Code::UnknownModel,
            name.span.clone(),
            format!("`dalsegno.toml` has no model `{}`", name.value),
        )
        .help(help);
    None
}

/// Reports a demand for a tool that the agent does not allow, and one that the model could never answer after.
fn check_choices(section: &Section<'_>, control: &ModelControl, tools: &AgentTools) {
    for (key, choice) in [("tool_choice", &control.tool_choice), ("first", &control.first)] {
        let (Some(ToolChoice::Tool(tool)), Some(text)) = (choice, section.get(key)) else { continue };
        if !tools.allows(tool) {
            let problem = format!("`{key}` names `{tool}`, which the agent does not allow");
            section
                .report
                .error(Code::ToolNotAllowed, text.span(), problem)
                .help(format!("add `\"{tool}\"` to `allow` of `[tools]`"));
        }
    }
    let demands = matches!(control.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
    if let (true, Some(span)) = (demands && !tools.hands_over(), section.key_span("tool_choice")) {
        section
            .report
            .error(
                Code::InvalidValue,
                span,
                "`tool_choice` demands a call in every reply, so the model can never answer",
            )
            .help("write `first` instead, which holds for the first reply of a run");
    }
}

fn recall(section: &Section<'_>) -> Option<Recall> {
    let limit = section.integer("limit").unwrap_or(DEFAULT_HITS);
    let min_score = section.number("min_score").unwrap_or(0.0);
    // Nothing has been recalled while the query is made.
    let readable = Readable { recalled: false, steps: Steps::None, item: false };
    let query = template(section, "query", &section.string("query")?, readable)?;
    Some(Recall { query, limit, min_score })
}

fn output(file: &Section<'_>, around: &Surroundings<'_>) -> Option<OutputSettings> {
    let section = file.section("output")?;
    let retries = section.integer("retries").unwrap_or(DEFAULT_OUTPUT_RETRIES);
    let paths = around.paths(section.report);
    Some(OutputSettings { schema: output::schema(&section, &paths)?, retries })
}

fn context(file: &Section<'_>) -> Option<ContextSettings> {
    let section = file.section("context")?;
    let compact = section.choice("compact", COMPACT).unwrap_or_default();
    Some(ContextSettings { max_tokens: section.integer("max_tokens")?, compact })
}

fn template(
    section: &Section<'_>,
    key: &str,
    text: &Located<String>,
    readable: Readable<'_>,
) -> Option<Template> {
    expressions::template(section.report, key, text, readable)
}

const COMPACT: &[(&str, Compact)] = &[("drop", Compact::Drop), ("summarise", Compact::Summarise)];

/// What a person still reads; the same as the model's own default.
pub(super) const DEFAULT_HITS: u32 = 5;

/// A model that has not understood the form after two explanations will not.
const DEFAULT_OUTPUT_RETRIES: u32 = 2;
