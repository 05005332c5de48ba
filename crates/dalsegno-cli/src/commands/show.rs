//! `dalsegno show`: what happened in a run, what the agent knew, and why.

use std::time::{Duration, Instant};

use dalsegno_core::{RunId, Signal};
use dalsegno_history::{Inspection, Journal, StepView};
use dalsegno_store::{Body, RunStatus, RunSummary};
use dalsegno_wire::{ErasedRun, Lineage, Shown, end as end_word};
use tokio::time::sleep;

use super::carry::signed;
use super::{Context, select};
use crate::args::{Format, ShowArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::output::Output;
use crate::render::steps::{Detail, History, step};
use crate::render::text::{Style, Words, brief, count, gist, short, styled, time, wrapped};
use crate::render::{dialogue, ending, lineage as origin, prompt};

/// How often `--follow` looks whether something was recorded.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn show(args: &ShowArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let kept = context.reader().await?;
    let (journal, run) = select::run_anywhere(kept, &args.run).await?;
    match whole(args, run, &journal, context).await {
        Err(error) if error.is_erased() => erased(run, &journal, context).await,
        told => told,
    }
}

async fn whole(
    args: &ShowArgs,
    run: RunId,
    journal: &Journal,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    if args.follow {
        return follow(args, run, journal, context).await;
    }
    let inspection = journal.inspect(run, args.step).await?;
    let steps = inspection.steps.iter().map(|view| view.step).max().unwrap_or_default();
    if let Some(step) = args.step
        && !(1..=steps).contains(&step)
    {
        return Err(Error::UnknownStep { run: short(run), step, steps });
    }
    let only = args.op.as_deref().map(|op| select::operation_of(&inspection, op)).transpose()?;
    if args.prompt {
        let Some(found) = journal.prompt(run, args.step, only).await? else {
            return Err(Error::NoPrompt { run: short(run), step: args.step, operation: only.map(short) });
        };
        match context.format {
            Format::Json => context.output.document(&prompt::Document::of(run, &found)),
            Format::Text | Format::Jsonl => {
                prompt::show(&found, prompt::Marked::NONE, &mut context.output.stdout);
            }
        }
        return Ok(Exit::Done);
    }
    let lineage = Lineage::of(&inspection, journal).await;
    let output = &mut *context.output;
    let is_full = args.full || only.is_some();
    if context.format == Format::Json {
        let shown = Shown::of(&inspection, lineage, args.state, args.step);
        let shown = shown.with_call(journal.moments(run).await?);
        output.document(&if is_full { shown.with_operations(&inspection, args.step, only) } else { shown });
        return Ok(Exit::Done);
    }
    header(&inspection, &lineage, output);
    call(run, journal, output).await?;
    let history = History::of(&inspection);
    let detail = if is_full { Detail::Full } else { Detail::Lines };
    let is_meant = |view: &StepView| {
        let has = |id| view.operations.iter().any(|one| one.operation == id);
        args.step.is_none_or(|step| view.step == step) && only.is_none_or(has)
    };
    for view in inspection.steps.iter().filter(|view| is_meant(view)) {
        step(view, &history, detail, only, &mut output.stdout);
    }
    let is_whole = args.step.is_none() && only.is_none();
    if is_whole {
        end(&inspection, output);
    }
    if args.state {
        output.stdout.line("\nstate");
        output.document(&inspection.state);
    }
    if is_whole && !inspection.summary.status.is_end() && inspection.summary.foreign.is_none() {
        ending::waiting(&short(run), &inspection.waiting, context.named, output);
        interrupted(&inspection, journal, output);
    }
    Ok(Exit::Done)
}

