//! The world outside the engine: tools that a message reaches, or does not, and a model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dalsegno_core::{
    CallRequest, EffectClass, Entry, ModelReply, OperationId, ReplyPart, RunId, StopReason, ToolReturn,
};
use dalsegno_models::{CompletionRequest, DeltaSink, Later, Model, ModelError, ModelErrorKind, judge_call};
use dalsegno_runtime::{Invocation, NewAttachment, Received, Tool, ToolDescription, ToolError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::guarantees::{Call, reply};
use crate::pictures::{self, pictures, say};
use crate::process::Process;
use crate::random::Random;
use crate::workspace::{KEPT, TOKEN_NANO_USD, TOKENS_MAX};
use crate::world::World;

/// What becomes of one call. It follows from the seed, the operation and the attempt, whatever else happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Course {
    /// The message arrives, and the answer comes.
    Answered,
    /// The tool itself says that it failed; it did nothing.
    Refused,
    /// The message is lost, and the caller knows that nothing was received.
    LostKnown,
    /// The message is lost, and the caller does not know.
    Lost,
    /// The message arrives, and the answer is lost.
    AnswerLost,
    /// The message arrives, and nothing ever comes back.
    Silent,
    /// The message is lost, and nothing ever comes back.
    SilentAndLost,
    /// The message arrives, and the caller's own code panics.
    Panics,
}

impl Course {
    const TROUBLE: [Self; 9] = [
        Self::Refused,
        Self::LostKnown,
        Self::LostKnown,
        Self::Lost,
        Self::AnswerLost,
        Self::AnswerLost,
        Self::Silent,
        Self::SilentAndLost,
        Self::Panics,
    ];

    /// What becomes of one that is made again: often nothing is received of it, which says nothing of the one before.
    const AGAIN: [Self; 4] = [Self::LostKnown, Self::LostKnown, Self::LostKnown, Self::Lost];

    pub(crate) fn arrives(self) -> bool {
        match self {
            Self::Answered | Self::AnswerLost | Self::Silent | Self::Panics => true,
            Self::Refused | Self::LostKnown | Self::Lost | Self::SilentAndLost => false,
        }
    }
}

/// One call, decided.
pub(crate) struct Fate {
    pub(crate) course: Course,
    pub(crate) there: Duration,
    pub(crate) back: Duration,
}

/// Decides what becomes of a call, when so many of a thousand fail.
pub(crate) fn fate(seed: u64, fails: u32, operation: OperationId, attempt: u32) -> Fate {
    let mut random = Random::new(seed, &format!("call {operation} {attempt}"));
    let course = if attempt > 1 && random.chance(fails / 2) {
        random.pick(&Course::AGAIN)
    } else if random.chance(fails) {
        random.pick(&Course::TROUBLE)
    } else {
        Course::Answered
    };
    // Most calls are quick; some outlast the patience of whoever makes them.
    let (there, back) = match random.below(20) {
        0 => (random.millis(1_500, 15_000), random.millis(0, 100)),
        1..4 => (random.millis(0, 400), random.millis(0, 3_000)),
        _ => (random.millis(0, 30), random.millis(0, 30)),
    };
    Fate { course, there, back }
}

/// A call is under way until this is dropped, however it ends.
pub(crate) struct UnderWay {
    pub(crate) world: Arc<World>,
    pub(crate) call: Call,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.world.judge(|guarantees| guarantees.hung_up(&self.call));
    }
}

