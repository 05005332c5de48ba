//! The caller and the live model of a script, as a machine of time and commands.

use std::collections::{BTreeSet, VecDeque};

use dalsegno_core::{CallRequest, CommandKind, EndedBy, LiveCommand, LiveNews, OperationId, ResponseEnd};

use super::script::{LiveAsk, LiveScript, LiveTurn};

/// How long the caller waits at the end for something more to hear, in milliseconds.
const LAST_PAUSE_MS: u64 = 300;

/// What the live model says where it is told to say something that the script has no words for.
const OWN_WORDS: &str = "One moment, please.";

/// The caller and the live model of a script. Times are milliseconds of a clock that the caller of its methods chooses.
#[derive(Debug, Clone)]
pub struct LiveTwin {
    turns: VecDeque<LiveTurn>,
    news: Vec<LiveNews>,
    connected: bool,
    /// When the turn before ended.
    since: u64,
    active: Option<Active>,
    /// A response is to begin.
    due: Option<Due>,
    responses: u32,
    calls: u32,
    /// Calls without an output.
    open: BTreeSet<String>,
    /// There are outputs or notes that no response has read.
    unread: bool,
    /// The commands that the session has.
    known: BTreeSet<OperationId>,
    lost_until: Option<u64>,
    /// The caller was about to speak when the response was interrupted.
    interrupts: bool,
    heard_anything: bool,
    /// The process has died, and its driver has not seen to it.
    died: bool,
    over: bool,
}

#[derive(Debug, Clone)]
struct Active {
    response: String,
    until: u64,
    end: ResponseEnd,
    text: String,
    heard_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    /// The caller has had a turn.
    Turn,
    /// A command asks for it; with words of its own if it was told what to say.
    Asked(OperationId, bool),
}

impl LiveTwin {
    /// The beginning of a call.
    pub fn new(script: LiveScript) -> Self {
        Self {
            turns: script.turns.into(),
            news: Vec::new(),
            connected: false,
            since: 0,
            active: None,
            due: None,
            responses: 0,
            calls: 0,
            open: BTreeSet::new(),
            unread: false,
            known: BTreeSet::new(),
            lost_until: None,
            interrupts: false,
            heard_anything: false,
            died: false,
            over: false,
        }
    }

    /// Says whether the call is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The turns that were not taken.
    pub fn turns_left(&self) -> usize {
        self.turns.len()
    }

    /// Says whether the caller waits to hear something: there is silence, and a result is not there or was not spoken of.
    pub fn is_awaited(&self) -> bool {
        let owes = !self.open.is_empty() || self.unread || self.due.is_some();
        owes && self.active.is_none() && self.lost_until.is_none() && !self.over
    }

    /// Says once that the process which carries the call has died: what it has not recorded is lost with it, and the news after this
    /// are those that the next process hears.
    pub fn died(&mut self) -> bool {
        std::mem::take(&mut self.died)
    }

    /// Takes a command. One that comes while the connection is lost is lost; one that the session has already is acknowledged and
    /// nothing else.
    pub fn take(&mut self, command: &LiveCommand) {
        if self.lost_until.is_some() || self.over {
            return;
        }
        let id = command.id;
        if self.known.contains(&id) {
            self.news.push(LiveNews::Taken { command: id });
            return;
        }
        match &command.kind {
            CommandKind::Respond { .. } if self.active.is_some() || self.due.is_some() => {
                let (code, message) = ("busy".to_owned(), "a response is active".to_owned());
                self.news.push(LiveNews::Refused { command: id, code, message });
                return;
            }
            CommandKind::Respond { instructions, .. } => {
                self.due = Some(Due::Asked(id, instructions.is_some()));
            }
            CommandKind::Output { call_id, .. } => {
                self.open.remove(call_id);
                self.unread = true;
            }
            CommandKind::Note { .. } => self.unread = true,
            CommandKind::Session { .. } | CommandKind::Answer { .. } => {}
            CommandKind::Close { reason } => {
                self.news.push(LiveNews::Taken { command: id });
                self.end(EndedBy::Agent, reason);
                return;
            }
        }
        self.known.insert(id);
        self.news.push(LiveNews::Taken { command: id });
    }

