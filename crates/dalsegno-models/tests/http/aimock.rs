//! The four wires against `aimock`, a deterministic mock server that others wrote.
//!
//! It is installed on first use below the target folder. Without node, npm or the registry these tests say so and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use dalsegno_core::{ModelReply, ReplyPart, StopReason};
use dalsegno_models::{
    CompletionRequest, HttpModel, HttpModelSettings, Model, ModelError, ModelErrorKind, Retry, Wire,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::requests::{Deltas, after, calls, key, plain, valid, with_tools};

const PACKAGE: &str = "@copilotkit/aimock@1.43.0";

/// A running server, killed when the test ends.
struct Mock {
    url: String,
    _process: Child,
}

impl Mock {
    /// Starts the server, or says why it cannot.
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    async fn start() -> Option<Self> {
        static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let program = match tokio::task::block_in_place(|| INSTALLED.get_or_init(install)) {
            Ok(program) => program,
            Err(reason) => {
                eprintln!("SKIPPED: the tests against {PACKAGE} did not run: {reason}");
                return None;
            }
        };
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/aimock");
        let mut process = tokio::process::Command::new("node")
            .arg(program)
            .args(["--strict", "--validate-on-load", "--port", "0", "--chunk-size", "5", "--fixtures"])
            .arg(fixtures)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, url)) = line.split_once("listening on ") {
                let url = url.trim().to_owned();
                // The pipe must not fill up.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Some(Self { url, _process: process });
            }
        }
        panic!("the mock server ended before it listened");
    }

    async fn ask(&self, wire: Wire, request: &CompletionRequest) -> Result<ModelReply, ModelError> {
        let mut settings = HttpModelSettings::new(wire, "some-model");
        let path = match wire {
            Wire::OpenaiChat | Wire::OpenaiResponses => "/v1",
            Wire::Anthropic | Wire::Bedrock => "",
            Wire::Gemini => "/v1beta",
        };
        settings.base_url = Some(format!("{}{path}", self.url));
        if wire == Wire::OpenaiResponses {
            settings.extra.insert("reasoning".to_owned(), json!({"effort": "low"}));
        }
        let deltas = Deltas::default();
        let reply = HttpModel::new(settings, key()).unwrap().complete(request, &deltas).await;
        if let Ok(reply) = &reply {
            assert_eq!(deltas.joined(), reply.text());
        }
        reply
    }

    async fn say(&self, wire: Wire, text: &str) -> Result<ModelReply, ModelError> {
        self.ask(wire, &plain(json!([{"user": text}]))).await
    }
}

fn opaque_parts(wire: Wire, reply: &ModelReply) -> Vec<&Value> {
    let parts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Opaque { provider, data } if provider == wire.provider() => Some(data),
        ReplyPart::Opaque { .. } | ReplyPart::Text(_) | ReplyPart::Call(_) => None,
    });
    parts.collect()
}

