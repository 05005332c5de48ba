//! Images that tools return: they reach the model, byte for byte, through all that happens to a run in between.
//!
//! The tools are those of an MCP server in a few lines of shell, and the model is an endpoint that keeps what it is sent.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, Attachment, EffectClass, Entry, Outcome, RunId, ToolReturn};
use dalsegno_runtime::{
    AdoptOptions, ForkOptions, Invocation, NewAttachment, RunReport, Settlement, StartOptions, Tool,
    ToolCallOptions, ToolDescription, ToolError,
};
use dalsegno_store::{Body, GcOptions, RunFilter, digest_bytes};
use serde_json::{Value, json};

use crate::support::{Behaviour, World, answer, waits};

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

/// A server of the old era that uses nothing but what the shell has built in.
const CAMERA: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":{%s}}\n' "$id" "$1"; }
image() { printf '{"type":"image","data":"%s","mimeType":"%s"}' "$1" "$2"; }
PIXEL=@PIXEL@
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*)
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  *'"method":"initialize"'*)
    say '"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"camera","version":"1"}' ;;
  *'"method":"tools/list"'*)
    list=
    for name in shot two paper drawing broken many failed plot; do
      list="$list,{\"name\":\"$name\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}}"
    done
    say "\"tools\":[${list#,}]" ;;
  *'"name":"shot"'*)
    echo shot >> calls
    say "\"content\":[{\"type\":\"text\",\"text\":\"click\"},$(image $PIXEL image/png)]" ;;
  *'"name":"two"'*) say "\"content\":[$(image $PIXEL image/png),$(image $PIXEL image/png)]" ;;
  *'"name":"paper"'*)
    say '"content":[{"type":"resource","resource":{"uri":"file:///tmp/report.pdf","mimeType":"application/pdf","blob":"JVBERi0xLjcK"}}]' ;;
  *'"name":"drawing"'*) say "\"content\":[$(image PHN2Zy8+ image/svg+xml)]" ;;
  *'"name":"broken"'*) say "\"content\":[$(image '%%%' image/png)]" ;;
  *'"name":"many"'*)
    all=; n=0
    while [ $n -lt 40 ]; do all="$all,$(image $PIXEL image/png)"; n=$((n + 1)); done
    say "\"content\":[${all#,}]" ;;
  *'"name":"failed"'*) say "\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no light\"},$(image $PIXEL image/png)]" ;;
  *'"name":"plot"'*) say "\"structuredContent\":{\"points\":3},\"content\":[$(image $PIXEL image/png)]" ;;
  esac
done
"#;

/// What the model says.
#[derive(Clone)]
enum Says {
    /// It calls these tools.
    Calls(&'static [&'static str]),
    Text(&'static str),
    /// It refuses images, and says this otherwise.
    Blind(&'static str),
}

/// An endpoint that speaks Chat Completions and keeps what it is sent. Its threads end with the test's process.
#[derive(Clone)]
struct Eyes {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Eyes {
    /// Starts an endpoint that gives these replies, the last again and again.
    fn open(replies: Vec<Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let body = read(&stream);
                let shows = body.to_string().contains("image_url");
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(body);
                    kept.len() - 1
                };
                let says = &replies[number.min(replies.len() - 1)];
                match says {
                    Says::Blind(_) if shows => refuse(&stream),
                    says => reply(&stream, number, says),
                }
            }
        });
        Self { url, bodies }
    }

    fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }

    /// The images in the request of this number, in base64.
    fn saw(&self, number: usize) -> Vec<String> {
        let bodies = self.bodies();
        let messages = bodies[number]["messages"].as_array().unwrap().clone();
        let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
        let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
        urls.map(|url| url.strip_prefix("data:image/png;base64,").unwrap().to_owned()).collect()
    }

    /// The results in the request of this number.
    fn told(&self, number: usize) -> Vec<String> {
        let messages = self.bodies()[number]["messages"].as_array().unwrap().clone();
        let results = messages.into_iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }
}

