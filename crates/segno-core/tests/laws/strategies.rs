//! Configurations, replies, outcomes and answers, most of them sound and some of them hostile.

use proptest::prelude::*;
use proptest::sample::select;
use segno_core::*;
use segno_expr::{Expression, Template, ValueTemplate};
use serde_json::{Value, json};

use crate::world::{Course, World};

/// Tools that a configuration may allow, with who performs them.
const TOOLS: &[(&str, ToolKind)] = &[
    ("risk.score", ToolKind::External),
    ("mail.send", ToolKind::External),
    ("log_read", ToolKind::External),
    ("memory.search", ToolKind::MemorySearch),
    ("memory.create", ToolKind::MemoryCreate),
];

/// How many cases each law is tried on.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A configuration of either kind, with all that its run will meet.
pub(crate) fn world() -> impl Strategy<Value = World> {
    prop_oneof![world_of(plan().boxed()), world_of(model_mind().boxed())]
}

/// A model-driven configuration, with all that its run will meet.
pub(crate) fn model_world() -> impl Strategy<Value = World> {
    world_of(model_mind().boxed())
}

fn world_of(mind: BoxedStrategy<Mind>) -> impl Strategy<Value = World> {
    let signal = prop::option::weighted(
        0.15,
        (0..4_usize, 0..4_usize, select(vec![Signal::Cancel, Signal::Deadline])),
    );
    (config(mind), request(), prop::collection::vec(course(), 1..10), signal).prop_map(
        |(config, request, courses, signal)| World {
            run: RunId::from_bytes([7; 16]),
            config,
            request,
            courses,
            signal,
        },
    )
}

fn request() -> impl Strategy<Value = AgentRequest> {
    (text(), json_value()).prop_map(|(text, data)| AgentRequest { text, data, tenant: "acme".into() })
}

fn config(mind: BoxedStrategy<Mind>) -> impl Strategy<Value = AgentConfig> {
    let forbidden = prop::sample::subsequence(vec!["host.kill", "mail.send", "risk.score"], 0..=2);
    (mind, prop::collection::vec(prop::option::weighted(0.8, tool()), TOOLS.len()), forbidden, limits())
        .prop_map(|(mind, tools, forbidden, limits)| {
            let tools = TOOLS.iter().zip(tools).filter_map(|((name, kind), tool)| {
                Some((name.parse().expect("a tool name"), Tool { kind: *kind, ..tool? }))
            });
            let forbidden = forbidden.iter().map(|name| name.parse().expect("a tool name"));
            let tools = Toolbox { tools: tools.collect(), forbidden: forbidden.collect() };
            AgentConfig { tools, limits, ..AgentConfig::new("agent".parse().expect("a name"), mind) }
        })
}

fn limits() -> impl Strategy<Value = Limits> {
    (0..8_u64, 0..8_u64, select(vec![OnExceeded::Fail, OnExceeded::Answer])).prop_map(
        |(max_steps, max_tool_calls, on_exceeded)| Limits {
            max_steps,
            max_tool_calls,
            on_exceeded,
            ..Limits::default()
        },
    )
}

fn tool() -> impl Strategy<Value = Tool> {
    let classes = [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed, EffectClass::Unsafe];
    (select(classes.to_vec()), prop::bool::weighted(0.3), on_failure()).prop_map(
        |(class, approve, on_failure)| Tool {
            class,
            approve,
            on_failure,
            ..Tool::new("does something".into(), json!({"type": "object"}))
        },
    )
}

fn on_failure() -> impl Strategy<Value = Option<OnFailure>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(OnFailure::Fail)),
        3 => Just(Some(OnFailure::Report)),
        1 => json_value().prop_map(|value| Some(OnFailure::Default(value))),
    ]
}

fn template() -> impl Strategy<Value = Template> {
    let sources = [
        "plain",
        "{{request.text}}",
        "of {{tenant.name}}: {{request.data}}",
        "{{steps.a}}",
        "{{steps.a.value}} {{steps.b[0].text}}",
        "{{steps.never}}{{memory.hits.length}}",
        "{{memory.hits}}",
        "",
    ];
    let sound = select(sources.to_vec());
    // Comparing two arrays is an error of the language.
    prop_oneof![12 => sound, 1 => Just("{{[1] === [1]}}")]
        .prop_map(|source| Template::parse(source).expect("a template"))
}

fn condition() -> impl Strategy<Value = Expression> {
    let sources = [
        "true",
        "1 < 2",
        "steps.a === null",
        "steps.a.value > 0.5",
        "!steps.b.error",
        "request.data.a",
        "false",
    ];
    prop_oneof![12 => select(sources.to_vec()), 1 => Just("[1] === [1]")]
        .prop_map(|source| Expression::parse(source).expect("an expression"))
}

