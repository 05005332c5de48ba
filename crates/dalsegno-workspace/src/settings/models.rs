//! Reads `[models.*]`.

use std::collections::BTreeMap;

use dalsegno_core::{LongContext, ModelControl, Price, Rates};
use toml::Spanned;

use super::keys::{LONG_CONTEXT, MODEL};
use super::paths::Paths;
use super::tenant_keys::{self, KeysPlace};
use super::{HttpBinding, ModelBinding, PromptCache, Provider, ToolFiles, bedrock, secrets, url};
use crate::agent::json;
use crate::code::Code;
use crate::control;
use crate::names::{list, nearest};
use crate::section::{Section, string, wrong_type};
use crate::shape::Form;

/// The models of a workspace, and what those cost of which it is known.
#[derive(Default)]
pub(super) struct Models {
    pub(super) bindings: BTreeMap<String, ModelBinding>,
    pub(super) prices: BTreeMap<String, Price>,
    pub(super) controls: BTreeMap<String, ModelControl>,
    /// Where the keys of tenants stand.
    pub(super) keys: Vec<KeysPlace>,
}

pub(super) fn read(file: &Section<'_>, paths: &Paths<'_>) -> Models {
    let mut models = Models::default();
    for (name, value) in file.tables("models") {
        let what = format!("`[models.{}]`", name.value);
        let Some(table) = value.get_ref().as_table() else {
            wrong_type::<()>(paths.report, &name.value, value, "a table");
            continue;
        };
        let words: Vec<_> = MODEL.words().collect();
        let Some(provider) = table.get(MODEL.tag) else {
            paths
                .report
                .error(Code::MissingKey, value.span(), format!("{what} has no `provider`"))
                .help(format!("expected one of {}", list(words)));
            continue;
        };
        let Some(provider) = string(paths.report, MODEL.tag, provider) else { continue };
        let Some(shape) = MODEL.shape(&provider.value) else {
            // The other keys belong to that provider, so nothing can be said about them.
            let added = paths
                .report
                .error(
                    Code::UnknownProvider,
                    provider.span,
                    format!("there is no provider `{}`", provider.value),
                )
                .label(format!("expected one of {}", list(&words)));
            if let Some(near) = nearest(&provider.value, words.iter().copied()) {
                added.help(format!("did you mean `{near}`?"));
            }
            continue;
        };
        let Some(model) = Section::of(paths.report, &name.value, value, &what, shape) else { continue };
        if let Some(price) = price(&model) {
            models.prices.insert(name.value.clone(), price);
        }
        let binding = match Provider::ALL.into_iter().find(|known| known.as_str() == provider.value) {
            Some(provider) => {
                let control = control::read(&model);
                let of_provider = model.string("model").map(|name| name.value).unwrap_or_default();
                control::check(&model, &name.value, (provider, &of_provider), &control);
                if !control.is_empty() {
                    models.controls.insert(name.value.clone(), control);
                }
                let binding = http(&model, paths, provider, &what);
                if let Some(binding) = &binding {
                    models.keys.extend(KeysPlace::of(&model, &name.value, binding));
                }
                binding.map(ModelBinding::Http)
            }
            None if provider.value == "script" => paths
                .file(&model, "file", "create the script, or correct the path")
                .map(|file| ModelBinding::Script { file }),
            None => paths
                .file(&model, "file", "record it, or correct the path")
                .map(|file| ModelBinding::Cassette { file }),
        };
        models.bindings.extend(binding.map(|binding| (name.value, binding)));
    }
    models
}

/// How long a provider keeps what it has read.
const CACHES: &[(&str, PromptCache)] =
    &[("off", PromptCache::Off), ("5m", PromptCache::FiveMinutes), ("1h", PromptCache::OneHour)];

/// Which files of tools a model is sent.
const TOOL_FILES: &[(&str, ToolFiles)] =
    &[("all", ToolFiles::All), ("images", ToolFiles::Images), ("off", ToolFiles::Off)];

/// What the wires add to an address themselves.
const ENDPOINTS: [&str; 4] = ["/chat/completions", "/responses", "/messages", "/converse-stream"];

/// Where the wire of Gemini begins to add to an address.
const MODELS: &str = "/models";