fn read(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        match line.trim().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn refuse(mut stream: &TcpStream) {
    let body = r#"{"error":{"message":"not a multimodal model"}}"#;
    let head =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    // The other side may be gone.
    let _ = stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
}

fn reply(mut stream: &TcpStream, number: usize, says: &Says) {
    let (delta, finish) = match says {
        Says::Text(text) | Says::Blind(text) => (json!({ "content": text }), "stop"),
        Says::Calls(tools) => {
            let calls = tools.iter().enumerate().map(|(index, tool)| {
                let function = json!({ "name": tool, "arguments": "{}" });
                json!({ "index": index, "id": format!("c{number}_{index}"), "function": function })
            });
            (json!({ "tool_calls": calls.collect::<Vec<_>>() }), "tool_calls")
        }
    };
    let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 2 } });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let text = format!("{head}data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    // The other side may be gone.
    let _ = stream.write_all(text.as_bytes());
}

const AGENT: &str = "prompt = \"{{request.text}}\"\n[model]\nuse = \"default\"\n[tools]\nallow = [\"*\"]\n";

/// A workspace whose model is this endpoint, with the camera.
fn studio(agent: &str, eyes: &Eyes, more: &str) -> World {
    let world = World::new(agent).settings(&format!(
        "[models.default]\nprovider = \"openai\"\nmodel = \"eyes\"\nbase_url = \"{}\"\n{more}\n\
         [servers.camera]\ncommand = [\"/bin/sh\", \"camera.sh\"]\ntrust_annotations = true\n",
        eyes.url
    ));
    std::fs::write(world.path().join("camera.sh"), CAMERA.replace("@PIXEL@", PIXEL)).unwrap();
    world
}

fn looks(tools: &'static [&'static str]) -> Eyes {
    Eyes::open(vec![Says::Calls(tools), Says::Text("Seen.")])
}

async fn replays(world: &World, run: RunId) {
    let replay = world.engine().await.journal().replay(run).await.unwrap();
    assert!(replay.identical, "{replay:?}");
}

/// The files that the results of a run name.
async fn files(world: &World, run: RunId) -> Vec<Attachment> {
    let records = world.engine().await.journal().inspect(run, None).await.unwrap().records;
    let resolved = records.into_iter().filter_map(|record| match record.body {
        Body::Resolved { outcome: Outcome::ToolReturned(returned), .. } => Some(returned.files),
        _ => None,
    });
    resolved.flatten().collect()
}

#[tokio::test]
async fn an_image_of_a_tool_server_reaches_the_model_byte_for_byte() {
    let eyes = looks(&["camera__shot"]);
    let world = studio(AGENT, &eyes, "");
    let report = world.run("look").await;
    assert_eq!(answer(&report), "Seen.");
    assert_eq!(eyes.saw(1), [PIXEL]);
    assert_eq!(eyes.told(1), ["click\n[image content, image/png, 70 bytes]"]);
    let files = files(&world, report.run).await;
    assert_eq!((files.len(), files[0].media_type.as_str(), files[0].bytes), (1, "image/png", 70));
    let kept = world.engine().await.journal().store().blob(files[0].digest).await.unwrap().unwrap();
    assert_eq!(digest_bytes(&kept), files[0].digest);
    replays(&world, report.run).await;
}

#[tokio::test]
async fn every_file_stands_with_its_result_and_is_sent_once() {
    let eyes = looks(&["camera__two", "camera__plot", "camera__paper"]);
    let report = studio(AGENT, &eyes, "").run("look").await;
    assert_eq!(answer(&report), "Seen.");
    assert_eq!(eyes.saw(1), [PIXEL, PIXEL, PIXEL]);
    assert_eq!(eyes.told(1)[1], "{\"points\":3}");
    let body = eyes.bodies()[1].to_string();
    assert_eq!(body.matches("data:application/pdf;base64,JVBERi0xLjcK").count(), 1);
    assert!(body.contains("\"filename\":\"report.pdf\""), "{body}");
}

