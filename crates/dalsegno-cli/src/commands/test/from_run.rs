//! `dalsegno test --from-run`: a case made of a recorded run.

use std::path::Path;

use dalsegno_cases::{Cassette, CassetteError};
use dalsegno_core::{Event, OperationId, RunId};
use dalsegno_history::{Inspection, Journal};
use dalsegno_store::{Body, Record};

use super::write;
use crate::commands::journal::Kept;
use crate::commands::{Context, select};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::text::{count, short};

/// Writes a cassette of a run, and a file with a case that plays it.
pub(crate) async fn from_run(given: &str, context: &mut Context<'_>) -> Result<Exit, Error> {
    let Kept { journal, .. } = context.reader().await?;
    let run = select::run(&journal, given).await?;
    let not = |why: String| Error::NotACase { run: short(run), why };
    let (cassette, inspection) = recorded(&journal, run).await?;
    let Inspection { config, summary, .. } = &inspection;
    let stem = format!("{}-{}", summary.agent, short(run));
    let (tape, file) = (format!("tests/cassettes/{stem}.jsonl"), format!("tests/{stem}.toml"));
    let case =
        cassette.case(config, &format!("run {} of {}", short(run), summary.agent), &tape).map_err(not)?;
    for path in [&tape, &file] {
        let path = context.root.join(path);
        if path.exists() {
            return Err(not(format!("`{}` is there already: remove it first", path.display())));
        }
    }
    write(context.root.join(&tape), cassette.to_text().as_bytes())?;
    write(context.root.join(&file), case.as_bytes())?;
    context.output.note(format_args!("{file}, {tape}: written; look at them before you commit them"));
    context.output.note(format_args!("run it with `dalsegno test {stem}`"));
    Ok(Exit::Done)
}

/// The cassette of a run, from its journal.
async fn recorded(journal: &Journal, run: RunId) -> Result<(Cassette, Inspection), Error> {
    let inspection = journal.inspect(run, None).await?;
    let session = whole(journal, run, &inspection).await?;
    let Inspection { config, records, summary, .. } = &inspection;
    let request = journal.asked(run).await?;
    let started = (run, summary.started_at, session.as_str());
    let cassette = Cassette::record(config, started, &request, news(records)).map_err(|error| {
        Error::NotACase { run: short(run), why: format!("it cannot be folded again: {error}") }
    })?;
    Ok((cassette, inspection))
}

/// Refuses a file that is there and no cassette, before a run begins whose cassette it is to be.
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    match Cassette::open(file) {
        Ok(_) | Err(CassetteError::Changed | CassetteError::Version { .. }) => Ok(()),
        Err(_) if !file.exists() => Ok(()),
        Err(_) => Err(Error::NoCassette { path: file.to_owned() }),
    }
}

/// Writes the cassette of a run that was just performed.
pub(crate) async fn keep(
    journal: &Journal,
    run: RunId,
    file: &Path,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let (cassette, _) = recorded(journal, run).await?;
    write(file.to_owned(), cassette.to_text().as_bytes())?;
    let outcomes = count(cassette.len() as u64, "outcome");
    context
        .output
        .note(format_args!("{}: {outcomes} written; look at them before you commit them", file.display()));
    Ok(())
}

/// The session of a run that needs no other one to be folded.
async fn whole(journal: &Journal, run: RunId, inspection: &Inspection) -> Result<String, Error> {
    let started = journal.started(run).await?;
    let is_fork = inspection
        .records
        .iter()
        .any(|record| matches!(record.body, Body::Forked { .. } | Body::Adopted { .. }));
    let why = if started.parent.is_some() {
        "another run started it: make a case of that run, whose cassette has its answer"
    } else if started.predecessor.is_some() {
        "it continues another run of its session: write the earlier messages of the conversation as `messages` of a case"
    } else if is_fork {
        "it continues from a step of another run: make a case of that run"
    } else if inspection.divergence.is_some() {
        "its journal does not replay: see `dalsegno replay`"
    } else {
        return Ok(started.session);
    };
    Err(Error::NotACase { run: short(run), why: why.to_owned() })
}

/// The news of a run, in their order.
fn news(records: &[Record]) -> Vec<Event> {
    let events = records.iter().flat_map(|record| {
        let of = |event: &dyn Fn(OperationId) -> Event| record.operation.map(event).into_iter().collect();
        match &record.body {
            Body::Resolved { outcome, .. } => of(&|id| Event::outcome(record.at, id, outcome.clone())),
            Body::Waiting { gate } => of(&|id| Event::gated(record.at, id, gate.clone())),
            Body::Answered { answer, .. } => of(&|id| Event::answer(record.at, id, answer.clone())),
            Body::Conversed { news } => {
                news.iter().map(|news| Event::live(record.at, news.clone())).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        }
    });
    events.collect()
}
