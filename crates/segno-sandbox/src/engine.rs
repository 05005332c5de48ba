//! The engine that all servers of a process share, and the thread that moves its clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Linker as ComponentLinker;
use wasmtime::{Config, Engine, Linker as ModuleLinker};

use crate::cache::Cache;
use crate::config::ServerConfig;
use crate::error::LoadError;
use crate::guest::GuestState;
use crate::server::{self, ToolServer};

/// The engine, its cache and its clock. Clones share them.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Shared>,
}

/// What a sandbox is built with.
#[derive(Clone, Debug, Default)]
pub struct SandboxOptions {
    /// Where compiled modules are kept. `None`, the default, compiles with every load.
    pub cache_dir: Option<PathBuf>,
}

/// What loading needs.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) components: ComponentLinker<GuestState>,
    pub(crate) modules: ModuleLinker<GuestState>,
    pub(crate) cache: Option<Cache>,
}

impl Sandbox {
    /// Builds the engine and starts its ticker, a thread that ends with the last user of the engine.
    ///
    /// # Errors
    ///
    /// When the engine cannot be built here, or the cache folder is writable for everyone.
    pub fn new(options: SandboxOptions) -> Result<Self, LoadError> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.max_wasm_stack(WASM_STACK_BYTES);
        config.async_stack_size(HOST_STACK_BYTES);
        let engine = Engine::new(&config).map_err(engine_error)?;

        let mut components = ComponentLinker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut components).map_err(engine_error)?;
        let mut modules = ModuleLinker::new(&engine);
        wasmtime_wasi::p1::add_to_linker_async(&mut modules, GuestState::wasi).map_err(engine_error)?;

        let cache = options.cache_dir.map(|folder| Cache::open(&folder, &engine)).transpose()?;
        start_ticker(&engine)?;
        Ok(Self { inner: Arc::new(Shared { engine, components, modules, cache }) })
    }

    /// Loads a server: reads the module, checks its digest, and compiles it or takes it from the cache.
    ///
    /// Compiling takes a second or two for each megabyte and happens on a thread for blocking work.
    ///
    /// # Errors
    ///
    /// When the module is missing, damaged, not the pinned one or not a command, or when a granted folder is missing.
    pub async fn load(&self, config: ServerConfig) -> Result<ToolServer, LoadError> {
        let shared = self.inner.clone();
        let path = config.module.clone();
        tokio::task::spawn_blocking(move || server::load(&shared, config))
            .await
            .unwrap_or_else(|error| Err(LoadError::Compile { path, reason: error.to_string() }))
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

/// Moves the epoch on, so that guest code gives way now and then. One thread serves every instance.
fn start_ticker(engine: &Engine) -> Result<(), LoadError> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("segno-sandbox-ticker".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(|error| LoadError::Engine { reason: format!("cannot start its ticker: {error}") })
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in `map_err`")]
fn engine_error(error: wasmtime::Error) -> LoadError {
    LoadError::Engine { reason: format!("{error:#}") }
}

/// How long a guest may keep a thread of the runtime to itself.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Stack of guest code. Deep recursion traps here; interpreters need about half of it.
const WASM_STACK_BYTES: usize = 1024 * 1024;

/// Stack of one instance, the host's functions included. Only pages that were touched take memory.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;
