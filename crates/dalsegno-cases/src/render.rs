//! A trajectory as text: what a snapshot holds and a reader compares.

use std::fmt::{self, Write as _};

use dalsegno_core::{
    AgentResponse, Answer, Attachment, Entry, Failure, ModelCompletion, Outcome, Purpose, Reading, ReplyPart,
    ToolChoice, ToolReturn, Validation,
};
use serde_json::{Value, json};

use crate::asked::{Kind, Question};
use crate::trajectory::{Done, End, StepTaken, Trajectory};

/// The longest line of JSON; what is longer has a line for each of its parts.
const WIDTH: usize = 100;

impl fmt::Display for Trajectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&trajectory(self))
    }
}

/// A trajectory as text. It has no ids and no times: two runs that do the same have the same text.
pub(crate) fn trajectory(trajectory: &Trajectory) -> String {
    let mut text = String::new();
    if !trajectory.talk.spoken.is_empty() {
        let _ = write!(text, "call\n{}", trajectory.talk);
    }
    for one in &trajectory.steps {
        step(one, &mut text);
    }
    match &trajectory.end {
        Some(end) => render_end(end, trajectory, &mut text),
        None => text.push_str("\nit could not continue\n"),
    }
    text
}

fn step(step: &StepTaken, text: &mut String) {
    if !step.operations.is_empty() {
        let _ = writeln!(text, "step {}", step.number);
    }
    for why in &step.why {
        entry("why", why, text);
    }
    for done in &step.operations {
        operation(done, text);
    }
}

fn operation(done: &Done, text: &mut String) {
    let word = if done.is_part { "part" } else { "ask" };
    entry(word, &asked(&done.question), text);
    for said in &done.people {
        entry("then", said, text);
    }
    if let Some(run) = &done.run {
        entry("run", &trajectory(run), text);
    }
    match &done.outcome {
        Some(outcome) => entry("got", &outcome_text(outcome), text),
        None => entry("got", "nothing yet", text),
    }
}

/// A request with its arguments, that to a model with what is new to it.
fn asked(question: &Question) -> String {
    let arguments = &question.arguments;
    if question.kind == Kind::Model {
        let tools = if arguments["tools"] == "off" { ", with tools off" } else { "" };
        let reads = arguments["reads"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // The further lines of a message are moved in, so that each message can be seen.
        let reads = reads.map(|read| format!("\n{}", read.trim_end().replace('\n', "\n  ")));
        let model = arguments["model"].as_str().unwrap_or_default();
        return format!("the model `{model}`{tools}{}", reads.collect::<String>());
    }
    match arguments.as_object() {
        Some(fields) if fields.is_empty() => label(question),
        _ => format!("{} {}", label(question), pretty(arguments)),
    }
}

fn label(question: &Question) -> String {
    match question.kind {
        Kind::Person | Kind::Timer | Kind::Model => question.to_string(),
        Kind::Tool | Kind::Memory | Kind::Http | Kind::Mail | Kind::Transfer | Kind::Agent => {
            question.called()
        }
    }
}

/// A word, and a text whose further lines stand below it.
fn entry(word: &str, said: &str, text: &mut String) {
    for (number, line) in said.lines().enumerate() {
        let word = if number == 0 { word } else { "" };
        let line = format!("  {word:<4} {line}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if said.is_empty() {
        let _ = writeln!(text, "  {word}");
    }
}

/// JSON in a line where it fits, else in several. Keys are sorted.
pub(crate) fn pretty(value: &Value) -> String {
    let value = sorted(value);
    let line = value.to_string();
    if line.chars().count() <= WIDTH { line } else { serde_json::to_string_pretty(&value).unwrap_or(line) }
}

/// The same value with sorted keys, in each order that its map may keep.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, field)| (name.clone(), sorted(field))).collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::ModelReplied(reply) => {
            let parts: Vec<String> = reply.parts.iter().map(part).collect();
            let tokens = match reply.input_tokens + reply.output_tokens {
                0 => String::new(),
                _ => format!("\n({} + {} tokens)", reply.input_tokens, reply.output_tokens),
            };
            let output = match &reply.output {
                None | Some(Validation::Valid { .. }) => String::new(),
                Some(validation) => format!("\nthe answer {}", misfit(validation)),
            };
            format!("{}{output}{tokens}", parts.join("\n"))
        }
        Outcome::MemoryFound(hits) => {
            let hits = hits.iter().map(|hit| format!("\n{:.2} {}: {}", hit.score, hit.entity, hit.text));
            let found: String = hits.collect();
            if found.is_empty() { "nothing".to_owned() } else { format!("these{found}") }
        }
        Outcome::MemoryCreated(_) => "remembered".to_owned(),
        Outcome::MemoryTraversed(walked) => pretty(&json!(walked)),
        Outcome::ToolReturned(returned) => tool(returned),
        Outcome::ApiAnswered(response) => format!("status {} {}", response.status, pretty(&response.body)),
        Outcome::EmailSent(_) => "sent".to_owned(),
        Outcome::TransferRequested => "asked for".to_owned(),
        Outcome::AgentReturned(returned) => match (&returned.error, &returned.output, &returned.answer) {
            (Some(error), _, _) => format!("error {}: {}", error.code.as_str(), error.message),
            (None, Some(output), _) => pretty(output),
            (None, None, answer) => answer.clone().unwrap_or_default(),
        },
        Outcome::InputGiven(value) => pretty(value),
        Outcome::TimerFired => "the time has come".to_owned(),
        Outcome::Failed(failure) => failed(failure),
    }
}

