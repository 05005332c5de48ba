//! Cassettes: what is recorded, what is replayed, and what a miss says.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dalsegno_core::{ModelReply, ModelSettings, OperationId, Tool, ToolChoice, Toolbox, Transcript};
use dalsegno_models::{
    Cassette, CassetteError, CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind, Recorder,
    Recording, Retry, ScriptModel,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const SCRIPT: &str = r#"
    [[replies]]
    opaque = [{ provider = "anthropic", data = { signature = "x==", n = 1.5 } }]
    text = "Let me look."
    calls = [{ name = "risk.score", arguments = { n = "3" } }]
    usage = { input = 10, output = 5 }
    [[replies]]
    text = "The risk is {{last.value}}."
"#;

fn transcript(entries: &[Value]) -> Transcript {
    let zero = "0".repeat(64);
    serde_json::from_value(json!([zero, 0, zero, entries])).unwrap()
}

fn request(entries: &[Value]) -> CompletionRequest {
    let mut tools = Toolbox::default();
    let schema =
        json!({"type": "object", "properties": {"n": {"type": ["integer", "null"], "default": null}}});
    tools.tools.insert("risk.score".parse().unwrap(), Tool::new("Scores.".to_owned(), schema));
    CompletionRequest {
        settings: ModelSettings::named("triage"),
        transcript: transcript(entries),
        attachments: Arc::default(),
        tools: Arc::new(tools),
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        operation: OperationId::from_bytes([1; 16]),
        attempt: 1,
    }
}

/// The entries of the first turn.
fn opening() -> Vec<Value> {
    let attachment =
        json!({"name": "df.txt", "media_type": "text/plain", "digest": "ab".repeat(32), "bytes": 12});
    vec![
        json!({"instructions": "Be brief.\nBe kind."}),
        json!({"user": "Is the disk full? Grüße 🦀"}),
        json!({"attachment": attachment}),
    ]
}

/// The entries of the second turn: the first reply and its result.
fn second(reply: &ModelReply, result: &str) -> Vec<Value> {
    let mut entries = opening();
    entries.push(json!({"assistant": reply}));
    let result = json!({"call_id": "call_0_0", "name": "risk.score", "content": result, "is_error": false});
    entries.push(json!({"tool_result": result}));
    entries
}

const RESULT: &str = r#"{"value": 0.7}"#;

/// Records a conversation of two turns.
async fn record(path: &Path) -> (ModelReply, ModelReply) {
    let script = Arc::new(ScriptModel::parse(SCRIPT).unwrap());
    let recorder = Recorder::new(script, Recording::open(path).unwrap());
    let first = recorder.complete(&request(&opening()), &()).await.unwrap();
    let second = recorder.complete(&request(&second(&first, RESULT)), &()).await.unwrap();
    (first, second)
}

struct Recorded {
    _folder: TempDir,
    path: PathBuf,
    first: ModelReply,
    second: ModelReply,
}

async fn recorded() -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (first, second) = record(&path).await;
    Recorded { _folder: folder, path, first, second }
}

#[derive(Default)]
struct Deltas(Mutex<Vec<String>>);

impl DeltaSink for Deltas {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push(delta.to_owned());
    }
}

/// Released files are read for ever. To begin a new version, write a new file.
#[tokio::test]
async fn the_first_version_of_the_file_stays_readable_and_is_what_is_written() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cassette-1.jsonl");
    let recorded = recorded().await;
    let (written, expected) =
        (fs::read_to_string(&recorded.path).unwrap(), fs::read_to_string(&golden).unwrap());
    assert_eq!(written, expected);
    let cassette = Cassette::open(&golden).unwrap();
    let request = request(&second(&recorded.first, RESULT));
    assert_eq!(cassette.complete(&request, &()).await.unwrap(), recorded.second);
}

#[tokio::test]
async fn a_recording_is_replayed_in_any_order_and_streams() {
    let recorded = recorded().await;
    let cassette = Cassette::open(&recorded.path).unwrap();
    assert_eq!((cassette.len(), cassette.unused()), (2, 2));
    let mut later = request(&second(&recorded.first, RESULT));
    later.attempt = 3;
    later.operation = OperationId::from_bytes([9; 16]);
    later.settings.timeout_ms = 1;
    later.settings.retries = 9;
    assert_eq!(cassette.complete(&later, &()).await.unwrap(), recorded.second);
    let deltas = Deltas::default();
    assert_eq!(cassette.complete(&request(&opening()), &deltas).await.unwrap(), recorded.first);
    assert_eq!(deltas.0.into_inner().unwrap(), ["Let ", "me ", "look."]);
    assert_eq!(cassette.unused(), 0);
}

