//! Calls of telephones at the provider: each continues by itself, with or without sockets to it.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::caller::Does;
use super::duplex::Duplex;
use super::session::Served;
use super::{LiveAnswer, LiveModel, LiveStage, Shared};

/// What happens in a call.
pub(super) enum Input {
    /// A socket is opened to it.
    Attached(mpsc::UnboundedSender<Message>),
    /// A client sends a frame.
    Frame(String),
    /// The caller says something.
    Says(String),
    /// The caller does something by itself.
    Does(Does),
    /// All sockets are lost.
    Lost,
    /// The call is over.
    Over,
}

/// A call of a telephone.
#[derive(Debug)]
pub(super) struct Telephone {
    answers: Vec<LiveAnswer>,
    /// How many sockets are refused before its session is there.
    hidden: u32,
    inputs: Option<mpsc::UnboundedSender<Input>>,
    /// Its live model hears while it speaks.
    is_live: bool,
}

/// The session of a call that was answered.
enum OfCall {
    Turns(Box<Served>),
    Duplex(Box<Duplex>),
}

impl OfCall {
    /// Takes what happens; whether the sockets stay.
    async fn take(&mut self, input: Input) -> bool {
        match (self, input) {
            (Self::Turns(served), Input::Attached(socket)) => {
                served.attach(socket).await;
                true
            }
            (Self::Turns(served), Input::Frame(text)) => served.take(&text).await.unwrap_or_default(),
            (Self::Turns(served), Input::Says(text)) => served.hear(&text).await.unwrap_or_default(),
            (Self::Turns(served), Input::Does(does)) => served.does(does).await.unwrap_or_default(),
            (Self::Duplex(duplex), Input::Attached(socket)) => {
                duplex.attach(socket);
                true
            }
            (Self::Duplex(duplex), Input::Frame(text)) => {
                duplex.take(&text);
                true
            }
            (Self::Duplex(duplex), Input::Says(text)) => {
                duplex.hear(&text);
                true
            }
            (Self::Duplex(duplex), Input::Over) => {
                duplex.close();
                false
            }
            (Self::Duplex(_), Input::Does(_)) => true,
            (_, Input::Lost | Input::Over) => false,
        }
    }

    /// What the caller does by itself, once it does.
    async fn caller(&mut self) -> Does {
        match self {
            Self::Turns(served) => served.caller.next().await,
            Self::Duplex(_) => std::future::pending().await,
        }
    }

    fn detach(&mut self) {
        match self {
            Self::Turns(served) => served.detach(),
            Self::Duplex(duplex) => duplex.detach(),
        }
    }
}

impl LiveModel {
    /// A telephone rings. Once it is answered, the live model has these answers, and its session is there after so many attempts at
    /// a socket.
    pub fn rings(&self, call: &str, hidden: u32, answers: impl IntoIterator<Item = LiveAnswer>) {
        self.ring(call, hidden, answers, false);
    }

    /// The same for the Live API: the live model hears while it speaks, and another model works with the tools.
    pub fn rings_live(&self, call: &str, hidden: u32, answers: impl IntoIterator<Item = LiveAnswer>) {
        self.ring(call, hidden, answers, true);
    }

    fn ring(&self, call: &str, hidden: u32, answers: impl IntoIterator<Item = LiveAnswer>, is_live: bool) {
        let telephone = Telephone { answers: answers.into_iter().collect(), hidden, inputs: None, is_live };
        self.shared.telephones().insert(call.to_owned(), telephone);
        self.shared.book().telephones.entry(call.to_owned()).or_default();
    }

    /// The caller says something.
    pub fn says(&self, call: &str, text: &str) {
        self.shared.tell(call, Input::Says(text.to_owned()));
    }

    /// All sockets to a call are lost.
    pub fn loses(&self, call: &str) {
        self.shared.tell(call, Input::Lost);
    }

    /// The caller hangs up.
    pub fn hangs_up(&self, call: &str) {
        self.shared.end(call);
    }
}

impl Shared {
    fn tell(&self, call: &str, input: Input) {
        if let Some(Telephone { inputs: Some(inputs), .. }) = self.telephones().get(call) {
            let _ = inputs.send(input);
        }
    }

    /// Says whether a call is one of the Live API.
    pub(super) fn is_live(&self, call: &str) -> bool {
        self.telephones().get(call).is_some_and(|telephone| telephone.is_live)
    }

    /// How a call stands; none where there is none.
    pub(super) fn stage(&self, call: &str) -> Option<LiveStage> {
        Some(self.book().telephones.get(call)?.stage)
    }

    fn set_stage(&self, call: &str, stage: LiveStage) {
        if let Some(telephone) = self.book().telephones.get_mut(call) {
            telephone.stage = stage;
        }
    }

    /// The call is over: its sockets are closed.
    pub(super) fn end(&self, call: &str) {
        self.set_stage(call, LiveStage::Gone);
        if let Some(Telephone { inputs: Some(inputs), .. }) = self.telephones().remove(call) {
            let _ = inputs.send(Input::Over);
        }
        self.changed.notify_waiters();
    }

    /// The call is answered, with this session.
    pub(super) fn accept(self: &Arc<Self>, call: &str, session: &Value) {
        let (inputs, mut taken) = mpsc::unbounded_channel();
        let mut telephones = self.telephones();
        let Some(telephone) = telephones.get_mut(call) else { return };
        telephone.inputs = Some(inputs);
        let (answers, is_live) = (std::mem::take(&mut telephone.answers), telephone.is_live);
        drop(telephones);
        self.set_stage(call, LiveStage::Accepted);
        let shared = Arc::clone(self);
        let mut session = match is_live {
            true => OfCall::Duplex(Box::new(Duplex::new(call, session, answers, shared))),
            false => OfCall::Turns(Box::new(Served::of_call(call, session, answers, shared))),
        };
        tokio::spawn(async move {
            loop {
                let input = tokio::select! {
                    input = taken.recv() => input,
                    does = session.caller() => Some(Input::Does(does)),
                };
                let Some(input) = input else { break };
                if !session.take(input).await {
                    session.detach();
                }
            }
        });
    }
}

/// The session of a call to which a socket is opened; none where it is not there.
pub(super) fn session_of(shared: &Shared, call: &str, is_live: bool) -> Option<mpsc::UnboundedSender<Input>> {
    let mut telephones = shared.telephones();
    let telephone = telephones.get_mut(call).filter(|telephone| telephone.is_live == is_live);
    let inputs = telephone.and_then(|telephone| {
        let inputs = telephone.inputs.clone()?;
        let is_hidden = telephone.hidden > 0;
        telephone.hidden = telephone.hidden.saturating_sub(1);
        (!is_hidden).then_some(inputs)
    });
    if let Some(book) = shared.book().telephones.get_mut(call) {
        match inputs {
            Some(_) => book.attached += 1,
            None => book.not_found += 1,
        }
    }
    inputs
}

/// Carries what comes over a socket to the call, and what the call sends back.
pub(super) async fn carry(
    stream: WebSocketStream<TcpStream>,
    shared: &Shared,
    inputs: &mpsc::UnboundedSender<Input>,
) -> Result<(), Error> {
    let (mut sink, mut frames) = stream.split();
    let (socket, mut sent) = mpsc::unbounded_channel();
    let _ = inputs.send(Input::Attached(socket));
    shared.changed.notify_waiters();
    loop {
        tokio::select! {
            frame = frames.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    if inputs.send(Input::Frame(text.as_str().to_owned())).is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {}
            },
            message = sent.recv() => match message {
                Some(message) => sink.send(message).await?,
                None => break,
            },
        }
    }
    sink.close().await
}
