//! Servers that are child processes: good ones of both eras, and bad ones.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dalsegno_mcp::{
    Answer, Builtin, CallContext, CallError, CallErrorKind, Command, Input, Limits, Received, Server,
    ServerConfig, ServerSession, ToolOutput,
};
use dalsegno_secrets::MaybeSecret;
use serde_json::{Map, Value, json};

const CHILD: &str = env!("CARGO_BIN_EXE_dalsegno-mcp-test-server");

fn command(mode: &str) -> Command {
    Command::new(CHILD, [mode])
}

fn server(mode: &str) -> Server {
    Server::new(ServerConfig::stdio("child", command(mode)))
}

fn limited(mode: &str, limits: Limits) -> Server {
    Server::new(ServerConfig { limits, ..ServerConfig::stdio("child", command(mode)) })
}

fn context() -> CallContext {
    CallContext::new("op_1", Duration::from_secs(20))
}

fn arguments(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn say(session: &ServerSession, tool: &str) -> Result<String, CallError> {
    match session.call(tool, Map::new(), context()).await? {
        Answer::Done(output) => Ok(output.text),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

#[tokio::test]
async fn both_eras_are_spoken_and_told_apart() {
    for (mode, protocol) in [("legacy", "2025-06-18"), ("modern", "2026-07-28"), ("old", "2025-06-18")] {
        let server = server(mode);
        let names: Vec<String> =
            server.catalogue("default").await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), 19, "{mode}: two pages, and the built-in ones: {names:?}");
        let session = server.session("default");
        assert_eq!(session.protocol().await.unwrap(), protocol, "{mode}");
        let call = CallContext { traceparent: Some("00-aa-bb-01".to_owned()), ..context() };
        let said = match session.call("echo", arguments(&json!({ "a": 1 })), call).await.unwrap() {
            Answer::Done(output) => serde_json::from_str::<Value>(&output.text).unwrap(),
            Answer::InputRequired(input) => panic!("{input:?}"),
        };
        assert_eq!(said["arguments"], json!({ "a": 1 }), "{mode}");
        assert_eq!(said["_meta"]["dalsegno/operation"], "op_1", "{mode}");
        assert_eq!(said["_meta"]["traceparent"], "00-aa-bb-01", "{mode}");
        server.close().await;
    }
}

async fn builtin(session: &ServerSession, tool: &str, given: &Value) -> Result<ToolOutput, CallError> {
    match session.call(tool, arguments(given), context()).await? {
        Answer::Done(output) => Ok(output),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

#[tokio::test]
async fn resources_are_listed_from_all_pages_and_read_by_tools() {
    for mode in ["legacy", "modern"] {
        let server = server(mode);
        let session = server.session("default");
        // Nobody has asked for the catalogue before.
        let listed = builtin(&session, "resources.list", &json!({})).await.unwrap().structured.unwrap();
        let uris: Vec<_> =
            listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, ["test://a", "test://b"], "{mode}");
        assert_eq!(listed["resources"][0]["description"], "the first");
        assert_eq!(listed["resources"][1]["media_type"], "image/png");
        let templates = if mode == "modern" { json!("test://{name}") } else { Value::Null };
        assert_eq!(listed["templates"][0]["uri_template"], templates, "{mode}");
        assert_eq!(listed["truncated"], false);

        let read = async |uri: &str| builtin(&session, "resources.read", &json!({ "uri": uri })).await;
        assert_eq!(read("test://a").await.unwrap().text, "contents");
        assert_eq!(read("test://b").await.unwrap().text, "[binary content, image/png, 4 bytes]");
        let both = read("test://both").await.unwrap().text;
        let described = "[binary content, application/octet-stream, 2 bytes]";
        assert_eq!(both, format!("test://a:\ncontents\n\ntest://b:\n{described}"));
        assert!(
            read("test://meta").await.unwrap().text.contains("\"dalsegno/operation\":\"op_1\""),
            "{mode}"
        );
        let refused = read("test://c").await.unwrap_err();
        assert_eq!(refused.kind, CallErrorKind::Refused { code: -32602 }, "{refused}");
        server.close().await;
    }
}

#[tokio::test]
async fn prompts_are_listed_and_got_by_tools() {
    for mode in ["legacy", "modern"] {
        let server = server(mode);
        let session = server.session("default");
        let listed = builtin(&session, "prompts.list", &json!({})).await.unwrap().structured.unwrap();
        assert_eq!(
            listed["prompts"],
            json!([{ "name": "greet", "arguments": [{ "name": "who", "required": true }] }])
        );
        let given = json!({ "name": "greet", "arguments": { "who": "Ada" } });
        let prompt = builtin(&session, "prompts.get", &given).await.unwrap().structured.unwrap();
        assert_eq!(prompt, json!({ "messages": [{ "role": "user", "text": "Hello Ada" }] }), "{mode}");
        server.close().await;
    }
}

#[tokio::test]
async fn a_tool_of_the_servers_own_wins_over_a_built_in_one() {
    let server = server("own");
    let tools = server.catalogue("default").await.unwrap();
    let builtins: Vec<_> = tools.iter().filter_map(|tool| tool.builtin).collect();
    assert_eq!(builtins, [Builtin::ReadResource, Builtin::ListPrompts, Builtin::GetPrompt]);
    assert_eq!(tools.iter().filter(|tool| tool.name == "resources.list").count(), 1);
    let session = server.session("default");
    assert_eq!(builtin(&session, "resources.list", &json!({})).await.unwrap().text, "my own");
    assert_eq!(
        builtin(&session, "resources.read", &json!({ "uri": "test://a" })).await.unwrap().text,
        "contents"
    );
    server.close().await;
}

#[tokio::test]
async fn built_in_tools_are_narrowed_like_all_others() {
    let tools = Some(vec!["echo".to_owned(), "resources.read".to_owned()]);
    let server = Server::new(ServerConfig { tools, ..ServerConfig::stdio("child", command("modern")) });
    let names: Vec<String> =
        server.catalogue("default").await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "resources.read"]);
    let session = server.session("default");
    assert!(builtin(&session, "resources.read", &json!({ "uri": "test://a" })).await.is_ok());
    let error = builtin(&session, "resources.list", &json!({})).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No));
    server.close().await;
}

