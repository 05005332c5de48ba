//! A telephone carrier that sends the sound of its calls over sockets, as Twilio does: it asks a server what to do with a call, opens the
//! socket that it is told, sends the caller's sound at the pace of a telephone and plays at that pace what it is sent.
//!
//! It signs what it asks, is strict about what it takes, and keeps a book of each call. Its callers speak a code, so that what they
//! heard can be read.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use futures::{SinkExt as _, StreamExt as _};
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::live_model::{AGENT_MS, CALLER_MS};
use crate::voice_code::{A_MS, SILENCE, speech, text};

/// How often sound is sent, in milliseconds.
const PACE_MS: usize = 20;

/// How often a server that does not answer is asked again, and how long the carrier waits in between: a call that rings is not given up
/// at once.
const ASKED: u32 = 200;
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// How a call stands at its carrier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CarrierStage {
    /// The server is being asked what to do with it.
    #[default]
    Asking,
    /// Its sound comes and goes.
    Streaming,
    /// The caller was connected with this address.
    Dialled(String),
    /// The server hung up.
    HungUp,
    /// The caller did.
    CallerHungUp,
    /// It was not answered.
    Rejected(String),
    /// No server answers.
    Failed(String),
}

impl CarrierStage {
    /// Says whether the call is over.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Asking | Self::Streaming)
    }
}

/// A call, as its carrier has it.
#[derive(Debug, Clone, Default)]
pub struct CarrierCall {
    /// How it stands.
    pub stage: CarrierStage,
    /// The answers of the server, in order.
    pub answers: Vec<String>,
    /// How many sockets were opened for it.
    pub sockets: u32,
    /// How often what was not played was given up.
    pub cleared: u32,
    /// What the caller heard, sample by sample.
    sound: Samples,
    /// What the server sent that no carrier takes.
    pub wrong: Vec<String>,
}

/// Sound, of which only the length is shown.
#[derive(Clone, Default)]
struct Samples(Vec<u8>);

impl std::fmt::Debug for Samples {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} samples", self.0.len())
    }
}

impl CarrierCall {
    /// How many milliseconds of a recording the caller heard, from its beginning on and without a gap.
    pub fn heard_of(&self, recording: &[u8]) -> u64 {
        let begin = &recording[..recording.len().min(RECOGNISED)];
        let Some(place) = self.sound.0.windows(begin.len()).position(|part| part == begin) else { return 0 };
        let same = self.sound.0[place..].iter().zip(recording).take_while(|(heard, made)| heard == made);
        (same.count() / A_MS) as u64
    }

    /// What the caller heard.
    pub fn heard(&self) -> String {
        text(&self.sound.0, AGENT_MS)
    }
}

/// How many samples of a recording tell it from others: a fifth of a second.
const RECOGNISED: usize = 200 * A_MS;

/// What a caller does.
enum Does {
    Says(String),
    Makes(Vec<u8>),
    Presses(char),
    HangsUp,
    /// The socket is lost, and the call is not.
    Loses,
    /// The socket stays, and nothing comes over it.
    Freezes,
    /// A frame as it is.
    Sends(String),
}

#[derive(Debug)]
struct Inner {
    token: String,
    line: String,
    /// Where the server is.
    server: Mutex<SocketAddr>,
    calls: Mutex<BTreeMap<String, CarrierCall>>,
    callers: Mutex<BTreeMap<String, mpsc::UnboundedSender<Does>>>,
    changed: Notify,
}

/// A carrier. Its calls are tasks of the runtime in which they are made.
#[derive(Debug, Clone)]
pub struct Carrier(Arc<Inner>);

impl Inner {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<String, CarrierCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> SocketAddr {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, call: &str, note: impl FnOnce(&mut CarrierCall)) {
        note(self.calls().entry(call.to_owned()).or_default());
        self.changed.notify_waiters();
    }
}

