//! Replies, outcomes and answers, most of them sound and some of them hostile.

use dalsegno_core::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::values::{json_value, text};
use crate::world::Course;

/// What one operation meets on its way.
pub(crate) fn course() -> BoxedStrategy<Course> {
    let doubts = prop::collection::vec(
        prop_oneof![
            prop::option::of(json_value()).prop_map(|result| Answer::Done { result, error: None, by: None }),
            Just(Answer::NotDone { by: Some("ada".into()) }),
        ],
        0..2,
    );
    let reply =
        prop_oneof![8 => reply().prop_map(Outcome::ModelReplied), 1 => failure().prop_map(Outcome::Failed)];
    let found = prop_oneof![
        8 => prop::collection::vec(hit(), 0..3).prop_map(Outcome::MemoryFound),
        1 => failure().prop_map(Outcome::Failed),
    ];
    let created = prop_oneof![
        4 => any::<bool>().prop_map(|duplicate| Outcome::MemoryCreated(MemoryCreated {
            entity: "disk".into(),
            observation: "7".into(),
            duplicate,
        })),
        1 => failure().prop_map(Outcome::Failed),
    ];
    let returned = prop_oneof![4 => tool_return().prop_map(Outcome::ToolReturned), 1 => failure().prop_map(Outcome::Failed)];
    let status = select(vec![200_u16, 201, 404, 409, 500, 503]);
    let answered = (status, json_value()).prop_map(|(status, body)| {
        let answer = dalsegno_tools::ApiResponse { status, body, attempts: 1, ..Default::default() };
        Outcome::ApiAnswered(answer)
    });
    let answered = prop_oneof![3 => answered, 1 => failure().prop_map(Outcome::Failed)];
    let mailed = prop_oneof![3 => Just(Outcome::EmailSent(EmailReceipt::default())), 1 => failure().prop_map(Outcome::Failed)];
    let traversed = prop_oneof![4 => traversal().prop_map(Outcome::MemoryTraversed), 1 => failure().prop_map(Outcome::Failed)];
    let agent = prop_oneof![8 => agent_return().prop_map(Outcome::AgentReturned), 1 => failure().prop_map(Outcome::Failed)];
    let timer = prop_oneof![8 => Just(Outcome::TimerFired), 1 => failure().prop_map(Outcome::Failed)];
    let given = prop_oneof![
        4 => json_value().prop_map(|value| Answer::Given { value, by: None }),
        1 => prop::option::of(text()).prop_map(|reason| Answer::Denied { reason, by: None }),
    ];
    let missing = prop::bool::weighted(0.1);
    let at_gates = (prop::bool::weighted(0.1), approval(), missing, doubts, given);
    let outcomes = (reply, found, created, traversed, returned, (answered, mailed), agent, timer);
    (at_gates, outcomes)
        .prop_map(
            |(
                (invalid, approval, missing, doubts, given),
                (reply, found, created, traversed, returned, (answered, mailed), agent, timer),
            )| {
                Course {
                    invalid,
                    approval,
                    missing,
                    doubts,
                    reply,
                    found,
                    created,
                    traversed,
                    returned,
                    answered,
                    mailed,
                    agent,
                    given,
                    timer,
                }
            },
        )
        .boxed()
}

fn traversal() -> BoxedStrategy<MemoryTraversal> {
    let strength = prop_oneof![8 => 0.0..1.0_f64, 1 => any::<f64>()];
    (text(), strength, any::<bool>())
        .prop_map(|(text, strength, truncated)| MemoryTraversal {
            entities: vec![TraversedEntity {
                entity: "disk".into(),
                entity_type: "incident".into(),
                depth: 0,
                observations: vec![text],
            }],
            relations: vec![TraversedRelation {
                from: "disk".into(),
                relation: "part_of".into(),
                to: "host".into(),
                strength,
            }],
            truncated,
        })
        .boxed()
}

/// How a child run ended; now and then it used more than anybody may.
fn agent_return() -> BoxedStrategy<AgentReturn> {
    let status = prop_oneof![
        6 => Just(Status::Completed),
        1 => Just(Status::Failed),
        1 => Just(Status::Cancelled),
        1 => Just(Status::HandedOff),
    ];
    let used = prop_oneof![8 => 0..100_u64, 1 => Just(u64::MAX)];
    let writes = prop::collection::vec(write(), 0..3);
    (status, prop::option::of(text()), prop::option::of(json_value()), 0..3_u64, used, writes)
        .prop_map(|(status, answer, output, tool_calls, tokens, writes)| AgentReturn {
            run: RunId::from_bytes([9; 16]),
            status,
            answer,
            output,
            error: (status == Status::Failed).then(|| RunError {
                code: RunErrorCode::LimitExceeded,
                message: "`limits.max_steps` (4) is reached".into(),
                help: "raise the limit".into(),
            }),
            usage: Usage { tool_calls, input_tokens: tokens, output_tokens: tokens, ..Usage::default() },
            writes,
        })
        .boxed()
}

