//! One session of the live model, and its conversation.

mod judge;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::caller::{Caller, Does};
use super::sound::{AGENT_MS, Heard, PIECE, Sound, WIDE};
use super::{LiveAnswer, LiveBook, LiveFault, LiveWait, Shared, calls};
use crate::voice_code;

/// What stands in arguments for the id of the last call.
const LAST_CALL: &str = "{{last_call}}";

/// Arguments with the id of the last call.
pub(super) fn with_last_call(arguments: &str, last: impl FnOnce() -> String) -> String {
    match arguments.contains(LAST_CALL) {
        true => arguments.replace(LAST_CALL, &last()),
        false => arguments.to_owned(),
    }
}

/// A response that is under way.
struct Active {
    id: String,
    answer: LiveAnswer,
    /// The item that it speaks, in a session whose sound comes over its socket.
    spoken: Option<String>,
    /// It was not asked for.
    is_other: bool,
}

/// Where the frames of a session go.
enum Out {
    /// To its socket.
    Socket(Box<WebSocketStream<TcpStream>>),
    /// To the sockets of this call of a telephone, as many as there are.
    Call(String, Vec<mpsc::UnboundedSender<Message>>),
}

pub(super) struct Served {
    out: Out,
    /// What it says and does; else what all sessions share.
    answers: Option<VecDeque<LiveAnswer>>,
    shared: Arc<Shared>,
    number: u32,
    count: u32,
    instructions: String,
    tools: Vec<String>,
    active: Option<Active>,
    /// What is heard over the socket, in a session whose sound comes over it.
    sound: Option<Box<Sound>>,
    /// The last call of a tool, when it was asked for, and how long it then waited for its output.
    asked: Option<(String, Instant, Option<Duration>)>,
    /// When the caller began to speak, until the client cuts what was said.
    began: Option<Instant>,
    /// All items, where it ends with its socket: those of a call are in the book.
    items: Vec<Value>,
    pub(super) caller: Caller,
}