#[tokio::test]
async fn each_recording_is_used_once_in_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let recording = Recording::open(&path).unwrap();
    for text in ["one", "two"] {
        let script = ScriptModel::parse(&format!("[[replies]]\ntext = '{text}'")).unwrap();
        let recorder = Recorder::new(Arc::new(script), Arc::clone(&recording));
        recorder.complete(&request(&opening()), &()).await.unwrap();
    }
    let cassette = Cassette::open(&path).unwrap();
    for text in ["one", "two"] {
        assert_eq!(cassette.complete(&request(&opening()), &()).await.unwrap().text(), text);
    }
    let error = cassette.complete(&request(&opening()), &()).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
    let words = "has no further reply to this request: recording 1 of 2 fits but was used already";
    assert!(error.message.contains(words), "{error}");
}

/// What a cassette says to a request that is another one.
async fn miss(recorded: &Recorded, change: impl FnOnce(&mut CompletionRequest)) -> String {
    let cassette = Cassette::open(&recorded.path).unwrap();
    let mut request = request(&second(&recorded.first, RESULT));
    change(&mut request);
    let error = cassette.complete(&request, &()).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
    assert_eq!(cassette.unused(), 2, "a miss uses nothing up");
    let path = recorded.path.display().to_string();
    error.message.replace(&path, "FILE")
}

/// What a cassette says to a transcript that is another one.
async fn miss_entries(recorded: &Recorded, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut entries = second(&recorded.first, RESULT);
    change(&mut entries);
    miss(recorded, |request| request.transcript = transcript(&entries)).await
}

fn says(message: &str, difference: &str) {
    let words = format!("the first difference: {difference}; undo the change or record the run again");
    assert!(message.ends_with(&words), "{message:?} lacks {words:?}");
}

#[tokio::test]
async fn a_miss_names_the_nearest_recording_and_the_first_difference() {
    let recorded = recorded().await;
    let message = miss_entries(&recorded, |entries| {
        entries[4]["tool_result"]["content"] = json!("{\"value\": 0.8}");
    })
    .await;
    assert_eq!(
        message,
        "nothing recorded in the cassette `FILE` fits this request; the nearest is recording 2 of 2, with 4 of 5 \
         entries in common; the first difference: entry 5, the result of `risk.score`, was \
         `{\"value\": 0.7} (call `call_0_0`)`, now it is `{\"value\": 0.8} (call `call_0_0`)`; \
         undo the change or record the run again"
    );
}

/// The workspace has the recording under a name of its own, such as `recorded`.
#[tokio::test]
async fn a_recording_plays_under_another_name() {
    let recorded = recorded().await;
    let cassette = Cassette::open(&recorded.path).unwrap();
    let mut request = request(&second(&recorded.first, RESULT));
    request.settings.name = "recorded".to_owned();
    cassette.complete(&request, &()).await.unwrap();
    let message = cassette.complete(&request, &()).await.unwrap_err().message;
    assert!(message.contains("has no further reply to this request"), "{message}");
}

