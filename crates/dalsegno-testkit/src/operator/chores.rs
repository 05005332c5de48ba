//! What keeps a journal small, and what is made of its runs elsewhere: erasing, pruning, forks, files, secrets.

use std::sync::Arc;

use dalsegno_core::{Outcome, RunId, Timestamp};
use dalsegno_runtime::{Clock as _, ForkOptions};
use dalsegno_secrets::{Put, Secret, SecretStore as _};
use dalsegno_store::{Archive, Body, GcOptions, MemoryStore, RunFilter, RunSummary, Store, digest_bytes};

use super::Operator;
use crate::workspace::SECRET;

impl Operator {
    /// Puts the secret that the endpoints want, or takes it away.
    pub(super) async fn change_secret(&mut self) {
        if self.random.chance(650) {
            return self.put_secret().await;
        }
        self.world.count("action", "remove a secret");
        self.world.note("somebody removes the secret");
        let (tenants, name) = self.host.secret();
        for tenant in tenants {
            if let Err(error) = self.host.secrets.remove(&tenant, &name).await {
                self.broken(format!("the secret cannot be removed: {error}"));
            }
        }
    }

    /// Puts the secret, and tells every open run to look: one that is told and finds it never waits for it.
    pub(super) async fn put_secret(&mut self) {
        self.world.count("action", "put a secret");
        self.world.note("somebody puts the secret");
        let (tenants, name) = self.host.secret();
        let put = Put::new(Secret::new(SECRET), self.world.clock.now().as_millis());
        for tenant in tenants {
            if let Err(error) = self.host.secrets.put(&tenant, &name, put.clone()).await {
                return self.broken(format!("the secret cannot be put: {error}"));
            }
        }
        self.secret_told = false;
        let Some(machine) = self.machine() else { return };
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        for run in self.listed(&all).await.into_iter().filter(|run| !run.status.is_end()) {
            match self.ask(&machine, machine.engine.tell_to_look(run.run)).await {
                Some(
                    Ok(())
                    | Err(dalsegno_runtime::EngineError::Post(dalsegno_store::PostError::Ended { .. })),
                ) => {}
                Some(Err(_)) | None => return,
            }
        }
        self.secret_told = true;
    }

    /// In the end the secret is there. Who puts it does so once more only where not every run was told.
    pub(super) async fn settle_secret(&mut self) {
        let (tenants, name) = self.host.secret();
        let now = self.world.clock.now().as_millis();
        let mut there = true;
        for tenant in tenants {
            there &= self.host.secrets.get(&tenant, &name, now).await.is_ok_and(|found| found.is_some());
        }
        if !there || !self.secret_told {
            self.put_secret().await;
        }
    }

    /// Runs for chores: those that fit.
    async fn pick_any(&mut self, fits: impl Fn(&RunSummary) -> bool) -> Option<RunId> {
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let mut runs = self.listed(&all).await;
        runs.retain(|run| fits(run));
        let number = self.random.below(runs.len());
        (number < runs.len()).then(|| runs.swap_remove(number).run)
    }

    /// Forks a run at some step.
    pub(super) async fn fork_one(&mut self) {
        let erased = self.world.judge(|guarantees| guarantees.all_that_rest_on_erased());
        let Some(run) = self.pick_any(|run| !erased.contains(&run.run)).await else { return };
        let Some(machine) = self.machine() else { return };
        // A call is forked before one of its turns.
        let is_call = self.world.judge(|guarantees| guarantees.is_call(run));
        let places = match is_call {
            true => self.reader.turns(run).await.map(|turns| turns.len() as u64),
            false => self.reader.inspect(run, None).await.map(|inspection| inspection.state.step()),
        };
        let steps = match places {
            Ok(steps) => steps,
            Err(error) => return self.broken(format!("run {run} cannot be read: {error}")),
        };
        if steps == 0 || self.world.judge(|guarantees| guarantees.forks()) > 3 {
            return;
        }
        self.world.count("action", "fork");
        let at = 1 + self.random.below(usize::try_from(steps).unwrap_or(1)) as u64;
        self.note(&machine, &format!("forks at step {at}"), run);
        let options = ForkOptions { at: Some(at), ..ForkOptions::default() };
        if is_call {
            return self.fork_call(&machine, run, options).await;
        }
        if let Some(Ok(handle)) = self.ask(&machine, machine.engine.fork(run, options)).await {
            self.follow(&machine, handle);
        }
    }

