//! One attempt of one operation: where things happen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;

use dalsegno_core::Received;
use dalsegno_core::{
    AgentRequest, Attachment, Digest, Entry, Failure, FailureCode, Gate, MemoryCreate, MemoryCreated,
    MemoryHit, MemorySearch, MemoryTraversal, MemoryTraverse, ModelCompletion, ModelReply, OperationId,
    Outcome, Reading, ReplyPart, Request, Surface, Terms, ToolCall, ToolReturn, Transcript, TraversedEntity,
    TraversedRelation,
};
use dalsegno_memory::{
    Direction, Memory, MemoryError, NewObservation, RelationTo, SearchQuery, Source, Traverse,
};
use dalsegno_models::{CompletionRequest, DeltaSink, ModelError, ModelErrorKind, Retry};
use dalsegno_protocol::{
    Answer, CallContext, CallErrorKind, Caller, Input, InputRequired, ResultFiles, TaskOwner,
};
use dalsegno_store::{Body, Denial, ReadError};
use dalsegno_tools::Transfer;

use crate::effects::budget;
use crate::effects::dispatch;
use crate::effects::elicitation;
use crate::effects::failure::{AttemptError, certain};
use crate::effects::failure::{describe, no_answer};
use crate::effects::policy::is_free;
use crate::effects::tool::{CallFiles, Invocation, Tool};
use crate::effects::tool_server::{ServerSession, returned};
use crate::run::context::{OfCall, RunContext};
use crate::run::declared::{Asker, Part};
use crate::run::files::attach;
use crate::run::handle::RunEvent;
use crate::run::tasks::{Line, Tasking};
use crate::secret::StreamScrubber;
use crate::tail::Speaker;

/// The longest that opening a server may take: reading, verifying and compiling its module.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// What the start of a server's instance may add to the time of a call. The instance's own limits bound it more
/// tightly; this is for a host that hangs.
const START_ALLOWANCE: Duration = Duration::from_secs(30);

/// One attempt, owned, so that it runs as a task of its own.
pub(crate) struct Attempt {
    pub(crate) context: Arc<RunContext>,
    /// The step of the run; none outside of one.
    pub(crate) step: Option<u64>,
    /// The time of the run, in milliseconds since the epoch.
    pub(crate) at: u64,
    pub(crate) operation: OperationId,
    pub(crate) attempt: u32,
    pub(crate) terms: Terms,
    pub(crate) request: Request,
    /// What the model is sent; none for other operations.
    pub(crate) reading: Option<Reading>,
    /// The document that asks for it, if one does.
    pub(crate) asker: Option<Asker>,
    /// On whose behalf a tool is called.
    pub(crate) caller: Caller,
    /// What the run was begun with, where something is asked of those who carry its call.
    pub(crate) of_call: Option<Box<AgentRequest>>,
    /// What it has to do with a task of its server; none where the task is not written down.
    pub(crate) tasking: Option<Tasking>,
    /// Whether a model reads the result, and with it the files that the tool returns.
    pub(crate) is_shown: bool,
}

impl Attempt {
    /// Performs the attempt when there is room for it. In a run, the driver asks for the room, since it records the wait.
    pub(crate) async fn in_turn(self) -> Result<Outcome, AttemptError> {
        let called = self.request.as_tool_call();
        let in_process = called.is_some_and(|call| self.context.bindings.tool(&call.tool_name).is_some());
        let model = self.reading.as_ref().map(|reading| reading.settings.name.as_str());
        let target = dispatch::target(&self.request, model, in_process);
        let RunContext { ports, tenant, .. } = &*self.context;
        let permit = ports.dispatcher.room(target.as_ref(), tenant).await?;
        let result = Box::pin(self.perform()).await;
        if let Some(permit) = permit {
            permit.settle(&result);
        }
        result
    }

