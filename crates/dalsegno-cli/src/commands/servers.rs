//! `dalsegno servers`: how the tool servers are, and what they may do.

use dalsegno_runtime::{ServerHealth, ServerInfo};

use super::Context;
use crate::args::{Format, ServersArgs, ServersCheckArgs, ServersVerb};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::failure;
use crate::render::output::Output;
use crate::render::server::{self, Listed};
use crate::render::text::{Style, duration, styled};

pub(super) async fn servers(args: &ServersArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        None => list(context).await,
        Some(ServersVerb::Check(args)) => check(args, context).await,
    }
}

async fn list(context: &mut Context<'_>) -> Result<Exit, Error> {
    let servers = context.engine().await?.servers().await;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&servers.iter().map(Listed::of).collect::<Vec<_>>());
    } else {
        for (place, server) in servers.iter().enumerate() {
            if place > 0 {
                output.stdout.line("");
            }
            tell(server, output);
        }
    }
    let mut exit = Exit::Done;
    for server in servers {
        let Err(error) = server.health else { continue };
        // The first that fails says how the command ends; all of them are told.
        let ended = failure::show(&error.into(), Some(&context.root), Format::Text, output);
        exit = if exit == Exit::Done { ended } else { exit };
    }
    Ok(exit)
}

async fn check(args: &ServersCheckArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let server = context.engine().await?.server(&args.name).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Listed::of(&server));
    } else {
        tell(&server, output);
        if let Ok(health) = &server.health {
            measured(health, output);
        }
    }
    match server.health {
        Ok(health) if health.tools.iter().all(|tool| tool.problems.is_empty()) => Ok(Exit::Done),
        Ok(_) => Ok(Exit::Failed),
        Err(error) => Err(error.into()),
    }
}

fn tell(server: &ServerInfo, output: &mut Output) {
    output.stdout.line(styled(Style::Bold, &server.name));
    let mut tell = |word: &str, words: &[String]| {
        for (place, words) in words.iter().enumerate() {
            let word = if place == 0 { word } else { "" };
            output.stdout.line(format_args!("  {word:<9} {}", words));
        }
    };
    tell("state", &[server::state(server)]);
    let nothing = ["nothing but compute".to_owned()];
    tell("may", if server.grants.is_empty() { &nothing } else { &server.grants });
    tell("place", &[server::place(&server.reach)]);
    tell("lifetime", &server::lifetime(&server.reach).map(str::to_owned).into_iter().collect::<Vec<_>>());
    if let Ok(health) = &server.health {
        let pinned = if server.pinned { ", pinned" } else { "" };
        tell("digest", &[format!("{}{pinned}", health.digest)]);
        let memory = health.stats.as_ref().map(|stats| server::size(stats.memory_peak));
        tell(
            "memory",
            &memory.map(|memory| format!("{memory} at its start")).into_iter().collect::<Vec<_>>(),
        );
        tell("refused", &server::denials(health));
        tell("problems", &server::problems(health));
    }
}

fn measured(health: &ServerHealth, output: &mut Output) {
    let from = if health.from_cache { "from the cache" } else { "compiled anew" };
    output.stdout.line(format_args!("  {:<9} {}, {from}", "loaded in", duration(health.load)));
    output.stdout.line(format_args!(
        "  {:<9} {}, its list of tools included",
        "ready in",
        duration(health.start)
    ));
    for (place, tool) in health.tools.iter().enumerate() {
        let word = if place == 0 { "tools" } else { "" };
        output.stdout.line(format_args!("  {word:<9} {}", tool.name));
    }
}
