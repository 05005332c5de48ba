//! `dalsegno memory`: what agents remember, for people.

mod amend;

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::Path;
use std::sync::Arc;

use dalsegno_core::Timestamp;
use dalsegno_memory::{
    EntityView, ExportError, Hit, Memory, NewObservation, Relate, RelationView, ScopeSet, SearchQuery,
    Source, Traversal, Traverse,
};
use dalsegno_runtime::MemoryPlace;

use super::Context;
use crate::args::{
    Format, MemoryAddArgs, MemoryArgs, MemoryExportArgs, MemoryImportArgs, MemoryRelateArgs,
    MemorySearchArgs, MemoryShowArgs, MemoryTraverseArgs, MemoryVerb, ScopeArgs,
};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::output::Output;
use crate::render::screen::InertLines;
use crate::render::table::table;
use crate::render::text::{Style, Words, brief, count, short, styled, time};

/// The most bytes of a file that is imported: far beyond any memory, and a bound on that of this process.
const LARGEST: u64 = 1 << 30;

/// Names that are compared with one that is unknown.
const NAMES: u32 = 1_000;

pub(super) async fn memory(args: &MemoryArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        MemoryVerb::Search(args) => search(args, context).await,
        MemoryVerb::Add(args) => add(args, context).await,
        MemoryVerb::Relate(args) => relate(args, context).await,
        MemoryVerb::Edit(args) => amend::edit(args, context).await,
        MemoryVerb::Delete(args) => amend::delete(args, context).await,
        MemoryVerb::Traverse(args) => traverse(args, context).await,
        MemoryVerb::Show(args) => show(args, context).await,
        MemoryVerb::Export(args) => export(args, context).await,
        MemoryVerb::Import(args) => import(args, context).await,
    }
}

async fn open(args: &ScopeArgs, context: &mut Context<'_>) -> Result<(Arc<dyn Memory>, ScopeSet), Error> {
    let engine = context.quiet().await?;
    let place = MemoryPlace {
        scope: args.scope,
        tenant: args.tenant.clone(),
        agent: args.agent.clone(),
        session: args.session.clone(),
    };
    let scopes = engine.memory_scopes(&place)?;
    Ok((engine.memory(&place).await?, scopes))
}

async fn search(args: &MemorySearchArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let query = SearchQuery { text: args.query.clone(), limit: args.limit, min_score: args.min_score };
    let hits = memory.search(&scopes, &query).await?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&hits);
        return Ok(Exit::Done);
    }
    if hits.is_empty() {
        output.note("nothing found: try other words, or another `--scope`");
        return Ok(Exit::Done);
    }
    let row = |hit: &Hit| {
        [format!("{:.2}", hit.score), hit.entity.clone(), hit.entity_type.clone(), hit.text.clone()]
    };
    let rows: Vec<_> = hits.iter().map(row).collect();
    for line in table(["SCORE", "ENTITY", "TYPE", "OBSERVATION"], &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

async fn add(args: &MemoryAddArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let text = input::text(&args.text)?;
    let (memory, scopes) = open(&args.scope, context).await?;
    let observation = NewObservation {
        operation: operation(),
        entity: args.entity.clone(),
        entity_type: args.entity_type.clone(),
        text: text.trim_end_matches('\n').to_owned(),
        metadata: serde_json::json!({}),
        // No run does this.
        source: Source::Seed,
        recorded_at: now().as_millis(),
    };
    let created = memory.create_related(&scopes, observation, args.relation.clone()).await?;
    let word = if created.duplicate || created.repeated { "known already" } else { "remembered" };
    if context.format == Format::Json {
        context.output.document(&created);
    }
    let entity = brief(&created.entity, 60);
    context.output.note(format_args!("{word}: `{entity}`, in the scope `{}`", scopes.written()));
    Ok(Exit::Done)
}

async fn relate(args: &MemoryRelateArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let relate = Relate {
        operation: operation(),
        from: args.from.clone(),
        relation: args.relation.clone(),
        to: args.to.clone(),
        strength: args.strength,
        source: Source::Seed,
        at: now().as_millis(),
    };
    let related = memory.relate(&scopes, relate).await?;
    if context.format == Format::Json {
        context.output.document(&related);
    }
    let word = if related.duplicate { "known already" } else { "related" };
    context.output.note(format_args!("{word}: {} {} {}", args.from, args.relation, args.to));
    for made in &related.made {
        context.output.note(format_args!("new entity: `{}`; is the name right?", brief(made, 60)));
    }
    Ok(Exit::Done)
}

async fn traverse(args: &MemoryTraverseArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let walk = Traverse {
        relation: args.relation.clone(),
        direction: args.direction,
        depth: args.depth,
        limit: args.limit,
        ..Traverse::new(args.from.clone())
    };
    let walked = memory.traverse(&scopes, &walk).await?;
    if walked.entities.is_empty() {
        return Err(unknown(&*memory, &scopes, &args.from).await?);
    }
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&walked);
        return Ok(Exit::Done);
    }
    draw(&walked, output);
    Ok(Exit::Done)
}

