//! The door that all trajectories go through, and the text that it makes of a run.

use std::fmt::Write;

use dalsegno_core::*;
use serde_json::{Value, json};

use crate::read::{Document, Give};

/// Runs a document: the run is stepped after each of its joins. The run as text; the error is one that waits for more, or has
/// ended before its last join.
pub(crate) fn run(document: &Document) -> Result<String, String> {
    let Document { config, request: text, joins, .. } = document;
    let request = AgentRequest { data: json!({"host": "db-1"}), ..AgentRequest::text(text) };
    let start = AgentState::start(RunId::from_bytes([7; 16]), request, Timestamp::from_millis(1_000));
    // What a step adds is shown even if the same step cuts what the model is sent.
    let mut state = start.keeping_all();
    let mut run = format!("request: {text}\n");
    let mut joins = joins.iter();
    let mut transcript_shown = 0;
    let mut shown = 0;
    loop {
        let action = execute_agent_step(config, state).map_err(|error| error.to_string())?;
        let continues = matches!(action, AgentAction::Continue { .. });
        let news = if continues { None } else { joins.next() };
        // A step that only asks again has nothing new to say.
        if action.state().step() != shown || action.state().is_over() {
            shown = action.state().step();
            let _ = match action.state().is_over() {
                true => writeln!(run, "\nafter step {shown}"),
                false => writeln!(run, "\nstep {shown}"),
            };
            for decision in action.state().decisions() {
                let _ = writeln!(run, "  decided: {decision}");
            }
            for entry in action.state().transcript().iter().skip(transcript_shown) {
                let _ = writeln!(run, "  transcript: {}", render_entry(entry));
            }
            transcript_shown =
                usize::try_from(action.state().transcript().len()).expect("a short transcript");
        }
        if let AgentAction::Complete { response, final_state } = action {
            if let Some(news) = news {
                return Err(format!("the run is over, and there is more: {news:?}\n{run}"));
            }
            render_end(&response, &final_state, &mut run);
            break;
        }
        if let AgentAction::Handoff { handoff, final_state } = action {
            if let Some(news) = news {
                return Err(format!("the run is over, and there is more: {news:?}\n{run}"));
            }
            let Handoff { target, message, request, said } = handoff;
            let (message, data) = (message.unwrap_or_default(), sorted(&request.data));
            let _ = writeln!(run, "\nhanded over to `{target}`\n  message: {message}");
            let _ = writeln!(run, "  request: {}, data {data}", request.text);
            if let Some(HandedOver { agent, message }) = &request.handoff {
                let _ = writeln!(run, "  from `{agent}`: {}", message.as_deref().unwrap_or("nothing"));
            }
            for said in &said {
                let _ = writeln!(run, "  said: {said}");
            }
            render_kept(&final_state, &mut run);
            break;
        }
        let _ = writeln!(run, "  {}", kind(&action));
        state = action.into_state();
        for Pending { operation, .. } in state.pending().iter().filter(|pending| pending.outcome.is_none()) {
            let _ = writeln!(run, "    {}", render_operation(operation));
        }
        if continues {
            continue;
        }
        let Some(news) = news else {
            return Err(format!("the run waits, and nothing happens to it:\n{run}"));
        };
        for give in news {
            let _ = writeln!(run, "  > {}", render_give(give));
            state.resume(event(give, &state)).map_err(|error| format!("{error}: {give:?}\n{run}"))?;
        }
    }
    Ok(run)
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
        AgentAction::RequestTransfer { .. } => "asks for a transfer",
        AgentAction::Continue { .. } => "continues by itself",
        AgentAction::Converse { .. } => "carries on a call",
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
        Request::Transfer(transfer) => format!("`{}`", transfer.target),
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
    let tools = match &completion.tool_choice {
        ToolChoice::Auto => "on".to_owned(),
        ToolChoice::None => "off".to_owned(),
        ToolChoice::Required => "required".to_owned(),
        ToolChoice::Tool(name) => format!("`{name}`"),
    };
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
            let schema = schema.as_ref().map_or("none".into(), |schema| sorted(schema));
            let _ = write!(text, ", model `{}`, system `{system}`, `{asked}`, schema {schema}", model.name);
        }
    }
    text
}

fn render_give(give: &Give) -> String {
    match give {
        Give::Outcome(place, Outcome::ModelReplied(reply)) => {
            let ModelReply {
                parts,
                stop,
                input_tokens,
                output_tokens,
                details,
                estimated,
                output,
                lost_attempts,
                without_files: _,
            } = reply;
            let stop = sorted(&json!(stop));
            let output = output.as_ref().map(|validation| format!(", output {}", sorted(&json!(validation))));
            let lost = if *lost_attempts > 0 { format!(", {lost_attempts} lost") } else { String::new() };
            let rest = output.unwrap_or_default() + &lost + &render_details(details, *estimated);
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

/// What some of the tokens were, where that is known.
fn render_details(details: &TokenDetails, estimated: bool) -> String {
    let details =
        if details.is_empty() { String::new() } else { format!(", of them {}", sorted(&json!(details))) };
    details + if estimated { ", estimated" } else { "" }
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
        Entry::ToolResult { call_id, name, content, is_error, files } => {
            let of = if *is_error { "error of" } else { "result of" };
            let files = files.iter().map(|file| format!("\n  with {} ({})", file.name, file.media_type));
            format!("{of} {call_id} {name}: {content}{}", files.collect::<String>())
        }
    }
}

fn render_parts(parts: &[ReplyPart]) -> String {
    let parts = parts.iter().map(|part| match part {
        ReplyPart::Text(text) => json!(text).to_string(),
        ReplyPart::Opaque { provider, data } => format!("opaque {provider} {}", sorted(data)),
        ReplyPart::Call(CallRequest { call_id, name, arguments, validation }) => match validation {
            Some(Validation::Valid { .. }) | None => format!("{call_id} {name}({arguments})"),
            validation => {
                let written = json!(arguments);
                format!("{call_id} {name}({written}) {}", sorted(&json!(validation)))
            }
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
    let Usage {
        model_calls,
        tool_calls,
        input_tokens,
        output_tokens,
        cost_nano_usd,
        details,
        estimated_tokens,
        estimated_cost_nano_usd,
    } = response.usage;
    let mut cost = if cost_nano_usd > 0 { format!(", {cost_nano_usd} nano USD") } else { String::new() };
    cost += &render_details(&details, false);
    if estimated_tokens > 0 {
        let _ = write!(cost, ", estimated {estimated_tokens} tokens and {estimated_cost_nano_usd} nano USD");
    }
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
