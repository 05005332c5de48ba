//! The `risk` server from end to end: a real MCP server in Rust, compiled to a component.

use dalsegno_sandbox::{
    Access, CallErrorKind, LoadError, ModuleDigest, Permissions, Preopen, Received, ServerConfig,
};
use serde_json::json;

use crate::support::{arguments, call, risk_module, sandbox};

#[tokio::test]
async fn the_catalogue_has_three_typed_tools() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let tools = server.catalogue().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["explain", "record", "score"]);
    for tool in &tools {
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object", "{}", tool.name);
        assert!(tool.description.is_some(), "{}", tool.name);
    }
    let score = &tools[2];
    assert_eq!(score.input_schema["required"], json!(["text"]));
    assert_eq!((score.annotations.read_only, score.annotations.idempotent), (Some(true), Some(true)));
    let record = &tools[1];
    assert_eq!((record.annotations.read_only, record.annotations.destructive), (Some(false), Some(false)));
    assert_eq!(record.annotations.idempotent, Some(false));
}

#[tokio::test]
async fn the_catalogue_and_calls_are_narrowed_by_configuration() {
    let config =
        ServerConfig { tools: Some(vec!["score".to_owned()]), ..ServerConfig::new("risk", risk_module()) };
    let server = sandbox().load(config).await.unwrap();
    let tools = server.catalogue().await.unwrap();
    assert_eq!(tools.len(), 1);
    let error =
        server.open("tenant").call("explain", arguments(json!({"text": "x"})), call()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::UnknownTool, Received::No));
}

#[tokio::test]
async fn a_score_has_a_value_a_level_and_factors() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let session = server.open("tenant");
    let text = "Checkout is down for all customers, payments are failing";
    let output = session.call("score", arguments(json!({"text": text})), call()).await.unwrap();
    let risk = output.structured.unwrap();
    assert_eq!(risk["level"], "high");
    assert_eq!(risk["factors"][0]["evidence"], "down");
    assert!(!output.is_error);

    let harmless = json!({"text": "A typo on the about page, no customer impact"});
    let output = session.call("score", arguments(harmless), call()).await.unwrap();
    assert_eq!(output.structured.unwrap()["level"], "low");
    session.close().await;
}

#[tokio::test]
async fn similar_incidents_raise_the_score() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let session = server.open("tenant");
    let alone = json!({"text": "The nightly job was slow"});
    let with_past = json!({"text": "The nightly job was slow", "similar": [{"severity": "critical"}]});
    let alone = session.call("score", arguments(alone), call()).await.unwrap().structured.unwrap();
    let with_past = session.call("score", arguments(with_past), call()).await.unwrap().structured.unwrap();
    assert!(with_past["value"].as_f64() > alone["value"].as_f64(), "{with_past} {alone}");
}

#[tokio::test]
async fn an_explanation_names_the_evidence() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let text = json!({"text": "We may have leaked credentials"});
    let output = server.open("tenant").call("explain", arguments(text), call()).await.unwrap();
    let sentences = output.structured.unwrap()["sentences"].to_string();
    assert!(sentences.contains("leaked"), "{sentences}");
}

#[tokio::test]
async fn several_calls_share_one_instance() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let session = server.open("tenant");
    let one = |text: &str| session.call("score", arguments(json!({"text": text})), call());
    let (outage, breach) = tokio::join!(one("everything is down"), one("a breach"));
    let evidence =
        |answer: dalsegno_sandbox::ToolOutput| answer.structured.unwrap()["factors"][0]["evidence"].clone();
    assert_eq!(evidence(outage.unwrap()), "down");
    assert_eq!(evidence(breach.unwrap()), "breach");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_the_server() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let session = server.open("tenant");
    let result = session.call("score", arguments(json!({"words": 1})), call()).await;
    let refused = match result {
        Err(error) => matches!(error.kind, CallErrorKind::Refused { .. }),
        Ok(answer) => answer.is_error,
    };
    assert!(refused);
    // The instance goes on: a refusal is an answer.
    session.call("score", arguments(json!({"text": "down"})), call()).await.unwrap();
}

#[tokio::test]
async fn a_record_without_a_folder_is_a_tool_error() {
    let server = sandbox().load(ServerConfig::new("risk", risk_module())).await.unwrap();
    let output = server.open("tenant").call("record", escalation("one"), call()).await.unwrap();
    assert!(output.is_error);
    assert!(output.text.contains("grant this server a folder"), "{}", output.text);
}

#[tokio::test]
async fn a_record_is_appended_to_a_granted_folder() {
    let folder = tempfile::tempdir().unwrap();
    let server = sandbox().load(granted(folder.path(), Access::Write)).await.unwrap();
    let session = server.open("tenant");
    for (incident, line) in [("one", 1), ("two\nlines", 2)] {
        let output = session.call("record", escalation(incident), call()).await.unwrap();
        let expected = json!({"path": "/incidents/escalations.jsonl", "line_number": line});
        assert_eq!(output.structured, Some(expected), "{}", output.text);
    }
    let written = std::fs::read_to_string(folder.path().join("escalations.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["incident"], "two\nlines");
    assert_eq!(lines[1]["operation"], "op_test", "the operation id travels to the server");
}

#[tokio::test]
async fn a_folder_granted_for_reading_cannot_be_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let server = sandbox().load(granted(folder.path(), Access::Read)).await.unwrap();
    let output = server.open("tenant").call("record", escalation("one"), call()).await.unwrap();
    assert!(output.is_error, "{output:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_missing_folder_refuses_to_load() {
    let config = granted(std::path::Path::new("no/such/folder"), Access::Read);
    let error = sandbox().load(config).await.unwrap_err();
    assert!(matches!(error, LoadError::Preopen { .. }), "{error}");
}

#[tokio::test]
async fn a_pinned_digest_must_match() {
    let module = std::fs::read(risk_module()).unwrap();
    for digest in [ModuleDigest::sha256(&module), ModuleDigest::blake3(&module)] {
        let config = ServerConfig { digest: Some(digest), ..ServerConfig::new("risk", risk_module()) };
        let server = sandbox().load(config).await.unwrap();
        assert_eq!(server.digest(), ModuleDigest::sha256(&module));
    }
    let digest = Some(ModuleDigest::sha256(b"another module"));
    let config = ServerConfig { digest, ..ServerConfig::new("risk", risk_module()) };
    let error = sandbox().load(config).await.unwrap_err();
    assert!(matches!(error, LoadError::DigestMismatch { .. }), "{error}");
}

fn granted(host: &std::path::Path, access: Access) -> ServerConfig {
    let folder = Preopen { host: host.to_owned(), guest: "/incidents".to_owned(), access };
    let permissions = Permissions { files: vec![folder], ..Permissions::default() };
    ServerConfig { permissions, ..ServerConfig::new("risk", risk_module()) }
}

fn escalation(incident: &str) -> serde_json::Map<String, serde_json::Value> {
    arguments(json!({"incident": incident, "risk": 0.9, "decision": "escalate", "by": "test"}))
}
