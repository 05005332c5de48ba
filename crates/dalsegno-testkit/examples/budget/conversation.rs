//! The conversation that ends elsewhere: temporalio/sdk-python issue 1890 tells of one with 209,000 tokens and tool results of
//! 5 KB that stops at call 53 of 100, with 50.48 MB of history. Here it has its 100 calls, and then 10,000.
//!
//! Each call is one of a declarative tool that reads a report over HTTP: words in random order, which compress less than prose.
//! The answers come from this process, so that nothing is measured but the engine and the disk.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dalsegno_core::{
    AgentRequest, CallRequest, Entry, ModelReply, ReplyPart, Status, StopReason, Transcript, Validation,
};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError};
use dalsegno_net::{Carried, HeaderMap, NetError, Request, StatusCode, Transport};
use dalsegno_runtime::{Engine, EngineBuilder, RunEnd, StartOptions};
use dalsegno_store::RunFilter;
use serde_json::json;

use crate::engine::{say, say_once};
use crate::figures;
use crate::line::{Fault, Line, megabytes, millis, times};
use crate::peer;
use crate::process::{Role, on_disk};

/// Bytes of a report.
const REPORT: usize = 5_000;

/// The words that reports are made of: about as many as a person uses.
const WORDS: usize = 10_000;

/// Most tokens that the model is sent: as many as the conversation of the issue has.
const CONTEXT: u64 = 209_000;

/// The calls of the conversation, and of one a hundred times as long.
const CALLS: [u64; 2] = [100, 10_000];

/// What the journals of both may take, in bytes.
const ON_DISK: [f64; 2] = [0.7e6, 60e6];

/// How long a turn may take, in two commits of this disk.
const TURN: f64 = 1.5;

/// What a process may hold besides the model's request, in bytes.
const BESIDES: f64 = 40e6;

