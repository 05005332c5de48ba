//! `dalsegno run`: starts a run and follows it.

use std::collections::BTreeMap;
use std::path::Path;

use dalsegno_core::{AgentRequest, Mind};
use dalsegno_runtime::{Engine, NewAttachment, StartOptions};
use dalsegno_wire::Events;
use dalsegno_workspace::{HttpBinding, ModelBinding, PromptCache, SecretRef, ToolFiles};

use super::test::from_run;
use super::{Context, follow, select};
use crate::args::{Endpoint, RunArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::text::{Style, styled};

/// The variable with the key of an endpoint that is given as an argument.
const KEY_VARIABLE: &str = "DALSEGNO_API_KEY";

pub(super) async fn run(args: &RunArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    if let Some(file) = &args.record_run {
        from_run::check(file)?;
    }
    let mut request =
        AgentRequest::text(&args.input.as_deref().map(input::text).transpose()?.unwrap_or_default());
    if let Some(data) = &args.data {
        request.data = input::json(data)?;
    }
    if let Some(user) = &args.user {
        request.user = input::object("--user", user)?;
    }
    if let Some(tenant) = &args.tenant {
        request.tenant.clone_from(tenant);
    }
    let options = StartOptions {
        key: args.key.clone(),
        session: args.session.clone(),
        attachments: args.attach.iter().map(|file| attachment(file)).collect::<Result<_, _>>()?,
        model: args.model.clone(),
        after: None,
    };
    let engine = engine(args, context).await?;
    if let Some(model) = &args.model {
        select::model(&engine, model)?;
    }
    let mut follow = follow::Follow::begin(context)?.with_tokens(args.events.tokens);
    let handle = follow.until_begun(engine.start(&args.agent, request, options)).await?;
    let run = handle.run();
    let exit = follow.until_over(&engine, handle, Events::new(run), context).await?;
    if let Some(file) = &args.record_run {
        match from_run::keep(engine.journal(), run, file, context).await {
            // How the run ended says more than that it is no case.
            Err(error) if exit != Exit::Done => {
                context.output.note(styled(Style::Yellow, "warning").and(format_args!(": {error}")));
            }
            kept => kept?,
        }
    }
    Ok(exit)
}

/// The engine for a run, with the endpoint in the place of the agent's model if one is given. The run keeps the model's
/// name, so that it can be resumed and replayed with or without the endpoint.
async fn engine(args: &RunArgs, context: &mut Context<'_>) -> Result<Engine, Error> {
    let mut workspace = context.workspace()?;
    if let Some(endpoint) = &args.endpoint {
        let own = workspace.agents.get(&args.agent).and_then(|file| match &file.mind {
            Mind::Model(mind) => Some(mind.model.name.clone()),
            Mind::Plan(_) => None,
        });
        let Some(model) = own else { return Err(Error::NoModel { agent: args.agent.to_string() }) };
        workspace.settings.models.insert(model, ModelBinding::Http(binding(endpoint)));
    }
    let builder = match &args.record {
        Some(file) => Engine::builder().record(file),
        None => Engine::builder(),
    };
    context.build(builder, workspace).await
}

fn binding(endpoint: &Endpoint) -> HttpBinding {
    let given = std::env::var_os(KEY_VARIABLE).is_some();
    HttpBinding {
        provider: endpoint.provider,
        model: endpoint.model.clone(),
        base_url: endpoint.url.clone(),
        allow_http: false,
        api_key: given.then(|| SecretRef::Env(KEY_VARIABLE.to_owned())),
        aws_key: None,
        keys: None,
        region: None,
        api_key_header: None,
        concurrency: None,
        extra: serde_json::Map::new(),
        headers: BTreeMap::new(),
        idle_timeout: None,
        stream_options: true,
        cache: PromptCache::default(),
        tool_files: ToolFiles::default(),
    }
}

fn attachment(file: &Path) -> Result<NewAttachment, Error> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let media_type = NewAttachment::media_type_of(&name);
    let media_type = media_type.ok_or_else(|| Error::MediaType { path: file.to_owned() })?.to_owned();
    Ok(NewAttachment { name, media_type, bytes: input::bytes(file)? })
}
