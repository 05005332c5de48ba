//! Replies of models that come later: the request is handed over and written down, and from then on any process asks how it
//! stands. In between, the run holds no process.

use std::time::Duration;

use dalsegno_core::{FailureCode, Outcome, Received};
use dalsegno_models::{CompletionRequest, Later, LaterError, Retry};
use dalsegno_protocol::{Task, TaskOwner};

use crate::effects::budget::Held;
use crate::effects::failure::{AttemptError, certain, later};
use crate::run::attempt::{Attempt, no_reply, received, replied};
use crate::run::tasks::{Line, Tasking};

/// The pause before a provider is asked for the first time. It is long enough for the run to be suspended.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

impl Attempt {
    /// Hands a request over, or asks how it stands.
    ///
    /// What a budget sets aside for it stays set aside until there is a reply.
    pub(super) async fn ask_later(
        &self,
        model: &dyn Later,
        request: &CompletionRequest,
        tasking: &Tasking,
        held: Option<Held>,
    ) -> Result<Outcome, AttemptError> {
        let server = &request.settings.name;
        let line = Line::new(&self.context.tasked, self.operation, self.attempt, server, tasking);
        let Some(id) = &tasking.known else {
            return match model.submit(request).await {
                Ok(id) => {
                    line.begun(&Task { id: id.clone(), ttl: None, poll: FIRST_PAUSE }).await;
                    match line.keeps() {
                        true => Err(later(FIRST_PAUSE)),
                        false => Err(given_up(model, &id).await),
                    }
                }
                Err(error) => {
                    if let Some(settlement) = held.and_then(|held| held.failed(received(error.kind))) {
                        settlement.settle().await;
                    }
                    Err(no_reply(error))
                }
            };
        };
        let looked = async {
            tokio::time::sleep(tasking.left).await;
            model.collect(request, id).await
        };
        let collected = tokio::select! {
            collected = looked => collected,
            () = line.unwanted() => return Err(given_up(model, id).await),
        };
        let since = tasking.since.map_or(0, |since| since.as_millis());
        let age = Duration::from_millis(self.context.ports.now().as_millis().saturating_sub(since));
        let (ended, wished) = match collected {
            Ok(Some(reply)) => {
                line.owes(held.and_then(|held| held.replied(&reply)));
                return Ok(replied(request, reply));
            }
            Err(LaterError::Ended(error)) => {
                line.owes(held.and_then(|held| held.failed(received(error.kind))));
                return Err(no_reply(error));
            }
            Ok(None) => ("the provider still works on it".to_owned(), None),
            Err(LaterError::NotNow(error)) => {
                tracing::warn!(run = %self.context.run, operation = %self.operation, %error, "cannot ask about a batch");
                let wished = match error.retry {
                    Retry::After(pause) => Some(pause),
                    Retry::Now | Retry::Never => None,
                };
                (error.message, wished)
            }
        };
        let limit = Duration::from_millis(self.terms.timeout_ms);
        if age < limit {
            return Err(later(pause(age).max(wished.unwrap_or_default())));
        }
        let _ = given_up(model, id).await;
        let message = format!("no reply within {} s: {ended}", limit.as_secs());
        Err(AttemptError {
            received: Received::Possibly,
            transient: true,
            ..certain(FailureCode::Timeout, message)
        })
    }
}

/// When to ask again about a request of this age: a reply is found when a tenth of its time has passed again.
fn pause(age: Duration) -> Duration {
    FIRST_PAUSE.max(age / 10)
}

/// Tells the provider that the reply is not wanted any more. What it has done by then is paid for.
async fn given_up(model: &dyn Later, id: &str) -> AttemptError {
    if let Err(error) = model.cancel(id).await {
        tracing::warn!(batch = id, %error, "cannot cancel a batch");
    }
    certain(FailureCode::Cancelled, "it was given up".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_asked_about_a_few_dozen_times() {
        let (mut age, mut asked) = (Duration::ZERO, 0);
        while age < Duration::from_hours(24) {
            age += pause(age);
            asked += 1;
        }
        assert!((50..100).contains(&asked), "{asked}");
    }
}
