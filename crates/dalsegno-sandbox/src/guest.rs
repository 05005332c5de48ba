//! The inside of an instance: its store, what it is granted, and how it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dalsegno_protocol::{CallErrorKind, Failure};
use wasmtime::component::InstancePre as ComponentInstancePre;
use wasmtime::{InstancePre, PoolConcurrencyLimitError, ResourceLimiter, Store, Trap, UpdateDeadline};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::{
    Deterministic, FsPerms, HostMonotonicClock, HostWallClock, I32Exit, WasiCtx, WasiCtxView, WasiView,
};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::denial::Denials;
use crate::http::Http;
use crate::instance::Link;
use crate::permissions::Access;
use crate::pipe::{GuestInput, GuestOutput};
use crate::server::Loaded;
use crate::stats::Counters;
use dalsegno_protocol::DenialKind;

/// A linked module, ready to be instantiated many times.
#[derive(Clone)]
pub(crate) enum Program {
    Component(CommandPre<GuestState>),
    Module(InstancePre<GuestState>),
}

impl Program {
    pub(crate) fn component(linked: ComponentInstancePre<GuestState>) -> wasmtime::Result<Self> {
        CommandPre::new(linked).map(Self::Component)
    }
}

/// What the host functions of one instance work on.
pub(crate) struct GuestState {
    wasi: WasiP1Ctx,
    limiter: Limiter,
    denials: Arc<Denials>,
    http: Http,
    http_context: WasiHttpCtx,
}

impl GuestState {
    pub(crate) fn wasi(state: &mut Self) -> &mut WasiP1Ctx {
        &mut state.wasi
    }

    /// Notes what the guest is refused.
    pub(crate) fn deny(&self, kind: DenialKind, subject: &str, reason: &str) {
        self.denials.note(kind, subject, reason);
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi.ctx()
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http_context, table: self.wasi.ctx().table, hooks: &mut self.http }
    }
}

/// Builds the store of one instance with its grants; `env` holds the variables that it sees.
pub(crate) fn store(
    loaded: &Loaded,
    env: &[(String, String)],
    link: &Arc<Link>,
) -> wasmtime::Result<Store<GuestState>> {
    let (permissions, limits) = (&loaded.config.permissions, &loaded.config.limits);
    let mut wasi = WasiCtx::builder();
    wasi.stdin(GuestInput(link.input.clone()))
        .stdout(GuestOutput(link.output.clone()))
        .stderr(link.stderr.clone())
        .envs(env)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }));
    if !permissions.clock {
        wasi.wall_clock(FixedWallClock).monotonic_clock(CoarseClock(Instant::now()));
    }
    if !permissions.random {
        wasi.secure_random(fixed_random("secure"))
            .insecure_random(fixed_random("insecure"))
            .insecure_random_seed(0);
    }
    for folder in &permissions.files {
        let access = match folder.access {
            Access::Read => FsPerms::ReadOnly,
            Access::Write => FsPerms::ReadWrite,
        };
        wasi.preopened_dir(&folder.host, &folder.guest, access)?;
    }
    let limiter = Limiter {
        memory: 0,
        memory_max: usize::try_from(limits.memory).unwrap_or(usize::MAX),
        elements: 0,
        elements_max: usize::try_from(limits.table_elements).unwrap_or(usize::MAX),
        counters: Arc::clone(&loaded.counters),
    };
    loaded.counters.instance_started();
    let denials = Arc::clone(&link.denials);
    let http = Http::new(Arc::clone(&loaded.rules), Arc::clone(&denials));
    let mut state =
        GuestState { wasi: wasi.build_p1(), limiter, denials, http, http_context: WasiHttpCtx::new() };
    state.ctx().table.set_max_capacity(HANDLES_MAX);

    let mut store = Store::new(&loaded.engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(HOSTCALL_BYTES_MAX);
    store.set_epoch_deadline(1);
    let link = Arc::clone(link);
    store.epoch_deadline_callback(move |_| {
        if link.has_ended() {
            return Ok(UpdateDeadline::Interrupt);
        }
        if link.is_busy() {
            return Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())));
        }
        // Nobody waits for this guest: whatever it does now, it does when the next call pays for it.
        let link = Arc::clone(&link);
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(async move { link.until_busy().await })))
    });
    Ok(store)
}

