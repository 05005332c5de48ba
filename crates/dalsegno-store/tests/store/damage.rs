//! Whatever is changed in the file behind the journal's back is found when the run is read.

use dalsegno_core::{Digest, OperationId, Outcome, RunId, ToolReturn};
use dalsegno_store::conformance::{
    at, child_of, create, every_kind, handed_off, long_text, new_run, note, portable_run, run_id, snapshot,
    successor_of, suspended, with_key,
};
use dalsegno_store::tamper::tamper;
use dalsegno_store::{
    AcquireError, Body, Damage, Finding, Flaw, MemoryStore, Message, NewRecord, Owner, PostError, ReadError,
    RunFilter, SqliteStore, Store, digest_bytes,
};
use rusqlite::{Connection, params};

const OPERATION: OperationId = OperationId::from_bytes([3; 16]);

/// A journal with one run of every kind of record, and a connection behind its back.
struct Victim {
    store: SqliteStore,
    behind: Connection,
    run: RunId,
    records: u64,
    _folder: tempfile::TempDir,
}

impl Victim {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
        let owner = Owner::in_process();
        let mut lease = create(&store, new_run(1, &owner)).await;
        store.append(&mut lease, every_kind()).await.unwrap();
        store.save_snapshot(&lease, snapshot(3, "x")).await.unwrap();
        let behind = Connection::open(store.path()).unwrap();
        behind.pragma_update(None, "synchronous", "off").unwrap();
        Self { store, behind, run: lease.run(), records: lease.next_seq(), _folder: folder }
    }

    fn change(&self, sql: &str) {
        let changed = self.behind.execute(sql, []).unwrap();
        assert_ne!(changed, 0, "nothing changed: {sql}");
    }

    async fn damage(&self, from: u64) -> Damage {
        match self.store.read(self.run, from).await {
            Err(ReadError::Damaged(damage)) => damage,
            other => panic!("no damage found: {other:?}"),
        }
    }

    async fn expect(&self, seq: u64, what: Flaw) {
        assert_eq!(self.damage(0).await, Damage { run: self.run, seq, what, intact: seq });
    }
}

#[tokio::test]
async fn every_flipped_byte_of_every_record_is_found_at_its_record() {
    let victim = Victim::new().await;
    let (mut flips, mut harmless) = (0, 0);
    let original_records = victim.store.read(victim.run, 0).await.unwrap();
    for seq in 0..victim.records {
        for column in ["body", "checksum", "link", "operation", "parent"] {
            let read = format!("SELECT {column} FROM record WHERE key & 4294967295 = ?1");
            let original: Option<Vec<u8>> =
                victim.behind.query_row(&read, [seq.cast_signed()], |row| row.get(0)).unwrap();
            let write = format!("UPDATE record SET {column} = ?2 WHERE key & 4294967295 = ?1");
            for index in 0..original.as_ref().map_or(0, Vec::len) {
                let mut bytes = original.clone().unwrap();
                bytes[index] ^= 1 << (index % 8);
                victim.behind.execute(&write, params![seq.cast_signed(), bytes]).unwrap();
                flips += 1;
                let damage = match victim.store.read(victim.run, 0).await {
                    Err(ReadError::Damaged(damage)) => damage,
                    // A few bits of a compressed body mean nothing.
                    Ok(records) if column == "body" && records == original_records => {
                        harmless += 1;
                        continue;
                    }
                    other => panic!("byte {index} of `{column}` of record {seq}: {other:?}"),
                };
                assert_eq!((damage.seq, damage.intact), (seq, seq), "byte {index} of `{column}`: {damage}");
            }
            victim.behind.execute(&write, params![seq.cast_signed(), original]).unwrap();
        }
        // Another form makes other bytes of it, or none.
        let form: i64 = victim
            .behind
            .query_row("SELECT form FROM record WHERE key & 4294967295 = ?1", [seq.cast_signed()], |row| {
                row.get(0)
            })
            .unwrap();
        for other in (-1..6).filter(|other| *other != form && (*other != 2 || form != 1)) {
            victim.change(&format!("UPDATE record SET form = {other} WHERE key & 4294967295 = {seq}"));
            assert_eq!(victim.damage(0).await.seq, seq, "form {other}");
        }
        victim.change(&format!("UPDATE record SET form = {form} WHERE key & 4294967295 = {seq}"));
        for column in ["at", "kind"] {
            for change in ["+ 1", "- 1"] {
                let undo = if change == "+ 1" { "- 1" } else { "+ 1" };
                victim.change(&format!(
                    "UPDATE record SET {column} = {column} {change} WHERE key & 4294967295 = {seq}"
                ));
                assert_eq!(victim.damage(0).await.seq, seq, "`{column}` {change}");
                victim.change(&format!(
                    "UPDATE record SET {column} = {column} {undo} WHERE key & 4294967295 = {seq}"
                ));
            }
        }
    }
    assert!(flips > 1_000 && harmless < 20, "{harmless} of {flips}");
    assert_eq!(victim.store.read(victim.run, 0).await.unwrap().len() as u64, victim.records);
}

