//! Configurations, replies, outcomes and answers, most of them sound and some of them hostile.

use dalsegno_core::*;
use dalsegno_expr::{Expression, Template, ValueTemplate};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::values::{json_value, text};
use crate::world::{Course, World};

/// Tools that a configuration may allow, with who performs them.
fn tools() -> Vec<(&'static str, ToolKind)> {
    let named = |name: &str| name.parse().expect("an agent name");
    vec![
        ("risk.score", ToolKind::External),
        ("mail.send", ToolKind::External),
        ("log_read", ToolKind::External),
        ("memory.search", ToolKind::MemorySearch),
        ("memory.create", ToolKind::MemoryCreate),
        ("memory.traverse", ToolKind::MemoryTraverse),
        ("agents.scout", ToolKind::Agent { agent: named("scout") }),
        ("agents.clerk", ToolKind::Agent { agent: named("clerk") }),
        ("handoff.clerk", ToolKind::Handoff { agent: named("clerk") }),
    ]
}

/// How many cases each law is tried on.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A configuration of either kind, with all that its run will meet.
pub(crate) fn world() -> impl Strategy<Value = World> {
    prop_oneof![world_of(plan().boxed()), world_of(model_mind().boxed())]
}

/// A plan-driven configuration that calls documents, several at once, with all that its run will meet.
pub(crate) fn document_world() -> impl Strategy<Value = World> {
    let branch = (select(vec!["relay", "deliver", "ask_all", "agents.scout", "agents.clerk"]), on_failure());
    let branch = branch.prop_map(|(tool, on_failure)| {
        let tool = tool.parse().expect("a tool name");
        let with = ValueTemplate::parse(&json!({})).expect("a template");
        let call = PlanCall::Tool { tool, with, approve: Approve::AsConfigured };
        Branch { when: None, operation: PlanOperation { id: None, call, on_failure } }
    });
    let parallel = prop::collection::vec(branch, 1..5).prop_map(StepAction::Parallel);
    let step = prop_oneof![4 => parallel, 1 => step_action()];
    let step = step.prop_map(|action| PlanStep { when: None, action });
    let plan = prop::collection::vec(step, 1..4).prop_map(|steps| Mind::Plan(Plan { steps }));
    let approve = prop::collection::vec(prop::bool::weighted(0.2), 3);
    let limits = (2..16_u64, tokens_limit(), cost_limit());
    (world_of(plan.boxed()), approve, limits).prop_map(|(mut world, approve, (calls, tokens, cost))| {
        let limits = &mut world.config.limits;
        (limits.max_tool_calls, limits.max_tokens, limits.max_cost_nano_usd) = (calls, tokens, cost);
        for (document, approve) in documents().iter().zip(approve) {
            let toolkit = dalsegno_tools::compile(document).toolkit.expect("a sound document");
            let name = toolkit.name().to_owned();
            let kind = ToolKind::Declarative { toolkit: name.clone(), tool: name.clone() };
            let schema = json!({"type": "object"});
            let tool =
                Tool { kind, class: EffectClass::Composite, approve, ..Tool::new("declared".into(), schema) };
            world.config.tools.tools.insert(name.parse().expect("a tool name"), tool);
            world.config.toolkits.insert(name, ToolDocument::new(toolkit, serde_json::Map::new()));
        }
        world
    })
}

/// Documents that call an endpoint, tools of servers, agents, and each other.
fn documents() -> [Value; 3] {
    // An agent is asked in words; the other tools do without.
    let call = |name: &str| json!({"type": "tool", "name": name, "arguments": {"text": "go"}, "on_error": "continue"});
    let post = json!({"type": "api_call", "url": "https://api.example.com/x", "effect": "keyed"});
    let mail = json!({"type": "email.send", "host": "mail.example", "from": "a@b.co", "to": "c@d.co", "subject": "s",
                      "body": "b", "on_error": "continue"});
    [
        json!({"name": "relay", "description": "r", "actions": [
            call("agents.scout"), call("risk.score"), call("agents.clerk"), call("host.kill")
        ]}),
        json!({"name": "deliver", "description": "d", "actions": [
            mail, post, {"type": "context.set", "path": "workflow.done", "value": "result.last"}
        ]}),
        json!({"name": "ask_all", "description": "a", "actions": [
            call("relay"), call("agents.clerk"), call("mail.send"), call("deliver")
        ]}),
    ]
}

