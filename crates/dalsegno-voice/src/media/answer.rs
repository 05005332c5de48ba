//! What a carrier is to do with a call, in the form of Twilio's TwiML, which others have as well.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use dalsegno_core::{AgentState, Outcome, Request, RunId};
use dalsegno_history::Fold;
use dalsegno_runtime::{Conversation, Engine, EngineError, RunHandle};

use super::Wish;
use crate::headers::Ringing;
use crate::line::LineError;
use crate::telephones::{BUSY, Begun, NOT_FOUND, RingingLine, Telephones};

/// How long after the last record of a call another socket for it is asked for, in milliseconds: one that is lost at once is not
/// asked for again and again.
const AGAIN_MS: u64 = 1_000;

/// How a carrier asks again: five times, after any failure, until a process answers.
const AGAIN: &str = "#rc=5&amp;rp=all";

/// What a carrier is to do with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Open a socket for its sound, and ask again once that is closed.
    Stream,
    /// Wait a second, and ask again.
    Wait,
    /// Connect the caller with this address.
    Dial(String),
    /// Hang up.
    HangUp,
    /// Not answer: the number has no agent.
    Reject,
    /// Not answer: the line has no room.
    Busy,
    /// Ask elsewhere: this process takes no calls now.
    Unavailable,
}

/// What a carrier dials for an address: the verb and its object.
pub(super) fn dialled(target: &str) -> Option<(&'static str, &str)> {
    let (scheme, rest) = target.split_once(':')?;
    if scheme.eq_ignore_ascii_case("tel") {
        let digits = rest.strip_prefix('+').unwrap_or(rest);
        let is_number = (2..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then_some(("Number", rest));
    }
    let is_address = ["sip", "sips"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_address.then_some(("Sip", target))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            one => escaped.push(one),
        }
    }
    escaped
}

impl Answer {
    /// The answer as a document: `socket` is where the sound of the call is taken, `again` where to ask again.
    pub fn document(&self, socket: &str, again: &str) -> String {
        let again = format!("<Redirect method=\"POST\">{}{AGAIN}</Redirect>", escaped(again));
        let mut document = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response>".to_owned();
        // Writing to a text does not fail.
        let _ = match self {
            Self::Stream => {
                let socket = escaped(socket);
                write!(document, "<Connect><Stream url=\"{socket}\"/></Connect>{again}")
            }
            Self::Wait => write!(document, "<Pause length=\"1\"/>{again}"),
            Self::Dial(target) => match dialled(target) {
                Some((verb, object)) => {
                    write!(document, "<Dial><{verb}>{}</{verb}></Dial>", escaped(object))
                }
                None => write!(document, "<Hangup/>"),
            },
            Self::HangUp => write!(document, "<Hangup/>"),
            Self::Busy => write!(document, "<Reject reason=\"busy\"/>"),
            Self::Reject | Self::Unavailable => write!(document, "<Reject reason=\"rejected\"/>"),
        };
        document.push_str("</Response>");
        document
    }
}

impl Telephones {
    /// A carrier asks what to do with a call: it rings, or the socket of its sound was closed. When it rings, its run is written down
    /// when this returns; the run then waits for the socket.
    ///
    /// # Errors
    /// When there is no such line, or nothing can be read or written down.
    pub async fn answer(
        &self,
        engine: &Engine,
        line: &str,
        ringing: &Ringing,
        is_stopping: bool,
    ) -> Result<(Answer, Option<Box<RunHandle>>), LineError> {
        let line = self.line(line)?;
        Ok(match self.begin(engine, line, ringing, is_stopping).await? {
            Begun::Here(conversation, room) => {
                self.callers.expect(&line.name, &ringing.call_id, room);
                // It is let go of: the process that the socket comes to attaches to it.
                let Conversation { handle, news: _, commands: _, stay: _ } = *conversation;
                (Answer::Stream, Some(Box::new(handle)))
            }
            Begun::Known(_) if is_stopping => (Answer::Wait, None),
            Begun::Known(run) => (self.again(engine, line, &ringing.call_id, run).await?, None),
            Begun::Begins => (Answer::Wait, None),
            Begun::Rejected(NOT_FOUND) => (Answer::Reject, None),
            Begun::Rejected(BUSY) => (Answer::Busy, None),
            Begun::Rejected(_) => (Answer::Unavailable, None),
        })
    }