    /// Lets time pass until now, and returns what happened since it was asked last.
    pub fn advance(&mut self, now: u64) -> Vec<LiveNews> {
        if !self.connected {
            self.connected = true;
            self.since = now;
            self.news.push(LiveNews::Connected);
        }
        while !self.over && !self.died && self.go_on(now) {}
        std::mem::take(&mut self.news)
    }

    /// When something happens by itself; none where only a command moves the call on.
    pub fn wakes_at(&self) -> Option<u64> {
        if self.over || !self.connected {
            return None;
        }
        if let Some(until) = self.lost_until {
            return Some(until);
        }
        if let Some(active) = &self.active {
            return Some(active.until);
        }
        self.next_at()
    }

    /// When the next turn is to be taken that needs no response.
    fn next_at(&self) -> Option<u64> {
        let is_quiet = self.open.is_empty() && !self.unread && self.due.is_none();
        match self.turns.front() {
            Some(LiveTurn::Model { .. }) => None,
            Some(LiveTurn::Caller { after: Some(after), .. }) => Some(self.since + after),
            Some(LiveTurn::Caller { after: None, .. }) => (is_quiet || self.interrupts).then_some(self.since),
            Some(
                LiveTurn::Digits { after, .. }
                | LiveTurn::Drop { after, .. }
                | LiveTurn::Kill { after, .. }
                | LiveTurn::HangUp { after },
            ) => Some(self.since + after),
            None => is_quiet.then_some(self.since + LAST_PAUSE_MS),
        }
    }

    /// One thing that happens by now; whether there was one.
    fn go_on(&mut self, now: u64) -> bool {
        if let Some(until) = self.lost_until {
            if until > now {
                return false;
            }
            self.lost_until = None;
            self.since = until;
            self.news.push(LiveNews::Attached);
            return true;
        }
        if let Some(active) = self.active.take_if(|active| active.until <= now) {
            self.end_response(active);
            return true;
        }
        if self.active.is_none()
            && let Some(due) = self.due.take()
        {
            self.begin_response(due, now);
            return true;
        }
        if self.active.is_some() || self.next_at().is_none_or(|at| at > now) {
            return false;
        }
        match self.turns.pop_front() {
            Some(LiveTurn::Caller { text, .. }) => {
                if !self.interrupts {
                    self.news.push(LiveNews::SpeechStarted);
                }
                self.interrupts = false;
                self.news.extend([LiveNews::SpeechStopped, LiveNews::Heard { text }]);
                self.heard_anything = true;
                self.due = Some(Due::Turn);
            }
            Some(LiveTurn::Digits { digits, .. }) => {
                self.news.extend(digits.chars().map(|digit| LiveNews::Digit { digit }));
            }
            Some(LiveTurn::Drop { lasts, .. }) => {
                self.news.push(LiveNews::Lost { reason: "the script drops it".to_owned() });
                self.lost_until = Some(now + lasts);
            }
            Some(LiveTurn::Kill { lasts, .. }) => {
                self.died = true;
                self.lost_until = Some(now + lasts);
            }
            Some(LiveTurn::HangUp { .. }) | None => self.end(EndedBy::Caller, "hung up"),
            Some(turn @ LiveTurn::Model { .. }) => self.turns.push_front(turn),
        }
        self.since = now;
        true
    }

    fn begin_response(&mut self, due: Due, now: u64) {
        let is_told = matches!(due, Due::Asked(_, true));
        // What the model is told to say has words of its own, unless it is the first thing that anybody says.
        let is_scripted =
            matches!(self.turns.front(), Some(LiveTurn::Model { .. })) && (!is_told || !self.heard_anything);
        let (text, calls, lasts, interrupt) = match is_scripted.then(|| self.turns.pop_front()).flatten() {
            Some(LiveTurn::Model { text, calls, lasts, interrupt }) => (text, calls, lasts, interrupt),
            _ if is_told => (OWN_WORDS.to_owned(), Vec::new(), 0, None),
            _ => (String::new(), Vec::new(), 0, None),
        };
        self.responses += 1;
        let response = format!("response-{}", self.responses);
        let command = match due {
            Due::Turn => None,
            Due::Asked(command, _) => Some(command),
        };
        self.unread = false;
        self.heard_anything = true;
        self.news.push(LiveNews::ResponseBegan { response: response.clone(), command });
        for call in calls {
            self.ask(&response, call);
        }
        let (end, heard_ms) = match interrupt {
            Some(after) => (ResponseEnd::Interrupted, Some(after)),
            None => (ResponseEnd::Completed, None),
        };
        let until = now + interrupt.unwrap_or(lasts);
        self.active = Some(Active { response, until, end, text, heard_ms });
    }

