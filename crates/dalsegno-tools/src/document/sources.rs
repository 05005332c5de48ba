//! Templates and expressions of a document, with what they may read.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use dalsegno_expr::{Expression, ParseError, Reference, Template, TemplatePart, ValueTemplate};
use serde_json::Value;

use super::reader::Reader;
use crate::action::WritePath;
use crate::json;
use crate::name;
use crate::path::{Path, ROOTS, Segment};
use crate::problem::{Problem, item, member};
use crate::source::{ContextReads, Expr, JsonSource, Parts, Piece, ValueSource, Words};

/// What a source may read besides the context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// `item`, `index` and, for `reduce`, `acc`.
    pub(super) item: bool,
    pub(super) acc: bool,
}

/// The paths that a source reads outside secrets.
const PLAIN: Allowed = Allowed { item: false, acc: false };

impl Reader<'_> {
    pub(super) fn parse_error(&mut self, pointer: &str, error: &ParseError, what: &str) {
        let place = if error.line > 1 {
            format!("line {}, column {}", error.line, error.column)
        } else {
            format!("column {}", error.column)
        };
        self.report.add(Problem {
            pointer: pointer.to_owned(),
            message: format!("this {what} does not parse: {} at {place}", error.message),
            help: error.help.clone(),
            suggestion: None,
        });
    }

    /// Reads an expression.
    pub(super) fn expr(&mut self, pointer: &str, source: &str, allowed: Allowed) -> Option<Expr> {
        let expression = match Expression::parse(source) {
            Ok(expression) => expression,
            Err(error) => {
                self.parse_error(pointer, &error, "expression");
                return None;
            }
        };
        let references = expression.paths();
        self.check(pointer, &references, allowed);
        Some(Expr { context: ContextReads::of(&references), expression })
    }

    /// Reads a template that may hold no secrets.
    pub(super) fn words(&mut self, pointer: &str, source: &str) -> Option<Words> {
        let template = self.template(pointer, source)?;
        let references = template.paths();
        self.check(pointer, &references, PLAIN);
        let bare = template.parts().filter_map(bare_path).collect();
        Some(Words { context: ContextReads::of(&references), bare, template })
    }

    fn template(&mut self, pointer: &str, source: &str) -> Option<Template> {
        match Template::parse(source) {
            Ok(template) => Some(template),
            Err(error) => {
                self.parse_error(pointer, &error, "template");
                None
            }
        }
    }

    /// Reads a template that may hold secrets.
    pub(super) fn parts(&mut self, pointer: &str, source: &str) -> Option<Parts> {
        let template = self.template(pointer, source)?;
        let mut parts = Vec::new();
        for part in template.parts() {
            let expression = match part {
                TemplatePart::Text(text) => {
                    parts.push(Piece::Text(text.to_owned()));
                    continue;
                }
                TemplatePart::Expression(expression) => expression,
            };
            let references = expression.paths();
            let secret = references.iter().find_map(|reference| self.secret_path(reference));
            if let Some(secret) = secret {
                let is_whole = bare_path(part).is_some_and(|bare| bare == secret);
                if !is_whole {
                    self.problem(
                        pointer,
                        format!("the secret `{secret}` is computed with"),
                        format!(
                            "expected `{{{{{secret}}}}}` alone: secrets are put in when the request is sent"
                        ),
                    );
                    continue;
                }
                self.check_secret(pointer, &secret);
                parts.push(Piece::Secret(secret));
                continue;
            }
            self.check(pointer, &references, PLAIN);
            let trusted = !references.is_empty()
                && references.iter().all(|reference| matches!(reference.root.as_str(), "tenant" | "config"));
            let template = self.template(pointer, &format!("{{{{{}}}}}", expression.source()))?;
            let bare = bare_path(part).into_iter().collect();
            parts.push(Piece::Words {
                words: Words { template, context: ContextReads::of(&references), bare },
                trusted,
            });
        }
        Some(Parts(parts))
    }

    /// Reads a JSON value with templates. With `legacy`, a string that is exactly `params` or `params.<path>` is taken as
    /// that value.
    pub(super) fn json(
        &mut self,
        pointer: &str,
        value: &Value,
        secrets: bool,
        legacy: bool,
    ) -> Option<JsonSource> {
        let before = self.report.problems.len();
        let mut found = JsonParts { secrets_allowed: secrets, legacy, ..JsonParts::default() };
        let source = self.json_part(pointer, "", value, &mut found);
        if self.report.problems.len() > before {
            return None;
        }
        let template = match ValueTemplate::parse(&source) {
            Ok(template) => template,
            Err(error) => {
                self.parse_error(&format!("{pointer}{}", error.pointer), &error.error, "template");
                return None;
            }
        };
        let references = template.paths();
        Some(JsonSource {
            template,
            context: ContextReads::of(&references),
            bare: found.bare,
            secrets: found.secrets,
        })
    }

    fn json_part(&mut self, base: &str, inner: &str, value: &Value, found: &mut JsonParts) -> Value {
        match value {
            Value::String(text) => self.json_text(base, inner, text, found),
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| self.json_part(base, &item(inner, index), value, found))
                    .collect(),
            ),
            Value::Object(fields) => Value::Object(
                json::sorted(fields)
                    .into_iter()
                    .map(|(name, field)| {
                        (name.clone(), self.json_part(base, &member(inner, name), field, found))
                    })
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn json_text(&mut self, base: &str, inner: &str, text: &str, found: &mut JsonParts) -> Value {
        let pointer = format!("{base}{inner}");
        let is_params = found.legacy
            && (text == "params" || text.starts_with("params.") || text.starts_with("params["))
            && text.parse::<Path>().is_ok();
        let source = if is_params {
            self.warning(
                pointer.as_str(),
                format!("`{text}` is taken as the value of that path"),
                format!("write `{{{{{text}}}}}`"),
            );
            format!("{{{{{text}}}}}")
        } else {
            text.to_owned()
        };
        if !source.contains("{{") {
            return Value::String(source);
        }
        let Some(template) = self.template(&pointer, &source) else { return Value::Null };
        let holds_secret = template.paths().iter().any(|reference| self.secret_path(reference).is_some());
        if holds_secret && found.secrets_allowed {
            if let Some(parts) = self.parts(&pointer, &source) {
                found.secrets.push((inner.to_owned(), parts));
            }
            return Value::Null;
        }
        self.check(&pointer, &template.paths(), PLAIN);
        found.bare.extend(template.parts().filter_map(bare_path));
        Value::String(source)
    }

    /// Reads a value by the rule of `context.set`: a string with `{{` is a template, any other an expression.
    pub(super) fn value(&mut self, pointer: &str, value: &Value) -> Option<ValueSource> {
        Some(match value {
            Value::String(text) if text.contains("{{") => ValueSource::Words(self.words(pointer, text)?),
            Value::String(text) => self.value_text(pointer, text)?,
            Value::Array(items) => {
                let items: Vec<_> = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| self.value(&item(pointer, index), value))
                    .collect();
                ValueSource::Array(items.into_iter().collect::<Option<_>>()?)
            }
            Value::Object(fields) => {
                let fields: Vec<_> = json::sorted(fields)
                    .into_iter()
                    .map(|(name, field)| Some((name.clone(), self.value(&member(pointer, name), field)?)))
                    .collect();
                ValueSource::Object(fields.into_iter().collect::<Option<_>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => ValueSource::Literal(value.clone()),
        })
    }

    fn value_text(&mut self, pointer: &str, text: &str) -> Option<ValueSource> {
        if is_bare_word(text) {
            self.warning(
                pointer,
                format!("`{text}` is taken as the text itself, since it begins with no known name"),
                format!("write `'{text}'` for the text, or `workflow.{text}` for what the session holds"),
            );
            return Some(ValueSource::Literal(Value::String(text.to_owned())));
        }
        match Expression::parse(text) {
            Ok(_) => Some(ValueSource::Expr(self.expr(pointer, text, PLAIN)?)),
            Err(error) => {
                let quoted =
                    format!("text is written in quotes: `'{}'`", json::excerpt(&text.replace('\'', "\\'")));
                let help = match &error.help {
                    Some(help) => format!("{help}; {quoted}"),
                    None => quoted,
                };
                let mut error = error;
                error.help = Some(help);
                self.parse_error(pointer, &error, "expression");
                None
            }
        }
    }

    /// Reads a path that is written, such as `logged_meals[+]`.
    pub(super) fn write_path(&mut self, pointer: &str, text: &str) -> Option<WritePath> {
        let (path, append) = match Path::parse_write(text) {
            Ok(read) => read,
            Err(error) => {
                self.path_error(pointer, &error);
                return None;
            }
        };
        if let Some(reason) = self.not_writable(&path) {
            self.problem(pointer, format!("`{path}` cannot be written"), reason);
            return None;
        }
        Some(WritePath { path, append })
    }

    fn not_writable(&self, path: &Path) -> Option<String> {
        let root = path.root();
        let least = match root {
            "workflow" | "temp" | "user" => 1,
            "agents" => 2,
            "flags" => return Some("use `flag.set` or `flag.clear`".into()),
            "context" => {
                return Some("`context` only reads: write `workflow.…`, `user.…` or `agents.…`".into());
            }
            _ => {
                return Some(format!(
                    "`{root}` is read only; `workflow`, `agents`, `user` and `temp` can be written"
                ));
            }
        };
        if path.segments().len() < least {
            return Some("expected a name below it".into());
        }
        if root == "user" && matches!(path.segments().first(), Some(Segment::Name(name)) if name == "id") {
            return Some("`user.id` says who the caller is, and never changes".into());
        }
        let secret =
            self.settings.secret_paths.iter().find(|secret| secret.covers(path) || path.covers(secret));
        secret.map(|secret| format!("`{secret}` is a secret"))
    }

    /// Returns the secret that a reference leads to.
    fn secret_path(&self, reference: &Reference) -> Option<Path> {
        let path = Path::of_names(&reference.root, reference.segments.iter().map(String::as_str));
        if reference.root == "secrets" {
            return Some(path);
        }
        self.settings.secret_paths.iter().find(|secret| secret.covers(&path)).map(|_| path)
    }

    fn check_secret(&mut self, pointer: &str, secret: &Path) {
        if secret.root() != "secrets" {
            return;
        }
        let known = &self.known.secrets;
        let found = match secret.segments() {
            [Segment::Name(name)] => known.contains(name).then_some(()),
            _ => None,
        };
        if found.is_some() {
            return;
        }
        let name = match secret.segments().first() {
            Some(Segment::Name(name)) => name.as_str(),
            _ => "",
        };
        let suggestion =
            name::nearest(name, known.iter().map(String::as_str)).map(|name| format!("secrets.{name}"));
        self.report.add(Problem {
            pointer: pointer.to_owned(),
            message: format!("there is no secret `{secret}`"),
            help: Some("name it in `secrets` of the document".into()),
            suggestion,
        });
    }

    pub(super) fn check_read(&mut self, pointer: &str, path: &Path) {
        let segments = path
            .segments()
            .iter()
            .map(|segment| match segment {
                Segment::Name(name) => name.clone(),
                Segment::Index(index) => format!("{index}"),
            })
            .collect();
        let reference = Reference { root: path.root().to_owned(), segments, span: 0..0 };
        self.check(pointer, &[reference], PLAIN);
    }

    /// Checks what a source reads where secrets are not allowed.
    pub(super) fn check(&mut self, pointer: &str, references: &[Reference], allowed: Allowed) {
        for reference in references {
            if let Some(secret) = self.secret_path(reference) {
                self.problem(
                    pointer,
                    format!("the secret `{secret}` is used where it could be seen"),
                    "secrets may stand only in the url, headers, query and body of an `api_call`, and in the login of `email.send`",
                );
                continue;
            }
            self.lint(pointer, reference, allowed);
        }
    }

    /// Warns of names that are probably slips.
    fn lint(&mut self, pointer: &str, reference: &Reference, allowed: Allowed) {
        let root = reference.root.as_str();
        let first = reference.segments.first().map(String::as_str);
        let (known, first): (Vec<&str>, &str) = match (root, first) {
            ("params", Some(first)) => (self.known.params.iter().map(String::as_str).collect(), first),
            ("config", Some(first)) => match &self.known.config {
                Some(config) => (config.iter().map(String::as_str).collect(), first),
                None => return,
            },
            ("result", Some(first)) => {
                let ids = self.known.ids.iter().map(String::as_str);
                (core::iter::once("last").chain(ids).collect(), first)
            }
            ("item" | "index", _) if allowed.item => return,
            ("acc", _) if allowed.acc => return,
            ("error", _) if !self.known.in_failure => {
                self.warning(pointer, "`error` has a value only in `on_failure`", "it is missing here");
                return;
            }
            (root, _) if ROOTS.contains(&root) => return,
            (root, _) => {
                if let Some(suggestion) = name::nearest(root, ROOTS) {
                    self.report.warn(Problem {
                        pointer: pointer.to_owned(),
                        message: format!("`{root}` is read as `workflow.{root}`"),
                        help: Some("write `workflow.…` if it is meant".into()),
                        suggestion: Some(suggestion),
                    });
                }
                return;
            }
        };
        if known.contains(&first) {
            return;
        }
        let suggestion = name::nearest(first, known.iter().copied()).map(|name| format!("{root}.{name}"));
        let help = match known.is_empty() {
            true => format!("the tool has no {root}"),
            false => format!("known: {}", known.join(", ")),
        };
        self.report.warn(Problem {
            pointer: pointer.to_owned(),
            message: format!("there is no `{root}.{first}`"),
            help: Some(help),
            suggestion,
        });
    }
}

/// What was found in the strings of a JSON value.
#[derive(Default)]
struct JsonParts {
    secrets_allowed: bool,
    legacy: bool,
    bare: Vec<Path>,
    secrets: Vec<(String, Parts)>,
}

/// Returns the path that a part is, where it is nothing else.
fn bare_path(part: TemplatePart<'_>) -> Option<Path> {
    let TemplatePart::Expression(expression) = part else { return None };
    let source = expression.source();
    let references = expression.paths();
    let [reference] = references.as_slice() else { return None };
    let text = source.get(reference.span.clone())?;
    if text != source.trim() {
        return None;
    }
    let names = reference.segments.iter().map(String::as_str);
    Some(match ROOTS.contains(&reference.root.as_str()) {
        true => Path::of_names(&reference.root, names),
        false => Path::of_names("workflow", core::iter::once(reference.root.as_str()).chain(names)),
    })
}

/// Says whether a text is a word or a dotted path that begins with no known name.
fn is_bare_word(text: &str) -> bool {
    const LITERALS: [&str; 6] = ["true", "false", "null", "undefined", "NaN", "Infinity"];
    let is_word = |part: &str| {
        part.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && part.chars().all(|char| char.is_alphanumeric() || char == '_')
    };
    let first = text.split('.').next().unwrap_or_default();
    text.split('.').all(is_word) && !ROOTS.contains(&first) && !LITERALS.contains(&text)
}
