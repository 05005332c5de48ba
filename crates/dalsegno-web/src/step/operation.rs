//! One operation of a step.

use dalsegno_core::{EffectClass, Outcome, Request};
use dalsegno_history::{OperationView, Scene, Standing};
use dalsegno_store::{Body, Record};
use serde_json::Value;

use super::Around;
use super::happened::Happening;
use super::prompt::{PromptCard, part};
use crate::markup::Markup;
use crate::run::{label, standing};
use crate::runs::Mark;
use crate::text;
use crate::why::Why;

/// Most characters of one text.
const TEXT: usize = 20_000;
/// Most bytes of a text that is read as JSON.
const JSON: usize = 256 * 1024;

/// One operation of a step.
#[derive(Debug, Clone)]
pub struct OperationCard {
    /// The operation.
    pub id: String,
    /// The beginning of its id.
    pub short: String,
    /// What kind it is.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub mark: Mark,
    /// Its class, time, attempts and tokens.
    pub facts: Vec<String>,
    /// The child run that performs it.
    pub child: Option<(String, String)>,
    /// Whether it is a part of the call of a declarative tool.
    pub is_part: bool,
    /// What it was asked with.
    pub asked: Vec<Block>,
    /// Where its values came from, where that was computed.
    pub why: Option<Why>,
    /// The address of that, where it was not.
    pub why_at: Option<String>,
    /// What a model was sent.
    pub prompt: Option<PromptCard>,
    /// Attempts, questions and answers.
    pub happened: Vec<Happening>,
    /// What came of it, in a word.
    pub result: Option<String>,
    /// What came of it.
    pub blocks: Vec<Block>,
    /// What was found in the memory.
    pub hits: Vec<Hit>,
    /// The address of a fork with another outcome.
    pub fork: Option<String>,
}

