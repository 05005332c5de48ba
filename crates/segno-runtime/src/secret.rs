//! Secrets: held in a type that cannot be printed, and scrubbed from whatever is recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use segno_core::{Failure, ModelReply, Outcome, ReplyPart, ToolReturn, Verdict};

/// What stands in a record where a secret stood.
const SCRUBBED: &str = "[secret]";

/// Secrets shorter than this are not scrubbed: they would be found in the middle of innocent words.
const SHORTEST: usize = 6;

/// A secret value. It has no `Display`, and its `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: &str) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secrets of a workspace, by name.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    values: Arc<BTreeMap<String, Secret>>,
    forms: Arc<Vec<String>>,
}

impl Secrets {
    /// Gathers secrets; values shorter than six bytes are kept but not scrubbed.
    pub fn new(values: BTreeMap<String, Secret>) -> Self {
        let mut forms: Vec<String> = values.values().flat_map(|secret| forms(secret.expose())).collect();
        // The longest first, so that no part of a longer form survives the replacement of a shorter one.
        forms.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        forms.dedup();
        Self { values: Arc::new(values), forms: Arc::new(forms) }
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
                    self.text(&mut hit.text);
                    self.text(&mut hit.entity);
                    self.value(&mut hit.metadata);
                }
            }
            Outcome::MemoryCreated(created) => self.text(&mut created.entity),
            Outcome::ToolReturned(ToolReturn { structured, text, is_error: _ }) => {
                self.text(text);
                if let Some(value) = structured {
                    self.value(value);
                }
            }
            Outcome::Failed(failure) => self.scrub_failure(failure),
        }
    }

    fn scrub_failure(&self, failure: &mut Failure) {
        self.text(&mut failure.message);
        for violation in &mut failure.violations {
            self.text(&mut violation.message);
        }
    }

    fn scrub_reply(&self, reply: &mut ModelReply) {
        for part in &mut reply.parts {
            match part {
                ReplyPart::Text(text) => self.text(text),
                ReplyPart::Call(call) => {
                    self.text(&mut call.arguments);
                    match &mut call.verdict {
                        Verdict::Valid { arguments } => self.value(arguments),
                        Verdict::Invalid { violations } => {
                            for violation in violations {
                                self.text(&mut violation.message);
                            }
                        }
                        Verdict::Malformed { message } => self.text(message),
                        Verdict::Truncated => {}
                    }
                }
                // Opaque parts go back to their provider untouched, or the provider refuses them.
                ReplyPart::Opaque { .. } => {}
            }
        }
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                let tainted = map.keys().any(|key| self.is_in(key));
                if tainted {
                    let entries = std::mem::take(map);
                    for (mut key, value) in entries {
                        self.text(&mut key);
                        map.insert(key, value);
                    }
                }
                map.values_mut().for_each(|value| self.value(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form.as_str()))
    }

    pub(crate) fn text(&self, text: &mut String) {
        for form in self.forms.iter() {
            if text.contains(form.as_str()) {
                *text = text.replace(form.as_str(), SCRUBBED);
            }
        }
    }
}

/// A secret as it is, and as servers commonly echo it.
fn forms(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![secret.to_owned()];
    let json = Value::from(secret).to_string();
    forms.push(json[1..json.len() - 1].to_owned());
    forms.push(percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string());
    for engine in [&data_encoding::BASE64, &data_encoding::BASE64URL_NOPAD] {
        // A secret inside a longer encoded text, such as `Basic` credentials, may begin at any of three offsets; of
        // each only the characters that depend on the secret alone are compared.
        for offset in 0..3 {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let encoded = engine.encode(&bytes);
            let first = [0, 2, 3][offset];
            let last = bytes.len() * 8 / 6;
            if last > first + SHORTEST {
                forms.push(encoded[first..last].to_owned());
            }
        }
    }
    forms.push(data_encoding::HEXLOWER.encode(secret.as_bytes()));
    forms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets() -> Secrets {
        Secrets::new(BTreeMap::from([("token".to_owned(), Secret::new("hunter2/äö\"x"))]))
    }

    fn scrubbed(text: &str) -> String {
        let mut outcome = Outcome::ToolReturned(ToolReturn {
            structured: Some(json!({ "deep": [text], text: 1 })),
            text: text.to_owned(),
            is_error: false,
        });
        secrets().scrub(&mut outcome);
        serde_json::to_string(&outcome).unwrap()
    }

    #[test]
    fn a_secret_is_scrubbed_raw_and_in_its_usual_encodings() {
        let secret = "hunter2/äö\"x";
        let basic = data_encoding::BASE64.encode(format!("user:{secret}").as_bytes());
        let percent =
            percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string();
        for text in
            [format!("a {secret} b"), basic, percent, data_encoding::HEXLOWER.encode(secret.as_bytes())]
        {
            let result = scrubbed(&text);
            assert!(result.contains(SCRUBBED), "{text} left as {result}");
            assert!(!result.contains("hunter2"), "{result}");
        }
        assert!(!scrubbed("nothing to see").contains(SCRUBBED));
    }

    #[test]
    fn a_secret_cannot_be_printed() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
        assert!(!format!("{:?}", secrets().values).contains("hunter2"));
    }
}
