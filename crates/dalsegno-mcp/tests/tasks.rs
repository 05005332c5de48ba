//! Calls that a child process makes tasks of: followed to their end, found again, given up, and what goes wrong with them.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dalsegno_mcp::{
    Answer, CallContext, CallError, CallErrorKind, Command, Input, Limits, Received, Server, ServerConfig,
    ServerSession, Task, TaskOwner,
};
use dalsegno_secrets::MaybeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

/// A server, and the log of what it was asked about tasks.
struct Child {
    folder: TempDir,
    server: Server,
}

impl Child {
    fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dalsegno-mcp-test-server"), ["modern"]);
        let file = folder.path().join("asked").to_str().unwrap().to_owned();
        command.environment = BTreeMap::from([("ASKED_FILE".to_owned(), MaybeSecret::Text(file))]);
        let server = Server::new(ServerConfig { limits, ..ServerConfig::stdio("child", command) });
        Self { folder, server }
    }

    fn session(&self) -> ServerSession {
        self.server.session("default")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("asked")
    }

    /// What it was asked so far.
    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn count(&self, method: &str) -> usize {
        self.asked().iter().filter(|asked| *asked == method).count()
    }

    async fn call(&self, how: &Value, call: CallContext) -> Result<Answer, CallError> {
        self.session().call("task", how.as_object().unwrap().clone(), call).await
    }
}

/// An owner that remembers, and says what it is told to say.
#[derive(Debug)]
struct RememberingOwner {
    begun: Mutex<Vec<Task>>,
    /// What the server had been asked when the owner was told.
    asked: Mutex<Vec<String>>,
    file: PathBuf,
    told: watch::Sender<bool>,
    unwanted: watch::Sender<bool>,
    keeps: AtomicBool,
}

impl RememberingOwner {
    fn of(child: &Child) -> Arc<Self> {
        Arc::new(Self {
            begun: Mutex::default(),
            asked: Mutex::default(),
            file: child.file(),
            told: watch::channel(false).0,
            unwanted: watch::channel(false).0,
            keeps: AtomicBool::new(false),
        })
    }

    async fn until_told(&self) {
        self.told.subscribe().wait_for(|told| *told).await.unwrap();
    }
}

#[async_trait]
impl TaskOwner for RememberingOwner {
    async fn begun(&self, task: &Task) {
        let asked = std::fs::read_to_string(&self.file).unwrap();
        self.asked.lock().unwrap().extend(asked.lines().map(str::to_owned));
        self.begun.lock().unwrap().push(task.clone());
        self.told.send_replace(true);
    }

    async fn unwanted(&self) {
        self.unwanted.subscribe().wait_for(|unwanted| *unwanted).await.unwrap();
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }
}

fn context() -> CallContext {
    CallContext::new("op_1", Duration::from_secs(20))
}

fn owned(owner: &Arc<RememberingOwner>) -> CallContext {
    CallContext { owner: Some(Arc::clone(owner) as Arc<dyn TaskOwner>), ..context() }
}

/// The same call again, when its task is known.
fn again(owner: &Arc<RememberingOwner>, id: &str) -> CallContext {
    CallContext { task: Some(id.to_owned()), ..owned(owner) }
}

fn text(answer: Result<Answer, CallError>) -> String {
    match answer.unwrap() {
        Answer::Done(output) => output.text,
        Answer::InputRequired(input) => panic!("{input:?}"),
    }
}

/// Waits for something that another process does.
async fn until(mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}

