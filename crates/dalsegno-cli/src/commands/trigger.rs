//! `dalsegno trigger`: what deliveries from outside come to.

use std::collections::BTreeMap;

use dalsegno_runtime::load_workspace;
use dalsegno_workspace::Delivery;
use serde_json::json;

use super::Context;
use crate::args::{Format, TriggerArgs, TriggerTestArgs, TriggerVerb};
use crate::error::{Error, ServeTrouble};
use crate::exit::Exit;
use crate::input;
use crate::render::table::table;

pub(super) fn trigger(args: &TriggerArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    match &args.verb {
        TriggerVerb::Test(args) => test(args, context),
    }
}

fn test(args: &TriggerTestArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let loaded = load_workspace(&context.root);
    // A mistake in another file changes nothing of a trigger.
    let Some(settings) = &loaded.settings else {
        let (root, diagnostics) = (context.root.clone(), loaded.diagnostics);
        return Err(dalsegno_runtime::OpenError::Workspace { root, diagnostics }.into());
    };
    let Some(trigger) = settings.triggers.get(&args.name) else {
        let known = settings.triggers.keys().cloned().collect();
        return Err(ServeTrouble::UnknownTrigger { name: args.name.clone(), known }.into());
    };
    let body = input::json(&args.body)?;
    // As the server does, a trigger is given the headers that it lists and no others.
    let headers = once("--header", &args.header)?;
    let headers = headers.into_iter().filter(|(name, _)| trigger.headers.contains(name)).collect();
    let delivery = Delivery { body, headers, query: once("--query", &args.query)? };
    let begun = trigger.begin(delivery).map_err(ServeTrouble::Delivery)?;
    let session = begun.as_ref().and_then(|begun| begun.session.as_deref());
    if let Some(session) = session.filter(|session| !dalsegno_server::is_name(session)) {
        return Err(ServeTrouble::Session { session: session.to_owned() }.into());
    }
    let is_known = loaded.workspace.as_ref().is_none_or(|all| all.agents.contains_key(&trigger.agent.value));
    let output = &mut *context.output;
    if context.format == Format::Json {
        output.document(&json!({
            "trigger": args.name,
            "starts": begun.is_some(),
            "agent": trigger.agent.value,
            "tenant": trigger.tenant.value,
            "text": begun.as_ref().map(|begun| &begun.text),
            "data": begun.as_ref().map(|begun| &begun.data),
            "session": begun.as_ref().and_then(|begun| begun.session.as_ref()),
        }));
    } else if let Some(begun) = &begun {
        let own = || "one of its own".to_owned();
        let rows = [
            ["agent".to_owned(), trigger.agent.value.to_string()],
            ["tenant".to_owned(), trigger.tenant.value.clone()],
            ["session".to_owned(), begun.session.clone().unwrap_or_else(own)],
            ["text".to_owned(), begun.text.clone()],
            ["data".to_owned(), begun.data.to_string()],
        ];
        for line in table(["A RUN WITH", ""], &rows, output.stdout.terminal.room) {
            output.stdout.line(line);
        }
    }
    if !is_known {
        output.note(format_args!("there is no agent `{}` that can be used now", trigger.agent.value));
    }
    output.note(match begun {
        Some(_) => "such a delivery would start this run; nothing was started",
        None => "such a delivery would start nothing: `when` does not hold for it",
    });
    Ok(Exit::Done)
}

/// Pairs by name, each of which is there once.
fn once(option: &'static str, pairs: &[(String, String)]) -> Result<BTreeMap<String, String>, ServeTrouble> {
    let mut found = BTreeMap::new();
    for (name, value) in pairs {
        if found.insert(name.clone(), value.clone()).is_some() {
            return Err(ServeTrouble::Twice { option, name: name.clone() });
        }
    }
    Ok(found)
}
