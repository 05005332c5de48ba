//! What is said and asked in a call.

use std::fmt::{self, Write as _};

use dalsegno_core::{EndedBy, LiveNews};

/// What happened in a call, as its caller, its live model and its tools have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Talk {
    /// All of it, in order.
    pub spoken: Vec<Talked>,
    /// The longest time for which the caller waited in silence, in milliseconds.
    pub silence_ms: u64,
    /// Who ended it.
    pub ended_by: Option<EndedBy>,
}

/// One thing in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talked {
    /// The live model is told something: its instructions, a note, what it is to say.
    Told(String),
    /// The live model says something, and may be cut off.
    Agent {
        /// The words.
        text: String,
        /// Whether the caller heard them to the end.
        whole: bool,
    },
    /// The caller says something.
    Caller(String),
    /// The caller pressed keys.
    Digits(String),
    /// The live model asks for a tool.
    Asked {
        /// The provider's id of the call.
        call_id: String,
        /// The tool, as the model wrote it.
        tool: String,
        /// The arguments, as the model wrote them.
        arguments: String,
    },
    /// A call of a tool gets its output.
    Output {
        /// The provider's id of the call.
        call_id: String,
        /// The tool, as the model wrote it.
        tool: String,
        /// What the model reads.
        content: String,
    },
    /// The connection to the live model is lost.
    Lost,
    /// It is there again.
    Attached,
    /// The process that performs the run dies.
    Died,
    /// The call is over.
    Ended {
        /// Who ended it.
        by: EndedBy,
        /// Why.
        reason: String,
    },
}

impl Talk {
    /// Notes what is heard of the call.
    pub(crate) fn note(&mut self, news: &LiveNews) {
        let talked = match news {
            LiveNews::Heard { text } => Talked::Caller(text.clone()),
            LiveNews::Said { text, heard_ms } => {
                Talked::Agent { text: text.clone(), whole: heard_ms.is_none() }
            }
            LiveNews::Asked { call, .. } => Talked::Asked {
                call_id: call.call_id.clone(),
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
            },
            LiveNews::Digit { digit } => {
                if let Some(Talked::Digits(digits)) = self.spoken.last_mut() {
                    digits.push(*digit);
                    return;
                }
                Talked::Digits(digit.to_string())
            }
            LiveNews::Lost { .. } => Talked::Lost,
            LiveNews::Attached => Talked::Attached,
            LiveNews::Ended { by, reason } => {
                self.ended_by = Some(*by);
                Talked::Ended { by: *by, reason: reason.clone() }
            }
            LiveNews::Connected
            | LiveNews::SpeechStarted
            | LiveNews::SpeechStopped
            | LiveNews::ResponseBegan { .. }
            | LiveNews::ResponseEnded { .. }
            | LiveNews::Counted { .. }
            | LiveNews::Lasted { .. }
            | LiveNews::Told { .. }
            | LiveNews::Withdrawn { .. }
            | LiveNews::Taken { .. }
            | LiveNews::Refused { .. }
            | LiveNews::Played { .. }
            | LiveNews::Cut { .. }
            | LiveNews::Woke => return,
        };
        self.spoken.push(talked);
    }

    /// The outputs of calls, in order: the tool and what the model reads.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spoken.iter().filter_map(|talked| match talked {
            Talked::Output { tool, content, .. } => Some((tool.as_str(), content.as_str())),
            _ => None,
        })
    }

    /// What the live model says, in order.
    pub fn said(&self) -> impl Iterator<Item = &str> {
        self.spoken.iter().filter_map(|talked| match talked {
            Talked::Agent { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// What the live model is told, in order.
    pub fn told(&self) -> impl Iterator<Item = &str> {
        self.spoken.iter().filter_map(|talked| match talked {
            Talked::Told(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Who ends a call, in the word of a case.
pub(crate) const fn by(by: EndedBy) -> &'static str {
    match by {
        EndedBy::Caller => "caller",
        EndedBy::Agent => "agent",
        EndedBy::Provider => "provider",
    }
}

impl fmt::Display for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for talked in &self.spoken {
            let (word, text) = match talked {
                Talked::Told(text) => ("told", text.clone()),
                Talked::Agent { text, whole: true } => ("agent", text.clone()),
                Talked::Agent { text, whole: false } => ("agent", format!("{text} (cut off)")),
                Talked::Caller(text) => ("caller", text.clone()),
                Talked::Digits(keys) => ("keys", keys.clone()),
                Talked::Asked { call_id, tool, arguments } => {
                    ("asks", format!("{tool} {arguments} ({call_id})"))
                }
                Talked::Output { call_id, content, .. } => ("output", format!("{content} ({call_id})")),
                Talked::Lost => ("line", "lost".to_owned()),
                Talked::Attached => ("line", "there again".to_owned()),
                Talked::Died => ("dies", "the process; another one resumes the run".to_owned()),
                Talked::Ended { by, reason } => ("ends", format!("{}: {reason}", self::by(*by))),
            };
            entry(f, word, &text)?;
        }
        Ok(())
    }
}

/// A word, and a text whose further lines stand below it.
fn entry(f: &mut fmt::Formatter<'_>, word: &str, text: &str) -> fmt::Result {
    let mut lines = text.lines();
    let mut line = String::new();
    let _ = write!(line, "  {word:<6} {}", lines.next().unwrap_or_default());
    writeln!(f, "{}", line.trim_end())?;
    lines.try_for_each(|more| writeln!(f, "{}", format!("         {more}").trim_end()))
}
