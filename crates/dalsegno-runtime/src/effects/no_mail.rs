//! Mails of declarative tools in a build without them: each is refused.

use std::time::Duration;

use dalsegno_core::{FailureCode, Outcome};
use dalsegno_net::Egress;
use dalsegno_tools::Email;

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;

/// Refuses a mail.
pub(crate) async fn send(
    _: &Email,
    _: Option<(String, String)>,
    _: &str,
    _: &Egress,
    _: Duration,
) -> Result<Outcome, AttemptError> {
    let message = "this build of Dalsegno sends no mail: build it with the feature `mail`";
    Err(certain(FailureCode::NotPermitted, message.to_owned()))
}
