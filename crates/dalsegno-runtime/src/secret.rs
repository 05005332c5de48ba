//! Known secrets are scrubbed from whatever is recorded.
//!
//! Scrubbing compares spellings rather than strings: each character of a secret may stand as itself, percent-encoded,
//! or escaped as in JSON, in any mixture, because every library leaves other characters alone. The same holds for the
//! secret in base64 and in hexadecimal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

use dalsegno_secrets::Secret;
use dalsegno_tools::{ActionTrace, ApiResponse, ToolError};

use dalsegno_core::{
    AgentRequest, AgentReturn, Answer, EmailReceipt, Failure, Gate, MemoryTraversal, ModelReply, Outcome,
    ReplyPart, RunError, ToolReturn, TraversedEntity, TraversedRelation, Verdict, Violation, Write,
};

/// What stands in a record where a secret stood.
const SCRUBBED: &str = "[secret]";

/// A secret that is too short to be told from innocent text, and so could not be kept out of the records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its value is shorter than {} bytes and could not be scrubbed from the records; use a longer one",
    Secrets::SHORTEST
)]
pub struct ShortSecret {
    /// The secret's name.
    pub name: String,
}

/// The secrets of a workspace, by name.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Arc<BTreeMap<String, Secret>>,
    forms: Arc<Vec<Form>>,
    /// The secrets that are numbers, as the bits of their values: `0123456` may come back as `123456`.
    numbers: Arc<BTreeSet<u64>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.values.iter()).finish()
    }
}

impl Secrets {
    /// The bytes that a secret needs: a shorter one would be found in the middle of innocent words.
    pub const SHORTEST: usize = 6;

    /// Gathers secrets.
    ///
    /// # Errors
    ///
    /// When a value is shorter than six bytes, for such a value cannot be scrubbed.
    pub fn new(values: BTreeMap<String, Secret>) -> Result<Self, ShortSecret> {
        if let Some((name, _)) = values.iter().find(|(_, secret)| secret.expose().len() < Self::SHORTEST) {
            return Err(ShortSecret { name: name.clone() });
        }
        let forms = values.values().flat_map(|secret| forms(secret.expose())).collect();
        let numbers = values.values().filter_map(|secret| number(secret.expose())).collect();
        Ok(Self { values: Arc::new(values), forms: Arc::new(forms), numbers: Arc::new(numbers) })
    }

