//! Tests of the scrubbing. Encoded texts are literal or made by the few lines below, never by the code under test.

use std::fmt::Write as _;

use dalsegno_core::{
    AgentRequest, AgentReturn, Answer, Attachment, CallRequest, Digest, EffectClass, EmailReceipt, Failure,
    FailureCode, Gate, MemoryCreated, MemoryHit, MemoryTraversal, ModelReply, OperationId, Outcome,
    ReplyPart, RunError, RunErrorCode, RunId, Signal, Status, StopReason, ToolReturn, TraversedEntity,
    TraversedRelation, Usage, Validation, Violation, Write,
};
use dalsegno_store::{AttemptCause, Body, Denial, RecordKind, Start, WaitingFor};
use dalsegno_tools::{ActionPlace, ActionStatus, ActionTrace, ApiResponse, ErrorCode, ToolError};
use serde_json::{Value, json};

use super::*;

fn secrets(values: &[&str]) -> Secrets {
    let named = values.iter().enumerate().map(|(index, value)| (index.to_string(), Secret::new(value)));
    Secrets::new(named.collect()).unwrap()
}

fn echoed(text: &str) -> Outcome {
    Outcome::ToolReturned(ToolReturn {
        structured: Some(json!({ "deep": [text], text: 1 })),
        text: text.to_owned(),
        is_error: false,
        ..ToolReturn::default()
    })
}

fn scrubbed(secret: &str, mut outcome: Outcome) -> String {
    secrets(&[secret]).scrub(&mut outcome);
    serde_json::to_string(&outcome).unwrap()
}

/// Checks that of an echo nothing is left but the words around it.
#[track_caller]
fn check(secret: &str, echo: &str) {
    let mut text = format!("<{echo}>");
    secrets(&[secret]).text(&mut text);
    assert_eq!(text, "<[secret]>", "`{secret}` echoed as `{echo}`");
    let returned = json!({ "tool_returned": {
        "structured": { "deep": ["[secret]"], "[secret]": 1 }, "text": "[secret]",
    } });
    let found: Value = serde_json::from_str(&scrubbed(secret, echoed(echo))).unwrap();
    assert_eq!(found, returned, "`{secret}` echoed as `{echo}`");
}

#[test]
fn a_secret_that_a_service_reads_as_another_character_set_is_scrubbed() {
    // The bytes of a header, read as ISO 8859-1.
    check("passwort-übergröße-77", "passwort-Ã¼bergrÃ¶Ã\u{9f}e-77");
    check("passwort-übergröße-77", "passwort-%C3%83%C2%BCbergr%C3%83%C2%B6%C3%83%C2%9Fe-77");
}

#[test]
fn a_percent_encoded_secret_is_scrubbed_whatever_the_encoder_leaves_alone() {
    for echo in [
        "a-b_c.d~e/f ü",
        "a-b_c.d~e%2Ff%20%C3%BC",
        "a-b_c.d~e%2ff%20%c3%bc",
        "a-b_c.d%7Ee%2Ff+%C3%BC",
        "a-b_c.d%7ee%2ff+%c3%bc",
        "a-b_c.d~e/f%20%C3%BC",
        "a%2Db%5Fc%2Ed%7Ee%2Ff%20%C3%BC",
        "%61%2d%62%5f%63%2e%64%7e%65%2f%66%20%c3%bc",
    ] {
        check("a-b_c.d~e/f ü", echo);
    }
    check("abc-def/ghi", "abc-def%2Fghi");
}

#[test]
fn a_secret_inside_json_text_is_scrubbed() {
    for echo in [
        "a\"b/c\\d\u{e4}\n",
        r#"a\"b/c\\dä\n"#,
        r#"a\"b\/c\\d\u00e4\n"#,
        r"a\u0022b\u002Fc\u005Cd\u00E4\u000A",
    ] {
        check("a\"b/c\\d\u{e4}\n", echo);
    }
    check("wave \u{1f30a}!", r"wave \ud83c\udf0a!");
}

#[test]
fn a_hexadecimal_secret_is_scrubbed_in_either_case() {
    for echo in ["6b6f6a6d6e6c2b", "6B6F6A6D6E6C2B", "6b6F6a6D6e6C2b"] {
        check("kojmnl+", echo);
    }
}

