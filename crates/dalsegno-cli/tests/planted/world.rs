//! A workspace of seven agents and the runs that they were recorded with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dalsegno_core::AgentRequest;
use dalsegno_gate::{Base, Comparison, GateReport, Version};
use dalsegno_history::Journal;
use dalsegno_runtime::{Engine, RunEnd, StartOptions};
use dalsegno_store::{RunFilter, RunSummary};
use dalsegno_workspace::{Lock, LockedServer, LockedTool, Workspace};
use serde_json::json;
use tempfile::TempDir;

/// The files, by their path.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("dalsegno.toml", include_str!("files/dalsegno.toml")),
    ("agents/boss.toml", include_str!("files/boss.toml")),
    ("agents/desk.toml", include_str!("files/desk.toml")),
    ("agents/keeper.toml", include_str!("files/keeper.toml")),
    ("agents/sorter.toml", include_str!("files/sorter.toml")),
    ("agents/spare.toml", include_str!("files/spare.toml")),
    ("agents/writer.toml", include_str!("files/writer.toml")),
    ("forms/letter.json", include_str!("files/letter.json")),
    ("scripts/desk.toml", include_str!("files/script_desk.toml")),
    ("scripts/broken.toml", include_str!("files/script_broken.toml")),
    ("scripts/writer.toml", include_str!("files/script_writer.toml")),
    ("tenants/acme.toml", include_str!("files/acme.toml")),
    ("tools/quote.json", include_str!("files/quote.json")),
    ("tools/refund.json", include_str!("files/refund.json")),
];

/// What the pinned tool server says of its tool, and of the argument.
pub(crate) const FIND: &str = "Finds entries of a ledger.";
pub(crate) const ACCOUNT: &str = "The number of the account.";

/// The lock file with these words about the tool and its argument.
pub(crate) fn lock(find: &str, account: &str) -> String {
    let tool = |description: &str, schema: serde_json::Value| LockedTool {
        description: description.to_owned(),
        input_schema: schema.into(),
        output_schema: None,
        read_only: Some(true),
        idempotent: None,
        destructive: None,
        builtin: false,
    };
    let account = json!({ "type": "string", "description": account });
    let schema = json!({ "type": "object", "properties": { "account": account } });
    let tools = [("find", tool(find, schema.clone())), ("close", tool("Closes a ledger.", schema))];
    let tools = tools.map(|(name, tool)| (name.to_owned(), tool));
    let server = LockedServer { tools: BTreeMap::from(tools) };
    Lock { servers: BTreeMap::from([("ledger".to_owned(), server)]), names: BTreeMap::new() }.to_text()
}

/// A workspace with recorded runs.
pub(crate) struct World {
    folder: TempDir,
    journal: Journal,
    base: Version,
    pub(crate) runs: Vec<RunSummary>,
}

impl World {
    /// Records so many runs of each kind; two kinds are recorded with their child runs.
    pub(crate) async fn record(each: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in FILES {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(folder.path().join(Lock::FILE), lock(FIND, ACCOUNT)).unwrap();
        let engine = Engine::builder().open(folder.path()).await.unwrap();
        let kinds = ["desk", "sorter", "acme sorter", "boss", "writer", "spare", "keeper"];
        for number in 0..each {
            // From 1 to 100, evenly spread.
            let amount = (1 + number * 37 % 100).to_string();
            for kind in kinds {
                let (tenant, agent) = kind.split_once(' ').unwrap_or(("default", kind));
                let request = AgentRequest { tenant: tenant.to_owned(), ..AgentRequest::text(&amount) };
                let agent = agent.parse().unwrap();
                let handle = engine.start(&agent, request, StartOptions::default()).await.unwrap();
                let report = handle.finish().await.unwrap();
                let is_over = matches!(&report.end, RunEnd::Ended(response) if response.error.is_none());
                let waits = kind == "desk" && matches!(report.end, RunEnd::Suspended { .. });
                assert!(is_over || waits, "{kind} {amount}: {:?}", report.end);
            }
        }
        let journal = engine.journal().clone();
        let filter = RunFilter { limit: u32::MAX, ..RunFilter::default() };
        let runs = journal.runs(&filter).await.unwrap();
        let base = Version::on_disk(folder.path(), "before").unwrap();
        Self { folder, journal, base, runs }
    }

    /// What the gate says of the workspace with these texts. The files are as before afterwards.
    pub(crate) async fn gate(&self, texts: &BTreeMap<PathBuf, Option<String>>) -> GateReport {
        for (path, text) in texts {
            self.put(path, text.as_deref());
        }
        let loaded = Workspace::load(self.path());
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let now = Version::on_disk(self.path(), "now").unwrap();
        let base = Base::Version(self.base.clone());
        let gate = Comparison::new(self.journal.clone(), loaded.sound().unwrap(), now, base);
        let report = gate.compare(&self.runs, |_| {}).await;
        for path in texts.keys() {
            self.put(path, self.base.texts.get(path).map(String::as_str));
        }
        report
    }

    /// The text of a file as it was.
    pub(crate) fn text(&self, path: &str) -> &str {
        &self.base.texts[Path::new(path)]
    }

    /// The files as they were.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.base.texts.keys()
    }

    fn put(&self, path: &Path, text: Option<&str>) {
        let path = self.path().join(path);
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}
