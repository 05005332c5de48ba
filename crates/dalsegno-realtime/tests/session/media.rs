//! A session whose sound passes through, over a carrier that plays at the pace of a telephone and a provider that makes sound faster.

use std::collections::VecDeque;

use dalsegno_core::{CommandKind, LiveCommand, LiveNews, OperationId};
use dalsegno_realtime::{LineFrame, LiveSession, MediaSession, ModelSession as _, Output, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::settings;

/// What a carrier has to play.
enum Queued {
    /// Milliseconds of sound.
    Sound(u64),
    Mark(String),
}

/// A carrier: it plays in real time, and returns marks a little later.
#[derive(Default)]
struct Carrier {
    queue: VecDeque<Queued>,
    /// Since when it plays the first of the queue.
    since: u64,
    /// Milliseconds that the caller has heard since the last time that all was given up.
    heard: u64,
    /// Frames on their way back, and when they arrive.
    back: VecDeque<(u64, String)>,
    delay: u64,
    cleared: u32,
}

impl Carrier {
    fn take(&mut self, now: u64, frame: &str) {
        let frame: Value = serde_json::from_str(frame).unwrap();
        assert_eq!(frame["streamSid"], "MZ1");
        self.play(now);
        if self.queue.is_empty() {
            self.since = now;
        }
        match frame["event"].as_str().unwrap() {
            "media" => {
                let payload = frame["media"]["payload"].as_str().unwrap();
                self.queue.push_back(Queued::Sound(payload.len() as u64 / 4 * 3 / 8));
            }
            "mark" => self.queue.push_back(Queued::Mark(frame["mark"]["name"].as_str().unwrap().into())),
            "clear" => {
                self.cleared += 1;
                for queued in std::mem::take(&mut self.queue) {
                    if let Queued::Mark(name) = queued {
                        self.returns(now, name);
                    }
                }
            }
            other => panic!("{other}"),
        }
        self.play(now);
    }

    fn returns(&mut self, now: u64, name: String) {
        let mark =
            json!({ "event": "mark", "streamSid": "MZ1", "sequenceNumber": "4", "mark": { "name": name } });
        self.back.push_back((now + self.delay, mark.to_string()));
    }

    /// What was played until now.
    fn play(&mut self, now: u64) {
        while let Some(first) = self.queue.front_mut() {
            match first {
                Queued::Sound(ms) => {
                    let played = now.saturating_sub(self.since).min(*ms);
                    self.heard += played;
                    self.since += played;
                    *ms -= played;
                    if *ms > 0 {
                        return;
                    }
                    self.queue.pop_front();
                }
                Queued::Mark(name) => {
                    let (name, since) = (std::mem::take(name), self.since);
                    self.queue.pop_front();
                    self.returns(since, name);
                }
            }
        }
    }
}

/// A call over a carrier.
struct Call {
    session: MediaSession,
    carrier: Carrier,
    now: u64,
    sent: Vec<Value>,
    news: Vec<LiveNews>,
}

impl Call {
    fn new(settings: Settings) -> Self {
        let session = MediaSession::new(LiveSession::new(Settings { sound: true, ..settings }), "MZ1".into());
        Self { session, carrier: Carrier::default(), now: 0, sent: Vec::new(), news: Vec::new() }
    }

    /// One whose session is open and knows what the agent is.
    fn open() -> Self {
        let mut call = Self::new(settings());
        call.connect();
        call.command(CommandKind::Session { instructions: "You are the desk.".into() });
        call.frame(json!({ "type": "session.updated", "session": {} }));
        call.news.clear();
        call.sent.clear();
        call
    }

    fn connect(&mut self) {
        self.session.connected(self.now);
        self.frame(json!({ "type": "session.created", "event_id": "e", "session": { "type": "realtime" } }));
    }

    fn put(&mut self, output: Output) {
        self.sent.extend(output.frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap()));
        self.news.extend(output.news);
        for frame in output.line {
            self.carrier.take(self.now, &frame);
        }
    }

    fn frame(&mut self, frame: Value) {
        let output = self.session.frame(self.now, &frame.to_string());
        self.put(output);
    }

    fn line(&mut self, frame: Value) {
        let output = self.session.line(self.now, &frame.to_string());
        self.put(output);
    }

    fn command(&mut self, kind: CommandKind) {
        let command = LiveCommand { id: OperationId::from_bytes([7; 16]), kind };
        let output = self.session.command(self.now, &command);
        self.put(output);
    }

    /// Time passes, and marks come back.
    fn wait(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            self.carrier.play(self.now);
            while self.carrier.back.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, frame) = self.carrier.back.pop_front().unwrap();
                let output = self.session.line(self.now, &frame);
                self.put(output);
            }
        }
    }

    fn begins(&mut self, response: &str) {
        self.frame(
            json!({ "type": "response.created", "response": { "id": response, "status": "in_progress" } }),
        );
    }

    /// The live model makes so many milliseconds of sound at once.
    fn speaks(&mut self, response: &str, ms: u64) {
        let payload = "/".repeat(usize::try_from(ms * 8 / 3 * 4).unwrap());
        self.frame(json!({ "type": "response.output_audio.delta", "response_id": response, "item_id": format!("of_{response}"),
            "output_index": 0, "content_index": 0, "delta": payload }));
    }

    fn ends(&mut self, response: &str, status: &str) {
        self.frame(json!({ "type": "response.output_audio_transcript.done", "response_id": response,
            "item_id": format!("of_{response}"), "transcript": "A long story." }));
        self.frame(json!({ "type": "response.done", "response": { "id": response, "status": status, "output": [] } }));
    }

    /// The live model makes words whole that last so many milliseconds.
    fn says(&mut self, response: &str, ms: u64) {
        self.begins(response);
        self.speaks(response, ms);
        self.ends(response, "completed");
    }

    fn interrupts(&mut self) {
        self.frame(
            json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "i" }),
        );
    }

    fn caller_sound(&mut self, payload: &str) {
        self.line(json!({ "event": "media", "streamSid": "MZ1", "sequenceNumber": "3",
            "media": { "track": "inbound", "chunk": "1", "timestamp": "5", "payload": payload } }));
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.news.iter().map(LiveNews::kind).collect()
    }

    fn sent_of(&self, kind: &str) -> Vec<&Value> {
        self.sent.iter().filter(|frame| frame["type"] == kind).collect()
    }
}