#[test]
fn a_secret_inside_longer_base64_is_scrubbed() {
    // `hunter2?>` after no, one and two other bytes, then after `user:`; the alphabets differ in the last characters.
    for echo in ["aHVudGVyMj8+", "aHVudGVyMj8-", "aHVudGVyMj8%2B", "aHVudGVyMj8%2b"] {
        check("hunter2?>", echo);
    }
    for (echo, left) in [
        ("eGh1bnRlcjI/Pg==", "eG[secret]g=="),
        ("eHhodW50ZXIyPz4=", "eHh[secret]4="),
        ("dXNlcjpodW50ZXIyPz4=", "dXNlcjp[secret]4="),
    ] {
        let mut text = echo.to_owned();
        secrets(&["hunter2?>"]).text(&mut text);
        assert_eq!(text, left);
    }
}

#[test]
fn a_secret_that_is_a_number_is_scrubbed_from_json_numbers() {
    let cases = [
        ("123456789", "123456789"),
        ("123456789", "-123456789"),
        ("123456789", "123456789.0"),
        ("0123456789", "123456789"),
        ("1234567.50", "1234567.5"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1.5e10", "15000000000"),
        // `abcdef` in hexadecimal.
        ("abcdef", "616263646566"),
    ];
    for (secret, number) in cases {
        let mut value: Value = serde_json::from_str(&format!(r#"{{"pin":[{number},1,2.5]}}"#)).unwrap();
        secrets(&[secret]).value(&mut value);
        assert_eq!(value, json!({ "pin": ["[secret]", 1, 2.5] }), "`{secret}` echoed as {number}");
    }
    let mut value = json!([1, 0, 12345]);
    secrets(&["000001", "000000"]).value(&mut value);
    assert_eq!(value, json!([1, 0, 12345]), "small numbers are no secrets");
}

/// A text with a secret in it.
fn bad() -> String {
    "a hunter2 b".to_owned()
}

/// JSON with a secret in a key and in values.
fn bad_value() -> Value {
    json!({ "a": bad(), "hunter2": { "hunter2": [bad()] } })
}

fn violations() -> Vec<Violation> {
    vec![Violation { path: bad(), message: bad() }]
}

fn validations() -> [Validation; 4] {
    [
        Validation::Valid { arguments: bad_value() },
        Validation::Invalid { violations: violations() },
        Validation::Malformed { message: bad() },
        Validation::Truncated,
    ]
}

fn place() -> ActionPlace {
    ActionPlace { action: bad(), id: Some(bad()), kind: bad() }
}

fn details() -> serde_json::Map<String, Value> {
    bad_value().as_object().unwrap().clone()
}

fn reply() -> ModelReply {
    let call = |validation| {
        ReplyPart::Call(CallRequest {
            call_id: bad(),
            name: bad(),
            arguments: bad(),
            validation: Some(validation),
        })
    };
    let mut parts: Vec<ReplyPart> = validations().into_iter().map(call).collect();
    parts.push(ReplyPart::Text(bad()));
    parts.push(ReplyPart::Opaque { provider: "p".to_owned(), data: bad_value() });
    ModelReply {
        output: Some(Validation::Valid { arguments: bad_value() }),
        ..ModelReply::new(parts, StopReason::End)
    }
}

fn writes() -> Vec<Write> {
    let path = |path: &str| path.parse().unwrap();
    vec![
        Write::Set { path: path("workflow.hunter2.x"), value: bad_value() },
        Write::Append { path: path("workflow.list[\"x hunter2\"]"), value: bad_value() },
        Write::Delete { path: path("user.hunter2") },
        Write::Flag { flag: bad(), value: true },
    ]
}

/// Outcomes of every kind, with a secret in every text that is not one of a closed list.
fn outcomes() -> Vec<Outcome> {
    let hit = MemoryHit { entity: bad(), entity_type: bad(), text: bad(), score: 1.0, metadata: bad_value() };
    let entity = TraversedEntity { entity: bad(), entity_type: bad(), depth: 1, observations: vec![bad()] };
    let relation = TraversedRelation { from: bad(), relation: bad(), to: bad(), strength: 1.0 };
    let error = ToolError {
        code: ErrorCode::ActionFailed,
        message: bad(),
        details: details(),
        action: Some(Box::new(place())),
    };
    let trace = ActionTrace {
        place: place(),
        status: ActionStatus::Ok,
        error: Some(error),
        warnings: vec![bad()],
        details: details(),
    };
    vec![
        Outcome::ModelReplied(reply()),
        Outcome::MemoryFound(vec![hit]),
        Outcome::MemoryCreated(MemoryCreated { entity: bad(), observation: bad(), duplicate: false }),
        Outcome::MemoryTraversed(MemoryTraversal {
            entities: vec![entity],
            relations: vec![relation],
            truncated: false,
        }),
        Outcome::ToolReturned(ToolReturn {
            structured: Some(bad_value()),
            text: bad(),
            is_error: false,
            code: None,
            error: trace.error.clone().map(Box::new),
            actions: vec![trace],
            violations: violations(),
            files: vec![Attachment {
                name: bad(),
                media_type: "image/png".to_owned(),
                digest: Digest::from_bytes([1; 32]),
                bytes: 5,
            }],
        }),
        Outcome::ApiAnswered(ApiResponse {
            status: 200,
            headers: BTreeMap::from([("x-hunter2".to_owned(), bad())]),
            body: bad_value(),
            attempts: 1,
            violations: vec![dalsegno_tools::Violation { pointer: bad(), message: bad() }],
        }),
        Outcome::EmailSent(EmailReceipt { message_id: Some(bad()) }),
        Outcome::AgentReturned(AgentReturn {
            run: RunId::from_bytes([1; 16]),
            status: Status::Failed,
            answer: Some(bad()),
            output: Some(bad_value()),
            error: Some(RunError { code: RunErrorCode::LimitExceeded, message: bad(), help: bad() }),
            usage: Usage::default(),
            writes: writes(),
        }),
        Outcome::InputGiven(bad_value()),
        Outcome::TimerFired,
        Outcome::Failed(Failure {
            violations: violations(),
            detail: Some(bad()),
            ..Failure::new(FailureCode::Internal, bad())
        }),
    ]
}

fn answers() -> Vec<Answer> {
    let by = || Some(bad());
    let edited = Some(Validation::Valid { arguments: bad_value() });
    vec![
        Answer::Approved { edited, reason: by(), by: by() },
        Answer::Denied { reason: by(), by: by() },
        Answer::Done { result: Some(bad_value()), error: Some(bad()), by: by() },
        Answer::Given { value: bad_value(), by: by() },
        Answer::Supplied { value: bad_value(), by: by() },
        Answer::NotDone { by: by() },
    ]
}

#[track_caller]
fn assert_clean(value: &impl serde::Serialize) {
    let json = serde_json::to_string(value).unwrap();
    assert!(!json.contains("hunter2"), "{json}");
}

#[test]
fn every_text_and_every_key_of_every_outcome_is_scrubbed() {
    for mut outcome in outcomes() {
        let before = serde_json::to_string(&outcome).unwrap().matches("hunter2").count();
        secrets(&["hunter2"]).scrub(&mut outcome);
        assert_clean(&outcome);
        let after = serde_json::to_string(&outcome).unwrap().matches(SCRUBBED).count();
        assert_eq!(after, before, "nothing is lost: {outcome:?}");
    }
}

/// Everything that a journal can hold from somebody else goes through one of these ways before it is written down.
#[test]
fn every_text_of_every_record_is_scrubbed() {
    let secrets = secrets(&["hunter2"]);
    let mut gate = Gate::Elicitation {
        requests: BTreeMap::from([("x hunter2".to_owned(), bad_value())]),
        request_state: Some(bad()),
    };
    secrets.scrub_gate(&mut gate);
    let mut doubt = Gate::InDoubt { reason: bad() };
    secrets.scrub_gate(&mut doubt);
    let mut request = AgentRequest {
        text: bad(),
        data: bad_value(),
        tenant: "acme".to_owned(),
        attachments: vec![Attachment {
            name: bad(),
            media_type: bad(),
            digest: Digest::from_bytes([1; 32]),
            bytes: 1,
        }],
        user: bad_value(),
        tenant_settings: bad_value(),
        handoff: Some(dalsegno_core::HandedOver { agent: "a".parse().unwrap(), message: Some(bad()) }),
        called_by: None,
        surface: None,
    };
    secrets.request(&mut request);
    assert_clean(&(gate, doubt, request));
    for mut answer in answers() {
        secrets.scrub_answer(&mut answer);
        assert_clean(&answer);
    }

    // What is left is not folded, and goes through the last door before the journal.
    let denial =
        Denial { kind: "file".to_owned(), subject: format!("../../{}", bad()), reason: bad(), count: 1 };
    let bodies = [
        Body::Requested {
            step: 1,
            ordinal: vec![1],
            label: bad(),
            digest: Digest::from_bytes([1; 32]),
            class: EffectClass::Read,
            start: Start::Now,
        },
        Body::Attempted {
            attempt: 2,
            cause: AttemptCause::Recovered,
            start: Start::Now,
            reason: Some(bad()),
        },
        Body::Denied { server: "s".to_owned(), denials: vec![denial] },
        Body::Tasked { attempt: 1, server: "s".to_owned(), task: bad(), expires_at: None },
        Body::Verified {
            tool: "crm.find".parse().unwrap(),
            tries: 1,
            evidence: dalsegno_store::Evidence::Unknown,
            result: Some(json!({ "said": bad() })),
            error: Some(bad()),
        },
        Body::Signalled { signal: Signal::Cancel, by: Some(bad()), reason: Some(bad()) },
        Body::Adopted { run: RunId::from_bytes([1; 16]), seq: 1, step: 1, signer: None, by: Some(bad()) },
        Body::Abandoned { reason: bad(), by: Some(bad()) },
        // What it waits for is made of what was scrubbed.
        Body::Paused { by: Some(bad()), reason: Some(bad()), waiting_for: Vec::new() },
        Body::Continued { by: Some(bad()) },
    ];
    let late = outcomes().into_iter().map(Body::late);
    let mut kinds = BTreeSet::new();
    for mut body in bodies.into_iter().chain(late) {
        kinds.insert(body.kind());
        secrets.record(&mut body);
        assert_clean(&body);
    }
    // The others: folded and scrubbed above, made of what was scrubbed, or without a word of anybody.
    let folded = [
        RecordKind::Started,
        RecordKind::Waiting,
        RecordKind::Answered,
        RecordKind::Resolved,
        RecordKind::Conversed,
        RecordKind::Forked,
    ];
    let made = [
        RecordKind::Inherited,
        RecordKind::Suspended,
        RecordKind::Completed,
        RecordKind::Failed,
        RecordKind::Cancelled,
        RecordKind::HandedOff,
    ];
    let wordless = [RecordKind::Rebound, RecordKind::Narrowed];
    kinds.extend(folded.into_iter().chain(made).chain(wordless));
    let unknown: Vec<_> = RecordKind::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(unknown.is_empty(), "say how the texts of these are scrubbed: {unknown:?}");
    let suspended = WaitingFor { kind: bad(), operation: OperationId::from_bytes([1; 16]), question: bad() };
    let left = Body::Suspended { waiting_for: vec![suspended], wake_at: None };
    let mut body = left.clone();
    secrets.record(&mut body);
    assert_eq!(body, left, "what a fold compares is left as it was folded");
}

/// Counts what is compared. Only secrets that begin alike are compared one after another where they might begin.
#[test]
fn the_work_of_a_scan_follows_from_the_text_and_not_from_the_secrets() {
    let values: Vec<String> = (0..20).map(|n| format!("{n:02}key/%41 \\{}", "x".repeat(n))).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let (few, many) = (secrets(&values[..1]), secrets(&values));
    for filler in ["%", "a", "\\", "ke", "%6b", "\\u006b", "0", "+", "00key/"] {
        let text = filler.repeat(100_000 / filler.len());
        for secrets in [&few, &many] {
            let scan = secrets.scan(&text, 0, false);
            assert!(scan.found.is_empty(), "{filler}");
            // Two characters of a secret, and the one that differs.
            assert!(
                scan.compared <= 3 * text.len(),
                "{filler:?}: {} for {} bytes",
                scan.compared,
                text.len()
            );
        }
    }
}

#[test]
fn every_text_of_every_answer_is_scrubbed() {
    let bad = || Some("a hunter2 b".to_owned());
    let edited = Some(Validation::Valid { arguments: json!({ "hunter2": "hunter2" }) });
    let answers = [
        (Answer::Approved { edited, reason: bad(), by: bad() }, 4),
        (Answer::Denied { reason: bad(), by: bad() }, 2),
        (Answer::Done { result: Some(json!([bad(), { "x": bad() }])), error: None, by: bad() }, 3),
        (Answer::NotDone { by: bad() }, 1),
    ];
    for (mut answer, texts) in answers {
        secrets(&["hunter2"]).scrub_answer(&mut answer);
        let json = serde_json::to_string(&answer).unwrap();
        assert!(!json.contains("hunter2"), "{json}");
        assert_eq!(json.matches(SCRUBBED).count(), texts, "{json}");
    }
}

#[test]
fn keys_that_become_the_same_keep_both_values() {
    let mut value = json!({ "abc/def": 1, "abc%2Fdef": 2, "[secret]": 3 });
    secrets(&["abc/def"]).value(&mut value);
    let values: BTreeSet<u64> = value.as_object().unwrap().values().filter_map(Value::as_u64).collect();
    assert_eq!(values, BTreeSet::from([1, 2, 3]), "{value}");
    assert!(!value.to_string().contains("abc"), "{value}");
}

#[test]
fn secrets_that_overlap_are_taken_out_together() {
    let mut text = "-abcdefghijkl-".to_owned();
    secrets(&["abcdefgh", "efghijkl"]).text(&mut text);
    assert_eq!(text, "-[secret]-");
}

#[test]
fn a_secret_of_backslashes_is_found_in_reasonable_time() {
    let mut text = format!("{}x", "\\".repeat(99));
    secrets(&[&"\\".repeat(100)]).text(&mut text);
    assert_eq!(text.len(), 100);
}

#[test]
fn innocent_text_is_left_as_it_is() {
    for text in ["", "nothing to see", "hunter", "hunter%32", "%", "\\u00", "Hunter2x"] {
        let secrets = secrets(&["hunter2x", "a-b_c.d~e"]);
        let mut found = text.to_owned();
        secrets.text(&mut found);
        assert_eq!(found, text);
        let mut stream = secrets.stream();
        assert_eq!(stream.push(text) + &stream.finish(), text);
    }
}

#[test]
fn a_short_secret_is_refused_by_name() {
    let values = BTreeMap::from([
        ("good".to_owned(), Secret::new("hunter2")),
        ("pin".to_owned(), Secret::new("12345")),
    ]);
    let error = Secrets::new(values).unwrap_err();
    assert_eq!(error, ShortSecret { name: "pin".to_owned() });
    assert!(error.to_string().contains("shorter than 6 bytes"), "{error}");
    assert!(!error.to_string().contains("12345"), "{error}");
    assert!(Secrets::new(BTreeMap::from([("six".to_owned(), Secret::new("abcdef"))])).is_ok());
}

#[test]
fn a_secret_cannot_be_printed() {
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    assert_eq!(format!("{:?}", secrets(&["hunter2"])), r#"{"0": Secret(…)}"#);
}

#[test]
fn a_stream_shows_what_the_whole_text_would_show() {
    let secrets = secrets(&["abc/def ghi", "ghijkl", "aaaaaa"]);
    let text = "abc abc%2Fdef+ghijkl, ab\u{e4}aaaaaaaaaaa and c2VjcmV0YWJjL2RlZiBnaGk= abc/def gh";
    let mut whole = text.to_owned();
    secrets.text(&mut whole);
    assert_eq!(whole.matches(SCRUBBED).count(), 3, "{whole}");
    for size in 1..text.chars().count() {
        let letters: Vec<char> = text.chars().collect();
        let mut stream = secrets.stream();
        let mut shown = String::new();
        for part in letters.chunks(size) {
            shown.push_str(&stream.push(&part.iter().collect::<String>()));
        }
        shown.push_str(&stream.finish());
        assert_eq!(shown, whole, "in parts of {size}");
    }
}

#[test]
fn a_stream_holds_back_only_what_may_become_a_secret() {
    let mut stream = secrets(&["hunter2"]).stream();
    assert_eq!(stream.push("I say hunt"), "I say ");
    assert_eq!(stream.push("ing. And hunter2"), "hunting. And [secret]");
    assert_eq!(stream.push("!"), "!");
    assert_eq!(stream.finish(), "");
}

/// A small generator of numbers (splitmix64), so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn text(&mut self, least: usize, spread: usize) -> String {
        const UNUSUAL: [char; 6] = ['ä', '€', '\u{1f30a}', '\n', '\t', '\u{7f}'];
        let length = least + self.below(spread);
        let mut letter = || match self.below(12) {
            0 => UNUSUAL[self.below(UNUSUAL.len())],
            _ => char::from(u8::try_from(32 + self.below(95)).unwrap()),
        };
        (0..length).map(|_| letter()).collect()
    }
}

fn percent(text: &str, left: &str, upper: bool, plus: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match char::from(byte) {
            ' ' if plus => encoded.push('+'),
            letter if letter.is_ascii_alphanumeric() || left.contains(letter) => encoded.push(letter),
            _ if upper => write!(encoded, "%{byte:02X}").unwrap(),
            _ => write!(encoded, "%{byte:02x}").unwrap(),
        }
    }
    encoded
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8], last: [char; 2]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(last).collect();
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let sextet = |bits: &[u8]| (0..6).fold(0, |sum, bit| sum * 2 + usize::from(*bits.get(bit).unwrap_or(&0)));
    bits.chunks(6).map(|bits| alphabet[sextet(bits)]).collect()
}