/// Runs the guest until it ends by itself, and says how.
pub(crate) async fn run(program: Program, mut store: Store<GuestState>) -> Failure {
    let ended = match program {
        Program::Component(command) => run_component(&command, &mut store).await,
        Program::Module(module) => run_module(&module, &mut store).await,
    };
    let Err(error) = ended else {
        return Failure::new(CallErrorKind::Exited, "the guest exited before the host was done with it");
    };
    if let Some(error) = error.downcast_ref::<OutOfMemory>() {
        return Failure::new(CallErrorKind::OutOfMemory, error.to_string());
    }
    if let Some(error) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Failure::new(CallErrorKind::Overloaded, format!("too many instances run already: {error}"));
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return Failure::new(CallErrorKind::Exited, format!("the guest exited with code {code}"));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Failure::new(CallErrorKind::Trap, format!("the guest trapped: {trap}"));
    }
    Failure::new(CallErrorKind::Trap, format!("the guest was stopped: {error:#}"))
}

async fn run_component(
    command: &CommandPre<GuestState>,
    store: &mut Store<GuestState>,
) -> wasmtime::Result<()> {
    let command = command.instantiate_async(&mut *store).await?;
    match command.wasi_cli_run().call_run(store).await? {
        Ok(()) => Ok(()),
        Err(()) => Err(I32Exit(1).into()),
    }
}

async fn run_module(module: &InstancePre<GuestState>, store: &mut Store<GuestState>) -> wasmtime::Result<()> {
    let instance = module.instantiate_async(&mut *store).await?;
    let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
    start.call_async(store, ()).await
}

/// Counts what an instance holds, over all of its memories and tables.
struct Limiter {
    memory: usize,
    memory_max: usize,
    elements: usize,
    elements_max: usize,
    counters: Arc<Counters>,
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.counters.instance_ended(self.memory);
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.memory.saturating_add(desired.saturating_sub(current));
        if wanted > self.memory_max {
            // An error, not a refusal: a guest that is refused usually aborts later, elsewhere, without saying why.
            return Err(OutOfMemory { what: "bytes of memory", wanted, limit: self.memory_max }.into());
        }
        self.counters.grown(wanted - self.memory, wanted);
        self.memory = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.elements.saturating_add(desired.saturating_sub(current));
        if wanted > self.elements_max {
            return Err(OutOfMemory { what: "table elements", wanted, limit: self.elements_max }.into());
        }
        self.elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX as usize
    }

    fn tables(&self) -> usize {
        CORE_INSTANCES_MAX as usize
    }

    fn memories(&self) -> usize {
        CORE_INSTANCES_MAX as usize
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the guest asked for {wanted} {what}, expected at most {limit}: raise the limit, or give the guest less work"
)]
struct OutOfMemory {
    what: &'static str,
    wanted: usize,
    limit: usize,
}

/// The wall clock of a guest that was not granted one: always the first second of the year 2000.
struct FixedWallClock;

impl HostWallClock for FixedWallClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(946_684_800)
    }
}

/// Time since the start of the instance in coarse steps. It says nothing about the world and is too coarse to measure
/// the host by, but it moves: with one that stands still, a guest's timers would never fire.
struct CoarseClock(Instant);

impl HostMonotonicClock for CoarseClock {
    fn resolution(&self) -> u64 {
        CLOCK_STEP_NS
    }

    fn now(&self) -> u64 {
        let elapsed = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        elapsed - elapsed % CLOCK_STEP_NS
    }
}

/// Random bytes that are the same in every instance. Long enough that no algorithm sees a pattern by chance.
fn fixed_random(purpose: &str) -> Deterministic {
    let mut bytes = vec![0; 4096];
    blake3::Hasher::new_derive_key("dalsegno sandbox fixed randomness")
        .update(purpose.as_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    Deterministic::new(bytes)
}

const CLOCK_STEP_NS: u64 = 10_000_000;

/// Handles (streams, files, timers) that one guest may hold; each costs the host some memory.
const HANDLES_MAX: usize = 10_000;

/// What one host call may copy out of the guest.
const HOSTCALL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What one host call may ask of random bytes.
const RANDOM_BYTES_MAX: u64 = 64 * 1024;

/// Core instances, memories and tables of one component; JavaScript and Python ones use about ten.
pub(crate) const CORE_INSTANCES_MAX: u32 = 64;
