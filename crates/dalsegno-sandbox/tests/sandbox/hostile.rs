//! Guests that misbehave: each ends with the right typed error inside its limit, and the host goes on.

use std::time::Duration;

use dalsegno_sandbox::{
    Access, CallContext, CallError, CallErrorKind, LoadError, Preopen, Received, ServerConfig, ServerSession,
};
use serde_json::json;

use crate::support::{
    arguments, bare, call, legacy_server, load, reply_id_at, reply_length, sandbox, server, text_at,
};

/// Calls a tool in the polite way.
async fn fine(session: &ServerSession) -> String {
    session.call("any", arguments(json!({})), call()).await.unwrap().text
}

/// Calls a tool in the way that brings out the worst.
async fn marked(session: &ServerSession) -> CallError {
    session.call("any", arguments(json!({"do": "~"})), call()).await.unwrap_err()
}

/// A guest that runs `on_marked` fails so, before and after a good call, and each time a fresh instance takes over.
async fn check(
    on_marked: &str,
    expected: CallErrorKind,
    change: impl FnOnce(&mut ServerConfig),
) -> CallError {
    let server = load(&server(on_marked), change).await;
    let session = server.open("tenant");
    assert_eq!(fine(&session).await, "fine");
    assert_eq!(fine(&session).await, "fine");
    let error = marked(&session).await;
    assert_eq!(error.kind, expected, "{error}");
    assert_eq!(fine(&session).await, "fine");
    let again = marked(&session).await;
    assert_eq!(again.kind, expected, "{again}");
    session.close().await;
    error
}

