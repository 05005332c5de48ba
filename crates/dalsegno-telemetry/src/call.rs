//! What a call is measured by: how long callers wait, and what happens to calls.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{CommandKind, EndedBy, Live, LiveNews, OperationId, ResponseEnd, Timestamp};
use serde_json::Value;

/// Most calls of tools, and most commands, that are remembered. A call has fewer of them open at a time.
const REMEMBERED: usize = 256;

/// What was measured in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    /// From the end of the caller's turn to the beginning of the answer.
    Turn(u64),
    /// From a call of a tool to its output.
    FirstResult(u64),
    /// From the caller's first word to the end of the response that it interrupts.
    Interrupt(u64),
    /// How long nobody spoke while an output was awaited.
    Silence(u64),
    /// The live model was asked to say that it is still at it.
    Filler,
    /// An output said that its result follows.
    Late,
    /// A call was answered by an operation that another call had begun.
    Joined,
    /// The connection was lost.
    Gap,
    /// The call is over.
    End(&'static str),
}

/// Measures one call.
#[derive(Debug, Default)]
pub(crate) struct CallMeter {
    /// When the caller stopped, until the live model answers.
    stopped: Option<Timestamp>,
    /// When the caller began to speak over a response.
    cut: Option<Timestamp>,
    /// A response is under way.
    active: bool,
    /// Since when nobody speaks.
    quiet: Option<Timestamp>,
    /// Calls without an output, and when they were asked.
    asked: BTreeMap<String, Timestamp>,
    /// The commands that were seen.
    seen: BTreeSet<OperationId>,
    /// How many of its calls were joined so far.
    joined: u64,
}

impl CallMeter {
    /// Hears news of the call.
    pub(crate) fn hear(&mut self, at: Timestamp, news: &LiveNews, measured: &mut impl FnMut(Measured)) {
        let since = |from: Timestamp| at.as_millis().saturating_sub(from.as_millis());
        match news {
            LiveNews::SpeechStarted => {
                self.stopped = None;
                self.quiet = None;
                self.cut = self.active.then_some(at);
            }
            LiveNews::SpeechStopped => {
                self.stopped = Some(at);
                self.quiet = Some(at);
            }
            LiveNews::ResponseBegan { .. } => {
                self.active = true;
                if let Some(stopped) = self.stopped.take() {
                    measured(Measured::Turn(since(stopped)));
                }
                let first = self.asked.values().min();
                if let (Some(quiet), Some(first)) = (self.quiet.take(), first) {
                    measured(Measured::Silence(since(quiet.max(*first))));
                }
            }
            LiveNews::ResponseEnded { end, .. } => {
                self.active = false;
                if let Some(cut) = self.cut.take().filter(|_| *end == ResponseEnd::Interrupted) {
                    measured(Measured::Interrupt(since(cut)));
                }
                self.quiet.get_or_insert(at);
            }
            LiveNews::Asked { call, .. } if self.asked.len() < REMEMBERED => {
                self.asked.entry(call.call_id.clone()).or_insert(at);
            }
            LiveNews::Withdrawn { call_id } => {
                self.asked.remove(call_id);
            }
            LiveNews::Lost { .. } => {
                (self.active, self.cut, self.quiet) = (false, None, None);
                measured(Measured::Gap);
            }
            LiveNews::Ended { by, .. } => measured(Measured::End(match by {
                EndedBy::Caller => "caller",
                EndedBy::Agent => "agent",
                EndedBy::Provider => "provider",
            })),
            _ => {}
        }
    }

    /// Looks at what the live model is asked for.
    pub(crate) fn look(&mut self, at: Timestamp, live: &Live, measured: &mut impl FnMut(Measured)) {
        for _ in self.joined..live.joined() {
            measured(Measured::Joined);
        }
        self.joined = live.joined();
        for command in live.commands() {
            if self.seen.contains(&command.id) {
                continue;
            }
            if self.seen.len() >= REMEMBERED {
                self.seen.retain(|id| live.commands().iter().any(|command| command.id == *id));
            }
            self.seen.insert(command.id);
            match &command.kind {
                CommandKind::Output { call_id, content } => {
                    if let Some(asked) = self.asked.remove(call_id) {
                        let took = at.as_millis().saturating_sub(asked.as_millis());
                        measured(Measured::FirstResult(took));
                    }
                    let output: Option<Value> = serde_json::from_str(content).ok();
                    if output.is_some_and(|output| output["status"] == "running") {
                        measured(Measured::Late);
                    }
                }
                // What is said while an output is awaited and no tool may be called fills the silence.
                CommandKind::Respond { instructions: Some(_), tools: false } if !self.asked.is_empty() => {
                    measured(Measured::Filler);
                }
                CommandKind::Session { .. }
                | CommandKind::Answer { .. }
                | CommandKind::Note { .. }
                | CommandKind::Respond { .. }
                | CommandKind::Close { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dalsegno_core::CallRequest;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn heard(news: &[(u64, LiveNews)]) -> Vec<Measured> {
        let mut meter = CallMeter::default();
        let mut found = Vec::new();
        for (when, one) in news {
            meter.hear(at(*when), one, &mut |measured| found.push(measured));
        }
        found
    }

    fn began() -> LiveNews {
        LiveNews::ResponseBegan { response: "r".into(), command: None }
    }

    fn ended(end: ResponseEnd) -> LiveNews {
        LiveNews::ResponseEnded { response: "r".into(), end }
    }

    fn asked() -> LiveNews {
        let (call_id, name, arguments) = ("c".into(), "find".into(), "{}".into());
        LiveNews::Asked {
            response: "r".into(),
            call: CallRequest { call_id, name, arguments, validation: None },
        }
    }

    #[test]
    fn what_a_caller_waits_for_is_measured() {
        let measured = heard(&[
            (0, LiveNews::Connected),
            (100, LiveNews::SpeechStarted),
            (900, LiveNews::SpeechStopped),
            (1_100, began()),
            (1_300, asked()),
            (1_500, ended(ResponseEnd::Completed)),
            (3_000, began()),
            (3_200, LiveNews::SpeechStarted),
            (3_250, ended(ResponseEnd::Interrupted)),
            (4_000, LiveNews::Lost { reason: "gone".into() }),
            (9_000, LiveNews::Attached),
            (9_100, LiveNews::Ended { by: EndedBy::Caller, reason: "hung up".into() }),
        ]);
        let expected = [
            Measured::Turn(200),
            Measured::Silence(1_500),
            Measured::Interrupt(50),
            Measured::Gap,
            Measured::End("caller"),
        ];
        assert_eq!(measured, expected);
    }

    #[test]
    fn a_turn_over_silence_is_no_interruption() {
        let measured = heard(&[
            (0, began()),
            (500, ended(ResponseEnd::Completed)),
            (900, LiveNews::SpeechStarted),
            (1_000, LiveNews::SpeechStopped),
            (1_400, began()),
        ]);
        assert_eq!(measured, [Measured::Turn(400)]);
    }
}