/// A piece of content.
#[derive(Debug, Clone)]
pub enum Block {
    /// Text.
    Text(String),
    /// A name and its value.
    Named(&'static str, String),
    /// JSON.
    Json(Markup),
    /// A call that a model wants: the tool and its arguments.
    Call(String, Markup),
    /// JSON that is shown when a person asks for it.
    Folded(&'static str, Markup),
    /// A remark of the debugger.
    Note(String),
    /// An error.
    Bad(String),
}

/// What was found in the memory.
#[derive(Debug, Clone)]
pub struct Hit {
    /// How well it fits, from 0 to 1.
    pub score: String,
    /// The same of a thousand, for a bar.
    pub width: u32,
    /// The entity and its type.
    pub entity: String,
    /// What was observed.
    pub text: String,
}

impl OperationCard {
    pub(super) fn of(view: &OperationView, scene: &Scene, around: &Around<'_>) -> Self {
        let own: Vec<&Record> =
            scene.records.iter().filter(|record| record.operation == Some(view.operation)).collect();
        let attempts = dalsegno_wire::attempts(own.iter().copied());
        let elapsed = dalsegno_wire::elapsed(own.iter().copied());
        let (kind, name) = label(&view.label);
        let mut facts = Vec::new();
        facts.extend(own.iter().find_map(|record| match &record.body {
            Body::Requested { class, .. } => Some(format!("class {}", class_of(*class))),
            _ => None,
        }));
        facts.extend(
            elapsed.map(|elapsed| text::duration(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))),
        );
        facts.extend(
            Some(attempts)
                .filter(|attempts| *attempts > 1)
                .map(|attempts| text::count(attempts.into(), "attempt")),
        );
        if let Some(Outcome::ModelReplied(reply)) = &view.outcome
            && reply.input_tokens + reply.output_tokens > 0
        {
            let about = if reply.estimated { "about " } else { "" };
            let (sent, got) = (text::grouped(reply.input_tokens), text::grouped(reply.output_tokens));
            facts.push(format!("{about}{sent} tokens in, {got} out"));
        }
        let run = around.run;
        let why = around.why(view.operation);
        let has_arguments =
            !matches!(view.request, Request::ModelCompletion(_) | Request::Timer(_) | Request::Input(_));
        let (mut blocks, mut hits) = (Vec::new(), Vec::new());
        if let Some(outcome) = &view.outcome {
            content(outcome, &mut blocks, &mut hits);
        }
        Self {
            id: view.operation.to_string(),
            short: text::short(view.operation),
            kind,
            name,
            mark: mark(view, &own, around),
            facts,
            child: view.child().filter(|_| attempts > 0).map(|child| (child.to_string(), text::short(child))),
            is_part: view.parent.is_some(),
            asked: asked(&view.request),
            why_at: (why.is_none() && has_arguments).then(|| {
                format!(
                    "/runs/{run}/steps/{}?why={}#op-{}",
                    scene.view.step,
                    view.operation,
                    text::short(view.operation)
                )
            }),
            why,
            prompt: PromptCard::of(scene, view.operation),
            happened: own.iter().filter_map(|record| Happening::of(record, around)).collect(),
            result: view.outcome.as_ref().map(outcome_word),
            blocks,
            hits,
            fork: (around.may_edit && around.may_fork && view.parent.is_none() && view.outcome.is_some())
                .then(|| format!("/runs/{run}/fork?op={}", view.operation)),
        }
    }
}

fn mark(view: &OperationView, own: &[&Record], around: &Around<'_>) -> Mark {
    let is_wrong = |outcome: &Outcome| match outcome {
        Outcome::Failed(_) => true,
        Outcome::ToolReturned(returned) => returned.is_error,
        Outcome::AgentReturned(returned) => returned.error.is_some(),
        Outcome::ApiAnswered(response) => response.status >= 400,
        _ => false,
    };
    standing(match (&view.outcome, own.last().map(|record| &record.body)) {
        (Some(outcome), _) if is_wrong(outcome) => Standing::Failed,
        (Some(_), _) => Standing::Done,
        (None, Some(Body::Waiting { .. })) if !around.is_over => Standing::Waiting,
        (None, Some(Body::Late { .. })) => Standing::Late,
        (None, _) if around.is_over => Standing::Late,
        (None, _) => Standing::Open,
    })
}

fn class_of(class: EffectClass) -> String {
    serde_json::to_value(class).ok().and_then(|class| class.as_str().map(str::to_owned)).unwrap_or_default()
}

fn value(value: &Value) -> Block {
    match value {
        Value::String(words) => Block::Text(text::shown(words, TEXT)),
        other => Block::Json(Markup::json(other)),
    }
}

/// A text of a tool: often it is JSON, which is easier to read in lines.
pub(super) fn words(text: &str) -> Block {
    let is_json = text.starts_with(['{', '[']) && text.len() <= JSON;
    match is_json.then(|| serde_json::from_str(text).ok()).flatten() {
        Some(value) => Block::Json(Markup::json(&value)),
        None => Block::Text(text::shown(text, TEXT)),
    }
}

fn named(name: &'static str, value: impl std::fmt::Display) -> Block {
    Block::Named(name, text::shown(&value.to_string(), TEXT))
}

/// What a request asks for.
fn asked(request: &Request) -> Vec<Block> {
    match request {
        Request::ModelCompletion(_) => Vec::new(),
        Request::MemorySearch(search) => {
            vec![
                named("query", &search.query),
                named("limit", search.limit),
                named("least score", search.min_score),
            ]
        }
        Request::MemoryCreate(create) => {
            let entity = named("entity", format_args!("{} ({})", create.entity, create.entity_type));
            let mut blocks = vec![entity, named("content", &create.content)];
            let relations = create.relations.iter();
            blocks
                .extend(relations.map(|one| named("relation", format_args!("{} {}", one.relation, one.to))));
            blocks
        }
        Request::MemoryTraverse(walk) => {
            let mut blocks = vec![named("from", &walk.from)];
            blocks.extend(walk.relation.iter().map(|relation| named("relation", relation)));
            blocks.push(named("depth", walk.depth));
            blocks
        }
        Request::ToolCall(call) => vec![value(&call.parameters)],
        Request::ApiCall(call) => {
            let mut blocks = vec![named("request", format_args!("{} {}", call.method.as_str(), call.url))];
            blocks.extend(
                call.query.iter().map(|(name, value)| named("query", format_args!("{name}={value}"))),
            );
            blocks.extend(
                call.headers.iter().map(|(name, value)| named("header", format_args!("{name}: {value}"))),
            );
            blocks.extend(call.body.as_ref().map(|body| value(&body.value)));
            blocks
        }
        Request::Email(mail) => {
            let mut blocks = vec![named("from", &mail.from)];
            for (name, addresses) in [("to", &mail.to), ("cc", &mail.cc), ("bcc", &mail.bcc)] {
                if !addresses.is_empty() {
                    blocks.push(named(name, addresses.join(", ")));
                }
            }
            blocks.extend([named("subject", &mail.subject), named("text", &mail.body)]);
            blocks.extend(mail.html.as_ref().map(|html| named("html", html)));
            blocks
        }
        Request::Transfer(transfer) => vec![named("to", &transfer.target)],
        Request::AgentCall(call) => {
            let mut blocks = vec![Block::Text(text::shown(&call.text, TEXT))];
            blocks.extend(Some(&call.data).filter(|data| !data.is_null()).map(value));
            blocks
        }
        Request::Input(input) => {
            let mut blocks = vec![Block::Text(text::shown(&input.question, TEXT))];
            blocks.extend(input.schema.as_ref().map(value));
            blocks
        }
        Request::Timer(timer) => vec![named("until", text::clock(timer.until))],
    }
}

/// The kind of an outcome.
pub(super) fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::ModelReplied(_) => "Reply".to_owned(),
        Outcome::ToolReturned(returned) if returned.is_error => "Error of the tool".to_owned(),
        Outcome::ToolReturned(_) => "Result".to_owned(),
        Outcome::ApiAnswered(response) => format!("Status {}", response.status),
        Outcome::AgentReturned(returned) => format!("Answer of run {}", text::short(returned.run)),
        Outcome::InputGiven(_) => "Answer".to_owned(),
        Outcome::Failed(failure) => format!("Failed: {}", failure.code.as_str()),
        Outcome::MemoryFound(hits) => match hits.len() {
            0 => "Nothing found".to_owned(),
            number => text::count(number as u64, "memory hit"),
        },
        Outcome::MemoryCreated(created) if created.duplicate => "Known already".to_owned(),
        Outcome::MemoryCreated(_) => "Remembered".to_owned(),
        Outcome::MemoryTraversed(_) => "Found".to_owned(),
        Outcome::EmailSent(_) => "Taken by the mail server".to_owned(),
        Outcome::TransferRequested => "Asked for".to_owned(),
        Outcome::TimerFired => "The time was reached".to_owned(),
    }
}

