//! The transcript has grown too long for the model: it is sent less of it.
//!
//! A cut is an entry of the transcript, so it follows from the fold and needs no outcome; only a summary asks the model
//! first. Each cut goes down to half of the budget, so that what is sent then only grows for long, and a provider's
//! prompt cache holds meanwhile.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::budget::{self, Shorter};
use super::{Stop, think};
use crate::canonical::Canonical;
use crate::config::{AgentConfig, Compact, ContextSettings, ModelMind, ModelSettings};
use crate::join::{Pending, Then};
use crate::operation::{ModelCompletion, Purpose, ToolChoice};
use crate::reading;
use crate::response::RunErrorCode;
use crate::state::{AgentState, Decision, Phase};
use crate::tokens;
use crate::transcript::{Compaction, Entry, note_tokens};

/// Makes what the model is sent fit its budget; `true` when a summary is asked for first.
pub(super) fn fit(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<bool, Stop> {
    match &mind.context {
        Some(context) if state.transcript.tokens() > context.max_tokens => match context.compact {
            Compact::Summarise if summarise(config, mind, context, state) => Ok(true),
            Compact::Summarise | Compact::Drop => shorten(config, context, state).map(|()| false),
        },
        Some(_) | None => Ok(false),
    }
}

/// Makes what the model is sent fit its budget, without asking for anything.
pub(super) fn cut(config: &AgentConfig, mind: &ModelMind, state: &mut AgentState) -> Result<(), Stop> {
    match &mind.context {
        Some(context) if state.transcript.tokens() > context.max_tokens => shorten(config, context, state),
        Some(_) | None => Ok(()),
    }
}

/// Takes the summary of the oldest entries; where there is none, they are left out.
pub(crate) fn summarised(
    config: &AgentConfig,
    mind: &ModelMind,
    until: u64,
    operations: Vec<Pending>,
    state: &mut AgentState,
) -> Result<(), Stop> {
    let summary = think::summary(mind, operations, state);
    if let Some(limit) = budget::overrun(config, state) {
        let limit = budget::beyond(config, state, limit);
        return Err(Stop::failed(RunErrorCode::LimitExceeded, limit, think::RAISE_THE_LIMIT));
    }
    match (summary, &mind.context) {
        (Some(text), Some(context)) => {
            let elided = state.transcript.compaction().map_or(0, |before| before.elided);
            let summary = instead(context, question(context, state).as_ref(), until, Some(&text));
            let files_from = files_from(&files(state), until);
            let cut = Compaction { dropped: until, elided: elided.max(until), summary, files_from };
            apply(config, context, cut, state);
        }
        (None, Some(context)) => shorten(config, context, state)?,
        (Some(_) | None, None) => {}
    }
    state.phase = Phase::Think;
    Ok(())
}

/// Leaves out the oldest tool results, then the oldest turns; where that is not enough, results of the last turn.
fn shorten(config: &AgentConfig, context: &ContextSettings, state: &mut AgentState) -> Result<(), Stop> {
    let (max, half) = (context.max_tokens, context.max_tokens / 2);
    let question = question(context, state);
    let before = state.transcript.compaction().and_then(|before| before.summary.as_deref());
    let kept = |dropped| instead(context, question.as_ref(), dropped, before);
    let mut layout = Layout::of(state);
    let mut elided = layout.elide(layout.last, half);
    let dropped = layout.drop_until(half, |dropped| kept(dropped).map(|text| text.len() as u64));
    if layout.tokens > max {
        elided = elided.max(layout.elide(u64::MAX, max));
    }
    let mut summary = kept(dropped);
    if layout.tokens > max && summary.take().is_some() {
        layout.tokens = layout.with_note(dropped, None);
    }
    if layout.tokens <= max {
        let files_from = files_from(&layout.files, dropped);
        apply(config, context, Compaction { dropped, elided, summary, files_from }, state);
    }
    if state.transcript.tokens() <= max {
        return Ok(());
    }
    let message = alloc::format!(
        "the beginning of the transcript and its last turn take about {} tokens, more than `context.max_tokens` ({max})",
        layout.tokens,
    );
    let help = "raise `context.max_tokens` as far as the model allows, shorten the instructions and the prompt, or allow \
                fewer tools";
    Err(Stop::failed(RunErrorCode::LimitExceeded, message, help))
}

fn apply(config: &AgentConfig, context: &ContextSettings, cut: Compaction, state: &mut AgentState) {
    let from_tokens = state.transcript.tokens();
    state.transcript.push(Entry::Compaction(cut));
    // A rule that asks where arguments come from looks at all that tools have returned.
    if !state.keeps_all && !config.traces_arguments() {
        let results = context.compact == Compact::Drop;
        state.transcript.release(&asked(state), results);
    }
    state.decide(Decision::Compact { from_tokens, to_tokens: state.transcript.tokens() });
}

/// Asks for a summary of the oldest turns; `false` where that is not worth a step, or would not fit.
fn summarise(
    config: &AgentConfig,
    mind: &ModelMind,
    context: &ContextSettings,
    state: &mut AgentState,
) -> bool {
    // The reply that it makes room for needs a step, too.
    if state.step.saturating_add(1) >= config.limits.max_steps {
        return false;
    }
    let settings = think::settings(mind, state.model);
    let longest = u32::try_from(context.max_tokens / SUMMARY_REPLY).unwrap_or(u32::MAX);
    let longest = settings.max_output_tokens.map_or(longest, |own| own.min(longest));
    let layout = Layout::of(state);
    let Some(until) = layout.summary_until(context.max_tokens, summary_bytes(context)) else { return false };
    let read = reading::summary(&state.transcript, until, context.max_tokens);
    if longest == 0 || read.tokens() > context.max_tokens {
        return false;
    }
    let bounded = ModelSettings { max_output_tokens: Some(longest), ..settings.clone() };
    let left = budget::left(config, state);
    let Ok(reservation) = budget::reserve_alone(&bounded, read.tokens(), Shorter::No, left) else {
        return false;
    };
    // How much of the text is read depends on the budget of the context, which stands nowhere else in the request.
    let mut chain = Canonical::new("summary");
    chain.bytes(think::chain(mind, state).as_bytes()).bytes(read.chain().as_bytes());
    state.decide(Decision::Summarise { until });
    let completion = ModelCompletion {
        new_from: state.asked,
        entries: state.transcript.len(),
        chain: chain.finish(),
        tool_choice: ToolChoice::None,
        fallback: state.model,
        max_output_tokens: Some(longest),
        reserved: reservation.reserved,
        purpose: Purpose::Summary { until },
    };
    think::complete(config, mind, Then::Summary { until }, completion, reservation.retries, state);
    true
}

/// A summary's reply may take this part of the budget. It is less than the quarter that is kept of the text, because
/// text in English has more bytes a token than the estimate says.
const SUMMARY_REPLY: u64 = 6;

/// Most bytes that are kept of a summary: a quarter of the budget, at three bytes a token.
fn summary_bytes(context: &ContextSettings) -> u64 {
    (context.max_tokens / 4).saturating_mul(3)
}

/// What this run was asked, and where that stands, if a cut may leave it out: the session has begun with another run.
fn question(context: &ContextSettings, state: &AgentState) -> Option<(u64, String)> {
    let (index, entry) = state.transcript.from(state.inherited.max(state.transcript.opening())).next()?;
    match &**entry {
        Entry::User(text) if index == state.inherited => {
            let most = usize::try_from(summary_bytes(context) / 2).unwrap_or(usize::MAX);
            Some((index, alloc::format!("The user asked: {}\n", &text[..text.floor_char_boundary(most)])))
        }
        Entry::Instructions(_)
        | Entry::User(_)
        | Entry::Assistant(_)
        | Entry::Attachment(_)
        | Entry::Compaction(_)
        | Entry::ToolResult { .. } => None,
    }
}

/// The indices of what this run was asked, with its files, if a cut may leave it out.
fn asked(state: &AgentState) -> Range<u64> {
    let first = state.inherited.max(state.transcript.opening());
    let entries = (first..).zip(state.transcript.from(first));
    let asked = entries.take_while(|(place, (index, entry))| {
        place == index && matches!(***entry, Entry::User(_) | Entry::Attachment(_))
    });
    first..first.saturating_add(asked.count() as u64)
}

/// The files of what this run was asked that a cut may leave out, by their places, with the tokens that they take.
fn files(state: &AgentState) -> Vec<(u64, u64)> {
    let asked = asked(state);
    let entries = state.transcript.from(asked.start).take_while(|(index, _)| *index < asked.end);
    let files = entries.filter(|(_, entry)| matches!(***entry, Entry::Attachment(_)));
    files.map(|(index, entry)| (index, tokens::entry(entry))).collect()
}

/// From where on files are kept, if a cut at this index would leave any out.
fn files_from(files: &[(u64, u64)], dropped: u64) -> Option<u64> {
    files.first().map(|(index, _)| *index).filter(|index| *index < dropped)
}

/// What stands for the entries before an index: the question of this run where it is among them, then a summary where
/// there is one.
fn instead(
    context: &ContextSettings,
    question: Option<&(u64, String)>,
    dropped: u64,
    summary: Option<&str>,
) -> Option<String> {
    let summary = summary.unwrap_or_default();
    let mut text = match question {
        Some((index, question)) if *index < dropped && !summary.starts_with(question) => question.clone(),
        Some(_) | None => String::new(),
    };
    text.push_str(summary);
    let most = usize::try_from(summary_bytes(context)).unwrap_or(usize::MAX);
    text.truncate(text.floor_char_boundary(most));
    (!text.is_empty()).then_some(text)
}

/// What the entries take that a cut may leave out, from the first that is still sent.
struct Layout {
    /// The number of entries before the first reply.
    opening: u64,
    dropped: u64,
    elided: u64,
    /// What is sent by now.
    tokens: u64,
    /// What is sent besides the items and the note that stands for what is left out: tools and opening.
    fixed: u64,
    items: Vec<Item>,
    /// The files that are sent even if the entries around them are left out.
    files: Vec<(u64, u64)>,
    /// Where the last turn begins.
    last: u64,
}

struct Item {
    index: u64,
    /// What it takes by now.
    tokens: u64,
    /// What it takes when it is replaced by a note of its size.
    short: u64,
    /// A turn begins here: what stands before it can be left out without parting a call from its result.
    turn: bool,
}

impl Layout {
    fn of(state: &AgentState) -> Self {
        let transcript = &state.transcript;
        let before = transcript.compaction();
        let (dropped, elided) = before.map_or((0, 0), |before| (before.dropped, before.elided));
        let opening = transcript.opening();
        let items: Vec<Item> = transcript
            .from(opening.max(dropped))
            .map(|(index, entry)| {
                let full = tokens::entry(entry);
                let short = entry.elided().map_or(full, |short| tokens::entry(&short));
                let turn = matches!(**entry, Entry::Assistant(_) | Entry::User(_));
                Item { index, tokens: if index < elided { short } else { full }, short, turn }
            })
            .collect();
        let last = items.iter().rev().find(|item| item.turn).map_or(opening, |item| item.index);
        let summary = before.and_then(|before| before.summary.as_ref()).map(|summary| summary.len() as u64);
        let mut layout =
            Self { opening, dropped, elided, tokens: 0, fixed: 0, items, files: Vec::new(), last };
        let kept = before.into_iter().flat_map(|before| transcript.files(before));
        let kept = kept.map(|file| tokens::entry(file)).fold(0, u64::saturating_add);
        let movable = layout.with_note(dropped, summary).saturating_add(kept);
        layout.tokens = transcript.tokens();
        layout.fixed = layout.tokens.saturating_sub(movable);
        layout.files = files(state);
        layout
    }

    /// What is sent with a summary of so many bytes for all that stands before an index.
    fn with_note(&self, dropped: u64, summary_bytes: Option<u64>) -> u64 {
        let items = self.items.iter().filter(|item| item.index >= dropped).map(|item| item.tokens);
        self.beside(dropped, summary_bytes, items.fold(0, u64::saturating_add))
    }

    /// What is sent beside what is kept from an index on: what is fixed, the note with a summary of so many bytes, files.
    fn beside(&self, dropped: u64, summary_bytes: Option<u64>, rest: u64) -> u64 {
        let note = note_tokens(dropped.saturating_sub(self.opening), summary_bytes);
        let files = self.files.iter().filter(|(index, _)| *index < dropped).map(|(_, tokens)| *tokens);
        files.fold(self.fixed.saturating_add(note).saturating_add(rest), u64::saturating_add)
    }

    /// Leaves out tool results before `end`, the oldest first, until no more than `most` is sent; says before which
    /// index they are left out.
    fn elide(&mut self, end: u64, most: u64) -> u64 {
        let mut elided = self.elided;
        for item in &mut self.items {
            if self.tokens <= most || item.index >= end {
                break;
            }
            if item.short < item.tokens {
                self.tokens = self.tokens.saturating_sub(item.tokens - item.short);
                item.tokens = item.short;
                elided = elided.max(item.index + 1);
            }
        }
        elided
    }

    /// Leaves out the oldest turns, but for the last one, until no more than `most` is sent; says before which index.
    /// `kept` tells the bytes of what stands for them.
    fn drop_until(&mut self, most: u64, kept: impl Fn(u64) -> Option<u64>) -> u64 {
        if self.tokens <= most {
            return self.dropped;
        }
        let mut dropped = self.dropped;
        for (index, rest) in self.cuts() {
            self.tokens = self.beside(index, kept(index), rest);
            dropped = index;
            if self.tokens <= most {
                break;
            }
        }
        self.items.retain(|item| item.index >= dropped);
        dropped
    }

    /// Where a summary of so many bytes ends, so that about half of the budget is sent with it; none where even the
    /// last turn alone would not fit beside it, or there is nothing to summarise.
    fn summary_until(&self, max: u64, bytes: u64) -> Option<u64> {
        let mut until = None;
        for (index, rest) in self.cuts() {
            let tokens = self.beside(index, Some(bytes), rest);
            if tokens <= max {
                until = Some(index);
            }
            if tokens <= max / 2 {
                break;
            }
        }
        until
    }

    /// The turns before which all may be left out, the oldest first, with what the items take from there on.
    fn cuts(&self) -> Vec<(u64, u64)> {
        let mut rest = 0u64;
        let mut cuts = Vec::new();
        for item in self.items.iter().skip(1).rev() {
            rest = rest.saturating_add(item.tokens);
            if item.turn && item.index <= self.last {
                cuts.push((item.index, rest));
            }
        }
        cuts.reverse();
        cuts
    }
}
