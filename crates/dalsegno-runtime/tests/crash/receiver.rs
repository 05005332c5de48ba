//! The other side of every effect: it lives in a process that is not killed, writes down each call that reaches it,
//! and only then answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use dalsegno_core::{EffectClass, OperationId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::post;

/// How long a call is on its way, and how long its answer: long enough for kills to land there.
const WAY: Duration = Duration::from_micros(500);

/// How long anything may take before a test gives up instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is said to the receiver, one line each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A process is about to begin.
    Hello,
    /// An effect.
    Call(Call),
    /// Answered when everything before it was accepted.
    Mark,
}

/// What is answered to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The effect has taken place.
    Done(Value),
    /// It has not, and will not by this call.
    Refused,
}

/// What becomes of the first call for an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The receiver says that it does not do it.
    Refused,
    /// Nothing takes place, and the line goes dead.
    Lost,
    /// The effect takes place, and the line goes dead.
    Unanswered,
}

/// One attempt of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) class: EffectClass,
    pub(crate) operation: OperationId,
    /// From 1; 0 where it does not say so, as a mail.
    pub(crate) attempt: u32,
    /// Which effect of the plan this is; the plan has each number once.
    pub(crate) n: u64,
}

impl Call {
    /// What the receiver answers, however often it is called.
    pub(crate) fn reply(&self) -> Value {
        json!({ "n": self.n, "receipt": format!("receipt {}", self.n) })
    }
}

/// What has reached the receiver.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// Every call, in the order of arrival.
    pub(crate) calls: Vec<Call>,
    /// How often each effect has taken place.
    pub(crate) effects: BTreeMap<u64, u32>,
    /// How often each operation was acted on; a keyed one that is known is acted on and has no further effect.
    acted: BTreeMap<OperationId, u32>,
    /// The keys of the keyed calls.
    keys: BTreeSet<OperationId>,
}

impl Ledger {
    /// Writes down a call; says what becomes of it.
    fn enter(&mut self, call: Call, first: Option<Mishap>) -> Option<Mishap> {
        let mishap = first.filter(|_| self.calls.iter().all(|known| known.n != call.n));
        if matches!(mishap, None | Some(Mishap::Unanswered)) {
            self.act(&call);
        }
        self.calls.push(call);
        mishap
    }

    fn act(&mut self, call: &Call) {
        *self.acted.entry(call.operation).or_default() += 1;
        let effects = self.effects.entry(call.n).or_default();
        match call.class {
            // Reading again has no effect, and setting again what is set is the same effect.
            EffectClass::Read | EffectClass::Idempotent => *effects = 1,
            EffectClass::Keyed => *effects += u32::from(self.keys.insert(call.operation)),
            // No tool is composite: it would count as the most careful class.
            EffectClass::Unsafe | EffectClass::Composite => *effects += 1,
        }
    }

    /// How often the receiver acted on an operation.
    pub(crate) fn acted(&self, operation: OperationId) -> u32 {
        self.acted.get(&operation).copied().unwrap_or_default()
    }

    /// The calls of one operation.
    pub(crate) fn calls_of(&self, operation: OperationId) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.operation == operation)
    }
}

/// A listening receiver.
pub(crate) struct Receiver {
    path: PathBuf,
    shared: Arc<Shared>,
    hellos: mpsc::Receiver<()>,
    /// The port of the mail server.
    port: u16,
}

pub(crate) struct Shared {
    ledger: Mutex<Ledger>,
    mishaps: &'static [(u64, Mishap)],
    arrived: Condvar,
    /// Calls that are never answered: whoever makes one waits until it dies.
    held: Mutex<BTreeSet<u64>>,
    handlers: Mutex<Vec<JoinHandle<()>>>,
    hello: Mutex<mpsc::Sender<()>>,
    stopped: AtomicBool,
}

