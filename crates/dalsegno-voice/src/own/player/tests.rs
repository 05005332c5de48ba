//! The agent's own model as the live model of a session, on virtual time.

use dalsegno_core::{CommandKind, Entry, LiveCommand, LiveNews, OperationId, ResponseEnd};
use dalsegno_realtime::{LiveSession, ModelSession as _, Settings};

use super::*;

/// A player and the session that it is the provider of, on one clock.
struct Call {
    player: Player,
    session: LiveSession,
    news: Vec<LiveNews>,
    asked: Vec<Question>,
    drops: usize,
    now: u64,
}

impl Call {
    fn new(word_ms: u64) -> Self {
        let mut session = LiveSession::new(Settings::default());
        session.connected(0);
        let player = Player::new("s1".into(), word_ms);
        let mut call = Self { player, session, news: Vec::new(), asked: Vec::new(), drops: 0, now: 0 };
        call.settle();
        call
    }

    /// Carries frames until there are none.
    fn settle(&mut self) {
        while let Some(frame) = self.player.next_frame() {
            let output = self.session.frame(self.now, &frame);
            self.perform(output);
        }
    }

    fn perform(&mut self, output: dalsegno_realtime::Output) {
        self.news.extend(output.news);
        for frame in output.frames {
            match self.player.take(self.now, &frame) {
                Some(Wish::Ask(question)) => self.asked.push(*question),
                Some(Wish::Drop) => self.drops += 1,
                None => {}
            }
        }
    }

    fn says(&mut self, words: &str) {
        let output = self.session.say(self.now, words);
        self.perform(output);
        self.settle();
    }

    fn commands(&mut self, number: u8, kind: CommandKind) {
        let command = LiveCommand { id: OperationId::from_bytes([number; 16]), kind };
        let output = self.session.command(self.now, &command);
        self.perform(output);
        self.settle();
    }

    fn hears(&mut self, attempt: u32, words: &str) {
        self.player.hear(self.now, attempt, words);
        self.settle();
    }

    fn replies(&mut self, reply: ModelReply) {
        self.player.replied(self.now, Ok(reply));
        self.settle();
    }

    /// Lets time pass.
    fn until(&mut self, now: u64) {
        while let Some(at) = self.player.wakes_at().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.player.tick(self.now);
            self.settle();
        }
        self.now = now;
    }

    fn spoken(&mut self) -> String {
        self.player.take_spoken().concat()
    }

    fn kinds(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.news).iter().map(LiveNews::kind).collect()
    }

    /// What the model was asked last, as text.
    fn read(&self) -> Vec<String> {
        let words = self.asked.last().unwrap().transcript.iter().map(|entry| match entry {
            Entry::Instructions(text) | Entry::User(text) => text.clone(),
            Entry::Assistant(reply) => reply.text(),
            Entry::ToolResult { call_id, content, .. } => format!("{call_id}: {content}"),
            other => format!("{other:?}"),
        });
        words.collect()
    }
}

fn text(words: &str) -> ModelReply {
    let mut reply = ModelReply::new(vec![ReplyPart::Text(words.to_owned())], StopReason::End);
    (reply.input_tokens, reply.output_tokens) = (50, 5);
    reply
}

fn asking(words: &str, names: &[&str]) -> ModelReply {
    let mut reply = text(words);
    reply.stop = StopReason::ToolCalls;
    reply.parts.extend(names.iter().map(|name| {
        let (call_id, name, arguments) = ("theirs".to_owned(), (*name).to_owned(), "{}".to_owned());
        ReplyPart::Call(CallRequest { call_id, name, arguments, validation: None })
    }));
    reply
}

#[test]
fn words_are_spoken_at_their_pace_and_the_response_ends_after_the_last_one() {
    let mut call = Call::new(300);
    call.says("Hello?");
    assert_eq!(call.kinds(), ["connected", "speech_started", "speech_stopped", "heard", "response_began"]);
    call.hears(1, "One two th");
    assert_eq!(call.spoken(), "One ");
    call.until(700);
    assert_eq!(call.spoken(), "two ", "the third has not arrived whole");
    call.hears(1, "ree");
    call.replies(text("One two three"));
    assert_eq!(call.spoken(), "three");
    assert_eq!(call.kinds(), [""; 0], "it is still being spoken");
    call.until(1_300);
    assert_eq!(call.kinds(), ["counted", "said", "response_ended", "played"]);
    assert!(call.session.is_quiet());
}

#[test]
fn a_model_that_does_not_stream_is_spoken_as_well_and_without_a_pace_at_once() {
    let mut call = Call::new(0);
    call.says("Hello?");
    call.replies(text("Good evening."));
    assert_eq!(call.spoken(), "Good evening.");
    assert!(call.news.contains(&LiveNews::Said { text: "Good evening.".into(), heard_ms: None }));
    let tokens = LiveTokens { input: 50, output: 5, ..LiveTokens::default() };
    assert!(
        call.news.iter().any(|news| matches!(news, LiveNews::Counted { tokens: it, .. } if *it == tokens))
    );
}

#[test]
fn the_caller_interrupts_and_the_model_knows_how_far_it_came() {
    let mut call = Call::new(300);
    call.says("A story, please.");
    call.hears(1, "Once upon a time there ");
    call.until(700);
    call.news.clear();
    call.says("Stop.");
    assert_eq!(call.drops, 1, "the model is not waited for");
    let kinds = call.kinds();
    assert_eq!(
        kinds,
        ["speech_started", "counted", "said", "response_ended", "speech_stopped", "heard", "response_began"]
    );
    assert_eq!(call.read(), ["A story, please.", "Once upon a […]", "Stop."]);
    call.replies(text("Yes."));
    call.until(2_000);
    assert!(call.news.contains(&LiveNews::Said { text: "Yes.".into(), heard_ms: None }), "{:?}", call.news);
}

