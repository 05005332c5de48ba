//! What a workspace binds names to: models, tool servers, memory, secrets, tools in process. All opened when they are
//! first needed, so that reading a journal starts nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufReader, Seek};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use dalsegno_core::{EffectClass, FailureCode, ModelReply, ToolKind, ToolName};
use dalsegno_memory::{Memory, Principal, Scope, ScopeResolver, SqliteMemory};
use dalsegno_models::{
    AwsKey, Cache, Cassette, CompletionRequest, DeltaSink, HttpModel, HttpModelError, HttpModelSettings,
    Model, ModelError, Recorder, Recording, ScriptModel, Wire,
};
use dalsegno_workspace::{
    AwsKeyBinding, Catalogue, CatalogueTool, HttpBinding, ModelBinding, PromptCache, Provider, RemoteBinding,
    Settings, TenantKey, ToolFiles,
};

use crate::clock::{Clock, SystemClock};
use crate::effects::failure::certain;
use crate::effects::failure::{AttemptError, describe};
#[cfg(feature = "wasm")]
use crate::effects::modules::Modules;
use crate::effects::tool::{Tool, ToolDescription};
use crate::effects::tool_server::{self, ServerSession, ToolServer};
use crate::error::{EngineError, OpenError, make_folder};
use crate::names::{DEFAULT_TENANT, WORKSPACE};
use crate::secret::Secrets;
use crate::vault::Vault;

/// Everything that a name in a configuration can stand for.
pub(crate) struct Bindings {
    root: PathBuf,
    settings: Settings,
    vault: Arc<Vault>,
    /// Where exchanges with models are kept, if that is wanted.
    recording: Option<Arc<Recording>>,
    tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
    models: Mutex<Opened>,
    memory: OnceCell<Opening>,
    /// The tenants whose memory has its seeds.
    seeded: Cells<String, ()>,
    #[cfg(feature = "wasm")]
    modules: Modules,
    /// Tool servers that are programs are not started.
    no_programs: bool,
    servers: Cells<String, ToolServer>,
}

impl Bindings {
    pub(crate) fn new(
        root: PathBuf,
        settings: Settings,
        tools: BTreeMap<ToolName, (ToolDescription, Arc<dyn Tool>)>,
        models: BTreeMap<String, Arc<dyn Model>>,
        memory: Option<Arc<dyn Memory>>,
        vault: Vault,
    ) -> Self {
        Self {
            root,
            settings,
            vault: Arc::new(vault),
            recording: None,
            tools,
            models: Mutex::new(Opened { given: models, ..Opened::default() }),
            memory: OnceCell::new_with(memory.map(Opening::Given)),
            seeded: Cells::default(),
            #[cfg(feature = "wasm")]
            modules: Modules::default(),
            no_programs: false,
            servers: Cells::default(),
        }
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
        self.vault.secrets()
    }

    /// The way to secrets.
    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tool that is registered in process under this name.
    pub(crate) fn tool(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(_, tool)| tool)
    }

    /// The model of this name, for runs of a tenant: what it is asked is sent with the key that this tenant has, and no other.
    pub(crate) fn model(&self, name: &str, tenant: &str) -> Result<Arc<dyn Model>, OpenError> {
        let failed = |message: String| OpenError::Model { model: name.to_owned(), message };
        let binding = self.settings.models.get(name);
        let own = match binding {
            Some(ModelBinding::Http(http)) => http.key_of(tenant),
            _ => None,
        };
        let slot = (name.to_owned(), own.map(|_| tenant.to_owned()));
        let mut opened = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = opened.given.get(name) {
            return Ok(Arc::clone(model));
        }
        let binding = binding.ok_or_else(|| {
            let known: Vec<&str> = self.settings.models.keys().map(String::as_str).collect();
            failed(format!("dalsegno.toml does not have it; it has {}", known.join(", ")))
        })?;
        if lacks_key(binding, tenant) {
            return Err(failed(format!(
                "it has no key for the tenant `{tenant}`: {}",
                add_key(name, tenant)
            )));
        }
        if let Some(model) = opened.models.get(&slot) {
            return Ok(Arc::clone(model));
        }
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
                let keyed = opened.endpoint(name, http).and_then(|endpoint| self.keyed(endpoint, http, own));
                Arc::new(keyed.map_err(|error| failed(error.to_string()))?)
            }
        };
        let model = match &self.recording {
            Some(recording) => {
                let scrubbed = Scrubbed { model, vault: Arc::clone(&self.vault) };
                Arc::new(Recorder::new(Arc::new(scrubbed), Arc::clone(recording)))
            }
            None => model,
        };
        opened.models.insert(slot, Arc::clone(&model));
        Ok(model)
    }

    /// Says whether runs of a tenant have a key for a model, or need none.
    pub(crate) fn has_key(&self, model: &str, tenant: &str) -> bool {
        let opened = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.given.contains_key(model) {
            return true;
        }
        !self.settings.models.get(model).is_some_and(|binding| lacks_key(binding, tenant))
    }

    /// The endpoint with the key of a tenant, or with the model's own.
    fn keyed(
        &self,
        endpoint: &HttpModel,
        binding: &HttpBinding,
        own: Option<&TenantKey>,
    ) -> Result<HttpModel, HttpModelError> {
        let handle = |reference| self.vault.handle(reference);
        let (text, aws) = match own {
            Some(TenantKey::Text(key)) => (Some(key), None),
            Some(TenantKey::Aws(key)) => (None, Some(key)),
            None => (binding.api_key.as_ref(), binding.aws_key.as_ref()),
        };
        let aws = match aws {
            None => {
                return Ok(text.map_or_else(|| endpoint.without_key(), |key| endpoint.with_key(handle(key))));
            }
            Some(AwsKeyBinding::Parts { access_key_id, secret_access_key, session_token }) => AwsKey::Parts {
                access_key_id: handle(access_key_id),
                secret_access_key: handle(secret_access_key),
                session_token: session_token.as_ref().map(handle),
            },
            Some(AwsKeyBinding::Document(document)) => AwsKey::Document(handle(document)),
        };
        endpoint.with_aws_key(aws)
    }

    /// The memory, with the seeds of a tenant.
    pub(crate) async fn memory(&self, tenant: &str) -> Result<Arc<dyn Memory>, OpenError> {
        match self.memory.get_or_try_init(|| self.open_memory()).await? {
            Opening::Given(memory) => Ok(Arc::clone(memory)),
            Opening::File(memory) => {
                let seeded = self.seeded.get(tenant.to_owned());
                seeded.get_or_try_init(|| self.seed(memory, tenant)).await?;
                Ok(Arc::new(memory.clone()))
            }
        }
    }

    async fn open_memory(&self) -> Result<Opening, OpenError> {
        let path = &self.settings.memory.path;
        make_folder(path.parent().unwrap_or(&self.root))?;
        Ok(Opening::File(SqliteMemory::open(path)?))
    }

    /// Takes the seed files into the memory of a tenant, as far as it does not have them. Nothing crosses from one tenant to another,
    /// so each has its own.
    async fn seed(&self, memory: &SqliteMemory, tenant: &str) -> Result<(), OpenError> {
        for seed in &self.settings.memory.seeds {
            let failed = |message: String| OpenError::Seeds { path: seed.clone(), message };
            let principal = Principal::new(tenant, WORKSPACE, WORKSPACE, WORKSPACE)
                .map_err(|error| failed(error.to_string()))?;
            let scopes = ScopeResolver.resolve(&principal, Scope::Workspace);
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
            tracing::debug!(path = %seed.display(), tenant, ?counts, "memory seeds");
        }
        Ok(())
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
        match &binding.remote {
            Some(RemoteBinding::Command(_)) if self.no_programs => {
                Err(OpenError::Program { server: name.to_owned() })
            }
            Some(remote) => tool_server::remote(name, binding, remote, &self.vault),
            #[cfg(feature = "wasm")]
            None => self.modules.load(name, binding, &self.vault).await,
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
                on_indeterminate: None,
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
                    on_indeterminate: None,
                    document: None,
                    trusted,
                };
                catalogue.insert(name, tool);
            }
        }
        Ok(catalogue)
    }
}