#[tokio::test]
async fn a_task_is_told_of_before_it_is_asked_about_and_followed_to_its_result() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    let how = json!({ "polls": 2, "poll": 100, "ttl": 60_000 });
    assert_eq!(text(child.call(&how, owned(&owner)).await), "done with []");
    let begun = owner.begun.lock().unwrap().clone();
    assert_eq!((begun.len(), begun[0].id.as_str()), (1, "task-1"));
    assert_eq!(begun[0].ttl, Some(Duration::from_secs(60)));
    assert_eq!(*owner.asked.lock().unwrap(), ["tools/call"], "nothing was asked before it was told");
    assert_eq!(child.asked(), ["tools/call", "tasks/get", "tasks/get", "tasks/get"]);
    // Nobody needs to be told.
    assert_eq!(text(child.call(&json!({ "poll": 100 }), context()).await), "done with []");
    child.server.close().await;
}

#[tokio::test]
async fn a_task_that_failed_or_was_cancelled_says_so() {
    let child = Child::new(Limits::default());
    let error = child.call(&json!({ "end": "failed", "poll": 100 }), context()).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Refused { code: -32603 });
    assert!(error.message.contains("the task failed: the task is over: its ttl is (-32603)"), "{error}");
    let error = child.call(&json!({ "end": "cancelled", "poll": 100 }), context()).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Cancelled, "{error}");
    assert_eq!(child.count("tasks/cancel"), 0, "what has ended is not cancelled");
    child.server.close().await;
}

#[tokio::test]
async fn a_task_that_asks_goes_on_with_the_answer_in_a_later_call() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    let how = json!({ "end": "asks", "poll": 100 });
    let asked = match child.call(&how, owned(&owner)).await.unwrap() {
        Answer::InputRequired(asked) => asked,
        Answer::Done(output) => panic!("{output:?}"),
    };
    assert_eq!(asked.requests["which"]["params"]["message"], "which one?");
    assert_eq!(asked.request_state, None);
    let given = json!({ "action": "accept", "content": { "name": "a" } });
    let answers = BTreeMap::from([("which".to_owned(), given.clone())]);
    let call = CallContext { input: Input { answers, request_state: None }, ..again(&owner, "task-1") };
    assert_eq!(text(child.call(&how, call).await), format!("done with {}", json!([{ "which": given }])));
    assert_eq!(child.count("tools/call"), 1);
    assert_eq!(child.count("tasks/update"), 1);
    assert_eq!(child.count("tasks/cancel"), 0, "a question is no end");
    child.server.close().await;
}

#[tokio::test]
async fn a_task_that_is_known_is_found_again_without_another_call() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    owner.keeps.store(true, Ordering::Relaxed);
    let how = json!({ "polls": 3, "poll": 10_000 });
    tokio::select! {
        ended = child.call(&how, owned(&owner)) => panic!("{ended:?}"),
        () = owner.until_told() => {}
    }
    // Its state is asked for at once, and then as often as it says.
    let asking =
        tokio::time::timeout(Duration::from_millis(50), child.call(&how, again(&owner, "task-1"))).await;
    assert!(asking.is_err(), "it goes on");
    until(|| child.count("tasks/get") > 0).await;
    assert_eq!((child.count("tools/call"), child.count("tasks/cancel")), (1, 0));
    child.server.close().await;
}

#[tokio::test]
async fn a_task_that_the_server_does_not_know_may_have_been_acted_on() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    let error = child.call(&json!({}), again(&owner, "gone")).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::TaskLost, Received::Possibly));
    assert!(error.message.contains("does not know the task `gone`"), "{error}");
    assert_eq!(child.asked(), ["tasks/get"]);
    child.server.close().await;
}

#[tokio::test]
async fn a_server_that_ends_loses_its_tasks_and_the_next_call_works() {
    let child = Child::new(Limits::default());
    let error = child.call(&json!({ "end": "exit", "poll": 100 }), context()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::TaskLost, Received::Possibly), "{error}");
    assert_eq!(child.count("tools/call"), 1, "it was not begun again");
    assert_eq!(text(child.call(&json!({ "poll": 100 }), context()).await), "done with []");
    child.server.close().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_has_its_task_cancelled_unless_it_keeps_it() {
    for keeps in [false, true] {
        let child = Child::new(Limits::default());
        let owner = RememberingOwner::of(&child);
        owner.keeps.store(keeps, Ordering::Relaxed);
        let how = json!({ "end": "never", "poll": 10_000 });
        tokio::select! {
            ended = child.call(&how, owned(&owner)) => panic!("{ended:?}"),
            () = owner.until_told() => {}
        }
        if keeps {
            let probe = child.call(&json!({ "id": "task-2", "poll": 100 }), context()).await;
            assert_eq!(text(probe), "done with []");
            assert_eq!(child.count("tasks/cancel"), 0);
        } else {
            until(|| child.count("tasks/cancel") == 1).await;
        }
        child.server.close().await;
    }
}

