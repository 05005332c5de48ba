//! What is said, and what comes of it: the runs of a conversation.

use std::time::{Duration, Instant};

use dalsegno_core::{AgentRequest, Gate, RunId, Status};
use dalsegno_runtime::{
    Cancelled, EngineError, ForkOptions, GateInput, RunEnd, RunHandle, RunReport, Settlement, StartOptions,
    WaitingOperation,
};
use dalsegno_store::{Body, Started};
use dalsegno_wire::Events;
use serde_json::Value;

use super::super::Context;
use super::{Chat, Line, fresh};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ending;
use crate::render::screen::inert;
use crate::render::text::{Style, short, styled};

/// The longest to wait for another process that was told to end a run: what may not be repeated finishes first.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks whether it has.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

impl Chat<'_, '_> {
    /// Says something to the agent.
    pub(super) async fn say(&mut self, text: &str) -> Result<(), Error> {
        if let (true, Some(run)) = (self.open, self.last) {
            self.give_up(run).await?;
        }
        let (user, data) = (self.user.clone(), self.data.clone());
        let request = AgentRequest { tenant: self.tenant(), user, data, ..AgentRequest::text(text) };
        let after = if self.parted { self.last } else { None };
        let session = Some(self.session.clone());
        let options = StartOptions { session, after, ..StartOptions::default() };
        let (engine, args) = (self.engine.clone(), self.args);
        let handle = self.begun(engine.start(&args.agent, request, options)).await?;
        self.parted = false;
        self.follow.anew();
        self.listen(handle).await
    }

    /// Ends an unfinished reply in favour of the next message, once all that this one goes on from could be read.
    async fn give_up(&mut self, run: RunId) -> Result<(), Error> {
        self.engine.agent_config(&self.args.agent).await?;
        self.engine.journal().inspect(run, None).await?;
        self.end(run, "another message was sent").await
    }

    /// Ends an unfinished reply, whoever writes it.
    async fn end(&mut self, run: RunId, reason: &str) -> Result<(), Error> {
        match self.engine.cancel(run, None, Some(reason.to_owned())).await {
            // It may have ended by itself meanwhile.
            Ok(Cancelled::Ended(_)) | Err(EngineError::Ended { .. }) => {
                self.open = false;
                Ok(())
            }
            Ok(Cancelled::Requested { run }) => {
                self.note("another process writes the last reply: it was told to stop");
                self.until_ended(run).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until another process has ended the last run of the session.
    async fn until_ended(&mut self, run: RunId) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.find_last().await?;
            if !self.open {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::NotLetGo { run: short(run) });
            }
            tokio::select! {
                () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                () = self.follow.wish() => return Err(Error::NotLetGo { run: short(run) }),
            }
        }
    }

    /// Waits for a run to begin. Of one that was given up it is looked whether it was written down all the same.
    async fn begun(
        &mut self,
        begins: impl Future<Output = Result<RunHandle, EngineError>>,
    ) -> Result<RunHandle, Error> {
        let begun = self.follow.until_surely_begun(begins, self.context.output).await;
        if matches!(begun, Err(Error::Stopped)) && !self.parted {
            self.find_last().await?;
        }
        begun
    }

    /// Goes on with a reply that was interrupted.
    pub(super) async fn resume(&mut self) -> Result<(), Error> {
        let (true, Some(run)) = (self.open, self.last) else {
            self.note("nothing was interrupted");
            return Ok(());
        };
        let engine = self.engine.clone();
        let handle = self.begun(engine.resume(run, Vec::new())).await?;
        self.listen(handle).await
    }

    /// Follows a run, and asks the person whatever it asks.
    async fn listen(&mut self, handle: RunHandle) -> Result<(), Error> {
        let mut handle = handle;
        loop {
            self.last = Some(handle.run());
            self.open = true;
            let mut events = Events::new(handle.run());
            let report = self.follow.until_let_go(&self.engine, handle, &mut events, self.context).await?;
            self.last = Some(report.run);
            let Some(answers) = self.settle(&report).await? else { return Ok(()) };
            let engine = self.engine.clone();
            handle = self.begun(engine.resume(report.run, answers)).await?;
        }
    }

    /// Tells how a run stands; answers, if it waits for some and the person gave them.
    async fn settle(&mut self, report: &RunReport) -> Result<Option<Vec<GateInput>>, Error> {
        self.stands = match &report.end {
            RunEnd::Ended(response) if response.status == Status::Completed => Exit::Done,
            RunEnd::Ended(_) => Exit::Failed,
            RunEnd::Suspended { .. } | RunEnd::Paused { .. } => Exit::Suspended,
            RunEnd::Interrupted => Exit::Interrupted,
        };
        match &report.end {
            RunEnd::Ended(response) => {
                self.open = false;
                self.follow.answer(report, self.context.output);
                if let (Status::Failed | Status::Cancelled, Some(error)) = (response.status, &response.error)
                {
                    let word = styled(Style::Red, format_args!("error[{}]", error.code.as_str()));
                    self.note(word.and(format_args!(": {}", error.message)));
                }
                Ok(None)
            }
            RunEnd::Interrupted => {
                let words = format!("interrupted; nothing is lost: {}", self.ways());
                self.note(words);
                Ok(None)
            }
            RunEnd::Paused { pause, .. } => {
                let words = format!("{}; {}", ending::paused(pause), self.ways());
                self.note(words);
                Ok(None)
            }
            RunEnd::Suspended { waiting, wake_at: Some(_), .. } if waiting.is_empty() => {
                let words = format!("the agent waits for a time: {}", self.ways());
                self.note(words);
                Ok(None)
            }
            RunEnd::Suspended { waiting, wake_at: None, .. } if waiting.is_empty() => {
                let words =
                    format!("the agent waits for a child run that another process performs: {}", self.ways());
                self.note(words);
                Ok(None)
            }
            // A message is an answer to a question of the agent, and to nothing that a person has to decide.
            RunEnd::Suspended { waiting, .. }
                if !self.trusted && waiting.iter().any(|one| one.gate != Gate::Input) =>
            {
                let Context { output, named, .. } = &mut *self.context;
                ending::waiting(&short(report.run), waiting, *named, output);
                self.note("left waiting: another message gives it up");
                Ok(None)
            }
            RunEnd::Suspended { waiting, .. } => {
                let mut answers = Vec::with_capacity(waiting.len());
                for one in waiting {
                    match self.ask(one).await? {
                        Some(settlement) => {
                            answers.push(GateInput {
                                operation: Some(one.operation),
                                seen: Some(one.gate.clone()),
                                settlement,
                                by: None,
                            });
                        }
                        None => {
                            let words = format!("left waiting: {}", self.ways());
                            self.note(words);
                            return Ok(None);
                        }
                    }
                }
                Ok(Some(answers))
            }
        }
    }

