//! A provider with a telephone line, a server that answers at it, and callers.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{LiveAnswer, LiveModel, LiveRefer, LiveTelephone};
use tokio::runtime::Runtime;

use crate::caller::{Calling, Calls, Sipp};
use crate::trunk::{Plan, Seen, Timing, Trunk, call_id};
use crate::workspace::{LINES, PATIENCE, Run, Served, Workspace};

/// What the agent greets with.
pub(crate) const GREETING: &str = "Good evening.";

/// All that takes part in a call.
pub(crate) struct World {
    // The server is stopped before what it depends on.
    pub(crate) server: Served,
    pub(crate) workspace: Workspace,
    pub(crate) trunk: Trunk,
    pub(crate) sipp: Sipp,
    live: Arc<LiveModel>,
    runtime: Runtime,
}

/// A call that is over.
pub(crate) struct Ended {
    /// What the callers saw.
    pub(crate) told: Vec<String>,
    /// The calls as the user agent saw them.
    pub(crate) seen: Vec<Seen>,
}

impl Ended {
    /// The only call.
    pub(crate) fn call(&self) -> anyhow::Result<&Seen> {
        self.seen.first().context("there was no call")
    }

    /// The only thing that the caller saw.
    pub(crate) fn only(&self) -> anyhow::Result<&str> {
        ensure!(self.told.len() == 1, "the caller saw {:?}", self.told);
        Ok(&self.told[0])
    }
}

impl World {
    pub(crate) fn new(dalsegno: PathBuf) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let live = Arc::new(runtime.block_on(LiveModel::start([]))?);
        // A call ends when the caller's telephone ends it, not when it is told to call another one.
        live.refers(LiveRefer::NotAnswered);
        let workspace = Workspace::new(dalsegno, &live.base_url())?;
        let server = Served::start(&workspace)?;
        let trunk = runtime.block_on(Trunk::open(Arc::clone(&live), server.address))?;
        let sipp = Sipp::new(trunk.address)?;
        Ok(Self { server, workspace, trunk, sipp, live, runtime })
    }

    /// What the calls from here on are at the provider: at the first line, at once.
    pub(crate) fn answers(&self, answers: Vec<LiveAnswer>) {
        self.expects(LINES[0], answers, Timing::AtOnce);
    }

    pub(crate) fn expects(&self, line: &'static str, answers: Vec<LiveAnswer>, timing: Timing) {
        self.trunk.expects(Plan { line, answers, timing });
    }

    /// Makes calls, and waits until they are over.
    pub(crate) fn calls(&mut self, calls: &Calls) -> anyhow::Result<Ended> {
        let before = self.trunk.seen().len();
        let begun = self.sipp.begins(calls)?;
        self.ends(begun, before)
    }

    /// Makes a call in which the caller says something, once the agent has greeted, and waits until it is over.
    pub(crate) fn spoken(&mut self, calls: &Calls, text: &str) -> anyhow::Result<Ended> {
        let number = self.trunk.seen().len();
        let begun = self.sipp.begins(calls)?;
        self.says(number, text)?;
        self.ends(begun, number)
    }

    /// Waits until the calls from this one on are over.
    pub(crate) fn ends(&self, calling: Calling, from: usize) -> anyhow::Result<Ended> {
        let told = calling.ends()?;
        let begun = Instant::now();
        loop {
            let seen = self.trunk.seen().split_off(from);
            if let Some(error) = seen.iter().find_map(|seen| seen.error.as_ref()) {
                anyhow::bail!("the user agent: {error}");
            }
            if !seen.is_empty() && seen.iter().all(|seen| seen.over.is_some()) {
                return Ok(Ended { told, seen });
            }
            ensure!(begun.elapsed() < PATIENCE, "a call has not ended at the user agent: {seen:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The run of a call at the first line, once it has ended.
    pub(crate) fn run(&self, seen: &Seen) -> anyhow::Result<Run> {
        self.workspace.ended(LINES[0], &seen.call)
    }

    /// What was asked about a call, and what it came to, in order.
    pub(crate) fn asked(&self, call: &str) -> Vec<(String, u16)> {
        let controls = self.live.book().controls;
        let own = controls.into_iter().filter(|control| control.call == call);
        own.map(|control| (control.verb, control.status)).collect()
    }

    /// Where transfers of a call were to go.
    pub(crate) fn targets(&self, call: &str) -> Vec<String> {
        let controls = self.live.book().controls;
        let own = controls.iter().filter(|control| control.call == call && control.verb == "refer");
        own.filter_map(|control| control.body["target_uri"].as_str().map(str::to_owned)).collect()
    }

    /// What the live model was told to be when a call was accepted.
    pub(crate) fn instructions(&self, call: &str) -> String {
        let controls = self.live.book().controls;
        let accept = controls.iter().find(|control| control.call == call && control.verb == "accept");
        accept.and_then(|control| control.body["instructions"].as_str()).unwrap_or_default().to_owned()
    }

    /// What was said and told in a call.
    pub(crate) fn words(&self, call: &str) -> String {
        let book = self.live.book();
        book.telephones.get(call).map(|call| call.words().join("\n")).unwrap_or_default()
    }

    /// Has the caller of this number say something, once the agent has greeted.
    pub(crate) fn says(&self, number: usize, text: &str) -> anyhow::Result<()> {
        self.until_call(number, |call| call.words().contains(&GREETING))?;
        self.live.says(&call_id(number), text);
        Ok(())
    }

    /// Waits until the call of this number is so at the provider.
    pub(crate) fn until_call(
        &self,
        number: usize,
        is_so: impl Fn(&LiveTelephone) -> bool,
    ) -> anyhow::Result<()> {
        let call = call_id(number);
        let until = self.live.until(|book| book.telephones.get(&call).is_some_and(&is_so));
        let waits = async { tokio::time::timeout(PATIENCE, until).await };
        self.runtime.block_on(waits).with_context(|| format!("the call `{call}` does not come that far"))
    }

    /// What the provider refused, but for what another process had done already.
    pub(crate) fn errors(&self) -> Vec<String> {
        let known = ["response_cancel_not_active", "item_already_exists", "duplicate_tool_output"];
        let errors = self.live.book().errors;
        errors.into_iter().filter(|code| !known.contains(&code.as_str())).collect()
    }
}
