//! A live model at a provider, over real sockets: the Realtime API as it is documented, with answers that are written down.
//!
//! It is strict about what it takes, says why it refuses, and keeps a book of all that it was sent. A session ends with its
//! socket, as that of OpenAI over WebSocket does. That of a call of a telephone ends with the call.

mod caller;
mod control;
mod duplex;
mod session;
mod sound;
mod telephone;
mod webhook;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;

pub use caller::LiveCaller;
pub(crate) use sound::{AGENT_MS, CALLER_MS};
use telephone::Telephone;
pub use webhook::LiveWebhook;

/// What the live model says and does in one response.
#[derive(Debug, Clone, Default)]
pub struct LiveAnswer {
    /// Its words.
    pub text: String,
    /// The tools that it asks for: the name, as models see it, and the arguments as JSON. In them `{{last_call}}` is the id of the last
    /// call of the conversation.
    pub calls: Vec<(String, String)>,
    /// It speaks until it is cancelled; what it asks for is cut then.
    pub holds: bool,
    /// What goes wrong.
    pub fault: Option<LiveFault>,
}

impl LiveAnswer {
    /// Says this.
    pub fn says(text: &str) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Says nothing and asks for a tool.
    pub fn asks(tool: &str, arguments: &Value) -> Self {
        Self { calls: vec![(tool.into(), arguments.to_string())], ..Self::default() }
    }

    /// The same until it is cancelled.
    #[must_use]
    pub fn held(self) -> Self {
        Self { holds: true, ..self }
    }

    /// The same with something that goes wrong.
    #[must_use]
    pub fn with(self, fault: LiveFault) -> Self {
        Self { fault: Some(fault), ..self }
    }
}

/// What goes wrong in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveFault {
    /// The socket is lost before the response begins.
    LostBefore,
    /// It is lost when the response has begun.
    LostWithin,
    /// It is lost when the response has ended.
    LostAfter,
    /// Frames come that no provider should send, with the response among them.
    Garbage,
    /// A second response is active, which was not asked for, until it has ended by itself.
    Other,
}

/// All that the provider was sent, and what it made of it.
#[derive(Debug, Clone, Default)]
pub struct LiveBook {
    /// The frames, each with the number of its session.
    pub frames: Vec<(u32, Value)>,
    /// The codes of the errors that it answered with.
    pub errors: Vec<String>,
    /// The conversation of the last session: all items.
    pub items: Vec<Value>,
    /// How many sessions there were.
    pub sessions: u32,
    /// How many connections were refused for their key.
    pub refused: u32,
    /// What was asked about calls of telephones, in order.
    pub controls: Vec<LiveControl>,
    /// The calls of telephones, by their ids.
    pub telephones: BTreeMap<String, LiveTelephone>,
    /// The items that were cut, each with the milliseconds that were heard of it.
    pub truncated: Vec<(String, u64)>,
    /// How long after a caller began to speak what was said was cut, whenever a client did that.
    pub cuts: Vec<Duration>,
    /// How long the live model waited for tools, whenever it was then asked to speak.
    pub waits: Vec<LiveWait>,
}

/// How long a live model waited for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveWait {
    /// From the last of the arguments to the output.
    pub output: Duration,
    /// From the last of the arguments to the wish for the next response.
    pub response: Duration,
}

/// What comes of a transfer that the provider is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveRefer {
    /// It is made: the call ends.
    #[default]
    Made,
    /// It is taken, and the other end does not answer: the call continues.
    NotAnswered,
    /// It is made, and the request for it is never answered.
    Unanswered,
    /// It is refused with this status.
    Refused(u16),
}

/// What comes of keys that the provider is to send to a caller's line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveKeys {
    /// They are sent.
    #[default]
    Sent,
    /// They are sent but for this one, which is refused.
    Refused(char),
    /// They are sent, and nothing is said of this one.
    Unanswered(char),
}

/// Something that was asked about a call of a telephone.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveControl {
    /// The call.
    pub call: String,
    /// `accept`, `reject`, `hangup` or `refer`.
    pub verb: String,
    /// The body.
    pub body: Value,
    /// The status of the answer.
    pub status: u16,
}

/// A call of a telephone, as the provider has it.
#[derive(Debug, Clone, Default)]
pub struct LiveTelephone {
    /// How it stands.
    pub stage: LiveStage,
    /// All items of its conversation.
    pub items: Vec<Value>,
    /// How many sockets were opened to it.
    pub attached: u32,
    /// How many sockets were refused, since its session was not there.
    pub not_found: u32,
    /// The keys that were sent to the caller's line.
    pub keys: String,
}

