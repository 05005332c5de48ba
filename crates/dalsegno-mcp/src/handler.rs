//! What the client does when a server speaks first.
#![expect(deprecated, reason = "servers of today still log over the protocol")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dalsegno_protocol::printable;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, JsonObject, LoggingLevel, LoggingMessageNotificationParam,
    TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use crate::config::Answers;

/// Writes a server's log into the trace and notes when its lists change.
///
/// Everything else that a server can ask of a client is answered by the SDK's own defaults, which are what is wanted:
/// sampling is refused, there are no roots, and elicitation is declined where nobody was named who answers.
#[derive(Clone)]
pub(crate) struct Handler {
    server: Arc<str>,
    answers: Option<Arc<dyn Answers>>,
    may_ask: bool,
    takes_tasks: bool,
    changed: Arc<AtomicBool>,
}

impl Handler {
    pub(crate) fn new(
        server: &str,
        answers: Option<Arc<dyn Answers>>,
        may_ask: bool,
        takes_tasks: bool,
    ) -> Self {
        Self { server: server.into(), answers, may_ask, takes_tasks, changed: Arc::default() }
    }

    /// Notes that the tools have changed.
    pub(crate) fn note_changed(&self) {
        tracing::debug!(server = &*self.server, "its tools have changed");
        self.changed.store(true, Ordering::Release);
    }

    /// Whether the tools have changed since this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions =
            self.takes_tasks.then(|| [(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        capabilities.elicitation = self.may_ask.then(ElicitationCapability::default);
        dalsegno_protocol::client(capabilities)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let Some(answers) = &self.answers else { return Ok(declined) };
        let question = serde_json::to_value(request).unwrap_or_default();
        Ok(match answers.elicit(question).await {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            None => declined,
        })
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let server = &*self.server;
        let logger = params.logger.as_deref().map(printable).unwrap_or_default();
        let data: String = printable(&params.data.to_string()).chars().take(LOGGED_CHARS).collect();
        match params.level {
            LoggingLevel::Debug => tracing::trace!(server, logger, data, "server log"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::debug!(server, logger, data, "server log"),
            LoggingLevel::Warning => tracing::info!(server, logger, data, "server log"),
            LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => {
                tracing::warn!(server, logger, data, "server log");
            }
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note_changed();
    }
}

/// A line of a log that is longer tells nobody more.
const LOGGED_CHARS: usize = 2_000;
