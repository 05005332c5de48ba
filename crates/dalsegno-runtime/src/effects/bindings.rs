//! What a workspace binds names to: models, tool servers, memory, secrets, tools in process. All opened when they are
//! first needed, so that reading a journal starts nothing.

use std::collections::BTreeMap;
use std::io::{BufReader, Seek};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use dalsegno_core::{EffectClass, FailureCode, Gate, ModelReply, Timestamp, ToolKind, ToolName};
use dalsegno_memory::{Memory, Principal, Scope, ScopeResolver, SqliteMemory};
use dalsegno_models::{
    ApiKey, Cassette, CompletionRequest, DeltaSink, HttpModel, HttpModelError, HttpModelSettings, Model,
    ModelError, Recorder, Recording, ScriptModel, Wire,
};
use dalsegno_secrets::{Secret, SecretStore};
use dalsegno_workspace::{
    Catalogue, CatalogueTool, EnvValue, HttpBinding, ModelBinding, Provider, RemoteBinding, SecretRef,
    ServerBinding, Settings,
};

use crate::clock::{Clock, SystemClock};
use crate::effects::failure::certain;
use crate::effects::failure::{AttemptError, describe};
#[cfg(feature = "wasm")]
use crate::effects::modules::Modules;
use crate::effects::tool::{Tool, ToolDescription};
use crate::effects::tool_server::{self, ServerSession, ToolServer};
use crate::error::{EngineError, OpenError, make_folder};
use crate::hidden::{Held, Hidden};
use crate::names::{DEFAULT_TENANT, WORKSPACE};
use crate::revealed::{Revealed, place};
use crate::secret::Secrets;
use crate::secret_source::{SecretSource, SecretUnavailable, of_tenant};

/// Everything that a name in a configuration can stand for.
pub(crate) struct Bindings {
    root: PathBuf,
    settings: Settings,
    secret_source: Arc<SecretSource>,
    /// What is scrubbed.
    hidden: Arc<Hidden>,
    /// The keys of models by the model's name.
    model_keys: BTreeMap<String, ModelKey>,
    /// Where exchanges with models are kept, if that is wanted.
    recording: Option<Arc<Recording>>,
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: Mutex<BTreeMap<String, Arc<dyn Model>>>,
    memory: OnceCell<Arc<dyn Memory>>,
    #[cfg(feature = "wasm")]
    modules: Modules,
    /// Tool servers that are programs are not started.
    no_programs: bool,
    servers: Cells<String, ToolServer>,
}

/// The key of a model.
enum ModelKey {
    /// It was read when the workspace was opened; where it is missing, the words that say so when it is needed.
    Read(Result<Secret, String>),
    /// It is in the secret store under this name, and read anew for each call: it may change at any time.
    Stored(String),
}

