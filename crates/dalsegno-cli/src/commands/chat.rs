//! `dalsegno chat`: a conversation, each message of which is a run of one session.

mod history;
mod reply;
mod typed;

use std::io::IsTerminal;

use dalsegno_core::{AgentRequest, Entry, RunId};
use dalsegno_runtime::Engine;
use dalsegno_store::RunFilter;
use serde_json::Value;
use tokio::sync::mpsc;

use self::history::History;
use self::typed::{Typed, Typist};
use super::follow::Follow;
use super::{Context, consent, select, show};
use crate::args::ChatArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::input;
use crate::render::ending::quoted;
use crate::render::failure::{help_line, told};
use crate::render::terminal;
use crate::render::text::{Style, Words, short, styled};

const HELP: &str = "  /show        what happened in the last run, and why
  /history     the conversation so far
  /undo        as if the last message had not been said
  /fork N      from step N of the last run on, once more
  /resume      go on with a reply that was interrupted
  /session     the session's name, to come back with `--session`
  /quit        leave; the session stays";

/// What a person can do at a terminal besides.
const KEYS: &str =
    "  Enter after a `\\` begins a new line. The arrow keys edit a message and recall earlier ones; Ctrl-R
  searches them. A message that begins with a space is not kept for that.";

/// What the person at the other end wants.
enum Line {
    Text(String),
    /// Nothing more will come.
    End,
    /// Ctrl-C while nothing was under way.
    Wish,
    /// It cannot be read.
    Fault(Error),
}

/// Where the lines come from.
enum Lines {
    Typed(Typist),
    Passed(mpsc::Receiver<Result<String, Error>>),
}

struct Chat<'a, 'c> {
    args: &'a ChatArgs,
    context: &'a mut Context<'c>,
    engine: Engine,
    follow: Follow,
    lines: Lines,
    /// A person types the lines: they are prompted for.
    typed: bool,
    /// The messages of earlier conversations, where they are kept.
    kept: Option<History>,
    /// A line may be a command or an approval. What a program passes on may be another party's text, and says no more than
    /// a message says.
    trusted: bool,
    session: String,
    /// The run that the next message goes on from.
    last: Option<RunId>,
    /// The last run is not over.
    open: bool,
    /// How the last message came out, for whoever cannot ask: a script.
    stands: Exit,
    /// The next message goes on from `last`, not from the newest run of the session.
    parted: bool,
    /// What is known of the user, and what goes with every message.
    user: Value,
    data: Value,
}

pub(super) async fn chat(args: &ChatArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let user =
        args.user.as_deref().map(|user| input::object("--user", user)).transpose()?.unwrap_or_default();
    let data = args.data.as_deref().map(input::json).transpose()?.unwrap_or_default();
    let engine = context.performer().await?;
    // An agent or a tenant that is not there is told before anything is said.
    engine.agent_config(&args.agent).await?;
    select::tenant(&engine.workspace(), engine.journal(), args.tenant.as_deref()).await?;
    let session = args.session.clone().unwrap_or_else(|| format!("chat-{}", short(fresh())));
    let follow = Follow::begin(context)?;
    let typed = std::io::stdin().is_terminal() && !terminal::is_ci();
    let kept = (typed && !args.no_history).then(|| History::new(context.root.join(".dalsegno/chat_history")));
    let lines = match typed {
        true => Lines::Typed(Typist::begin(kept.as_ref().map(History::load).unwrap_or_default())),
        false => Lines::Passed(read_lines()),
    };
    let mut chat = Chat {
        args,
        context,
        engine,
        follow,
        lines,
        typed,
        kept,
        trusted: typed || args.script,
        session,
        last: None,
        open: false,
        stands: Exit::Done,
        parted: false,
        user,
        data,
    };
    chat.find_last().await?;
    chat.talk().await
}