    /// Performs the attempt, within its time.
    ///
    /// What is rare is boxed: each attempt is moved into a task of its own, and has the size of its longest way.
    pub(crate) async fn perform(mut self) -> Result<Outcome, AttemptError> {
        let timeout = Duration::from_millis(self.terms.timeout_ms);
        let reading = self.reading.take();
        match &self.request {
            Request::ModelCompletion(completion) => within(timeout, self.complete(completion, reading)).await,
            Request::MemorySearch(search) => {
                let memory = Box::pin(self.memory()).await?;
                within(timeout, Box::pin(self.search(&*memory, search))).await
            }
            Request::MemoryCreate(create) => {
                let memory = Box::pin(self.memory()).await?;
                within(timeout, Box::pin(self.create(&*memory, create))).await
            }
            Request::MemoryTraverse(traverse) => {
                let memory = Box::pin(self.memory()).await?;
                within(timeout, Box::pin(self.traverse(&*memory, traverse))).await
            }
            // The driver performs these itself.
            Request::AgentCall(_) | Request::Input(_) | Request::Timer(_) => {
                Err(certain(FailureCode::Internal, "it has no attempts of its own".to_owned()))
            }
            Request::ApiCall(call) => within(timeout, self.part()?.call_endpoint(call)).await,
            Request::Email(mail) => within(timeout, self.part()?.send_mail(mail)).await,
            Request::Transfer(transfer) => within(timeout, Box::pin(self.transfer(transfer))).await,
            Request::ToolCall(call) => match self.context.bindings.tool(&call.tool_name) {
                Some(tool) => within(timeout, self.call(&**tool, call)).await,
                None if self.context.runs.offers(&call.tool_name) => {
                    let asked = self.context.runs.call_tool(&self.context, call, self.of_call());
                    within(timeout, asked).await
                }
                None => {
                    let (session, tool) = Box::pin(self.session(call)).await?;
                    // The session keeps the call's time; it starts an instance first where there is none.
                    let limit = session.longest(timeout).saturating_add(START_ALLOWANCE);
                    within(limit, Box::pin(self.call_server(&session, tool, call, timeout))).await
                }
            },
        }
    }