/// A plan-driven configuration, with all that its run will meet.
pub(crate) fn plan_world() -> impl Strategy<Value = World> {
    world_of(plan().boxed())
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
    let budget = prop::option::weighted(0.2, budget());
    let courses = prop::collection::vec(course(), 1..10);
    (config(mind), request(), courses, signal, budget, prop::bool::weighted(0.15)).prop_map(
        |(config, request, courses, signal, budget, asks_effects)| World {
            run: RunId::from_bytes([7; 16]),
            config,
            request,
            courses,
            budget,
            asks_effects,
            signal,
        },
    )
}

fn request() -> impl Strategy<Value = AgentRequest> {
    let attachment = Attachment {
        name: "disk.png".into(),
        media_type: "image/png".into(),
        digest: digest_json(&json!("disk")),
        bytes: 4_000,
    };
    let attachments = prop_oneof![3 => Just(Vec::new()), 1 => Just(vec![attachment])];
    (text(), json_value(), attachments).prop_map(|(text, data, attachments)| AgentRequest {
        text,
        data,
        tenant: "acme".into(),
        attachments,
        ..AgentRequest::text("")
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    (0..12_u64, tokens_limit(), cost_limit()).prop_map(|(max_tool_calls, max_tokens, max_cost_nano_usd)| {
        Budget { max_tool_calls, max_tokens, max_cost_nano_usd }
    })
}

fn tokens_limit() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.3, select(vec![0, 300, 5_000, 1_000_000]))
}

fn cost_limit() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.2, select(vec![0, 1_000_000, u64::MAX]))
}

