//! Where the values of a request came from.

use dalsegno_core::RunId;
use dalsegno_history::{Author, Found, Provenance, Source, TemplateRead, Traced, TracedPart};
use serde_json::Value;

use crate::text;

/// Most characters of one value.
const VALUE: usize = 2_000;

/// Where the values of a request came from.
#[derive(Debug, Clone)]
pub struct Why {
    /// What put the request together.
    pub author: Place,
    /// Its values.
    pub values: Vec<WhyValue>,
    /// What was left out.
    pub further: Option<String>,
}

/// A value, and where it came from.
#[derive(Debug, Clone)]
pub struct WhyValue {
    /// Where in the request it stands.
    pub path: String,
    /// The value.
    pub value: String,
    /// Where it came from.
    pub places: Vec<Place>,
    /// Whether no place has it: its author wrote it.
    pub is_written: bool,
}

/// A place, in words, with the address where it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The words.
    pub words: String,
    /// The address.
    pub href: Option<String>,
    /// The text around it.
    pub excerpt: String,
}

impl Why {
    /// Where the values of a request of this run came from.
    pub fn of(run: RunId, provenance: &Provenance) -> Self {
        let Provenance { author, values, further, .. } = provenance;
        Self {
            author: by(run, author),
            values: values.iter().map(|traced| WhyValue::of(run, traced, author)).collect(),
            further: (*further > 0)
                .then(|| format!("{} were not looked for", text::count(*further as u64, "further value"))),
        }
    }
}

fn by(run: RunId, author: &Author) -> Place {
    match author {
        Author::Model { completion, step, messages } => Place {
            words: format!("the model in step {step}, after {}", text::count(*messages, "message")),
            href: Some(operation(run, *step, completion)),
            excerpt: String::new(),
        },
        Author::Plan { place } => plain(format!("the plan: {}", text::line(&place.replace('`', ""), 120))),
        Author::Document { tool, call } => {
            plain(format!("the document of {tool}, in the call {}", text::short(call)))
        }
        Author::Agent => plain("the settings of the agent".to_owned()),
    }
}

impl WhyValue {
    fn of(run: RunId, traced: &Traced, author: &Author) -> Self {
        let Traced { path, value, edited, templates, found, parts } = traced;
        let mut places = Vec::new();
        if let Some(edited) = edited {
            let by = edited.by.as_ref().map(|by| format!(", {}", text::line(by, 80))).unwrap_or_default();
            places.push(plain(format!("put here by the person who approved the call{by}")));
        }
        for TemplateRead { template, reads, .. } in templates {
            places.push(plain(format!(
                "the template {}, which reads {}",
                text::line(template, 120),
                text::line(reads, 80)
            )));
        }
        places.extend(found.iter().map(|found| place(run, found, "")));
        for TracedPart { text: part, found } in parts {
            let before = format!("{}: ", text::line(part, 80));
            places.extend(found.iter().map(|found| place(run, found, &before)));
        }
        let is_read = !found.is_empty() || !templates.is_empty() || edited.is_some();
        let is_in_part = !places.is_empty();
        if !is_read {
            let words = match (author, is_in_part) {
                (Author::Model { .. }, false) => "in nothing that the run had read: the model wrote it",
                (Author::Model { .. }, true) => {
                    "the rest is in nothing that the run had read: the model wrote it"
                }
                (Author::Plan { .. }, false) => "written in the plan",
                (Author::Document { .. }, false) => "written in the document of the tool, or computed by it",
                (Author::Agent, false) => "written in the settings of the agent",
                (_, true) => "",
            };
            if !words.is_empty() {
                places.push(plain(words.to_owned()));
            }
        }
        let value = match value {
            Value::String(words) => text::shown(words, VALUE),
            other => text::shown(&other.to_string(), VALUE),
        };
        Self { path: text::line(path, 120), value, places, is_written: !is_read }
    }
}

fn place(run: RunId, found: &Found, before: &str) -> Place {
    let Found { source, path, excerpt, .. } = found;
    let (words, href) = named(run, source);
    let path = if path.is_empty() { String::new() } else { format!(", {}", text::line(path, 120)) };
    Place { words: format!("{before}{words}{path}"), href, excerpt: text::line(excerpt, 240) }
}

fn plain(words: String) -> Place {
    Place { words, ..Place::default() }
}

fn operation(run: RunId, step: u64, id: impl std::fmt::Display) -> String {
    format!("/runs/{run}/steps/{step}#op-{}", text::short(id))
}

fn named(run: RunId, source: &Source) -> (String, Option<String>) {
    let begun = Some(format!("/runs/{run}"));
    match source {
        Source::User => ("what the user wrote".to_owned(), begun),
        Source::Input => ("the input of the run".to_owned(), begun),
        Source::Caller => ("what the caller says of the user".to_owned(), begun),
        Source::Parent { agent, run: parent, .. } => {
            (format!("the request of agent {agent}"), parent.map(|parent| format!("/runs/{parent}")))
        }
        Source::Handoff { agent } => (format!("the message of agent {agent}, which handed over"), None),
        Source::Tenant => ("the settings of the tenant".to_owned(), None),
        Source::Instructions => ("the instructions of the agent".to_owned(), None),
        Source::Earlier { of } => (format!("what was said before this run, by {}", text::line(of, 80)), None),
        Source::Call { operation } => (format!("the arguments of the call {}", text::short(operation)), None),
        Source::Outcome { operation: id, step, label } => (
            format!("the result of {} in step {step}", text::line(&label.replace('`', ""), 120)),
            Some(operation(run, *step, id)),
        ),
        Source::Reply { operation: id, step } => {
            (format!("an earlier reply of the model alone, in step {step}"), Some(operation(run, *step, id)))
        }
    }
}
