//! Journals that earlier releases wrote stay in the tree, and every release replays and finishes them.
//!
//! `sets/N/NAME.dalsegno` is an archive with real runs and their configurations, `sets/N/NAME.json` what its release
//! said of them. `sets/N/NAME.sql` is the whole journal of a run that was open, as a dump of the file. A set that was
//! released is never written again. A release that adds a kind of record or changes what is stored adds a set:
//!
//! ```text
//! DALSEGNO_FREEZE=5 cargo test -p dalsegno-runtime --test frozen -- --ignored freeze
//! ```
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod journal;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dalsegno_core::{AgentRequest, Digest, RunId, digest_json};
use dalsegno_runtime::Engine;
use dalsegno_store::{
    Archive, MemoryStore, NewRun, Owner, RecordKind, RunFilter, RunStatus, SqliteStore, Started, Store,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use scenarios::{SCENARIOS, Scenario};
use support::{World, answer};

/// What a release said of one run of an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Said {
    agent: String,
    status: RunStatus,
    /// What it answered, if it ended by itself.
    answer: Option<String>,
    /// Whether the replay was identical, and how many steps it took.
    identical: bool,
    steps: u64,
    /// The kinds of its records, in order.
    kinds: Vec<RecordKind>,
}

fn sets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen/sets")
}