/// Shows what the journal keeps of a run whose content was erased.
async fn erased(run: RunId, journal: &Journal, context: &mut Context<'_>) -> Result<Exit, Error> {
    let summary = journal.summary(run).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&ErasedRun::of(&summary));
        return Ok(Exit::Done);
    }
    output.stdout.line(Words::from("run ").and(styled(Style::Bold, summary.run)));
    let facts = [time(summary.started_at), count(summary.records, "record")];
    output.stdout.line(format_args!("{} · {} · {}", summary.agent, summary.status, facts.join(" · ")));
    belongs(&summary, output);
    output.stdout.line(format_args!("last record: {}", time(summary.updated_at)));
    let gone = "erased: content of this run was erased for ever, so its steps cannot be shown; this is what the journal keeps";
    for line in wrapped(gone, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

/// Shows what was said and done in a call, each turn with its number.
async fn call(run: RunId, journal: &Journal, output: &mut Output) -> Result<(), Error> {
    let moments = journal.moments(run).await?;
    if !moments.is_empty() {
        output.stdout.line("\ncall");
    }
    dialogue::timeline(&moments, &mut output.stdout);
    Ok(())
}

/// Shows the tenant and the session of a run, where they are not the default.
fn belongs(summary: &RunSummary, output: &mut Output) {
    if summary.tenant != dalsegno_core::AgentRequest::text("").tenant {
        output.stdout.line(format_args!("tenant: {}", summary.tenant));
    }
    // A run without a session has one of its own, with the name of the run.
    if summary.session != summary.run.to_string() {
        output.stdout.line(format_args!("session: {}", summary.session));
    }
}

/// Shows all steps of a run.
pub(super) async fn tell(journal: &Journal, run: RunId, context: &mut Context<'_>) -> Result<(), Error> {
    let inspection = journal.inspect(run, None).await?;
    let lineage = Lineage::of(&inspection, journal).await;
    let output = &mut *context.output;
    header(&inspection, &lineage, output);
    call(run, journal, output).await?;
    let history = History::of(&inspection);
    for view in &inspection.steps {
        step(view, &history, Detail::Lines, None, &mut output.stdout);
    }
    end(&inspection, output);
    Ok(())
}

/// Shows the steps of a run as they are finished, until it ends, waits or is performed by no process.
async fn follow(
    args: &ShowArgs,
    run: RunId,
    journal: &Journal,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let detail = if args.full { Detail::Full } else { Detail::Lines };
    let mut shown = None;
    let mut known = 0;
    loop {
        let summary = journal.summary(run).await?;
        let is_still = summary.status != RunStatus::Running || !journal.is_performed(&summary);
        let begun = Instant::now();
        if summary.records > known || is_still {
            known = summary.records;
            let inspection = journal.inspect(run, None).await?;
            // What was recorded since then is seen at the next look.
            let is_still = is_still && inspection.summary.records == known;
            if context.format == Format::Text {
                let lineage = Lineage::of(&inspection, journal).await;
                let output = &mut *context.output;
                let first = *shown.get_or_insert_with(|| {
                    header(&inspection, &lineage, output);
                    0
                });
                // The last step is shown when all of it is known, or nothing more comes.
                let ready = inspection.steps.len() - usize::from(!is_still && !inspection.steps.is_empty());
                let history = History::of(&inspection);
                for view in inspection.steps.iter().take(ready).skip(first) {
                    step(view, &history, detail, None, &mut output.stdout);
                }
                shown = Some(ready.max(first));
                output.stdout.flush();
            }
            if is_still {
                return stands(&inspection, journal, context).await;
            }
        }
        if context.output.stdout.is_closed() {
            return Ok(Exit::Done);
        }
        // A long run takes a while to read: most of the time is left to its process.
        sleep(LOOK.max(begun.elapsed() * 2)).await;
    }
}

/// Tells where a run stands that was followed.
async fn stands(
    inspection: &Inspection,
    journal: &Journal,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    if context.format == Format::Json {
        let lineage = Lineage::of(inspection, journal).await;
        context.output.document(&Shown::of(inspection, lineage, false, None));
    } else {
        end(inspection, context.output);
    }
    let summary = &inspection.summary;
    Ok(match summary.status {
        RunStatus::Suspended => {
            ending::waiting(&short(summary.run), &inspection.waiting, context.named, context.output);
            Exit::Suspended
        }
        RunStatus::Running => {
            interrupted(inspection, journal, context.output);
            Exit::Interrupted
        }
        RunStatus::Completed | RunStatus::HandedOff => Exit::Done,
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::Abandoned => Exit::Failed,
    })
}

/// Says that no process performs a run, if so.
fn interrupted(inspection: &Inspection, journal: &Journal, output: &mut Output) {
    let summary = &inspection.summary;
    if summary.status == RunStatus::Running && !journal.is_performed(summary) {
        let run = short(summary.run);
        output.note(format_args!("no process performs it: a worker resumes it, or `dalsegno resume {run}`"));
    }
}

fn header(inspection: &Inspection, lineage: &Lineage, output: &mut Output) {
    let Inspection { summary, state, response, .. } = inspection;
    let width = output.stdout.terminal.room;
    let mut facts = vec![time(summary.started_at), count(summary.records, "record")];
    // Of a run that has ended, the whole use, whichever step is shown.
    facts.extend(ending::usage(response.as_ref().map_or_else(|| state.usage(), |response| response.usage)));
    output.stdout.line(Words::from("run ").and(styled(Style::Bold, summary.run)));
    output.stdout.line(format_args!("{} · {} · {}", summary.agent, summary.status, facts.join(" · ")));
    if let Some(pause) = &inspection.paused {
        output.stdout.line(ending::paused(pause));
    }
    origin::tell(lineage, output);
    belongs(summary, output);
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

fn end(inspection: &Inspection, output: &mut Output) {
    if let Some(divergence) = &inspection.divergence {
        let word = Words::from("\n").and(styled(Style::Red, "diverged"));
        output.stdout.line(word.and(format_args!(" at {divergence}")));
    }
    let Some(response) = &inspection.response else { return };
    output.stdout.line(format_args!("\n{}{}", end_word(response.status), wish(inspection)));
    if let Some(error) = &response.error {
        entry_below(&format!("error[{}]: {}", error.code.as_str(), error.message), output);
        entry_below(&format!("help: {}", error.help), output);
    }
    if let Some(answer) = response.answer.as_deref().filter(|answer| !answer.is_empty()) {
        for line in answer.lines() {
            output.stdout.prose(format!("  {line}").trim_end());
            output.stdout.write("\n");
        }
    }
}

/// Writes a text that is read to its end, in lines that fit.
fn entry_below(text: &str, output: &mut Output) {
    let room = output.stdout.terminal.room.saturating_sub(2);
    for line in wrapped(text, room) {
        output.stdout.line(format_args!("  {line}"));
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
