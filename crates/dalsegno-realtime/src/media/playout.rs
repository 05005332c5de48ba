//! What the caller has heard of what was sent.

use alloc::borrow::ToOwned as _;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// How many bytes of sound telephones carry in a millisecond.
const BYTES_A_MS: u64 = 8;

/// Most marks that are sent behind sound and have not come back. With so many no further ones are sent: the next that come back say
/// enough. Each response has one more, where it ends.
const MARKS_MAX: usize = 1_024;

/// Most items that are under way to the caller. They are sentences.
const TRACKS_MAX: usize = 64;

/// The sound that is under way to a caller, at the carrier's pace: made faster than it is played.
///
/// The carrier returns each mark once all that was sent before it was played. Between two of them what was played is reckoned from
/// the time, and never past the next one. Times are milliseconds, places are bytes of all that was sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Playout {
    tracks: VecDeque<Track>,
    /// How much was sent.
    sent: u64,
    /// How much of it was certainly played.
    played: u64,
    /// A place and the time at which it is played, from which the next ones are reckoned.
    from: (u64, u64),
    marks: VecDeque<Mark>,
    /// How many marks there were: their names. Those of what was given up come back as well, and are not known any more.
    count: u64,
}

/// An item whose sound is under way, or was played and belongs to the latest response.
#[derive(Debug, Clone)]
struct Track {
    response: String,
    item: String,
    content: u64,
    from: u64,
    to: u64,
    /// It is an item of a session that is no more.
    is_gone: bool,
}

#[derive(Debug, Clone)]
struct Mark {
    name: String,
    at: u64,
    /// The response that ends with it.
    ends: Option<String>,
}

/// An item of which the caller heard a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutItem {
    pub(super) item: String,
    pub(super) content: u64,
    pub(super) heard_ms: u64,
}

/// Words that the caller does not hear to their end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CutOff {
    /// The items of the session that were not heard whole.
    pub(super) items: Vec<CutItem>,
    /// Their responses, each with how much of it was heard, in milliseconds.
    pub(super) responses: Vec<(String, u64)>,
    /// The responses that were heard whole, although the carrier has not said so.
    pub(super) whole: Vec<String>,
}

impl Playout {
    /// Sound of an item is sent, so many bytes. Returns the name of the mark to send behind it, if there is to be one.
    pub(super) fn send(
        &mut self,
        now: u64,
        (response, item, content): (&str, &str, u64),
        bytes: u64,
    ) -> Option<String> {
        let from = self.sent;
        if self.reckoned(now) >= from {
            // The carrier has nothing left to play: it plays this from now on.
            self.from = (from, now);
        }
        self.sent = from.saturating_add(bytes);
        let played = self.played;
        self.tracks.retain(|track| track.to > played || track.response == response);
        match self.tracks.back_mut() {
            Some(last) if last.item == item && last.content == content => last.to = self.sent,
            _ => {
                if self.tracks.len() >= TRACKS_MAX {
                    self.tracks.pop_front();
                }
                let (response, item) = (response.to_owned(), item.to_owned());
                let track = Track { response, item, content, from, to: self.sent, is_gone: false };
                self.tracks.push_back(track);
            }
        }
        (self.marks.len() < MARKS_MAX).then(|| self.mark(None))
    }

    /// A response has no more sound. Returns the name of the mark to send.
    pub(super) fn end(&mut self, response: &str) -> String {
        self.mark(Some(response.to_owned()))
    }

    fn mark(&mut self, ends: Option<String>) -> String {
        self.count += 1;
        let name = self.count.to_string();
        self.marks.push_back(Mark { name: name.clone(), at: self.sent, ends });
        name
    }

    /// A mark has come back. Returns the responses of which all was played.
    pub(super) fn marked(&mut self, now: u64, name: &str) -> Vec<String> {
        let Some(place) = self.marks.iter().position(|mark| mark.name == name) else { return Vec::new() };
        let mut ended = Vec::new();
        for mark in self.marks.drain(..=place) {
            self.played = mark.at.max(self.played);
            // What began after it has a time of its own.
            if mark.at > self.from.0 {
                self.from = (mark.at, now);
            }
            ended.extend(mark.ends);
        }
        ended
    }

    /// Says whether there is nothing under way to the caller.
    pub(super) fn is_silent(&self) -> bool {
        self.marks.is_empty()
    }

    /// How many bytes would be played by now, were there enough of them.
    fn reckoned(&self, now: u64) -> u64 {
        let (place, at) = self.from;
        place.saturating_add(now.saturating_sub(at).saturating_mul(BYTES_A_MS))
    }

    /// How many bytes were played, as far as that can be known.
    fn played(&self, now: u64) -> u64 {
        let next = self.marks.iter().map(|mark| mark.at).find(|at| *at > self.played);
        self.reckoned(now).min(next.unwrap_or(self.sent)).min(self.sent).max(self.played)
    }

    /// How much of a response the caller has heard, in milliseconds.
    pub(super) fn heard_of(&self, now: u64, response: &str) -> u64 {
        let played = self.played(now);
        let own = self.tracks.iter().filter(|track| track.response == response);
        own.map(|track| track.heard_ms(played)).sum()
    }

    /// What is under way is given up. None where nothing is.
    pub(super) fn give_up(&mut self, now: u64) -> Option<CutOff> {
        if self.is_silent() {
            return None;
        }
        let played = self.played(now);
        let mut off = CutOff::default();
        for track in self.tracks.iter().filter(|track| track.to > played) {
            if !track.is_gone {
                off.items.push(CutItem {
                    item: track.item.clone(),
                    content: track.content,
                    heard_ms: track.heard_ms(played),
                });
            }
            if off.responses.last().is_none_or(|(response, _)| *response != track.response) {
                off.responses.push((track.response.clone(), self.heard_of(now, &track.response)));
            }
        }
        let marks = core::mem::take(&mut self.marks);
        off.whole.extend(marks.into_iter().filter(|mark| mark.at <= played).filter_map(|mark| mark.ends));
        *self = Self { count: self.count, ..Self::default() };
        Some(off)
    }

    /// The items are those of a session that is no more: they cannot be cut there.
    pub(super) fn forget_items(&mut self) {
        self.tracks.iter_mut().for_each(|track| track.is_gone = true);
    }
}

impl Track {
    fn heard_ms(&self, played: u64) -> u64 {
        self.to.min(played).saturating_sub(self.from) / BYTES_A_MS
    }
}
