//! The frames of a carrier that sends the sound of a call over a socket, in the form of Twilio's Media Streams, which others have as well.

use alloc::string::{String, ToString as _};

use serde::Deserialize;
use serde_json::json;

/// Most bytes of one frame of a carrier. What is longer is not read: 20 ms of sound are 160 bytes.
pub const LINE_FRAME_BYTES_MAX: usize = 64 * 1_024;

/// What one frame of the carrier says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFrame {
    /// The socket is there, and nothing has begun.
    Connected,
    /// The sound of a call begins.
    Start {
        /// The carrier's name of the stream, which each frame to it has.
        stream: String,
        /// The carrier's id of the call.
        call: String,
        /// Whether the sound is what telephones carry: µ-law with 8,000 samples a second.
        is_telephone: bool,
    },
    /// Sound of the caller, in base64.
    Sound(String),
    /// All that was sent before this mark was played, or given up.
    Mark(String),
    /// The caller pressed a key.
    Key(String),
    /// The sound has ended: the call is over.
    Stop,
    /// Of a kind that is not known, or of no consequence.
    Other,
}

#[derive(Deserialize)]
struct Frame {
    event: String,
    #[serde(default)]
    start: Option<Start>,
    #[serde(default)]
    media: Option<Media>,
    #[serde(default)]
    mark: Option<Mark>,
    #[serde(default)]
    dtmf: Option<Dtmf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    stream_sid: String,
    call_sid: String,
    #[serde(default)]
    media_format: Format,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Format {
    encoding: String,
    sample_rate: u64,
    channels: u64,
}

#[derive(Deserialize)]
struct Media {
    #[serde(default)]
    track: Option<String>,
    payload: String,
}

#[derive(Deserialize)]
struct Mark {
    name: String,
}

#[derive(Deserialize)]
struct Dtmf {
    digit: String,
}

impl LineFrame {
    /// Reads a frame; none where it is no frame of a carrier.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > LINE_FRAME_BYTES_MAX {
            return None;
        }
        let frame: Frame = serde_json::from_str(text).ok()?;
        Some(match frame.event.as_str() {
            "connected" => Self::Connected,
            "start" => {
                let Start { stream_sid: stream, call_sid: call, media_format: format } = frame.start?;
                let is_telephone =
                    format.encoding == "audio/x-mulaw" && format.sample_rate == 8_000 && format.channels == 1;
                Self::Start { stream, call, is_telephone }
            }
            "media" => {
                let Media { track, payload } = frame.media?;
                match track.as_deref() {
                    // What the caller hears comes back to those who ask for it.
                    Some("outbound") => Self::Other,
                    Some(_) | None => Self::Sound(payload),
                }
            }
            "mark" => Self::Mark(frame.mark?.name),
            "dtmf" => Self::Key(frame.dtmf?.digit),
            "stop" => Self::Stop,
            _ => Self::Other,
        })
    }
}

/// Sound for the caller, in base64.
pub(super) fn sound(stream: &str, payload: &str) -> String {
    json!({ "event": "media", "streamSid": stream, "media": { "payload": payload } }).to_string()
}

/// What comes back once all that was sent before it was played.
pub(super) fn mark(stream: &str, name: &str) -> String {
    json!({ "event": "mark", "streamSid": stream, "mark": { "name": name } }).to_string()
}

/// What was sent and not played is given up.
pub(super) fn clear(stream: &str) -> String {
    json!({ "event": "clear", "streamSid": stream }).to_string()
}

/// How many bytes a text of base64 stands for; none where it is none, or is nothing.
pub(super) fn bytes(payload: &str) -> Option<u64> {
    let plain = payload.trim_end_matches('=');
    let padding = payload.len() - plain.len();
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    if plain.is_empty() || !payload.len().is_multiple_of(4) || padding > 2 || !plain.bytes().all(is_one) {
        return None;
    }
    u64::try_from(payload.len() / 4 * 3 - padding).ok()
}
