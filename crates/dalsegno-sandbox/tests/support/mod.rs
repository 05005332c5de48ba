//! Guests as tiny sources, and what every test of this crate needs.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use dalsegno_sandbox::{CachePlace, CallContext, Sandbox, SandboxOptions, ServerConfig, ToolServer};
use serde_json::{Map, Value};

/// One engine for all tests of a file, with a cache that lives as long: each guest is compiled once.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        Sandbox::new(SandboxOptions { cache: Some(cache_place()), ..SandboxOptions::default() }).unwrap()
    })
}

/// A folder for compiled guests that all tests of a file share.
pub(crate) fn cache_place() -> CachePlace {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    place(FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path())
}

/// A place for compiled guests in a folder.
pub(crate) fn place(folder: &Path) -> CachePlace {
    CachePlace { folder: folder.join("cache"), key: folder.join("state/modules.key") }
}

/// The compiled `risk` server.
pub(crate) fn risk_module() -> PathBuf {
    guest_module("risk")
}

/// A compiled server of `tool-servers/`.
pub(crate) fn guest_module(name: &str) -> PathBuf {
    let folder = match std::env::var_os("DALSEGNO_GUESTS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tool-servers/target/wasm32-wasip2/release"),
    };
    let path = folder.join(name).with_extension("wasm");
    assert!(path.is_file(), "build the guests first: cargo xtask guests");
    path
}

pub(crate) fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("expected an object, found {other}"),
    }
}

pub(crate) fn call() -> CallContext {
    CallContext::new("op_test", Duration::from_secs(60))
}

/// Writes a guest given as WebAssembly text to a file of its own and loads it.
pub(crate) async fn load(source: &str, change: impl FnOnce(&mut ServerConfig)) -> ToolServer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.wasm");
    std::fs::write(&path, wat::parse_str(source).unwrap()).unwrap();
    let mut config = ServerConfig::new("guest", &path);
    // Guests written by hand answer at once; a test machine may still be slow.
    config.limits.call_timeout = Duration::from_secs(30);
    config.limits.start_timeout = Duration::from_secs(30);
    change(&mut config);
    sandbox().load(config).await.unwrap()
}

/// A server of the stateless revision: answers `fine` to every call, but runs `on_marked` when a request holds a `~`. Good for nine calls.
///
/// `on_marked` may use `$write (at, length)`, `$deep`, the imports, the reply at 2048 whose text is at `TEXT`,
/// and the memory from 8192 on. When it falls through, the reply is sent.
pub(crate) fn server(on_marked: &str) -> String {
    let discovered = concat!(
        r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
        r#""capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","serverInfo":{"name":"guest","version":"1"}}}"#,
        "\n"
    );
    let start =
        format!("(drop (call $line)) (call $write (i32.const 1024) (i32.const {}))", discovered.len());
    module(&[(1024, discovered)], &start, 1, on_marked)
}

/// A server of the old era: refuses `server/discover`, then shakes hands by `initialize`. Good for one start.
pub(crate) fn legacy_server() -> String {
    let refused =
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"unknown method\"}}\n";
    let initialized = concat!(
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"#,
        r#""serverInfo":{"name":"guest","version":"1"}}}"#,
        "\n"
    );
    let start = format!(
        "(drop (call $line)) (call $write (i32.const 1024) (i32.const {}))
         (drop (call $line)) (call $write (i32.const 1400) (i32.const {}))
         (drop (call $line))",
        refused.len(),
        initialized.len()
    );
    module(&[(1024, refused), (1400, initialized)], &start, 2, "")
}