fn tool(returned: &ToolReturn) -> String {
    let word = if returned.is_error { "error " } else { "" };
    let files = with_files(&returned.files);
    match &returned.structured {
        Some(structured) => format!("{word}{}{files}", pretty(structured)),
        None => format!("{word}{}{files}", returned.text),
    }
}

/// The files of a result, one line each.
fn with_files(files: &[Attachment]) -> String {
    let lines = files.iter().map(|file| format!("\nfile: {} ({})", file.name, file.media_type));
    lines.collect()
}

fn failed(failure: &Failure) -> String {
    let violations = failure.violations.iter().map(|one| format!("\n`{}` {}", one.path, one.message));
    let violations: String = violations.collect();
    format!("failed {}: {}{violations}", failure.code.as_str(), failure.message)
}

/// A part of a reply.
fn part(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text(text) => text.clone(),
        ReplyPart::Opaque { provider, .. } => format!("(content that only {provider} reads)"),
        ReplyPart::Call(call) => {
            let arguments = match serde_json::from_str::<Value>(&call.arguments) {
                Ok(value) => pretty(&value),
                Err(_) => call.arguments.clone(),
            };
            let misfit = match &call.validation {
                None | Some(Validation::Valid { .. }) => String::new(),
                Some(validation) => format!("\n  which {}", misfit(validation)),
            };
            format!("calls {} {arguments}{misfit}", call.name)
        }
    }
}

fn misfit(validation: &Validation) -> String {
    match validation {
        Validation::Valid { .. } => "fits".to_owned(),
        Validation::Invalid { violations } => {
            let places = violations.iter().map(|one| format!("`{}` {}", one.path, one.message));
            format!("does not fit: {}", places.collect::<Vec<_>>().join("; "))
        }
        Validation::Malformed { message } => format!("is no JSON: {message}"),
        Validation::Truncated => "is cut off".to_owned(),
    }
}

/// What a person answered.
pub(crate) fn answer(answer: &Answer) -> String {
    let because =
        |reason: &Option<String>| reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match answer {
        Answer::Approved { edited: Some(Validation::Valid { arguments }), reason, .. } => {
            format!("yes, with {}{}", pretty(arguments), because(reason))
        }
        Answer::Approved { reason, .. } => format!("yes{}", because(reason)),
        Answer::Denied { reason, .. } => format!("no{}", because(reason)),
        Answer::Done { error: Some(error), .. } => format!("it was refused: {error}"),
        Answer::Done { result, .. } => {
            format!("it took place: {}", pretty(result.as_ref().unwrap_or(&Value::Null)))
        }
        Answer::NotDone { .. } => "it did not take place".to_owned(),
        Answer::Given { value, .. } | Answer::Supplied { value, .. } => pretty(value),
    }
}

/// What is new to a model, in words.
pub(crate) fn read(reading: &Reading, completion: &ModelCompletion) -> Value {
    let entries: Vec<&Entry> = reading.transcript.iter().collect();
    // Of a prompt of its own, or of a shortened transcript, all is new.
    let is_whole = !matches!(completion.purpose, Purpose::Reply);
    let new = completion.entries.saturating_sub(completion.new_from);
    let count = if is_whole { entries.len() } else { usize::try_from(new).unwrap_or(usize::MAX) };
    let reads: Vec<Value> =
        entries[entries.len().saturating_sub(count)..].iter().map(|one| said(one).into()).collect();
    let mut asked = json!({ "model": reading.settings.name, "reads": reads });
    if let ToolChoice::None = completion.tool_choice {
        asked["tools"] = "off".into();
    }
    asked
}

/// A message as a model reads it.
fn said(entry: &Entry) -> String {
    match entry {
        Entry::Instructions(text) => format!("system: {text}"),
        Entry::User(text) => format!("user: {text}"),
        Entry::Assistant(reply) => {
            format!("assistant: {}", reply.parts.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
        Entry::Attachment(attachment) => format!("file: {} ({})", attachment.name, attachment.media_type),
        Entry::Compaction(compaction) => {
            format!("what came before: {}", compaction.summary.as_deref().unwrap_or("left out"))
        }
        Entry::ToolResult { name, content, is_error, files, call_id: _ } => {
            let word = if *is_error { "error" } else { "result" };
            format!("{word} of {name}: {content}{}", with_files(files))
        }
    }
}

fn render_end(end: &End, trajectory: &Trajectory, text: &mut String) {
    let _ = writeln!(text, "\n{}", end.kind());
    match end {
        End::Ended(response) => response_text(response, text),
        End::HandedOff(handoff) => {
            entry("to", handoff.target.as_str(), text);
            if let Some(message) = &handoff.message {
                entry("says", message, text);
            }
        }
        End::Suspended(questions) => questions.iter().for_each(|question| entry("asks", question, text)),
    }
    let usage = &trajectory.usage;
    let mut used = format!("{} model calls, {} tool calls", usage.model_calls, usage.tool_calls);
    if usage.tokens() > 0 {
        let _ = write!(used, ", {} + {} tokens", usage.input_tokens, usage.output_tokens);
    }
    if usage.cost_nano_usd > 0 {
        let _ = write!(used, ", {} nano USD", usage.cost_nano_usd);
    }
    entry("used", &used, text);
}

fn response_text(response: &AgentResponse, text: &mut String) {
    if let Some(answer) = &response.answer {
        entry("says", answer, text);
    }
    if let Some(output) = &response.output {
        entry("data", &pretty(output), text);
    }
    if let Some(error) = &response.error {
        entry("error", &format!("{}: {}", error.code.as_str(), error.message), text);
    }
}
