//! Follows a run: tells its events, passes on wishes to stop, and tells how it stands in the end.

use std::process;
use std::time::Instant;

use dalsegno_core::{Gate, Outcome, RunId};
use dalsegno_runtime::{
    Engine, EngineError, GateInput, RunEnd, RunEvent, RunHandle, RunReport, Settlement, WaitingOperation,
};
use dalsegno_store::Record;
use dalsegno_wire::{Entry, Events};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Context, consent};
use crate::args::Format;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ending;
use crate::render::output::Output;
use crate::render::progress::{self, Progress};
use crate::render::spinner::Spinner;
use crate::render::text::short;
use crate::signal::Signals;

/// Somebody who follows a run.
pub(super) struct Follow {
    begun: Instant,
    signals: Signals,
    progress: Progress,
    /// A wish to stop was passed on.
    stopping: bool,
    /// There was a wish to stop, at any time.
    wished: bool,
    /// The model's text is written as it arrives, where events are.
    tokens: bool,
    /// Words of a call as they are spoken, if it has some.
    spoken: Option<UnboundedReceiver<String>>,
}

impl Follow {
    /// Begins before the run does, so that no wish to stop is missed.
    pub(super) fn begin(context: &Context<'_>) -> Result<Self, Error> {
        let signals = Signals::listen().map_err(|source| Error::Signals { source })?;
        let progress = Progress::new(context.verbose, context.format == Format::Text, context.output);
        Ok(Self {
            begun: Instant::now(),
            signals,
            progress,
            stopping: false,
            wished: false,
            tokens: false,
            spoken: None,
        })
    }

    /// The same with the model's text among the events, if that is wanted.
    pub(super) fn with_tokens(self, tokens: bool) -> Self {
        Self { tokens, ..self }
    }

    /// The same with the words of a call as they are spoken.
    pub(super) fn with_spoken(self, spoken: Option<UnboundedReceiver<String>>) -> Self {
        Self { spoken, ..self }
    }

    /// Says whether it needs to know what earlier processes recorded.
    pub(super) fn needs_history(&self, context: &Context<'_>) -> bool {
        self.progress.tells_lines() || context.format == Format::Jsonl
    }

    /// Takes note of all that earlier processes recorded, so that only what is new is told.
    pub(super) fn catch_up(&mut self, records: &[Record], events: &mut Events) {
        self.progress.remember(records);
        for record in records {
            events.event(record.into());
        }
    }

    /// Waits for a wish to stop.
    pub(super) async fn wished(&mut self) {
        self.signals.next().await;
    }

    /// Waits for the run to begin; a wish to stop gives it up.
    pub(super) async fn until_begun(
        &mut self,
        begins: impl Future<Output = Result<RunHandle, EngineError>>,
    ) -> Result<RunHandle, Error> {
        tokio::select! {
            handle = begins => Ok(handle?),
            () = self.signals.next() => Err(Error::Stopped),
        }
    }

    /// Waits for the run to begin, whatever is wished: it may be written down already, and nobody would know of it. A wish
    /// to stop interrupts it as soon as it has begun; the second one gives it up.
    pub(super) async fn until_surely_begun(
        &mut self,
        begins: impl Future<Output = Result<RunHandle, EngineError>>,
        output: &mut Output,
    ) -> Result<RunHandle, Error> {
        let mut begins = std::pin::pin!(begins);
        let mut wished = false;
        loop {
            tokio::select! {
                handle = &mut begins => {
                    let handle = handle?;
                    if wished {
                        handle.interrupt();
                        self.stopping = true;
                    }
                    return Ok(handle);
                }
                () = self.signals.next() => {
                    self.wished = true;
                    if std::mem::replace(&mut wished, true) {
                        return Err(Error::Stopped);
                    }
                    output.note("stopping as soon as it is written down; once more stops at once");
                }
            }
        }
    }

    /// Follows the run until its process may let go of it.
    pub(super) async fn until_over(
        mut self,
        engine: &Engine,
        handle: RunHandle,
        mut events: Events,
        context: &mut Context<'_>,
    ) -> Result<Exit, Error> {
        let mut handle = handle;
        loop {
            let report = self.until_let_go(engine, handle, &mut events, context).await?;
            let exit = self.end(&report, engine, &mut events, context).await?;
            let RunEnd::Suspended { waiting, .. } = &report.end else { return Ok(exit) };
            match self.approvals(waiting, context).await {
                Some(answers) => handle = self.until_begun(engine.resume(report.run, answers)).await?,
                None => return Ok(exit),
            }
        }
    }

