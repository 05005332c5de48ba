//! Tool servers as tiny sources: what they do instead of answering a call is all that matters of them.

use std::fs;

use crate::support::Workspace;

/// A workspace whose agent `page` calls a server's only tool, `pager.page`. Nothing says that the tool may be repeated.
pub(crate) fn paging(on_call: &str, call_timeout: &str) -> Workspace {
    let workspace = Workspace::empty();
    workspace.write(
        "dalsegno.toml",
        &format!(
            "[servers.pager]\nwasm = \"pager.wasm\"\n\n[servers.pager.limits]\ncall_timeout = \"{call_timeout}\"\n"
        ),
    );
    workspace.write("agents/page.toml", AGENT);
    install(&workspace, &server(on_call));
    workspace
}

/// Puts a module, given as WebAssembly text, in the place of the server.
pub(crate) fn install(workspace: &Workspace, source: &str) {
    fs::write(workspace.path("pager.wasm"), wat::parse_str(source).unwrap()).unwrap();
}

/// Does not answer a call: waits for a next line, which never comes.
pub(crate) const SILENT: &str = "(drop (call $line))";

/// A module that ends before it has read anything.
pub(crate) const GONE: &str = "(module (memory (export \"memory\") 1) (func (export \"_start\")))";

/// A server of the stateless revision that lists its tool and runs `on_call` instead of answering a call.
///
/// The host starts an instance for the list and another one for the calls of a run; either way the first request is
/// `server/discover`, with the id 0.
pub(crate) fn server(on_call: &str) -> String {
    let data = |at: usize, text: &str| format!("(data (i32.const {at}) {text:?})");
    let (discovered, listed) = (data(1024, DISCOVERED), data(2048, LISTED));
    format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
          (memory (export "memory") 1)
          {discovered}
          {listed}
          (func $write (param $at i32) (param $length i32)
            (block $done (loop $more
              (br_if $done (i32.eqz (local.get $length)))
              (i32.store (i32.const 0) (local.get $at))
              (i32.store (i32.const 4) (local.get $length))
              (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
              (local.set $length (i32.sub (local.get $length) (i32.load (i32.const 8))))
              (br $more))))
          ;; Reads one line; 1 when it holds `s/l`, as only `tools/list` does. Exits at the end of input.
          (func $line (result i32) (local $last3 i32) (local $found i32)
            (loop $more
              (i32.store (i32.const 0) (i32.const 16))
              (i32.store (i32.const 4) (i32.const 1))
              (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (if (i32.eqz (i32.load (i32.const 8))) (then (call $proc_exit (i32.const 0))))
              (local.set $last3
                (i32.and
                  (i32.or (i32.shl (local.get $last3) (i32.const 8)) (i32.load8_u (i32.const 16)))
                  (i32.const 0xffffff)))
              (if (i32.eq (local.get $last3) (i32.const 0x732f6c)) (then (local.set $found (i32.const 1))))
              (br_if $more (i32.ne (i32.load8_u (i32.const 16)) (i32.const 10))))
            (local.get $found))
          (func (export "_start")
            (drop (call $line))
            (call $write (i32.const 1024) (i32.const {discovered_length}))
            (loop $requests
              (if (call $line)
                (then (call $write (i32.const 2048) (i32.const {listed_length})))
                (else {on_call}))
              (br $requests))))"#,
        discovered_length = DISCOVERED.len(),
        listed_length = LISTED.len(),
    )
}

const AGENT: &str = r#"name = "page"
version = "1.0.0"
description = "Pages whoever is on call."

[tools]
allow = ["pager.*"]

[[steps]]
id = "page"
tool = "pager.page"
with = { who = "{{request.text}}" }

[[steps]]
respond = "Paged: {{steps.page}}"
"#;

const DISCOVERED: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
    r#""capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","#,
    r#""serverInfo":{"name":"pager","version":"1"}}}"#,
    "\n"
);

const LISTED: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","#,
    r#""tools":[{"name":"page","description":"Pages somebody.","inputSchema":{"type":"object","#,
    r#""properties":{"who":{"type":"string"}},"required":["who"]}}]}}"#,
    "\n"
);
