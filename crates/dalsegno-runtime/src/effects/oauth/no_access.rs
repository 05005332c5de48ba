//! Access tokens in a build without OAuth: none can be had.

use std::sync::Arc;

use dalsegno_core::{AgentName, FailureCode};
use dalsegno_secrets::Secret;
use dalsegno_tools::OAuth2;

use crate::effects::failure::AttemptError;
use crate::effects::failure::certain;
use crate::effects::ports::Ports;

impl Ports {
    /// Refuses an access token.
    pub(crate) async fn access_token(
        self: &Arc<Self>,
        _: &OAuth2,
        toolkit: &str,
        _: &str,
        _: Option<&AgentName>,
        _: Option<&Secret>,
    ) -> Result<Secret, AttemptError> {
        let message = format!(
            "`{toolkit}` wants access by OAuth, which this build of Dalsegno does not have: build it with the feature `oauth`"
        );
        Err(certain(FailureCode::NotPermitted, message))
    }
}
