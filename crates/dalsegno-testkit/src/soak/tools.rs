//! The tools and the model of a soak: they fail, are slow, refuse, and lose answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{CallRequest, EffectClass, ModelReply, ReplyPart, RunId, StopReason, ToolReturn};
use dalsegno_models::{CompletionRequest, DeltaSink, Model, ModelError, ModelErrorKind, judge_call};
use dalsegno_runtime::{Invocation, Observer, Received, Tool, ToolDescription, ToolError, Watch, Watched};
use dalsegno_store::NewRecord;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::book::{Book, Message, reply};
use crate::random::Random;
use crate::receiver::{Course, Fate, fate};

/// By how much everything is quicker than in a simulated world, where time costs nothing.
const HASTE: u32 = 10;

/// The most turns of a conversation.
const TURNS: u64 = 4;

/// The world outside all processes.
pub(super) struct Outside {
    pub(super) seed: u64,
    /// How many calls of a thousand go wrong.
    pub(super) fails: std::sync::atomic::AtomicU32,
    book: Mutex<Book>,
    /// Carries messages: they arrive whatever becomes of their sender.
    pub(super) post: Handle,
}

impl Outside {
    pub(super) fn new(seed: u64, fails: u32, post: Handle) -> Self {
        Self { seed, fails: fails.into(), book: Mutex::default(), post }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, operation: dalsegno_core::OperationId, attempt: u32) -> Fate {
        let fails = self.fails.load(std::sync::atomic::Ordering::Relaxed);
        let fate = fate(self.seed, fails, operation, attempt);
        Fate { there: fate.there / HASTE, back: fate.back / HASTE, ..fate }
    }

    /// Sends a message; the answer comes when it was received and acted on.
    fn send(self: &Arc<Self>, message: Message, there: Duration, back: Duration) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        self.book().sent(&message);
        let outside = Arc::clone(self);
        self.post.spawn(async move {
            tokio::time::sleep(there).await;
            outside.book().received(&message);
            tokio::time::sleep(back).await;
            let _ = answer.send(());
        });
        answered
    }
}

/// A tool of the world outside.
pub(super) struct SoakTool {
    pub(super) name: &'static str,
    pub(super) class: EffectClass,
    pub(super) outside: Arc<Outside>,
}

#[async_trait]
impl Tool for SoakTool {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            description: "Takes place outside.".to_owned(),
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
        let message = Message {
            run: invocation.run,
            operation: invocation.operation,
            tool: self.name,
            class: self.class,
            arguments: invocation.arguments,
        };
        self.outside.book().called(&message);
        let Fate { course, there, back } = self.outside.fate(message.operation, invocation.attempt);
        let answer = course.arrives().then(|| self.outside.send(message.clone(), there, back));
        let lost =
            |received| Err(ToolError { message: "the line went dead".into(), received, transient: true });
        match (course, answer) {
            (Course::Answered, Some(answer)) => {
                let _ = answer.await;
                Ok(ToolReturn::structured(reply(&message)))
            }
            (Course::AnswerLost, Some(answer)) => {
                let _ = answer.await;
                lost(Received::Possibly)
            }
            (Course::Silent | Course::SilentAndLost, _) => std::future::pending().await,
            (Course::Panics, _) => {
                tokio::time::sleep(there).await;
                // Without the words that a panic would print.
                std::panic::resume_unwind(Box::new("the caller's code panics"))
            }
            (Course::Refused, _) => {
                tokio::time::sleep(there).await;
                Ok(ToolReturn { text: "it does not want to".into(), is_error: true, ..ToolReturn::default() })
            }
            (Course::LostKnown, _) => {
                tokio::time::sleep(there).await;
                lost(Received::No)
            }
            (Course::Lost | Course::Answered | Course::AnswerLost, _) => {
                tokio::time::sleep(there).await;
                lost(Received::Possibly)
            }
        }
    }
}

/// A model that calls tools for some turns, and then answers.
pub(super) struct SoakModel(pub(super) Arc<Outside>);

#[async_trait]
impl Model for SoakModel {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let Fate { course, there, back } = self.0.fate(request.operation, request.attempt);
        sink.text("hm");
        tokio::time::sleep(there + back).await;
        match course {
            Course::Answered | Course::Panics | Course::Refused => Ok(self.reply(request)),
            Course::Silent | Course::SilentAndLost => std::future::pending().await,
            Course::LostKnown | Course::Lost | Course::AnswerLost => {
                Err(ModelError::new(ModelErrorKind::Unavailable, "not now"))
            }
        }
    }
}

impl SoakModel {
    fn reply(&self, request: &CompletionRequest) -> ModelReply {
        let turn = request.transcript.replies();
        let mut random = Random::new(self.0.seed, &format!("reply {}", request.operation));
        let mut parts = vec![ReplyPart::Text("a word".into())];
        let calls = if turn < TURNS { 1 + random.below(3) } else { 0 } as u64;
        for index in 0..calls {
            let tool = random.pick(&["t.read", "t.set", "t.keyed", "t.unsafe"]);
            let number = turn * 100 + index;
            let arguments = json!({ "n": number }).to_string();
            let validation = judge_call(&request.tools, tool, &arguments, false);
            let call_id = format!("c{number}");
            parts.push(ReplyPart::Call(CallRequest {
                call_id,
                name: tool.into(),
                arguments,
                validation: Some(validation),
            }));
        }
        let stop = if calls > 0 { StopReason::ToolCalls } else { StopReason::End };
        ModelReply { input_tokens: 10, output_tokens: 5, ..ModelReply::new(parts, stop) }
    }
}

/// Sees what engines say that they have written.
pub(super) struct Witness(pub(super) Arc<Outside>);

impl Observer for Witness {
    fn watch(&self, run: &Watched) -> Box<dyn Watch> {
        self.0.book().watch(run.run, run.root);
        Box::new(WitnessOf { run: run.run, outside: Arc::clone(&self.0) })
    }
}

struct WitnessOf {
    run: RunId,
    outside: Arc<Outside>,
}

impl Watch for WitnessOf {
    fn recorded(&mut self, seq: u64, record: &NewRecord, _request: Option<&dalsegno_core::Request>) {
        self.outside.book().told(self.run, seq, record);
    }
}