/// Why a frame is refused: the code and the words.
type Refusal = (&'static str, String);

/// Whether the session continues.
pub(super) type Goes = Result<bool, Error>;

impl Served {
    pub(super) fn new(stream: WebSocketStream<TcpStream>, shared: Arc<Shared>) -> Self {
        let number = {
            let mut book = shared.book();
            book.sessions += 1;
            book.items.clear();
            book.sessions
        };
        let (instructions, tools) = (String::new(), Vec::new());
        let out = Out::Socket(Box::new(stream));
        let caller = shared.callers.next();
        Self {
            out,
            answers: None,
            shared,
            number,
            count: 0,
            instructions,
            tools,
            active: None,
            sound: None,
            asked: None,
            began: None,
            items: Vec::new(),
            caller,
        }
    }

    /// The session of a call of a telephone, as it was accepted.
    pub(super) fn of_call(
        call: &str,
        accepted: &Value,
        answers: Vec<LiveAnswer>,
        shared: Arc<Shared>,
    ) -> Self {
        let caller = shared.callers.next();
        let mut served = Self {
            out: Out::Call(call.to_owned(), Vec::new()),
            answers: Some(answers.into()),
            shared,
            number: 0,
            count: 0,
            instructions: String::new(),
            tools: Vec::new(),
            active: None,
            sound: None,
            asked: None,
            began: None,
            items: Vec::new(),
            caller,
        };
        served.take_session(accepted);
        served
    }

    /// There is another socket to the call.
    pub(super) async fn attach(&mut self, socket: mpsc::UnboundedSender<Message>) {
        if let Out::Call(_, sockets) = &mut self.out {
            sockets.push(socket);
            self.number += 1;
        }
        // No document says whether this comes: it does every other time.
        if self.number.is_multiple_of(2) {
            let _ = self.send(json!({ "type": "session.created", "session": self.shown() })).await;
        }
    }

    /// All sockets of the call are lost.
    pub(super) fn detach(&mut self) {
        if let Out::Call(_, sockets) = &mut self.out {
            sockets.clear();
        }
    }

    /// The caller says something over the telephone.
    pub(super) async fn hear(&mut self, text: &str) -> Goes {
        self.heard(Heard::Begins).await?;
        self.heard(Heard::Ends(text.to_owned())).await
    }

    /// A caller does something by itself.
    pub(super) async fn does(&mut self, does: Does) -> Goes {
        match does {
            Does::Begins => self.heard(Heard::Begins).await,
            Does::Ends(text) => {
                self.spoken(&text).await?;
                Ok(true)
            }
            Does::Hears(answers) => {
                self.answers.get_or_insert_default().extend(answers);
                self.begin(&json!({ "metadata": null })).await
            }
        }
    }

    /// The caller begins to speak, which interrupts the live model, or has spoken, which the live model then answers by itself.
    async fn heard(&mut self, heard: Heard) -> Goes {
        let goes = match heard {
            Heard::Begins => {
                self.began = Some(Instant::now());
                self.send(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0,
                    "item_id": "heard" }))
                    .await?;
                if self.active.is_some() {
                    self.cancel().await?;
                }
                true
            }
            Heard::Ends(text) => self.turn(&text).await?,
        };
        self.shared.changed.notify_waiters();
        Ok(goes)
    }

    /// The caller has said something, and is answered.
    async fn turn(&mut self, text: &str) -> Goes {
        self.spoken(text).await?;
        self.begin(&json!({ "metadata": null })).await
    }

    /// The caller has said something.
    async fn spoken(&mut self, text: &str) -> Result<(), Error> {
        let item = self.id("item");
        self.send(json!({ "type": "input_audio_buffer.speech_stopped", "audio_end_ms": 0, "item_id": item }))
            .await?;
        self.add(json!({ "id": item, "type": "message", "role": "user",
            "content": [{ "type": "input_audio", "transcript": text }] }))
            .await?;
        self.send(json!({ "type": "conversation.item.input_audio_transcription.completed", "item_id": item,
            "content_index": 0, "transcript": text }))
            .await
    }

    fn take_session(&mut self, session: &Value) {
        if let Some(instructions) = session["instructions"].as_str() {
            self.instructions = instructions.to_owned();
        }
        if let Some(tools) = session["tools"].as_array() {
            let names = tools.iter().filter_map(|tool| tool["name"].as_str());
            self.tools = names.map(str::to_owned).collect();
        }
        if session["output_modalities"] == json!(["audio"]) && matches!(self.out, Out::Socket(_)) {
            let sound = self.sound.get_or_insert_default();
            sound.is_wide = session["audio"]["output"]["format"]["type"] == "audio/pcm";
        }
    }

    fn speaks(&self) -> bool {
        matches!(self.out, Out::Call(..))
    }

    /// The items of the conversation.
    fn items<'b>(&'b self, book: &'b LiveBook) -> &'b [Value] {
        match &self.out {
            Out::Socket(_) => &self.items,
            Out::Call(call, _) => book.telephones.get(call).map_or(&[], |telephone| &telephone.items),
        }
    }

    pub(super) async fn serve(mut self) -> Result<(), Error> {
        self.send(json!({ "type": "session.created", "session": self.shown() })).await?;
        while let Out::Socket(stream) = &mut self.out {
            let goes = tokio::select! {
                message = stream.next() => match message {
                    Some(Ok(Message::Text(text))) => self.take(&text).await?,
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Err(error),
                    None => break,
                },
                does = self.caller.next() => self.does(does).await?,
            };
            if !goes {
                break;
            }
        }
        Ok(())
    }

    /// Takes a frame of the client.
    pub(super) async fn take(&mut self, text: &str) -> Goes {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        if frame["type"] == "input_audio_buffer.append" && self.sound.is_some() {
            return self.listen(frame["audio"].as_str().unwrap_or_default()).await;
        }
        self.shared.book().frames.push((self.number, frame.clone()));
        let goes = match self.judge(&frame) {
            Ok(()) => self.perform(&frame).await?,
            Err((code, message)) => {
                self.shared.book().errors.push(code.to_owned());
                let error = json!({ "type": "invalid_request_error", "code": code, "message": message,
                        "param": null, "event_id": frame["event_id"] });
                self.send(json!({ "type": "error", "error": error })).await?;
                if code == "conversation_already_has_active_response" {
                    self.end_other().await?;
                }
                true
            }
        };
        self.shared.changed.notify_waiters();
        Ok(goes)
    }

    /// The id of the last call in the conversation.
    fn last_call(&self) -> String {
        let book = self.shared.book();
        let calls = calls(self.items(&book));
        calls.last().map(ToString::to_string).unwrap_or_default()
    }

    fn id(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}_{}_{}", self.number, self.count)
    }

    async fn send(&mut self, mut frame: Value) -> Result<(), Error> {
        frame["event_id"] = self.id("event").into();
        self.message(Message::text(frame.to_string())).await
    }

    async fn message(&mut self, message: Message) -> Result<(), Error> {
        match &mut self.out {
            Out::Socket(stream) => stream.send(message).await,
            Out::Call(_, sockets) => {
                sockets.retain(|socket| socket.send(message.clone()).is_ok());
                Ok(())
            }
        }
    }

    fn shown(&self) -> Value {
        json!({ "type": "realtime", "object": "realtime.session", "id": format!("sess_{}", self.number),
            "model": "gpt-realtime-2.1", "output_modalities": ["text"], "instructions": self.instructions })
    }

    async fn perform(&mut self, frame: &Value) -> Goes {
        match frame["type"].as_str() {
            Some("session.update") => {
                self.take_session(&frame["session"]);
                self.send(json!({ "type": "session.updated", "session": self.shown() })).await?;
            }
            Some("conversation.item.create") => {
                let output = &frame["item"];
                if let Some((call, since, waited)) = &mut self.asked
                    && output["output"].is_string()
                    && output["call_id"] == *call
                {
                    *waited = Some(since.elapsed());
                }
                let mut item = frame["item"].clone();
                if !item["id"].is_string() {
                    item["id"] = self.id("item").into();
                }
                self.add(item).await?;
            }
            Some("conversation.item.truncate") => {
                let item = frame["item_id"].as_str().unwrap_or_default().to_owned();
                let heard = frame["audio_end_ms"].as_u64().unwrap_or_default();
                {
                    let mut book = self.shared.book();
                    book.cuts.extend(self.began.take().map(|began| began.elapsed()));
                    book.truncated.push((item.clone(), heard));
                    // No word is left of which it is not known that it was heard.
                    for known in book.items.iter_mut().filter(|known| known["id"] == *item) {
                        known["content"][0]["transcript"] = Value::Null;
                    }
                }
                self.send(
                    json!({ "type": "conversation.item.truncated", "item_id": item, "content_index": 0,
                    "audio_end_ms": heard }),
                )
                .await?;
            }
            Some("response.create") => {
                if let Some((_, since, Some(output))) = &self.asked {
                    let wait = LiveWait { output: *output, response: since.elapsed() };
                    self.shared.book().waits.push(wait);
                    self.asked = None;
                }
                return self.begin(&frame["response"]).await;
            }
            Some("response.cancel") => self.cancel().await?,
            _ => {}
        }
        Ok(true)
    }

    /// Puts an item into the conversation that is whole at once.
    async fn add(&mut self, item: Value) -> Result<(), Error> {
        let item = self.keep(item);
        self.send(json!({ "type": "conversation.item.added", "previous_item_id": null, "item": item }))
            .await?;
        self.send(json!({ "type": "conversation.item.done", "previous_item_id": null, "item": item })).await
    }

    /// Puts an item into the book, as the conversation has it.
    fn keep(&mut self, mut item: Value) -> Value {
        item["object"] = "realtime.item".into();
        if !item["status"].is_string() {
            item["status"] = "completed".into();
        }
        let mut book = self.shared.book();
        match &self.out {
            Out::Socket(_) => {
                self.items.push(item.clone());
                if self.number == book.sessions {
                    book.items.push(item.clone());
                }
            }
            Out::Call(call, _) => {
                book.telephones.entry(call.clone()).or_default().items.push(item.clone());
            }
        }
        item
    }

    /// A response begins to make an item, of which nothing is known yet but what it will be.
    async fn open(&mut self, response: &str, index: usize, mut item: Value) -> Result<(), Error> {
        item["object"] = "realtime.item".into();
        item["status"] = "in_progress".into();
        self.send(
            json!({ "type": "response.output_item.added", "response_id": response, "output_index": index,
            "item": item }),
        )
        .await?;
        self.send(json!({ "type": "conversation.item.added", "previous_item_id": null, "item": item })).await
    }

    /// The item is as it stays.
    async fn close(&mut self, response: &str, index: usize, item: &Value) -> Result<(), Error> {
        // A call that was cut is no item of the conversation.
        if item["type"] != "function_call" || item["status"] == "completed" {
            let kept = self.keep(item.clone());
            let done = json!({ "type": "conversation.item.done", "previous_item_id": null, "item": kept });
            self.send(done).await?;
        }
        self.send(
            json!({ "type": "response.output_item.done", "response_id": response, "output_index": index,
            "item": item }),
        )
        .await
    }

    async fn begin(&mut self, wish: &Value) -> Goes {
        let next = match &mut self.answers {
            Some(own) => own.pop_front(),
            None => self.shared.next_answer(),
        };
        let mut answer = next.unwrap_or_else(|| LiveAnswer::says("Yes."));
        // One that may not call tools does not.
        if wish["tool_choice"] == "none" {
            answer.calls.clear();
        }
        let fault = answer.fault;
        if fault == Some(LiveFault::LostBefore) {
            return Ok(false);
        }
        if fault == Some(LiveFault::Garbage) {
            for garbage in
                ["no json", "{\"type\":\"response.done\"}", "[[[[", "{\"type\":\"who.knows\"}", "\u{0}"]
            {
                self.message(Message::text(garbage)).await?;
            }
            self.message(Message::binary(vec![0xff_u8, 0xfe])).await?;
        }
        if fault == Some(LiveFault::Other) {
            // Its own response comes first, and ours is refused until it has ended.
            let id = self.id("resp");
            let none = LiveAnswer::default();
            self.active = Some(Active { id: id.clone(), answer: none, spoken: None, is_other: true });
            let error = json!({ "type": "invalid_request_error", "code": "conversation_already_has_active_response",
                "message": format!("Conversation already has an active response in progress: {id}."), "param": null,
                "event_id": wish["metadata"]["command"].as_str().or(wish["metadata"]["turn"].as_str()) });
            let answer = LiveAnswer { fault: None, ..answer };
            match &mut self.answers {
                Some(own) => own.push_front(answer),
                None => {
                    let mut shared =
                        self.shared.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    shared.push_front(answer);
                }
            }
            self.send(json!({ "type": "error", "error": error })).await?;
            self.end_other().await?;
            return Ok(true);
        }
        let id = self.id("resp");
        let response = json!({ "object": "realtime.response", "id": id, "status": "in_progress", "status_details": null,
            "output": [], "metadata": wish["metadata"], "usage": null });
        self.send(json!({ "type": "response.created", "response": response })).await?;
        if fault == Some(LiveFault::LostWithin) {
            return Ok(false);
        }
        let holds = answer.holds;
        let spoken = match self.sound.is_some() && !answer.text.is_empty() {
            true => Some(self.speak(&id, &answer.text).await?),
            false => None,
        };
        self.active = Some(Active { id, answer, spoken, is_other: false });
        if !holds {
            self.end("completed").await?;
        }
        Ok(fault != Some(LiveFault::LostAfter))
    }

    /// Ends a response that was not asked for.
    async fn end_other(&mut self) -> Result<(), Error> {
        if self.active.as_ref().is_some_and(|active| active.is_other) {
            self.end("completed").await?;
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Error> {
        self.end("cancelled").await
    }

    async fn end(&mut self, status: &str) -> Result<(), Error> {
        let Some(Active { id, answer, spoken, .. }) = self.active.take() else { return Ok(()) };
        let is_cut = status != "completed";
        if answer.calls.is_empty() {
            self.caller.is_answered();
        }
        let of_item = if is_cut { "incomplete" } else { "completed" };
        let mut output: Vec<Value> = Vec::new();
        if !answer.text.is_empty() {
            output.push(self.tell(&id, &answer.text, of_item, spoken).await?);
        }
        for (name, arguments) in answer.calls {
            let arguments = with_last_call(&arguments, || self.last_call());
            let call_id = self.id("call");
            let arguments = if is_cut { arguments[..arguments.len() / 2].to_owned() } else { arguments };
            let mut item = json!({ "id": self.id("item"), "type": "function_call", "status": of_item,
                "call_id": call_id, "name": name, "arguments": "" });
            let index = output.len();
            self.open(&id, index, item.clone()).await?;
            self.asked = Some((call_id.clone(), Instant::now(), None));
            for (end, key) in [("delta", "delta"), ("done", "arguments")] {
                self.send(json!({ "type": format!("response.function_call_arguments.{end}"), "response_id": id,
                    "item_id": item["id"], "output_index": index, "call_id": call_id, "name": name, key: arguments }))
                    .await?;
            }
            item["arguments"] = arguments.into();
            self.close(&id, index, &item).await?;
            output.push(item);
        }
        self.done(&id, status, output).await
    }

    /// Tells words, and that they are all; the item that they are.
    async fn tell(
        &mut self,
        response: &str,
        text: &str,
        status: &str,
        spoken: Option<String>,
    ) -> Result<Value, Error> {
        let is_sound = self.speaks() || self.sound.is_some();
        let (kind, words, key) = match is_sound {
            true => ("output_audio", "output_audio_transcript", "transcript"),
            false => ("output_text", "output_text", "text"),
        };
        let item = match spoken {
            Some(item) => item,
            None => self.introduce(response).await?,
        };
        let frame = |kind: &str, key: &str, value: Value| {
            json!({ "type": format!("response.{kind}"), "response_id": response, "item_id": item,
                "output_index": 0, "content_index": 0, key: value })
        };
        let part = json!({ "type": kind, key: text });
        let mut frames = vec![
            frame(&format!("{words}.delta"), "delta", text.into()),
            frame(&format!("{words}.done"), key, text.into()),
            frame("content_part.done", "part", part.clone()),
        ];
        if self.sound.is_some() {
            frames.insert(0, frame("output_audio.done", "content_index", 0.into()));
        }
        if self.speaks() {
            frames.insert(0, json!({ "type": "output_audio_buffer.started", "response_id": response }));
        }
        for frame in frames {
            self.send(frame).await?;
        }
        let item = json!({ "id": item, "type": "message", "role": "assistant", "status": status,
            "content": [part] });
        self.close(response, 0, &item).await?;
        Ok(item)
    }

    /// Begins to say something; the item that it will be.
    async fn introduce(&mut self, response: &str) -> Result<String, Error> {
        let is_sound = self.speaks() || self.sound.is_some();
        let part = if is_sound { json!({ "type": "audio" }) } else { json!({ "type": "text", "text": "" }) };
        let id = self.id("item");
        let item = json!({ "id": id, "type": "message", "role": "assistant", "content": [] });
        self.open(response, 0, item).await?;
        self.send(json!({ "type": "response.content_part.added", "response_id": response, "item_id": id,
            "output_index": 0, "content_index": 0, "part": part }))
            .await?;
        Ok(id)
    }

    /// Sends the sound of words, all at once; the item that they are.
    async fn speak(&mut self, response: &str, text: &str) -> Result<String, Error> {
        let item = self.introduce(response).await?;
        let recorded = self.shared.recording_of(text);
        let sound = recorded.map_or_else(|| voice_code::speech(text, AGENT_MS), |sound| sound.to_vec());
        let mut is_wide = false;
        if let Some(own) = &mut self.sound {
            own.made.insert(item.clone(), (sound.len() / voice_code::A_MS) as u64);
            is_wide = own.is_wide;
        }
        for piece in sound.chunks(PIECE) {
            let piece = if is_wide { vec![0; piece.len() * WIDE] } else { piece.to_vec() };
            self.send(
                json!({ "type": "response.output_audio.delta", "response_id": response, "item_id": item,
                "output_index": 0, "content_index": 0, "delta": BASE64.encode(&piece) }),
            )
            .await?;
        }
        Ok(item)
    }

    /// Sound of the caller. Who speaks is told by its energy, as the provider does; a turn ends with a silence.
    async fn listen(&mut self, audio: &str) -> Goes {
        let Ok(sound) = BASE64.decode(audio.as_bytes()) else { return Ok(true) };
        let Some(own) = &mut self.sound else { return Ok(true) };
        let heard = own.hear(&sound, &self.shared.recordings());
        for heard in heard {
            if !self.heard(heard).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn done(&mut self, id: &str, status: &str, output: Vec<Value>) -> Result<(), Error> {
        let is_cut = status != "completed";
        let details = is_cut.then(|| json!({ "type": "cancelled", "reason": "client_cancelled" }));
        let spoke = self.speaks() && output.iter().any(|item| item["type"] == "message");
        let response = json!({ "object": "realtime.response", "id": id, "status": status, "status_details": details,
            "output": output, "usage": { "total_tokens": 3, "input_tokens": 2, "output_tokens": 1 } });
        self.send(json!({ "type": "response.done", "response": response })).await?;
        if spoke {
            let end = if is_cut { "output_audio_buffer.cleared" } else { "output_audio_buffer.stopped" };
            self.send(json!({ "type": end, "response_id": id })).await?;
        }
        Ok(())
    }
}
