//! Measures what a long session costs with each kind of compaction, and what the model does not know any more:
//!
//! ```text
//! cargo run --workspace --example compaction -- 1000
//! ```
//!
//! Each message of the session has a code to keep in mind. Printed are the tokens that the model was sent, those of them that
//! began like the request before (which a provider's prompt cache has), and how many codes the last request still has. The
//! model here writes the best summary there can be: each code that it reads and nothing else, until the summary is full. Your
//! model writes worse ones.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is a measurement, and stops where it cannot go on"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, Entry, ModelReply, ReplyPart, StopReason};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError};
use dalsegno_runtime::{Engine, RunEnd, StartOptions};

/// The kinds, as an agent file has them.
const KINDS: [(&str, &str); 3] = [
    ("the whole transcript", ""),
    ("drop", "[context]\nmax_tokens = 4000\n"),
    ("summarise", "[context]\nmax_tokens = 4000\ncompact = \"summarise\"\n"),
];

/// Most bytes of a summary, about 700 tokens.
const SUMMARY_BYTES: usize = 2_100;

/// What the model was sent.
#[derive(Default)]
struct Sent {
    requests: u64,
    tokens: u64,
    /// The tokens of beginnings that the request before had as well.
    cached: u64,
    summaries: u64,
    last: String,
}

#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Sent>>);

#[async_trait]
impl Model for Counting {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let mut text = String::new();
        for entry in request.transcript.iter() {
            let _ = writeln!(text, "{}", serde_json::to_string(&entry).unwrap());
        }
        let mut sent = self.0.lock().unwrap();
        let (tokens, same) = (request.transcript.tokens(), common(&sent.last, &text));
        sent.requests += 1;
        sent.tokens += tokens;
        sent.cached += tokens * same as u64 / text.len() as u64;
        let is_summary = request.transcript.iter().any(
            |entry| matches!(&entry, Entry::Instructions(text) if text.starts_with("You shorten the record")),
        );
        let reply = if is_summary {
            sent.summaries += 1;
            let codes: Vec<&str> = codes(&text).collect();
            let room = SUMMARY_BYTES / "code-1234567 ".len();
            codes[codes.len().saturating_sub(room)..].join(" ")
        } else {
            sent.last = text;
            "Noted.".to_owned()
        };
        Ok(ModelReply::new(vec![ReplyPart::Text(reply)], StopReason::End))
    }
}

/// The codes in a text.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("code-").filter_map(|(at, _)| text.get(at..at + "code-1234567".len()))
}

/// The length of the beginning that both have, in bytes.
fn common(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}

#[tokio::main]
async fn main() {
    let messages: u32 = std::env::args().nth(1).map_or(1_000, |messages| messages.parse().unwrap());
    println!("{messages} messages of one session, 4,000 tokens at most");
    for (name, context) in KINDS {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), context);
        let model = Counting::default();
        let engine = Engine::builder().model("default", model.clone()).open(folder.path()).await.unwrap();
        for number in 0..messages {
            say(&engine, number).await;
        }
        let sent = model.0.lock().unwrap();
        let known = (0..messages).filter(|number| sent.last.contains(&code(*number))).count();
        println!(
            "{name}: {} requests, {} of them for summaries; {} tokens sent, {:.1} % of them as before; {known} of {messages} codes \
             in the last request",
            sent.requests,
            sent.summaries,
            sent.tokens,
            100.0 * sent.cached as f64 / sent.tokens as f64,
        );
    }
}

fn code(number: u32) -> String {
    format!("code-{:07}", 1_000_000 + number)
}

fn write(folder: &Path, context: &str) {
    std::fs::create_dir(folder.join("agents")).unwrap();
    let settings = "[models.default]\nprovider = \"script\"\nfile = \"script.toml\"\n";
    std::fs::write(folder.join("dalsegno.toml"), settings).unwrap();
    std::fs::write(folder.join("script.toml"), "[[replies]]\ntext = \"never said\"\n").unwrap();
    let agent = format!(
        "name = \"a\"\nversion = \"1.0.0\"\nprompt = \"{{{{request.text}}}}\"\n[model]\nuse = \"default\"\n{context}"
    );
    std::fs::write(folder.join("agents/a.toml"), agent).unwrap();
}

async fn say(engine: &Engine, number: u32) {
    let options = StartOptions { session: Some("long".to_owned()), ..StartOptions::default() };
    let words = "The delivery of today is complete, and the driver has left. ".repeat(3);
    let request = AgentRequest::text(&format!("{words}Its code is {}.", code(number)));
    let report = engine.start(&"a".parse().unwrap(), request, options).await.unwrap().finish().await.unwrap();
    assert!(matches!(&report.end, RunEnd::Ended(response) if response.error.is_none()), "{report:?}");
}
