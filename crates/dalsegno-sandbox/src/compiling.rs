//! Compiling within a time.
//!
//! A compiler cannot be stopped, and its machine code has to be made in this process, which may be any program that has this
//! crate in it. So a module is compiled on threads that its load does not depend on: when the time is up, the load ends with
//! an error, other modules get threads of their own, and the compiler ends by itself, for what it is given is bounded
//! ([`crate::bounds`]). How many such compilers there are at once is bounded as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::compiled::{Compiled, Encoding};
use crate::config::ModuleDigest;
use crate::engine::Shared;

/// The most threads that compile together: each may hold the memory that one function takes.
const COMPILERS_MAX: usize = 4;

/// The most compilers of this process that are at work after their time was up. While there are so many, nothing is compiled.
pub(crate) const GIVEN_UP_MAX: usize = 2;

/// Why a module was not compiled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotCompiled {
    /// The compiler refused it, for this reason.
    Refused(String),
    /// It takes longer than it may.
    Slow,
    /// Other modules do.
    Busy,
}

/// What this process compiles with, all sandboxes together.
struct Compilers {
    /// The threads for what is within its time. None before the first module, and after one was given up.
    pool: Option<Arc<ThreadPool>>,
    /// What is at work after its time was up.
    given_up: Vec<ModuleDigest>,
}

static COMPILERS: Mutex<Compilers> = Mutex::new(Compilers { pool: None, given_up: Vec::new() });

fn compilers() -> MutexGuard<'static, Compilers> {
    COMPILERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Compilers {
    /// The threads on which this process compiles: half of the machine, so that the rest goes on. None where no threads can be
    /// had; each load compiles on its own then.
    fn pool(&mut self) -> Option<Arc<ThreadPool>> {
        if self.pool.is_none() {
            let half = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
            let name = |number| format!("dalsegno-compiler-{number}");
            let pool = ThreadPoolBuilder::new().num_threads(half.min(COMPILERS_MAX)).thread_name(name);
            self.pool = pool.build().ok().map(Arc::new);
        }
        self.pool.clone()
    }
}

/// Compiles a module, and keeps the machine code in the cache. Blocks, no longer than `patience`. What takes longer is in the
/// cache when it is done.
pub(crate) fn compile(
    shared: &Arc<Shared>,
    encoding: Encoding,
    wasm: Vec<u8>,
    digest: ModuleDigest,
    patience: Duration,
) -> Result<Compiled, NotCompiled> {
    let pool = {
        let mut compilers = compilers();
        if compilers.given_up.contains(&digest) {
            return Err(NotCompiled::Slow);
        }
        if compilers.given_up.len() >= GIVEN_UP_MAX {
            return Err(NotCompiled::Busy);
        }
        compilers.pool()
    };
    let (tell, told) = mpsc::sync_channel(1);
    let shared = Arc::clone(shared);
    let work = move || {
        let compile = || {
            let compiled = Compiled::compile(&shared.engine, encoding, &wasm);
            compiled.map_err(|error| format!("{error:#}"))
        };
        let compiled = catch_unwind(AssertUnwindSafe(|| match &pool {
            Some(pool) => pool.install(compile),
            None => compile(),
        }));
        let compiled = compiled.unwrap_or_else(|_| Err("the compiler panicked".to_owned()));
        if let (Ok(compiled), Some(cache)) = (&compiled, &shared.cache) {
            cache.keep(digest, compiled);
        }
        finish(digest, compiled, &tell);
    };
    let thread = std::thread::Builder::new().name("dalsegno-compiler".to_owned());
    thread.spawn(work).map_err(|error| NotCompiled::Refused(format!("no thread can be had: {error}")))?;
    let compiled = match told.recv_timeout(patience) {
        Ok(compiled) => compiled,
        Err(RecvTimeoutError::Disconnected) => {
            return Err(NotCompiled::Refused("its thread ended".to_owned()));
        }
        Err(RecvTimeoutError::Timeout) => {
            let mut compilers = compilers();
            match told.try_recv() {
                Ok(compiled) => compiled,
                Err(_) => {
                    compilers.given_up.push(digest);
                    // It must not hold up others.
                    compilers.pool = None;
                    return Err(NotCompiled::Slow);
                }
            }
        }
    };
    compiled.map_err(NotCompiled::Refused)
}

/// Gives the machine code to the load that waits for it. Where that has given up, there is room for another one from now on.
fn finish(
    digest: ModuleDigest,
    compiled: Result<Compiled, String>,
    tell: &SyncSender<Result<Compiled, String>>,
) {
    let mut compilers = compilers();
    match compilers.given_up.iter().position(|given_up| *given_up == digest) {
        Some(place) => {
            compilers.given_up.remove(place);
        }
        // There is room for one.
        None => drop(tell.try_send(compiled)),
    }
}
