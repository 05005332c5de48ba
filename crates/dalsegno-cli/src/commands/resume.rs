//! `dalsegno resume`: answers what a run waits for, or goes on with an interrupted one.

use std::path::Path;

use dalsegno_core::OperationId;
use dalsegno_runtime::{EngineError, GateInput, Settlement};
use dalsegno_store::AcquireError;

use super::{Context, follow, select};
use crate::args::{ResumeArgs, SettlementArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::journal::Events;

pub(super) async fn resume(args: &ResumeArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let settlement = settlement(&args.settlement, args.edit.as_deref())?;
    if settlement.is_none() && args.op.is_some() {
        return Err(Error::WithoutAnswer { option: "op" });
    }
    let engine = context.performer().await?;
    let run = select::run(&engine, &args.run).await?;
    let mut follow = follow::Follow::begin(context)?;
    let mut events = Events::new(run);
    let mut operation = None;
    // A long run takes a while to read, so it is read only for those who need it.
    if args.op.is_some() || follow.needs_history(context) {
        let before = engine.inspect(run, None).await?;
        operation = args.op.as_deref().map(|op| select::operation(run, op, &before.waiting)).transpose()?;
        follow.catch_up(&before.records, &mut events);
    }
    let answers = answers(settlement, operation, args.settlement.by.as_deref());
    let begun = follow.until_begun(engine.resume(run, answers.clone())).await;
    let handle = match begun {
        // A worker performs it, or another command.
        Err(Error::Engine(EngineError::Acquire(AcquireError::Owned { .. }))) if !answers.is_empty() => {
            engine.pass_on(run, answers).await?;
            return Ok(follow::passed_on(run, "answer", "passed_on", context));
        }
        begun => begun?,
    };
    follow.until_over(&engine, handle, events, context).await
}

fn answers(
    settlement: Option<Settlement>,
    operation: Option<OperationId>,
    by: Option<&str>,
) -> Vec<GateInput> {
    let answer = |settlement| GateInput { operation, seen: None, settlement, by: by.map(str::to_owned) };
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
    if let Some(reply) = &args.reply {
        let value = serde_json::Value::String(input::text(reply)?);
        return Ok(Some(Settlement::Give { value }));
    }
    match args.answer.as_deref() {
        Some("done") => Ok(Some(Settlement::Done { result: None })),
        Some("not-done") => Ok(Some(Settlement::NotDone)),
        Some(other) => match other.strip_prefix('@') {
            Some(file) => Ok(Some(Settlement::Done { result: Some(input::result(file)?) })),
            None => Err(Error::NotAnAnswer { given: other.to_owned() }),
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
        assert_eq!(parsed("dalsegno resume last --answer not-done").unwrap(), Some(Settlement::NotDone));
        assert_eq!(
            parsed("dalsegno resume last --answer done").unwrap(),
            Some(Settlement::Done { result: None })
        );
        assert_eq!(parsed("dalsegno resume last").unwrap(), None);
    }

    #[test]
    fn an_option_without_its_answer_is_refused() {
        assert!(matches!(parsed("dalsegno resume last --by me"), Err(Error::WithoutAnswer { option: "by" })));
        assert!(matches!(parsed("dalsegno resume last --answer maybe"), Err(Error::NotAnAnswer { .. })));
    }
}