/// Installs the package once for this target folder, and gives its program.
fn install() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let home = target.join("aimock");
    let program = |home: &Path| home.join("node_modules/@copilotkit/aimock/dist/cli.js");
    let run = |command: &mut Command, what: &str| -> Result<(), String> {
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{what}: {}", said.trim())) }
    };
    run(Command::new("node").arg("--version"), "node cannot be run")?;
    if program(&home).exists() {
        return Ok(program(&home));
    }
    // Installed elsewhere and moved, so that a broken installation is never taken for a whole one.
    let fresh = target.join(format!("aimock.{}", std::process::id()));
    let installed = run(
        Command::new("npm")
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--fetch-retries",
                "1",
                "--prefix",
            ])
            .arg(&fresh)
            .arg(PACKAGE),
        "npm cannot install it",
    );
    let moved = installed.and_then(|()| match std::fs::rename(&fresh, &home) {
        Ok(()) => Ok(program(&home)),
        // Another process was faster.
        Err(_) if program(&home).exists() => Ok(program(&home)),
        Err(error) => Err(format!("`{}` cannot be moved: {error}", fresh.display())),
    });
    let _ = std::fs::remove_dir_all(&fresh);
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn text_streams_and_tokens_are_counted() {
    let Some(mock) = Mock::start().await else { return };
    for wire in Wire::ALL {
        let request = plain(json!([{"instructions": "Be brief."}, {"user": "Please say hello"}]));
        let reply = mock.ask(wire, &request).await.unwrap();
        assert_eq!(reply.text(), "Grüße 🦀 from the mock, in several chunks.");
        assert_eq!(reply.stop, StopReason::End);
        // It gives encrypted reasoning to whoever asks for it, which is what the `include` of that wire does.
        let encrypted = opaque_parts(wire, &reply).iter().any(|data| data["encrypted_content"].is_string());
        assert_eq!(encrypted, wire == Wire::OpenaiResponses);
        assert_eq!((reply.input_tokens, reply.output_tokens), (21, 9), "{wire}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_come_and_results_go() {
    let Some(mock) = Mock::start().await else { return };
    for wire in Wire::ALL {
        let request = with_tools(json!([{"user": "is the disk full?"}]));
        let reply = mock.ask(wire, &request).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("Let me look.", StopReason::ToolCalls));
        let calls = calls(&reply);
        assert_eq!((&*calls[0].call_id, &*calls[0].name), ("call_disk", "disk__free"));
        assert_eq!(calls[0].validation, valid(json!({"n": 3})));
        assert_eq!((&*calls[1].call_id, &calls[1].validation), ("call_risk", &valid(json!({"n": 4}))));
        let results = json!([
            {"tool_result": {"call_id": "call_disk", "name": "disk__free", "content": "full", "is_error": false}},
            {"tool_result": {"call_id": "call_risk", "name": "risk__score", "content": "three percent", "is_error": true}},
        ]);
        let reply = mock.ask(wire, &after(&request, &reply, results)).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("Nearly: three percent are left.", StopReason::End));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_is_kept_and_a_length_stop_is_told() {
    let Some(mock) = Mock::start().await else { return };
    for wire in Wire::ALL {
        let reply = mock.say(wire, "think first").await.unwrap();
        assert_eq!(reply.text(), "It is.");
        let opaque = opaque_parts(wire, &reply);
        match wire {
            Wire::OpenaiChat => assert_eq!(*opaque[0], json!({"reasoning_content": "Let me see."})),
            Wire::OpenaiResponses => assert_eq!(opaque[0]["summary"][0]["text"], "Let me see."),
            Wire::Anthropic => {
                let signature = "EqQBCgIYAhIM+/==";
                assert_eq!(*opaque[0], json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}));
                let thinking = json!({"type": "thinking", "thinking": "Let me see.", "signature": signature});
                assert_eq!(*opaque[1], thinking);
            }
            Wire::Gemini => {
                let part = json!({"text": "Let me see.", "thought": true});
                assert_eq!(*opaque[0], json!({"model": "some-model", "part": part}));
            }
            Wire::Bedrock => assert!(opaque[0].to_string().contains("Let me see."), "{opaque:?}"),
        }
        assert_eq!(mock.say(wire, "cut at the limit").await.unwrap().stop, StopReason::Length, "{wire}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_faults_are_what_they_are() {
    let Some(mock) = Mock::start().await else { return };
    let later = Retry::After(Duration::from_secs(7));
    let cases = [
        ("too often", ModelErrorKind::RateLimited, later, "Slow down."),
        ("fall over", ModelErrorKind::Unavailable, Retry::Now, "It broke."),
        ("wrong key", ModelErrorKind::Refused, Retry::Never, "No such key.; check the model's key"),
        ("stop in the middle", ModelErrorKind::Protocol, Retry::Now, "the stream ended before"),
        ("chaos: drop", ModelErrorKind::Unavailable, Retry::Now, "500"),
        ("chaos: malformed", ModelErrorKind::Protocol, Retry::Never, "a stream of events was expected"),
        ("chaos: disconnect", ModelErrorKind::Protocol, Retry::Now, "did not answer the request"),
        ("nothing that it knows", ModelErrorKind::Unavailable, Retry::Now, "no fixture matched"),
    ];
    for wire in Wire::ALL {
        for (text, kind, retry, words) in cases {
            let error = mock.say(wire, text).await.unwrap_err();
            assert_eq!((error.kind, error.retry), (kind, retry), "{wire}, {text}: {error}");
            assert!(error.message.contains(words), "{wire}, {text}: {error}");
        }
    }
}