#[tokio::test]
async fn a_miss_tells_each_kind_of_difference() {
    let recorded = recorded().await;
    let message =
        miss_entries(&recorded, |entries| entries[0] = json!({"instructions": "Be brief.\nBe rude."})).await;
    assert!(message.contains("the nearest is recording 2 of 2, with 0 of 5"), "{message}");
    says(&message, "entry 1, the instructions, was `Be brief.\\nBe kind.`, now it is `Be brief.\\nBe rude.`");
    let message =
        miss_entries(&recorded, |entries| entries[1] = json!({"assistant": {"parts": [], "stop": "end"}}))
            .await;
    says(
        &message,
        "entry 2 was the user's message (`Is the disk full? Grüße 🦀`), now it is the model's reply (``)",
    );
    let message = miss_entries(&recorded, |entries| entries.truncate(4)).await;
    assert!(message.contains("recording 2 of 2, with 4 of 4"), "{message}");
    assert!(message.contains("entry 5 was the result of `risk.score` (`{\"value\": 0.7} (call"), "{message}");
    let message = miss_entries(&recorded, |entries| entries.push(json!({"user": "More?"}))).await;
    says(&message, "the transcript ended after entry 5, now the user's message follows (`More?`)");
    let message = miss_entries(&recorded, |entries| entries[2]["attachment"]["bytes"] = json!(13)).await;
    assert!(message.contains("entry 3, the attachment `df.txt`, was `text/plain, 12 bytes, ab"), "{message}");
    let message = miss_entries(&recorded, |entries| {
        entries[3]["assistant"]["parts"][2]["call"]["arguments"] = json!("{}");
    })
    .await;
    let (was, is) = ("risk.score {\"n\":\"3\"})", "risk.score {})");
    let begins = "… me look. (call `call_0_0`: ";
    says(&message, &format!("entry 4, the model's reply, was `{begins}{was}`, now it is `{begins}{is}`"));

    let message = miss(&recorded, |request| request.settings.control.seed = Some(7)).await;
    says(&message, "`seed` was the default, now it is 7");
    let message = miss(&recorded, |request| request.settings.temperature = Some(0.5)).await;
    says(&message, "`temperature` was the default, now it is 0.5");
    let message = miss(&recorded, |request| request.settings.max_output_tokens = Some(9)).await;
    says(&message, "`max_output_tokens` was the default, now it is 9");
    let message = miss(&recorded, |request| request.tool_choice = ToolChoice::None).await;
    says(&message, "`tool_choice` was auto, now it is none");
    let message = miss(&recorded, |request| request.output_schema = Some(Arc::new(json!({}).into()))).await;
    says(&message, "no structured answer was asked for, now one is");
    let message = miss(&recorded, |request| request.tools = Arc::default()).await;
    says(&message, "the tool `risk.score` was offered, now it is not");
    let tool = |description: &str, schema: Value| Tool::new(description.to_owned(), schema);
    let message = miss(&recorded, |request| {
        let tools = &mut Arc::make_mut(&mut request.tools).tools;
        tools.insert("disk.free".parse().unwrap(), tool("", json!({})));
    })
    .await;
    says(&message, "the tool `disk.free` was not offered, now it is");
    let message = miss(&recorded, |request| {
        let tools = &mut Arc::make_mut(&mut request.tools).tools;
        tools.values_mut().for_each(|tool| tool.description = "Scores!".to_owned());
    })
    .await;
    says(&message, "the description of the tool `risk.score` was `Scores.`, now it is `Scores!`");
    let message = miss(&recorded, |request| {
        let tools = &mut Arc::make_mut(&mut request.tools).tools;
        tools.values_mut().for_each(|tool| {
            let mut schema = tool.input_schema.value().clone();
            schema["type"] = json!("array");
            tool.input_schema = schema.into();
        });
    })
    .await;
    assert!(message.contains("the input schema of the tool `risk.score` was `…"), "{message}");
    let message = miss(&recorded, |request| {
        let names = &mut Arc::make_mut(&mut request.tools).names;
        names.insert("risk.score".parse().unwrap(), "score".parse().unwrap());
    })
    .await;
    says(&message, "the model saw the tool `risk.score` as its long name, now as `score`");
}

#[tokio::test]
async fn a_miss_is_short_whatever_the_texts_are() {
    let recorded = recorded().await;
    let message = miss_entries(&recorded, |entries| {
        entries[1] = json!({"user": "Is the disk full? ".repeat(10_000)});
    })
    .await;
    assert!(message.chars().count() < 800, "{message}");
    assert!(
        message.contains("was `Is the disk full? Grüße 🦀`, now it is `Is the disk full? Is"),
        "{message}"
    );
}

#[tokio::test]
async fn a_miss_on_an_empty_cassette_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.jsonl");
    fs::write(&path, "{\"dalsegno_cassette\":1}\n").unwrap();
    let cassette = Cassette::open(&path).unwrap();
    assert!(cassette.is_empty());
    let error = cassette.complete(&request(&opening()), &()).await.unwrap_err();
    assert!(error.message.contains("nothing is recorded"), "{error}");
}

#[tokio::test]
async fn a_recording_goes_on_where_it_ended() {
    let recorded = recorded().await;
    let before = fs::read_to_string(&recorded.path).unwrap();
    record(&recorded.path).await;
    let after = fs::read_to_string(&recorded.path).unwrap();
    let added = after.strip_prefix(&before).unwrap();
    assert_eq!(added.matches("\"entry\"").count(), 0, "what is known is not written again: {added}");
    assert_eq!(Cassette::open(&recorded.path).unwrap().len(), 4);
    let files: Vec<_> = fs::read_dir(recorded.path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing is left behind");
}

#[tokio::test]
async fn a_failed_attempt_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let script = "[[replies]]\ntext = 'ok'\nerror = { kind = 'unavailable', message = 'down', attempts = 1 }";
    let recorder =
        Recorder::new(Arc::new(ScriptModel::parse(script).unwrap()), Recording::open(&path).unwrap());
    let mut request = request(&opening());
    recorder.complete(&request, &()).await.unwrap_err();
    assert!(!path.exists());
    request.attempt = 2;
    recorder.complete(&request, &()).await.unwrap();
    assert_eq!(Cassette::open(&path).unwrap().len(), 1);
}

#[tokio::test]
async fn a_reply_that_cannot_be_recorded_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone/run.jsonl");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let script = Arc::new(ScriptModel::parse(SCRIPT).unwrap());
    let recorder = Recorder::new(script, Recording::open(&path).unwrap());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let error: ModelError = recorder.complete(&request(&opening()), &()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert!(error.message.starts_with("the model replied, but cannot write the cassette"), "{error}");
}

