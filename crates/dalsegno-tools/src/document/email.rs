//! The `email.send` action.

use alloc::boxed::Box;

use serde_json::{Value, json};

use super::actions::transpose;
use super::reader::{Fields, Reader};
use crate::action::{ActionKind, EmailSource};
use crate::effect::Security;
use crate::limits::MAX_TIMEOUT_MS;
use crate::source::{Parts, Piece, ValueSource, Words};

const FIELDS: [&str; 16] = [
    "type", "id", "host", "port", "security", "username", "password", "from", "to", "cc", "bcc", "reply_to",
    "subject", "body", "html", "timeout",
];
const TIMEOUT_MS: u64 = 30_000;
/// The port for submission.
const PORT: u16 = 587;

impl Reader<'_> {
    pub(super) fn email(&mut self, value: &Value, pointer: &str) -> Option<ActionKind> {
        let known = [FIELDS.as_slice(), &["on_error"]].concat();
        let fields = self.object(value, pointer, "`email.send`", &known)?;
        let host = self.required_text(&fields, "host", "a mail server such as `{{config.smtp_server}}`");
        let host = host.and_then(|text| self.host(&fields, text));
        let port = match fields.get("port") {
            Some(port) => self.templated(&fields, "port", port),
            None => Some(ValueSource::Literal(json!(PORT))),
        };
        let security = match fields.get("security") {
            Some(_) => self.choice(&fields, "security", &Security::ALL),
            None => Some(Security::default()),
        };
        let username = self.text(&fields, "username").map(|text| self.parts(&fields.at("username"), text));
        let password = self.text(&fields, "password").map(|text| self.parts(&fields.at("password"), text));
        for (given, missing) in [("username", "password"), ("password", "username")] {
            if fields.get(given).is_some() && fields.get(missing).is_none() {
                self.missing(&fields, missing, "both or neither: a login needs a name and a password");
            }
        }
        let from = self.required_words(&fields, "from", "the sender's address");
        let to = match fields.get("to") {
            Some(to) => self.templated(&fields, "to", to),
            None => {
                self.missing(&fields, "to", "an address, or an array of them");
                None
            }
        };
        let cc = fields.get("cc").map(|value| self.templated(&fields, "cc", value));
        let bcc = fields.get("bcc").map(|value| self.templated(&fields, "bcc", value));
        let reply_to = self.optional_words(&fields, "reply_to");
        let subject = self.required_words(&fields, "subject", "the subject");
        let body = self.required_words(&fields, "body", "the text");
        let html = self.optional_words(&fields, "html");
        let timeout_ms = self.seconds(&fields, "timeout", 1, MAX_TIMEOUT_MS).unwrap_or(TIMEOUT_MS);
        let on_error = self.on_error(&fields);
        Some(ActionKind::Email(Box::new(EmailSource {
            host: host?,
            port: port?,
            security: security?,
            username: transpose(username)?,
            password: transpose(password)?,
            from: from?,
            to: to?,
            cc: transpose(cc)?,
            bcc: transpose(bcc)?,
            reply_to: reply_to?,
            subject: subject?,
            body: body?,
            html: html?,
            timeout_ms,
            on_error,
        })))
    }

    /// Reads a host: only literals, tenant settings and config may choose it.
    fn host(&mut self, fields: &Fields<'_>, text: &str) -> Option<Parts> {
        let parts = self.parts(&fields.at("host"), text)?;
        let is_trusted = parts.0.iter().all(|part| match part {
            Piece::Text(_) => true,
            Piece::Words { trusted, .. } => *trusted,
            Piece::Secret(_) => false,
        });
        if is_trusted {
            return Some(parts);
        }
        self.problem(
            fields.at("host"),
            "a value could choose the mail server",
            "only literals, `tenant` and `config` may supply it",
        );
        None
    }

    fn required_words(&mut self, fields: &Fields<'_>, name: &str, what: &str) -> Option<Words> {
        let text = self.required_text(fields, name, what)?;
        self.words(&fields.at(name), text)
    }

    fn optional_words(&mut self, fields: &Fields<'_>, name: &str) -> Option<Option<Words>> {
        if fields.get(name).is_none() {
            return Some(None);
        }
        let text = self.text(fields, name)?;
        Some(Some(self.words(&fields.at(name), text)?))
    }

    /// Reads a template, a number, or an array of templates.
    fn templated(&mut self, fields: &Fields<'_>, name: &str, value: &Value) -> Option<ValueSource> {
        let pointer = fields.at(name);
        Some(match value {
            Value::String(text) => ValueSource::Words(self.words(&pointer, text)?),
            Value::Array(items) if name != "port" => {
                let mut sources = alloc::vec::Vec::new();
                for (index, value) in items.iter().enumerate() {
                    let at = crate::problem::item(&pointer, index);
                    let Value::String(text) = value else {
                        self.problem(at, "this is not a string", "expected an address");
                        return None;
                    };
                    sources.push(ValueSource::Words(self.words(&at, text)?));
                }
                ValueSource::Array(sources)
            }
            Value::Number(_) if name == "port" => ValueSource::Literal(value.clone()),
            other => {
                self.problem(
                    pointer,
                    alloc::format!("this is {}", crate::json::kind(other)),
                    if name == "port" {
                        "expected a number, or a template of one"
                    } else {
                        "expected a string"
                    },
                );
                return None;
            }
        })
    }
}