impl LiveTelephone {
    /// What was said and told, in order.
    pub fn words(&self) -> Vec<&str> {
        words(&self.items)
    }

    /// The outputs of a call of a tool.
    pub fn outputs(&self, call_id: &str) -> Vec<&str> {
        outputs(&self.items, call_id)
    }

    /// The calls of tools, in order.
    pub fn calls(&self) -> Vec<&str> {
        calls(&self.items)
    }
}

/// How a call of a telephone stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveStage {
    /// It rings.
    #[default]
    Ringing,
    /// It was answered.
    Accepted,
    /// It is over.
    Gone,
}

fn outputs<'i>(items: &'i [Value], call_id: &str) -> Vec<&'i str> {
    let is_its = |item: &&Value| item["type"] == "function_call_output" && item["call_id"] == call_id;
    items.iter().filter(is_its).filter_map(|item| item["output"].as_str()).collect()
}

fn words(items: &[Value]) -> Vec<&str> {
    let parts = items.iter().map(|item| &item["content"][0]);
    parts.filter_map(|part| part["transcript"].as_str().or(part["text"].as_str())).collect()
}

fn calls(items: &[Value]) -> Vec<&str> {
    let calls = items.iter().filter(|item| item["type"] == "function_call");
    calls.filter_map(|item| item["call_id"].as_str()).collect()
}

impl LiveBook {
    /// How many frames of a kind came.
    pub fn count(&self, kind: &str) -> usize {
        self.frames.iter().filter(|(_, frame)| frame["type"] == kind).count()
    }

    /// What was said and told in the last session, in order.
    pub fn words(&self) -> Vec<&str> {
        words(&self.items)
    }

    /// The outputs of a call in the last session.
    pub fn outputs(&self, call_id: &str) -> Vec<&str> {
        outputs(&self.items, call_id)
    }

    /// The calls of the last session, in order.
    pub fn calls(&self) -> Vec<&str> {
        calls(&self.items)
    }
}

/// What all sessions share.
#[derive(Debug, Default)]
struct Shared {
    book: Mutex<LiveBook>,
    answers: Mutex<VecDeque<LiveAnswer>>,
    key: Option<String>,
    changed: Notify,
    /// The calls of telephones, by their ids.
    telephones: Mutex<BTreeMap<String, Telephone>>,
    /// What comes of transfers.
    refers: Mutex<LiveRefer>,
    /// What comes of keys.
    keys: Mutex<LiveKeys>,
    /// How long it takes until a call is answered.
    answered_after: Mutex<Duration>,
    /// What callers do by themselves.
    callers: caller::Callers,
    /// Words that are known as they are spoken.
    recordings: Mutex<Vec<Recording>>,
}

/// Words, and the sound of a person who speaks them.
#[derive(Debug, Clone)]
struct Recording {
    words: String,
    sound: Arc<[u8]>,
}

impl Recording {
    /// Says whether its middle is in some sound, sample by sample.
    fn is_in(&self, sound: &[u8]) -> bool {
        let third = self.sound.len() / 3;
        let middle = &self.sound[third..self.sound.len() - third];
        !middle.is_empty() && sound.windows(middle.len()).any(|part| part == middle)
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, LiveBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn telephones(&self) -> MutexGuard<'_, BTreeMap<String, Telephone>> {
        self.telephones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client has the key.
    fn is_known(&self, given: Option<&str>) -> bool {
        let expected = self.key.as_ref().map(|key| format!("Bearer {key}"));
        let is_known = expected.is_none() || given == expected.as_deref();
        if !is_known {
            self.book().refused += 1;
        }
        is_known
    }

    fn recordings(&self) -> MutexGuard<'_, Vec<Recording>> {
        self.recordings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sound of these words, if there is a recording of them.
    fn recording_of(&self, words: &str) -> Option<Arc<[u8]>> {
        let recordings = self.recordings();
        recordings.iter().find(|one| one.words == words).map(|one| Arc::clone(&one.sound))
    }

    fn next_answer(&self) -> Option<LiveAnswer> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A provider of a live model. Dropped, it is gone.
#[derive(Debug)]
pub struct LiveModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    serves: JoinHandle<()>,
}

impl LiveModel {
    /// Starts it on this machine. What it has no answer for is answered with `Yes.`
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(answers: impl IntoIterator<Item = LiveAnswer>) -> std::io::Result<Self> {
        Self::listen(0, None, answers).await
    }