impl Receiver {
    pub(crate) fn listen(path: &Path, mishaps: &'static [(u64, Mishap)]) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (hello, hellos) = mpsc::channel();
        let shared = Arc::new(Shared {
            ledger: Mutex::default(),
            mishaps,
            arrived: Condvar::new(),
            held: Mutex::default(),
            handlers: Mutex::default(),
            hello: Mutex::new(hello),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accepting.accept(&listener));
        let port = post::listen(&shared);
        Self { path: path.to_owned(), shared, hellos, port }
    }

    /// The port at which it takes mails.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until a process says that it is about to begin.
    pub(crate) fn hello(&self) {
        self.hellos.recv_timeout(PATIENCE).expect("a process begins");
    }

    /// Leaves calls for this effect without an answer from now on.
    pub(crate) fn hold(&self, n: u64) {
        self.shared.held.lock().unwrap().insert(n);
    }

    /// Answers everything again.
    pub(crate) fn hold_nothing(&self) {
        self.shared.held.lock().unwrap().clear();
    }

    /// Waits until a call for this effect has been received.
    pub(crate) fn wait_for(&self, n: u64) {
        let ledger = self.shared.ledger.lock().unwrap();
        let missing = |ledger: &mut Ledger| ledger.calls.iter().all(|call| call.n != n);
        let (_ledger, waited) = self.shared.arrived.wait_timeout_while(ledger, PATIENCE, missing).unwrap();
        assert!(!waited.timed_out(), "effect {n} was never asked for");
    }

    /// What has arrived once everything that dead processes sent is taken in.
    ///
    /// A call may be on its way while its sender dies. Connections are accepted in order, so after the mark each one
    /// has its handler, and the handlers end since their peers are dead.
    pub(crate) fn settle(&self) -> Ledger {
        let mut stream = say(&self.path, &Message::Mark);
        stream.read_exact(&mut [0]).unwrap();
        drop(stream);
        post::mark(self.port);
        for handler in std::mem::take(&mut *self.shared.handlers.lock().unwrap()) {
            handler.join().unwrap();
        }
        self.ledger()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.shared.ledger.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(UnixStream::connect(&self.path));
        post::wake(self.port);
    }
}

/// Opens a connection and says one thing.
pub(crate) fn say(path: &Path, message: &Message) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(line(message).as_bytes()).unwrap();
    stream
}

/// A message as it is sent.
pub(crate) fn line(message: &Message) -> String {
    let mut line = serde_json::to_string(message).unwrap();
    line.push('\n');
    line
}

impl Shared {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Keeps a handler, which ends when its peer is dead.
    pub(crate) fn keep(&self, handler: JoinHandle<()>) {
        self.handlers.lock().unwrap().push(handler);
    }

    /// Writes down a mail that has arrived, as an effect. Says whether it is answered.
    pub(crate) fn arrived(&self, call: Call) -> bool {
        std::thread::sleep(WAY);
        let held = self.held.lock().unwrap().contains(&call.n);
        self.ledger.lock().unwrap().enter(call, None);
        self.arrived.notify_all();
        std::thread::sleep(WAY);
        !held
    }

    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        loop {
            let (stream, _) = listener.accept().unwrap();
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let shared = Arc::clone(self);
            let handler = std::thread::spawn(move || shared.handle(stream));
            self.handlers.lock().unwrap().push(handler);
        }
    }

    fn handle(&self, stream: UnixStream) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        // Whoever died before it sent a whole line has said nothing.
        if reader.read_line(&mut line).is_err() || !line.ends_with('\n') {
            return;
        }
        let reply = match serde_json::from_str(&line).unwrap() {
            Message::Hello => {
                self.hello.lock().unwrap().send(()).unwrap();
                "\n".to_owned()
            }
            Message::Mark => "\n".to_owned(),
            Message::Call(call) => {
                std::thread::sleep(WAY);
                let done = Reply::Done(call.reply());
                let held = self.held.lock().unwrap().contains(&call.n);
                let first = self.mishaps.iter().find(|(n, _)| *n == call.n).map(|(_, mishap)| *mishap);
                let mishap = self.ledger.lock().unwrap().enter(call, first);
                self.arrived.notify_all();
                if held {
                    // Nothing more comes: this ends when the caller does.
                    let _ = reader.read(&mut [0]);
                    return;
                }
                std::thread::sleep(WAY);
                let reply = match mishap {
                    None => done,
                    Some(Mishap::Refused) => Reply::Refused,
                    Some(Mishap::Lost | Mishap::Unanswered) => return,
                };
                format!("{}\n", serde_json::to_string(&reply).unwrap())
            }
        };
        // The caller may be dead by now.
        let _ = reader.get_mut().write_all(reply.as_bytes());
    }
}