fn arguments() -> impl Strategy<Value = ValueTemplate> {
    let sources = [
        json!({}),
        json!({"z": 1, "a": "{{request.text}}"}),
        json!({"value": "{{steps.a}}", "list": ["{{steps.b}}", {"deep": "{{steps.c}}"}]}),
        json!("{{steps.a}}"),
        json!({"bad": "{{[1] === [1]}}"}),
    ];
    prop_oneof![12 => select(sources[..4].to_vec()), 1 => Just(sources[4].clone())]
        .prop_map(|source| ValueTemplate::parse(&source).expect("a template"))
}

fn plan() -> impl Strategy<Value = Mind> {
    let step = (prop::option::weighted(0.3, condition()), step_action())
        .prop_map(|(when, action)| PlanStep { when, action });
    prop::collection::vec(step, 0..7).prop_map(|steps| Mind::Plan(Plan { steps }))
}

fn step_action() -> impl Strategy<Value = StepAction> {
    let branch = (prop::option::weighted(0.3, condition()), plan_operation())
        .prop_map(|(when, operation)| Branch { when, operation });
    prop_oneof![
        4 => plan_operation().prop_map(StepAction::Operation),
        3 => prop::collection::vec(branch, 0..4).prop_map(StepAction::Parallel),
        2 => template().prop_map(StepAction::Respond),
    ]
}

fn plan_operation() -> impl Strategy<Value = PlanOperation> {
    let names = ["risk.score", "log_read", "mail.send", "memory.search", "host.kill", "never.heard"];
    let weights = prop_oneof![16 => select(names[..3].to_vec()), 1 => select(names[3..].to_vec())];
    let approve = prop_oneof![
        4 => Just(Approve::AsConfigured),
        2 => Just(Approve::Always),
        1 => condition().prop_map(Approve::When),
    ];
    let call = prop_oneof![
        1 => (template(), 0..4_u32).prop_map(|(query, limit)| PlanCall::MemorySearch { query, limit, min_score: 0.25 }),
        1 => (template(), template()).prop_map(|(entity, content)| PlanCall::MemoryCreate {
            entity,
            entity_type: "incident".into(),
            content,
        }),
        4 => (weights, arguments(), approve).prop_map(|(tool, with, approve)| PlanCall::Tool {
            tool: tool.parse().expect("a tool name"),
            with,
            approve,
        }),
    ];
    let id = prop::option::weighted(0.9, select(vec!["a", "b", "c", "d"]));
    (id, call, on_failure()).prop_map(|(id, call, on_failure)| PlanOperation {
        id: id.map(|id| id.parse().expect("a step id")),
        call,
        on_failure,
    })
}

fn model_mind() -> impl Strategy<Value = Mind> {
    let recall = (template(), 0..4_u32).prop_map(|(query, limit)| Recall { query, limit, min_score: 0.0 });
    (prop::option::of(template()), template(), prop::option::weighted(0.4, recall)).prop_map(
        |(instructions, prompt, recall)| {
            Mind::Model(ModelMind { model: ModelSettings::named("local"), instructions, prompt, recall })
        },
    )
}

