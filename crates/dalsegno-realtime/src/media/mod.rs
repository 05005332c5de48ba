//! A session whose sound passes through here: the carrier's frames become sound for the live model, and its sound frames of the carrier.
//!
//! Two things follow at once, before any record of them: when the caller begins to speak, what was sent and not played is given up, and
//! the live model is told how much of it was heard. The news of both follow.

mod frames;
mod playout;

use alloc::borrow::{Cow, ToOwned as _};
use alloc::collections::VecDeque;
use alloc::string::String;

use dalsegno_core::{CommandKind, LiveCommand, LiveNews, ResponseEnd};
use serde::Deserialize;

use crate::port::ModelSession;
use crate::sent;
use crate::session::{Counts, LiveSession, Output};
use crate::taken::FRAME_BYTES_MAX;

pub use frames::{LINE_FRAME_BYTES_MAX, LineFrame};
use playout::Playout;

/// The kind of a frame that is sound of the live model.
const SOUND: &str = "response.output_audio.delta";

/// Most frames of the caller that are kept until the live model can hear them: three seconds.
const EARLY_MAX: usize = 150;

/// Most bytes of them.
const EARLY_BYTES_MAX: usize = 64 * 1_024;

/// Most pieces of sound that wait for a line. They are of a tenth of a second each, or more.
const WAITING_MAX: usize = 256;

/// Most bytes of an id that a provider gives.
const ID_BYTES_MAX: usize = 256;

/// A [`LiveSession`] whose sound passes through here, over the caller's line at a carrier.
#[derive(Debug, Clone)]
pub struct MediaSession {
    inner: LiveSession,
    /// The carrier's name of the stream.
    stream: String,
    playout: Playout,
    /// What the caller said before the live model could hear it.
    early: VecDeque<String>,
    early_bytes: usize,
    /// The response that the caller interrupted: what still comes of it is not played.
    silenced: Option<String>,
    /// What the live model says while there is no line: it is sent over the next one.
    waiting: Option<VecDeque<Waiting>>,
}

/// A piece of sound that waits for a line, or the end of a response.
#[derive(Debug, Clone)]
enum Waiting {
    Sound { response: String, item: String, content: u64, payload: String },
    End(String),
}

/// Sound of the live model.
#[derive(Deserialize)]
struct Sound<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    response_id: Cow<'a, str>,
    #[serde(borrow)]
    item_id: Cow<'a, str>,
    #[serde(default)]
    content_index: u64,
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

impl MediaSession {
    /// The same session over the stream of this name at the carrier.
    pub fn new(inner: LiveSession, stream: String) -> Self {
        let (playout, early) = (Playout::default(), VecDeque::new());
        Self { inner, stream, playout, early, early_bytes: 0, silenced: None, waiting: None }
    }

    /// Passes on sound of the live model, if the frame is that.
    fn play(&mut self, now: u64, frame: &str, output: &mut Output) {
        if frame.len() > FRAME_BYTES_MAX || !frame.contains(SOUND) {
            return;
        }
        let Ok(Sound { kind, response_id, item_id, content_index, delta }) = serde_json::from_str(frame)
        else {
            return;
        };
        let is_silenced = self.silenced.as_deref() == Some(&*response_id);
        let is_bounded = response_id.len() <= ID_BYTES_MAX && item_id.len() <= ID_BYTES_MAX;
        if kind != SOUND || is_silenced || !is_bounded {
            return;
        }
        self.send(now, (&response_id, &item_id, content_index), &delta, output);
    }

    /// Sends the caller a piece of sound.
    fn send(&mut self, now: u64, of: (&str, &str, u64), payload: &str, output: &mut Output) {
        let Some(bytes) = frames::bytes(payload) else { return };
        if let Some(waiting) = &mut self.waiting {
            if waiting.len() < WAITING_MAX {
                let (response, item, content) = (of.0.to_owned(), of.1.to_owned(), of.2);
                waiting.push_back(Waiting::Sound { response, item, content, payload: payload.to_owned() });
            }
            return;
        }
        output.line.push(frames::sound(&self.stream, payload));
        let mark = self.playout.send(now, of, bytes);
        output.line.extend(mark.map(|name| frames::mark(&self.stream, &name)));
    }

    /// A response has no more sound.
    fn end(&mut self, response: String, output: &mut Output) {
        match &mut self.waiting {
            Some(waiting) => waiting.push_back(Waiting::End(response)),
            None => {
                let name = self.playout.end(&response);
                output.line.push(frames::mark(&self.stream, &name));
            }
        }
    }

    /// The caller hears no more of what the live model says now, or has said.
    fn give_up(&mut self, now: u64, output: &mut Output) {
        let active = self.inner.active().map(str::to_owned);
        if let Some(active) = &active {
            let heard_ms = self.playout.heard_of(now, active);
            self.inner.cut(active, heard_ms, output);
        }
        if self.waiting.as_mut().is_some_and(|waiting| !waiting.is_empty()) {
            // Nothing of that was heard.
            for waiting in self.waiting.replace(VecDeque::new()).into_iter().flatten() {
                if let Waiting::End(response) = waiting {
                    self.inner.cut(&response, 0, output);
                }
            }
        }
        self.silenced = active.or(self.silenced.take());
        let Some(off) = self.playout.give_up(now) else { return };
        output.line.push(frames::clear(&self.stream));
        for cut in &off.items {
            let id = self.inner.own_id("cut");
            output.frames.push(sent::truncate(&id, &cut.item, cut.content, cut.heard_ms));
        }
        for response in off.whole {
            self.inner.played(response, output);
        }
        for (response, heard_ms) in &off.responses {
            self.inner.cut(response, *heard_ms, output);
        }
    }

