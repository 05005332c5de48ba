//! A workspace that is served.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use dalsegno_access::{KeyStore, NewKey, Reach, Scope};
use dalsegno_core::{EffectClass, ToolReturn};
use dalsegno_runtime::{Engine, Invocation, Tool, ToolDescription, ToolError, WorkerOptions, WorkerReport};
use dalsegno_server::{ServeError, Server};
use dalsegno_store::{Owner, SqliteStore};
use dalsegno_telemetry::{Telemetry, TelemetryConfig};
use dalsegno_workspace::ServeSettings;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::held::{HeldStore, Hold, Holder};

const ECHO: &str = "name = \"echo\"\n[[steps]]\nrespond = \"You said: {{request.text}}\"\n";
const ASK: &str = "name = \"ask\"\n[[steps]]\nid = \"n\"\nask = \"How many?\"\nschema = { type = \"integer\" }\n[[steps]]\nrespond = \"{{steps.n}} then\"\n";
const PAY: &str = "name = \"pay\"\n[tools]\nallow = [\"bills.pay\"]\napprove = [\"bills.pay\"]\n[[steps]]\ntool = \"bills.pay\"\nwith = { amount = \"{{request.text}}\" }\n[[steps]]\nrespond = \"paid\"\n";

/// An agent of which a person is asked something while it does something else.
pub(crate) const BUSY: &str = "name = \"busy\"\n[tools]\nallow = [\"bills.*\"]\napprove = [\"bills.pay\"]\n[[steps]]\nparallel = [\n\
    { id = \"paid\", tool = \"bills.pay\", with = { amount = \"{{request.text}}\" } },\n{ id = \"read\", tool = \"bills.read\" },\n]\n";

/// Pays a bill, which may happen once. One over `slow` takes a moment.
struct Pay;

#[async_trait::async_trait]
impl Tool for Pay {
    fn describe(&self) -> ToolDescription {
        ToolDescription::new("Pays a bill.", EffectClass::Unsafe)
            .with_input(serde_json::json!({ "type": "object" }))
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolReturn, ToolError> {
        if invocation.arguments["amount"] == "slow" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(ToolReturn { text: "paid".to_owned(), ..ToolReturn::default() })
    }
}

/// Is under way until its run ends.
struct LongRead;

#[async_trait::async_trait]
impl Tool for LongRead {
    fn describe(&self) -> ToolDescription {
        ToolDescription::new("Reads for long.", EffectClass::Read)
            .with_input(serde_json::json!({ "type": "object" }))
    }

    async fn call(&self, _: Invocation) -> Result<ToolReturn, ToolError> {
        std::future::pending().await
    }
}

/// Every scope but the one that approves.
pub(crate) const WITHOUT_ANSWERS: &[Scope] =
    &[Scope::RunsList, Scope::RunsRead, Scope::RunsWrite, Scope::AgentsRead];

/// A server of a workspace of its own, and what stops it.
pub(crate) struct World {
    /// Removed with the world.
    folder: TempDir,
    pub(crate) keys: KeyStore,
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    /// What signs a browser in.
    pub(crate) sign_in: String,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<WorkerReport, ServeError>>,
}

pub(crate) fn write_workspace(root: &Path) {
    std::fs::create_dir_all(root.join("agents")).unwrap();
    std::fs::create_dir_all(root.join("tenants")).unwrap();
    std::fs::write(root.join("dalsegno.toml"), "").unwrap();
    for (name, text) in [("echo", ECHO), ("ask", ASK), ("pay", PAY)] {
        std::fs::write(root.join(format!("agents/{name}.toml")), text).unwrap();
    }
    for name in ["acme", "rival"] {
        std::fs::write(root.join(format!("tenants/{name}.toml")), format!("name = \"{name}\"\n")).unwrap();
    }
}

pub(crate) fn settings() -> ServeSettings {
    ServeSettings { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..ServeSettings::default() }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(settings()).await
    }

    pub(crate) async fn with(settings: ServeSettings) -> Self {
        Self::with_files(settings, &[]).await
    }

    /// One with further files, or others than the usual ones.
    pub(crate) async fn with_files(settings: ServeSettings, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_workspace(folder.path());
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let builder = Engine::builder().tool("bills.pay".parse().unwrap(), Pay);
        let builder = builder.tool("bills.read".parse().unwrap(), LongRead);
        let engine = builder.open(folder.path()).await.unwrap();
        Self::of(folder, engine, settings).await
    }

    /// One whose journal can be held.
    pub(crate) async fn held() -> (Self, Holder) {
        let folder = tempfile::tempdir().unwrap();
        write_workspace(folder.path());
        let hold = Holder::default();
        let inner = SqliteStore::open(folder.path().join("held.db")).unwrap();
        let store = HeldStore { inner, hold: Hold::clone(&hold) };
        let engine = Engine::builder().store(store, Owner::in_process()).open(folder.path()).await.unwrap();
        (Self::of(folder, engine, settings()).await, hold)
    }

    async fn of(folder: TempDir, engine: Engine, settings: ServeSettings) -> Self {
        let keys = KeyStore::open(folder.path().join(".dalsegno/access.db")).unwrap();
        let telemetry = Telemetry::start(TelemetryConfig::default()).unwrap();
        let server = Server::bind(engine.clone(), keys.clone(), telemetry, settings).await.unwrap();
        let address = server.address();
        let sign_in = server.sign_in_link().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.serve(&WorkerOptions::default(), stopped, |_| {}).await
        });
        Self { folder, keys, engine, address, sign_in, stop: Some(stop), serving }
    }

    /// The workspace's folder.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A client with a key of a tenant.
    pub(crate) fn client(&self, tenant: &str, scopes: &[Scope]) -> Client {
        let reach = if tenant == "*" { Reach::All } else { Reach::Tenant(tenant.to_owned()) };
        let new = NewKey { reach, scopes: scopes.iter().copied().collect(), ..NewKey::default() };
        let (entry, key) = self.keys.add(&new, 0).unwrap();
        Client { address: self.address, key: Some(key.expose().to_owned()), id: entry.id }
    }

    pub(crate) fn all(&self, tenant: &str) -> Client {
        self.client(tenant, Scope::ALL)
    }

    pub(crate) fn without_key(&self) -> Client {
        Client { address: self.address, key: None, id: String::new() }
    }

    /// Begins to stop the server, and returns what comes of it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn stopped(mut self) -> WorkerReport {
        self.stop();
        self.serving.await.unwrap().unwrap()
    }

    /// The number of runs in the journal.
    pub(crate) async fn runs(&self) -> usize {
        self.engine.journal().runs(&dalsegno_store::RunFilter::default()).await.unwrap().len()
    }
}
