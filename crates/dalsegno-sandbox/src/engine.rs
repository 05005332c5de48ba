//! The engine that all servers of a process share, and the thread that moves its clock.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_net::Resolver;
use wasmtime::component::Linker as ComponentLinker;
use wasmtime::{Config, Engine, Linker as ModuleLinker, PoolingAllocationConfig};

use crate::cache::Cache;
use crate::config::ServerConfig;
use crate::error::LoadError;
use crate::guard;
use crate::guest::{CORE_INSTANCES_MAX, GuestState};
use crate::place::CachePlace;
use crate::server::{self, ToolServer};

/// The engine, its cache and its clock. Clones share them.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Shared>,
}

/// What a sandbox is built with.
#[derive(Clone, Default)]
pub struct SandboxOptions {
    /// Where compiled modules are kept. `None`, the default, compiles with every load, and so does a place that cannot be
    /// used or trusted, with a warning.
    pub cache: Option<CachePlace>,
    /// Where the memory of instances comes from.
    pub allocation: Allocation,
    /// Who finds the addresses of names that servers send requests to. `None`, the default, is the operating system.
    /// The answers are checked, whoever gives them.
    pub resolver: Option<Arc<dyn Resolver>>,
}

impl std::fmt::Debug for SandboxOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cache, allocation, resolver: _ } = self;
        formatter
            .debug_struct("SandboxOptions")
            .field("cache", cache)
            .field("allocation", allocation)
            .finish_non_exhaustive()
    }
}

/// Where the memory of instances comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// From places that are reserved when the sandbox is built, where the machine allows that: a start asks the system
    /// for nothing. Each place takes address space, not memory; where there is too little of it, as under `ulimit -v`,
    /// the reason is logged and every instance gets memory of its own.
    #[default]
    Pooled,
    /// Every instance asks the system for memory of its own.
    OnDemand,
}

/// What loading needs.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) components: ComponentLinker<GuestState>,
    pub(crate) modules: ModuleLinker<GuestState>,
    pub(crate) cache: Option<Cache>,
    pub(crate) resolver: Option<Arc<dyn Resolver>>,
}

impl Sandbox {
    /// Builds the engine and starts its ticker, a thread that ends with the last user of the engine.
    ///
    /// # Errors
    ///
    /// When the engine cannot be built here.
    pub fn new(options: SandboxOptions) -> Result<Self, LoadError> {
        let engine = engine(options.allocation)?;
        let mut components = ComponentLinker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut components).map_err(engine_error)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut components).map_err(engine_error)?;
        guard::guard(&mut components).map_err(engine_error)?;
        let mut modules = ModuleLinker::new(&engine);
        wasmtime_wasi::p1::add_to_linker_async(&mut modules, GuestState::wasi).map_err(engine_error)?;

        let cache = options.cache.and_then(|place| {
            let opened = Cache::open(&place, &engine);
            let refused = |reason: &String| {
                tracing::warn!(reason, "compiled modules are not kept; each start compiles them anew");
            };
            opened.inspect_err(refused).ok()
        });
        start_ticker(&engine)?;
        Ok(Self {
            inner: Arc::new(Shared { engine, components, modules, cache, resolver: options.resolver }),
        })
    }

    /// Loads a server: reads the module, checks its digest, and compiles it or takes it from the cache.
    ///
    /// Compiling takes a second or two for each megabyte. It happens on threads that nothing waits for after
    /// [`crate::Limits::compile_timeout`], the end of the process included.
    ///
    /// # Errors
    ///
    /// When the module is missing, damaged, too slow to compile, not the pinned one or not a command, or when a granted folder is missing.
    pub async fn load(&self, config: ServerConfig) -> Result<ToolServer, LoadError> {
        let shared = self.inner.clone();
        let path = config.module.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        // No thread of the runtime: that would wait for it at its end.
        std::thread::Builder::new()
            .name("dalsegno-load".to_owned())
            .spawn(move || drop(tell.send(server::load(&shared, config))))
            .map_err(|error| LoadError::Engine { reason: format!("no thread can be had: {error}") })?;
        let panicked = |_| Err(LoadError::Compile { path, reason: "its load panicked".to_owned() });
        told.await.unwrap_or_else(panicked)
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

/// Builds the engine, with reserved places if that is wanted and possible.
fn engine(allocation: Allocation) -> Result<Engine, LoadError> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.async_stack_size(HOST_STACK_BYTES);
    // A guest's trap is told by its kind; where in its code that was is of no use to whoever calls it. Without the tables for
    // that, machine code is read sooner.
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config.debug_symbols(false);
    if allocation == Allocation::Pooled {
        let mut pooled = config.clone();
        pooled.allocation_strategy(places());
        match Engine::new(&pooled) {
            Ok(engine) => return Ok(engine),
            Err(error) => {
                let reason = format!("{error:#}");
                tracing::warn!(
                    reason,
                    "no places can be reserved for instances; each gets memory of its own"
                );
            }
        }
    }
    Engine::new(&config).map_err(engine_error)
}

/// The places for instances. Interpreters are many core modules in one component: for them the bounds of a single one
/// are wide, while the sum counts for all.
fn places() -> PoolingAllocationConfig {
    let mut places = PoolingAllocationConfig::new();
    places
        .total_component_instances(INSTANCES_MAX)
        .total_core_instances(INSTANCES_MAX * 8)
        .total_memories(INSTANCES_MAX)
        .total_tables(INSTANCES_MAX * 4)
        .total_stacks(INSTANCES_MAX)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(CORE_INSTANCES_MAX)
        .max_tables_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_module(4)
        .max_tables_per_module(CORE_INSTANCES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_core_instance_size(CONTEXT_BYTES_MAX)
        .max_component_instance_size(CONTEXT_BYTES_MAX);
    places
}

/// Moves the epoch on, so that guest code gives way now and then. One thread serves every instance.
fn start_ticker(engine: &Engine) -> Result<(), LoadError> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("dalsegno-sandbox-ticker".to_owned())
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

/// Instances that can live at once in a process. Each reserves 4 GiB of address space, of which there are 128 TiB.
const INSTANCES_MAX: u32 = 4_096;

/// Elements of one table; the largest interpreters need about ten thousand.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// What the host keeps of one instance beside its memories and tables; interpreters need some hundred kilobytes.
const CONTEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a guest may keep a thread of the runtime to itself.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Stack of guest code. Deep recursion traps here; interpreters need about half of it.
const WASM_STACK_BYTES: usize = 1024 * 1024;

/// Stack of one instance, the host's functions included. Only pages that were touched take memory.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;
