//! The door that all trajectories go through, and the text that it makes of a run.

use std::fmt::Write;

use dalsegno_core::*;
use serde_json::{Value, json};

/// What happens to one operation of a join, or to the run.
#[derive(Debug, Clone)]
pub(crate) enum Give {
    Outcome(usize, Outcome),
    Gate(usize, Gate),
    Answer(usize, Answer),
    Signal(Signal),
}

/// Runs `config` on `text`; `joins` holds the news of each join, and the run is stepped after each of them. The run as
/// text must be the snapshot `name`.
pub(crate) fn check(name: &str, config: &AgentConfig, text: &str, joins: &[Vec<Give>]) {
    let request = AgentRequest { data: json!({"host": "db-1"}), ..AgentRequest::text(text) };
    let mut state = AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(1_000));
    let mut document = format!("request: {text}\n");
    let mut joins = joins.iter();
    let mut transcript_shown = 0;
    let mut shown = 0;
    loop {
        let action = execute_agent_step(config, state).expect("a state of this configuration");
        let goes_on = matches!(action, AgentAction::Continue { .. });
        let news = if goes_on { None } else { joins.next() };
        // A step that only asks again has nothing new to say.
        if action.state().step() != shown || action.state().is_over() {
            shown = action.state().step();
            let _ = match action.state().is_over() {
                true => writeln!(document, "\nafter step {shown}"),
                false => writeln!(document, "\nstep {shown}"),
            };
            for decision in action.state().decisions() {
                let _ = writeln!(document, "  decided: {decision}");
            }
            for entry in action.state().transcript().iter().skip(transcript_shown) {
                let _ = writeln!(document, "  transcript: {}", render_entry(entry));
            }
            transcript_shown =
                usize::try_from(action.state().transcript().len()).expect("a short transcript");
        }
        if let AgentAction::Complete { response, final_state } = action {
            assert!(news.is_none(), "the run is over, and there is more news: {news:?}\n{document}");
            render_end(&response, &final_state, &mut document);
            break;
        }
        if let AgentAction::Handoff { handoff, final_state } = action {
            assert!(news.is_none(), "the run is over, and there is more news: {news:?}\n{document}");
            let Handoff { target, message, request, said } = handoff;
            let (message, data) = (message.unwrap_or_default(), sorted(&request.data));
            let _ = writeln!(document, "\nhanded over to `{target}`\n  message: {message}");
            let _ = writeln!(document, "  request: {}, data {data}", request.text);
            if let Some(HandedOver { agent, message }) = &request.handoff {
                let _ = writeln!(document, "  from `{agent}`: {}", message.as_deref().unwrap_or("nothing"));
            }
            for said in &said {
                let _ = writeln!(document, "  said: {said}");
            }
            render_kept(&final_state, &mut document);
            break;
        }
        let _ = writeln!(document, "  {}", kind(&action));
        let (operations, continuation) = action.into_operations();
        state = continuation;
        for operation in &operations {
            let _ = writeln!(document, "    {}", render_operation(operation));
        }
        if goes_on {
            continue;
        }
        let Some(news) = news else { panic!("the run waits, and there is no more news:\n{document}") };
        for give in news {
            let _ = writeln!(document, "  > {}", render_give(give));
            state.resume(event(give, &state)).unwrap_or_else(|error| panic!("{error}: {give:?}\n{document}"));
        }
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, document);
    });
}

fn event(give: &Give, state: &AgentState) -> Event {
    let at = Timestamp::from_millis(2_000);
    let id = |place: &usize| state.pending()[*place].operation.id;
    match give {
        Give::Outcome(place, outcome) => Event::outcome(at, id(place), outcome.clone()),
        Give::Gate(place, gate) => Event::gated(at, id(place), gate.clone()),
        Give::Answer(place, answer) => Event::answer(at, id(place), answer.clone()),
        Give::Signal(signal) => Event::signal(at, *signal),
    }
}

