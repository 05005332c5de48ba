//! The process that is killed: an engine on the shared workspace, with one tool of each class.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, OperationId, RunId, Timestamp, ToolReturn};
use dalsegno_runtime::{
    Clock, Engine, EngineBuilder, EngineError, GateInput, Invocation, Received, RunEnd, Settlement,
    StartOptions, SystemClock, Tool, ToolDescription, ToolError, WorkerOptions,
};
use dalsegno_store::{Owner, SqliteStore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::receiver::{Call, Message, Reply, line, say};
use crate::store::{Boundary, RECEIPTS, Trouble, TroubledStore};

/// The environment variable that holds a process's orders.
pub(crate) const ORDERS: &str = "DALSEGNO_CRASH_ORDERS";

/// The exit code of a process whose run has ended.
pub(crate) const ENDED: i32 = 0;

/// The exit code of a process whose run waits for a person, or that has worked off what it could.
pub(crate) const SUSPENDED: i32 = 4;

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) workspace: PathBuf,
    pub(crate) receiver: PathBuf,
    pub(crate) task: Task,
    /// How far its clock is ahead, in hours.
    pub(crate) hours: u64,
    /// Where it is to kill itself.
    pub(crate) death: Option<Boundary>,
    /// It stops there instead, until it is told to continue.
    pub(crate) stops: bool,
}

/// What is to become of the run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    Start,
    /// The next run of the session is started.
    Say,
    Resume {
        run: RunId,
        answers: Vec<(OperationId, Word)>,
    },
    /// What a person wants is passed on; then a worker works until nothing can go on.
    Work {
        wishes: Vec<(RunId, Wish)>,
    },
}

/// What a person wants of a run that nobody resumes by its id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Wish {
    Answer(OperationId, Word),
    GiveUp(Vec<OperationId>),
    Pause,
    Continue,
    Cancel,
}

/// What a person says about an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word {
    Approve,
    Done,
    DoneWith(Value),
    NotDone,
}

impl From<Word> for Settlement {
    fn from(word: Word) -> Self {
        match word {
            Word::Approve => Self::Approve { edited: None, reason: None },
            Word::Done => Self::Done { result: None },
            Word::DoneWith(result) => Self::Done { result: Some(result) },
            Word::NotDone => Self::NotDone,
        }
    }
}

/// Lives until the run has ended or waits, or until the process is killed. Returns the exit code.
pub(crate) fn live(orders: Orders) -> i32 {
    drop(say(&orders.receiver, &Message::Hello));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let end = runtime.block_on(async {
        let builder = with_tools(&orders.receiver).clock(Ahead { hours: orders.hours });
        let trouble = if orders.stops { Trouble::Stop } else { Trouble::Death };
        let engine = open(builder, &orders.workspace, trouble, orders.death).await;
        if let Task::Work { wishes } = orders.task {
            work(&engine, wishes).await;
            return Ok(RunEnd::Suspended { waiting: Vec::new(), wake_at: None, answer_by: None });
        }
        advance(&engine, orders.task).await
    });
    match end {
        Ok(RunEnd::Ended(_)) => ENDED,
        Ok(RunEnd::Suspended { .. } | RunEnd::Paused { .. }) => SUSPENDED,
        Ok(RunEnd::Interrupted) => panic!("nobody interrupted the run"),
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// A clock that is some hours ahead, so that nobody waits for times that are far away.
struct Ahead {
    hours: u64,
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() + self.hours * 3_600_000)
    }
}

/// Passes on what a person wants, and works until nothing can go on.
async fn work(engine: &Engine, wishes: Vec<(RunId, Wish)>) {
    for (run, wish) in wishes {
        match wish {
            Wish::Answer(operation, word) => {
                let answered = engine.pass_on(run, vec![given(operation, word)]).await;
                // The process before may have done as much, and died before it could say so.
                assert!(matches!(answered, Ok(_) | Err(EngineError::Answer { .. })), "{answered:?}");
            }
            Wish::GiveUp(operations) => {
                if let Some(handle) = engine.give_up(run, operations, None, None).await.unwrap() {
                    handle.finish().await.unwrap();
                }
            }
            Wish::Pause => drop(engine.pause(run, Some("eve".to_owned()), None).await.unwrap()),
            Wish::Continue => {
                let continued = engine.unpause(run, Some("eve".to_owned())).await;
                // So may it be with this.
                assert!(matches!(continued, Ok(_) | Err(EngineError::NotPaused { .. })), "{continued:?}");
            }
            Wish::Cancel => drop(engine.cancel(run, None, None).await.unwrap()),
        }
    }
    let options = WorkerOptions { until_idle: true, ..WorkerOptions::default() };
    engine.work(&options, std::future::pending(), |_| {}).await.unwrap();
}