#[tokio::test]
async fn what_is_no_image_is_told_with_the_reason() {
    let eyes = looks(&["camera__drawing", "camera__broken", "camera__failed", "camera__many"]);
    let report = studio(AGENT, &eyes, "").run("look").await;
    assert_eq!(answer(&report), "Seen.");
    let told = eyes.told(1);
    assert!(
        told[0].starts_with(
            "[image content, image/svg+xml, 6 bytes]\n[image/svg+xml, 6 bytes, is not passed on: "
        )
    );
    assert!(told[1].contains("it is not base64"), "{}", told[1]);
    assert!(told[2].contains("no light") && !told[2].contains("passed on"), "{}", told[2]);
    assert!(told[3].ends_with("is not passed on: a result has at most this many files: 16]"), "{}", told[3]);
    assert_eq!(eyes.saw(1).len(), 16);
}

#[tokio::test]
async fn a_model_that_reads_text_alone_is_told_in_words() {
    let eyes = looks(&["camera__shot"]);
    let report = studio(AGENT, &eyes, "tool_files = \"off\"").run("look").await;
    assert_eq!(answer(&report), "Seen.");
    assert_eq!(eyes.saw(1), Vec::<String>::new());
    assert_eq!(eyes.told(1), ["click\n[image content, image/png, 70 bytes]"]);
}

#[tokio::test]
async fn a_model_that_refuses_images_replies_without_them_and_the_journal_says_so() {
    let eyes = Eyes::open(vec![Says::Calls(&["camera__shot"]), Says::Blind("Told.")]);
    let world = studio(AGENT, &eyes, "");
    let report = world.run("look").await;
    assert_eq!(answer(&report), "Told.");
    assert_eq!((eyes.saw(1), eyes.saw(2)), (vec![PIXEL.to_owned()], Vec::new()));
    assert_eq!(eyes.told(2), ["click\n[image content, image/png, 70 bytes]"]);
    let records = world.engine().await.journal().inspect(report.run, None).await.unwrap().records;
    let replies = records.into_iter().filter_map(|record| match record.body {
        Body::Resolved { outcome: Outcome::ModelReplied(reply), .. } => Some(reply.without_files),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), [false, true]);
    replays(&world, report.run).await;
}

#[tokio::test]
async fn an_image_waits_with_a_run_for_the_approval_of_another_call() {
    let agent = format!("{AGENT}approve = [\"local.write\"]\n");
    let eyes = looks(&["camera__shot", "local__write"]);
    let world = studio(&agent, &eyes, "").tool("local.write", EffectClass::Unsafe, Behaviour::Echo);
    let report = world.run("look").await;
    assert_eq!(waits(&report).len(), 1);
    // Another process continues.
    let report = world.resume(report.run, Some(Settlement::Approve { edited: None, reason: None })).await;
    assert_eq!(answer(&report), "Seen.");
    assert_eq!((eyes.saw(1), eyes.bodies().len()), (vec![PIXEL.to_owned()], 2));
    assert_eq!(std::fs::read_to_string(world.path().join("calls")).unwrap(), "shot\n");
    replays(&world, report.run).await;
}

#[tokio::test]
async fn a_fork_shows_the_model_the_same_image_after_gc() {
    let eyes = looks(&["camera__shot"]);
    let world = studio(AGENT, &eyes, "");
    let first = world.run("look").await;
    let engine = world.engine().await;
    let far = GcOptions::new(dalsegno_core::Timestamp::from_millis(1));
    engine.journal().gc(&far).await.unwrap();
    let options = ForkOptions { at: Some(3), ..ForkOptions::default() };
    let forked = engine.fork(first.run, options).await.unwrap().finish().await.unwrap();
    assert_eq!((answer(&forked), eyes.saw(2)), ("Seen.", vec![PIXEL.to_owned()]));
    let bodies = eyes.bodies();
    assert_eq!(bodies[1], bodies[2], "it asks the same");
    replays(&world, forked.run).await;
}