#[tokio::test]
async fn a_task_that_is_not_wanted_is_cancelled_and_its_end_is_waited_for() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    owner.unwanted.send_replace(true);
    let how = json!({ "end": "never", "poll": 10_000 });
    let error = child.call(&how, owned(&owner)).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Cancelled, "{error}");
    assert_eq!(child.asked(), ["tools/call", "tasks/cancel", "tasks/get"]);

    // One that was faster has its result all the same.
    let how = json!({ "id": "task-2", "obeys": false, "poll": 10_000 });
    assert_eq!(text(child.call(&how, owned(&owner)).await), "done with []");

    // One that does not obey is left, and nobody knows what becomes of it.
    let hurried = CallContext { timeout: Duration::from_millis(300), ..owned(&owner) };
    let how = json!({ "id": "task-3", "obeys": false, "end": "never", "poll": 100 });
    let error = child.call(&how, hurried).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly));
    assert!(error.message.contains("was asked to end"), "{error}");
    child.server.close().await;
}

#[tokio::test]
async fn silly_pauses_neither_flood_the_server_nor_outlive_the_call() {
    let limits = Limits {
        call_timeout: Duration::from_millis(1_200),
        total_timeout: Duration::from_millis(1_200),
        ..Limits::default()
    };
    let child = Child::new(limits);
    let begun = Instant::now();
    assert_eq!(text(child.call(&json!({ "polls": 3, "poll": 0 }), context()).await), "done with []");
    assert!(begun.elapsed() >= Duration::from_millis(400), "four questions, {:?}", begun.elapsed());

    let how = json!({ "id": "task-2", "end": "never", "poll": u64::MAX });
    let error = child.call(&how, context()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Timeout, Received::Possibly));
    assert!(error.message.contains("did not end within 1.2s"), "{error}");
    assert_eq!(child.count("tasks/cancel"), 1, "nobody waits for it any more");
    // One that has ended by then is found at the last moment.
    let how = json!({ "id": "task-3", "poll": u64::MAX });
    assert_eq!(text(child.call(&how, context()).await), "done with []");
    child.server.close().await;
}

#[tokio::test]
async fn an_id_without_bounds_is_not_taken() {
    let child = Child::new(Limits::default());
    let owner = RememberingOwner::of(&child);
    let error = child.call(&json!({ "id": "x".repeat(100_000) }), owned(&owner)).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Protocol, Received::Possibly));
    assert!(error.message.contains("100000 bytes") && error.message.len() < 200, "{error}");
    assert!(owner.begun.lock().unwrap().is_empty());
    child.server.close().await;
}

#[tokio::test]
async fn word_of_another_task_is_no_word_of_this_one() {
    let child = Child::new(Limits::default());
    let error = child.call(&json!({ "end": "other", "poll": 100 }), context()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::Protocol, Received::Possibly), "{error}");
    child.server.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_tell_of_a_task_may_work_on_it_still() {
    let child = Child::new(Limits::default());
    let error = child.call(&json!({ "end": "trouble", "poll": 100 }), context()).await.unwrap_err();
    assert_eq!((error.kind, error.received), (CallErrorKind::TaskLost, Received::Possibly), "{error}");
    assert_eq!(child.count("tasks/get"), 6, "it was asked more than once");
    child.server.close().await;
}