fn kind(action: &AgentAction) -> &'static str {
    match action {
        AgentAction::Complete { .. } => "complete",
        AgentAction::RequestModelCompletion { .. } => "asks the model",
        AgentAction::RequestMemorySearch { .. } => "asks for a memory search",
        AgentAction::RequestMemoryCreate { .. } => "asks for a memory create",
        AgentAction::RequestMemoryTraverse { .. } => "asks for a memory traverse",
        AgentAction::RequestAgent { .. } => "asks for a child run",
        AgentAction::RequestInput { .. } => "asks a person",
        AgentAction::RequestTimer { .. } => "asks for a timer",
        AgentAction::Handoff { .. } => "hands over",
        AgentAction::RequestToolCall { .. } => "asks for a tool call",
        AgentAction::RequestApiCall { .. } => "asks for an HTTP call",
        AgentAction::RequestEmail { .. } => "asks for a mail",
        AgentAction::Continue { .. } => "goes on by itself",
        AgentAction::RequestParallel { .. } => "asks for these at the same time",
        AgentAction::RequestApproval { .. } => "waits for answers alone",
    }
}

fn render_operation(operation: &Operation) -> String {
    let what = match &operation.request {
        Request::ModelCompletion(completion) => render_completion(completion),
        Request::MemorySearch(search) => {
            format!("`{}`, {} hits of {} or more", search.query, search.limit, search.min_score)
        }
        Request::MemoryCreate(create) => {
            let relations = create.relations.iter().map(|it| format!(", {} `{}`", it.relation, it.to));
            let relations: String = relations.collect();
            format!("{} `{}`: {}{relations}", create.entity_type, create.entity, create.content)
        }
        Request::MemoryTraverse(traverse) => {
            let MemoryTraverse { from, relation, depth, limit } = &**traverse;
            let relation = relation.as_deref().unwrap_or("any");
            format!("`{from}` by {relation}, {depth} deep, {limit} entities")
        }
        Request::ToolCall(call) => sorted(&call.parameters),
        Request::ApiCall(call) => call.body.as_ref().map_or_else(String::new, |body| sorted(&body.value)),
        Request::Email(mail) => format!("`{}`", mail.subject),
        Request::AgentCall(call) => {
            format!("`{}`, data {}, budget {}", call.text, sorted(&call.data), sorted(&json!(call.budget)))
        }
        Request::Input(input) => sorted(input.schema.as_ref().unwrap_or(&Value::Null)),
        Request::Timer(timer) => format!("until {}", timer.until.as_millis()),
    };
    let class = serde_json::to_value(operation.terms.class).expect("a class has a name");
    let gate = match (&operation.gate, operation.question()) {
        (GateState::Open, _) => String::new(),
        (GateState::Answered, _) => ", answered".into(),
        (GateState::Waiting(_), question) => format!(", waits: {}", question.unwrap_or_default()),
    };
    let id = operation.id.to_string();
    let ordinal: Vec<String> = operation.ordinal.iter().map(ToString::to_string).collect();
    let (ordinal, label) = (ordinal.join("."), operation.request.label());
    format!("[{ordinal}] {label} {what} ({}, {}{gate})", &id[..8], class.as_str().unwrap_or_default())
}

fn render_completion(completion: &ModelCompletion) -> String {
    let tools = if completion.tool_choice == ToolChoice::Auto { "on" } else { "off" };
    let mut text = format!("entries {}..{}, tools {tools}", completion.new_from, completion.entries);
    if completion.fallback > 0 {
        let _ = write!(text, ", fallback {}", completion.fallback);
    }
    if let Some(most) = completion.max_output_tokens {
        let _ = write!(text, ", {most} tokens or less");
    }
    match &completion.purpose {
        Purpose::Reply => {}
        Purpose::Summary { until } => {
            let _ = write!(text, ", summary until {until}");
        }
        Purpose::Step(prompt) => {
            let Prompt { model, instructions, text: asked, schema } = &**prompt;
            let system = instructions.as_deref().unwrap_or("none");
            let schema = schema.as_ref().map_or("none".into(), sorted);
            let _ = write!(text, ", model `{}`, system `{system}`, `{asked}`, schema {schema}", model.name);
        }
    }
    text
}