async fn say(world: &World, text: &str) -> RunReport {
    let options = StartOptions { session: Some("s".to_owned()), ..StartOptions::default() };
    let engine = world.engine().await;
    let handle = engine.start(&"a".parse().unwrap(), AgentRequest::text(text), options).await.unwrap();
    handle.finish().await.unwrap()
}

#[tokio::test]
async fn the_next_message_of_a_session_shows_it_again_and_outlives_the_run_that_saw_it() {
    let eyes = looks(&["camera__shot"]);
    let world = studio(AGENT, &eyes, "");
    let first = say(&world, "look").await;
    let second = say(&world, "and now?").await;
    assert_eq!((answer(&second), eyes.saw(2)), ("Seen.", vec![PIXEL.to_owned()]));
    let engine = world.engine().await;
    let digest = files(&world, first.run).await[0].digest;
    let erased = engine.journal().erase(first.run, None).await.unwrap();
    assert_eq!(erased.shared_files, 1);
    let third = say(&world, "and now?").await;
    assert_eq!((answer(&third), eyes.saw(3)), ("Seen.", vec![PIXEL.to_owned()]));
    for run in [second.run, third.run] {
        engine.journal().erase(run, None).await.unwrap();
    }
    assert_eq!(engine.journal().store().blob(digest).await.unwrap(), None);
}

#[tokio::test]
async fn an_archive_takes_it_along_and_an_adopted_run_shows_it() {
    let agent = format!("{AGENT}approve = [\"local.write\"]\n");
    let world =
        |eyes: &Eyes| studio(&agent, eyes, "").tool("local.write", EffectClass::Unsafe, Behaviour::Echo);
    let eyes =
        Eyes::open(vec![Says::Calls(&["camera__shot"]), Says::Calls(&["local__write"]), Says::Text("Seen.")]);
    let home = world(&eyes);
    let report = home.run("look").await;
    assert_eq!(waits(&report).len(), 1);
    let archive = home.engine().await.journal().export(report.run).await.unwrap();
    let others = Eyes::open(vec![Says::Text("Seen elsewhere.")]);
    let away = world(&others);
    let engine = away.engine().await;
    engine.archives().import(archive).await.unwrap();
    let options = AdoptOptions { by: None, unknown_signer: true };
    let adopted = engine.adopt(report.run, &options).await.unwrap().run;
    drop(engine);
    let report = away.resume(adopted, None).await;
    let report = match &report.end {
        dalsegno_runtime::RunEnd::Suspended { .. } => {
            away.resume(adopted, Some(Settlement::Approve { edited: None, reason: None })).await
        }
        _ => report,
    };
    assert_eq!((answer(&report), others.saw(0)), ("Seen elsewhere.", vec![PIXEL.to_owned()]));
}

#[tokio::test]
async fn a_plan_and_a_call_without_a_run_read_what_they_always_read() {
    let eyes = Eyes::open(vec![Says::Text("unused")]);
    let agent = "[tools]\nallow = [\"*\"]\n[[steps]]\nid = \"it\"\ntool = \"camera.shot\"\n\
                 [[steps]]\nrespond = \"{{steps.it}}\"\n";
    let world = studio(agent, &eyes, "");
    let report = world.run("go").await;
    assert_eq!(answer(&report), "click\n[image content, image/png, 70 bytes]");
    assert_eq!(files(&world, report.run).await, []);
    let engine = world.engine().await;
    let options = ToolCallOptions::default();
    let called = engine.call_tool(&"camera.broken".parse().unwrap(), json!({}), &options).await.unwrap();
    assert_eq!((called.text.as_str(), called.files.len()), ("[image content, image/png, 2 bytes]", 0));
}