    /// The same with other secrets scrubbed as well, which nobody can ask for by a name. A short one is left out: a local
    /// endpoint is given a word as its key, which is no secret and may stand anywhere.
    pub(crate) fn hiding<'s>(mut self, others: impl Iterator<Item = &'s Secret>) -> Self {
        for secret in others.map(Secret::expose).filter(|secret| secret.len() >= Self::SHORTEST) {
            Arc::make_mut(&mut self.forms).extend(forms(secret));
            Arc::make_mut(&mut self.numbers).extend(number(secret));
        }
        self
    }

    /// The secret of this name.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.values.get(name)
    }

    /// Takes every known secret out of an outcome, raw and in its usual encodings.
    pub(crate) fn scrub(&self, outcome: &mut Outcome) {
        if self.forms.is_empty() {
            return;
        }
        match outcome {
            Outcome::ModelReplied(reply) => self.scrub_reply(reply),
            Outcome::MemoryFound(hits) => {
                for hit in hits {
                    self.text(&mut hit.entity);
                    self.text(&mut hit.entity_type);
                    self.text(&mut hit.text);
                    self.value(&mut hit.metadata);
                }
            }
            Outcome::MemoryCreated(created) => {
                self.text(&mut created.entity);
                self.text(&mut created.observation);
            }
            Outcome::MemoryTraversed(MemoryTraversal { entities, relations, truncated: _ }) => {
                for TraversedEntity { entity, entity_type, depth: _, observations } in entities {
                    self.text(entity);
                    self.text(entity_type);
                    observations.iter_mut().for_each(|text| self.text(text));
                }
                for TraversedRelation { from, relation, to, strength: _ } in relations {
                    [from, relation, to].into_iter().for_each(|text| self.text(text));
                }
            }
            Outcome::AgentReturned(AgentReturn {
                run: _,
                status: _,
                answer,
                output,
                error,
                usage: _,
                writes,
            }) => {
                writes.iter_mut().filter_map(Write::value_mut).for_each(|value| self.value(value));
                answer.iter_mut().for_each(|text| self.text(text));
                output.iter_mut().for_each(|value| self.value(value));
                if let Some(RunError { code: _, message, help }) = error {
                    self.text(message);
                    self.text(help);
                }
            }
            Outcome::InputGiven(value) => self.value(value),
            Outcome::TimerFired => {}
            Outcome::ApiAnswered(ApiResponse { status: _, headers, body, attempts: _, violations }) => {
                headers.values_mut().for_each(|text| self.text(text));
                self.value(body);
                violations.iter_mut().for_each(|violation| self.text(&mut violation.message));
            }
            Outcome::EmailSent(EmailReceipt { message_id }) => {
                message_id.iter_mut().for_each(|text| self.text(text));
            }
            Outcome::ToolReturned(ToolReturn { structured, text, is_error: _, actions, violations }) => {
                self.scrub_violations(violations);
                actions.iter_mut().for_each(|trace| self.trace(trace));
                self.text(text);
                if let Some(value) = structured {
                    self.value(value);
                }
            }
            Outcome::Failed(Failure { code: _, message, violations, lost_attempts: _ }) => {
                self.text(message);
                self.scrub_violations(violations);
            }
        }
    }

    /// Takes every known secret out of what an action of a declarative tool did.
    fn trace(&self, trace: &mut ActionTrace) {
        let ActionTrace { place: _, status: _, error, warnings, details } = trace;
        if let Some(ToolError { code: _, message, details, action: _ }) = error {
            self.text(message);
            details.values_mut().for_each(|value| self.value(value));
        }
        warnings.iter_mut().for_each(|text| self.text(text));
        details.values_mut().for_each(|value| self.value(value));
    }

    /// Takes every known secret out of a model's reply.
    pub(crate) fn reply(&self, reply: &mut ModelReply) {
        if !self.forms.is_empty() {
            self.scrub_reply(reply);
        }
    }

    /// Takes every known secret out of what a run is asked.
    pub(crate) fn request(&self, request: &mut AgentRequest) {
        self.text(&mut request.text);
        self.value(&mut request.data);
        self.value(&mut request.user);
    }

    /// Takes every known secret out of an answer at a gate.
    pub(crate) fn scrub_answer(&self, answer: &mut Answer) {
        let (reason, by) = match answer {
            Answer::Approved { edited, reason, by } => {
                if let Some(verdict) = edited {
                    self.scrub_verdict(verdict);
                }
                (reason.as_mut(), by)
            }
            Answer::Denied { reason, by } => (reason.as_mut(), by),
            Answer::Given { value, by } | Answer::Supplied { value, by } => {
                self.value(value);
                (None, by)
            }
            Answer::Done { result, by } => {
                if let Some(value) = result {
                    self.value(value);
                }
                (None, by)
            }
            Answer::NotDone { by } => (None, by),
        };
        reason.into_iter().chain(by).for_each(|text| self.text(text));
    }

    /// Takes every known secret out of a question: a server may repeat what it was sent.
    pub(crate) fn scrub_gate(&self, gate: &mut Gate) {
        match gate {
            Gate::Approval | Gate::Input | Gate::Secret { .. } => {}
            Gate::InDoubt { reason } => self.text(reason),
            Gate::Elicitation { requests, request_state } => {
                requests.values_mut().for_each(|request| self.value(request));
                if let Some(state) = request_state {
                    self.text(state);
                }
            }
        }
    }

    /// Takes every known secret out of a whole text. Parts of a text go through [`Secrets::stream`].
    pub(crate) fn text(&self, text: &mut String) {
        let scan = self.scan(text, 0);
        if !scan.found.is_empty() {
            *text = replace(text, &scan.found, 0);
        }
    }

    /// A scrubber of one text that arrives in parts, such as a model's deltas.
    pub(crate) fn stream(&self) -> StreamScrubber {
        StreamScrubber { secrets: self.clone(), held: String::new(), covered: 0 }
    }

    fn scrub_reply(&self, reply: &mut ModelReply) {
        for part in &mut reply.parts {
            match part {
                ReplyPart::Text(text) => self.text(text),
                ReplyPart::Call(call) => {
                    self.text(&mut call.call_id);
                    self.text(&mut call.name);
                    self.text(&mut call.arguments);
                    if let Some(verdict) = &mut call.verdict {
                        self.scrub_verdict(verdict);
                    }
                }
                // Plain thoughts are text; whatever else is opaque goes back to its provider untouched, or is refused.
                ReplyPart::Opaque { provider: _, data } => {
                    if let Some(Value::String(text)) = data.get_mut("reasoning_content") {
                        self.text(text);
                    }
                }
            }
        }
        if let Some(verdict) = &mut reply.output {
            self.scrub_verdict(verdict);
        }
    }

    fn scrub_verdict(&self, verdict: &mut Verdict) {
        match verdict {
            Verdict::Valid { arguments } => self.value(arguments),
            Verdict::Invalid { violations } => self.scrub_violations(violations),
            Verdict::Malformed { message } => self.text(message),
            Verdict::Truncated => {}
        }
    }

    fn scrub_violations(&self, violations: &mut [Violation]) {
        for violation in violations {
            self.text(&mut violation.path);
            self.text(&mut violation.message);
        }
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                if map.keys().any(|key| self.is_in(key)) {
                    for (mut key, value) in std::mem::take(map) {
                        self.text(&mut key);
                        // Two keys may have become the same one; neither value is lost.
                        while map.contains_key(&key) {
                            key.push('_');
                        }
                        map.insert(key, value);
                    }
                }
                map.values_mut().for_each(|value| self.value(value));
            }
            Value::Number(number) if self.is_number(number) => *value = Value::from(SCRUBBED),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_number(&self, number: &Number) -> bool {
        let same = number.as_f64().is_some_and(|value| self.numbers.contains(&value.to_bits()));
        same || self.is_in(&number.to_string())
    }

    fn is_in(&self, text: &str) -> bool {
        !self.scan(text, 0).found.is_empty()
    }

    /// Finds all spellings of secrets. The first `covered` bytes are known to belong to one.
    fn scan(&self, text: &str, covered: usize) -> Scan {
        let bytes = text.as_bytes();
        let mut scan = Scan { found: Vec::new(), open: bytes.len() };
        if covered > 0 {
            scan.found.push((0, covered));
        }
        for start in 0..bytes.len() {
            for form in self.forms.iter() {
                let (end, open) = form.find(bytes, start);
                if open {
                    scan.open = scan.open.min(start);
                }
                let Some(end) = end else { continue };
                // Secrets that overlap are taken out together, or a part of one would survive the other.
                match scan.found.last_mut() {
                    Some(last) if start < last.1 => last.1 = last.1.max(end),
                    Some(_) | None => scan.found.push((start, end)),
                }
            }
        }
        scan
    }
}