/// A tool of the world outside, as one process has it.
pub(crate) struct SimulatedTool {
    pub(crate) name: &'static str,
    pub(crate) class: EffectClass,
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl Tool for SimulatedTool {
    fn describe(&self) -> ToolDescription {
        let schema = if self.name == KEPT {
            json!({
                "type": "object",
                "properties": { "q": { "type": "integer" } },
                "required": ["q"],
                "additionalProperties": false,
            })
        } else {
            json!({
                "type": "object",
                "properties": {
                    "n": { "type": "integer" },
                    "group": { "type": "string" },
                    "most": { "type": "integer" },
                    "gated": { "type": "boolean" },
                    "note": {},
                },
                "required": ["n"],
                "additionalProperties": false,
            })
        };
        ToolDescription {
            description: "Takes place outside.".to_owned(),
            input_schema: schema.into(),
            output_schema: None,
            class: self.class,
        }
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        let (world, process) = (&self.world, &self.process);
        process.breathe().await;
        let attaching = invocation.clone();
        // What listens does not see.
        let hears = world.judge(|guarantees| guarantees.is_call(invocation.run));
        let is_for_a_model = invocation.call_id.is_some() && !hears;
        let call = Call {
            process: process.number,
            run: invocation.run,
            operation: invocation.operation,
            attempt: invocation.attempt,
            tool: Some(self.name.to_owned()),
            arguments: invocation.arguments,
            tenant: String::new(),
        };
        let call = world.judge(|guarantees| guarantees.call(process, call));
        let guard = UnderWay { world: Arc::clone(world), call: call.clone() };
        let Fate { course, there, back } =
            fate(world.seed, world.faults().call_fails, call.operation, call.attempt);
        if course != Course::Answered {
            world.count("fault", "call_fails");
        }
        let answer = course.arrives().then(|| send(world, self.class, call.clone(), there, back));
        let lost = |received| ToolError { message: "the line went dead".into(), received, transient: true };
        let result = match course {
            Course::Answered => {
                if let Some(answer) = answer {
                    let _ = answer.await;
                }
                process.breathe().await;
                world.judge(|guarantees| guarantees.answered(&call));
                let mut said = reply(call.run, self.name, &call.arguments);
                // A plan is given them as well, and reads none.
                let taken = if hears { Vec::new() } else { pictures(self.name, &call.arguments) };
                if is_for_a_model {
                    say(&mut said, taken.len());
                }
                for bytes in taken {
                    world.count("picture", "taken");
                    let (name, media_type) = (String::new(), pictures::TYPE.to_owned());
                    attaching.attach(NewAttachment { name, media_type, bytes });
                }
                Ok(ToolReturn::structured(said))
            }
            Course::Refused => {
                tokio::time::sleep(there).await;
                Ok(ToolReturn { text: "it does not want to".into(), is_error: true, ..ToolReturn::default() })
            }
            Course::LostKnown => {
                tokio::time::sleep(there).await;
                Err(lost(Received::No))
            }
            Course::Lost => {
                tokio::time::sleep(there).await;
                Err(lost(Received::Possibly))
            }
            Course::AnswerLost => {
                if let Some(answer) = answer {
                    let _ = answer.await;
                }
                Err(lost(Received::Possibly))
            }
            Course::Silent | Course::SilentAndLost => std::future::pending().await,
            Course::Panics => {
                tokio::time::sleep(there).await;
                process.breathe().await;
                drop(guard);
                // Without the words that a panic would print.
                std::panic::resume_unwind(Box::new("the caller's code panics"))
            }
        };
        process.breathe().await;
        result
    }
}

/// Sends a message. It arrives even if its sender is gone.
pub(crate) fn send(
    world: &Arc<World>,
    class: EffectClass,
    call: Call,
    there: Duration,
    back: Duration,
) -> oneshot::Receiver<()> {
    let world = Arc::clone(world);
    world.judge(|guarantees| guarantees.sent(call.run, call.operation));
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        tokio::time::sleep(there).await;
        world.judge(|guarantees| guarantees.received(&call, class));
        tokio::time::sleep(back).await;
        let _ = answer.send(());
    });
    answered
}

/// A model that calls tools for some turns, and then answers.
pub(crate) struct SimulatedModel {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl Model for SimulatedModel {
    async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelError> {
        let (world, process) = (&self.world, &self.process);
        let (under_way, Fate { course, there, back }) = self.ask(request).await?;
        let (call, run) = (&under_way.call, under_way.call.run);
        // What it works on is paid for, whether or not the reply arrives.
        let reply = self.reply(run, request);
        let cost = match course {
            Course::Answered | Course::Panics | Course::Silent | Course::AnswerLost => reply.output_tokens,
            Course::Refused | Course::LostKnown | Course::Lost | Course::SilentAndLost => 0,
        };
        world.judge(|guarantees| guarantees.costs(&call.tenant, cost * TOKEN_NANO_USD));
        match pictures::seen(request) {
            Ok(0) => {}
            Ok(_) => world.count("picture", "seen by a model"),
            Err(wrong) => world.judge(|guarantees| {
                let name = guarantees.name(run);
                guarantees.broken(format!("{name}, what its model is shown: {wrong}"));
            }),
        }
        sink.text("hm");
        tokio::time::sleep(there + back).await;
        process.breathe().await;
        match course {
            Course::Answered | Course::Panics => {
                self.want(run, &reply);
                Ok(reply)
            }
            Course::Refused => Err(ModelError::new(ModelErrorKind::Refused, "no")),
            Course::Silent | Course::SilentAndLost => std::future::pending().await,
            Course::AnswerLost => Err(ModelError::new(ModelErrorKind::Protocol, "half of it is lost")),
            Course::LostKnown | Course::Lost => Err(ModelError::new(ModelErrorKind::Unavailable, "not now")),
        }
    }

