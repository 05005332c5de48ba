//! `segno chat`: a conversation, each message of which is a run of one session.

use std::io::BufRead;

use segno_core::{AgentRequest, Entry, Gate, RunId, Status};
use segno_runtime::{Engine, GateInput, RunEnd, RunReport, Settlement, StartOptions, WaitingOperation};
use segno_store::RunFilter;
use serde_json::Value;
use tokio::sync::mpsc;

use super::follow::Follow;
use super::{Context, show};
use crate::args::ChatArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::failure::help_line;
use crate::render::journal::Events;
use crate::render::text::{Style, harmless, short, styled};

const HELP: &str = "  /show        what happened in the last run, and why
  /history     the conversation so far
  /undo        as if the last message had not been said
  /fork N      from step N of the last run on, once more
  /resume      go on with a reply that was interrupted
  /session     the session's name, to come back with `--session`
  /quit        leave; the session stays";

/// What the person at the other end wants.
enum Line {
    Text(String),
    /// Nothing more will come.
    End,
    /// Ctrl-C while nothing was under way.
    Wish,
}

struct Chat<'a, 'c> {
    args: &'a ChatArgs,
    context: &'a mut Context<'c>,
    engine: Engine,
    follow: Follow,
    lines: mpsc::Receiver<String>,
    session: String,
    /// The run that the next message goes on from.
    last: Option<RunId>,
    /// The last run is not over.
    open: bool,
    /// How the last message came out, for whoever cannot ask: a script.
    stands: Exit,
    /// The next message goes on from `last`, not from the newest run of the session.
    parted: bool,
}

pub(super) async fn chat(args: &ChatArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let engine = context.engine().await?;
    // An agent that is not there is told before anything is said to it.
    engine.agent_config(&args.agent).await?;
    let session = args.session.clone().unwrap_or_else(|| format!("chat-{}", short(fresh())));
    let follow = Follow::begin(context)?;
    let lines = read_lines();
    let mut chat = Chat {
        args,
        context,
        engine,
        follow,
        lines,
        session,
        last: None,
        open: false,
        stands: Exit::Done,
        parted: false,
    };
    chat.find_last().await?;
    chat.talk().await
}