fn draw(walked: &Traversal, output: &mut Output) {
    let width = output.stdout.terminal.room;
    let entities: Vec<_> = walked
        .entities
        .iter()
        .map(|entity| {
            let newest = entity.observations.first().cloned().unwrap_or_default();
            [entity.depth.to_string(), entity.name.clone(), entity.entity_type.clone(), newest]
        })
        .collect();
    for line in table(["DEPTH", "ENTITY", "TYPE", "OBSERVATION"], &entities, width) {
        output.stdout.line(line);
    }
    let relations: Vec<_> = walked
        .relations
        .iter()
        .map(|one| {
            let strength = format!("{:.2}", one.strength);
            [one.from.clone(), one.relation.clone(), one.to.clone(), strength]
        })
        .collect();
    if !relations.is_empty() {
        output.stdout.line("");
        for line in table(["FROM", "RELATION", "TO", "STRENGTH"], &relations, width) {
            output.stdout.line(line);
        }
    }
    if walked.truncated {
        output.note("there is more: raise `--limit`, or name a `--relation`");
    }
}

async fn show(args: &MemoryShowArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let Some(entity) = memory.entity(&scopes, &args.entity).await? else {
        return Err(unknown(&*memory, &scopes, &args.entity).await?);
    };
    if context.format == Format::Json {
        context.output.document(&entity);
        return Ok(Exit::Done);
    }
    describe(&entity, context.output);
    Ok(Exit::Done)
}

fn describe(entity: &EntityView, output: &mut Output) {
    let width = output.stdout.terminal.room;
    let title = format!("{} ({})", entity.name, entity.entity_type);
    output.stdout.line(styled(Style::Bold, title));
    if !entity.observations.is_empty() {
        output.stdout.line("\nobservations");
    }
    for one in &entity.observations {
        let id = short(one.observation);
        let ended = one.valid_to.map(|at| format!(" until {}", at_time(at))).unwrap_or_default();
        let successor = one.superseded_by.map(|id| format!(", replaced by {}", short(id)));
        let ended = format!("{ended}{}", successor.unwrap_or_default());
        let from = one.source.as_ref().map(|source| match source.run.strip_prefix("imported:") {
            Some(claimed) => format!(" · imported, run {} as it says", brief(claimed, 12)),
            None => format!(" · run {}", brief(&source.run, 12)),
        });
        let since = at_time(one.valid_from);
        let facts = format!("{id} · {since}{ended} · {}{}", one.scope, from.unwrap_or_default());
        output.stdout.line(Words::from("  ").and(styled(Style::Dim, facts)));
        for line in one.text.lines() {
            output.stdout.line(format_args!("    {line}"));
        }
    }
    if !(entity.relations_out.is_empty() && entity.relations_in.is_empty()) {
        output.stdout.line("\nrelations");
    }
    for one in entity.relations_out.iter().chain(&entity.relations_in) {
        output.stdout.line(format_args!("  {}", brief(&relation(one), width.saturating_sub(2))));
    }
    if entity.truncated {
        output.note("there is more than can be shown: `dalsegno memory export` writes all of it");
    }
}

