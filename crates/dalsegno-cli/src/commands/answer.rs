//! `dalsegno answer`: answers what many runs wait for.

use dalsegno_core::{OperationId, RunId};
use dalsegno_runtime::{EngineError, GateInput};
use dalsegno_store::{RunFilter, Waiting};
use serde_json::json;

use super::{Context, resume};
use crate::args::{AnswerArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::table::table;
use crate::render::text::{count, harmless, short};

/// An operation that is to be answered.
struct Open {
    run: RunId,
    agent: String,
    operation: OperationId,
    question: String,
}

pub(super) async fn answer(args: &AnswerArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Some(settlement) = resume::settlement(&args.settlement, None)? else { return Err(Error::NoAnswer) };
    let engine = context.engine().await?;
    let waiting = Waiting::from(args.waiting);
    let filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        waiting: Some(waiting),
        limit: u32::MAX,
        ..RunFilter::default()
    };
    let (mut open, mut answered) = (Vec::new(), 0);
    for summary in engine.runs(&filter).await? {
        let inspection = engine.inspect(summary.run, None).await?;
        // A child run is in the list itself.
        let own = inspection.waiting.into_iter().filter(|one| one.run == summary.run);
        let meant = own
            .filter(|one| one.kind() == waiting.as_str() && (args.tool.is_none() || one.tool == args.tool));
        for one in meant {
            if args.yes {
                let input = GateInput {
                    operation: Some(one.operation),
                    seen: Some(one.gate.clone()),
                    settlement: settlement.clone(),
                    by: args.settlement.by.clone(),
                };
                match engine.pass_on(summary.run, vec![input]).await {
                    Ok(()) => answered += 1,
                    // Somebody else was faster.
                    Err(EngineError::Ended { .. }) => continue,
                    // What does not fit one of them may fit the others.
                    Err(error @ EngineError::Answer { .. }) => {
                        let told = harmless(&error.to_string());
                        context.output.note(format_args!("run {}: {told}", short(summary.run)));
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let (operation, question) = (one.operation, one.question);
            open.push(Open { run: summary.run, agent: summary.agent.to_string(), operation, question });
        }
    }
    show(&open, answered, args.yes, context);
    Ok(Exit::Done)
}

fn show(open: &[Open], answered: u64, yes: bool, context: &mut Context<'_>) {
    let output = &mut *context.output;
    if context.format == Format::Json {
        let operations = open
            .iter()
            .map(|one| json!({ "run_id": one.run, "operation": one.operation, "question": one.question }));
        let operations: Vec<_> = operations.collect();
        output.document(&json!({ "answered": answered, "operations": operations }));
        return;
    }
    let row = |one: &Open| [short(one.run), short(one.operation), one.agent.clone(), one.question.clone()];
    let rows: Vec<_> = open.iter().map(row).collect();
    if !rows.is_empty() {
        for line in table(["RUN", "OPERATION", "AGENT", "QUESTION"], &rows, output.stdout.terminal.width) {
            output.stdout.line(line);
        }
    }
    if yes {
        let told = count(answered, "operation");
        output.note(format_args!("{told} answered: a worker goes on, or `dalsegno resume RUN`"));
    } else {
        let told = count(open.len() as u64, "operation");
        output.note(format_args!("{told} would be answered: `--yes` does it"));
    }
}