/// The files of all sets with this ending, with the number of their set.
fn files(ending: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for set in std::fs::read_dir(sets()).unwrap() {
        let set = set.unwrap();
        for file in std::fs::read_dir(set.path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|found| found == ending) {
                found.push((set.file_name().into_string().unwrap(), path));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "there is no `*.{ending}` in {}", sets().display());
    found
}

async fn import(store: &impl Store, path: &Path) -> Archive {
    let archive = Archive::decode(&std::fs::read(path).unwrap()).unwrap();
    store.import(archive.clone()).await.unwrap();
    archive
}

async fn said(engine: &Engine, run: RunId) -> Said {
    let inspection = engine.journal().inspect(run, None).await.unwrap();
    let replay = engine.journal().replay(run).await.unwrap();
    Said {
        agent: inspection.summary.agent.to_string(),
        status: inspection.summary.status,
        answer: inspection.response.and_then(|response| response.answer),
        identical: replay.identical,
        steps: replay.steps,
        kinds: inspection.records.iter().map(|record| record.body.kind()).collect(),
    }
}

#[tokio::test]
async fn every_archive_of_every_release_replays_as_it_did() {
    for (_, path) in files("dalsegno") {
        // A workspace that has nothing to do with the archive.
        let world = World::new("[[steps]]\nrespond = \"x\"\n");
        let file = world.path().join(".dalsegno/dalsegno.db");
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        let archive = import(&SqliteStore::open(file).unwrap(), &path).await;
        let engine = world.engine().await;
        let json = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let expected: BTreeMap<RunId, Said> = serde_json::from_str(&json).unwrap();
        assert_eq!(archive.runs().len(), expected.len(), "{}", path.display());
        for (run, expected) in expected {
            assert_eq!(said(&engine, run).await, expected, "{}: run {run}", path.display());
        }
    }
}

#[tokio::test]
async fn every_kind_of_record_is_in_the_archives() {
    let mut found = BTreeSet::new();
    for (_, path) in files("dalsegno") {
        let store = MemoryStore::new();
        for run in import(&store, &path).await.runs() {
            found.extend(store.read(run, 0).await.unwrap().iter().map(|record| record.body.kind()));
        }
    }
    let missing: Vec<&RecordKind> = RecordKind::ALL.iter().filter(|kind| !found.contains(kind)).collect();
    assert!(
        missing.is_empty(),
        "no archive has these kinds of record: add a scenario and a set: {missing:?}"
    );
}

#[tokio::test]
async fn every_configuration_of_every_release_has_its_digest() {
    for (_, path) in files("dalsegno") {
        let store = MemoryStore::new();
        import(&store, &path).await;
        for summary in store.runs(&RunFilter::default()).await.unwrap() {
            let json: serde_json::Value =
                serde_json::from_str(&store.config(summary.config).await.unwrap()).unwrap();
            assert_eq!(digest_json(&json), summary.config, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_run_that_another_release_left_open_goes_on_to_its_end() {
    for (_, path) in files("sql") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        let open = scenario.open.as_ref().unwrap();
        let world = (scenario.world)();
        let file = world.path().join(".dalsegno/dalsegno.db");
        journal::load(&path, &file);
        let engine = world.engine().await;
        let runs =
            engine.journal().runs(&RunFilter { roots_only: true, ..RunFilter::default() }).await.unwrap();
        let run = runs.iter().find(|run| run.status == RunStatus::Suspended).unwrap().run;
        if engine.is_paused(run).await.unwrap() {
            engine.unpause(run, None).await.unwrap();
        }
        drop(engine);
        let report = world.resume(run, (open.settlement)()).await;
        assert_eq!(answer(&report), open.answer, "{}", path.display());
        assert!(world.engine().await.journal().replay(run).await.unwrap().identical, "{}", path.display());
    }
}

#[tokio::test]
async fn a_configuration_with_a_field_of_another_release_still_pins_its_run() {
    let world = World::new("[[steps]]\nrespond = \"{{request.text}}\"\n");
    let config = world.engine().await.agent_config(&"a".parse().unwrap()).await.unwrap();
    let mut stored = serde_json::to_value(&config).unwrap();
    stored["added_by_a_later_release"] = json!({ "level": 3 });
    let digest: Digest = digest_json(&stored);
    let run = RunId::from_bytes([7; 16]);
    let started = Started {
        agent: "a".parse().unwrap(),
        config: digest,
        semantics: 1,
        request: AgentRequest::text("hello"),
        session: "s".into(),
        predecessor: None,
        start_key: None,
        modules: Default::default(),
        parent: None,
        depth: 0,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    };
    let owner = Owner::in_process();
    let at = dalsegno_core::Timestamp::from_millis(1);
    let new = NewRun::new(run, stored.to_string(), digest, owner.id(), at, started);
    let store = SqliteStore::open(world.path().join(".dalsegno/dalsegno.db")).unwrap();
    let dalsegno_store::Created::New(lease) = store.create(new).await.unwrap() else { panic!() };
    store.release(lease).await.unwrap();
    drop(store);
    assert_eq!(answer(&world.resume(run, None).await), "hello");
    assert!(world.engine().await.journal().replay(run).await.unwrap().identical);
}

#[tokio::test]
#[ignore = "writes a new set; see the head of this file"]
async fn freeze() {
    let folder = sets().join(std::env::var("DALSEGNO_FREEZE").unwrap());
    assert!(!folder.exists(), "{} was written already", folder.display());
    std::fs::create_dir_all(&folder).unwrap();
    let only = std::env::var("DALSEGNO_FREEZE_ONLY").ok();
    for Scenario { name, world, act, open } in SCENARIOS {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == *name)) {
            continue;
        }
        let world = world();
        let run = act(&world).await;
        let engine = world.engine().await;
        let archive = engine.journal().export(run).await.unwrap();
        let mut all = BTreeMap::new();
        for run in archive.runs() {
            all.insert(run, said(&engine, run).await);
        }
        std::fs::write(folder.join(format!("{name}.dalsegno")), archive.encode()).unwrap();
        let json = serde_json::to_string_pretty(&all).unwrap();
        std::fs::write(folder.join(format!("{name}.json")), json + "\n").unwrap();
        drop(engine);
        if open.is_some() {
            let dump = journal::dump(&world.path().join(".dalsegno/dalsegno.db"));
            std::fs::write(folder.join(format!("{name}.sql")), dump).unwrap();
        }
    }
}