/// What a text holds.
struct Scan {
    /// Where secrets stand: from and to, in bytes, in order and apart.
    found: Vec<(usize, usize)>,
    /// From where on the text may be the beginning of a secret whose end is still to come; its length if from nowhere.
    open: usize,
}

/// The text with a mark for each place that was found, except for one that began before the text did.
fn replace(text: &str, found: &[(usize, usize)], covered: usize) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for &(start, end) in found {
        clean.push_str(&text[from..start]);
        if start > 0 || covered == 0 {
            clean.push_str(SCRUBBED);
        }
        from = end;
    }
    clean.push_str(&text[from..]);
    clean
}

/// Scrubs a text that arrives in parts: what may be the beginning of a secret is held back until more is known.
pub(crate) struct StreamScrubber {
    secrets: Secrets,
    held: String,
    /// How many bytes of what is held belong to a secret whose mark was given out already.
    covered: usize,
}

impl StreamScrubber {
    /// Takes the next part, and gives what can be shown of the text so far; possibly nothing.
    pub(crate) fn push(&mut self, part: &str) -> String {
        self.held.push_str(part);
        let mut scan = self.secrets.scan(&self.held, self.covered);
        let cut = scan.open;
        scan.found.retain(|&(start, _)| start < cut);
        let mut covered = 0;
        if let Some(last) = scan.found.last_mut() {
            covered = last.1.saturating_sub(cut);
            last.1 = last.1.min(cut);
        }
        let shown =
            if cut == 0 { String::new() } else { replace(&self.held[..cut], &scan.found, self.covered) };
        if cut > 0 {
            self.held.drain(..cut);
            self.covered = covered;
        }
        shown
    }

    /// The rest of the text, when no more parts will come.
    pub(crate) fn finish(self) -> String {
        let scan = self.secrets.scan(&self.held, self.covered);
        replace(&self.held, &scan.found, self.covered)
    }
}

