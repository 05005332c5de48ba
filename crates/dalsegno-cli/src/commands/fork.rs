//! `dalsegno fork`: a new run from any step of another.

use dalsegno_runtime::ForkOptions;
use dalsegno_wire::Events;

use super::{Context, call, follow, select};
use crate::args::{EffectsArg, ForkArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::text::short;

pub(super) async fn fork(args: &ForkArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.performer().await?;
    let run = select::run(engine.journal(), &args.run).await?;
    if args.at.is_none() && args.set.is_empty() {
        return Err(Error::NoPlaceToFork { run: short(run) });
    }
    if let Some(model) = &args.model {
        select::model(&engine, model)?;
    }
    let mut set = Vec::with_capacity(args.set.len());
    if !args.set.is_empty() {
        let inspection = engine.journal().inspect(run, None).await?;
        for (operation, file) in &args.set {
            set.push((select::operation_of(&inspection, operation)?, input::result(file)?));
        }
    }
    let config = if args.current {
        let agent = engine.journal().inspect(run, None).await?.summary.agent;
        Some(engine.agent_config(&agent).await?)
    } else {
        None
    };
    let live_effects = args.effects == EffectsArg::Live;
    let options = ForkOptions { at: args.at, set, config, model: args.model.clone(), live_effects };
    if engine.journal().started(run).await?.request.surface.is_some() {
        let script = call::script(args.script.as_deref())?;
        let said = call::Said { line: args.line.clone(), script, first: args.say.clone() };
        return call::carried(call::Begins::Fork { run, options: Box::new(options) }, said, engine, context)
            .await;
    }
    if args.say.is_some() || args.line.is_some() || args.script.is_some() {
        return Err(Error::ForkOfNoCall { run: short(run) });
    }
    let mut follow = follow::Follow::begin(context)?.with_tokens(args.events.tokens);
    follow.goes_on(context.output);
    let handle = follow.until_begun(engine.fork(run, options)).await?;
    context.output.note(format_args!("forked run {} as run {}", short(run), short(handle.run())));
    let events = Events::new(handle.run());
    follow.until_over(&engine, handle, events, context).await
}