/// A server of the stateless revision with a tool, a resource and a prompt. Good for nine requests.
///
/// It tells requests apart by the length and the last letter of their method.
pub(crate) fn library_server() -> String {
    let meta = r#""ttlMs":0,"cacheScope":"private","resultType":"complete""#;
    let replies = [
        ("server/discover", format!(r#""result":{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},"resources":{{}},"prompts":{{}}}},{meta}}}"#)),
        ("tools/list", format!(r#""result":{{"tools":[{{"name":"look","inputSchema":{{"type":"object"}}}}],{meta}}}"#)),
        ("resources/list", format!(r#""result":{{"resources":[{{"uri":"test://a","name":"a"}}],{meta}}}"#)),
        ("resources/templates/list", r#""error":{"code":-32601,"message":"unknown method"}"#.to_owned()),
        ("resources/read", format!(r#""result":{{"contents":[{{"uri":"test://a","text":"a page"}}],{meta}}}"#)),
        ("prompts/list", format!(r#""result":{{"prompts":[{{"name":"greet"}}],{meta}}}"#)),
        ("prompts/get", r#""result":{"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}],"resultType":"complete"}"#.to_owned()),
    ];
    let (mut data, mut answers) = (String::new(), String::new());
    for (place, (method, body)) in replies.into_iter().enumerate() {
        let (at, reply) = (2048 + place * 512, format!("{{\"jsonrpc\":\"2.0\",\"id\": 0,{body}}}\n"));
        assert!(reply.len() <= 512, "{method}");
        let (length, key) = (reply.len(), method_key(method));
        data.push_str(&format!("(data (i32.const {at}) \"{}\")\n", reply.escape_default()));
        let id_at = at + reply.find(" 0").unwrap() + 1;
        answers.push_str(&format!(
            "(if (i32.eq (local.get $key) (i32.const {key})) (then
               (i32.store8 (i32.const {id_at}) (local.get $id))
               (call $write (i32.const {at}) (i32.const {length}))))\n"
        ));
    }
    format!(
        r#"(module {IMPORTS}
          (memory (export "memory") 1)
          {data}
          (func $write (param $at i32) (param $length i32)
            (i32.store (i32.const 0) (local.get $at))
            (i32.store (i32.const 4) (local.get $length))
            (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable)))
          ;; Reads one line and returns the key of its method. Exits at the end of input.
          (func $line (result i32) (local $byte i32) (local $seen i64) (local $length i32) (local $last i32) (local $state i32)
            (loop $more
              (i32.store (i32.const 0) (i32.const 16))
              (i32.store (i32.const 4) (i32.const 1))
              (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (if (i32.eqz (i32.load (i32.const 8))) (then (call $proc_exit (i32.const 0))))
              (local.set $byte (i32.load8_u (i32.const 16)))
              (if (i32.eq (local.get $state) (i32.const 1)) (then
                (if (i32.eq (local.get $byte) (i32.const 34))
                  (then (local.set $state (i32.const 2)))
                  (else
                    (local.set $length (i32.add (local.get $length) (i32.const 1)))
                    (local.set $last (local.get $byte))))))
              (local.set $seen
                (i64.or (i64.shl (local.get $seen) (i64.const 8)) (i64.extend_i32_u (local.get $byte))))
              ;; The eight bytes `ethod":"`.
              (if (i64.eq (local.get $seen) (i64.const 0x6574686f64223a22)) (then
                (if (i32.eqz (local.get $state)) (then (local.set $state (i32.const 1))))))
              (br_if $more (i32.ne (local.get $byte) (i32.const 10))))
            (i32.add (i32.shl (local.get $length) (i32.const 8)) (local.get $last)))
          (func (export "_start") (local $id i32) (local $key i32)
            (local.set $id (i32.const 48))
            (loop $requests
              (local.set $key (call $line))
              {answers}
              (local.set $id (i32.add (local.get $id) (i32.const 1)))
              (br $requests))))"#
    )
}

/// By what that server knows a method.
pub(crate) fn method_key(method: &str) -> usize {
    (method.len() << 8) | usize::from(*method.as_bytes().last().unwrap())
}

/// Where the four letters of the reply's text are.
pub(crate) fn text_at() -> usize {
    2048 + REPLY.find("fine").unwrap()
}

/// Where the last digit of the reply's id is; the place before it is free.
pub(crate) fn reply_id_at() -> usize {
    2048 + REPLY.find("ID").unwrap() + 1
}

/// How long the reply is, its line break included.
pub(crate) fn reply_length() -> usize {
    REPLY.len()
}

/// A module that runs `body` and knows no protocol.
pub(crate) fn bare(body: &str) -> String {
    format!("(module {IMPORTS} (memory (export \"memory\") 1) (func (export \"_start\") {body}))")
}

fn module(data: &[(usize, &str)], start: &str, first_id: u8, on_marked: &str) -> String {
    let data: String = data
        .iter()
        .chain([&(2048, REPLY)])
        .map(|(at, text)| {
            format!("(data (i32.const {at}) \"{}\")\n", text.escape_default().to_string().replace("\\'", "'"))
        })
        .collect();
    let id_at = reply_id_at();
    let length = REPLY.len();
    let first = u32::from(b'0' + first_id);
    format!(
        "(module {IMPORTS}
          (memory (export \"memory\") 1)
          (table 1 funcref)
          {data}
          (func $write (param $at i32) (param $length i32)
            (block $done (loop $more
              (br_if $done (i32.eqz (local.get $length)))
              (i32.store (i32.const 0) (local.get $at))
              (i32.store (i32.const 4) (local.get $length))
              (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
              (local.set $length (i32.sub (local.get $length) (i32.load (i32.const 8))))
              (br $more))))
          ;; Reads one line; 1 when it holds a `~`. Exits at the end of input.
          (func $line (result i32) (local $marked i32)
            (loop $more
              (i32.store (i32.const 0) (i32.const 16))
              (i32.store (i32.const 4) (i32.const 1))
              (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (if (i32.eqz (i32.load (i32.const 8))) (then (call $proc_exit (i32.const 0))))
              (if (i32.eq (i32.load8_u (i32.const 16)) (i32.const 126)) (then (local.set $marked (i32.const 1))))
              (br_if $more (i32.ne (i32.load8_u (i32.const 16)) (i32.const 10))))
            (local.get $marked))
          (func $deep (param $depth i32) (result i32)
            (i32.add (call $deep (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))
          (func (export \"_start\") (local $id i32)
            {start}
            (local.set $id (i32.const {first}))
            (loop $calls
              (if (call $line) (then {on_marked}))
              ;; The id has two places; JSON allows a space before the digit.
              (i32.store8 (i32.const {}) (i32.const 32))
              (i32.store8 (i32.const {id_at}) (local.get $id))
              (call $write (i32.const 2048) (i32.const {length}))
              (local.set $id (i32.add (local.get $id) (i32.const 1)))
              (br $calls))))",
        id_at - 1
    )
}

const REPLY: &str = concat!(
    r#"{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}"#,
    "\n"
);

const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
"#;