/// What a child run wrote into the session; now and then it does not go together with what another one wrote.
fn write() -> BoxedStrategy<Write> {
    let paths = vec!["workflow.a", "workflow.a.b", "workflow.list", "agents.scout.n", "user.mood"];
    (select(paths), json_value(), 0..4)
        .prop_map(|(path, value, kind)| {
            let path = path.parse().expect("a path");
            match kind {
                0 => Write::Set { path, value },
                1 => Write::Append { path, value },
                2 => Write::Delete { path },
                _ => Write::Flag { flag: "done".into(), value: value.is_null() },
            }
        })
        .boxed()
}

fn approval() -> BoxedStrategy<Answer> {
    let edited = prop_oneof![3 => Just(None), 2 => validation().prop_map(Some)];
    prop_oneof![
        3 => edited.prop_map(|edited| Answer::Approved { edited, reason: None, by: Some("ada".into()) }),
        1 => prop::option::of(text()).prop_map(|reason| Answer::Denied { reason, by: None }),
    ]
    .boxed()
}

/// One reply of a model: text, several calls, parts that only the provider understands, every reason to stop.
pub(crate) fn reply() -> BoxedStrategy<ModelReply> {
    let part = prop_oneof![
        3 => text().prop_map(ReplyPart::Text),
        5 => call().prop_map(ReplyPart::Call),
        1 => json_value().prop_map(|data| ReplyPart::Opaque { provider: "anthropic".into(), data }),
    ];
    let stop = prop_oneof![
        4 => Just(StopReason::End),
        6 => Just(StopReason::ToolCalls),
        1 => Just(StopReason::Length),
        1 => Just(StopReason::Refusal),
    ];
    let tokens = prop_oneof![8 => 0..1000_u64, 1 => Just(u64::MAX)];
    let output = prop::option::of(validation());
    let lost = prop_oneof![8 => Just(0), 1 => 1..3_u32];
    let details = (tokens.clone(), tokens.clone(), tokens.clone(), tokens.clone()).prop_map(
        |(cached, written, for_an_hour, reasoning)| TokenDetails {
            cached_input_tokens: cached,
            cache_write_tokens: written,
            cache_write_1h_tokens: for_an_hour,
            reasoning_tokens: reasoning,
            web_searches: reasoning % 4,
        },
    );
    let details = prop_oneof![1 => Just(TokenDetails::default()), 1 => details];
    let counts = (tokens.clone(), tokens, details, prop::bool::weighted(0.2));
    (prop::collection::vec(part, 0..5), stop, counts, output, lost)
        .prop_map(|(parts, stop, counts, output, lost_attempts)| {
            let (input_tokens, output_tokens, details, estimated) = counts;
            let without_files = lost_attempts == 2;
            ModelReply {
                parts,
                stop,
                input_tokens,
                output_tokens,
                details,
                estimated,
                output,
                lost_attempts,
                without_files,
            }
        })
        .boxed()
}

fn call() -> BoxedStrategy<CallRequest> {
    let names = [
        "risk.score",
        "risk__score",
        "log_read",
        "log_read",
        "memory__search",
        "memory__create",
        "memory__traverse",
        "agents__scout",
        "agents.clerk",
        "handoff__clerk",
        "mail__send",
        "host__kill",
        "host.kill",
        "score",
        "send",
        "kill",
        "never_heard",
        "",
        "😀",
    ];
    (select(names.to_vec()), validation(), 0..100_u32)
        .prop_map(|(name, validation, number)| CallRequest {
            call_id: format!("call_{number}"),
            name: name.into(),
            arguments: "{}".into(),
            validation: Some(validation),
        })
        .boxed()
}

