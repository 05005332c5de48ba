//! Reads `[voice.lines.*]`.

use std::collections::BTreeMap;

use dalsegno_core::{AgentName, LivePrice};

use super::paths::Paths;
use super::{SecretRef, Telephone, Transport, dispatch, keys, models, secrets, telephone, url};
use crate::code::Code;
use crate::section::Section;
use crate::shape::{Form, Key, Need, Shape};

/// What the provider of a line's live model speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineSurface {
    /// The Realtime API of OpenAI, which others have as well: the live model takes turns with the caller.
    Realtime,
    /// The Live API of OpenAI: the live model hears while it speaks, and another one works with the tools.
    Live {
        /// The model of the provider that works with the tools, as the provider calls it; none where every agent at its numbers names another
        /// one that does its work.
        backend: Option<String>,
    },
}

impl LineSurface {
    /// The word in the file, such as `realtime`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::Live { .. } => "live",
        }
    }
}

/// A line, over which agents with `[voice]` speak with callers, `[voice.lines.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceLine {
    /// What its provider speaks.
    pub surface: LineSurface,
    /// The live model, as the provider calls it.
    pub model: String,
    /// The address of the provider's Realtime API, without its path; OpenAI's own when absent. `https`, or `http` to this
    /// machine or where the file allows it.
    pub base_url: Option<String>,
    /// The key; endpoints of one's own may need none.
    pub api_key: Option<SecretRef>,
    /// What the live model costs; calls over the line have no cost when absent.
    pub price: Option<LivePrice>,
    /// Most calls at once. 64 by default.
    pub max_calls: usize,
    /// How it is reached by telephone, `transport = "sip"` or `"media"`; a line for text when absent.
    pub telephone: Option<Telephone>,
}

/// What has no price at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unpriced {
    /// Its live model.
    Tokens,
    /// The time of its live model, which is billed by that.
    Time,
}

impl Unpriced {
    pub(crate) const ALL: [Self; 2] = [Self::Tokens, Self::Time];

    /// The key that is missing.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tokens => "price",
            Self::Time => "price.minute",
        }
    }

    /// What to do about it.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Tokens => {
                "add `price = { input = …, output = … }` to the line, in US dollars for a million tokens"
            }
            Self::Time => {
                "add `minute = …` to the `price` of the line: its live model is billed by time, in US dollars"
            }
        }
    }
}

impl VoiceLine {
    /// Where the Realtime API of OpenAI is.
    pub const BASE_URL: &str = "https://api.openai.com/v1";

    /// Most calls of a line at once, unless the file says otherwise.
    pub const MAX_CALLS: usize = 64;

    /// What its price lacks, without which a bound on the cost of calls would not hold.
    pub(crate) fn unpriced(&self) -> Option<Unpriced> {
        match (&self.price, &self.surface) {
            (None, _) => Some(Unpriced::Tokens),
            (Some(LivePrice { minute: None, .. }), LineSurface::Live { .. }) => Some(Unpriced::Time),
            (Some(_), _) => None,
        }
    }

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
    needs: &[
        Need { because_of: "transport", word: Some("sip"), keys: &["webhook_secrets", "numbers"] },
        Need { because_of: "transport", word: Some("media"), keys: &["webhook_secrets", "numbers"] },
    ],
    keys: &[
        Key::new("surface", Form::Word(&["realtime", "live"]), "What the provider of the live model speaks.")
            .required("add `surface = \"realtime\"`"),
        Key::new(
            "transport",
            Form::Word(&["sip", "media", "text"]),
            "How the caller's words reach the live model: by telephone over SIP, by telephone through a carrier that sends the sound here, or typed.",
        )
        .required("add `transport = \"sip\"` or `transport = \"media\"` for a telephone, or `transport = \"text\"`"),
        Key::new("model", Form::Text, "The provider's name for the live model.")
            .required("add `model = \"…\"`, such as `gpt-realtime-2.1`"),
        Key::new(
            "backend_model",
            Form::Text,
            "The provider's name for the model that works with the tools while the live model speaks; for `surface = \"live\"`.",
        ),
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
        Key::new(
            "price",
            Form::Table(&PRICE),
            "The price of the live model's tokens, in US dollars per million.",
        ),
        Key::new("max_calls", dispatch::COUNT, "Maximum number of calls at once; 64 by default."),
        telephone::KEYS[0],
        telephone::KEYS[1],
    ],
};

