//! The callers: calls that a process carries, and another one when that has died.

use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_core::{AgentRequest, CommandKind, LiveCommand, LiveNews, Surface};
use dalsegno_runtime::{Conversation, StartOptions};

use super::{Machine, Operator};
use crate::process::Process;
use crate::provider::LiveSession;
use crate::random::Random;
use crate::workspace::{PHONE, TENANTS};
use crate::world::World;

/// Calls of one world.
const CALLS: usize = 3;

/// Longer than the model waits for any result: then each call of a tool has an output.
const LISTENING: std::time::Duration = std::time::Duration::from_secs(120);

/// A call that may be carried by one process after the other.
#[derive(Clone)]
pub(super) struct Line {
    session: Arc<Mutex<LiveSession>>,
    tenant: &'static str,
}

impl Line {
    fn look<T>(&self, look: impl FnOnce(&mut LiveSession) -> T) -> T {
        look(&mut self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Operator {
    /// Now and then there is a call; and calls whose process is gone are carried by another one.
    pub(super) async fn attend_calls(&mut self, number: usize) {
        if !self.mix.calls {
            return;
        }
        let mut random = Random::new(self.world.seed, &format!("call at {number}"));
        if self.lines.len() < CALLS && random.chance(200) {
            let number = self.lines.len() + 1;
            let session = Arc::new(Mutex::new(LiveSession::new(self.world.seed, number)));
            self.lines.push(Line { session, tenant: random.pick(&TENANTS) });
        }
        self.carry_calls().await;
    }

    async fn carry_calls(&mut self) {
        for line in self.lines.clone() {
            let run = line.look(|session| session.run);
            if self.world.judge(|guarantees| run.is_some_and(|run| guarantees.has_ended(run))) {
                line.look(|session| session.over = true);
            }
            let (waits, number) = line.look(|session| (!session.carried && !session.over, session.number));
            if waits && let Some(machine) = self.machine() {
                self.carry(&machine, &line, number).await;
            }
        }
    }

    /// Lets a process carry a call, if it can.
    async fn carry(&mut self, machine: &Machine, line: &Line, number: usize) {
        let again = line.look(|session| session.run.is_some());
        self.world.count("call", if again { "another process attaches" } else { "begins" });
        self.world.note(&format!("call {number} comes to p{}", machine.process.number));
        let Ok(agent) = PHONE.parse() else { return self.broken(format!("`{PHONE}` is no name")) };
        let request = AgentRequest { tenant: line.tenant.to_owned(), ..AgentRequest::text("") };
        let options = StartOptions {
            key: Some(format!("call {number}")),
            session: Some(format!("call {number}")),
            ..StartOptions::default()
        };
        let begun = machine.engine.converse(&agent, Surface::Script, request, options);
        let Some(Ok(call)) = self.ask(machine, begun).await else { return };
        let Conversation { handle, news, commands, stay: _ } = call;
        line.look(|session| session.attach(handle.run()));
        self.follow(machine, handle);
        tokio::spawn(carried(
            Arc::clone(&self.world),
            Arc::clone(&machine.process),
            line.clone(),
            news,
            commands,
        ));
    }

    /// Nothing goes wrong any more: each call of a tool gets its output, and then all hang up.
    pub(super) async fn end_calls(&mut self) {
        for line in &self.lines {
            line.look(|session| session.quiet = true);
        }
        if self.lines.is_empty() {
            return;
        }
        tokio::time::sleep(LISTENING).await;
        for line in &self.lines {
            let (run, carried) = line.look(|session| (session.run, session.carried && !session.over));
            if let Some(run) = run.filter(|_| carried) {
                self.world.count("call", "listened to until the end");
                self.world.judge(|guarantees| guarantees.all_answered(run));
            }
            line.look(LiveSession::hang_up);
        }
        tokio::time::sleep(LISTENING).await;
    }
}

/// Passes on what is said between a session and a run, until one of them is over or the process dies.
async fn carried(
    world: Arc<World>,
    process: Arc<Process>,
    line: Line,
    news: tokio::sync::mpsc::Sender<LiveNews>,
    mut commands: tokio::sync::mpsc::UnboundedReceiver<LiveCommand>,
) {
    let number = line.look(|session| session.number);
    loop {
        while let Some(one) = line.look(LiveSession::next_news) {
            world.note(&format!("call {number}: {}", news_words(&one)));
            tokio::select! {
                biased;
                () = process.gone() => return line.look(LiveSession::detach),
                sent = news.send(one) => if sent.is_err() {
                    return line.look(LiveSession::detach);
                },
            }
        }
        let pause = line.look(LiveSession::pause);
        tokio::select! {
            biased;
            () = process.gone() => return line.look(LiveSession::detach),
            command = commands.recv() => match command {
                Some(command) => {
                    world.note(&format!("call {number} takes {}", command_words(&command)));
                    line.look(|session| session.take(&command, &world));
                }
                None => return line.look(LiveSession::detach),
            },
            () = tokio::time::sleep(pause) => {
                if !process.is_frozen() {
                    line.look(|session| session.go_on(&world));
                }
            }
        }
    }
}

/// News in a few words.
fn news_words(news: &LiveNews) -> String {
    match news {
        LiveNews::ResponseBegan { response, command } => {
            format!("{response} begins{}", if command.is_some() { ", as it was asked to" } else { "" })
        }
        LiveNews::ResponseEnded { response, end } => format!("{response} ends: {end:?}"),
        LiveNews::Asked { response, call } => {
            format!("{response} asks for {} {} as {}", call.name, call.arguments, call.call_id)
        }
        LiveNews::Withdrawn { call_id } => format!("{call_id} is withdrawn"),
        other => other.kind().to_owned(),
    }
}

/// A command in a few words.
fn command_words(command: &LiveCommand) -> String {
    match &command.kind {
        CommandKind::Output { call_id, content } => {
            let content: String = content.chars().take(80).collect();
            format!("the output of {call_id}: {content}")
        }
        CommandKind::Note { text } => format!("a note: {}", text.chars().take(80).collect::<String>()),
        other => other.as_str().to_owned(),
    }
}