    fn ask(&mut self, response: &str, call: LiveAsk) {
        self.calls += 1;
        let call_id = call.call_id.unwrap_or_else(|| format!("call-{}", self.calls));
        self.open.insert(call_id.clone());
        let call =
            CallRequest { call_id, name: call.tool, arguments: call.arguments.to_string(), validation: None };
        self.news.push(LiveNews::Asked { response: response.to_owned(), call });
    }

    fn end_response(&mut self, active: Active) {
        let Active { response, until, end, text, heard_ms } = active;
        self.since = until;
        let is_lost = matches!(self.turns.front(), Some(LiveTurn::Drop { .. } | LiveTurn::Kill { .. }));
        if end == ResponseEnd::Interrupted && is_lost {
            // How much of it was said, and how it ended, is never heard of.
            return;
        }
        if end == ResponseEnd::Interrupted && matches!(self.turns.front(), Some(LiveTurn::HangUp { .. })) {
            self.news.push(LiveNews::Said { text, heard_ms });
            return;
        }
        if end == ResponseEnd::Interrupted {
            self.interrupts = true;
            self.news.push(LiveNews::SpeechStarted);
        }
        if !text.is_empty() {
            self.news.push(LiveNews::Said { text, heard_ms });
        }
        self.news.push(LiveNews::ResponseEnded { response: response.clone(), end });
        if end == ResponseEnd::Completed {
            self.news.push(LiveNews::Played { response });
        } else if !matches!(self.turns.front(), Some(LiveTurn::Caller { .. })) {
            // No words of the caller follow.
            self.interrupts = false;
            self.news.push(LiveNews::SpeechStopped);
        }
    }