/// The memory that was opened.
enum Opening {
    /// One that a program gave, as it is.
    Given(Arc<dyn Memory>),
    /// The workspace's own file, which has seeds.
    File(SqliteMemory),
}

/// The models that were opened.
#[derive(Default)]
struct Opened {
    /// Those that a program gave.
    given: BTreeMap<String, Arc<dyn Model>>,
    /// The others by name, and by tenant where that has a key of its own.
    models: BTreeMap<(String, Option<String>), Arc<dyn Model>>,
    /// The endpoints behind them by name, without any key: all tenants share their connections.
    endpoints: BTreeMap<String, HttpModel>,
}

impl Opened {
    /// The endpoint of a model, without a key.
    fn endpoint(&mut self, name: &str, binding: &HttpBinding) -> Result<&HttpModel, HttpModelError> {
        match self.endpoints.entry(name.to_owned()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(endpoint(binding)?)),
        }
    }
}

/// A model behind an endpoint, without a key.
fn endpoint(binding: &HttpBinding) -> Result<HttpModel, HttpModelError> {
    let wire = match binding.provider {
        Provider::Openai => Wire::OpenaiChat,
        Provider::OpenaiResponses => Wire::OpenaiResponses,
        Provider::Anthropic => Wire::Anthropic,
        Provider::Gemini => Wire::Gemini,
        Provider::Bedrock => Wire::Bedrock,
    };
    let settings = HttpModelSettings {
        base_url: binding.base_url.clone(),
        allow_http: binding.allow_http,
        region: binding.region.clone(),
        api_key_header: binding.api_key_header.clone(),
        extra: binding.extra.clone(),
        headers: binding.headers.clone(),
        idle_timeout: binding.idle_timeout,
        stream_options: binding.stream_options,
        cache: match binding.cache {
            PromptCache::Off => Cache::Off,
            PromptCache::FiveMinutes => Cache::FiveMinutes,
            PromptCache::OneHour => Cache::OneHour,
        },
        tool_files: match binding.tool_files {
            ToolFiles::All => dalsegno_models::ToolFiles::All,
            ToolFiles::Images => dalsegno_models::ToolFiles::Images,
            ToolFiles::Off => dalsegno_models::ToolFiles::Off,
        },
        ..HttpModelSettings::new(wire, binding.model.clone())
    };
    HttpModel::new(settings, None)
}

/// Says whether runs of a tenant have no key for a model that needs one.
fn lacks_key(binding: &ModelBinding, tenant: &str) -> bool {
    matches!(binding, ModelBinding::Http(http) if http.lacks_key(tenant))
}

/// What to do about a model that has no key for a tenant.
pub(crate) fn add_key(model: &str, tenant: &str) -> String {
    format!(
        "add `{tenant} = {{ env = \"NAME\" }}` to `[models.{model}.keys]` of dalsegno.toml, or an `api_key` to `[models.{model}]` for \
         all tenants without a key of their own"
    )
}

/// A model whose replies hold no secret, for a recording that is kept beside the project.
struct Scrubbed {
    model: Arc<dyn Model>,
    vault: Arc<Vault>,
}

#[async_trait]
impl Model for Scrubbed {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let mut reply = self.model.complete(request, sink).await?;
        self.vault.secrets().reply(&mut reply);
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
