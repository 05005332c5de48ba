//! The process that is killed: an engine on the shared workspace, with one tool of each class.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use dalsegno_core::{AgentRequest, EffectClass, OperationId, RunId, ToolReturn};
use dalsegno_runtime::{
    Engine, EngineBuilder, EngineError, GateInput, Invocation, Received, RunEnd, Settlement, StartOptions,
    Tool, ToolDescription, ToolError,
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

/// The exit code of a process whose run waits for a person.
pub(crate) const SUSPENDED: i32 = 4;

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) workspace: PathBuf,
    pub(crate) receiver: PathBuf,
    pub(crate) task: Task,
    /// Where it is to kill itself.
    pub(crate) death: Option<Boundary>,
}

/// What is to become of the run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    Start,
    Resume { run: RunId, answers: Vec<(OperationId, Word)> },
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
        let engine = open(&orders.workspace, &orders.receiver, Trouble::Death, orders.death).await;
        advance(&engine, orders.task).await
    });
    match end {
        Ok(RunEnd::Ended(_)) => ENDED,
        Ok(RunEnd::Suspended { .. }) => SUSPENDED,
        Ok(RunEnd::Interrupted) => panic!("nobody interrupted the run"),
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// An engine whose store has trouble at a boundary.
pub(crate) async fn open(
    workspace: &Path,
    receiver: &Path,
    trouble: Trouble,
    boundary: Option<Boundary>,
) -> Engine {
    let dir = workspace.join(".dalsegno");
    std::fs::create_dir_all(&dir).unwrap();
    let owner = Owner::claim(&dir.join("owners")).unwrap();
    let store = SqliteStore::open(dir.join("dalsegno.db")).unwrap();
    let store = TroubledStore::new(store, trouble, boundary, workspace.join(RECEIPTS));
    with_tools(receiver).store(store, owner).open(workspace).await.unwrap()
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
        Task::Start => {
            let options = StartOptions { key: Some("the one run".to_owned()), ..StartOptions::default() };
            engine.start(&"a".parse().unwrap(), AgentRequest::text("go"), options).await?
        }
        Task::Resume { run, answers } => {
            let answers = answers.into_iter().map(|(operation, word)| GateInput {
                operation: Some(operation),
                seen: None,
                settlement: word.into(),
                by: Some("eve".to_owned()),
            });
            engine.resume(run, answers.collect()).await?
        }
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
            }),
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
