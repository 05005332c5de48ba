//! The corpora of the fuzz targets, replayed on stable.

#[expect(unreachable_pub, reason = "the fuzz targets, which are another crate, call it too")]
#[path = "../../fuzz/checks.rs"]
mod checks;

use std::path::PathBuf;

use dalsegno_core::{
    AgentRequest, Answer, Digest, EffectClass, Failure, FailureCode, Gate, OperationId, Outcome, RunId,
    Signal, Timestamp, ToolReturn,
};
use dalsegno_store::codec::encode_body;
use dalsegno_store::{
    AttemptCause, Body, Created, MemoryStore, NewRecord, NewRun, Owner, Start, Started, Store, WaitingFor,
};

fn replay(target: &str, check: fn(&[u8]), least: usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        // What is cut is read as well, and what has one byte that is another.
        let mut cases = vec![data.clone(), data[..data.len() / 2].to_vec()];
        for place in [0, data.len() / 3, data.len().saturating_sub(1)] {
            let mut other = data.clone();
            if let Some(byte) = other.get_mut(place) {
                *byte ^= 0x20;
                cases.push(other);
            }
        }
        for case in cases {
            if let Err(panic) = std::panic::catch_unwind(|| check(&case)) {
                let shown = String::from_utf8_lossy(&case);
                panic!("{} does not hold: {shown:?}: {panic:?}", path.display());
            }
        }
        count += 1;
    }
    assert!(count >= least, "only {count} files in {}", folder.display());
}

#[test]
fn the_corpus_of_archive_holds() {
    replay("archive", checks::archive, 4);
}

#[test]
fn the_corpus_of_record_holds() {
    replay("record", checks::record, 15);
}

fn started() -> Started {
    Started {
        agent: "triage".parse().unwrap(),
        config: Digest::from_bytes([1; 32]),
        semantics: 1,
        request: AgentRequest::text("disk full"),
        session: "s1".into(),
        predecessor: None,
        start_key: Some("k".into()),
        modules: std::collections::BTreeMap::new(),
        parent: None,
        depth: 0,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    }
}

fn bodies() -> Vec<Body> {
    let operation = OperationId::from_bytes([3; 16]);
    let failed = Outcome::Failed(Failure::new(FailureCode::Timeout, "no answer"));
    let returned =
        Outcome::ToolReturned(ToolReturn::structured(serde_json::json!({ "n": 1, "list": [1.5, null] })));
    vec![
        Body::Started(started()),
        Body::Requested {
            step: 1,
            ordinal: vec![0, 2],
            label: "tool `risk.score`".into(),
            digest: Digest::from_bytes([2; 32]),
            class: EffectClass::Keyed,
            start: Start::Deferred,
        },
        Body::Attempted { attempt: 1, cause: AttemptCause::Queued, start: Start::Now, reason: None },
        Body::Attempted {
            attempt: 2,
            cause: AttemptCause::Failed { code: FailureCode::Timeout, possibly_received: true },
            start: Start::Now,
            reason: Some("no answer within 30 s".into()),
        },
        Body::Waiting { gate: Gate::Approval },
        Body::Waiting { gate: Gate::InDoubt { reason: "no answer".into() } },
        Body::Answered { answer: Answer::Approved { edited: None, reason: None, by: Some("ada".into()) } },
        Body::Answered { answer: Answer::NotDone { by: None } },
        Body::Resolved { outcome: returned.clone(), attempts: 2, elapsed_ms: 17 },
        Body::Resolved { outcome: failed.clone(), attempts: 1, elapsed_ms: 0 },
        Body::late(failed),
        Body::signalled(Signal::Cancel),
        Body::Forked {
            run: RunId::from_bytes([9; 16]),
            seq: 4,
            within: 0,
            step: 2,
            overrides: vec![operation],
            outcomes: vec![returned],
            ask_effects: true,
            foreign: false,
        },
        Body::Rebound { server: "risk".into(), digest: "abc".into() },
        Body::Suspended {
            waiting_for: vec![WaitingFor { kind: "approval".into(), operation, question: "Go on?".into() }],
            wake_at: Some(Timestamp::from_millis(9)),
        },
        Body::Tasked { attempt: 1, server: "risk".into(), task: "t1".into(), expires_at: None },
    ]
}

/// Writes the first files of the corpora. Run it by hand, and look at what changes: what was written by an older release is
/// to stay.
#[tokio::test]
#[ignore = "it writes the files that the other tests read"]
async fn write_the_first_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for name in ["record", "archive"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    for (number, body) in bodies().iter().enumerate() {
        let file = folder.join(format!("record/{number:02}-{}", body.kind()));
        std::fs::write(file, encode_body(body).unwrap()).unwrap();
    }
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join("archive").join(name), bytes).unwrap();
    for (name, count) in [("one", 1), ("three", 3)] {
        let (store, owner) = (MemoryStore::new(), Owner::in_process());
        let mut runs = Vec::new();
        for number in 1..=count {
            let run = RunId::from_bytes([number; 16]);
            let started =
                Started { session: format!("s{number}"), start_key: None, config: digest("{}"), ..started() };
            let at = Timestamp::from_millis(1);
            let new = NewRun::new(run, "{}", Digest::from_bytes([2; 32]), owner.id(), at, started);
            let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!("it exists") };
            let records = bodies().into_iter().skip(1).take(9).map(|body| NewRecord::new(at, body));
            store.append(&mut lease, records.collect()).await.unwrap();
            store.release(lease).await.unwrap();
            runs.push(run);
        }
        write(name, &store.export(&runs).await.unwrap().encode());
    }
    write("empty", b"");
    write("first-line", b"dalsegno archive 1\n");
    write("next-version", b"dalsegno archive 2\n");
}

fn digest(config: &str) -> Digest {
    dalsegno_core::digest_json(&serde_json::from_str(config).unwrap())
}
