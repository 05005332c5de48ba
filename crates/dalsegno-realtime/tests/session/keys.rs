//! Keys that are sent to the caller's line.

use dalsegno_core::LiveNews;
use dalsegno_core::OperationId;
use dalsegno_realtime::{KeysEnd, LiveSession, ModelSession as _, NoKeys};
use serde_json::{Value, json};

use crate::duplex::Line;
use crate::settings;

/// The provider says that it has sent a key; without an id if this is none.
fn sent(about: &Value) -> Value {
    json!({ "type": "transport.dtmf.sent", "event": "1", "client_event_id": about })
}

fn refused(about: &Value) -> Value {
    let error = json!({ "code": "dtmf_failed", "message": "The trunk is gone.", "client_event_id": about });
    json!({ "type": "error", "error": error })
}

/// The one frame that was sent since the last look.
fn only(line: &mut Line) -> Value {
    assert_eq!(line.sent.len(), 1, "{:?}", line.sent);
    line.sent.remove(0)
}

#[test]
fn keys_are_sent_one_after_the_other() {
    let mut line = Line::open();
    line.send_keys(7, "1*").unwrap();
    let first = only(&mut line);
    assert_eq!((&first["type"], &first["event"]), (&json!("transport.dtmf.send"), &json!("1")));
    assert!(!line.is_between(), "a process does not let go of the call meanwhile");
    assert_eq!(line.send_keys(8, "2"), Err(NoKeys::NotNow), "one after the other");
    // What is about another frame says nothing.
    line.frame(sent(&json!("other")));
    assert_eq!(line.sent, [] as [Value; 0]);
    line.frame(sent(&first["event_id"]));
    let second = only(&mut line);
    assert_eq!(second["event"], "*");
    assert_ne!(second["event_id"], first["event_id"]);
    line.frame(sent(&first["event_id"]));
    assert_eq!((line.sent.len(), line.keys.as_slice()), (0, &[][..]), "it was told that before");
    // Some servers do not name what they answer.
    line.frame(sent(&Value::Null));
    assert_eq!(line.keys, [KeysEnd::Sent]);
    assert!(line.is_between());
    line.send_keys(8, "2").unwrap();
    assert_ne!(only(&mut line)["event_id"], first["event_id"]);
}

#[test]
fn a_key_that_is_refused_is_the_last_one() {
    let mut line = Line::open();
    line.send_keys(7, "123").unwrap();
    let first = only(&mut line);
    line.frame(sent(&first["event_id"]));
    let second = only(&mut line);
    line.frame(refused(&second["event_id"]));
    let reason = "The trunk is gone.".to_owned();
    assert_eq!(line.keys, [KeysEnd::Refused { sent: 1, reason }]);
    line.frame(sent(&second["event_id"]));
    assert_eq!((line.sent.len(), line.keys.len()), (0, 1));
}

#[test]
fn where_the_answer_is_missing_it_is_not_known_and_nothing_is_sent_again() {
    let mut line = Line::open();
    line.send_keys(7, "12").unwrap();
    let first = only(&mut line);
    line.frame(sent(&first["event_id"]));
    line.sent.clear();
    line.lose();
    assert!(matches!(line.keys.as_slice(), [KeysEnd::Unknown { sent: 1, .. }]), "{:?}", line.keys);
    assert_eq!(line.send_keys(8, "3"), Err(NoKeys::NotNow), "there is no connection");
    line.attach();
    assert_eq!((line.sent.len(), line.keys.len()), (0, 1));
    line.send_keys(8, "3").unwrap();
    // The call ends meanwhile.
    line.frame(json!({ "type": "session.closed", "reason": "remote_hangup" }));
    assert!(matches!(line.keys.as_slice(), [_, KeysEnd::Unknown { sent: 0, .. }]), "{:?}", line.keys);
}

#[test]
fn what_is_given_up_is_sent_no_further() {
    let mut line = Line::open();
    line.send_keys(7, "12").unwrap();
    let first = only(&mut line);
    line.stop_keys();
    line.frame(sent(&first["event_id"]));
    assert_eq!((line.sent.len(), line.keys.len()), (0, 0));
    line.send_keys(8, "3").unwrap();
    assert_eq!(only(&mut line)["event"], "3");
}

#[test]
fn keys_of_the_caller_are_others() {
    let mut line = Line::open();
    line.send_keys(7, "1").unwrap();
    line.frame(json!({ "type": "transport.dtmf.received", "event": "1" }));
    assert_eq!(line.keys, []);
    assert_eq!(line.take_news(), [LiveNews::Digit { digit: '1' }]);
}

#[test]
fn a_session_of_the_realtime_api_sends_none() {
    let mut session = LiveSession::new(settings());
    let operation = OperationId::from_bytes([1; 16]);
    assert_eq!(session.send_keys(operation, "1"), Err(NoKeys::Never));
}
