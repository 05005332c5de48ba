//! `dalsegno resume`: answers what a run waits for, or goes on with an interrupted one.

use std::path::Path;

use dalsegno_core::{Gate, OperationId, RunId};
use dalsegno_history::WaitingOperation;
use dalsegno_runtime::{Engine, EngineError, GateInput, Settlement};
use dalsegno_store::AcquireError;
use dalsegno_wire::Events;

use super::{Context, consent, follow, select};
use crate::args::{Format, ResumeArgs, SettlementArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::ending;
use crate::render::text::short;

pub(super) async fn resume(args: &ResumeArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let settlement = settlement(&args.settlement, args.edit.as_deref())?;
    let lonely = [("op", args.op.is_some()), ("shown", args.shown.is_some())];
    if let Some((option, _)) = lonely.into_iter().find(|(_, given)| *given && settlement.is_none()) {
        return Err(Error::WithoutAnswer { option });
    }
    let engine = context.performer().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    let mut follow = follow::Follow::begin(context)?.with_tokens(args.events.tokens);
    follow.goes_on(context.output);
    let mut events = Events::new(run);
    let mut meant = Meant::default();
    let approves = matches!(settlement, Some(Settlement::Approve { .. }));
    // A long run takes a while to read, so it is read only for those who need it.
    if approves || lonely.iter().any(|(_, given)| *given) || follow.needs_history(context) {
        let before = engine.journal().inspect(run, None).await?;
        let waiting = &before.waiting;
        meant.operation = args.op.as_deref().map(|op| select::operation(run, op, waiting)).transpose()?;
        if let Some(shown) = args.shown.as_deref().filter(|_| !waiting.is_empty()) {
            meant = named(shown, run, &meant, waiting, context)?;
        } else if let Some(settlement) = settlement.as_ref().filter(|_| approves) {
            match agree(args, settlement, meant, waiting, context)? {
                Some(agreed) => meant = agreed,
                None => return Ok(Exit::Suspended),
            }
        }
        follow.catch_up(&before.records, &mut events);
    }
    let mut answers = answers(settlement, meant, args.settlement.by.as_deref());
    let was_paused = engine.is_paused(run).await?;
    if was_paused {
        // A run whose answer does not fit stays paused.
        if !answers.is_empty() {
            engine.pass_on(run, std::mem::take(&mut answers)).await?;
        }
        engine.unpause(run, args.settlement.by.clone()).await?;
    }
    let begun = follow.until_begun(engine.resume(run, answers.clone())).await;
    let handle = match begun {
        // A worker performs it, or another command.
        Err(Error::Engine(EngineError::Acquire(AcquireError::Owned { .. }))) if !answers.is_empty() => {
            engine.pass_on(run, answers).await?;
            return Ok(follow::passed_on(run, "answer", "passed_on", context));
        }
        Err(Error::Engine(EngineError::Acquire(AcquireError::Owned { .. }))) if was_paused => {
            return Ok(follow::passed_on(run, "resume", "requested", context));
        }
        begun => begun?,
    };
    let exit = follow.until_over(&engine, handle, events, context).await?;
    if matches!(exit, Exit::Done | Exit::Failed) {
        tell_parent(run, &engine, context).await;
    }
    Ok(exit)
}

/// Says that another run waits for the one that has just ended, if one does.
async fn tell_parent(run: RunId, engine: &Engine, context: &mut Context<'_>) {
    let Ok(ended) = engine.journal().inspect(run, None).await else { return };
    let Some(parent) = ended.summary.parent else { return };
    if engine.journal().inspect(parent, None).await.is_ok_and(|above| !above.summary.status.is_end()) {
        let parent = short(parent);
        context.output.note(format_args!(
            "run {parent} waits for it: a worker resumes that one, or `dalsegno resume {parent}`"
        ));
    }
}

/// What an answer is about.
#[derive(Default)]
struct Meant {
    /// None where the run waits for one only.
    operation: Option<OperationId>,
    /// What it waited for when whoever answers looked, if they say so.
    seen: Option<Gate>,
}

impl Meant {
    fn of(one: &WaitingOperation) -> Self {
        Self { operation: Some(one.operation), seen: Some(one.gate.clone()) }
    }

    fn allows(&self, one: &WaitingOperation) -> bool {
        self.operation.is_none_or(|operation| operation == one.operation)
    }
}

/// Finds the operation that `--shown` names, as it was when it was shown.
fn named(
    shown: &str,
    run: RunId,
    meant: &Meant,
    waiting: &[WaitingOperation],
    context: &mut Context<'_>,
) -> Result<Meant, Error> {
    let shown = shown.to_ascii_lowercase();
    if let Some(one) = waiting.iter().find(|one| meant.allows(one) && one.shown() == shown) {
        return Ok(Meant::of(one));
    }
    if context.format == Format::Text {
        ending::waiting(&short(run), waiting, context.named, context.output);
    }
    Err(Error::ShownOther { what: "what waits", option: "--shown" })
}

/// Finds the operation that is approved: the one that a person agrees to who is there and has just seen it. None when a
/// person said no more than that they do not agree.
fn agree(
    args: &ResumeArgs,
    settlement: &Settlement,
    meant: Meant,
    waiting: &[WaitingOperation],
    context: &mut Context<'_>,
) -> Result<Option<Meant>, Error> {
    let open: Vec<&WaitingOperation> =
        waiting.iter().filter(|one| one.gate == Gate::Approval && meant.allows(one)).collect();
    // The engine tells that it waits for no such answer, or which ones there are.
    let [one] = open.as_slice() else { return Ok(Some(meant)) };
    if context.format == Format::Text {
        ending::question(one, &mut context.output.stderr);
    }
    if let Settlement::Approve { edited: Some(edited), .. } = settlement
        && context.format == Format::Text
    {
        context.output.note("with these arguments in their place:");
        ending::arguments(edited, &mut context.output.stderr);
    }
    let asked = if context.format == Format::Text && args.edit.as_deref() != Some(Path::new("-")) {
        consent::ask("approve it?", context.output)
    } else {
        None
    };
    match asked {
        Some(true) => Ok(Some(Meant::of(one))),
        Some(false) => {
            context.output.note("nothing was answered: it still waits");
            Ok(None)
        }
        None => Err(Error::NotShown { operation: short(one.operation), shown: one.shown() }),
    }
}

fn answers(settlement: Option<Settlement>, meant: Meant, by: Option<&str>) -> Vec<GateInput> {
    let Meant { operation, seen } = meant;
    let answer = |settlement| GateInput { operation, seen, settlement, by: by.map(str::to_owned) };
    settlement.map(answer).into_iter().collect()
}

/// What somebody answers; `None` to go on without an answer.
pub(super) fn settlement(args: &SettlementArgs, edit: Option<&Path>) -> Result<Option<Settlement>, Error> {
    if args.approve {
        let edited = edit.map(input::json_file).transpose()?;
        return Ok(Some(Settlement::Approve { edited, reason: args.reason.clone() }));
    }
    if args.deny {
        return Ok(Some(Settlement::Deny { reason: args.reason.clone() }));
    }
    if let Some(answer) = &args.answer {
        let value = serde_json::Value::String(input::text(answer)?);
        return Ok(Some(Settlement::Give { value }));
    }
    match args.outcome.as_deref() {
        Some("happened") => Ok(Some(Settlement::Done { result: None })),
        Some("not-happened") => Ok(Some(Settlement::NotDone)),
        Some(other) => match other.strip_prefix('@') {
            Some(file) => Ok(Some(Settlement::Done { result: Some(input::result(file)?) })),
            None => match other.strip_prefix("refused:").map(str::trim) {
                Some(error) if !error.is_empty() => Ok(Some(Settlement::Refused { error: error.to_owned() })),
                _ => Err(Error::NotAnAnswer { given: other.to_owned() }),
            },
        },
        None => {
            let lonely = [("reason", args.reason.is_some()), ("by", args.by.is_some())];
            match lonely.into_iter().find(|(_, given)| *given) {
                Some((option, _)) => Err(Error::WithoutAnswer { option }),
                None => Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Verb};

    fn parsed(line: &str) -> Result<Option<Settlement>, Error> {
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        match args.verb {
            Verb::Resume(args) => settlement(&args.settlement, args.edit.as_deref()),
            _ => unreachable!("the line is a resume"),
        }
    }

    #[test]
    fn the_options_say_the_answer() {
        let reason = Some("Friday".to_owned());
        assert_eq!(
            parsed("dalsegno resume last --approve").unwrap(),
            Some(Settlement::Approve { edited: None, reason: None })
        );
        assert_eq!(
            parsed("dalsegno resume last --deny --reason Friday").unwrap(),
            Some(Settlement::Deny { reason })
        );
        assert_eq!(parsed("dalsegno resume last --outcome not-happened").unwrap(), Some(Settlement::NotDone));
        assert_eq!(
            parsed("dalsegno resume last --outcome happened").unwrap(),
            Some(Settlement::Done { result: None })
        );
        assert_eq!(
            parsed("dalsegno resume last --outcome refused:duplicate").unwrap(),
            Some(Settlement::Refused { error: "duplicate".to_owned() })
        );
        assert!(matches!(parsed("dalsegno resume last --outcome refused:"), Err(Error::NotAnAnswer { .. })));
        assert_eq!(parsed("dalsegno resume last").unwrap(), None);
    }

    #[test]
    fn an_option_without_its_answer_is_refused() {
        assert!(matches!(parsed("dalsegno resume last --by me"), Err(Error::WithoutAnswer { option: "by" })));
        assert!(matches!(parsed("dalsegno resume last --outcome maybe"), Err(Error::NotAnAnswer { .. })));
    }
}