    /// What is needed to ask something of those who carry the run's call.
    fn of_call(&self) -> Option<OfCall<'_>> {
        self.of_call.as_deref().map(|request| OfCall { request, operation: self.operation })
    }

    /// Has the call transferred by the switchboard that carries it.
    async fn transfer(&self, transfer: &Transfer) -> Result<Outcome, AttemptError> {
        let call = self
            .of_call
            .as_deref()
            .filter(|request| request.surface.is_some_and(Surface::outlives_its_process));
        let switchboard = self.context.ports.switchboard.get();
        let Some((request, switchboard)) = call.zip(switchboard) else {
            let message = "the run is no telephone call, so it cannot be transferred";
            return Err(certain(FailureCode::NotPermitted, message.to_owned()));
        };
        switchboard.transfer(request, transfer).await?;
        Ok(Outcome::TransferRequested)
    }

    /// What this is an attempt at, where a document asks for it.
    fn part(&self) -> Result<Part<'_>, AttemptError> {
        let asker = self.asker.as_ref();
        let asker =
            asker.ok_or_else(|| certain(FailureCode::Internal, "no document asks for it".to_owned()))?;
        Ok(Part {
            ports: &self.context.ports,
            tenant: &self.context.tenant,
            asker,
            terms: &self.terms,
            attempt: self.attempt,
            operation: self.operation.to_string(),
        })
    }

    /// The memory; opening it, with its seeds, is not part of an operation's time.
    async fn memory(&self) -> Result<Arc<dyn Memory>, AttemptError> {
        let RunContext { bindings, tenant, .. } = &*self.context;
        bindings.memory(tenant).await.map_err(|error| certain(FailureCode::Internal, describe(&error)))
    }

    /// The session of the tool's server, and the tool's name there; nothing is sent yet.
    async fn session<'a>(&self, call: &'a ToolCall) -> Result<(Arc<ServerSession>, &'a str), AttemptError> {
        let Some((server, tool)) = call.tool_name.as_str().split_once('.') else {
            return Err(certain(FailureCode::Unavailable, format!("no server offers `{}`", call.tool_name)));
        };
        let RunContext { sessions, bindings, tenant, bound, ports, config, run, .. } = &*self.context;
        let opening = async {
            bound.check(ports, *run, tenant, config, server).await?;
            sessions.open(bindings, server, tenant, is_free(self.terms.class)).await
        };
        let session = tokio::time::timeout(OPEN_TIMEOUT, opening).await;
        let session = session.map_err(|_| {
            let seconds = OPEN_TIMEOUT.as_secs();
            certain(
                FailureCode::Timeout,
                format!("the tool server `{server}` did not open within {seconds} s"),
            )
        })??;
        Ok((session, tool))
    }

    async fn complete(
        &self,
        completion: &ModelCompletion,
        reading: Option<Reading>,
    ) -> Result<Outcome, AttemptError> {
        let Some(Reading { mut settings, transcript, schema, tools }) = reading else {
            return Err(certain(FailureCode::Internal, "the agent has no such model".to_owned()));
        };
        let model = self
            .context
            .bindings
            .model(&settings.name, &self.context.tenant)
            .map_err(|error| certain(FailureCode::Unavailable, describe(&error)))?;
        let later = match (settings.control.batch, &self.tasking) {
            (Some(true), Some(tasking)) => model.later().map(|model| (model, tasking)),
            _ => None,
        };
        let ports = &self.context.ports;
        // What was handed over is only asked about, or cancelled: its files were sent, and what it may cost is set aside.
        let handed_over = later.filter(|(_, tasking)| tasking.known.is_some());
        let attachments = match handed_over.is_none() && transcript.has_attachments() {
            true => Box::pin(self.attachments(&transcript)).await?,
            false => BTreeMap::new(),
        };
        let held = match handed_over {
            Some((_, tasking)) => {
                let since = tasking.since.unwrap_or_else(|| ports.now());
                budget::held(ports, &self.context.tenant, &mut settings, transcript.tokens(), since)?
            }
            None => budget::hold(ports, &self.context.tenant, &mut settings, transcript.tokens()).await?,
        };
        let request = CompletionRequest {
            settings,
            transcript,
            tools: if tools { Arc::clone(&self.context.toolbox) } else { Arc::default() },
            tool_choice: completion.tool_choice.clone(),
            operation: self.operation,
            attempt: self.attempt,
            attachments: Arc::new(attachments),
            output_schema: schema.map(Arc::new),
        };
        if let Some((model, tasking)) = later {
            return Box::pin(self.ask_later(model, &request, tasking, held)).await;
        }
        let sink = Deltas {
            scrubber: Mutex::new(self.context.bindings.secrets().stream()),
            out: Out {
                events: &self.context.events,
                speaker: self.context.ports.tails.speak(self.context.run, self.operation, self.attempt),
                operation: self.operation,
                attempt: self.attempt,
            },
        };
        let reply = model.complete(&request, &sink).await;
        sink.finish();
        let settlement = held.and_then(|held| match &reply {
            Ok(reply) => held.replied(reply),
            Err(error) => held.failed(received(error.kind)),
        });
        if let Some(settlement) = settlement {
            settlement.settle().await;
        }
        reply.map(|reply| replied(&request, reply)).map_err(no_reply)
    }

    /// The files that belong to what the model is sent.
    async fn attachments(
        &self,
        transcript: &Transcript,
    ) -> Result<BTreeMap<Digest, Arc<[u8]>>, AttemptError> {
        let mut files = BTreeMap::new();
        for attachment in sent(transcript) {
            let blob = self.context.ports.store().blob(attachment.digest).await;
            let blob = blob.map_err(|error| {
                let transient = matches!(&error, ReadError::Storage(error) if error.is_passing());
                AttemptError { transient, ..certain(FailureCode::Internal, describe(&error)) }
            })?;
            let Some(bytes) = blob else {
                let message = format!("the content of `{}` is not in the store", attachment.name);
                return Err(certain(FailureCode::Internal, message));
            };
            files.insert(attachment.digest, bytes.into());
        }
        Ok(files)
    }

    async fn traverse(
        &self,
        memory: &dyn Memory,
        traverse: &MemoryTraverse,
    ) -> Result<Outcome, AttemptError> {
        let walk = Traverse {
            from: traverse.from.clone(),
            relation: traverse.relation.clone(),
            direction: Direction::Out,
            depth: traverse.depth,
            limit: traverse.limit,
            as_of: None,
        };
        let found = memory.traverse(&self.context.scopes, &walk).await.map_err(memory_error)?;
        let entities = found.entities.into_iter().map(|entity| TraversedEntity {
            entity: entity.name,
            entity_type: entity.entity_type,
            depth: entity.depth,
            observations: entity.observations,
        });
        let relations = found.relations.into_iter().map(|relation| TraversedRelation {
            from: relation.from,
            relation: relation.relation,
            to: relation.to,
            strength: relation.strength,
        });
        Ok(Outcome::MemoryTraversed(MemoryTraversal {
            entities: entities.collect(),
            relations: relations.collect(),
            truncated: found.truncated,
        }))
    }

    async fn search(&self, memory: &dyn Memory, search: &MemorySearch) -> Result<Outcome, AttemptError> {
        let query =
            SearchQuery { text: search.query.clone(), limit: search.limit, min_score: search.min_score };
        let hits = memory.search(&self.context.scopes, &query).await.map_err(memory_error)?;
        let hits = hits.into_iter().map(|hit| MemoryHit {
            entity: hit.entity,
            entity_type: hit.entity_type,
            text: hit.text,
            score: hit.score,
            metadata: hit.metadata,
        });
        Ok(Outcome::MemoryFound(hits.collect()))
    }

    async fn create(&self, memory: &dyn Memory, create: &MemoryCreate) -> Result<Outcome, AttemptError> {
        let observation = NewObservation {
            operation: *self.operation.as_bytes(),
            entity: create.entity.clone(),
            entity_type: create.entity_type.clone(),
            text: create.content.clone(),
            metadata: serde_json::json!({}),
            source: match self.step {
                Some(step) => Source::Run { run: self.context.run.to_string(), step },
                None => Source::Seed,
            },
            recorded_at: self.at,
        };
        let relations = create
            .relations
            .iter()
            .map(|one| RelationTo { relation: one.relation.clone(), to: one.to.clone() });
        let created = memory.create_related(&self.context.scopes, observation, relations.collect()).await;
        let created = created.map_err(memory_error)?;
        Ok(Outcome::MemoryCreated(MemoryCreated {
            entity: created.entity,
            observation: created.observation.to_string(),
            duplicate: created.duplicate,
        }))
    }

    async fn call(&self, tool: &dyn Tool, call: &ToolCall) -> Result<Outcome, AttemptError> {
        let invocation = Invocation {
            run: self.context.run,
            operation: self.operation,
            attempt: self.attempt,
            tenant: self.context.tenant.clone(),
            user: self.caller.user.clone(),
            session: self.caller.session.clone().unwrap_or_default(),
            call_id: self.caller.call.clone(),
            arguments: call.parameters.clone(),
            secrets: self.context.bindings.secrets(),
            files: CallFiles::default(),
        };
        let files = invocation.files.clone();
        let returned = tool.call(invocation).await.map_err(|error| AttemptError {
            failure: Failure::new(error.code(), error.message),
            received: error.received,
            transient: error.transient,
            after: None,
            gate: None,
            is_under_way: false,
        })?;
        Ok(self.outcome(returned, files.take()))
    }

    /// The outcome of a call, whose files are kept until it is recorded. Only a model reads them.
    fn outcome(&self, mut returned: ToolReturn, files: ResultFiles) -> Outcome {
        let files = if self.is_shown { files } else { ResultFiles::default() };
        self.context.files.put(self.operation, attach(&mut returned, files));
        Outcome::ToolReturned(returned)
    }

    async fn call_server(
        &self,
        session: &ServerSession,
        tool: &str,
        call: &ToolCall,
        timeout: Duration,
    ) -> Result<Outcome, AttemptError> {
        let arguments = call.parameters.as_object().cloned().unwrap_or_default();
        let traceparent = self.context.traceparent(self.operation).await;
        let server = call.tool_name.as_str().split('.').next().unwrap_or_default();
        let line = self.tasking.as_ref().map(|tasking| -> Arc<dyn TaskOwner> {
            Arc::new(Line::new(&self.context.tasked, self.operation, self.attempt, server, tasking))
        });
        let input = call
            .input
            .clone()
            .map(|given| Input { answers: given.responses, request_state: given.request_state });
        let context = CallContext {
            caller: self.caller.clone(),
            traceparent,
            input: input.unwrap_or_default(),
            task: self.tasking.as_ref().and_then(|tasking| tasking.known.clone()),
            owner: line,
            ..CallContext::new(self.operation.to_string(), timeout)
        };
        let answered = session.call(tool, arguments, context).await;
        let mut output = match answered {
            Ok(Answer::Done(output)) => {
                self.note_denials(call, &output.denials);
                output
            }
            Ok(Answer::InputRequired(input)) => return Err(asks(input)),
            Err(error) => {
                self.note_denials(call, &error.denials);
                let missing = match error.kind {
                    CallErrorKind::Unauthorized => session.missing(server).await,
                    _ => None,
                };
                let gate = missing.map(|name| Gate::Secret { name }.into());
                return Err(AttemptError { gate, ..no_answer(&error) });
            }
        };
        let promised = self.context.toolbox.tools.get(&call.tool_name);
        let schema = promised.and_then(|tool| tool.output_schema.as_ref());
        let files = std::mem::take(&mut output.files);
        Ok(self.outcome(returned(&call.tool_name, schema, output), files))
    }

    /// Has what the tool's server was refused recorded with what comes of this attempt.
    fn note_denials(&self, call: &ToolCall, denials: &[dalsegno_protocol::Denial]) {
        if denials.is_empty() {
            return;
        }
        let server = call.tool_name.as_str().split('.').next().unwrap_or_default().to_owned();
        let denials = denials.iter().map(|denial| Denial {
            kind: denial.kind.as_str().to_owned(),
            subject: denial.subject.clone(),
            reason: denial.reason.clone(),
            count: denial.count,
        });
        let denied = Body::Denied { server, denials: denials.collect() };
        let mut noted = self.context.denied.lock().unwrap_or_else(PoisonError::into_inner);
        noted.push((self.operation, denied));
    }
}