#[test]
fn of_a_random_secret_nothing_is_left_in_any_encoding() {
    let mut dice = Dice(20);
    for round in 0..300 {
        let secret = dice.text(6, 24);
        let (before, after) = (dice.text(0, 20), dice.text(0, 20));
        let json = Value::from(secret.as_str()).to_string();
        let json = json[1..json.len() - 1].to_owned();
        let mut echoes = vec![secret.clone(), json.clone(), json.replace('/', "\\/")];
        for upper in [false, true] {
            for (left, plus) in [("-_.~", false), ("-_.*", true), ("-_.!~*'()", false), ("", false)] {
                echoes.push(percent(&secret, left, upper, plus));
            }
        }
        echoes.push(hexadecimal(&secret));
        echoes.push(hexadecimal(&secret).to_uppercase());
        // Each with the text that surrounds it, and the part of it that depends on the secret.
        let mut cases: Vec<(String, String)> =
            echoes.into_iter().map(|echo| (format!("{before}{echo}{after}"), echo)).collect();
        for prefix in 0..3 {
            for last in [['+', '/'], ['-', '_']] {
                let (prefix, suffix) = (dice.text(prefix, 1), dice.text(0, 4));
                let encoded = base64(format!("{prefix}{secret}{suffix}").as_bytes(), last);
                let own = (prefix.len() * 8).div_ceil(6)..(prefix.len() + secret.len()) * 8 / 6;
                cases.push((format!("{before} {encoded} {after}"), encoded[own].to_owned()));
            }
        }
        let hidden = secrets(&[&secret]);
        for (text, echo) in cases {
            let mut outcome = echoed(&text);
            hidden.scrub(&mut outcome);
            let Outcome::ToolReturned(returned) = &outcome else { unreachable!() };
            let result = serde_json::to_string(&outcome).unwrap();
            let told = format!("round {round}: {secret:?} echoed as {echo:?} left {result}");
            for left in [returned.text.as_str(), &result] {
                assert!(!left.contains(&secret) && !left.contains(&json) && !left.contains(&echo), "{told}");
            }
            assert!(returned.text.contains(SCRUBBED), "{told}");
            let letters: Vec<char> = echo.chars().collect();
            for window in letters.windows(6.max(letters.len() / 2)) {
                assert!(!returned.text.contains(&window.iter().collect::<String>()), "{told}");
            }
        }
    }
}