#[tokio::test]
async fn reading_a_resource_keeps_the_limits_of_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cancelled");
    let mut command = command("modern");
    let value = file.to_str().unwrap().to_owned();
    command.environment = BTreeMap::from([("CANCELLED_FILE".to_owned(), MaybeSecret::Text(value))]);
    let limits = Limits { call_timeout: Duration::from_millis(300), ..Limits::default() };
    let server = Server::new(ServerConfig { limits, ..ServerConfig::stdio("child", command) });
    let session = server.session("default");
    let read = async |uri: &str| builtin(&session, "resources.read", &json!({ "uri": uri })).await;
    let error = read("test://hang").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly), "{error}");
    until(|| file.exists()).await;
    let error = read("test://giant").await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::OutputTooLarge, "{error}");
    server.close().await;
}

#[tokio::test]
async fn a_question_in_the_middle_of_reading_is_an_answer() {
    let server = server("modern");
    let session = server.session("default");
    let given = arguments(&json!({ "uri": "test://ask" }));
    let Answer::InputRequired(asked) =
        session.call("resources.read", given.clone(), context()).await.unwrap()
    else {
        panic!("it asks nothing")
    };
    let answers = BTreeMap::from([("which".to_owned(), json!({ "action": "accept", "content": {} }))]);
    let input = Input { answers, request_state: asked.request_state };
    match session.call("resources.read", given, CallContext { input, ..context() }).await.unwrap() {
        Answer::Done(output) => assert_eq!(output.text, "state-1"),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
    server.close().await;
}

#[tokio::test]
async fn a_question_of_the_server_is_an_answer_and_the_same_call_goes_on_with_its_state() {
    let server = server("modern");
    let session = server.session("default");
    let input = match session.call("input", Map::new(), context()).await.unwrap() {
        Answer::InputRequired(input) => input,
        Answer::Done(output) => panic!("{output:?}"),
    };
    assert_eq!(input.requests["which"]["params"]["message"], "which one?");
    let answers = BTreeMap::from([("which".to_owned(), json!({ "action": "accept", "content": {} }))]);
    let input = Input { answers, request_state: input.request_state };
    let again = CallContext { input, ..context() };
    match session.call("input", Map::new(), again).await.unwrap() {
        Answer::Done(output) => assert!(output.text.contains("accept") && output.text.contains("state-1")),
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
    server.close().await;
}

#[tokio::test]
async fn a_server_of_the_old_era_is_told_that_nobody_answers_it() {
    let server = server("legacy");
    let session = server.session("default");
    assert!(say(&session, "ask").await.unwrap().contains("decline"));
    assert!(say(&session, "sample").await.unwrap().contains("-32601"));
    assert_eq!(say(&session, "log").await.unwrap(), "logged");
    server.close().await;
}

#[tokio::test]
async fn tools_that_changed_are_asked_for_anew() {
    let server = server("legacy");
    server.catalogue("default").await.unwrap();
    assert_eq!(say(&server.session("default"), "change").await.unwrap(), "changed");
    let tools = server.catalogue("default").await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "brand_new"), "{tools:?}");
    let error = say(&server.session("default"), "log").await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::UnknownTool);
    server.close().await;
}

