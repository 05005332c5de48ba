//! What the tests ask, and how they look at the reply.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dalsegno_core::{
    CallRequest, Digest, Entry, ModelReply, ModelSettings, OperationId, ReplyPart, Tool, ToolChoice, Toolbox,
    Transcript, Validation,
};
use dalsegno_models::{CompletionRequest, DeltaSink, HttpModel, HttpModelSettings, Model, ModelError, Wire};
use dalsegno_secrets::{Reveal, Secret};
use serde_json::{Value, json};

use crate::double::{Answer, Double, Received};

/// A key that must turn up in its header and nowhere else.
pub(crate) const KEY: &str = "sk-canary-7f3a91c2";

pub(crate) fn key() -> Option<Arc<dyn Reveal>> {
    Some(Arc::new(Secret::new(KEY)))
}

/// Where a test's server stands in for a wire's provider.
pub(crate) fn base(wire: Wire, double: &Double) -> String {
    match wire {
        Wire::OpenaiChat | Wire::OpenaiResponses => double.url("/v1"),
        Wire::Anthropic | Wire::Bedrock => double.url(""),
        Wire::Gemini => double.url("/v1beta"),
    }
}

pub(crate) fn settings(wire: Wire, double: &Double) -> HttpModelSettings {
    let mut settings = HttpModelSettings::new(wire, "some-model");
    settings.base_url = Some(base(wire, double));
    settings
}

pub(crate) fn model(wire: Wire, double: &Double) -> HttpModel {
    HttpModel::new(settings(wire, double), key()).unwrap()
}

/// Asks once and gives what was received and what came back. The text that was streamed must be the reply's.
pub(crate) async fn ask(
    wire: Wire,
    request: &CompletionRequest,
    answer: Answer,
) -> (Received, Result<ModelReply, ModelError>) {
    let double = Double::start([answer]).await;
    let model = model(wire, &double);
    assert!(!format!("{model:?}").contains(KEY));
    let deltas = Deltas::default();
    let reply = model.complete(request, &deltas).await;
    match &reply {
        Ok(reply) => assert_eq!(deltas.joined(), reply.text()),
        Err(error) => assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}"),
    }
    (double.only(), reply)
}

/// What a wire's request is, for a request whose answer does not matter.
pub(crate) async fn sent(wire: Wire, request: &CompletionRequest) -> Value {
    ask(wire, request, Answer::of(wire, hello(wire), 4096)).await.0.body
}

/// The shortest reply of each wire.
pub(crate) fn hello(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenaiChat => {
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\n\
             data: [DONE]\n\n"
        }
        Wire::OpenaiResponses => {
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n\
             data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\
             \"content\":[{\"type\":\"output_text\",\"text\":\"Hello\"}]}}\n\n\
             data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"
        }
        Wire::Anthropic => {
            "data: {\"type\":\"message_start\",\"message\":{}}\n\n\
             data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
             data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n\
             data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
             data: {\"type\":\"message_stop\"}\n\n"
        }
        Wire::Gemini => {
            "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]}}]}\n\n\
             data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}]}\n\n"
        }
        Wire::Bedrock => {
            "data: {\"messageStart\":{\"role\":\"assistant\"}}\n\n\
             data: {\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"text\":\"Hello\"}}}\n\n\
             data: {\"contentBlockStop\":{\"contentBlockIndex\":0}}\n\n\
             data: {\"messageStop\":{\"stopReason\":\"end_turn\"}}\n\n"
        }
    }
}

#[derive(Default)]
pub(crate) struct Deltas(Mutex<Vec<String>>);

impl Deltas {
    pub(crate) fn joined(&self) -> String {
        self.0.lock().unwrap().concat()
    }
}

impl DeltaSink for Deltas {
    fn text(&self, delta: &str) {
        assert!(!delta.is_empty());
        self.0.lock().unwrap().push(delta.to_owned());
    }
}

/// A transcript of these entries, each as it is written in a journal.
pub(crate) fn transcript(entries: Value) -> Transcript {
    let zero = "0".repeat(64);
    serde_json::from_value(json!([zero, 0, zero, entries])).unwrap()
}

