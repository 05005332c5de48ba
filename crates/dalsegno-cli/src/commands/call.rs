//! `dalsegno call`: calls of agents that have `[voice]`.

use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, LiveCommand, LiveNews, Surface};
use dalsegno_models::{LiveScript, LiveTwin};
use dalsegno_runtime::{Conversation, Engine, StartOptions};
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

/// Carries a call whose caller and live model are written down.
async fn text(args: &CallTextArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let script = LiveScript::read(&args.script)
        .map_err(|source| Error::LiveScript { path: args.script.clone(), source })?;
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
        StartOptions { key: args.key.clone(), session: args.session.clone(), ..StartOptions::default() };
    let workspace = context.workspace()?;
    let engine = context.build(Engine::builder(), workspace).await?;
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