fn render_give(give: &Give) -> String {
    match give {
        Give::Outcome(place, Outcome::ModelReplied(reply)) => {
            let ModelReply { parts, stop, input_tokens, output_tokens, output, lost_attempts } = reply;
            let stop = sorted(&json!(stop));
            let output = output.as_ref().map(|verdict| format!(", output {}", sorted(&json!(verdict))));
            let lost = if *lost_attempts > 0 { format!(", {lost_attempts} lost") } else { String::new() };
            let rest = output.unwrap_or_default() + &lost;
            format!(
                "[{place}] {} ({stop}, {input_tokens} + {output_tokens} tokens{rest})",
                render_parts(parts)
            )
        }
        Give::Outcome(place, outcome) => format!("[{place}] {}", sorted(&json!(outcome))),
        Give::Gate(place, gate) => format!("[{place}] gate {}", sorted(&json!(gate))),
        Give::Answer(place, answer) => format!("[{place}] answer {}", sorted(&json!(answer))),
        Give::Signal(signal) => format!("signal {}", sorted(&json!(signal))),
    }
}

fn render_entry(entry: &Entry) -> String {
    match entry {
        Entry::Instructions(text) => format!("system: {text}"),
        Entry::User(text) => format!("user: {text}"),
        Entry::Assistant(reply) => format!("assistant: {}", render_parts(&reply.parts)),
        Entry::Attachment(Attachment { name, media_type, bytes, .. }) => {
            format!("file: {name} ({media_type}, {bytes} bytes)")
        }
        Entry::Compaction(Compaction { dropped, elided, summary, files_from }) => {
            let summary = summary.as_deref().unwrap_or("none");
            let files = files_from.map_or(String::new(), |from| format!(", files from {from} kept"));
            format!(
                "compaction: entries before {dropped} dropped, results before {elided} elided, summary {summary}{files}"
            )
        }
        Entry::ToolResult { call_id, name, content, is_error } => {
            format!("{} {call_id} {name}: {content}", if *is_error { "error of" } else { "result of" })
        }
    }
}

fn render_parts(parts: &[ReplyPart]) -> String {
    let parts = parts.iter().map(|part| match part {
        ReplyPart::Text(text) => format!("{text:?}"),
        ReplyPart::Opaque { provider, data } => format!("opaque {provider} {}", sorted(data)),
        ReplyPart::Call(CallRequest { call_id, name, arguments, verdict }) => match verdict {
            Some(Verdict::Valid { .. }) | None => format!("{call_id} {name}({arguments})"),
            verdict => format!("{call_id} {name}({arguments}) {}", sorted(&json!(verdict))),
        },
    });
    parts.reduce(|parts, part| format!("{parts}, {part}")).unwrap_or_else(|| "nothing".into())
}

fn render_end(response: &AgentResponse, state: &AgentState, document: &mut String) {
    let _ = writeln!(document, "\n{}", format!("{:?}", response.status).to_lowercase());
    if let Some(answer) = &response.answer {
        let _ = writeln!(document, "  answer: {answer}");
    }
    if let Some(error) = &response.error {
        let _ =
            writeln!(document, "  error: {}: {}\n  help: {}", error.code.as_str(), error.message, error.help);
    }
    if let Some(output) = &response.output {
        let _ = writeln!(document, "  output: {}", sorted(output));
    }
    render_kept(state, document);
    let Usage { model_calls, tool_calls, input_tokens, output_tokens, cost_nano_usd } = response.usage;
    let cost = if cost_nano_usd > 0 { format!(", {cost_nano_usd} nano USD") } else { String::new() };
    let _ = writeln!(
        document,
        "  usage: {model_calls} model calls, {tool_calls} tool calls, {input_tokens} + {output_tokens} tokens{cost}"
    );
}

fn render_kept(state: &AgentState, document: &mut String) {
    for (name, kept) in [("results", state.results()), ("vars", state.vars())] {
        if kept.as_object().is_some_and(|fields| !fields.is_empty()) {
            let _ = writeln!(document, "  {name}: {}", sorted(kept));
        }
    }
}