    /// Asks the person what an operation waits for; `None` when there is no answer.
    async fn ask(&mut self, waiting: &WaitingOperation) -> Result<Option<Settlement>, Error> {
        self.discard();
        self.note(&waiting.question);
        let arguments = waiting.arguments.as_ref().map(|arguments| format!("{arguments:#}"));
        for line in inert(&arguments.unwrap_or_default()).lines() {
            self.note(format_args!("  {line}"));
        }
        if let (Gate::Elicitation { .. }, Some(schema)) = (&waiting.gate, &waiting.schema) {
            self.note("an answer is JSON that fits");
            for line in inert(&format!("{schema:#}")).lines() {
                self.note(format_args!("  {line}"));
            }
        }
        let prompt = match waiting.gate {
            Gate::Approval => "[y]es, [n]o or a reason against it: ",
            Gate::Input => "answer: ",
            Gate::Elicitation { .. } => "answer as JSON: ",
            Gate::InDoubt { .. } => "did it take place, [y]es or [n]o: ",
            Gate::Secret { .. } => "is it there now, [y]es or [n]o: ",
        };
        loop {
            let line = match self.read(prompt).await {
                Line::Text(line) => line,
                Line::Fault(error) => return Err(error),
                Line::End | Line::Wish => return Ok(None),
            };
            let line = line.trim();
            let answer = line.to_ascii_lowercase();
            return Ok(Some(match (&waiting.gate, answer.as_str()) {
                (_, "") => continue,
                (_, "/quit" | "/exit") if self.trusted => return Ok(None),
                (Gate::Input | Gate::Elicitation { .. }, _) => {
                    Settlement::Give { value: Value::String(line.to_owned()) }
                }
                (Gate::Approval | Gate::Secret { .. }, "y" | "yes") => {
                    Settlement::Approve { edited: None, reason: None }
                }
                (Gate::Approval | Gate::Secret { .. }, "n" | "no") => Settlement::Deny { reason: None },
                // One word is no reason: "ok" is no "no", and a command of the chat is none here.
                (Gate::Approval, _) if line.starts_with('/') || !line.contains(char::is_whitespace) => {
                    self.note("type `yes`, `no`, or the reason against it in a few words");
                    continue;
                }
                (Gate::Approval, _) => Settlement::Deny { reason: Some(line.to_owned()) },
                (Gate::InDoubt { .. }, "y" | "yes") => Settlement::Done { result: None },
                (Gate::InDoubt { .. }, "n" | "no") => Settlement::NotDone,
                (Gate::InDoubt { .. } | Gate::Secret { .. }, _) => continue,
            }));
        }
    }

    /// Goes back to before the last message, in a session of its own.
    pub(super) async fn undo(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else {
            self.note("nothing has been said yet");
            return Ok(());
        };
        if self.open {
            self.end(run, "it was undone").await?;
        }
        self.last = self.before(run).await?;
        self.part();
        self.note("undone: the next message goes on from before");
        Ok(())
    }

    /// The run before the message that a run answers: one to which another run handed over answers that one's message, and a
    /// fork the message of the run that it was forked from.
    async fn before(&self, run: RunId) -> Result<Option<RunId>, Error> {
        let mut run = run;
        loop {
            let records = self.engine.journal().inspect(run, None).await?.records;
            if let Some(Body::Forked { run: of, .. }) = records.get(1).map(|record| &record.body) {
                run = *of;
                continue;
            }
            match records.first().map(|record| &record.body) {
                Some(Body::Started(Started { by_handoff: true, predecessor: Some(before), .. })) => {
                    run = *before;
                }
                Some(Body::Started(started)) => return Ok(started.predecessor),
                // Every run that can be inspected begins with its start.
                Some(_) | None => return Ok(None),
            }
        }
    }

    /// Begins a session of its own that goes on from `last`.
    fn part(&mut self) {
        self.session = format!("chat-{}", short(fresh()));
        self.open = false;
        self.parted = true;
    }

    pub(super) async fn fork(&mut self, step: &str) -> Result<(), Error> {
        let (Some(run), Ok(step)) = (self.last, step.trim().parse::<u64>()) else {
            self.note("say at which step of the last run, such as `/fork 1`; /show lists them");
            return Ok(());
        };
        let options = ForkOptions { at: Some(step), ..ForkOptions::default() };
        let engine = self.engine.clone();
        let handle = self.begun(engine.fork(run, options)).await?;
        let forked = handle.run();
        self.follow.anew();
        self.listen(handle).await?;
        let summary = self.engine.journal().inspect(forked, None).await?.summary;
        self.session = summary.session;
        Ok(())
    }
}
