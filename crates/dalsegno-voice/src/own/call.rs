//! A call by hand: no line, the agent's own model speaks.

use std::sync::Arc;
use std::time::Duration;

use dalsegno_core::{AgentName, AgentRequest, Surface};
use dalsegno_realtime::{LiveSession, Settings};
use dalsegno_runtime::{Conversation, Engine, EngineError, StartOptions};
use tokio::sync::mpsc;

use super::OwnModel;
use crate::call::{Call, Carrier, Provider};
use crate::line::{CALLER_MAX, standing};

/// How long the agent's own model takes for a word where a person listens: three a second.
pub const WORD: Duration = Duration::from_millis(333);

impl Call {
    /// Begins a call of an agent without a line: the model that its file names plays the live model. Each of its words takes so
    /// long, and until the last one the caller can interrupt it. With the key of a call that is not over, this process attaches to
    /// it, as over a line.
    ///
    /// # Errors
    /// When there is no such agent, it has no `[voice]`, another process performs the call, or it cannot be written down.
    pub async fn by_hand(
        engine: &Engine,
        agent: &AgentName,
        request: AgentRequest,
        options: StartOptions,
        word: Duration,
    ) -> Result<Self, EngineError> {
        let conversation = engine.converse(agent, Surface::Model, request, options).await?;
        let Conversation { handle, news, commands } = conversation;
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