#[tokio::test]
async fn an_erased_operation_is_damage() {
    let victim = Victim::new().await;
    victim.change("UPDATE record SET operation = NULL WHERE key & 4294967295 = 8");
    victim.expect(8, Flaw::Link).await;
}

#[tokio::test]
async fn a_field_of_the_wrong_length_is_damage() {
    for column in ["operation", "parent", "checksum", "link"] {
        let victim = Victim::new().await;
        victim.change(&format!("UPDATE record SET {column} = x'00' WHERE key & 4294967295 = 2"));
        victim.expect(2, Flaw::Form).await;
    }
}

#[tokio::test]
async fn a_deleted_record_is_damage_wherever_it_stood() {
    for seq in [0, 1, 7, 18] {
        let victim = Victim::new().await;
        assert_eq!(victim.records, 19);
        victim.change(&format!("DELETE FROM record WHERE key & 4294967295 = {seq}"));
        victim.expect(seq, Flaw::Missing).await;
    }
}

#[tokio::test]
async fn records_that_were_all_deleted_are_damage() {
    let victim = Victim::new().await;
    victim.change("DELETE FROM record");
    victim.expect(0, Flaw::Missing).await;
    assert_eq!(victim.damage(19).await.seq, 0);
}

#[tokio::test]
async fn two_records_that_changed_places_are_damage() {
    let victim = Victim::new().await;
    victim.change("UPDATE record SET key = key + 97 WHERE key & 4294967295 = 3");
    victim.change("UPDATE record SET key = key - 1 WHERE key & 4294967295 = 4");
    victim.change("UPDATE record SET key = key - 96 WHERE key & 4294967295 = 100");
    victim.expect(3, Flaw::Link).await;
}

#[tokio::test]
async fn a_record_after_the_end_is_damage() {
    let victim = Victim::new().await;
    victim.change("INSERT INTO record SELECT key + 1, at, kind, form, operation, parent, body, checksum, link FROM record WHERE key & 4294967295 = 18");
    victim.expect(19, Flaw::Unknown).await;
}

#[tokio::test]
async fn a_record_of_another_run_is_damage() {
    let victim = Victim::new().await;
    let owner = Owner::in_process();
    let mut lease = create(&victim.store, new_run(2, &owner)).await;
    victim.store.append(&mut lease, every_kind()).await.unwrap();
    victim.change("DELETE FROM record WHERE key >> 32 = 1 AND key & 4294967295 = 5");
    victim.change("UPDATE record SET key = key - (1 << 32) WHERE key >> 32 = 2 AND key & 4294967295 = 5");
    victim.expect(5, Flaw::Link).await;
}

#[tokio::test]
async fn a_run_that_ends_with_another_link_is_damage() {
    let victim = Victim::new().await;
    victim.change("UPDATE run SET head = x'000102030405060708090a0b0c0d0e0f'");
    victim.expect(18, Flaw::Head).await;
    assert_eq!(victim.damage(19).await.what, Flaw::Head);
}

#[tokio::test]
async fn what_can_be_saved_is_counted_from_the_beginning() {
    let victim = Victim::new().await;
    victim.change("UPDATE record SET at = 0 WHERE key & 4294967295 = 4");
    victim.change("UPDATE record SET at = 0 WHERE key & 4294967295 = 9");
    let damage = victim.damage(7).await;
    assert_eq!((damage.seq, damage.intact), (4, 4));
    assert!(victim.store.read(victim.run, 10).await.is_ok(), "what stands after the damage can be read");
}