/// The files that a request carries, each once: all of the user, and those of results for which there is room.
fn sent(transcript: &Transcript) -> Vec<Attachment> {
    let of_results = transcript.sent_files();
    let is_sent = |entry: &Entry, file: &Attachment| {
        matches!(entry, Entry::Attachment(_)) || of_results.contains(&file.digest)
    };
    let mut files = BTreeMap::new();
    for entry in transcript.iter() {
        for file in entry.files().iter().filter(|file| is_sent(entry, file)) {
            files.entry(file.digest).or_insert_with(|| file.clone());
        }
    }
    files.into_values().collect()
}

/// The outcome of a completion: a reply, whose text is judged where a form is wanted.
pub(super) fn replied(request: &CompletionRequest, mut reply: ModelReply) -> Outcome {
    if let Some(schema) = &request.output_schema
        && !reply.parts.iter().any(|part| matches!(part, ReplyPart::Call(_)))
    {
        reply.output = Some(dalsegno_models::judge_output(schema, &reply.text()));
    }
    Outcome::ModelReplied(reply)
}

/// What it means that a model gave no reply.
pub(super) fn no_reply(error: ModelError) -> AttemptError {
    if let Some(name) = error.missing_secret {
        let gate = Some(Gate::Secret { name }.into());
        return AttemptError { gate, ..certain(FailureCode::Unavailable, error.message) };
    }
    let (transient, after) = match error.retry {
        Retry::Never => (false, None),
        Retry::Now => (true, None),
        Retry::After(pause) => (true, Some(pause)),
    };
    let received = received(error.kind);
    let failure = Failure::new(error.kind.code(), error.message);
    AttemptError { failure, received, transient, after, gate: None, is_under_way: false }
}

