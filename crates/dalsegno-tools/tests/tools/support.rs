//! A world in which calls run, with scripted outcomes.

use dalsegno_tools::{
    ApiCall, ApiResponse, Call, CallInfo, Compiled, Context, Effect, EffectFailure, EffectOutcome,
    EffectRequest, ErrorCode, Finished, Next, SessionContext, Tool, Toolkit, compile,
};
use serde_json::{Value, json};

/// What a call reads.
pub(crate) struct World {
    pub(crate) user: Value,
    pub(crate) tenant: Value,
    pub(crate) config: Value,
    pub(crate) session: SessionContext,
    pub(crate) agent: String,
    pub(crate) call: CallInfo,
    pub(crate) zone: Option<String>,
    pub(crate) first_rules: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            user: json!({"id": "u1", "name": "Ada"}),
            tenant: json!({"settings": {
                "base_url": "https://api.tenant.example/v1/",
                "endpoints": {
                    "meal_log": "https://meals.example/log",
                    "meal_api": "https://meals.example/api",
                    "subscribe": {"path": "/subscribe", "method": "put"},
                    "meal.log": "https://dotted.example/log"
                }
            }}),
            config: json!({}),
            session: SessionContext::default(),
            agent: "meal".into(),
            call: CallInfo {
                id: "call_1".into(),
                session: "s1".into(),
                operation: "0af3".into(),
                turn: Some(0),
            },
            zone: None,
            first_rules: false,
        }
    }
}

impl World {
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            user: &self.user,
            tenant: &self.tenant,
            config: &self.config,
            session: &self.session,
            agent: &self.agent,
            call: &self.call,
            now_ms: 1_767_103_200_000,
            zone: self.zone.as_deref(),
            first_rules: self.first_rules,
        }
    }

    /// Runs a call to its end. At every effect the call is stored and read back, and the copy goes on.
    pub(crate) fn run(
        &self,
        tool: &Tool,
        arguments: &Value,
        outcomes: impl IntoIterator<Item = EffectOutcome>,
    ) -> (Finished, Vec<Effect>) {
        let mut outcomes = outcomes.into_iter();
        let mut effects = Vec::new();
        let mut call = Call::begin(tool, arguments, &self.context());
        loop {
            match call.advance(tool, &self.context()) {
                Next::Done(finished) => {
                    assert!(outcomes.next().is_none(), "an outcome was left over: {finished:#?}");
                    assert_eq!(packed(&*finished), *finished, "so is the end");
                    return (*finished, effects);
                }
                Next::Effect(effect) => {
                    let stored = serde_json::to_string(&call).unwrap();
                    let restored: Call = serde_json::from_str(&stored).unwrap();
                    assert_eq!(restored, call, "a call is read back as it was stored");
                    assert_eq!(packed(&call), call, "a call is read back as a journal holds it");
                    assert_eq!(packed(&*effect), *effect, "so is an effect");
                    call = restored;
                    let outcome = outcomes.next().unwrap_or_else(|| panic!("no outcome for {effect:#?}"));
                    effects.push(*effect);
                    call.resume(outcome).unwrap();
                }
            }
        }
    }

    /// Runs the first tool of a document, and applies its writes to the session.
    pub(crate) fn play(
        &mut self,
        document: &Value,
        arguments: &Value,
        outcomes: impl IntoIterator<Item = EffectOutcome>,
    ) -> (Finished, Vec<Effect>) {
        let toolkit = toolkit(document);
        let ran = self.run(&toolkit.tools()[0], arguments, outcomes);
        self.session.apply(&self.user, &ran.0.writes).unwrap();
        ran
    }

    /// As [`play`](Self::play), for a tool of these actions.
    pub(crate) fn act(
        &mut self,
        actions: Value,
        outcomes: impl IntoIterator<Item = EffectOutcome>,
    ) -> Finished {
        self.play(&tool_of(actions), &json!({}), outcomes).0
    }
}

/// Compiles a document that must have no problem.
pub(crate) fn toolkit(document: &Value) -> Toolkit {
    let Compiled { toolkit, problems, .. } = compile(document);
    toolkit.unwrap_or_else(|| panic!("{problems:#?}"))
}

/// A tool without parameters.
#[expect(clippy::needless_pass_by_value, reason = "what is passed is written at the call")]
pub(crate) fn tool_of(actions: Value) -> Value {
    json!({"name": "probe", "description": "Tries something", "actions": actions})
}

/// The problems of a document, one a line.
pub(crate) fn problems(document: &Value) -> String {
    let compiled = compile(document);
    assert_eq!(compiled.toolkit.is_none(), !compiled.problems.is_empty());
    let lines: Vec<String> = compiled.problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The warnings of a document without problems, one a line.
pub(crate) fn warnings(document: &Value) -> String {
    let compiled = compile(document);
    assert!(compiled.problems.is_empty(), "{:#?}", compiled.problems);
    let lines: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

pub(crate) fn answer(status: u16, body: Value) -> EffectOutcome {
    EffectOutcome::Response(ApiResponse { status, body, attempts: 1, ..ApiResponse::default() })
}

pub(crate) fn failure(code: ErrorCode) -> EffectOutcome {
    EffectOutcome::Failed(EffectFailure {
        code,
        message: "it did not work".into(),
        reason: None,
        attempts: 1,
        ends: false,
        details: serde_json::Map::new(),
    })
}

pub(crate) fn api_call(effect: &Effect) -> &ApiCall {
    match &effect.request {
        EffectRequest::ApiCall(call) => call,
        other => panic!("{other:?}"),
    }
}

/// The code of the error that a call ended with.
pub(crate) fn code(finished: &Finished) -> ErrorCode {
    finished.outcome.error.as_ref().unwrap_or_else(|| panic!("it succeeded: {finished:#?}")).code
}

/// The status of each action, in order.
pub(crate) fn statuses(finished: &Finished) -> Vec<String> {
    finished
        .outcome
        .actions
        .iter()
        .map(|trace| {
            let status = serde_json::to_value(trace.status).unwrap();
            format!("{} {}", trace.place.action, status.as_str().unwrap())
        })
        .collect()
}

/// Prints a value with sorted keys, whatever order its maps keep.
pub(crate) fn printed(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Object(fields) => {
                let mut fields: Vec<_> =
                    fields.iter().map(|(name, field)| (name.clone(), sorted(field))).collect();
                fields.sort_by(|(left, _), (right, _)| left.cmp(right));
                Value::Object(fields.into_iter().collect())
            }
            other => other.clone(),
        }
    }
    serde_json::to_string_pretty(&sorted(value)).unwrap()
}

/// Stores a value in the form of the journal and reads it back.
fn packed<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(value).unwrap()).unwrap()
}