fn given(operation: OperationId, word: Word) -> GateInput {
    let by = Some("eve".to_owned());
    GateInput { operation: Some(operation), seen: None, settlement: word.into(), by }
}

/// An engine whose store has trouble at a boundary.
pub(crate) async fn open(
    builder: EngineBuilder,
    workspace: &Path,
    trouble: Trouble,
    boundary: Option<Boundary>,
) -> Engine {
    let dir = workspace.join(".dalsegno");
    std::fs::create_dir_all(&dir).unwrap();
    let owner = Owner::claim(&dir.join("owners")).unwrap();
    let store = SqliteStore::open(dir.join("dalsegno.db")).unwrap();
    let store = TroubledStore::new(store, trouble, boundary, workspace.join(RECEIPTS));
    builder.store(store, owner).open(workspace).await.unwrap()
}

/// A builder with one tool of each class.
pub(crate) fn with_tools(receiver: &Path) -> EngineBuilder {
    let classes = [
        ("local.read", EffectClass::Read),
        ("local.idempotent", EffectClass::Idempotent),
        ("local.keyed", EffectClass::Keyed),
        ("local.unsafe", EffectClass::Unsafe),
    ];
    classes.into_iter().fold(Engine::builder(), |builder, (name, class)| {
        builder.tool(name.parse().unwrap(), Remote { class, receiver: receiver.to_owned() })
    })
}

/// Starts the run or goes on with it, until it ends or waits.
pub(crate) async fn advance(engine: &Engine, task: Task) -> Result<RunEnd, EngineError> {
    let handle = match task {
        Task::Start | Task::Say => {
            let (key, text) = match task {
                Task::Say => ("the next run", "again"),
                _ => ("the one run", "go"),
            };
            let session = Some("crash".to_owned());
            let options = StartOptions { key: Some(key.to_owned()), session, ..StartOptions::default() };
            engine.start(&"a".parse().unwrap(), AgentRequest::text(text), options).await?
        }
        Task::Resume { run, answers } => {
            let answers = answers.into_iter().map(|(operation, word)| given(operation, word));
            engine.resume(run, answers.collect()).await?
        }
        Task::Work { .. } => panic!("a worker advances no run of its own"),
    };
    Ok(handle.finish().await?.end)
}

/// A tool that asks the receiver.
struct Remote {
    class: EffectClass,
    receiver: PathBuf,
}

impl Remote {
    async fn ask(&self, call: Call) -> std::io::Result<Reply> {
        let mut stream = BufReader::new(UnixStream::connect(&self.receiver).await?);
        stream.write_all(line(&Message::Call(call)).as_bytes()).await?;
        let mut reply = String::new();
        stream.read_line(&mut reply).await?;
        Ok(serde_json::from_str(&reply)?)
    }
}

#[async_trait]
impl Tool for Remote {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            description: "Performs the effect of this number.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "n": { "type": "integer" } },
                "required": ["n"],
                "additionalProperties": false,
            })
            .into(),
            output_schema: None,
            class: self.class,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let call = Call {
            class: self.class,
            operation: invocation.operation,
            attempt: invocation.attempt,
            n: invocation.arguments["n"].as_u64().expect("the schema asks for it"),
        };
        let failed = |message, received| ToolError { message, received, transient: true };
        match self.ask(call).await {
            Ok(Reply::Done(result)) => Ok(ToolReturn::structured(result)),
            Ok(Reply::Refused) => Err(failed("not now".to_owned(), Received::No)),
            Err(error) => Err(failed(error.to_string(), Received::Possibly)),
        }
    }
}