/// Says whether a model that gave no reply may have worked on one.
pub(super) const fn received(kind: ModelErrorKind) -> Received {
    match kind {
        // Nothing was worked on, and nothing is paid for.
        ModelErrorKind::Unavailable | ModelErrorKind::RateLimited | ModelErrorKind::Refused => Received::No,
        _ => Received::Possibly,
    }
}

/// Streams a model's text to whoever listens, without secrets.
struct Deltas<'a> {
    scrubber: Mutex<StreamScrubber>,
    out: Out<'a>,
}

impl Deltas<'_> {
    /// Sends what was held back.
    fn finish(self) {
        let Self { scrubber, out } = self;
        out.send(scrubber.into_inner().unwrap_or_else(PoisonError::into_inner).finish());
    }
}

/// Where the text of a reply goes.
struct Out<'a> {
    events: &'a broadcast::Sender<RunEvent>,
    /// For those who follow the run by its place in the journal.
    speaker: Option<Speaker>,
    operation: OperationId,
    attempt: u32,
}

impl Out<'_> {
    fn send(&self, text: String) {
        if text.is_empty() {
            return;
        }
        if let Some(speaker) = &self.speaker {
            speaker.say(&text);
        }
        // Nobody has to listen.
        let _ = self.events.send(RunEvent::Delta { operation: self.operation, attempt: self.attempt, text });
    }
}

