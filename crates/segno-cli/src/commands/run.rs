//! `segno run`: starts a run and follows it.

use segno_core::AgentRequest;
use segno_runtime::StartOptions;

use super::{Context, follow};
use crate::args::RunArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::journal::Events;

pub(super) async fn run(args: &RunArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let mut request =
        AgentRequest::text(&args.input.as_deref().map(input::text).transpose()?.unwrap_or_default());
    if let Some(data) = &args.data {
        request.data = input::json(data)?;
    }
    if let Some(tenant) = &args.tenant {
        request.tenant.clone_from(tenant);
    }
    let options = StartOptions { key: args.key.clone(), session: args.session.clone() };
    let engine = context.engine().await?;
    let mut follow = follow::Follow::begin(context)?;
    let handle = follow.until_begun(engine.start(&args.agent, request, options)).await?;
    let events = Events::new(handle.run());
    follow.until_over(&engine, handle, events, context).await
}
