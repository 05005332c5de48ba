//! What a guest costs: a warm call, a cold start, a load from the cache, the memory of a thousand instances; and the same
//! tool as a native child process over standard input and output.
//!
//! ```sh
//! cargo xtask guests
//! cargo build --release --manifest-path tool-servers/Cargo.toml -p risk     # for the comparison
//! cargo bench -p dalsegno-sandbox
//! ```
#![expect(clippy::unwrap_used, reason = "what fails here fails the bench")]
#![expect(clippy::print_stdout, reason = "the memory of instances is no time, so criterion cannot tell it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use dalsegno_sandbox::{
    Allocation, CachePlace, CallContext, Sandbox, SandboxOptions, ServerConfig, ServerSession, ToolServer,
};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tool-servers/target")
}

fn module() -> PathBuf {
    let module = guests().join("wasm32-wasip2/release/risk.wasm");
    assert!(module.is_file(), "build the guests first: cargo xtask guests");
    module
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn arguments() -> Map<String, Value> {
    match json!({"text": "the checkout is down"}) {
        Value::Object(arguments) => arguments,
        other => unreachable!("{other}"),
    }
}

async fn call(session: &ServerSession) {
    let context = CallContext::new("op", Duration::from_secs(5));
    session.call("score", arguments(), context).await.unwrap();
}

struct Bench {
    runtime: Runtime,
    sandbox: Sandbox,
    server: ToolServer,
    _cache: tempfile::TempDir,
}

impl Bench {
    fn new(allocation: Allocation) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let options = SandboxOptions {
            cache: Some(CachePlace {
                folder: cache.path().join("cache"),
                key: cache.path().join("modules.key"),
            }),
            allocation,
            ..SandboxOptions::default()
        };
        let runtime = runtime();
        let sandbox = Sandbox::new(options).unwrap();
        let server = runtime.block_on(sandbox.load(ServerConfig::new("risk", module()))).unwrap();
        Self { runtime, sandbox, server, _cache: cache }
    }
}

fn warm_call(criterion: &mut Criterion) {
    let bench = Bench::new(Allocation::Pooled);
    let session = bench.server.open("tenant");
    bench.runtime.block_on(call(&session));
    criterion.bench_function("warm call", |bencher| bencher.iter(|| bench.runtime.block_on(call(&session))));
}

fn cold_start(criterion: &mut Criterion) {
    for (name, allocation) in
        [("cold start, pooled", Allocation::Pooled), ("cold start, on demand", Allocation::OnDemand)]
    {
        let bench = Bench::new(allocation);
        // The handshake that the server speaks is learned once.
        bench.runtime.block_on(call(&bench.server.open("tenant")));
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| bench.runtime.block_on(call(&bench.server.open("tenant"))));
        });
    }
}

fn load(criterion: &mut Criterion) {
    let bench = Bench::new(Allocation::Pooled);
    criterion.bench_function("load from the cache", |bencher| {
        // Letting go of the machine code is no part of loading it.
        bencher.iter_with_large_drop(|| {
            let loading = bench.sandbox.load(ServerConfig::new("risk", module()));
            let server = bench.runtime.block_on(loading).unwrap();
            assert!(server.from_cache());
            server
        });
    });
}

/// What a process takes of the machine's memory in bytes, where the system says it. What is mapped many times counts once,
/// such as the part of a guest's memory that it never changes, which all its instances share.
fn memory_of(process: &str) -> Option<u64> {
    let sums = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = sums.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

fn memory(_: &mut Criterion) {
    for (name, allocation) in [("pooled", Allocation::Pooled), ("on demand", Allocation::OnDemand)] {
        let bench = Bench::new(allocation);
        bench.runtime.block_on(call(&bench.server.open("tenant")));
        let Some(before) = memory_of("self") else { return };
        let sessions: Vec<ServerSession> = (0..INSTANCES).map(|_| bench.server.open("tenant")).collect();
        bench.runtime.block_on(async {
            for session in &sessions {
                call(session).await;
            }
        });
        let after = memory_of("self").unwrap_or(before);
        assert_eq!(bench.server.stats().instances, INSTANCES);
        let each = (after - before) / INSTANCES;
        println!(
            "{INSTANCES} live instances, {name}: {} MiB, {} KiB each",
            (after - before) >> 20,
            each >> 10
        );
    }
}

/// The same tool in a child process. The lines are written and read as they are, without a client's checks, so this is
/// the least that a child can cost.
struct Native {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Native {
    fn program() -> Option<PathBuf> {
        let program = guests().join("release/risk");
        program.is_file().then_some(program)
    }

    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut native = Self { child, input, output: BufReader::new(output), line: String::new() };
        native.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
        }}));
        native.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        native
    }

    fn call(&mut self) {
        let answer = self.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "score", "arguments": arguments(),
        }}));
        assert!(answer["result"]["structuredContent"]["value"].is_number(), "{answer}");
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.tell(message);
        self.line.clear();
        self.output.read_line(&mut self.line).unwrap();
        serde_json::from_str(&self.line).unwrap()
    }

    fn tell(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn native(criterion: &mut Criterion) {
    let Some(program) = Native::program() else {
        println!("no comparison with a child process: `risk` was not built for this machine");
        return;
    };
    let mut child = Native::start(&program);
    criterion.bench_function("child process: warm call", |bencher| bencher.iter(|| child.call()));
    if let Some(bytes) = memory_of(&child.child.id().to_string()) {
        println!("one child process: {} KiB", bytes >> 10);
    }
    criterion.bench_function("child process: cold start", |bencher| {
        bencher.iter(|| Native::start(&program).call());
    });
}

const INSTANCES: u64 = 1_000;

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50).measurement_time(Duration::from_secs(4));
    targets = warm_call, cold_start, load, memory, native
}
criterion_main!(benches);