/// A request without tools.
pub(crate) fn plain(entries: Value) -> CompletionRequest {
    CompletionRequest {
        settings: ModelSettings::named("the workspace's name"),
        transcript: transcript(entries),
        attachments: Arc::default(),
        tools: Arc::default(),
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        operation: OperationId::from_bytes([1; 16]),
        attempt: 1,
    }
}

pub(crate) fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// A request with two tools, of which one is forbidden besides.
pub(crate) fn with_tools(entries: Value) -> CompletionRequest {
    let mut tools = Toolbox::default();
    for name in ["risk.score", "disk.free", "secret.read"] {
        tools.tools.insert(name.parse().unwrap(), Tool::new(format!("Does {name}."), schema()));
    }
    tools.forbidden.insert("secret.read".parse().unwrap());
    CompletionRequest { tools: Arc::new(tools), ..plain(entries) }
}

/// The entries of a conversation with a call, a failed call and an answer.
pub(crate) fn conversation(opaque: Value) -> Value {
    let call = |id: &str, name: &str, arguments: &str| {
        let validation = json!({"valid": {"arguments": {}}});
        json!({"call": {"call_id": id, "name": name, "arguments": arguments, "verdict": validation}})
    };
    let foreign = json!({"opaque": {"provider": "another", "data": {"type": "thinking", "thinking": "no"}}});
    let mut first = vec![foreign];
    first.extend(opaque.as_array().unwrap().iter().cloned());
    first.push(json!({"text": "Let me look."}));
    first.push(call("c1", "risk__score", "{\"n\": 3}"));
    first.push(call("c2", "disk__free", "{\"n"));
    json!([
        {"instructions": "Be brief."},
        {"user": "Is the disk full?"},
        {"assistant": {"parts": first, "stop": "tool_calls"}},
        {"tool_result": {"call_id": "c1", "name": "risk__score", "content": "7", "is_error": false}},
        {"tool_result": {"call_id": "c2", "name": "disk__free", "content": "no JSON", "is_error": true}},
        {"assistant": {"parts": [{"text": "Yes."}], "stop": "end"}},
        {"user": "And now?"},
    ])
}

/// The same with opaque parts as they stand in the transcript.
pub(crate) fn opaque(provider: &str, data: &[Value]) -> Value {
    let parts = data.iter().map(|data| json!({"opaque": {"provider": provider, "data": data}}));
    parts.collect()
}

/// A user's message with one file of each kind.
pub(crate) fn with_files(files: &[(&str, &str, &[u8])]) -> CompletionRequest {
    let mut entries = vec![json!({"user": "Look at these."})];
    let mut contents = BTreeMap::new();
    for (index, (name, media_type, bytes)) in files.iter().enumerate() {
        let digest = Digest::from_bytes([u8::try_from(index).unwrap(); 32]);
        contents.insert(digest, Arc::from(*bytes));
        let attachment =
            json!({"name": name, "media_type": media_type, "digest": digest, "bytes": bytes.len()});
        entries.push(json!({"attachment": attachment}));
    }
    let mut request = plain(Value::Array(entries));
    request.attachments = Arc::new(contents);
    request
}

pub(crate) const FILES: &[(&str, &str, &[u8])] = &[
    ("a.png", "image/png", b"\x89PNG"),
    ("b.pdf", "application/pdf", b"%PDF-1.7"),
    ("c.md", "text/markdown; charset=utf-8", "# \u{fc}".as_bytes()),
];

/// A reply's calls with what was made of them.
pub(crate) fn calls(reply: &ModelReply) -> Vec<&CallRequest> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        ReplyPart::Text(_) | ReplyPart::Opaque { .. } => None,
    });
    calls.collect()
}

pub(crate) fn valid(arguments: Value) -> Option<Validation> {
    Some(Validation::Valid { arguments })
}

/// The request that follows a reply: its transcript, the reply, and what comes next.
pub(crate) fn after(request: &CompletionRequest, reply: &ModelReply, next: Value) -> CompletionRequest {
    let mut entries: Vec<Value> =
        request.transcript.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    entries.push(serde_json::to_value(Entry::Assistant(reply.clone())).unwrap());
    entries.extend(next.as_array().unwrap().iter().cloned());
    CompletionRequest { transcript: transcript(Value::Array(entries)), ..request.clone() }
}
