//! `dalsegno serve`: the engine over HTTP.

use dalsegno_access::KeyStore;
use dalsegno_runtime::{Clock as _, Engine, SystemClock, WorkerEvent, WorkerOptions};
use dalsegno_server::Server;
use dalsegno_workspace::ServeSettings;
use serde_json::json;

use super::{Context, worker};
use crate::args::{Format, ServeArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::signal::Signals;

pub(super) async fn serve(args: &ServeArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let workspace = context.workspace()?;
    let settings = workspace.settings.serve.clone();
    let settings = ServeSettings { address: args.address.unwrap_or(settings.address), ..settings };
    let keys = KeyStore::open(super::key::place(&workspace.settings, &workspace.root))?;
    let telemetry = context.telemetry(&workspace.settings).await?;
    let engine = context.build(Engine::builder(), workspace).await?;
    let signals = Signals::listen().map_err(|source| Error::Signals { source })?;
    let has_keys = keys.has_active(SystemClock.now().as_millis())?;
    let server = Server::bind(engine, keys, telemetry, settings).await?;
    let address = server.address();
    let scheme = if server.is_encrypted() { "https" } else { "http" };
    let options = WorkerOptions { concurrency: usize::from(args.concurrency), ..WorkerOptions::default() };
    let format = context.format;
    let output = &mut *context.output;
    if format == Format::Jsonl {
        output.json_line(&json!({ "event": "listening", "address": address }));
    }
    output.note(format_args!("serves at {scheme}://{address} until you stop it, such as with Ctrl-C"));
    if !has_keys {
        output.note("no active access key yet: make one with `dalsegno key add`");
    }
    let tell = |event: WorkerEvent<'_>| worker::tell(&event, format, output);
    let report = server.serve(&options, worker::stop(signals), tell).await?;
    worker::summary(&report, format, context.output);
    Ok(Exit::Done)
}
