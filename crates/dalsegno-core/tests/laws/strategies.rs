//! Configurations and requests, most of them sound and some of them hostile.

use dalsegno_core::*;
use dalsegno_expr::{Expression, Template, ValueTemplate};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::outcomes::course;
use crate::values::{json_value, text};
use crate::world::World;

/// Tools that a configuration may allow, with who performs them.
pub(crate) fn tools() -> Vec<(&'static str, ToolKind)> {
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

/// How many cases each law is tried on; fewer where `PROPTEST_CASES` says so.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

/// A configuration of either kind, with all that its run will meet.
pub(crate) fn world() -> BoxedStrategy<World> {
    prop_oneof![world_of(plan().boxed()), world_of(model_mind().boxed())].boxed()
}

/// A plan-driven configuration that calls documents, several at once, with all that its run will meet.
pub(crate) fn document_world() -> BoxedStrategy<World> {
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
    (world_of(plan.boxed()), approve, limits)
        .prop_map(|(mut world, approve, (calls, tokens, cost))| {
            let limits = &mut world.config.limits;
            (limits.max_tool_calls, limits.max_tokens, limits.max_cost_nano_usd) = (calls, tokens, cost);
            for (document, approve) in documents().iter().zip(approve) {
                let toolkit = dalsegno_tools::compile(document).toolkit.expect("a sound document");
                let name = toolkit.name().to_owned();
                let kind = ToolKind::Declarative { toolkit: name.clone(), tool: name.clone() };
                let schema = json!({"type": "object"});
                let tool = Tool {
                    kind,
                    class: EffectClass::Composite,
                    approve,
                    ..Tool::new("declared".into(), schema)
                };
                world.config.tools.tools.insert(name.parse().expect("a tool name"), tool);
                world.config.toolkits.insert(name, ToolDocument::new(toolkit, serde_json::Map::new()));
            }
            world
        })
        .boxed()
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
pub(crate) fn plan_world() -> BoxedStrategy<World> {
    world_of(plan().boxed()).boxed()
}

/// A model-driven configuration, with all that its run will meet.
pub(crate) fn model_world() -> BoxedStrategy<World> {
    world_of(model_mind().boxed()).boxed()
}

fn world_of(mind: BoxedStrategy<Mind>) -> BoxedStrategy<World> {
    let signal = prop::option::weighted(
        0.15,
        (0..4_usize, 0..4_usize, select(vec![Signal::Cancel, Signal::Deadline])),
    );
    let budget = prop::option::weighted(0.2, budget());
    let courses = prop::collection::vec(course(), 1..10);
    (config(mind), request(), courses, signal, budget, prop::bool::weighted(0.15))
        .prop_map(|(config, request, courses, signal, budget, asks_effects)| World {
            run: RunId::from_bytes([7; 16]),
            config,
            request,
            courses,
            budget,
            asks_effects,
            signal,
        })
        .boxed()
}

fn request() -> BoxedStrategy<AgentRequest> {
    let attachment = Attachment {
        name: "disk.png".into(),
        media_type: "image/png".into(),
        digest: digest_json(&json!("disk")),
        bytes: 4_000,
    };
    let attachments = prop_oneof![3 => Just(Vec::new()), 1 => Just(vec![attachment])];
    (text(), json_value(), attachments)
        .prop_map(|(text, data, attachments)| AgentRequest {
            text,
            data,
            tenant: "acme".into(),
            attachments,
            ..AgentRequest::text("")
        })
        .boxed()
}

fn budget() -> BoxedStrategy<Budget> {
    (0..12_u64, tokens_limit(), cost_limit())
        .prop_map(|(max_tool_calls, max_tokens, max_cost_nano_usd)| Budget {
            max_tool_calls,
            max_tokens,
            max_cost_nano_usd,
        })
        .boxed()
}

fn tokens_limit() -> BoxedStrategy<Option<u64>> {
    prop::option::weighted(0.3, select(vec![0, 300, 5_000, 1_000_000])).boxed()
}

fn cost_limit() -> BoxedStrategy<Option<u64>> {
    prop::option::weighted(0.2, select(vec![0, 1_000_000, u64::MAX])).boxed()
}

fn config(mind: BoxedStrategy<Mind>) -> BoxedStrategy<AgentConfig> {
    let forbidden = prop::sample::subsequence(vec!["host.kill", "mail.send", "risk.score"], 0..=2);
    let agents = prop::collection::vec(prop::option::weighted(0.9, budget()), 2);
    let pinned = vec![("risk.score", "score"), ("mail.send", "send"), ("host.kill", "kill")];
    let names = prop::sample::subsequence(pinned, 0..=3);
    let tools = prop::collection::vec(prop::option::weighted(0.8, tool()), tools().len());
    (mind, tools, forbidden, names, limits(), agents)
        .prop_map(|(mind, tools, forbidden, names, limits, agents)| {
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
        })
        .boxed()
}

fn limits() -> BoxedStrategy<Limits> {
    let state_bytes = prop_oneof![8 => Just(Limits::default().max_state_bytes), 1 => 0..3_000_u64];
    let exceeded = select(vec![OnExceeded::Fail, OnExceeded::Answer]);
    // Most runs are short; a long one is what a summary takes.
    let count = || prop_oneof![4 => 0..8_u64, 1 => 8..40_u64];
    let limits = (count(), count(), exceeded, tokens_limit(), cost_limit(), state_bytes, 0..4_u32);
    limits
        .prop_map(
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
        .boxed()
}

fn tool() -> BoxedStrategy<Tool> {
    let classes = [EffectClass::Read, EffectClass::Idempotent, EffectClass::Keyed, EffectClass::Unsafe];
    let rules = || {
        let sources = ["args.value > 0", "args.name == 'x'", "args.text.startsWith('g')", "args.nothing"];
        let rule =
            select(sources.to_vec()).prop_map(|source| Expression::parse(source).expect("an expression"));
        prop_oneof![6 => Just(Vec::new()), 2 => prop::collection::vec(rule, 1..3)]
    };
    (select(classes.to_vec()), prop::bool::weighted(0.3), on_failure(), rules(), rules())
        .prop_map(|(class, approve, on_failure, approve_when, deny_when)| Tool {
            class,
            approve,
            on_failure,
            approve_when,
            deny_when,
            ..Tool::new("does something".into(), json!({"type": "object"}))
        })
        .boxed()
}

fn on_failure() -> BoxedStrategy<Option<OnFailure>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(OnFailure::Fail)),
        3 => Just(Some(OnFailure::Report)),
        1 => json_value().prop_map(|value| Some(OnFailure::Default(value))),
        4 => prop_oneof![6 => Just("log_read"), 4 => select(tools()).prop_map(|(name, _)| name), 1 => Just("host.kill")]
            .prop_map(|tool| Some(OnFailure::Fallback(tool.parse().expect("a tool name")))),
    ].boxed()
}

