//! `dalsegno call`: calls of agents that have `[voice]`.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, LiveCommand, LiveNews, Surface};
use dalsegno_models::{CallerTurn, LiveScript, LiveTwin};
use dalsegno_runtime::{Conversation, Engine, EngineError, StartOptions};
use dalsegno_voice::{Call, Caller, Line, WORD};
use dalsegno_wire::Events;
use tokio::sync::mpsc;

use super::{Context, follow};
use crate::args::{CallArgs, CallTextArgs, CallVerb};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;

pub(super) async fn call(args: &CallArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        CallVerb::Text(args) => text(args, context).await,
    }
}

/// Calls an agent in text.
async fn text(args: &CallTextArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let script = args.script.as_ref().map(|path| {
        LiveScript::read(path).map_err(|source| Error::LiveScript { path: path.clone(), source })
    });
    let script = script.transpose()?;
    let mut request = AgentRequest::text("");
    if let Some(data) = &args.data {
        request.data = input::json(data)?;
    }
    if let Some(user) = &args.user {
        request.user = input::object("--user", user)?;
    }
    if let Some(tenant) = &args.tenant {
        request.tenant.clone_from(tenant);
    }
    let options =
        StartOptions { session: args.session.clone(), key: args.key.clone(), ..StartOptions::default() };
    let workspace = context.workspace()?;
    let engine = context.build(Engine::builder(), workspace).await?;
    match (&args.line, script) {
        (None, Some(script)) => written_down(args, script, request, options, engine, context).await,
        (_, script) => spoken(args, script, request, options, engine, context).await,
    }
}

/// Carries a call whose caller and live model are written down.
async fn written_down(
    args: &CallTextArgs,
    script: LiveScript,
    request: AgentRequest,
    options: StartOptions,
    engine: Engine,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let mut follow = follow::Follow::begin(context)?;
    let mut ends = None;
    let begins = async {
        let call = engine.converse(&args.agent, Surface::Script, request, options).await?;
        let Conversation { handle, news, commands } = call;
        ends = Some((news, commands));
        Ok(handle)
    };
    let handle = follow.until_begun(begins).await?;
    let run = handle.run();
    let carried = ends.map(|(news, commands)| tokio::spawn(carry(LiveTwin::new(script), news, commands)));
    let exit = follow.until_over(&engine, handle, Events::new(run), context).await;
    if let Some(carried) = carried {
        carried.abort();
    }
    exit
}

/// How long the socket of a call that is over may take to close.
const CLOSING: Duration = Duration::from_secs(2);

/// Carries a call to a real live model, over a line or by hand. The caller is the person at the terminal, a pipe or a script.
async fn spoken(
    args: &CallTextArgs,
    script: Option<LiveScript>,
    request: AgentRequest,
    options: StartOptions,
    engine: Engine,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let types = script.is_none() && std::io::stdin().is_terminal();
    let line =
        args.line.as_ref().map(|line| Line::open(&engine, line)).transpose().map_err(Error::VoiceLine)?;
    let mut follow = follow::Follow::begin(context)?;
    let begins = async {
        match &line {
            Some(line) => line.call(&engine, &args.agent, request, options).await.map_err(Error::VoiceLine),
            None => {
                // Words take time where somebody may interrupt them.
                let word = if types { WORD } else { Duration::ZERO };
                Ok(Call::by_hand(&engine, &args.agent, request, options, word).await?)
            }
        }
    };
    let call = tokio::select! {
        call = begins => call?,
        () = follow.wished() => return Err(Error::Stopped),
    };
    let Call { handle, caller, spoken, carried } = call;
    let mut follow = follow.with_spoken(spoken);
    let mut events = Events::new(handle.run());
    if !handle.is_new() && follow.needs_history(context) {
        let records =
            engine.journal().inspect(handle.run(), None).await.map_err(EngineError::History)?.records;
        follow.catch_up(&records, &mut events);
    }
    match script {
        Some(script) => {
            let (turns, left_out) = script.into_caller();
            if left_out > 0 {
                context.output.note(format!(
                    "{left_out} `model` turns of the script are left out: the live model speaks for itself"
                ));
            }
            tokio::spawn(async move {
                for turn in turns {
                    if caller.send(Caller::Turn(turn)).await.is_err() {
                        return;
                    }
                }
            });
        }
        None => {
            if types {
                context.output.note("type what the caller says; Ctrl-D hangs up");
            }
            std::thread::spawn(move || listen(types, &caller));
        }
    }
    let exit = follow.until_over(&engine, handle, events, context).await;
    // The run is over, and the socket closes; a provider that does not answer is not waited for.
    let _ = tokio::time::timeout(CLOSING, carried).await;
    exit
}

/// Reads what the caller says, line by line. What a person types is said at once, what a pipe holds in its turn.
fn listen(types: bool, caller: &mpsc::Sender<Caller>) {
    let mut stdin = std::io::stdin().lock();
    for number in 1.. {
        let Ok(Some(text)) = input::line(&mut stdin, number) else { break };
        let said = match types {
            true => Caller::Says(text),
            false => Caller::Turn(CallerTurn::Says { text, after: None }),
        };
        if caller.blocking_send(said).is_err() {
            return;
        }
    }
    let end = match types {
        true => Caller::HangsUp,
        false => Caller::Turn(CallerTurn::HangsUp { after: None }),
    };
    // The call may be over.
    let _ = caller.blocking_send(end);
}

/// Lets the script and the run speak with each other until one of them is over.
async fn carry(
    mut twin: LiveTwin,
    news: mpsc::Sender<LiveNews>,
    mut commands: mpsc::UnboundedReceiver<LiveCommand>,
) {
    let began = Instant::now();
    let now = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    loop {
        for one in twin.advance(now()) {
            if news.send(one).await.is_err() {
                return;
            }
        }
        let wakes_in = twin.wakes_at().map(|at| Duration::from_millis(at.saturating_sub(now())));
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => twin.take(&command),
                None => return,
            },
            () = tokio::time::sleep(wakes_in.unwrap_or_default()), if wakes_in.is_some() => {}
        }
    }
}