fn http(model: &Section<'_>, paths: &Paths<'_>, provider: Provider, what: &str) -> Option<HttpBinding> {
    let allow_http = model.boolean("allow_http").unwrap_or(false);
    let base_url = url::read(model, "base_url", allow_http);
    if let (Some(url), Some(text)) = (&base_url, model.string("base_url")) {
        let plain = url.trim_end_matches('/');
        let end = match provider {
            Provider::Gemini => plain.find(MODELS).map(|start| &plain[start..]).filter(|end| {
                let rest = &end[MODELS.len()..];
                rest.is_empty() || rest.starts_with('/')
            }),
            _ => ENDPOINTS.into_iter().find(|end| plain.ends_with(end)),
        };
        if let Some(end) = end {
            model
                .report
                .error(Code::InvalidValue, text.span, format!("`base_url` of {what} ends with `{end}`"))
                .label("Dalsegno adds this path itself")
                .help(format!("write `{}`", plain.trim_end_matches(end)));
        }
    }
    let api_key = secrets::at(model, "api_key", paths, &format!("`api_key` of {what}"));
    let keys = tenant_keys::read(model, paths, provider, what);
    // The providers themselves answer nobody without a key; a local endpoint may.
    let is_bedrock = provider == Provider::Bedrock;
    if is_bedrock {
        bedrock::require_key(model);
    } else if !model.has("base_url") && !model.has("keys") {
        model.require("api_key", &format!("add `api_key = {{ env = \"{}\" }}`", provider.usual_key()));
    }
    let aws_key = is_bedrock.then(|| bedrock::key_of_model(model, paths, what)).flatten();
    let region = is_bedrock.then(|| bedrock::region(model, keys.as_ref(), what)).flatten();
    let extra = extra(model, provider);
    let name = model.string("model")?.value;
    let concurrency = model.integer("concurrency");
    let headers = headers(model);
    let idle_timeout = model.duration("idle_timeout");
    let has = |key: &str| model.form(key).is_some();
    let stream_options =
        has("stream_options").then(|| model.boolean("stream_options")).flatten().unwrap_or(true);
    let lacks = |key: &str, help: &str| {
        if let Some(span) = model.key_span(key) {
            let problem = format!("the wire `{}` has no `{key}`", provider.as_str());
            model.report.error(Code::UnsupportedSetting, span, problem).help(help);
        }
    };
    if provider != Provider::Openai {
        lacks("stream_options", "remove it: this wire always counts tokens");
    }
    if !matches!(provider, Provider::Anthropic | Provider::Bedrock) {
        lacks("cache", "remove it: the provider decides by itself, or takes a field of its own in `extra`");
    }
    let api_key_header = has("api_key_header").then(|| key_header(model, what)).flatten();
    Some(HttpBinding {
        provider,
        model: name,
        base_url,
        allow_http,
        api_key,
        aws_key,
        keys,
        region,
        api_key_header,
        extra: extra?,
        concurrency,
        headers,
        idle_timeout,
        stream_options,
        cache: model.choice("cache", CACHES).unwrap_or_default(),
        tool_files: model.choice("tool_files", TOOL_FILES).unwrap_or_default(),
    })
}

/// Reads further headers. Those that hold secrets have been reported.
fn headers(model: &Section<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, value) in model.tables("headers") {
        let Some(text) = string(model.report, &name.value, value) else { continue };
        let is_name = !name.value.is_empty()
            && name
                .value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        let is_reserved = RESERVED_HEADERS.contains(&name.value.to_ascii_lowercase().as_str());
        let problem = match (is_name, is_reserved) {
            (false, _) => Some((name.span.clone(), format!("`{}` is not the name of a header", name.value))),
            (true, true) => Some((name.span.clone(), format!("`headers` cannot set `{}`", name.value))),
            (true, false) if text.value.chars().any(|letter| letter.is_control() && letter != '\t') => {
                Some((text.span.clone(), format!("the value of `{}` has a control character", name.value)))
            }
            (true, false) => None,
        };
        match problem {
            Some((span, problem)) => {
                let added = model.report.error(Code::InvalidValue, span, problem);
                if is_reserved {
                    added.label("Dalsegno sets this header itself").help("remove it");
                }
            }
            None => {
                headers.insert(name.value, text.value);
            }
        }
    }
    headers
}

/// Reads the header that carries the key: none that Dalsegno sets for another purpose.
fn key_header(model: &Section<'_>, what: &str) -> Option<String> {
    let header = model.string("api_key_header")?;
    let name = header.value.to_ascii_lowercase();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_ours = (RESERVED_HEADERS.contains(&name.as_str()) && !KEY_HEADERS.contains(&name.as_str()))
        || name == "anthropic-version";
    let label = match is_ours {
        true => "Dalsegno sets this header itself",
        false if !is_name => "expected the name of a header: letters, digits and `-`",
        false => return Some(name),
    };
    let problem = format!("`api_key_header` of {what} cannot carry a key");
    let added = model.report.error(Code::InvalidValue, header.span, problem);
    added.label(label).help("write a header such as `api-key`, or `authorization`");
    None
}

