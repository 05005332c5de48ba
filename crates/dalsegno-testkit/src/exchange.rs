//! What a provider is asked to do with a call: to send keys to its line, and to transfer it.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{EffectClass, OperationId, RunId};
use dalsegno_runtime::{KeysSent, NotDone};

use crate::guarantees::Call;
use crate::process::Process;
use crate::random::Random;
use crate::receiver::{Course, Fate, UnderWay, fate, send};
use crate::world::World;

/// The longest until a call that is transferred has left.
const LEAVES_WITHIN_MS: u64 = 12_000;

/// Sends keys to the line of a caller, which takes them once at most.
pub(crate) async fn send_keys(
    world: &Arc<World>,
    process: &Process,
    operation: OperationId,
    keys: &str,
) -> Result<KeysSent, NotDone> {
    process.breathe().await;
    let call = world.judge(|guarantees| guarantees.keys(process, operation, keys));
    ask(world, process, "keys", call, |_, _| {}).await.map(|()| KeysSent::All)
}

/// Asks for the transfer of a call. If it is made, the call leaves after a while.
pub(crate) async fn transfer(
    world: &Arc<World>,
    process: &Process,
    run: RunId,
    leaves: impl FnOnce(&World) + Send + 'static,
) -> Result<(), NotDone> {
    process.breathe().await;
    let call = world.judge(|guarantees| guarantees.transfer(process, run));
    ask(world, process, "transfer", call, |call, there| {
        let mut random = Random::new(world.seed, &format!("transfer {}", call.operation));
        if random.chance(300) {
            return world.count("transfer", "the other end does not answer");
        }
        let (world, pause) = (Arc::clone(world), random.millis(1, LEAVES_WITHIN_MS));
        tokio::spawn(async move {
            tokio::time::sleep(there + pause).await;
            leaves(&world);
        });
    })
    .await
}

/// Asks the provider for something of an unsafe class, which it does `then` a moment later, unless the wish is lost or refused.
async fn ask(
    world: &Arc<World>,
    process: &Process,
    what: &'static str,
    call: Option<Call>,
    then: impl FnOnce(&Call, Duration),
) -> Result<(), NotDone> {
    let Some(call) = call else {
        world.judge(|guarantees| guarantees.broken(format!("{what}: no operation asks for it")));
        return Err(NotDone::Failed("no operation".to_owned()));
    };
    let _under_way = UnderWay { world: Arc::clone(world), call: call.clone() };
    let Fate { course, there, back } =
        fate(world.seed, world.faults().call_fails, call.operation, call.attempt);
    world.count(what, &format!("{course:?}").to_lowercase());
    let answer = course.arrives().then(|| {
        then(&call, there);
        send(world, EffectClass::Unsafe, call, there, back)
    });
    let result = match course {
        Course::Answered => {
            if let Some(answer) = answer {
                let _ = answer.await;
            }
            Ok(())
        }
        Course::Refused => {
            tokio::time::sleep(there).await;
            Err(NotDone::Failed("the provider does not do it".to_owned()))
        }
        Course::LostKnown => {
            tokio::time::sleep(there).await;
            Err(NotDone::Passing("the line is not there at the moment".to_owned()))
        }
        Course::Lost | Course::AnswerLost => {
            match answer {
                Some(answer) => drop(answer.await),
                None => tokio::time::sleep(there).await,
            }
            Err(NotDone::Unknown("the connection is lost".to_owned()))
        }
        Course::Silent | Course::SilentAndLost | Course::Panics => std::future::pending().await,
    };
    process.breathe().await;
    result
}
