//! `dalsegno call`: calls of agents that have `[voice]`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

use dalsegno_core::{AgentName, AgentRequest, LiveCommand, LiveNews, RunId, Surface};
use dalsegno_models::{CallerTurn, LiveScript, LiveTwin};
use dalsegno_runtime::{Conversation, Engine, EngineError, ForkOptions, StartOptions};
use dalsegno_voice::{Call, Caller, Line, WORD};
use dalsegno_wire::Events;
use tokio::sync::mpsc;

use super::{Context, follow, select, telephone};
use crate::args::{CallArgs, CallSayArgs, CallTextArgs, CallVerb, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::text::short;

pub(super) async fn call(args: &CallArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        CallVerb::Text(args) => text(args, context).await,
        CallVerb::List(args) => telephone::list(args, context).await,
        CallVerb::Hangup(args) => telephone::hangup(args, context).await,
        CallVerb::Check(args) => telephone::check(args, context).await,
        CallVerb::Say(args) => say(args, context).await,
    }
}

/// Gives the live model of a call a note.
async fn say(args: &CallSayArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.ender().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    engine.say(run, args.text.clone(), args.by.clone()).await?;
    if context.format != Format::Text {
        context.output.document(&serde_json::json!({ "run_id": run, "say": "posted" }));
    }
    let run = short(run);
    context.output.note(format_args!(
        "the live model of call {run} gets the note, and speaks of it at the next pause: see `dalsegno show {run}`"
    ));
    Ok(Exit::Done)
}

/// Reads the script of a call.
pub(super) fn script(path: Option<&Path>) -> Result<Option<LiveScript>, Error> {
    let read = |path: &Path| {
        LiveScript::read(path).map_err(|source| Error::LiveScript { path: path.to_owned(), source })
    };
    path.map(read).transpose()
}

/// Calls an agent in text.
async fn text(args: &CallTextArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let script = script(args.script.as_deref())?;
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
    let begins = Begins::Anew { agent: args.agent.clone(), request: Box::new(request), options };
    let said = Said { line: args.line.clone(), script, first: None };
    carried(begins, said, engine, context).await
}

/// How a call begins.
pub(super) enum Begins {
    /// By itself, or as the one that has the same key.
    Anew { agent: AgentName, request: Box<AgentRequest>, options: StartOptions },
    /// As a fork of another call.
    Fork { run: RunId, options: Box<ForkOptions> },
}

impl Begins {
    async fn on(self, surface: Surface, engine: &Engine) -> Result<Conversation, EngineError> {
        match self {
            Self::Anew { agent, request, options } => {
                engine.converse(&agent, surface, *request, options).await
            }
            Self::Fork { run, options } => engine.fork_call(run, surface, *options).await,
        }
    }

    /// The same over a line.
    async fn over(self, line: &Line, engine: &Engine) -> Result<Call, Error> {
        let call = match self {
            Self::Anew { agent, request, options } => line.call(engine, &agent, *request, options).await,
            Self::Fork { run, options } => line.fork(engine, run, *options).await,
        };
        call.map_err(Error::VoiceLine)
    }

    /// The run that is forked.
    fn source(&self) -> Option<RunId> {
        match self {
            Self::Anew { .. } => None,
            Self::Fork { run, .. } => Some(*run),
        }
    }
}

/// Who speaks in a call.
pub(super) struct Said {
    /// The line to the live model.
    pub(super) line: Option<String>,
    /// What the caller says and, without a line, the live model.
    pub(super) script: Option<LiveScript>,
    /// What the caller says first.
    pub(super) first: Option<String>,
}

/// Carries a call to its end.
pub(super) async fn carried(
    begins: Begins,
    said: Said,
    engine: Engine,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    match said {
        Said { line: None, script: Some(script), first } => {
            let script = match first {
                Some(first) => script.after(first),
                None => script,
            };
            written_down(begins, script, engine, context).await
        }
        said => spoken(begins, said, engine, context).await,
    }
}

/// Says which run was forked, if one was.
fn tell_fork(source: Option<RunId>, run: RunId, context: &mut Context<'_>) {
    if let Some(source) = source {
        context.output.note(format_args!("forked call {} as call {}", short(source), short(run)));
    }
}

/// Carries a call whose caller and live model are written down.
async fn written_down(
    begins: Begins,
    script: LiveScript,
    engine: Engine,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let mut follow = follow::Follow::begin(context)?;
    let mut ends = None;
    let source = begins.source();
    let begins = async {
        let call = begins.on(Surface::Script, &engine).await?;
        let Conversation { handle, news, commands, stay: _ } = call;
        ends = Some((news, commands));
        Ok(handle)
    };
    let handle = follow.until_begun(begins).await?;
    let run = handle.run();
    tell_fork(source, run, context);
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
    begins: Begins,
    said: Said,
    engine: Engine,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let Said { line, script, first } = said;
    let types = script.is_none() && std::io::stdin().is_terminal();
    let line = line.map(|line| Line::open(&engine, &line)).transpose().map_err(Error::VoiceLine)?;
    let mut follow = follow::Follow::begin(context)?;
    let source = begins.source();
    let begins = async {
        match &line {
            Some(line) => begins.over(line, &engine).await,
            None => {
                // Words take time where somebody may interrupt them.
                let word = if types { WORD } else { Duration::ZERO };
                let conversation = begins.on(Surface::Model, &engine).await?;
                Ok(Call::by_hand(&engine, conversation, word).await?)
            }
        }
    };
    let call = tokio::select! {
        call = begins => call?,
        () = follow.wished() => return Err(Error::Stopped),
    };
    let Call { handle, caller, spoken, carried } = call;
    tell_fork(source, handle.run(), context);
    let mut follow = follow.with_spoken(spoken);
    let mut events = Events::new(handle.run());
    if !handle.is_new() && follow.needs_history(context) {
        let records =
            engine.journal().inspect(handle.run(), None).await.map_err(EngineError::History)?.records;
        follow.catch_up(&records, &mut events);
    }
    if let Some(text) = first {
        // A call that is over by now has no caller any more.
        let _ = caller.send(Caller::Turn(CallerTurn::Says { text, after: None })).await;
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