#[tokio::test]
async fn a_kept_result_brings_its_image_to_every_run() {
    let agent = format!("{AGENT}[tools.settings.\"camera.shot\"]\ncache = \"1h\"\n");
    let eyes = Eyes::open(vec![
        Says::Calls(&["camera__shot"]),
        Says::Text("Seen."),
        Says::Calls(&["camera__shot"]),
        Says::Text("Seen."),
    ]);
    let world = studio(&agent, &eyes, "");
    let engine = world.engine().await;
    for number in [1, 3] {
        let request = AgentRequest::text("look");
        let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
        let report = handle.finish().await.unwrap();
        assert_eq!((answer(&report), eyes.saw(number)), ("Seen.", vec![PIXEL.to_owned()]));
        // The file belongs to each run: one is erased without the other.
        engine.journal().erase(report.run, None).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(world.path().join("calls")).unwrap(), "shot\n");
}

/// A tool in Rust that attaches a picture, and lies about another file.
struct Plotter;

#[async_trait]
impl Tool for Plotter {
    fn describe(&self) -> ToolDescription {
        ToolDescription::new("Plots.", EffectClass::Read)
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let file = |name: &str, bytes: &[u8]| NewAttachment {
            name: name.to_owned(),
            media_type: "image/png".to_owned(),
            bytes: bytes.to_vec(),
        };
        invocation.attach(file("plot.png", b"\x89PNG\r\n\x1a\n"));
        invocation.attach(file("no.png", b"GIF89a"));
        invocation.attach(file("not.png", b"a secret"));
        // A file that it did not attach is not its own.
        let foreign = Attachment {
            name: "theirs.png".to_owned(),
            media_type: "image/png".to_owned(),
            digest: digest_bytes(b"theirs"),
            bytes: 6,
        };
        Ok(ToolReturn { text: "plotted".to_owned(), files: vec![foreign], ..ToolReturn::default() })
    }
}

#[tokio::test]
async fn a_tool_in_rust_attaches_files_of_its_own() {
    let eyes = looks(&["local__plot"]);
    let world = studio(AGENT, &eyes, "");
    let engine =
        world.builder().tool("local.plot".parse().unwrap(), Plotter).open(world.path()).await.unwrap();
    let request = AgentRequest::text("look");
    let handle = engine.start(&"a".parse().unwrap(), request, StartOptions::default()).await.unwrap();
    let report = handle.finish().await.unwrap();
    assert_eq!(answer(&report), "Seen.");
    let images: Vec<String> = {
        let body = eyes.bodies()[1].to_string();
        ["data:image/png;base64,iVBORw0KGgo=", "data:image/gif;base64,R0lGODlh"]
            .iter()
            .filter(|url| body.contains(**url))
            .map(|url| (*url).to_owned())
            .collect()
    };
    assert_eq!(images.len(), 2, "a type is told by the bytes");
    let told = &eyes.told(1)[0];
    assert!(told.starts_with("plotted\n[image/png, 8 bytes, is not passed on: "), "{told}");
    let names: Vec<String> = files(&world, report.run).await.into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["plot.png", "no.png"]);
}

#[tokio::test]
async fn a_handoff_passes_images_on_with_the_conversation() {
    let eyes = Eyes::open(vec![
        Says::Calls(&["camera__shot"]),
        Says::Calls(&["handoff__b"]),
        Says::Text("Seen by b."),
    ]);
    let agent = AGENT.replace("\"*\"", "\"camera.*\", \"handoff.b\"");
    let world = studio(&agent, &eyes, "").agent("b", AGENT);
    let report = world.run("look").await;
    assert_eq!(answer(&report), "Seen by b.", "{:?}", eyes.bodies().last());
    assert_eq!(eyes.saw(2), [PIXEL]);
    let engine = world.engine().await;
    let runs = engine.journal().runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        replays(&world, run.run).await;
        let state = engine.journal().inspect(run.run, None).await.unwrap().state;
        let entries = state.transcript().iter().filter(|entry| matches!(entry, Entry::ToolResult { .. }));
        assert_eq!(entries.flat_map(Entry::files).count(), 1);
    }
}