#[tokio::test]
async fn a_damaged_row_of_a_run_is_damage_in_a_listing() {
    let changes = [
        "agent = 'Not A Name'",
        "status = 77",
        "config = x'00'",
        "owner = x'00'",
        "run = x'00'",
        "parent = x'00'",
    ];
    for change in changes {
        let victim = Victim::new().await;
        victim.change(&format!("UPDATE run SET {change}"));
        let error = victim.store.runs(&RunFilter::default()).await.unwrap_err();
        assert!(matches!(error, ReadError::Damaged(Damage { what: Flaw::Row, .. })), "{change}: {error}");
    }
}

/// A journal with one run under a key, which nobody owns and whose last records are these and a late outcome.
async fn released(last: Vec<Body>) -> Victim {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let owner = Owner::in_process();
    let mut lease = create(&store, with_key(new_run(1, &owner), "acme", "k")).await;
    let late = Body::late(Outcome::ToolReturned(ToolReturn::default()));
    let bodies = last.into_iter().chain([late]);
    let records: Vec<_> = bodies.zip(50..).map(|(body, time)| NewRecord::new(at(time), body)).collect();
    store.append(&mut lease, records).await.unwrap();
    let (run, records) = (lease.run(), lease.next_seq());
    store.release(lease).await.unwrap();
    let behind = Connection::open(store.path()).unwrap();
    Victim { store, behind, run, records, _folder: folder }
}

/// A change of a run's entry is found by every read and before anybody gets a lease.
async fn expect_in_entry(victim: &Victim, change: &str, seq: u64, what: Flaw, intact: u64) {
    let epoch = || -> (i64, Option<Vec<u8>>) {
        let sql = "SELECT epoch, owner FROM run";
        victim.behind.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let before = epoch();
    let owner = Owner::in_process();
    victim.change(&format!("UPDATE run SET {change}"));
    let expected = Damage { run: victim.run, seq, what, intact };
    for from in 0..=victim.records {
        assert_eq!(victim.damage(from).await, expected, "{change}, read from {from}");
    }
    let error = victim.store.acquire(victim.run, &owner).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Unreadable(ReadError::Damaged(damage)) if *damage == expected),
        "{change}: {error}"
    );
    assert_eq!(epoch(), before, "a refused acquisition left a trace");
}

#[tokio::test]
async fn every_changed_copy_in_the_entry_of_a_run_is_damage() {
    let changes = [
        ("agent", "'triagf'", 0),
        ("tenant", "'acmf'", 0),
        ("tenant", "'acme '", 0),
        ("session", "'session 2'", 0),
        ("parent", "zeroblob(16)", 0),
        ("config", "zeroblob(32)", 0),
        ("start_key", "'l'", 0),
        ("start_key", "NULL", 0),
        ("started_at", "started_at + 1", 0),
        ("updated_at", "updated_at - 1", 2),
        ("wake_at", "100", 2),
        ("wake_at", "NULL", 2),
        ("status", "0", 2),
        ("waiting", "0", 2),
        ("waiting", "17", 2),
    ];
    for (field, value, seq) in changes {
        let suspended = Body::Suspended { waiting_for: Vec::new(), wake_at: Some(at(99)) };
        let victim = released(vec![suspended]).await;
        expect_in_entry(&victim, &format!("{field} = {value}"), seq, Flaw::Copy { field }, 3).await;
    }
}

#[tokio::test]
async fn a_changed_field_that_no_record_repeats_is_damage() {
    for change in [
        "request_digest = zeroblob(32)",
        "owner = zeroblob(16)",
        "epoch = epoch + 1",
        "posted = posted + 1",
        "seal = zeroblob(16)",
        "seal = x'00'",
    ] {
        expect_in_entry_but_for(&released(Vec::new()).await, change, 0, Flaw::Seal, 0).await;
    }
}

