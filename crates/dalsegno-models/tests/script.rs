//! The scripted provider, alone and under the core.

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests that take `json!` literals"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dalsegno_core::{
    AgentAction, AgentConfig, AgentRequest, AgentState, Event, Mind, ModelMind, ModelReply, ModelSettings,
    OperationId, Outcome, ReplyPart, Request, RunId, StopReason, Timestamp, Tool, ToolChoice, ToolReturn,
    Toolbox, Transcript, Validation, execute_agent_step,
};
use dalsegno_expr::Template;
use dalsegno_models::{
    CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind, Retry, ScriptError, ScriptModel,
};
use serde_json::{Value, json};

#[derive(Default)]
struct Deltas(Mutex<Vec<String>>);

impl DeltaSink for Deltas {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push(delta.to_owned());
    }
}

/// A transcript of these entries, each as it is written in a journal.
fn transcript(entries: Value) -> Transcript {
    serde_json::from_value(json!(["0".repeat(64), 0, "0".repeat(64), entries])).unwrap()
}

fn request(entries: Value) -> CompletionRequest {
    let mut tools = Toolbox::default();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    tools.tools.insert("risk.score".parse().unwrap(), Tool::new("Scores.".to_owned(), schema));
    CompletionRequest {
        settings: ModelSettings::named("script"),
        transcript: transcript(entries),
        tools: Arc::new(tools),
        attachments: Arc::default(),
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        operation: OperationId::from_bytes([1; 16]),
        attempt: 1,
    }
}

async fn complete(script: &str, entries: Value) -> Result<ModelReply, ModelError> {
    ScriptModel::parse(script).unwrap().complete(&request(entries), &()).await
}

fn calls(reply: &ModelReply) -> Vec<(&str, &str, &Validation)> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => {
            Some((call.call_id.as_str(), call.arguments.as_str(), call.validation.as_ref().unwrap()))
        }
        ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
    });
    calls.collect()
}

fn assistant(text: &str) -> Value {
    json!({"assistant": {"parts": [{"text": text}], "stop": "end"}})
}

fn result(name: &str, content: &str) -> Value {
    json!({"tool_result": {"call_id": "c", "name": name, "content": content, "is_error": false}})
}

#[tokio::test]
async fn the_transcript_decides_which_reply_comes_next() {
    let script = "[[replies]]\ntext = 'first'\n[[replies]]\ntext = 'second'";
    let user = json!({"user": "hi"});
    assert_eq!(complete(script, json!([user])).await.unwrap().text(), "first");
    assert_eq!(complete(script, json!([user, assistant("first")])).await.unwrap().text(), "second");
    let error =
        complete(script, json!([user, assistant("a"), assistant("b"), {"user": "more"}])).await.unwrap_err();
    assert_eq!(
        error.message,
        "the script `script`, reply 2 (counted from 0): the script ends before it: it has 2 replies; the model last read `more`"
    );
    assert_eq!(error.retry, Retry::Never);
}

