//! The SIP of the provider: a user agent that takes calls over UDP, tells them by webhooks, and does what the provider is asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use dalsegno_testkit::{LiveAnswer, LiveControl, LiveModel, LiveWebhook};
use rsipstack::EndpointBuilder;
use rsipstack::dialog::dialog::{Dialog, DialogState, DialogStateReceiver, TerminatedReason};
use rsipstack::dialog::dialog_layer::DialogLayer;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::platform::CancellationToken;
use rsipstack::sip::{HasHeaders as _, Header, HeadersExt as _, Method, StatusCode};
use rsipstack::transaction::transaction::Transaction;
use rsipstack::transport::TransportLayer;
use rsipstack::transport::udp::UdpConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::workspace::{PATIENCE, SECRET, now};

/// What the provider would hear and say. No sound is sent.
const SDP: &str = "v=0\r\no=provider 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n\
                   a=rtpmap:0 PCMU/8000\r\n";

/// What a server says that wants the body of a request.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How often it is looked whether a server has been asked to stop.
const LOOK: Duration = Duration::from_millis(10);

/// When a webhook or an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Both at once.
    AtOnce,
    /// The webhook comes when the caller has given up.
    WebhookLate,
    /// Half of the webhook comes, and the rest when the server has been asked to stop.
    WebhookHalved,
    /// The call was accepted at the provider, and the caller gives up before hearing of it.
    AnswerLate,
}

/// What is made of calls.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The line at which they ring.
    pub(crate) line: &'static str,
    /// What the live model says and does in each.
    pub(crate) answers: Vec<LiveAnswer>,
    pub(crate) timing: Timing,
}

/// A call, as it was seen from here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The provider's id of it.
    pub(crate) call: String,
    /// The status with which the caller's telephone answered a REFER.
    pub(crate) referred: Option<u16>,
    /// The first half of the webhook was sent.
    pub(crate) is_halved: bool,
    /// What the caller's telephone said of the other call.
    pub(crate) notified: Option<String>,
    /// The caller ended it, and how.
    pub(crate) left: Option<&'static str>,
    /// When it was answered here.
    pub(crate) answered: Option<Instant>,
    /// When it was over here.
    pub(crate) over: Option<Instant>,
    /// Something went wrong here.
    pub(crate) error: Option<String>,
}

/// A user agent in front of a provider. Dropped, it is gone.
pub(crate) struct Trunk {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    stops: CancellationToken,
}

struct Shared {
    live: Arc<LiveModel>,
    /// Where webhooks are sent, and what is made of calls.
    server: Mutex<(SocketAddr, Plan)>,
    seen: Mutex<Vec<Seen>>,
    dialogs: DialogLayer,
}

impl Trunk {
    /// Opens one for this provider, which tells this server of calls.
    ///
    /// # Errors
    /// There is no port.
    pub(crate) async fn open(live: Arc<LiveModel>, server: SocketAddr) -> anyhow::Result<Self> {
        let stops = CancellationToken::new();
        let transport = TransportLayer::new(stops.child_token());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let udp = UdpConnection::create_connection(any, None, Some(stops.child_token())).await?;
        let address = udp.get_addr().get_socketaddr()?;
        transport.add_transport(udp.into());
        let endpoint = EndpointBuilder::new()
            .with_user_agent("dalsegno-testkit")
            .with_transport_layer(transport)
            .with_cancel_token(stops.child_token())
            .build();
        let mut incoming = endpoint.incoming_transactions()?;
        let plan = Plan { line: "front", answers: Vec::new(), timing: Timing::AtOnce };
        let shared = Arc::new(Shared {
            live,
            server: Mutex::new((server, plan)),
            seen: Mutex::default(),
            dialogs: DialogLayer::new(endpoint.inner.clone()),
        });
        tokio::spawn(async move { endpoint.serve().await });
        let theirs = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Some(request) = incoming.recv().await {
                theirs.take(request);
            }
        });
        Ok(Self { address, shared, stops })
    }

    /// What is made of the calls from here on.
    pub(crate) fn expects(&self, plan: Plan) {
        lock(&self.shared.server).1 = plan;
    }

    /// The server that is told of the calls from here on.
    pub(crate) fn tells(&self, server: SocketAddr) {
        lock(&self.shared.server).0 = server;
    }

    /// Waits until the call of this number is so.
    ///
    /// # Errors
    /// It does not come to be so.
    pub(crate) fn until(&self, number: usize, is_so: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.seen().get(number).is_some_and(&is_so) {
            ensure!(
                begun.elapsed() < PATIENCE,
                "the call {number} does not come that far: {:?}",
                self.seen().get(number)
            );
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The calls so far, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }
}