fn content(outcome: &Outcome, blocks: &mut Vec<Block>, hits: &mut Vec<Hit>) {
    let shown = |words: &str| text::shown(words, TEXT);
    match outcome {
        Outcome::ModelReplied(reply) => blocks.extend(reply.parts.iter().map(part)),
        Outcome::ToolReturned(returned) => {
            let structured = returned.structured.as_ref().filter(|structured| !structured.is_null());
            blocks.extend(structured.map(value));
            let is_new = structured.is_none_or(|structured| structured.as_str() != Some(&returned.text));
            if is_new && !returned.text.is_empty() {
                blocks.push(match returned.is_error {
                    true => Block::Bad(shown(&returned.text)),
                    false => words(&returned.text),
                });
            }
            if blocks.is_empty() {
                blocks.push(Block::Note("It returned no value.".to_owned()));
            }
            if !returned.actions.is_empty() {
                let actions = serde_json::to_value(&returned.actions).unwrap_or_default();
                blocks.push(Block::Folded("What the tool did", Markup::json(&actions)));
            }
            blocks.extend(returned.files.iter().map(|file| {
                named(
                    "file",
                    format_args!("{} ({}, {})", file.name, file.media_type, text::count(file.bytes, "byte")),
                )
            }));
            let violations = returned.violations.iter();
            blocks.extend(violations.map(|one| Block::Bad(shown(&format!("{} {}", one.path, one.message)))));
            blocks.extend(returned.notes().map(|note| {
                Block::Note(text::line(&format!("log {} {}: {}", note.level, note.action, note.text), 2_000))
            }));
        }
        Outcome::ApiAnswered(response) => blocks.push(value(&response.body)),
        Outcome::AgentReturned(returned) => {
            if let Some(error) = &returned.error {
                blocks.push(Block::Bad(shown(&format!("{}: {}", error.code.as_str(), error.message))));
            }
            match (&returned.output, &returned.answer) {
                (Some(output), _) => blocks.push(value(output)),
                (None, Some(answer)) => blocks.push(Block::Text(shown(answer))),
                (None, None) => {}
            }
        }
        Outcome::InputGiven(given) => blocks.push(value(given)),
        Outcome::Failed(failure) => {
            blocks.push(Block::Bad(shown(&failure.message)));
            blocks.extend(failure.detail.as_ref().map(|detail| Block::Note(shown(detail))));
            let violations = failure.violations.iter();
            blocks.extend(violations.map(|one| Block::Bad(shown(&format!("{} {}", one.path, one.message)))));
        }
        Outcome::MemoryFound(found) => hits.extend(found.iter().map(|hit| Hit {
            score: format!("{:.2}", hit.score),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a score is from 0 to 1, and clamped to it"
            )]
            width: (hit.score.clamp(0.0, 1.0) * 1_000.0) as u32,
            entity: text::line(&format!("{} ({})", hit.entity, hit.entity_type), 200),
            text: shown(&hit.text),
        })),
        Outcome::MemoryTraversed(walked) => {
            blocks.push(Block::Json(Markup::json(&serde_json::to_value(walked).unwrap_or_default())));
        }
        Outcome::MemoryCreated(created) => blocks.push(named("entity", &created.entity)),
        Outcome::EmailSent(_) | Outcome::TransferRequested | Outcome::TimerFired => {}
    }
}