fn workspace(folder: &Path) -> std::io::Result<()> {
    for name in ["agents", "tenants", "tools"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    write("script.toml", "[[replies]]\ntext = \"unused\"\n".to_owned())?;
    write("dalsegno.toml", "[models.reader]\nprovider = \"script\"\nfile = \"script.toml\"\n".to_owned())?;
    write("tenants/default.toml", "name = \"default\"\negress = [\"https://reports.example\"]\n".to_owned())?;
    let document = json!({
        "name": "report",
        "description": "Reads a report.",
        "parameters": [{ "name": "number", "type": "integer", "required": true }],
        "actions": [{ "type": "api_call", "method": "GET", "url": "https://reports.example/{{params.number}}" }],
    });
    write("tools/report.json", document.to_string())?;
    write(
        "agents/reader.toml",
        format!(
            "name = \"reader\"\nversion = \"1.0.0\"\ndescription = \"Measured.\"\n\
             [model]\nuse = \"reader\"\n[tools]\nallow = [\"report\"]\n[context]\nmax_tokens = {CONTEXT}\n\
             [limits]\nmax_steps = 100000\nmax_tool_calls = 100000\ntimeout = \"24h\"\n"
        ),
    )
}

/// A model that asks for the next report until it has had so many.
struct Reader(Arc<Seen>);

/// What the model saw.
struct Seen {
    calls: u64,
    last: std::sync::Mutex<Option<Instant>>,
    /// The time of each turn, in microseconds.
    turns: std::sync::Mutex<Vec<u64>>,
    /// Bytes of the texts of the largest request.
    sent: AtomicU64,
}

#[async_trait]
impl Model for Reader {
    async fn complete(
        &self,
        request: &CompletionRequest,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        say_once();
        let now = Instant::now();
        let turn = next(&request.transcript);
        let before = self.0.last.lock().expect("nothing panics with it").replace(now);
        if let Some(before) = before {
            let took = u64::try_from(now.duration_since(before).as_micros()).unwrap_or(u64::MAX);
            self.0.turns.lock().expect("nothing panics with it").push(took);
        }
        if turn >= self.0.calls {
            let texts = request.transcript.iter().map(|entry| match entry {
                Entry::ToolResult { content, is_error: false, .. } => content.len(),
                _ => 0,
            });
            self.0.sent.store(texts.sum::<usize>() as u64, Ordering::Relaxed);
            return Ok(ModelReply::new(vec![ReplyPart::Text("That was all.".to_owned())], StopReason::End));
        }
        let call = CallRequest {
            call_id: format!("call_{turn}"),
            name: "report".to_owned(),
            arguments: json!({ "number": turn }).to_string(),
            validation: Some(Validation::Valid { arguments: json!({ "number": turn }) }),
        };
        let reply = ModelReply::new(vec![ReplyPart::Call(call)], StopReason::ToolCalls);
        Ok(ModelReply { input_tokens: 10, output_tokens: 5, ..reply })
    }
}

/// The number of the next report. The model is sent less than the whole conversation, so that it cannot count.
fn next(transcript: &Transcript) -> u64 {
    let mut asked = transcript.iter().filter_map(|entry| match entry {
        Entry::Assistant(reply) => reply.calls().last()?.call_id.strip_prefix("call_")?.parse::<u64>().ok(),
        _ => None,
    });
    asked.next_back().map_or(0, |last| last + 1)
}

/// The service that has the reports; at one of them it stands still.
struct Reports {
    stand_at: u64,
}

#[async_trait]
impl Transport for Reports {
    async fn carry(&self, request: &Request) -> Result<Carried, NetError> {
        say_once();
        let number: u64 =
            request.url.path().trim_start_matches('/').parse().expect("the tool asks for a number");
        if number == self.stand_at {
            say("stands");
            std::future::pending::<()>().await;
        }
        let body = json!({ "number": number, "text": words(number) }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().expect("a header"));
        Ok(Carried { status: StatusCode::OK, headers, body: body.into_bytes(), is_cut: false })
    }
}

/// Words drawn at random, other ones for each report.
fn words(number: u64) -> String {
    static VOCABULARY: LazyLock<Vec<String>> = LazyLock::new(|| {
        let mut random = fastrand::Rng::with_seed(0);
        let mut word = || -> String { (0..random.usize(2..11)).map(|_| random.lowercase()).collect() };
        (0..WORDS).map(|_| word()).collect()
    });
    let mut random = fastrand::Rng::with_seed(number);
    let mut text = String::with_capacity(REPORT + 10);
    while text.len() < REPORT {
        text.push_str(&VOCABULARY[random.usize(0..WORDS)]);
        text.push(' ');
    }
    text
}

fn builder(seen: &Arc<Seen>, stand_at: u64) -> EngineBuilder {
    Engine::builder().model("reader", Reader(Arc::clone(seen))).transport(Reports { stand_at })
}

fn seen(calls: u64) -> Arc<Seen> {
    Arc::new(Seen { calls, last: None.into(), turns: Vec::new().into(), sent: AtomicU64::new(0) })
}

/// A process that has the conversation, says what its turns took, and waits for its end.
pub(crate) async fn converse(folder: &Path, calls: u64) -> Result<(), Fault> {
    let seen = seen(calls);
    {
        let engine = builder(&seen, u64::MAX).open(folder).await?;
        let request = AgentRequest::text("read all reports");
        let handle = engine.start(&"reader".parse()?, request, StartOptions::default()).await?;
        match handle.finish().await?.end {
            RunEnd::Ended(response) if response.status == Status::Completed => {}
            end => return Err(format!("the conversation has not completed: {end:?}").into()),
        }
    }
    let turns = seen.turns.lock().expect("nothing panics with it").clone();
    let tenth = (turns.len() / 10).max(1);
    let mean = |turns: &[u64]| turns.iter().sum::<u64>() as f64 / turns.len().max(1) as f64 / 1e3;
    let (first, last) = (mean(&turns[..tenth]), mean(&turns[turns.len() - tenth..]));
    say(&format!(
        "turns {}",
        json!({ "all": mean(&turns), "first": first, "last": last,
        "sent": seen.sent.load(Ordering::Relaxed) })
    ));
    std::future::pending::<()>().await;
    Ok(())
}

/// A process that begins or continues the conversation, and stands still at a report. It is killed.
pub(crate) async fn stand(folder: &Path, number: u64, begin: bool) -> Result<(), Fault> {
    let engine = builder(&seen(u64::MAX), number).open(folder).await?;
    let handle = if begin {
        engine.start(&"reader".parse()?, AgentRequest::text("read"), StartOptions::default()).await?
    } else {
        let runs = engine.journal().runs(&RunFilter::default()).await?;
        engine.resume(runs.first().ok_or("there is no run")?.run, Vec::new()).await?
    };
    handle.finish().await?;
    Ok(())
}

/// Has the conversation with so many calls.
fn with(calls: u64, most: f64, floor: f64) -> Result<Vec<Line>, Fault> {
    let folder = tempfile::tempdir()?;
    workspace(folder.path())?;
    let mut process = Role::Converse { folder: folder.path().to_owned(), calls }.spawn()?;
    let (turns, _) = process.hear("turns")?;
    let turns = serde_json::from_str(&turns)?;
    let peak = process.peak_memory()? as f64;
    process.kill()?;
    let of = |name| figures::figure(&turns, name);
    let (bytes, sent) = (on_disk(folder.path())? as f64, of("sent")?);
    if sent < REPORT as f64 {
        return Err("the model was sent no report".into());
    }
    let what = format!("{calls} calls with results of 5 KB");
    let each = format!("{:.0} B a call", bytes / calls as f64);
    let mut lines = vec![Line::at_most(&format!("{what}, on disk"), bytes, most, megabytes).noted(&each)];
    if calls > CALLS[0] {
        let note = format!("{:.2} ms, F {floor:.2} ms", of("all")?);
        lines.push(Line::at_most("  a turn, in 2F", of("all")? / (2.0 * floor), TURN, times).noted(&note));
        let ratio = of("last")? / of("first")?;
        lines.push(Line::at_most("  its last tenth beside its first", ratio, 1.05, times));
        let note = format!("the model is sent {}", megabytes(sent));
        lines.push(Line::at_most("  memory", peak, BESIDES + 2.0 * sent, megabytes).noted(&note));
    }
    Ok(lines)
}

/// From the start of a process to the next effect of a run that was killed at one of its last calls.
fn resumed(calls: u64) -> Result<Line, Fault> {
    let folder = tempfile::tempdir()?;
    workspace(folder.path())?;
    let place = folder.path().to_owned();
    let mut process = Role::Stand { folder: place.clone(), number: calls - 1, begin: true }.spawn()?;
    process.hear("stands")?;
    process.kill()?;
    let mut process = Role::Stand { folder: place, number: calls - 1, begin: false }.spawn()?;
    let took: Duration = process.hear("next")?.1;
    process.kill()?;
    let what = format!("  from SIGKILL at call {} to the next effect", calls - 1);
    Ok(Line::at_most(&what, took.as_secs_f64() * 1e3, 50.0, millis))
}

/// Both conversations; each elsewhere, too, where the packages for that are in a folder.
pub(crate) fn lines(dalsegno: &Path, peer: Option<&Path>) -> Result<Vec<Line>, Fault> {
    let floor = figures::figure(&figures::bench(dalsegno, 500, 1)?, "floor_ms.all")?;
    let mut lines = Vec::new();
    for (calls, most) in CALLS.into_iter().zip(ON_DISK) {
        lines.extend(with(calls, most, floor)?);
        match peer {
            Some(packages) => lines.extend(peer::converse(packages, calls)?),
            None => lines.push(Line::told(
                "  LangGraph",
                "not installed: this needs a Python 3.10 with pip".to_owned(),
            )),
        }
    }
    lines.push(resumed(CALLS[1])?);
    Ok(lines)
}