/// A secret, or an encoding of it, as a sequence of characters that have several spellings each.
#[derive(Clone)]
struct Form(Vec<Letter>);

/// One character of a form.
#[derive(Clone)]
struct Letter {
    plain: String,
    /// Other spellings, in which the case of letters says nothing.
    escapes: Vec<String>,
}

impl Form {
    /// The form of a text that may be escaped for a URL or for JSON.
    fn of(text: &str) -> Self {
        Self(text.chars().map(Letter::new).collect())
    }

    /// The form of bytes in hexadecimal digits.
    fn hexadecimal(bytes: &[u8]) -> Self {
        let digits = data_encoding::HEXLOWER.encode(bytes);
        let letters =
            digits.chars().map(|digit| Letter { plain: String::new(), escapes: vec![digit.into()] });
        Self(letters.collect())
    }

    /// Where the longest spelling that begins at `start` ends, and whether the text ends in the middle of one.
    fn find(&self, text: &[u8], start: usize) -> (Option<usize>, bool) {
        if !self.0.first().is_some_and(|letter| letter.may_start(text[start])) {
            return (None, false);
        }
        let mut open = false;
        let mut next = Vec::new();
        // All places that some spelling of the characters so far leads to.
        let mut places = vec![start];
        for letter in &self.0 {
            for &place in &places {
                letter.read(&text[place..], &mut open, |length| next.push(place + length));
            }
            if next.is_empty() {
                return (None, open);
            }
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut places, &mut next);
            next.clear();
        }
        (places.last().copied(), open)
    }
}

impl Letter {
    fn new(letter: char) -> Self {
        let plain = letter.to_string();
        let mut percent = String::new();
        for byte in plain.bytes() {
            percent.push_str(&format!("%{byte:02x}"));
        }
        let mut json = String::new();
        for unit in letter.encode_utf16(&mut [0; 2]) {
            json.push_str(&format!("\\u{unit:04x}"));
        }
        let mut escapes = vec![percent, json];
        let short = match letter {
            // As forms are encoded.
            ' ' => Some("+"),
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        escapes.extend(short.map(str::to_owned));
        Self { plain, escapes }
    }

    fn may_start(&self, byte: u8) -> bool {
        let plain = self.plain.as_bytes().first() == Some(&byte);
        plain || self.escapes.iter().any(|escape| escape.as_bytes()[0].eq_ignore_ascii_case(&byte))
    }

    /// Reads this character at the start of a text: the length of each spelling that is there, and whether the text
    /// ends before it could be known.
    fn read(&self, text: &[u8], open: &mut bool, mut found: impl FnMut(usize)) {
        let mut read = |spelling: &[u8], same: fn(&[u8], &[u8]) -> bool| {
            let shared = spelling.len().min(text.len());
            if !spelling.is_empty() && same(&spelling[..shared], &text[..shared]) {
                if shared == spelling.len() { found(shared) } else { *open = true }
            }
        };
        read(self.plain.as_bytes(), |left, right| left == right);
        for escape in &self.escapes {
            read(escape.as_bytes(), <[u8]>::eq_ignore_ascii_case);
        }
    }
}

/// A secret as it is, and as servers commonly echo it.
fn forms(secret: &str) -> Vec<Form> {
    let mut encoded = BTreeSet::new();
    for engine in [&data_encoding::BASE64_NOPAD, &data_encoding::BASE64URL_NOPAD] {
        // A secret inside a longer encoded text, such as `Basic` credentials, may begin at any of three offsets; of
        // each only the characters that depend on the secret alone are compared.
        for offset in 0..3 {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let first = [0, 2, 3][offset];
            let last = bytes.len() * 8 / 6;
            encoded.insert(engine.encode(&bytes)[first..last].to_owned());
        }
    }
    let mut forms: Vec<Form> = encoded.iter().map(|text| Form::of(text)).collect();
    forms.push(Form::of(secret));
    forms.push(Form::hexadecimal(secret.as_bytes()));
    forms
}

/// The bits of the number that a secret is, unless it is as small as the numbers that stand everywhere.
fn number(secret: &str) -> Option<u64> {
    let number: f64 = secret.trim().parse().ok()?;
    (number.is_finite() && number.to_string().len() >= Secrets::SHORTEST).then(|| number.to_bits())
}

#[cfg(test)]
mod tests;
