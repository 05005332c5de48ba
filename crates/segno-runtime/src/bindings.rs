//! What a workspace binds names to: models, tool servers, memory, secrets, tools in process. All opened when they are
//! first needed, so that reading a journal starts nothing.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use segno_core::{FailureCode, ModelReply, ToolKind, ToolName};
use segno_memory::{Memory, Principal, Scope, ScopeResolver, SqliteMemory};
use segno_models::{
    ApiKey, Cassette, CompletionRequest, DeltaSink, HttpModel, HttpModelError, HttpModelSettings, Model,
    ModelError, Recorder, Recording, ScriptModel, Wire,
};
use segno_sandbox::{Access, Limits, Preopen, Sandbox, SandboxOptions, ServerConfig, Session, ToolServer};
use segno_workspace::{
    Access as Granted, Catalogue, CatalogueTool, HttpBinding, ModelBinding, Provider, SecretRef,
    ServerBinding, Settings,
};

use crate::attempt::certain;
use crate::clock::{Clock, SystemClock};
use crate::error::{EngineError, OpenError};
use crate::policy::AttemptError;
use crate::secret::{Secret, Secrets};
use crate::tool::{Tool, ToolDescription};

/// The workspace's own name inside its memory file, which no other workspace shares.
pub(crate) const WORKSPACE: &str = "workspace";

/// The tenant that seeds belong to.
const DEFAULT_TENANT: &str = "default";

/// Everything that a name in a configuration can stand for.
pub(crate) struct Bindings {
    root: PathBuf,
    settings: Settings,
    secrets: Secrets,
    /// The keys of models by the model's name; where one is missing, the words that say so when it is needed.
    model_keys: BTreeMap<String, Result<Secret, String>>,
    /// Where exchanges with models are kept, if that is wanted.
    recording: Option<Arc<Recording>>,
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: Mutex<BTreeMap<String, Arc<dyn Model>>>,
    memory: OnceCell<Arc<dyn Memory>>,
    sandbox: OnceCell<Sandbox>,
    servers: Cells<String, ToolServer>,
}

impl Bindings {
    pub(crate) fn new(
        root: PathBuf,
        settings: Settings,
        tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
        models: BTreeMap<String, Arc<dyn Model>>,
        memory: Option<Arc<dyn Memory>>,
    ) -> Result<Self, OpenError> {
        let model_keys = model_keys(&settings);
        let secrets = read_secrets(&settings, &model_keys)?;
        Ok(Self {
            root,
            settings,
            secrets,
            model_keys,
            recording: None,
            tools,
            models: Mutex::new(models),
            memory: memory.map_or_else(OnceCell::new, |memory| OnceCell::new_with(Some(memory))),
            sandbox: OnceCell::new(),
            servers: Cells::default(),
        })
    }

    /// The same with every exchange with a model kept in a file.
    pub(crate) fn recording(mut self, file: PathBuf) -> Result<Self, OpenError> {
        let path = file.clone();
        if let Some(folder) = file.parent() {
            make_folder(folder)?;
        }
        let recording = Recording::open(file)
            .map_err(|error| OpenError::Recording { path, message: describe(&error) })?;
        self.recording = Some(recording);
        Ok(self)
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tool that is registered in process under this name.
    pub(crate) fn tool(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(_, tool)| tool)
    }