/// What one operation meets on its way.
fn course() -> impl Strategy<Value = Course> {
    let doubts = prop::collection::vec(
        prop_oneof![
            prop::option::of(json_value()).prop_map(|result| Answer::Done { result, by: None }),
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
    (prop::bool::weighted(0.1), approval(), doubts, reply, found, created, returned).prop_map(
        |(invalid, approval, doubts, reply, found, created, returned)| Course {
            invalid,
            approval,
            doubts,
            reply,
            found,
            created,
            returned,
        },
    )
}

fn approval() -> impl Strategy<Value = Answer> {
    let edited = prop_oneof![3 => Just(None), 2 => verdict().prop_map(Some)];
    prop_oneof![
        3 => edited.prop_map(|edited| Answer::Approved { edited, reason: None, by: Some("ada".into()) }),
        1 => prop::option::of(text()).prop_map(|reason| Answer::Denied { reason, by: None }),
    ]
}

/// One reply of a model: text, several calls, parts that only the provider understands, every reason to stop.
pub(crate) fn reply() -> impl Strategy<Value = ModelReply> {
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
    (prop::collection::vec(part, 0..5), stop, tokens.clone(), tokens).prop_map(
        |(parts, stop, input_tokens, output_tokens)| ModelReply { parts, stop, input_tokens, output_tokens },
    )
}

fn call() -> impl Strategy<Value = CallRequest> {
    let names = [
        "risk.score",
        "risk__score",
        "log_read",
        "log_read",
        "memory__search",
        "memory__create",
        "mail__send",
        "host__kill",
        "host.kill",
        "never_heard",
        "",
        "😀",
    ];
    (select(names.to_vec()), verdict(), 0..100_u32).prop_map(|(name, verdict, number)| CallRequest {
        call_id: format!("call_{number}"),
        name: name.into(),
        arguments: "{}".into(),
        verdict,
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let sound = select(vec![
        json!({"query": "disk", "entity": "disk", "content": "is full", "limit": 2}),
        json!({"query": "disk", "entity": "disk", "content": "is full", "type": "incident", "limit": -1}),
        json!({"value": 1, "name": "x"}),
        json!({}),
    ]);
    let violation = Violation { path: "/value".into(), message: "expected a number".into() };
    prop_oneof![
        8 => sound.prop_map(|arguments| Verdict::Valid { arguments }),
        1 => json_value().prop_map(|arguments| Verdict::Valid { arguments }),
        1 => Just(Verdict::Invalid { violations: vec![violation] }),
        1 => text().prop_map(|message| Verdict::Malformed { message }),
        1 => Just(Verdict::Truncated),
    ]
}

fn tool_return() -> impl Strategy<Value = ToolReturn> {
    (prop::option::of(json_value()), text(), prop::bool::weighted(0.2))
        .prop_map(|(structured, text, is_error)| ToolReturn { structured, text, is_error })
}

fn hit() -> impl Strategy<Value = MemoryHit> {
    let score = prop_oneof![8 => 0.0..1.0_f64, 1 => any::<f64>()];
    (text(), score, json_value()).prop_map(|(text, score, metadata)| MemoryHit {
        entity: "disk".into(),
        entity_type: "incident".into(),
        text,
        score,
        metadata,
    })
}

fn failure() -> impl Strategy<Value = Failure> {
    let codes = [
        FailureCode::Timeout,
        FailureCode::Unavailable,
        FailureCode::Protocol,
        FailureCode::ToolFailed,
        FailureCode::InvalidArguments,
        FailureCode::Denied,
        FailureCode::Indeterminate,
        FailureCode::LimitExceeded,
        FailureCode::Internal,
    ];
    (select(codes.to_vec()), text()).prop_map(|(code, message)| Failure::new(code, message))
}

/// An outcome of any kind.
pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        reply().prop_map(Outcome::ModelReplied),
        prop::collection::vec(hit(), 0..3).prop_map(Outcome::MemoryFound),
        tool_return().prop_map(Outcome::ToolReturned),
        failure().prop_map(Outcome::Failed),
    ]
}

/// News that no sound shell would bring: any kind, for one of the pending operations by its place or for nobody.
pub(crate) fn stray() -> impl Strategy<Value = (Option<usize>, News)> {
    let nobody = OperationId::from_bytes([0xee; 16]);
    let gate = prop_oneof![Just(Gate::Approval), text().prop_map(|reason| Gate::InDoubt { reason })];
    let answer = prop_oneof![
        2 => approval(),
        1 => prop::option::of(json_value()).prop_map(|result| Answer::Done { result, by: None }),
        1 => Just(Answer::NotDone { by: None }),
    ];
    let news = prop_oneof![
        4 => outcome().prop_map(move |outcome| News::Outcome { operation: nobody, outcome }),
        2 => gate.prop_map(move |gate| News::Gated { operation: nobody, gate }),
        2 => answer.prop_map(move |answer| News::Answered { operation: nobody, answer }),
    ];
    (prop::option::weighted(0.9, 0..3_usize), news)
}

/// Text: mostly short, now and then long, JSON, or deeply nested JSON.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z é😀{}\"\\\\]{0,12}",
        1 => Just("x".repeat(100_000)),
        1 => Just(r#"{"value": 0.75, "b": [1, null], "a": {}}"#.to_owned()),
        1 => (1..127_usize).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ]
}

/// A JSON value: mostly small, now and then as deep as a decoder lets through.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z😀 ]{0,6}".prop_map(Value::from),
    ];
    let small = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            // Keys come in an order of their own, which must not matter where maps keep it.
            prop::collection::vec(("[a-d]", inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    let deep =
        (1..120_usize).prop_map(|depth| (0..depth).fold(Value::Null, |inner, _| json!({ "value": inner })));
    prop_oneof![12 => small, 1 => deep]
}
