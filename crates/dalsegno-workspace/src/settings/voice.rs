//! Reads `[voice.lines.*]`.

use std::collections::BTreeMap;

use dalsegno_core::AgentName;

use super::paths::Paths;
use super::{SecretRef, Telephone, dispatch, keys, secrets, telephone, url};
use crate::code::Code;
use crate::section::Section;
use crate::shape::{Form, Key, Need, Shape};

/// A line, over which agents with `[voice]` speak with callers, `[voice.lines.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceLine {
    /// The live model, as the provider calls it.
    pub model: String,
    /// The address of the provider's Realtime API, without its path; OpenAI's own when absent. `https`, or `http` to this
    /// machine or where the file allows it.
    pub base_url: Option<String>,
    /// The key; endpoints of one's own may need none.
    pub api_key: Option<SecretRef>,
    /// Most calls at once. 64 by default.
    pub max_calls: usize,
    /// How it is reached by telephone, `transport = "sip"`; a line for text when absent.
    pub telephone: Option<Telephone>,
}

impl VoiceLine {
    /// Where the Realtime API of OpenAI is.
    pub const BASE_URL: &str = "https://api.openai.com/v1";

    /// Most calls of a line at once, unless the file says otherwise.
    pub const MAX_CALLS: usize = 64;

    /// The secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretRef> {
        self.api_key.iter().chain(self.telephone.iter().flat_map(|telephone| &telephone.webhook_secrets))
    }
}

pub(super) static SHAPE: Shape = Shape::new(
    "`[voice]`",
    &[Key::new(
        "lines",
        Form::Map(&Form::Table(&LINE)),
        "The lines by name, over which agents with `[voice]` speak with callers.",
    )],
);

static LINE: Shape = Shape {
    what: "a line",
    one_of: &[],
    needs: &[Need { because_of: "transport", word: Some("sip"), keys: &["webhook_secrets", "numbers"] }],
    keys: &[
        Key::new("surface", Form::Word(&["realtime"]), "What the provider of the live model speaks.")
            .required("add `surface = \"realtime\"`"),
        Key::new(
            "transport",
            Form::Word(&["sip", "text"]),
            "How the caller's words reach the live model: by telephone over SIP, or typed.",
        )
        .required("add `transport = \"sip\"` for a telephone, or `transport = \"text\"`"),
        Key::new("model", Form::Text, "The provider's name for the live model.")
            .required("add `model = \"…\"`, such as `gpt-realtime-2.1`"),
        Key::new(
            "base_url",
            Form::Text,
            "The address of the provider's API, without `/realtime`; `https://api.openai.com/v1` by default.",
        ),
        Key::new(
            "allow_http",
            Form::Boolean,
            "Whether the address may be reached without encryption; `false` by default, loopback is always allowed.",
        ),
        Key::new(
            "api_key",
            Form::Table(&keys::SECRET),
            "Where to find the key: `{ env = \"NAME\" }`, `{ file = \"PATH\" }`, `{ store = \"NAME\" }` or `{ command = [\"PROGRAM\", …] }`.",
        ),
        Key::new("max_calls", dispatch::COUNT, "Maximum number of calls at once; 64 by default."),
        telephone::KEYS[0],
        telephone::KEYS[1],
    ],
};

/// The longest name of a line that rings: it is a part of an address.
const NAME_MAX: usize = 64;

/// The end of an address that is added to it.
const ENDPOINT: &str = "/realtime";

pub(super) fn read(file: &Section<'_>, paths: &Paths<'_>) -> BTreeMap<String, VoiceLine> {
    let mut lines = BTreeMap::new();
    let Some(voice) = file.section("voice") else { return lines };
    for (name, value) in voice.tables("lines") {
        let what = format!("`[voice.lines.{}]`", name.value);
        if let Some(line) = Section::of(paths.report, &name.value, value, &what, &LINE)
            && let Some(line) = line_of(&line, paths, &what)
        {
            if line.telephone.is_some()
                && (name.value.len() > NAME_MAX || name.value.parse::<AgentName>().is_err())
            {
                paths
                    .report
                    .error(Code::InvalidValue, name.span, format!("`{}` is not the name of a line", name.value))
                    .label(format!("expected 1 to {NAME_MAX} lower-case letters, digits and single hyphens, beginning with a letter"))
                    .help("it is a part of the address of its webhook: `/voice/LINE`");
            }
            lines.insert(name.value, line);
        }
    }
    telephone::once(&lines, paths);
    lines
}

fn line_of(line: &Section<'_>, paths: &Paths<'_>, what: &str) -> Option<VoiceLine> {
    // It has one word so far.
    let surface = line.choice("surface", &[("realtime", ())]);
    let transport = line.choice("transport", &[("sip", true), ("text", false)]);
    let base_url = url::read(line, "base_url", line.boolean("allow_http").unwrap_or(false));
    if let (Some(url), Some(text)) = (&base_url, line.string("base_url")) {
        let plain = url.trim_end_matches('/');
        if let Some(base) = plain.strip_suffix(ENDPOINT) {
            line.report
                .error(Code::InvalidValue, text.span, format!("`base_url` of {what} ends with `{ENDPOINT}`"))
                .label("Dalsegno adds this path itself")
                .help(format!("write `{base}`"));
        } else if plain.contains(['?', '#']) {
            line.report
                .error(Code::InvalidValue, text.span, format!("`base_url` of {what} has a query"))
                .label("expected an address such as `https://api.example.com/v1`");
        }
    }
    let api_key = secrets::at(line, "api_key", paths, &format!("`api_key` of {what}"));
    if !line.has("base_url") {
        line.require("api_key", "add `api_key = { env = \"OPENAI_API_KEY\" }`");
    }
    let max_calls = line.integer("max_calls").unwrap_or(VoiceLine::MAX_CALLS);
    surface?;
    let telephone = match transport? {
        true => Some(telephone::read(line, paths, what)?),
        false => {
            telephone::none(line);
            None
        }
    };
    Some(VoiceLine { model: line.string("model")?.value, base_url, api_key, max_calls, telephone })
}
