//! `dalsegno memory edit` and `dalsegno memory delete`.

use dalsegno_memory::{Correct, Delete, Memory, ScopeSet, Source};
use serde_json::json;

use super::{now, open, plural, unknown};
use crate::args::{Format, MemoryDeleteArgs, MemoryEditArgs};
use crate::commands::{Context, select};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::text::{brief, short};

pub(super) async fn edit(args: &MemoryEditArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let text = input::text(&args.text)?;
    let (memory, scopes) = open(&args.scope, context).await?;
    let found = select::observation(&*memory, &scopes, &args.observation).await?;
    let correct = Correct {
        observation: found.observation,
        text: text.trim_end_matches('\n').to_owned(),
        // No run does this.
        source: Source::Seed,
        at: now().as_millis(),
    };
    let corrected = memory.correct(&scopes, correct).await?;
    if context.format == Format::Json {
        context.output.document(&corrected);
    }
    let (entity, scope) = (brief(&corrected.entity, 60), scopes.written());
    context.output.note(match corrected.changed {
        true => format!(
            "corrected: `{entity}`, in the scope `{scope}`: {} replaces {}",
            short(corrected.observation),
            short(corrected.replaced)
        ),
        false => format!("nothing to correct: the text of {} is the same", short(corrected.observation)),
    });
    Ok(Exit::Done)
}

pub(super) async fn delete(args: &MemoryDeleteArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let (memory, scopes) = open(&args.scope, context).await?;
    let (delete, what) = doomed(args, &*memory, &scopes).await?;
    let deleted = match args.yes {
        true => memory.delete(&scopes, &delete).await?,
        false => memory.would_delete(&scopes, &delete).await?,
    };
    let scope = scopes.written();
    if deleted.is_empty() {
        return Err(match &delete {
            Delete::Entity { name } if memory.entity(&scopes, name).await?.is_none() => {
                unknown(&*memory, &scopes, name).await?
            }
            _ => Error::NotInScope { what, scope },
        });
    }
    if context.format == Format::Json {
        context.output.document(&json!({
            "deleted": args.yes,
            "scope": scope,
            "entities": deleted.entities,
            "observations": deleted.observations,
            "relations": deleted.relations,
        }));
    }
    let parts = [
        (deleted.entities, "entity"),
        (deleted.observations, "observation"),
        (deleted.relations, "relation"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, thing)| plural(number, thing))
        .collect();
    let parts = parts.join(", ");
    context.output.note(match args.yes {
        true => format!("deleted {what} from the scope `{scope}`: {parts}"),
        false => format!("would delete {what} from the scope `{scope}`: {parts}; `--yes` does it, for ever"),
    });
    Ok(Exit::Done)
}

/// What the arguments name, and how a message names it.
async fn doomed(
    args: &MemoryDeleteArgs,
    memory: &dyn Memory,
    scopes: &ScopeSet,
) -> Result<(Delete, String), Error> {
    if let Some(given) = &args.observation {
        let found = select::observation(memory, scopes, given).await?;
        let (id, entity, text) = (short(found.observation), brief(&found.entity, 60), brief(&found.text, 60));
        let what = format!("the observation {id} about `{entity}`, \"{text}\",");
        return Ok((Delete::Observation { id: found.observation }, what));
    }
    let name = args.entity.clone().unwrap_or_default();
    let shown = brief(&name, 60);
    match (&args.relation, &args.to) {
        (Some(relation), Some(to)) => {
            let what = format!("the relation `{shown} {} {}`", brief(relation, 60), brief(to, 60));
            Ok((Delete::Relation { from: name, relation: relation.clone(), to: to.clone() }, what))
        }
        _ => Ok((Delete::Entity { name }, format!("the entity `{shown}`"))),
    }
}