impl Drop for Trunk {
    fn drop(&mut self) {
        self.stops.cancel();
    }
}

impl Shared {
    /// Takes a request: one that begins a call, or one within a call.
    fn take(self: &Arc<Self>, mut request: Transaction) {
        let begins = request.original.method == Method::Invite
            && request.original.to_header().is_ok_and(|to| matches!(to.tag(), Ok(None)));
        let dialog = match begins {
            true => {
                let (states, told) = mpsc::unbounded_channel();
                let dialog = self.dialogs.get_or_create_server_invite(&request, states, None, None);
                // Without what a request must have there is no call, and no answer.
                dialog.ok().map(|dialog| {
                    tokio::spawn(Arc::clone(self).carry(dialog.clone(), told));
                    Dialog::Invite(dialog)
                })
            }
            false => self.dialogs.match_dialog(&request),
        };
        tokio::spawn(async move {
            // What does not fit the dialog is dropped: the caller sees that it has no answer.
            match (dialog, &request.original.method) {
                (Some(mut dialog), _) => drop(dialog.handle(&mut request).await),
                (None, Method::Ack) => {}
                (None, _) => drop(request.reply(StatusCode::CallTransactionDoesNotExist).await),
            }
        });
    }

    /// Carries a call to its end.
    async fn carry(self: Arc<Self>, dialog: InviteDialog, states: DialogStateReceiver) {
        let number = {
            let mut seen = lock(&self.seen);
            let call = call_id(seen.len());
            seen.push(Seen { call, ..Seen::default() });
            seen.len() - 1
        };
        let error = self.hold(number, &dialog, states).await.err();
        if error.is_some() {
            // As a provider that has lost a call: nothing is left open.
            let _ = dialog.reject(Some(StatusCode::TemporarilyUnavailable), None);
            let _ = dialog.bye().await;
        }
        self.dialogs.remove_dialog(&dialog.id());
        self.note(number, |seen| {
            seen.error = error.map(|error| format!("{error:#}"));
            seen.over = Some(Instant::now());
        });
    }