impl Carrier {
    /// A carrier with this authentication token, whose calls are for this line of this server.
    pub fn new(token: &str, line: &str, server: SocketAddr) -> Self {
        Self(Arc::new(Inner {
            token: token.to_owned(),
            line: line.to_owned(),
            server: Mutex::new(server),
            calls: Mutex::default(),
            callers: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// The server is at this address from here on.
    pub fn reaches(&self, server: SocketAddr) {
        *self.0.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// A caller calls a number. To be used in a runtime, which the call is a task of.
    pub fn calls(&self, call: &str, from: &str, to: &str) {
        let (does, done) = mpsc::unbounded_channel();
        self.0.callers.lock().unwrap_or_else(PoisonError::into_inner).insert(call.to_owned(), does);
        self.0.note(call, |_| {});
        let task = Task {
            inner: Arc::clone(&self.0),
            call: call.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            done,
            says: VecDeque::new(),
        };
        tokio::spawn(task.run());
    }

    /// The caller says something.
    pub fn says(&self, call: &str, text: &str) {
        self.does(call, Does::Says(text.to_owned()));
    }

    /// The caller makes this sound, 8,000 µ-law samples a second.
    pub fn makes(&self, call: &str, sound: &[u8]) {
        self.does(call, Does::Makes(sound.to_vec()));
    }

    /// The caller presses a key.
    pub fn presses(&self, call: &str, key: char) {
        self.does(call, Does::Presses(key));
    }

    /// The caller hangs up.
    pub fn hangs_up(&self, call: &str) {
        self.does(call, Does::HangsUp);
    }

    /// The socket of a call is lost.
    pub fn loses(&self, call: &str) {
        self.does(call, Does::Loses);
    }

    /// Nothing comes over the socket of a call any more, and it stays open.
    pub fn freezes(&self, call: &str) {
        self.does(call, Does::Freezes);
    }

    /// Sends the server a frame as it is.
    pub fn sends(&self, call: &str, frame: &str) {
        self.does(call, Does::Sends(frame.to_owned()));
    }

    fn does(&self, call: &str, does: Does) {
        if let Some(caller) = self.0.callers.lock().unwrap_or_else(PoisonError::into_inner).get(call) {
            // A call that is over is.
            let _ = caller.send(does);
        }
    }

    /// How a call stands.
    pub fn call(&self, call: &str) -> CarrierCall {
        self.0.calls().get(call).cloned().unwrap_or_default()
    }

    /// Waits until a call is so.
    pub async fn until(&self, call: &str, is_so: impl Fn(&CarrierCall) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.calls().get(call).is_some_and(&is_so) {
                return;
            }
            changed.await;
        }
    }

    /// The signature of a request to this address with these pairs of a form.
    pub fn signature(&self, url: &str, pairs: &[(&str, &str)]) -> String {
        let mut sorted = pairs.to_vec();
        sorted.sort_unstable();
        let signed: String =
            std::iter::once(url).chain(sorted.iter().flat_map(|(name, value)| [*name, *value])).collect();
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.0.token.as_bytes());
        BASE64.encode(hmac::sign(&key, signed.as_bytes()).as_ref())
    }
}

/// A call.
struct Task {
    inner: Arc<Inner>,
    call: String,
    from: String,
    to: String,
    done: mpsc::UnboundedReceiver<Does>,
    /// What the caller says that was not sent yet, in samples.
    says: VecDeque<u8>,
}

/// What is under way to the caller.
enum Queued {
    Sound(VecDeque<u8>),
    Mark(String),
}

/// How a socket ended.
enum Closed {
    /// It is lost, or the server closed it: the server is asked again.
    Again,
    CallerHungUp,
}

impl Task {
    fn end(&self, stage: CarrierStage) {
        self.inner.note(&self.call, |call| call.stage = stage);
    }

    async fn run(mut self) {
        loop {
            self.inner.note(&self.call, |call| call.stage = CarrierStage::Asking);
            let document = match self.ask().await {
                Ok(document) => document,
                Err(why) => return self.end(CarrierStage::Failed(why)),
            };
            self.inner.note(&self.call, |call| call.answers.push(document.clone()));
            let between = |from: &str, to: &str| {
                let (_, rest) = document.split_once(from)?;
                Some(rest.split_once(to)?.0.replace("&amp;", "&"))
            };
            if let Some(url) = between("<Connect><Stream url=\"", "\"") {
                match self.stream(&url).await {
                    Ok(Closed::CallerHungUp) => return self.end(CarrierStage::CallerHungUp),
                    Ok(Closed::Again) | Err(_) => {}
                }
            } else if document.contains("<Pause length=\"1\"/><Redirect") {
                tokio::time::sleep(Duration::from_secs(1)).await;
            } else if let Some(target) = between("<Number>", "<").or_else(|| between("<Sip>", "<")) {
                return self.end(CarrierStage::Dialled(target));
            } else if let Some(reason) = between("<Reject reason=\"", "\"") {
                return self.end(CarrierStage::Rejected(reason));
            } else if document.contains("<Hangup/>") {
                return self.end(CarrierStage::HungUp);
            } else {
                return self.end(CarrierStage::Failed(document));
            }
        }
    }

    /// Asks the server what to do with the call.
    async fn ask(&mut self) -> Result<String, String> {
        let mut why = String::new();
        for _ in 0..ASKED {
            match self.ask_once().await {
                Ok((200, document)) => return Ok(document),
                // A server that stops is asked again, as one that is gone.
                Ok((status, body)) if status < 500 => return Err(format!("{status}: {body}")),
                Ok((status, _)) => why = status.to_string(),
                Err(error) => why = error.to_string(),
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
        Err(why)
    }

    async fn ask_once(&self) -> std::io::Result<(u16, String)> {
        let line = &self.inner.line;
        let carrier = Carrier(Arc::clone(&self.inner));
        let url = format!("http://localhost/voice/{line}/calls");
        let pairs = [
            ("AccountSid", "AC0"),
            ("CallSid", self.call.as_str()),
            ("CallStatus", "ringing"),
            ("From", self.from.as_str()),
            ("To", self.to.as_str()),
        ];
        let signature = carrier.signature(&url, &pairs);
        let encoded = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            let encode = |byte: u8| match plain(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            };
            text.bytes().map(encode).collect::<String>()
        };
        let body: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let body = body.join("&");
        let request = format!(
            "POST /voice/{line}/calls HTTP/1.1\r\nHost: localhost\r\nX-Twilio-Signature: {signature}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(self.inner.server()).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let broken = || std::io::Error::other("no answer");
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        Ok((status, body.to_owned()))
    }

    /// Opens the socket and carries the sound of the call.
    async fn stream(&mut self, url: &str) -> Result<Closed, Error> {
        let carrier = Carrier(Arc::clone(&self.inner));
        let mut request = url.into_client_request()?;
        let signature = carrier.signature(url, &[]);
        request.headers_mut().insert("x-twilio-signature", signature.parse().expect("base64 is a header"));
        let connection = TcpStream::connect(self.inner.server()).await?;
        let (mut socket, _) = client_async(request, connection).await?;
        let number = {
            let mut calls = self.inner.calls();
            let call = calls.entry(self.call.clone()).or_default();
            call.sockets += 1;
            call.stage = CarrierStage::Streaming;
            call.sockets
        };
        self.inner.changed.notify_waiters();
        let stream = format!("MZ{number}");
        send(&mut socket, json!({ "event": "connected", "protocol": "Call", "version": "1.0.0" })).await?;
        send(
            &mut socket,
            json!({ "event": "start", "sequenceNumber": "1", "streamSid": stream, "start": {
            "accountSid": "AC0", "streamSid": stream, "callSid": self.call, "tracks": ["inbound"],
            "mediaFormat": { "encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1 },
            "customParameters": {} } }),
        )
        .await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(PACE_MS as u64));
        let mut queue: VecDeque<Queued> = VecDeque::new();
        let mut chunk = 0_u64;
        let mut is_frozen = false;
        loop {
            tokio::select! {
                _ = ticks.tick(), if !is_frozen => {
                    chunk += 1;
                    let sound: Vec<u8> =
                        (0..PACE_MS * A_MS).map(|_| self.says.pop_front().unwrap_or(SILENCE)).collect();
                    send(&mut socket, json!({ "event": "media", "sequenceNumber": (chunk + 1).to_string(), "streamSid": stream,
                        "media": { "track": "inbound", "chunk": chunk.to_string(),
                            "timestamp": (chunk * PACE_MS as u64).to_string(), "payload": BASE64.encode(&sound) } }))
                        .await?;
                    for mark in self.play(&mut queue) {
                        send(&mut socket, returned(&stream, &mark)).await?;
                    }
                }
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => {
                        for mark in self.take(&stream, &text, &mut queue) {
                            send(&mut socket, returned(&stream, &mark)).await?;
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(Closed::Again),
                    Some(Ok(Message::Binary(_))) => {
                        self.inner.note(&self.call, |call| call.wrong.push("binary".to_owned()));
                    }
                    Some(Ok(_)) => {}
                },
                does = self.done.recv() => match does {
                    Some(Does::Says(text)) => self.says.extend(speech(&text, CALLER_MS)),
                    Some(Does::Makes(sound)) => self.says.extend(sound),
                    Some(Does::Presses(key)) => {
                        send(&mut socket, json!({ "event": "dtmf", "streamSid": stream, "sequenceNumber": "5",
                            "dtmf": { "track": "inbound_track", "digit": key.to_string() } })).await?;
                    }
                    Some(Does::Loses) => return Ok(Closed::Again),
                    Some(Does::Freezes) => is_frozen = true,
                    Some(Does::Sends(frame)) => socket.send(Message::text(frame)).await?,
                    Some(Does::HangsUp) | None => {
                        send(&mut socket, json!({ "event": "stop", "sequenceNumber": "9", "streamSid": stream,
                            "stop": { "accountSid": "AC0", "callSid": self.call } })).await?;
                        let _ = socket.close(None).await;
                        return Ok(Closed::CallerHungUp);
                    }
                },
            }
        }
    }

    /// Plays for a moment; the marks that are reached.
    fn play(&self, queue: &mut VecDeque<Queued>) -> Vec<String> {
        let mut left = PACE_MS * A_MS;
        let (mut marks, mut heard) = (Vec::new(), Vec::new());
        while let Some(first) = queue.front_mut() {
            match first {
                Queued::Sound(sound) => {
                    let now = sound.len().min(left);
                    heard.extend(sound.drain(..now));
                    left -= now;
                    if !sound.is_empty() {
                        break;
                    }
                    queue.pop_front();
                }
                Queued::Mark(name) => {
                    marks.push(std::mem::take(name));
                    queue.pop_front();
                }
            }
        }
        heard.resize(heard.len() + left, SILENCE);
        self.inner.note(&self.call, |call| call.sound.0.extend(heard));
        marks
    }

    /// Takes a frame of the server; the marks that come back at once.
    fn take(&self, stream: &str, text: &str, queue: &mut VecDeque<Queued>) -> Vec<String> {
        let wrong = |why: &str| {
            self.inner.note(&self.call, |call| call.wrong.push(format!("{why}: {text}")));
            Vec::new()
        };
        let Ok(frame) = serde_json::from_str::<Value>(text) else { return wrong("no JSON") };
        if frame["streamSid"] != stream {
            return wrong("of another stream");
        }
        match frame["event"].as_str() {
            Some("media") => {
                let payload = frame["media"]["payload"].as_str().unwrap_or_default();
                let Ok(sound) = BASE64.decode(payload.as_bytes()) else { return wrong("no base64") };
                queue.push_back(Queued::Sound(sound.into()));
                Vec::new()
            }
            Some("mark") => match frame["mark"]["name"].as_str() {
                Some(name) if queue.is_empty() => vec![name.to_owned()],
                Some(name) => {
                    queue.push_back(Queued::Mark(name.to_owned()));
                    Vec::new()
                }
                None => wrong("no name"),
            },
            Some("clear") => {
                self.inner.note(&self.call, |call| call.cleared += 1);
                let given_up = std::mem::take(queue).into_iter();
                given_up
                    .filter_map(|queued| match queued {
                        Queued::Mark(name) => Some(name),
                        Queued::Sound(_) => None,
                    })
                    .collect()
            }
            _ => wrong("unknown"),
        }
    }
}

fn returned(stream: &str, mark: &str) -> Value {
    json!({ "event": "mark", "sequenceNumber": "4", "streamSid": stream, "mark": { "name": mark } })
}

async fn send(socket: &mut WebSocketStream<TcpStream>, frame: Value) -> Result<(), Error> {
    socket.send(Message::text(frame.to_string())).await
}