#[tokio::test]
async fn a_server_of_the_new_era_is_asked_to_tell_what_changes() {
    let server = server("modern");
    server.catalogue("default").await.unwrap();
    assert_eq!(say(&server.session("default"), "change").await.unwrap(), "changed");
    // The announcement goes another way than the answer.
    for _ in 0..1_000 {
        let tools = server.catalogue("default").await.unwrap();
        if tools.iter().any(|tool| tool.name == "brand_new") {
            return server.close().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the change was not seen");
}

#[tokio::test]
async fn only_the_listed_tools_are_offered() {
    let config = ServerConfig {
        tools: Some(vec!["echo".to_owned()]),
        ..ServerConfig::stdio("child", command("legacy"))
    };
    let server = Server::new(config);
    assert_eq!(server.catalogue("default").await.unwrap().len(), 1);
    let error = say(&server.session("default"), "exit").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No));
    server.close().await;
}

#[tokio::test]
async fn the_environment_holds_what_is_listed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("legacy");
    command.environment = BTreeMap::from([("REGION".to_owned(), MaybeSecret::from("eu"))]);
    command.directory = Some(folder.path().canonicalize().unwrap());
    let server = Server::new(ServerConfig::stdio("child", command));
    let said = say(&server.session("default"), "environment").await.unwrap();
    assert_eq!(said, format!("REGION=eu\ncwd={}", folder.path().canonicalize().unwrap().display()));
    server.close().await;
}

#[tokio::test]
async fn each_tenant_has_a_process_of_its_own() {
    let server = server("legacy");
    let pids = |tenant: &'static str| {
        let session = server.session(tenant);
        async move { say(&session, "pids").await.unwrap().split(' ').next().unwrap().to_owned() }
    };
    let (first, second, again) = (pids("a").await, pids("b").await, pids("a").await);
    assert_eq!(first, again);
    assert_ne!(first, second);
    server.close().await;
}

#[tokio::test]
async fn progress_keeps_a_call_alive_up_to_a_total() {
    // Each step takes 150 ms, all of them 750.
    let patient = Limits { call_timeout: Duration::from_millis(500), ..Limits::default() };
    let server = limited("legacy", patient.clone());
    assert_eq!(say(&server.session("default"), "progress").await.unwrap(), "done");
    server.close().await;

    let server = limited("legacy", Limits { total_timeout: Duration::from_millis(510), ..patient });
    let error = say(&server.session("default"), "progress").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly));
    server.close().await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cancelled");
    let mut command = command("legacy");
    let value = file.to_str().unwrap().to_owned();
    command.environment = BTreeMap::from([("CANCELLED_FILE".to_owned(), MaybeSecret::Text(value))]);
    let limits = Limits { call_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::new(ServerConfig { limits, ..ServerConfig::stdio("child", command) });
    let session = server.session("default");
    let error = say(&session, "hang").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly));
    until(|| file.exists()).await;
    assert!(say(&session, "echo").await.is_ok(), "the next call works");
    server.close().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cancelled");
    let mut command = command("modern");
    let value = file.to_str().unwrap().to_owned();
    command.environment = BTreeMap::from([("CANCELLED_FILE".to_owned(), MaybeSecret::Text(value))]);
    let server = Server::new(ServerConfig::stdio("child", command));
    let session = server.session("default");
    say(&session, "echo").await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(200), say(&session, "hang")).await;
    assert!(given_up.is_err());
    until(|| file.exists()).await;
    server.close().await;
}