fn template() -> BoxedStrategy<Template> {
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
        .boxed()
}

fn condition() -> BoxedStrategy<Expression> {
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
        .boxed()
}

fn arguments() -> BoxedStrategy<ValueTemplate> {
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
        .boxed()
}

fn plan() -> BoxedStrategy<Mind> {
    let step = (prop::option::weighted(0.3, condition()), step_action())
        .prop_map(|(when, action)| PlanStep { when, action });
    prop::collection::vec(step, 0..7).prop_map(|steps| Mind::Plan(Plan { steps })).boxed()
}

fn step_action() -> BoxedStrategy<StepAction> {
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
    .boxed()
}

/// What a variable is set to.
fn value() -> BoxedStrategy<Expression> {
    let sources = ["steps.a", "vars.a", "[vars.b, steps.b]", "request.data", "1", "null", "[vars.a, vars.a]"];
    prop_oneof![16 => select(sources.to_vec()), 1 => Just("[1] === [1]")]
        .prop_map(|source| Expression::parse(source).expect("an expression"))
        .boxed()
}

/// What a `for_each` goes through; some are no lists.
fn list() -> BoxedStrategy<Expression> {
    let sources = ["[1, 2, 3]", "['x', {value: 1}]", "[steps.a]", "[]", "null", "vars.a", "steps.b"];
    prop_oneof![12 => select(sources.to_vec()), 1 => Just("'x'.padStart(1001).split('')")]
        .prop_map(|source| Expression::parse(source).expect("an expression"))
        .boxed()
}

