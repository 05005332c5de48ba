//! `dalsegno tools`: what tools there are, what one of them is, and a call of it outside of any run.

use std::time::Duration;

use dalsegno_core::{EffectClass, OrderedJson, ToolReturn};
use dalsegno_runtime::{MemoryPlace, OfferedBy, ToolCallOptions, ToolInfo, ToolListing};
use serde_json::json;

use super::add::add;
use super::pull::pull;
use super::{Context, consent, try_tool};
use crate::args::{Format, ToolsArgs, ToolsCallArgs, ToolsInspectArgs, ToolsListArgs, ToolsVerb};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::failure;
use crate::render::output::Output;
use crate::render::screen::inert;
use crate::render::table::table;
use crate::render::text::{Style, styled};
use crate::render::tool::{self, Called, Listed};

pub(super) async fn tools(args: &ToolsArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        ToolsVerb::List(args) => list(args, context).await,
        ToolsVerb::Inspect(args) => inspect(args, context).await,
        ToolsVerb::Call(args) => call(args, context).await,
        ToolsVerb::Test(args) => try_tool::test(args, context).await,
        ToolsVerb::Add(args) => add(args, context),
        ToolsVerb::Pull(args) => pull(args, context).await,
    }
}

async fn list(args: &ToolsListArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.engine().await?;
    let ToolListing { tools, unreachable } = engine.tools(&args.tenant).await?;
    let workspace = engine.workspace();
    let source = |tool: &ToolInfo| tool::source(tool, &workspace, &args.tenant);
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&tools.iter().map(|tool| Listed::of(tool, source(tool))).collect::<Vec<_>>());
    } else {
        let row = |tool: &ToolInfo| {
            let class = tool::class(tool.class).to_owned();
            let offered_by = tool::offered_by(&tool.offered_by);
            let is_changed = source(tool).is_some_and(|source| source.starts_with("catalogue/"));
            let offered_by = if is_changed { format!("{offered_by}, by API") } else { offered_by };
            [tool.name.to_string(), tool.model_name.clone(), class, offered_by, tool.description.clone()]
        };
        let rows: Vec<_> = tools.iter().map(row).collect();
        let heads = ["NAME", "MODELS SEE", "CLASS", "OFFERED BY", "DESCRIPTION"];
        for line in table(heads, &rows, output.stdout.terminal.room) {
            output.stdout.line(line);
        }
    }
    let mut exit = Exit::Done;
    for (_, error) in unreachable {
        // The first that fails says how the command ends; all of them are told.
        let ended = failure::show(&error.into(), Some(&context.root), Format::Text, output);
        exit = if exit == Exit::Done { ended } else { exit };
    }
    Ok(exit)
}

async fn inspect(args: &ToolsInspectArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.engine().await?;
    let tool = engine.tool(&args.name, &args.tenant).await?;
    let source = tool::source(&tool, &engine.workspace(), &args.tenant);
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Listed::of(&tool, source));
        return Ok(Exit::Done);
    }
    output.stdout.line(styled(Style::Bold, &tool.name));
    for line in tool.description.lines() {
        output.stdout.line(format_args!("  {line}"));
    }
    output.stdout.line(format_args!("\nmodels see  {}", tool.model_name));
    output.stdout.line(format_args!("offered by  {}", tool::offered_by(&tool.offered_by)));
    if let Some(source) = source {
        output.stdout.line(format_args!("source      {source}"));
    }
    let why = tool::class_from(tool.class_from);
    output.stdout.line(format_args!("class       {}: {why}", tool::class(tool.class)));
    for (place, grant) in tool.grants.iter().enumerate() {
        let word = if place == 0 { "may" } else { "" };
        output.stdout.line(format_args!("{word:<10}  {grant}"));
    }
    for (place, repeat) in tool.repeats.iter().enumerate() {
        let word = if place == 0 { "repeats" } else { "" };
        output.stdout.line(format_args!("{word:<10}  {}", repeat));
    }
    for (place, value) in tool::config(&tool).into_iter().enumerate() {
        let word = if place == 0 { "config" } else { "" };
        output.stdout.line(format_args!("{word:<10}  {value}"));
    }
    for (place, user) in tool::users(&tool).into_iter().enumerate() {
        let word = if place == 0 { "used by" } else { "" };
        output.stdout.line(format_args!("{word:<10}  {user}"));
    }
    output.stdout.line("\ntakes");
    schema(&tool.input_schema.ordered(), output);
    if let Some(returns) = &tool.output_schema {
        output.stdout.line("\nreturns");
        schema(&OrderedJson::sorted(returns), output);
    }
    Ok(Exit::Done)
}