/// A guest that never gets as far as the handshake fails so, and its calls were certainly not received.
async fn check_start(source: &str, expected: CallErrorKind, change: impl FnOnce(&mut ServerConfig)) {
    let server = load(source, change).await;
    let error = server.open("tenant").call("any", arguments(json!({})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (expected, Received::No), "{error}");
    let error = server.catalogue().await.unwrap_err();
    assert_eq!(error.kind, expected, "{error}");
}

fn unchanged(_: &mut ServerConfig) {}

fn impatient(config: &mut ServerConfig) {
    config.limits.call_timeout = Duration::from_millis(300);
}

#[tokio::test]
async fn an_infinite_loop_is_stopped_at_the_timeout() {
    let error = check("(loop $spin (br $spin))", CallErrorKind::Timeout, impatient).await;
    assert_eq!(error.received, Received::Possibly);
}

#[tokio::test]
async fn a_guest_that_never_answers_is_stopped_at_the_timeout() {
    let error = check("(drop (call $line))", CallErrorKind::Timeout, impatient).await;
    assert_eq!(error.received, Received::Possibly);
}

#[tokio::test]
async fn a_spinning_guest_does_not_hold_up_others() {
    let spinning = load(&server("(loop $spin (br $spin))"), unchanged).await;
    let polite = load(&server(""), unchanged).await;
    let (spinning, polite) = (spinning.open("tenant"), polite.open("tenant"));
    // Everything shares one thread here: without a yield at each tick the polite guest would get no turn.
    let calls = async {
        for _ in 0..5 {
            fine(&polite).await;
        }
    };
    tokio::select! {
        error = marked(&spinning) => panic!("the polite guest was held up until {error}"),
        () = calls => {}
    }
}

#[tokio::test]
async fn a_guest_that_spins_while_nobody_waits_is_suspended() {
    // Answers, then works for many ticks of the engine's clock, then traps.
    let spin = format!(
        "(i32.store8 (i32.const {id}) (local.get $id)) (i32.store8 (i32.const {before}) (i32.const 32))
         (call $write (i32.const 2048) (i32.const {length}))
         (local.set $id (i32.const 0))
         (loop $spin (br_if $spin (local.tee $id (i32.add (local.get $id) (i32.const 1)))))
         unreachable",
        id = reply_id_at(),
        before = reply_id_at() - 1,
        length = reply_length(),
    );
    let server = load(&server(&spin), unchanged).await;
    let session = server.open("tenant");
    session.call("any", arguments(json!({"do": "~"})), call()).await.unwrap();

    // Paused time moves on by itself only when no task can run: a guest at work would first come to its trap.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    tokio::time::resume();

    // So the next call wakes the guest, which traps without having read the call.
    let error = session.call("any", arguments(json!({})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Trap, Received::No), "{error}");
}

#[tokio::test]
async fn a_trap_in_the_middle_of_a_call_is_reported() {
    let error = check("unreachable", CallErrorKind::Trap, unchanged).await;
    assert_eq!(error.received, Received::Possibly);
    assert!(error.message.contains("unreachable"), "{error}");
}

#[tokio::test]
async fn deep_recursion_traps() {
    let error = check("(drop (call $deep (i32.const 0)))", CallErrorKind::Trap, unchanged).await;
    assert!(error.message.contains("stack"), "{error}");
}

#[tokio::test]
async fn an_exit_in_the_middle_of_a_call_is_reported() {
    let error = check("(call $proc_exit (i32.const 7))", CallErrorKind::Exited, unchanged).await;
    assert!(error.message.contains("code 7"), "{error}");
}

#[tokio::test]
async fn an_allocation_bomb_ends_at_the_limit() {
    let bomb = "(loop $more (drop (memory.grow (i32.const 16))) (br $more))";
    let error =
        check(bomb, CallErrorKind::OutOfMemory, |config| config.limits.memory = 2 * 1024 * 1024).await;
    assert!(error.message.contains("2097152"), "{error}");
}

#[tokio::test]
async fn a_table_that_grows_ends_at_the_limit() {
    let bomb = "(loop $more (drop (table.grow (ref.null func) (i32.const 1000))) (br $more))";
    let error = check(bomb, CallErrorKind::OutOfMemory, |config| config.limits.table_elements = 5_000).await;
    assert!(error.message.contains("table elements"), "{error}");
}

#[tokio::test]
async fn an_answer_to_another_question_answers_nothing() {
    let error = check("(local.set $id (i32.const 57))", CallErrorKind::Timeout, impatient).await;
    assert_eq!(error.received, Received::Possibly);
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_passed_over() {
    let twice = format!(
        "(i32.store8 (i32.const {id}) (i32.const 57)) (i32.store8 (i32.const {before}) (i32.const 57))
         (call $write (i32.const 2048) (i32.const {length})) (call $write (i32.const 2048) (i32.const {length}))",
        id = reply_id_at(),
        before = reply_id_at() - 1,
        length = reply_length(),
    );
    let server = load(&server(&twice), unchanged).await;
    let session = server.open("tenant");
    let answer = session.call("any", arguments(json!({"do": "~"})), call()).await.unwrap();
    assert_eq!(answer.text, "fine");
    assert_eq!(fine(&session).await, "fine");
}

#[tokio::test]
async fn output_without_end_is_cut_off() {
    let flood = "(loop $more (call $write (i32.const 8192) (i32.const 4096)) (br $more))";
    check(flood, CallErrorKind::OutputTooLarge, unchanged).await;
}

#[tokio::test]
async fn a_line_that_is_not_the_protocol_is_reported() {
    // The reply without its first letters: `rpc":"2.0", …`.
    let garbage = "(call $write (i32.const 2054) (i32.const 40)) (i32.store8 (i32.const 8192) (i32.const 10))
                   (call $write (i32.const 8192) (i32.const 1)) (drop (call $line))";
    let error = check(garbage, CallErrorKind::Protocol, unchanged).await;
    assert!(error.message.contains("not JSON-RPC"), "{error}");
}

#[tokio::test]
async fn requests_without_end_are_cut_off() {
    let ping = r#"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"#;
    let length = ping.replace('\\', "").len();
    let source =
        server(&format!("(loop $more (call $write (i32.const 8192) (i32.const {length})) (br $more))"))
            .replace("(func $write", &format!("(data (i32.const 8192) \"{ping}\") (func $write"));
    let server = load(&source, unchanged).await;
    let error = marked(&server.open("tenant")).await;
    assert_eq!(error.kind, CallErrorKind::Protocol, "{error}");
}

#[tokio::test]
async fn what_a_guest_wrote_to_standard_error_comes_with_the_failure() {
    let complain = "(i32.store (i32.const 8192) (i32.const 0x6d697267)) (i32.store (i32.const 0) (i32.const 8192))
                    (i32.store (i32.const 4) (i32.const 4))
                    (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))) unreachable";
    let error = check(complain, CallErrorKind::Trap, unchanged).await;
    assert_eq!(error.stderr, "grim");
}

