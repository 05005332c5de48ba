//! A call as it went: who said what, what was asked for and told, where it broke off, how it ended. The same words everywhere.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_core::{AgentState, CommandKind, EndedBy, LiveNews, OperationId, ResponseEnd, RunId, Timestamp};
use dalsegno_store::Body;
use serde::Serialize;

use crate::error::HistoryError;
use crate::fold::Fold;
use crate::journal::Journal;
use crate::turns::{Speaker, Turns};

/// One thing that was said or done in a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// The number of the turn, where it is the first thing of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Who says it; none where something else happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Speaker>,
    /// What is said, or what happens.
    pub words: String,
    /// What else is to be known of it, such as where it was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Moment {
    /// What news of a call says; none for news that is neither said nor heard.
    pub fn of(at: Timestamp, news: &LiveNews) -> Option<Self> {
        let aside = |words: String| Some(Self { at, turn: None, by: None, words, note: None });
        let says = |by: Speaker, text: &str, note: Option<String>| {
            Some(Self { at, turn: None, by: Some(by), words: text.to_owned(), note })
        };
        match news {
            LiveNews::Heard { text } => says(Speaker::Caller, text, None),
            LiveNews::Said { text, heard_ms } => {
                let note = heard_ms.map(|heard_ms| format!("cut off after {heard_ms} ms"));
                says(Speaker::Agent, text, note)
            }
            LiveNews::Cut { heard_ms, .. } => {
                aside(format!("the caller interrupts, and heard {heard_ms} ms of that"))
            }
            LiveNews::Asked { call, .. } => aside(format!("asks for {} {}", call.name, call.arguments)),
            LiveNews::Digit { digit } => aside(format!("the caller presses {digit}")),
            LiveNews::Lost { reason } => aside(format!("the connection is lost: {reason}")),
            LiveNews::Attached => aside("the connection is there again".to_owned()),
            LiveNews::Refused { code, message, .. } => {
                aside(format!("the session refuses a command: {code}: {message}"))
            }
            LiveNews::ResponseEnded { end: ResponseEnd::Failed, .. } => {
                aside("the response failed".to_owned())
            }
            LiveNews::Told { text, by } => {
                let by = by.as_deref().unwrap_or("a person");
                aside(format!("{by} gives a note: {text}"))
            }
            LiveNews::Ended { by, reason } => {
                let who = match by {
                    EndedBy::Caller => "the caller",
                    EndedBy::Agent => "the agent",
                    EndedBy::Provider => "the provider",
                };
                aside(format!("{who} ends the call: {reason}"))
            }
            LiveNews::Connected
            | LiveNews::SpeechStarted
            | LiveNews::SpeechStopped
            | LiveNews::ResponseBegan { .. }
            | LiveNews::ResponseEnded { .. }
            | LiveNews::Counted { .. }
            | LiveNews::Lasted { .. }
            | LiveNews::Withdrawn { .. }
            | LiveNews::Taken { .. }
            | LiveNews::Played { .. }
            | LiveNews::Woke => None,
        }
    }
}

/// Finds the moments of a call.
struct Moments {
    found: Vec<Moment>,
    turns: Turns,
    /// Turns that have their moment.
    numbered: usize,
    lost_at: Option<Timestamp>,
    /// The commands whose words are known.
    told: BTreeSet<OperationId>,
    /// The tools that calls ask for, by the ids of the calls.
    asked: BTreeMap<String, String>,
}

impl Moments {
    fn news(&mut self, at: Timestamp, news: &LiveNews) {
        if let LiveNews::Asked { call, .. } = news {
            self.asked.insert(call.call_id.clone(), call.name.clone());
        }
        let gap = match news {
            LiveNews::Lost { .. } => {
                self.lost_at = Some(at);
                None
            }
            LiveNews::Attached => self.lost_at.take(),
            _ => None,
        };
        let Some(mut moment) = Moment::of(at, news) else { return };
        if let Some(lost) = gap {
            let ms = at.as_millis().saturating_sub(lost.as_millis());
            moment.note = Some(format!("after {}.{} s", ms / 1_000, ms % 1_000 / 100));
        }
        let turns = self.turns.found();
        if self.numbered < turns.len() {
            self.numbered = turns.len();
            moment.turn = turns.last().map(|turn| turn.number);
        }
        self.found.push(moment);
    }

    /// What the live model is told by now.
    fn commands(&mut self, at: Timestamp, state: &AgentState) {
        let commands = state.live().map(|live| live.commands()).unwrap_or_default();
        for command in commands {
            if !self.told.insert(command.id) {
                continue;
            }
            let words = match &command.kind {
                CommandKind::Output { call_id, content } => {
                    let tool = self.asked.get(call_id).map_or("a call", String::as_str);
                    format!("output of {tool}: {content}")
                }
                CommandKind::Note { text } => format!("told: {text}"),
                CommandKind::Respond { instructions: Some(told), .. } => format!("told: {told}"),
                CommandKind::Session { .. }
                | CommandKind::Answer { .. }
                | CommandKind::Respond { .. }
                | CommandKind::Close { .. } => {
                    continue;
                }
            };
            self.found.push(Moment { at, turn: None, by: None, words, note: None });
        }
    }
}

impl Journal {
    /// A call as it went, from the first record of its own on. What it shares with a call that it is a fork of is that one's. Nothing
    /// for a run that is no call; what the live model was told is left out from where the journal and the core part.
    ///
    /// # Errors
    /// When the run is unknown, or its journal is damaged.
    pub async fn moments(&self, run: RunId) -> Result<Vec<Moment>, HistoryError> {
        let Some(records) = self.records_of_call(run).await? else { return Ok(Vec::new()) };
        let config = self.config(run, self.store().summary(run).await?.config).await?;
        let mut fold: Option<Fold> = self.begin(run, config, &records).await.ok();
        let all = self.turns(run).await?.len();
        let mut own = Turns::default();
        records.iter().for_each(|record| own.hear(record));
        let mut moments = Moments {
            found: Vec::new(),
            turns: Turns::after((all - own.found().len()) as u64),
            numbered: 0,
            lost_at: None,
            told: BTreeSet::new(),
            asked: BTreeMap::new(),
        };
        for record in &records[1..] {
            // A record is folded after the steps before it, whose commands are told first.
            let mut stepped = fold.take();
            if let Some(before) = &mut stepped {
                let caught_up =
                    if matches!(record.body, Body::Conversed { .. }) { before.catch_up() } else { Ok(()) };
                if caught_up.is_ok() {
                    moments.commands(record.at, before.state());
                }
            }
            if let Body::Conversed { news } = &record.body {
                for (within, one) in (0..).zip(news) {
                    moments.turns.hear_one(record, within, one);
                    moments.news(record.at, one);
                }
            }
            fold = stepped.and_then(|mut fold| fold.apply(record).is_ok().then_some(fold));
        }
        if let (Some(mut fold), Some(last)) = (fold, records.last())
            && fold.catch_up().is_ok()
        {
            moments.commands(last.at, fold.state());
        }
        Ok(moments.found)
    }
}