/// As below, when the change itself is of the owner or the epoch.
async fn expect_in_entry_but_for(victim: &Victim, change: &str, seq: u64, what: Flaw, intact: u64) {
    victim.change(&format!("UPDATE run SET {change}"));
    let expected = Damage { run: victim.run, seq, what, intact };
    assert_eq!(victim.damage(0).await, expected, "{change}");
    let error = victim.store.acquire(victim.run, &Owner::in_process()).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Unreadable(ReadError::Damaged(damage)) if *damage == expected),
        "{change}: {error}"
    );
}

#[tokio::test]
async fn a_field_of_the_wrong_form_in_the_entry_of_a_run_is_damage() {
    let changes = [
        "config = x'00'",
        "head = x'00'",
        "status = 77",
        "status = -1",
        "waiting = 128",
        "waiting = -1",
        "next_seq = 0",
        "tenant = CAST(x'ff' AS TEXT)",
        "start_key = CAST(x'ff' AS TEXT)",
        "parent = x'00'",
    ];
    for change in changes {
        expect_in_entry(&released(Vec::new()).await, change, 0, Flaw::Row, 0).await;
    }
}

#[tokio::test]
async fn a_flipped_status_is_damage_whether_the_run_is_open_or_ended() {
    let completed = every_kind().into_iter().map(|record| record.body);
    let completed = completed.filter(|body| matches!(body, Body::Completed { .. })).collect::<Vec<_>>();
    assert_eq!(completed.len(), 1);
    let suspended = vec![Body::Suspended { waiting_for: Vec::new(), wake_at: None }];
    for (last, status) in [(Vec::new(), 0), (vec![note(1).body], 0), (suspended, 1), (completed, 2)] {
        for other in (0..6).filter(|other| *other != status) {
            let victim = released(last.clone()).await;
            let (seq, flaw) = (victim.records - 1, Flaw::Copy { field: "status" });
            expect_in_entry(&victim, &format!("status = {other}"), seq, flaw, victim.records).await;
        }
    }
}

#[tokio::test]
async fn a_damaged_first_record_is_found_wherever_a_read_begins() {
    for (change, what) in
        [("body = x'00'", Flaw::Checksum), ("at = 0", Flaw::Link), ("link = x'00'", Flaw::Form)]
    {
        let victim = released(vec![note(1).body, note(2).body]).await;
        victim.change(&format!("UPDATE record SET {change} WHERE key & 4294967295 = 0"));
        for from in 0..=victim.records {
            let expected = Damage { run: victim.run, seq: 0, what, intact: 0 };
            assert_eq!(victim.damage(from).await, expected, "{change}, read from {from}");
        }
        let error = victim.store.acquire(victim.run, &Owner::in_process()).await.unwrap_err();
        assert!(matches!(error, AcquireError::Unreadable(ReadError::Damaged(_))), "{change}: {error}");
    }
}

#[tokio::test]
async fn a_run_that_does_not_begin_with_started_is_damage_even_when_the_chain_fits() {
    let victim = released(Vec::new()).await;
    tamper(victim.store.path(), victim.run, 0, |body| *body = note(1).body).unwrap();
    victim.expect(0, Flaw::NotStarted).await;
    assert_eq!(victim.damage(2).await.what, Flaw::NotStarted);
}

#[tokio::test]
async fn a_forged_start_takes_the_entry_along() {
    let victim = released(Vec::new()).await;
    let change = |body: &mut Body| {
        let Body::Started(started) = body else { panic!("{body:?}") };
        started.request.tenant = "umbrella".into();
    };
    tamper(victim.store.path(), victim.run, 0, change).unwrap();
    assert_eq!(victim.store.read(victim.run, 0).await.unwrap().len(), 2);
    assert_eq!(victim.store.summary(victim.run).await.unwrap().tenant, "umbrella");
}

#[tokio::test]
async fn what_stands_before_the_records_that_are_read_is_not_read() {
    let victim = released(vec![note(1).body, note(2).body, note(3).body]).await;
    victim.change("UPDATE record SET body = x'00' WHERE key & 4294967295 = 1");
    assert_eq!(victim.store.read(victim.run, 3).await.unwrap().len(), 2);
    assert_eq!(victim.store.read(victim.run, 5).await.unwrap(), []);
    assert_eq!(victim.damage(1).await.seq, 1);
}

