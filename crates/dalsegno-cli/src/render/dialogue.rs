//! What is said in a call.

use dalsegno_core::{EndedBy, LiveNews, ResponseEnd};

use super::text::{Style, Words, brief, styled};

/// The lines that news of a call makes; none for what is not heard.
pub(crate) fn lines(news: &LiveNews, room: usize) -> Option<Words> {
    let aside =
        |text: String| Some(Words::from("  ").and(styled(Style::Dim, brief(&text, room.saturating_sub(4)))));
    match news {
        LiveNews::Heard { text } => Some(styled(Style::Bold, "caller").and(": ").and(text)),
        LiveNews::Said { text, heard_ms } => {
            let cut = heard_ms.map(|heard_ms| format!(" (cut off after {heard_ms} ms)"));
            let line = styled(Style::Cyan, "agent").and(": ").and(text);
            Some(line.and(styled(Style::Dim, cut.unwrap_or_default())))
        }
        LiveNews::Asked { call, .. } => aside(format!("asks for {} {}", call.name, call.arguments)),
        LiveNews::Digit { digit } => aside(format!("the caller presses {digit}")),
        LiveNews::Lost { reason } => aside(format!("the connection is lost: {reason}")),
        LiveNews::Attached => aside("the connection is there again".to_owned()),
        LiveNews::Refused { code, message, .. } => {
            aside(format!("the session refuses a command: {code}: {message}"))
        }
        LiveNews::ResponseEnded { end: ResponseEnd::Failed, .. } => aside("the response failed".to_owned()),
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
        | LiveNews::Withdrawn { .. }
        | LiveNews::Taken { .. }
        | LiveNews::Played { .. }
        | LiveNews::Woke => None,
    }
}
