//! The turns of a recorded call: what its caller and its live model did, as a case says it.

use std::collections::BTreeSet;

use dalsegno_core::{
    AgentState, CommandKind, EndedBy, Event, LiveNews, News, OperationId, ResponseEnd, Timestamp,
};
use dalsegno_workspace::{CaseAsk, CaseTurn, TurnKind};
use serde_json::Value;

/// Listens to a call while its journal is folded.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    turns: Vec<TurnKind>,
    /// The response that is active, when it began, and its turn; none where it has no turn of its own.
    active: Option<(String, Timestamp, Option<usize>)>,
    /// The turn of the response before.
    last: Option<(String, Option<usize>)>,
    /// Turns of the caller whose words are not there yet.
    wordless: Vec<usize>,
    /// The commands that say what the model is to say.
    told: BTreeSet<OperationId>,
    anything: bool,
    /// When the turn before ended.
    since: Timestamp,
    /// When something was last heard.
    latest: Timestamp,
    lost: bool,
    /// Why it cannot be said in turns.
    trouble: Option<&'static str>,
}

impl Heard {
    /// The turns, once the call is over.
    pub(crate) fn finish(self) -> Result<Vec<CaseTurn>, &'static str> {
        if let Some(why) = self.trouble {
            return Err(why);
        }
        let mut turns: Vec<TurnKind> = Vec::new();
        for turn in self.turns {
            let is_cut = matches!(turns.last(), Some(TurnKind::Model { interrupt: Some(_), .. }));
            if is_cut && matches!(turn, TurnKind::Model { .. } | TurnKind::Digits { .. }) {
                // The caller made a sound and said nothing.
                turns.push(TurnKind::Caller { text: String::new(), after: None });
            }
            turns.push(turn);
        }
        Ok(turns.into_iter().map(|kind| CaseTurn { kind, span: 0..0 }).collect())
    }

    /// What the run has asked the session for.
    pub(crate) fn look(&mut self, state: &AgentState) {
        let commands = state.live().map(|live| live.commands()).unwrap_or_default();
        let told = commands
            .iter()
            .filter(|command| matches!(&command.kind, CommandKind::Respond { instructions: Some(_), .. }));
        self.told.extend(told.map(|command| command.id));
    }

    /// Hears what comes next, before the run does.
    pub(crate) fn hear(&mut self, state: &AgentState, event: &Event) {
        let News::Live(news) = &event.news else { return };
        let at = event.at;
        match news {
            LiveNews::SpeechStopped => {
                let place =
                    self.push(TurnKind::Caller { text: String::new(), after: self.spoke_over(state, at) });
                self.wordless.push(place);
                self.since = at;
                self.anything = true;
            }
            LiveNews::Heard { text } => self.words(state, at, text),
            LiveNews::SpeechStarted => self.cut(at),
            LiveNews::ResponseBegan { response, command } => self.began(response, *command, at),
            LiveNews::Said { text, .. } => self.said(text),
            LiveNews::Asked { response, call } => {
                let place = match (&self.active, &self.last) {
                    (Some((active, _, place)), _) if active == response => *place,
                    (_, Some((last, place))) if last == response => *place,
                    _ => None,
                };
                let arguments = serde_json::from_str(&call.arguments)
                    .unwrap_or_else(|_| Value::String(call.arguments.clone()));
                if let Some(TurnKind::Model { calls, .. }) = place.and_then(|place| self.turns.get_mut(place))
                {
                    let (tool, call_id) = (call.name.clone(), Some(call.call_id.clone()));
                    calls.push(CaseAsk { tool, arguments, call_id });
                }
            }
            LiveNews::ResponseEnded { response, end } => self.ended(response, *end, at),
            LiveNews::Digit { digit } => match self.turns.last_mut() {
                Some(TurnKind::Digits { digits, .. }) if digits.len() < 64 => digits.push(*digit),
                _ => {
                    let after = self.after(at);
                    self.push(TurnKind::Digits { digits: digit.to_string(), after });
                    self.since = at;
                }
            },
            LiveNews::Lost { .. } => {
                self.cut(at);
                let after = if self.active.take().is_some() { 0 } else { self.after(at) };
                self.push(TurnKind::Drop { lasts: 1, after });
                (self.lost, self.since) = (true, at);
            }
            LiveNews::Attached => self.attached(at),
            LiveNews::Told { .. } => self.cannot("a person gave its live model a note"),
            LiveNews::Withdrawn { .. } => self.cannot("its provider took back a call of a tool"),
            LiveNews::Ended { by, .. } => self.over(state, *by, at),
            LiveNews::Connected => self.since = at,
            LiveNews::Counted { .. }
            | LiveNews::Lasted { .. }
            | LiveNews::Taken { .. }
            | LiveNews::Refused { .. }
            | LiveNews::Played { .. }
            | LiveNews::Cut { .. }
            | LiveNews::Woke => {}
        }
        self.latest = at;
    }

    fn cannot(&mut self, why: &'static str) {
        self.trouble.get_or_insert(why);
    }

    fn push(&mut self, turn: TurnKind) -> usize {
        self.turns.push(turn);
        self.turns.len() - 1
    }

    /// The time since the turn before, where there is any.
    fn after(&self, at: Timestamp) -> u64 {
        at.as_millis().saturating_sub(self.since.as_millis())
    }

    /// When the caller speaks while something is under way; none where the model has spoken of everything, or is cut off.
    fn spoke_over(&self, state: &AgentState, at: Timestamp) -> Option<u64> {
        let is_cut = matches!(self.turns.last(), Some(TurnKind::Model { interrupt: Some(_), .. }));
        let waits = state.live().is_some_and(|live| !live.calls().is_empty());
        (waits && !is_cut).then(|| self.after(at).max(1))
    }

    fn words(&mut self, state: &AgentState, at: Timestamp, text: &str) {
        self.anything = true;
        if self.wordless.is_empty() {
            let after = self.spoke_over(state, at);
            self.push(TurnKind::Caller { text: text.to_owned(), after });
            self.since = at;
            return;
        }
        let place = self.wordless.remove(0);
        if let Some(TurnKind::Caller { text: words, .. }) = self.turns.get_mut(place) {
            text.clone_into(words);
        }
    }

    /// The response that is active is cut off.
    fn cut(&mut self, at: Timestamp) {
        if let Some((_, began, Some(place))) = &self.active
            && let Some(TurnKind::Model { interrupt, .. }) = self.turns.get_mut(*place)
        {
            interrupt.get_or_insert(at.as_millis().saturating_sub(began.as_millis()).max(1));
        }
    }

    fn began(&mut self, response: &str, command: Option<OperationId>, at: Timestamp) {
        // What the model is told to say is no turn of a script, unless it is the first thing that is said.
        let is_own = !self.anything || !command.is_some_and(|command| self.told.contains(&command));
        let turn = TurnKind::Model { text: String::new(), calls: Vec::new(), lasts: 0, interrupt: None };
        let place = is_own.then(|| self.push(turn));
        self.active = Some((response.to_owned(), at, place));
        self.anything = true;
    }

    fn said(&mut self, said: &str) {
        let place = match (&self.active, &self.last) {
            (Some((_, _, place)), _) | (None, Some((_, place))) => *place,
            (None, None) => None,
        };
        if let Some(TurnKind::Model { text, .. }) = place.and_then(|place| self.turns.get_mut(place)) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(said);
        }
    }

    fn ended(&mut self, response: &str, end: ResponseEnd, at: Timestamp) {
        if end == ResponseEnd::Interrupted {
            self.cut(at);
        }
        let Some((active, began, place)) = self.active.take_if(|(active, ..)| active == response) else {
            return;
        };
        if let Some(TurnKind::Model { lasts, .. }) = place.and_then(|place| self.turns.get_mut(place)) {
            *lasts = at.as_millis().saturating_sub(began.as_millis());
        }
        self.last = Some((active, place));
        self.since = at;
        if end == ResponseEnd::Failed {
            self.cannot("a response of its live model failed");
        }
    }

    fn attached(&mut self, at: Timestamp) {
        let from = if self.lost { self.since } else { self.latest };
        let gap = at.as_millis().saturating_sub(from.as_millis()).max(1);
        if self.lost {
            if let Some(TurnKind::Drop { lasts, .. }) = self.turns.last_mut() {
                *lasts = gap;
            }
        } else {
            // No process was there to say that the connection is lost.
            let latest = self.latest;
            self.cut(latest);
            let after = if self.active.take().is_some() { 0 } else { self.after(latest) };
            self.push(TurnKind::Kill { lasts: gap, after });
        }
        (self.lost, self.since) = (false, at);
    }

    fn over(&mut self, state: &AgentState, by: EndedBy, at: Timestamp) {
        match by {
            EndedBy::Provider => self.cannot("its provider, or the end of its process, broke it off"),
            EndedBy::Agent => {}
            EndedBy::Caller => {
                self.cut(at);
                let waits = state.live().is_some_and(|live| !live.calls().is_empty());
                if self.active.take().is_some() {
                    self.push(TurnKind::HangUp { after: 1 });
                } else if waits {
                    let after = self.after(at).max(1);
                    self.push(TurnKind::HangUp { after });
                }
            }
        }
    }
}
