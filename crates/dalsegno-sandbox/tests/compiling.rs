//! Modules that a stranger wrote so that compiling them takes long. A program of its own: what is given up keeps its place in the
//! process until it is compiled, and nothing else is compiled meanwhile.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use dalsegno_sandbox::{LoadError, Sandbox, SandboxOptions, ServerConfig, ToolServer};
use serde_json::json;

use support::{arguments, call, place, server};

fn number(mut number: usize, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn section(id: u8, content: &[u8], into: &mut Vec<u8>) {
    into.push(id);
    number(content.len(), into);
    into.extend(content);
}

/// A module within all bounds whose functions are one branch after the other. `mark` makes it another one.
fn branches(functions: usize, mark: u8) -> Vec<u8> {
    let mut body = vec![0];
    for _ in 0..4_000 {
        // A block that is left if the parameter is not 0, and else changes it.
        body.extend([0x02, 0x40, 0x20, 0x00, 0x0d, 0x00]);
        body.extend([0x20, 0x00, 0x41, mark & 0x3f, 0x6c, 0x20, 0x00, 0x6a, 0x21, 0x00, 0x0b]);
    }
    body.extend([0x20, 0x00, 0x0b]);
    let mut code = Vec::new();
    number(functions + 1, &mut code);
    code.extend([2, 0, 0x0b]);
    for _ in 0..functions {
        number(body.len(), &mut code);
        code.extend(&body);
    }
    let mut types = Vec::new();
    number(functions + 1, &mut types);
    types.push(0);
    types.extend(std::iter::repeat_n(1, functions));
    let mut wasm = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[2, 0x60, 0, 0, 0x60, 1, 0x7f, 1, 0x7f], &mut wasm);
    section(3, &types, &mut wasm);
    section(7, b"\x01\x06_start\0\0", &mut wasm);
    section(10, &code, &mut wasm);
    wasm
}

async fn load(sandbox: &Sandbox, path: &Path, patience: Duration) -> Result<ToolServer, LoadError> {
    let mut config = ServerConfig::new("guest", path);
    config.limits.compile_timeout = patience;
    sandbox.load(config).await
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_module_that_takes_too_long_is_given_up_and_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(place(folder.path()));
    let sandbox = Sandbox::new(SandboxOptions { cache, ..SandboxOptions::default() }).unwrap();
    let file = |name: &str, wasm: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, wasm).unwrap();
        path
    };
    let [one, other] = [1, 2].map(|mark| file(&format!("{mark}.wasm"), &branches(30, mark)));
    let polite = file("polite.wasm", &wat::parse_str(server("")).unwrap());
    let late = file("late.wasm", &branches(1, 3));

    let began = Instant::now();
    let error = load(&sandbox, &one, SHORT).await.unwrap_err();
    assert!(matches!(error, LoadError::Slow { .. }), "{error}");
    assert!(error.to_string().contains("did not compile within 0.05 s: raise `compile_timeout`"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // It is not begun once more while it is at work, however patient its load is.
    let error = load(&sandbox, &one, LONG).await.unwrap_err();
    assert!(matches!(error, LoadError::Slow { .. }), "{error}");
    // Others have threads of their own.
    let polite = load(&sandbox, &polite, LONG).await.unwrap();
    let output = polite.open("tenant").call("any", arguments(json!({})), call()).await.unwrap();
    assert_eq!(output.text, "fine");
    // Not for ever: strangers must not fill the process with compilers.
    let error = load(&sandbox, &other, SHORT).await.unwrap_err();
    assert!(matches!(error, LoadError::Slow { .. }), "{error}");
    let error = load(&sandbox, &late, LONG).await.unwrap_err();
    assert!(matches!(error, LoadError::Busy { others: 2, .. }), "{error}");
    // A compiler that was given up ends, what it made is kept, and there is room again.
    while began.elapsed() < LONG {
        if let Ok(one) = load(&sandbox, &one, LONG).await {
            assert!(one.from_cache());
            load(&sandbox, &late, LONG).await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it is still at work");
}
