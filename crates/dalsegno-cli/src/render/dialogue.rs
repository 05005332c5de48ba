//! What is said in a call.

use dalsegno_core::{EndedBy, LiveNews, ResponseEnd};

use super::output::Output;
use super::text::{Style, Words, brief, styled};

/// What is shown of words that are being spoken.
#[derive(Debug, Default)]
pub(crate) struct Speaking {
    /// The words so far, if some are shown whose end is not.
    words: Option<String>,
    /// What happened meanwhile: it is shown below them.
    held: Vec<LiveNews>,
}

impl Speaking {
    /// Shows a word of the live model.
    pub(crate) fn word(&mut self, word: &str, output: &mut Output) {
        let words = self.words.get_or_insert_with(|| {
            if output.stdout.mid_line {
                output.stdout.write("\n");
            }
            output.stdout.opening(styled(Style::Cyan, "agent").and(": "));
            String::new()
        });
        words.push_str(word);
        output.stdout.prose(word);
        output.stdout.flush();
    }

    /// Shows what happened. What was shown word by word is not shown again.
    pub(crate) fn tell(&mut self, news: &LiveNews, room: usize, output: &mut Output) {
        let ends = match news {
            LiveNews::Said { .. } | LiveNews::ResponseEnded { .. } | LiveNews::Ended { .. } => true,
            // A person sees the own words anyway; all else waits for the end of the line.
            _ if self.words.is_some() => {
                self.held.push(news.clone());
                return;
            }
            _ => false,
        };
        let mut shown = None;
        if let Some(words) = self.words.take_if(|_| ends) {
            if let LiveNews::Said { text, heard_ms } = news
                && let Some(rest) = text.strip_prefix(words.trim_end())
            {
                output.stdout.prose(rest.trim_end());
                output.stdout.write("\n");
                if let Some(cut) = cut_off(*heard_ms) {
                    output.stdout.line(Words::from(" ").and(styled(Style::Dim, cut)));
                }
                shown = Some(());
            } else {
                output.stdout.write("\n");
            }
        }
        if shown.is_none()
            && let Some(line) = lines(news, room)
        {
            output.stdout.line(line);
        }
        for held in std::mem::take(&mut self.held) {
            if let Some(line) = lines(&held, room) {
                output.stdout.line(line);
            }
        }
    }
}

fn cut_off(heard_ms: Option<u64>) -> Option<String> {
    heard_ms.map(|heard_ms| format!(" (cut off after {heard_ms} ms)"))
}

/// The lines that news of a call makes; none for what is not heard.
pub(crate) fn lines(news: &LiveNews, room: usize) -> Option<Words> {
    let aside =
        |text: String| Some(Words::from("  ").and(styled(Style::Dim, brief(&text, room.saturating_sub(4)))));
    match news {
        LiveNews::Heard { text } => Some(styled(Style::Bold, "caller").and(": ").and(text)),
        LiveNews::Said { text, heard_ms } => {
            let line = styled(Style::Cyan, "agent").and(": ").and(text);
            Some(line.and(styled(Style::Dim, cut_off(*heard_ms).unwrap_or_default())))
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
        | LiveNews::Counted { .. }
        | LiveNews::Withdrawn { .. }
        | LiveNews::Taken { .. }
        | LiveNews::Played { .. }
        | LiveNews::Woke => None,
    }
}
