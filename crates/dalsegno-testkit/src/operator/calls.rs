//! The callers: calls that a process carries, and another one when that has died.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dalsegno_core::{
    AgentRequest, AgentState, CommandKind, LiveCommand, LiveNews, OperationId, RunId, Surface,
};
use dalsegno_history::HistoryError;
use dalsegno_runtime::{
    Conversation, EngineError, ForkOptions, KeysSent, NotDone, OpenCall, StartOptions, Stay, Switchboard,
};
use dalsegno_tools::Transfer;
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};

use super::{Machine, Operator};
use crate::exchange;
use crate::process::Process;
use crate::provider::LiveSession;
use crate::random::Random;
use crate::workspace::{PHONE, TENANTS};
use crate::world::World;

/// Calls of one world.
const CALLS: usize = 3;

/// Longer than the model waits for any result: then each call of a tool has an output.
const LISTENING: Duration = Duration::from_secs(120);

/// How long the last call lasts before its caller says no more.
const TALKING: Duration = Duration::from_secs(15);

/// How long a process that is to let go of a call waits for a good moment.
const LEAVING: Duration = Duration::from_secs(4);

/// The pause between two things that happen in a call that no process carries.
const ALONE: Duration = Duration::from_millis(700);

/// A call that may be carried by one process after the other.
#[derive(Clone)]
struct Line {
    session: Arc<Mutex<LiveSession>>,
    /// Told when no process carries it any more.
    left: Arc<Notify>,
    /// Told when its provider has transferred it.
    transferred: Arc<Notify>,
    /// The tenant on whose behalf a process begins it; none for a fork, which has begun.
    tenant: Option<&'static str>,
}

impl Line {
    fn new(session: LiveSession, tenant: Option<&'static str>) -> Self {
        let session = Arc::new(Mutex::new(session));
        Self { session, left: Arc::default(), transferred: Arc::default(), tenant }
    }

    fn look<T>(&self, look: impl FnOnce(&mut LiveSession) -> T) -> T {
        look(&mut self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// All calls of a world.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    fn all(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, line: Line) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// The call of a request.
    fn of(&self, request: &AgentRequest) -> Option<Line> {
        let number = request.user.get("call")?.as_u64()?;
        self.all().into_iter().find(|line| line.look(|session| session.number as u64) == number)
    }
}

/// What a process has of the lines: a process that takes over the run of a call that continues gets the call.
pub(super) struct Exchange {
    pub(super) world: Arc<World>,
    pub(super) process: Arc<Process>,
    pub(super) lines: Lines,
}

impl Switchboard for Exchange {
    fn has_line(&self, state: &AgentState) -> bool {
        self.lines.of(state.request()).is_some_and(|line| line.look(|session| session.has_line()))
    }

    fn connect(&self, call: OpenCall) {
        let Some(line) = self.lines.of(call.state.request()) else { return };
        let OpenCall { run, news, commands, stay, .. } = call;
        self.world.count("call", "a worker takes it over");
        line.look(|session| {
            // The process that began it may have died before it could say so.
            session.run.get_or_insert(run);
            if session.surface == Surface::Media && !session.over {
                self.world.count("call", "its carrier has given up");
                session.hang_up(&self.world);
            }
        });
        let attached = Attached { world: Arc::clone(&self.world), process: Arc::clone(&self.process), line };
        attached.carry(run, Ends { news, commands, stay });
    }

    fn transfer<'t>(
        &'t self,
        request: &'t AgentRequest,
        _: &'t Transfer,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotDone>> + Send + 't>> {
        let line = self.lines.of(request);
        Box::pin(async move {
            let line = line.filter(|line| line.look(|session| !session.over));
            let found = line.and_then(|line| Some((line.look(|session| session.run)?, line)));
            let Some((run, line)) = found else {
                return Err(NotDone::Failed("there is no such call".to_owned()));
            };
            let leaves = move |world: &World| {
                line.look(|session| session.leave(world));
                line.transferred.notify_one();
            };
            exchange::transfer(&self.world, &self.process, run, leaves).await
        })
    }

    fn send_keys<'t>(
        &'t self,
        _: &'t AgentRequest,
        operation: OperationId,
        keys: &'t str,
    ) -> Pin<Box<dyn Future<Output = Result<KeysSent, NotDone>> + Send + 't>> {
        Box::pin(exchange::send_keys(&self.world, &self.process, operation, keys))
    }
}

