//! Reading objects field by field, with every unknown field and wrong type reported.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::Settings;
use crate::json;
use crate::limits::{MAX_ENTRIES, MAX_NAME};
use crate::name;
use crate::path::Path;
use crate::path_error::PathError;
use crate::problem::{Problem, Report, member};

/// Reads one document.
pub(super) struct Reader<'s> {
    pub(super) report: Report,
    pub(super) settings: &'s Settings,
    /// How many actions were read so far, in all tools.
    pub(super) actions: usize,
    pub(super) known: Known,
}

/// The names that sources of the tool at hand may refer to.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) params: Vec<String>,
    /// The properties of the configuration; `None` where any is allowed.
    pub(super) config: Option<Vec<String>>,
    pub(super) secrets: Vec<String>,
    /// The ids of the actions before this one.
    pub(super) ids: Vec<String>,
    pub(super) in_failure: bool,
}

/// An object with its place.
pub(super) struct Fields<'d> {
    pub(super) map: &'d Map<String, Value>,
    pub(super) pointer: String,
}

impl<'d> Fields<'d> {
    pub(super) fn get(&self, name: &str) -> Option<&'d Value> {
        self.map.get(name)
    }

    pub(super) fn at(&self, name: &str) -> String {
        member(&self.pointer, name)
    }
}

impl<'s> Reader<'s> {
    pub(super) fn new(settings: &'s Settings, report: Report) -> Self {
        Self { report, settings, actions: 0, known: Known::default() }
    }

    pub(super) fn problem(
        &mut self,
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.report.problem(pointer, message, help);
    }

    pub(super) fn warning(
        &mut self,
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.report.warning(pointer, message, help);
    }

    fn wrong_type(&mut self, pointer: &str, value: &Value, expected: &str) {
        self.problem(pointer, format!("this is {}", json::kind(value)), format!("expected {expected}"));
    }