#[tokio::test]
async fn calls_carry_ids_arguments_and_verdicts() {
    let script = r#"
        [[replies]]
        calls = [
            { name = "risk.score", arguments = { n = "3" } },
            { name = "risk.score", arguments_text = '{"n' },
            { name = "risk.score", arguments = { n = "many" } },
            { name = "risk.score" },
        ]
        usage = { input = 10, output = 5 }
    "#;
    let reply = complete(script, json!([])).await.unwrap();
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!((reply.input_tokens, reply.output_tokens), (10, 5));
    let calls = calls(&reply);
    assert_eq!(calls[0], ("call_0_0", r#"{"n":"3"}"#, &Validation::Valid { arguments: json!({"n": 3}) }));
    assert!(matches!(calls[1], ("call_0_1", r#"{"n"#, Validation::Malformed { .. })));
    assert!(matches!(calls[2], ("call_0_2", _, Validation::Invalid { .. })));
    assert_eq!(calls[3], ("call_0_3", "", &Validation::Valid { arguments: json!({}) }));
}

#[tokio::test]
async fn at_the_length_limit_only_the_last_call_is_truncated() {
    let script = r#"
        [[replies]]
        calls = [{ name = "risk.score" }, { name = "risk.score" }]
        stop = "length"
    "#;
    let reply = complete(script, json!([])).await.unwrap();
    assert_eq!(reply.stop, StopReason::Length);
    let calls = calls(&reply);
    assert!(matches!(calls[0].2, Validation::Valid { .. }));
    assert_eq!(calls[1].2, &Validation::Truncated);
}

#[tokio::test]
async fn templates_read_the_request_and_the_results() {
    let script = r#"
        [[replies]]
        text = "{{request.text}}: {{last.value}}, {{results['a.b']}}, {{results.none}}"
        calls = [{ name = "risk.score", arguments = { n = "{{last.value}}" } }]
    "#;
    let entries =
        json!([{"user": "old"}, {"user": "disk"}, result("a.b", "plain"), result("c", r#"{"value": 7}"#)]);
    let reply = complete(script, entries).await.unwrap();
    assert_eq!(reply.text(), "disk: 7, plain, ");
    assert_eq!(calls(&reply)[0].1, r#"{"n":7}"#);
}

#[tokio::test]
async fn text_arrives_word_by_word() {
    let model = ScriptModel::parse("[[replies]]\ntext = 'Let me look.'").unwrap();
    let deltas = Deltas::default();
    model.complete(&request(json!([])), &deltas).await.unwrap();
    assert_eq!(deltas.0.into_inner().unwrap(), ["Let ", "me ", "look."]);
}

#[tokio::test]
async fn opaque_parts_come_through_untouched() {
    let script = r#"
        [[replies]]
        opaque = [{ provider = "anthropic", data = { signature = "x==", raw = "{{not.a.template}}", n = [1, 2.5] } }]
        text = "Done."
    "#;
    let reply = complete(script, json!([])).await.unwrap();
    let data = json!({"signature": "x==", "raw": "{{not.a.template}}", "n": [1, 2.5]});
    assert_eq!(reply.parts[0], ReplyPart::Opaque { provider: "anthropic".to_owned(), data });
}

#[tokio::test]
async fn a_scripted_failure_passes_after_its_attempts() {
    let script = r#"
        [[replies]]
        text = "Back."
        error = { kind = "rate_limited", message = "slow down", attempts = 2, retry_after = "3s" }
    "#;
    let model = ScriptModel::parse(script).unwrap();
    let mut request = request(json!([]));
    for attempt in 1..=2 {
        request.attempt = attempt;
        let error = model.complete(&request, &()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(error.retry, Retry::After(Duration::from_secs(3)));
        assert!(error.message.ends_with("slow down"), "{error}");
    }
    request.attempt = 3;
    assert_eq!(model.complete(&request, &()).await.unwrap().text(), "Back.");
}

#[tokio::test]
async fn a_failure_without_attempts_stays() {
    let script = "[[replies]]\nerror = { kind = 'refused', message = 'bad key' }";
    let model = ScriptModel::parse(script).unwrap();
    let mut request = request(json!([]));
    request.attempt = 1000;
    let error = model.complete(&request, &()).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ModelErrorKind::Refused, Retry::Never));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_reply_takes_its_time() {
    let model = ScriptModel::parse("[[replies]]\ntext = 'late'\ndelay = '50ms'").unwrap();
    let request = request(json!([]));
    let early = tokio::time::timeout(Duration::from_millis(49), model.complete(&request, &())).await;
    assert!(early.is_err());
    let enough = tokio::time::timeout(Duration::from_millis(51), model.complete(&request, &())).await;
    assert_eq!(enough.unwrap().unwrap().text(), "late");
}

#[tokio::test]
async fn a_run_that_leaves_the_script_is_told_so() {
    let script = "[[replies]]\ntext = 'x'\n[[replies]]\ntext = 'ok'\nwhen = 'score 7'";
    let before = json!({"user": "score 7"});
    let hit = json!([before, assistant("x"), result("a", "a score 7."), result("b", "other")]);
    assert_eq!(complete(script, hit).await.unwrap().text(), "ok");
    let miss = complete(script, json!([before, assistant("x"), result("a", "score 8")])).await.unwrap_err();
    assert_eq!(
        miss.message,
        "the script `script`, reply 1 (counted from 0): expected the model to have read `score 7`, but it read `score 8`"
    );
    assert_eq!(miss.retry, Retry::Never);
}

#[test]
fn a_bad_script_is_refused_with_the_place() {
    let cases = [
        ("", "the script `script` has no replies: expected at least one `[[replies]]`"),
        ("[[replies]]", "the script `script`, reply 0 (counted from 0): it is empty"),
        ("[[replies]]\ntext = 'a'\n[[replies]]\ntxt = 'b'", "unknown field `txt`"),
        ("[[reply]]\ntext = 'a'", "unknown field `reply`"),
        ("[[replies]]\ntext = '{{'", "reply 0 (counted from 0): `text`:"),
        (
            "[[replies]]\ncalls = [{ name = 'x', arguments = { a = '{{)}}' } }]",
            "the arguments of `x`: at `/a`",
        ),
        ("[[replies]]\ncalls = [{ name = 'x', arguments = { a = nan } }]", "`NaN` has no JSON form"),
        (
            "[[replies]]\ncalls = [{ name = 'x', arguments = {}, arguments_text = '' }]",
            "both `arguments` and",
        ),
        ("[[replies]]\ntext = 'a'\ndelay = '50'", "`delay` is `50`: expected a time such as `50ms`"),
        ("[[replies]]\ntext = 'a'\ndelay = '61m'", "at most `60m`"),
        ("[[replies]]\ntext = 'a'\ndelay = '99999999999999999999m'", "at most `60m`"),
        ("[[replies]]\ntext = 'a'\nstop = 'never'", "unknown variant `never`"),
        ("[[replies]\n", "the script `script` is not valid: TOML parse error at line 1"),
    ];
    for (text, expected) in cases {
        let error = ScriptModel::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?} gives {error:?}");
    }
}

#[test]
fn a_script_file_names_itself_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("triage.toml");
    assert!(matches!(ScriptModel::open(&path), Err(ScriptError::Read { .. })));
    std::fs::write(&path, "[[replies]]\ntext = 'a'").unwrap();
    assert_eq!(ScriptModel::open(&path).unwrap().len(), 1);
    std::fs::write(&path, "[[replies]]").unwrap();
    assert!(ScriptModel::open(&path).unwrap_err().to_string().contains("triage.toml"));
    std::fs::write(&path, "#".repeat((4 << 20) + 1)).unwrap();
    assert!(matches!(ScriptModel::open(&path), Err(ScriptError::TooLarge { .. })));
}

#[tokio::test]
async fn a_run_of_the_core_follows_its_script() {
    let model = ScriptModel::parse(
        r#"
        [[replies]]
        text = "Let me look."
        calls = [{ name = "risk.score", arguments = { n = "3" } }]
        [[replies]]
        text = "The risk is {{last.value}}."
        when = "value"
        "#,
    )
    .unwrap();
    let tools = request(json!([])).tools;
    let prompt = Template::parse("{{request.text}}").unwrap();
    let mind = ModelMind {
        model: ModelSettings::named("script"),
        instructions: None,
        prompt,
        recall: None,
        fallback: Vec::new(),
        output: None,
        context: None,
    };
    let mut config = AgentConfig::new("triage".parse().unwrap(), Mind::Model(mind));
    config.tools = (*tools).clone();
    let at = Timestamp::from_millis(0);
    let mut state = AgentState::start(RunId::from_bytes([7; 16]), AgentRequest::text("disk full"), at);
    let response = loop {
        let action = execute_agent_step(&config, state).unwrap();
        if let AgentAction::Complete { response, .. } = action {
            break response;
        }
        let (operations, continuation) = action.into_operations();
        state = continuation;
        for operation in operations {
            let outcome = match &operation.request {
                Request::ModelCompletion(_) => {
                    let mut request = request(json!([]));
                    request.transcript = state.transcript().clone();
                    Outcome::ModelReplied(model.complete(&request, &()).await.unwrap())
                }
                Request::ToolCall(call) => {
                    assert_eq!(call.parameters, json!({"n": 3}));
                    Outcome::ToolReturned(ToolReturn::structured(json!({"value": 0.7})))
                }
                Request::MemorySearch(_)
                | Request::MemoryCreate(_)
                | Request::MemoryTraverse(_)
                | Request::ApiCall(_)
                | Request::Email(_)
                | Request::Transfer(_)
                | Request::AgentCall(_)
                | Request::Input(_)
                | Request::Timer(_) => panic!("nobody asked for more than tools"),
            };
            state.resume(Event::outcome(at, operation.id, outcome)).unwrap();
        }
    };
    assert_eq!(response.answer.as_deref(), Some("The risk is 0.7."));
}

#[tokio::test]
async fn a_script_that_repeats_begins_again_after_its_last_reply() {
    let script = "repeat = true\n[[replies]]\ntext = \"one\"\n[[replies]]\ntext = \"two\"\n";
    let said = |text: &str| json!({ "assistant": { "parts": [{ "text": text }], "stop": "end" } });
    let user = json!({ "user": "go" });
    for (before, expected) in [(0, "one"), (1, "two"), (2, "one"), (5, "two")] {
        let entries = std::iter::once(user.clone()).chain((0..before).map(|_| said("x"))).collect();
        assert_eq!(complete(script, entries).await.unwrap().text(), expected, "after {before}");
    }
}