fn relation(one: &RelationView) -> String {
    let mut words = format!("{} {} {}", one.from, one.relation, one.to);
    if one.strength < 1.0 {
        words.push_str(&format!(" ({:.2})", one.strength));
    }
    if let Some(at) = one.valid_to {
        words.push_str(&format!(" until {}", at_time(at)));
    }
    words
}

/// That there is no such entity, with the names that there are.
async fn unknown(memory: &dyn Memory, scopes: &ScopeSet, name: &str) -> Result<Error, Error> {
    let known = memory.entities(scopes, "", NAMES).await?;
    let known = known.entities.into_iter().map(|entity| entity.name).collect();
    Ok(Error::UnknownEntity { name: brief(name, 60), known })
}

async fn export(args: &MemoryExportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let file = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let writer: Box<dyn Write + Send> = match file {
        Some(path) => {
            let file = dalsegno_files::create_new(path);
            let file = file.map_err(|source| Error::Write { path: path.to_owned(), source })?;
            Box::new(BufWriter::new(file))
        }
        // Not through `Output`: the memory writes from a thread of its own.
        None => Box::new(InertLines::new(BufWriter::new(io::stdout()))),
    };
    let counts = match memory.export(&scopes, writer).await {
        Ok(counts) => counts,
        // A reader that went away has what it wanted.
        Err(ExportError::Output { source }) if source.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(Exit::Done);
        }
        Err(error) => {
            if let Some(path) = file {
                // Half an export must not be taken for one; that it may stay does not matter more than the error.
                let _ = std::fs::remove_file(path);
            }
            return Err(error.into());
        }
    };
    let parts =
        [(counts.entities, "entity"), (counts.observations, "observation"), (counts.relations, "relation")];
    let [entities, observations, relations] = parts.map(|(number, thing)| plural(number, thing));
    let scope = scopes.written();
    context
        .output
        .note(format_args!("exported the scope `{scope}`: {entities}, {observations}, {relations}"));
    Ok(Exit::Done)
}

fn plural(number: u64, thing: &str) -> String {
    if thing == "entity" && number != 1 { format!("{number} entities") } else { count(number, thing) }
}

async fn import(args: &MemoryImportArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let place = args.file.display().to_string();
    // All of it is read before the memory is opened: what comes slowly, from a pipe, must keep nobody from writing.
    let unreadable = |source| Error::Input { place: place.clone(), source };
    let source: Box<dyn io::Read> = if args.file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(&args.file).map_err(unreadable)?)
    };
    let mut bytes = Vec::new();
    let read = source.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if read as u64 > LARGEST {
        let large = io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 GiB");
        return Err(unreadable(large));
    }
    let lines = Box::new(io::Cursor::new(bytes));
    let (memory, scopes) = open(&args.scope, context).await?;
    let imported = memory.import(&scopes, lines, args.merge, now().as_millis()).await;
    let counts = imported.map_err(|source| Error::Import { place, source })?;
    if context.format == Format::Json {
        context.output.document(&counts);
    }
    let (scope, added) = (scopes.written(), counts.added);
    let (updated, skipped) = (counts.updated, counts.skipped);
    context.output.note(format_args!(
        "imported into the scope `{scope}`: {added} new, {updated} updated, {skipped} left as they were"
    ));
    Ok(Exit::Done)
}

/// An operation id that nothing else has: what a person does twice is meant twice.
fn operation() -> [u8; 16] {
    *uuid::Uuid::new_v4().as_bytes()
}

fn now() -> Timestamp {
    Timestamp::from_millis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default())
}

fn at_time(millis: u64) -> String {
    time(Timestamp::from_millis(millis))
}