    /// Asks a person at a terminal for the approvals that were just shown in full. None where no person is there or one of them
    /// is not given: everything waits then.
    async fn approvals(
        &mut self,
        waiting: &[WaitingOperation],
        context: &mut Context<'_>,
    ) -> Option<Vec<GateInput>> {
        let are_approvals = waiting.iter().all(|one| one.gate == Gate::Approval);
        if context.format != Format::Text || waiting.is_empty() || !are_approvals {
            return None;
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for one in waiting {
            let question = match waiting {
                [_] => "approve it now?".to_owned(),
                _ => format!("approve operation {} now?", short(one.operation)),
            };
            let answer = consent::question(&question, context.output)?;
            let is_agreed = tokio::select! {
                agreed = answer => agreed,
                () = self.signals.next() => false,
            };
            context.output.stderr.mid_line = false;
            if !is_agreed {
                context.output.note("nothing was answered: it still waits");
                return None;
            }
            answers.push(GateInput {
                operation: Some(one.operation),
                seen: Some(one.gate.clone()),
                settlement: Settlement::Approve { edited: None, reason: None },
                by: None,
            });
        }
        Some(answers)
    }

    /// Follows the run until its process may let go of it, and says how it stands.
    pub(super) async fn until_let_go(
        &mut self,
        engine: &Engine,
        mut handle: RunHandle,
        events: &mut Events,
        context: &mut Context<'_>,
    ) -> Result<RunReport, Error> {
        let run = handle.run();
        let mut spinner = Spinner::new(context);
        loop {
            tokio::select! {
                event = handle.next_event() => {
                    spinner.clear(context.output);
                    match event {
                        Some(event) => self.tell(&event, engine, events, context).await?,
                        None => break,
                    }
                }
                () = self.signals.next() => {
                    spinner.clear(context.output);
                    self.stop(run, context.output);
                    handle.interrupt();
                }
                word = next_word(&mut self.spoken) => {
                    spinner.clear(context.output);
                    match word {
                        Some(word) => self.progress.speaks(&word, context.output),
                        None => self.spoken = None,
                    }
                }
                () = spinner.turn() => spinner.draw(self.progress.under_way(), context.output),
            }
        }
        let mut finish = std::pin::pin!(handle.finish());
        loop {
            tokio::select! {
                report = &mut finish => {
                    self.stopping = false;
                    return Ok(report?);
                }
                // Nothing is left to interrupt: the next wish ends the process.
                () = self.signals.next() => self.stop(run, context.output),
            }
        }
    }

    /// Waits for a wish to stop.
    pub(super) async fn wish(&mut self) {
        self.signals.next().await;
        self.wished = true;
    }

    /// Says whether to stop altogether, and not only what was under way: at the wish of another program, or at any wish
    /// where no person types.
    pub(super) fn ends(&self, typed: bool) -> bool {
        self.signals.is_terminated() || self.wished && !typed
    }

    async fn tell(
        &mut self,
        event: &RunEvent,
        engine: &Engine,
        events: &mut Events,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        self.progress.tell(event, context.output);
        match event {
            RunEvent::Recorded { seq, record }
                if context.format == Format::Jsonl && *seq >= events.next() =>
            {
                if *seq > events.next() {
                    // The stream fell behind: what it missed is in the journal.
                    catch_up(engine, events, context.output, *seq).await?;
                }
                let event = events.event(Entry::appended(*seq, record));
                context.output.json_line(&event);
            }
            RunEvent::HandedOff { run, .. } => {
                if context.format == Format::Jsonl {
                    catch_up(engine, events, context.output, u64::MAX).await?;
                }
                *events = Events::new(*run);
            }
            RunEvent::Delta { operation, attempt, text }
                if self.tokens && context.format == Format::Jsonl =>
            {
                context.output.json_line(&serde_json::json!({
                    "run_id": events.run(),
                    "kind": "delta",
                    "operation": operation,
                    "attempt": attempt,
                    "text": text,
                }));
                context.output.stdout.flush();
            }
            RunEvent::Recorded { .. }
            | RunEvent::Said { .. }
            | RunEvent::Delta { .. }
            | RunEvent::Unwritable { .. } => {}
        }
        Ok(())
    }

    /// The first wish interrupts the run, the second ends the process; the journal can take that.
    fn stop(&mut self, run: RunId, output: &mut Output) {
        self.wished = true;
        if std::mem::replace(&mut self.stopping, true) {
            output.note(format_args!("stopped at once: resume it with `dalsegno resume {}`", short(run)));
            process::exit(Exit::Interrupted.code().into());
        }
        output.note("stopping: what may not be repeated finishes first; once more stops at once");
    }

    async fn end(
        &self,
        report: &RunReport,
        engine: &Engine,
        events: &mut Events,
        context: &mut Context<'_>,
    ) -> Result<Exit, Error> {
        let causes = match &report.end {
            RunEnd::Ended(response) if response.error.is_some() => causes(report.run, engine).await,
            RunEnd::Ended(_) | RunEnd::Suspended { .. } | RunEnd::Paused { .. } | RunEnd::Interrupted => {
                Vec::new()
            }
        };
        match context.format {
            Format::Text => self.answer(report, context.output),
            Format::Json => context.output.document(&dalsegno_wire::Run::of(report, &causes)),
            Format::Jsonl => catch_up(engine, events, context.output, u64::MAX).await?,
        }
        Ok(ending::tell(report, &causes, self.begun.elapsed(), context.named, context.output))
    }

    /// The run began in another process, or as a part of another run: something may have been said already.
    pub(super) fn goes_on(&mut self, output: &Output) {
        self.progress.goes_on(output);
    }

    /// Another answer begins.
    pub(super) fn anew(&mut self) {
        self.progress.forget();
    }

    /// Writes what was not shown yet of the answer.
    pub(super) fn answer(&self, report: &RunReport, output: &mut Output) {
        let RunEnd::Ended(response) = &report.end else { return };
        let answer = match (&response.answer, &response.output) {
            (Some(answer), _) => answer.clone(),
            (None, Some(structured)) => structured.to_string(),
            (None, None) => return,
        };
        if output.stdout.mid_line {
            output.stdout.write("\n");
        }
        let Some(rest) = self.progress.unshown(&answer) else { return };
        if self.progress.has_said() {
            output.stdout.write("\n");
        }
        output.stdout.prose(rest.trim_end_matches('\n'));
        output.stdout.write("\n");
    }
}

/// The next word that is spoken; it never comes where nothing is.
async fn next_word(spoken: &mut Option<UnboundedReceiver<String>>) -> Option<String> {
    match spoken {
        Some(spoken) => spoken.recv().await,
        None => std::future::pending().await,
    }
}

/// The levels of child runs below each other in which causes are looked for.
const LEVELS: usize = 16;

/// What made a run fail, as the operations of its last step that failed say it; of a child run, as those of that one do.
async fn causes(run: RunId, engine: &Engine) -> Vec<String> {
    let mut next = Some(run);
    for _ in 0..LEVELS {
        let Some(run) = next.take() else { break };
        let Ok(inspection) = engine.journal().inspect(run, None).await else { break };
        let Some(step) = inspection.steps.iter().rev().find(|step| !step.operations.is_empty()) else {
            break;
        };
        let mut found = Vec::new();
        for view in &step.operations {
            match &view.outcome {
                Some(Outcome::ToolReturned(returned)) => {
                    found.extend(progress::causes(returned).map(|cause| format!("{}, {cause}", view.label)));
                }
                Some(Outcome::Failed(failure)) => {
                    found.extend(failure.detail.iter().map(|detail| format!("{}, {detail}", view.label)));
                }
                Some(Outcome::AgentReturned(returned)) if returned.error.is_some() => {
                    next = Some(returned.run);
                }
                _ => {}
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Writes the events between those that were written and `end`.
async fn catch_up(engine: &Engine, events: &mut Events, output: &mut Output, end: u64) -> Result<(), Error> {
    let inspection = engine.journal().inspect(events.run(), None).await?;
    for record in inspection.records.iter().filter(|record| record.seq < end) {
        if record.seq >= events.next() {
            let event = events.event(record.into());
            output.json_line(&event);
        }
    }
    Ok(())
}

/// Tells that the process which performs a run was told.
pub(super) fn passed_on(run: RunId, key: &str, word: &str, context: &mut Context<'_>) -> Exit {
    if context.format != Format::Text {
        context.output.document(&serde_json::json!({ "run_id": run, key: word }));
    }
    let run = short(run);
    context.output.note(format_args!(
        "run {run} belongs to another process, which was told: see `dalsegno show {run}`"
    ));
    Exit::Done
}
