//! A loaded server: verified, compiled and linked, but not running.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use dalsegno_protocol::{
    Builtin, CallError, CallErrorKind, Failed, Failure, LearnedEra, Offer, ServerStats, ToolDescription,
};
use wasmtime::Engine;

use crate::bounds;
use crate::compiled::{Compiled, Encoding};
use crate::compiling::{self, NotCompiled};
use crate::config::{ModuleDigest, ServerConfig};
use crate::engine::Shared;
use crate::error::LoadError;
use crate::guest::Program;
use crate::http::Rules;
use crate::instance::Instance;
use crate::pool::Pool;
use crate::session::ServerSession;
use crate::stats::Counters;

/// A server that can be started. Clones share the compiled code.
#[derive(Clone)]
pub struct ToolServer {
    loaded: Arc<Loaded>,
}

/// What instances are made from.
pub(crate) struct Loaded {
    pub(crate) config: ServerConfig,
    pub(crate) engine: Engine,
    pub(crate) program: Program,
    digest: ModuleDigest,
    from_cache: bool,
    pub(crate) counters: Arc<Counters>,
    pub(crate) pool: Pool,
    pub(crate) rules: Arc<Rules>,
    pub(crate) era: LearnedEra,
    offer: Offer,
}

impl ToolServer {
    /// The name from the configuration.
    pub fn name(&self) -> &str {
        &self.loaded.config.name
    }

    /// The SHA-256 digest of the module.
    pub fn digest(&self) -> ModuleDigest {
        self.loaded.digest
    }

    /// Whether the compiled code came from the cache.
    pub fn from_cache(&self) -> bool {
        self.loaded.from_cache
    }

    /// Starts an instance, asks for its tools, and ends it.
    ///
    /// The answer is narrowed to the tools of the configuration, and bounded: 1,000 tools, 100 pages, 4 MiB. The
    /// [`Builtin`] ones that the server's capabilities give are among them.
    ///
    /// # Errors
    ///
    /// When the guest does not start, does not answer, or describes its tools in a way that breaks a bound.
    pub async fn catalogue(&self) -> Result<Vec<ToolDescription>, CallError> {
        let loaded = &self.loaded;
        let instance = Instance::start(loaded).await.map_err(|failed| loaded.error(failed))?;
        let tools = loaded.list(&instance).await?;
        instance.close().await;
        Ok(loaded.offer.narrowed(tools))
    }

    /// Opens a session of a tenant. Its instance starts with the first call; how long it lives is a matter of
    /// configuration. Two tenants never share one.
    pub fn open(&self, tenant: &str) -> ServerSession {
        ServerSession::new(Arc::clone(&self.loaded), tenant)
    }

    /// The server as it is now.
    pub fn stats(&self) -> ServerStats {
        self.loaded.counters.stats()
    }
}

impl std::fmt::Debug for ToolServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ToolServer")
            .field("name", &self.name())
            .field("digest", &self.digest())
            .finish()
    }
}

impl Loaded {
    /// Refuses a tool that configuration or the server does not offer.
    pub(crate) fn check_tool(&self, tool: &str) -> Result<(), CallError> {
        self.offer.check(tool).map_err(|failure| self.error(Failed::unsent(failure)))
    }

    /// Asks an instance for the tools, and remembers them.
    async fn list(&self, instance: &Instance) -> Result<Vec<ToolDescription>, CallError> {
        let tools = instance.tools(self.config.limits.call_timeout).await;
        let tools = tools.map_err(|failed| self.error(failed))?;
        self.offer.learn(&tools);
        Ok(tools)
    }

    /// The built-in tool of this name; none if the server has a tool of its own with it.
    pub(crate) async fn builtin(
        &self,
        tool: &str,
        instance: &Instance,
    ) -> Result<Option<Builtin>, CallError> {
        if Builtin::named(tool).is_none() {
            return Ok(None);
        }
        if !self.offer.is_known() {
            self.list(instance).await?;
            // Now it is known whether there is such a tool.
            self.check_tool(tool)?;
        }
        Ok(self.offer.builtin(tool))
    }

    pub(crate) fn error(&self, failed: Failed) -> CallError {
        failed.at(&self.config.name)
    }

    /// The variables that an instance sees. Secrets among them are read anew for each instance.
    pub(crate) async fn env(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut env = Vec::with_capacity(self.config.permissions.env.len());
        for (name, value) in &self.config.permissions.env {
            let value = value.read().await.map_err(|reason| {
                let message = format!("cannot start: its variable `{name}` has no value: {reason}");
                Failure::new(CallErrorKind::Start, message)
            })?;
            env.push((name.clone(), value));
        }
        Ok(env)
    }
}

