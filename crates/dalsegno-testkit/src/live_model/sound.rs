//! What a session hears over its socket.

use std::collections::BTreeMap;

use super::Recording;
use crate::voice_code::{A_MS, is_speech, text};

/// How many milliseconds the live model speaks at a character.
pub(crate) const AGENT_MS: usize = 10;

/// How many milliseconds a caller speaks at a character.
pub(crate) const CALLER_MS: usize = 20;

/// How many samples of its own it sends at once: a tenth of a second.
pub(super) const PIECE: usize = 100 * A_MS;

/// How many bytes of 16-bit sound at 24 kHz last as long as a sample of a telephone. In this format the live model is as long at its words,
/// and nothing is heard of them.
pub(super) const WIDE: usize = 6;

/// Samples that are judged together.
const FRAME: usize = 20 * A_MS;

/// How many of these are silent when a turn has ended.
const QUIET: usize = 10;

/// The sound of a session.
#[derive(Debug, Default)]
pub(super) struct Sound {
    /// How many milliseconds of each item were made.
    pub(super) made: BTreeMap<String, u64>,
    /// It is 16-bit sound at 24 kHz, and not that of telephones.
    pub(super) is_wide: bool,
    rest: Vec<u8>,
    /// What the caller says, while they speak.
    said: Option<Vec<u8>>,
    quiet: usize,
}

/// What is heard.
pub(super) enum Heard {
    /// The caller begins to speak.
    Begins,
    /// The caller has said this.
    Ends(String),
}

impl Sound {
    /// Hears a piece of sound. What was said is one of the recordings, or a code.
    pub(super) fn hear(&mut self, sound: &[u8], recordings: &[Recording]) -> Vec<Heard> {
        self.rest.extend_from_slice(sound);
        let mut heard = Vec::new();
        let whole = self.rest.len() / FRAME * FRAME;
        for frame in self.rest.drain(..whole).collect::<Vec<_>>().chunks(FRAME) {
            let is_loud = is_speech(frame);
            if is_loud && self.said.is_none() {
                self.said = Some(Vec::new());
                heard.push(Heard::Begins);
            }
            let Some(said) = &mut self.said else { continue };
            said.extend_from_slice(frame);
            self.quiet = if is_loud { 0 } else { self.quiet + 1 };
            if self.quiet >= QUIET {
                let known = recordings.iter().find(|recording| recording.is_in(said));
                let words = known.map_or_else(|| text(said, CALLER_MS), |known| known.words.clone());
                heard.push(Heard::Ends(words));
                (self.said, self.quiet) = (None, 0);
            }
        }
        heard
    }
}