impl Bindings {
    pub(crate) async fn new(
        root: PathBuf,
        settings: Settings,
        tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
        models: BTreeMap<String, Arc<dyn Model>>,
        memory: Option<Arc<dyn Memory>>,
        secret_store: Option<Arc<dyn SecretStore>>,
        now: Timestamp,
    ) -> Result<Self, OpenError> {
        let binding = settings.secret_store.clone();
        let secret_source = match secret_store {
            Some(store) => SecretSource::with(binding, store),
            None => SecretSource::new(binding),
        };
        let model_keys = model_keys(&settings, &secret_source, now).await;
        let known = read_secrets(&settings, &model_keys, &secret_source, now).await?;
        Ok(Self {
            root,
            settings,
            secret_source: Arc::new(secret_source),
            hidden: Arc::new(Hidden::new(known)),
            model_keys,
            recording: None,
            tools,
            models: Mutex::new(models),
            memory: memory.map_or_else(OnceCell::new, |memory| OnceCell::new_with(Some(memory))),
            #[cfg(feature = "wasm")]
            modules: Modules::default(),
            no_programs: false,
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

    /// The same where no tool server that is a program is started.
    pub(crate) fn without_programs(self) -> Self {
        Self { no_programs: true, ..self }
    }

    /// The secrets that are scrubbed, as of now.
    pub(crate) fn secrets(&self) -> Secrets {
        self.hidden.secrets()
    }

    pub(crate) fn secret_source(&self) -> &SecretSource {
        &self.secret_source
    }

    /// Says whether the secret store has a secret now.
    pub(crate) async fn is_stored(&self, name: &str, now: Timestamp) -> bool {
        self.secret_source.stored(name, now).await.is_ok()
    }

    /// Reads the key of a model anew if it is one that may have changed; it is scrubbed from then on.
    ///
    /// # Errors
    /// When it is not there: nothing may be sent then.
    pub(crate) async fn refresh_key(&self, model: &str, now: Timestamp) -> Result<(), AttemptError> {
        let Some(ModelKey::Stored(name)) = self.model_keys.get(model) else { return Ok(()) };
        let key = match self.secret_source.stored(name, now).await {
            Ok(key) => Secret::new(key.expose().trim()),
            Err(error) => {
                let missing = matches!(error, SecretUnavailable::NotStored { .. }).then(|| name.clone());
                let message = format!("the key of the model `{model}` cannot be read: {error}");
                return Err(AttemptError {
                    gate: missing.map(|name| Gate::Secret { name }.into()),
                    ..certain(FailureCode::Unavailable, message)
                });
            }
        };
        self.hidden.hide(name, key);
        Ok(())
    }

    /// Reads a secret that a declarative tool refers to, as of now; it is scrubbed from then on.
    pub(crate) async fn reveal(
        &self,
        reference: &SecretRef,
        now: Timestamp,
    ) -> Result<Secret, SecretUnavailable> {
        let secret = self.secret_source.read(reference, now).await?;
        let name = match reference {
            SecretRef::Env(name) => format!("env {name}"),
            SecretRef::File(path) | SecretRef::Below { path, .. } => format!("file {}", path.display()),
            SecretRef::Store(name) => name.clone(),
            SecretRef::OfTenant { tenant, name } => of_tenant(tenant, name),
        };
        self.hidden.hide(&name, secret.clone());
        Ok(secret)
    }

    /// Keeps the secrets of a request for a run of it.
    pub(crate) fn hold(&self, names: Vec<String>) -> Held {
        self.hidden.hold(names)
    }

    /// Scrubs a secret from now on; `name` tells it from others.
    pub(crate) fn hide(&self, name: &str, secret: Secret) {
        self.hidden.hide(name, secret);
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
            failed(format!("dalsegno.toml does not have it; it has {}", known.join(", ")))
        })?;
        let model: Arc<dyn Model> = match binding {
            ModelBinding::Script { file } => {
                Arc::new(ScriptModel::open(file).map_err(|error| failed(error.to_string()))?)
            }
            ModelBinding::Cassette { file } => {
                Arc::new(Cassette::open(file).map_err(|error| failed(error.to_string()))?)
            }
            ModelBinding::InCode => {
                return Err(failed("it comes from a program, and this engine was not given it".to_owned()));
            }
            ModelBinding::Http(http) => {
                Arc::new(self.http_model(name, http).map_err(|error| failed(error.to_string()))?)
            }
        };
        let model = match &self.recording {
            Some(recording) => {
                let scrubbed = Scrubbed { model, hidden: Arc::clone(&self.hidden) };
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
        let key = self.model_keys.get(name).map(|key| match key {
            ModelKey::Read(key) => {
                let key = key.clone();
                let reveal = move || key.as_ref().map(|key| key.expose().to_owned()).map_err(Clone::clone);
                Arc::new(reveal) as Arc<dyn ApiKey>
            }
            ModelKey::Stored(name) => {
                let (name, hidden) = (name.clone(), Arc::clone(&self.hidden));
                // It was read for this call: see `refresh_key`.
                let reveal = move || {
                    let missing = || SecretUnavailable::NotStored { name: name.clone() }.to_string();
                    hidden.latest(&name).map(|key| key.expose().to_owned()).ok_or_else(missing)
                };
                Arc::new(reveal) as Arc<dyn ApiKey>
            }
        });
        let settings = HttpModelSettings {
            base_url: binding.base_url.clone(),
            allow_http: binding.allow_http,
            extra: binding.extra.clone(),
            headers: binding.headers.clone(),
            idle_timeout: binding.idle_timeout,
            stream_options: binding.stream_options,
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
            let mut file = std::fs::File::open(seed).map_err(|error| failed(error.to_string()))?;
            // Hashing a file takes a hundredth of the time that its lines take.
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(&mut file).map_err(|error| failed(error.to_string()))?;
            let digest = *hasher.finalize().as_bytes();
            if memory.is_seeded(&scopes, digest).await.map_err(|error| failed(error.to_string()))? {
                continue;
            }
            file.rewind().map_err(|error| failed(error.to_string()))?;
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
        let revealed = Revealed::new(Arc::clone(&self.secret_source), Arc::clone(&self.hidden));
        match &binding.remote {
            Some(RemoteBinding::Command(_)) if self.no_programs => {
                Err(OpenError::Program { server: name.to_owned() })
            }
            Some(remote) => tool_server::remote(name, binding, remote, &revealed),
            #[cfg(feature = "wasm")]
            None => self.modules.load(name, binding, &revealed).await,
            #[cfg(not(feature = "wasm"))]
            None => Err(OpenError::NoModules { server: name.to_owned() }),
        }
    }

    /// What tells one version of a server from another: the digest of its module, or of what it offers.
    pub(crate) async fn digest(&self, server: &str) -> Result<String, EngineError> {
        Ok(self.server(server).await?.digest(DEFAULT_TENANT).await?)
    }

    /// What these servers and the tools in process offer now.
    pub(crate) async fn catalogue(
        &self,
        servers: impl IntoIterator<Item = String>,
    ) -> Result<Catalogue, EngineError> {
        let mut catalogue = dalsegno_workspace::builtin_tools();
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
                document: None,
                trusted: true,
            };
            catalogue.insert(name.clone(), tool);
        }
        for server in servers {
            let trusted = self.settings.servers.get(&server).is_some_and(|binding| binding.trust_annotations);
            for tool in self.server(&server).await?.catalogue(DEFAULT_TENANT).await? {
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
                    // The protocol says what these requests do, not their server.
                    declared: tool.builtin.map(|_| EffectClass::Read),
                    document: None,
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
    hidden: Arc<Hidden>,
}

#[async_trait]
impl Model for Scrubbed {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let mut reply = self.model.complete(request, sink).await?;
        self.hidden.secrets().reply(&mut reply);
        Ok(reply)
    }
}

/// Things by name, each opened once. Opening one holds up nobody who wants another.
pub(crate) struct Cells<K, T>(Mutex<BTreeMap<K, Arc<OnceCell<T>>>>);

impl<K, T> Default for Cells<K, T> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord, T> Cells<K, T> {
    pub(crate) fn get(&self, key: K) -> Arc<OnceCell<T>> {
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
    open: Cells<(String, bool), Arc<ServerSession>>,
}

impl Sessions {
    pub(crate) async fn open(
        &self,
        bindings: &Bindings,
        server: &str,
        tenant: &str,
        free: bool,
    ) -> Result<Arc<ServerSession>, AttemptError> {
        let cell = self.open.get((server.to_owned(), free));
        let open = || async {
            let loaded = bindings.server(server).await;
            let loaded = loaded.map_err(|error| certain(FailureCode::Unavailable, describe(&error)))?;
            Ok(Arc::new(loaded.open(tenant, free)))
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

/// The keys of models. One that is missing is no trouble until its model is asked.
async fn model_keys(
    settings: &Settings,
    source: &SecretSource,
    now: Timestamp,
) -> BTreeMap<String, ModelKey> {
    let mut keys = BTreeMap::new();
    for (name, binding) in &settings.models {
        let ModelBinding::Http(HttpBinding { api_key: Some(reference), .. }) = binding else { continue };
        let key = match reference {
            SecretRef::Store(secret) => ModelKey::Stored(secret.clone()),
            SecretRef::OfTenant { tenant, name } => ModelKey::Stored(of_tenant(tenant, name)),
            SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Below { .. } => {
                ModelKey::Read(read_key(reference, source, now).await)
            }
        };
        keys.insert(name.clone(), key);
    }
    keys
}

/// What is scrubbed from the start.
async fn read_secrets(
    settings: &Settings,
    model_keys: &BTreeMap<String, ModelKey>,
    source: &SecretSource,
    now: Timestamp,
) -> Result<Secrets, OpenError> {
    let mut named = BTreeMap::new();
    for (name, reference) in &settings.secrets {
        let value = source.read(reference, now).await;
        let value =
            value.map_err(|error| OpenError::Secret { name: name.clone(), message: error.to_string() })?;
        named.insert(name.clone(), value);
    }
    let secrets = Secrets::new(named).map_err(|short| {
        let message = short.to_string();
        OpenError::Secret { name: short.name, message }
    })?;
    let mut hidden = Vec::new();
    for key in model_keys.values() {
        match key {
            ModelKey::Read(key) => hidden.extend(key.clone().ok()),
            // A run that goes on may hold what an earlier process sent it with.
            ModelKey::Stored(name) => {
                let key = read_key(&SecretRef::Store(name.clone()), source, now).await;
                hidden.extend(key.ok());
            }
        }
    }
    for reference in server_secrets(settings) {
        // Whoever needs it says what is missing.
        hidden.extend(read_key(reference, source, now).await.ok());
    }
    for reference in settings.telemetry.iter().flat_map(|telemetry| telemetry.headers.values()) {
        // Whoever sends it says what is missing.
        hidden.extend(read_key(reference, source, now).await.ok());
    }
    Ok(secrets.hiding(hidden.iter()))
}

/// The secrets that tool servers, or their requests, hold.
pub(crate) fn server_secrets(settings: &Settings) -> impl Iterator<Item = &SecretRef> {
    settings.servers.values().flat_map(secrets_of)
}

/// The secrets that a tool server, or its requests, hold.
pub(crate) fn secrets_of(server: &ServerBinding) -> impl Iterator<Item = &SecretRef> {
    let (env, headers) = match &server.remote {
        None => (Some(server.permissions.env.values()), None),
        Some(RemoteBinding::Command(command)) => (Some(command.env.values()), None),
        Some(RemoteBinding::Endpoint(endpoint)) => (None, Some(endpoint.headers.values())),
    };
    let held = env.into_iter().flatten().filter_map(|value| match value {
        EnvValue::Secret(reference) => Some(reference),
        EnvValue::Text(_) => None,
    });
    let added = server.permissions.secrets.iter().map(|secret| &secret.value);
    held.chain(headers.into_iter().flatten()).chain(added).filter(|reference| place(reference).is_some())
}

/// A key as it is sent: without the space around it, so that it is known wherever it comes back.
async fn read_key(reference: &SecretRef, source: &SecretSource, now: Timestamp) -> Result<Secret, String> {
    let secret = source.read(reference, now).await.map_err(|error| error.to_string())?;
    Ok(Secret::new(secret.expose().trim()))
}

#[cfg(test)]
mod tests {
    use dalsegno_models::Wire;
    use dalsegno_workspace::Provider;

    #[test]
    fn a_workspace_reserves_the_fields_that_a_wire_does() {
        for (provider, wire) in Provider::ALL.into_iter().zip(Wire::ALL) {
            assert_eq!(provider.as_str(), wire.to_string());
            let (mut theirs, mut ours) =
                (Vec::from_iter(provider.reserved()), Vec::from_iter(wire.reserved()));
            theirs.sort_unstable();
            ours.sort_unstable();
            assert_eq!(theirs, ours, "{wire}");
        }
    }
}
