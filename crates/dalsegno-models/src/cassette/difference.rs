//! Which recording comes nearest to a request, and where the two part.

use dalsegno_core::{ModelControl, ToolChoice};
use serde_json::{Map, Value, json};

use super::request::{Request, ToolView, words};

/// Most characters of a text that stand before the first difference.
const BEFORE: usize = 40;

/// Most characters that stand after it.
const AFTER: usize = 80;

/// How near a recording is; the greater the nearer: by the entries that it has in common from the beginning, by how like
/// the first different one is, by the entries that are the same at their place, and by the rest of the request.
pub(super) fn nearness(recorded: &Request, asked: &Request) -> (usize, u32, usize, u32) {
    let common = recorded.common_entries(asked);
    let likeness = match (recorded.entries.get(common), asked.entries.get(common)) {
        (Some(recorded), Some(asked)) => {
            let ((kind, recorded), (other, asked)) = (words(recorded), words(asked));
            if kind == other { 1 + likeness(&recorded, &asked) } else { 0 }
        }
        (None, None) => u32::MAX,
        (Some(_), None) | (None, Some(_)) => 0,
    };
    let pairs = recorded.entries.iter().zip(&asked.entries);
    let in_place = pairs.filter(|(recorded, asked)| recorded == asked).count();
    let same = [
        recorded.head == asked.head,
        recorded.tools == asked.tools,
        recorded.output_schema == asked.output_schema,
    ];
    (common, likeness, in_place, same.into_iter().map(u32::from).sum())
}

/// How much of two texts is the same at their beginning and their end, in thousandths of the longer one.
fn likeness(one: &str, other: &str) -> u32 {
    let (longer, shorter) = (one.len().max(other.len()), one.len().min(other.len()));
    let front = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let back = one.bytes().rev().zip(other.bytes().rev()).take_while(|(one, other)| one == other).count();
    let same = (front + back).min(shorter);
    u32::try_from(same * 1000 / longer.max(1)).unwrap_or(1000)
}

/// The first difference in words, or none if the requests are equal.
pub(super) fn first(recorded: &Request, asked: &Request) -> Option<String> {
    let setting = |name: &str, recorded: String, asked: String| {
        (recorded != asked).then(|| format!("`{name}` was {recorded}, now it is {asked}"))
    };
    let (was, is) = (&recorded.head, &asked.head);
    let or_default = |set: Option<String>| set.unwrap_or_else(|| "the default".to_owned());
    let of = |set: Option<f64>| or_default(set.map(|set| set.to_string()));
    setting("temperature", of(was.temperature), of(is.temperature))
        .or_else(|| {
            let of = |set: Option<u32>| or_default(set.map(|set| set.to_string()));
            setting("max_output_tokens", of(was.max_output_tokens), of(is.max_output_tokens))
        })
        .or_else(|| tools(&recorded.tools, &asked.tools))
        .or_else(|| schema(recorded, asked))
        .or_else(|| entries(recorded, asked))
        .or_else(|| {
            let of = |choice: &ToolChoice| match choice {
                ToolChoice::Auto => "auto".to_owned(),
                ToolChoice::None => "none".to_owned(),
                ToolChoice::Required => "required".to_owned(),
                ToolChoice::Tool(name) => format!("`{name}`"),
            };
            setting("tool_choice", of(&was.tool_choice), of(&is.tool_choice))
        })
        .or_else(|| {
            let fields = |control: &ModelControl| match json!(control) {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            let (was, is) = (fields(&was.control), fields(&is.control));
            let of = |set: Option<&Value>| or_default(set.map(ToString::to_string));
            was.keys().chain(is.keys()).find_map(|name| setting(name, of(was.get(name)), of(is.get(name))))
        })
}

fn tools(recorded: &[ToolView], asked: &[ToolView]) -> Option<String> {
    let find = |tools: &'_ [ToolView], name: &str| tools.iter().position(|tool| tool.name == name);
    for tool in recorded {
        let Some(index) = find(asked, &tool.name) else {
            return Some(format!("the tool `{}` was offered, now it is not", tool.name));
        };
        let now = &asked[index];
        if tool.model_name != now.model_name {
            return Some(format!(
                "the model saw the tool `{}` as {}, now as {}",
                tool.name,
                seen(tool),
                seen(now)
            ));
        }
        let description = format!("the description of the tool `{}`", tool.name);
        let schema = format!("the input schema of the tool `{}`", tool.name);
        let difference = texts(&description, &tool.description, &now.description)
            .or_else(|| texts(&schema, &tool.input_schema.to_string(), &now.input_schema.to_string()));
        if difference.is_some() {
            return difference;
        }
    }
    let added = asked.iter().find(|tool| find(recorded, &tool.name).is_none());
    added.map(|tool| format!("the tool `{}` was not offered, now it is", tool.name))
}

/// The name that a model sees, in words.
fn seen(tool: &ToolView) -> String {
    tool.model_name.as_ref().map_or_else(|| "its long name".to_owned(), |name| format!("`{name}`"))
}

fn schema(recorded: &Request, asked: &Request) -> Option<String> {
    match (&recorded.output_schema, &asked.output_schema) {
        (None, None) => None,
        (None, Some(_)) => Some("no structured answer was asked for, now one is".to_owned()),
        (Some(_), None) => Some("a structured answer was asked for, now none is".to_owned()),
        (Some(recorded), Some(asked)) => {
            texts("the schema of the answer", &recorded.to_string(), &asked.to_string())
        }
    }
}

fn entries(recorded: &Request, asked: &Request) -> Option<String> {
    let common = recorded.common_entries(asked);
    let number = common + 1;
    match (recorded.entries.get(common), asked.entries.get(common)) {
        (None, None) => None,
        (Some(entry), None) => {
            let (what, text) = words(entry);
            Some(format!(
                "entry {number} was {what} ({}), now the transcript ends before it",
                window(&text, 0)
            ))
        }
        (None, Some(entry)) => {
            let (what, text) = words(entry);
            Some(format!(
                "the transcript ended after entry {common}, now {what} follows ({})",
                window(&text, 0)
            ))
        }
        (Some(recorded), Some(asked)) => {
            let ((was, recorded), (is, asked)) = (words(recorded), words(asked));
            if was == is {
                texts(&format!("entry {number}, {was},"), &recorded, &asked)
            } else {
                let (recorded, asked) = (window(&recorded, 0), window(&asked, 0));
                Some(format!("entry {number} was {was} ({recorded}), now it is {is} ({asked})"))
            }
        }
    }
}

/// Two texts around the place where they part, if they do.
fn texts(what: &str, recorded: &str, asked: &str) -> Option<String> {
    if recorded == asked {
        return None;
    }
    let common = recorded.chars().zip(asked.chars()).take_while(|(one, other)| one == other).count();
    Some(format!("{what} was {}, now it is {}", window(recorded, common), window(asked, common)))
}

/// The text around a character.
fn window(text: &str, at: usize) -> String {
    let start = at.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(start).take(at - start + AFTER).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().nth(at + AFTER).is_some() { "…" } else { "" };
    let shown = shown.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() });
    format!("`{before}{}{after}`", shown.collect::<String>())
}