fn cut(response: &str, heard_ms: u64) -> LiveNews {
    LiveNews::Cut { response: response.into(), heard_ms }
}

#[test]
fn the_session_speaks_what_telephones_carry_and_hears_nothing_before_it_knows_that() {
    let mut call = Call::new(settings());
    call.caller_sound("AAAA");
    call.connect();
    call.caller_sound("BBBB");
    call.command(CommandKind::Session { instructions: "You are the desk.".into() });
    assert_eq!(call.sent_of("input_audio_buffer.append").len(), 0);
    let session = &call.sent_of("session.update")[0]["session"];
    assert_eq!(session["output_modalities"], json!(["audio"]));
    for way in ["input", "output"] {
        assert_eq!(session["audio"][way]["format"], json!({ "type": "audio/pcmu" }));
    }
    assert_eq!(session["audio"]["input"]["turn_detection"]["type"], "server_vad");
    call.frame(json!({ "type": "session.updated", "session": {} }));
    call.caller_sound("CCCC");
    let heard: Vec<_> =
        call.sent_of("input_audio_buffer.append").iter().map(|frame| frame["audio"].clone()).collect();
    assert_eq!(heard, ["AAAA", "BBBB", "CCCC"], "nothing of it is lost, and nothing is changed");
}

#[test]
fn what_was_not_heard_is_given_up_at_once_and_the_live_model_knows_how_much_was() {
    let mut call = Call::open();
    call.carrier.delay = 30;
    call.begins("r1");
    for _ in 0..10 {
        call.speaks("r1", 300);
    }
    call.wait(1_000);
    call.interrupts();
    assert_eq!(call.carrier.cleared, 1);
    assert_eq!(call.carrier.heard, 1_000);
    let cut = call.sent_of("conversation.item.truncate");
    assert_eq!((cut.len(), &cut[0]["item_id"], &cut[0]["content_index"]), (1, &json!("of_r1"), &json!(0)));
    let told = cut[0]["audio_end_ms"].as_u64().unwrap();
    assert!((960..=1_000).contains(&told), "{told}");
    // More of it was under way from the provider.
    call.speaks("r1", 300);
    call.frame(json!({ "type": "conversation.item.truncated", "item_id": "of_r1", "content_index": 0, "audio_end_ms": 5 }));
    call.ends("r1", "cancelled");
    call.wait(2_000);
    assert_eq!(call.carrier.heard, 1_000, "the caller hears no more of it");
    let said = call.news.iter().find_map(|news| match news {
        LiveNews::Said { heard_ms, .. } => Some(*heard_ms),
        _ => None,
    });
    assert_eq!(said, Some(Some(told)));
    assert!(!call.kinds().contains(&"cut") && !call.kinds().contains(&"played"), "{:?}", call.kinds());
}