/// An id that no other session has.
fn fresh() -> RunId {
    RunId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// Lines of standard input, read by a thread: a terminal may keep one waiting for ever.
fn read_lines() -> mpsc::Receiver<Result<String, Error>> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        for number in 1.. {
            let Some(line) = input::line(&mut stdin, number).transpose() else { return };
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

impl Chat<'_, '_> {
    async fn talk(mut self) -> Result<Exit, Error> {
        let help = if self.trusted { " · /help lists what else can be said" } else { "" };
        self.note(format!("session {}{help}", self.session));
        if self.open {
            let words = format!("the last reply was left unfinished: {}", self.ways());
            self.note(words);
        }
        loop {
            // Nobody reads the answers any more, or nobody wants them.
            if self.context.output.stdout.is_closed() {
                return Ok(self.stands);
            }
            if self.follow.ends(self.typed) {
                return Ok(Exit::Interrupted);
            }
            let line = match self.read("> ").await {
                Line::Text(line) => line,
                Line::End => return Ok(self.stands),
                Line::Fault(error) => return Err(error),
                Line::Wish => {
                    let back =
                        format!("dalsegno chat {} --session {}", self.args.agent, quoted(&self.session));
                    self.note(format!("left: come back with `{back}`"));
                    return Ok(Exit::Interrupted);
                }
            };
            let said = line.trim();
            let is_kept = !line.starts_with(' ');
            let done = match said.split_once(' ').unwrap_or((said, "")) {
                ("", _) => Ok(()),
                _ if !self.trusted => self.say(said).await,
                ("/quit" | "/exit", _) => return Ok(Exit::Done),
                ("/help", _) => {
                    self.note(HELP);
                    if self.typed {
                        self.note(KEYS);
                    }
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
                _ => {
                    let done = self.say(said).await;
                    if is_kept {
                        self.keep(said);
                    }
                    done
                }
            };
            // A message that failed is told, and the conversation goes on.
            if let Err(error) = done {
                self.stands = error.class().exit;
                self.note(styled(Style::Red, "error").and(format_args!(": {}", told(&error))));
                if let Some(help) = error.class().help {
                    help_line(&help, self.context.output);
                }
            }
        }
    }

    fn note(&mut self, words: impl Into<Words>) {
        self.context.output.note(words);
    }

    /// Reads a line; a prompt is shown to people only, at their terminal.
    async fn read(&mut self, prompt: &str) -> Line {
        if self.typed {
            let stdout = &mut self.context.output.stdout;
            if stdout.mid_line {
                stdout.write("\n");
            }
            stdout.flush();
        }
        let line = async {
            match &mut self.lines {
                Lines::Typed(typist) => match typist.read(prompt).await {
                    Typed::Text(text) => Line::Text(text),
                    Typed::End => Line::End,
                    Typed::Wish => Line::Wish,
                    Typed::Fault(source) => {
                        Line::Fault(Error::Input { place: "the terminal".into(), source })
                    }
                },
                Lines::Passed(lines) => match lines.recv().await {
                    Some(Ok(line)) => Line::Text(line),
                    Some(Err(error)) => Line::Fault(error),
                    None => Line::End,
                },
            }
        };
        tokio::select! {
            // However fast the lines come, a wish is not passed over.
            biased;
            () = self.follow.wish() => Line::Wish,
            line = line => line,
        }
    }

    /// Drops what was typed before a question: it is no answer to it.
    fn discard(&mut self) {
        if self.typed {
            consent::discard_typed_ahead();
        }
    }

    /// Keeps a message for the next conversations, without those that hold a secret which this process knows.
    fn keep(&mut self, message: &str) {
        let Some(kept) = &self.kept else { return };
        if self.engine.scrubbed(message) != message {
            return;
        }
        if let Lines::Typed(typist) = &self.lines {
            typist.recall(message);
        }
        if let Err(error) = kept.keep(message) {
            self.kept = None;
            self.note(format_args!("messages are not kept for the next conversation: {error}"));
        }
    }

    /// How an unfinished reply can go on.
    fn ways(&self) -> String {
        match self.last {
            Some(run) if !self.trusted => {
                format!("`dalsegno resume {}` goes on with it, another message gives it up", short(run))
            }
            _ => "/resume goes on with it, another message gives it up".to_owned(),
        }
    }

    /// Finds the run that the session stands at.
    async fn find_last(&mut self) -> Result<(), Error> {
        let filter = RunFilter {
            session: Some(self.session.clone()),
            tenant: Some(self.tenant()),
            roots_only: true,
            foreign: Some(false),
            limit: 1,
            ..RunFilter::default()
        };
        let last = self.engine.journal().runs(&filter).await?.into_iter().next();
        self.open = last.as_ref().is_some_and(|run| !run.status.is_end());
        self.last = last.map(|run| run.run);
        Ok(())
    }

    fn tenant(&self) -> String {
        self.args.tenant.clone().unwrap_or_else(|| AgentRequest::text("").tenant)
    }

    async fn show(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else {
            self.note("nothing has been said yet");
            return Ok(());
        };
        show::tell(self.engine.journal(), run, self.context).await
    }

    /// Tells the conversation as the model would read it.
    async fn history(&mut self) -> Result<(), Error> {
        let Some(run) = self.last else { return Ok(()) };
        let state = self.engine.journal().inspect(run, None).await?.state;
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
                let stdout = &mut self.context.output.stdout;
                stdout.prose(&format!("{who}: {text}"));
                stdout.write("\n");
            }
        }
        Ok(())
    }
}