static PRICE: Shape = Shape::new(
    "the `price` of a line",
    &[
        keys::INPUT,
        keys::OUTPUT,
        keys::CACHED_INPUT,
        Key::new(
            "audio_input",
            models::DOLLARS,
            "The price of a million tokens of sound sent; that of `input` by default.",
        ),
        Key::new(
            "audio_output",
            models::DOLLARS,
            "The price of a million tokens of sound received; that of `output` by default.",
        ),
        Key::new(
            "cached_audio_input",
            models::DOLLARS,
            "The price of a million tokens of sound sent that the provider had in its cache; that of `audio_input` by default.",
        ),
        Key::new(
            "minute",
            models::DOLLARS,
            "The price of a minute of the live model, where its provider bills that by time; for lines with `surface = \"live\"`.",
        ),
    ],
);

/// The longest name of a line that rings: it is a part of an address.
const NAME_MAX: usize = 64;

/// The ends of addresses that are added to them.
const ENDPOINTS: [&str; 2] = ["/realtime", "/live"];

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
    let is_live = line.choice("surface", &[("realtime", false), ("live", true)]);
    let transports = [
        (Transport::Sip.name(), Some(Transport::Sip)),
        (Transport::Media.name(), Some(Transport::Media)),
        ("text", None),
    ];
    let transport = line.choice("transport", &transports);
    let base_url = url::read(line, "base_url", line.boolean("allow_http").unwrap_or(false));
    if let (Some(url), Some(text)) = (&base_url, line.string("base_url")) {
        let plain = url.trim_end_matches('/');
        if let Some((base, end)) = ENDPOINTS.iter().find_map(|end| Some((plain.strip_suffix(end)?, end))) {
            line.report
                .error(Code::InvalidValue, text.span, format!("`base_url` of {what} ends with `{end}`"))
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
    let price = line.section("price");
    let of_minute = price.as_ref().and_then(|price| price.key_span("minute"));
    let price = price.map(|price| price_of(&price));
    let max_calls = line.integer("max_calls").unwrap_or(VoiceLine::MAX_CALLS);
    let surface = match is_live? {
        true => {
            needs_sip(line);
            LineSurface::Live { backend: line.string("backend_model").map(|backend| backend.value) }
        }
        false => {
            if let Some(span) = line.key_span("backend_model") {
                line.report
                    .error(Code::InvalidValue, span, "`backend_model` is of no use at this line")
                    .label("a live model that takes turns works with the tools itself")
                    .help("remove it, or write `surface = \"live\"`");
            }
            if let Some(span) = of_minute {
                line.report
                    .error(Code::InvalidValue, span, "`minute` is of no use at this line")
                    .label("a live model that takes turns is billed by tokens")
                    .help("remove it, or write `surface = \"live\"`");
            }
            LineSurface::Realtime
        }
    };
    let telephone = match transport? {
        Some(transport) => Some(telephone::read(line, transport, paths, what)?),
        None => {
            telephone::none(line);
            None
        }
    };
    let price = match price {
        None => None,
        Some(price) => Some(price?),
    };
    Some(VoiceLine {
        surface,
        model: line.string("model")?.value,
        base_url,
        api_key,
        price,
        max_calls,
        telephone,
    })
}

/// Reports a line that is no SIP and whose live model hears while it speaks: its caller is heard at the provider only.
fn needs_sip(line: &Section<'_>) {
    if let (Some(transport), Some(span)) = (line.string("transport"), line.key_span("transport"))
        && let Some(label) = match transport.value.as_str() {
            "text" => Some("this live model hears sound only"),
            "media" => Some("callers of this live model are heard at its provider only"),
            _ => None,
        }
    {
        let problem = format!("a line with `surface = \"live\"` takes no {}", transport.value);
        line.report
            .error(Code::InvalidValue, span, problem)
            .label(label)
            .help("write `transport = \"sip\"` for a telephone, or `surface = \"realtime\"`");
    }
}

fn price_of(price: &Section<'_>) -> Option<LivePrice> {
    let [cached_input, audio_input, audio_output, cached_audio_input, minute] =
        ["cached_input", "audio_input", "audio_output", "cached_audio_input", "minute"]
            .map(|key| price.dollars(key));
    let (input, output) = (price.dollars("input"), price.dollars("output"));
    Some(LivePrice {
        input: input?,
        output: output?,
        cached_input,
        audio_input,
        audio_output,
        cached_audio_input,
        minute,
    })
}