#[test]
fn words_that_were_made_whole_and_are_interrupted_are_told_so() {
    let mut call = Call::open();
    call.says("r1", 3_000);
    assert!(!call.kinds().contains(&"played"));
    call.wait(1_200);
    call.interrupts();
    let kinds = call.kinds();
    assert_eq!(kinds, ["response_began", "said", "response_ended", "speech_started", "cut"]);
    assert_eq!(call.news.last(), Some(&cut("r1", 1_200)));
    assert_eq!(call.sent_of("conversation.item.truncate")[0]["audio_end_ms"], 1_200);
    call.wait(5_000);
    assert_eq!(call.carrier.heard, 1_200);
    // Nothing is under way any more.
    call.interrupts();
    assert_eq!((call.carrier.cleared, call.sent_of("conversation.item.truncate").len()), (1, 1));
}

#[test]
fn words_are_played_when_the_carrier_says_so() {
    let mut call = Call::open();
    call.carrier.delay = 20;
    call.says("r1", 600);
    call.wait(599);
    assert!(!call.kinds().contains(&"played") && call.session.is_playing() && !call.session.is_between());
    call.wait(21);
    assert_eq!(call.news.last(), Some(&LiveNews::Played { response: "r1".into() }));
    assert!(!call.session.is_playing() && call.session.is_between());
}

#[test]
fn two_responses_that_wait_are_both_cut_where_they_are() {
    let mut call = Call::open();
    for response in ["r1", "r2"] {
        call.begins(response);
        call.speaks(response, 900);
        call.ends(response, "completed");
    }
    call.wait(600);
    call.interrupts();
    let items: Vec<_> = call
        .sent_of("conversation.item.truncate")
        .iter()
        .map(|frame| (frame["item_id"].clone(), frame["audio_end_ms"].clone()))
        .collect();
    assert_eq!(items, [(json!("of_r1"), json!(600)), (json!("of_r2"), json!(0))]);
    assert_eq!(call.news[call.news.len() - 2..], [cut("r1", 600), cut("r2", 0)]);
}

#[test]
fn items_of_a_session_that_is_lost_are_not_cut_in_the_next_one_and_what_waits_is_given_up_all_the_same() {
    let mut call = Call::open();
    call.says("r1", 3_000);
    let output = call.session.lost(call.now, "reset");
    call.put(output);
    call.connect();
    // What was said before is given to it, and only then it hears.
    call.caller_sound("AAAA");
    assert_eq!(call.sent_of("input_audio_buffer.append").len(), 0);
    assert!(call.sent_of("conversation.item.create")[0].to_string().contains("A long story."));
    call.frame(json!({ "type": "session.updated", "session": {} }));
    assert_eq!(call.sent_of("input_audio_buffer.append").len(), 1);
    call.wait(500);
    call.interrupts();
    assert_eq!((call.carrier.cleared, call.sent_of("conversation.item.truncate").len()), (1, 0));
    assert_eq!(call.news.last(), Some(&cut("r1", 500)), "but what was heard of it is known");
}

#[test]
fn a_response_that_is_interrupted_before_it_sounds_is_never_heard() {
    let mut call = Call::open();
    call.says("r1", 900);
    // Its result has come, and is about to be spoken of.
    call.begins("r2");
    call.wait(400);
    call.interrupts();
    call.speaks("r2", 600);
    call.ends("r2", "cancelled");
    call.wait(2_000);
    assert_eq!(call.carrier.heard, 400);
    let told: Vec<_> = call
        .news
        .iter()
        .filter(|news| matches!(news, LiveNews::Cut { .. } | LiveNews::Said { .. }))
        .collect();
    let said = |heard_ms| LiveNews::Said { text: "A long story.".into(), heard_ms };
    assert_eq!(told, [&said(None), &cut("r1", 400), &said(Some(0))]);
}