/// JSON with sorted keys, whatever order a map keeps.
fn sorted(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields = fields.into_iter().map(|(name, field)| format!("\"{name}\": {}", sorted(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The agent `triage` with a handful of tools; `mail.send` needs approval, `host.kill` is known but not allowed. It may
/// start the agents `scout` and `clerk`.
fn agent(mind: Mind) -> AgentConfig {
    let mut config = AgentConfig::new("triage".parse().expect("a name"), mind);
    let tool = |class| Tool { class, ..Tool::new("does something".into(), json!({"type": "object"})) };
    let tools = [
        ("log.read", tool(EffectClass::Read)),
        ("risk.score", tool(EffectClass::Read)),
        ("mail.send", Tool { approve: true, ..tool(EffectClass::Unsafe) }),
        ("ticket.open", tool(EffectClass::Unsafe)),
        ("memory.search", Tool { kind: ToolKind::MemorySearch, ..tool(EffectClass::Read) }),
        ("memory.create", Tool { kind: ToolKind::MemoryCreate, ..tool(EffectClass::Keyed) }),
    ];
    for (name, tool) in tools {
        config.tools.tools.insert(name.parse().expect("a tool name"), tool);
    }
    config.tools.forbidden.insert("host.kill".parse().expect("a tool name"));
    for (name, max_tool_calls, max_tokens) in [("scout", 8, None), ("clerk", 64, Some(5_000))] {
        let budget = Budget { max_tool_calls, max_tokens, max_cost_nano_usd: None };
        config.agents.insert(name.parse().expect("an agent name"), Callee { budget });
    }
    config
}

/// A plan-driven agent.
pub(crate) fn plan(steps: Value) -> AgentConfig {
    agent(Mind::Plan(serde_json::from_value(Value::from_iter([("steps", steps)])).expect("a plan")))
}

/// The same agent with these documents of declarative tools; all of their tools may be called.
pub(crate) fn with_documents(mut config: AgentConfig, documents: &[Value]) -> AgentConfig {
    for document in documents {
        let toolkit = dalsegno_tools::compile(document).toolkit.expect("a sound document");
        let document = ToolDocument::new(toolkit, serde_json::Map::new());
        let toolkit = document.toolkit().name().to_owned();
        for declared in document.toolkit().tools() {
            let name = declared.name().parse().expect("a tool name");
            let kind = ToolKind::Declarative { toolkit: toolkit.clone(), tool: declared.name().to_owned() };
            let schema = declared.schema().clone();
            let tool = Tool { kind, class: EffectClass::Composite, ..Tool::new("declared".into(), schema) };
            config.tools.tools.insert(name, tool);
        }
        config.toolkits.insert(toolkit, document);
    }
    config
}

/// A plan step that calls a tool.
pub(crate) fn tool_step(id: &str, tool: &str, with: Value) -> Value {
    let call = Value::from_iter([("tool", json!(tool)), ("with", with)]);
    json!({"action": {"operation": {"id": id, "call": {"tool": call}}}})
}

/// A plan step that answers.
pub(crate) fn respond(text: &str) -> Value {
    json!({"action": {"respond": text}})
}

/// A model-driven agent.
pub(crate) fn model() -> AgentConfig {
    let mind = json!({
        "model": {"name": "local"},
        "instructions": "You triage incidents for {{tenant.name}}.",
        "prompt": "{{request.text}} on {{request.data.host}}",
    });
    agent(Mind::Model(serde_json::from_value(mind).expect("a mind")))
}

/// The model says something.
pub(crate) fn says(text: &str) -> Vec<Give> {
    replies(vec![ReplyPart::Text(text.into())], StopReason::End)
}

/// The model says something, with the shell's verdict on it as a structured answer.
pub(crate) fn says_checked(text: &str, verdict: Verdict) -> Vec<Give> {
    let reply = ModelReply::new(vec![ReplyPart::Text(text.into())], StopReason::End);
    let reply = ModelReply { input_tokens: 100, output_tokens: 10, output: Some(verdict), ..reply };
    vec![Give::Outcome(0, Outcome::ModelReplied(reply))]
}

/// The model asks for tools.
pub(crate) fn calls(calls: Vec<ReplyPart>) -> Vec<Give> {
    replies(calls, StopReason::ToolCalls)
}

/// The model replies.
pub(crate) fn replies(parts: Vec<ReplyPart>, stop: StopReason) -> Vec<Give> {
    vec![Give::Outcome(
        0,
        Outcome::ModelReplied(ModelReply {
            input_tokens: 100,
            output_tokens: 10,
            ..ModelReply::new(parts, stop)
        }),
    )]
}

/// A sound call in a model's reply.
pub(crate) fn call(call_id: &str, name: &str, arguments: Value) -> ReplyPart {
    let written = sorted(&arguments);
    judged(call_id, name, &written, Verdict::Valid { arguments })
}

/// A call in a model's reply, with the shell's verdict.
pub(crate) fn judged(call_id: &str, name: &str, arguments: &str, verdict: Verdict) -> ReplyPart {
    let (call_id, name, arguments) = (call_id.into(), name.into(), arguments.into());
    ReplyPart::Call(CallRequest { call_id, name, arguments, verdict: Some(verdict) })
}

pub(crate) fn returns(place: usize, value: Value) -> Give {
    Give::Outcome(place, Outcome::ToolReturned(ToolReturn::structured(value)))
}

pub(crate) fn prints(place: usize, text: &str, is_error: bool) -> Give {
    Give::Outcome(
        place,
        Outcome::ToolReturned(ToolReturn { text: text.into(), is_error, ..ToolReturn::default() }),
    )
}

pub(crate) fn finds(place: usize, texts: &[&str]) -> Give {
    let hits = texts.iter().map(|text| MemoryHit {
        entity: "db-1".into(),
        entity_type: "host".into(),
        text: (*text).into(),
        score: 0.75,
        metadata: Value::Null,
    });
    Give::Outcome(place, Outcome::MemoryFound(hits.collect()))
}

pub(crate) fn creates(place: usize) -> Give {
    let created = MemoryCreated { entity: "db-1".into(), observation: "41".into(), duplicate: false };
    Give::Outcome(place, Outcome::MemoryCreated(created))
}

pub(crate) fn traverses(place: usize) -> Give {
    let entity = |name: &str, entity_type: &str, depth| TraversedEntity {
        entity: name.into(),
        entity_type: entity_type.into(),
        depth,
        observations: vec![format!("{name} is known")],
    };
    let (from, relation, to) = ("db-1".into(), "part_of".into(), "rack".into());
    Give::Outcome(
        place,
        Outcome::MemoryTraversed(MemoryTraversal {
            entities: vec![entity("db-1", "host", 0), entity("rack", "place", 1)],
            relations: vec![TraversedRelation { from, relation, to, strength: 0.5 }],
            truncated: true,
        }),
    )
}

pub(crate) fn given(place: usize, value: Value) -> Give {
    Give::Answer(place, Answer::Given { value, by: Some("ada".into()) })
}

pub(crate) fn fires(place: usize) -> Give {
    Give::Outcome(place, Outcome::TimerFired)
}

/// A child run answers.
pub(crate) fn agent_answers(place: usize, answer: &str, output: Option<Value>) -> Give {
    Give::Outcome(place, Outcome::AgentReturned(AgentReturn { output, ..agent_return(Some(answer)) }))
}

/// A child run does not complete.
pub(crate) fn agent_fails(place: usize, status: Status, code: RunErrorCode, message: &str) -> Give {
    let error = RunError { code, message: message.into(), help: "give it less to do".into() };
    let returned = AgentReturn { status, error: Some(error), ..agent_return(None) };
    Give::Outcome(place, Outcome::AgentReturned(returned))
}

fn agent_return(answer: Option<&str>) -> AgentReturn {
    AgentReturn {
        run: RunId::from_bytes([9; 16]),
        status: Status::Completed,
        answer: answer.map(Into::into),
        output: None,
        error: None,
        usage: Usage { model_calls: 2, tool_calls: 3, input_tokens: 40, output_tokens: 5, cost_nano_usd: 6 },
        writes: Vec::new(),
    }
}

pub(crate) fn fails(place: usize, code: FailureCode, message: &str) -> Give {
    Give::Outcome(place, Outcome::Failed(Failure::new(code, message)))
}

pub(crate) fn approves(place: usize) -> Give {
    Give::Answer(place, Answer::Approved { edited: None, reason: None, by: Some("ada".into()) })
}

pub(crate) fn edits(place: usize, verdict: Verdict) -> Give {
    Give::Answer(place, Answer::Approved { edited: Some(verdict), reason: None, by: Some("ada".into()) })
}

pub(crate) fn denies(place: usize, reason: Option<&str>) -> Give {
    Give::Answer(place, Answer::Denied { reason: reason.map(Into::into), by: Some("ada".into()) })
}

pub(crate) fn doubts(place: usize) -> Give {
    Give::Gate(place, Gate::InDoubt { reason: "the connection was lost after the request was sent".into() })
}