    /// The model of this name.
    pub(crate) fn model(&self, name: &str) -> Result<Arc<dyn Model>, OpenError> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get(name) {
            return Ok(Arc::clone(model));
        }
        let failed = |message: String| OpenError::Model { model: name.to_owned(), message };
        let binding = self.settings.models.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.settings.models.keys().map(String::as_str).collect();
            failed(format!("segno.toml does not have it; it has {}", known.join(", ")))
        })?;
        let model: Arc<dyn Model> = match binding {
            ModelBinding::Script { file } => {
                Arc::new(ScriptModel::open(file).map_err(|error| failed(error.to_string()))?)
            }
            ModelBinding::Cassette { file } => {
                Arc::new(Cassette::open(file).map_err(|error| failed(error.to_string()))?)
            }
            ModelBinding::Http(http) => {
                Arc::new(self.http_model(name, http).map_err(|error| failed(error.to_string()))?)
            }
        };
        let model = match &self.recording {
            Some(recording) => {
                let scrubbed = Scrubbed { model, secrets: self.secrets.clone() };
                Arc::new(Recorder::new(Arc::new(scrubbed), Arc::clone(recording)))
            }
            None => model,
        };
        models.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    fn http_model(&self, name: &str, binding: &HttpBinding) -> Result<HttpModel, HttpModelError> {
        let wire = match binding.provider {
            Provider::Openai => Wire::OpenaiChat,
            Provider::OpenaiResponses => Wire::OpenaiResponses,
            Provider::Anthropic => Wire::Anthropic,
        };
        let key = self.model_keys.get(name).cloned().map(|key| {
            let reveal = move || key.as_ref().map(|secret| secret.expose().to_owned()).map_err(Clone::clone);
            Arc::new(reveal) as Arc<dyn ApiKey>
        });
        let settings = HttpModelSettings {
            base_url: binding.base_url.clone(),
            allow_http: binding.allow_http,
            extra: binding.extra.clone(),
            ..HttpModelSettings::new(wire, binding.model.clone())
        };
        HttpModel::new(settings, key)
    }

    /// The memory, with its seeds.
    pub(crate) async fn memory(&self) -> Result<Arc<dyn Memory>, OpenError> {
        self.memory.get_or_try_init(|| self.open_memory()).await.cloned()
    }

    async fn open_memory(&self) -> Result<Arc<dyn Memory>, OpenError> {
        let path = &self.settings.memory.path;
        make_folder(path.parent().unwrap_or(&self.root))?;
        let memory = SqliteMemory::open(path)?;
        let principal = Principal::new(DEFAULT_TENANT, WORKSPACE, WORKSPACE, WORKSPACE)
            .expect("the names of the seeds' principal are names");
        let scopes = ScopeResolver.resolve(&principal, Scope::Workspace);
        for seed in &self.settings.memory.seeds {
            let failed = |message: String| OpenError::Seeds { path: seed.clone(), message };
            let file = std::fs::File::open(seed).map_err(|error| failed(error.to_string()))?;
            let counts = memory.seed(&scopes, BufReader::new(file), SystemClock.now().as_millis()).await;
            let counts = counts.map_err(|error| failed(error.to_string()))?;
            tracing::debug!(path = %seed.display(), ?counts, "memory seeds");
        }
        Ok(Arc::new(memory))
    }

    /// The tool server of this name, loaded.
    pub(crate) async fn server(&self, name: &str) -> Result<ToolServer, OpenError> {
        self.servers.get(name.to_owned()).get_or_try_init(|| self.load(name)).await.cloned()
    }

    async fn load(&self, name: &str) -> Result<ToolServer, OpenError> {
        let binding = self.settings.servers.get(name).ok_or_else(|| OpenError::UnknownServer {
            server: name.to_owned(),
            known: self.settings.servers.keys().cloned().collect(),
        })?;
        let failed = |source| OpenError::Server { server: name.to_owned(), source };
        let sandbox = self.sandbox.get_or_try_init(|| async { self.open_sandbox().map_err(failed) }).await?;
        let config = Self::server_config(name, binding)?;
        sandbox.load(config).await.map_err(failed)
    }

    fn open_sandbox(&self) -> Result<Sandbox, segno_sandbox::LoadError> {
        Sandbox::new(SandboxOptions { cache_dir: Some(self.root.join(".segno/cache")) })
    }

    fn server_config(name: &str, binding: &ServerBinding) -> Result<ServerConfig, OpenError> {
        let mut files = Vec::with_capacity(binding.files.len());
        for grant in &binding.files {
            if grant.create {
                make_folder(&grant.host)?;
            }
            let access = match grant.access {
                Granted::Read => Access::Read,
                Granted::Write => Access::Write,
            };
            files.push(Preopen { host: grant.host.clone(), guest: grant.guest.clone(), access });
        }
        let mut config = ServerConfig::new(name, &binding.module);
        config.digest = match &binding.digest {
            Some(digest) => Some(digest.parse().map_err(|error| OpenError::Digest {
                server: name.to_owned(),
                message: format!("{error}"),
            })?),
            None => None,
        };
        config.tools = binding.tools.clone();
        config.files = files;
        let limits = &binding.limits;
        config.limits = Limits {
            memory: limits.memory,
            call_timeout: limits.call_timeout,
            output: limits.output,
            stderr: limits.stderr,
            ..Limits::default()
        };
        Ok(config)
    }

    /// What these servers and the tools in process offer now.
    pub(crate) async fn catalogue(
        &self,
        servers: impl IntoIterator<Item = String>,
    ) -> Result<Catalogue, EngineError> {
        let mut catalogue = segno_workspace::builtin_tools();
        for (name, (description, _)) in &self.tools {
            let tool = CatalogueTool {
                description: description.description.clone(),
                input_schema: description.input_schema.clone(),
                output_schema: description.output_schema.clone(),
                kind: ToolKind::External,
                read_only: None,
                idempotent: None,
                destructive: None,
                declared: Some(description.class),
                trusted: true,
            };
            catalogue.insert(name.clone(), tool);
        }
        for server in servers {
            let trusted = self.settings.servers.get(&server).is_some_and(|binding| binding.trust_annotations);
            for tool in self.server(&server).await?.catalogue().await? {
                let Ok(name) = format!("{server}.{}", tool.name).parse::<ToolName>() else {
                    tracing::warn!(server, tool = tool.name, "a tool is left out: its name is not one");
                    continue;
                };
                let tool = CatalogueTool {
                    description: tool.description.unwrap_or_default(),
                    input_schema: tool.input_schema,
                    output_schema: tool.output_schema,
                    kind: ToolKind::External,
                    read_only: tool.annotations.read_only,
                    idempotent: tool.annotations.idempotent,
                    destructive: tool.annotations.destructive,
                    declared: None,
                    trusted,
                };
                catalogue.insert(name, tool);
            }
        }
        Ok(catalogue)
    }
}