#[test]
fn a_caller_who_hangs_up_has_not_heard_what_was_under_way() {
    for ends in [true, false] {
        let mut call = Call::open();
        call.begins("r1");
        call.speaks("r1", 3_000);
        if ends {
            call.ends("r1", "completed");
        } else {
            call.frame(json!({ "type": "response.output_audio_transcript.done", "response_id": "r1", "item_id": "of_r1",
                "transcript": "A long story." }));
        }
        call.wait(700);
        call.line(json!({ "event": "stop", "streamSid": "MZ1" }));
        let before_the_end = &call.news[call.news.len() - 2];
        match ends {
            true => assert_eq!(*before_the_end, cut("r1", 700)),
            false => {
                assert_eq!(
                    *before_the_end,
                    LiveNews::Said { text: "A long story.".into(), heard_ms: Some(700) }
                );
            }
        }
        assert_eq!(call.kinds().last(), Some(&"ended"));
    }
}

#[test]
fn a_line_that_is_lost_and_opened_anew_plays_what_was_said_meanwhile() {
    let mut call = Call::open();
    call.says("r1", 3_000);
    call.wait(500);
    let output = call.session.line_lost(call.now);
    assert!(output.line.is_empty());
    call.put(output);
    assert_eq!(call.news.last(), Some(&cut("r1", 500)));
    call.carrier = Carrier::default();
    call.says("r2", 300);
    call.wait(5_000);
    assert!(call.carrier.queue.is_empty() && call.session.is_playing() && !call.kinds().contains(&"played"));
    let output = call.session.line_opened(call.now, "MZ1".into());
    call.put(output);
    call.wait(300);
    assert_eq!(call.carrier.heard, 300);
    assert_eq!(call.news.last(), Some(&LiveNews::Played { response: "r2".into() }));
    // What is being said when the line is lost ends there.
    call.begins("r4");
    call.speaks("r4", 900);
    call.wait(200);
    let output = call.session.line_lost(call.now);
    call.put(output);
    assert_eq!(call.sent_of("response.cancel").len(), 1);
    call.ends("r4", "cancelled");
    let said = LiveNews::Said { text: "A long story.".into(), heard_ms: Some(200) };
    assert!(call.news.contains(&said));
    // What is said and interrupted while there is no line was not heard.
    call.says("r3", 300);
    call.interrupts();
    assert_eq!(call.news.last(), Some(&cut("r3", 0)));
}

#[test]
fn keys_and_the_end_come_over_the_line() {
    let mut call = Call::open();
    call.line(json!({ "event": "dtmf", "streamSid": "MZ1", "sequenceNumber": "5", "dtmf": { "track": "inbound_track", "digit": "#" } }));
    assert_eq!(call.news, [LiveNews::Digit { digit: '#' }]);
    call.line(
        json!({ "event": "stop", "sequenceNumber": "9", "streamSid": "MZ1", "stop": { "callSid": "CA1" } }),
    );
    assert_eq!(call.kinds(), ["digit", "ended"]);
    assert!(call.session.is_over());
    call.caller_sound("AAAA");
    call.speaks("r9", 300);
    assert!(call.sent.is_empty() && call.kinds().len() == 2);
}

#[test]
fn frames_that_are_none_are_of_no_consequence() {
    let mut call = Call::open();
    let long = format!("{{\"event\":\"media\",\"media\":{{\"payload\":\"{}\"}}}}", "A".repeat(80_000));
    for frame in [
        "",
        "no json",
        "[]",
        "{}",
        "{\"event\":\"media\"}",
        "{\"event\":\"media\",\"media\":{\"payload\":\"A\"}}",
        "{\"event\":\"media\",\"media\":{\"payload\":\"\\\"}]}\"}}",
        "{\"event\":\"media\",\"media\":{\"track\":\"outbound\",\"payload\":\"AAAA\"}}",
        "{\"event\":\"mark\",\"mark\":{\"name\":\"999\"}}",
        "{\"event\":\"dtmf\",\"dtmf\":{\"digit\":\"🦀\"}}",
        "{\"event\":\"who.knows\"}",
        long.as_str(),
    ] {
        let output = call.session.line(0, frame);
        assert!(output.frames.is_empty() && output.line.is_empty() && !output.close, "{frame}: {output:?}");
        assert!(output.news.iter().all(|news| news.clone().bounded().is_none()), "{frame}: {output:?}");
    }
    for delta in ["", "A", "AAA=A", "no base64!", "\u{0}AAA"] {
        call.frame(json!({ "type": "response.output_audio.delta", "response_id": "r1", "item_id": "i", "delta": delta }));
        call.frame(json!({ "type": "response.output_audio.delta", "response_id": "r1", "delta": delta }));
    }
    assert!(call.carrier.queue.is_empty());
}

