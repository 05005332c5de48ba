//! What all requests share.

use std::sync::Arc;

use dalsegno_access::{Access, KeyStore, Seals};
use dalsegno_core::RunId;
use dalsegno_history::Journal;
use dalsegno_runtime::{Clock, Engine};
use dalsegno_store::RunSummary;
use dalsegno_telemetry::Telemetry;
use dalsegno_voice::Telephones;
use dalsegno_workspace::ServeSettings;
use tokio::sync::watch;

use crate::body::Room;
use crate::changes::Changes;
use crate::costly::Costly;
use crate::documents::Turns;
use crate::hands::Hands;
use crate::health::Readiness;
use crate::limits::Limits;
use crate::oidc::Oidc;
use crate::pages::Pages;
use crate::problem::Problem;
use crate::tls::Tls;
use crate::triggers::Triggers;
use crate::upload::Uploads;
use crate::webhooks::Webhooks;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) keys: KeyStore,
    /// The identity provider whose tokens are accepted, if there is one.
    pub(crate) oidc: Option<Oidc>,
    pub(crate) telemetry: Telemetry,
    pub(crate) settings: ServeSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    /// The room for reads that compute.
    pub(crate) costly: Costly,
    pub(crate) hands: Hands,
    pub(crate) changes: Arc<Changes>,
    pub(crate) seals: Seals,
    pub(crate) readiness: Readiness,
    /// What encrypts connections, if the server does so itself.
    pub(crate) tls: Option<Tls>,
    pub(crate) pages: Pages,
    pub(crate) webhooks: Arc<Webhooks>,
    /// The deliveries that start runs.
    pub(crate) triggers: Triggers,
    /// The lines that ring.
    pub(crate) telephones: Arc<Telephones>,
    /// The room for webhooks of lines that have proven nothing yet.
    pub(crate) unproven: Room,
    /// The room for bodies with files.
    pub(crate) uploads: Uploads,
    /// Whose document is worked on.
    pub(crate) turns: Turns,
    /// Whether the server is stopping.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn journal(&self) -> &Journal {
        self.engine.journal()
    }

    /// The time of day, in milliseconds since the epoch.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the server begins to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // Without a sender nothing is left that could stop it in order.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Does something to the end, also when the client that asked for it goes away: a run that was begun half-way would be
    /// performed by no process.
    pub(crate) async fn whole<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let beginning = self.hands.begin();
        let work = async move {
            let _beginning = beginning;
            work.await
        };
        match tokio::spawn(work).await {
            Ok(done) => done,
            Err(error) => Err(Problem::defect(&error)),
        }
    }

    /// A run that is in reach. One that is not is answered as one that does not exist.
    pub(crate) async fn run(&self, access: &Access, id: &str) -> Result<RunSummary, Problem> {
        let run: Option<RunId> = id.parse().ok();
        let found = match run {
            Some(run) => self.journal().known(run).await?,
            None => None,
        };
        found.filter(|summary| access.sees(&summary.tenant)).ok_or_else(Problem::no_run)
    }
}
