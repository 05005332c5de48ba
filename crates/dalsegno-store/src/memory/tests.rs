//! Entries that contradict their records.

use dalsegno_core::Timestamp;

use super::*;
use crate::error::Damage;
use crate::record::{Body, Started};
use crate::run::RunStatus;

const RUN: RunId = RunId::from_bytes([7; 16]);

type Change = Box<dyn Fn(&mut Copies)>;

/// A store with one suspended run, and what damage is found when an entry was changed: by a read and by a claim.
async fn damage(change: impl FnOnce(&mut Run)) -> Damage {
    let store = MemoryStore::new();
    let owner = Owner::in_process();
    let started = Started {
        agent: "triage".parse().unwrap(),
        config: Digest::from_bytes([1; 32]),
        semantics: 1,
        request: dalsegno_core::AgentRequest::text("disk full"),
        session: "s1".into(),
        predecessor: None,
        start_key: Some("k".into()),
        modules: BTreeMap::new(),
        parent: None,
        depth: 0,
        budget: None,
        context: None,
        by_handoff: false,
        ask_effects: false,
    };
    let at = Timestamp::from_millis;
    let new = NewRun::new(RUN, "{}", Digest::from_bytes([2; 32]), owner.id(), at(1), started);
    let Created::New(mut lease) = store.create(new).await.unwrap() else { panic!("the run exists") };
    let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: Some(at(9)) };
    store.append(&mut lease, vec![NewRecord::new(at(2), suspended)]).await.unwrap();
    store.release(lease).await.unwrap();
    change(store.shelf().runs.get_mut(&RUN).unwrap());
    let Err(ReadError::Damaged(damage)) = store.read(RUN, 0).await else { panic!("not found from 0") };
    for from in [1, 2] {
        let error = store.read(RUN, from).await.unwrap_err();
        assert!(matches!(error, ReadError::Damaged(found) if found == damage), "from {from}");
    }
    let error = store.acquire(RUN, &owner).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Unreadable(ReadError::Damaged(found)) if *found == damage),
        "{error}"
    );
    assert_eq!(store.shelf().runs[&RUN].epoch, 1, "the refused claim left a trace");
    damage
}

#[tokio::test]
async fn an_entry_that_contradicts_the_records_is_damage() {
    let later = Timestamp::from_millis(77);
    let changes: [(&str, u64, Change); 10] = [
        ("agent", 0, Box::new(|copies| copies.agent.push('x'))),
        ("tenant", 0, Box::new(|copies| copies.tenant.push('x'))),
        ("session", 0, Box::new(|copies| copies.session.push('x'))),
        ("parent", 0, Box::new(|copies| copies.parent = Some(RunId::from_bytes([9; 16])))),
        ("config", 0, Box::new(|copies| copies.config = Digest::from_bytes([3; 32]))),
        ("start_key", 0, Box::new(|copies| copies.start_key = None)),
        ("started_at", 0, Box::new(move |copies| copies.started_at = later)),
        ("status", 1, Box::new(|copies| copies.progress.status = RunStatus::Completed)),
        ("wake_at", 1, Box::new(|copies| copies.progress.wake_at = None)),
        ("updated_at", 1, Box::new(move |copies| copies.updated_at = later)),
    ];
    for (field, seq, change) in changes {
        let found = damage(|run| change(&mut run.copies)).await;
        assert_eq!(found, Damage { run: RUN, seq, what: Flaw::Copy { field }, intact: 2 });
    }
}

#[tokio::test]
async fn a_damaged_first_record_is_found_wherever_the_read_begins() {
    let found = damage(|run| run.rows[0].body.as_mut().unwrap()[5] ^= 1).await;
    assert_eq!(found, Damage { run: RUN, seq: 0, what: Flaw::Checksum, intact: 0 });
}