    fn later(&self) -> Option<&dyn Later> {
        Some(self)
    }
}

impl SimulatedModel {
    /// A request leaves the process: the call that it is, and what becomes of it.
    pub(crate) async fn ask(&self, request: &CompletionRequest) -> Result<(UnderWay, Fate), ModelError> {
        let (world, process) = (&self.world, &self.process);
        process.breathe().await;
        let call = Call {
            process: process.number,
            run: self.run_of(request)?,
            operation: request.operation,
            attempt: request.attempt,
            tool: None,
            arguments: Value::Null,
            tenant: String::new(),
        };
        let call = world.judge(|guarantees| guarantees.call(process, call));
        let fate = fate(world.seed, world.faults().call_fails, call.operation, call.attempt);
        if fate.course != Course::Answered {
            world.count("fault", "call_fails");
        }
        Ok((UnderWay { world: Arc::clone(world), call }, fate))
    }

    /// The run that asks.
    pub(crate) fn run_of(&self, request: &CompletionRequest) -> Result<RunId, ModelError> {
        let run = self.world.judge(|guarantees| guarantees.run_of(request.operation));
        run.ok_or_else(|| {
            let what =
                format!("a model is asked for an operation that was never requested: {}", request.operation);
            self.world.judge(|guarantees| guarantees.broken(what));
            ModelError::new(ModelErrorKind::Refused, "who asks?")
        })
    }

    /// Tells what a reply calls.
    pub(crate) fn want(&self, run: RunId, reply: &ModelReply) {
        for part in &reply.parts {
            if let ReplyPart::Call(call) = part {
                self.world.judge(|guarantees| guarantees.wanted(run, &call.name, &call.arguments));
            }
        }
    }

    /// Something that a model puts into a call: what the user wrote, what a tool returned, or what nobody said.
    fn note(&self, asked: String, request: &CompletionRequest, name: &str) -> Option<String> {
        let mut random = Random::new(self.world.seed, &format!("note of {name}"));
        let mut known = vec![asked, "a word of a stranger".to_owned()];
        known.extend(request.transcript.iter().filter_map(|entry| match entry {
            Entry::ToolResult { content, .. } => {
                let result: Value = serde_json::from_str(content).ok()?;
                result["receipt"].as_str().map(str::to_owned)
            }
            _ => None,
        }));
        random.chance(500).then(|| random.pick(&known))
    }

    pub(crate) fn reply(&self, run: RunId, request: &CompletionRequest) -> ModelReply {
        let turn = request.transcript.replies();
        let name = format!("reply {} {}", request.operation, request.attempt);
        let mut random = Random::new(self.world.seed, &name);
        let asked = self.world.judge(|guarantees| guarantees.asked_of_a_tracing_agent(run));
        let mut parts = vec![ReplyPart::Text("a word".into())];
        let goes_on = !request.tools.tools.is_empty() && turn < 4 && !random.chance(200);
        for index in 0..if goes_on { 1 + random.below(3) } else { 0 } {
            let tool = random.pick(&["t.read", "t.set", "t.keyed", "t.unsafe", KEPT]);
            let number = turn * 100 + u64::from(request.attempt) * 10 + index as u64;
            let mut arguments = match tool {
                KEPT => json!({ "q": 1 }),
                _ if random.chance(50) => json!({ "n": "many" }),
                _ => json!({ "n": number }),
            };
            let note = asked.clone().filter(|_| tool != KEPT);
            if let Some(note) = note.and_then(|asked| self.note(asked, request, &format!("{name} {index}"))) {
                arguments["note"] = note.into();
            }
            let arguments = arguments.to_string();
            let validation = judge_call(&request.tools, tool, &arguments, false);
            let call_id = format!("c{number}");
            parts.push(ReplyPart::Call(CallRequest {
                call_id,
                name: tool.into(),
                arguments,
                validation: Some(validation),
            }));
        }
        let stop = if parts.len() > 1 { StopReason::ToolCalls } else { StopReason::End };
        let mut random = Random::new(self.world.seed, &format!("usage {name}"));
        let most = request.settings.max_output_tokens.unwrap_or(TOKENS_MAX);
        let output_tokens = 1 + random.below(usize::try_from(most).unwrap_or(1)) as u64;
        // Some providers count nothing.
        let estimated = random.chance(50);
        ModelReply { input_tokens: 10, output_tokens, estimated, ..ModelReply::new(parts, stop) }
    }
}