#[test]
fn what_an_interrupted_response_took_is_estimated() {
    let mut call = Call::new(300);
    call.says("A story, please.");
    call.hears(1, "Once upon a time ");
    assert!(call.player.taken().is_some());
    call.says("Stop.");
    let counted = call.news.iter().find_map(|news| match news {
        LiveNews::Counted { tokens, .. } => Some(*tokens),
        _ => None,
    });
    let tokens = counted.unwrap();
    assert!(tokens.estimated && tokens.input > 0 && tokens.output > 0, "{tokens:?}");
}

#[test]
fn only_a_whole_reply_asks_for_tools_and_does_so_before_its_words_are_spoken() {
    let mut call = Call::new(300);
    call.says("Note it.");
    call.hears(1, "I note it, ");
    call.news.clear();
    call.replies(asking("I note it, one moment.", &["a", "b"]));
    assert_eq!(call.kinds(), ["asked", "asked"]);
    call.until(3_000);
    assert_eq!(call.kinds(), ["counted", "said", "response_ended", "played"]);
    for (stop, name) in [(StopReason::Length, "cut off"), (StopReason::Refusal, "withheld")] {
        let mut call = Call::new(0);
        call.says("Note it.");
        call.replies(ModelReply { stop, ..asking("I", &["a"]) });
        assert!(!call.news.iter().any(|news| matches!(news, LiveNews::Asked { .. })), "{name}");
        let end = ResponseEnd::Failed;
        assert!(
            call.news
                .iter()
                .any(|news| matches!(news, LiveNews::ResponseEnded { end: it, .. } if *it == end)),
            "{name}"
        );
        call.says("And?");
        assert!(
            !call.read().concat().contains("theirs"),
            "{name}: a call that no one heard of has no output"
        );
    }
}

#[test]
fn ids_of_the_call_are_its_own_and_the_model_reads_the_ones_that_it_gave() {
    let mut call = Call::new(0);
    call.says("Note it.");
    call.replies(asking("", &["a", "a"]));
    let ids = |news: &[LiveNews]| -> Vec<String> {
        let ids = news.iter().filter_map(|news| match news {
            LiveNews::Asked { call, .. } => Some(call.call_id.clone()),
            _ => None,
        });
        ids.collect()
    };
    let asked = ids(&call.news);
    assert_eq!(asked, ["call-s1-1", "call-s1-2"]);
    call.commands(1, CommandKind::Output { call_id: asked[0].clone(), content: "done".into() });
    call.says("And?");
    let read = call.read();
    assert_eq!(read[2], "theirs: done");
    assert!(read[3].starts_with("theirs: {") && read[3].contains("running"), "{read:?}");
}

#[test]
fn what_is_told_for_one_response_is_not_read_by_the_next() {
    let mut call = Call::new(0);
    call.commands(1, CommandKind::Session { instructions: "Be kind.".into() });
    call.commands(2, CommandKind::Respond { instructions: Some("Greet.".into()), tools: false });
    assert_eq!(call.read(), ["Be kind.", "[Greet.]"]);
    assert!(!call.asked[0].tools);
    call.replies(text("Good evening."));
    call.commands(3, CommandKind::Note { text: "It rains.".into() });
    call.commands(4, CommandKind::Respond { instructions: None, tools: true });
    assert_eq!(call.read(), ["Be kind.", "Good evening.", "[It rains.]"]);
    assert!(call.asked[1].tools);
}

#[test]
fn a_later_attempt_voids_the_words_of_the_one_before() {
    let mut call = Call::new(300);
    call.says("Hello?");
    call.hears(1, "Good even ");
    call.hears(2, "Hello ");
    call.hears(1, "late words ");
    call.replies(text("Hello there."));
    call.until(9_000);
    assert!(call.news.contains(&LiveNews::Said { text: "Hello there.".into(), heard_ms: None }));
    assert!(!call.spoken().contains("late"));
}

#[test]
fn a_model_that_fails_ends_the_call_with_its_reason() {
    let mut call = Call::new(0);
    call.says("Hello?");
    call.player.replied(0, Err("the model `m`: no key".into()));
    call.settle();
    assert!(call.session.is_over());
    let ended =
        |news: &LiveNews| matches!(news, LiveNews::Ended { reason, .. } if reason == "the model `m`: no key");
    assert!(call.news.iter().any(ended), "{:?}", call.news);
}

#[test]
fn a_wish_in_the_middle_of_a_response_is_refused_and_one_cancel_too_many_is_of_no_consequence() {
    let mut player = Player::new("s1".into(), 0);
    let wish = r#"{"type":"response.create","event_id":"e1","response":{}}"#;
    assert!(player.take(0, wish).is_some());
    assert!(player.take(0, wish).is_none());
    assert!(player.take(0, r#"{"type":"response.cancel","event_id":"e2"}"#).is_some());
    assert!(player.take(0, r#"{"type":"response.cancel","event_id":"e3"}"#).is_none());
    assert!(player.take(0, "no JSON").is_none());
    let frames: Vec<String> = std::iter::from_fn(|| player.next_frame()).collect();
    let text = frames.join("\n");
    assert!(text.contains("conversation_already_has_active_response") && text.contains("\"e1\""), "{text}");
    assert!(text.contains("response_cancel_not_active") && text.contains("\"e3\""), "{text}");
}