fn agent() -> BoxedStrategy<AgentName> {
    prop_oneof![12 => select(vec!["scout", "clerk"]), 1 => Just("ghost")]
        .prop_map(|name| name.parse().expect("an agent name"))
        .boxed()
}

fn handoff() -> BoxedStrategy<PlanHandoff> {
    (agent(), prop::option::of(template()), prop::option::of(arguments()))
        .prop_map(|(target, message, data)| PlanHandoff { target, message, data })
        .boxed()
}

fn wait() -> BoxedStrategy<Wait> {
    let until = ["0", "5000", "-1.5", "'1970-01-02'", "vars.a", "'soon'", "'2026-11-22'"];
    prop_oneof![
        3 => select(vec![0, 1, 500, 86_400_000]).prop_map(|ms| Wait::For { ms }),
        1 => Just(Wait::For { ms: u64::MAX }),
        4 => select(until.to_vec())
            .prop_map(|source| Wait::Until(Expression::parse(source).expect("an expression"))),
    ]
    .boxed()
}

/// Of a model's answer: with sorted keys, or in another order.
fn model_schema() -> BoxedStrategy<Option<JsonSchema>> {
    let other = r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}"#;
    prop_oneof![
        3 => schema().prop_map(|schema| schema.map(JsonSchema::from)),
        1 => Just(other.parse().ok()),
    ]
    .boxed()
}

fn schema() -> BoxedStrategy<Option<Value>> {
    prop::option::of(Just(json!({"type": "object"}))).boxed()
}

fn model_settings() -> BoxedStrategy<ModelSettings> {
    let rates = || {
        let rate = || prop::option::of(0..5_000_000_u64);
        (0..3_000_000_u64, 0..9_000_000_u64, rate(), rate(), rate()).prop_map(
            |(input, output, cached_input, cache_write, cache_write_1h)| Rates {
                input,
                output,
                cached_input,
                cache_write,
                cache_write_1h,
            },
        )
    };
    let longer = (1..500_u64, rates()).prop_map(|(above, rates)| LongContext { above, rates });
    let price = (rates(), prop::option::of(longer)).prop_map(|(rates, longer)| Price {
        rates,
        long_context: longer.into_iter().collect(),
        web_search: None,
    });
    let price = prop::option::of(price);
    (prop::option::weighted(0.7, 1..200_u32), price)
        .prop_map(|(max_output_tokens, price)| ModelSettings {
            max_output_tokens,
            price,
            ..ModelSettings::named("local")
        })
        .boxed()
}

fn plan_operation() -> BoxedStrategy<PlanOperation> {
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
        2 => (model_settings(), prop::option::of(template()), template(), model_schema()).prop_map(
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
    (id, call, on_failure())
        .prop_map(|(id, call, on_failure)| PlanOperation {
            id: id.map(|id| id.parse().expect("a step id")),
            call,
            on_failure,
        })
        .boxed()
}

fn model_mind() -> BoxedStrategy<Mind> {
    let recall = (template(), 0..4_u32).prop_map(|(query, limit)| Recall { query, limit, min_score: 0.0 });
    let prompts = (prop::option::of(template()), template(), prop::option::weighted(0.4, recall));
    let output = (model_schema(), 0..3_u32)
        .prop_map(|(schema, retries)| Some(OutputSettings { schema: schema?, retries }));
    let context = (
        select(vec![60, 250, 300, 350, 400, 600, 2_000, 50_000]),
        select(vec![Compact::Drop, Compact::Summarise]),
    )
        .prop_map(|(max_tokens, compact)| ContextSettings { max_tokens, compact });
    let fallback = prop::collection::vec(model_settings(), 0..3);
    (model_settings(), fallback, prompts, output, prop::option::weighted(0.7, context))
        .prop_map(|(model, fallback, (instructions, prompt, recall), output, context)| {
            Mind::Model(ModelMind { model, instructions, prompt, recall, fallback, output, context })
        })
        .boxed()
}