/// Loads a server. Blocks: reads files and compiles.
pub(crate) fn load(shared: &Arc<Shared>, config: ServerConfig) -> Result<ToolServer, LoadError> {
    let path = config.module.as_path();
    let wasm = read(path, config.limits.module)?;
    let digest = ModuleDigest::sha256(&wasm);
    if let Some(expected) = config.digest {
        let found = expected.same_of(&wasm, digest);
        if found != expected {
            return Err(LoadError::DigestMismatch { path: path.to_owned(), expected, found });
        }
    }
    let encoding = encoding(path, &wasm)?;
    let rules = Rules::new(&config, shared.resolver.clone())?;
    for folder in &config.permissions.files {
        let refused =
            |source| LoadError::Preopen { host: folder.host.clone(), guest: folder.guest.clone(), source };
        if !fs::metadata(&folder.host).map_err(refused)?.is_dir() {
            return Err(refused(io::Error::from(io::ErrorKind::NotADirectory)));
        }
    }

    let cached = shared.cache.as_ref().and_then(|cache| cache.take(&shared.engine, encoding, digest));
    let from_cache = cached.is_some();
    let compiled = match cached {
        Some(compiled) => compiled,
        None => {
            bounds::check(&wasm).map_err(|reason| LoadError::Bounds { path: path.to_owned(), reason })?;
            let limit = config.limits.compile_timeout;
            compiling::compile(shared, encoding, wasm, digest, limit).map_err(|error| match error {
                NotCompiled::Refused(reason) => LoadError::Compile { path: path.to_owned(), reason },
                NotCompiled::Slow => LoadError::Slow { path: path.to_owned(), limit },
                NotCompiled::Busy => {
                    LoadError::Busy { path: path.to_owned(), others: compiling::GIVEN_UP_MAX }
                }
            })?
        }
    };
    let program =
        link(shared, &compiled).map_err(|reason| LoadError::Link { path: path.to_owned(), reason })?;
    tracing::debug!(server = %config.name, ?encoding, from_cache, "module loaded");
    let loaded = Loaded {
        engine: shared.engine.clone(),
        program,
        digest,
        from_cache,
        counters: Arc::default(),
        pool: Pool::new(&config.limits),
        rules: Arc::new(rules),
        era: LearnedEra::default(),
        offer: Offer::new(config.tools.clone()),
        config,
    };
    Ok(ToolServer { loaded: Arc::new(loaded) })
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
        _ => LoadError::Unreadable { path: path.to_owned(), source },
    };
    let file = File::open(path).map_err(unreadable)?;
    let too_large = |bytes: u64| LoadError::TooLarge { path: path.to_owned(), bytes, limit };
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes > limit {
        return Err(too_large(bytes));
    }
    let mut wasm = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut wasm).map_err(unreadable)?;
    // It may have grown meanwhile, or be no plain file.
    let bytes = wasm.len() as u64;
    if bytes > limit { Err(too_large(bytes)) } else { Ok(wasm) }
}

/// Tells components from modules by their first eight bytes.
fn encoding(path: &Path, wasm: &[u8]) -> Result<Encoding, LoadError> {
    match wasm.strip_prefix(b"\0asm").and_then(|rest| rest.first_chunk::<4>()) {
        Some([0x0d, 0, 1, 0]) => Ok(Encoding::Component),
        Some([1, 0, 0, 0]) => Ok(Encoding::Module),
        Some(version) => {
            Err(not_wasm(path, format!("a WebAssembly header of the unknown version {version:02x?}")))
        }
        None => Err(not_wasm(path, first_bytes(wasm))),
    }
}

fn not_wasm(path: &Path, found: String) -> LoadError {
    LoadError::NotWasm { path: path.to_owned(), found }
}

fn first_bytes(file: &[u8]) -> String {
    let head = &file[..file.len().min(8)];
    if head.is_empty() {
        "nothing, it is empty".to_owned()
    } else if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        format!("the text `{}`", String::from_utf8_lossy(head).escape_debug())
    } else {
        let bytes: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("the bytes {}", bytes.join(" "))
    }
}

fn link(shared: &Shared, compiled: &Compiled) -> Result<Program, String> {
    let reason = |error: wasmtime::Error| format!("{error:#}");
    match compiled {
        Compiled::Component(component) => {
            let linked = shared.components.instantiate_pre(component).map_err(reason)?;
            Program::component(linked).map_err(reason)
        }
        Compiled::Module(module) => {
            if module.get_export("_start").is_none() {
                return Err("it exports no `_start`".to_owned());
            }
            shared.modules.instantiate_pre(module).map(Program::Module).map_err(reason)
        }
    }
}