/// Reads further fields of the body; those that make up the request itself are refused.
fn extra(model: &Section<'_>, provider: Provider) -> Option<serde_json::Map<String, serde_json::Value>> {
    let Some(value) = model.get("extra") else { return Some(serde_json::Map::new()) };
    let Some(table) = value.get_ref().as_table() else {
        return wrong_type(model.report, "extra", value, "a table");
    };
    let mut is_valid = true;
    for path in provider.reserved() {
        let (name, member) = path.split_once('.').map_or((path, None), |(name, member)| (name, Some(member)));
        let Some((key, value)) = table.get_key_value(name) else { continue };
        let span = match (member, value.get_ref().as_table()) {
            (None, _) => key.span(),
            (Some(member), Some(members)) => match members.get_key_value(member) {
                Some((key, _)) => key.span(),
                None => continue,
            },
            (Some(_), None) => {
                is_valid = false;
                model
                    .report
                    .error(Code::InvalidValue, value.span(), format!("`extra` cannot replace `{name}`"))
                    .label("expected a table: its members are merged with those of the request");
                continue;
            }
        };
        is_valid = false;
        model
            .report
            .error(Code::InvalidValue, span, format!("`extra` cannot set `{path}`"))
            .label("Dalsegno sets this field itself")
            .help("remove it: the agent file defines the request");
    }
    match json(model.report, "extra", value, &mut |_, _| {})? {
        serde_json::Value::Object(extra) if is_valid => Some(extra),
        _ => None,
    }
}

fn price(model: &Section<'_>) -> Option<Price> {
    let price = model.section("price")?;
    let rates = rates(&price);
    let mut long_context: Vec<LongContext> = Vec::new();
    for item in price.items("long_context", "a list of tables") {
        let longer = Section::of(model.report, "long_context", item, LONG_CONTEXT.what, &LONG_CONTEXT)?;
        let (above, rates) = (longer.integer::<u64>("above"), self::rates(&longer));
        if let (Some(above), Some(before)) = (above, long_context.last().map(|before| before.above))
            && above <= before
        {
            let span = longer.get("above").map_or_else(|| longer.span.clone(), Spanned::span);
            model
                .report
                .error(Code::InvalidValue, span, format!("`above` is {above}, after an entry with {before}"))
                .label(format!("expected more than {before}"))
                .help("sort the entries of `long_context` by `above`, each number once");
        }
        long_context.push(LongContext { above: above?, rates: rates? });
    }
    let web_search = price.dollars("web_search");
    Some(Price { rates: rates?, long_context, web_search })
}

/// Reads what each kind of token costs.
fn rates(price: &Section<'_>) -> Option<Rates> {
    let (input, output) = (price.dollars("input"), price.dollars("output"));
    let [cached_input, cache_write, cache_write_1h] =
        ["cached_input", "cache_write", "cache_write_1h"].map(|key| price.dollars(key));
    if let (Some(input), Some(cached)) = (input, cached_input)
        && cached > input
    {
        let span = price.get("cached_input").map_or_else(|| price.span.clone(), Spanned::span);
        price
            .report
            .error(Code::InvalidValue, span, "`cached_input` is more than `input`")
            .label("tokens from a cache cost at most what other tokens cost")
            .help("write the lower price of a million cached tokens, or leave it out");
    }
    Some(Rates { input: input?, output: output?, cached_input, cache_write, cache_write_1h })
}

impl Provider {
    /// The fields of a request's body that [`extra`](HttpBinding::extra) cannot set over this wire format, since they make
    /// up the request itself. `text.format` stands for the member `format` of `text`, which has to be a table.
    pub fn reserved(self) -> impl Iterator<Item = &'static str> {
        let own: &[&str] = match self {
            Self::Openai => {
                &["response_format", "functions", "function_call", "n", "stream_options.include_usage"]
            }
            Self::OpenaiResponses => {
                &["store", "background", "conversation", "previous_response_id", "prompt", "text.format"]
            }
            Self::Anthropic => &["output_format", "output_config.format"],
            Self::Gemini => &[
                "contents",
                "systemInstruction",
                "system_instruction",
                "tool_config",
                "generation_config",
                "toolConfig.functionCallingConfig",
                "generationConfig.candidateCount",
                "generationConfig.responseMimeType",
                "generationConfig.responseSchema",
                "generationConfig.responseJsonSchema",
                "generationConfig.responseFormat",
            ],
            Self::Bedrock => &["modelId", "toolConfig", "outputConfig.textFormat"],
        };
        RESERVED.iter().chain(own).copied()
    }

    /// The environment variable that usually holds the key.
    fn usual_key(self) -> &'static str {
        match self {
            Self::Openai | Self::OpenaiResponses => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
            Self::Bedrock => "AWS_BEARER_TOKEN_BEDROCK",
        }
    }
}

/// US dollars for a million tokens. The dearest models cost some hundreds; a millionth of a dollar for a million
/// tokens is the smallest price that is counted.
pub(super) const DOLLARS: Form = Form::Dollars { most: 100_000, decimals: 6 };

/// Headers that the wire formats set themselves, or that belong to the connection.
const RESERVED_HEADERS: [&str; 13] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-api-key",
    "x-goog-api-key",
];

/// Those of them that may carry the key.
const KEY_HEADERS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];

/// Fields of a body that all wire formats set themselves.
const RESERVED: &[&str] =
    &["model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream"];
