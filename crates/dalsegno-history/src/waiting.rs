//! Operations that wait for an answer: what is asked, and about what.

use dalsegno_core::{
    AgentState, Decision, Gate, GateState, Operation, OperationId, Request, RunId, ToolName,
};
use dalsegno_store::Waiting;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::compare;

/// An operation that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingOperation {
    /// The run that it belongs to: the one that was asked about, or a child run of it.
    pub run: RunId,
    /// The operation.
    pub operation: OperationId,
    /// What kind of answer it waits for.
    pub gate: Gate,
    /// The question, in words.
    pub question: String,
    /// The tool, if it is a tool call.
    pub tool: Option<ToolName>,
    /// What is to be done: a tool's arguments, what is to be remembered, what an agent is asked.
    pub arguments: Option<Value>,
    /// JSON Schema of the answer, if it is a question with one.
    pub schema: Option<Value>,
    /// The agent's rule about the arguments by which it waits for an approval, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl WaitingOperation {
    /// The kind of answer as a word: `approval`, `input`, `in_doubt` or `secret`.
    pub fn kind(&self) -> &'static str {
        Waiting::at(&self.gate).as_str()
    }

    /// What stands for the operation, what it waits for and its exact arguments: 16 hexadecimal digits. Who agrees names
    /// them, so that nothing else than what was shown is agreed to.
    pub fn shown(&self) -> String {
        Self::all_shown([self])
    }

    /// The same for several operations together; their order does not matter.
    pub fn all_shown<'a>(operations: impl IntoIterator<Item = &'a Self>) -> String {
        let facts = |one: &Self| {
            // The rule says why a person is asked, not what they agree to.
            let Self { run, operation, gate, question, tool, arguments, schema, rule: _ } = one;
            serde_json::json!([run, operation, gate, question, tool, arguments, schema]).to_string()
        };
        let mut facts: Vec<String> = operations.into_iter().map(facts).collect();
        facts.sort_unstable();
        let mut hasher = blake3::Hasher::new_derive_key("dalsegno 2026-11 what a person is shown");
        for one in facts {
            // JSON has no line break outside of its strings, and none in them.
            hasher.update(one.as_bytes()).update(b"\n");
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// The operations that wait at a gate.
fn at_gates(state: &AgentState) -> impl Iterator<Item = (&Operation, &Gate)> {
    let open = state.pending().iter().filter(|pending| pending.outcome.is_none());
    open.filter_map(|pending| match &pending.operation.gate {
        GateState::Waiting(gate) => Some((&pending.operation, gate)),
        GateState::Open | GateState::Answered => None,
    })
}

/// What the operations of a run wait for that wait for an answer.
pub fn gates(state: &AgentState) -> impl Iterator<Item = Waiting> {
    at_gates(state).map(|(_, gate)| Waiting::at(gate))
}

/// The operations that wait for an answer.
pub fn waiting(run: RunId, state: &AgentState) -> Vec<WaitingOperation> {
    let waits = |(operation, gate)| WaitingOperation {
        rule: rule(state, operation),
        ..waits_at(run, operation, gate)
    };
    at_gates(state).map(waits).collect()
}

/// The rule by which a call waits for an approval: the core noted one decision for each such call, in their order.
fn rule(state: &AgentState, operation: &Operation) -> Option<String> {
    let call = operation.request.as_tool_call()?;
    let name = call.tool_name.as_str();
    let mut asked = state.decisions().iter().filter_map(|decision| match decision {
        Decision::AskApproval { name: of, rule } if of == name => Some(rule.clone()),
        _ => None,
    });
    let gated = state.pending().iter().filter(|pending| {
        let call = pending.operation.request.as_tool_call();
        call.is_some_and(|call| call.tool_name.as_str() == name) && pending.operation.gate != GateState::Open
    });
    let place = gated.take_while(|pending| pending.operation.id != operation.id).count();
    asked.nth(place).flatten()
}

/// What is asked at the gate of an operation.
pub(crate) fn waits_at(run: RunId, operation: &Operation, gate: &Gate) -> WaitingOperation {
    WaitingOperation {
        run,
        operation: operation.id,
        gate: gate.clone(),
        question: operation.question().unwrap_or_default(),
        tool: operation.request.as_tool_call().map(|call| call.tool_name.clone()),
        arguments: match &operation.request {
            Request::ToolCall(call) => Some(call.parameters.clone()),
            // Nobody can agree to what they do not see.
            request @ (Request::MemorySearch(_)
            | Request::MemoryCreate(_)
            | Request::MemoryTraverse(_)
            | Request::ApiCall(_)
            | Request::Email(_)
            | Request::Transfer(_)
            | Request::AgentCall(_)) => Some(compare::payload(request)),
            Request::ModelCompletion(_) | Request::Input(_) | Request::Timer(_) => None,
        },
        schema: match (&operation.request, gate) {
            (Request::Input(input), _) => input.schema.clone(),
            (_, Gate::Elicitation { requests, .. }) => Some(schema(requests)),
            _ => None,
        },
        rule: None,
    }
}

/// JSON Schema of an answer: that of a single question, or an object with an answer to each.
fn schema<'r>(requests: impl IntoIterator<Item = (&'r String, &'r Value)>) -> Value {
    let schema = |request: &Value| request["params"]["requestedSchema"].clone();
    let mut schemas: Map<String, Value> =
        requests.into_iter().map(|(name, request)| (name.clone(), schema(request))).collect();
    if schemas.len() == 1 {
        return schemas.values_mut().next().map(Value::take).unwrap_or_default();
    }
    let required: Vec<String> = schemas.keys().cloned().collect();
    json!({ "type": "object", "properties": schemas, "required": required, "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_known_by_its_operation_and_its_arguments() {
        let one = WaitingOperation {
            run: RunId::from_bytes([1; 16]),
            operation: OperationId::from_bytes([2; 16]),
            gate: Gate::Approval,
            question: "may it?".to_owned(),
            tool: None,
            arguments: Some(json!({"to": "alice", "n": 1})),
            schema: None,
            rule: None,
        };
        let shown = one.shown();
        assert!(shown.len() == 16 && shown.bytes().all(|digit| digit.is_ascii_hexdigit()), "{shown}");
        let others = [
            WaitingOperation { run: RunId::from_bytes([3; 16]), ..one.clone() },
            WaitingOperation { operation: OperationId::from_bytes([3; 16]), ..one.clone() },
            WaitingOperation { gate: Gate::Input, ..one.clone() },
            WaitingOperation { arguments: Some(json!({"to": "alice\u{200b}", "n": 1})), ..one.clone() },
            WaitingOperation { arguments: None, ..one.clone() },
        ];
        for other in &others {
            assert_ne!(other.shown(), shown, "{other:?}");
        }
        let both = WaitingOperation::all_shown([&one, &others[0]]);
        assert_eq!(both, WaitingOperation::all_shown([&others[0], &one]));
        assert_ne!(both, WaitingOperation::all_shown([&one]));
    }

    #[test]
    fn one_question_is_answered_as_it_is_and_several_by_name() {
        let ask = |kind: &str| json!({ "params": { "requestedSchema": { "type": kind } } });
        let one = [("a".to_owned(), ask("object"))];
        assert_eq!(schema(one.iter().map(|(name, ask)| (name, ask))), json!({ "type": "object" }));
        let two = [("a".to_owned(), ask("object")), ("b".to_owned(), ask("object"))];
        let schema = schema(two.iter().map(|(name, ask)| (name, ask)));
        assert_eq!(schema["required"], json!(["a", "b"]));
        assert_eq!(schema["properties"]["b"], json!({ "type": "object" }));
    }
}