fn schema(schema: &OrderedJson, output: &mut Output) {
    // All keys of JSON are texts.
    let text = serde_json::to_string_pretty(schema).unwrap_or_default();
    for line in inert(&text).lines() {
        output.stdout.line(format_args!("  {line}"));
    }
}

async fn call(args: &ToolsCallArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let arguments = args.args.as_deref().map_or_else(|| Ok(json!({})), input::json)?;
    let engine = context.engine().await?;
    let tool = engine.tool(&args.name, &args.tenant).await?;
    let arguments = tool.check_arguments(arguments)?;
    if let Some(why) = doubt(&tool).filter(|_| !args.yes)
        && !agreed(&tool, &why, context.output)
    {
        return Err(Error::NotAgreed { tool: tool.name.to_string(), why });
    }
    let words = format!("calling `{}` outside of any run: nothing is journaled", tool.name);
    context.output.note(styled(Style::Dim, words));
    let timeout = Duration::from_secs(args.timeout.get());
    let user = args.user.as_deref().map_or_else(|| Ok(json!({})), input::json)?;
    let place = MemoryPlace { tenant: Some(args.tenant.clone()), ..MemoryPlace::default() };
    let options = ToolCallOptions { timeout, place, user };
    let returned = engine.call_tool(&tool.name, arguments, &options).await?;
    Ok(tell(&tool, &returned, context))
}

fn tell(tool: &ToolInfo, returned: &ToolReturn, context: &mut Context<'_>) -> Exit {
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&Called::of(tool, returned));
    } else if let Some(value) = &returned.structured {
        output.document(value);
    } else {
        output.stdout.line(returned.text.trim_end_matches('\n'));
    }
    if returned.is_error {
        let failed = styled(Style::Red, "failed").and(format_args!(": `{}` reports an error", tool.name));
        output.note(match &returned.error {
            Some(error) => failed.and(format_args!(", {}: {}", error.code, error.message)),
            None => failed,
        });
        return Exit::Failed;
    }
    Exit::Done
}

/// Why the tool is not called without a person's word: to repeat it may be wrong, or an agent may not call it without one.
/// Whoever calls by hand gets around no rule that an agent has.
fn doubt(tool: &ToolInfo) -> Option<String> {
    if matches!(tool.offered_by, OfferedBy::Agent(_)) {
        // It is not called but refused, with the command that runs it.
        return None;
    }
    if matches!(tool.offered_by, OfferedBy::Document(_)) {
        return Some("a declarative tool: what its actions do is done".to_owned());
    }
    let twice = "to call it twice may be wrong";
    if is_doubtful(tool.class) {
        return Some(format!("{}: {twice}", tool::class(tool.class)));
    }
    let user = tool.users.iter().find(|user| user.approve || is_doubtful(user.class))?;
    Some(if user.approve {
        format!("not called by the agent `{}` unless a person agrees", user.agent)
    } else {
        format!("{} for the agent `{}`: {twice}", tool::class(user.class), user.agent)
    })
}

/// Whether a call that is repeated may be wrong.
fn is_doubtful(class: EffectClass) -> bool {
    match class {
        // The parts of a composite one have classes of their own.
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Composite => false,
        EffectClass::Keyed | EffectClass::Unsafe => true,
    }
}

/// Asks a person whether the tool may be called, if one is there.
fn agreed(tool: &ToolInfo, why: &str, output: &mut Output) -> bool {
    consent::ask(&format!("`{}` is {why}\ncall it?", tool.name), output).unwrap_or(false)
}