/// A model whose replies hold no secret, for a recording that is kept beside the project.
struct Scrubbed {
    model: Arc<dyn Model>,
    secrets: Secrets,
}

#[async_trait]
impl Model for Scrubbed {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let mut reply = self.model.complete(request, sink).await?;
        self.secrets.reply(&mut reply);
        Ok(reply)
    }
}

/// Things by name, each opened once. Opening one holds up nobody who wants another.
struct Cells<K, T>(Mutex<BTreeMap<K, Arc<OnceCell<T>>>>);

impl<K, T> Default for Cells<K, T> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord, T> Cells<K, T> {
    fn get(&self, key: K) -> Arc<OnceCell<T>> {
        Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default())
    }

    fn take(&self) -> impl Iterator<Item = T> {
        let cells = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        cells.into_values().filter_map(|cell| Arc::into_inner(cell)?.into_inner())
    }
}

/// The instances of tool servers that a run uses, from the first call to the run's end.
///
/// For each server one for calls that may be given up and repeated, and one for those that may not: giving up a call
/// ends its instance, and must not leave an effect in doubt beside it.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Cells<(String, bool), Arc<Session>>,
}

impl Sessions {
    pub(crate) async fn open(
        &self,
        bindings: &Bindings,
        server: &str,
        free: bool,
    ) -> Result<Arc<Session>, AttemptError> {
        let cell = self.open.get((server.to_owned(), free));
        let open = || async {
            let loaded = bindings.server(server).await;
            let loaded = loaded.map_err(|error| certain(FailureCode::Unavailable, describe(&error)))?;
            Ok(Arc::new(loaded.open()))
        };
        cell.get_or_try_init(open).await.cloned()
    }

    /// Ends all instances; a call that is still under way keeps its own until it returns.
    pub(crate) async fn close(&self) {
        for session in self.open.take() {
            if let Some(session) = Arc::into_inner(session) {
                session.close().await;
            }
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

pub(crate) fn make_folder(path: &Path) -> Result<(), OpenError> {
    std::fs::create_dir_all(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })
}

/// The keys of models. One that is missing is no trouble until its model is asked.
fn model_keys(settings: &Settings) -> BTreeMap<String, Result<Secret, String>> {
    let keys = settings.models.iter().filter_map(|(name, binding)| match binding {
        ModelBinding::Http(http) => Some((name.clone(), read_key(http.api_key.as_ref()?))),
        ModelBinding::Script { .. } | ModelBinding::Cassette { .. } => None,
    });
    keys.collect()
}

fn read_secrets(
    settings: &Settings,
    model_keys: &BTreeMap<String, Result<Secret, String>>,
) -> Result<Secrets, OpenError> {
    let mut values = BTreeMap::new();
    for (name, reference) in &settings.secrets {
        let value = read_secret(reference);
        let value = value.map_err(|message| OpenError::Secret { name: name.clone(), message })?;
        values.insert(name.clone(), value);
    }
    let secrets = Secrets::new(values).map_err(|short| {
        let message = short.to_string();
        OpenError::Secret { name: short.name, message }
    })?;
    Ok(secrets.hiding(model_keys.values().filter_map(|key| key.as_ref().ok())))
}

/// A key as it is sent: without the space around it, so that it is known wherever it comes back.
fn read_key(reference: &SecretRef) -> Result<Secret, String> {
    read_secret(reference).map(|secret| Secret::new(secret.expose().trim()))
}

fn read_secret(reference: &SecretRef) -> Result<Secret, String> {
    match reference {
        SecretRef::Env(variable) => {
            let value = std::env::var(variable).map_err(|_| {
                format!("the environment variable `{variable}` is not set, or is not text; set it")
            })?;
            Ok(Secret::new(&value))
        }
        SecretRef::File(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))?;
            Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
        }
    }
}