impl DeltaSink for Deltas<'_> {
    fn text(&self, delta: &str) {
        let text = self.scrubber.lock().unwrap_or_else(PoisonError::into_inner).push(delta);
        self.out.send(text);
    }
}

/// The end of an attempt whose server wants to know more first.
fn asks(input: InputRequired) -> AttemptError {
    let asked = "its server asks for more input before it continues".to_owned();
    match elicitation::gate(input) {
        Ok(gate) => AttemptError { gate: Some(gate.into()), ..certain(FailureCode::Protocol, asked) },
        Err(message) => certain(FailureCode::Protocol, message),
    }
}

/// Cuts work off at its time; what was under way may have been received.
async fn within(
    limit: Duration,
    work: impl Future<Output = Result<Outcome, AttemptError>>,
) -> Result<Outcome, AttemptError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(timed_out(limit)))
}

fn timed_out(timeout: Duration) -> AttemptError {
    let message = format!("no answer within {} ms", timeout.as_millis());
    AttemptError {
        failure: Failure::new(FailureCode::Timeout, message),
        received: Received::Possibly,
        transient: true,
        after: None,
        gate: None,
        is_under_way: false,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn memory_error(error: MemoryError) -> AttemptError {
    // The memory writes in one transaction: an error means that nothing was written.
    let transient = matches!(error, MemoryError::Busy { .. });
    AttemptError {
        failure: Failure::new(FailureCode::Internal, describe(&error)),
        received: Received::No,
        transient,
        after: None,
        gate: None,
        is_under_way: false,
    }
}