    async fn hold(
        &self,
        number: usize,
        dialog: &InviteDialog,
        mut states: DialogStateReceiver,
    ) -> anyhow::Result<()> {
        let call = lock(&self.seen)[number].call.clone();
        let (server, Plan { line, answers, timing }) = lock(&self.server).clone();
        let webhook = {
            let invite = dialog.initial_request();
            let headers: Vec<_> =
                invite.headers().iter().map(|header| (header.name(), header.value())).collect();
            LiveWebhook::ringing(SECRET, now(), &call, &headers)
        };
        dialog.ringing(None, None)?;
        self.live.rings(&call, 1, answers);
        let request = webhook.request(line, "localhost");
        match timing {
            Timing::WebhookLate => {}
            Timing::WebhookHalved => {
                let halves = webhook.halves(line, "localhost");
                tell_halves(server, &halves, || self.note(number, |seen| seen.is_halved = true)).await?;
            }
            Timing::AtOnce | Timing::AnswerLate => tell(server, &request).await?,
        }
        let (mut done, mut is_answered, mut is_confirmed) = (0, false, false);
        let ended = loop {
            tokio::select! {
                state = states.recv() => match state {
                    Some(DialogState::Confirmed(..)) => is_confirmed = true,
                    Some(DialogState::Notify(_, request, answer)) => {
                        answer.reply(StatusCode::OK).await.context("a NOTIFY cannot be answered")?;
                        let said = String::from_utf8_lossy(&request.body).trim().to_owned();
                        self.note(number, |seen| seen.notified = Some(said));
                    }
                    Some(DialogState::Terminated(_, why)) => break Some(why),
                    Some(_) => {}
                    None => break None,
                },
                control = self.control(&call, done), if is_confirmed || !is_answered => {
                    done += 1;
                    match control.verb.as_str() {
                        "accept" => {
                            is_answered = true;
                            if timing != Timing::AnswerLate {
                                let kind = Header::ContentType("application/sdp".into());
                                dialog.accept(Some(vec![kind]), Some(SDP.into()))?;
                                self.note(number, |seen| seen.answered = Some(Instant::now()));
                            }
                        }
                        "reject" => {
                            let status = control.body["status_code"].as_u64().and_then(|s| u16::try_from(s).ok());
                            let status = status.context("a call is rejected without a status")?;
                            dialog.reject(Some(StatusCode::from(status)), None)?;
                        }
                        "hangup" => dialog.bye().await?,
                        "refer" => {
                            let target = control.body["target_uri"].as_str().unwrap_or_default();
                            let answer = dialog.refer(format!("<{target}>"), None, None).await?;
                            let answer = answer.context("a REFER has no answer")?;
                            self.note(number, |seen| seen.referred = Some(answer.status_code.code()));
                        }
                        verb => anyhow::bail!("the provider was asked for `{verb}`"),
                    }
                }
            }
        };
        let left = match ended {
            Some(TerminatedReason::UacCancel) => Some("gave up"),
            Some(TerminatedReason::UacBye) => Some("hung up"),
            _ => None,
        };
        self.note(number, |seen| seen.left = left);
        // One that ended from the other side is over already.
        self.live.hangs_up(&call);
        if timing == Timing::WebhookLate {
            tell(server, &request).await?;
        }
        Ok(())
    }

    /// The next thing that the provider was asked about a call and agreed to, after so many.
    async fn control(&self, call: &str, done: usize) -> LiveControl {
        let is_next = |control: &&LiveControl| control.call == call && control.status == 200;
        loop {
            self.live.until(|book| book.controls.iter().filter(is_next).count() > done).await;
            if let Some(control) = self.live.book().controls.iter().filter(is_next).nth(done) {
                return control.clone();
            }
        }
    }

    fn note(&self, number: usize, note: impl FnOnce(&mut Seen)) {
        note(&mut lock(&self.seen)[number]);
    }
}

/// Delivers a webhook to a server.
async fn tell(server: SocketAddr, request: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server).await.context("the server takes no webhook")?;
    stream.write_all(request.as_bytes()).await?;
    is_taken(stream).await
}

/// The same in two halves: the second one when the server has begun to take the first, and takes no connection any more.
async fn tell_halves(
    server: SocketAddr,
    (head, body): &(String, String),
    halved: impl FnOnce(),
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server).await.context("the server takes no webhook")?;
    stream.write_all(head.as_bytes()).await?;
    let mut asked = [0; CONTINUE.len()];
    stream.read_exact(&mut asked).await?;
    ensure!(asked == *CONTINUE, "the server does not ask for the rest of a webhook");
    halved();
    while TcpStream::connect(server).await.is_ok() {
        tokio::time::sleep(LOOK).await;
    }
    stream.write_all(body.as_bytes()).await?;
    is_taken(stream).await
}

/// The answer of the server says that it has taken a webhook.
async fn is_taken(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let first = answer.lines().next().unwrap_or_default();
    ensure!(first.contains(" 200 "), "a webhook was answered with `{first}`");
    Ok(())
}

/// The provider's id of the call of this number.
pub(crate) fn call_id(number: usize) -> String {
    format!("rtc_{number}")
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