fn config(mind: BoxedStrategy<Mind>) -> impl Strategy<Value = AgentConfig> {
    let forbidden = prop::sample::subsequence(vec!["host.kill", "mail.send", "risk.score"], 0..=2);
    let agents = prop::collection::vec(prop::option::weighted(0.9, budget()), 2);
    let pinned = vec![("risk.score", "score"), ("mail.send", "send"), ("host.kill", "kill")];
    let names = prop::sample::subsequence(pinned, 0..=3);
    let tools = prop::collection::vec(prop::option::weighted(0.8, tool()), tools().len());
    (mind, tools, forbidden, names, limits(), agents).prop_map(
        |(mind, tools, forbidden, names, limits, agents)| {
            let tools = self::tools().into_iter().zip(tools).filter_map(|((name, kind), tool)| {
                Some((name.parse().expect("a tool name"), Tool { kind, ..tool? }))
            });
            let forbidden = forbidden.iter().map(|name| name.parse().expect("a tool name"));
            let names = names.into_iter().map(|(tool, name)| {
                (tool.parse().expect("a tool name"), name.parse().expect("a name for models"))
            });
            let names = names.collect();
            let tools = Toolbox { tools: tools.collect(), forbidden: forbidden.collect(), names };
            let agents = ["scout", "clerk"].iter().zip(agents).filter_map(|(name, budget)| {
                Some((name.parse().expect("an agent name"), Callee { budget: budget? }))
            });
            let agents = agents.collect();
            AgentConfig { tools, limits, agents, ..AgentConfig::new("agent".parse().expect("a name"), mind) }
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let state_bytes = prop_oneof![8 => Just(Limits::default().max_state_bytes), 1 => 0..3_000_u64];
    let exceeded = select(vec![OnExceeded::Fail, OnExceeded::Answer]);
    let limits = (0..8_u64, 0..8_u64, exceeded, tokens_limit(), cost_limit(), state_bytes, 0..4_u32);
    limits.prop_map(
        |(
            max_steps,
            max_tool_calls,
            on_exceeded,
            max_tokens,
            max_cost_nano_usd,
            max_state_bytes,
            repeat_limit,
        )| {
            Limits {
                max_steps,
                max_tool_calls,
                on_exceeded,
                max_tokens,
                max_cost_nano_usd,
                max_state_bytes,
                repeat_limit,
                ..Limits::default()
            }
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
        4 => prop_oneof![6 => Just("log_read"), 4 => select(tools()).prop_map(|(name, _)| name), 1 => Just("host.kill")]
            .prop_map(|tool| Some(OnFailure::Fallback(tool.parse().expect("a tool name")))),
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
        "{{vars.a}} {{vars}}",
        "{{index}}: {{item}} {{item.value}}",
        "{{request.attachments}}",
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
        "vars.a !== null",
        "index === 1",
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
        json!({"item": "{{item}}", "vars": "{{vars.b}}"}),
        json!({"bad": "{{[1] === [1]}}"}),
    ];
    prop_oneof![12 => select(sources[..5].to_vec()), 1 => Just(sources[5].clone())]
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
    let vars = prop::collection::btree_map(select(vec!["a", "b"]).prop_map(String::from), value(), 0..3);
    let each = (list(), 0..4_u32, plan_operation()).prop_map(|(list, concurrency, operation)| ForEach {
        list,
        concurrency,
        operation,
    });
    prop_oneof![
        8 => plan_operation().prop_map(StepAction::Operation),
        6 => prop::collection::vec(branch, 0..4).prop_map(StepAction::Parallel),
        6 => each.prop_map(StepAction::ForEach),
        3 => vars.prop_map(StepAction::Set),
        4 => template().prop_map(StepAction::Respond),
        2 => arguments().prop_map(StepAction::Output),
        1 => handoff().prop_map(StepAction::Handoff),
    ]
}

/// What a variable is set to.
fn value() -> impl Strategy<Value = Expression> {
    let sources = ["steps.a", "vars.a", "[vars.b, steps.b]", "request.data", "1", "null", "[vars.a, vars.a]"];
    prop_oneof![16 => select(sources.to_vec()), 1 => Just("[1] === [1]")]
        .prop_map(|source| Expression::parse(source).expect("an expression"))
}

/// What a `for_each` goes through; some are no lists.
fn list() -> impl Strategy<Value = Expression> {
    let sources = ["[1, 2, 3]", "['x', {value: 1}]", "[steps.a]", "[]", "null", "vars.a", "steps.b"];
    prop_oneof![12 => select(sources.to_vec()), 1 => Just("'x'.padStart(1001).split('')")]
        .prop_map(|source| Expression::parse(source).expect("an expression"))
}

fn agent() -> impl Strategy<Value = AgentName> {
    prop_oneof![12 => select(vec!["scout", "clerk"]), 1 => Just("ghost")]
        .prop_map(|name| name.parse().expect("an agent name"))
}

fn handoff() -> impl Strategy<Value = PlanHandoff> {
    (agent(), prop::option::of(template()), prop::option::of(arguments()))
        .prop_map(|(target, message, data)| PlanHandoff { target, message, data })
}

fn wait() -> impl Strategy<Value = Wait> {
    let until = ["0", "5000", "-1.5", "'1970-01-02'", "vars.a", "'soon'", "'2026-11-22'"];
    prop_oneof![
        3 => select(vec![0, 1, 500, 86_400_000]).prop_map(|ms| Wait::For { ms }),
        1 => Just(Wait::For { ms: u64::MAX }),
        4 => select(until.to_vec())
            .prop_map(|source| Wait::Until(Expression::parse(source).expect("an expression"))),
    ]
}

fn schema() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(Just(json!({"type": "object"})))
}

fn model_settings() -> impl Strategy<Value = ModelSettings> {
    let price = prop::option::of((0..3_000_000_u64, 0..9_000_000_u64));
    (prop::option::weighted(0.7, 1..200_u32), price).prop_map(|(max_output_tokens, price)| ModelSettings {
        max_output_tokens,
        price: price.map(|(input, output)| Price { input, output }),
        ..ModelSettings::named("local")
    })
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
            relations: vec![RelationTemplate { relation: "part_of".into(), to: content.clone() }],
            content,
        }),
        1 => (template(), 0..4_u32).prop_map(|(from, depth)| PlanCall::MemoryTraverse {
            from,
            relation: Some("part_of".into()),
            depth,
            limit: 5,
        }),
        2 => (agent(), prop::option::of(template()), prop::option::of(arguments()))
            .prop_map(|(agent, text, data)| PlanCall::Agent { agent, text, data }),
        2 => (model_settings(), prop::option::of(template()), template(), schema()).prop_map(
            |(model, instructions, prompt, schema)| PlanCall::Model { model, instructions, prompt, schema },
        ),
        1 => (template(), schema()).prop_map(|(question, schema)| PlanCall::Ask { question, schema }),
        1 => wait().prop_map(PlanCall::Wait),
        6 => (weights, arguments(), approve).prop_map(|(tool, with, approve)| PlanCall::Tool {
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
    let prompts = (prop::option::of(template()), template(), prop::option::weighted(0.4, recall));
    let output =
        (schema(), 0..3_u32).prop_map(|(schema, retries)| Some(OutputSettings { schema: schema?, retries }));
    let context = (
        select(vec![60, 250, 300, 350, 400, 600, 2_000, 50_000]),
        select(vec![Compact::Drop, Compact::Summarise]),
    )
        .prop_map(|(max_tokens, compact)| ContextSettings { max_tokens, compact });
    let fallback = prop::collection::vec(model_settings(), 0..3);
    (model_settings(), fallback, prompts, output, prop::option::weighted(0.7, context)).prop_map(
        |(model, fallback, (instructions, prompt, recall), output, context)| {
            Mind::Model(ModelMind { model, instructions, prompt, recall, fallback, output, context })
        },
    )
}

/// What one operation meets on its way.
fn course() -> impl Strategy<Value = Course> {
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
    (at_gates, outcomes).prop_map(
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
}

fn traversal() -> impl Strategy<Value = MemoryTraversal> {
    let strength = prop_oneof![8 => 0.0..1.0_f64, 1 => any::<f64>()];
    (text(), strength, any::<bool>()).prop_map(|(text, strength, truncated)| MemoryTraversal {
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
}

/// How a child run ended; now and then it used more than anybody may.
fn agent_return() -> impl Strategy<Value = AgentReturn> {
    let status = prop_oneof![
        6 => Just(Status::Completed),
        1 => Just(Status::Failed),
        1 => Just(Status::Cancelled),
        1 => Just(Status::HandedOff),
    ];
    let used = prop_oneof![8 => 0..100_u64, 1 => Just(u64::MAX)];
    let writes = prop::collection::vec(write(), 0..3);
    (status, prop::option::of(text()), prop::option::of(json_value()), 0..3_u64, used, writes).prop_map(
        |(status, answer, output, tool_calls, tokens, writes)| AgentReturn {
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
        },
    )
}

/// What a child run wrote into the session; now and then it does not go together with what another one wrote.
fn write() -> impl Strategy<Value = Write> {
    let paths = vec!["workflow.a", "workflow.a.b", "workflow.list", "agents.scout.n", "user.mood"];
    (select(paths), json_value(), 0..4).prop_map(|(path, value, kind)| {
        let path = path.parse().expect("a path");
        match kind {
            0 => Write::Set { path, value },
            1 => Write::Append { path, value },
            2 => Write::Delete { path },
            _ => Write::Flag { flag: "done".into(), value: value.is_null() },
        }
    })
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
    let output = prop::option::of(verdict());
    let lost = prop_oneof![8 => Just(0), 1 => 1..3_u32];
    (prop::collection::vec(part, 0..5), stop, tokens.clone(), tokens, output, lost).prop_map(
        |(parts, stop, input_tokens, output_tokens, output, lost_attempts)| ModelReply {
            parts,
            stop,
            input_tokens,
            output_tokens,
            output,
            lost_attempts,
        },
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
    (select(names.to_vec()), verdict(), 0..100_u32).prop_map(|(name, verdict, number)| CallRequest {
        call_id: format!("call_{number}"),
        name: name.into(),
        arguments: "{}".into(),
        verdict: Some(verdict),
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let sound = select(vec![
        json!({"query": "disk", "entity": "disk", "content": "is full", "limit": 2}),
        json!({"query": "disk", "entity": "disk", "content": "is full", "type": "incident", "limit": -1}),
        json!({"from": "disk", "text": "look", "depth": 3, "limit": 9}),
        json!({"value": 1, "name": "x", "text": "go", "data": [1], "message": "over to you"}),
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
    (prop::option::of(json_value()), text(), prop::bool::weighted(0.2)).prop_map(
        |(structured, text, is_error)| ToolReturn { structured, text, is_error, ..ToolReturn::default() },
    )
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
        FailureCode::ResultUnreadable,
        FailureCode::CrashLoop,
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
        traversal().prop_map(Outcome::MemoryTraversed),
        agent_return().prop_map(Outcome::AgentReturned),
        json_value().prop_map(Outcome::InputGiven),
        Just(Outcome::TimerFired),
        failure().prop_map(Outcome::Failed),
    ]
}

/// News that no sound shell would bring: any kind, for one of the pending operations by its place or for nobody.
pub(crate) fn stray() -> impl Strategy<Value = (Option<usize>, News)> {
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
    (prop::option::weighted(0.9, 0..3_usize), news)
}
