//! A workspace with one run, which lives through processes that die, and a person who answers for it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dalsegno_core::{AgentResponse, Answer, Digest, OperationId, RunId, Status};
use dalsegno_runtime::{
    AbandonOptions, Cancelled, Engine, EngineError, Inspection, RunEnd, RunFailure, WaitingOperation,
};
use dalsegno_store::{
    AcquireError, AppendError, Body, CreateError, Record, RunFilter, RunSummary, Start, Waiting,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{self, ENDED, ORDERS, Orders, SUSPENDED, Task, Wish, Word};
use crate::receiver::{Ledger, Receiver};
use crate::scenario::Scenario;
use crate::store::{Boundary, RECEIPTS, Trouble, receipts};

/// More lives than any run needs.
const LIVES_MAX: usize = 100;

/// How a life ends before its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Death {
    Never,
    /// The process kills itself at a boundary of the journal.
    At(Boundary),
    /// The process is killed so long after it began.
    After(Duration),
}

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Life {
    Killed,
    /// The run has ended, or waits for a person.
    Done {
        took: Duration,
    },
}

/// What a run that ended and those below it have left behind, apart from ids and times.
#[derive(Debug, PartialEq)]
pub(crate) struct Course(Vec<(AgentResponse, Vec<Asked>)>);

/// An operation: its step, its place, what it is, and its digest.
type Asked = (u64, Vec<u32>, String, Digest);

/// How often the person was asked, and said what.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) approved: u32,
    pub(crate) done: u32,
    pub(crate) not_done: u32,
}

pub(crate) struct World {
    scenario: &'static Scenario,
    dir: TempDir,
    runtime: Runtime,
    /// Reads the journal; it owns no run unless a test says so.
    reader: Engine,
    pub(crate) receiver: Receiver,
    witness: RefCell<Witness>,
    said: RefCell<Said>,
    mode: Mode,
    /// How far the clock of the next process is ahead, in hours.
    hours: Cell<u64>,
    /// The last process was a worker that nobody killed, and that nobody had told anything.
    idle: Cell<bool>,
}

/// Who goes on with the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// Somebody who resumes the run that was started, and answers for all below it.
    Led,
    /// Workers only: answers are passed on to the run that asks, and to nobody else.
    Worked,
    /// Workers, and somebody who pauses the run between two of them, twice at most.
    Paused,
}

/// What was true at the last look, and must stay true.
#[derive(Default)]
struct Witness {
    records: BTreeMap<RunId, Vec<Record>>,
    /// Operations that had their outcome, and the calls that they had made.
    settled: BTreeMap<OperationId, usize>,
}

impl World {
    pub(crate) fn new(scenario: &'static Scenario, mode: Mode) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("agents")).unwrap();
        std::fs::write(dir.path().join("dalsegno.toml"), "").unwrap();
        for (name, text) in scenario.agents {
            std::fs::write(dir.path().join(format!("agents/{name}.toml")), text).unwrap();
        }
        std::fs::create_dir(dir.path().join("tools")).unwrap();
        for (name, text) in scenario.documents {
            std::fs::write(dir.path().join(format!("tools/{name}.json")), text).unwrap();
        }
        let receiver = Receiver::listen(&dir.path().join("receiver"), scenario.mishaps);
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        let port = receiver.port();
        let tenant = format!(
            "name = \"default\"\negress = [\"smtp://127.0.0.1:{port}\"]\n[settings]\nport = {port}\n"
        );
        std::fs::write(dir.path().join("tenants/default.toml"), tenant).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reader = runtime.block_on(process::with_tools(receiver.path()).open(dir.path())).unwrap();
        Self {
            scenario,
            dir,
            runtime,
            reader,
            receiver,
            witness: RefCell::default(),
            said: RefCell::default(),
            mode,
            hours: Cell::new(0),
            idle: Cell::new(false),
        }
    }

    pub(crate) fn said(&self) -> Said {
        *self.said.borrow()
    }

    /// All runs, the one that was started before those below it.
    pub(crate) fn runs(&self) -> Vec<RunSummary> {
        let mut runs = self.runtime.block_on(self.reader.journal().runs(&RunFilter::default())).unwrap();
        runs.sort_by_key(|summary| summary.parent.is_some());
        let started = runs.iter().filter(|summary| summary.parent.is_none()).count();
        assert!(
            started <= self.scenario.messages && runs.len() <= self.scenario.runs,
            "one start made {runs:#?}"
        );
        runs
    }

