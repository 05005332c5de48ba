//! `dalsegno show`: what happened in a run, what the agent knew, and why.

use dalsegno_core::{Answer, FailureCode, OperationId, Outcome, Request, RunId, Signal, Verdict};
use dalsegno_runtime::{Engine, Inspection, OperationView, StepView};
use dalsegno_store::Body;

use super::carry::signed;
use super::{Context, select};
use crate::args::{Format, ShowArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::document::Shown;
use crate::render::output::Output;
use crate::render::progress::outcome_line;
use crate::render::text::{self, Style, Words, brief, count, gist, short, styled, time};
use crate::render::{document, ending};

pub(super) async fn show(args: &ShowArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.reader().await?;
    let run = select::run(&engine, &args.run).await?;
    let inspection = engine.inspect(run, args.step).await?;
    let steps = inspection.steps.iter().map(|view| view.step).max().unwrap_or_default();
    if let Some(step) = args.step
        && !(1..=steps).contains(&step)
    {
        return Err(Error::UnknownStep { run: short(run), step, steps });
    }
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Shown::of(&inspection, args.state, args.step));
        return Ok(Exit::Done);
    }
    header(&inspection, output);
    for view in inspection.steps.iter().filter(|view| args.step.is_none_or(|step| view.step == step)) {
        step(view, &inspection, output);
    }
    if args.step.is_none() {
        end(&inspection, output);
    }
    if args.state {
        output.stdout.line("\nstate");
        output.document(&inspection.state);
    }
    if args.step.is_none() && !inspection.summary.status.is_end() && inspection.summary.foreign.is_none() {
        ending::waiting(&short(run), &inspection.waiting, context.named, output);
    }
    Ok(Exit::Done)
}

/// Shows all steps of a run.
pub(super) async fn tell(engine: &Engine, run: RunId, context: &mut Context<'_>) -> Result<(), Error> {
    let inspection = engine.inspect(run, None).await?;
    let output = &mut *context.output;
    header(&inspection, output);
    inspection.steps.iter().for_each(|view| step(view, &inspection, output));
    end(&inspection, output);
    Ok(())
}

fn header(inspection: &Inspection, output: &mut Output) {
    let Inspection { summary, state, response, .. } = inspection;
    let width = output.stdout.terminal.width;
    let mut facts = vec![time(summary.started_at), count(summary.records, "record")];
    // Of a run that has ended, the whole use, whichever step is shown.
    facts.extend(ending::usage(response.as_ref().map_or_else(|| state.usage(), |response| response.usage)));
    output.stdout.line(Words::from("run ").and(styled(Style::Bold, summary.run)));
    output.stdout.line(format_args!("{} · {} · {}", summary.agent, summary.status, facts.join(" · ")));
    if let Some(foreign) = &summary.foreign {
        output.stdout.line(format_args!(
            "foreign: from an archive that {}; nothing of it is performed",
            signed(foreign)
        ));
    }
    if !state.request().text.is_empty() {
        output.stdout.line(format_args!("asked: {}", brief(&state.request().text, width.saturating_sub(7))));
    }
    let session = state.session();
    let facts = [
        ("data", &state.request().data),
        ("user", &state.request().user),
        ("workflow", session.workflow()),
        ("agents", session.agents()),
        ("flags", session.flags()),
    ];
    for (name, value) in facts {
        if !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty()) {
            let room = width.saturating_sub(name.len() + 2);
            output.stdout.line(format_args!("{name}: {}", brief(&gist(value), room)));
        }
    }
}

fn step(view: &StepView, inspection: &Inspection, output: &mut Output) {
    // Before the first step and after the last nothing is asked for; then the decisions speak alone.
    if view.decisions.is_empty() && view.operations.is_empty() {
        return;
    }
    let width = output.stdout.terminal.width;
    if view.operations.is_empty() {
        output.stdout.line("");
    } else {
        let title = styled(Style::Bold, format_args!("step {}", view.step));
        output.stdout.line(Words::from("\n").and(title));
    }
    for decision in &view.decisions {
        let why = brief(decision, width.saturating_sub(7));
        output.stdout.line(Words::from("  why  ").and(styled(Style::Dim, why)));
    }
    for OperationView { operation, parent, label, request, outcome } in &view.operations {
        let asked = format!("{label} {}", request_line(request));
        let id = short(operation);
        let room = width.saturating_sub(9 + id.len());
        // What a declarative tool asks for is a part of it.
        let word = if parent.is_some() { "part" } else { "ask " };
        let asked = Words::from(format_args!("  {word} {}  ", brief(&asked, room)));
        output.stdout.line(asked.and(styled(Style::Dim, id)));
        if let Some(task) = task_line(*operation, inspection) {
            output.stdout.line(format_args!("  task {}", brief(&task, width.saturating_sub(7))));
        }
        for asked in asked_lines(*operation, inspection) {
            output.stdout.line(format_args!("  then {}", brief(&asked, width.saturating_sub(7))));
        }
        let room = width.saturating_sub(7);
        match (outcome, late_line(*operation, inspection, room)) {
            (Some(outcome), _) => output.stdout.line(format_args!("  got  {}", outcome_line(outcome, room))),
            (None, Some(late)) => output.stdout.line(format_args!("  late {late}")),
            (None, None) if inspection.summary.status.is_end() => {
                output.stdout.line("  got  nothing before the run ended");
            }
            (None, None) => output.stdout.line("  got  nothing yet"),
        }
        if let Some(Outcome::ToolReturned(returned)) = outcome {
            for note in returned.notes() {
                let line = format!("{} {}: {}", note.level, note.action, note.text);
                output.stdout.line(format_args!("  log  {}", brief(&line, width.saturating_sub(7))));
            }
        }
    }
}

