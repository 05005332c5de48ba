//! Documents of runs, as text and as what they mean.
//!
//! A document has a title, the agent and the run. The block of the agent is marked `json,model` or `json,plan`: it is the
//! agent of [`crate::agent`] of that kind, and the block holds what differs, by JSON Pointers. A block that is marked
//! `json,tool` is a declarative tool of the agent. The block of the run is marked `text,run`: its first line is the request,
//! lines that begin with `>` are what happens to the run, and all others are what the run does.

use std::ops::Range;

use dalsegno_core::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::{model, plan, with_tools};

/// What happens to one operation of a join, or to the run.
#[derive(Debug, Clone)]
pub(crate) enum Give {
    Outcome(usize, Outcome),
    Gate(usize, Gate),
    Answer(usize, Answer),
    Signal(Signal),
}

/// A document that was read.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) config: AgentConfig,
    pub(crate) request: String,
    /// What happens to the run, join by join.
    pub(crate) joins: Vec<Vec<Give>>,
    /// The run as the document has it.
    pub(crate) run: String,
    /// The place of `run` in the document, in bytes.
    pub(crate) place: Range<usize>,
}

impl Document {
    /// Reads a document. The error says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let is_titled = text.strip_prefix("# ").is_some_and(|title| title.starts_with(char::is_uppercase));
        if !is_titled {
            return Err("a document begins with a title".into());
        }
        let (mut config, mut tools, mut run) = (None, Vec::new(), None);
        for (marks, place) in blocks(text) {
            let body = &text[place.clone()];
            match marks {
                "json,model" => config = Some((model(), body)),
                "json,plan" => config = Some((plan(), body)),
                "json,tool" => tools.push(json(body)?),
                "text,run" => run = Some(place),
                marks => return Err(format!("a block is marked `{marks}`")),
            }
        }
        let (config, differences) = config.ok_or("there is no block `json,model` or `json,plan`")?;
        let config = changed(&with_tools(config, &tools)?, &json(differences)?)?;
        let place = run.ok_or("there is no block `text,run`")?;
        let run = text[place.clone()].to_owned();
        let request = run.lines().next().and_then(|line| line.strip_prefix("request: "));
        let request = request.ok_or("a run begins with `request: `")?.to_owned();
        Ok(Self { config, request, joins: joins(&run)?, run, place })
    }
}

/// The blocks of a document: what they are marked with, and the places of their texts.
fn blocks(text: &str) -> Vec<(&str, Range<usize>)> {
    let mut blocks = Vec::new();
    let mut open = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match (open.take(), line.trim_end().strip_prefix("```")) {
            (None, Some(marks)) => open = Some((marks, end)),
            (Some((marks, begin)), Some(_)) => blocks.push((marks, begin..at)),
            (still, None) => open = still,
        }
        at = end;
    }
    blocks
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// The configuration with other values at these JSON Pointers.
fn changed(config: &AgentConfig, differences: &Map<String, Value>) -> Result<AgentConfig, String> {
    let mut config = serde_json::to_value(config).map_err(|error| error.to_string())?;
    for (pointer, value) in differences {
        let (parent, key) = pointer.rsplit_once('/').ok_or("a pointer begins with `/`")?;
        let parent = config.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.ok_or_else(|| format!("`{pointer}` is below nothing"))?;
        parent.insert(key.to_owned(), value.clone());
    }
    serde_json::from_value(config).map_err(|error| error.to_string())
}

/// What happens to a run, join by join: lines that follow each other belong to one.
fn joins(run: &str) -> Result<Vec<Vec<Give>>, String> {
    let mut joins: Vec<Vec<Give>> = Vec::new();
    let mut is_new = true;
    for line in run.lines() {
        let Some(given) = line.trim_start().strip_prefix("> ") else {
            is_new = true;
            continue;
        };
        let given = give(given).map_err(|error| format!("{error}: `{given}`"))?;
        match joins.last_mut().filter(|_| !is_new) {
            Some(join) => join.push(given),
            None => joins.push(vec![given]),
        }
        is_new = false;
    }
    Ok(joins)
}

