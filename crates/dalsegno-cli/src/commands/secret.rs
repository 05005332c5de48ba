//! `dalsegno secret`: the encrypted store of secrets.

use std::io::{self, IsTerminal as _};

use dalsegno_core::Timestamp;
use dalsegno_history::Journal;
use dalsegno_runtime::{Clock as _, SHORTEST, SecretSource, SecretUnavailable, SystemClock};
use dalsegno_secrets::{MasterKey, Put, Rotation, Secret, SecretEntry, SecretName};
use dalsegno_store::{Message, PostError, RunFilter, Waiting};
use serde_json::json;

use super::Context;
use super::journal::Kept;
use crate::args::{
    Format, SecretArgs, SecretListArgs, SecretPutArgs, SecretRemoveArgs, SecretRotateArgs, SecretVerb,
};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::table::table;
use crate::render::text::{count, time};

pub(super) async fn secret(args: &SecretArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        SecretVerb::Put(args) => put(args, context).await,
        SecretVerb::List(args) => list(args, context).await,
        SecretVerb::Remove(args) => remove(args, context).await,
        SecretVerb::RotateKey(args) => rotate_key(args, context).await,
        SecretVerb::NewKey => {
            let key = MasterKey::generate().map_err(SecretUnavailable::from)?;
            context.output.stdout.line(key.to_base64().expose());
            Ok(Exit::Done)
        }
    }
}

fn name(text: &str) -> Result<SecretName, SecretUnavailable> {
    Ok(text.parse()?)
}

async fn put(args: &SecretPutArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let name = name(&args.name)?;
    let value = value(args)?;
    if value.expose().len() < SHORTEST {
        return Err(Error::ShortSecret { shortest: SHORTEST });
    }
    let Kept { journal, settings, .. } = context.journal().await?;
    let source = SecretSource::new(settings.secret_store);
    let store = source.make().await?;
    let put = Put::new(value, SystemClock.now().as_millis());
    let owner = source.owner(args.owner.tenant.as_deref())?;
    let version = store.put(&owner, &name, put).await.map_err(SecretUnavailable::from)?;
    let told = tell_runs(&journal).await?;
    if context.format == Format::Json {
        context
            .output
            .document(&json!({ "name": name.as_str(), "version": version.as_number(), "told": told }));
    }
    context.output.note(format_args!("`{name}` is in the store, as version {version}"));
    if told > 0 {
        context.output.note(format_args!(
            "{} waiting for a secret: a worker goes on, or `dalsegno resume RUN`",
            count(told, "run")
        ));
    }
    Ok(Exit::Done)
}

/// Lets runs look that wait for a secret.
pub(super) async fn tell_runs(journal: &Journal) -> Result<u64, Error> {
    let filter = RunFilter {
        waiting: Some(Waiting::Secret),
        foreign: Some(false),
        limit: u32::MAX,
        ..RunFilter::default()
    };
    let mut told = 0;
    for run in journal.runs(&filter).await? {
        match journal.store().post(run.run, Message::Look).await {
            Ok(()) => told += 1,
            Err(PostError::Ended { .. }) => {}
            Err(error) => return Err(Error::Post { source: error }),
        }
    }
    Ok(told)
}

/// The value, without the line's end that editors and `echo` add.
fn value(args: &SecretPutArgs) -> Result<Secret, Error> {
    let stdin = "-";
    let text = match &args.file {
        Some(file) => input::text(&format!("@{}", file.display()))?,
        None if io::stdin().is_terminal() => {
            let fault = |source| Error::Input { place: stdin.to_owned(), source };
            rpassword::prompt_password(format!("value of `{}`: ", args.name)).map_err(fault)?
        }
        None => input::text(stdin)?,
    };
    Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
}

async fn list(args: &SecretListArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let source = SecretSource::new(context.journal().await?.settings.secret_store);
    let entries = match source.store().await? {
        Some(store) => {
            store.list(&source.owner(args.owner.tenant.as_deref())?).await.map_err(SecretUnavailable::from)?
        }
        None => Vec::new(),
    };
    let output = &mut *context.output;
    if context.format == Format::Json {
        let document: Vec<_> = entries.iter().map(document).collect();
        output.document(&document);
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        output.note("the store is empty: put a secret there with `dalsegno secret put NAME`");
        return Ok(Exit::Done);
    }
    let row = |entry: &SecretEntry| {
        let newest = entry.versions.first();
        let put_at = newest.map_or_else(String::new, |version| time(Timestamp::from_millis(version.put_at)));
        [entry.name.to_string(), newest.map_or_else(String::new, |newest| newest.version.to_string()), put_at]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    for line in table(["NAME", "VERSION", "CHANGED"], &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

fn document(entry: &SecretEntry) -> serde_json::Value {
    let versions = entry.versions.iter().map(|version| {
        let put_at = time(Timestamp::from_millis(version.put_at));
        json!({ "version": version.version.as_number(), "put_at": put_at })
    });
    json!({ "name": entry.name.as_str(), "versions": versions.collect::<Vec<_>>() })
}

async fn remove(args: &SecretRemoveArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let name = name(&args.name)?;
    let source = SecretSource::new(context.journal().await?.settings.secret_store);
    let removed = match source.store().await? {
        Some(store) => {
            let owner = source.owner(args.owner.tenant.as_deref())?;
            store.remove(&owner, &name).await.map_err(SecretUnavailable::from)?
        }
        None => false,
    };
    if !removed {
        return Err(Error::NoSecret { name: args.name.clone() });
    }
    if context.format == Format::Json {
        context.output.document(&json!({ "name": name.as_str(), "removed": true }));
    }
    context.output.note(format_args!("`{name}` is removed"));
    Ok(Exit::Done)
}

async fn rotate_key(args: &SecretRotateArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let rotation = if args.everything { Rotation::Everything } else { Rotation::Wrapping };
    let source = SecretSource::new(context.journal().await?.settings.secret_store);
    let rotated = source.rotate_key(args.new_env.as_deref(), rotation).await?;
    if context.format == Format::Json {
        let (from, to) = (rotated.from.to_string(), rotated.to.to_string());
        context.output.document(&json!({ "from": from, "to": to, "resealed": rotated.resealed }));
    }
    context.output.note(format_args!("the key `{}` opens the store, `{}` no more", rotated.to, rotated.from));
    Ok(Exit::Done)
}
