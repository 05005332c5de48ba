//! Keys that a run sends to the line of its caller: they go over the socket of the process that carries the call.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dalsegno_core::OperationId;
use dalsegno_realtime::{KeysEnd, NoKeys};
use dalsegno_runtime::{KeysSent, NotDone};
use tokio::sync::{mpsc, oneshot};

/// How many wishes of one call may wait.
const WISHES_MAX: usize = 8;

/// What is said where no process here carries the call.
const NOT_HERE: &str = "this process does not carry the call at the moment, so nothing was sent";

/// What came of keys.
type Came = Result<KeysSent, NotDone>;

/// A wish to send keys.
struct Wish {
    operation: OperationId,
    keys: String,
    asker: oneshot::Sender<Came>,
}

/// The calls of a line that are carried here, and take keys.
#[derive(Default)]
pub(crate) struct Keypads(Mutex<BTreeMap<String, mpsc::Sender<Wish>>>);

/// The end of those who carry a call, until it is dropped.
pub(crate) struct Keypad {
    of: Arc<Keypads>,
    call: String,
    wishes: mpsc::Receiver<Wish>,
    /// Who waits for what comes of the keys that are being sent.
    asker: Option<oneshot::Sender<Came>>,
}

/// What is wished of those who carry a call.
pub(crate) enum Wished {
    /// To send these keys, for this operation.
    Send(OperationId, String),
    /// To send no more of them: who asked does not wait any more.
    Stop,
}

impl Keypads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, mpsc::Sender<Wish>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, call: &str) -> Keypad {
        let (wish, wishes) = mpsc::channel(WISHES_MAX);
        self.lock().insert(call.to_owned(), wish);
        Keypad { of: Arc::clone(self), call: call.to_owned(), wishes, asker: None }
    }

    /// Has keys sent to the line of a call, after those that were asked for before.
    pub(crate) async fn send(&self, call: &str, operation: OperationId, keys: &str) -> Came {
        let not_here = || NotDone::Passing(NOT_HERE.to_owned());
        let keypad = self.lock().get(call).cloned().ok_or_else(not_here)?;
        let (asker, came) = oneshot::channel();
        keypad.try_send(Wish { operation, keys: keys.to_owned(), asker }).map_err(|_| not_here())?;
        drop(keypad);
        came.await.unwrap_or_else(|_| {
            let reason = "the call was let go of before it was known which keys were sent";
            Err(NotDone::Unknown(reason.to_owned()))
        })
    }
}

impl Keypad {
    /// The next wish. It may be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Wished {
        if let Some(asker) = &mut self.asker {
            asker.closed().await;
            self.asker = None;
            return Wished::Stop;
        }
        match self.wishes.recv().await {
            Some(Wish { operation, keys, asker }) => {
                self.asker = Some(asker);
                Wished::Send(operation, keys)
            }
            None => pending().await,
        }
    }

    /// No keys can be sent.
    pub(crate) fn refuse(&mut self, why: NoKeys) {
        self.tell(Err(match why {
            NoKeys::Never => NotDone::Refused("the provider of the line sends no keys".to_owned()),
            NoKeys::NotNow => {
                NotDone::Passing("there is no connection to the session of the call at the moment".to_owned())
            }
        }));
    }

    /// It is known what came of the keys.
    pub(crate) fn ended(&mut self, end: KeysEnd) {
        self.tell(match end {
            KeysEnd::Sent => Ok(KeysSent::All),
            KeysEnd::Refused { sent: 0, reason } => Err(NotDone::Failed(reason)),
            KeysEnd::Refused { sent, reason } => Ok(KeysSent::First { count: sent, reason }),
            KeysEnd::Unknown { sent, reason } => {
                Err(NotDone::Unknown(format!("{reason}; certainly sent: {sent}")))
            }
        });
    }

    fn tell(&mut self, came: Came) {
        if let Some(asker) = self.asker.take() {
            // Who asked may have stopped to wait.
            let _ = asker.send(came);
        }
    }
}

impl Drop for Keypad {
    fn drop(&mut self) {
        self.wishes.close();
        let mut keypads = self.of.lock();
        // The call may have been taken up here again meanwhile.
        if keypads.get(&self.call).is_some_and(mpsc::Sender::is_closed) {
            keypads.remove(&self.call);
        }
        drop(keypads);
        // None of these was begun.
        while let Ok(Wish { asker, .. }) = self.wishes.try_recv() {
            let _ = asker.send(Err(NotDone::Passing(NOT_HERE.to_owned())));
        }
    }
}