    fn end(&mut self, by: EndedBy, reason: &str) {
        self.over = true;
        self.news.push(LiveNews::Ended { by, reason: reason.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twin(script: &str) -> LiveTwin {
        LiveTwin::new(script.parse().unwrap())
    }

    fn kinds(news: &[LiveNews]) -> Vec<&'static str> {
        news.iter().map(LiveNews::kind).collect()
    }

    fn command(number: u8, kind: CommandKind) -> LiveCommand {
        LiveCommand { id: OperationId::from_bytes([number; 16]), kind }
    }

    fn respond() -> CommandKind {
        CommandKind::Respond { instructions: None, tools: true }
    }

    #[test]
    fn a_call_goes_through_its_turns_as_the_results_come() {
        let mut twin = twin(
            r#"
            [[turns]]
            caller = "a table?"
            [[turns]]
            model = "I look."
            calls = [{ tool = "book.find" }]
            [[turns]]
            model = "There is."
            "#,
        );
        let began = twin.advance(5);
        let expected = [
            "connected",
            "speech_started",
            "speech_stopped",
            "heard",
            "response_began",
            "asked",
            "said",
            "response_ended",
            "played",
        ];
        assert_eq!(kinds(&began), expected);
        assert_eq!(twin.wakes_at(), None, "the result is waited for");
        let output = CommandKind::Output { call_id: "call-1".into(), content: "yes".into() };
        twin.take(&command(1, output));
        twin.take(&command(2, respond()));
        assert_eq!(
            kinds(&twin.advance(90)),
            ["taken", "taken", "response_began", "said", "response_ended", "played"]
        );
        twin.take(&command(2, respond()));
        assert_eq!(kinds(&twin.advance(91)), ["taken"], "once is enough");
        let end = twin.wakes_at().unwrap();
        assert_eq!(kinds(&twin.advance(end)), ["ended"]);
        assert!(twin.is_over() && twin.turns_left() == 0);
    }

    #[test]
    fn an_interruption_comes_in_its_time_and_says_the_next_turn() {
        let mut twin = twin(
            r#"
            [[turns]]
            caller = "a"
            [[turns]]
            model = "A long story."
            interrupt = "400ms"
            [[turns]]
            caller = "stop"
            [[turns]]
            model = "Yes?"
            "#,
        );
        twin.advance(0);
        assert_eq!(twin.wakes_at(), Some(400));
        let cut = twin.advance(400);
        let expected = [
            "speech_started",
            "said",
            "response_ended",
            "speech_stopped",
            "heard",
            "response_began",
            "said",
            "response_ended",
            "played",
        ];
        assert_eq!(kinds(&cut), expected);
        assert!(cut.contains(&LiveNews::Said { text: "A long story.".into(), heard_ms: Some(400) }));
    }

    #[test]
    fn what_is_sent_while_the_connection_is_lost_is_lost() {
        let mut twin = twin("[[turns]]\ndrop = \"2s\"\n");
        assert_eq!(kinds(&twin.advance(0)), ["connected", "lost"]);
        twin.take(&command(1, CommandKind::Note { text: "x".into() }));
        assert_eq!(twin.wakes_at(), Some(2_000));
        assert_eq!(kinds(&twin.advance(2_000)), ["attached"]);
    }

    #[test]
    fn a_second_response_is_refused_while_one_is_active() {
        let mut twin = twin("[[turns]]\ncaller = \"a\"\n[[turns]]\nmodel = \"b\"\nfor = \"1s\"\n");
        twin.advance(0);
        twin.take(&command(1, respond()));
        assert_eq!(kinds(&twin.advance(1)), ["refused"]);
    }

    #[test]
    fn a_response_that_is_cut_off_by_a_loss_is_never_heard_of() {
        let told = "[[turns]]\ncaller = \"a\"\n[[turns]]\nmodel = \"b\"\ninterrupt = \"1s\"\n";
        let mut dropped = twin(&format!("{told}[[turns]]\ndrop = \"2s\"\n"));
        dropped.advance(0);
        assert_eq!(kinds(&dropped.advance(1_000)), ["lost"]);
        assert_eq!(kinds(&dropped.advance(3_000)), ["attached"]);
        let mut left = twin(&format!("{told}[[turns]]\nhang_up = \"1ms\"\n"));
        left.advance(0);
        assert_eq!(kinds(&left.advance(1_001)), ["said", "ended"]);
    }

    #[test]
    fn a_death_is_said_once_and_what_comes_after_it_waits() {
        let turns = vec![LiveTurn::Kill { lasts: 0, after: 5 }];
        let mut twin = LiveTwin::new(LiveScript::of_turns(turns));
        assert_eq!(kinds(&twin.advance(0)), ["connected"]);
        assert!(!twin.died());
        assert_eq!(kinds(&twin.advance(5)), [""; 0]);
        assert!(twin.died() && !twin.died());
        assert_eq!(kinds(&twin.advance(5)), ["attached"]);
    }

    #[test]
    fn what_is_asked_for_is_awaited_until_it_is_spoken_of() {
        let script = "[[turns]]\ncaller = \"a\"\n[[turns]]\nmodel = \"b\"\ncalls = [{ tool = \"x.y\" }]\n";
        let mut twin = twin(script);
        twin.advance(0);
        assert!(twin.is_awaited());
        twin.take(&command(1, CommandKind::Output { call_id: "call-1".into(), content: "yes".into() }));
        assert!(twin.is_awaited(), "it was not spoken of");
        twin.take(&command(2, respond()));
        twin.advance(1);
        assert!(!twin.is_awaited());
    }

    #[test]
    fn a_turn_is_one_thing() {
        for (script, expected) in [
            ("[[turns]]\n", "turn 1 of the script says nothing"),
            ("[[turns]]\ncaller = \"a\"\nmodel = \"b\"", "turn 1 of the script is several turns"),
            ("[[turns]]\ncaller = \"a\"\ninterrupt = \"1s\"", "only a turn of the live model"),
            ("[[turns]]\nmodel = \"a\"\nafter = \"1s\"", "only the caller's turns"),
            ("[[turns]]\ndrop = \"soon\"", "`soon` is not a time"),
            ("[[turns]]\nhang_up = \"61m\"", "up to 60m"),
            ("[[turns]]\nkill = \"1s\"", "has `kill`, which only cases of `dalsegno test` have"),
            ("[[turns]]\nshout = \"a\"", "unknown field `shout`"),
        ] {
            let error = script.parse::<LiveScript>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