#[test]
fn what_is_kept_of_a_caller_whom_no_session_hears_is_bounded() {
    let mut call = Call::new(settings());
    for _ in 0..10_000 {
        call.caller_sound(&"A".repeat(216));
    }
    call.connect();
    call.command(CommandKind::Session { instructions: String::new() });
    call.frame(json!({ "type": "session.updated", "session": {} }));
    assert_eq!(call.sent_of("input_audio_buffer.append").len(), 150, "the last three seconds");
}

#[test]
fn a_stream_begins_with_the_call_and_the_form_of_its_sound() {
    let start = |encoding: &str, rate: u64| {
        json!({ "event": "start", "sequenceNumber": "1", "streamSid": "MZ1", "start": {
            "accountSid": "AC1", "streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"], "customParameters": {},
            "mediaFormat": { "encoding": encoding, "sampleRate": rate, "channels": 1 } } })
        .to_string()
    };
    for (frame, expected) in [
        (start("audio/x-mulaw", 8_000), true),
        (start("audio/x-mulaw", 16_000), false),
        (start("audio/l16", 8_000), false),
    ] {
        let is_telephone = match LineFrame::read(&frame) {
            Some(LineFrame::Start { stream, call, is_telephone }) if (&*stream, &*call) == ("MZ1", "CA1") => {
                is_telephone
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(is_telephone, expected);
    }
    assert_eq!(LineFrame::read("{\"event\":\"start\",\"start\":{\"streamSid\":\"MZ1\"}}"), None);
}

/// What happens in a generated call.
#[derive(Debug, Clone)]
enum Happens {
    /// The live model makes so much sound.
    Speaks(u64),
    /// Its response ends.
    Ends,
    Waits(u64),
    Interrupts,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1_u64..40).prop_map(|pieces| Happens::Speaks(pieces * 30)),
        2 => Just(Happens::Ends),
        4 => (1_u64..2_000).prop_map(Happens::Waits),
        2 => Just(Happens::Interrupts),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What is told of what the caller heard is never more than the truth; what was given up is never heard; a response is played once.
    #[test]
    fn what_is_told_of_what_was_heard_is_true(
        story in proptest::collection::vec(happens(), 1..40),
        delay in 0_u64..120,
    ) {
        let mut call = Call::open();
        call.carrier.delay = delay;
        let (mut number, mut speaks, mut since) = (0, false, 0);
        for step in story {
            match step {
                Happens::Speaks(ms) => {
                    if !speaks {
                        number += 1;
                        call.begins(&format!("r{number}"));
                        speaks = true;
                    }
                    call.speaks(&format!("r{number}"), ms);
                }
                Happens::Ends if speaks => {
                    call.ends(&format!("r{number}"), "completed");
                    speaks = false;
                }
                Happens::Ends => {}
                Happens::Waits(ms) => call.wait(ms),
                Happens::Interrupts => {
                    let before = call.sent.len();
                    call.carrier.play(call.now);
                    let heard = call.carrier.heard - since;
                    let cleared = call.carrier.cleared;
                    call.interrupts();
                    prop_assert!(call.carrier.queue.is_empty(), "what is given up is not played");
                    let told: u64 = call.sent[before..]
                        .iter()
                        .filter(|frame| frame["type"] == "conversation.item.truncate")
                        .map(|frame| frame["audio_end_ms"].as_u64().unwrap())
                        .sum();
                    if call.carrier.cleared > cleared && told > 0 {
                        // Items that were heard whole are not cut: the rest is at most what was heard.
                        prop_assert!(told <= heard, "{told} of {heard}");
                    }
                    if speaks {
                        call.ends(&format!("r{number}"), "cancelled");
                        speaks = false;
                    }
                    since = call.carrier.heard;
                }
            }
        }
        let mut played = std::collections::BTreeSet::new();
        call.wait(60_000);
        for news in &call.news {
            if let LiveNews::Played { response } = news {
                prop_assert!(played.insert(response.clone()), "twice");
            }
        }
        prop_assert!(call.carrier.queue.is_empty());
        prop_assert!(!call.session.is_playing());
        let cut = call.news.iter().filter(|news| matches!(news, LiveNews::Cut { .. })).count();
        let ended = call.news.iter().filter(|news| matches!(news, LiveNews::ResponseEnded {
            end: dalsegno_core::ResponseEnd::Completed, .. })).count();
        let open = call.news.iter().filter(|news| matches!(news, LiveNews::Said { heard_ms: None, .. })).count();
        prop_assert_eq!(played.len() + cut, open, "what was said whole was played, or cut");
        prop_assert!(open <= ended);
    }
}
