//! A call by hand: no line, the agent's own model speaks.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_realtime::{LiveSession, Settings};
use dalsegno_runtime::{Conversation, Engine, EngineError};
use tokio::sync::mpsc;

use super::OwnModel;
use crate::call::{Call, Carrier, Provider};
use crate::line::{CALLER_MAX, standing};

/// How long the agent's own model takes for a word where a person listens: three a second.
pub const WORD: Duration = Duration::from_millis(333);

impl Call {
    /// Carries a call that began over [`Surface::Model`](dalsegno_core::Surface::Model), without a line: the model that the agent's
    /// file names plays the live model. Each of its words takes so long, and until the last one the caller can interrupt it.
    /// If another process carried the call before, the model reads what was said and done there.
    ///
    /// # Errors
    /// When what was said cannot be read.
    pub async fn by_hand(
        engine: &Engine,
        conversation: Conversation,
        word: Duration,
    ) -> Result<Self, EngineError> {
        let Conversation { handle, news, commands, stay: _ } = conversation;
        let (config, state) = standing(engine, handle.run()).await?;
        let (caller, said) = mpsc::channel(CALLER_MAX);
        let (spoken, speaks) = mpsc::unbounded_channel();
        let Some(model) = OwnModel::of(engine, &state.request().tenant, &config, word, spoken) else {
            // The core lets no agent without a model begin a call.
            let carried = tokio::spawn(async {});
            return Ok(Self { handle, caller, spoken: None, carried });
        };
        let session = LiveSession::new(Settings::of(&config, &state));
        let carrier = Carrier::new(session, Provider::Own(Arc::new(model)), news, commands, said);
        let carried = tokio::spawn(carrier.carry());
        Ok(Self { handle, caller, spoken: Some(speaks), carried })
    }
}