    /// Starts it at this port, for those who have this key.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn listen(
        port: u16,
        key: Option<&str>,
        answers: impl IntoIterator<Item = LiveAnswer>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let answers = Mutex::new(answers.into_iter().collect());
        let shared = Arc::new(Shared { answers, key: key.map(str::to_owned), ..Shared::default() });
        let theirs = Arc::clone(&shared);
        let serves = tokio::spawn(async move {
            let mut sessions = tokio::task::JoinSet::new();
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    let shared = Arc::clone(&theirs);
                    sessions.spawn(async move {
                        // One whose socket breaks is over.
                        let _ = serve(stream, shared).await;
                    });
                }
            }
        });
        Ok(Self { address, shared, serves })
    }

    /// The address for `base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// It has these answers besides, once it has given those that it has.
    pub fn answers(&self, answers: impl IntoIterator<Item = LiveAnswer>) {
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
    }

    /// Has these words spoken like this, 8,000 µ-law samples a second, in sessions whose sound comes over their socket: it says them so,
    /// and understands a caller who says them so, if no sample of the middle third was changed.
    pub fn knows(&self, words: &str, sound: &[u8]) {
        self.shared.recordings().push(Recording { words: words.to_owned(), sound: sound.into() });
    }

    /// What comes of transfers from here on.
    pub fn refers(&self, refer: LiveRefer) {
        *self.shared.refers.lock().unwrap_or_else(PoisonError::into_inner) = refer;
    }

    /// What comes of keys from here on.
    pub fn sends(&self, keys: LiveKeys) {
        *self.shared.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// From here on it takes so long to answer a call, whether the request for it is given up or not.
    pub fn answers_after(&self, time: Duration) {
        *self.shared.answered_after.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// What it was sent so far.
    pub fn book(&self) -> LiveBook {
        self.shared.book().clone()
    }

    /// Waits until the book is so.
    pub async fn until(&self, is_so: impl Fn(&LiveBook) -> bool) {
        loop {
            let changed = self.shared.changed.notified();
            if is_so(&self.shared.book()) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for LiveModel {
    fn drop(&mut self) {
        self.serves.abort();
    }
}

/// Says whether a connection begins with a request of the control plane, and not with a socket.
async fn is_control(stream: &TcpStream) -> bool {
    let mut head = [0; 4];
    while stream.peek(&mut head).await.is_ok_and(|bytes| bytes > 0) {
        if stream.peek(&mut head).await.is_ok_and(|bytes| bytes == head.len()) {
            return &head == b"POST";
        }
        tokio::task::yield_now().await;
    }
    false
}

#[expect(clippy::result_large_err, reason = "the library refuses connections by this type")]
async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    // It sends many small frames, each of which is to arrive at once.
    stream.set_nodelay(true)?;
    if is_control(&stream).await {
        // A client that goes away has no answer.
        let _ = control::answer(stream, &shared).await;
        return Ok(());
    }
    let mut of_call = None;
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let refused = |status: StatusCode, why: &str| {
            let mut refused = ErrorResponse::new(Some(json!({ "error": { "message": why } }).to_string()));
            *refused.status_mut() = status;
            refused
        };
        let query = request.uri().query().unwrap_or_default();
        let path = request.uri().path();
        let live = path.strip_prefix("/v1/live/sessions/").and_then(|rest| rest.strip_suffix("/attach"));
        let call = live.or_else(|| query.strip_prefix("call_id=")).map(str::to_owned);
        if live.is_none() && (path != "/v1/realtime" || !(call.is_some() || query.contains("model="))) {
            return Err(refused(StatusCode::NOT_FOUND, "no such address"));
        }
        let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        if !shared.is_known(given) {
            return Err(refused(StatusCode::UNAUTHORIZED, "wrong key"));
        }
        if let Some(call) = call {
            match telephone::session_of(&shared, &call, live.is_some()) {
                Some(inputs) => of_call = Some(inputs),
                None => return Err(refused(StatusCode::NOT_FOUND, "no such call")),
            }
        }
        Ok(response)
    };
    let stream = accept_hdr_async(stream, check).await?;
    match of_call {
        Some(inputs) => telephone::carry(stream, &shared, &inputs).await,
        None => session::Served::new(stream, Arc::clone(&shared)).serve().await,
    }
}