    /// Erases what a run held that has ended.
    pub(super) async fn erase_one(&mut self) {
        let needed = self.world.judge(|guarantees| guarantees.not_to_be_erased());
        let fits = |run: &RunSummary| run.status.is_end() && !needed.contains(&run.run);
        let Some(run) = self.pick_any(fits).await else { return };
        let Some(machine) = self.machine() else { return };
        self.world.count("action", "erase");
        self.note(&machine, "erases", run);
        let is_needed = || self.world.judge(|guarantees| guarantees.is_needed_above(run));
        let was_needed = is_needed();
        if !was_needed {
            // It may be erased in part when the process dies.
            self.world.judge(|guarantees| guarantees.erased(run));
        }
        let erased = self.ask(&machine, machine.engine.journal().erase(run, None)).await;
        if was_needed && !is_needed() {
            // The run above it ended meanwhile.
            self.world.judge(|guarantees| guarantees.erased(run));
        } else if was_needed && erased.is_some_and(|erased| erased.is_ok()) {
            self.broken(format!("{run} was erased, and the run above it needs its end"));
        }
    }

    /// Prunes the journal of what ended a while ago.
    pub(super) async fn collect_garbage(&mut self) {
        let Some(machine) = self.machine() else { return };
        self.world.count("action", "gc");
        let age = self.random.pick(&[600_000, 7_200_000]);
        let before = self.world.clock.now().as_millis().saturating_sub(age);
        self.world.note(&format!("p{} prunes what is older than {age} ms", machine.process.number));
        self.ask(&machine, machine.engine.journal().gc(&GcOptions::new(Timestamp::from_millis(before))))
            .await;
        let all = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let left = self.listed(&all).await.into_iter().map(|run| run.run).collect();
        self.world.judge(|guarantees| guarantees.pruned(&left));
    }

    /// Takes a run to another store, by way of a file, where it must replay.
    pub(super) async fn export_one(&mut self) {
        let erased = self.world.judge(|guarantees| guarantees.all_that_rest_on_erased());
        let Some(run) = self.pick_any(|run| !erased.contains(&run.run)).await else { return };
        self.world.count("action", "export");
        let alias = self.world.judge(|guarantees| guarantees.name(run));
        self.world.note(&format!("somebody takes {alias} elsewhere"));
        let archive = match self.reader.export(run).await {
            Ok(archive) => archive,
            // A child run of it may be erased.
            Err(_) if !erased.is_empty() => return,
            Err(error) => return self.broken(format!("{alias} cannot be exported: {error}: {error:?}")),
        };
        let archive = match Archive::decode(&archive.encode()) {
            Ok(archive) => archive,
            Err(error) => return self.broken(format!("{alias}: its file cannot be read: {error}")),
        };
        let (runs, store) = (archive.runs().collect::<Vec<_>>(), Arc::new(MemoryStore::new()));
        let elsewhere = self.host.elsewhere(Arc::clone(&store) as Arc<dyn Store>).await;
        let engine = match elsewhere {
            Ok(engine) => engine,
            Err(error) => return self.broken(format!("an engine cannot be opened elsewhere: {error}")),
        };
        self.world.count("action", "import");
        if let Err(error) = engine.archives().import(archive).await {
            return self.broken(format!("{alias} cannot be imported: {error}: {error:?}"));
        }
        match engine.journal().replay(run).await {
            Ok(replay) if replay.identical => {}
            other => self.broken(format!("{alias} does not replay elsewhere: {other:?}")),
        }
        for run in runs {
            for record in store.read(run, 0).await.unwrap_or_default() {
                let Body::Resolved { outcome: Outcome::ToolReturned(returned), .. } = record.body else {
                    continue;
                };
                for file in returned.files {
                    let found = store.blob(file.digest).await;
                    if !matches!(found, Ok(Some(bytes)) if digest_bytes(&bytes) == file.digest) {
                        self.broken(format!("{alias} was taken elsewhere without the file {}", file.digest));
                    }
                }
            }
        }
    }
}
