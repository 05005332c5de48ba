//! `dalsegno key`: the access keys of the server.

use std::path::{Path, PathBuf};

use dalsegno_access::{KeyEntry, KeyStore, NewKey, Reach};
use dalsegno_core::Timestamp;
use dalsegno_runtime::{Clock as _, EngineError, SystemClock, load_workspace};
use dalsegno_workspace::Settings;
use serde_json::{Value, json};

use super::Context;
use crate::args::{Format, KeyAddArgs, KeyArgs, KeyListArgs, KeyRevokeArgs, KeyVerb};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::table::table;
use crate::render::text::time;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000;

/// Where the keys of a workspace are kept: beside its journal.
pub(super) fn place(settings: &Settings, root: &Path) -> PathBuf {
    settings.store.parent().unwrap_or(root).join("access.db")
}

pub(super) fn key(args: &KeyArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    // A mistake in another file keeps no key from being revoked.
    let loaded = load_workspace(&context.root);
    let settings = loaded.settings.clone().or_else(|| loaded.assumed.clone());
    let Some(settings) = settings else {
        let (root, diagnostics) = (context.root.clone(), loaded.diagnostics);
        return Err(dalsegno_runtime::OpenError::Workspace { root, diagnostics }.into());
    };
    let keys = KeyStore::open(place(&settings, &context.root))?;
    let now = SystemClock.now().as_millis();
    if let KeyVerb::Add(KeyAddArgs { tenant: Some(tenant), .. }) = &args.verb
        && let Ok(workspace) = loaded.sound()
    {
        // A misspelt one would make a key that reaches nothing.
        workspace.check_tenant(tenant).map_err(EngineError::from)?;
    }
    match &args.verb {
        KeyVerb::Add(args) => add(args, &keys, now, context),
        KeyVerb::List(args) => list(args, &keys, now, context),
        KeyVerb::Revoke(args) => revoke(args, &keys, now, context),
    }
}

fn add(args: &KeyAddArgs, keys: &KeyStore, now: u64, context: &mut Context<'_>) -> Result<Exit, Error> {
    let new = NewKey {
        name: args.name.clone(),
        reach: args.tenant.clone().map_or(Reach::All, Reach::Tenant),
        scopes: args.scope.iter().copied().collect(),
        expires_at: args.expires_in.map(|days| now.saturating_add(u64::from(days) * DAY)),
    };
    let (entry, key) = keys.add(&new, now)?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        let mut document = document(&entry, now);
        document["key"] = json!(key.expose());
        output.document(&document);
    } else {
        output.stdout.line(key.expose());
    }
    output.note(format_args!(
        "this is the only time that the key is shown; `dalsegno key revoke {}` ends it",
        entry.id
    ));
    Ok(Exit::Done)
}

fn list(_: &KeyListArgs, keys: &KeyStore, now: u64, context: &mut Context<'_>) -> Result<Exit, Error> {
    let entries = keys.list()?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&entries.iter().map(|entry| document(entry, now)).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        output.note("no access keys yet: make one with `dalsegno key add`");
        return Ok(Exit::Done);
    }
    let at = |at: Option<u64>| at.map_or_else(|| "-".to_owned(), |at| time(Timestamp::from_millis(at)));
    let rows: Vec<[String; 7]> = entries
        .iter()
        .map(|entry| {
            let scopes: Vec<&str> = entry.scopes.iter().map(|scope| scope.as_str()).collect();
            [
                entry.id.clone(),
                entry.name.clone().unwrap_or_default(),
                entry.tenant.clone(),
                entry.state(now).as_str().to_owned(),
                at(entry.used_at),
                at(entry.expires_at),
                scopes.join(","),
            ]
        })
        .collect();
    let head = ["KEY", "NAME", "TENANT", "STATE", "LAST USED", "EXPIRES", "SCOPES"];
    for line in table(head, &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

fn revoke(args: &KeyRevokeArgs, keys: &KeyStore, now: u64, context: &mut Context<'_>) -> Result<Exit, Error> {
    let entry = keys.revoke(&args.id, now)?;
    if context.format == Format::Json {
        context.output.document(&document(&entry, now));
    }
    context.output.note(format_args!("access key {} is revoked", entry.id));
    Ok(Exit::Done)
}

fn document(entry: &KeyEntry, now: u64) -> Value {
    let at = |at: Option<u64>| at.map(|at| dalsegno_wire::time::exact(Timestamp::from_millis(at)));
    json!({
        "id": entry.id,
        "name": entry.name,
        "tenant": entry.tenant,
        "scopes": entry.scopes,
        "state": entry.state(now).as_str(),
        "created": at(Some(entry.created_at)),
        "expires": at(entry.expires_at),
        "used": at(entry.used_at),
        "revoked": at(entry.revoked_at),
    })
}
