//! `dalsegno call list`, `hangup` and `check`: calls that are open, the end of one, and whether a line works.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dalsegno_core::{AgentRequest, RunId, Surface};
use dalsegno_history::Journal;
use dalsegno_runtime::{Cancelled, Engine};
use dalsegno_store::{RunFilter, RunStatus, RunSummary};
use dalsegno_voice::{Line, LineError, Telephones};
use dalsegno_workspace::{LineSurface, Transport, VoiceLine, Workspace};
use serde::Serialize;
use serde_json::{Value, json};

use super::follow::passed_on;
use super::{Context, select};
use crate::args::{CallCheckArgs, CallHangupArgs, CallListArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::table::table;
use crate::render::text::{brief, duration, short};

/// How many runs are read at once.
const PAGE: u32 = 500;

/// Most columns of what others wrote.
const BRIEF: usize = 24;

/// A call that is open.
#[derive(Serialize)]
struct OpenCall {
    run_id: RunId,
    agent: String,
    tenant: String,
    surface: Surface,
    line: Option<String>,
    caller: Option<String>,
    called: Option<String>,
    /// Whether a process carries it now.
    carried: bool,
    /// How long it lasts, in milliseconds.
    lasts_ms: u64,
}

/// Lists the calls that are open.
pub(super) async fn list(args: &CallListArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let journal = context.reader().await?.journal;
    let mut calls = Vec::new();
    let mut filter = RunFilter {
        status: Some(RunStatus::Running),
        roots_only: true,
        foreign: Some(false),
        limit: PAGE,
        ..RunFilter::default()
    };
    loop {
        let page = journal.runs(&filter).await?;
        for run in &page {
            // What was erased or is damaged is no call that goes on.
            let Ok(request) = journal.asked(run.run).await else { continue };
            let call = open_call(&journal, run, &request);
            calls.extend(call.filter(|call| args.line.is_none() || call.line == args.line));
        }
        if page.len() < PAGE as usize {
            break;
        }
        filter.after = page.last().map(|run| run.run);
    }
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&calls);
        return Ok(Exit::Done);
    }
    if calls.is_empty() {
        output.note("no call is open: `dalsegno runs` lists those that are over");
        return Ok(Exit::Done);
    }
    let cell = |text: &Option<String>| text.as_ref().map_or_else(String::new, |text| brief(text, BRIEF));
    let rows: Vec<_> = calls
        .iter()
        .map(|call| {
            let lasts = duration(Duration::from_secs(call.lasts_ms / 1_000));
            let lasts = if call.carried { lasts } else { format!("{lasts}, carried by no process") };
            let who = if call.tenant == Workspace::DEFAULT_TENANT {
                String::new()
            } else {
                format!(" ({})", call.tenant)
            };
            let (line, caller, called) = (cell(&call.line), cell(&call.caller), cell(&call.called));
            [short(call.run_id), line, caller, called, format!("{}{who}", call.agent), lasts]
        })
        .collect();
    for line in
        table(["RUN", "LINE", "CALLER", "CALLED", "AGENT", "LASTS"], &rows, output.stdout.terminal.room)
    {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

fn open_call(journal: &Journal, run: &RunSummary, request: &AgentRequest) -> Option<OpenCall> {
    let surface = request.surface?;
    let text = |key: &str| request.user.get(key).and_then(Value::as_str).map(str::to_owned);
    // What a person types as `--user` says nothing of a telephone.
    let of_telephone = |key: &str| text(key).filter(|_| surface.outlives_its_process());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    Some(OpenCall {
        run_id: run.run,
        agent: run.agent.to_string(),
        tenant: run.tenant.clone(),
        surface,
        line: of_telephone("line"),
        caller: of_telephone("caller"),
        called: of_telephone("called"),
        carried: journal.is_performed(run),
        lasts_ms: now.saturating_sub(run.started_at.as_millis()),
    })
}

/// Hangs up, and ends the run of the call.
pub(super) async fn hangup(args: &CallHangupArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.performer().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    if engine.journal().asked(run).await?.surface.is_none() {
        return Err(Error::NoCall { run });
    }
    // A call that no process carries is hung up from here.
    let telephones = Telephones::open(&engine).map_err(Error::VoiceLine)?;
    let cancelled = engine.cancel(run, args.by.clone(), args.reason.clone()).await?;
    telephones.left().await;
    let report = match cancelled {
        Cancelled::Ended(report) => report,
        Cancelled::Requested { run } => return Ok(passed_on(run, "hangup", "requested", context)),
    };
    if context.format != Format::Text {
        context.output.document(&json!({ "run_id": report.run, "hangup": "done" }));
    }
    context.output.note(format_args!("the call of run {} is over", short(report.run)));
    Ok(Exit::Done)
}

/// Looks whether a line works: its provider, its secrets, and who answers.
pub(super) async fn check(args: &CallCheckArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.performer().await?;
    let line = Line::open(&engine, &args.line).map_err(Error::VoiceLine)?;
    let workspace = engine.workspace();
    let Some(settings) = workspace.settings.lines.get(&args.line) else {
        let known_lines = workspace.settings.lines.keys().cloned().collect();
        return Err(Error::VoiceLine(LineError::Unknown { name: args.line.clone(), known_lines }));
    };
    let mut problems = secrets(&engine, settings).await;
    problems.extend(unanswered(&workspace, settings));
    let provider = line.look().await;
    let (shown, is_there) = match &provider {
        Ok(()) if matches!(settings.surface, LineSurface::Live { .. }) => ("takes the key".to_owned(), true),
        Ok(()) => (format!("opens a session of {}", settings.model), true),
        Err(reason) => (reason.clone(), false),
    };
    problems.extend(provider.err());
    let numbers = settings.telephone.iter().flat_map(|telephone| &telephone.numbers);
    let numbers: Vec<_> = numbers
        .map(|(number, answerer)| {
            let transfer_to: Vec<_> = answerer.transfer_to.iter().map(ToString::to_string).collect();
            (number, answerer.agent.value.to_string(), answerer.tenant.value.clone(), transfer_to)
        })
        .collect();
    let webhook = settings.telephone.as_ref().map(|telephone| match telephone.transport {
        Transport::Sip => format!("/voice/{}", args.line),
        Transport::Media => format!("/voice/{}/calls", args.line),
    });
    let output = &mut *context.output;
    if context.format == Format::Json {
        let numbers: Vec<_> = numbers
            .iter()
            .map(|(number, agent, tenant, transfer_to)| {
                json!({ "number": number, "agent": agent, "tenant": tenant, "transfer_to": transfer_to })
            })
            .collect();
        output.document(&json!({
            "line": args.line, "surface": settings.surface.name(), "model": settings.model, "priced": settings.price.is_some(), "provider": is_there, "webhook": webhook,
            "numbers": numbers, "problems": problems,
        }));
    } else {
        let mut rows = vec![["provider".to_owned(), shown]];
        rows.extend(webhook.map(|address| ["webhook".to_owned(), format!("POST {address}")]));
        rows.extend(numbers.into_iter().map(|(number, agent, tenant, transfer_to)| {
            let of = if tenant == Workspace::DEFAULT_TENANT { String::new() } else { format!(" ({tenant})") };
            let to = match transfer_to.as_slice() {
                [] => String::new(),
                to => format!(", transfers to {}", to.join(", ")),
            };
            [number.clone(), format!("{agent}{of}{to}")]
        }));
        for line in table(["LINE", &args.line], &rows, output.stdout.terminal.room) {
            output.stdout.line(line);
        }
        for problem in &problems {
            output.note(problem);
        }
    }
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The secrets of webhooks that cannot be used.
async fn secrets(engine: &Engine, line: &VoiceLine) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(telephone) = &line.telephone else { return problems };
    for (place, secret) in telephone.webhook_secrets.iter().enumerate() {
        let wrong = match engine.webhook_secret(secret).await {
            Ok(secret) => form(telephone.transport, secret.expose()).err(),
            Err(error) => Some(error.to_string()),
        };
        problems.extend(
            wrong.map(|why| format!("secret {} of `webhook_secrets` cannot be used: {why}", place + 1)),
        );
    }
    problems
}

#[cfg(feature = "serve")]
fn form(transport: Transport, secret: &str) -> Result<(), String> {
    dalsegno_server::check_webhook_secret(transport, secret)
}

#[cfg(not(feature = "serve"))]
fn form(_: Transport, _: &str) -> Result<(), String> {
    Err("this build has no `dalsegno serve`, which receives webhooks".to_owned())
}

/// The numbers at which no agent answers.
fn unanswered(workspace: &Workspace, line: &VoiceLine) -> Vec<String> {
    let numbers = line.telephone.iter().flat_map(|telephone| &telephone.numbers);
    let problems = numbers.filter_map(|(number, answerer)| {
        let (agent, tenant) = (&answerer.agent.value, &answerer.tenant.value);
        let why = match workspace.agents.get(agent) {
            None => format!("there is no agent `{agent}` that can be used"),
            Some(file) if !file.takes_calls() => format!("the agent `{agent}` has no `[voice]`"),
            Some(_) => workspace.check_tenant(tenant).err()?.to_string(),
        };
        Some(format!("no agent answers at {number}: {why}"))
    });
    problems.collect()
}
