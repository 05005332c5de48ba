//! Futures of a journal in memory, which never wait.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future to its end on this thread. Only for futures that wait for nothing: a browser has no thread to wait on.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}