#[tokio::test]
async fn every_call_in_flight_is_answered_when_the_instance_dies() {
    let server = load(&server("unreachable"), unchanged).await;
    let session = server.open("tenant");
    fine(&session).await;
    let bad = || session.call("any", arguments(json!({"do": "~"})), call());
    let (first, second) = tokio::join!(bad(), bad());
    assert_eq!(first.unwrap_err().kind, CallErrorKind::Trap);
    let second = second.unwrap_err();
    // The second request stood in the pipe when the guest died of the first.
    assert_eq!((second.kind, second.received), (CallErrorKind::Trap, Received::No), "{second}");
    assert_eq!(fine(&session).await, "fine");
}

#[tokio::test]
async fn a_call_that_is_given_up_takes_its_instance_with_it() {
    let server = load(&server("(loop $spin (br $spin))"), unchanged).await;
    let session = server.open("tenant");
    fine(&session).await;
    let context = CallContext::new("op", Duration::from_secs(60));
    let given_up = session.call("any", arguments(json!({"do": "~"})), context);
    assert!(tokio::time::timeout(Duration::from_millis(100), given_up).await.is_err());
    assert_eq!(fine(&session).await, "fine");
}

#[tokio::test]
async fn a_server_of_the_old_era_is_understood() {
    let server = load(&legacy_server(), unchanged).await;
    assert_eq!(fine(&server.open("tenant")).await, "fine");
}

#[tokio::test]
async fn a_guest_that_spins_from_the_start_is_stopped() {
    let patience = |config: &mut ServerConfig| config.limits.start_timeout = Duration::from_millis(300);
    check_start(&bare("(loop $spin (br $spin))"), CallErrorKind::Timeout, patience).await;
}

#[tokio::test]
async fn a_guest_that_exits_at_once_is_reported() {
    check_start(&bare(""), CallErrorKind::Exited, unchanged).await;
    check_start(&bare("(call $proc_exit (i32.const 3))"), CallErrorKind::Exited, unchanged).await;
}

#[tokio::test]
async fn a_guest_that_traps_at_once_is_reported() {
    check_start(&bare("unreachable"), CallErrorKind::Trap, unchanged).await;
}

#[tokio::test]
async fn a_guest_whose_first_memory_is_over_the_limit_does_not_start() {
    let small = |config: &mut ServerConfig| config.limits.memory = 1024;
    check_start(&bare(""), CallErrorKind::OutOfMemory, small).await;
}

#[tokio::test]
async fn nothing_is_granted_by_default() {
    // Variables, arguments, and what `path_open` on the first folder says: 8 is `badf`.
    let probe = format!(
        "(drop (call $environ_sizes_get (i32.const 8192) (i32.const 8196)))
         (i32.store8 (i32.const {0}) (i32.add (i32.const 48) (i32.load (i32.const 8192))))
         (drop (call $args_sizes_get (i32.const 8192) (i32.const 8196)))
         (i32.store8 (i32.const {1}) (i32.add (i32.const 48) (i32.load (i32.const 8192))))
         (i32.store8 (i32.const {2}) (i32.add (i32.const 48) (call $path_open (i32.const 3) (i32.const 0)
           (i32.const {path}) (i32.const 1) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 8200))))
         (i32.store8 (i32.const {3}) (i32.const 45))",
        text_at(),
        text_at() + 1,
        text_at() + 2,
        text_at() + 3,
        path = text_at(),
    );
    let server = load(&server(&probe), unchanged).await;
    let output = server.open("tenant").call("any", arguments(json!({"do": "~"})), call()).await.unwrap();
    assert_eq!(output.text, "008-");
}