    /// What follows for a call that was begun before.
    async fn again(
        &self,
        engine: &Engine,
        line: &RingingLine,
        call: &str,
        run: RunId,
    ) -> Result<Answer, LineError> {
        let journal = engine.journal();
        let read = async {
            if journal.summary(run).await?.status.is_end() {
                return Ok(None);
            }
            let config = journal.configuration(run).await?;
            let fold = journal.fold_from_snapshot(run, &config).await?;
            Ok(Some((config, fold)))
        };
        let Some((config, fold)) = read.await.map_err(EngineError::History)? else {
            return Ok(Answer::HangUp);
        };
        let state = fold.state().caught_up(&config);
        if state.live().is_some_and(dalsegno_core::Live::is_over) {
            return Ok(Answer::HangUp);
        }
        if let Some(target) = transfer_of(&state, &fold) {
            // Where the caller is not here, the end of the call shows by itself.
            let _ = self.callers.tell(&line.name, call, Wish::IsDialled);
            return Ok(Answer::Dial(target));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let has_begun = state.live().is_some_and(dalsegno_core::Live::has_begun);
        let is_recent = now.saturating_sub(state.now().as_millis()) < AGAIN_MS;
        // Where the call is here, it waits for the socket.
        let waits = has_begun && is_recent && !self.callers.is_here(&line.name, call);
        Ok(if waits { Answer::Wait } else { Answer::Stream })
    }
}

/// Where a call is being transferred: that was asked for, as far as the journal knows.
fn transfer_of(state: &AgentState, fold: &Fold) -> Option<String> {
    if let Some(target) = state.live().and_then(dalsegno_core::Live::transfer_to) {
        return Some(target.to_owned());
    }
    state.pending().iter().find_map(|pending| {
        let Request::Transfer(transfer) = &pending.operation.request else { return None };
        let is_asked = match &pending.outcome {
            None => fold.progress.get(&pending.operation.id).is_some_and(|progress| progress.started),
            Some(outcome) => matches!(outcome, Outcome::TransferRequested),
        };
        is_asked.then(|| transfer.target.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_document_that_nothing_in_it_can_leave() {
        let document =
            |answer: Answer| answer.document("wss://a.example/voice/front/calls/1/CA\"1", "/voice/a&b");
        let stream = document(Answer::Stream);
        assert!(
            stream.contains(
                "<Connect><Stream url=\"wss://a.example/voice/front/calls/1/CA&quot;1\"/></Connect>"
            )
        );
        assert!(
            stream
                .ends_with("<Redirect method=\"POST\">/voice/a&amp;b#rc=5&amp;rp=all</Redirect></Response>"),
            "{stream}"
        );
        let dial = |target: &str| document(Answer::Dial(target.to_owned()));
        assert!(dial("tel:+33140000000").contains("<Dial><Number>+33140000000</Number></Dial>"));
        assert!(
            dial("sip:a@b.example;x=<y>").contains("<Dial><Sip>sip:a@b.example;x=&lt;y&gt;</Sip></Dial>")
        );
        for wrong in
            ["tel:+33140000000;phone-context=evil.example", "tel:</Number>", "http://a.example", "tel:"]
        {
            assert!(dial(wrong).ends_with("<Response><Hangup/></Response>"), "{wrong}");
        }
        assert!(document(Answer::Busy).contains("<Reject reason=\"busy\"/>"));
        assert!(document(Answer::Wait).contains("<Pause length=\"1\"/><Redirect"));
    }
}