    /// What follows from what the session has reported.
    fn look(&mut self, now: u64, output: &mut Output) {
        let mut ended = None;
        let mut is_interrupted = false;
        for news in &output.news {
            match news {
                LiveNews::SpeechStarted => is_interrupted = true,
                LiveNews::ResponseEnded { response, end: ResponseEnd::Completed } => {
                    ended = Some(response.clone());
                }
                _ => {}
            }
        }
        if let Some(response) = ended.filter(|response| self.inner.is_sounding(response)) {
            self.end(response, output);
        }
        if is_interrupted {
            self.give_up(now, output);
        }
        if self.inner.hears() {
            while let Some(payload) = self.early.pop_front() {
                output.frames.push(sent::sound(&payload));
            }
            self.early_bytes = 0;
        }
    }

    /// Sound of the caller.
    fn hear(&mut self, payload: String, output: &mut Output) {
        if frames::bytes(&payload).is_none() {
            return;
        }
        if self.inner.hears() {
            output.frames.push(sent::sound(&payload));
            return;
        }
        self.early_bytes += payload.len();
        self.early.push_back(payload);
        while self.early.len() > EARLY_MAX || self.early_bytes > EARLY_BYTES_MAX {
            let Some(oldest) = self.early.pop_front() else { break };
            self.early_bytes -= oldest.len();
        }
    }

    /// Takes note of how much the caller has heard of what the live model says.
    fn note(&mut self, now: u64) {
        if let Some(heard_ms) = self.inner.active().map(|active| self.playout.heard_of(now, active)) {
            self.inner.note_heard(heard_ms);
        }
    }

    /// What the inner session makes of something after which the caller hears no more.
    fn over(&mut self, now: u64, end: impl FnOnce(&mut LiveSession) -> Output) -> Output {
        let mut output = Output::default();
        self.give_up(now, &mut output);
        let end = end(&mut self.inner);
        output.frames.extend(end.frames);
        output.news.extend(end.news);
        output.close |= end.close;
        output
    }
}

impl ModelSession for MediaSession {
    fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    fn is_open(&self) -> bool {
        self.inner.is_open()
    }

    fn is_between(&self) -> bool {
        self.inner.is_between() && !self.is_playing()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }

    fn is_playing(&self) -> bool {
        !self.playout.is_silent() || self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty())
    }

    fn connected(&mut self, now: u64) {
        self.inner.connected(now);
    }

    fn attached(&mut self, now: u64) -> Output {
        self.inner.attached(now)
    }

    fn acceptance(&self, model: &str, instructions: &str) -> String {
        self.inner.acceptance(model, instructions)
    }

    fn answered(&mut self, command: &LiveCommand) -> Output {
        self.inner.answered(command)
    }

    fn lost(&mut self, now: u64, reason: &str) -> Output {
        // What is under way to the caller is played all the same, and its items cannot be cut in the next session.
        self.note(now);
        self.playout.forget_items();
        self.inner.lost(now, reason)
    }

    fn line_lost(&mut self, now: u64) -> Output {
        let mut output = Output::default();
        if self.inner.is_over() {
            return output;
        }
        self.give_up(now, &mut output);
        // There is no line that it could be told, and the rest of it would be heard out of its context.
        output.line.clear();
        self.inner.cancel(&mut output);
        self.waiting.get_or_insert_default();
        output
    }

    fn line_opened(&mut self, now: u64, stream: String) -> Output {
        let mut output = Output::default();
        self.stream = stream;
        for waiting in self.waiting.take().into_iter().flatten() {
            match waiting {
                Waiting::Sound { response, item, content, payload } => {
                    self.send(now, (&response, &item, content), &payload, &mut output);
                }
                Waiting::End(response) => self.end(response, &mut output),
            }
        }
        output
    }

    fn fail(&mut self, now: u64, reason: &str) -> Output {
        self.over(now, |inner| inner.fail(now, reason))
    }

    fn hang_up(&mut self, now: u64, reason: &str) -> Output {
        self.over(now, |inner| inner.hang_up(now, reason))
    }

    fn command(&mut self, now: u64, command: &LiveCommand) -> Output {
        if matches!(command.kind, CommandKind::Close { .. }) {
            return self.over(now, |inner| inner.command(now, command));
        }
        let mut output = self.inner.command(now, command);
        self.look(now, &mut output);
        output
    }

    fn frame(&mut self, now: u64, frame: &str) -> Output {
        let mut output = Output::default();
        if self.inner.is_over() {
            return output;
        }
        self.play(now, frame, &mut output);
        self.note(now);
        // It is counted there, and shows that the provider is there.
        let of_session = self.inner.frame(now, frame);
        output = Output { line: output.line, ..of_session };
        if output.close {
            self.playout.forget_items();
        }
        self.look(now, &mut output);
        output
    }

    fn line(&mut self, now: u64, frame: &str) -> Output {
        let mut output = Output::default();
        if self.inner.is_over() {
            return output;
        }
        match LineFrame::read(frame) {
            Some(LineFrame::Sound(payload)) => self.hear(payload, &mut output),
            Some(LineFrame::Mark(name)) => {
                for response in self.playout.marked(now, &name) {
                    self.inner.played(response, &mut output);
                }
            }
            Some(LineFrame::Key(key)) => return self.inner.press(&key),
            Some(LineFrame::Stop) => return self.hang_up(now, "hung up"),
            Some(LineFrame::Connected | LineFrame::Start { .. } | LineFrame::Other) | None => {}
        }
        output
    }

    fn wakes_at(&self) -> Option<u64> {
        self.inner.wakes_at()
    }

    fn tick(&mut self, now: u64) -> Output {
        self.note(now);
        let mut output = self.inner.tick(now);
        if output.close {
            self.playout.forget_items();
        }
        self.look(now, &mut output);
        output
    }
}