#[tokio::test]
async fn a_granted_folder_cannot_be_left() {
    let folder = tempfile::tempdir().unwrap();
    let granted = folder.path().join("granted");
    std::fs::create_dir(&granted).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(granted.join("secret"), "open").unwrap();
    // Opens a path for reading and says what became of it: 0 is success, 63 is `perm`.
    let open = |path: &str| {
        let probe = format!(
            "(local.set $id (call $path_open (i32.const 3) (i32.const 0) (i32.const 8192) (i32.const {length})
               (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 8300)))
             (i32.store8 (i32.const {0}) (i32.add (i32.const 48) (i32.div_u (local.get $id) (i32.const 10))))
             (i32.store8 (i32.const {1}) (i32.add (i32.const 48) (i32.rem_u (local.get $id) (i32.const 10))))
             (local.set $id (i32.const 49))",
            text_at(),
            text_at() + 1,
            length = path.len(),
        );
        server(&probe).replace("(func $write", &format!("(data (i32.const 8192) \"{path}\") (func $write"))
    };
    for (path, expected) in [("secret", "00ne"), ("../secret", "63ne"), ("/etc/passwd", "63ne")] {
        let grant = |config: &mut ServerConfig| {
            config.permissions.files =
                vec![Preopen { host: granted.clone(), guest: "/data".to_owned(), access: Access::Read }];
        };
        let server = load(&open(path), grant).await;
        let output = server.open("tenant").call("any", arguments(json!({"do": "~"})), call()).await.unwrap();
        assert_eq!(output.text, expected, "{path}");
    }
}

#[tokio::test]
async fn clock_and_randomness_are_fixed() {
    // Random letters, and `y` when the wall clock says 2000-01-01T00:00:00Z.
    let probe = format!(
        "(drop (call $random_get (i32.const 8192) (i32.const 3)))
         (i32.store8 (i32.const {0}) (i32.add (i32.const 97) (i32.and (i32.load8_u (i32.const 8192)) (i32.const 15))))
         (i32.store8 (i32.const {1}) (i32.add (i32.const 97) (i32.and (i32.load8_u (i32.const 8193)) (i32.const 15))))
         (i32.store8 (i32.const {2}) (i32.add (i32.const 97) (i32.and (i32.load8_u (i32.const 8194)) (i32.const 15))))
         (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 8192)))
         (i32.store8 (i32.const {3}) (select (i32.const 121) (i32.const 110)
           (i64.eq (i64.load (i32.const 8192)) (i64.const 946684800000000000))))",
        text_at(),
        text_at() + 1,
        text_at() + 2,
        text_at() + 3,
    );
    let server = load(&server(&probe), unchanged).await;
    let mut texts = Vec::new();
    for _ in 0..2 {
        let session = server.open("tenant");
        texts.push(session.call("any", arguments(json!({"do": "~"})), call()).await.unwrap().text);
    }
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].ends_with('y'), "{texts:?}");
}

#[tokio::test]
async fn files_that_are_not_modules_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module.wasm");
    let whole = wat::parse_str(server("")).unwrap();

    let missing = sandbox().load(ServerConfig::new("guest", &path)).await.unwrap_err();
    assert!(matches!(missing, LoadError::NotFound { .. }), "{missing}");

    std::fs::write(&path, "fn main() {}").unwrap();
    let text = sandbox().load(ServerConfig::new("guest", &path)).await.unwrap_err();
    assert!(matches!(&text, LoadError::NotWasm { found, .. } if found == "the text `fn main(`"), "{text}");

    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let truncated = sandbox().load(ServerConfig::new("guest", &path)).await.unwrap_err();
    assert!(matches!(truncated, LoadError::Compile { .. }), "{truncated}");

    std::fs::write(&path, wat::parse_str("(module)").unwrap()).unwrap();
    let library = sandbox().load(ServerConfig::new("guest", &path)).await.unwrap_err();
    assert!(matches!(library, LoadError::Link { .. }), "{library}");

    let foreign = wat::parse_str(r#"(module (import "env" "x" (func)) (func (export "_start")))"#).unwrap();
    std::fs::write(&path, foreign).unwrap();
    let foreign = sandbox().load(ServerConfig::new("guest", &path)).await.unwrap_err();
    assert!(matches!(foreign, LoadError::Link { .. }), "{foreign}");
}
