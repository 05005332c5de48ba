//! A provider whose replies come later. It keeps what it was handed, no matter what becomes of the process.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{ModelReply, OperationId};
use dalsegno_models::{CompletionRequest, Later, LaterError, ModelError, ModelErrorKind};

use crate::guarantees::Call;
use crate::random::Random;
use crate::receiver::{Course, Fate, SimulatedModel};
use crate::workspace::TOKEN_NANO_USD;

/// The requests that the provider was handed, by its ids for them.
pub(crate) type Batches = BTreeMap<String, Batch>;

/// A request that the provider works on.
pub(crate) struct Batch {
    operation: OperationId,
    /// When its reply is there.
    ready: Duration,
    reply: ModelReply,
    /// There will be no reply.
    fails: bool,
    cancelled: bool,
}

impl SimulatedModel {
    fn batches<T>(&self, tell: impl FnOnce(&mut Batches) -> T) -> T {
        tell(&mut self.world.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says whether providers of this world can be asked for a batch by the operation that it is of.
    fn finds(&self) -> bool {
        Random::new(self.world.seed, "batches are found again").chance(600)
    }

    /// Takes a request. One of the same operation that it still works on is found again, where the provider can do that.
    fn take(&self, call: &Call, request: &CompletionRequest) -> String {
        let now = self.world.clock.elapsed();
        let known = self.batches(|all| {
            let mut open = all.iter().filter(|(_, one)| one.operation == call.operation && !one.cancelled);
            open.find(|(_, one)| one.ready > now).map(|(id, _)| id.clone())
        });
        if let Some(known) = known.filter(|_| self.finds()) {
            self.world.count("batch", "found again");
            return known;
        }
        let id = format!("batch of {} {}", call.operation, call.attempt);
        let mut random = Random::new(self.world.seed, &id);
        let reply = self.reply(call.run, request);
        let fails = random.chance(120);
        // What it works on is paid for, no matter whether anybody asks for the reply.
        let cost = if fails { 0 } else { reply.output_tokens };
        self.world.judge(|guarantees| guarantees.costs(&call.tenant, cost * TOKEN_NANO_USD));
        self.world.count("batch", "handed over");
        let ready = now + random.millis(1_000, 400_000);
        let batch = Batch { operation: call.operation, ready, reply, fails, cancelled: false };
        self.batches(|all| all.insert(id.clone(), batch));
        id
    }
}

#[async_trait]
impl Later for SimulatedModel {
    async fn submit(&self, request: &CompletionRequest) -> Result<String, ModelError> {
        let (under_way, Fate { course, there, back }) = self.ask(request).await?;
        tokio::time::sleep(there).await;
        let id = course.arrives().then(|| self.take(&under_way.call, request));
        tokio::time::sleep(back).await;
        self.process.breathe().await;
        match (course, id) {
            (Course::Answered | Course::Panics, Some(id)) => Ok(id),
            (Course::Refused, _) => Err(ModelError::new(ModelErrorKind::Refused, "no")),
            (_, Some(_)) => Err(ModelError::new(ModelErrorKind::Protocol, "its id is lost")),
            (_, None) => Err(ModelError::new(ModelErrorKind::Unavailable, "not now")),
        }
    }

    async fn collect(&self, request: &CompletionRequest, id: &str) -> Result<Option<ModelReply>, LaterError> {
        let (world, process) = (&self.world, &self.process);
        process.breathe().await;
        let run = self.run_of(request).map_err(LaterError::Ended)?;
        let now = world.clock.elapsed();
        let found = self.batches(|all| {
            let batch = all.get(id).filter(|batch| batch.operation == request.operation)?;
            let reply = (batch.ready <= now).then(|| batch.reply.clone());
            Some((reply, batch.fails, batch.cancelled))
        });
        let Some((reply, fails, cancelled)) = found else {
            world.judge(|guarantees| {
                let name = guarantees.name(run);
                guarantees.broken(format!("{name} asks about `{id}`, which is no batch of its own"));
            });
            return Err(LaterError::Ended(ModelError::new(ModelErrorKind::Refused, "no such batch")));
        };
        let mut random = Random::new(world.seed, &format!("look {id} {}", now.as_millis()));
        tokio::time::sleep(random.millis(0, 300)).await;
        process.breathe().await;
        if random.chance(world.faults().call_fails / 2) {
            world.count("batch", "not told");
            return Err(LaterError::NotNow(ModelError::new(ModelErrorKind::Unavailable, "not now")));
        }
        let Some(reply) = reply else {
            world.count("batch", "asked too early");
            return Ok(None);
        };
        if fails || cancelled {
            world.count("batch", if cancelled { "asked when cancelled" } else { "failed" });
            return Err(LaterError::Ended(ModelError::new(ModelErrorKind::Refused, "it failed")));
        }
        world.count("batch", "collected");
        self.want(run, &reply);
        Ok(Some(reply))
    }

    async fn cancel(&self, id: &str) -> Result<(), ModelError> {
        self.process.breathe().await;
        let known = self.batches(|all| all.get_mut(id).map(|batch| batch.cancelled = true));
        match known {
            Some(()) => {
                self.world.count("batch", "cancelled");
                Ok(())
            }
            None => {
                let what = format!("`{id}` is cancelled, which is no batch");
                self.world.judge(|guarantees| guarantees.broken(what));
                Err(ModelError::new(ModelErrorKind::Refused, "no such batch"))
            }
        }
    }
}