fn validation() -> BoxedStrategy<Validation> {
    let sound = select(vec![
        json!({"query": "disk", "entity": "disk", "content": "is full", "limit": 2}),
        json!({"query": "disk", "entity": "disk", "content": "is full", "type": "incident", "limit": -1}),
        json!({"from": "disk", "text": "look", "depth": 3, "limit": 9}),
        json!({"value": 1, "name": "x", "text": "go", "data": [1], "message": "over to you"}),
        json!({}),
    ]);
    let violation = Violation { path: "/value".into(), message: "expected a number".into() };
    prop_oneof![
        8 => sound.prop_map(|arguments| Validation::Valid { arguments }),
        1 => json_value().prop_map(|arguments| Validation::Valid { arguments }),
        1 => Just(Validation::Invalid { violations: vec![violation] }),
        1 => text().prop_map(|message| Validation::Malformed { message }),
        1 => Just(Validation::Truncated),
    ]
    .boxed()
}

fn tool_return() -> BoxedStrategy<ToolReturn> {
    (prop::option::of(json_value()), text(), prop::bool::weighted(0.2))
        .prop_map(|(structured, text, is_error)| ToolReturn {
            structured,
            is_error,
            files: files(&text),
            text,
            ..ToolReturn::default()
        })
        .boxed()
}

/// Files by the text beside them: often none, now and then such as no shell records.
fn files(text: &str) -> Vec<Attachment> {
    let file = |number: usize| Attachment {
        name: format!("{number}.png"),
        media_type: if text.len() == 9 { "text/plain" } else { "image/png" }.into(),
        digest: digest_json(&json!([text, number])),
        bytes: 70,
    };
    let count = match text.len() {
        _ if text.starts_with("[[") => 40,
        0..4 | 100_000 => 0,
        length => length % 3,
    };
    (0..count).map(file).collect()
}

fn hit() -> BoxedStrategy<MemoryHit> {
    let score = prop_oneof![8 => 0.0..1.0_f64, 1 => any::<f64>()];
    (text(), score, json_value())
        .prop_map(|(text, score, metadata)| MemoryHit {
            entity: "disk".into(),
            entity_type: "incident".into(),
            text,
            score,
            metadata,
        })
        .boxed()
}

fn failure() -> BoxedStrategy<Failure> {
    let codes = [
        FailureCode::Timeout,
        FailureCode::Unavailable,
        FailureCode::Protocol,
        FailureCode::ToolFailed,
        FailureCode::InvalidArguments,
        FailureCode::Denied,
        FailureCode::Indeterminate,
        FailureCode::ResultUnreadable,
        FailureCode::CrashLoop,
        FailureCode::LimitExceeded,
        FailureCode::Internal,
    ];
    (select(codes.to_vec()), text()).prop_map(|(code, message)| Failure::new(code, message)).boxed()
}

/// An outcome of any kind.
pub(crate) fn outcome() -> BoxedStrategy<Outcome> {
    prop_oneof![
        reply().prop_map(Outcome::ModelReplied),
        prop::collection::vec(hit(), 0..3).prop_map(Outcome::MemoryFound),
        tool_return().prop_map(Outcome::ToolReturned),
        traversal().prop_map(Outcome::MemoryTraversed),
        agent_return().prop_map(Outcome::AgentReturned),
        json_value().prop_map(Outcome::InputGiven),
        Just(Outcome::TimerFired),
        failure().prop_map(Outcome::Failed),
    ]
    .boxed()
}

/// News that no sound shell would bring: any kind, for one of the pending operations by its place or for nobody.
pub(crate) fn stray() -> BoxedStrategy<(Option<usize>, News)> {
    let nobody = OperationId::from_bytes([0xee; 16]);
    let gate = prop_oneof![
        Just(Gate::Approval),
        Just(Gate::Input),
        text().prop_map(|reason| Gate::InDoubt { reason }),
        text().prop_map(|name| Gate::Secret { name }),
        (text(), json_value()).prop_map(|(name, request)| Gate::Elicitation {
            requests: [(name, request)].into(),
            request_state: None,
        }),
    ];
    let answer = prop_oneof![
        2 => approval(),
        1 => prop::option::of(json_value()).prop_map(|result| Answer::Done { result, error: None, by: None }),
        1 => json_value().prop_map(|value| Answer::Given { value, by: None }),
        1 => json_value().prop_map(|value| Answer::Supplied { value, by: None }),
        1 => Just(Answer::NotDone { by: None }),
    ];
    let news = prop_oneof![
        4 => outcome().prop_map(move |outcome| News::Outcome { operation: nobody, outcome }),
        2 => gate.prop_map(move |gate| News::Gated { operation: nobody, gate }),
        2 => answer.prop_map(move |answer| News::Answered { operation: nobody, answer }),
    ];
    (prop::option::weighted(0.9, 0..3_usize), news).boxed()
}