    /// The run, if there is one yet; the last one of the session.
    pub(crate) fn run(&self) -> Option<RunId> {
        self.runs().first().map(|summary| summary.run)
    }

    /// The folder in which processes show that they live.
    pub(crate) fn owners(&self) -> PathBuf {
        self.dir.path().join(".dalsegno/owners")
    }

    pub(crate) fn inspect(&self, run: RunId) -> Inspection {
        self.runtime.block_on(self.reader.journal().inspect(run, None)).unwrap()
    }

    /// Starts a process on the run.
    pub(crate) fn spawn(&self, task: Task, death: Option<Boundary>) -> Child {
        self.spawn_with(task, death, false)
    }

    /// The same; one that stops is not killed at the boundary, but stopped until it is told to continue.
    pub(crate) fn spawn_with(&self, task: Task, death: Option<Boundary>, stops: bool) -> Child {
        let (workspace, receiver) = (self.dir.path().to_owned(), self.receiver.path().to_owned());
        let hours = self.hours.replace(self.hours.get() + self.scenario.hours);
        let orders = Orders { workspace, receiver, task, hours, death, stops };
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["the_process_that_is_killed", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ORDERS, serde_json::to_string(&orders).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.receiver.hello();
        child
    }

    /// The next task of a process, with what a person answers; `None` when the run has ended.
    ///
    /// The person has seen the receiver's ledger: an unsafe effect that is in it was done.
    pub(crate) fn next_task(&self) -> Option<Task> {
        let Some(run) = self.run() else { return Some(Task::Start) };
        if self.mode != Mode::Led {
            return self.next_work();
        }
        let inspection = self.inspect(run);
        if inspection.response.is_some() {
            let said = self.runs().iter().filter(|summary| summary.parent.is_none()).count();
            return (said < self.scenario.messages).then_some(Task::Say);
        }
        Some(Task::Resume { run, answers: self.answers(&inspection.waiting) })
    }

    /// The next task of a worker, with what a person answers to the runs that ask; `None` when all have ended.
    fn next_work(&self) -> Option<Task> {
        let mut open = self.runs();
        open.retain(|summary| !summary.status.is_end());
        if open.is_empty() {
            return None;
        }
        let mut wishes = Vec::new();
        if self.mode == Mode::Paused
            && let Some(run) = open.iter().find(|summary| summary.parent.is_none()).map(|summary| summary.run)
        {
            let inspection = self.inspect(run);
            let pauses =
                inspection.records.iter().filter(|record| matches!(record.body, Body::Paused { .. }));
            match (&inspection.paused, pauses.count()) {
                (Some(_), _) => wishes.push((run, Wish::Continue)),
                (None, 0 | 1) => return Some(Task::Work { wishes: vec![(run, Wish::Pause)] }),
                (None, _) => {}
            }
        }
        for run in open.iter().map(|summary| summary.run) {
            let mut waiting = self.inspect(run).waiting;
            waiting.retain(|one| one.run == run);
            let answers = self.answers(&waiting);
            wishes.extend(answers.into_iter().map(|(id, word)| (run, Wish::Answer(id, word))));
        }
        let asleep = self.idle.get() && wishes.is_empty();
        assert!(!asleep, "nobody is asked anything, and no worker goes on: {open:#?}");
        Some(Task::Work { wishes })
    }

    /// What a person answers.
    fn answers(&self, waiting: &[WaitingOperation]) -> Vec<(OperationId, Word)> {
        let ledger = self.receiver.ledger();
        let mut said = self.said.borrow_mut();
        let answers = waiting.iter().map(|waiting| {
            let done = ledger.acted(waiting.operation) > 0;
            let word = match (waiting.kind(), ledger.calls_of(waiting.operation).next()) {
                ("approval", None) => Word::Approve,
                ("approval", Some(call)) => panic!("effect {} did not wait for its approval", call.n),
                (_, Some(call)) if done && self.scenario.unread.contains(&call.n) => Word::Done,
                (_, Some(call)) if done => Word::DoneWith(call.reply()),
                (_, _) => Word::NotDone,
            };
            match word {
                Word::Approve => said.approved += 1,
                Word::Done | Word::DoneWith(_) => said.done += 1,
                Word::NotDone => said.not_done += 1,
            }
            (waiting.operation, word)
        });
        answers.collect()
    }

    /// One process, from its first breath to its last.
    pub(crate) fn live(&self, task: Task, death: Death) -> Life {
        let boundary = match death {
            Death::At(boundary) => Some(boundary),
            Death::Never | Death::After(_) => None,
        };
        let mut child = self.spawn(task, boundary);
        let began = Instant::now();
        if let Death::After(instant) = death {
            std::thread::sleep(instant);
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        let took = began.elapsed();
        match (status.signal(), status.code()) {
            (Some(9), _) if death != Death::Never => Life::Killed,
            (None, Some(ENDED | SUSPENDED)) => Life::Done { took },
            _ => panic!("a process failed: {status}"),
        }
    }

    /// Leads the run to its end, through lives that die as `death` says of each, by its number from 0. Looks at
    /// everything after each. Returns how the lives ended.
    pub(crate) fn survive(&self, mut death: impl FnMut(usize) -> Death) -> Vec<Life> {
        let mut lives = Vec::new();
        while let Some(task) = self.next_task() {
            assert!(lives.len() < LIVES_MAX, "the run does not get on");
            let untold = matches!(&task, Task::Work { wishes } if wishes.is_empty());
            let life = self.live(task, death(lives.len()));
            self.idle.set(untold && life != Life::Killed);
            lives.push(life);
            self.look();
        }
        lives
    }

    /// Leads the run to its end in this process, with one engine whose storage fails once. Says whether it did. A write
    /// that was not made is made again, and is no failure of the run.
    pub(crate) fn survive_failure(&self, boundary: Boundary) -> bool {
        let builder = process::with_tools(self.receiver.path());
        let reached = Arc::new(AtomicBool::new(false));
        let opening = process::open(builder, self.dir.path(), Trouble::failure(&reached), Some(boundary));
        let engine = self.runtime.block_on(opening);
        let mut failed = false;
        let mut advances = 0;
        while let Some(task) = self.next_task() {
            assert!(advances < LIVES_MAX, "the run does not get on");
            advances += 1;
            match self.runtime.block_on(process::advance(&engine, task)) {
                Ok(RunEnd::Ended(_) | RunEnd::Suspended { .. } | RunEnd::Paused { .. }) => {}
                Ok(RunEnd::Interrupted) => panic!("nobody interrupted the run"),
                Err(error) => {
                    assert!(is_storage(&error) && !failed, "{error:?}");
                    failed = true;
                }
            }
            // Tasks that were given up close their connections when the runtime runs.
            self.runtime.block_on(async {
                for _ in 0..16 {
                    tokio::task::yield_now().await;
                }
            });
            self.look();
        }
        reached.load(Ordering::SeqCst)
    }

    /// Checks what must be true at any time between two processes.
    pub(crate) fn look(&self) {
        let ledger = self.receiver.settle();
        let runs = self.runs().into_iter().map(|summary| summary.run);
        let journals: BTreeMap<RunId, Vec<Record>> =
            runs.map(|run| (run, self.inspect(run).records)).collect();
        let mut witness = self.witness.borrow_mut();
        for (run, before) in &witness.records {
            let now = journals.get(run).map(Vec::as_slice).unwrap_or_default();
            assert!(now.starts_with(before), "a record is lost: {before:#?} became {now:#?}");
        }
        for receipt in receipts(&self.dir.path().join(RECEIPTS)) {
            let records = journals.get(&receipt.run).map(Vec::as_slice).unwrap_or_default();
            let found = records.iter().find(|record| record.seq == receipt.seq);
            let kept = found.is_some_and(|record| record.body == receipt.body);
            assert!(kept, "what was acknowledged is lost: {receipt:?}, of {records:#?}");
        }
        let records: Vec<&Record> = journals.values().flatten().collect();
        check_intents(&records, &ledger);
        for (operation, calls) in &witness.settled {
            let now = ledger.calls_of(*operation).count();
            assert_eq!(now, *calls, "operation {operation} had its outcome and was performed again");
        }
        let settled = records.iter().filter(|record| match &record.body {
            Body::Resolved { .. } => true,
            Body::Answered { answer } => matches!(answer, Answer::Done { .. }),
            _ => false,
        });
        witness.settled = settled
            .filter_map(|record| record.operation)
            .map(|operation| (operation, ledger.calls_of(operation).count()))
            .collect();
        witness.records = journals;
    }

    /// Checks a run that has ended against the promises of the classes, and returns its course.
    pub(crate) fn course(&self) -> Course {
        let ledger = self.receiver.settle();
        let once: BTreeMap<u64, u32> = self.scenario.effects.iter().map(|n| (*n, 1)).collect();
        let ends: Vec<_> = self.runs().iter().map(|summary| self.inspect(summary.run).response).collect();
        assert_eq!(ledger.effects, once, "{:#?} {ends:#?}", ledger.calls);
        let runs = self.runs();
        assert_eq!(runs.len(), self.scenario.runs, "{runs:#?}");
        let mut course: Vec<_> = runs.iter().map(|summary| self.course_of(summary.run)).collect();
        // Child runs of one step begin in any order.
        course[1..].sort_by(|(one, _), (other, _)| one.answer.cmp(&other.answer));
        let course = Course(course);
        let response = &course.0[0].0;
        assert_eq!(response.answer.as_deref(), Some(self.scenario.answer));
        // It is at its end for everybody, and whoever asks is told so at once.
        let last = if self.scenario.messages > 1 { Task::Say } else { Task::Start };
        let again = self.runtime.block_on(process::advance(&self.reader, last)).unwrap();
        assert_eq!(again, RunEnd::Ended(response.clone()));
        course
    }

    fn course_of(&self, run: RunId) -> (AgentResponse, Vec<Asked>) {
        let inspection = self.inspect(run);
        let response = inspection.response.expect("a run that has ended");
        assert_eq!(response.status, Status::Completed, "{response:?}");
        let replay = self.runtime.block_on(self.reader.journal().replay(run)).unwrap();
        assert!(replay.identical, "{replay:?}");
        let asked = inspection.records.into_iter().filter_map(|record| match record.body {
            // When a timer is over depends on when it began.
            Body::Requested { step, ordinal, label, digest, .. } => {
                // The port of the mail server is another one each time.
                let varies = label == "timer" || label.starts_with("mail to ");
                let digest = if varies { Digest::from_bytes([0; 32]) } else { digest };
                Some((step, ordinal, label, digest))
            }
            _ => None,
        });
        let mut asked: Vec<Asked> = asked.collect();
        // Tools of one step ask for their parts in the order in which outcomes arrive.
        asked.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        (response, asked)
    }

    /// Ends a run from this process, which has the reader's engine.
    pub(crate) fn cancel_here(&self, run: RunId) -> Cancelled {
        self.runtime.block_on(self.reader.cancel(run, None, None)).unwrap()
    }

    /// Ends a run from this process without a look at what it had come to.
    pub(crate) fn abandon_here(&self, run: RunId) {
        let options = AbandonOptions { force: true, ..AbandonOptions::default() };
        self.runtime.block_on(self.reader.abandon(run, options)).unwrap();
    }

    /// The runs in which a person must say whether an effect took place.
    pub(crate) fn in_doubt(&self) -> Vec<RunId> {
        let filter = RunFilter { waiting: Some(Waiting::InDoubt), ..RunFilter::default() };
        self.runtime
            .block_on(self.reader.journal().runs(&filter))
            .unwrap()
            .into_iter()
            .map(|run| run.run)
            .collect()
    }

    /// Goes on with the run in this process, which has the reader's engine.
    pub(crate) fn resume_here(&self, task: Task) -> Result<RunEnd, EngineError> {
        self.runtime.block_on(process::advance(&self.reader, task))
    }
}

/// Kills a process in the middle of its life.
pub(crate) fn kill(mut child: Child) {
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the process ended before it was killed: {status}");
}

/// Every attempt that was received is in the journal, and no attempt was made twice.
fn check_intents(records: &[&Record], ledger: &Ledger) {
    let mut intents = BTreeSet::new();
    for record in records {
        let Some(operation) = record.operation else { continue };
        match &record.body {
            Body::Requested { start: Start::Now, .. } => {
                intents.insert((operation, 1));
            }
            Body::Attempted { attempt, .. } => {
                intents.insert((operation, *attempt));
            }
            _ => {}
        }
    }
    for call in &ledger.calls {
        let attempt = match call.attempt {
            // A mail does not say which attempt it is: any that was not seen yet.
            0 => intents
                .iter()
                .find(|(operation, _)| *operation == call.operation)
                .map(|(_, attempt)| *attempt),
            attempt => Some(attempt),
        };
        let intended = attempt.is_some_and(|attempt| intents.remove(&(call.operation, attempt)));
        assert!(intended, "a call without an intent of its own: {call:?} in {records:#?}");
    }
}

/// Says whether the storage below the journal was the cause.
fn is_storage(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Create(CreateError::Storage(_))
            | EngineError::Acquire(AcquireError::Storage(_))
            | EngineError::Run(RunFailure::Append { source: AppendError::Storage(_), .. })
    )
}