    /// Reads an object, and reports the fields that are not known.
    pub(super) fn object<'d>(
        &mut self,
        value: &'d Value,
        pointer: &str,
        what: &str,
        known: &[&str],
    ) -> Option<Fields<'d>> {
        let Value::Object(map) = value else {
            self.wrong_type(pointer, value, &format!("an object for {what}"));
            return None;
        };
        for (name, _) in json::sorted(map) {
            if !known.contains(&name.as_str()) {
                self.report.add(Problem {
                    pointer: member(pointer, name),
                    message: format!("{what} has no field `{}`", json::excerpt(name)),
                    help: Some(format!("known fields: {}", known.join(", "))),
                    suggestion: name::nearest(name, known.iter().copied()),
                });
            }
        }
        Some(Fields { map, pointer: pointer.to_string() })
    }

    pub(super) fn missing(&mut self, fields: &Fields<'_>, name: &str, what: &str) {
        self.problem(&fields.pointer, format!("`{name}` is missing"), format!("expected {what}"));
    }

    pub(super) fn text<'d>(&mut self, fields: &Fields<'d>, name: &str) -> Option<&'d str> {
        match fields.get(name)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong_type(&fields.at(name), other, "a string");
                None
            }
        }
    }

    /// Reads a string that must be there and not be empty.
    pub(super) fn required_text<'d>(
        &mut self,
        fields: &Fields<'d>,
        name: &str,
        what: &str,
    ) -> Option<&'d str> {
        if fields.get(name).is_none() {
            self.missing(fields, name, what);
            return None;
        }
        let text = self.text(fields, name)?;
        if text.trim().is_empty() {
            self.problem(fields.at(name), format!("`{name}` is empty"), format!("expected {what}"));
            return None;
        }
        Some(text)
    }

    pub(super) fn flag(&mut self, fields: &Fields<'_>, name: &str, default: bool) -> bool {
        match fields.get(name) {
            None => default,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                self.wrong_type(&fields.at(name), other, "`true` or `false`");
                default
            }
        }
    }

    pub(super) fn list<'d>(&mut self, fields: &Fields<'d>, name: &str) -> Option<&'d [Value]> {
        match fields.get(name)? {
            Value::Array(items) => Some(items),
            other => {
                self.wrong_type(&fields.at(name), other, "an array");
                None
            }
        }
    }

    pub(super) fn whole(&mut self, fields: &Fields<'_>, name: &str, most: u64) -> Option<u64> {
        let value = fields.get(name)?;
        let found = value.as_u64().filter(|number| *number <= most);
        if found.is_none() {
            self.problem(
                fields.at(name),
                format!("`{name}` is {}", json::excerpt(&json::print(value))),
                format!("expected a whole number from 0 to {most}"),
            );
        }
        found
    }

    pub(super) fn number(&mut self, fields: &Fields<'_>, name: &str) -> Option<f64> {
        match fields.get(name)? {
            Value::Number(number) => number.as_f64(),
            other => {
                self.wrong_type(&fields.at(name), other, "a number");
                None
            }
        }
    }

    /// Reads seconds, which may have a fraction, as milliseconds.
    pub(super) fn seconds(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        least_ms: u64,
        most_ms: u64,
    ) -> Option<u64> {
        let value = fields.get(name)?;
        let millis = value.as_f64().filter(|seconds| *seconds >= 0.0 && *seconds <= 1e9).map(|seconds| {
            // Rounded to the nearest: 0.1 is a little less than a tenth.
            (seconds * 1_000.0 + 0.5) as u64
        });
        let found = millis.filter(|millis| (least_ms..=most_ms).contains(millis));
        if found.is_none() {
            let (least, most) = (least_ms as f64 / 1_000.0, most_ms as f64 / 1_000.0);
            self.problem(
                fields.at(name),
                format!("`{name}` is {}", json::excerpt(&json::print(value))),
                format!("expected seconds from {least} to {most}"),
            );
        }
        found
    }

    /// Reads one of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(fields, name)?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*choice);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        self.unknown(&fields.at(name), name, text, &words);
        None
    }

    /// Reports a word that is none of a few.
    pub(super) fn unknown(&mut self, pointer: &str, what: &str, text: &str, known: &[&str]) {
        self.report.add(Problem {
            pointer: pointer.to_string(),
            message: format!("there is no {what} `{}`", json::excerpt(text)),
            help: Some(format!("expected one of: {}", known.join(", "))),
            suggestion: name::nearest(text, known.iter().copied()).or_else(|| {
                known.iter().find(|word| word.eq_ignore_ascii_case(text)).map(ToString::to_string)
            }),
        });
    }

    /// Reads a name, in which `-` means `_`.
    pub(super) fn name(&mut self, pointer: &str, what: &str, text: &str) -> Option<String> {
        let name = name::normalize(text);
        if name.is_none() {
            self.report.add(Problem {
                pointer: pointer.to_string(),
                message: format!("`{}` is not a name for {what}", json::excerpt(text)),
                help: Some(format!(
                    "expected 1 to {MAX_NAME} lower-case letters, digits and `_`, beginning with a letter"
                )),
                suggestion: name::as_name(text),
            });
        }
        name
    }

    pub(super) fn path_error(&mut self, pointer: &str, error: &PathError) {
        self.problem(pointer, format!("`{}` is not a path", error.path), error.reason.clone());
    }

    /// Refuses a list that is too long; `None` then.
    pub(super) fn few(&mut self, pointer: &str, count: usize, what: &str) -> Option<()> {
        if count <= MAX_ENTRIES {
            return Some(());
        }
        self.problem(pointer, format!("there are {count} {what}"), format!("expected at most {MAX_ENTRIES}"));
        None
    }

    /// Reads a path that is read.
    pub(super) fn read_path(&mut self, pointer: &str, text: &str) -> Option<Path> {
        match text.parse::<Path>() {
            Ok(path) => {
                self.check_read(pointer, &path);
                Some(path)
            }
            Err(error) => {
                self.path_error(pointer, &error);
                None
            }
        }
    }
}