/// What became of an operation after its run had ended, as far as the journal knows.
fn late_line(operation: OperationId, inspection: &Inspection, width: usize) -> Option<String> {
    let mut records = inspection.records.iter().rev().filter(|record| record.operation == Some(operation));
    records.find_map(|record| match &record.body {
        Body::Late { outcome: Outcome::Failed(failure), .. }
            if failure.code == FailureCode::Indeterminate =>
        {
            Some(brief(&format!("in doubt: {}", failure.message), width))
        }
        Body::Late { outcome, by, .. } => {
            let by = by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
            Some(brief(&format!("{}{by}", outcome_line(outcome, width)), width))
        }
        _ => None,
    })
}

/// What the journal says of the task that a tool's server made of an operation: of the last one, where there were several.
fn task_line(operation: OperationId, inspection: &Inspection) -> Option<String> {
    let mut records = inspection.records.iter().rev().filter(|record| record.operation == Some(operation));
    records.find_map(|record| match &record.body {
        Body::Tasked { server, task, expires_at, .. } => {
            let until = expires_at.map(|at| format!(", kept until {}", time(at)));
            Some(format!("`{task}` at `{server}`{}", until.unwrap_or_default()))
        }
        _ => None,
    })
}

/// What tools said of an operation that was in doubt, and what people answered.
fn asked_lines(operation: OperationId, inspection: &Inspection) -> Vec<String> {
    let records = inspection.records.iter().filter(|record| record.operation == Some(operation));
    let lines = records.filter_map(|record| match &record.body {
        Body::Verified { tries: 0, .. } => None,
        Body::Verified { tool, tries, evidence, result, error } => {
            let why = match (error, result) {
                (Some(error), _) => format!(": {error}"),
                (None, Some(result)) => format!(", by {}", gist(result)),
                (None, None) => String::new(),
            };
            let times = count(u64::from(*tries), "time");
            Some(format!("in doubt; `{tool}` was asked {times}: {}{why}", text::evidence(*evidence)))
        }
        Body::Answered { answer } => answer_line(answer),
        _ => None,
    });
    lines.collect()
}

/// What somebody answered, and who, as far as the outcome does not say it.
fn answer_line(answer: &Answer) -> Option<String> {
    let (word, by, more) = match answer {
        Answer::Approved { edited, reason, by } => {
            let edited = match edited {
                Some(Verdict::Valid { arguments }) => format!(" with other arguments: {}", gist(arguments)),
                _ => String::new(),
            };
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            ("approved", by, format!("{reason}{edited}"))
        }
        Answer::Denied { by, .. } => ("denied", by, String::new()),
        Answer::Done { error: None, by, .. } => ("in doubt; settled: it took place", by, String::new()),
        Answer::Done { by, .. } => ("in doubt; settled: it was refused", by, String::new()),
        Answer::NotDone { by } => ("in doubt; settled: it did not take place", by, String::new()),
        Answer::Given { by, .. } | Answer::Supplied { by, .. } if by.is_some() => {
            ("answered", by, String::new())
        }
        _ => return None,
    };
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    Some(format!("{word}{by}{more}"))
}

/// What a request says beyond its label.
fn request_line(request: &Request) -> String {
    match request {
        Request::ModelCompletion(completion) => format!("with {}", count(completion.entries, "message")),
        Request::MemorySearch(search) => format!("for {}", search.query),
        Request::MemoryCreate(create) => format!("{}: {}", create.entity, create.content),
        Request::MemoryTraverse(walk) => {
            let relation = walk.relation.as_deref().map(|relation| format!(" along {relation}"));
            format!("from {}{}", walk.from, relation.unwrap_or_default())
        }
        Request::AgentCall(call) if call.data.is_null() => call.text.clone(),
        Request::AgentCall(call) => format!("{} {}", call.text, gist(&call.data)),
        Request::Input(input) => input.question.clone(),
        Request::Timer(timer) => format!("until {}", time(timer.until)),
        Request::ToolCall(call) => gist(&call.parameters),
        Request::ApiCall(call) => call.body.as_ref().map_or_else(String::new, |body| gist(&body.value)),
        Request::Email(mail) => mail.subject.clone(),
    }
}

fn end(inspection: &Inspection, output: &mut Output) {
    if let Some(divergence) = &inspection.divergence {
        let word = Words::from("\n").and(styled(Style::Red, "diverged"));
        output.stdout.line(word.and(format_args!(" at {divergence}")));
    }
    let Some(response) = &inspection.response else { return };
    output.stdout.line(format_args!("\n{}{}", document::end(response.status), wish(inspection)));
    if let Some(error) = &response.error {
        output.stdout.line(format_args!("  error[{}]: {}", error.code.as_str(), error.message));
        output.stdout.line(format_args!("  help: {}", error.help));
    }
    if let Some(answer) = response.answer.as_deref().filter(|answer| !answer.is_empty()) {
        for line in answer.lines() {
            output.stdout.prose(format!("  {line}").trim_end());
            output.stdout.write("\n");
        }
    }
}

/// Who wanted a run to end, and why, as far as they said it.
fn wish(inspection: &Inspection) -> String {
    let said = inspection.records.iter().rev().find_map(|record| match &record.body {
        Body::Signalled { signal: Signal::Cancel, by, reason } => Some((by, reason)),
        _ => None,
    });
    let Some((by, reason)) = said else { return String::new() };
    let by = by.as_ref().map(|by| format!(" by {}", by)).unwrap_or_default();
    let reason = reason.as_ref().map(|reason| format!(": {}", reason)).unwrap_or_default();
    format!("{by}{reason}")
}
