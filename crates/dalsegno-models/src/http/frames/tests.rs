//! Frames that are whole, cut, damaged and made up.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue};
use proptest::prelude::*;

use super::*;

fn frame(headers: &[(&'static str, &str)], payload: &[u8]) -> Vec<u8> {
    let headers = headers
        .iter()
        .map(|(name, value)| Header::new(*name, HeaderValue::String((*value).to_owned().into())))
        .collect();
    let mut bytes = Vec::new();
    write_message_to(&Message::new_from_parts(headers, payload.to_vec()), &mut bytes).unwrap();
    bytes
}

fn event_frame(name: &str, payload: &str) -> Vec<u8> {
    frame(&[(":event-type", name), (":message-type", "event")], payload.as_bytes())
}

/// All events of a stream that arrives in these pieces.
fn events<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Vec<String>, ModelError> {
    let (mut frames, mut events) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.push(piece);
        while let Some(event) = frames.event()? {
            events.push(event);
        }
    }
    Ok(events)
}

#[test]
fn events_and_exceptions_become_json() {
    let exception = [(":exception-type", "throttlingException"), (":message-type", "exception")];
    let error = [(":error-code", "500"), (":error-message", "It broke."), (":message-type", "error")];
    let cases = [
        (event_frame("messageStart", r#"{"role":"assistant"}"#), r#"{"messageStart":{"role":"assistant"}}"#),
        (event_frame("a\"b", ""), r#"{"a\"b":{}}"#),
        (
            frame(&exception, br#"{"message":"Slow down."}"#),
            r#"{"exception":{"code":"throttlingException","said":{"message":"Slow down."}}}"#,
        ),
        (frame(&exception, b"hm"), r#"{"exception":{"code":"throttlingException","said":"hm"}}"#),
        (frame(&error, b""), r#"{"exception":{"code":"500","said":"It broke."}}"#),
    ];
    for (bytes, expected) in cases {
        assert_eq!(events([&bytes[..]]).unwrap(), [expected]);
    }
}

#[test]
fn a_damaged_frame_is_refused_wherever_it_is_damaged() {
    let whole = event_frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Hello"}}"#);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        // A length that grew waits for more, which never comes.
        let read = events([&bytes[..]]);
        assert!(read.as_ref().map_or(true, Vec::is_empty), "{at}: {read:?}");
        assert!(at < 4 || read.is_err(), "{at}");
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_has_come() {
    let lengths = |total: u32, headers: u32| [total.to_be_bytes(), headers.to_be_bytes()].concat();
    for bytes in [
        lengths(u32::MAX, 0),
        lengths(LONGEST + 1, 0),
        lengths(1 << 20, LONGEST_HEADERS + 1),
        lengths(15, 0),
        b"data: {\"type\":\"message_start\"}".to_vec(),
        b"<html>".repeat(2),
    ] {
        let error = events([&bytes[..]]).unwrap_err();
        assert!(
            error.message.starts_with("the answer is not a stream of events of AWS: a frame of "),
            "{error}"
        );
    }
    assert_eq!(events([&lengths(LONGEST, LONGEST_HEADERS)[..]]).unwrap(), Vec::<String>::new());
}

#[test]
fn a_frame_that_is_no_event_is_refused() {
    for bytes in [
        frame(&[], b"{}"),
        frame(&[(":message-type", "other")], b"{}"),
        frame(&[(":event-type", "x"), (":message-type", "event")], b"\xff"),
    ] {
        assert!(events([&bytes[..]]).is_err());
    }
}

proptest! {
    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut(
        payloads in prop::collection::vec("\\PC{0,40}", 1..6),
        cuts in prop::collection::vec(1_usize..40, 1..80),
    ) {
        let text = |payload: &String| Value::from(payload.as_str()).to_string();
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| event_frame("e", &text(payload))).collect();
        let expected: Vec<String> = payloads.iter().map(|payload| format!("{{\"e\":{}}}", text(payload))).collect();
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(events(pieces).unwrap(), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = events([&bytes[..]]);
    }

    /// The lengths and checksums are right, and nothing else need be.
    #[test]
    fn no_content_of_a_frame_panics(headers in prop::collection::vec(any::<u8>(), 0..60), payload in prop::collection::vec(any::<u8>(), 0..20)) {
        let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
        let mut bytes = [total.to_be_bytes(), u32::try_from(headers.len()).unwrap().to_be_bytes()].concat();
        bytes.extend(checksum(&bytes));
        bytes.extend(headers);
        bytes.extend(payload);
        bytes.extend(checksum(&bytes));
        let _ = events([&bytes[..]]);
    }
}

/// CRC-32, as the frames have it.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
        }
    }
    (!sum).to_be_bytes()
}
