//! `dalsegno serve`: the engine over HTTP.

use std::io::{self, IsTerminal as _};

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
    let address = args.address.unwrap_or(settings.address);
    let (wanted, connections) = (settings.connections, affordable(settings.connections));
    let settings = ServeSettings { address, connections, ..settings };
    let (behind_proxy, takes_tokens) = (settings.behind_proxy, settings.oidc.is_some());
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
    // What a service manager writes into a log is read by others than the operator.
    let is_private = address.ip().is_loopback() && !behind_proxy && io::stderr().is_terminal();
    let link = (is_private || args.sign_in_link).then(|| server.sign_in_link()).transpose()?;
    if format == Format::Jsonl {
        let mut line = json!({ "event": "listening", "address": address });
        if let Some(link) = link.as_ref().filter(|_| args.sign_in_link) {
            line["sign_in_link"] = json!(link);
        }
        output.json_line(&line);
    }
    output.note(format_args!("serves at {scheme}://{address} until you stop it, such as with Ctrl-C"));
    if let Some(link) = &link {
        output.note(format_args!("open the debugger: {link}"));
        output.note(
            "the link signs in once, within five minutes: to read, answer and fork the runs of all tenants",
        );
    }
    if connections < wanted {
        let files = wanted + RESERVED;
        output.note(format_args!(
            "the server takes {connections} connections at once instead of {wanted}, since this process may open no more files: \
             let it open {files}, such as with `ulimit -n {files}` or `LimitNOFILE={files}`, or lower `connections`",
        ));
    }
    if !has_keys && !takes_tokens {
        output.note("no active access key yet: make one with `dalsegno key add`");
    }
    let tell = |event: WorkerEvent<'_>| worker::tell(&event, format, output);
    let report = server.serve(&options, worker::stop(signals), tell).await?;
    worker::summary(&report, format, context.output);
    Ok(Exit::Done)
}

/// Files for the journal, tool servers, models and webhooks: clients take none of them, however many there are.
const RESERVED: usize = 512;

/// Lets this process open a file for each of so many connections, as far as its system allows that. Returns for how many
/// there are files.
///
/// Most processes begin with a soft limit of 1,024 files, and may raise it.
#[cfg(unix)]
fn affordable(connections: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = (connections + RESERVED) as u64;
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_some_and(|current| current < files) {
        let current = Some(limits.maximum.map_or(files, |most| most.min(files)));
        // Where the system refuses, the limit is as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limits });
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(files);
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    connections.min(files - RESERVED.min(files / 2))
}

/// Windows has no such limit.
#[cfg(not(unix))]
fn affordable(connections: usize) -> usize {
    connections
}