/// Reads what [`crate::door`] writes.
pub(crate) fn give(text: &str) -> Result<Give, String> {
    if let Some(signal) = text.strip_prefix("signal ") {
        return Ok(Give::Signal(json(signal)?));
    }
    let mut rest = Rest(text);
    rest.expect("[")?;
    let place = rest.until("] ")?.parse().map_err(|error| format!("{error}"))?;
    if rest.skip("gate ") {
        return Ok(Give::Gate(place, json(rest.0)?));
    }
    if rest.skip("answer ") {
        return Ok(Give::Answer(place, json(rest.0)?));
    }
    let outcome = json(rest.0).or_else(|_| rest.reply().map(Outcome::ModelReplied))?;
    Ok(Give::Outcome(place, outcome))
}

/// The text that is not read yet.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.skip(text) { Ok(()) } else { Err(format!("expected `{text}` before `{}`", self.0)) }
    }

    fn until(&mut self, end: &str) -> Result<&'t str, String> {
        let (before, after) =
            self.0.split_once(end).ok_or_else(|| format!("expected `{end}` in `{}`", self.0))?;
        self.0 = after;
        Ok(before)
    }

    /// Reads a value as JSON; the text of it is the second part.
    fn value<T: DeserializeOwned>(&mut self) -> Result<(T, &'t str), String> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter();
        let value = values.next().ok_or("expected JSON")?.map_err(|error| error.to_string())?;
        let (text, rest) = self.0.split_at(values.byte_offset());
        self.0 = rest;
        Ok((value, text))
    }

    fn number<T: std::str::FromStr>(&mut self, end: &str) -> Result<T, String> {
        let text = self.until(end)?;
        text.parse().map_err(|_| format!("`{text}` is not a number"))
    }

    /// Reads a model's reply: its parts, why it stopped, its tokens, and what is unusual about it.
    fn reply(&mut self) -> Result<ModelReply, String> {
        let mut parts = Vec::new();
        if !self.skip("nothing") {
            parts.push(self.part()?);
            while self.skip(", ") {
                parts.push(self.part()?);
            }
        }
        self.expect(" (")?;
        let mut reply = ModelReply::new(parts, self.value()?.0);
        self.expect(", ")?;
        reply.input_tokens = self.number(" + ")?;
        reply.output_tokens = self.number(" tokens")?;
        if self.skip(", output ") {
            reply.output = Some(self.value()?.0);
        }
        if self.skip(", ") {
            reply.lost_attempts = self.number(" lost")?;
        }
        self.expect(")")?;
        if self.0.is_empty() { Ok(reply) } else { Err(format!("expected nothing before `{}`", self.0)) }
    }

    fn part(&mut self) -> Result<ReplyPart, String> {
        if self.0.starts_with('"') {
            return Ok(ReplyPart::Text(self.value()?.0));
        }
        if self.skip("opaque ") {
            let provider = self.until(" ")?.to_owned();
            return Ok(ReplyPart::Opaque { provider, data: self.value()?.0 });
        }
        let call_id = self.until(" ")?.to_owned();
        let name = self.until("(")?.to_owned();
        let (value, written) = self.value::<Value>()?;
        self.expect(")")?;
        // A call that does not fit says why, and its arguments, which may not be JSON, are a text.
        let is_judged = self.0.starts_with(" {") || self.0.starts_with(" \"");
        let (arguments, validation) = if is_judged {
            self.expect(" ")?;
            let written = value.as_str().ok_or("expected the arguments as a text")?;
            (written.to_owned(), self.value()?.0)
        } else {
            (written.to_owned(), Validation::Valid { arguments: value })
        };
        Ok(ReplyPart::Call(CallRequest { call_id, name, arguments, validation: Some(validation) }))
    }
}
