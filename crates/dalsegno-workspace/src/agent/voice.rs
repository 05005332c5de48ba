//! Reads `[voice]`: how the agent behaves in a call.

use std::collections::BTreeMap;

use dalsegno_core::{AfterHangup, AgentName, Mind, ToolName, VoiceSettings, VoiceTool};
use toml::de::DeValue;

use super::expressions::{self, Readable, Steps};
use super::steps::optional;
use crate::code::Code;
use crate::section::{Located, Section, wrong_type};
use crate::shape::{AGENT_NAME, Form, Key, Shape};

pub(super) static VOICE: Shape = Shape::new(
    "`[voice]`",
    &[
        Key::new(
            "greeting",
            Form::Template,
            "What the live model is told to say first, a template; rendered once. Without it the caller speaks first.",
        ),
        Key::new(
            "filler",
            Form::Either(&[Form::Text, Form::Boolean]),
            "What the live model is told to say when a tool takes long and nobody speaks; `false` for nothing.",
        ),
        Key::new(
            "defer_after",
            Form::Duration,
            "The time after which the live model is told that a tool still works, and the result follows; `10s` by default.",
        ),
        Key::new(
            "after_hangup",
            Form::Word(&["deny", "keep"]),
            "What happens to open questions for people when the caller has hung up: `deny` answers no, which is the \
             default, and `keep` lets the run wait.",
        ),
        Key::new(
            "delegate",
            AGENT_NAME,
            "The agent that does the work of calls over lines with `surface = \"live\"`: its answers are said by the live model. `agents.NAME` \
             must be in `allow`.",
        ),
        Key::new("max_duration", Form::Duration, "Maximum time of a call; `30m` by default."),
        Key::new(
            "tools",
            Form::Map(&Form::Table(&TOOL)),
            "Settings of single tools in a call, each under its full name in quotes.",
        ),
    ],
);

static TOOL: Shape = Shape::new(
    "the settings of a tool in a call",
    &[
        Key::new(
            "join",
            Form::Boolean,
            "Whether a repeated call with the same arguments is answered by the call before it, as long as the live model \
             has not heard that result; `true` by default.",
        ),
        Key::new(
            "on_interrupt",
            Form::Word(&["cancel", "keep"]),
            "What happens to a call that only reads when the live model is interrupted: `cancel` by default.",
        ),
    ],
);

const AFTER_HANGUP: &[(&str, AfterHangup)] = &[("deny", AfterHangup::Deny), ("keep", AfterHangup::Keep)];
const ON_INTERRUPT: &[(&str, bool)] = &[("cancel", false), ("keep", true)];

/// How an agent behaves in a call, and where the tools stand that it sets up.
#[derive(Debug, Clone, Default)]
pub(super) struct Voice {
    pub(super) settings: Option<Box<VoiceSettings>>,
    pub(super) tools: Vec<Located<ToolName>>,
}

/// Reads the section; nothing where a part of it cannot be read.
pub(super) fn read(file: &Section<'_>, mind: Option<&Mind>) -> Option<Voice> {
    let Some(section) = file.section("voice") else {
        return (!file.has("voice")).then(Voice::default);
    };
    if let (Some(Mind::Plan(_)), Some(span)) = (mind, file.key_span("voice")) {
        file.report
            .error(Code::ModelOrSteps, span, "the agent has `[voice]` and steps, and a plan takes no calls")
            .help("give the agent a `[model]` instead of the steps, or remove `[voice]`");
    }
    let defaults = VoiceSettings::default();
    let readable = Readable { recalled: false, steps: Steps::None, item: false };
    let greeting = section.string("greeting");
    let greeting = optional(
        greeting.is_some(),
        greeting.and_then(|text| expressions::template(section.report, "greeting", &text, readable)),
    );
    let mut tools = BTreeMap::new();
    let mut places = Vec::new();
    for (key, value) in section.tables("tools") {
        let what = format!("the settings of `{}` in a call", key.value);
        let Some(tool) = Section::of(section.report, &key.value, value, &what, &TOOL) else { continue };
        let read = VoiceTool {
            join: tool.boolean("join").unwrap_or(true),
            keep_when_interrupted: tool.choice("on_interrupt", ON_INTERRUPT).unwrap_or_default(),
        };
        match key.value.parse::<ToolName>() {
            Ok(name) => {
                tools.insert(name.clone(), read);
                places.push(Located { value: name, span: key.span });
            }
            Err(error) => {
                section
                    .report
                    .error(Code::InvalidValue, key.span, format!("{error}"))
                    .help("put the full name in quotes: `[voice.tools.\"risk.score\"]`");
            }
        }
    }
    let delegate = section.parsed::<AgentName>("delegate");
    if let Some(delegate) = &delegate
        && let Ok(tool) = format!("agents.{}", delegate.value).parse()
    {
        // It has to be allowed like any tool.
        places.push(Located { value: tool, span: delegate.span.clone() });
    }
    let settings = VoiceSettings {
        greeting: greeting?,
        delegate: delegate.map(|delegate| delegate.value),
        filler: filler(&section),
        defer_after_ms: section.millis("defer_after").unwrap_or(defaults.defer_after_ms),
        after_hangup: section.choice("after_hangup", AFTER_HANGUP).unwrap_or_default(),
        max_duration_ms: section.millis("max_duration").unwrap_or(defaults.max_duration_ms),
        tools,
    };
    Some(Voice { settings: Some(Box::new(settings)), tools: places })
}

fn filler(section: &Section<'_>) -> Option<String> {
    let usual = || Some(VoiceSettings::FILLER.to_owned());
    let Some(value) = section.get("filler") else { return usual() };
    match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => usual(),
        DeValue::String(text) => Some(text.to_string()),
        _ => wrong_type(section.report, "filler", value, "a text or `false`"),
    }
}
