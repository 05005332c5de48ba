//! What holds for any bytes that a server writes: the bodies of the fuzz targets.
//!
//! The targets call these with what libFuzzer invents; `tests/corpus.rs` calls them on stable with every file of the corpus.

use dalsegno_protocol::{CallErrorKind, is_request, parse_line};
use rmcp::model::JsonRpcMessage;

/// A line, or the data of a server-sent event, is understood, passed over or refused, and no request goes uncounted.
pub fn line(data: &[u8]) {
    let parsed = parse_line(data);
    match &parsed {
        Ok(Some(message)) => {
            let written = serde_json::to_vec(message).expect("what was read can be written");
            assert!(matches!(parse_line(&written), Ok(Some(_))), "what was written can be read");
        }
        Ok(None) => {}
        Err(failure) => {
            assert_eq!(failure.kind, CallErrorKind::Protocol);
            assert!(failure.message.chars().count() < 2_000, "it shows the beginning only");
            assert!(!failure.message.chars().any(char::is_control), "it cannot steer a terminal");
        }
    }
    if let (Ok(Some(JsonRpcMessage::Request(_))), Ok(text)) = (&parsed, str::from_utf8(data)) {
        assert!(is_request(text.trim()), "a request that the client answers is counted");
    }
}