impl Operator {
    /// Now and then there is a call; and calls whose process is gone are carried by another one.
    pub(super) async fn attend_calls(&mut self, number: usize) {
        if !self.mix.calls {
            return;
        }
        let mut random = Random::new(self.world.seed, &format!("call at {number}"));
        let calls = self.lines.all().iter().filter(|line| line.tenant.is_some()).count();
        if calls < CALLS && random.chance(200) {
            self.begin_call(&mut random);
        }
        self.carry_calls(&mut random).await;
    }

    /// A caller rings.
    fn begin_call(&mut self, random: &mut Random) {
        let session = LiveSession::new(self.world.seed, self.lines.all().len() + 1);
        let line = Line::new(session, Some(random.pick(&TENANTS)));
        self.lines.add(line.clone());
        tokio::spawn(alone(Arc::clone(&self.world), line));
    }

    async fn carry_calls(&mut self, random: &mut Random) {
        for line in self.lines.all() {
            let run = line.look(|session| session.run);
            if self.world.judge(|guarantees| run.is_some_and(|run| guarantees.has_ended(run))) {
                line.look(|session| session.over = true);
            }
            let Some(tenant) = line.tenant else {
                // There are no words in a fork any more, once its process has gone.
                line.look(|session| session.over |= !session.carried);
                continue;
            };
            let waits = line.look(|session| !session.carried && !session.over);
            // Workers take over what continues without a process; now and then the operator is quicker.
            let is_called = line.look(|session| run.is_none() || !session.surface.is_answered());
            if waits
                && (is_called || random.chance(200))
                && let Some(machine) = self.machine()
            {
                self.carry(&machine, line, tenant).await;
            }
        }
    }

    /// Lets a process carry a call, if it can.
    async fn carry(&mut self, machine: &Machine, line: Line, tenant: &str) {
        let (number, surface, run) = line.look(|session| (session.number, session.surface, session.run));
        self.world.count("call", if run.is_some() { "another process attaches" } else { "begins" });
        self.world.note(&format!("call {number} comes to p{}", machine.process.number));
        let call = match run.filter(|_| surface.outlives_its_process()) {
            Some(run) => self.ask(machine, machine.engine.attach(run)).await,
            None => {
                self.world.count("surface", &format!("{surface:?}").to_lowercase());
                let Ok(agent) = PHONE.parse() else { return self.broken(format!("`{PHONE}` is no name")) };
                let user = json!({ "call": number });
                let request = AgentRequest { tenant: tenant.to_owned(), user, ..AgentRequest::text("") };
                let options = StartOptions {
                    key: Some(format!("call {number}")),
                    session: Some(format!("call {number}")),
                    ..StartOptions::default()
                };
                let begun = machine.engine.converse(&agent, surface, request, options);
                self.ask(machine, begun).await.map(|begun| begun.map(Some))
            }
        };
        let Some(Ok(Some(Conversation { handle, news, commands, stay }))) = call else { return };
        let run = handle.run();
        self.follow(machine, handle);
        let (world, process) = (Arc::clone(&self.world), Arc::clone(&machine.process));
        Attached { world, process, line }.carry(run, Ends { news, commands, stay });
    }

    /// Forks a call: the new one is carried by the same process.
    pub(super) async fn fork_call(&mut self, machine: &Machine, run: RunId, options: ForkOptions) {
        let forked = async {
            match machine.engine.fork_call(run, Surface::Script, options).await {
                // A step at which it ends is none that it could continue from.
                Err(EngineError::History(HistoryError::Fork { message, .. }))
                    if message.contains("is over") =>
                {
                    Ok(None)
                }
                forked => forked.map(Some),
            }
        };
        let Some(Ok(Some(call))) = self.ask(machine, forked).await else { return };
        self.world.count("call", "is forked");
        let Conversation { handle, news, commands, stay } = call;
        let (run, number) = (handle.run(), self.lines.all().len() + 1);
        let line = Line::new(LiveSession::of_fork(self.world.seed, number, run), None);
        self.lines.add(line.clone());
        self.follow(machine, handle);
        let (world, process) = (Arc::clone(&self.world), Arc::clone(&machine.process));
        Attached { world, process, line }.carry(run, Ends { news, commands, stay });
    }