#[tokio::test]
async fn damage_in_the_entry_is_told_with_the_field_and_what_is_intact() {
    let victim = released(Vec::new()).await;
    victim.change("UPDATE run SET tenant = 'acmf'");
    let message = victim.damage(0).await.to_string();
    let run = victim.run;
    assert_eq!(
        message,
        format!(
            "the entry of run {run} is damaged: its `tenant` is not what the records say (record 0); all 2 records are intact"
        )
    );
}

#[tokio::test]
async fn a_damaged_configuration_is_found() {
    let victim = Victim::new().await;
    victim.change("UPDATE config SET json = '{ }'");
    let error = victim.store.config(Digest::from_bytes([1; 32])).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedConfig { .. }), "{error}");
}

#[tokio::test]
async fn every_changed_parent_in_the_entry_of_a_child_run_is_damage() {
    let victim = released(Vec::new()).await;
    let owner = Owner::in_process();
    let run = create(&victim.store, child_of(new_run(2, &owner), victim.run)).await.run();
    assert_eq!(victim.store.read(run, 0).await.unwrap().len(), 1);
    let parent = victim.run.as_bytes();
    let changes = (0..16).map(|index| {
        let mut bytes = parent.to_vec();
        bytes[index] ^= 1;
        Some(bytes)
    });
    for bytes in changes.chain([None]) {
        victim.behind.execute("UPDATE run SET parent = ?1 WHERE id = 2", [bytes]).unwrap();
        let error = victim.store.read(run, 0).await.unwrap_err();
        let expected = Damage { run, seq: 0, what: Flaw::Copy { field: "parent" }, intact: 1 };
        assert!(matches!(&error, ReadError::Damaged(damage) if *damage == expected), "{error}");
        let error = victim.store.export(&[run]).await.unwrap_err();
        assert!(matches!(&error, ReadError::Damaged(damage) if *damage == expected), "{error}");
        let error = victim.store.acquire(run, &owner).await.unwrap_err();
        assert!(matches!(error, AcquireError::Unreadable(ReadError::Damaged(_))), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_found_and_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let new = portable_run(1, &Owner::in_process());
    let (digest, bytes) = new.blobs[0].clone();
    let run = create(&store, new).await.run();
    let behind = Connection::open(store.path()).unwrap();
    for index in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[index] ^= 1 << (index % 8);
        assert_eq!(behind.execute("UPDATE blob SET bytes = ?1", [bytes]).unwrap(), 1);
        let error = store.blob(digest).await.unwrap_err();
        assert!(matches!(error, ReadError::DamagedBlob { digest: found } if found == digest), "{error}");
        let error = store.export(&[run]).await.unwrap_err();
        assert!(matches!(error, ReadError::DamagedBlob { .. }), "{error}");
    }
    // What was erased on purpose is not damage.
    behind.execute("DELETE FROM blob", []).unwrap();
    assert_eq!(store.blob(digest).await.unwrap(), None);
    let archive = store.export(&[run]).await.unwrap();
    assert_eq!(MemoryStore::new().import(archive).await.unwrap().added, [run]);
}

#[tokio::test]
async fn a_run_with_a_damaged_configuration_is_not_exported() {
    let victim = Victim::new().await;
    assert_eq!(victim.store.export(&[victim.run]).await.unwrap().runs().len(), 1);
    victim.change("UPDATE config SET json = '{ }'");
    let error = victim.store.export(&[victim.run]).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedConfig { .. }), "{error}");
    victim.change("DELETE FROM config");
    let error = victim.store.export(&[victim.run]).await.unwrap_err();
    assert!(matches!(error, ReadError::UnknownConfig { .. }), "{error}");
    victim.change("UPDATE record SET at = 0 WHERE key & 4294967295 = 4");
    let error = victim.store.export(&[victim.run]).await.unwrap_err();
    assert!(matches!(error, ReadError::Damaged(Damage { seq: 4, .. })), "{error}");
}

