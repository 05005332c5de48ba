//! What is said in a call.

use dalsegno_core::{LiveNews, Timestamp};
use dalsegno_history::{Moment, Speaker};

use super::output::{Output, Stream};
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
    Moment::of(Timestamp::default(), news).map(|moment| line(&moment, room))
}

/// The line of one moment of a call.
pub(crate) fn line(moment: &Moment, room: usize) -> Words {
    let Moment { by, words, note, .. } = moment;
    let note = note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    match by {
        Some(Speaker::Caller) => styled(Style::Bold, "caller").and(": ").and(words),
        Some(Speaker::Agent) => {
            styled(Style::Cyan, "agent").and(": ").and(words).and(styled(Style::Dim, note))
        }
        None => {
            let words = brief(&format!("{words}{note}"), room.saturating_sub(4));
            Words::from("  ").and(styled(Style::Dim, words))
        }
    }
}

/// A call as it went, each turn with its number.
pub(crate) fn timeline(moments: &[Moment], stream: &mut Stream) {
    let width = moments.iter().filter_map(|moment| moment.turn).max().unwrap_or_default().to_string().len();
    for moment in moments {
        let number = moment.turn.map(|turn| turn.to_string()).unwrap_or_default();
        let number = styled(Style::Dim, format_args!("  {number:>width$} "));
        let room = stream.terminal.room.saturating_sub(width + 3);
        stream.line(number.and(line(moment, room)));
    }
}
