//! `dalsegno webhook`: who receives how runs stand.

use dalsegno_core::Timestamp;
use dalsegno_runtime::{Clock as _, EngineError, SystemClock};
use dalsegno_server::{Webhook, test_message};
use dalsegno_webhooks::{
    Destinations, Endpoint, Event, NewEndpoint, Secret, SendOutcome, Sender, WebhookStore,
};
use serde_json::{Value, json};

use super::Context;
use super::journal::Kept;
use crate::args::{Format, WebhookAddArgs, WebhookArgs, WebhookVerb};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::table::table;
use crate::render::text::time;

pub(super) async fn webhook(args: &WebhookArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    // A mistake in another file keeps no webhook from being removed.
    let kept = context.journal().await?;
    let store =
        WebhookStore::open(super::key::place(&kept.settings, &context.root).with_file_name("webhooks.db"))?;
    let now = SystemClock.now().as_millis();
    let listed = kept.settings.serve.webhooks.iter().filter_map(|origin| origin.parse().ok());
    let destinations = Destinations::new(listed);
    match &args.verb {
        WebhookVerb::Add(args) => add(args, &kept, &store, &destinations, context).await,
        WebhookVerb::List(_) => list(&store, context),
        WebhookVerb::Test(args) => {
            let endpoint = store.find_by_prefix(&args.id)?;
            test(&store, &endpoint, Sender::new(destinations), context).await
        }
        WebhookVerb::Enable(args) => {
            let enabled = store.enable(&store.find_by_prefix(&args.id)?.id, now)?;
            told(&enabled, "is on", context)
        }
        WebhookVerb::Rotate(args) => {
            let made = store.rotate(&store.find_by_prefix(&args.id)?.id, now)?;
            with_secret(&made, context);
            context.output.note("for 24 hours deliveries have a signature of the secret before as well");
            Ok(Exit::Done)
        }
        WebhookVerb::Remove(args) => {
            let removed = store.remove(&store.find_by_prefix(&args.id)?.id)?;
            told(&removed, "is removed", context)
        }
    }
}

async fn add(
    args: &WebhookAddArgs,
    kept: &Kept,
    store: &WebhookStore,
    destinations: &Destinations,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    if let (Some(tenant), Some(workspace)) = (&args.tenant, &kept.workspace) {
        // A misspelt one would be told of nothing.
        workspace.check_tenant(tenant).map_err(EngineError::from)?;
    }
    let wanted = if args.event.is_empty() { Event::ALL } else { &args.event };
    let new = NewEndpoint {
        name: args.name.clone(),
        url: destinations.check(&args.url)?,
        tenant: args.tenant.clone(),
        events: wanted.iter().copied().collect(),
        agent: args.agent.as_ref().map(ToString::to_string),
        root: args.root,
        content: args.content,
        position: kept.journal.store().last_change().await.map_err(dalsegno_history::HistoryError::from)?,
    };
    let made = store.add(&new, SystemClock.now().as_millis())?;
    with_secret(&made, context);
    context.output.note("deliveries are made by `dalsegno serve`");
    Ok(Exit::Done)
}

fn with_secret((endpoint, secret): &(Endpoint, Secret), context: &mut Context<'_>) {
    let output = &mut *context.output;
    if context.format == Format::Json {
        let mut document = document(endpoint);
        document["secret"] = json!(secret.expose());
        output.document(&document);
    } else {
        output.stdout.line(secret.expose());
    }
    output.note(format_args!(
        "this is the only time that the secret of the webhook is shown; `dalsegno webhook rotate {}` makes another one",
        endpoint.id
    ));
}

fn list(store: &WebhookStore, context: &mut Context<'_>) -> Result<Exit, Error> {
    let endpoints = store.list(None, None, u32::MAX)?;
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&endpoints.iter().map(Webhook::of).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if endpoints.is_empty() {
        output.note("no webhooks yet: add one with `dalsegno webhook add`");
        return Ok(Exit::Done);
    }
    let at = |at: Option<u64>| at.map_or_else(|| "-".to_owned(), |at| time(Timestamp::from_millis(at)));
    let rows: Vec<[String; 8]> = endpoints
        .iter()
        .map(|one| {
            let told = Webhook::of(one);
            let state =
                told.off_reason.map_or_else(|| told.state.to_owned(), |reason| format!("off: {reason}"));
            let events =
                if told.events.len() == Event::ALL.len() { "all".to_owned() } else { told.events.join(",") };
            [
                told.id,
                told.name.unwrap_or_default(),
                told.tenant,
                state,
                told.waiting.to_string(),
                at(one.delivered_at),
                events,
                told.url,
            ]
        })
        .collect();
    let head = ["WEBHOOK", "NAME", "TENANT", "STATE", "WAITING", "LAST DELIVERED", "EVENTS", "URL"];
    for line in table(head, &rows, output.stdout.terminal.room) {
        output.stdout.line(line);
    }
    Ok(Exit::Done)
}

async fn test(
    store: &WebhookStore,
    endpoint: &Endpoint,
    sender: Sender,
    context: &mut Context<'_>,
) -> Result<Exit, Error> {
    let now = SystemClock.now().as_millis();
    let sent = sender.send(&endpoint.url, &store.secrets(endpoint, now), test_message(endpoint, now)).await;
    let is_delivered = sent.outcome == SendOutcome::Delivered;
    let failure = (!is_delivered).then(|| sent.failure());
    if context.format == Format::Json {
        context.output.document(&json!({
            "id": endpoint.id,
            "delivered": is_delivered,
            "status": sent.status,
            "failure": failure,
        }));
    }
    match failure {
        None => {
            let status = sent.status.unwrap_or_default();
            context.output.note(format_args!("the receiver has accepted the test with status {status}"));
            Ok(Exit::Done)
        }
        Some(failure) => {
            context.output.note(format_args!("the test was not delivered: {failure}"));
            Ok(Exit::Failed)
        }
    }
}

fn told(endpoint: &Endpoint, what: &str, context: &mut Context<'_>) -> Result<Exit, Error> {
    if context.format == Format::Json {
        context.output.document(&document(endpoint));
    }
    context.output.note(format_args!("webhook {} {what}", endpoint.id));
    Ok(Exit::Done)
}

fn document(endpoint: &Endpoint) -> Value {
    // It is texts and numbers, which always have a JSON form.
    serde_json::to_value(Webhook::of(endpoint)).unwrap_or_default()
}