/// An id that no other session has.
fn fresh() -> RunId {
    RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// Lines of standard input, read by a thread: a terminal may keep one waiting for ever.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Chat<'_, '_> {
    async fn talk(mut self) -> Result<Exit, Error> {
        self.note(format_args!("session {} · /help lists what else can be said", self.session.clone()));
        if self.open {
            self.note(
                "the last reply was left unfinished: /resume goes on with it, another message gives it up",
            );
        }
        loop {
            let line = match self.read("> ").await {
                Line::Text(line) => line,
                Line::End => return Ok(self.stands),
                Line::Wish => {
                    self.note(format_args!(
                        "left: come back with `segno chat {} --session {}`",
                        self.args.agent,
                        self.session.clone()
                    ));
                    return Ok(Exit::Interrupted);
                }
            };
            let said = line.trim();
            let done = match said.split_once(' ').unwrap_or((said, "")) {
                ("", _) => Ok(()),
                ("/quit" | "/exit", _) => return Ok(Exit::Done),
                ("/help", _) => {
                    self.note(HELP);
                    Ok(())
                }
                ("/session", _) => {
                    self.note(self.session.clone());
                    Ok(())
                }
                ("/show", _) => self.show().await,
                ("/history", _) => self.history().await,
                ("/undo", _) => self.undo().await,
                ("/resume", _) => self.resume().await,
                ("/fork", step) => self.fork(step).await,
                (command, _) if command.starts_with('/') => {
                    self.note(format_args!("`{command}` is not known here:\n{HELP}"));
                    Ok(())
                }
                _ => self.say(said).await,
            };
            // A message that failed is told, and the conversation goes on.
            if let Err(error) = done {
                self.stands = error.class().exit;
                let colour = self.context.output.stderr.terminal.colour;
                self.note(format_args!("{}: {error}", styled(colour, Style::Red, "error")));
                if let Some(help) = error.class().help {
                    help_line(&help, self.context.output);
                }
            }
        }
    }

    fn note(&mut self, words: impl std::fmt::Display) {
        self.context.output.note(words);
    }

    /// Reads a line; a prompt is shown to people only.
    async fn read(&mut self, prompt: &str) -> Line {
        if self.context.output.stdout.terminal.live {
            if self.context.output.stdout.mid_line {
                self.context.output.stdout.write("\n");
            }
            self.context.output.stdout.write(prompt);
            self.context.output.stdout.flush();
            // What the person types ends the line.
            self.context.output.stdout.mid_line = false;
        }
        tokio::select! {
            line = self.lines.recv() => line.map_or(Line::End, Line::Text),
            () = self.follow.wish() => Line::Wish,
        }
    }

    /// Finds the run that the session stands at.
    async fn find_last(&mut self) -> Result<(), Error> {
        let filter = RunFilter {
            session: Some(self.session.clone()),
            tenant: Some(self.tenant()),
            roots_only: true,
            limit: 1,
            ..RunFilter::default()
        };
        let last = self.engine.runs(&filter).await?.into_iter().next();
        self.open = last.as_ref().is_some_and(|run| !run.status.is_end());
        self.last = last.map(|run| run.run);
        Ok(())
    }

    fn tenant(&self) -> String {
        self.args.tenant.clone().unwrap_or_else(|| AgentRequest::text("").tenant)
    }

    /// Says something to the agent.
    async fn say(&mut self, text: &str) -> Result<(), Error> {
        if let (true, Some(run)) = (self.open, self.last) {
            self.engine.cancel(run, None, Some("another message was sent".to_owned())).await?;
            self.open = false;
        }
        let request = AgentRequest { tenant: self.tenant(), ..AgentRequest::text(text) };
        let after = if self.parted { self.last } else { None };
        let session = Some(self.session.clone());
        let options = StartOptions { session, after, ..StartOptions::default() };
        let handle = self.follow.until_begun(self.engine.start(&self.args.agent, request, options)).await?;
        self.parted = false;
        self.listen(handle).await
    }

    /// Goes on with a reply that was interrupted.
    async fn resume(&mut self) -> Result<(), Error> {
        let (true, Some(run)) = (self.open, self.last) else {
            self.note("nothing was interrupted");
            return Ok(());
        };
        let handle = self.follow.until_begun(self.engine.resume(run, Vec::new())).await?;
        self.listen(handle).await
    }

    /// Follows a run, and asks the person whatever it asks.
    async fn listen(&mut self, handle: segno_runtime::RunHandle) -> Result<(), Error> {
        let mut handle = handle;
        loop {
            self.last = Some(handle.run());
            self.open = true;
            let mut events = Events::new(handle.run());
            let report = self.follow.until_let_go(&self.engine, handle, &mut events, self.context).await?;
            self.last = Some(report.run);
            let Some(answers) = self.settle(&report).await? else { return Ok(()) };
            handle = self.follow.until_begun(self.engine.resume(report.run, answers)).await?;
        }
    }

    /// Tells how a run stands; answers, if it waits for some and the person gave them.
    async fn settle(&mut self, report: &RunReport) -> Result<Option<Vec<GateInput>>, Error> {
        self.stands = match &report.end {
            RunEnd::Ended(response) if response.status == Status::Completed => Exit::Done,
            RunEnd::Ended(_) => Exit::Failed,
            RunEnd::Suspended { .. } => Exit::Suspended,
            RunEnd::Interrupted => Exit::Interrupted,
        };
        match &report.end {
            RunEnd::Ended(response) => {
                self.open = false;
                self.follow.answer(report, self.context.output);
                if let (Status::Failed | Status::Cancelled, Some(error)) = (response.status, &response.error)
                {
                    let colour = self.context.output.stderr.terminal.colour;
                    let word = styled(colour, Style::Red, format!("error[{}]", error.code.as_str()));
                    self.context.output.note(format_args!("{word}: {}", harmless(&error.message)));
                }
                Ok(None)
            }
            RunEnd::Interrupted => {
                self.note(
                    "interrupted; nothing is lost: /resume goes on, another message gives the reply up",
                );
                Ok(None)
            }
            RunEnd::Suspended { waiting, .. } if waiting.is_empty() => {
                self.note("the agent waits for a time: /resume looks whether it has come");
                Ok(None)
            }
            RunEnd::Suspended { waiting, .. } => {
                let mut answers = Vec::with_capacity(waiting.len());
                for one in waiting {
                    match self.ask(one).await {
                        Some(settlement) => {
                            answers.push(GateInput { operation: Some(one.operation), settlement, by: None });
                        }
                        None => {
                            self.note("left waiting: /resume asks again");
                            return Ok(None);
                        }
                    }
                }
                Ok(Some(answers))
            }
        }
    }

    /// Asks the person what an operation waits for; `None` when there is no answer.
    async fn ask(&mut self, waiting: &WaitingOperation) -> Option<Settlement> {
        if self.context.output.stdout.terminal.live {
            // What was typed before the question is no answer to it.
            while self.lines.try_recv().is_ok() {}
        }
        let question = harmless(&waiting.question);
        self.note(question);
        let arguments = waiting.arguments.as_ref().map(|arguments| format!("{arguments:#}"));
        for line in harmless(&arguments.unwrap_or_default()).lines() {
            self.note(format_args!("  {line}"));
        }
        let prompt = match waiting.gate {
            Gate::Approval => "[y]es, [n]o or a reason against it: ",
            Gate::Input => "answer: ",
            Gate::InDoubt { .. } => "did it take place, [y]es or [n]o: ",
        };
        loop {
            let Line::Text(line) = self.read(prompt).await else { return None };
            let line = line.trim();
            let answer = line.to_ascii_lowercase();
            return Some(match (&waiting.gate, answer.as_str()) {
                (_, "") => continue,
                (_, "/quit" | "/exit") => return None,
                (Gate::Input, _) => Settlement::Give { value: Value::String(line.to_owned()) },
                (Gate::Approval, "y" | "yes") => Settlement::Approve { edited: None, reason: None },
                (Gate::Approval, "n" | "no") => Settlement::Deny { reason: None },
                (Gate::Approval, _) => Settlement::Deny { reason: Some(line.to_owned()) },
                (Gate::InDoubt { .. }, "y" | "yes") => Settlement::Done { result: None },
                (Gate::InDoubt { .. }, "n" | "no") => Settlement::NotDone,
                (Gate::InDoubt { .. }, _) => continue,
            });
        }
    }

    async fn show(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else {
            self.note("nothing has been said yet");
            return Ok(());
        };
        show::tell(&self.engine, run, self.context).await
    }

    /// Tells the conversation as the model would read it.
    async fn history(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else { return Ok(()) };
        let state = self.engine.inspect(run, None).await?.state;
        for entry in state.transcript().iter() {
            let (who, text) = match entry {
                Entry::User(text) => ("you", text.clone()),
                Entry::Assistant(reply) => ("agent", reply.text()),
                Entry::Instructions(_)
                | Entry::Attachment(_)
                | Entry::ToolResult { .. }
                | Entry::Compaction(_) => continue,
            };
            if !text.is_empty() {
                self.context.output.stdout.line(format_args!("{who}: {}", harmless(&text)));
            }
        }
        Ok(())
    }

    /// Goes back to the run before the last one, in a session of its own.
    async fn undo(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else {
            self.note("nothing has been said yet");
            return Ok(());
        };
        if self.open {
            self.engine.cancel(run, None, Some("it was undone".to_owned())).await?;
        }
        self.last = self.engine.predecessor(run).await?;
        self.part();
        self.note("undone: the next message goes on from before");
        Ok(())
    }

    /// Begins a session of its own that goes on from `last`.
    fn part(&mut self) {
        self.session = format!("chat-{}", short(fresh()));
        self.open = false;
        self.parted = true;
    }

    async fn fork(&mut self, step: &str) -> Result<(), Error> {
        let (Some(run), Ok(step)) = (self.last, step.trim().parse::<u64>()) else {
            self.note("say at which step of the last run, such as `/fork 1`; /show lists them");
            return Ok(());
        };
        let options = segno_runtime::ForkOptions { at: Some(step), ..segno_runtime::ForkOptions::default() };
        let handle = self.follow.until_begun(self.engine.fork(run, options)).await?;
        let forked = handle.run();
        self.listen(handle).await?;
        let summary = self.engine.inspect(forked, None).await?.summary;
        self.session = summary.session;
        Ok(())
    }
}