#[test]
fn a_folder_that_is_not_there_is_refused_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(folder.path().join("missing/run.jsonl")).unwrap_err();
    assert!(matches!(error, CassetteError::Write { .. }), "{error:?}");
}

#[tokio::test]
async fn a_second_recorder_of_a_file_is_refused_until_the_first_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let first = Recording::open(&path).unwrap();
    let other = Recording::open(folder.path().join("other.jsonl")).unwrap();
    let error = Recording::open(&path).unwrap_err();
    assert!(matches!(error, CassetteError::Busy { .. }), "{error:?}");
    assert!(error.to_string().ends_with("wait until it ends, or record to another file"), "{error}");
    let script = Arc::new(ScriptModel::parse(SCRIPT).unwrap());
    let recorder = Recorder::new(script, first);
    recorder.complete(&request(&opening()), &()).await.unwrap();
    assert!(matches!(Recording::open(&path).unwrap_err(), CassetteError::Busy { .. }), "still the first's");
    assert_eq!(Cassette::open(&path).unwrap().len(), 1, "reading is free");
    drop((recorder, other));
    drop(Recording::open(&path).unwrap());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["run.jsonl"], "nothing is left behind");
}

/// What a process that was killed leaves behind holds up nobody.
#[test]
fn a_lock_without_a_holder_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    fs::write(folder.path().join(".run.jsonl.lock"), "").unwrap();
    drop(Recording::open(&path).unwrap());
}

/// A link beside the cassette must not keep its recorder busy for ever.
#[cfg(unix)]
#[test]
fn a_lock_that_is_a_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    for target in ["elsewhere.lock", "elsewhere.lock"] {
        std::os::unix::fs::symlink(target, folder.path().join(".run.jsonl.lock")).unwrap();
        let first = Recording::open(&path).unwrap();
        assert!(matches!(Recording::open(&path).unwrap_err(), CassetteError::Busy { .. }));
        drop(first);
    }
    assert!(folder.path().join("elsewhere.lock").exists(), "only the link is removed");
}

/// Recorders that come and go at once, each of which adds one exchange, lose none of them.
#[test]
fn recorders_in_turns_lose_nothing() {
    const EACH: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let add = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..EACH {
            let recording = loop {
                match Recording::open(&path) {
                    Ok(recording) => break recording,
                    Err(CassetteError::Busy { .. }) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            };
            let script = Arc::new(ScriptModel::parse(SCRIPT).unwrap());
            let recorder = Recorder::new(script, recording);
            runtime.block_on(recorder.complete(&request(&opening()), &())).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(add);
        }
    });
    assert_eq!(Cassette::open(&path).unwrap().len(), 4 * EACH);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn another_file_of_that_name_beside_it_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let old = folder.path().join(format!("run.jsonl.{}.tmp", std::process::id()));
    fs::write(&old, "mine").unwrap();
    let script = Arc::new(ScriptModel::parse(SCRIPT).unwrap());
    let recorder = Recorder::new(script, Recording::open(&path).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(recorder.complete(&request(&opening()), &())).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "mine");
}

#[tokio::test]
async fn a_file_that_is_no_cassette_is_refused_with_the_line() {
    let recorded = recorded().await;
    let whole = fs::read_to_string(&recorded.path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without = |line: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != line).map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n")
    };
    let cut = whole.rfind("{\"reply\"").unwrap();
    let cases = [
        (String::new(), "line 1: it is empty"),
        (without(0), "line 1: expected `{\"dalsegno_cassette\":1}` first"),
        (whole.replace("dalsegno_cassette\":1", "dalsegno_cassette\":2"), "has the version 2"),
        (without(1), "line 2: expected a `request` before it"),
        (whole[..cut].to_owned(), "the last request has no `reply`"),
        (whole[..cut + 20].to_owned(), "EOF while parsing"),
        (whole.replace("\"exchange\":1", "\"exchange\":2"), "there is no exchange 2 before it"),
        (whole.replace("\"entries\":3", "\"entries\":4"), "exchange 1 has fewer than 4 entries"),
        (whole.replace("\"settings\"", "\"setings\""), "unknown field `setings`"),
        (whole.replace("{\"tool\"", "{\"tol\""), "line 3: unknown variant `tol`"),
    ];
    for (text, words) in cases {
        fs::write(&recorded.path, &text).unwrap();
        let error = Cassette::open(&recorded.path).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} lacks {words:?}");
        assert!(error.ends_with("record it again"), "{error:?} says nothing to do");
        if !text.is_empty() {
            assert!(Recording::open(&recorded.path).is_err(), "nothing is added to a broken file");
        }
    }
    let missing = Cassette::open("there/is/none.jsonl").unwrap_err();
    assert!(matches!(missing, CassetteError::Read { .. }), "{missing}");
    assert!(missing.to_string().ends_with("; correct its path, or record it first"), "{missing}");
}