#[tokio::test]
async fn a_damaged_message_is_found_and_hides_no_other() {
    let changes = [
        "message = x'00'",
        "message = substr(message, 2)",
        "checksum = x'00'",
        "checksum = zeroblob(16)",
        "number = number + 7",
    ];
    let message = |by: &str| Message::Cancel { by: Some(by.into()), reason: None };
    for change in changes {
        let victim = released(vec![suspended(50, None).body]).await;
        let (store, run, owner) = (&victim.store, victim.run, Owner::in_process());
        store.post(run, message("ada")).await.unwrap();
        assert_eq!(store.takeable(&owner, at(99), 9).await.unwrap(), [run]);
        victim.change(&format!("UPDATE inbox SET {change}"));
        assert_eq!(store.inbox(run).await.unwrap(), [], "{change}");
        assert_eq!(store.takeable(&owner, at(99), 9).await.unwrap(), [], "{change}: nothing to go on with");
        let checkup = store.doctor(|_| ()).await.unwrap();
        let is_found = |finding: &Finding| matches!(finding, Finding::Run { source: ReadError::DamagedMessage { run: of, .. }, .. } if *of == run);
        assert!(checkup.findings.len() == 1 && is_found(&checkup.findings[0]), "{change}: {checkup:?}");
        assert_eq!(store.read(run, 0).await.unwrap().len(), 3);
        // One behind it is read all the same.
        store.post(run, message("bob")).await.unwrap();
        assert_eq!(store.inbox(run).await.unwrap(), [(2, message("bob"))], "{change}");
        assert_eq!(store.takeable(&owner, at(99), 9).await.unwrap(), [run], "{change}");
        let mut lease = store.acquire(run, &owner).await.unwrap();
        store.append_with(&mut lease, vec![note(1), suspended(60, None)], vec![2]).await.unwrap();
        store.release(lease).await.unwrap();
        assert_eq!(store.takeable(&owner, at(99), 9).await.unwrap(), [], "{change}");
    }
    // A message for another run is none for this one.
    let victim = released(Vec::new()).await;
    create(&victim.store, new_run(2, &Owner::in_process())).await;
    victim.store.post(victim.run, message("ada")).await.unwrap();
    victim.change("UPDATE inbox SET run = 2");
    assert_eq!(victim.store.inbox(run_id(2)).await.unwrap(), []);
    victim.change("UPDATE run SET status = 77 WHERE id = 1");
    let error = victim.store.post(victim.run, message("ada")).await.unwrap_err();
    assert!(matches!(error, PostError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn a_damaged_message_does_not_become_a_sound_one_by_a_handover() {
    let victim = released(Vec::new()).await;
    let (store, run, owner) = (&victim.store, victim.run, Owner::in_process());
    for by in ["ada", "bob"] {
        store.post(run, Message::Cancel { by: Some(by.into()), reason: None }).await.unwrap();
    }
    victim.change("UPDATE inbox SET checksum = zeroblob(16) WHERE number = 1");
    let session = store.summary(run).await.unwrap().session;
    let mut lease = store.acquire(run, &owner).await.unwrap();
    let next = successor_of(with_key(new_run(9, &owner), "acme", "l"), run, &session);
    store.hand_off(&mut lease, vec![handed_off(run_id(9))], next).await.unwrap();
    let expected = Message::Cancel { by: Some("bob".into()), reason: None };
    assert_eq!(store.inbox(run_id(9)).await.unwrap(), [(1, expected)]);
    assert_eq!(store.doctor(|_| ()).await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_damaged_snapshot_is_as_if_it_were_not_there() {
    let changes = [
        "state = x'00'",
        "state = substr(state, 2)",
        "checksum = x'00'",
        "checksum = zeroblob(16)",
        "seq = seq + 1",
        "seq = 1000",
    ];
    for change in changes {
        let victim = Victim::new().await;
        assert!(victim.store.snapshot(victim.run).await.unwrap().is_some());
        victim.change(&format!("UPDATE snapshot SET {change}"));
        assert_eq!(victim.store.snapshot(victim.run).await.unwrap(), None, "{change}");
    }
}

/// A text of 12,800 bytes that no compressor makes short.
fn noisy_text(seed: u64) -> String {
    (0..200).map(|part: u64| digest_bytes(&(seed * 1_000 + part).to_le_bytes()).to_string()).collect()
}

#[tokio::test]
async fn a_snapshot_refers_to_the_texts_of_its_own_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let owner = Owner::in_process();
    let mut leases = Vec::new();
    for number in [1, 2] {
        let mut lease = create(&store, new_run(number, &owner)).await;
        let returned = ToolReturn { text: noisy_text(number), ..ToolReturn::default() };
        let late = Body::late(Outcome::ToolReturned(returned));
        store.append(&mut lease, vec![NewRecord::of(at(9), OPERATION, late)]).await.unwrap();
        leases.push(lease);
    }
    let behind = Connection::open(store.path()).unwrap();
    let length =
        || behind.query_row("SELECT length(state) FROM snapshot", [], |row| row.get::<_, i64>(0)).unwrap();
    let lease = &leases[0];
    // The text of another run's record may go with that run.
    for (number, bytes) in [(2, 6_400..9_000), (1, 0..1_000)] {
        let saved = snapshot(2, &noisy_text(number));
        store.save_snapshot(lease, saved.clone()).await.unwrap();
        assert!(bytes.contains(&length()), "{number}: {}", length());
        assert_eq!(store.snapshot(lease.run()).await.unwrap(), Some(saved));
    }
    assert!(store.doctor(|_| ()).await.unwrap().findings.is_empty());
    let text = digest_bytes(noisy_text(1).as_bytes());
    for change in ["UPDATE blob SET form = 0, bytes = x'00'", "DELETE FROM blob"] {
        behind.execute(&format!("{change} WHERE digest = ?1"), [text.as_bytes()]).unwrap();
        assert_eq!(store.snapshot(lease.run()).await.unwrap(), None, "{change}");
    }
}

#[tokio::test]
async fn a_forged_outcome_verifies_so_that_only_a_replay_can_tell() {
    let victim = Victim::new().await;
    let before = victim.store.read(victim.run, 0).await.unwrap();
    let forged = Outcome::ToolReturned(ToolReturn { text: "forged".into(), ..ToolReturn::default() });
    let change = |body: &mut Body| {
        let Body::Resolved { outcome, .. } = body else { panic!("{body:?}") };
        *outcome = forged.clone();
    };
    tamper(victim.store.path(), victim.run, 12, change).unwrap();
    let after = victim.store.read(victim.run, 0).await.unwrap();
    assert_eq!(before[..12], after[..12]);
    assert!(matches!(&after[12].body, Body::Resolved { outcome, .. } if *outcome == forged));
    assert!(before[12..].iter().zip(&after[12..]).all(|(before, after)| before.link != after.link));
    assert!(tamper(victim.store.path(), victim.run, 19, |_| ()).is_err());
    assert!(tamper(victim.store.path(), run_id(5), 0, |_| ()).is_err());
}

#[tokio::test]
async fn damage_in_one_run_leaves_the_others_readable() {
    let victim = Victim::new().await;
    let owner = Owner::in_process();
    let mut lease = create(&victim.store, new_run(2, &owner)).await;
    victim.store.append(&mut lease, vec![note(1)]).await.unwrap();
    victim.change("UPDATE record SET at = 0 WHERE key >> 32 = 1 AND key & 4294967295 = 4");
    victim.expect(4, Flaw::Link).await;
    assert_eq!(victim.store.read(lease.run(), 0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_damaged_and_written_once_more_is_sound_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("journal.db")).unwrap();
    let owner = Owner::in_process();
    let mut one = create(&store, new_run(1, &owner)).await;
    store.append(&mut one, vec![long_text("the same text ")]).await.unwrap();
    let behind = Connection::open(store.path()).unwrap();
    assert_eq!(behind.execute("UPDATE blob SET bytes = zeroblob(length(bytes))", []).unwrap(), 1);
    assert!(matches!(store.read(run_id(1), 0).await, Err(ReadError::Damaged(_))));
    // The text is kept once. A record that repeats it is not damaged from its first moment.
    let mut other = create(&store, new_run(2, &owner)).await;
    store.append(&mut other, vec![long_text("the same text ")]).await.unwrap();
    assert_eq!(store.read(run_id(2), 0).await.unwrap().len(), 2);
    assert_eq!(store.read(run_id(1), 0).await.unwrap().len(), 2);
}