    /// Nothing goes wrong any more: there is one more call, each call of a tool gets its output, and then all hang up.
    pub(super) async fn end_calls(&mut self) {
        if !self.mix.calls {
            return;
        }
        self.bury().await;
        if self.machine().is_none() && !self.boot(false).await {
            return;
        }
        let mut random = Random::new(self.world.seed, "the last call");
        self.begin_call(&mut random);
        self.carry_calls(&mut random).await;
        tokio::time::sleep(TALKING).await;
        let lines = self.lines.all();
        for line in &lines {
            line.look(|session| session.quiet = true);
        }
        tokio::time::sleep(LISTENING).await;
        for line in &lines {
            let (run, carried) = line.look(|session| (session.run, session.carried && !session.over));
            if let Some(run) = run.filter(|_| carried) {
                self.world.count("call", "listened to until the end");
                self.world.judge(|guarantees| guarantees.all_answered(run));
            }
            line.look(|session| session.hang_up(&self.world));
        }
        tokio::time::sleep(LISTENING).await;
    }
}

/// Caller and live model continue while no process carries their call.
async fn alone(world: Arc<World>, line: Line) {
    while !line.look(|session| session.over) {
        if !line.look(|session| session.goes_on_alone()) {
            line.left.notified().await;
        }
        tokio::time::sleep(ALONE).await;
        line.look(|session| {
            if session.goes_on_alone() {
                world.count("call", "continues without a process");
                session.go_on(&world);
            }
        });
    }
}

/// The channels between a run and the process that carries its call.
struct Ends {
    news: mpsc::Sender<LiveNews>,
    commands: mpsc::UnboundedReceiver<LiveCommand>,
    stay: watch::Receiver<Stay>,
}

/// A process that is attached to a call.
struct Attached {
    world: Arc<World>,
    process: Arc<Process>,
    line: Line,
}

impl Attached {
    /// Passes on what is said between a session and a run, until one of them is over or the process dies.
    fn carry(self, run: RunId, ends: Ends) {
        let turn = self.line.look(|session| session.attach(run, &self.world));
        tokio::spawn(async move {
            self.pass_on(turn, ends).await;
            // Another process may carry it by now.
            self.line.look(|session| {
                if session.turns == turn {
                    session.detach();
                    self.line.left.notify_one();
                }
            });
        });
    }

    async fn pass_on(&self, turn: u32, ends: Ends) {
        let Ends { news, mut commands, mut stay } = ends;
        let (world, process) = (&self.world, &self.process);
        let number = self.line.look(|session| session.number);
        let mut leaves_at = None;
        let mut stays = true;
        loop {
            while let Some(one) = self.mine(turn, LiveSession::next_news).flatten() {
                world.note(&format!("call {number}: {}", news_words(&one)));
                tokio::select! {
                    biased;
                    () = process.gone() => return,
                    sent = news.send(one) => if sent.is_err() {
                        return;
                    },
                }
            }
            let is_due = |at: tokio::time::Instant| at <= tokio::time::Instant::now();
            let is_between = self.mine(turn, |session| session.is_between());
            if leaves_at.is_some_and(|at| is_due(at) || is_between == Some(true)) {
                world.count("call", "is let go of");
                return world.note(&format!("p{} lets go of call {number}", process.number));
            }
            let Some(pause) = self.mine(turn, LiveSession::pause) else { return };
            tokio::select! {
                biased;
                () = process.gone() => return,
                command = commands.recv() => match command {
                    Some(command) => {
                        world.note(&format!("call {number} takes {}", command_words(&command)));
                        let _ = self.mine(turn, |session| session.take(&command, world));
                    }
                    None => return,
                },
                changed = stay.changed(), if stays => {
                    stays = changed.is_ok();
                    if *stay.borrow() == Stay::LetGo {
                        leaves_at = leaves_at.or(Some(tokio::time::Instant::now() + LEAVING));
                    }
                }
                () = self.line.transferred.notified() => {}
                () = tokio::time::sleep(pause) => {
                    if !process.is_frozen() {
                        let _ = self.mine(turn, |session| session.go_on(world));
                    }
                }
            }
        }
    }

    /// Does something with the call, if no other process has taken it over.
    fn mine<T>(&self, turn: u32, what: impl FnOnce(&mut LiveSession) -> T) -> Option<T> {
        self.line.look(|session| (session.turns == turn).then(|| what(session)))
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
