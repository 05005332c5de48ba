//! `dalsegno answer`: answers what many runs wait for.

use dalsegno_core::{OperationId, Request, ToolName};
use dalsegno_runtime::{
    Engine, EngineError, GateInput, Inspection, OperationView, Settlement, WaitingOperation,
};
use dalsegno_store::{RunFilter, Waiting};
use serde_json::{Value, json};

use super::{Context, resume, select};
use crate::args::{AnswerArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{Style, count, short, styled};
use crate::render::{ending, failure};

/// An operation that is to be answered.
struct Open {
    agent: String,
    waits: WaitingOperation,
}

/// What came of the answers.
#[derive(Default)]
struct Answered {
    answered: u64,
    /// Those that did not fit their operations, with the reasons.
    refused: Vec<(WaitingOperation, String)>,
}

pub(super) async fn answer(args: &AnswerArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Some(settlement) = resume::settlement(&args.settlement, None)? else { return Err(Error::NoAnswer) };
    let waiting = Waiting::from(args.waiting);
    fits(waiting, &settlement)?;
    let engine = context.engine().await?;
    select::tenant(&engine.workspace(), engine.journal(), args.tenant.as_deref()).await?;
    let open = open(args, waiting, &engine).await?;
    let shown = WaitingOperation::all_shown(open.iter().map(|one| &one.waits));
    let Some(agreed) = &args.yes else {
        tell(&open, &shown, None, context);
        return Ok(Exit::Done);
    };
    // What came meanwhile nobody has seen.
    if !agreed.eq_ignore_ascii_case(&shown) {
        if context.format == Format::Text {
            tell(&open, &shown, None, context);
        }
        return Err(Error::ShownOther { what: "the list", option: "--yes" });
    }
    let mut done = Answered::default();
    for Open { waits, .. } in &open {
        let input = GateInput {
            operation: Some(waits.operation),
            seen: Some(waits.gate.clone()),
            settlement: settlement.clone(),
            by: args.settlement.by.clone(),
        };
        match engine.pass_on(waits.run, vec![input]).await {
            Ok(_) => done.answered += 1,
            // What does not fit one of them may fit the others.
            Err(error @ (EngineError::Answer { .. } | EngineError::Ended { .. })) => {
                done.refused.push((waits.clone(), error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    tell(&open, &shown, Some(&done), context);
    Ok(if done.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The operations that are meant, the newest run first.
async fn open(args: &AnswerArgs, waiting: Waiting, engine: &Engine) -> Result<Vec<Open>, Error> {
    let filter = RunFilter {
        agent: args.agent.clone(),
        tenant: args.tenant.clone(),
        waiting: Some(waiting),
        foreign: Some(false),
        limit: u32::MAX,
        ..RunFilter::default()
    };
    let mut open = Vec::new();
    for summary in engine.journal().runs(&filter).await? {
        let inspection = engine.journal().inspect(summary.run, None).await?;
        for waits in &inspection.waiting {
            let of_tool = || args.tool.as_ref().is_none_or(|tool| is_of(waits.operation, tool, &inspection));
            // A child run is in the list itself.
            if waits.run == summary.run && waits.kind() == waiting.as_str() && of_tool() {
                open.push(Open { agent: summary.agent.to_string(), waits: waits.clone() });
            }
        }
    }
    Ok(open)
}

/// Says whether an operation is a call of this tool, or a part of one.
fn is_of(operation: OperationId, tool: &ToolName, inspection: &Inspection) -> bool {
    let all = || inspection.steps.iter().flat_map(|step| &step.operations);
    let mut next = Some(operation);
    while let Some(view) = next.and_then(|id| all().find(|view| view.operation == id)) {
        let OperationView { request, parent, .. } = view;
        if matches!(request, Request::ToolCall(call) if call.tool_name == *tool) {
            return true;
        }
        next = *parent;
    }
    false
}

/// Refuses an answer to another question than the one that is asked for.
fn fits(waiting: Waiting, settlement: &Settlement) -> Result<(), Error> {
    let (question, help, fits) = match waiting {
        Waiting::Approval => (
            "an approval",
            "answer it with `--approve` or `--deny`",
            matches!(settlement, Settlement::Approve { .. } | Settlement::Deny { .. }),
        ),
        Waiting::Input => (
            "a question",
            "answer it with `--answer TEXT`, `--answer @FILE` or `--deny`",
            matches!(settlement, Settlement::Give { .. } | Settlement::Deny { .. }),
        ),
        Waiting::InDoubt => (
            "an operation in doubt",
            "answer it with `--outcome happened`, `--outcome not-happened`, `--outcome refused:WHY` or `--outcome @FILE`",
            matches!(settlement, Settlement::Done { .. } | Settlement::Refused { .. } | Settlement::NotDone),
        ),
        // Of these no list can be asked for.
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(Error::OtherKind { question, help }) }
}

/// Tells the operations in full, since an answer to them is an answer to all of it; or what came of the answers.
fn tell(open: &[Open], shown: &str, done: Option<&Answered>, context: &mut Context<'_>) {
    let output = &mut *context.output;
    if context.format == Format::Json {
        let operation = |WaitingOperation { run, operation, question, arguments, .. }: &WaitingOperation| json!({ "run_id": run, "operation": operation, "question": question, "arguments": arguments });
        let operations: Vec<Value> = open.iter().map(|one| operation(&one.waits)).collect();
        let refused = done.into_iter().flat_map(|done| &done.refused);
        let refused: Vec<Value> = refused
            .map(|(one, why)| json!({ "run_id": one.run, "operation": one.operation, "error": why }))
            .collect();
        output.document(&json!({
            "answered": done.map_or(0, |done| done.answered),
            "shown": shown,
            "operations": operations,
            "refused": refused,
        }));
        return;
    }
    let Some(Answered { answered, refused }) = done else {
        for Open { agent, waits } in open {
            let (run, id) = (short(waits.run), short(waits.operation));
            output.stdout.line(styled(Style::Dim, format_args!("run {run} · operation {id} · {agent}")));
            ending::question(waits, &mut output.stdout);
            output.stdout.line("");
        }
        let told = count(open.len() as u64, "operation");
        output.note(format_args!("{told} would be answered: `--yes {shown}` does it"));
        return;
    };
    for (one, why) in refused {
        output.note(format_args!("run {}: {}", short(one.run), failure::with_short_ids(why)));
    }
    let told = count(*answered, "operation");
    let left = if refused.is_empty() { String::new() } else { format!(", {} refused", refused.len()) };
    let next = if *answered > 0 { ": a worker goes on, or `dalsegno resume RUN`" } else { "" };
    output.note(format_args!("{told} answered{left}{next}"));
}