#[tokio::test]
async fn a_server_that_exits_in_the_middle_of_a_call_says_why_and_the_next_call_gets_another() {
    let server = server("legacy");
    let session = server.session("default");
    let error = say(&session, "exit").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Exited, Received::Possibly), "{error}");
    assert!(error.message.contains("code 3") && error.stderr == "giving up", "{error:?}");
    assert!(say(&session, "echo").await.is_ok());
    server.close().await;
}

#[tokio::test]
async fn garbage_and_giant_lines_end_the_call_with_the_reason() {
    let server = server("legacy");
    let session = server.session("default");
    let error = say(&session, "garbage").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Protocol, Received::Possibly));
    assert!(error.message.contains("Listening on port 8080"), "{error}");
    let error = say(&session, "giant").await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::OutputTooLarge, "{error}");
    assert!(say(&session, "echo").await.is_ok(), "the next call works");
    server.close().await;
}

#[tokio::test]
async fn endless_words_on_standard_error_are_read_and_forgotten() {
    let server = limited("legacy", Limits { stderr: 1024, ..Limits::default() });
    let session = server.session("default");
    assert_eq!(say(&session, "chatter").await.unwrap(), "said");
    let error = say(&session, "exit").await.unwrap_err();
    assert!(error.stderr.len() <= 1024 && error.stderr.ends_with("giving up"), "{}", error.stderr.len());
    server.close().await;
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let server = server("legacy");
    let error = say(&server.session("default"), "refuse").await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Refused { code: -32602 });
    server.close().await;
}

#[tokio::test]
async fn a_slow_start_is_waited_for_within_its_limit() {
    let server = server("slow");
    assert!(say(&server.session("default"), "echo").await.is_ok());
    server.close().await;
    let hasty = Limits { start_timeout: Duration::from_millis(100), ..Limits::default() };
    let error = say(&limited("slow", hasty).session("default"), "echo").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::No));
}

#[tokio::test]
async fn a_server_that_crashes_at_its_start_is_left_alone_for_longer_and_longer() {
    let server = server("crash");
    let session = server.session("default");
    let short = CallContext::new("op_1", Duration::from_millis(100));
    for _ in 0..2 {
        let error = session.call("echo", Map::new(), short.clone()).await.unwrap_err();
        assert_eq!((error.kind, error.received), (CallErrorKind::Exited, Received::No), "{error}");
        assert_eq!(error.stderr, "no licence found");
    }
    // The pause is now longer than this call waits.
    let error = session.call("echo", Map::new(), short).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Start, Received::No), "{error}");
    assert!(error.message.contains("left alone"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let server = Server::new(ServerConfig::stdio("child", Command::new("no-such-program-at-all", [""])));
    let error = server.catalogue("default").await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Start, Received::No));
    assert!(error.message.contains("`no-such-program-at-all`"), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn closing_a_server_ends_it_with_everything_that_it_started() {
    let server = server("stubborn");
    let pids = say(&server.session("default"), "pids").await.unwrap();
    assert!(pids.split(' ').all(lives));
    server.close().await;
    until(|| !pids.split(' ').any(lives)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_crash_of_the_engine_leaves_no_child_behind() {
    let mut host = std::process::Command::new(CHILD).arg("host").stdout(Stdio::piped()).spawn().unwrap();
    let mut pids = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut pids).unwrap();
    assert!(pids.trim().split(' ').all(lives), "{pids}");
    host.kill().unwrap();
    host.wait().unwrap();
    until(|| !pids.trim().split(' ').any(lives)).await;
}

/// Whether a process runs. One that has ended and was not collected by its parent does not.
fn lives(pid: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).is_ok_and(|stat| {
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, Some('Z' | 'X'))
    })
}

/// Waits until something holds, for as long as a busy machine may take.
async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}
