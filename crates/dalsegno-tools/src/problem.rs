//! What is wrong with a document, and where.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_PROBLEMS;

/// Says what is wrong with a part of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The JSON pointer (RFC 6901) of the value; of the object where a field is missing. For an unknown field, of the
    /// field itself.
    pub pointer: String,
    /// What is wrong, with names in backticks.
    pub message: String,
    /// What was expected, or what to do.
    pub help: Option<String>,
    /// The known name that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.pointer.is_empty() { "/" } else { &self.pointer }, self.message)?;
        if let Some(help) = &self.help {
            write!(f, ": {help}")?;
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, " (did you mean `{suggestion}`?)"),
            None => Ok(()),
        }
    }
}

/// Everything that was found in one document.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) mistakes: Vec<Problem>,
    pub(crate) notes: Vec<Problem>,
}

impl Report {
    pub(crate) fn problem(
        &mut self,
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Problem {
            pointer: pointer.into(),
            message: message.into(),
            help: Some(help.into()),
            suggestion: None,
        });
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        push(&mut self.problems, problem, "problems");
    }

    pub(crate) fn warning(
        &mut self,
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.warn(Problem {
            pointer: pointer.into(),
            message: message.into(),
            help: Some(help.into()),
            suggestion: None,
        });
    }

    pub(crate) fn mistake(&mut self, mistake: Problem) {
        push(&mut self.mistakes, mistake, "mistakes");
    }

    pub(crate) fn note(&mut self, note: Problem) {
        push(&mut self.notes, note, "notes");
    }

    pub(crate) fn warn(&mut self, warning: Problem) {
        push(&mut self.warnings, warning, "warnings");
    }
}

/// The last place of a full list says that there are more.
fn push(list: &mut Vec<Problem>, problem: Problem, what: &str) {
    if list.len() < MAX_PROBLEMS {
        list.push(problem);
    } else if list.len() == MAX_PROBLEMS {
        list.push(Problem {
            pointer: String::new(),
            message: format!("there are more than {MAX_PROBLEMS} {what}"),
            help: Some("mend these first; the others are shown then".into()),
            suggestion: None,
        });
    }
}

/// Returns the pointer of a member.
pub(crate) fn member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns the pointer of an item.
pub(crate) fn item(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}
